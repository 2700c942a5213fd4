//! Raw packet QPs: whole Ethernet frames, and rules that say who gets them.

use super::{
    Case, Outcome, Stop,
    lab::{CAP, End, Lab, Setup, ids},
    may,
};
use crate::connect::PORT;
use alloc::{vec, vec::Vec};
use bareverbs::{
    CompletionQueue, CompletionView, Destination, Destroy, Device, Error, FlowSpec, Headed, Mac, MemoryRegion, Notify,
    Payload, PostError, QpAttr, QpAttrMask, QpCap, QpState, QpType, QueuePair, RecvWr, SendFlags, SendOp, SendWr,
    WcFlags, WcOpcode, WcStatus,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        may(
            "raw_frames_go_out_and_come_in",
            "ibv_create_qp; ibv_create_flow",
            "a frame arrives whole at the QP with a rule for its address, short ones padded; completions tell lengths",
            out_and_in,
        ),
        may(
            "raw_frames_to_groups",
            "ibv_create_flow",
            "frames to multicast addresses and to all come to those with a rule",
            groups,
        ),
        may(
            "raw_frames_of_others_stay_out",
            "ibv_create_flow",
            "frames that no rule matches by address, VLAN or Ethernet type are not delivered",
            others,
        ),
        may(
            "raw_rules_of_several_qps",
            "ibv_create_flow",
            "the same rule gives each QP a copy; the more specific rule wins",
            several,
        ),
        may(
            "raw_rules_end",
            "ibv_destroy_flow",
            "after a rule is gone nothing comes; a QP with rules is busy with as many; dropped it leaves them",
            rules_end,
        ),
        may("raw_rules_are_counted", "ibv_create_flow", "rules beyond the device's places are refused by name", full),
        may(
            "raw_rules_are_for_raw_packet_qps",
            "ibv_create_flow",
            "other QPs, and such without receives, are refused by name",
            wrong_qps,
        ),
        may(
            "raw_states",
            "ibv_modify_qp",
            "RESET to RTS by the port alone; posting, query and refusals as the table has them",
            states,
        ),
        may("raw_flush_in_order", "IBA 10.3.1", "in ERR every request completes, in order; RESET begins anew", flush),
        may(
            "raw_frames_in_every_form",
            "ibv_post_send",
            "gathered, inline, in pieces, and with a header in the request: the same frame",
            forms,
        ),
        may("raw_refuses_what_is_no_frame", "ibv_post_send", "lengths, operations and destinations by name", refused),
        may("raw_many_frames", "ibv_post_send", "thousands of frames around the rings, none lost or doubled", many),
        may("raw_view_tells_what_poll_tells", "ibv_start_poll", "a view shows a frame's completion", view),
        may(
            "raw_checksums",
            "ibv_post_send; ibv_poll_cq",
            "checksums of IPv4 and UDP are filled in on request, and found right",
            checksums,
        ),
        may("raw_without_an_srq", "ibv_create_qp", "an SRQ under a raw packet QP is refused by name", srq),
        may(
            "raw_beside_connections",
            "traits",
            "frames and RDMA share a port, and neither gets what is the other's",
            beside,
        ),
    ]
}

const HEADER: usize = 14;
const SHORTEST: usize = 60;
const TYPE: u16 = 0x88b5; // For experiments (IEEE 802).

/// One end in RTS.
fn ready<D: Device>(lab: &mut Lab<D>, i: usize) -> Outcome<End<D>> {
    ready_with(lab, i, &Setup::of(QpType::RawPacket))
}

fn ready_with<D: Device>(lab: &mut Lab<D>, i: usize, s: &Setup) -> Outcome<End<D>> {
    let mut end = lab.end(i, s)?;
    to_rts(&mut end.qp)?;
    Ok(end)
}

fn to_rts<Q: QueuePair>(qp: &mut Q) -> Outcome {
    qp.modify(&QpAttr::to(QpState::Init).port(PORT))?;
    qp.modify(&QpAttr::to(QpState::Rtr))?;
    qp.modify(&QpAttr::to(QpState::Rts))?;
    Ok(())
}

fn mac<D: Device>(lab: &Lab<D>, i: usize) -> Outcome<Mac> {
    Ok(lab.devices[i].query_port(PORT)?.mac)
}

