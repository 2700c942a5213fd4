//! Making, destroying and resizing completion queues.

use super::{
    Case, Outcome,
    lab::{End, Lab, Setup, ids},
    may, must,
};
use alloc::vec::Vec;
use bareverbs::{
    Argument, Completion, CompletionQueue, CqInit, Destroy, Device, Error, Event, Handle, PollError, PostError,
    PostListError, QpCap, QpState, QpType, QueuePair, RecvWr, SendFlags, SendOp, SendWr,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    alloc::vec![
        must(
            "cq_holds_at_least_what_was_asked_for",
            "ibv_create_cq",
            "a CQ has at least the entries asked for, and tells how many",
            at_least
        ),
        must(
            "cq_holds_all_its_entries",
            "ibv_create_cq",
            "as many completions as the CQ tells stay unpolled, and come out in order",
            holds_all
        ),
        must(
            "cq_refuses_sizes_out_of_range",
            "ibv_create_cq",
            "0 entries, and more than the device has, are refused by the argument's name",
            bad_sizes
        ),
        must(
            "cq_refuses_vectors_out_of_range",
            "ibv_create_cq",
            "the completion vector is below the device's number of them",
            bad_vector
        ),
        must("cq_gives_its_context_back", "ibv_create_cq", "the user's context is the CQ's", context),
        must("cqs_have_numbers_of_their_own", "ibv_create_cq", "no two CQs of a device have the same number", numbers),
        may("cq_with_large_entries", "ibv_create_cq", "with 128-byte entries the CQ does the same", large_entries),
        must(
            "cq_destroy_refused_for_the_send_cq",
            "ibv_destroy_cq",
            "a CQ is not destroyed while a QP sends to it",
            destroy_send_cq
        ),
        must(
            "cq_destroy_refused_for_the_receive_cq",
            "ibv_destroy_cq",
            "a CQ is not destroyed while a QP receives to it; a QP that uses it for both is one",
            destroy_recv_cq
        ),
        must(
            "case_20_cq_destroyed_while_in_use",
            "report 20",
            "a refused destroy changes nothing: the CQ goes on, and goes once its QPs are gone",
            case_20
        ),
        may(
            "cq_resize_up",
            "ibv_resize_cq",
            "a CQ grows to at least the size asked for and tells the actual one",
            resize_up
        ),
        may(
            "cq_resize_keeps_unpolled",
            "ibv_resize_cq",
            "unpolled completions stay, in order, across a change up and down, at any place of the ring",
            resize_keeps
        ),
        may(
            "cq_resize_below_unpolled",
            "ibv_resize_cq",
            "a size below the number of unpolled completions is refused and nothing changes",
            resize_below
        ),
        may(
            "cq_resize_out_of_range",
            "ibv_resize_cq",
            "sizes that a CQ cannot have are refused by the argument's name",
            resize_range
        ),
        may(
            "cq_resize_in_traffic",
            "ibv_resize_cq",
            "no completion is lost, doubled or misplaced while messages go on",
            resize_in_traffic
        ),
        may(
            "cq_shrink_in_traffic",
            "ibv_resize_cq",
            "below what is on its way a CQ shrinks, or refuses by name; either way every completion comes, in order",
            shrink_in_traffic
        ),
        may(
            "cq_resize_within_its_size",
            "ibv_resize_cq",
            "a size between the unpolled entries and the present size is taken, and at least that is there",
            resize_within,
        ),
        may(
            "cq_holds_all_its_entries_after_a_resize",
            "ibv_resize_cq",
            "the size that a CQ tells after a resize, up or down, is what it holds unpolled, no CQ error comes",
            holds_all_resized,
        ),
        may(
            "case_04_shrinking_below_the_unpolled",
            "report 4",
            "6 of 7 unpolled: 1 is refused, 64 succeeds, the 6 and 6 more come in order",
            case_04
        ),
        must(
            "case_05_overrun",
            "report 5; ibv_poll_cq",
            "one CQ-error event; valid entries before it, the error by name after it; QPs reach ERR; both go",
            case_05
        )
        .provoking("overran"),
        must("cq_through_a_raw_pointer", "traits", "a CQ goes through a raw pointer and back unharmed", raw),
    ]
}

