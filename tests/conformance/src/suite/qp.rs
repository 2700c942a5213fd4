//! Making and destroying queue pairs.

use super::{
    Case, Outcome, Stop,
    lab::{CAP, Lab, Setup, ids},
    may, must,
};
use alloc::{vec, vec::Vec};
use bareverbs::{
    Argument, CompletionQueue, Destroy, Device, Error, Handle, Object, QpCap, QpInit, QpState, QpType, QueuePair,
    RecvWr, SendFlags, SendOp, SharedReceiveQueue,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        must(
            "qp_begins_in_reset",
            "ibv_create_qp",
            "a QP just made is in RESET and of the type asked for; its number is its own",
            begins,
        ),
        must(
            "qp_holds_at_least_what_was_asked_for",
            "ibv_create_qp",
            "sizes are at least those asked for, and told",
            at_least,
        ),
        must(
            "qp_refuses_sizes_out_of_range",
            "ibv_create_qp",
            "each size beyond the device's is refused by its name",
            bad_sizes,
        ),
        must(
            "qp_sizes_that_attributes_promise",
            "ibv_query_device",
            "the largest sizes that the device tells can be had, one by one",
            promised,
        ),
        must(
            "qp_refuses_foreign_objects",
            "ibv_create_qp",
            "protection domain, CQs and SRQ are those of the device",
            foreign,
        ),
        must(
            "qp_types_that_are_not_there",
            "ibv_create_qp",
            "a type that the device does not tell of is refused by name, one that it tells of is made",
            types,
        ),
        must("qp_without_a_send_queue", "ibv_create_qp", "sizes of 0 are queues that hold nothing", empty_queues),
        must("qp_gives_its_context_back", "ibv_create_qp", "the user's context is the QP's", context),
        must(
            "qp_signals_all_on_request",
            "ibv_create_qp",
            "with signal-all each request completes, else the signaled ones only",
            signal_all,
        ),
        must(
            "qp_destroyed_with_requests_outstanding",
            "ibv_destroy_qp",
            "a QP goes whatever is outstanding; nothing of it completes any more",
            outstanding,
        ),
        must("qp_destroy_leaves_others_alone", "ibv_destroy_qp", "QPs that share the CQs go on", others),
        must("qp_last_holder_frees", "traits", "a dropped CQ lives on as long as a QP uses it", dropped_cq),
        may("qp_uc_carries_messages", "IBA 9.8.3", "an unreliable connection sends and writes, in order", uc),
        may(
            "qp_uc_on_an_srq",
            "ibv_create_qp",
            "a UC QP receives from an SRQ, or the device refuses it by name (the manual page lets only RC and UD)",
            uc_srq,
        ),
        must("qp_through_a_raw_pointer", "traits", "a QP goes through a raw pointer and back unharmed", raw),
    ]
}

fn begins<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cq = lab.cq(0, 7)?;
    let mut qps: Vec<D::Qp> = Vec::new();
    for kind in [QpType::Rc, QpType::Ud, QpType::Rc] {
        let mut qp = lab.qp(0, kind, [&cq, &cq], None, CAP)?;
        ensure_eq!((qp.state(), qp.kind()), (QpState::Reset, kind), "state and type");
        ensure_eq!(qp.query()?.state, QpState::Reset, "the state that the device holds");
        ensure!(qp.qpn().get() > 1, "{} is a number of the management's", qp.qpn());
        ensure!(qps.iter().all(|other| other.qpn() != qp.qpn()), "two QPs are {}", qp.qpn());
        qps.push(qp);
    }
    Ok(())
}

fn at_least<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cq = lab.cq(0, 7)?;
    for kind in [QpType::Rc, QpType::Ud] {
        for (wr, sge, inline) in [(1, 1, 0), (3, 2, 1), (16, 4, 64), (100, 1, 200), (129, 3, 0)] {
            let cap =
                QpCap { max_send_wr: wr, max_recv_wr: wr, max_send_sge: sge, max_recv_sge: sge, max_inline: inline };
            let has = lab.qp(0, kind, [&cq, &cq], None, cap)?.cap();
            let enough = has.max_send_wr >= wr
                && has.max_recv_wr >= wr
                && has.max_send_sge >= sge
                && has.max_recv_sge >= sge
                && has.max_inline >= inline;
            ensure!(enough, "{kind:?}: {cap:?} asked for, {has:?} there");
        }
    }
    Ok(())
}