/// A frame with bytes that tell their place.
fn frame(dst: Mac, src: Mac, tags: &[u16], ethertype: u16, len: usize) -> Vec<u8> {
    let mut frame = [dst.0, src.0].concat();
    for tag in tags {
        frame.extend([0x81, 0x00]);
        frame.extend(tag.to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend((frame.len()..len).map(|n| n as u8));
    frame
}

/// Where in the region frames that are sent lie; receives lie before it.
const OUT: usize = 8192;
/// Bytes from one receive to the next.
const ROOM: usize = 2048;

/// Posts a receive of the size of a frame.
fn recv<D: Device>(end: &mut End<D>, id: u64) -> Outcome {
    let at = id as usize % 4 * ROOM;
    end.recv(id, at..at + ROOM)
}

/// Sends a frame, and waits until it has left.
fn send<D: Device>(lab: &Lab<D>, end: &mut End<D>, frame: &[u8]) -> Outcome {
    end.mr.write(OUT, frame)?;
    end.signaled(frame.len() as u64, SendOp::Send, OUT..OUT + frame.len())?;
    let done = lab.one(&mut end.send_cq)?;
    ensure_eq!(
        (done.wr_id, done.status, done.opcode, done.qpn),
        (frame.len() as u64, WcStatus::Success, WcOpcode::Send, end.qp.qpn()),
        "the completion of a frame"
    );
    Ok(())
}

/// A frame came in.
fn got<D: Device>(lab: &Lab<D>, end: &mut End<D>, id: u64, frame: &[u8]) -> Outcome {
    let done = lab.one(&mut end.recv_cq)?;
    let len = frame.len().max(SHORTEST);
    ensure_eq!(
        (done.wr_id, done.status, done.opcode, done.qpn, done.byte_len),
        (id, WcStatus::Success, WcOpcode::Recv, end.qp.qpn(), len as u32),
        "the completion of a receive"
    );
    let at = id as usize % 4 * ROOM;
    let mut whole = frame.to_vec();
    whole.resize(len, 0);
    ensure_eq!(end.bytes(at..at + len)?, whole, "the frame");
    Ok(())
}

fn out_and_in<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut a, mut b) = (ready(lab, 0)?, ready(lab, 1)?);
    let macs = [mac(lab, 0)?, mac(lab, 1)?];
    a.qp.attach_flow(&FlowSpec::to(macs[0]))?;
    b.qp.attach_flow(&FlowSpec::to(macs[1]))?;
    for (id, len) in (0..).zip([HEADER, 59, 60, 61, 64, 512, 1513, 1514]) {
        recv(&mut b, id)?;
        let there = frame(macs[1], macs[0], &[], TYPE, len);
        send(lab, &mut a, &there)?;
        got(lab, &mut b, id, &there)?;
        recv(&mut a, id)?;
        let back = frame(macs[0], macs[1], &[], TYPE, len);
        send(lab, &mut b, &back)?;
        got(lab, &mut a, id, &back)?;
    }
    lab.nothing(&mut a.recv_cq)?;
    lab.nothing(&mut b.recv_cq)
}

fn groups<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut a, mut b) = (ready(lab, 0)?, ready(lab, 1)?);
    let own = mac(lab, 0)?;
    let groups =
        [Mac([0xff; 6]), Mac([1, 0, 0x5e, 0, 1, 9]), Mac([0x33, 0x33, 0, 0, 0, 1]), Mac([2, 0xab, 0, 0, 0, 1])];
    for (id, group) in (0..).zip(groups) {
        let text = frame(group, own, &[], TYPE, 100);
        recv(&mut b, id)?;
        send(lab, &mut a, &text)?;
        lab.nothing(&mut b.recv_cq)?;
        b.qp.attach_flow(&FlowSpec::to(group))?;
        send(lab, &mut a, &text)?;
        got(lab, &mut b, id, &text)?;
    }
    Ok(())
}

