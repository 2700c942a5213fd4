//! Multicast groups of datagrams.

use super::{
    Case, Outcome,
    lab::{CAP, End, GRH, Lab, Setup},
    may,
};
use crate::connect::{self, PORT, QKEY};
use alloc::{vec, vec::Vec};
use bareverbs::{
    AhAttr, Destroy, Device, Error, Gid, GlobalRoute, Lid, QpType, Qpn, QueuePair, SendOp, UdDestination, WcFlags,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        may(
            "multicast_reaches_every_member",
            "ibv_attach_mcast; IBA 10.5.1",
            "a datagram to a group is delivered to each QP that is attached, the sender's own as well, with a GRH",
            every_member,
        ),
        may(
            "multicast_reaches_members_only",
            "ibv_attach_mcast",
            "QPs of another group, of none, and those that left get nothing",
            members_only,
        ),
        may("multicast_twice_is_once", "ibv_attach_mcast", "a QP that is attached twice gets one copy", twice),
        may(
            "multicast_to_several_groups",
            "ibv_attach_mcast",
            "a QP may be in any number of groups, and leaves each alone",
            several_groups,
        ),
        may(
            "multicast_names_are_checked",
            "ibv_attach_mcast",
            "GIDs and LIDs that are no group's, other types of QP, and groups that a QP is not in are refused by name",
            names,
        ),
        may(
            "multicast_destroy_refused_while_attached",
            "ibv_detach_mcast",
            "a QP that is in groups is busy with as many; dropped it leaves them",
            destroy,
        ),
        may(
            "multicast_group_is_full",
            "ibv_query_device",
            "a group takes as many QPs as the device tells, one more is refused by name",
            full,
        ),
    ]
}

const LID: Lid = Lid(0xc001);

/// A group.
fn group(n: u8) -> Gid {
    Gid([0xff, 0x12, 0x60, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 7, n])
}

/// The way from a device to a group.
fn to<D: Device>(lab: &Lab<D>, i: usize, group: Gid) -> Outcome<UdDestination> {
    let (sgid_index, _) = connect::gid(&lab.devices[i])?;
    let grh = GlobalRoute { dgid: group, sgid_index, hop_limit: 1, ..GlobalRoute::default() };
    let ah = lab.devices[i].address_handle(&AhAttr { port: PORT, dlid: LID, grh: Some(grh), ..AhAttr::default() })?;
    Ok(UdDestination { ah, qpn: Qpn::new(0xff_ffff), qkey: QKEY })
}

/// Two connected pairs, ends 0 and 2 on one device, 1 and 3 on the other; each has a receive posted.
fn four<D: Device>(lab: &mut Lab<D>) -> Outcome<[End<D>; 4]> {
    let [a, b] = lab.pair(&Setup::of(QpType::Ud))?;
    let [c, d] = lab.pair(&Setup::of(QpType::Ud))?;
    let mut ends = [a, b, c, d];
    for (end, id) in ends.iter_mut().zip(0..) {
        end.recv(id, 0..128)?;
    }
    Ok(ends)
}

/// Sends eight bytes from end 0 to a group.
fn send<D: Device>(lab: &Lab<D>, ends: &mut [End<D>; 4], group: Gid, text: &[u8; 8]) -> Outcome {
    let [a, ..] = ends;
    bareverbs::MemoryRegion::write(&a.mr, 1024, text)?;
    a.to = Some(to(lab, 0, group)?);
    a.signaled(100, SendOp::Send, 1024..1032)?;
    lab.one(&mut a.send_cq)?;
    Ok(())
}

/// What a member got.
fn got<D: Device>(lab: &Lab<D>, end: &mut End<D>, id: u64, text: &[u8; 8]) -> Outcome {
    let done = lab.one(&mut end.recv_cq)?;
    ensure_eq!((done.wr_id, done.byte_len), (id, GRH as u32 + 8), "the receive");
    ensure!(done.flags.contains(WcFlags::GRH), "a receive without a GRH: {done:?}");
    ensure_eq!(end.bytes(GRH..GRH + 8)?, text, "the bytes");
    Ok(())
}

fn every_member<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut ends = four(lab)?;
    for end in &mut ends {
        end.qp.attach_multicast(group(1), LID)?;
    }
    send(lab, &mut ends, group(1), b"to all..")?;
    for (end, id) in ends.iter_mut().zip(0..) {
        got(lab, end, id, b"to all..")?;
        lab.nothing(&mut end.recv_cq)?;
    }
    Ok(())
}

fn members_only<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut ends = four(lab)?;
    ends[1].qp.attach_multicast(group(1), LID)?;
    ends[2].qp.attach_multicast(group(2), LID)?;
    ends[3].qp.attach_multicast(group(1), LID)?;
    ends[3].qp.detach_multicast(group(1), LID)?;
    send(lab, &mut ends, group(1), b"for one.")?;
    got(lab, &mut ends[1], 1, b"for one.")?;
    for n in [0, 2, 3] {
        lab.nothing(&mut ends[n].recv_cq)?;
    }
    // The last one leaves: nobody gets anything, and nothing breaks.
    ends[1].recv(9, 0..128)?;
    ends[1].qp.detach_multicast(group(1), LID)?;
    send(lab, &mut ends, group(1), b"for none")?;
    lab.nothing(&mut ends[1].recv_cq)
}

