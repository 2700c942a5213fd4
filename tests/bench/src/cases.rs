//! The workload: names, rings, requests and rounds are those of the bench of libmlx5.
//!
//! One device, two CQs, an RC QP without and one with an SRQ, 1,024 entries each. 32 prebuilt requests and payload
//! lines, used round robin. A post round begins with an empty ring and posts 1,024 requests (992 to the SRQ); a poll
//! round finds 1,024 entries (960 of the SRQ, which holds 1,023) and sums first id and last status of each call.

use crate::{
    entries::{data_segment, inline_wqe, write_wqe},
    hal::BenchHal,
    meter::{Cost, Meter},
    rig::{N, Rig, SRQ_ROUND},
    verbs,
};
use anyhow::Result;
use bareverbs::{Completion, Lkey, Qpn, QueuePair, RecvWr, Rkey, SendOp, SendWr, Sge, WcOpcode, WcStatus};
use bareverbs_mlx5::{Cq, Policy};
use std::hint::black_box;

/// Requests and payload lines.
const LINES: usize = 32;
/// Polled in a round from the SRQ: a multiple of 1, 16 and 64.
const SRQ_POLLS: usize = 960;

const LKEY: Lkey = Lkey(0x1234);
const RKEY: Rkey = Rkey(0x4321);
const REMOTE: u64 = 0x1000_0000;

#[repr(align(64))]
struct Line([u8; 64]);

