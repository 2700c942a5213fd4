//! What comes of completion events: where they are told, what reading them does.

use super::{
    Case, Outcome,
    lab::{CAP, Lab, Setup},
    must,
};
use alloc::{vec, vec::Vec};
use bareverbs::{
    CompletionQueue, CqInit, Destroy, Device, Event, MemoryRegion, Notify, QpAttr, QpState, QpType, QueuePair, SendOp,
    SendWr, WcStatus,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        must(
            "solicited_by_flush",
            "ibv_req_notify_cq",
            "a receive that is flushed has a status other than success, and counts as solicited",
            solicited_flush,
        ),
        must(
            "events_of_every_vector",
            "ibv_create_cq; ibv_create_comp_channel",
            "CQs on each completion vector tell of completions in the device's one stream of events",
            every_vector,
        ),
        must(
            "an_event_without_an_entry",
            "ibv_get_cq_event",
            "an entry that was polled before its event was read leaves an event and an empty CQ",
            extra_event,
        ),
        must(
            "events_are_acknowledged_by_reading_them",
            "ibv_ack_cq_events",
            "a CQ whose events were read is destroyed at once, and a later CQ gets none of them",
            acknowledged,
        ),
    ]
}

fn solicited_flush<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [_a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    b.recv(5, 0..8)?;
    b.recv_cq.request_notify(Notify::Solicited)?;
    b.qp.modify(&QpAttr::to(QpState::Err))?;
    lab.event(1, Event::Completion(b.recv_cq.cqn()))?;
    let done = lab.one(&mut b.recv_cq)?;
    ensure_eq!((done.wr_id, done.status), (5, WcStatus::WorkRequestFlushed), "the receive");
    Ok(())
}

fn every_vector<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (from, to) = (lab.mr(0, 64)?, lab.mr(1, 64)?);
    let peer_cq = lab.cq(1, 15)?;
    let mut ends = Vec::new();
    for comp_vector in 0..lab.devices[0].attributes().num_comp_vectors.min(8) {
        let cq = lab.devices[0].create_cq(&CqInit { entries: 3, comp_vector, ..CqInit::default() })?;
        let mut qp = lab.qp(0, QpType::Rc, [&cq, &cq], None, CAP)?;
        let mut peer = lab.qp(1, QpType::Rc, [&peer_cq, &peer_cq], None, CAP)?;
        lab.connect(&mut qp, &mut peer)?;
        ends.push((cq, qp, peer));
    }
    let sges = [from.sge(0..8)?];
    let write = SendOp::Write { addr: to.iova(), rkey: to.rkey() };
    for (cq, qp, _) in &mut ends {
        cq.request_notify(Notify::Any)?;
        qp.post_send([SendWr::new(write, &sges).wr_id(3).signaled()])?;
        lab.event(0, Event::Completion(cq.cqn()))?;
        ensure_eq!(lab.one(cq)?.wr_id, 3, "the id");
    }
    lab.no_event(0)
}

fn extra_event<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    for id in 0..3 {
        a.send_cq.request_notify(Notify::Any)?;
        a.signaled(id, b.write_here(0), 0..8)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, id, "the entry");
        lab.event(0, Event::Completion(a.send_cq.cqn()))?;
        lab.nothing(&mut a.send_cq)?;
    }
    lab.no_event(0)
}

fn acknowledged<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    a.send_cq.request_notify(Notify::Any)?;
    a.signaled(1, b.write_here(0), 0..8)?;
    lab.event(0, Event::Completion(a.send_cq.cqn()))?;
    a.qp.destroy()?;
    a.send_cq.destroy()?;
    let mut next = lab.cq(0, 63)?;
    next.request_notify(Notify::Any)?;
    lab.no_event(0)
}
