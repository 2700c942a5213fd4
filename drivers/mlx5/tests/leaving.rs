//! QPs that leave their SRQ in the middle of a message, with little room in their CQs: they give the receive back, or
//! refuse and stay as they are. With room: `case_22_*` in the conformance suite.

mod bench;

use bareverbs::*;
use bareverbs_mlx5_prm::cmd::{Opcode, Status};
use bareverbs_model_mlx5::fault::{CommandFault, CommandRule};
use bench::pair::*;

const SEED: u64 = 0x6c65_6176;
/// Bytes of a message: many packets.
const LONG: usize = 1 << 18;

/// A QP of node B that receives from a full SRQ, and its peer.
struct Leaving {
    pair: Pair,
    srq: Srq5,
    source: Mr5,
    buffer: Mr5,
    peer: Qp5,
    peer_cq: Cq5,
}

impl Leaving {
    /// With a receiver on CQs that `cqs` makes.
    fn new(cqs: [u32; 2]) -> (Self, Qp5, [Option<Cq5>; 2]) {
        let pair = Pair::new(Link::InfiniBand, SEED);
        let srq = pair.b.device.create_srq(&pair.b.pd, SrqAttr { max_wr: 3, max_sge: 1, limit: 0 }).unwrap();
        let (source, buffer, peer_cq) = (pair.a.mr(LONG), pair.b.mr(LONG), pair.a.cq(63));
        let [send, recv] = cqs;
        let send_cq = pair.b.cq(send);
        // 0: the same one.
        let recv_cq = (recv > 0).then(|| pair.b.cq(recv));
        let mut receiver = pair.b.qp(QpType::Rc, &send_cq, recv_cq.as_ref().unwrap_or(&send_cq), Some(&srq), CAP);
        let mut peer = pair.a.qp(QpType::Rc, &peer_cq, &peer_cq, None, CAP);
        pair.connect(&mut peer, &mut receiver);
        let mut all = Self { pair, srq, source, buffer, peer, peer_cq };
        assert_eq!(all.fill(), 3, "requests that an empty SRQ takes");
        (all, receiver, [Some(send_cq), recv_cq])
    }

    /// Posts until the SRQ is full, and tells how many that were.
    fn fill(&mut self) -> usize {
        let sges = [self.buffer.sge(0..LONG).unwrap()];
        let posted = (0..9).take_while(|id| self.srq.push(&RecvWr::new(*id, &sges)).is_ok()).count();
        self.srq.ring();
        posted
    }

    /// Completions of another QP, one for each of `n` writes, in its CQ.
    fn others(&mut self, cq: &Cq5, n: u64) -> Qp5 {
        let mut other = self.pair.b.qp(QpType::Rc, cq, cq, None, CAP);
        let mut peer = self.pair.a.qp(QpType::Rc, &self.peer_cq, &self.peer_cq, None, CAP);
        self.pair.connect(&mut peer, &mut other);
        self.write(&mut other, n);
        other
    }

    /// Signaled writes, done and not polled.
    fn write(&self, qp: &mut Qp5, n: u64) {
        let sges = [self.buffer.sge(0..8).unwrap()];
        let op = SendOp::Write { addr: self.source.iova(), rkey: self.source.rkey() };
        qp.post_send((0..n).map(|id| SendWr::new(op, &sges).wr_id(id).signaled())).unwrap();
        settle(&self.pair.b.device);
    }

    /// Sends a long message and waits until its first bytes are there.
    fn begin(&mut self) {
        self.source.write(0, &[7; 8]).unwrap();
        let sges = [self.source.sge(0..LONG).unwrap()];
        self.peer.post_send([SendWr::new(SendOp::Send, &sges)]).unwrap();
        wait(&self.pair.b.device, "the first bytes", || (read(&self.buffer, 0, 8) == [7; 8]).then_some(()));
    }

    /// Nothing is left over.
    fn end(self) {
        let Self { pair, srq, source, buffer, peer, peer_cq } = self;
        drop((srq, source, buffer, peer, peer_cq));
        pair.close();
    }
}

/// Polls that many, which are there.
fn take(cq: &mut Cq5, n: usize) -> Vec<u64> {
    let mut out = vec![Completion::default(); n];
    assert_eq!(cq.poll(&mut out), Ok(n));
    out.iter().map(|c| c.wr_id).collect()
}

/// How a QP leaves.
#[derive(Clone, Copy, Debug)]
enum How {
    Reset,
    Destroy,
}

/// Leaves, or gives the QP back with the reason.
fn leave(mut qp: Qp5, how: How) -> Result<Option<Qp5>, Refused<Qp5>> {
    match how {
        How::Reset => match qp.modify(&QpAttr::to(QpState::Reset)) {
            Ok(()) => Ok(Some(qp)),
            Err(error) => Err(Refused { handle: qp, error }),
        },
        How::Destroy => qp.destroy().map(|()| None),
    }
}

