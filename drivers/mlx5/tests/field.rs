//! Cases from the field that need to look into the device, or to hold its wire.

mod bench;

use bareverbs::*;
use bareverbs_harness::{AccessKind, Verdict};
use bareverbs_mlx5_prm::context::qpc;
use bench::pair::*;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

const SEED: u64 = 0x6669_656c;

/// What the watched memory holds now: the model looks while it works on a command.
fn watched(node: &Node) -> [u8; 8] {
    node.device.query_port(PORT).unwrap();
    node.model.watched()
}

/// What the driver tells the device of its consumer, with the numbers of the report.
#[test]
fn case_01_after_the_first_lap() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (ca, mut cb) = (pair.a.cq(31), pair.b.cq(3));
    let record = pair.b.model.with(|hca| {
        let cq = &hca.cqs[&cb.cqn().get()];
        assert_eq!((cq.log_size, cq.overrun_ignore), (2, false), "a ring of 4 entries");
        cq.dbr
    });
    let (mut qa, mut qb) = connected(&pair, &ca, &cb, None, CAP);
    pair.b.model.watch(Some(record));
    qb.post_recv((0..13).map(|id| RecvWr::new(id, &[]))).unwrap();
    for id in 0..13 {
        qa.post_send([SendWr::new(SendOp::Send, &[])]).unwrap();
        assert_eq!(poll(&pair.b.device, &mut cb, 1)[0].wr_id, id);
        assert_eq!(cb.poll(&mut [Completion::default()]), Ok(0), "a poll in between");
        assert_eq!(watched(&pair.b)[..4], [0, 0, 0, id as u8 + 1], "the consumer record");
    }
    pair.b.model.watch(None);
    while let Some(event) = pair.b.device.service().unwrap() {
        assert!(matches!(event, Event::PortActive(_) | Event::CommunicationEstablished(_)), "{event:?}");
    }
    drop((qa, qb, ca, cb));
    pair.close();
}

/// A new QP gets the number of one that was destroyed with completions unpolled.
#[test]
fn case_03_completions_of_a_dead_qp() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (mut ca, cb) = (pair.a.cq(31), pair.b.cq(31));
    let (from, to) = (pair.a.mr(64), pair.b.mr(64));
    let (sges, write) = ([from.sge(0..64).unwrap()], SendOp::Write { addr: to.iova(), rkey: to.rkey() });
    let (mut a, pa) = connected(&pair, &ca, &cb, None, CAP);
    let (mut b, pb) = connected(&pair, &ca, &cb, None, CAP);
    for id in [0, 1, 10, 2, 11, 3] {
        let qp = if id < 10 { &mut a } else { &mut b };
        qp.post_send([SendWr::new(write, &sges).wr_id(id).signaled()]).unwrap();
        settle(&pair.a.device);
    }
    let number = a.qpn();
    a.destroy().unwrap();
    pair.a.model.with(|hca| hca.numbers.qp.rewind(number.get()));
    let (mut c, pc) = connected(&pair, &ca, &cb, None, CAP);
    assert_eq!(c.qpn(), number, "the number is used again");
    let ids: Vec<_> = poll(&pair.a.device, &mut ca, 2).iter().map(|c| c.wr_id).collect();
    assert_eq!(ids, [10, 11]);
    assert_silent(&pair.a.device, &mut ca);
    c.post_send([SendWr::new(write, &sges).wr_id(20).signaled()]).unwrap();
    assert_eq!(poll(&pair.a.device, &mut ca, 1)[0].wr_id, 20);
    drop((b, c, pa, pb, pc, ca, cb, from, to));
    pair.close();
}

