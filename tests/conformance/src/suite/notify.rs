//! Completion events.

use super::{
    Case, Outcome,
    lab::{Lab, Setup, completion_event},
    may, must,
};
use alloc::vec::Vec;
use bareverbs::{Completion, CompletionQueue, Device, MemoryRegion, Notify, QpType, SendFlags, SendOp, WcStatus};
use core::time::Duration;

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    alloc::vec![
        must("no_event_unless_asked_for", "ibv_req_notify_cq", "a CQ that was not armed tells of nothing", unarmed),
        must(
            "notify_is_one_shot",
            "ibv_req_notify_cq",
            "an armed CQ gives one event, for the next completion; then none until it is armed again",
            one_shot
        ),
        must(
            "notify_twice_is_once",
            "ibv_req_notify_cq",
            "arming an armed CQ again gives one event all the same",
            armed_twice
        ),
        must(
            "notify_names_the_cq",
            "ibv_get_cq_event",
            "the event names the CQ that got the completion, no other",
            names
        ),
        must(
            "notify_of_sends_and_receives",
            "ibv_req_notify_cq",
            "any new entry gives the event, of a send or of a receive",
            both_kinds
        ),
        must(
            "solicited_only_leaves_out_the_others",
            "ibv_req_notify_cq",
            "armed for solicited ones, neither unsolicited receives nor sends give an event",
            solicited_only
        ),
        must(
            "solicited_by_the_bit",
            "ibv_req_notify_cq",
            "a receive of a message with the solicited bit gives it, SEND or WRITE with immediate",
            solicited_bit
        ),
        must("solicited_by_failure", "ibv_req_notify_cq", "a failed request counts as solicited", solicited_failure),
        must(
            "any_after_solicited",
            "IBA 11.4.2.2",
            "asking for any completion, before or after asking for solicited ones, gives one event, for any",
            widened
        ),
        must(
            "arm_then_empty_loses_nothing",
            "ibv_get_cq_event",
            "event, arm, poll until empty: with that loop no completion is left unseen",
            race
        ),
        must("notify_many_times", "ibv_req_notify_cq", "armed again and again it gives an event each time", many),
        may(
            "moderation_by_count",
            "ibv_modify_cq",
            "with a count an event waits until so many completions are there",
            by_count
        ),
        may("moderation_by_time", "ibv_modify_cq", "with a period the event comes for fewer, too, later", by_time),
    ]
}

fn unarmed<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    b.recv(0, 0..8)?;
    a.send(1, SendOp::Send, 0..8, SendFlags::SIGNALED | SendFlags::SOLICITED)?;
    lab.one(&mut a.send_cq)?;
    lab.one(&mut b.recv_cq)?;
    lab.no_event(0)?;
    lab.no_event(1)
}

fn one_shot<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    a.send_cq.request_notify(Notify::Any)?;
    lab.no_event(0)?;
    for id in 0..3 {
        a.signaled(id, b.write_here(0), 0..8)?;
    }
    lab.cq_event(0, &a.send_cq)?;
    lab.poll(&mut a.send_cq, 3)?;
    lab.no_event(0)?;
    a.signaled(3, b.write_here(0), 0..8)?;
    lab.one(&mut a.send_cq)?;
    lab.no_event(0)?;
    a.send_cq.request_notify(Notify::Any)?;
    a.signaled(4, b.write_here(0), 0..8)?;
    lab.cq_event(0, &a.send_cq)?;
    lab.no_event(0)
}

fn armed_twice<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    a.send_cq.request_notify(Notify::Any)?;
    a.send_cq.request_notify(Notify::Any)?;
    a.signaled(0, b.write_here(0), 0..8)?;
    lab.cq_event(0, &a.send_cq)?;
    a.signaled(1, b.write_here(0), 0..8)?;
    lab.no_event(0)
}

fn names<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    for cq in [&mut a.send_cq, &mut a.recv_cq, &mut b.send_cq, &mut b.recv_cq] {
        cq.request_notify(Notify::Any)?;
    }
    b.recv(0, 0..8)?;
    a.signaled(1, SendOp::Send, 0..8)?;
    lab.cq_event(0, &a.send_cq)?;
    lab.cq_event(1, &b.recv_cq)?;
    lab.no_event(0)?;
    lab.no_event(1)
}

fn both_kinds<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Ud))?;
    a.send_cq.request_notify(Notify::Any)?;
    b.recv_cq.request_notify(Notify::Any)?;
    b.recv(0, 0..100)?;
    a.signaled(1, SendOp::Send, 0..8)?;
    lab.cq_event(0, &a.send_cq)?;
    lab.cq_event(1, &b.recv_cq)
}

fn solicited_only<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    a.send_cq.request_notify(Notify::Solicited)?;
    b.recv_cq.request_notify(Notify::Solicited)?;
    b.recv(0, 0..8)?;
    b.recv(1, 0..8)?;
    let imm = SendOp::WriteImm { addr: b.mr.iova(), rkey: b.mr.rkey(), imm: 1 };
    a.signaled(2, SendOp::Send, 0..8)?;
    a.signaled(3, imm, 0..8)?;
    lab.poll(&mut a.send_cq, 2)?;
    lab.poll(&mut b.recv_cq, 2)?;
    lab.no_event(1)?;
    // The sender's own completion is never solicited.
    b.recv(4, 0..8)?;
    a.send(5, SendOp::Send, 0..8, SendFlags::SIGNALED | SendFlags::SOLICITED)?;
    lab.cq_event(1, &b.recv_cq)?;
    lab.no_event(0)
}