fn at_least<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for wanted in [1, 2, 3, 4, 7, 8, 100, 255, 256, 1000] {
        let cq = lab.cq(0, wanted)?;
        ensure!(cq.capacity() >= wanted, "{wanted} asked for, {} there", cq.capacity());
        cq.destroy()?;
    }
    Ok(())
}

/// A send CQ tells a size, as many completions as that stay unpolled, and come out in order.
fn holds<D: Device>(lab: &Lab<D>, a: &mut End<D>, b: &End<D>, n: u32) -> Outcome {
    ensure_eq!(a.send_cq.capacity(), n, "the same size asked for again");
    for id in 0..u64::from(n) {
        a.signaled(id, b.write_here(0), 0..8)?;
    }
    lab.settle();
    let done = lab.poll(&mut a.send_cq, n as usize)?;
    ensure_eq!(ids(&done), (0..u64::from(n)).collect::<Vec<_>>(), "the ids");
    lab.no_event(0)
}

fn holds_all<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for wanted in [1, 5, 8] {
        let n = lab.cq(0, wanted)?.capacity();
        let [mut a, b] = lab.pair(&Setup::of(QpType::Rc).depth(n.max(16)).cq(wanted))?;
        holds(lab, &mut a, &b, n)?;
    }
    Ok(())
}

fn bad_sizes<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let max = lab.devices[0].attributes().max_cqe;
    for entries in [0, max + 1, u32::MAX] {
        let result = lab.devices[0].create_cq(&CqInit { entries, ..CqInit::default() }).map(|_| ());
        let error = Error::OutOfRange { what: Argument::CqEntries, wanted: entries.into(), max: max.into() };
        ensure_eq!(result, Err(error), "{entries} entries");
    }
    Ok(())
}

fn bad_vector<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let vectors = lab.devices[0].attributes().num_comp_vectors;
    for comp_vector in 0..vectors {
        lab.devices[0].create_cq(&CqInit { entries: 1, comp_vector, ..CqInit::default() })?;
    }
    for comp_vector in [vectors, u32::MAX] {
        let result = lab.devices[0].create_cq(&CqInit { entries: 1, comp_vector, ..CqInit::default() }).map(|_| ());
        let (wanted, max) = (comp_vector.into(), u64::from(vectors) - 1);
        let error = Error::OutOfRange { what: Argument::CompVector, wanted, max };
        ensure_eq!(result, Err(error), "vector {comp_vector} of {vectors}");
    }
    Ok(())
}

fn context<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let context = 0xfedc_ba98_7654_3210;
    let cq = lab.devices[0].create_cq(&CqInit { entries: 4, context, ..CqInit::default() })?;
    ensure_eq!(cq.context(), context, "the context");
    Ok(())
}

fn numbers<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut cqs = Vec::new();
    for _ in 0..8 {
        cqs.push(lab.cq(0, 1)?);
    }
    for (n, cq) in cqs.iter().enumerate() {
        ensure!(cqs[..n].iter().all(|other| other.cqn() != cq.cqn()), "two CQs are {}", cq.cqn());
    }
    Ok(())
}

fn large_entries<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let init = CqInit { entries: 5, large_entries: true, ..CqInit::default() };
    let mut cq = lab.devices[0].create_cq(&init)?;
    let peer_cq = lab.cq(1, 15)?;
    let cap = Setup::of(QpType::Rc).cap;
    let mut qp = lab.qp(0, QpType::Rc, [&cq, &cq], None, cap)?;
    let mut peer = lab.qp(1, QpType::Rc, [&peer_cq, &peer_cq], None, cap)?;
    lab.connect(&mut qp, &mut peer)?;
    let (from, to) = (lab.mr(0, 64)?, lab.mr(1, 64)?);
    // Several laps.
    for id in 0..40 {
        use bareverbs::MemoryRegion;
        let op = SendOp::Write { addr: to.iova(), rkey: to.rkey() };
        qp.post_send([SendWr::new(op, &[from.sge(0..64)?]).wr_id(id).signaled()])?;
        ensure_eq!(lab.one(&mut cq)?.wr_id, id, "the id");
    }
    Ok(())
}

