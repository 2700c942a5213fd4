//! Every order of the steps of small receive rings, up to a depth, against plain lists and a device that counts to 2^16: a
//! QP's own ring, which the device reads in turn, and a shared one, where it follows links and requests complete in any
//! order. Requests are posted alone, in lists, and without telling the device. Counters begin at zero and just below 2^16,
//! 2^24 and 2^32.
//!
//! Offsets and codes are written here as plain numbers (PRM: "Receive WQE Format", "Doorbell Records").

use super::*;
use crate::test_host::{Barriers, Host};
use bareverbs::{Lkey, srq::SrqSlot};
use bareverbs_explore::{Machine, STARTS, explore, wraps};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::{boxed::Box, collections::VecDeque, format, vec::Vec};

/// WQEs of a ring; of a shared one, one stays back.
const LOG_SLOTS: u32 = 2;
const SLOTS: usize = 1 << LOG_SLOTS;
const MAX_SGE: usize = 2;
/// What ends a list of elements that is not full.
const INVALID_LKEY: u32 = 0x100;

/// A host that hears nothing.
#[derive(Clone, Copy)]
struct Silent;

impl Barriers for Silent {}

const HOST: Host<Silent> = Host(Silent);

/// Room for a WQE of four segments.
#[repr(C, align(64))]
struct Wqe([AtomicU32; 16]);

/// What both rings are made of, and what the device knows of it.
struct Memory {
    wqes: Vec<Wqe>,
    record: Box<AtomicU32>,
    /// Requests that the device was told of and has not read: how many elements they have, and their ids.
    waiting: VecDeque<(usize, u64)>,
    /// Requests that it was not told of.
    quiet: VecDeque<(usize, u64)>,
    /// Requests that the device has read.
    read: u16,
    next_id: u64,
}

impl Memory {
    fn new(start: u32) -> (Self, RecvMemory) {
        let wqes: Vec<_> = (0..SLOTS).map(|_| Wqe([const { AtomicU32::new(0) }; 16])).collect();
        let record = Box::new(AtomicU32::new((start & 0xffff).to_be()));
        let memory = RecvMemory {
            start: NonNull::from(&wqes[..]).cast(),
            stride: size_of::<Wqe>(),
            // SAFETY: kept beside the ring.
            record: unsafe { Record::new(NonNull::from(&*record)) },
        };
        let (waiting, quiet) = Default::default();
        (Self { wqes, record, waiting, quiet, read: start as u16, next_id: 1 }, memory)
    }

    /// Requests of so many elements, with the ids to come.
    fn sges(&self, lens: &[usize]) -> Vec<(u64, Vec<Sge>)> {
        // SAFETY: nobody follows the addresses.
        let sge = |id: u64, n: usize| unsafe { Sge::from_raw(id << 8 | n as u64, 8, Lkey(id as u32)) };
        (self.next_id..).zip(lens).map(|(id, len)| (id, (0..*len).map(|n| sge(id, n)).collect())).collect()
    }

    /// The ring took requests of so many elements.
    fn took(&mut self, lens: &[usize]) {
        for len in lens {
            self.quiet.push_back((*len, self.next_id));
            self.next_id += 1;
        }
    }

    /// The device was told of all.
    fn rang(&mut self) -> bool {
        let all = !self.quiet.is_empty();
        self.waiting.append(&mut self.quiet);
        all
    }

    /// A request lies in a slot, behind so many dwords of it.
    fn lies(&self, (len, id): (usize, u64), slot: u32, before: usize) {
        let wqe = &self.wqes[slot as usize].0;
        let dword = |n: usize| u32::from_be(wqe[before + n].load(Ordering::Relaxed));
        for n in 0..len {
            let element = [0, 1, 2, 3].map(|at| dword(4 * n + at));
            assert_eq!(element, [8, id as u32, 0, (id as u32) << 8 | n as u32], "element {n} of {id}");
        }
        if len < MAX_SGE {
            assert_eq!([dword(4 * len), dword(4 * len + 1)], [0, INVALID_LKEY], "the end of the list of {id}");
        }
    }

    /// Requests that the device has not read, in order.
    fn unread(&self) -> impl Iterator<Item = (usize, u64)> {
        self.waiting.iter().chain(&self.quiet).copied()
    }

    /// The device reads the oldest request.
    fn read(&mut self) -> Option<u64> {
        let (_, id) = self.waiting.pop_front()?;
        self.read = self.read.wrapping_add(1);
        Some(id)
    }

    /// What the device was told is what it has read, and what waits for it.
    fn check(&self) {
        let record = u32::from_be(self.record.load(Ordering::Relaxed));
        let told = self.read.wrapping_add(self.waiting.len() as u16);
        assert_eq!(record, u32::from(told), "the doorbell record, {:?} waiting", self.waiting);
    }

    /// Where the device stands, and the lengths of what waits for it or will.
    fn state(&self) -> (u16, [Vec<usize>; 2]) {
        let lens = |requests: &VecDeque<(usize, u64)>| requests.iter().map(|request| request.0).collect();
        (self.read, [lens(&self.waiting), lens(&self.quiet)])
    }
}

