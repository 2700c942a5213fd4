//! The state that the driver tells is the one that the device holds, whatever fails when: sends that are flushed late, a QP
//! that fails while a command waits, raw packet QPs, objects that are half gone. IBA 10.3.1; manual page ibv_modify_qp.

mod bench;

use bareverbs::*;
use bareverbs_mlx5_prm::cmd::{Opcode, Status};
use bareverbs_model_mlx5::{
    eq,
    fault::{CommandFault, CommandRule},
};
use bench::pair::*;
use std::time::Duration;

const SEED: u64 = 0x7374_6174;
const FLUSHED: WcStatus = WcStatus::WorkRequestFlushed;

/// An element of a region that is gone.
fn bad_element(node: &Node, len: usize) -> Sge {
    node.mr(len).sge(0..len).unwrap()
}

/// State that the driver tells, and the one in the device's context.
fn states(qp: &mut Qp5) -> [QpState; 2] {
    let told = qp.state();
    [told, qp.query().unwrap().state]
}

fn command(opcode: Opcode, fault: CommandFault) -> CommandRule {
    CommandRule { opcode: Some(opcode), skip: 0, times: 1, fault }
}

/// After SQE and RTS each send of before tells of nothing that still holds, be it flushed or the one that failed, and what
/// fails from then on does.
#[test]
fn a_failed_send_of_before_sqe_to_rts_tells_no_state() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (mut cq, peer_cq) = (pair.a.cq(31), pair.b.cq(31));
    let memory = pair.a.mr(64);
    let (good, bad) = ([memory.sge(0..8).unwrap()], [bad_element(&pair.a, 8)]);
    for kind in [QpType::Uc, QpType::Ud] {
        let mut qp = pair.a.qp(kind, &cq, &cq, None, CAP);
        let peer = pair.b.qp(kind, &peer_cq, &peer_cq, None, CAP);
        to_rts(&mut qp, pair.b.address(), peer.qpn());
        let ah = pair.a.device.address_handle(&pair.b.address()).unwrap();
        let to = UdDestination { ah, qpn: peer.qpn(), qkey: Qkey(0x1111) };
        let post = |qp: &mut Qp5, sges: &[Sge], id| {
            let mut wr = SendWr::new(SendOp::Send, sges).wr_id(id).signaled();
            wr.to = (kind == QpType::Ud).then_some(Destination::Ud(&to));
            qp.post_send([wr]).unwrap();
        };
        // Known by the first completion, or before any by a query.
        for polled in [1, 0] {
            post(&mut qp, &bad, 1);
            (2..5).for_each(|id| post(&mut qp, &good, id));
            settle(&pair.a.device);
            let first = poll(&pair.a.device, &mut cq, polled);
            assert!(first.iter().all(|c| c.status == WcStatus::LocalProtection), "{first:?}");
            assert_eq!(qp.query().unwrap().state, QpState::Sqe);
            assert_eq!(qp.state(), QpState::Sqe);
            post(&mut qp, &good, 5);
            qp.modify(&QpAttr::to(QpState::Rts)).unwrap();
            assert_eq!(states(&mut qp), [QpState::Rts; 2]);
            for _ in polled..5 {
                let done = poll(&pair.a.device, &mut cq, 1);
                assert_eq!(qp.state(), QpState::Rts, "{kind:?} after {done:?}");
            }
            let attr = QpAttr::to(QpState::Rts).cur_state(QpState::Rts);
            qp.modify(&if kind == QpType::Uc { attr.access(Access::empty()) } else { attr.qkey(Qkey(2)) }).unwrap();
            post(&mut qp, &good, 6);
            assert_eq!(poll(&pair.a.device, &mut cq, 1)[0].status, WcStatus::Success);
            // What is new counts.
            post(&mut qp, &bad, 7);
            assert_eq!(poll(&pair.a.device, &mut cq, 1)[0].status, WcStatus::LocalProtection);
            assert_eq!(states(&mut qp), [QpState::Sqe; 2]);
            qp.modify(&QpAttr::to(QpState::Rts)).unwrap();
        }
        drop((qp, peer));
    }
    drop((memory, cq, peer_cq));
    pair.close();
}

