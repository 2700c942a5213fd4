//! A QP of the driver on the modelled card through every sequence of a few steps up to a depth, against a small reference
//! of the rules (IBA 10.3.1, 11.2.5.2): the driver's answers, the state in the device's context, and the completions.

mod bench;

/// The exploration.
mod explore_tests {
    use super::bench::pair::{CAP, Cq5, Link, Mr5, PORT, Pair, Qp5, init_attr, rtr_attr, rts_attr, wait};
    use bareverbs::{
        AhAttr, Completion, CompletionQueue, Destroy, Device, MemoryRegion, PostError, QpAttr, QpState, QpType, Qpn,
        QueuePair, RecvWr, SendOp, SendWr, Sge, WcStatus,
    };
    use bareverbs_explore::{Machine, explore};
    use bareverbs_model_mlx5::qp::QpState as Held;
    use std::{collections::VecDeque, rc::Rc};

    const STATES: [QpState; 7] =
        [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe, QpState::Err];
    const RECV: usize = 7;
    const SEND: usize = 8;
    /// With a key that nobody has.
    const BAD_SEND: usize = 9;
    const POLL: usize = 10;
    const QUERY: usize = 11;
    /// Destroyed, with what is outstanding, and another made.
    const ANEW: usize = 12;
    /// The peer sends a message that fits a receive.
    const MESSAGE: usize = 13;
    /// And one that does not, which is the end of a reliable connection.
    const LONG: usize = 14;
    const STEPS: usize = 15;
    /// Requests and completions outstanding, at most.
    const MOST: usize = 3;

    /// Two cards and what QPs of one sequence after the other use.
    struct Bench {
        pair: Pair,
        local: Mr5,
        remote: Mr5,
    }

    /// A completion to come: receive or send, its id, how it ends.
    type Done = (bool, u64, WcStatus);

    struct Machine5 {
        bench: Rc<Bench>,
        kind: QpType,
        cq: Cq5,
        qp: Option<Qp5>,
        peer: Qp5,
        _peer_cq: Cq5,
        /// What the rules say.
        state: QpState,
        /// The driver knows: it brought the QP there, or a completion or query has told.
        known: bool,
        /// It was brought to a state that sends, or is known to be in ERR, which takes them too.
        sends: bool,
        recvs: VecDeque<u64>,
        done: VecDeque<Done>,
        written: u32,
        next_id: u64,
    }

    impl Machine5 {
        fn new(bench: &Rc<Bench>, kind: QpType) -> Self {
            let (cq, peer_cq) = (bench.pair.a.cq(15), bench.pair.b.cq(15));
            let qp = bench.pair.a.qp(kind, &cq, &cq, None, CAP);
            let peer = bench.pair.b.qp(kind, &peer_cq, &peer_cq, None, CAP);
            let (recvs, done) = Default::default();
            let state = QpState::Reset;
            let bench = bench.clone();
            Self {
                bench,
                kind,
                cq,
                qp: Some(qp),
                peer,
                _peer_cq: peer_cq,
                state,
                known: true,
                sends: false,
                recvs,
                done,
                written: 0,
                next_id: 1,
            }
        }

        fn qp(&mut self) -> &mut Qp5 {
            self.qp.as_mut().expect("there is one")
        }

        fn id(&mut self) -> u64 {
            self.next_id += 1;
            self.next_id
        }

        fn complete(&mut self, done: Done) {
            self.done.push_back(done);
            self.written += 1;
        }

        fn flush_recvs(&mut self) {
            while let Some(id) = self.recvs.pop_front() {
                self.complete((true, id, WcStatus::WorkRequestFlushed));
            }
        }

        fn enters(&mut self, state: QpState) {
            (self.state, self.known) = (state, true);
            self.sends = matches!(state, QpState::Rts | QpState::Err);
            match state {
                QpState::Err => self.flush_recvs(),
                QpState::Reset => {
                    self.recvs.clear();
                    self.done.clear();
                }
                _ => {}
            }
        }

