//! What flags, ids and lists of requests mean; what a QP takes while it works, and what asking does not change.

use super::{
    Case, Outcome, Stop,
    lab::{CAP, GRH, Lab, Setup, ids},
    may, must,
};
use crate::connect::{self, Connection, PORT, QKEY};
use alloc::{format, vec, vec::Vec};
use bareverbs::{
    CompletionQueue, Device, Error, LinkLayer, MemoryRegion, Notify, Qkey, QpAttr, QpAttrMask, QpState, QpType,
    QueuePair, RecvWr, RnrTimer, SendFlags, SendOp, SendWr, UdDestination, WcFlags, WcStatus,
};
use core::time::Duration;

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        must(
            "post_of_an_empty_list",
            "ibv_post_send; ibv_post_recv",
            "lists of nothing post nothing, and are no error",
            empty_lists,
        ),
        must(
            "ids_are_the_user_s",
            "ibv_post_send; ibv_post_recv; ibv_poll_cq",
            "any 64-bit id of a request comes back in its completion",
            any_id,
        ),
        must(
            "send_buffers_may_be_used_again",
            "ibv_post_send",
            "once a send's completion was polled, writing to its buffer does not change what arrives",
            send_buffers,
        ),
        must(
            "grh_may_have_an_element_of_its_own",
            "ibv_post_recv",
            "a datagram's first 40 bytes fill the first element, the data those behind it",
            grh_element,
        ),
        must(
            "wc_flags_tell_what_is_valid",
            "ibv_poll_cq",
            "the immediate and the invalidated key are never flagged together, nor without being there; a GRH is only with datagrams that had one",
            wc_flags,
        ),
        must(
            "solicited_means_nothing_for_a_write",
            "ibv_post_send",
            "the solicited flag is of SEND and WRITE with immediate: a plain WRITE with it wakes nobody",
            solicited_write,
        ),
        may(
            "modify_uc_follows_the_table",
            "ibv_modify_qp",
            "UC needs no more than port, P_Key, access; path, MTU, QP, PSN; PSN; and each of them",
            uc_table,
        ),
        must(
            "modify_queue_key_in_rts",
            "ibv_modify_qp",
            "a datagram QP takes another queue key while it works; datagrams with the old one vanish",
            queue_key,
        ),
        must(
            "modify_rnr_timer_in_rts",
            "ibv_modify_qp; ibv_query_qp",
            "the RNR timer is changed in RTS, read back, and nothing else with it",
            rnr_timer,
        ),
        must(
            "modify_queue_sizes",
            "ibv_modify_qp",
            "queues are not resized: the attribute is refused by its name, nothing changes and the QP goes on",
            queue_sizes,
        ),
        must(
            "query_changes_nothing",
            "ibv_query_qp",
            "asked twice in each state a QP answers the same, and goes on",
            query_twice,
        ),
    ]
}

fn empty_lists<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    let (sends, recvs): ([SendWr<'_>; 0], [RecvWr<'_>; 0]) = ([], []);
    for round in 0..3 {
        ensure_eq!(a.qp.post_send(sends), Ok(()), "sends");
        ensure_eq!(b.qp.post_recv(recvs), Ok(()), "receives");
        b.recv(round, 0..8)?;
        a.signaled(round, SendOp::Send, 0..8)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, round, "the send");
        ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, round, "the receive");
    }
    lab.nothing(&mut a.send_cq)?;
    lab.nothing(&mut b.recv_cq)
}

fn any_id<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    let wanted = [0, u64::MAX, 1 << 63, 0xffff_ffff, 0x1234_5678_9abc_def0];
    for id in wanted {
        b.recv(!id, 0..8)?;
    }
    for id in wanted {
        a.signaled(id, SendOp::Send, 0..8)?;
    }
    ensure_eq!(ids(&lab.poll(&mut a.send_cq, 5)?), wanted, "the sends");
    ensure_eq!(ids(&lab.poll(&mut b.recv_cq, 5)?), wanted.map(|id| !id), "the receives");
    Ok(())
}