fn others<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut a, mut b) = (ready(lab, 0)?, ready(lab, 1)?);
    let (own, peer) = (mac(lab, 0)?, mac(lab, 1)?);
    b.qp.attach_flow(&FlowSpec::to(peer).vlan(5).ethertype(TYPE))?;
    recv(&mut b, 0)?;
    let right = frame(peer, own, &[5], TYPE, 80);
    let wrong = [
        frame(own, own, &[5], TYPE, 80),
        frame(peer, own, &[6], TYPE, 80),
        frame(peer, own, &[], TYPE, 80),
        frame(peer, own, &[5], TYPE + 1, 80),
    ];
    for text in &wrong {
        send(lab, &mut a, text)?;
        lab.nothing(&mut b.recv_cq)?;
    }
    send(lab, &mut a, &right)?;
    got(lab, &mut b, 0, &right)?;
    // The priority of the tag is not looked at, and the tag stays in the frame.
    recv(&mut b, 1)?;
    let urgent = frame(peer, own, &[0xe005], TYPE, 80);
    send(lab, &mut a, &urgent)?;
    got(lab, &mut b, 1, &urgent)?;
    // A rule without address: only the Ethernet type counts, of what the port lets in.
    b.qp.attach_flow(&FlowSpec::ANY.ethertype(TYPE + 1))?;
    recv(&mut b, 2)?;
    send(lab, &mut a, &wrong[3])?;
    got(lab, &mut b, 2, &wrong[3])
}

fn several<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut a = ready(lab, 0)?;
    let small = Setup { memory: 1 << 13, ..Setup::of(QpType::RawPacket) };
    let mut ends = [ready_with(lab, 1, &small)?, ready_with(lab, 1, &small)?, ready_with(lab, 1, &small)?];
    let (own, peer) = (mac(lab, 0)?, mac(lab, 1)?);
    let text = frame(peer, own, &[], TYPE, 70);
    ends[0].qp.attach_flow(&FlowSpec::to(peer))?;
    ends[1].qp.attach_flow(&FlowSpec::to(peer))?;
    for end in &mut ends {
        (0..4).try_for_each(|id| recv(end, id))?;
    }
    send(lab, &mut a, &text)?;
    got(lab, &mut ends[0], 0, &text)?;
    got(lab, &mut ends[1], 0, &text)?;
    // More specific.
    ends[2].qp.attach_flow(&FlowSpec::to(peer).ethertype(TYPE))?;
    send(lab, &mut a, &text)?;
    got(lab, &mut ends[2], 0, &text)?;
    // One of two goes, the other stays.
    ends[2].qp.detach_flow(&FlowSpec::to(peer).ethertype(TYPE))?;
    ends[0].qp.detach_flow(&FlowSpec::to(peer))?;
    send(lab, &mut a, &text)?;
    got(lab, &mut ends[1], 1, &text)?;
    for end in &mut ends {
        lab.nothing(&mut end.recv_cq)?;
    }
    Ok(())
}

fn rules_end<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut a, mut b) = (ready(lab, 0)?, ready(lab, 1)?);
    let (own, peer) = (mac(lab, 0)?, mac(lab, 1)?);
    let (rule, all) = (FlowSpec::to(peer), FlowSpec::to(Mac([0xff; 6])));
    let text = frame(peer, own, &[], TYPE, 70);
    b.qp.attach_flow(&rule)?;
    b.qp.attach_flow(&rule)?;
    b.qp.attach_flow(&all)?;
    recv(&mut b, 0)?;
    recv(&mut b, 1)?;
    send(lab, &mut a, &text)?;
    got(lab, &mut b, 0, &text)?;
    let refused = match b.qp.destroy() {
        Err(refused) => refused,
        Ok(()) => return Err(Stop::failed(format_args!("a QP with rules was destroyed"), line!())),
    };
    ensure_eq!(refused.error, Error::Busy { holders: 2 }, "destroying a QP with two rules");
    let mut qp = refused.handle;
    qp.detach_flow(&rule)?;
    ensure_eq!(qp.detach_flow(&rule), Err(Error::NotAttached), "taking the rule away again");
    send(lab, &mut a, &text)?;
    lab.nothing(&mut b.recv_cq)?;
    // Dropped with a rule left.
    drop(qp);
    let mut next = ready(lab, 1)?;
    next.qp.attach_flow(&rule)?;
    recv(&mut next, 3)?;
    send(lab, &mut a, &text)?;
    got(lab, &mut next, 3, &text)?;
    next.qp.detach_flow(&rule)?;
    next.qp.destroy()?;
    Ok(())
}

