//! The free slots of a shared receive queue.
//!
//! Receives of a shared queue complete out of order, so a slot is free when its completion was polled. Free slots wait in
//! a ring of their own: pollers (there may be several CQs) put one behind the others, the poster takes the foremost. The
//! successor of a slot must be known when the slot is posted (the device follows the link), so one slot always stays
//! back: of `n` slots `n - 1` can be posted.
//!
//! Shared between threads, pollers take a latch for the few instructions that it takes to give a slot back, so that they
//! are one writer; the poster waits for nobody: it reads how far the ring was written, and each word of it afterwards.

use crate::sync::{
    AtomicU32, AtomicU64, Latch,
    Ordering::{Acquire, Relaxed, Release},
};
use core::ptr::NonNull;

/// A slot: the id of the request in it, and, beside it, a word of the ring of free slots. In host-only memory.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct SrqSlot {
    wr_id: AtomicU64,
    /// 1 while the slot is with the device.
    posted: AtomicU32,
    /// A free slot: the word of the ring of free slots at this place, not a word about this slot.
    free: AtomicU32,
}

/// The slots of a shared receive queue.
#[derive(Debug)]
pub struct SrqSlots {
    slots: NonNull<SrqSlot>,
    mask: u32,
    /// Slots put into the ring of free ones; counts on.
    returned: AtomicU32,
    /// Whoever holds it may put slots there.
    latch: Latch,
}

/// The poster's end of [`SrqSlots`]. A plain value, so that a batch can work on a copy.
#[derive(Clone, Copy, Debug)]
pub struct SrqPoster {
    slots: NonNull<SrqSlot>,
    mask: u32,
    /// The slot that is posted next: as wide as an address, so that a loop of posts need not widen it.
    slot: usize,
    /// The word of the ring that holds the one after it; counts on.
    ahead: u32,
    /// How far the ring of free slots is written, as far as was looked.
    known: u32,
}

/// A slot to post, and the one that will be posted after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrqPlace {
    /// Write the request here.
    pub slot: u32,
    /// Link to here.
    pub next: u32,
}

impl SrqSlots {
    /// All `1 << log_slots` slots free, in order; the poster begins at slot 0, as the device does.
    ///
    /// # Safety
    /// `slots` is valid for that many slots while either lives, and nobody else touches them. One poster is at work: a
    /// copy replaces the value that it was made of.
    pub unsafe fn new(slots: NonNull<SrqSlot>, log_slots: u32) -> (Self, SrqPoster) {
        let len = 1 << log_slots;
        let list = Self { slots, mask: len - 1, returned: AtomicU32::new(len), latch: Latch::new() };
        (0..len).for_each(|i| list.slot(i).free.store(i, Relaxed));
        (list, SrqPoster { slots, mask: len - 1, slot: 0, ahead: 1, known: len })
    }

    /// Puts both ends where `count` requests lead that are done in order. For explorations of what the counters do at the end
    /// of their numbers, also of what a driver makes of them.
    #[doc(hidden)]
    pub fn begin_at(&mut self, poster: &mut SrqPoster, count: u32) {
        let full = count.wrapping_add(self.mask + 1);
        (0..=self.mask).for_each(|slot| self.slot(count.wrapping_add(slot) & self.mask).free.store(slot, Relaxed));
        self.returned.store(full, Relaxed);
        (poster.ahead, poster.known) = (count.wrapping_add(1), full);
    }

    /// Requests that can be outstanding.
    pub const fn capacity(&self) -> u32 {
        self.mask
    }

    #[inline(always)]
    fn slot(&self, i: u32) -> &SrqSlot {
        debug_assert!(i <= self.mask);
        // SAFETY: every index was masked or compared with `mask`.
        unsafe { self.slots.add(i as usize).as_ref() }
    }

