//! A QP of the driver on the modelled card through every sequence of a few steps up to a depth, against a small reference
//! of the rules (IBA 10.3.1, 11.2.5.2): the driver's answers, the state in the device's context, and the completions. QPs of
//! all types, with one CQ or two, with receives of their own or of an SRQ, which stay whatever becomes of the QP.

mod bench;

/// The exploration.
mod explore_tests {
    use super::bench::pair::{
        CAP, Cq5, Link, Mr5, Node, PORT, Pair, Qp5, Srq5, init_attr, rtr_attr, rts_attr, to_rts, wait,
    };
    use bareverbs::*;
    use bareverbs_explore::{Machine, explore};
    use bareverbs_harness::Function;
    use bareverbs_mlx5::{Local, Xrcd};
    use bareverbs_model_mlx5::{qp::QpState as Held, wq::WqState};
    use std::{collections::VecDeque, rc::Rc};

    const STATES: [QpState; 7] =
        [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe, QpState::Err];
    const RECV: usize = 7;
    const SEND: usize = 8;
    /// With a key that nobody has.
    const BAD_SEND: usize = 9;
    const POLL: usize = 10;
    /// The CQ of receives, where it is another.
    const POLL_RECV: usize = 11;
    const QUERY: usize = 12;
    /// Destroyed, with what is outstanding, and another made.
    const ANEW: usize = 13;
    /// The peer sends a message that fits a receive.
    const MESSAGE: usize = 14;
    /// And one that does not, which is the end of a reliable connection.
    const LONG: usize = 15;
    /// The device is asked for its events.
    const EVENT: usize = 16;
    /// One completion is polled, so that others wait while the QP goes on.
    const POLL_ONE: usize = 17;
    const STEPS: usize = 18;
    /// Requests and completions outstanding, at most.
    const MOST: usize = 3;
    /// A GRH, which begins the receives of datagrams.
    const GRH: usize = 40;

    /// What is explored.
    #[derive(Clone, Copy)]
    struct Shape {
        kind: QpType,
        /// Receives complete to another CQ.
        two_cqs: bool,
        /// Receives are those of an SRQ; an XRC target's always are.
        srq: bool,
    }

    /// Two cards and what QPs of one sequence after the other use.
    struct Bench {
        pair: Pair,
        local: Mr5,
        remote: Mr5,
        /// XRC domains of both.
        xrcds: Option<[Xrcd<Function, Local>; 2]>,
    }

    /// A completion to come: receive or send, its id, how it ends.
    type Done = (bool, u64, WcStatus);

    struct Machine5 {
        bench: Rc<Bench>,
        shape: Shape,
        /// Of sends and of receives, where they are not one.
        cqs: Vec<Cq5>,
        srq: Option<Srq5>,
        qp: Option<Qp5>,
        peer: Qp5,
        _peer_cq: Cq5,
        peer_srq: Option<Srq5>,
        /// What the rules say.
        state: QpState,
        /// The driver knows: it brought the QP there, or a completion or query has told.
        known: bool,
        /// It was brought to a state that sends, or is known to be in ERR, which takes them too.
        sends: bool,
        recvs: VecDeque<u64>,
        done: [VecDeque<Done>; 2],
        written: [u32; 2],
        /// A message has come in RTR.
        established: bool,
        /// Events are to be told: of that, and that the QP uses no receive of its SRQ any more.
        events: [bool; 2],
        next_id: u64,
        /// The newest send when the QP came back from SQE.
        resumed: u64,
        /// Requests were posted since it was made, and before it was reset: both sides have forgotten them.
        used: [bool; 2],
    }

    /// The SRQ of an XRC domain.
    fn xrc_srq(node: &Node, xrcd: &Xrcd<Function, Local>, cq: &Cq5) -> Srq5 {
        let attr = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
        node.device.create_xrc_srq(&node.pd, &XrcSrqInit { attr, context: 0, xrcd, cq }).expect("an XRC SRQ")
    }

