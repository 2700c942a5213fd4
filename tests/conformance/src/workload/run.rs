//! Carries a plan out.

use super::{
    endpoint::{End, Side},
    plan::{Kind, Plan, below},
};
use crate::{
    arena::{Arena, Touched},
    connect::{self, Connection},
};
use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
use bareverbs::{
    Access, Completion, CompletionQueue, CqInit, Destroy, Device, Error, Event, Memory, MemoryRegion, PollError, Psn,
    QpCap, QpInit, QpType, QueuePair, RegionInit, SrqAttr,
};
use core::fmt;
use oorandom::Rand64;

/// Why a run failed.
#[derive(Debug)]
pub enum Failure {
    /// A verb failed.
    Verb(Error),
    /// A poll failed.
    Poll(PollError),
    /// The device told of an error.
    Event(Event),
    /// A byte outside was written.
    Touched(Touched),
    /// Something is not what the reference says.
    Wrong(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verb(e) => e.fmt(f),
            Self::Poll(e) => e.fmt(f),
            Self::Event(e) => write!(f, "event {e:?}"),
            Self::Touched(t) => write!(f, "byte {:#x} outside of every range holds {:#x} now", t.offset, t.found),
            Self::Wrong(what) => f.write_str(what),
        }
    }
}

impl core::error::Error for Failure {}

impl<E: Into<Error>> From<E> for Failure {
    fn from(e: E) -> Self {
        Self::Verb(e.into())
    }
}

