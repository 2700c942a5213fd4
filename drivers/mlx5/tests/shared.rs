//! Handles that threads share ([`Shared`]): queue pairs that post and go, completion queues that are polled, a shared
//! receive queue that is filled, and objects that come and go, each on a thread of its own and all at once.

mod bench;

use bareverbs::*;
use bareverbs_harness::{Function, World};
use bareverbs_mlx5::{Config, Cq, Mlx5, Mr, Pd, Qp, Shared};
use bareverbs_model_mlx5::HcaConfig;
use bench::{
    Model, assert_clean,
    pair::{CAP, PORT, init_attr, rtr_attr, rts_attr},
};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

const SEEDS: Range<u64> = 0..3;
/// Pairs of QPs, each with a thread that sends. Those of an odd number go when everything has arrived, the others in
/// mid-traffic.
const PAIRS: usize = 8;
/// Messages of each.
const MESSAGES: usize = 60;
/// CQs of each end, each with a thread that polls.
const CQS: usize = 2;
/// Turns of other threads between two looks at a CQ that is seldom looked at.
const PAUSES: usize = 30;
/// How long a seed may take on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);

type Device5 = Mlx5<Function, Shared>;

/// One end.
struct Node {
    model: Model,
    function: Function,
    device: Device5,
    pd: Pd<Function, Shared>,
}

impl Node {
    fn new(world: &World, n: u8) -> Self {
        let model = Model::new(HcaConfig::infiniband(n));
        let function = model.plug(world);
        let device = Device5::open(function.clone(), Config::default()).expect("opens");
        let pd = device.alloc_pd().expect("a PD");
        Self { model, function, device, pd }
    }

    /// Waits until the port is up.
    fn ready(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.device.query_port(PORT).unwrap().state != PortState::Active {
            assert!(Instant::now() < deadline, "the port did not become active");
            self.device.relax();
        }
    }

    fn mr(&self) -> Mr<&'static mut [u8], Function, Shared> {
        let memory: &'static mut [u8] = vec![0; 64].leak();
        self.device.register(&self.pd, memory, Access::LOCAL_WRITE).map_err(|r| r.error).expect("a region")
    }

    fn cq(&self, entries: u32) -> Cq<Function, Shared> {
        self.device.create_cq(&CqInit { entries, ..CqInit::default() }).expect("a CQ")
    }

    fn qp(
        &self,
        cq: &Cq<Function, Shared>,
        srq: Option<&bareverbs_mlx5::Srq<Function, Shared>>,
    ) -> Qp<Function, Shared> {
        let init = QpInit { kind: QpType::Rc, send_cq: cq, recv_cq: cq, srq, cap: CAP, signal_all: false, context: 0 };
        self.device.create_qp(&self.pd, &init).expect("a QP")
    }

    /// Nothing that the device tells of has gone wrong.
    fn service(&self) {
        while let Some(event) = self.device.service().expect("a device that is well") {
            let expected =
                matches!(event, Event::PortActive(_) | Event::LastWqeReached(_) | Event::CommunicationEstablished(_));
            assert!(expected, "{event:?}");
        }
    }

    /// Makes one of each and lets them go.
    fn one_of_each(&self) {
        let (mr, cq) = (self.mr(), self.cq(7));
        let mut srq = self.device.create_srq(&self.pd, SrqAttr { max_wr: 7, max_sge: 1, limit: 0 }).expect("an SRQ");
        srq.post([RecvWr::new(1, &[mr.sge(0..8).unwrap()])]).expect("a receive");
        let mut qp = self.qp(&cq, Some(&srq));
        qp.modify(&init_attr(QpType::Rc)).expect("INIT");
        qp.destroy().map_err(|r| r.error).expect("the QP goes");
        srq.destroy().map_err(|r| r.error).expect("the SRQ goes");
        cq.destroy().map_err(|r| r.error).expect("the CQ goes");
        mr.deregister().map_err(|r| r.error).expect("the region goes");
    }
}

fn connect(nodes: &[Node; 2], qps: [&mut Qp<Function, Shared>; 2]) {
    let numbers = [qps[1].qpn(), qps[0].qpn()];
    for ((qp, dest), peer) in qps.into_iter().zip(numbers).zip([1, 0]) {
        let dlid = nodes[peer].device.query_port(PORT).unwrap().lid;
        let av = AhAttr { port: PORT, dlid, ..AhAttr::default() };
        qp.modify(&init_attr(QpType::Rc)).expect("INIT");
        qp.modify(&rtr_attr(QpType::Rc, av, dest)).expect("RTR");
        qp.modify(&rts_attr(QpType::Rc)).expect("RTS");
    }
}

/// What has been polled of one end: each QP's next message, and the ids of all requests.
#[derive(Default)]
struct Seen {
    next: BTreeMap<u32, u64>,
    ids: Vec<u64>,
}