/// What is done next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Requests of so many elements are posted as a list.
    Post(&'static [usize]),
    /// A request is pushed, and the device is not told.
    Push(usize),
    /// It is.
    Ring,
    /// The device reads a request.
    Read,
    /// The n-th of the requests that it has read is done.
    Complete(usize),
    /// Both sides forget everything.
    Reset,
}

const STEPS: [Step; 9] = [
    Step::Post(&[1]),
    Step::Post(&[MAX_SGE]),
    Step::Post(&[1, MAX_SGE]),
    Step::Push(1),
    Step::Ring,
    Step::Read,
    Step::Complete(0),
    Step::Complete(1),
    Step::Reset,
];

/// A ring of a QP's own.
struct Own {
    ring: RecvRing,
    queue: RecvQueue,
    memory: Memory,
    /// Requests that the device has read, the oldest first.
    under_way: VecDeque<u64>,
    /// Where the counters began, or 0 since they were reset.
    start: u32,
    _wr_ids: Vec<AtomicU64>,
}

impl Own {
    fn new(start: u32) -> Self {
        let mut wr_ids: Vec<_> = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        // SAFETY: the table is kept beside the queue.
        let (queue, mut poster) = unsafe { RecvQueue::new(NonNull::new(wr_ids.as_mut_ptr()).unwrap(), LOG_SLOTS) };
        queue.begin_at(&mut poster, start);
        let (memory, ring) = Memory::new(start);
        // SAFETY: the memory is kept beside the ring.
        let mut ring = unsafe { RecvRing::new(ring, poster, SLOTS as u32, MAX_SGE as u32) };
        ring.set_open(true);
        Self { ring, queue, memory, under_way: VecDeque::new(), start, _wr_ids: wr_ids }
    }

    fn post(&mut self, lens: &[usize], rings: bool) -> bool {
        let outstanding = self.memory.waiting.len() + self.memory.quiet.len() + self.under_way.len();
        let taken = lens.len().min(SLOTS - outstanding);
        let sges = self.memory.sges(lens);
        let wrs: Vec<_> = sges.iter().map(|(id, sges)| RecvWr::new(*id, sges)).collect();
        let (ring, queue) = (&mut self.ring, &self.queue);
        let result = match &wrs[..] {
            [wr] if !rings => match ring.push_short(wr) {
                true => Ok(()),
                false => ring.push(queue, wr).map_err(|_| 0),
            },
            // As the verb does it.
            [wr] if ring.post_short(queue, &HOST, wr) || ring.look(queue) && ring.post_short(queue, &HOST, wr) => {
                Ok(())
            }
            list => {
                let result = ring.push_list(list.iter(), |ring, wr| ring.push(queue, wr)).map_err(|e| e.index);
                ring.ring(queue, &HOST);
                result
            }
        };
        assert_eq!(result, if taken == lens.len() { Ok(()) } else { Err(taken) }, "{outstanding} outstanding");
        self.memory.took(&lens[..taken]);
        let rang = rings && self.memory.rang();
        taken > 0 || rang
    }
}

impl Machine for Own {
    type State = ((u16, [Vec<usize>; 2]), usize, u32, bool);

    fn step(&mut self, step: usize) -> bool {
        let taken = match STEPS[step] {
            Step::Post(lens) => self.post(lens, true),
            Step::Push(len) => self.post(&[len], false),
            Step::Ring => {
                self.ring.ring(&self.queue, &HOST);
                self.memory.rang()
            }
            Step::Read => {
                let id = self.memory.read();
                self.under_way.extend(id);
                id.is_some()
            }
            Step::Complete(0) if !self.under_way.is_empty() => {
                assert_eq!(self.queue.complete(), self.under_way.pop_front());
                true
            }
            Step::Complete(_) => false,
            Step::Reset => {
                self.ring.reset(&self.queue);
                self.under_way.clear();
                self.memory.waiting.clear();
                self.memory.quiet.clear();
                (self.memory.read, self.start) = (0, 0);
                true
            }
        };
        self.memory.check();
        for (n, request) in (u32::from(self.memory.read)..).zip(self.memory.unread()) {
            self.memory.lies(request, n & (SLOTS as u32 - 1), 0);
        }
        taken
    }

    fn state(&self) -> Self::State {
        let poster = &self.ring.poster;
        (self.memory.state(), self.under_way.len(), poster.posted(), poster.has_known_room())
    }

    fn wraps(&self) -> usize {
        wraps(self.start, self.ring.poster.posted())
    }
}

/// A shared one.
struct Linked {
    ring: SrqRing,
    slots: Box<SrqSlots>,
    memory: Memory,
    shared: bool,
    /// The slot where the device goes on.
    head: u32,
    /// Slots that the device has read, with their ids.
    under_way: Vec<(u32, u64)>,
    /// Free slots in order, the one that is posted next first, and how many behind it the poster knows of.
    free: VecDeque<u32>,
    known: usize,
    /// Slots that the device has not read, and where they link to.
    links: VecDeque<(u32, u32)>,
    start: u32,
    _slots: Vec<SrqSlot>,
}

