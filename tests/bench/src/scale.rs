//! What posting and polling cost with many QPs on one CQ, with small and large CQs, and with a large SRQ.

use crate::{
    entries::Cqe,
    hal::BenchHal,
    meter::{Cost, Meter},
    rig::{Card, CqRig, N, SrqRig},
    verbs,
};
use anyhow::{Context, Result, ensure};
use bareverbs::{Completion, Lkey, QpCap, QpType, QueuePair, RecvWr, Rkey, SendOp, SendWr, Sge};
use bareverbs_mlx5::{Local, Qp};
use std::{
    fmt::{self, Display, Formatter},
    hint::black_box,
    str::FromStr,
    time::{Duration, Instant},
};

/// Completions taken at once.
const BATCH: usize = 16;
/// Receives posted at once.
const LIST: usize = 32;
const SEED: u64 = 0x5ca1e;

/// A case: its name, how many of what it is about, and what an operation costs.
pub type Row = (&'static str, String, Cost);

/// How many QPs, and how many requests the ring of each holds: `65536x16`.
#[derive(Clone, Copy)]
pub struct Qps {
    pub count: usize,
    pub ring: usize,
}

impl FromStr for Qps {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (count, ring) = text.split_once('x').context("COUNTxRING")?;
        let (count, ring) = (count.parse::<usize>()?, ring.parse::<usize>()?);
        ensure!(count.is_power_of_two() && ring.is_power_of_two(), "{text}: powers of two");
        ensure!(count * ring >= N, "{text}: a round is {N} requests");
        Ok(Self { count, ring })
    }
}

impl Display for Qps {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.count, self.ring)
    }
}

/// QPs that complete to one CQ.
struct ManyQps {
    qps: Vec<Qp<BenchHal, Local>>,
    /// Completion and requests posted so far, of each.
    sent: Vec<(Cqe, u16)>,
    cq: CqRig<Local>,
    /// Which QP is next: each place once, in an order without a pattern.
    order: Vec<u32>,
    at: usize,
    card: Card<Local>,
}

/// What making many QPs took.
pub struct Made {
    pub qps: Qps,
    /// From the first to the last, each taken to RTS.
    pub time: Duration,
    /// DMA memory of each.
    pub dma_bytes: usize,
    /// Memory of its own that the driver took for each, and the handle that the program holds.
    pub host_bytes: usize,
}

impl ManyQps {
    fn new(of: Qps) -> Result<(Self, Made)> {
        let Qps { count, ring } = of;
        let mut card = Card::open(count as u32)?;
        let cq = CqRig::new(&card, N)?;
        let cap = QpCap { max_send_wr: ring as u32, max_recv_wr: 0, max_send_sge: 1, max_recv_sge: 0, max_inline: 0 };
        let before = card.hal.state_bytes();
        let begin = Instant::now();
        let (mut qps, mut sent) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut dma_bytes = 0;
        for _ in 0..count {
            let rig = card.qp(QpType::Rc, &cq, &cq, None, cap)?;
            dma_bytes = rig.dma_bytes();
            sent.push((rig.sent, 0));
            qps.push(rig.qp);
        }
        let time = begin.elapsed();
        let host_bytes = (card.hal.state_bytes() - before) / count + size_of::<Qp<BenchHal, Local>>();
        let made = Made { qps: of, time, dma_bytes, host_bytes };
        let mut order: Vec<u32> = (0..count.max(N)).map(|n| (n % count) as u32).collect();
        let mut random = oorandom::Rand64::new(SEED.into());
        for n in (1..order.len()).rev() {
            order.swap(n, random.rand_range(0..n as u64 + 1) as usize);
        }
        Ok((Self { qps, sent, cq, order, at: 0, card }, made))
    }

    /// The QPs of the round that begins.
    fn round(&mut self) -> std::ops::Range<usize> {
        let begin = self.at;
        self.at = (self.at + N) % self.order.len();
        begin..begin + N
    }

    /// The device completes a round.
    fn complete(&mut self, round: std::ops::Range<usize>) {
        for n in round {
            let (cqe, counter) = &mut self.sent[self.order[n] as usize];
            self.cq.complete(*cqe, *counter);
            *counter = counter.wrapping_add(1);
        }
    }