fn solicited_bit<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    let (addr, rkey) = (b.mr.iova(), b.mr.rkey());
    for op in [SendOp::Send, SendOp::SendImm(3), SendOp::WriteImm { addr, rkey, imm: 1 }] {
        b.recv_cq.request_notify(Notify::Solicited)?;
        b.recv(1, 0..8)?;
        a.send(2, op, 0..8, SendFlags::SIGNALED | SendFlags::SOLICITED)?;
        lab.cq_event(1, &b.recv_cq)?;
        lab.one(&mut b.recv_cq)?;
        lab.one(&mut a.send_cq)?;
    }
    lab.no_event(1)
}

fn solicited_failure<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    a.send_cq.request_notify(Notify::Solicited)?;
    let beyond = SendOp::Write { addr: b.mr.iova() + b.mr.len() as u64, rkey: b.mr.rkey() };
    a.signaled(1, beyond, 0..8)?;
    lab.cq_event(0, &a.send_cq)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::RemoteAccess, "the status");
    Ok(())
}

fn widened<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    use Notify::{Any, Solicited};
    for requests in [&[Solicited, Any][..], &[Any, Solicited], &[Solicited, Any, Solicited, Solicited]] {
        for which in requests {
            a.send_cq.request_notify(*which)?;
        }
        a.signaled(1, b.write_here(0), 0..8)?;
        lab.cq_event(0, &a.send_cq)?;
        lab.one(&mut a.send_cq)?;
        // With its event it is over: solicited ones alone count again.
        a.send_cq.request_notify(Solicited)?;
        a.signaled(2, b.write_here(0), 0..8)?;
        lab.one(&mut a.send_cq)?;
        lab.no_event(0)?;
    }
    Ok(())
}

fn race<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    a.send_cq.request_notify(Notify::Any)?;
    let (mut posted, mut seen) = (0, 0);
    while seen < 200 {
        while posted < 200 && posted - seen < 4 {
            a.signaled(posted, b.write_here(0), 0..8)?;
            posted += 1;
        }
        lab.cq_event(0, &a.send_cq)?;
        a.send_cq.request_notify(Notify::Any)?;
        let mut some = [Completion::default(); 3];
        loop {
            let n = a.send_cq.poll(&mut some)?;
            for c in &some[..n] {
                ensure_eq!(c.wr_id, seen, "the id");
                seen += 1;
            }
            if n == 0 {
                break;
            }
        }
    }
    Ok(())
}

fn many<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc).cq(3))?;
    for id in 0..40 {
        a.send_cq.request_notify(Notify::Any)?;
        a.signaled(id, b.write_here(0), 0..8)?;
        lab.cq_event(0, &a.send_cq)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, id, "the id");
    }
    lab.no_event(0)
}

/// Longer than any message takes, and no longer than a period can be.
const LONG: Duration = Duration::from_millis(4);

fn by_count<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    let event = completion_event(&a.send_cq);
    a.send_cq.moderate(3, LONG)?;
    // Where the period passed meanwhile, on a busy host, nothing was seen: once more.
    let (mut fewer, mut enough) = (false, false);
    for _ in 0..100 {
        a.send_cq.request_notify(Notify::Any)?;
        let begun = lab.devices[0].now();
        let posted = if fewer { 3 } else { 2 };
        for id in 0..posted {
            a.signaled(id, b.write_here(0), 0..8)?;
        }
        if fewer {
            lab.event(0, event)?;
            enough = lab.devices[0].now() < begun + LONG;
        } else {
            lab.poll(&mut a.send_cq, 2)?;
            let looked = lab.devices[0].now();
            match lab.next_event(0)? {
                Some(early) => ensure!(looked >= begun + LONG, "{early:?} after 2 of 3"),
                None => {
                    fewer = looked < begun + LONG;
                    lab.event(0, event)?;
                }
            }
        }
        if enough {
            break;
        }
        while a.send_cq.poll(&mut [Completion::default(); 4])? > 0 {}
    }
    ensure!(enough, "the period passed each time");
    lab.poll(&mut a.send_cq, 3)?;
    // None of it: every completion counts again.
    a.send_cq.moderate(0, Duration::ZERO)?;
    a.send_cq.request_notify(Notify::Any)?;
    a.signaled(3, b.write_here(0), 0..8)?;
    lab.event(0, event)
}

fn by_time<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    a.send_cq.moderate(100, LONG)?;
    a.send_cq.request_notify(Notify::Any)?;
    let begun = lab.devices[0].now();
    a.signaled(0, b.write_here(0), 0..8)?;
    lab.cq_event(0, &a.send_cq)?;
    let took = lab.devices[0].now() - begun;
    ensure!(took >= LONG / 2, "the event came after {took:?} already");
    Ok(())
}