/// A CQ full of what others have completed: the QP stays as it is until some is polled, also where two CQs are its own
/// and the one of receives is full.
#[test]
fn a_cq_that_is_full_of_others() {
    for how in [How::Reset, How::Destroy] {
        for cqs in [[3, 0], [63, 3]] {
            let (mut all, receiver, [mut send_cq, mut recv_cq]) = Leaving::new(cqs);
            let full = recv_cq.as_mut().or(send_cq.as_mut()).unwrap();
            let other = all.others(full, 4);
            all.begin();
            let Refused { handle: receiver, error } = leave(receiver, how).err().expect("there is no room");
            assert_eq!(error, Error::CqFull { wanted: 1, room: 0 }, "{how:?}");
            assert_eq!(receiver.state(), QpState::Rts);
            assert_eq!(take(full, 1), [0]);
            let receiver = leave(receiver, how).expect("there is room");
            assert_eq!(all.fill(), 1, "receives that came back, {how:?} {cqs:?}");
            assert_eq!(take(full, 3), [1, 2, 3], "the others' completions");
            assert_silent(&all.pair.b.device, full);
            drop((receiver, other, send_cq, recv_cq));
            all.end();
        }
    }
}

/// Its own completions go with it: they make room, and the requests that they tell of are not flushed any more.
#[test]
fn a_cq_that_is_full_of_its_own() {
    for how in [How::Reset, How::Destroy] {
        let (mut all, mut receiver, [mut cq, _]) = Leaving::new([15, 0]);
        all.write(&mut receiver, 16);
        all.begin();
        let receiver = leave(receiver, how).expect("there is room");
        assert_eq!(all.fill(), 1, "receives that came back, {how:?}");
        assert_silent(&all.pair.b.device, cq.as_mut().unwrap());
        drop((receiver, cq));
        all.end();
    }
}

/// Its requests are flushed to the one CQ, its receive to the other.
#[test]
fn requests_that_are_to_be_flushed_need_room() {
    for (how, cqs, most) in
        [(How::Reset, [3, 63], 4u32), (How::Destroy, [3, 63], 4), (How::Reset, [3, 0], 3), (How::Destroy, [3, 0], 3)]
    {
        for sends in [most, most + 1] {
            let (mut all, mut receiver, own_cqs) = Leaving::new(cqs);
            // To a peer that has no receive for them.
            let sges = [all.buffer.sge(0..8).unwrap()];
            receiver.post_send((0..sends).map(|id| SendWr::new(SendOp::Send, &sges).wr_id(id.into()))).unwrap();
            all.begin();
            match leave(receiver, how) {
                Ok(receiver) => {
                    assert_eq!((sends, all.fill()), (most, 1), "receives that came back, {how:?} {cqs:?}");
                    drop(receiver);
                }
                Err(Refused { handle: receiver, error }) => {
                    let wanted = 5;
                    assert_eq!((sends, error), (most + 1, Error::CqFull { wanted, room: 4 }), "{how:?} {cqs:?}");
                    // Who drops it cannot be refused: the receive is lost, and nothing else.
                    drop(receiver);
                    assert_eq!(all.fill(), 0);
                }
            }
            drop(own_cqs);
            all.end();
        }
    }
}

/// While a view shows an entry, the device does not get back what is behind it.
#[test]
fn a_view_keeps_the_room() {
    let (mut all, mut receiver, [cq, _]) = Leaving::new([3, 0]);
    let mut cq = cq.unwrap();
    all.write(&mut receiver, 4);
    all.begin();
    let mut view = cq.view();
    assert!(view.advance().unwrap());
    let before = view.completion();
    let Refused { handle: receiver, error } = leave(receiver, How::Destroy).err().expect("there is no room");
    assert_eq!(error, Error::CqFull { wanted: 1, room: 0 });
    assert_eq!(view.completion(), before);
    drop(view);
    assert!(leave(receiver, How::Destroy).is_ok());
    assert_eq!(all.fill(), 1, "receives that came back");
    assert_silent(&all.pair.b.device, &mut cq);
    drop(cq);
    all.end();
}

/// A command that the device refuses leaves a QP that can be asked again, in ERR if it came there; the receive comes back
/// once.
#[test]
fn a_device_that_refuses_a_command() {
    for (how, opcode) in [
        (How::Reset, Opcode::QP_2ERR),
        (How::Destroy, Opcode::QP_2ERR),
        (How::Reset, Opcode::QP_2RST),
        (How::Destroy, Opcode::DESTROY_QP),
    ] {
        let (mut all, receiver, cqs) = Leaving::new([15, 0]);
        all.begin();
        let fault = CommandFault::Refuse(Status::ResourceBusy, 0x55);
        let rule = CommandRule { opcode: Some(opcode), skip: 0, times: 1, fault };
        all.pair.b.model.with(|hca| hca.faults.commands.push(rule));
        let Refused { handle: receiver, error } = leave(receiver, how).err().expect("a command was refused");
        assert!(matches!(error, Error::Command { syndrome: 0x55, .. }), "{opcode:?}: {error}");
        let state = if opcode == Opcode::QP_2ERR { QpState::Rts } else { QpState::Err };
        assert_eq!(receiver.state(), state, "{opcode:?}");
        let receiver = leave(receiver, how).expect("nothing is refused any more");
        assert_eq!(all.fill(), 1, "receives that came back, {how:?} {opcode:?}");
        drop((receiver, cqs));
        all.end();
    }
}

