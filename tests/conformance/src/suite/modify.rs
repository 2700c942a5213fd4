//! States and attributes of queue pairs.

use super::{
    Case, Outcome, Stop,
    lab::{CAP, End, Lab, Setup, ids, left_out},
    may, must,
};
use crate::connect::{self, Connection, PORT, QKEY};
use alloc::{vec, vec::Vec};
use bareverbs::{
    Access, CompletionQueue, Device, Error, LinkLayer, Mtu, PortNum, PostError, PostListError, Qkey, QpAttr,
    QpAttrMask, QpState, QpType, Qpn, QueuePair, RecvWr, SendOp, SendWr, WcStatus,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        must(
            "case_31_which_attribute",
            "report 31; ibv_modify_qp",
            "each missing and each superfluous attribute is named with its transition; nothing changes",
            case_31,
        ),
        must(
            "case_31_rtr_without_grh",
            "report 31; ibv_modify_qp",
            "on Ethernet RTR without a GRH has an error of its own",
            no_grh,
        ),
        must(
            "case_33_what_may_be_posted_when",
            "report 33; IBA 10.3.1",
            "receives from INIT on, sends from RTS on; both are flushed in ERR",
            case_33,
        ),
        must(
            "case_33_flush_in_order",
            "report 33; IBA 10.3.1.7",
            "in ERR every request completes once, in order, the one that failed with its cause",
            flush_order,
        ),
        must(
            "case_33_flush_of_every_type",
            "report 33; IBA 10.3.1.7",
            "the same of datagrams and unreliable connections: what was posted before ERR, and what after it",
            flush_types,
        ),
        must(
            "case_34_reset_and_use_again",
            "report 34",
            "after RESET old completions are gone and the QP begins anew",
            case_34,
        ),
        must("case_34_from_err", "report 34", "a QP in ERR goes to RESET and works again", from_err),
        must(
            "modify_follows_the_table",
            "ibv_modify_qp; IBA 11.2.5.2",
            "a transition that is not in the table is refused by type and states",
            no_transition,
        ),
        must(
            "modify_every_state_goes_to_reset_and_err",
            "IBA 10.3.1",
            "from RESET, INIT, RTR, RTS and ERR",
            to_reset_and_err,
        ),
        must(
            "modify_changes_nothing_on_an_error",
            "ibv_modify_qp",
            "if one attribute is wrong, none is changed, nor the state",
            nothing_changed,
        ),
        must(
            "modify_checks_values",
            "ibv_modify_qp",
            "a port, P_Key index or depth that the device does not have is refused by name",
            bad_values,
        ),
        must(
            "modify_current_state_must_be_right",
            "ibv_modify_qp",
            "an assumed state that is not the QP's is refused",
            current_state,
        ),
        must("modify_init_twice", "ibv_modify_qp", "INIT to INIT changes attributes", init_twice),
        must("modify_rts_to_rts", "ibv_modify_qp", "RTS to RTS changes access rights", rts_to_rts),
        may("modify_drains_the_send_queue", "IBA 10.3.1.5", "SQD lets requests under way finish and tells", drain),
        may(
            "modify_alternate_path",
            "ibv_modify_qp",
            "an alternate path is taken, or left out by name",
            alternate_path,
        ),
        must("rtr_receives_before_rts", "IBA 10.3.1.3", "a QP in RTR receives", rtr_receives),
    ]
}

/// Every attribute that there is, but the state.
const ALL: [QpAttrMask; 20] = [
    QpAttrMask::CUR_STATE,
    QpAttrMask::EN_SQD_ASYNC_NOTIFY,
    QpAttrMask::ACCESS_FLAGS,
    QpAttrMask::PKEY_INDEX,
    QpAttrMask::PORT,
    QpAttrMask::QKEY,
    QpAttrMask::AV,
    QpAttrMask::PATH_MTU,
    QpAttrMask::TIMEOUT,
    QpAttrMask::RETRY_CNT,
    QpAttrMask::RNR_RETRY,
    QpAttrMask::RQ_PSN,
    QpAttrMask::MAX_QP_RD_ATOMIC,
    QpAttrMask::ALT_PATH,
    QpAttrMask::MIN_RNR_TIMER,
    QpAttrMask::SQ_PSN,
    QpAttrMask::MAX_DEST_RD_ATOMIC,
    QpAttrMask::PATH_MIG_STATE,
    QpAttrMask::CAP,
    QpAttrMask::DEST_QPN,
];