fn full<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut a = ready(lab, 0)?;
    let rule = |n: u32| FlowSpec::to(Mac([1, 0, 0x5e, (n >> 16) as u8, (n >> 8) as u8, n as u8]));
    for n in 0..100_000 {
        match a.qp.attach_flow(&rule(n)) {
            Ok(()) => {}
            Err(Error::FlowsFull) if n >= 16 => {
                a.qp.detach_flow(&rule(3))?;
                a.qp.attach_flow(&rule(n))?;
                return Ok(());
            }
            Err(e) => return Err(e.into()),
        }
    }
    Err(Stop::failed(format_args!("100,000 rules, and no end"), line!()))
}

fn wrong_qps<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let a = ready(lab, 0)?;
    let cq = lab.cq(0, 7)?;
    for kind in [QpType::Rc, QpType::Ud] {
        let mut qp = lab.qp(0, kind, [&cq, &cq], None, CAP)?;
        let result = qp.attach_flow(&FlowSpec::ANY);
        ensure!(matches!(result, Err(Error::Unsupported(_))), "a rule for {kind:?}: {result:?}");
        ensure_eq!(qp.detach_flow(&FlowSpec::ANY), Err(Error::NotAttached), "a rule that is not there");
    }
    let none = QpCap { max_recv_wr: 0, max_recv_sge: 0, ..CAP };
    let mut qp = lab.qp(0, QpType::RawPacket, [&cq, &cq], None, none)?;
    let result = qp.attach_flow(&FlowSpec::ANY);
    ensure!(matches!(result, Err(Error::Unsupported(_))), "a rule without receives: {result:?}");
    let mut qp = a.qp;
    let result = qp.attach_flow(&FlowSpec::ANY.vlan(4095));
    ensure!(matches!(result, Err(Error::OutOfRange { .. })), "VLAN 4095: {result:?}");
    Ok(())
}

fn states<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut a = lab.end(0, &Setup::of(QpType::RawPacket))?;
    let sges = [a.mr.sge(0..64)?];
    let (send, recv) = (SendWr::new(SendOp::Send, &sges), RecvWr::new(1, &sges));
    let wrong = |state| Err(PostError::WrongState(state));
    ensure_eq!((a.qp.state(), a.qp.query()?.state), (QpState::Reset, QpState::Reset), "a new QP");
    ensure_eq!(a.qp.push_recv(&recv), wrong(QpState::Reset), "a receive in RESET");
    let init = QpAttr::to(QpState::Init);
    let (missing, from, to) = (QpAttrMask::PORT, QpState::Reset, QpState::Init);
    ensure_eq!(a.qp.modify(&init), Err(Error::MissingAttribute { missing, from, to }), "INIT without a port");
    let forbidden = QpAttrMask::PKEY_INDEX;
    let more = init.port(PORT).pkey_index(0);
    ensure_eq!(a.qp.modify(&more), Err(Error::ForbiddenAttribute { forbidden, from, to }), "INIT with a P_Key");
    for attr in [init.port(PORT), QpAttr::to(QpState::Init), QpAttr::to(QpState::Rtr)] {
        a.qp.modify(&attr)?;
        ensure_eq!((a.qp.state(), a.qp.query()?.state), (attr.state, attr.state), "the state");
        a.qp.post_recv([recv])?;
        ensure_eq!(a.qp.push_send(&send), wrong(attr.state), "a send");
    }
    let error = Error::NoSuchTransition { kind: QpType::RawPacket, from: QpState::Rtr, to: QpState::Sqd };
    ensure_eq!(a.qp.modify(&QpAttr::to(QpState::Sqd)), Err(error), "SQD");
    a.qp.modify(&QpAttr::to(QpState::Rts))?;
    a.qp.modify(&QpAttr::to(QpState::Rts))?;
    ensure_eq!((a.qp.state(), a.qp.query()?.state), (QpState::Rts, QpState::Rts), "RTS");
    for target in [QpState::Err, QpState::Err, QpState::Reset, QpState::Reset, QpState::Err] {
        a.qp.modify(&QpAttr::to(target))?;
        ensure_eq!((a.qp.state(), a.qp.query()?.state), (target, target), "the state");
    }
    Ok(())
}