/// Events of the dead are nobody's: neither a CQ nor a QP inherits what happened to the one before it.
#[test]
fn case_03_events_of_the_dead() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let cb = pair.b.cq(31);
    let (from, to) = (pair.a.mr(64), pair.b.mr(64));
    let sges = [from.sge(0..64).unwrap()];
    let write = SendOp::Write { addr: to.iova(), rkey: to.rkey() };
    // Overrun a CQ, tell nobody, destroy it; and let a peer break the rules of a QP that is destroyed then.
    let small = pair.a.cq(1);
    let cqn = small.cqn();
    let (mut a, pa) = connected(&pair, &small, &cb, None, CAP);
    a.post_send((0..8).map(|id| SendWr::new(write, &sges).wr_id(id).signaled())).unwrap();
    let ca = pair.a.cq(31);
    let (mut b, pb) = connected(&pair, &ca, &cb, None, CAP);
    let beyond = SendOp::Write { addr: to.iova() + 1, rkey: to.rkey() };
    b.post_send([SendWr::new(beyond, &sges)]).unwrap();
    settle(&pair.a.device);
    let (broken, victim) = (a.qpn(), pb.qpn());
    a.destroy().unwrap();
    small.destroy().unwrap();
    pb.destroy().unwrap();
    pair.a.model.with(|hca| {
        hca.numbers.cq.rewind(cqn.get());
        hca.numbers.qp.rewind(broken.get());
    });
    pair.b.model.with(|hca| hca.numbers.qp.rewind(victim.get()));
    let mut heir = pair.a.cq(31);
    let (mut c, pc) = connected(&pair, &heir, &cb, None, CAP);
    assert_eq!((heir.cqn(), c.qpn(), pc.qpn()), (cqn, broken, victim), "the numbers are used again");
    for device in [&pair.a.device, &pair.b.device] {
        while let Some(event) = device.service().unwrap() {
            assert!(matches!(event, Event::PortActive(_)), "{event:?}");
        }
    }
    assert_eq!((c.state(), pc.state()), (QpState::Rts, QpState::Rts));
    c.post_send([SendWr::new(write, &sges).wr_id(5).signaled()]).unwrap();
    assert_eq!(poll(&pair.a.device, &mut heir, 1)[0].wr_id, 5);
    drop((b, c, pa, pc, ca, cb, heir, from, to));
    // The overrun was on purpose.
    assert_eq!(pair.a.model.report().violations.len(), 1);
}

#[test]
fn case_23_out_of_order() {
    const BYTES: usize = 3 * 1024;
    let pair = Pair::new(Link::InfiniBand, SEED);
    let hold = Arc::new(AtomicBool::new(true));
    let held = hold.clone();
    // The second and third packet of a message: BTH opcodes "SEND middle" and "SEND last" of RC, behind the LRH.
    pair.world.set_filter(Some(Box::new(move |_, frame| {
        let middle_or_last = frame.get(8).is_some_and(|opcode| matches!(opcode, 1 | 2));
        if held.load(Relaxed) && middle_or_last { Verdict::Drop } else { Verdict::Pass }
    })));
    let (ca, mut cb) = (pair.a.cq(31), pair.b.cq(31));
    let init = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
    let mut srq = pair.b.device.create_srq(&pair.b.pd, init).unwrap();
    let (from, to) = (pair.a.mr(BYTES), pair.b.mr(5 * BYTES));
    let (mut q1, p1) = connected(&pair, &ca, &cb, Some(&srq), CAP);
    let (mut q2, p2) = connected(&pair, &ca, &cb, Some(&srq), CAP);
    let slot = |n: u64| [to.sge(n as usize * BYTES..(n as usize + 1) * BYTES).unwrap()];
    for id in 0..4 {
        srq.post([RecvWr::new(id, &slot(id))]).unwrap();
    }
    let bytes = pattern(SEED, BYTES);
    from.write(0, &bytes).unwrap();
    let (long, short) = ([from.sge(0..BYTES).unwrap()], [from.sge(0..64).unwrap()]);
    q1.post_send([SendWr::new(SendOp::Send, &long)]).unwrap();
    settle(&pair.b.device);
    q2.post_send([SendWr::new(SendOp::Send, &short)]).unwrap();
    let second = poll(&pair.b.device, &mut cb, 1)[0];
    assert_eq!((second.wr_id, second.qpn, second.byte_len), (1, p2.qpn(), 64));
    srq.post([RecvWr::new(4, &slot(4))]).unwrap();
    hold.store(false, Relaxed);
    let first = poll(&pair.b.device, &mut cb, 1)[0];
    assert_eq!((first.wr_id, first.qpn, first.byte_len), (0, p1.qpn(), BYTES as u32));
    assert_eq!(read(&to, 0, BYTES), bytes, "the long message lies in its own buffer");
    assert_eq!(read(&to, BYTES, 64), bytes[..64], "the short one in the next");
    for id in [2, 3, 4] {
        q2.post_send([SendWr::new(SendOp::Send, &short)]).unwrap();
        assert_eq!(poll(&pair.b.device, &mut cb, 1)[0].wr_id, id);
    }
    assert_silent(&pair.b.device, &mut cb);
    drop((q1, q2, p1, p2, srq, ca, cb, from, to));
    pair.close();
}