fn destroy_send_cq<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (send_cq, recv_cq) = (lab.cq(0, 4)?, lab.cq(0, 4)?);
    let qp = lab.qp(0, QpType::Rc, [&send_cq, &recv_cq], None, super::lab::CAP)?;
    let Err(refused) = send_cq.destroy() else { return Err(super::Stop::failed(format_args!("destroyed"), line!())) };
    ensure_eq!(refused.error, Error::Busy { holders: 1 }, "the error");
    qp.destroy()?;
    refused.handle.destroy()?;
    Ok(recv_cq.destroy()?)
}

fn destroy_recv_cq<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (send_cq, recv_cq) = (lab.cq(0, 4)?, lab.cq(0, 4)?);
    let one = lab.qp(0, QpType::Rc, [&send_cq, &recv_cq], None, super::lab::CAP)?;
    let two = lab.qp(0, QpType::Ud, [&recv_cq, &recv_cq], None, super::lab::CAP)?;
    let Err(refused) = recv_cq.destroy() else { return Err(super::Stop::failed(format_args!("destroyed"), line!())) };
    ensure_eq!(refused.error, Error::Busy { holders: 2 }, "the error");
    one.destroy()?;
    let Err(refused) = refused.handle.destroy() else {
        return Err(super::Stop::failed(format_args!("destroyed"), line!()));
    };
    ensure_eq!(refused.error, Error::Busy { holders: 1 }, "the error");
    drop(two);
    Ok(refused.handle.destroy()?)
}

fn case_20<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    let super::lab::End { qp, send_cq, recv_cq, mr, to } = b;
    let Err(refused) = recv_cq.destroy() else { return Err(super::Stop::failed(format_args!("destroyed"), line!())) };
    b = super::lab::End { qp, send_cq, recv_cq: refused.handle, mr, to };
    b.recv(7, 0..64)?;
    a.signaled(1, SendOp::Send, 0..64)?;
    ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, 7, "a receive after the refused destroy");
    b.qp.destroy()?;
    b.recv_cq.destroy()?;
    Ok(b.send_cq.destroy()?)
}

fn resize_up<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut cq = lab.cq(0, 1)?;
    for wanted in [2, 3, 7, 8, 64, 1000] {
        cq.resize(wanted)?;
        ensure!(cq.capacity() >= wanted, "{wanted} asked for, {} there", cq.capacity());
    }
    Ok(())
}

fn resize_keeps<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc).cq(7))?;
    let mut id = 0;
    // Each round begins one place further in the ring.
    for round in 0..12u64 {
        let unpolled = 1 + round % 5;
        for _ in 0..unpolled {
            a.signaled(id, b.write_here(0), 0..8)?;
            id += 1;
        }
        lab.settle();
        let to = [31, 5, 64, 7, 15][round as usize % 5];
        a.send_cq.resize(to)?;
        ensure!(a.send_cq.capacity() >= to, "{to} asked for, {} there", a.send_cq.capacity());
        a.signaled(id, b.write_here(0), 0..8)?;
        id += 1;
        let done = lab.poll(&mut a.send_cq, unpolled as usize + 1)?;
        ensure_eq!(ids(&done), (id - unpolled - 1..id).collect::<Vec<_>>(), "round {round}, resized to {to}");
    }
    lab.nothing(&mut a.send_cq)
}

fn resize_below<D: Device>(lab: &mut Lab<D>) -> Outcome {
    lab.cq(0, 1)?.resize(2)?;
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc).cq(15))?;
    let capacity = a.send_cq.capacity();
    for id in 0..9 {
        a.signaled(id, b.write_here(0), 0..8)?;
    }
    lab.settle();
    for entries in [1, 2, 4, 7, 8] {
        ensure_eq!(a.send_cq.resize(entries), Err(Error::BelowUnpolled { unpolled: 9 }), "resize({entries})");
        ensure_eq!(a.send_cq.capacity(), capacity, "the capacity");
    }
    ensure_eq!(ids(&lab.poll(&mut a.send_cq, 9)?), (0..9).collect::<Vec<_>>(), "the ids");
    Ok(())
}