fn flush<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut a, mut b) = (ready(lab, 0)?, ready(lab, 1)?);
    let (own, peer) = (mac(lab, 0)?, mac(lab, 1)?);
    let text = frame(peer, own, &[], TYPE, 70);
    a.mr.write(OUT, &text)?;
    for round in 0..3 {
        for id in 0..5 {
            recv(&mut a, id)?;
        }
        // What is flushed counts as solicited.
        a.recv_cq.request_notify(Notify::Solicited)?;
        a.send_cq.request_notify(Notify::Solicited)?;
        a.qp.modify(&QpAttr::to(QpState::Err))?;
        lab.cq_event(0, &a.recv_cq)?;
        for id in 10..14 {
            a.send(id, SendOp::Send, OUT..OUT + text.len(), SendFlags::empty())?;
        }
        lab.cq_event(0, &a.send_cq)?;
        recv(&mut a, 5)?;
        let (received, sent) = (lab.poll(&mut a.recv_cq, 6)?, lab.poll(&mut a.send_cq, 4)?);
        ensure_eq!((ids(&received), ids(&sent)), (vec![0, 1, 2, 3, 4, 5], vec![10, 11, 12, 13]), "round {round}");
        for done in received.iter().chain(&sent) {
            ensure_eq!((done.status, done.qpn), (WcStatus::WorkRequestFlushed, a.qp.qpn()), "a flushed request");
        }
        // Unpolled completions go with RESET.
        recv(&mut a, 6)?;
        lab.settle();
        a.qp.modify(&QpAttr::to(QpState::Reset))?;
        lab.nothing(&mut a.recv_cq)?;
        to_rts(&mut a.qp)?;
        a.qp.attach_flow(&FlowSpec::to(own))?;
        b.qp.attach_flow(&FlowSpec::to(peer))?;
        recv(&mut b, 1)?;
        send(lab, &mut a, &text)?;
        got(lab, &mut b, 1, &text)?;
        recv(&mut a, 2)?;
        let back = frame(own, peer, &[], TYPE, 90);
        send(lab, &mut b, &back)?;
        got(lab, &mut a, 2, &back)?;
    }
    Ok(())
}

fn forms<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let s = Setup::of(QpType::RawPacket);
    let s = Setup { cap: QpCap { max_inline: 100, max_send_sge: 3, ..s.cap }, ..s };
    let (mut a, mut b) = (ready_with(lab, 0, &s)?, ready(lab, 1)?);
    let (own, peer) = (mac(lab, 0)?, mac(lab, 1)?);
    b.qp.attach_flow(&FlowSpec::to(peer))?;
    let text = frame(peer, own, &[], TYPE, 100);
    a.mr.write(OUT, &text)?;
    let mut id = 0;
    // Around the ring, so that each part wraps somewhere.
    for head in (0..=100).chain(14..=40) {
        let sges = [a.mr.sge(OUT + head..OUT + 100)?];
        let three = [a.mr.sge(OUT..OUT + 1)?, a.mr.sge(OUT + 1..OUT + 30)?, a.mr.sge(OUT + 30..OUT + 100)?];
        let (first, second) = text.split_at(head);
        let parts = [first, &[], second];
        let headed = Headed { head: first, sges: &sges };
        let payloads =
            [Payload::Headed(&headed), Payload::Inline(&text), Payload::InlineGather(&parts), Payload::Sges(&three)];
        for payload in payloads {
            recv(&mut b, id)?;
            let wr = SendWr { payload, ..SendWr::new(SendOp::Send, &[]) };
            match a.qp.post_send([wr.wr_id(id).signaled()]) {
                // A device that wants headers in the request says so.
                Err(e) if matches!(e.error, PostError::HeaderRequired { .. }) => {
                    let wr = SendWr::inline(SendOp::Send, &text);
                    a.qp.post_send([wr.wr_id(id).signaled()])?;
                }
                result => result?,
            }
            ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, id, "the send");
            got(lab, &mut b, id, &text)?;
            id += 1;
        }
    }
    Ok(())
}