/// A change of attributes in RTS is no return from SQE: what was posted before it and fails after it counts.
#[test]
fn a_send_of_before_rts_to_rts_that_fails_is_news() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (mut cq, peer_cq) = (pair.a.cq(31), pair.b.cq(31));
    let source = pair.a.mr(1 << 22);
    let (long, bad) = ([source.sge(0..1 << 22).unwrap()], [bad_element(&pair.a, 8)]);
    let target = pair.b.mr(1 << 22);
    let write = SendOp::Write { addr: target.iova(), rkey: target.rkey() };
    let mut qp = pair.a.qp(QpType::Uc, &cq, &cq, None, CAP);
    let mut peer = pair.b.qp(QpType::Uc, &peer_cq, &peer_cq, None, CAP);
    to_rts(&mut qp, pair.b.address(), peer.qpn());
    to_rts(&mut peer, pair.a.address(), qp.qpn());
    qp.post_send([SendWr::new(write, &long).signaled(), SendWr::new(write, &bad).signaled()]).unwrap();
    qp.modify(&QpAttr::to(QpState::Rts).access(Access::empty())).unwrap();
    assert_eq!(states(&mut qp), [QpState::Rts; 2], "the long write is under way");
    assert_eq!(poll(&pair.a.device, &mut cq, 2)[1].status, WcStatus::LocalProtection);
    assert_eq!(qp.state(), QpState::Sqe);
    assert_eq!(qp.query().unwrap().state, QpState::Sqe);
    drop((qp, peer, cq, peer_cq, source, target));
    pair.close();
}

/// The device fails a QP after it has changed it, and before the answer is there.
#[test]
fn a_qp_that_fails_while_a_command_waits_has_failed() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (cq, peer_cq) = (pair.a.cq(15), pair.b.cq(15));
    let (mut qp, peer) = connected(&pair, &cq, &peer_cq, None, CAP);
    while pair.a.device.service().unwrap().is_some() {}
    let late = command(Opcode::RTS2RTS_QP, CommandFault::Late(Duration::from_micros(200)));
    pair.a.model.with(|hca| hca.faults.commands.push(late));
    pair.a.model.raise(eq::Event::QpFatal(qp.qpn().get()));
    qp.modify(&QpAttr::to(QpState::Rts).access(Access::REMOTE_WRITE)).unwrap();
    assert_eq!(qp.state(), QpState::Err);
    assert_eq!(pair.a.device.service(), Ok(Some(Event::QpFatal(qp.qpn()))));
    assert_eq!(qp.state(), QpState::Err);
    // What went wrong before RESET is no news of the QP that begins then.
    qp.modify(&QpAttr::to(QpState::Reset)).unwrap();
    assert_eq!(states(&mut qp), [QpState::Reset; 2]);
    to_rts(&mut qp, pair.b.address(), peer.qpn());
    assert_eq!(states(&mut qp), [QpState::Rts; 2]);
    drop((qp, peer, cq, peer_cq));
    pair.close();
}

fn raw(node: &Node, cq: &Cq5, cap: QpCap) -> Qp5 {
    node.qp(QpType::RawPacket, cq, cq, None, cap)
}

fn raw_to_rts(qp: &mut Qp5) {
    qp.modify(&QpAttr::to(QpState::Init).port(PORT)).unwrap();
    qp.modify(&QpAttr::to(QpState::Rtr)).unwrap();
    qp.modify(&QpAttr::to(QpState::Rts)).unwrap();
}