    /// A QP of a type.
    fn qp_of(
        node: &Node,
        shape: Shape,
        xrcd: Option<&Xrcd<Function, Local>>,
        cqs: [&Cq5; 2],
        srq: Option<&Srq5>,
    ) -> Qp5 {
        match (shape.kind, xrcd) {
            (QpType::XrcTgt, Some(xrcd)) => node.device.create_xrc_target(xrcd, 0).expect("an XRC target"),
            (kind, _) => node.qp(kind, cqs[0], cqs[1], srq.filter(|_| shape.srq), CAP),
        }
    }

    /// What a transition takes of a type, from the state before it.
    fn attr_of(kind: QpType, to: QpState, av: AhAttr, peer: Qpn) -> QpAttr {
        match (kind, to) {
            (QpType::RawPacket, QpState::Init) => QpAttr::to(to).port(PORT),
            (QpType::RawPacket, _) => QpAttr::to(to),
            (_, QpState::Init) => init_attr(kind),
            (QpType::XrcIni, QpState::Rtr) => rtr_attr(QpType::Uc, av, peer),
            (_, QpState::Rtr) => rtr_attr(kind, av, peer),
            (QpType::XrcIni, _) => rts_attr(QpType::Rc),
            (QpType::XrcTgt, _) => rts_attr(QpType::Uc).timeout(AckTimeout::INFINITE),
            _ => rts_attr(kind),
        }
    }

    impl Machine5 {
        fn new(bench: &Rc<Bench>, shape: Shape) -> Self {
            let Pair { a, b, .. } = &bench.pair;
            let cqs: Vec<Cq5> = (0..1 + usize::from(shape.two_cqs)).map(|_| a.cq(15)).collect();
            let peer_cq = b.cq(15);
            let (mut srq, mut peer_srq) = (None, None);
            let xrcds = bench.xrcds.as_ref();
            match (shape.kind, xrcds) {
                (QpType::XrcTgt, Some([xrcd, _])) => srq = Some(xrc_srq(a, xrcd, &cqs[0])),
                (QpType::XrcIni, Some([_, xrcd])) => peer_srq = Some(xrc_srq(b, xrcd, &peer_cq)),
                _ if shape.srq => {
                    let attr = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
                    srq = Some(a.device.create_srq(&a.pd, attr).expect("an SRQ"));
                }
                _ => {}
            }
            let qp = qp_of(a, shape, xrcds.map(|x| &x[0]), [&cqs[0], &cqs[cqs.len() - 1]], srq.as_ref());
            let kind = match shape.kind {
                QpType::XrcIni => QpType::XrcTgt,
                QpType::XrcTgt => QpType::XrcIni,
                // It sends nothing, and nobody sends to it.
                QpType::RawPacket => QpType::Ud,
                kind => kind,
            };
            let other = Shape { kind, two_cqs: false, srq: false };
            let mut peer = qp_of(b, other, xrcds.map(|x| &x[1]), [&peer_cq; 2], None);
            if kind == QpType::Ud {
                to_rts(&mut peer, AhAttr::default(), Qpn::new(0));
            }
            let (recvs, done, written, events) = Default::default();
            Self {
                bench: bench.clone(),
                shape,
                cqs,
                srq,
                qp: Some(qp),
                peer,
                _peer_cq: peer_cq,
                peer_srq,
                state: QpState::Reset,
                known: true,
                sends: false,
                recvs,
                done,
                written,
                established: false,
                events,
                next_id: 1,
                resumed: 0,
                used: [false; 2],
            }
        }

        fn qp(&mut self) -> &mut Qp5 {
            self.qp.as_mut().expect("there is one")
        }

        fn id(&mut self) -> u64 {
            self.next_id += 1;
            self.next_id
        }

        /// Whether receives are the QP's own, and end with it.
        fn owns_receives(&self) -> bool {
            self.srq.is_none()
        }

