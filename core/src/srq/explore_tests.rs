//! Every sequence of steps of a small shared receive queue, up to a depth, against a plain list.

use super::*;
use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    println,
    vec::Vec,
};

const LOG: u32 = 2;
const DEPTH: u32 = 8;
/// Post; a message takes the oldest request; the n-th of the messages under way completes and is polled.
const STEPS: usize = 5;

struct Queue {
    slots: Vec<SrqSlot>,
    list: SrqSlots,
    poster: SrqPoster,
    /// Requests that no message has taken yet, in the order of the links.
    waiting: VecDeque<SrqPlace>,
    /// Slots that messages have taken, and the ids.
    under_way: Vec<u32>,
    ids: BTreeMap<u32, u64>,
    expected: u32,
    next_id: u64,
}

impl Queue {
    fn new() -> Self {
        let mut slots: Vec<SrqSlot> = (0..1 << LOG).map(|_| SrqSlot::default()).collect();
        // SAFETY: the vector is kept beside the list and not touched.
        let (list, poster) = unsafe { SrqSlots::new(NonNull::new(slots.as_mut_ptr()).unwrap(), LOG) };
        let (waiting, under_way, ids) = Default::default();
        Self { slots, list, poster, waiting, under_way, ids, expected: 0, next_id: 1 }
    }

    fn step(&mut self, step: usize, shared: bool) {
        match step {
            0 => {
                let place = self.poster.place(&self.list);
                assert_eq!(place.is_some(), self.ids.len() < self.list.capacity() as usize, "{:?}", self.ids);
                if let Some(place) = place {
                    assert_eq!(place.slot, self.expected, "the device goes where the last link pointed");
                    assert!(!self.ids.contains_key(&place.slot) && !self.ids.contains_key(&place.next));
                    self.poster.take(place, self.next_id);
                    self.ids.insert(place.slot, self.next_id);
                    self.waiting.push_back(place);
                    (self.expected, self.next_id) = (place.next, self.next_id + 1);
                }
            }
            1 => self.under_way.extend(self.waiting.pop_front().map(|place| place.slot)),
            n if n - 2 < self.under_way.len() => {
                let slot = self.under_way.remove(n - 2);
                assert_eq!(self.list.complete(slot, shared), self.ids.remove(&slot));
            }
            _ => {}
        }
        for slot in 0..=1 << LOG {
            if !self.ids.contains_key(&slot) {
                assert_eq!(self.list.complete(slot, shared), None, "slot {slot} is not with the device");
            }
        }
    }
}

#[test]
fn every_order_of_posting_taking_and_completing() {
    for shared in [false, true] {
        let mut states = HashSet::new();
        let sequences = STEPS.pow(DEPTH);
        for mut sequence in 0..sequences {
            let mut queue = Queue::new();
            for _ in 0..DEPTH {
                queue.step(sequence % STEPS, shared);
                sequence /= STEPS;
            }
            let links: Vec<u32> = queue.slots.iter().map(|s| s.next.load(Relaxed)).collect();
            states.insert((links, queue.list.returned.load(Relaxed), queue.poster.head, queue.under_way.clone()));
        }
        println!("SRQ, shared {shared}: {sequences} sequences of {DEPTH} steps, {} states", states.len());
        assert!(states.len() > 30);
    }
}
