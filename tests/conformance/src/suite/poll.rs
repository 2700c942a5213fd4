//! Polling: batches and views.

use super::{
    Case, Outcome,
    lab::{CAP, GRH, Lab, Setup, ids},
    may, must,
};
use alloc::{vec, vec::Vec};
use bareverbs::{
    Completion, CompletionQueue, CompletionView, Destroy, Device, LinkLayer, MemoryRegion, PostError, QpCap, QpType,
    QueuePair, SendFlags, SendOp, SendWr, WcFlags, WcOpcode, WcStatus,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    alloc::vec![
        must("poll_of_an_empty_cq_is_0", "ibv_poll_cq", "a poll that finds nothing returns 0", empty),
        must(
            "poll_takes_the_first_n",
            "ibv_poll_cq",
            "a poll returns the first entries, as many as asked for or as there are",
            first_n
        ),
        must("poll_takes_each_once", "ibv_poll_cq", "a polled completion is gone from the CQ", once),
        must(
            "poll_tells_who_and_what",
            "ibv_poll_cq",
            "wr_id, status, opcode, byte_len, immediate data, QP number and flags of each operation",
            fields
        ),
        must(
            "poll_tells_the_sender_of_a_datagram",
            "ibv_poll_cq",
            "a datagram's completion names the sending QP; the GRH takes 40 bytes",
            datagram
        ),
        must(
            "poll_tells_of_failures",
            "ibv_poll_cq",
            "a failed request's wr_id, status, QP number and vendor syndrome are valid",
            failure
        ),
        must(
            "poll_keeps_the_order_of_a_queue",
            "IBA 10.8.5",
            "completions of one queue come in the order of posting",
            order
        ),
        must(
            "case_01_after_the_first_lap",
            "report 1",
            "13 messages through a CQ of 4: each polled once, in order, nothing in between, no CQ error",
            case_01
        ),
        may(
            "poll_tells_the_time",
            "ibv_create_cq_ex; ibv_query_device_ex",
            "a view tells when the device wrote each entry, in ticks of the frequency that it tells, never backwards",
            timestamps
        ),
        must("case_02_a_fresh_cq_is_empty", "report 2", "1,000 polls of a CQ just made return 0", case_02),
        must(
            "case_03_completions_of_a_dead_qp",
            "report 3",
            "two QPs' completions lie in a CQ, one QP goes: exactly the other's come, in order",
            case_03
        ),
        must(
            "case_06_iterator_end",
            "report 6",
            "a view takes one completion and ends; the CQ is empty then; 3 laps of that",
            case_06
        ),
        must(
            "case_07_bounded_polls",
            "report 7",
            "with bursts of 64 and polls of 8 no completion is lost or doubled, no poll returns more",
            case_07
        ),
        must(
            "case_09_one_signaled_completion_frees_the_unsignaled",
            "report 9; ibv_post_send",
            "one signaled completion frees the slots of all before it; without any the queue stays full",
            case_09
        ),
        must("case_09_past_16_bits", "report 9", "every 4th signaled, past 65,536 requests", case_09_long),
        must(
            "case_90_destroyed_under_an_open_view",
            "report 90",
            "a QP goes while a view is open: the view goes on with the other QP's completions only",
            case_90
        ),
        must(
            "view_and_poll_share_one_index",
            "ibv_start_poll",
            "entries that a view took are not polled again, and the other way round",
            shared_index
        ),
        must("view_tells_what_poll_tells", "ibv_start_poll", "a view shows the same fields as a poll", view_fields),
    ]
}

fn empty<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut cq = lab.cq(0, 4)?;
    ensure_eq!(cq.poll(&mut [Completion::default(); 3]), Ok(0), "a poll of 3");
    ensure_eq!(cq.poll(&mut []), Ok(0), "a poll of none");
    ensure_eq!(cq.view().advance(), Ok(false), "a view");
    Ok(())
}