impl From<Touched> for Failure {
    fn from(t: Touched) -> Self {
        Self::Touched(t)
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Requests of all QPs.
    pub requests: usize,
    /// Bytes of their messages.
    pub bytes: usize,
    /// Messages that unreliable QPs did not deliver.
    pub lost: usize,
}

/// Runs a plan between two devices; `buffer` gives memory.
pub fn run<D: Device, M: Memory>(
    devices: [D; 2],
    plan: &Plan,
    mut buffer: impl FnMut(usize) -> M,
) -> Result<Stats, Failure> {
    let rng = &mut Rand64::new(u128::from(plan.seed) << 1 | 1);
    let pds = [devices[0].alloc_pd()?, devices[1].alloc_pd()?];
    let room = Room::of(plan);
    let entries = plan.pairs.iter().map(|p| p.recv_depth * 2 + 64).sum::<u32>() + 64;
    let mut cqs = Vec::new();
    for device in &devices {
        let init = CqInit { entries: entries * 4, large_entries: below(rng, 4) == 0, ..CqInit::default() };
        cqs.push([device.create_cq(&init)?, device.create_cq(&init)?]);
    }
    let mut sides = Vec::new();
    for (i, device) in devices.iter().enumerate() {
        let all = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        // Addresses of the plan's own, so that a seed means the same bytes on the link every time.
        let mut register = |len, access| {
            let memory = buffer(len);
            let offset = memory.range().cast::<u8>().as_ptr() as u64 % 4096;
            let iova = Some(below(rng, 1 << 40) << 12 | offset);
            device.register(&pds[i], memory, RegionInit { access, iova })
        };
        let data = register(room.data[i], Access::LOCAL_WRITE)?;
        let window = register(room.window[i], all)?;
        let receive = register(room.receive[i], Access::LOCAL_WRITE)?;
        let shared = plan.pairs.iter().any(|p| p.srq[i]);
        let attr = SrqAttr { max_wr: room.shared, max_sge: 4, limit: 0 };
        sides.push(Side {
            seed: plan.seed,
            device: device.clone(),
            data: Arena::new(data)?,
            window: Arena::new(window)?,
            receive: Arena::new(receive)?,
            srq: if shared { Some(device.create_srq(&pds[i], attr)?) } else { None },
            slots: BTreeMap::new(),
            next_slot: 0,
            slot_len: plan.longest + 64,
            max_sge: 4,
        });
    }
    let Ok(mut sides) = <[Side<D, M>; 2]>::try_from(sides) else { unreachable!("two devices") };

    let mut pairs = Vec::new();
    for (p, pair) in plan.pairs.iter().enumerate() {
        let mut ends = Vec::new();
        for i in 0..2 {
            let init = QpInit {
                kind: pair.kind,
                send_cq: &cqs[i][0],
                recv_cq: &cqs[i][1],
                srq: sides[i].srq.as_ref().filter(|_| pair.srq[i]),
                cap: QpCap {
                    max_send_wr: pair.send_depth,
                    max_recv_wr: pair.recv_depth,
                    max_send_sge: 4,
                    max_recv_sge: 4,
                    max_inline: 64,
                },
                signal_all: false,
                context: p as u64,
            };
            let qp = devices[i].create_qp(&pds[i], &init)?;
            let requests = pair.requests[i].clone();
            let mut end = End::new(qp, p * 2 + i, requests, pair.send_depth, plan.lossy);
            end.uses_srq = pair.srq[i];
            end.recv_depth = pair.recv_depth as usize;
            let zero = sides[1 - i].window.take(8, 8, 0).ok_or_else(|| Failure::Wrong("no room for a word".into()))?;
            sides[1 - i].window.region().write(zero.start, &[0; 8])?;
            end.word = (zero, 0);
            ends.push(end);
        }
        let Ok(mut ends) = <[End<D>; 2]>::try_from(ends) else { unreachable!("two ends") };
        let connection = Connection {
            mtu: plan.mtu,
            psn: core::array::from_fn(|_| Psn::new(rng.rand_u64() as u32)),
            rd_atomic: 1 + below(rng, 8) as u8,
            ..Connection::default()
        };
        let [a, b] = &mut ends;
        connect::connect(&devices, [&mut a.qp, &mut b.qp], &connection)?;
        if pair.kind == QpType::Ud {
            a.to = Some(connect::destination(&devices[0], &devices[1], &b.qp)?);
            b.to = Some(connect::destination(&devices[1], &devices[0], &a.qp)?);
        }
        pairs.push(ends);
    }

    let mut stats = Stats::default();
    for request in plan.pairs.iter().flat_map(|p| p.requests.iter().flatten()) {
        stats.requests += 1;
        stats.bytes += request.len();
    }
    let mut quiet = 0;
    while !pairs.iter().flatten().all(End::is_done) {
        let worked = step(plan, rng, &mut sides, &mut pairs, &mut cqs)?;
        quiet = if worked { 0 } else { quiet + 1 };
        if quiet > QUIET {
            let ends: Vec<String> = pairs.iter().flatten().map(|e| format!("{e}")).collect();
            return Err(Failure::Wrong(format!("nothing happens any more: {}", ends.join("; "))));
        }
    }
    // What unreliable QPs sent may still be on its way.
    for _ in 0..64 {
        drain(&mut sides, &mut pairs, &mut cqs)?;
        sides[0].device.relax();
    }
    finish(sides, pairs, cqs)?;
    for pd in pds {
        pd.destroy()?;
    }
    Ok(stats)
}

/// Steps in which nothing was posted and nothing completed, after which a run has failed. Timeouts and retries of a
/// lossy link must fit in.
const QUIET: u32 = 2_000_000;

/// Does one thing, drawn from the seed, and handles what completed.
fn step<D: Device, M: Memory>(
    plan: &Plan,
    rng: &mut Rand64,
    sides: &mut [Side<D, M>; 2],
    pairs: &mut [[End<D>; 2]],
    cqs: &mut [[D::Cq; 2]],
) -> Result<bool, Failure> {
    let p = below(rng, pairs.len() as u64) as usize;
    let i = below(rng, 2) as usize;
    match below(rng, 3) {
        0 => {
            let [a, b] = &mut pairs[p];
            let [s, t] = sides;
            let (end, peer, here, there) = if i == 0 { (a, b, s, t) } else { (b, a, t, s) };
            end.stage(here, there, 1 + below(rng, plan.list as u64) as usize, rng)?;
            Ok(end.post(peer)? > 0)
        }
        1 => {
            let mut posted = false;
            for _ in 0..=below(rng, 4) {
                posted |= pairs[p][i].post_receive(&mut sides[i], rng)?;
                posted |= sides[i].post_shared(rng)?;
            }
            Ok(posted)
        }
        _ => drain(sides, pairs, cqs),
    }
}

/// Polls every CQ once and reads the events; tells whether anything completed.
fn drain<D: Device, M: Memory>(
    sides: &mut [Side<D, M>; 2],
    pairs: &mut [[End<D>; 2]],
    cqs: &mut [[D::Cq; 2]],
) -> Result<bool, Failure> {
    let mut completed = 0;
    for (i, [send, receive]) in cqs.iter_mut().enumerate() {
        let mut done = [Completion::default(); 7];
        let n = send.poll(&mut done).map_err(Failure::Poll)?;
        completed += n;
        for c in &done[..n] {
            let [s, t] = &mut *sides;
            let (here, there) = if i == 0 { (s, t) } else { (t, s) };
            end(pairs, i, c)?.sent(c, here, there)?;
        }
        let n = receive.poll(&mut done).map_err(Failure::Poll)?;
        completed += n;
        for c in &done[..n] {
            end(pairs, i, c)?.received(c, &mut sides[i])?;
        }
        match sides[i].device.service()? {
            None | Some(Event::CommunicationEstablished(_) | Event::PortActive(_)) => {}
            Some(event) => return Err(Failure::Event(event)),
        }
    }
    Ok(completed > 0)
}

fn end<'a, D: Device>(pairs: &'a mut [[End<D>; 2]], i: usize, c: &Completion) -> Result<&'a mut End<D>, Failure> {
    let mut ends = pairs.iter_mut().map(|p| &mut p[i]);
    ends.find(|e| e.qp.qpn() == c.qpn).ok_or_else(|| Failure::Wrong(format!("a completion names QP {}", c.qpn)))
}