fn send_buffers<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    for n in 0..8usize {
        b.recv(n as u64, n * 1000..(n + 1) * 1000)?;
    }
    for n in 0..8u8 {
        a.mr.write(0, &[n; 1000])?;
        a.signaled(0, SendOp::Send, 0..1000)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "the send");
        a.mr.write(0, &[0xee; 1000])?;
    }
    lab.poll(&mut b.recv_cq, 8)?;
    for n in 0..8usize {
        ensure_eq!(b.bytes(n * 1000..(n + 1) * 1000)?, [n as u8; 1000], "message {n}");
    }
    Ok(())
}

fn grh_element<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Ud))?;
    a.mr.write(0, &[0x5a; 100])?;
    b.mr.write(0, &[0xee; 1024])?;
    let sges = [b.mr.sge(900..900 + GRH)?, b.mr.sge(64..64 + 200)?];
    b.qp.post_recv([RecvWr::new(1, &sges)])?;
    a.signaled(2, SendOp::Send, 0..100)?;
    ensure_eq!(lab.one(&mut b.recv_cq)?.byte_len as usize, GRH + 100, "the bytes told");
    ensure_eq!(b.bytes(64..164)?, [0x5a; 100], "the data");
    for range in [0..64, 164..900, 940..1024] {
        ensure!(b.bytes(range.clone())?.iter().all(|byte| *byte == 0xee), "{range:?} was written");
    }
    Ok(())
}

fn wc_flags<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    let (addr, rkey) = (b.mr.iova(), b.mr.rkey());
    let told = WcFlags::WITH_IMM | WcFlags::WITH_INVALIDATE;
    for (op, expected) in [
        (SendOp::Send, WcFlags::empty()),
        (SendOp::SendImm(0), WcFlags::WITH_IMM),
        (SendOp::WriteImm { addr, rkey, imm: 0 }, WcFlags::WITH_IMM),
    ] {
        b.recv(1, 4096..4200)?;
        a.signaled(2, op, 0..8)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.flags & told, WcFlags::empty(), "flags of the request {op:?}");
        ensure_eq!(lab.one(&mut b.recv_cq)?.flags & told, expected, "flags of the receive of {op:?}");
    }
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Ud))?;
    let ethernet = lab.devices[0].query_port(PORT)?.link_layer == LinkLayer::Ethernet;
    b.recv(1, 0..100)?;
    a.signaled(2, SendOp::Send, 0..8)?;
    let flags = lab.one(&mut b.recv_cq)?.flags;
    // A path within a subnet has no GRH on InfiniBand; every RoCE datagram has one.
    ensure_eq!(flags & (told | WcFlags::GRH), if ethernet { WcFlags::GRH } else { WcFlags::empty() }, "a datagram's");
    Ok(())
}

fn solicited_write<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    b.recv_cq.request_notify(Notify::Any)?;
    b.recv(5, 0..8)?;
    a.send(1, b.write_here(0), 0..8, SendFlags::SIGNALED | SendFlags::SOLICITED)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "the write");
    lab.no_event(1)?;
    lab.nothing(&mut b.recv_cq)
}

fn uc_table<D: Device>(lab: &mut Lab<D>) -> Outcome {
    use QpAttrMask as M;
    let cq = lab.cq(0, 7)?;
    let mut qp = lab.qp(0, QpType::Uc, [&cq, &cq], None, CAP)?;
    let c = Connection::default();
    let av = connect::path(&lab.devices[0], &lab.devices[1])?;
    let steps = [
        (QpState::Reset, QpAttr::to(QpState::Init).port(PORT).pkey_index(0).access(c.access)),
        (QpState::Init, QpAttr::to(QpState::Rtr).av(av).path_mtu(c.mtu).dest_qpn(qp.qpn()).rq_psn(c.psn[1])),
        (QpState::Rtr, QpAttr::to(QpState::Rts).sq_psn(c.psn[0])),
    ];
    let of_rc = [M::TIMEOUT, M::RETRY_CNT, M::RNR_RETRY, M::MAX_QP_RD_ATOMIC, M::MAX_DEST_RD_ATOMIC, M::MIN_RNR_TIMER];
    for (from, attr) in steps {
        let to = attr.state;
        for bit in attr.mask.difference(M::STATE).iter() {
            let less = QpAttr { mask: attr.mask.difference(bit), ..attr };
            ensure_eq!(qp.modify(&less), Err(Error::MissingAttribute { missing: bit, from, to }), "without {bit:?}");
        }
        for bit in of_rc {
            let more = QpAttr { mask: attr.mask | bit, ..attr };
            let error = Error::ForbiddenAttribute { forbidden: bit, from, to };
            ensure_eq!(qp.modify(&more), Err(error), "{from} to {to} with {bit:?}, which is RC's");
        }
        ensure_eq!(qp.state(), from, "the state");
        qp.modify(&attr)?;
        ensure_eq!(qp.query()?.state, to, "the state");
    }
    Ok(())
}