fn resize_range<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut cq = lab.cq(0, 7)?;
    cq.resize(8)?;
    let max = lab.devices[0].attributes().max_cqe;
    for entries in [0, max + 1, u32::MAX] {
        let error = Error::OutOfRange { what: Argument::CqEntries, wanted: entries.into(), max: max.into() };
        ensure_eq!(cq.resize(entries), Err(error), "resize({entries})");
    }
    Ok(())
}

fn resize_in_traffic<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc).cq(15))?;
    let (mut posted, mut seen) = (0, 0);
    for round in 0..60u32 {
        while posted - seen < 12 {
            a.signaled(posted, b.write_here(0), 0..8)?;
            posted += 1;
        }
        // Some of them are on the wire now.
        a.send_cq.resize([15, 100, 31, 16, 50][round as usize % 5])?;
        let mut some = [Completion::default(); 5];
        let n = lab.wait("a completion", || Ok(Some(a.send_cq.poll(&mut some)?).filter(|n| *n > 0)))?;
        for c in &some[..n] {
            ensure_eq!(c.wr_id, seen, "the id in round {round}");
            seen += 1;
        }
    }
    let rest = lab.poll(&mut a.send_cq, (posted - seen) as usize)?;
    ensure_eq!(ids(&rest), (seen..posted).collect::<Vec<_>>(), "the rest");
    lab.nothing(&mut a.send_cq)
}

fn shrink_in_traffic<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc).cq(31))?;
    for round in 0..60u64 {
        // As many as the next ring in size holds.
        for id in 0..7 {
            a.signaled(id, b.write_here(0), 0..8)?;
        }
        lab.settle_for(core::time::Duration::from_micros(round));
        match a.send_cq.resize(4) {
            Ok(()) => ensure!(a.send_cq.capacity() >= 4, "{} entries", a.send_cq.capacity()),
            Err(Error::BelowUnpolled { unpolled }) => ensure!((5..=7).contains(&unpolled), "{unpolled} are unpolled"),
            Err(other) => return Err(other.into()),
        }
        ensure_eq!(ids(&lab.poll(&mut a.send_cq, 7)?), (0..7).collect::<Vec<_>>(), "round {round}");
        a.send_cq.resize(31)?;
    }
    lab.nothing(&mut a.send_cq)
}

fn resize_within<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc).cq(63))?;
    for id in 0..3 {
        a.signaled(id, b.write_here(0), 0..8)?;
    }
    lab.settle();
    for entries in [63, 40, 7, 3] {
        a.send_cq.resize(entries)?;
        ensure!(a.send_cq.capacity() >= entries, "{entries} asked for, {} there", a.send_cq.capacity());
    }
    ensure_eq!(ids(&lab.poll(&mut a.send_cq, 3)?), [0, 1, 2], "the entries");
    lab.nothing(&mut a.send_cq)
}

fn holds_all_resized<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut cq = lab.cq(0, 12)?;
    cq.resize(20)?;
    let (larger, smaller) = (cq.capacity(), {
        cq.resize(5)?;
        cq.capacity()
    });
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc).depth(larger.max(16)).cq(12))?;
    for (wanted, n) in [(20, larger), (5, smaller), (20, larger)] {
        a.send_cq.resize(wanted)?;
        holds(lab, &mut a, &b, n)?;
    }
    Ok(())
}

fn case_04<D: Device>(lab: &mut Lab<D>) -> Outcome {
    lab.cq(0, 1)?.resize(2)?;
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc).cq(7))?;
    for id in 0..6 {
        a.signaled(id, b.write_here(0), 0..8)?;
    }
    lab.settle();
    let before = a.send_cq.capacity();
    for entries in [1, 5] {
        ensure_eq!(a.send_cq.resize(entries), Err(Error::BelowUnpolled { unpolled: 6 }), "resize({entries})");
        ensure_eq!(a.send_cq.capacity(), before, "the capacity");
    }
    // As many as are unpolled fit.
    a.send_cq.resize(6)?;
    a.send_cq.resize(64)?;
    ensure!(a.send_cq.capacity() >= 64, "{} entries", a.send_cq.capacity());
    for id in 6..12 {
        a.signaled(id, b.write_here(0), 0..8)?;
    }
    ensure_eq!(ids(&lab.poll(&mut a.send_cq, 12)?), (0..12).collect::<Vec<_>>(), "the ids");
    lab.nothing(&mut a.send_cq)
}