/// The three steps of a QP to RTS, all their attributes set.
pub(super) fn steps<D: Device>(lab: &Lab<D>, kind: QpType, dest: Qpn) -> Outcome<[(QpState, QpAttr); 3]> {
    let c = Connection::default();
    let init = QpAttr::to(QpState::Init).port(PORT).pkey_index(0);
    let (rtr, rts) = (QpAttr::to(QpState::Rtr), QpAttr::to(QpState::Rts).sq_psn(c.psn[0]));
    let path = || connect::path(&lab.devices[0], &lab.devices[1]);
    let to_peer = |av| rtr.av(av).path_mtu(c.mtu).dest_qpn(dest).rq_psn(c.psn[1]);
    let as_responder = |rtr: QpAttr| rtr.max_dest_rd_atomic(c.rd_atomic).min_rnr_timer(c.min_rnr_timer);
    let timed = rts.timeout(c.timeout);
    let as_requester = timed.retry_cnt(c.retry_cnt).rnr_retry(c.rnr_retry).max_rd_atomic(c.rd_atomic);
    let [init, rtr, rts] = match kind {
        QpType::RawPacket => [QpAttr::to(QpState::Init).port(PORT), rtr, QpAttr::to(QpState::Rts)],
        QpType::Ud => [init.qkey(QKEY), rtr, rts],
        QpType::Uc => [init.access(c.access), to_peer(path()?), rts],
        QpType::Rc => [init.access(c.access), as_responder(to_peer(path()?)), as_requester],
        QpType::XrcIni => [init.access(c.access), to_peer(path()?), as_requester],
        QpType::XrcTgt => [init.access(c.access), as_responder(to_peer(path()?)), timed],
    };
    Ok([(QpState::Reset, init), (QpState::Init, rtr), (QpState::Rtr, rts)])
}

/// The types of QP that a device has.
pub(super) fn kinds<D: Device>(lab: &Lab<D>) -> Vec<QpType> {
    let all = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcIni, QpType::XrcTgt, QpType::RawPacket];
    let attr = lab.devices[0].attributes();
    all.into_iter().filter(|kind| attr.has(*kind)).collect()
}

/// What each step may have besides (manual page ibv_modify_qp and the IBA's table 96).
fn optional(kind: QpType, to: QpState) -> QpAttrMask {
    use QpAttrMask as M;
    match (kind, to) {
        (QpType::Ud, QpState::Rtr) => M::PKEY_INDEX | M::QKEY,
        (QpType::Ud, QpState::Rts) => M::CUR_STATE | M::QKEY,
        (_, QpState::Rtr) => M::ALT_PATH | M::ACCESS_FLAGS | M::PKEY_INDEX,
        (_, QpState::Rts) => M::CUR_STATE | M::ALT_PATH | M::ACCESS_FLAGS | M::MIN_RNR_TIMER | M::PATH_MIG_STATE,
        _ => M::empty(),
    }
}

fn case_31<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for kind in [QpType::Rc, QpType::Ud] {
        let cq = lab.cq(0, 7)?;
        let mut qp = lab.qp(0, kind, [&cq, &cq], None, CAP)?;
        for (from, attr) in steps(lab, kind, Qpn::new(0x123))? {
            let to = attr.state;
            let required = attr.mask.difference(QpAttrMask::STATE);
            for bit in ALL {
                if required.contains(bit) {
                    let less = QpAttr { mask: attr.mask.difference(bit), ..attr };
                    let error = Error::MissingAttribute { missing: bit, from, to };
                    ensure_eq!(qp.modify(&less), Err(error), "{kind:?} {from} to {to} without {bit:?}");
                } else if !optional(kind, to).contains(bit) {
                    let more = QpAttr { mask: attr.mask.union(bit), ..attr };
                    let error = Error::ForbiddenAttribute { forbidden: bit, from, to };
                    ensure_eq!(qp.modify(&more), Err(error), "{kind:?} {from} to {to} with {bit:?}");
                }
                ensure_eq!(qp.state(), from, "the state after {bit:?}");
            }
            ensure_eq!(qp.query()?.state, from, "the state that the device holds");
            qp.modify(&attr)?;
            ensure_eq!((qp.state(), qp.query()?.state), (to, to), "the state after all");
        }
    }
    Ok(())
}