fn refused<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut a = ready(lab, 0)?;
    let cap = a.qp.cap();
    let one = [a.mr.sge(0..64)?];
    let write = SendOp::Write { addr: 0, rkey: bareverbs::Rkey(0) };
    for op in [write, SendOp::SendImm(1), SendOp::SendInvalidate(bareverbs::Rkey(1))] {
        ensure_eq!(a.qp.push_send(&SendWr::new(op, &one)), Err(PostError::UnsupportedOp), "{op:?}");
    }
    let short = [a.mr.sge(0..13)?];
    let short = a.qp.push_send(&SendWr::new(SendOp::Send, &short));
    ensure_eq!(short, Err(PostError::FrameTooShort { min: 14 }), "13 bytes");
    let nothing = a.qp.push_send(&SendWr::new(SendOp::Send, &[]));
    ensure_eq!(nothing, Err(PostError::FrameTooShort { min: 14 }), "no bytes");
    let long = [a.mr.sge(0..1 << 14)?];
    let long = a.qp.push_send(&SendWr::new(SendOp::Send, &long));
    ensure!(matches!(long, Err(PostError::MessageTooLong { .. })), "16 KiB: {long:?}");
    let many = vec![a.mr.sge(0..20)?; cap.max_send_sge as usize + 1];
    let many = a.qp.push_send(&SendWr::new(SendOp::Send, &many));
    ensure_eq!(many, Err(PostError::TooManySge { max: cap.max_send_sge }), "too many elements");
    let bytes = vec![0; cap.max_inline as usize + 1];
    let inline = a.qp.push_send(&SendWr::inline(SendOp::Send, &bytes));
    ensure_eq!(inline, Err(PostError::InlineTooLong { max: cap.max_inline }), "too many bytes inline");
    let [ud, other] = lab.pair(&Setup { memory: 4096, ..Setup::of(QpType::Ud) })?;
    let to = ud.to;
    let wr = SendWr { to: to.as_ref().map(Destination::Ud), ..SendWr::new(SendOp::Send, &one) };
    ensure_eq!(a.qp.push_send(&wr), Err(PostError::Destination), "a destination");
    drop(other);
    // A header beside elements is for frames only.
    let mut rc = lab.end(0, &Setup { memory: 4096, ..Setup::of(QpType::Rc) })?;
    let headed = Headed { head: &[0; 14], sges: &one };
    let wr = SendWr { payload: Payload::Headed(&headed), ..SendWr::new(SendOp::Send, &[]) };
    let result = rc.qp.push_send(&wr);
    let fits = matches!(result, Err(PostError::UnsupportedOp | PostError::WrongState(_)));
    ensure!(fits, "a header on an RC QP: {result:?}");
    lab.nothing(&mut a.send_cq)
}

fn many<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut a, mut b) = (ready(lab, 0)?, ready(lab, 1)?);
    let (own, peer) = (mac(lab, 0)?, mac(lab, 1)?);
    b.qp.attach_flow(&FlowSpec::to(peer))?;
    const BURST: u64 = 8;
    for burst in 0..400 {
        let first = burst * BURST;
        for n in 0..BURST {
            let at = n as usize * 256;
            b.recv(first + n, at..at + 256)?;
            let mut text = frame(peer, own, &[], TYPE, 64 + n as usize);
            text[20..28].copy_from_slice(&(first + n).to_be_bytes());
            a.mr.write(OUT + at, &text)?;
            let flags = if n == BURST - 1 { SendFlags::SIGNALED } else { SendFlags::empty() };
            a.send(first + n, SendOp::Send, OUT + at..OUT + at + text.len(), flags)?;
        }
        ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, first + BURST - 1, "the last of a burst");
        for (n, done) in (0..).zip(lab.poll(&mut b.recv_cq, BURST as usize)?) {
            ensure_eq!((done.wr_id, done.byte_len), (first + n, 64 + n as u32), "frame {n} of burst {burst}");
            let at = n as usize * 256 + 20;
            ensure_eq!(b.bytes(at..at + 8)?, (first + n).to_be_bytes(), "its bytes");
        }
    }
    Ok(())
}