fn queue_key<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Ud))?;
    let other = Qkey(0x0102_0304);
    b.qp.modify(&QpAttr::to(QpState::Rts).qkey(other))?;
    ensure_eq!((b.qp.query()?.qkey, b.qp.query()?.state), (other, QpState::Rts), "queue key and state");
    b.recv(7, 0..100)?;
    let Some(to) = a.to else { return Err(Stop::failed(format_args!("no destination"), line!())) };
    for (id, qkey) in [(1, QKEY), (2, other)] {
        a.to = Some(UdDestination { qkey, ..to });
        a.mr.write(0, &[id; 8])?;
        a.signaled(id.into(), SendOp::Send, 0..8)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "the send");
    }
    ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, 7, "the receive");
    ensure_eq!(b.bytes(GRH..GRH + 8)?, [2; 8], "the datagram that arrived");
    Ok(())
}

fn rnr_timer<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    let before = a.qp.query()?;
    let timer = RnrTimer::at_least(Duration::from_millis(5));
    ensure!(timer != before.min_rnr_timer, "the timer is {timer:?} already");
    a.qp.modify(&QpAttr::to(QpState::Rts).min_rnr_timer(timer))?;
    let after = a.qp.query()?;
    ensure_eq!(after.min_rnr_timer, timer, "the timer");
    let same = QpAttr { min_rnr_timer: before.min_rnr_timer, ..after };
    ensure_eq!(format!("{same:?}"), format!("{before:?}"), "all else");
    a.signaled(1, b.write_here(0), 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "a write after it");
    Ok(())
}

fn queue_sizes<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    let attr = QpAttr::to(QpState::Rts);
    let before = a.qp.cap();
    let result = a.qp.modify(&QpAttr { mask: attr.mask | QpAttrMask::CAP, ..attr });
    let (from, to) = (QpState::Rts, QpState::Rts);
    ensure_eq!(result, Err(Error::ForbiddenAttribute { forbidden: QpAttrMask::CAP, from, to }), "other sizes");
    ensure_eq!((a.qp.cap(), a.qp.state()), (before, QpState::Rts), "sizes and state after it");
    a.signaled(1, b.write_here(0), 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "a write after it");
    Ok(())
}

fn query_twice<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let s = Setup::of(QpType::Rc);
    let (mut a, mut b) = (lab.end(0, &s)?, lab.end(1, &s)?);
    let same = |qp: &mut D::Qp| -> Outcome {
        ensure_eq!(format!("{:?}", qp.query()?), format!("{:?}", qp.query()?), "two answers in {}", qp.state());
        Ok(())
    };
    let c = Connection::default();
    let [there, back] =
        [connect::path(&lab.devices[0], &lab.devices[1])?, connect::path(&lab.devices[1], &lab.devices[0])?];
    same(&mut a.qp)?;
    connect::to_init(&mut a.qp, c.access)?;
    connect::to_init(&mut b.qp, c.access)?;
    same(&mut a.qp)?;
    connect::to_rtr(&mut a.qp, &b.qp, there, &c, 0)?;
    connect::to_rtr(&mut b.qp, &a.qp, back, &c, 1)?;
    same(&mut a.qp)?;
    connect::to_rts(&mut a.qp, &c, 0)?;
    same(&mut a.qp)?;
    a.signaled(1, b.write_here(0), 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "a write");
    same(&mut a.qp)?;
    a.qp.modify(&QpAttr::to(QpState::Err))?;
    same(&mut a.qp)
}