fn no_grh<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cq = lab.cq(0, 7)?;
    let mut qp = lab.qp(0, QpType::Rc, [&cq, &cq], None, CAP)?;
    let [(_, init), (_, rtr), _] = steps(lab, QpType::Rc, Qpn::new(0x123))?;
    qp.modify(&init)?;
    let av = bareverbs::AhAttr { grh: None, ..rtr.av };
    let result = qp.modify(&rtr.av(av));
    if lab.devices[0].query_port(PORT)?.link_layer == LinkLayer::Ethernet {
        ensure_eq!(result, Err(Error::GrhRequired), "RTR without a GRH");
        ensure_eq!((qp.state(), qp.query()?.state), (QpState::Init, QpState::Init), "the state");
    } else {
        ensure_eq!(result, Ok(()), "RTR without a GRH on InfiniBand");
    }
    Ok(())
}

fn case_33<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let s = Setup::of(QpType::Rc);
    let (mut a, mut b) = (lab.end(0, &s)?, lab.end(1, &s)?);
    let sges = [bareverbs::MemoryRegion::sge(&a.mr, 0..8)?];
    let wrong = |state| Err(PostError::WrongState(state));
    let peer = connect::path(&lab.devices[1], &lab.devices[0])?;
    let c = Connection::default();
    connect::to_init(&mut b.qp, c.access)?;
    connect::to_rtr(&mut b.qp, &a.qp, peer, &c, 1)?;
    let recv = RecvWr::new(50, &sges);
    let send = SendWr::new(b.write_here(0), &sges).wr_id(60).signaled();
    ensure_eq!(a.qp.push_recv(&recv), wrong(QpState::Reset), "a receive in RESET");
    ensure_eq!(a.qp.push_send(&send), wrong(QpState::Reset), "a send in RESET");
    for (from, attr) in steps(lab, QpType::Rc, b.qp.qpn())? {
        a.qp.modify(&attr)?;
        a.qp.post_recv([recv])?;
        if attr.state == QpState::Rts {
            a.qp.post_send([send])?;
        } else {
            ensure_eq!(a.qp.push_send(&send), wrong(attr.state), "a send after {from}");
        }
    }
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "the send in RTS");
    a.qp.modify(&QpAttr::to(QpState::Err))?;
    a.qp.post_recv([recv])?;
    a.qp.post_send([send])?;
    let received = lab.poll(&mut a.recv_cq, 4)?;
    let sent = lab.poll(&mut a.send_cq, 1)?;
    for done in received.iter().chain(&sent) {
        ensure_eq!(done.status, WcStatus::WorkRequestFlushed, "a request in ERR");
    }
    ensure_eq!((ids(&received), ids(&sent)), (vec![50; 4], vec![60]), "the ids");
    lab.nothing(&mut a.recv_cq)?;
    lab.nothing(&mut a.send_cq)
}