fn first_n<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    for id in 0..7 {
        a.signaled(id, b.write_here(0), 0..8)?;
    }
    lab.settle();
    let mut some = [Completion::default(); 5];
    ensure_eq!(a.send_cq.poll(&mut []), Ok(0), "a poll of none");
    ensure_eq!(a.send_cq.poll(&mut some[..3]), Ok(3), "a poll of 3");
    ensure_eq!(ids(&some[..3]), [0, 1, 2], "the first three");
    ensure_eq!(a.send_cq.poll(&mut some), Ok(4), "a poll of 5 where 4 are left");
    ensure_eq!(ids(&some[..4]), [3, 4, 5, 6], "the others");
    Ok(())
}

fn once<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    for id in 0..3 {
        a.signaled(id, b.write_here(0), 0..8)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, id, "the id");
        lab.nothing(&mut a.send_cq)?;
    }
    Ok(())
}

fn fields<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    let (addr, rkey) = (b.mr.iova(), b.mr.rkey());
    let mut ops = vec![
        (SendOp::Send, WcOpcode::Send, Some((WcOpcode::Recv, None))),
        (SendOp::SendImm(0x1234_5678), WcOpcode::Send, Some((WcOpcode::Recv, Some(0x1234_5678)))),
        (SendOp::Write { addr, rkey }, WcOpcode::Write, None),
        (
            SendOp::WriteImm { addr, rkey, imm: 0x90ab_cdef },
            WcOpcode::Write,
            Some((WcOpcode::RecvWriteImm, Some(0x90ab_cdef))),
        ),
        (SendOp::Read { addr, rkey }, WcOpcode::Read, None),
    ];
    if lab.devices[0].attributes().atomics {
        ops.push((SendOp::CompareSwap { addr, rkey, compare: 0, swap: 1 }, WcOpcode::CompareSwap, None));
        ops.push((SendOp::FetchAdd { addr, rkey, add: 1 }, WcOpcode::FetchAdd, None));
    }
    for (n, (op, opcode, received)) in ops.into_iter().enumerate() {
        let (id, atomic) = (n as u64, matches!(opcode, WcOpcode::CompareSwap | WcOpcode::FetchAdd));
        let len = if atomic { 8 } else { 1000 };
        if received.is_some() {
            b.recv(1 << 40 | id, 4096..8192)?;
        }
        a.signaled(id, op, 0..len)?;
        let done = lab.one(&mut a.send_cq)?;
        ensure_eq!((done.wr_id, done.status, done.opcode), (id, WcStatus::Success, opcode), "{op:?}");
        ensure_eq!(done.qpn, a.qp.qpn(), "QP number of {op:?}");
        if matches!(opcode, WcOpcode::Read) || atomic {
            ensure_eq!(done.byte_len as usize, len, "bytes of {op:?}");
        }
        if let Some((opcode, imm)) = received {
            let done = lab.one(&mut b.recv_cq)?;
            ensure_eq!((done.wr_id, done.status, done.opcode), (1 << 40 | id, WcStatus::Success, opcode), "{op:?}");
            ensure_eq!((done.qpn, done.byte_len), (b.qp.qpn(), 1000), "QP number and bytes of {op:?}");
            ensure_eq!(done.immediate(), imm, "immediate data of {op:?}");
            ensure_eq!(done.invalidated(), None, "key of {op:?}");
        }
    }
    Ok(())
}

fn datagram<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Ud))?;
    a.mr.write(0, &[0x5a; 100])?;
    b.recv(1, 0..GRH + 100)?;
    a.signaled(2, SendOp::SendImm(0xabcd), 0..100)?;
    let sent = lab.one(&mut a.send_cq)?;
    ensure_eq!((sent.wr_id, sent.status, sent.opcode), (2, WcStatus::Success, WcOpcode::Send), "the send");
    let done = lab.one(&mut b.recv_cq)?;
    ensure_eq!((done.wr_id, done.status, done.opcode), (1, WcStatus::Success, WcOpcode::Recv), "the receive");
    ensure_eq!((done.qpn, done.src_qp), (b.qp.qpn(), a.qp.qpn()), "own and sending QP");
    ensure_eq!((done.byte_len as usize, done.immediate()), (GRH + 100, Some(0xabcd)), "bytes and immediate data");
    let port = lab.devices[0].query_port(crate::connect::PORT)?;
    if port.link_layer == LinkLayer::InfiniBand {
        ensure_eq!(done.slid, port.lid, "the sender's LID");
    } else {
        ensure!(done.flags.contains(WcFlags::GRH), "RoCE datagrams carry a GRH: {:?}", done.flags);
    }
    ensure_eq!(b.bytes(GRH..GRH + 100)?, [0x5a; 100], "the data behind the GRH");
    Ok(())
}