        fn complete(&mut self, done: Done) {
            let cq = usize::from(done.0 && self.shape.two_cqs);
            self.done[cq].push_back(done);
            self.written[cq] += 1;
        }

        /// The device takes the QP to ERR.
        fn fails(&mut self) {
            self.events[1] |= self.state != QpState::Err && !self.owns_receives();
            self.state = QpState::Err;
            while let Some(id) = self.recvs.front().copied().filter(|_| self.owns_receives()) {
                self.recvs.pop_front();
                self.complete((true, id, WcStatus::WorkRequestFlushed));
            }
        }

        fn enters(&mut self, state: QpState) {
            let knew = std::mem::replace(&mut self.known, true);
            self.sends = matches!(state, QpState::Rts | QpState::Err);
            match state {
                QpState::Err => self.fails(),
                QpState::Reset => {
                    self.established = false;
                    self.used[1] = self.used[0];
                    // The driver takes a QP to ERR first that may hold a receive of its SRQ; that nobody hears of.
                    if !knew || matches!(self.state, QpState::Rtr | QpState::Rts) {
                        self.events[1] = false;
                    }
                    // Completions of an XRC SRQ are its own, not the QP's.
                    if self.shape.kind != QpType::XrcTgt {
                        self.done.iter_mut().for_each(VecDeque::clear);
                    }
                    if self.owns_receives() {
                        self.recvs.clear();
                    }
                }
                _ => {}
            }
            self.state = state;
        }

        /// The connection begins at the peer, too.
        fn connect_peer(&mut self) {
            let (own, address, kind) = (self.qp().qpn(), self.bench.pair.a.address(), self.peer.kind());
            self.peer.modify(&QpAttr::to(QpState::Reset)).expect("RESET");
            for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
                self.peer.modify(&attr_of(kind, state, address, own)).expect("a peer that is connected");
            }
        }

        fn modify(&mut self, to: QpState) -> bool {
            let from = self.state;
            let (av, peer, kind) = (self.bench.pair.b.address(), self.peer.qpn(), self.shape.kind);
            let attr = match to {
                QpState::Init if from == QpState::Init => QpAttr::to(to).port(PORT),
                QpState::Init | QpState::Rtr => attr_of(kind, to, av, peer),
                QpState::Rts if from == QpState::Rtr => attr_of(kind, to, av, peer),
                _ => QpAttr::to(to),
            };
            if (from, to) == (QpState::Init, QpState::Rtr) && !matches!(kind, QpType::Ud | QpType::RawPacket) {
                self.connect_peer();
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
                if from == QpState::Sqe {
                    self.resumed = self.next_id;
                }
                self.enters(to);
            }
            true
        }

        fn recv(&mut self) -> bool {
            let id = self.id();
            let sges = [self.bench.local.sge(0..GRH + 8).expect("inside")];
            let len = if self.shape.kind == QpType::Ud { GRH + 8 } else { 8 };
            let sges = [self.bench.local.sge(0..len).unwrap_or(sges[0])];
            let wr = RecvWr::new(id, &sges);
            let result = self.qp().post_recv([wr]).map_err(|e| e.error);
            if let Some(srq) = &mut self.srq {
                assert!(result.is_err(), "{result:?}");
                srq.post([wr]).expect("room in the SRQ");
                self.recvs.push_back(id);
                return true;
            }
            if self.shape.kind == QpType::XrcIni {
                assert!(result.is_err(), "{result:?}");
                return false;
            }
            if self.state == QpState::Reset {
                assert_eq!(result, Err(PostError::WrongState(QpState::Reset)));
                return true;
            }
            assert_eq!(result, Ok(()));
            self.recvs.push_back(id);
            if self.state == QpState::Err {
                self.fails();
            }
            true
        }