fn flush_order<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    for id in 0..5 {
        a.recv(100 + id, 0..8)?;
        b.recv(200 + id, 0..8)?;
    }
    let end = bareverbs::MemoryRegion::iova(&b.mr) + bareverbs::MemoryRegion::len(&b.mr) as u64;
    let beyond = SendOp::Write { addr: end, rkey: bareverbs::MemoryRegion::rkey(&b.mr) };
    // Unsignaled ones are flushed with a completion too.
    for id in 0..8 {
        let op = if id == 3 { beyond } else { b.write_here(0) };
        let flags = if id == 5 { bareverbs::SendFlags::empty() } else { bareverbs::SendFlags::SIGNALED };
        a.send(id, op, 0..8, flags)?;
    }
    let done = lab.poll(&mut a.send_cq, 8)?;
    ensure_eq!(ids(&done), (0..8).collect::<Vec<_>>(), "the sends");
    for (id, done) in (0..).zip(&done) {
        let status = match id {
            0..3 => WcStatus::Success,
            3 => WcStatus::RemoteAccess,
            _ => WcStatus::WorkRequestFlushed,
        };
        ensure_eq!(done.status, status, "send {id}");
    }
    ensure_eq!(a.qp.state(), QpState::Err, "the state of the requester");
    // Markers posted now complete last.
    a.recv(199, 0..8)?;
    a.signaled(99, SendOp::Send, 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, 99, "the marker");
    let got = lab.poll(&mut a.recv_cq, 6)?;
    ensure_eq!(ids(&got), [100, 101, 102, 103, 104, 199], "the requester's receives");
    ensure!(got.iter().all(|c| c.status == WcStatus::WorkRequestFlushed), "flushed receives: {got:?}");
    // The responder failed as well: the access was not allowed.
    let got = lab.poll(&mut b.recv_cq, 5)?;
    ensure_eq!(ids(&got), [200, 201, 202, 203, 204], "the responder's receives");
    ensure_eq!(b.qp.query()?.state, QpState::Err, "the state of the responder");
    Ok(())
}

fn flush_types<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
        if !lab.devices[0].attributes().has(kind) {
            continue;
        }
        let [mut a, _b] = lab.pair(&Setup::of(kind))?;
        for id in 0..5 {
            a.recv(id, 0..100)?;
        }
        a.qp.modify(&QpAttr::to(QpState::Err))?;
        for id in 5..9 {
            a.recv(id, 0..100)?;
            a.send(id, SendOp::Send, 0..8, bareverbs::SendFlags::empty())?;
        }
        let (sent, received) = (lab.poll(&mut a.send_cq, 4)?, lab.poll(&mut a.recv_cq, 9)?);
        ensure_eq!(ids(&sent), (5..9).collect::<Vec<_>>(), "sends of {kind:?}");
        ensure_eq!(ids(&received), (0..9).collect::<Vec<_>>(), "receives of {kind:?}");
        for done in sent.iter().chain(&received) {
            ensure_eq!((done.status, done.qpn), (WcStatus::WorkRequestFlushed, a.qp.qpn()), "{kind:?}");
        }
        lab.nothing(&mut a.send_cq)?;
        lab.nothing(&mut a.recv_cq)?;
    }
    Ok(())
}

fn case_34<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    for id in 0..3 {
        a.recv(40 + id, 0..8)?;
    }
    for id in 0..7 {
        a.signaled(id, b.write_here(0), 0..8)?;
    }
    lab.settle();
    ensure_eq!(ids(&lab.poll(&mut a.send_cq, 5)?), (0..5).collect::<Vec<_>>(), "the first five");
    for qp in [&mut a.qp, &mut b.qp] {
        qp.modify(&QpAttr::to(QpState::Reset))?;
        ensure_eq!(qp.state(), QpState::Reset, "the state");
    }
    lab.nothing(&mut a.send_cq)?;
    lab.nothing(&mut a.recv_cq)?;
    lab.connect(&mut a.qp, &mut b.qp)?;
    let n = a.qp.cap().max_send_wr;
    // As many as the queue holds: no slot was lost.
    for id in 0..u64::from(n) {
        a.signaled(70 + id, b.write_here(0), 0..8)?;
    }
    let expected: Vec<u64> = (70..70 + u64::from(n)).collect();
    ensure_eq!(ids(&lab.poll(&mut a.send_cq, n as usize)?), expected, "after the reset");
    a.recv(90, 0..8)?;
    b.signaled(91, SendOp::Send, 0..8)?;
    ensure_eq!(lab.one(&mut a.recv_cq)?.wr_id, 90, "a receive after the reset");
    lab.nothing(&mut a.recv_cq)
}