fn failure<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    // Unsignaled: failures complete all the same.
    let beyond = SendOp::Write { addr: b.mr.iova() + b.mr.len() as u64, rkey: b.mr.rkey() };
    a.send(9, beyond, 0..8, SendFlags::empty())?;
    let done = lab.one(&mut a.send_cq)?;
    ensure_eq!((done.wr_id, done.status, done.qpn), (9, WcStatus::RemoteAccess, a.qp.qpn()), "the failed write");
    Ok(())
}

fn order<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    let read = SendOp::Read { addr: b.mr.iova(), rkey: b.mr.rkey() };
    for id in 0..4 {
        b.recv(100 + id, 8192..8192 + 64)?;
    }
    for n in 0..4 {
        a.signaled(4 * n, read, 0..5000)?;
        a.signaled(4 * n + 1, b.write_here(0), 0..8)?;
        a.signaled(4 * n + 2, SendOp::Send, 0..8)?;
        a.signaled(4 * n + 3, b.write_here(0), 0..3000)?;
    }
    ensure_eq!(ids(&lab.poll(&mut a.send_cq, 16)?), (0..16).collect::<Vec<_>>(), "sends");
    ensure_eq!(ids(&lab.poll(&mut b.recv_cq, 4)?), (100..104).collect::<Vec<_>>(), "receives");
    Ok(())
}

fn case_01<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc).cq(3))?;
    for id in 0..13 {
        b.recv(id, 0..64)?;
    }
    for id in 0..13 {
        a.signaled(100 + id, SendOp::Send, 0..64)?;
        ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, id, "the receive");
        ensure_eq!(b.recv_cq.poll(&mut [Completion::default()]), Ok(0), "a poll in between");
        ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, 100 + id, "the send");
    }
    lab.no_event(0)?;
    lab.no_event(1)
}

fn case_02<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for entries in [1, 7, 255] {
        let mut cq = lab.cq(0, entries)?;
        let mut some = [Completion::default(); 4];
        for n in 0..1000 {
            ensure_eq!(cq.poll(&mut some), Ok(0), "poll {n} of a CQ of {entries}");
        }
    }
    Ok(())
}

fn case_03<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut cq, peer_cq) = (lab.cq(0, 31)?, lab.cq(1, 31)?);
    let (from, to) = (lab.mr(0, 64)?, lab.mr(1, 64)?);
    let sges = [from.sge(0..64)?];
    let write = SendOp::Write { addr: to.iova(), rkey: to.rkey() };
    let qp = |peer: &mut Vec<D::Qp>| {
        let mut qp = lab.qp(0, QpType::Rc, [&cq, &cq], None, CAP)?;
        let mut other = lab.qp(1, QpType::Rc, [&peer_cq, &peer_cq], None, CAP)?;
        lab.connect(&mut qp, &mut other)?;
        peer.push(other);
        Ok::<_, super::Stop>(qp)
    };
    let mut peers = Vec::new();
    let (mut a, mut b) = (qp(&mut peers)?, qp(&mut peers)?);
    for id in [0, 1, 10, 2, 11, 3] {
        let sender = if id < 10 { &mut a } else { &mut b };
        sender.post_send([SendWr::new(write, &sges).wr_id(id).signaled()])?;
        lab.settle();
    }
    a.destroy()?;
    let mut c = qp(&mut peers)?;
    ensure_eq!(ids(&lab.poll(&mut cq, 2)?), [10, 11], "what is left of the two QPs");
    lab.nothing(&mut cq)?;
    c.post_send([SendWr::new(write, &sges).wr_id(20).signaled()])?;
    let done = lab.one(&mut cq)?;
    ensure_eq!((done.wr_id, done.qpn), (20, c.qpn()), "the new QP's");
    lab.nothing(&mut cq)
}

