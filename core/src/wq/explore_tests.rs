//! Every order of the steps of a small queue, up to a depth, against a plain list. The counters begin at zero and just
//! below 2^16, 2^24 and 2^32.

use super::*;
use bareverbs_explore::{Machine, STARTS, explore, wraps};
use std::{collections::VecDeque, format, vec::Vec};

const DEPTH: usize = 14;

/// What a send queue does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request of so many blocks is written.
    Push(u32),
    /// The device is told.
    Publish,
    /// The device completes the n-th outstanding request, and all before it.
    Complete(usize),
    /// Both sides forget everything.
    Reset,
}

const STEPS: [Step; 6] =
    [Step::Push(1), Step::Push(2), Step::Publish, Step::Complete(0), Step::Complete(1), Step::Reset];
/// Four blocks, two requests of two: any two fit.
const LOG_BLOCKS: u32 = 2;
const LIMIT: u32 = 2;

struct Sends {
    slots: Vec<SendSlot>,
    queue: SendQueue,
    poster: SendPoster,
    /// Requests that are not retired: first block, id, whether the device was told.
    list: VecDeque<(u32, u64, bool)>,
    next_id: u64,
    /// Where the counters began, or 0 since they were reset.
    start: u32,
}

impl Sends {
    fn new(start: u32) -> Self {
        let slot = || SendSlot { wr_id: AtomicU64::new(u64::MAX), ..SendSlot::default() };
        let mut slots: Vec<SendSlot> = (0..1 << LOG_BLOCKS).map(|_| slot()).collect();
        // SAFETY: the vector is kept beside the queue and not touched.
        let (queue, mut poster) = unsafe { SendQueue::new(NonNull::new(slots.as_mut_ptr()).unwrap(), LOG_BLOCKS) };
        queue.begin_at(&mut poster, start);
        Self { slots, queue, poster, list: VecDeque::new(), next_id: 1, start }
    }

    /// No block is taken for a request's that is not outstanding and known to the device.
    fn refuses(&self) {
        let told = self.list.iter().filter(|(.., told)| *told).count();
        assert_eq!(self.queue.outstanding() as usize, told);
        for block in 0..1 << LOG_BLOCKS {
            let here = |(first, ..): &&(u32, u64, bool)| first & self.queue.mask == block;
            let outstanding = self.list.iter().find(here).is_some_and(|(.., told)| *told);
            if !outstanding {
                assert_eq!(self.queue.complete(block), None, "block {block} of {:?}", self.list);
            }
        }
    }
}

impl Machine for Sends {
    type State = (u32, u32, u32, u32, Vec<u32>, Vec<bool>);

    fn step(&mut self, step: usize) -> bool {
        match STEPS[step] {
            Step::Push(blocks) => {
                let known = self.poster.has_known_room();
                let room = self.poster.has_room(&self.queue, LIMIT);
                assert_eq!(room, self.list.len() < LIMIT as usize, "room, {:?}", self.list);
                assert!(room || !known, "what is known for sure is so");
                if !room {
                    return false;
                }
                self.list.push_back((self.poster.block(), self.next_id, false));
                self.poster.push(self.next_id, blocks);
                self.next_id += 1;
            }
            Step::Publish => {
                self.poster.publish(&self.queue);
                self.list.iter_mut().for_each(|request| request.2 = true);
            }
            Step::Complete(n) => {
                let Some((block, id, true)) = self.list.get(n).copied() else { return false };
                // The device's counter has 16 bits.
                assert_eq!(self.queue.complete(block & 0xffff), Some(id), "{:?}", self.list);
                self.list.drain(..=n);
            }
            Step::Reset => {
                self.queue.reset(&mut self.poster);
                self.list.clear();
                self.start = 0;
            }
        }
        self.refuses();
        true
    }

    fn state(&self) -> Self::State {
        let after = self.slots.iter().map(|s| s.after.load(Relaxed)).collect();
        let retired = self.queue.retired.load(Relaxed);
        let told = self.list.iter().map(|request| request.2).collect();
        (self.poster.block, self.poster.posted, self.poster.full_at, retired, after, told)
    }

    fn wraps(&self) -> usize {
        wraps(self.start, self.queue.retired.load(Relaxed))
    }
}

#[test]
fn sends_in_every_order() {
    for (start, (states, wrapped)) in STARTS.into_iter().zip([(1667, 0), (2880, 1616), (2880, 1616), (2630, 1366)]) {
        let explored = explore(STEPS.len(), DEPTH, || Sends::new(start));
        explored.recorded(&format!("send queue from {start:#x}"), states, wrapped);
    }
}

const LOG_SLOTS: u32 = 1;

struct Receives {
    _words: Vec<AtomicU64>,
    queue: RecvQueue,
    poster: RecvPoster,
    /// Ids that are not retired, and how many of them the device was told of.
    list: VecDeque<u64>,
    told: usize,
    next_id: u64,
    /// Where the counters began, or 0 since they were reset.
    start: u32,
}

impl Receives {
    fn new(start: u32) -> Self {
        let mut words: Vec<AtomicU64> = (0..1 << LOG_SLOTS).map(|_| AtomicU64::new(0)).collect();
        // SAFETY: the vector is kept beside the queue and not touched.
        let (queue, mut poster) = unsafe { RecvQueue::new(NonNull::new(words.as_mut_ptr()).unwrap(), LOG_SLOTS) };
        queue.begin_at(&mut poster, start);
        Self { _words: words, queue, poster, list: VecDeque::new(), told: 0, next_id: 1, start }
    }
}

impl Machine for Receives {
    type State = (u32, u32, u32, u32);

    fn step(&mut self, step: usize) -> bool {
        match step {
            0 => {
                let room = self.poster.has_room(&self.queue, 1 << LOG_SLOTS);
                assert_eq!(room, self.list.len() < 1 << LOG_SLOTS);
                if !room {
                    return false;
                }
                self.poster.push(self.next_id);
                self.list.push_back(self.next_id);
                self.next_id += 1;
            }
            1 => {
                self.poster.publish(&self.queue);
                self.told = self.list.len();
            }
            2 if self.told > 0 => {
                assert_eq!(self.queue.complete(), self.list.pop_front());
                self.told -= 1;
            }
            2 => assert_eq!(self.queue.complete(), None),
            _ => {
                self.queue.reset(&mut self.poster);
                self.list.clear();
                (self.told, self.start) = (0, 0);
            }
        }
        assert_eq!(self.queue.outstanding() as usize, self.told);
        true
    }

    fn state(&self) -> Self::State {
        let [posted, retired] = [&self.queue.posted, &self.queue.retired].map(|word| word.load(Relaxed));
        (self.poster.posted, self.poster.full_at, posted, retired)
    }

    fn wraps(&self) -> usize {
        wraps(self.start, self.queue.retired.load(Relaxed))
    }
}

#[test]
fn receives_in_every_order() {
    for (start, (states, wrapped)) in STARTS.into_iter().zip([(94, 0), (184, 82), (184, 82), (108, 6)]) {
        let explored = explore(4, 2 * DEPTH, || Receives::new(start));
        explored.recorded(&format!("receive queue from {start:#x}"), states, wrapped);
    }
}