fn bad_sizes<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let attr = lab.devices[0].attributes();
    let wr = attr.max_qp_wr;
    let cq = lab.cq(0, 7)?;
    let wrong = [
        (QpCap { max_send_wr: wr + 1, ..CAP }, Argument::MaxSendWr),
        (QpCap { max_send_wr: u32::MAX, ..CAP }, Argument::MaxSendWr),
        (QpCap { max_recv_wr: wr + 1, ..CAP }, Argument::MaxRecvWr),
        (QpCap { max_recv_wr: u32::MAX, ..CAP }, Argument::MaxRecvWr),
        (QpCap { max_send_sge: u32::MAX, ..CAP }, Argument::MaxSendSge),
        (QpCap { max_recv_sge: u32::MAX, ..CAP }, Argument::MaxRecvSge),
        (QpCap { max_inline: u32::MAX, ..CAP }, Argument::MaxInline),
    ];
    for (cap, argument) in wrong {
        let init =
            QpInit { kind: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, cap, signal_all: false, context: 0 };
        let error = lab.devices[0].create_qp(&lab.pds[0], &init).map(|_| ());
        let named = matches!(error, Err(Error::OutOfRange { what, wanted, max }) if what == argument && wanted > max);
        ensure!(named, "{cap:?}: {error:?}, should name {argument:?}");
    }
    Ok(())
}

fn promised<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let attr = lab.devices[0].attributes();
    let cq = lab.cq(0, 7)?;
    let one = QpCap { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    type Set = fn(&mut QpCap) -> &mut u32;
    let sizes: [(Set, u32, Argument); 5] = [
        (|cap| &mut cap.max_send_wr, attr.max_qp_wr, Argument::MaxSendWr),
        (|cap| &mut cap.max_recv_wr, attr.max_qp_wr, Argument::MaxRecvWr),
        (|cap| &mut cap.max_send_sge, attr.max_sge, Argument::MaxSendSge),
        (|cap| &mut cap.max_recv_sge, attr.max_sge, Argument::MaxRecvSge),
        (|cap| &mut cap.max_inline, attr.max_inline, Argument::MaxInline),
    ];
    for (size, most, argument) in sizes {
        let (mut cap, init) = (one, |kind, cap| QpInit {
            kind,
            send_cq: &cq,
            recv_cq: &cq,
            srq: None,
            cap,
            signal_all: false,
            context: 0,
        });
        *size(&mut cap) = most;
        let mut made = lab.devices[0].create_qp(&lab.pds[0], &init(QpType::Rc, cap))?.cap();
        ensure!(*size(&mut made) >= most, "{argument:?} of RC: {} of {most}", size(&mut made));
        // The largest of each is told for the type that has the most room; of another its own largest can be had.
        let result = lab.devices[0].create_qp(&lab.pds[0], &init(QpType::Ud, cap));
        let (least, mut made) = match result.map(|qp| qp.cap()) {
            Ok(made) => (most, made),
            Err(Error::OutOfRange { what, wanted, max }) if what == argument && wanted == most.into() && max > 0 => {
                *size(&mut cap) = max as u32;
                (max as u32, lab.devices[0].create_qp(&lab.pds[0], &init(QpType::Ud, cap))?.cap())
            }
            Err(other) => return Err(other.into()),
        };
        ensure!(*size(&mut made) >= least, "{argument:?} of UD: {} of {least}", size(&mut made));
    }
    let (max_wr, max_sge) = (attr.max_srq_wr, attr.max_srq_sge);
    for (max_wr, max_sge) in [(max_wr, 1), (1, max_sge)] {
        lab.devices[0].create_srq(&lab.pds[0], bareverbs::SrqAttr { max_wr, max_sge, limit: 0 })?.destroy()?;
    }
    Ok(())
}

fn foreign<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cqs = [lab.cq(0, 7)?, lab.cq(1, 7)?];
    let srqs = [lab.srq(0, 7)?, lab.srq(1, 7)?];
    for (pd, send, recv, srq, object) in
        [(1, 0, 0, 0, Object::Pd), (0, 1, 0, 0, Object::Cq), (0, 0, 1, 0, Object::Cq), (0, 0, 0, 1, Object::Srq)]
    {
        let init = QpInit {
            kind: QpType::Rc,
            send_cq: &cqs[send],
            recv_cq: &cqs[recv],
            srq: Some(&srqs[srq]),
            cap: CAP,
            signal_all: false,
            context: 0,
        };
        let result = lab.devices[0].create_qp(&lab.pds[pd], &init).map(|_| ());
        ensure_eq!(result, Err(Error::Foreign(object)), "{object:?} of the other device");
    }
    Ok(())
}

fn types<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let attr = lab.devices[0].attributes();
    let cq = lab.cq(0, 7)?;
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcIni, QpType::XrcTgt, QpType::RawPacket] {
        match lab.qp_of_any_type(0, kind, &cq) {
            Ok(_) => ensure!(attr.has(kind), "{kind:?} was made, but the device does not tell of it"),
            Err(Stop::Unsupported(_)) => ensure!(!attr.has(kind), "the device tells of {kind:?}, but does not make it"),
            Err(other) => return Err(other),
        }
    }
    ensure!(attr.has(QpType::Rc) && attr.has(QpType::Ud), "every device has RC and UD");
    Ok(())
}