        fn modify(&mut self, to: QpState) -> bool {
            let from = self.state;
            let (av, peer, kind): (AhAttr, Qpn, _) = (self.bench.pair.b.address(), self.peer.qpn(), self.kind);
            let attr = match to {
                QpState::Init if from == QpState::Init => QpAttr::to(to).port(PORT),
                QpState::Init => init_attr(kind),
                QpState::Rtr => rtr_attr(kind, av, peer),
                QpState::Rts if from == QpState::Rtr => rts_attr(kind),
                _ => QpAttr::to(to),
            };
            if (from, to) == (QpState::Init, QpState::Rtr) {
                // The connection begins at both ends.
                let (own, address) = (self.qp().qpn(), self.bench.pair.a.address());
                self.peer.modify(&QpAttr::to(QpState::Reset)).expect("RESET");
                super::bench::pair::to_rts(&mut self.peer, address, own);
            }
            let goes = matches!(to, QpState::Reset | QpState::Err)
                || matches!(
                    (from, to),
                    (QpState::Reset | QpState::Init, QpState::Init)
                        | (QpState::Init, QpState::Rtr)
                        | (QpState::Rtr | QpState::Rts, QpState::Rts)
                )
                || (from, to) == (QpState::Sqe, QpState::Rts) && self.known;
            let result = self.qp().modify(&attr);
            assert_eq!(result.is_ok(), goes, "{from} to {to}, known {}: {result:?}", self.known);
            if goes {
                self.enters(to);
            }
            true
        }

        fn recv(&mut self) -> bool {
            let id = self.id();
            let sges = [self.bench.local.sge(0..8).expect("inside")];
            let result = self.qp().post_recv([RecvWr::new(id, &sges)]).map_err(|e| e.error);
            if self.state == QpState::Reset {
                assert_eq!(result, Err(PostError::WrongState(QpState::Reset)));
                return true;
            }
            assert_eq!(result, Ok(()));
            self.recvs.push_back(id);
            if self.state == QpState::Err {
                self.flush_recvs();
            }
            true
        }

        fn send(&mut self, good: bool) -> bool {
            let id = self.id();
            let at = self.bench.local.sge(8..16).expect("inside");
            // SAFETY: nobody has the key, so nothing is read.
            let bad = unsafe { Sge::from_raw(at.addr(), 8, bareverbs::Lkey(0xdead_be00)) };
            let op = SendOp::Write { addr: self.bench.remote.iova(), rkey: self.bench.remote.rkey() };
            let sges = [if good { at } else { bad }];
            let result = self.qp().post_send([SendWr::new(op, &sges).wr_id(id).signaled()]).map_err(|e| e.error);
            self.sends |= self.state == QpState::Err && self.known;
            if !self.sends {
                let state = self.state;
                assert!(
                    matches!(result, Err(PostError::WrongState(told)) if told == state || state == QpState::Err),
                    "{state}: {result:?}"
                );
                return true;
            }
            assert_eq!(result, Ok(()));
            match (self.state, good) {
                (QpState::Rts, true) => self.complete((false, id, WcStatus::Success)),
                (QpState::Rts, false) => {
                    self.complete((false, id, WcStatus::LocalProtection));
                    let reliable = self.kind == QpType::Rc;
                    (self.state, self.known) = (if reliable { QpState::Err } else { QpState::Sqe }, false);
                    if reliable {
                        self.flush_recvs();
                    }
                }
                _ => self.complete((false, id, WcStatus::WorkRequestFlushed)),
            }
            true
        }

        /// A message of the peer arrives, where a receive waits for it.
        fn message(&mut self, len: usize) -> bool {
            let receives = matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqe);
            let Some(id) = self.recvs.front().copied().filter(|_| receives) else { return false };
            self.recvs.pop_front();
            let sges = [self.bench.remote.sge(8..8 + len).expect("inside")];
            self.peer.post_send([SendWr::new(SendOp::Send, &sges)]).expect("a peer that sends");
            if len <= 8 {
                self.complete((true, id, WcStatus::Success));
                return true;
            }
            self.complete((true, id, WcStatus::LocalLength));
            (self.state, self.known) = (QpState::Err, false);
            self.flush_recvs();
            true
        }