/// A QP leaves once, with one command, and one that was destroyed has nothing to leave when its handle goes.
#[test]
fn a_qp_leaves_once() {
    let (mut all, receiver, cqs) = Leaving::new([15, 0]);
    all.begin();
    let before = all.pair.b.device.commands();
    leave(receiver, How::Destroy).expect("there is room");
    // QP_2ERR and DESTROY_QP.
    assert_eq!(all.pair.b.device.commands() - before, 2);
    assert_eq!(all.fill(), 1, "receives that came back");
    drop(cqs);
    all.end();
}

/// A device that has failed flushes nothing, so that nothing needs room for it.
#[test]
fn a_device_that_failed_needs_no_room() {
    let (mut all, receiver, [cq, _]) = Leaving::new([3, 0]);
    let other = all.others(cq.as_ref().unwrap(), 4);
    all.begin();
    let now = all.pair.b.device.now();
    all.pair.b.model.with(|hca| hca.faults.health = Some((now, 1)));
    wait(&all.pair.b.device, "the device's end", || {
        matches!(all.pair.b.device.service(), Ok(Some(Event::DeviceFatal(_)))).then_some(())
    });
    receiver.destroy().expect("nothing is asked of the device");
    drop((other, cq));
    let Leaving { pair, srq, source, buffer, peer, peer_cq } = all;
    drop((srq, source, buffer, peer, peer_cq));
    drop(pair);
}

/// An XRC SRQ goes while a target is in the middle of a message to it. What comes of that message is not the next SRQ's,
/// though that one stands at the same place: its receives are with the device, and each completes once.
#[test]
fn an_xrc_srq_that_goes_leaves_the_next_one_alone() {
    for peer_stops in [true, false] {
        let pair = Pair::new(Link::InfiniBand, SEED);
        let (ca, mut cb) = (pair.a.cq(63), pair.b.cq(63));
        let (source, buffer) = (pair.a.mr(LONG), pair.b.mr(LONG));
        let xrcd = pair.b.device.open_xrcd().unwrap();
        let (s, r) = ([source.sge(0..LONG).unwrap()], [buffer.sge(0..LONG).unwrap()]);
        let full = |cq: &Cq5, ids: u64| {
            let attr = SrqAttr { max_wr: 3, max_sge: 1, limit: 0 };
            let init = XrcSrqInit { attr, context: 0, xrcd: &xrcd, cq };
            let mut srq = pair.b.device.create_xrc_srq(&pair.b.pd, &init).unwrap();
            srq.post((0..3).map(|id| RecvWr::new(ids + id, &r))).unwrap();
            srq
        };
        let send = |peer: &mut Qp5, srq: &Srq5, n: usize| {
            let to = Some(Destination::Srq(srq.srqn()));
            peer.post_send(vec![SendWr { to, ..SendWr::new(SendOp::Send, &s) }; n]).unwrap();
        };
        let old = full(&cb, 100);
        let (mut peer, target) = xrc_connected(&pair, &ca, &xrcd);
        source.write(0, &[7; 8]).unwrap();
        send(&mut peer, &old, 1);
        wait(&pair.b.device, "the first bytes", || (read(&buffer, 0, 8) == [7; 8]).then_some(()));
        let peer = (!peer_stops).then_some(peer);
        old.destroy().expect("nobody holds it");
        let mut new = full(&cb, 200);
        settle(&pair.b.device);
        drop((peer, target));
        // Nothing, or an entry of nobody.
        let none = cb.poll(&mut [Completion::default(); 4]);
        assert!(matches!(none, Ok(0) | Err(PollError::UnknownQp(_))), "{none:?}");
        assert_silent(&pair.b.device, &mut cb);
        assert_eq!(new.push(&RecvWr::new(9, &r)), Err(PostError::QueueFull), "its receives are with the device");
        let (mut peer, target) = xrc_connected(&pair, &ca, &xrcd);
        send(&mut peer, &new, 3);
        let ids: Vec<_> = poll(&pair.b.device, &mut cb, 3).iter().map(|c| (c.wr_id, c.status)).collect();
        assert_eq!(ids, [200, 201, 202].map(|id| (id, WcStatus::Success)));
        drop((peer, target, new, ca, cb, xrcd, source, buffer));
        pair.close();
    }
}