fn case_06<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc).cq(4))?;
    for id in 0..u64::from(3 * (a.send_cq.capacity() + 1)) {
        a.signaled(id, b.write_here(0), 0..8)?;
        lab.settle();
        let mut view = a.send_cq.view();
        ensure_eq!(view.advance(), Ok(true), "the first step");
        ensure_eq!(view.wr_id(), id, "the id");
        ensure_eq!(view.advance(), Ok(false), "the second step");
        drop(view);
        ensure_eq!(a.send_cq.poll(&mut [Completion::default(); 2]), Ok(0), "a poll behind the view");
    }
    Ok(())
}

fn case_07<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let rounds = 100_000u64.div_ceil(64);
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc).depth(64).cq(64))?;
    let sges = [a.mr.sge(0..8)?];
    let write = b.write_here(0);
    let (mut posted, mut seen) = (0u64, 0u64);
    while seen < rounds * 64 {
        if posted == seen && posted < rounds * 64 {
            let burst = (posted..posted + 64).map(|id| SendWr::new(write, &sges).wr_id(id).signaled());
            a.qp.post_send(burst)?;
            posted += 64;
        }
        let mut some = [Completion::default(); 8];
        let n = lab.wait("a completion", || Ok(Some(a.send_cq.poll(&mut some)?).filter(|n| *n > 0)))?;
        ensure!(n <= 8, "{n} completions in a poll of 8");
        for c in &some[..n] {
            ensure_eq!((c.wr_id, c.status), (seen, WcStatus::Success), "the next completion");
            seen += 1;
        }
    }
    lab.nothing(&mut a.send_cq)
}

fn case_09<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    let n = u64::from(a.qp.cap().max_send_wr);
    for round in 0..3 {
        for id in 0..n {
            let flags = if id == n - 1 { SendFlags::SIGNALED } else { SendFlags::empty() };
            a.send(round << 32 | id, b.write_here(0), 0..8, flags)?;
        }
        ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, round << 32 | (n - 1), "the one completion");
        lab.nothing(&mut a.send_cq)?;
    }
    // Never signaled: full, for good.
    for id in 0..n {
        a.send(id, b.write_here(0), 0..8, SendFlags::empty())?;
    }
    lab.settle();
    let sges = [a.mr.sge(0..8)?];
    let full = a.qp.push_send(&SendWr::new(b.write_here(0), &sges));
    ensure_eq!(full, Err(PostError::QueueFull), "one request more");
    Ok(())
}

fn case_09_long<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cap = QpCap { max_inline: 8, ..CAP };
    let [mut a, b] = lab.pair(&Setup { cap, ..Setup::of(QpType::Rc) })?;
    let write = b.write_here(0);
    for n in 0..200_000u64 / 4 {
        let data = n.to_le_bytes();
        let four = (0..4).map(|i| {
            let wr = SendWr::inline(write, &data).wr_id(4 * n + i);
            if i == 3 { wr.signaled() } else { wr }
        });
        a.qp.post_send(four)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, 4 * n + 3, "the signaled one");
    }
    lab.nothing(&mut a.send_cq)
}