fn twice<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut ends = four(lab)?;
    ends[1].recv(2, 0..128)?;
    ends[1].qp.attach_multicast(group(1), LID)?;
    ends[1].qp.attach_multicast(group(1), LID)?;
    send(lab, &mut ends, group(1), b"one copy")?;
    got(lab, &mut ends[1], 1, b"one copy")?;
    lab.nothing(&mut ends[1].recv_cq)?;
    ends[1].qp.detach_multicast(group(1), LID)?;
    ensure_eq!(ends[1].qp.detach_multicast(group(1), LID), Err(Error::NotAttached), "leaving again");
    Ok(())
}

fn several_groups<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut ends = four(lab)?;
    for n in 1..=3 {
        ends[1].qp.attach_multicast(group(n), LID)?;
    }
    send(lab, &mut ends, group(3), b"number 3")?;
    got(lab, &mut ends[1], 1, b"number 3")?;
    ends[1].qp.detach_multicast(group(2), LID)?;
    ends[1].recv(5, 0..128)?;
    send(lab, &mut ends, group(2), b"number 2")?;
    lab.nothing(&mut ends[1].recv_cq)?;
    send(lab, &mut ends, group(1), b"number 1")?;
    got(lab, &mut ends[1], 5, b"number 1")
}

fn names<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut ends = four(lab)?;
    ends[1].qp.attach_multicast(group(1), LID)?;
    let unicast = Gid::link_local(bareverbs::Mac([2, 0, 0, 0, 0, 1]));
    let ipv4 = Gid::from_ipv4([10, 0, 0, 1]);
    for gid in [unicast, ipv4, Gid::ZERO] {
        let error = Error::NotMulticast { gid, lid: LID };
        ensure_eq!(ends[1].qp.attach_multicast(gid, LID), Err(error), "{gid}");
    }
    let ethernet = lab.devices[0].query_port(PORT)?.link_layer == bareverbs::LinkLayer::Ethernet;
    for lid in [Lid(0), Lid(0xbfff), Lid(0xffff)] {
        let error = Error::NotMulticast { gid: group(2), lid };
        // Ethernet has no LIDs.
        let expected = if ethernet { Ok(()) } else { Err(error) };
        ensure_eq!(ends[1].qp.attach_multicast(group(2), lid), expected, "LID {lid:?}");
    }
    if ethernet {
        ends[1].qp.attach_multicast(Gid::from_ipv4([224, 0, 1, 9]), Lid(0))?;
    }
    ensure_eq!(ends[1].qp.detach_multicast(group(9), LID), Err(Error::NotAttached), "a group that it is not in");
    let cq = lab.cq(0, 7)?;
    let mut rc = lab.qp(0, QpType::Rc, [&cq, &cq], None, CAP)?;
    let result = rc.attach_multicast(group(1), LID);
    ensure!(matches!(result, Err(Error::Unsupported(_))), "an RC QP in a group: {result:?}");
    Ok(())
}

fn destroy<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cq = lab.cq(0, 7)?;
    let mut qp = lab.qp(0, QpType::Ud, [&cq, &cq], None, CAP)?;
    qp.attach_multicast(group(1), LID)?;
    qp.attach_multicast(group(2), LID)?;
    let refused = match qp.destroy() {
        Err(refused) => refused,
        Ok(()) => return Err(super::Stop::failed(format_args!("a QP in two groups was destroyed"), line!())),
    };
    ensure_eq!(refused.error, Error::Busy { holders: 2 }, "destroying a QP in two groups");
    let mut qp = refused.handle;
    qp.detach_multicast(group(1), LID)?;
    qp.detach_multicast(group(2), LID)?;
    qp.destroy()?;
    let mut qp = lab.qp(0, QpType::Ud, [&cq, &cq], None, CAP)?;
    qp.attach_multicast(group(1), LID)?;
    drop(qp);
    cq.destroy()?;
    Ok(())
}

fn full<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let most = lab.devices[0].attributes().max_mcast_qp_attach;
    let cq = lab.cq(0, 7)?;
    let mut qps = Vec::new();
    for n in 0..=most.max(1) {
        let mut qp = lab.qp(0, QpType::Ud, [&cq, &cq], None, CAP)?;
        match qp.attach_multicast(group(1), LID) {
            Ok(()) => {}
            Err(Error::MulticastFull) if n == most => {
                // A member leaves: there is a place again.
                qps.pop();
                qp.attach_multicast(group(1), LID)?;
                return Ok(());
            }
            Err(e) => return Err(e.into()),
        }
        qps.push(qp);
    }
    Err(super::Stop::failed(format_args!("{} QPs are in a group of {most}", qps.len()), line!()))
}
