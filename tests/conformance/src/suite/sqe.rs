//! A send queue that failed: of an unreliable QP it is the queue alone, and SQE is the way back (IBA 10.3.1.6).

use super::{
    Case, Outcome,
    lab::{Lab, Setup, ids},
    may, must,
};
use alloc::vec::Vec;
use bareverbs::{
    Access, Device, MemoryRegion, QpAttr, QpState, QpType, QueuePair, RecvWr, SendFlags, SendOp, SendWr, Sge, WcStatus,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    alloc::vec![
        must(
            "sqe_of_a_datagram_qp",
            "IBA 10.3.1.6; ibv_modify_qp",
            "a send that fails takes a UD QP to SQE: later sends are flushed, receives go on, and back in RTS all works",
            ud,
        ),
        may(
            "sqe_of_an_unreliable_connection",
            "IBA 10.3.1.6; ibv_modify_qp",
            "the same of a UC QP, also where the send fails in the middle of a message",
            uc,
        ),
        may(
            "sqe_to_rts_flushes_first",
            "IBA 10.3.1.6",
            "who goes back to RTS at once has every send of before flushed, none of them sent, and stays in RTS",
            at_once,
        ),
    ]
}

fn ud<D: Device>(lab: &mut Lab<D>) -> Outcome {
    back_and_forth(lab, QpType::Ud)
}

fn uc<D: Device>(lab: &mut Lab<D>) -> Outcome {
    back_and_forth(lab, QpType::Uc)
}

/// An element of a region that the QP may not use: it is of another protection domain.
fn forbidden<D: Device>(lab: &mut Lab<D>, len: usize) -> Outcome<(D::Pd, super::lab::Mr<D>, Sge)> {
    let pd = lab.devices[0].alloc_pd()?;
    let memory = lab.memory(len)?;
    let mr = lab.devices[0].register(&pd, memory, Access::LOCAL_WRITE)?;
    let sge = mr.sge(0..len)?;
    Ok((pd, mr, sge))
}

fn back_and_forth<D: Device>(lab: &mut Lab<D>, kind: QpType) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(kind))?;
    let (_pd, _hidden, bad) = forbidden(lab, 64)?;
    let good = a.mr.sge(0..2048)?;
    // A connection sends the first packets of a message before it meets what it may not read.
    let elements: &[Sge] = if kind == QpType::Uc { &[good, bad] } else { &[bad] };
    for round in 0..3u8 {
        let id = u64::from(round) * 10;
        a.recv(id + 6, 4096..8192)?;
        b.recv(id + 7, 4096..8192)?;
        let mut wr = SendWr::new(SendOp::Send, elements).wr_id(id).signaled();
        wr.to = a.to.as_ref().map(bareverbs::Destination::Ud);
        a.qp.post_send([wr])?;
        a.signaled(id + 1, SendOp::Send, 0..8)?;
        // Unsignaled ones are flushed with a completion too.
        a.send(id + 2, SendOp::Send, 0..8, SendFlags::empty())?;
        let done = lab.poll(&mut a.send_cq, 3)?;
        ensure_eq!(ids(&done), [id, id + 1, id + 2], "the sends");
        let statuses: Vec<_> = done.iter().map(|c| c.status).collect();
        let flushed = WcStatus::WorkRequestFlushed;
        ensure_eq!(statuses, [WcStatus::LocalProtection, flushed, flushed], "how they ended");
        ensure_eq!((a.qp.state(), a.qp.query()?.state), (QpState::Sqe, QpState::Sqe), "the state");
        // Sends are taken and flushed, receives go on.
        a.signaled(id + 3, SendOp::Send, 0..8)?;
        let done = lab.one(&mut a.send_cq)?;
        ensure_eq!((done.wr_id, done.status), (id + 3, flushed), "a send in SQE");
        b.signaled(id + 4, SendOp::Send, 0..8)?;
        ensure_eq!(lab.one(&mut b.send_cq)?.status, WcStatus::Success, "the peer's send");
        let done = lab.one(&mut a.recv_cq)?;
        ensure_eq!((done.wr_id, done.status), (id + 6, WcStatus::Success), "a receive in SQE");
        lab.nothing(&mut b.recv_cq)?;
        // Back in RTS it sends again.
        a.qp.modify(&QpAttr::to(QpState::Rts))?;
        ensure_eq!((a.qp.state(), a.qp.query()?.state), (QpState::Rts, QpState::Rts), "the state");
        a.mr.write(0, &[round + 1; 8])?;
        a.signaled(id + 5, SendOp::Send, 0..8)?;
        let done = lab.one(&mut a.send_cq)?;
        ensure_eq!((done.wr_id, done.status), (id + 5, WcStatus::Success), "a send after it");
        let done = lab.one(&mut b.recv_cq)?;
        ensure_eq!((done.wr_id, done.status), (id + 7, WcStatus::Success), "what the peer received");
        let at = 4096 + if kind == QpType::Ud { super::lab::GRH } else { 0 };
        ensure_eq!(b.bytes(at..at + 8)?, [round + 1; 8], "the message");
    }
    lab.nothing(&mut a.send_cq)
}

fn at_once<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Uc))?;
    let (_pd, _hidden, bad) = forbidden(lab, 64)?;
    b.qp.post_recv((0..10).map(|id| RecvWr::new(id, &[])))?;
    let (elements, none): ([Sge; 1], [Sge; 0]) = ([bad], []);
    let wr = |id| SendWr::new(SendOp::Send, if id == 0 { &elements[..] } else { &none[..] }).wr_id(id).signaled();
    a.qp.post_send((0..10).map(wr))?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::LocalProtection, "the one that fails");
    a.qp.modify(&QpAttr::to(QpState::Rts))?;
    a.qp.post_send([wr(99)])?;
    let mut done = Vec::new();
    for _ in 0..10 {
        done.push(lab.one(&mut a.send_cq)?);
        ensure_eq!((a.qp.state(), a.qp.query()?.state), (QpState::Rts, QpState::Rts), "the state after {done:?}");
    }
    ensure_eq!(ids(&done), [1, 2, 3, 4, 5, 6, 7, 8, 9, 99], "the others");
    let flushed = done[..9].iter().all(|c| c.status == WcStatus::WorkRequestFlushed);
    ensure!(flushed && done[9].status == WcStatus::Success, "{done:?}");
    ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, 0, "one message arrived");
    lab.nothing(&mut b.recv_cq)
}