fn case_90<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut cq, peer_cq) = (lab.cq(0, 15)?, lab.cq(1, 15)?);
    let (from, to) = (lab.mr(0, 64)?, lab.mr(1, 64)?);
    let mut qps = Vec::new();
    let mut peers = Vec::new();
    for _ in 0..2 {
        let mut qp = lab.qp(0, QpType::Rc, [&cq, &cq], None, CAP)?;
        let mut peer = lab.qp(1, QpType::Rc, [&peer_cq, &peer_cq], None, CAP)?;
        lab.connect(&mut qp, &mut peer)?;
        qps.push(qp);
        peers.push(peer);
    }
    let sges = [from.sge(0..64)?];
    let write = SendOp::Write { addr: to.iova(), rkey: to.rkey() };
    for (id, sender) in [(0, 0), (1, 0), (10, 1), (2, 0)] {
        qps[sender].post_send([SendWr::new(write, &sges).wr_id(id).signaled()])?;
        lab.settle();
    }
    let mut view = cq.view();
    ensure_eq!(view.advance(), Ok(true), "the first step");
    ensure_eq!(view.wr_id(), 0, "the first id");
    qps.remove(0).destroy()?;
    ensure_eq!(view.advance(), Ok(true), "the second step");
    ensure_eq!((view.wr_id(), view.qpn()), (10, qps[0].qpn()), "what comes after the destroy");
    ensure_eq!(view.advance(), Ok(false), "the third step");
    drop(view);
    lab.nothing(&mut cq)
}

fn shared_index<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc).cq(7))?;
    let mut next = 0;
    for round in 0..8 {
        for id in next..next + 5 {
            a.signaled(id, b.write_here(0), 0..8)?;
        }
        lab.settle();
        let mut some = [Completion::default(); 2];
        ensure_eq!(a.send_cq.poll(&mut some[..1]), Ok(1), "a poll of 1");
        let mut view = a.send_cq.view();
        ensure_eq!(view.advance(), Ok(true), "a step");
        ensure_eq!(view.advance(), Ok(true), "another step");
        let seen = [some[0].wr_id, next + 1, view.wr_id()];
        drop(view);
        ensure_eq!(seen, [next, next + 1, next + 2], "round {round}");
        ensure_eq!(a.send_cq.poll(&mut some), Ok(2), "a poll of the rest");
        ensure_eq!(ids(&some), [next + 3, next + 4], "the rest");
        ensure_eq!(a.send_cq.view().advance(), Ok(false), "a view of nothing");
        next += 5;
    }
    Ok(())
}

fn view_fields<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for kind in [QpType::Rc, QpType::Ud] {
        let [mut a, mut b] = lab.pair(&Setup::of(kind))?;
        for id in 0..2 {
            b.recv(id, 0..1024)?;
            a.signaled(id, SendOp::SendImm(77), 0..100)?;
        }
        let _sent = lab.poll(&mut a.send_cq, 2)?;
        lab.settle();
        let polled = lab.one(&mut b.recv_cq)?;
        let mut view = b.recv_cq.view();
        ensure_eq!(view.advance(), Ok(true), "a step");
        let all = view.completion();
        let same = Completion { wr_id: 1, ..polled };
        ensure_eq!(all, same, "the second message's completion of {kind:?}");
        let parts = (view.wr_id(), view.status(), view.opcode(), view.byte_len(), view.flags(), view.imm());
        let expected = (1, all.status, all.opcode, all.byte_len, all.flags, all.imm);
        ensure_eq!(parts, expected, "the view's fields of {kind:?}");
        ensure_eq!((view.qpn(), view.src_qp(), view.vendor_err()), (all.qpn, all.src_qp, 0), "QPs of {kind:?}");
        drop(view);
    }
    Ok(())
}

fn timestamps<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    let khz = lab.devices[0].attributes().core_clock_khz;
    let mut last = 0;
    for round in 0..4 {
        for id in 0..5 {
            a.signaled(id, b.write_here(0), 0..8)?;
        }
        lab.settle();
        let mut view = a.send_cq.view();
        let mut first = true;
        while view.advance()? {
            let now = view.timestamp();
            if khz == 0 {
                ensure_eq!(now, 0, "a time of a device that tells no frequency");
                continue;
            }
            ensure!(now != 0 && now >= last, "{now} after {last} in round {round}");
            // Nothing came while we waited between the rounds.
            ensure!(!first || now > last, "round {round} begins at {now}, as the one before ended");
            (first, last) = (false, now);
        }
    }
    if khz == 0 { Err(super::Stop::Unsupported("time stamps")) } else { Ok(()) }
}