/// The send queue of a raw packet QP fails alone: the other queue goes on. With the one queue all has failed.
#[test]
fn a_send_of_a_raw_packet_qp_that_fails_is_one_state() {
    let pair = Pair::new(Link::Roce, SEED);
    let (mut cq, mut peer_cq) = (pair.a.cq(15), pair.b.cq(15));
    let (memory, frames) = (pair.a.mr(2048), pair.b.mr(2048));
    let (bad, everybody) = ([bad_element(&pair.a, 100)], FlowSpec::to(Mac([0xff; 6])));
    let (mut qp, mut peer) = (raw(&pair.a, &cq, CAP), raw(&pair.b, &peer_cq, CAP));
    raw_to_rts(&mut peer);
    qp.attach_flow(&everybody).unwrap();
    frames.write(0, &[0xff; 64]).unwrap();
    let frame = [frames.sge(0..64).unwrap()];
    for to in [QpState::Reset, QpState::Err, QpState::Reset] {
        raw_to_rts(&mut qp);
        qp.post_recv([RecvWr::new(5, &[memory.sge(0..2048).unwrap()]), RecvWr::new(6, &[])]).unwrap();
        qp.post_send([SendWr::new(SendOp::Send, &bad).wr_id(1).signaled()]).unwrap();
        assert_eq!(poll(&pair.a.device, &mut cq, 1)[0].status, WcStatus::LocalProtection);
        assert_eq!(states(&mut qp), [QpState::Sqe; 2]);
        peer.post_send([SendWr::new(SendOp::Send, &frame).signaled()]).unwrap();
        assert_eq!(poll(&pair.b.device, &mut peer_cq, 1)[0].status, WcStatus::Success);
        let done = poll(&pair.a.device, &mut cq, 1)[0];
        assert_eq!((done.wr_id, done.status), (5, WcStatus::Success));
        assert_eq!(states(&mut qp), [QpState::Sqe; 2]);
        let error = Error::NoSuchTransition { kind: QpType::RawPacket, from: QpState::Sqe, to: QpState::Rts };
        assert_eq!(qp.modify(&QpAttr::to(QpState::Rts)), Err(error));
        qp.modify(&QpAttr::to(to)).unwrap();
        assert_eq!(states(&mut qp), [to; 2]);
        if to == QpState::Err {
            assert_eq!(poll(&pair.a.device, &mut cq, 1)[0].status, FLUSHED);
            assert_eq!(states(&mut qp), [to; 2]);
            qp.modify(&QpAttr::to(QpState::Reset)).unwrap();
        }
    }
    qp.detach_flow(&everybody).unwrap();
    let mut alone = raw(&pair.a, &cq, QpCap { max_recv_wr: 0, ..CAP });
    raw_to_rts(&mut alone);
    alone.post_send([SendWr::new(SendOp::Send, &bad).signaled()]).unwrap();
    assert_eq!(poll(&pair.a.device, &mut cq, 1)[0].status, WcStatus::LocalProtection);
    assert_eq!(states(&mut alone), [QpState::Err; 2]);
    let told = pair.a.model.report().violations;
    assert!(told.iter().all(|told| told.ends_with("its data: Key(Unknown)")), "{told:?}");
    assert_eq!(pair.b.model.report().violations, Vec::<String>::new());
}

