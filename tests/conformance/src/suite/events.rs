//! Asynchronous events.

use super::{
    Case, Outcome,
    lab::{Lab, Setup, completion_event},
    must,
};
use alloc::{vec, vec::Vec};
use bareverbs::{CompletionQueue, Device, Event, MemoryRegion, Notify, QpType, QueuePair, SendFlags, SendOp, WcStatus};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        must("no_events_of_nothing", "ibv_get_async_event", "a device that does nothing tells of nothing", quiet),
        must(
            "no_events_of_good_traffic",
            "ibv_get_async_event",
            "messages that arrive give no asynchronous event",
            good,
        ),
        must(
            "events_come_in_one_stream",
            "ibv_get_async_event",
            "events of several objects come one by one, each naming its own",
            stream,
        ),
        must(
            "events_of_a_refused_access_name_the_qp",
            "ibv_get_async_event; IBA 11.6.3.2",
            "a responder that refuses an access tells of it once, by the name of its QP",
            access,
        ),
        must(
            "events_of_dead_objects_are_gone",
            "ibv_destroy_cq",
            "an event not yet read of a CQ that was destroyed is not told any more",
            dead,
        ),
        must(
            "service_without_end_does_no_harm",
            "traits",
            "any number of service calls between requests changes nothing",
            many,
        ),
    ]
}

fn quiet<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let _pair = lab.pair(&Setup::of(QpType::Rc))?;
    lab.no_event(0)?;
    lab.no_event(1)
}

fn good<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    for id in 0..40 {
        b.recv(id, 0..2000)?;
        a.send(id, SendOp::Send, 0..2000, SendFlags::SIGNALED | SendFlags::SOLICITED)?;
        lab.one(&mut a.send_cq)?;
        lab.one(&mut b.recv_cq)?;
    }
    lab.no_event(0)?;
    lab.no_event(1)
}

fn stream<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut pairs = vec![lab.pair(&Setup::of(QpType::Rc))?, lab.pair(&Setup::of(QpType::Rc))?];
    for round in 0..3 {
        let mut expected = Vec::new();
        for [a, b] in &mut pairs {
            a.send_cq.request_notify(Notify::Any)?;
            a.signaled(round, b.write_here(0), 0..8)?;
            expected.push(completion_event(&a.send_cq));
        }
        let mut seen = Vec::new();
        lab.wait("both events", || {
            seen.extend(lab.next_event(0)?);
            Ok((seen.len() >= 2).then_some(()))
        })?;
        for event in expected {
            ensure!(seen.contains(&event), "{event:?} is not among {seen:?}");
        }
        lab.no_event(0)?;
        for [a, _] in &mut pairs {
            lab.one(&mut a.send_cq)?;
        }
    }
    Ok(())
}

fn access<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    let beyond = SendOp::Write { addr: b.mr.iova() + b.mr.len() as u64, rkey: b.mr.rkey() };
    a.signaled(1, beyond, 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::RemoteAccess, "the write");
    lab.event(1, Event::QpAccessError(b.qp.qpn()))?;
    lab.no_event(1)?;
    lab.no_event(0)
}

fn dead<D: Device>(lab: &mut Lab<D>) -> Outcome {
    use bareverbs::Destroy;
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    a.send_cq.request_notify(Notify::Any)?;
    a.signaled(1, b.write_here(0), 0..8)?;
    lab.settle();
    a.qp.destroy()?;
    a.send_cq.destroy()?;
    lab.no_event(0)
}

fn many<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    for id in 0..20 {
        a.signaled(id, b.write_here(0), 0..8)?;
        for _ in 0..200 {
            ensure_eq!(lab.next_event(0)?, None, "an event");
        }
        ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, id, "the id");
    }
    Ok(())
}