impl Linked {
    fn new(start: u32, shared: bool) -> Self {
        let mut table: Vec<_> = (0..SLOTS).map(|_| SrqSlot::default()).collect();
        // SAFETY: the table is kept beside the slots.
        let (mut slots, mut poster) = unsafe { SrqSlots::new(NonNull::new(table.as_mut_ptr()).unwrap(), LOG_SLOTS) };
        slots.begin_at(&mut poster, start);
        let (memory, ring) = Memory::new(start);
        // SAFETY: the memory is kept beside the ring.
        let ring = unsafe { SrqRing::new(ring, poster, MAX_SGE as u32) };
        let (under_way, links, free) = (Vec::new(), VecDeque::new(), (0..SLOTS as u32).collect());
        let slots = Box::new(slots);
        Self { ring, slots, memory, shared, head: 0, under_way, free, known: SLOTS - 1, links, start, _slots: table }
    }

    fn post(&mut self, lens: &[usize], rings: bool) -> bool {
        let outstanding = self.memory.waiting.len() + self.memory.quiet.len() + self.under_way.len();
        let taken = lens.len().min(SLOTS - 1 - outstanding);
        let sges = self.memory.sges(lens);
        let wrs: Vec<_> = sges.iter().map(|(id, sges)| RecvWr::new(*id, sges)).collect();
        let (ring, slots) = (&mut self.ring, &*self.slots);
        let result = match &wrs[..] {
            [wr] if !rings => ring.push(slots, wr).map_err(|_| 0),
            // As the verb does it.
            [wr] if ring.post_short(&HOST, wr) => Ok(()),
            list => {
                let result = ring.push_list(slots, list.iter()).map_err(|e| e.index);
                ring.ring(&HOST);
                result
            }
        };
        assert_eq!(result, if taken == lens.len() { Ok(()) } else { Err(taken) }, "{outstanding} outstanding");
        for _ in lens {
            if self.known == 0 {
                self.known = self.free.len() - 1;
            }
            if self.known > 0 {
                self.known -= 1;
                self.links.push_back((self.free[0], self.free[1]));
                self.free.pop_front();
            }
        }
        self.memory.took(&lens[..taken]);
        let rang = rings && self.memory.rang();
        taken > 0 || rang
    }
}

impl Machine for Linked {
    type State = ((u16, [Vec<usize>; 2]), Vec<u32>, u32, VecDeque<(u32, u32)>, VecDeque<u32>, usize);

    fn step(&mut self, step: usize) -> bool {
        let taken = match STEPS[step] {
            Step::Post(lens) => self.post(lens, true),
            Step::Push(len) => self.post(&[len], false),
            Step::Ring => {
                self.ring.ring(&HOST);
                self.memory.rang()
            }
            Step::Read => match (self.memory.read(), self.links.front().copied()) {
                (Some(id), Some((slot, next))) => {
                    assert_eq!(slot, self.head, "the device goes where the last link points");
                    self.links.pop_front();
                    self.under_way.push((slot, id));
                    self.head = next;
                    true
                }
                _ => false,
            },
            Step::Complete(n) if n < self.under_way.len() => {
                let (slot, id) = self.under_way.remove(n);
                assert_eq!(self.slots.complete(slot, self.shared), Some(id));
                self.free.push_back(slot);
                true
            }
            // An SRQ is not reset.
            Step::Complete(_) | Step::Reset => false,
        };
        self.memory.check();
        for (request, (slot, next)) in self.memory.unread().zip(self.links.iter().copied()) {
            self.memory.lies(request, slot, 4);
            // The next segment: two bytes of zero, the index, a signature, zeros.
            let link = u32::from_be(self.memory.wqes[slot as usize].0[0].load(Ordering::Relaxed));
            assert_eq!(link, next, "where slot {slot} links to");
        }
        let place = self.ring.poster.known_place().map(|place| (place.slot, place.next));
        assert_eq!(place, (self.known > 0).then(|| (self.free[0], self.free[1])), "the place that is known");
        taken
    }

    fn state(&self) -> Self::State {
        let under_way = self.under_way.iter().map(|(slot, _)| *slot).collect();
        let posted = self.ring.poster.posted();
        (self.memory.state(), under_way, posted, self.links.clone(), self.free.clone(), self.known)
    }

    fn wraps(&self) -> usize {
        wraps(self.start, self.ring.poster.posted())
    }
}

#[test]
fn every_order_of_posting_reading_and_completing() {
    for (start, (states, wrapped)) in STARTS.into_iter().zip([(603, 0), (1151, 597), (1151, 597), (846, 292)]) {
        let explored = explore(STEPS.len(), 14, || Own::new(start));
        explored.recorded(&format!("receive ring of {SLOTS} from {start:#x}"), states, wrapped);
    }
}

#[test]
fn every_order_of_posting_reading_and_completing_where_a_ring_is_shared() {
    for shared in [false, true] {
        for start in STARTS {
            let explored = explore(STEPS.len(), 16, || Linked::new(start, shared));
            let name = format!("shared receive ring of {SLOTS} from {start:#x}, shared {shared}");
            explored.recorded(&name, 2416, if start == 0 { 0 } else { 2410 });
        }
    }
}