fn from_err<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    for round in 0..3 {
        for id in 0..4 {
            a.signaled(id, b.write_here(0), 0..8)?;
        }
        ensure_eq!(ids(&lab.poll(&mut a.send_cq, 4)?), [0, 1, 2, 3], "round {round}");
        a.recv(7, 0..8)?;
        for qp in [&mut a.qp, &mut b.qp] {
            qp.modify(&QpAttr::to(QpState::Err))?;
        }
        lab.settle();
        for qp in [&mut a.qp, &mut b.qp] {
            qp.modify(&QpAttr::to(QpState::Reset))?;
        }
        lab.nothing(&mut a.recv_cq)?;
        lab.connect(&mut a.qp, &mut b.qp)?;
    }
    Ok(())
}

fn no_transition<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for kind in kinds(lab) {
        let cq = lab.cq(0, 7)?;
        let mut qp = lab.qp_of_any_type(0, kind, &cq)?;
        for (from, attr) in steps(lab, kind, Qpn::new(0x123))? {
            for to in [QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe] {
                if to != attr.state && (from, to) != (QpState::Init, QpState::Init) {
                    let error = Error::NoSuchTransition { kind, from, to };
                    ensure_eq!(qp.modify(&QpAttr::to(to)), Err(error), "{kind:?} {from} to {to}");
                    ensure_eq!(qp.state(), from, "the state");
                }
            }
            qp.modify(&attr)?;
        }
        for to in [QpState::Init, QpState::Rtr, QpState::Sqe] {
            let error = Error::NoSuchTransition { kind, from: QpState::Rts, to };
            ensure_eq!(qp.modify(&QpAttr::to(to)), Err(error), "{kind:?} RTS to {to}");
            ensure_eq!((qp.state(), qp.query()?.state), (QpState::Rts, QpState::Rts), "the state");
        }
        qp.modify(&QpAttr::to(QpState::Err))?;
        for to in [QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe] {
            let error = Error::NoSuchTransition { kind, from: QpState::Err, to };
            ensure_eq!(qp.modify(&QpAttr::to(to)), Err(error), "{kind:?} ERR to {to}");
        }
    }
    Ok(())
}

fn to_reset_and_err<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for kind in kinds(lab) {
        let cq = lab.cq(0, 7)?;
        let mut qp = lab.qp_of_any_type(0, kind, &cq)?;
        let steps = steps(lab, kind, Qpn::new(0x123))?;
        for target in [QpState::Reset, QpState::Err] {
            for depth in 0..=steps.len() {
                for (_, attr) in &steps[..depth] {
                    qp.modify(attr)?;
                }
                qp.modify(&QpAttr::to(target))?;
                ensure_eq!((qp.state(), qp.query()?.state), (target, target), "{kind:?} after {depth} steps");
                qp.modify(&QpAttr::to(QpState::Err))?;
                qp.modify(&QpAttr::to(QpState::Reset))?;
            }
        }
    }
    Ok(())
}

fn nothing_changed<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cq = lab.cq(0, 7)?;
    let mut qp = lab.qp(0, QpType::Ud, [&cq, &cq], None, CAP)?;
    let right = QpAttr::to(QpState::Init).port(PORT).pkey_index(0).qkey(Qkey(0x1111));
    let wrong = QpAttr::to(QpState::Init).port(PortNum(200)).pkey_index(0).qkey(Qkey(0x2222));
    ensure_eq!(qp.modify(&wrong), Err(Error::NoSuchPort(PortNum(200))), "a wrong port");
    ensure_eq!((qp.state(), qp.query()?.state), (QpState::Reset, QpState::Reset), "the state");
    qp.modify(&right)?;
    ensure_eq!(qp.modify(&wrong), Err(Error::NoSuchPort(PortNum(200))), "a wrong port in INIT");
    ensure_eq!(qp.query()?.qkey, Qkey(0x1111), "the queue key");
    Ok(())
}