        fn send(&mut self, good: bool) -> bool {
            let id = self.id();
            let at = self.bench.local.sge(64..128).expect("inside");
            // SAFETY: nobody has the key, so nothing is read.
            let bad = unsafe { Sge::from_raw(at.addr(), 64, Lkey(0xdead_be00)) };
            let write = SendOp::Write { addr: self.bench.remote.iova(), rkey: self.bench.remote.rkey() };
            let sges = [if good { at } else { bad }];
            let ah = self.bench.pair.a.device.address_handle(&self.bench.pair.b.address()).expect("a path");
            let to = UdDestination { ah, qpn: self.peer.qpn(), qkey: Qkey(0x1111) };
            let wr = match self.shape.kind {
                QpType::Ud => SendWr::new(SendOp::Send, &sges).to(&to),
                QpType::RawPacket => SendWr::new(SendOp::Send, &sges),
                _ => SendWr::new(write, &sges),
            };
            let wr = self.peer_srq.as_ref().map_or(wr, |srq| wr.to_srq(srq.srqn())).wr_id(id).signaled();
            let result = self.qp().post_send([wr]).map_err(|e| e.error);
            if self.shape.kind == QpType::XrcTgt {
                assert!(result.is_err(), "{result:?}");
                return false;
            }
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
                    self.known = false;
                    match self.shape.kind {
                        QpType::Uc | QpType::Ud => self.state = QpState::Sqe,
                        _ => self.fails(),
                    }
                }
                _ => self.complete((false, id, WcStatus::WorkRequestFlushed)),
            }
            true
        }

        /// A message of the peer arrives, where a receive waits for it.
        fn message(&mut self, len: usize) -> bool {
            let receives = matches!(self.state, QpState::Rtr | QpState::Rts | QpState::Sqe)
                && !matches!(self.shape.kind, QpType::XrcIni | QpType::RawPacket);
            let Some(id) = self.recvs.front().copied().filter(|_| receives) else { return false };
            self.recvs.pop_front();
            let sges = [self.bench.remote.sge(64..64 + len).expect("inside")];
            let ah = self.bench.pair.b.device.address_handle(&self.bench.pair.a.address()).expect("a path");
            let to = UdDestination { ah, qpn: self.qp().qpn(), qkey: Qkey(0x1111) };
            let mut wr = SendWr::new(SendOp::Send, &sges);
            if self.shape.kind == QpType::Ud {
                wr = wr.to(&to);
            } else if let (QpType::XrcTgt, Some(srq)) = (self.shape.kind, &self.srq) {
                wr = wr.to_srq(srq.srqn());
            }
            self.peer.post_send([wr]).expect("a peer that sends");
            if self.state == QpState::Rtr && !self.owns_receives() {
                self.events[0] |= !self.established;
                self.established = true;
            }
            if len <= 8 {
                self.complete((true, id, WcStatus::Success));
                return true;
            }
            self.complete((true, id, WcStatus::LocalLength));
            self.known = false;
            self.fails();
            true
        }

        /// Whether a completion says how far the QP has failed. One of an XRC SRQ tells nothing of the QP, one of a send of
        /// before it came back from SQE nothing of now, and a flushed send of an unreliable QP not whether all was flushed.
        fn tells(&self, (receive, id, status): Done) -> bool {
            let unreliable = matches!(self.shape.kind, QpType::Uc | QpType::Ud);
            let flushed = unreliable && !receive && status == WcStatus::WorkRequestFlushed;
            let old = !receive && id <= self.resumed;
            self.shape.kind != QpType::XrcTgt && status != WcStatus::Success && !flushed && !old
        }

        fn poll(&mut self, n: usize, most: usize) -> bool {
            let mut out = [Completion::default(); 8];
            let Some(cq) = self.cqs.get_mut(n) else { return false };
            let taken = cq.poll(&mut out[..most]).expect("a good CQ");
            assert_eq!(taken, self.done[n].len().min(most), "CQ {n} should have {:?}", self.done[n]);
            for Completion { wr_id, status, .. } in &out[..taken] {
                // Sends and receives are in order each; which of a failure's flushes come first nobody says.
                let receive = self.done[n].iter().any(|done| done.0 && done.1 == *wr_id);
                let first = self.done[n].iter().position(|done| done.0 == receive).expect("one of this side");
                let done = self.done[n].remove(first).expect("it is there");
                assert_eq!((*wr_id, *status), (done.1, done.2), "CQ {n}, receive {receive}");
                let told = self.tells(done);
                self.known |= told;
            }
            true
        }

        /// What the device has to say, of a QP with an SRQ.
        fn event(&mut self) -> bool {
            if self.owns_receives() {
                return false;
            }
            let qpn = self.qp().qpn();
            let device = &self.bench.pair.a.device;
            let events: Vec<Event> = std::iter::from_fn(|| device.service().expect("a good device")).collect();
            let all = [Event::CommunicationEstablished(qpn), Event::LastWqeReached(qpn)];
            let expected = all.into_iter().zip(std::mem::take(&mut self.events)).filter(|(_, told)| *told);
            assert_eq!(events, expected.map(|(event, _)| event).collect::<Vec<_>>());
            true
        }

        fn anew(&mut self) -> bool {
            let old = self.qp.take().expect("there is one");
            old.destroy().map_err(|r| r.error).expect("a QP goes whatever is outstanding");
            let (bench, cqs) = (&self.bench, [&self.cqs[0], &self.cqs[self.cqs.len() - 1]]);
            let xrcd = bench.xrcds.as_ref().map(|xrcds| &xrcds[0]);
            self.qp = Some(qp_of(&bench.pair.a, self.shape, xrcd, cqs, self.srq.as_ref()));
            self.enters(QpState::Reset);
            (self.events, self.used) = ([false; 2], [false; 2]);
            true
        }

        /// Waits until the device has done what the rules say, and looks at it.
        fn settle(&mut self) {
            let (qpn, written, state) = (self.qp().qpn().get(), self.written, self.state);
            let node = &self.bench.pair.a;
            let cqns: Vec<u32> = self.cqs.iter().map(|cq| cq.cqn().get()).collect();
            let all = |reached: fn(u32, u32) -> bool| {
                node.model.with(|hca| cqns.iter().zip(written).all(|(cqn, n)| reached(hca.cqs[cqn].producer, n)))
            };
            wait(&node.device, "the completions", || all(|now, n| now >= n).then_some(()));
            (0..8).for_each(|_| node.device.relax());
            assert!(all(|now, n| now == n), "entries written");
            let told = self.qp.as_ref().map_or(state, QueuePair::state);
            assert!(told == state || !self.known && told != QpState::Err, "{told} is told in {state}");
            if self.shape.kind == QpType::RawPacket {
                let queues = node.model.with(|hca| {
                    (hca.sqs.values().map(|sq| sq.state).next(), hca.rqs.values().map(|rq| rq.state).next())
                });
                let (sq, rq) = match state {
                    QpState::Reset => (WqState::Reset, WqState::Reset),
                    QpState::Init | QpState::Rtr => (WqState::Reset, WqState::Ready),
                    QpState::Rts => (WqState::Ready, WqState::Ready),
                    _ => (WqState::Error, WqState::Error),
                };
                assert_eq!(queues, (Some(sq), Some(rq)), "states of the queues");
                return;
            }
            let expected = match state {
                QpState::Reset => Held::Reset,
                QpState::Init => Held::Init,
                QpState::Rtr => Held::ReadyToReceive,
                QpState::Rts => Held::ReadyToSend,
                QpState::Sqd => unreachable!("nothing leads there"),
                QpState::Sqe => Held::SendQueueError,
                QpState::Err => Held::Error,
            };
            assert_eq!(node.model.with(|hca| hca.qps[&qpn].state), expected, "state of the QPC");
        }
    }

    impl Machine for Machine5 {
        type State = (QpState, [bool; 3], usize, [Vec<(bool, WcStatus, bool)>; 2], [bool; 3]);

        fn step(&mut self, step: usize) -> bool {
            let outstanding = self.recvs.len() + self.done.iter().map(VecDeque::len).sum::<usize>();
            let full = outstanding >= MOST;
            let raw = self.shape.kind == QpType::RawPacket;
            let taken = match step {
                0..RECV => self.modify(STATES[step]),
                RECV => !full && self.recv(),
                SEND => !full && self.send(true),
                BAD_SEND => !full && !raw && self.send(false),
                POLL => self.poll(0, 8),
                POLL_ONE => self.poll(0, 1),
                POLL_RECV => self.poll(1, 8),
                QUERY => {
                    let state = self.qp().query().expect("a good device").state;
                    assert_eq!(state, self.state, "a query");
                    self.known = true;
                    true
                }
                ANEW => self.anew(),
                MESSAGE => self.message(8),
                LONG => matches!(self.shape.kind, QpType::Rc | QpType::XrcTgt) && self.message(9),
                EVENT => self.event(),
                _ => false,
            };
            if taken {
                self.used[0] |= matches!(step, RECV | SEND | BAD_SEND);
                self.settle();
            }
            taken
        }

        fn state(&self) -> Self::State {
            let done = |n: usize| self.done[n].iter().map(|done| (done.0, done.2, self.tells(*done))).collect();
            let events = [self.established, self.events[0], self.events[1]];
            (self.state, [self.known, self.sends, self.used[1]], self.recvs.len(), [done(0), done(1)], events)
        }
    }

    fn every_order(shape: Shape, depth: usize, states: usize) {
        let Shape { kind, two_cqs, srq } = shape;
        let link = if kind == QpType::RawPacket { Link::Roce } else { Link::InfiniBand };
        let pair = Pair::new(link, 0x6f72_6465);
        let (local, remote) = (pair.a.mr(128), pair.b.mr(128));
        let is_xrc = matches!(kind, QpType::XrcIni | QpType::XrcTgt);
        let xrcds = is_xrc.then(|| [&pair.a, &pair.b].map(|node| node.device.open_xrcd().expect("an XRC domain")));
        // The port is up.
        while pair.a.device.service().expect("a good device").is_some() {}
        let bench = Rc::new(Bench { pair, local, remote, xrcds });
        let explored = explore(STEPS, depth, || Machine5::new(&bench, shape));
        let name = format!("driver's {kind:?} QP on the card, two CQs {two_cqs}, SRQ {srq}");
        explored.recorded(&name, states, 0);
        for node in [&bench.pair.a, &bench.pair.b] {
            // A driver that was not told of a failure yet asks for what the state does not allow, and hears so.
            let unheard = |told: &&String| !told.starts_with("RTS2RTS_QP (0x505/0x0) refused with BadQpState");
            assert_eq!(node.model.report().violations.iter().find(unheard), None);
        }
    }

    const fn shape(kind: QpType) -> Shape {
        Shape { kind, two_cqs: false, srq: false }
    }

    #[test]
    fn every_order_of_a_reliable_connection() {
        every_order(shape(QpType::Rc), 8, 209);
    }

    #[test]
    fn every_order_of_a_reliable_connection_with_two_cqs_and_an_srq() {
        every_order(Shape { kind: QpType::Rc, two_cqs: true, srq: true }, 7, 370);
    }

    #[test]
    fn every_order_of_an_unreliable_connection() {
        every_order(shape(QpType::Uc), 9, 331);
    }

    #[test]
    fn every_order_of_datagrams() {
        every_order(shape(QpType::Ud), 9, 331);
    }

    #[test]
    fn every_order_of_an_xrc_initiator() {
        every_order(shape(QpType::XrcIni), 10, 58);
    }

    #[test]
    fn every_order_of_an_xrc_target() {
        every_order(shape(QpType::XrcTgt), 8, 422);
    }

    #[test]
    fn every_order_of_raw_packets() {
        every_order(shape(QpType::RawPacket), 9, 83);
    }
}