/// What the threads tell each other.
struct Traffic {
    deadline: Instant,
    /// Pairs that are not gone yet; none once a thread has failed.
    left: AtomicUsize,
    /// Pairs that are about to go: what of theirs was not polled may be taken out at any time.
    going: [AtomicBool; PAIRS],
    /// Completed sends, and messages received, of each pair.
    done: [[AtomicUsize; 2]; PAIRS],
    seen: [Mutex<Seen>; 2],
}

/// A thread that fails lets the others come to an end.
struct Fails<'a>(&'a Traffic);

impl Drop for Fails<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.left.store(0, SeqCst);
        }
    }
}

impl Traffic {
    /// Whether there is traffic still; lets the other threads go on.
    fn goes_on(&self) -> bool {
        thread::yield_now();
        assert!(Instant::now() < self.deadline, "{} pairs do not come to an end", self.left.load(SeqCst));
        self.left.load(SeqCst) > 0
    }

    /// Takes what a poll gave; `end` is 0 for sends. A message carries its number, a send has it as its id.
    fn take(&self, end: usize, completions: &[Completion]) {
        let mut seen = self.seen[end].lock().unwrap();
        for c in completions {
            // A receiver that goes gives back what it has taken for a message that is under way, and is not there any more
            // for its sender.
            match (end, c.status) {
                (_, WcStatus::Success) => {}
                (1, WcStatus::WorkRequestFlushed) => {
                    seen.ids.push(c.wr_id);
                    continue;
                }
                (0, WcStatus::RetryExceeded | WcStatus::WorkRequestFlushed)
                    if self.going[c.wr_id as usize / MESSAGES].load(SeqCst) =>
                {
                    continue;
                }
                _ => panic!("{c:?}"),
            }
            let number = if end == 0 { c.wr_id } else { u64::from(c.immediate().expect("its number")) };
            let pair = number as usize / MESSAGES;
            // In order, each once; none is left out but by the end of the QP.
            let next = seen.next.entry(c.qpn.get()).or_insert((pair * MESSAGES) as u64);
            let is_next = number == *next || number > *next && self.going[pair].load(SeqCst);
            assert!(is_next, "{next} is the next: {c:?}");
            *next = number + 1;
            seen.ids.push(c.wr_id);
            self.done[pair][end].fetch_add(1, SeqCst);
        }
    }

    /// Polls until all pairs are gone: nothing of theirs is left then. The CQs of those that go in mid-traffic are looked
    /// at by views, and the receivers' seldom, so that completions lie there when they go.
    fn poll(&self, end: usize, cq: &mut Cq<Function, Shared>, by_view: bool) {
        let pauses = if by_view && end == 1 { PAUSES } else { 0 };
        let _fails = Fails(self);
        let mut some = [Completion::default(); 7];
        while self.goes_on() {
            let n = if by_view {
                let mut view = cq.view();
                let one = view.advance().expect("a good CQ");
                if one {
                    some[0] = view.completion();
                }
                usize::from(one)
            } else {
                cq.poll(&mut some).expect("a good CQ")
            };
            self.take(end, &some[..n]);
            (0..pauses).for_each(|_| _ = self.goes_on());
        }
        assert_eq!(cq.poll(&mut some), Ok(0), "completions of QPs that are gone");
    }

    /// Sends a pair's messages, and lets both ends go.
    fn send(&self, n: usize, [mut a, b]: [Qp<Function, Shared>; 2], sge: Sge) {
        let (sges, _fails) = ([sge], Fails(self));
        for id in n * MESSAGES..(n + 1) * MESSAGES {
            let wr = SendWr::new(SendOp::SendImm(id as u32), &sges).wr_id(id as u64).signaled();
            while let Err(refused) = a.post_send([wr]) {
                assert_eq!(refused.error, PostError::QueueFull);
                assert!(self.goes_on(), "another thread has failed");
            }
        }
        let done = |end: usize| self.done[n][end].load(SeqCst);
        while n % 2 == 1 && (done(0), done(1)) != (MESSAGES, MESSAGES) {
            assert!(self.goes_on(), "another thread has failed");
        }
        self.going[n].store(true, SeqCst);
        // Either end goes first.
        let [first, second] = if n % 4 < 2 { [b, a] } else { [a, b] };
        first.destroy().map_err(|r| r.error).expect("it goes");
        second.destroy().map_err(|r| r.error).expect("its peer goes");
        self.left.fetch_sub(1, SeqCst);
    }
}