        fn poll(&mut self) -> bool {
            let mut out = [Completion::default(); 8];
            let n = self.cq.poll(&mut out).expect("a good CQ");
            // Sends and receives are in order each; which of a failure's flushes come first nobody says.
            for receives in [false, true] {
                let is =
                    out[..n].iter().map(|c| (c.wr_id, c.status)).filter(|(id, _)| self.is_receive(*id) == receives);
                let should = self.done.iter().filter(|done| done.0 == receives).map(|done| (done.1, done.2));
                assert_eq!(is.collect::<Vec<_>>(), should.collect::<Vec<_>>(), "receives {receives}");
            }
            self.known |= self.done.iter().any(|done| done.2 != WcStatus::Success);
            self.done.clear();
            true
        }

        fn is_receive(&self, id: u64) -> bool {
            self.done.iter().any(|done| done.0 && done.1 == id)
        }

        fn anew(&mut self) -> bool {
            let old = self.qp.take().expect("there is one");
            old.destroy().map_err(|r| r.error).expect("a QP goes whatever is outstanding");
            self.qp = Some(self.bench.pair.a.qp(self.kind, &self.cq, &self.cq, None, CAP));
            self.enters(QpState::Reset);
            true
        }

        /// Waits until the device has done what the rules say, and looks at it.
        fn settle(&mut self) {
            let (cqn, qpn, written) = (self.cq.cqn().get(), self.qp().qpn().get(), self.written);
            let node = &self.bench.pair.a;
            wait(&node.device, "the completions", || {
                (node.model.with(|hca| hca.cqs[&cqn].producer) >= written).then_some(())
            });
            (0..8).for_each(|_| node.device.relax());
            let (producer, held) = node.model.with(|hca| (hca.cqs[&cqn].producer, hca.qps[&qpn].state));
            let expected = match self.state {
                QpState::Reset => Held::Reset,
                QpState::Init => Held::Init,
                QpState::Rtr => Held::ReadyToReceive,
                QpState::Rts => Held::ReadyToSend,
                QpState::Sqd => unreachable!("nothing leads there"),
                QpState::Sqe => Held::SendQueueError,
                QpState::Err => Held::Error,
            };
            assert_eq!((producer, held), (written, expected), "entries written, state of the QPC");
        }
    }

    impl Machine for Machine5 {
        type State = (QpState, [bool; 2], usize, Vec<(bool, WcStatus)>);

        fn step(&mut self, step: usize) -> bool {
            let full = self.recvs.len() + self.done.len() >= MOST;
            let taken = match step {
                0..RECV => self.modify(STATES[step]),
                RECV => !full && self.recv(),
                SEND | BAD_SEND => !full && self.send(step == SEND),
                POLL => self.poll(),
                QUERY => {
                    let state = self.qp().query().expect("a good device").state;
                    assert_eq!(state, self.state, "a query");
                    self.known = true;
                    true
                }
                ANEW => self.anew(),
                MESSAGE => self.message(8),
                LONG => self.kind == QpType::Rc && self.message(9),
                _ => false,
            };
            if taken {
                self.settle();
            }
            taken
        }

        fn state(&self) -> Self::State {
            let done = self.done.iter().map(|done| (done.0, done.2)).collect();
            (self.state, [self.known, self.sends], self.recvs.len(), done)
        }
    }

    fn every_order(kind: QpType, depth: usize, states: usize) {
        let pair = Pair::new(Link::InfiniBand, 0x6f72_6465);
        let (local, remote) = (pair.a.mr(64), pair.b.mr(64));
        let bench = Rc::new(Bench { pair, local, remote });
        let explored = explore(STEPS, depth, || Machine5::new(&bench, kind));
        explored.recorded(&format!("driver's {kind:?} QP on the card"), states, 0);
        for node in [&bench.pair.a, &bench.pair.b] {
            // A driver that was not told of a failure yet asks for what the state does not allow, and hears so.
            let unheard = |told: &&String| !told.starts_with("RTS2RTS_QP (0x505/0x0) refused with BadQpState");
            assert_eq!(node.model.report().violations.iter().find(unheard), None);
        }
    }

    #[test]
    fn every_order_of_a_reliable_connection() {
        every_order(QpType::Rc, 8, 163);
    }

    #[test]
    fn every_order_of_an_unreliable_connection() {
        every_order(QpType::Uc, 9, 258);
    }
}