    fn post(&mut self, round: std::ops::Range<usize>, wr: &[SendWr<'_>]) {
        for n in round {
            let qp = &mut self.qps[self.order[n] as usize];
            verbs::post_send(qp, black_box(wr)).expect("room");
        }
    }

    fn poll(&mut self) {
        let mut out = [Completion::default(); BATCH];
        for _ in 0..N / BATCH {
            let taken = verbs::poll(&mut self.cq.cq, black_box(&mut out)).expect("good entries");
            assert_eq!(taken, BATCH);
        }
    }
}

fn element() -> Sge {
    // SAFETY: no device reads it: requests stay in the rings.
    unsafe { Sge::from_raw(0x1000, 64, Lkey(0x1234)) }
}

/// Posts to and polls of QPs on one CQ, touched at random.
pub fn qps(meter: &mut Meter, of: Qps, done: &mut dyn FnMut(Row)) -> Result<Made> {
    let (mut many, made) = ManyQps::new(of)?;
    let sges = [element()];
    let wr = [SendWr::new(SendOp::Write { addr: 0x1000_0000, rkey: Rkey(0x4321) }, &sges).wr_id(1).signaled()];
    // The first post to a QP looks how much room there is, and so does one in each round of its ring.
    for _ in 0..many.order.len() / N {
        let round = many.round();
        many.post(round.clone(), &wr);
        many.complete(round);
        many.poll();
    }
    let mut posted = None;
    let prepare = |many: &mut ManyQps| {
        if let Some(posted) = posted.take() {
            many.complete(posted);
            many.poll();
        }
        posted = Some(many.round());
    };
    // The round that `prepare` chose is the one before where the next begins.
    let last = |many: &ManyQps| (many.at + many.order.len() - N) % many.order.len();
    let name = format!("post_send_write/1 qps={of}");
    let cost = meter.measure(&mut many, &name, N, prepare, |many| {
        let begin = last(many);
        many.post(begin..begin + N, &wr);
    });
    done(("post_send_write/1", of.to_string(), cost));
    let begin = last(&many);
    many.complete(begin..begin + N);
    many.poll();
    let prepare = |many: &mut ManyQps| {
        let round = many.round();
        many.post(round.clone(), &wr);
        many.complete(round);
    };
    let cost = meter.measure(&mut many, &format!("poll_req/16 qps={of}"), N, prepare, ManyQps::poll);
    done(("poll_req/16", of.to_string(), cost));
    assert_eq!(many.qps.len(), of.count);
    drop((many.qps, many.cq, many.card));
    Ok(made)
}

/// Polls of a CQ of `entries`.
pub fn cq(meter: &mut Meter, entries: usize, done: &mut dyn FnMut(Row)) -> Result<()> {
    struct One {
        qp: crate::rig::QpRig<Local>,
        cq: CqRig<Local>,
        _card: Card<Local>,
    }
    let mut card = Card::open(1)?;
    let cq = CqRig::new(&card, entries)?;
    let cap = QpCap { max_send_wr: N as u32, max_recv_wr: 0, max_send_sge: 1, max_recv_sge: 0, max_inline: 0 };
    let qp = card.qp(QpType::Rc, &cq, &cq, None, cap)?;
    let n = N.min(entries - BATCH);
    let sges = [element()];
    let wr = [SendWr::new(SendOp::Write { addr: 0, rkey: Rkey(1) }, &sges).signaled()];
    let prepare = |one: &mut One| {
        for _ in 0..n {
            verbs::post_send(&mut one.qp.qp, &wr).expect("room");
            one.cq.complete(one.qp.sent, one.qp.posted as u16);
            one.qp.posted = one.qp.posted.wrapping_add(1);
        }
    };
    let name = format!("poll_req/16 entries={entries}");
    let cost = meter.measure(&mut One { qp, cq, _card: card }, &name, n, prepare, |one| {
        let mut out = [Completion::default(); BATCH];
        for _ in 0..n / BATCH {
            assert_eq!(verbs::poll(&mut one.cq.cq, black_box(&mut out)).expect("good entries"), BATCH);
        }
    });
    done(("poll_req/16", entries.to_string(), cost));
    Ok(())
}

/// Posts to and polls of an SRQ of `slots`.
pub fn srq(meter: &mut Meter, slots: usize, done: &mut dyn FnMut(Row)) -> Result<()> {
    struct One {
        srq: SrqRig<Local>,
        qp: crate::rig::QpRig<Local>,
        cq: CqRig<Local>,
        _card: Card<Local>,
    }
    let mut card = Card::open(1)?;
    let cq = CqRig::new(&card, N)?;
    let srq = SrqRig::new(&card, slots)?;
    let cap = QpCap { max_send_wr: 1, max_recv_wr: 0, max_send_sge: 1, max_recv_sge: 0, max_inline: 0 };
    let qp = card.qp(QpType::Rc, &cq, &cq, Some(&srq), cap)?;
    let sges = [element()];
    let list: [RecvWr<'_>; LIST] = std::array::from_fn(|i| RecvWr::new(i as u64, &sges));
    let n = N - LIST;
    let mut one = One { srq, qp, cq, _card: card };
    let post = |one: &mut One| {
        for _ in 0..n / LIST {
            verbs::post_srq_recv(&mut one.srq.srq, black_box(&list)).expect("room");
        }
    };
    let complete = |one: &mut One| {
        for _ in 0..n {
            let slot = one.srq.take();
            one.cq.complete(one.qp.received, slot);
        }
    };
    let poll = |one: &mut One| {
        let mut out = [Completion::default(); BATCH];
        for _ in 0..n / BATCH {
            assert_eq!(verbs::poll(&mut one.cq.cq, black_box(&mut out)).expect("good entries"), BATCH);
        }
    };
    let mut posted = false;
    let prepare = |one: &mut One| {
        if std::mem::replace(&mut posted, true) {
            complete(one);
            poll(one);
        }
    };
    let cost = meter.measure(&mut one, &format!("post_srq_recv/32 slots={slots}"), n, prepare, post);
    done(("post_srq_recv/32", slots.to_string(), cost));
    complete(&mut one);
    poll(&mut one);
    let prepare = |one: &mut One| {
        post(one);
        complete(one);
    };
    let cost = meter.measure(&mut one, &format!("poll_srq/16 slots={slots}"), n, prepare, poll);
    done(("poll_srq/16", slots.to_string(), cost));
    assert_eq!(one.qp.qp.kind(), QpType::Rc);
    Ok(())
}
