//! Every sequence of steps of a small queue, up to a depth, against a plain list. The counters begin at zero and just
//! below 2^16, 2^24 and 2^32.

use super::*;
use std::{
    collections::{HashSet, VecDeque},
    println,
    vec::Vec,
};

const STARTS: [u32; 4] = [0, 0xffff, 0xff_ffff, u32::MAX];

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
}

impl Sends {
    fn new(start: u32) -> Self {
        // Every slot was used before: none names a request to come.
        let slot = || SendSlot { wr_id: AtomicU64::new(u64::MAX), after: AtomicU32::new(start) };
        let mut slots: Vec<SendSlot> = (0..1 << LOG_BLOCKS).map(|_| slot()).collect();
        // SAFETY: the vector is kept beside the queue and not touched.
        let (queue, mut poster) = unsafe { SendQueue::new(NonNull::new(slots.as_mut_ptr()).unwrap(), LOG_BLOCKS) };
        queue.posted.store(start, Relaxed);
        queue.retired.store(start, Relaxed);
        (poster.block, poster.posted, poster.full_at) = (start, start, start);
        Self { slots, queue, poster, list: VecDeque::new(), next_id: 1 }
    }

    /// Does a step, and compares.
    fn step(&mut self, step: Step) {
        match step {
            Step::Push(blocks) => {
                let room = self.poster.has_room(&self.queue, LIMIT);
                assert_eq!(room, self.list.len() < LIMIT as usize, "room, {:?}", self.list);
                if room {
                    self.list.push_back((self.poster.block(), self.next_id, false));
                    self.poster.push(self.next_id, blocks);
                    self.next_id += 1;
                }
            }
            Step::Publish => {
                self.poster.publish(&self.queue);
                self.list.iter_mut().for_each(|request| request.2 = true);
            }
            Step::Complete(n) => {
                if let Some((block, id, true)) = self.list.get(n).copied() {
                    // The device's counter has 16 bits.
                    assert_eq!(self.queue.complete(block & 0xffff), Some(id), "{:?}", self.list);
                    self.list.drain(..=n);
                }
            }
            Step::Reset => {
                self.queue.reset(&mut self.poster);
                self.list.clear();
            }
        }
        self.refuses();
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

    fn state(&self) -> (u32, u32, u32, u32, Vec<u32>) {
        let after = self.slots.iter().map(|s| s.after.load(Relaxed)).collect();
        let (posted, retired) = (self.queue.posted.load(Relaxed), self.queue.retired.load(Relaxed));
        (self.poster.block, self.poster.posted, posted, retired, after)
    }
}

#[test]
fn sends_in_every_order() {
    const DEPTH: u32 = 7;
    for start in STARTS {
        let mut states = HashSet::new();
        let sequences = STEPS.len().pow(DEPTH);
        for mut sequence in 0..sequences {
            let mut sends = Sends::new(start);
            for _ in 0..DEPTH {
                sends.step(STEPS[sequence % STEPS.len()]);
                sequence /= STEPS.len();
            }
            states.insert(sends.state());
        }
        println!("send queue from {start:#x}: {sequences} sequences of {DEPTH} steps, {} states", states.len());
        assert!(states.len() > 100);
    }
}

#[test]
fn receives_in_every_order() {
    const DEPTH: u32 = 8;
    const LOG: u32 = 1;
    for start in STARTS {
        let mut states = HashSet::new();
        for mut sequence in 0..4usize.pow(DEPTH) {
            let words: Vec<AtomicU64> = (0..1 << LOG).map(|_| AtomicU64::new(0)).collect();
            // SAFETY: the vector outlives the queue.
            let (queue, mut poster) = unsafe { RecvQueue::new(NonNull::from(&words[0]), LOG) };
            queue.posted.store(start, Relaxed);
            queue.retired.store(start, Relaxed);
            (poster.posted, poster.full_at) = (start, start);
            let (mut list, mut told, mut id) = (VecDeque::new(), 0, 1);
            for _ in 0..DEPTH {
                match sequence % 4 {
                    0 => {
                        let room = poster.has_room(&queue, 1 << LOG);
                        assert_eq!(room, list.len() < 1 << LOG);
                        if room {
                            poster.push(id);
                            list.push_back(id);
                            id += 1;
                        }
                    }
                    1 => {
                        poster.publish(&queue);
                        told = list.len();
                    }
                    2 if told > 0 => {
                        assert_eq!(queue.complete(), list.pop_front());
                        told -= 1;
                    }
                    2 => assert_eq!(queue.complete(), None),
                    _ => {
                        queue.reset(&mut poster);
                        list.clear();
                        told = 0;
                    }
                }
                assert_eq!(queue.outstanding() as usize, told);
                sequence /= 4;
            }
            states.insert((poster.posted, queue.posted.load(Relaxed), queue.retired.load(Relaxed)));
        }
        println!(
            "receive queue from {start:#x}: {} sequences of {DEPTH} steps, {} states",
            4usize.pow(DEPTH),
            states.len()
        );
        assert!(states.len() > 15);
    }
}