#[test]
fn all_at_once() {
    for seed in SEEDS {
        println!("seed {seed}");
        let world = World::builder().seed(seed).threaded(true).build();
        let nodes = [0, 1].map(|n| Node::new(&world, n));
        nodes.iter().for_each(Node::ready);
        let (from, to) = (nodes[0].mr(), nodes[1].mr());
        let (send_sge, recv_sge) = (from.sge(0..8).unwrap(), to.sge(0..64).unwrap());
        let mut cqs = [0, 1].map(|end: usize| [(); CQS].map(|()| nodes[end].cq(1023)));
        let init = SrqAttr { max_wr: 31, max_sge: 1, limit: 0 };
        let mut srq = nodes[1].device.create_srq(&nodes[1].pd, init).unwrap();
        let pairs: Vec<_> = (0..PAIRS)
            .map(|n| {
                let (mut a, mut b) = (nodes[0].qp(&cqs[0][n % CQS], None), nodes[1].qp(&cqs[1][n % CQS], Some(&srq)));
                connect(&nodes, [&mut a, &mut b]);
                [a, b]
            })
            .collect();
        let depth = pairs[0][0].cap().max_send_wr as usize;
        let traffic = Traffic {
            deadline: Instant::now() + PATIENCE,
            left: AtomicUsize::new(PAIRS),
            going: Default::default(),
            done: Default::default(),
            seen: Default::default(),
        };
        let (mut posted, mut made) = (0, 0);
        thread::scope(|scope| {
            let (traffic, nodes, srq) = (&traffic, &nodes, &mut srq);
            for (end, cqs) in cqs.iter_mut().enumerate() {
                for (n, cq) in cqs.iter_mut().enumerate() {
                    scope.spawn(move || traffic.poll(end, cq, n == 0));
                }
            }
            for (n, pair) in pairs.into_iter().enumerate() {
                scope.spawn(move || traffic.send(n, pair, send_sge));
            }
            let (posted, made) = (&mut posted, &mut made);
            scope.spawn(move || {
                let _fails = Fails(traffic);
                while traffic.goes_on() {
                    match srq.post([RecvWr::new(*posted, &[recv_sge])]) {
                        Ok(()) => *posted += 1,
                        Err(refused) => assert_eq!(refused.error, PostError::QueueFull),
                    }
                }
            });
            scope.spawn(move || {
                let _fails = Fails(traffic);
                while traffic.goes_on() {
                    nodes.iter().for_each(Node::service);
                    nodes[1].one_of_each();
                    *made += 1;
                }
            });
        });
        let seen = traffic.seen.map(|seen| seen.into_inner().unwrap());
        let mut taken = seen[1].ids.clone();
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), seen[1].ids.len(), "each receive completes once");
        assert!(taken.iter().all(|id| *id < posted));
        for (n, [sent, received]) in traffic.done.into_iter().map(|pair| pair.map(AtomicUsize::into_inner)).enumerate()
        {
            if n % 2 == 1 {
                assert_eq!([sent, received], [MESSAGES; 2], "pair {n}");
            }
            assert!(sent >= MESSAGES - depth, "pair {n}: {sent} of {MESSAGES} sends have completed");
        }
        println!("{} sends, {} receives of {posted}, {made} times one of each", seen[0].ids.len(), taken.len());

        // All slots of the SRQ have come back or are posted: it can be filled, and as many messages arrive as it holds.
        let first = posted;
        while srq.post([RecvWr::new(posted, &[recv_sge])]).is_ok() {
            posted += 1;
        }
        let slots = srq.query().unwrap().max_wr;
        let [[cq, ..], [peer_cq, ..]] = &mut cqs;
        let (mut a, mut b) = (nodes[0].qp(cq, None), nodes[1].qp(peer_cq, Some(&srq)));
        connect(&nodes, [&mut a, &mut b]);
        let mut last = Vec::new();
        for n in 0..slots {
            a.post_send([SendWr::new(SendOp::SendImm(n), &[send_sge]).signaled()]).unwrap();
            for cq in [&mut *cq, &mut *peer_cq] {
                let mut one = [Completion::default()];
                while cq.poll(&mut one).unwrap() == 0 {
                    assert!(Instant::now() < traffic.deadline, "message {n} of {slots} does not arrive");
                    nodes[0].device.relax();
                }
                assert_eq!(one[0].status, WcStatus::Success);
                last.push(one[0].wr_id);
            }
        }
        let ids: Vec<_> = last.into_iter().skip(1).step_by(2).collect();
        let all: std::collections::BTreeSet<_> = ids.iter().chain(&taken).collect();
        assert_eq!((ids.len(), all.len()), (slots as usize, slots as usize + taken.len()), "{ids:?}");
        assert!(ids.ends_with(&(first..posted).collect::<Vec<_>>()), "{first}..{posted}: {ids:?}");
        for _ in 0..slots {
            srq.post([RecvWr::new(0, &[recv_sge])]).expect("a free slot");
        }
        let full = PostListError { index: 0, error: PostError::QueueFull };
        assert_eq!(srq.post([RecvWr::new(0, &[recv_sge])]), Err(full));

        drop((a, b, srq, cqs, from, to));
        for Node { model, function, device, pd } in nodes {
            pd.destroy().map_err(|r| r.error).expect("the PD goes");
            device.destroy().map_err(|r| r.error).expect("the device closes");
            assert_clean(&function);
            assert_eq!(model.report().violations, Vec::<String>::new());
        }
    }
}