fn view<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut a, mut b) = (ready(lab, 0)?, ready(lab, 1)?);
    let (own, peer) = (mac(lab, 0)?, mac(lab, 1)?);
    b.qp.attach_flow(&FlowSpec::to(peer))?;
    for id in 0..3 {
        recv(&mut b, id)?;
        send(lab, &mut a, &frame(peer, own, &[], TYPE, 70))?;
    }
    lab.settle();
    let polled = lab.one(&mut b.recv_cq)?;
    let mut view = b.recv_cq.view();
    let mut ids = Vec::new();
    while view.advance()? {
        let wr_id = view.wr_id();
        let same = bareverbs::Completion { wr_id, ..polled };
        ensure_eq!(view.completion(), same, "the completion of a view");
        ensure_eq!(
            (view.qpn(), view.byte_len(), view.status(), view.opcode()),
            (polled.qpn, 70, WcStatus::Success, WcOpcode::Recv),
            "its fields"
        );
        ids.push(wr_id);
    }
    ensure_eq!(ids, [1, 2], "the ids");
    Ok(())
}

fn checksums<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut a, mut b) = (ready(lab, 0)?, ready(lab, 1)?);
    let (own, peer) = (mac(lab, 0)?, mac(lab, 1)?);
    b.qp.attach_flow(&FlowSpec::to(peer))?;
    let mut text = frame(peer, own, &[], 0x0800, HEADER);
    // By hand (RFC 791, RFC 768): 10.0.0.1 port 0x1234 to 10.0.0.2 port 0x5678, 4 bytes, both checksums left out.
    text.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    text.extend([0x12, 0x34, 0x56, 0x78, 0, 12, 0, 0, 1, 2, 3, 4]);
    a.mr.write(OUT, &text)?;
    recv(&mut b, 0)?;
    a.send(1, SendOp::Send, OUT..OUT + text.len(), SendFlags::SIGNALED | SendFlags::IP_CSUM)?;
    lab.one(&mut a.send_cq)?;
    let done = lab.one(&mut b.recv_cq)?;
    ensure!(done.flags.contains(WcFlags::IP_CSUM_OK), "checksums that the device filled in: {done:?}");
    let mut right = text.clone();
    // 4500 + 0020 + 4011 + 0a00 + 0001 + 0a00 + 0002 = 9934, inverted 66cb; addresses, 0011, 000c, 1234, 5678, 000c, 0102
    // and 0304 make 80de, inverted 7f21.
    right[24..26].copy_from_slice(&[0x66, 0xcb]);
    right[40..42].copy_from_slice(&[0x7f, 0x21]);
    right.resize(SHORTEST, 0);
    ensure_eq!(b.bytes(0..SHORTEST)?, right, "the frame");
    // A wrong one is told by the missing flag.
    right[24] ^= 1;
    recv(&mut b, 1)?;
    a.mr.write(OUT, &right)?;
    a.signaled(2, SendOp::Send, OUT..OUT + SHORTEST)?;
    lab.one(&mut a.send_cq)?;
    let done = lab.one(&mut b.recv_cq)?;
    ensure!(!done.flags.contains(WcFlags::IP_CSUM_OK), "a broken checksum: {done:?}");
    Ok(())
}

fn srq<D: Device>(lab: &mut Lab<D>) -> Outcome {
    drop(ready(lab, 0)?);
    let (cq, srq) = (lab.cq(0, 7)?, lab.srq(0, 7)?);
    match lab.qp(0, QpType::RawPacket, [&cq, &cq], Some(&srq), CAP) {
        Err(Stop::Unsupported(_)) => Ok(()),
        Err(other) => Err(other),
        Ok(_) => Err(Stop::failed(format_args!("a raw packet QP with an SRQ was made"), line!())),
    }
}

fn beside<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut a, mut b) = (ready(lab, 0)?, ready(lab, 1)?);
    let (own, peer) = (mac(lab, 0)?, mac(lab, 1)?);
    b.qp.attach_flow(&FlowSpec::to(peer))?;
    b.qp.attach_flow(&FlowSpec::ANY)?;
    let [mut c, mut d] = lab.pair(&Setup::of(QpType::Rc))?;
    let text = frame(peer, own, &[], TYPE, 70);
    for id in 0..20 {
        recv(&mut b, id)?;
        d.recv(id, 0..64)?;
        c.signaled(id, SendOp::Send, 0..64)?;
        send(lab, &mut a, &text)?;
        ensure_eq!(lab.one(&mut c.send_cq)?.status, WcStatus::Success, "the message");
        ensure_eq!(lab.one(&mut d.recv_cq)?.wr_id, id, "the message's receive");
        got(lab, &mut b, id, &text)?;
    }
    lab.nothing(&mut b.recv_cq)
}
