//! Every order of the steps of a small shared receive queue, up to a depth, against a plain list: requests are posted,
//! messages take them in the order of the links and complete in any order, to either of two CQs, which are polled in
//! any order, or swept when a QP goes. Counters begin at zero and just below 2^16, 2^24 and 2^32.

use super::*;
use bareverbs_explore::{Machine, STARTS, explore, wraps};
use std::{
    collections::{BTreeMap, VecDeque},
    format,
    vec::Vec,
};

const LOG: u32 = 2;
const DEPTH: usize = 20;
/// Counters are told apart for this many counts: some behind every end. From there on all goes round.
const TOLD_APART: u32 = 6;

const POST: usize = 0;
/// A message takes the oldest request.
const TAKE: usize = 1;
/// The n-th of the messages under way completes to a CQ.
const COMPLETE: [[usize; 3]; 2] = [[2, 3, 4], [5, 6, 7]];
/// A CQ is polled once.
const POLL: [usize; 2] = [8, 9];
/// A QP goes: all that a CQ holds of it is swept, newest first.
const SWEEP: [usize; 2] = [10, 11];
const STEPS: usize = 12;

struct Queue {
    slots: Vec<SrqSlot>,
    list: SrqSlots,
    poster: SrqPoster,
    /// Other threads are at work, as far as the queue knows.
    shared: bool,
    /// Requests that no message has taken yet, in the order of the links.
    waiting: VecDeque<u32>,
    /// Slots that messages have taken.
    under_way: Vec<u32>,
    /// Slots whose completions are not polled yet.
    cqs: [VecDeque<u32>; 2],
    ids: BTreeMap<u32, u64>,
    expected: u32,
    next_id: u64,
    start: u32,
}

impl Queue {
    fn new(shared: bool, start: u32) -> Self {
        let mut slots: Vec<SrqSlot> = (0..1 << LOG).map(|_| SrqSlot::default()).collect();
        // SAFETY: the vector is kept beside the list and not touched.
        let (mut list, mut poster) = unsafe { SrqSlots::new(NonNull::new(slots.as_mut_ptr()).unwrap(), LOG) };
        list.begin_at(&mut poster, start);
        let (waiting, under_way, cqs, ids) = Default::default();
        Self { slots, list, poster, shared, waiting, under_way, cqs, ids, expected: 0, next_id: 1, start }
    }

    fn post(&mut self) {
        let known = self.poster.known_place();
        let place = self.poster.place(&self.list);
        assert_eq!(place.is_some(), self.ids.len() < self.list.capacity() as usize, "{:?}", self.ids);
        assert!(known.is_none() || known == place, "what is known for sure is so");
        let Some(place) = place else { return };
        assert_eq!(place.slot, self.expected, "the device goes where the last link pointed");
        assert!(!self.ids.contains_key(&place.slot) && !self.ids.contains_key(&place.next));
        // As a batch does: on a copy, which the poster catches up with.
        let mut copy = self.poster;
        copy.take(place, self.next_id);
        self.poster.catch_up(copy);
        let posted = self.poster.posted().wrapping_sub(self.start);
        assert_eq!(u64::from(posted), self.next_id, "requests posted");
        self.ids.insert(place.slot, self.next_id);
        self.waiting.push_back(place.slot);
        (self.expected, self.next_id) = (place.next, self.next_id + 1);
    }

    fn done(&mut self, slot: u32) {
        assert_eq!(self.list.complete(slot, self.shared), self.ids.remove(&slot));
    }
}

impl Machine for Queue {
    type State = (Vec<u32>, [u32; 4], VecDeque<u32>, Vec<u32>, [VecDeque<u32>; 2]);

    fn step(&mut self, step: usize) -> bool {
        match step {
            POST => self.post(),
            TAKE => match self.waiting.pop_front() {
                Some(slot) => self.under_way.push(slot),
                None => return false,
            },
            _ if COMPLETE.as_flattened().contains(&step) => {
                let n = (step - TAKE - 1) % 3;
                if n >= self.under_way.len() {
                    return false;
                }
                let slot = self.under_way.remove(n);
                self.cqs[usize::from(step >= COMPLETE[1][0])].push_back(slot);
            }
            _ if POLL.contains(&step) => match self.cqs[step - POLL[0]].pop_front() {
                Some(slot) => self.done(slot),
                None => return false,
            },
            _ => {
                let all = core::mem::take(&mut self.cqs[step - SWEEP[0]]);
                if all.len() < 2 {
                    // Like a poll.
                    self.cqs[step - SWEEP[0]] = all;
                    return false;
                }
                all.into_iter().rev().for_each(|slot| self.done(slot));
            }
        }
        for slot in 0..=1 << LOG {
            if !self.ids.contains_key(&slot) {
                assert_eq!(self.list.complete(slot, self.shared), None, "slot {slot} is not with the device");
            }
        }
        true
    }

    fn state(&self) -> Self::State {
        let word = |n: u32| self.slots[(n & self.list.mask) as usize].free.load(Relaxed);
        let (posted, returned) = (self.poster.posted(), self.list.returned.load(Relaxed));
        let free = (0..returned.wrapping_sub(posted)).map(|n| word(posted.wrapping_add(n))).collect();
        let known = self.poster.known.wrapping_sub(posted);
        let since = |counter: u32| counter.wrapping_sub(self.start).min(TOLD_APART);
        let heads = [posted & self.list.mask, known, since(posted), since(returned.wrapping_sub(1 << LOG))];
        (free, heads, self.waiting.clone(), self.under_way.clone(), self.cqs.clone())
    }

    fn wraps(&self) -> usize {
        wraps(self.start, self.poster.posted())
    }
}

#[test]
fn every_order_of_posting_taking_and_completing() {
    for shared in [false, true] {
        for start in STARTS {
            let explored = explore(STEPS, DEPTH, || Queue::new(shared, start));
            let name = format!("SRQ of {} slots from {start:#x}, two CQs, shared {shared}", 1 << LOG);
            explored.recorded(&name, 3182, if start == 0 { 0 } else { 3176 });
        }
    }
}