/// A queue that a QP does not have is full, once the state lets requests through; before that the state is what is wrong.
#[test]
fn a_queue_that_is_not_there_is_full_where_it_could_be_posted_to() {
    for (link, kind) in
        [(Link::InfiniBand, QpType::Rc), (Link::InfiniBand, QpType::Ud), (Link::Roce, QpType::RawPacket)]
    {
        let pair = Pair::new(link, SEED);
        let cq = pair.a.cq(15);
        let cap = QpCap { max_recv_wr: 0, max_send_wr: if kind == QpType::RawPacket { 16 } else { 0 }, ..CAP };
        let mut qp = pair.a.qp(kind, &cq, &cq, None, cap);
        let check = |qp: &mut Qp5, state| {
            let wrong = Err(PostError::WrongState(state));
            let full = Err(PostError::QueueFull);
            let expected = if state == QpState::Reset { wrong } else { full };
            assert_eq!(qp.push_recv(&RecvWr::new(1, &[])), expected, "{kind:?} in {state}");
            if kind != QpType::RawPacket {
                let sends = matches!(state, QpState::Rts | QpState::Err);
                let result = qp.push_send(&SendWr::new(SendOp::Send, &[]));
                assert_eq!(result, if sends { full } else { wrong }, "{kind:?} in {state}");
            }
        };
        check(&mut qp, QpState::Reset);
        let steps = [init_attr(kind), rtr_attr(kind, pair.b.address(), Qpn::new(0x123)), rts_attr(kind)];
        for attr in steps {
            let raw = QpAttr::to(attr.state);
            let raw = if attr.state == QpState::Init { raw.port(PORT) } else { raw };
            qp.modify(if kind == QpType::RawPacket { &raw } else { &attr }).unwrap();
            check(&mut qp, attr.state);
        }
        for state in [QpState::Err, QpState::Reset] {
            qp.modify(&QpAttr::to(state)).unwrap();
            check(&mut qp, state);
        }
        drop((qp, cq));
        pair.close();
    }
}

/// A raw packet QP of which a part would not go: nothing can be done with it but to destroy it again.
#[test]
fn a_raw_packet_qp_that_is_half_gone_takes_nothing() {
    let pair = Pair::new(Link::Roce, SEED);
    let cq = pair.a.cq(15);
    let memory = pair.a.mr(64);
    let sges = [memory.sge(0..64).unwrap()];
    for opcode in [Opcode::DESTROY_RQ, Opcode::DESTROY_SQ, Opcode::DESTROY_TIS] {
        let mut qp = raw(&pair.a, &cq, CAP);
        raw_to_rts(&mut qp);
        let refuse = command(opcode, CommandFault::Refuse(Status::ResourceBusy, 0x55));
        pair.a.model.with(|hca| hca.faults.commands.push(refuse));
        let Err(refused) = qp.destroy() else { panic!("{opcode:?} was refused") };
        assert!(matches!(refused.error, Error::Command { opcode: o, .. } if o == opcode.0), "{:?}", refused.error);
        let mut qp = refused.handle;
        let half = Error::Unsupported("a QP that is half destroyed");
        assert_eq!(qp.attach_flow(&FlowSpec::ANY), Err(half), "{opcode:?}");
        assert_eq!(qp.query().map(|_| ()), Err(half), "{opcode:?}");
        assert_eq!(qp.state(), QpState::Err);
        for state in [QpState::Reset, QpState::Err] {
            assert_eq!(qp.modify(&QpAttr::to(state)), Err(half), "{opcode:?}");
        }
        let wrong = Err(PostListError { index: 0, error: PostError::WrongState(QpState::Err) });
        assert_eq!(qp.post_send([SendWr::new(SendOp::Send, &sges)]), wrong, "{opcode:?}");
        assert_eq!(qp.post_recv([RecvWr::new(1, &sges)]), wrong, "{opcode:?}");
        qp.destroy().map_err(|r| r.error).expect("goes the second time");
    }
    // While all of it is there, it is as before.
    let mut qp = raw(&pair.a, &cq, CAP);
    raw_to_rts(&mut qp);
    let refuse = command(Opcode::DESTROY_TIR, CommandFault::Refuse(Status::ResourceBusy, 0x55));
    pair.a.model.with(|hca| hca.faults.commands.push(refuse));
    let Err(Refused { handle: mut qp, .. }) = qp.destroy() else { panic!("DESTROY_TIR was refused") };
    assert_eq!(states(&mut qp), [QpState::Rts; 2]);
    qp.attach_flow(&FlowSpec::ANY).unwrap();
    qp.detach_flow(&FlowSpec::ANY).unwrap();
    qp.destroy().map_err(|r| r.error).expect("goes the second time");
    drop((memory, cq));
    pair.close();
}