/// Destroys everything and checks that no byte outside was touched.
fn finish<D: Device, M: Memory>(
    mut sides: [Side<D, M>; 2],
    pairs: Vec<[End<D>; 2]>,
    cqs: Vec<[D::Cq; 2]>,
) -> Result<(), Failure> {
    // All QPs go first: a message of an unreliable one that is still on its way must find nobody any more.
    let mut left = Vec::new();
    for ends in pairs {
        for (i, end) in ends.into_iter().enumerate() {
            let End { qp, word, held, index, .. } = end;
            qp.destroy()?;
            left.push((i, word, held, index));
        }
    }
    for (i, (word, value), held, index) in left {
        let mut bytes = [0; 8];
        sides[1 - i].window.region().read(word.start, &mut bytes)?;
        if u64::from_ne_bytes(bytes) != value {
            return Err(Failure::Wrong(format!("the word of QP {index} is not {value:#x}")));
        }
        sides[1 - i].window.give(&word)?;
        for range in &held {
            sides[1 - i].window.give(range)?;
        }
    }
    for mut side in sides {
        if let Some(srq) = side.srq {
            srq.destroy()?;
        }
        for (_, ranges) in side.slots.into_values() {
            for range in &ranges {
                side.receive.give(range)?;
            }
        }
        for arena in [side.data, side.window, side.receive] {
            arena.check_untouched()?;
            arena.into_region().deregister()?;
        }
    }
    for cq in cqs.into_iter().flatten() {
        cq.destroy()?;
    }
    Ok(())
}

/// How much memory a plan needs: enough for all of it at once, so that nothing waits for room.
struct Room {
    data: [usize; 2],
    window: [usize; 2],
    receive: [usize; 2],
    shared: u32,
}

impl Room {
    fn of(plan: &Plan) -> Self {
        const EACH: usize = 64;
        let mut room = Self { data: [8192; 2], window: [8192; 2], receive: [8192; 2], shared: 8 };
        let slot = plan.longest + 64 + 4 * EACH;
        for pair in &plan.pairs {
            for i in 0..2 {
                for request in &pair.requests[i] {
                    room.data[i] += request.len() + 4 * EACH;
                    if !matches!(request.kind, Kind::Send | Kind::SendImm) {
                        room.window[1 - i] += request.len() + EACH;
                    }
                }
                room.receive[i] += slot * pair.recv_depth as usize;
            }
        }
        for receive in &mut room.receive {
            *receive += slot * 2 * room.shared as usize;
        }
        room
    }
}