fn case_05<D: Device>(lab: &mut Lab<D>) -> Outcome {
    // With and without polling before the event is read.
    for polled in [false, true] {
        let n = lab.cq(0, 4)?.capacity();
        let cap = QpCap { max_send_wr: 2 * n, ..super::lab::CAP };
        let [mut a, b] = lab.pair(&Setup { cap, ..Setup::of(QpType::Rc).cq(4) })?;
        // One that has nothing to complete.
        let mut idle = lab.qp(0, QpType::Rc, [&a.send_cq, &a.recv_cq], None, super::lab::CAP)?;
        let mut peer = lab.qp(1, QpType::Rc, [&b.send_cq, &b.recv_cq], None, super::lab::CAP)?;
        lab.connect(&mut idle, &mut peer)?;
        let resized = a.send_cq.resize(a.send_cq.capacity());
        let moderated = a.send_cq.moderate(0, core::time::Duration::ZERO);
        for id in 0..u64::from(2 * n) {
            a.signaled(id, b.write_here(0), 0..8)?;
        }
        lab.settle();
        if polled {
            let mut next = 0;
            let mut one = [Completion::default()];
            while let Ok(1) = a.send_cq.poll(&mut one) {
                ensure_eq!(one[0].wr_id, next, "an entry before the event");
                next += 1;
            }
            ensure!(next >= u64::from(n), "only {next} entries came out of a CQ of {n}");
        }
        lab.event(0, Event::CqError(a.send_cq.cqn()))?;
        for _ in 0..3 {
            let mut some = [Completion::default(); 4];
            ensure_eq!(a.send_cq.poll(&mut some), Err(PollError::CqError), "a poll after the event");
        }
        ensure_eq!(a.send_cq.request_notify(bareverbs::Notify::Any), Err(Error::CqError), "arming after the event");
        // What the device has at all fails by that name.
        let after = |before: Result<(), Error>| before.and(Err(Error::CqError));
        ensure_eq!(a.send_cq.resize(2 * n), after(resized), "resizing after the event");
        let now = a.send_cq.moderate(1, core::time::Duration::ZERO);
        ensure_eq!(now, after(moderated), "moderation after the event");
        let made = lab.qp(0, QpType::Rc, [&a.recv_cq, &a.send_cq], None, super::lab::CAP).map(|_| ());
        ensure_eq!(made, Err(Error::CqError.into()), "a new QP on it");
        for qp in [&mut a.qp, &mut idle] {
            ensure_eq!((qp.state(), qp.query()?.state), (QpState::Err, QpState::Err), "a QP's state");
            let error = PostListError { index: 0, error: PostError::CqError };
            ensure_eq!(qp.post_send([SendWr::new(SendOp::Send, &[])]), Err(error), "a send after the event");
            ensure_eq!(qp.post_send([SendWr::new(SendOp::Send, &[]); 2]), Err(error), "two sends");
            ensure_eq!(qp.post_recv([RecvWr::new(0, &[])]), Err(error), "a receive after the event");
        }
        lab.settle();
        while let Some(event) = lab.next_event(0)? {
            ensure!(!matches!(event, Event::CqError(_)), "a second {event:?}");
        }
        a.qp.destroy()?;
        idle.destroy()?;
        a.send_cq.destroy()?;
    }
    Ok(())
}

fn raw<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    a.send(5, b.write_here(0), 0..8, SendFlags::SIGNALED)?;
    let cqn = a.send_cq.cqn();
    let raw = a.send_cq.into_raw();
    // SAFETY: came from `into_raw` just now.
    let mut cq = unsafe { D::Cq::from_raw(raw) };
    ensure_eq!(cq.cqn(), cqn, "the number");
    ensure_eq!(lab.one(&mut cq)?.wr_id, 5, "the id");
    Ok(())
}