/// What is posted.
struct Requests<'a> {
    writes: [SendWr<'a>; LINES],
    inlines: [SendWr<'a>; LINES],
    receives: [RecvWr<'a>; LINES],
}

impl<'a> Requests<'a> {
    fn new(lines: &'a [Line; LINES], sges: &'a [Sge; LINES]) -> Self {
        let write = |i: usize| SendOp::Write { addr: REMOTE + i as u64 * 64, rkey: RKEY };
        let element = |i: usize| std::slice::from_ref(&sges[i]);
        Self {
            writes: std::array::from_fn(|i| SendWr::new(write(i), element(i)).wr_id(i as u64).signaled()),
            inlines: std::array::from_fn(|i| {
                SendWr::inline(SendOp::Send, &lines[i].0[..32]).wr_id(i as u64).signaled()
            }),
            receives: std::array::from_fn(|i| RecvWr::new(i as u64, element(i))),
        }
    }
}

/// A case and what it cost.
pub type Row = (String, Cost);

/// Runs all cases that the meter wants; `done` is told of each.
pub fn run<P: Policy>(meter: &mut Meter, done: &mut dyn FnMut(&Row)) -> Result<()> {
    let lines: Box<[Line; LINES]> =
        Box::new(std::array::from_fn(|i| Line(std::array::from_fn(|j| (i * 64 + j) as u8))));
    let sges: [Sge; LINES] = std::array::from_fn(|i| {
        // SAFETY: no device reads it: requests stay in the rings.
        unsafe { Sge::from_raw(lines[i].0.as_ptr().addr() as u64, 64, LKEY) }
    });
    let requests = Requests::new(&lines, &sges);
    let mut cases = Cases { meter, requests, done, sum: 0 };
    let rig = &mut Rig::<P>::new()?;
    cases.post_send::<P, 1>(rig, "post_send_write", |r| &r.writes, check_writes);
    cases.post_send::<P, 8>(rig, "post_send_write", |r| &r.writes, check_writes);
    cases.post_send::<P, 32>(rig, "post_send_write", |r| &r.writes, check_writes);
    cases.post_send::<P, 1>(rig, "post_send_inl32", |r| &r.inlines, check_inlines);
    cases.post_send::<P, 8>(rig, "post_send_inl32", |r| &r.inlines, check_inlines);
    cases.post_send::<P, 32>(rig, "post_send_inl32", |r| &r.inlines, check_inlines);
    cases.post_recv::<P, 1>(rig);
    cases.post_recv::<P, 8>(rig);
    cases.post_recv::<P, 32>(rig);
    cases.post_srq_recv::<P, 1>(rig);
    cases.post_srq_recv::<P, 8>(rig);
    cases.post_srq_recv::<P, 32>(rig);
    cases.poll_req::<P, 1>(rig);
    cases.poll_req::<P, 16>(rig);
    cases.poll_req::<P, 64>(rig);
    cases.poll_resp::<P, 1>(rig);
    cases.poll_resp::<P, 16>(rig);
    cases.poll_resp::<P, 64>(rig);
    cases.poll_srq::<P, 1>(rig);
    cases.poll_srq::<P, 16>(rig);
    cases.poll_srq::<P, 64>(rig);
    cases.poll_empty(rig);
    black_box(cases.sum);
    Ok(())
}

type BenchCq<P> = Cq<BenchHal, P>;

struct Cases<'a, 'r> {
    meter: &'a mut Meter,
    requests: Requests<'r>,
    done: &'a mut dyn FnMut(&Row),
    sum: u64,
}

/// Posts `n` requests (whole rounds of all lines) in lists of `K`.
#[inline(always)]
fn post<W, const K: usize>(list: &[W; LINES], n: usize, mut call: impl FnMut(&[W])) {
    let (chunks, _) = list.as_chunks::<K>();
    for _ in 0..n / LINES {
        for chunk in chunks {
            let chunk: &[W; K] = black_box(chunk);
            call(chunk);
        }
    }
}

impl<'r> Cases<'_, 'r> {
    /// Posts to the send queue in lists of `K`.
    fn post_send<P: Policy, const K: usize>(
        &mut self,
        rig: &mut Rig<P>,
        name: &str,
        list: impl for<'a> Fn(&'a Requests<'r>) -> &'a [SendWr<'r>; LINES],
        check: impl Fn(&Rig<P>, &Requests<'r>, u32),
    ) {
        let name = format!("{name}/{K}");
        if !self.meter.wants(&name) {
            return;
        }
        let list = list(&self.requests);
        let prepare = |rig: &mut Rig<P>| {
            retire_sends(rig);
            rig.qp.posted = rig.qp.posted.wrapping_add(N as u32);
        };
        let cost = self.meter.measure(rig, &name, N, prepare, |rig| {
            post::<_, K>(list, N, |wrs| verbs::post_send(&mut rig.qp.qp, wrs).expect("room"));
        });
        check(rig, &self.requests, rig.qp.posted.wrapping_sub(N as u32));
        (self.done)(&(name, cost));
        retire_sends(rig);
    }

    /// Posts to the receive queue in lists of `K`.
    fn post_recv<P: Policy, const K: usize>(&mut self, rig: &mut Rig<P>) {
        let name = format!("post_recv/{K}");
        if !self.meter.wants(&name) {
            return;
        }
        let list = &self.requests.receives;
        let mut posted = 0;
        let prepare = |rig: &mut Rig<P>| retire_receives(rig, std::mem::replace(&mut posted, N));
        let cost = self.meter.measure(rig, &name, N, prepare, |rig| {
            post::<_, K>(list, N, |wrs| verbs::post_recv(&mut rig.qp.qp, wrs).expect("room"));
        });
        for i in 0..N {
            assert_eq!(rig.qp.recv_bytes(i), element(&self.requests, i), "receive {i}");
        }
        retire_receives(rig, N);
        (self.done)(&(name, cost));
    }

    /// Posts to the SRQ in lists of `K`.
    fn post_srq_recv<P: Policy, const K: usize>(&mut self, rig: &mut Rig<P>) {
        let name = format!("post_srq_recv/{K}");
        if !self.meter.wants(&name) {
            return;
        }
        let list = &self.requests.receives;
        let mut posted = 0;
        let prepare = |rig: &mut Rig<P>| retire_srq_receives(rig, std::mem::replace(&mut posted, SRQ_ROUND));
        let cost = self.meter.measure(rig, &name, SRQ_ROUND, prepare, |rig| {
            post::<_, K>(list, SRQ_ROUND, |wrs| verbs::post_srq_recv(&mut rig.srq.srq, wrs).expect("room"));
        });
        check_srq(rig, &self.requests);
        retire_srq_receives(rig, SRQ_ROUND);
        (self.done)(&(name, cost));
    }

    /// Polls completions of requests, `B` at once.
    fn poll_req<P: Policy, const B: usize>(&mut self, rig: &mut Rig<P>) {
        let list = self.requests.writes;
        let expected = Completion { opcode: WcOpcode::Write, qpn: rig.qp.qp.qpn(), ..Completion::default() };
        let arm = |rig: &mut Rig<P>| {
            post::<_, LINES>(&list, N, |wrs| verbs::post_send(&mut rig.qp.qp, wrs).expect("room"));
            rig.qp.posted = rig.qp.posted.wrapping_add(N as u32);
            rig.complete_sends(N);
        };
        self.poll::<P, B>(rig, "poll_req", N, expected, |rig| &mut rig.send_cq.cq, arm);
    }

    /// Polls completions of receives, `B` at once.
    fn poll_resp<P: Policy, const B: usize>(&mut self, rig: &mut Rig<P>) {
        let list = self.requests.receives;
        let expected = received(rig.qp.qp.qpn());
        let arm = |rig: &mut Rig<P>| {
            post::<_, LINES>(&list, N, |wrs| verbs::post_recv(&mut rig.qp.qp, wrs).expect("room"));
            rig.complete_receives(N);
        };
        self.poll::<P, B>(rig, "poll_resp", N, expected, |rig| &mut rig.recv_cq.cq, arm);
    }

    /// Polls completions of receives of the SRQ, `B` at once.
    fn poll_srq<P: Policy, const B: usize>(&mut self, rig: &mut Rig<P>) {
        let list = self.requests.receives;
        let expected = received(rig.srq_qp.qp.qpn());
        let arm = |rig: &mut Rig<P>| {
            let post_list = |wrs: &[RecvWr<'_>]| verbs::post_srq_recv(&mut rig.srq.srq, wrs).expect("room");
            post::<_, LINES>(&list, SRQ_POLLS, post_list);
            rig.complete_srq_receives(SRQ_POLLS);
        };
        self.poll::<P, B>(rig, "poll_srq", SRQ_POLLS, expected, |rig| &mut rig.recv_cq.cq, arm);
    }

    /// Rounds of `n` completions, which `arm` writes; `B` are polled at once.
    fn poll<P: Policy, const B: usize>(
        &mut self,
        rig: &mut Rig<P>,
        name: &str,
        n: usize,
        expected: Completion,
        cq: impl Fn(&mut Rig<P>) -> &mut BenchCq<P>,
        arm: impl FnMut(&mut Rig<P>),
    ) {
        let name = format!("{name}/{B}");
        if !self.meter.wants(&name) {
            return;
        }
        let mut out = [Completion::default(); B];
        let mut sum = 0;
        let cost = self.meter.measure(rig, &name, n, arm, |rig| {
            for _ in 0..n / B {
                let out = black_box(&mut out);
                let taken = verbs::poll(cq(rig), out).expect("good entries");
                assert_eq!(taken, B);
                sum += out[0].wr_id + out[B - 1].status as u64;
            }
        });
        self.sum += sum;
        // All fields, of the last call.
        for (i, completion) in out.iter().enumerate() {
            let wr_id = ((n - B + i) % LINES) as u64;
            assert_eq!(*completion, Completion { wr_id, ..expected }, "{name}, completion {i}");
        }
        (self.done)(&(name, cost));
    }

    fn poll_empty<P: Policy>(&mut self, rig: &mut Rig<P>) {
        let name = "poll_empty/16".to_owned();
        if !self.meter.wants(&name) {
            return;
        }
        let mut out = [Completion::default(); 16];
        let cost = self.meter.measure(
            rig,
            &name,
            N,
            |_| (),
            |rig| {
                for _ in 0..N {
                    let taken = verbs::poll(&mut rig.send_cq.cq, black_box(&mut out)).expect("no entries");
                    assert_eq!(taken, 0);
                }
            },
        );
        (self.done)(&(name, cost));
    }
}

/// Completion of a SEND of 64 bytes that arrived.
fn received(qpn: Qpn) -> Completion {
    Completion {
        opcode: WcOpcode::Recv,
        status: WcStatus::Success,
        byte_len: 64,
        src_qp: Qpn::new(0x200),
        qpn,
        ..Completion::default()
    }
}

/// Empties the send queue: one completion of the newest request retires all.
fn retire_sends<P: Policy>(rig: &mut Rig<P>) {
    if rig.qp.posted != 0 {
        rig.complete_sends(1);
        let mut out = [Completion::default()];
        // Nothing is outstanding if the round before was polled.
        let _ = verbs::poll(&mut rig.send_cq.cq, &mut out);
    }
}

fn retire_receives<P: Policy>(rig: &mut Rig<P>, n: usize) {
    rig.complete_receives(n);
    drain(&mut rig.recv_cq.cq, n);
}

fn retire_srq_receives<P: Policy>(rig: &mut Rig<P>, n: usize) {
    rig.complete_srq_receives(n);
    drain(&mut rig.recv_cq.cq, n);
}

fn drain<P: Policy>(cq: &mut BenchCq<P>, n: usize) {
    let mut out = [Completion::default(); 64];
    let mut left = n;
    while left > 0 {
        let most = left.min(64);
        let taken = verbs::poll(cq, &mut out[..most]).expect("good entries");
        assert_ne!(taken, 0);
        left -= taken;
    }
}

/// The element of the `i`th request of a round.
fn element(requests: &Requests<'_>, i: usize) -> [u8; 16] {
    let [sge] = requests.receives[i % LINES].sges else { unreachable!("one element each") };
    data_segment(sge.addr(), sge.lkey().0, sge.length())
}

fn check_writes<P: Policy>(rig: &Rig<P>, requests: &Requests<'_>, begin: u32) {
    let qpn = rig.qp.qp.qpn().get();
    for i in 0..N {
        let [sge] = requests.receives[i % LINES].sges else { unreachable!("one element each") };
        let block = begin.wrapping_add(i as u32);
        let remote = REMOTE + (i % LINES) as u64 * 64;
        let expected = write_wqe(block, qpn, remote, RKEY.0, sge.addr(), LKEY.0, 64);
        assert_eq!(rig.qp.send_bytes(block), expected, "request {i}");
    }
}

fn check_inlines<P: Policy>(rig: &Rig<P>, _: &Requests<'_>, begin: u32) {
    let qpn = rig.qp.qp.qpn().get();
    for i in 0..N {
        let block = begin.wrapping_add(i as u32);
        let data = std::array::from_fn(|j| (i % LINES * 64 + j) as u8);
        assert_eq!(rig.qp.send_bytes(block), inline_wqe(block, qpn, &data), "request {i}");
    }
}

/// The receives that the device has not taken yet, along the links.
fn check_srq<P: Policy>(rig: &Rig<P>, requests: &Requests<'_>) {
    let mut slot = rig.srq.head();
    for i in 0..SRQ_ROUND {
        assert_eq!(rig.srq.bytes(slot, 16), element(requests, i), "receive {i}");
        slot = u16::from_be_bytes(rig.srq.bytes(slot, 2));
    }
}