    /// Poller: the request in slot `i` is done; gives its id back and frees the slot. `None`, and nothing changes, if
    /// the slot is not with the device. `shared` says that other threads poll at the same time.
    #[inline(always)]
    pub fn complete(&self, i: u32, shared: bool) -> Option<u64> {
        if i > self.mask {
            return None;
        }
        if !shared {
            return self.give_back(i);
        }
        self.latch.lock();
        let wr_id = self.give_back(i);
        self.latch.unlock();
        wr_id
    }

    /// [`complete`](Self::complete) for the one who may put slots into the ring now.
    #[inline(always)]
    fn give_back(&self, i: u32) -> Option<u64> {
        // Read once: to the compiler the stores below might change them.
        let (slots, mask) = (self.slots, self.mask);
        let slot = self.slot(i);
        // Acquire: the id was written before, also where a device tells of a slot that is posted at this moment.
        if slot.posted.load(Acquire) == 0 {
            return None;
        }
        let wr_id = slot.wr_id.load(Relaxed);
        slot.posted.store(0, Relaxed);
        let returned = self.returned.load(Relaxed);
        // SAFETY: the index is masked to the table that `new` was promised.
        unsafe { slots.add((returned & mask) as usize).as_ref() }.free.store(i, Relaxed);
        // Release: the poster reads the word, and writes the slot anew, after all of this.
        self.returned.store(returned.wrapping_add(1), Release);
        Some(wr_id)
    }
}

impl SrqPoster {
    #[inline(always)]
    fn slot(&self, i: usize) -> &SrqSlot {
        // SAFETY: every index is masked, or a word of the ring, which holds indices of slots only.
        unsafe { self.slots.add(i).as_ref() }
    }

    /// Requests pushed; counts on.
    #[inline(always)]
    pub const fn posted(&self) -> u32 {
        self.ahead.wrapping_sub(1)
    }

    /// The next place, if there is one for sure, without looking at what was returned since. Nothing changes until
    /// [`take`](Self::take).
    #[inline(always)]
    pub fn known_place(&self) -> Option<SrqPlace> {
        if self.ahead == self.known {
            return None;
        }
        let next = self.slot((self.ahead & self.mask) as usize).free.load(Relaxed);
        Some(SrqPlace { slot: self.slot as u32, next })
    }

    /// The next place, if the queue is not full. Nothing changes until [`take`](Self::take).
    #[inline(always)]
    pub fn place(&mut self, list: &SrqSlots) -> Option<SrqPlace> {
        if self.ahead == self.known {
            self.known = list.returned.load(Acquire);
        }
        self.known_place()
    }

    /// A request was written to the place.
    #[inline(always)]
    pub fn take(&mut self, place: SrqPlace, wr_id: u64) {
        let slot = self.slot(place.slot as usize);
        slot.wr_id.store(wr_id, Relaxed);
        slot.posted.store(1, Release);
        self.slot = place.next as usize;
        self.ahead = self.ahead.wrapping_add(1);
    }

    /// Goes on where a copy of it came to by [`take`](Self::take).
    #[inline(always)]
    pub const fn catch_up(&mut self, copy: Self) {
        (self.slot, self.ahead) = (copy.slot, copy.ahead);
    }
}