fn bad_values<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (device, cq) = (lab.devices[0].clone(), lab.cq(0, 7)?);
    let (attr, port) = (device.attributes(), device.query_port(PORT)?);
    let mut qp = lab.qp(0, QpType::Rc, [&cq, &cq], None, CAP)?;
    let [(_, init), (_, rtr), (_, rts)] = steps(lab, QpType::Rc, Qpn::new(0x123))?;
    let bad_port = PortNum(attr.phys_port_cnt + 1);
    ensure_eq!(qp.modify(&init.port(bad_port)), Err(Error::NoSuchPort(bad_port)), "a port beyond");
    ensure_eq!(qp.modify(&init.port(PortNum(0))), Err(Error::NoSuchPort(PortNum(0))), "port 0");
    let beyond = port.pkey_tbl_len.max(1);
    let error = Error::NoSuchIndex { table: bareverbs::Argument::Pkey, index: beyond.into() };
    ensure_eq!(qp.modify(&init.pkey_index(beyond)), Err(error), "a P_Key index beyond");
    qp.modify(&init)?;
    let bad = |result: Result<(), Error>, attribute| {
        let named = matches!(result, Err(Error::BadAttribute { attribute: a, .. }) if a == attribute);
        ensure!(named, "{result:?}, should name {attribute:?}");
        Ok(())
    };
    if attr.max_qp_rd_atom < u8::MAX {
        bad(qp.modify(&rtr.max_dest_rd_atomic(attr.max_qp_rd_atom + 1)), QpAttrMask::MAX_DEST_RD_ATOMIC)?;
    }
    if port.max_mtu < Mtu::B4096 {
        bad(qp.modify(&rtr.path_mtu(Mtu::B4096)), QpAttrMask::PATH_MTU)?;
    }
    qp.modify(&rtr)?;
    if attr.max_qp_init_rd_atom < u8::MAX {
        bad(qp.modify(&rts.max_rd_atomic(attr.max_qp_init_rd_atom + 1)), QpAttrMask::MAX_QP_RD_ATOMIC)?;
    }
    ensure_eq!(qp.query()?.state, QpState::Rtr, "the state");
    Ok(qp.modify(&rts)?)
}

fn current_state<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cq = lab.cq(0, 7)?;
    let mut qp = lab.qp(0, QpType::Ud, [&cq, &cq], None, CAP)?;
    let [(_, init), (_, rtr), (_, rts)] = steps(lab, QpType::Ud, Qpn::new(0))?;
    qp.modify(&init)?;
    qp.modify(&rtr)?;
    let result = qp.modify(&rts.cur_state(QpState::Init));
    let named = matches!(result, Err(Error::BadAttribute { attribute: QpAttrMask::CUR_STATE, .. }));
    ensure!(named, "{result:?}, should name the assumed state");
    ensure_eq!(qp.state(), QpState::Rtr, "the state");
    Ok(qp.modify(&rts.cur_state(QpState::Rtr))?)
}

fn init_twice<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cq = lab.cq(0, 7)?;
    let mut qp = lab.qp(0, QpType::Ud, [&cq, &cq], None, CAP)?;
    qp.modify(&QpAttr::to(QpState::Init).port(PORT).pkey_index(0).qkey(Qkey(1)))?;
    qp.modify(&QpAttr::to(QpState::Init).qkey(Qkey(2)))?;
    ensure_eq!(qp.query()?.qkey, Qkey(2), "the queue key");
    let mut qp = lab.qp(0, QpType::Rc, [&cq, &cq], None, CAP)?;
    qp.modify(&QpAttr::to(QpState::Init).port(PORT).pkey_index(0).access(Access::empty()))?;
    qp.modify(&QpAttr::to(QpState::Init).access(Access::REMOTE_READ | Access::REMOTE_WRITE))?;
    ensure_eq!(qp.query()?.access, Access::REMOTE_READ | Access::REMOTE_WRITE, "the access rights");
    Ok(())
}

