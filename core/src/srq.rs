//! The free list of a shared receive queue.
//!
//! Receives of a shared queue complete out of order, so a slot is free when its completion was polled. The poster takes
//! slots from a list that it alone holds; pollers (there may be several CQs) put slots onto a stack of returned ones,
//! which the poster takes over as a whole when its own list runs out. The successor of a slot must be known when the
//! slot is posted (the device follows the link), so one slot always stays back: of `n` slots `n - 1` can be posted.
//!
//! Shared between threads, a returned slot is pushed by compare-and-swap and the stack taken by swap. Nothing else is
//! ever popped from the stack, so the ABA problem does not arise and no lock is needed.

use core::{
    ptr::NonNull,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// End of a list.
const NONE: u32 = u32::MAX;
/// In place of a link: the slot is with the device.
const POSTED: u32 = u32::MAX - 1;

/// A slot: the id of the request in it, or its place in a list. In host-only memory.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct SrqSlot {
    wr_id: AtomicU64,
    next: AtomicU32,
}

/// The slots of a shared receive queue.
#[derive(Debug)]
pub struct SrqSlots {
    slots: NonNull<SrqSlot>,
    len: u32,
    returned: AtomicU32,
}

/// The poster's end of [`SrqSlots`]: the next slot to be posted. A plain value, so that a batch can work on a copy.
#[derive(Clone, Copy, Debug)]
pub struct SrqPoster {
    slots: NonNull<SrqSlot>,
    head: u32,
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
        let list = Self { slots, len: 1 << log_slots, returned: AtomicU32::new(NONE) };
        for i in 0..list.len {
            list.slot(i).next.store(if i + 1 == list.len { NONE } else { i + 1 }, Relaxed);
        }
        (list, SrqPoster { slots, head: 0 })
    }

    /// Requests that can be outstanding.
    pub const fn capacity(&self) -> u32 {
        self.len - 1
    }

    #[inline(always)]
    fn slot(&self, i: u32) -> &SrqSlot {
        debug_assert!(i < self.len);
        // SAFETY: every index is a link of this list or was compared with `len`.
        unsafe { self.slots.add(i as usize).as_ref() }
    }

    /// Poller: the request in slot `i` is done; gives its id back and frees the slot. `None`, and nothing changes, if
    /// the slot is not with the device. `shared` says that other threads post or poll at the same time.
    #[inline(always)]
    pub fn complete(&self, i: u32, shared: bool) -> Option<u64> {
        if i >= self.len {
            return None;
        }
        let slot = self.slot(i);
        // Between threads the slot is claimed, so that one that a device tells of in two CQs comes back once.
        let posted = if shared {
            slot.next.compare_exchange(POSTED, NONE, Acquire, Relaxed).is_ok()
        } else {
            slot.next.load(Acquire) == POSTED
        };
        if !posted {
            return None;
        }
        let wr_id = slot.wr_id.load(Relaxed);
        let mut top = self.returned.load(Relaxed);
        loop {
            slot.next.store(top, Relaxed);
            if !shared {
                self.returned.store(i, Relaxed);
                break;
            }
            match self.returned.compare_exchange_weak(top, i, Release, Relaxed) {
                Ok(_) => break,
                Err(other) => top = other,
            }
        }
        Some(wr_id)
    }
}

impl SrqPoster {
    #[inline(always)]
    fn slot(&self, i: u32) -> &SrqSlot {
        // SAFETY: every index is a link of the list.
        unsafe { self.slots.add(i as usize).as_ref() }
    }

    /// The next place, if there is one for sure, without looking at what was returned since. Nothing changes until
    /// [`take`](Self::take).
    #[inline(always)]
    pub fn known_place(&self) -> Option<SrqPlace> {
        let next = self.slot(self.head).next.load(Relaxed);
        (next != NONE).then_some(SrqPlace { slot: self.head, next })
    }

    /// The next place, if the queue is not full. Nothing changes until [`take`](Self::take).
    #[inline(always)]
    pub fn place(&self, list: &SrqSlots) -> Option<SrqPlace> {
        if self.slot(self.head).next.load(Relaxed) == NONE {
            // Takes over what was returned.
            self.slot(self.head).next.store(list.returned.swap(NONE, Acquire), Relaxed);
        }
        self.known_place()
    }

    /// A request was written to the place.
    #[inline(always)]
    pub fn take(&mut self, place: SrqPlace, wr_id: u64) {
        let slot = self.slot(place.slot);
        slot.wr_id.store(wr_id, Relaxed);
        slot.next.store(POSTED, Release);
        self.head = place.next;
    }
}

#[cfg(test)]
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
        const ROUNDS: u64 = 20_000;
        let mut slots: Vec<SrqSlot> = (0..16).map(|_| SrqSlot::default()).collect();
        // SAFETY: the vector outlives the list and is not touched.
        let (list, mut poster) = unsafe { SrqSlots::new(NonNull::new(slots.as_mut_ptr()).unwrap(), 4) };
        struct Shared(SrqSlots);
        // SAFETY: the slots are atomics, and only this test's threads hold them.
        unsafe impl Sync for Shared {}
        let list = Shared(list);
        let (seen, posted) = (&AtomicU64::new(0), &AtomicU64::new(0));
        let channels: Vec<_> = (0..3).map(|_| std::sync::mpsc::channel::<u32>()).collect();
        let (senders, receivers): (Vec<_>, Vec<_>) = channels.into_iter().unzip();
        std::thread::scope(|scope| {
            let list = &list;
            let poller = |receiver: std::sync::mpsc::Receiver<u32>| {
                scope.spawn(move || {
                    for slot in receiver {
                        let id = list.0.complete(slot, true).expect("posted");
                        seen.fetch_add(id, Relaxed);
                    }
                })
            };
            let pollers: Vec<_> = receivers.into_iter().map(poller).collect();
            for id in 0..ROUNDS {
                let place = loop {
                    match poster.place(&list.0) {
                        Some(place) => break place,
                        None => {
                            assert!(!pollers.iter().any(|poller| poller.is_finished()), "a poller has failed");
                            std::thread::yield_now();
                        }
                    }
                };
                poster.take(place, id);
                posted.fetch_add(id, Relaxed);
                senders[(id % 3) as usize].send(place.slot).unwrap();
            }
            drop(senders);
        });
        assert_eq!(seen.load(Relaxed), posted.load(Relaxed));
        drop(slots);
    }
}