#[cfg(test)]
#[path = "srq/explore_tests.rs"]
mod explore_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::VecDeque, vec::Vec};

    struct Queue {
        list: SrqSlots,
        poster: SrqPoster,
        _slots: Vec<SrqSlot>,
        /// The device's view: the order in which it follows the links.
        device: VecDeque<SrqPlace>,
        expected: u32,
    }

    impl Queue {
        fn new(log: u32) -> Self {
            let mut slots: Vec<SrqSlot> = (0..1 << log).map(|_| SrqSlot::default()).collect();
            // SAFETY: the vector is kept beside the list and not touched.
            let (list, poster) = unsafe { SrqSlots::new(NonNull::new(slots.as_mut_ptr()).unwrap(), log) };
            Self { list, poster, _slots: slots, device: VecDeque::new(), expected: 0 }
        }

        fn post(&mut self, wr_id: u64) -> bool {
            let Some(place) = self.poster.place(&self.list) else { return false };
            assert_eq!(place.slot, self.expected, "the device goes where the last link pointed");
            self.expected = place.next;
            self.poster.take(place, wr_id);
            self.device.push_back(place);
            true
        }
    }

    #[test]
    fn case_22_all_but_one_slot_can_be_posted_and_come_back() {
        let mut q = Queue::new(3);
        assert_eq!((0..9).filter(|id| q.post(*id)).count(), 7);
        // Six come back at once, in another order.
        let six: Vec<_> = q.device.drain(..6).collect();
        for place in six.iter().rev() {
            assert_eq!(q.list.complete(place.slot, false), Some(u64::from(place.slot)));
        }
        assert_eq!((10..20).filter(|id| q.post(*id)).count(), 6);
    }

    #[test]
    fn case_23_out_of_order() {
        let mut q = Queue::new(2);
        assert!(q.post(0xa) && q.post(0xb) && q.post(0xc) && !q.post(0xd));
        let (a, b) = (q.device[0].slot, q.device[1].slot);
        assert_eq!(q.list.complete(b, false), Some(0xb));
        assert!(q.post(0xe) && !q.post(0xf));
        assert_eq!(q.list.complete(a, false), Some(0xa));
        assert!(q.post(0xf));
        let rest: Vec<_> = q.device.iter().skip(2).map(|p| q.list.complete(p.slot, false)).collect();
        assert_eq!(rest, [Some(0xc), Some(0xe), Some(0xf)]);
    }

    #[test]
    fn a_slot_that_is_not_with_the_device_is_refused() {
        let mut q = Queue::new(2);
        assert_eq!(q.list.complete(0, false), None);
        assert_eq!(q.list.complete(4, false), None, "beyond the queue");
        assert!(q.post(1));
        assert_eq!(q.list.complete(0, false), Some(1));
        assert_eq!(q.list.complete(0, false), None, "twice");
    }

    #[test]
    fn slots_come_back_from_several_threads() {
        const ROUNDS: u64 = 100_000;
        let mut slots: Vec<SrqSlot> = (0..16).map(|_| SrqSlot::default()).collect();
        // SAFETY: the vector outlives the list and is not touched.
        let (list, mut poster) = unsafe { SrqSlots::new(NonNull::new(slots.as_mut_ptr()).unwrap(), 4) };
        struct Shared(SrqSlots);
        // SAFETY: the slots are atomics, and only this test's threads hold them.
        unsafe impl Sync for Shared {}
        let list = Shared(list);
        let (seen, posted, done) = (&AtomicU64::new(0), &AtomicU64::new(0), &AtomicU64::new(0));
        let channels: Vec<_> = (0..3).map(|_| std::sync::mpsc::channel::<u32>()).collect();
        let (senders, receivers): (Vec<_>, Vec<_>) = channels.into_iter().unzip();
        std::thread::scope(|scope| {
            let list = &list;
            let poller = |receiver: std::sync::mpsc::Receiver<u32>| {
                scope.spawn(move || {
                    for slot in receiver {
                        let id = list.0.complete(slot, true).expect("posted");
                        seen.fetch_add(id, Relaxed);
                        done.fetch_add(1, Release);
                    }
                })
            };
            let pollers: Vec<_> = receivers.into_iter().map(poller).collect();
            for id in 0..ROUNDS {
                let place = loop {
                    let all_done = done.load(Acquire) == id;
                    if let Some(place) = poster.place(&list.0) {
                        break place;
                    }
                    assert!(!all_done, "slots are lost");
                    assert!(!pollers.iter().any(|poller| poller.is_finished()), "a poller has failed");
                    std::thread::yield_now();
                };
                poster.take(place, id);
                posted.fetch_add(id, Relaxed);
                senders[(id % 3) as usize].send(place.slot).unwrap();
            }
            drop(senders);
        });
        assert_eq!(seen.load(Relaxed), posted.load(Relaxed));
        for n in 0..list.0.capacity() {
            let place = poster.place(&list.0).unwrap_or_else(|| panic!("only {n} slots are left"));
            poster.take(place, 0);
        }
        drop(slots);
    }
}