#[test]
fn case_32_one_doorbell_a_list() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (mut ca, cb) = (pair.a.cq(31), pair.b.cq(31));
    let (from, to) = (pair.a.mr(64), pair.b.mr(64));
    let (sges, write) = ([from.sge(0..64).unwrap()], SendOp::Write { addr: to.iova(), rkey: to.rkey() });
    let cap = QpCap { max_send_wr: 4, ..CAP };
    let (mut qa, mut qb) = connected(&pair, &ca, &cb, None, cap);
    let n = qa.cap().max_send_wr as usize;
    for list in [1, 2, n + 2] {
        pair.a.function.trace(true);
        let wrs = (0..list as u64).map(|id| SendWr::new(write, &sges).wr_id(id).signaled());
        let result = qa.post_send(wrs);
        let accesses = pair.a.function.take_trace();
        pair.a.function.trace(false);
        let full = PostListError { index: n, error: PostError::QueueFull };
        assert_eq!(result, if list > n { Err(full) } else { Ok(()) });
        let doorbell = |kind| matches!(kind, AccessKind::Write64(_) | AccessKind::Burst(_));
        assert!(accesses.len() == 1 && doorbell(accesses[0].kind), "a list of {list}: {accesses:?}");
        poll(&pair.a.device, &mut ca, list.min(n));
    }
    // Receives are told by the doorbell record in memory alone.
    pair.b.function.trace(true);
    qb.post_recv((0..3).map(|id| RecvWr::new(id, &[]))).unwrap();
    assert_eq!(pair.b.function.take_trace().len(), 0);
    drop((qa, qb, ca, cb, from, to));
    pair.close();
}

#[test]
fn case_34_reset_begins_anew() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (mut ca, cb) = (pair.a.cq(31), pair.b.cq(31));
    let (from, to) = (pair.a.mr(64), pair.b.mr(64));
    let (sges, write) = ([from.sge(0..64).unwrap()], SendOp::Write { addr: to.iova(), rkey: to.rkey() });
    for from_err in [false, true] {
        let (mut qa, mut qb) = connected(&pair, &ca, &cb, None, CAP);
        let record = pair.a.model.with(|hca| qpc::DBR_ADDR.get(&hca.qps[&qa.qpn().get()].ctx));
        qa.post_recv((0..3).map(|id| RecvWr::new(id, &sges))).unwrap();
        qa.post_send((0..7).map(|id| SendWr::new(write, &sges).wr_id(id).signaled())).unwrap();
        settle(&pair.a.device);
        poll(&pair.a.device, &mut ca, 5);
        pair.a.model.watch(Some(record));
        assert_eq!(watched(&pair.a), [0, 0, 0, 3, 0, 0, 0, 7], "receives and sends posted");
        for qp in [&mut qa, &mut qb] {
            if from_err {
                qp.modify(&QpAttr::to(QpState::Err)).unwrap();
                settle(&pair.a.device);
            }
            qp.modify(&QpAttr::to(QpState::Reset)).unwrap();
        }
        assert_eq!(watched(&pair.a), [0; 8], "both words after 2RST_QP, before RST2INIT");
        assert_silent(&pair.a.device, &mut ca);
        pair.connect(&mut qa, &mut qb);
        qa.post_send([SendWr::new(write, &sges).wr_id(70).signaled()]).unwrap();
        assert_eq!(poll(&pair.a.device, &mut ca, 1)[0].wr_id, 70);
        assert_eq!(watched(&pair.a)[4..], [0, 0, 0, 1], "one block: the first");
        pair.a.model.watch(None);
    }
    drop((ca, cb, from, to));
    pair.close();
}

/// The device's context of a QP on an SRQ names the SRQ and no receive queue, whatever sizes were asked for.
#[test]
fn case_21_the_context_shows_no_receive_queue() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let cq = pair.a.cq(7);
    let init = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
    let srq = pair.a.device.create_srq(&pair.a.pd, init).unwrap();
    let max_recv_wr = pair.a.device.attributes().max_qp_wr + 1;
    for kind in [QpType::Rc, QpType::Ud] {
        let qp = pair.a.qp(kind, &cq, &cq, Some(&srq), QpCap { max_recv_wr, max_recv_sge: 99, ..CAP });
        let own = pair.a.qp(kind, &cq, &cq, None, CAP);
        let seen = |qp: &Qp5| {
            pair.a.model.with(|hca| {
                let ctx = &hca.qps[&qp.qpn().get()].ctx;
                [qpc::RQ_TYPE, qpc::LOG_RQ_SIZE, qpc::LOG_RQ_STRIDE, qpc::SRQN_RMPN_XRQN].map(|field| field.get(ctx))
            })
        };
        assert_eq!(seen(&qp), [qpc::rq_type::SRQ, 0, 0, srq.srqn().get()], "{kind:?}");
        assert_eq!(seen(&own), [qpc::rq_type::REGULAR, 4, 1, 0], "{kind:?} with a queue of its own");
    }
    drop((srq, cq));
    pair.close();
}
