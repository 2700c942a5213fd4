//! What comes of completion events: where they are told, what reading them does.

use super::{
    Case, Outcome,
    lab::{CAP, GRH, Lab, Setup, completion_event},
    may, must,
};
use alloc::{vec, vec::Vec};
use bareverbs::{
    CompletionChannel, CompletionQueue, CqInit, Device, Event, MemoryRegion, Notify, QpAttr, QpState, QpType,
    QueuePair, SendFlags, SendOp, SendWr, WcStatus,
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
            "ibv_create_cq",
            "a CQ on any completion vector tells of its completions, over its channel or in the device's stream",
            every_vector,
        ),
        must(
            "an_event_without_an_entry",
            "ibv_get_cq_event",
            "an entry that was polled before its event was read leaves an event and an empty CQ",
            extra_event,
        ),
        must(
            "armed_over_unpolled_entries",
            "ibv_req_notify_cq; IBA 11.4.2.2",
            "entries unpolled at arming are told of at once or with the next completion, as the device has it; once",
            over_unpolled,
        ),
        must(
            "solicited_datagrams",
            "ibv_req_notify_cq",
            "of datagrams, too, those with the solicited bit alone give the event",
            datagrams,
        ),
        may(
            "notify_on_uc",
            "ibv_req_notify_cq",
            "of UC messages any gives the event, or the solicited ones alone, as was asked",
            unreliable,
        ),
    ]
}

fn solicited_flush<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [_a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    b.recv(5, 0..8)?;
    b.recv_cq.request_notify(Notify::Solicited)?;
    b.qp.modify(&QpAttr::to(QpState::Err))?;
    lab.cq_event(1, &b.recv_cq)?;
    let done = lab.one(&mut b.recv_cq)?;
    ensure_eq!((done.wr_id, done.status), (5, WcStatus::WorkRequestFlushed), "the receive");
    Ok(())
}

fn every_vector<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (from, to) = (lab.mr(0, 64)?, lab.mr(1, 64)?);
    let peer_cq = lab.cq(1, 15)?;
    let channel = lab.devices[0].create_comp_channel()?;
    let mut ends = Vec::new();
    for comp_vector in 0..lab.devices[0].attributes().num_comp_vectors.min(8) {
        let init = CqInit { entries: 3, comp_vector, context: comp_vector.into(), ..CqInit::default() };
        let on_channel = comp_vector % 2 == 1;
        let cq = match on_channel {
            true => lab.devices[0].create_cq_on(&channel, &init)?,
            false => lab.devices[0].create_cq(&init)?,
        };
        let mut qp = lab.qp(0, QpType::Rc, [&cq, &cq], None, CAP)?;
        let mut peer = lab.qp(1, QpType::Rc, [&peer_cq, &peer_cq], None, CAP)?;
        lab.connect(&mut qp, &mut peer)?;
        ends.push((cq, qp, peer, on_channel));
    }
    let sges = [from.sge(0..8)?];
    let write = SendOp::Write { addr: to.iova(), rkey: to.rkey() };
    for (cq, qp, _, on_channel) in &mut ends {
        cq.request_notify(Notify::Any)?;
        qp.post_send([SendWr::new(write, &sges).wr_id(3).signaled()])?;
        match on_channel {
            true => {
                let event = lab.wait("an event of the channel", || Ok(channel.event()?))?;
                ensure_eq!(Event::Completion(event), completion_event(cq), "the event");
            }
            false => lab.cq_event(0, cq)?,
        }
        ensure_eq!(lab.one(cq)?.wr_id, 3, "the id");
    }
    ensure_eq!(channel.event()?, None, "one event more");
    lab.no_event(0)
}

fn extra_event<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    for id in 0..3 {
        a.send_cq.request_notify(Notify::Any)?;
        a.signaled(id, b.write_here(0), 0..8)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, id, "the entry");
        lab.cq_event(0, &a.send_cq)?;
        lab.nothing(&mut a.send_cq)?;
    }
    lab.no_event(0)
}

fn over_unpolled<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    for unpolled in [1, 3] {
        for id in 0..unpolled {
            a.signaled(id, b.write_here(0), 0..8)?;
        }
        lab.settle();
        lab.no_event(0)?;
        a.send_cq.request_notify(Notify::Any)?;
        lab.settle();
        let at_once = lab.next_event(0)?;
        a.signaled(9, b.write_here(0), 0..8)?;
        match at_once {
            Some(event) => ensure_eq!(event, completion_event(&a.send_cq), "the event"),
            None => lab.cq_event(0, &a.send_cq)?,
        }
        lab.poll(&mut a.send_cq, unpolled as usize + 1)?;
        lab.no_event(0)?;
    }
    Ok(())
}

/// Messages without the solicited bit, with it, and of a CQ that is armed for any. Receives have room for `room` bytes.
fn both_ways<D: Device>(lab: &mut Lab<D>, kind: QpType, room: usize) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(kind))?;
    for (which, flags, told) in [
        (Notify::Solicited, [SendFlags::empty(); 2], false),
        (Notify::Solicited, [SendFlags::empty(), SendFlags::SOLICITED], true),
        (Notify::Any, [SendFlags::empty(); 2], true),
    ] {
        b.recv_cq.request_notify(which)?;
        for flags in flags {
            b.recv(1, 0..room)?;
            a.send(2, SendOp::Send, 0..8, SendFlags::SIGNALED | flags)?;
            lab.one(&mut a.send_cq)?;
            ensure_eq!(lab.one(&mut b.recv_cq)?.status, WcStatus::Success, "the receive");
        }
        if told {
            lab.cq_event(1, &b.recv_cq)?;
        }
        lab.no_event(1)?;
    }
    lab.no_event(0)
}

fn datagrams<D: Device>(lab: &mut Lab<D>) -> Outcome {
    both_ways(lab, QpType::Ud, GRH + 8)
}

fn unreliable<D: Device>(lab: &mut Lab<D>) -> Outcome {
    both_ways(lab, QpType::Uc, 8)
}