fn rts_to_rts<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    a.signaled(1, b.write_here(0), 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "a write that is allowed");
    b.qp.modify(&QpAttr::to(QpState::Rts).access(Access::REMOTE_READ))?;
    ensure_eq!(b.qp.query()?.access, Access::REMOTE_READ, "the access rights");
    let read = SendOp::Read { addr: bareverbs::MemoryRegion::iova(&b.mr), rkey: bareverbs::MemoryRegion::rkey(&b.mr) };
    a.signaled(2, read, 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "a read that is allowed");
    a.signaled(3, b.write_here(0), 0..8)?;
    let done = lab.one(&mut a.send_cq)?;
    ensure!(
        matches!(done.status, WcStatus::RemoteAccess | WcStatus::RemoteInvalidRequest),
        "a write that is not allowed any more: {done:?}"
    );
    Ok(())
}

fn drain<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    a.signaled(1, b.write_here(0), 0..8)?;
    let (drain, name) = (QpAttr::to(QpState::Sqd), "draining the send queue by modify");
    let result = a.qp.modify(&QpAttr { mask: drain.mask | QpAttrMask::EN_SQD_ASYNC_NOTIFY, ..drain });
    if left_out(result, name)? {
        goes_on(lab, &mut a, &b, 1)?;
        return Err(Stop::Unsupported(name));
    }
    lab.event(0, bareverbs::Event::SendQueueDrained(a.qp.qpn()))?;
    ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, 1, "what was under way");
    Ok(a.qp.modify(&QpAttr::to(QpState::Rts))?)
}

fn alternate_path<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    let (attr, name) = (QpAttr::to(QpState::Rts), "alternate paths");
    for bit in [QpAttrMask::ALT_PATH, QpAttrMask::PATH_MIG_STATE] {
        // There is no way to ask for what was set, so that a device which takes it cannot be believed.
        let result = a.qp.modify(&QpAttr { mask: attr.mask | bit, ..attr });
        ensure_eq!(result, Err(Error::Unsupported(name)), "{bit:?}");
    }
    a.signaled(1, b.write_here(0), 0..8)?;
    goes_on(lab, &mut a, &b, 1)?;
    Err(Stop::Unsupported(name))
}

/// A refused change has left the QP in RTS; the write of this id, and another, arrive.
fn goes_on<D: Device>(lab: &Lab<D>, a: &mut End<D>, b: &End<D>, id: u64) -> Outcome {
    ensure_eq!((a.qp.state(), a.qp.query()?.state), (QpState::Rts, QpState::Rts), "the state");
    a.signaled(id + 1, b.write_here(0), 0..8)?;
    let done = lab.poll(&mut a.send_cq, 2)?;
    ensure_eq!(ids(&done), [id, id + 1], "the writes");
    ensure!(done.iter().all(|c| c.status == WcStatus::Success), "{done:?}");
    Ok(())
}

fn rtr_receives<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let s = Setup::of(QpType::Rc);
    let (mut a, mut b) = (lab.end(0, &s)?, lab.end(1, &s)?);
    let [there, back] =
        [connect::path(&lab.devices[0], &lab.devices[1])?, connect::path(&lab.devices[1], &lab.devices[0])?];
    let c = Connection::default();
    connect::to_init(&mut a.qp, c.access)?;
    connect::to_init(&mut b.qp, c.access)?;
    connect::to_rtr(&mut a.qp, &b.qp, there, &c, 0)?;
    connect::to_rtr(&mut b.qp, &a.qp, back, &c, 1)?;
    connect::to_rts(&mut a.qp, &c, 0)?;
    b.recv(8, 0..64)?;
    a.signaled(9, SendOp::Send, 0..64)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "the send");
    ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, 8, "the receive");
    let mut none = [bareverbs::Completion::default()];
    ensure_eq!(b.recv_cq.poll(&mut none), Ok(0), "a poll behind it");
    let error = PostListError { index: 0, error: PostError::WrongState(QpState::Rtr) };
    ensure_eq!(b.qp.post_send([SendWr::new(SendOp::Send, &[])]), Err(error), "a send in RTR");
    Ok(())
}