fn empty_queues<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let none = QpCap::default();
    let [mut a, mut b] =
        lab.pair(&Setup { cap: QpCap { max_recv_wr: 0, max_recv_sge: 0, ..CAP }, ..Setup::of(QpType::Rc) })?;
    ensure_eq!(a.qp.cap().max_recv_wr, 0, "receive requests");
    a.signaled(1, b.write_here(0), 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, 1, "a write");
    let full = bareverbs::PostError::QueueFull;
    ensure_eq!(b.qp.push_recv(&RecvWr::new(0, &[])), Err(full), "a receive");
    let cq = lab.cq(0, 7)?;
    let qp = lab.qp(0, QpType::Rc, [&cq, &cq], None, none)?;
    ensure_eq!((qp.cap().max_send_wr, qp.cap().max_recv_wr), (0, 0), "requests");
    Ok(())
}

fn context<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (cq, context) = (lab.cq(0, 7)?, 0x0123_4567_89ab_cdef);
    let init = QpInit { kind: QpType::Ud, send_cq: &cq, recv_cq: &cq, srq: None, cap: CAP, signal_all: false, context };
    ensure_eq!(lab.devices[0].create_qp(&lab.pds[0], &init)?.context(), context, "the context");
    Ok(())
}

fn signal_all<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for signal_all in [false, true] {
        let [mut a, b] = lab.pair(&Setup { signal_all, ..Setup::of(QpType::Rc) })?;
        for id in 0..6 {
            let flags = if id % 3 == 1 { SendFlags::SIGNALED } else { SendFlags::empty() };
            a.send(id, b.write_here(0), 0..8, flags)?;
        }
        let expected: Vec<u64> = if signal_all { (0..6).collect() } else { vec![1, 4] };
        ensure_eq!(ids(&lab.poll(&mut a.send_cq, expected.len())?), expected, "signal all {signal_all}");
        lab.nothing(&mut a.send_cq)?;
    }
    Ok(())
}

fn outstanding<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    for id in 0..8 {
        b.recv(id, 0..64)?;
        a.signaled(id, b.write_here(0), 0..4096)?;
    }
    a.qp.destroy()?;
    b.qp.destroy()?;
    lab.nothing(&mut a.send_cq)?;
    lab.nothing(&mut b.recv_cq)?;
    a.send_cq.destroy()?;
    Ok(b.recv_cq.destroy()?)
}

fn others<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    for id in 0..10 {
        let other = lab.qp(0, QpType::Rc, [&a.send_cq, &a.recv_cq], None, CAP)?;
        a.signaled(id, b.write_here(0), 0..8)?;
        other.destroy()?;
        ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, id, "the id");
    }
    Ok(())
}

fn dropped_cq<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    drop(a.recv_cq);
    drop(b.send_cq);
    let sges = [bareverbs::MemoryRegion::sge(&a.mr, 0..8)?];
    let op = SendOp::Write { addr: bareverbs::MemoryRegion::iova(&b.mr), rkey: bareverbs::MemoryRegion::rkey(&b.mr) };
    a.qp.post_send([bareverbs::SendWr::new(op, &sges).wr_id(4).signaled()])?;
    ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, 4, "the id");
    a.qp.destroy()?;
    Ok(b.qp.destroy()?)
}

fn uc<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Uc))?;
    for id in 0..6 {
        b.recv(id, 8192..8192 + 4000)?;
    }
    for n in 0..6 {
        a.signaled(2 * n, SendOp::SendImm(n as u32), 0..4000)?;
        a.signaled(2 * n + 1, b.write_here(0), 0..4000)?;
    }
    ensure_eq!(ids(&lab.poll(&mut a.send_cq, 12)?), (0..12).collect::<Vec<_>>(), "sends");
    let got = lab.poll(&mut b.recv_cq, 6)?;
    ensure_eq!(ids(&got), (0..6).collect::<Vec<_>>(), "receives");
    let imm: Vec<_> = got.iter().filter_map(|c| c.immediate()).collect();
    ensure_eq!(imm, (0..6).collect::<Vec<u32>>(), "immediate data");
    Ok(())
}

fn uc_srq<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut srq, mut cq) = (lab.srq(1, 7)?, lab.cq(1, 7)?);
    let mut receiver = lab.qp(1, QpType::Uc, [&cq, &cq], Some(&srq), CAP)?;
    let mut a = lab.end(0, &Setup::of(QpType::Uc))?;
    let mr = lab.mr(1, 4096)?;
    lab.connect(&mut a.qp, &mut receiver)?;
    srq.post([RecvWr::new(6, &[bareverbs::MemoryRegion::sge(&mr, 0..64)?])])?;
    a.signaled(1, SendOp::Send, 0..64)?;
    ensure_eq!(lab.one(&mut cq)?.wr_id, 6, "the receive");
    Ok(())
}

fn raw<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    let qpn = a.qp.qpn();
    let raw = a.qp.into_raw();
    // SAFETY: came from `into_raw` just now.
    let qp = unsafe { D::Qp::from_raw(raw) };
    ensure_eq!((qp.qpn(), qp.state()), (qpn, QpState::Rts), "number and state");
    let mut a = super::lab::End { qp, ..a };
    a.signaled(1, b.write_here(0), 0..8)?;
    ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, 1, "the id");
    ensure!(a.send_cq.capacity() >= 1, "a CQ");
    Ok(())
}
