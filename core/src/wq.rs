//! Send and receive work queues as counters: what was posted, what was retired, and whose id comes back.
//!
//! A queue has two ends. The poster ([`SendPoster`], [`RecvPoster`]) belongs to whoever posts and is a plain value, so
//! that a batch can work on a copy in registers; the queue itself ([`SendQueue`], [`RecvQueue`]) is shared with the
//! poller of the one CQ that it completes to. Each shared word has one writer: the poster writes a slot and then
//! `posted`, before the device is told; the poller writes `retired`. So posting on one core and polling on another needs
//! no lock. No word that a device says is trusted: a completion that names no outstanding request is refused.

use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use core::ptr::NonNull;

/// What a send request leaves behind for its completion. One for each basic block of the ring, in host-only memory.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct SendSlot {
    wr_id: AtomicU64,
    /// Requests posted when this one was, itself included.
    after: AtomicU32,
    /// What the poster noted of a request of which the completion does not tell what it was.
    note: AtomicU32,
}

/// A send queue. Requests take one or more basic blocks of the ring; completions name a request by its first block.
///
/// A signaled completion retires all requests before it too: unsignaled requests free their places that way only
/// (manual page ibv_post_send).
#[derive(Debug)]
pub struct SendQueue {
    slots: NonNull<SendSlot>,
    mask: u32,
    posted: AtomicU32,
    retired: AtomicU32,
}

/// The posting end of a [`SendQueue`].
#[derive(Clone, Copy, Debug)]
pub struct SendPoster {
    slots: NonNull<SendSlot>,
    mask: u32,
    block: u32,
    posted: u32,
    /// Where `posted` must stop, as far as was looked.
    full_at: u32,
}

/// Where a poster must stop that came to `posted`: `limit` may be outstanding beyond what is `retired`.
fn look(posted: u32, retired: &AtomicU32, limit: u32) -> u32 {
    posted.wrapping_add(limit.saturating_sub(posted.wrapping_sub(retired.load(Acquire))))
}

impl SendPoster {
    /// The basic block where the next request begins; counts on.
    #[inline(always)]
    pub const fn block(&self) -> u32 {
        self.block
    }

    /// The same, as a place in the ring.
    #[inline(always)]
    pub const fn place(&self) -> u32 {
        self.at(self.block)
    }

    /// The place of a block in the ring.
    #[inline(always)]
    pub const fn at(&self, block: u32) -> u32 {
        block & self.mask
    }

    /// Requests pushed; counts on.
    #[inline(always)]
    pub const fn posted(&self) -> u32 {
        self.posted
    }

    /// Whether another request may be pushed for sure, without looking at what was retired since.
    #[inline(always)]
    pub const fn has_known_room(&self) -> bool {
        self.posted != self.full_at
    }

    /// Whether another request may be pushed, where `limit` may be outstanding.
    #[inline(always)]
    pub fn has_room(&mut self, queue: &SendQueue, limit: u32) -> bool {
        if self.posted == self.full_at {
            self.full_at = look(self.posted, &queue.retired, limit);
        }
        self.posted != self.full_at
    }

    /// Keeps the id of a request of so many blocks that was written to the ring. There must be [room](Self::has_room).
    #[inline(always)]
    pub fn push(&mut self, wr_id: u64, blocks: u32) {
        let (block, posted) = (self.block, self.posted.wrapping_add(1));
        // SAFETY: the index is masked to the table that `SendQueue::new` was promised.
        let slot = unsafe { self.slots.add(self.at(block) as usize).as_ref() };
        slot.wr_id.store(wr_id, Relaxed);
        slot.after.store(posted, Relaxed);
        self.posted = posted;
        self.block = block.wrapping_add(blocks);
    }

    /// Whether a request that takes the places of `places` others may be pushed, where `limit` may be outstanding.
    pub fn has_room_for(&mut self, queue: &SendQueue, limit: u32, places: u32) -> bool {
        if self.full_at.wrapping_sub(self.posted) < places {
            self.full_at = look(self.posted, &queue.retired, limit);
        }
        self.full_at.wrapping_sub(self.posted) >= places
    }

    /// As [`push`](Self::push), for a request that takes the places of several, with a note for its completion. There must
    /// be [room](Self::has_room_for).
    pub fn push_noted(&mut self, wr_id: u64, blocks: u32, places: u32, note: u32) {
        // SAFETY: the index is masked to the table that `SendQueue::new` was promised.
        unsafe { self.slots.add(self.place() as usize).as_ref() }.note.store(note, Relaxed);
        self.posted = self.posted.wrapping_add(places - 1);
        self.push(wr_id, blocks);
    }

    /// Publishes all requests pushed, before the device is told of them.
    #[inline(always)]
    pub fn publish(&self, queue: &SendQueue) {
        queue.posted.store(self.posted, Release);
    }

    /// Goes on where a copy of it came to by [`push`](Self::push).
    #[inline(always)]
    pub const fn catch_up(&mut self, copy: Self) {
        (self.block, self.posted) = (copy.block, copy.posted);
    }

    /// Looks anew how much room there is: the limit has changed.
    pub fn forget_room(&mut self) {
        self.full_at = self.posted;
    }
}

impl SendQueue {
    /// A queue over `1 << log_blocks` zeroed slots, and its poster.
    ///
    /// # Safety
    /// `slots` is valid for that many slots while either lives, and nobody else touches them. One poster is at work: a
    /// copy replaces the value that it was made of.
    pub unsafe fn new(slots: NonNull<SendSlot>, log_blocks: u32) -> (Self, SendPoster) {
        let mask = (1 << log_blocks) - 1;
        (
            Self { slots, mask, posted: AtomicU32::new(0), retired: AtomicU32::new(0) },
            SendPoster { slots, mask, block: 0, posted: 0, full_at: 0 },
        )
    }

    /// Puts both ends where `count` requests lead, of a block each, that are retired. For explorations of what the counters do
    /// at the end of their numbers, also of what a driver makes of them.
    #[doc(hidden)]
    pub fn begin_at(&self, poster: &mut SendPoster, count: u32) {
        // A slot that names a request of before would name one of the same count to come.
        (0..=self.mask).for_each(|block| self.slot(block).after.store(count, Relaxed));
        self.posted.store(count, Relaxed);
        self.retired.store(count, Relaxed);
        (poster.block, poster.posted, poster.full_at) = (count, count, count);
    }

    #[inline(always)]
    fn slot(&self, block: u32) -> &SendSlot {
        // SAFETY: the index is masked to the table that `new` was promised.
        unsafe { self.slots.add((block & self.mask) as usize).as_ref() }
    }

    /// Poller: retires the request that begins at `block` and all before it, and gives its id back. `None`, and
    /// nothing changes, if no outstanding request begins there.
    #[inline(always)]
    pub fn complete(&self, block: u32) -> Option<u64> {
        let slot = self.slot(block);
        let retired = self.retired.load(Relaxed);
        let after = slot.after.load(Relaxed);
        if after.wrapping_sub(retired).wrapping_sub(1) >= self.posted.load(Acquire).wrapping_sub(retired) {
            return None;
        }
        let wr_id = slot.wr_id.load(Relaxed);
        self.retired.store(after, Release);
        Some(wr_id)
    }

    /// Poller: what was noted of the request that begins at `block`.
    pub fn note(&self, block: u32) -> u32 {
        self.slot(block).note.load(Relaxed)
    }

    /// Requests that are posted and not retired.
    pub fn outstanding(&self) -> u32 {
        self.posted.load(Acquire).wrapping_sub(self.retired.load(Acquire))
    }

    /// Requests that were published; counts on.
    pub fn posted(&self) -> u32 {
        self.posted.load(Acquire)
    }

    /// Poller: whether the request that was retired last was published before [`posted`](Self::posted) said `count`, or when
    /// it did. For a count of which not all 2^32 numbers came since.
    pub fn retired_within(&self, count: u32) -> bool {
        let posted = self.posted();
        posted.wrapping_sub(count) <= posted.wrapping_sub(self.retired.load(Relaxed))
    }

    /// Forgets everything, after the device did.
    pub fn reset(&self, poster: &mut SendPoster) {
        self.begin_at(poster, 0);
    }
}

/// A receive queue of its own: requests complete in the order in which they were posted (IBA 10.8.5).
#[derive(Debug)]
pub struct RecvQueue {
    wr_ids: NonNull<AtomicU64>,
    mask: u32,
    posted: AtomicU32,
    retired: AtomicU32,
}

/// The posting end of a [`RecvQueue`].
#[derive(Clone, Copy, Debug)]
pub struct RecvPoster {
    wr_ids: NonNull<AtomicU64>,
    mask: u32,
    posted: u32,
    /// Where `posted` must stop, as far as was looked.
    full_at: u32,
}

impl RecvPoster {
    /// The slot of the next request.
    #[inline(always)]
    pub const fn slot(&self) -> u32 {
        self.posted & self.mask
    }

    /// Requests pushed; counts on.
    #[inline(always)]
    pub const fn posted(&self) -> u32 {
        self.posted
    }

    /// Whether another request may be pushed for sure, without looking at what was retired since.
    #[inline(always)]
    pub const fn has_known_room(&self) -> bool {
        self.posted != self.full_at
    }

    /// Whether another request may be pushed, where `limit` may be outstanding.
    #[inline(always)]
    pub fn has_room(&mut self, queue: &RecvQueue, limit: u32) -> bool {
        if self.posted == self.full_at {
            self.full_at = look(self.posted, &queue.retired, limit);
        }
        self.posted != self.full_at
    }

    /// Keeps the id of a request that was written to [`slot`](Self::slot). There must be [room](Self::has_room).
    #[inline(always)]
    pub fn push(&mut self, wr_id: u64) {
        // SAFETY: the index is masked to the table that `RecvQueue::new` was promised.
        unsafe { self.wr_ids.add(self.slot() as usize).as_ref() }.store(wr_id, Relaxed);
        self.posted = self.posted.wrapping_add(1);
    }

    /// Publishes all requests pushed, before the device is told of them.
    #[inline(always)]
    pub fn publish(&self, queue: &RecvQueue) {
        queue.posted.store(self.posted, Release);
    }

    /// Goes on where a copy of it came to by [`push`](Self::push).
    #[inline(always)]
    pub const fn catch_up(&mut self, copy: Self) {
        self.posted = copy.posted;
    }

    /// Looks anew how much room there is: the limit has changed.
    pub fn forget_room(&mut self) {
        self.full_at = self.posted;
    }
}

impl RecvQueue {
    /// A queue over `1 << log_slots` zeroed words for ids, and its poster.
    ///
    /// # Safety
    /// `wr_ids` is valid for that many words while either lives, and nobody else touches them. One poster is at work: a
    /// copy replaces the value that it was made of.
    pub unsafe fn new(wr_ids: NonNull<AtomicU64>, log_slots: u32) -> (Self, RecvPoster) {
        let mask = (1 << log_slots) - 1;
        (
            Self { wr_ids, mask, posted: AtomicU32::new(0), retired: AtomicU32::new(0) },
            RecvPoster { wr_ids, mask, posted: 0, full_at: 0 },
        )
    }

    /// Puts both ends where `count` requests lead that are retired, as [`SendQueue::begin_at`] does.
    #[doc(hidden)]
    pub fn begin_at(&self, poster: &mut RecvPoster, count: u32) {
        self.posted.store(count, Relaxed);
        self.retired.store(count, Relaxed);
        (poster.posted, poster.full_at) = (count, count);
    }

    /// Poller: retires the oldest request and gives its id back; `None` if nothing is outstanding.
    #[inline(always)]
    pub fn complete(&self) -> Option<u64> {
        let retired = self.retired.load(Relaxed);
        if self.posted.load(Acquire) == retired {
            return None;
        }
        // SAFETY: the index is masked to the table that `new` was promised.
        let wr_id = unsafe { self.wr_ids.add((retired & self.mask) as usize).as_ref() }.load(Relaxed);
        self.retired.store(retired.wrapping_add(1), Release);
        Some(wr_id)
    }

    /// Requests that are posted and not retired.
    pub fn outstanding(&self) -> u32 {
        self.posted.load(Acquire).wrapping_sub(self.retired.load(Acquire))
    }

    /// Forgets everything, after the device did.
    pub fn reset(&self, poster: &mut RecvPoster) {
        self.begin_at(poster, 0);
    }
}

#[cfg(test)]
#[path = "wq/explore_tests.rs"]
mod explore_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    struct Sender {
        queue: SendQueue,
        poster: SendPoster,
        _slots: Vec<SendSlot>,
        limit: u32,
    }

    impl Sender {
        fn new(log_blocks: u32) -> Self {
            let mut slots: Vec<SendSlot> = (0..1 << log_blocks).map(|_| SendSlot::default()).collect();
            let table = NonNull::new(slots.as_mut_ptr()).unwrap();
            // SAFETY: the vector is kept beside the queue and not touched.
            let (queue, poster) = unsafe { SendQueue::new(table, log_blocks) };
            Self { queue, poster, _slots: slots, limit: 1 << log_blocks }
        }

        /// Posts a request of `blocks`; tells where it begins.
        fn post(&mut self, wr_id: u64, blocks: u32) -> Option<u32> {
            let at = self.poster.block();
            self.poster.has_room(&self.queue, self.limit).then(|| {
                self.poster.push(wr_id, blocks);
                self.poster.publish(&self.queue);
                at
            })
        }
    }

    #[test]
    fn case_09_one_signaled_completion_retires_the_unsignaled_before_it() {
        let mut s = Sender::new(4);
        let last = (0..16).map(|id| s.post(id, 1).unwrap()).last().unwrap();
        assert_eq!(s.post(16, 1), None);
        assert_eq!(s.queue.complete(last), Some(15));
        assert_eq!(s.queue.outstanding(), 0);
        // Every fourth signaled, far past the 16 bits of the device's index.
        for n in 0..50_000u64 {
            let at = (0..4).map(|i| s.post(100 + 4 * n + i, 1).unwrap()).last().unwrap();
            assert_eq!(s.queue.complete(at & 0xffff), Some(100 + 4 * n + 3));
        }
        assert_eq!(s.queue.outstanding(), 0);
    }

    #[test]
    fn a_request_of_several_places_holds_them_all() {
        let mut s = Sender::new(2);
        s.post(1, 1).unwrap();
        assert!(!s.poster.has_room_for(&s.queue, 4, 4));
        assert!(s.poster.has_room_for(&s.queue, 4, 3));
        let at = s.poster.block();
        s.poster.push_noted(2, 3, 3, 77);
        s.poster.publish(&s.queue);
        assert_eq!((s.post(3, 1), s.queue.outstanding()), (None, 4));
        assert_eq!((s.queue.note(at), s.queue.complete(at)), (77, Some(2)));
        assert_eq!((s.queue.outstanding(), s.poster.block()), (0, 4));
        assert_eq!((4..9).filter(|id| s.post(*id, 1).is_some()).count(), 4);
    }

    #[test]
    fn a_completion_that_names_no_outstanding_request_changes_nothing() {
        let mut s = Sender::new(4);
        assert_eq!(s.queue.complete(0), None);
        let first = s.post(7, 2).unwrap();
        let second = s.post(8, 2).unwrap();
        assert_eq!((first, second), (0, 2));
        assert_eq!(s.queue.complete(1), None, "the middle of a request");
        assert_eq!(s.queue.complete(4), None, "not posted yet");
        assert_eq!(s.queue.complete(first), Some(7));
        assert_eq!(s.queue.complete(first), None, "twice");
        assert_eq!(s.queue.outstanding(), 1);
        assert_eq!(s.queue.complete(second), Some(8));
    }

    #[test]
    fn counters_wrap() {
        let mut s = Sender::new(2);
        s.poster.posted = u32::MAX - 1;
        s.poster.forget_room();
        s.queue.posted.store(u32::MAX - 1, Relaxed);
        s.queue.retired.store(u32::MAX - 1, Relaxed);
        for id in 0..8 {
            let at = s.post(id, 1).unwrap();
            assert_eq!(s.queue.complete(at), Some(id));
        }
    }

    #[test]
    fn a_poster_of_sends_looks_only_where_it_knows_no_room() {
        let mut s = Sender::new(2);
        assert!(!s.poster.has_known_room(), "nobody has looked");
        assert!(s.poster.has_room(&s.queue, 4) && s.poster.has_known_room());
        let mut copy = s.poster;
        (1..4).for_each(|id| copy.push(id, 1));
        assert_eq!((copy.block(), copy.place(), copy.posted(), copy.has_known_room()), (3, 3, 3, true));
        assert_eq!((s.poster.block(), s.poster.place(), s.poster.posted()), (0, 0, 0), "it is a copy");
        s.poster.catch_up(copy);
        assert_eq!((s.poster.block(), s.poster.posted()), (3, 3));
        s.poster.publish(&s.queue);
        assert_eq!(s.queue.complete(2), Some(3));
        // One place is known to be free, which is enough for one.
        assert!(s.poster.has_room_for(&s.queue, 4, 1));
        s.poster.push(4, 2);
        assert_eq!((s.poster.place(), s.poster.has_known_room()), (1, false));
        // Three have come back since: looked for where none is known, and where fewer than asked for are.
        assert!(s.poster.has_room_for(&s.queue, 4, 2));
        s.poster.push_noted(5, 1, 2, 0);
        s.poster.publish(&s.queue);
        assert_eq!((s.poster.posted(), s.queue.complete(3)), (6, Some(4)));
        assert!(!s.poster.has_room_for(&s.queue, 4, 3), "two are outstanding");
        assert!(s.poster.has_room_for(&s.queue, 4, 2));
        assert!(s.poster.has_known_room());
    }

    #[test]
    fn a_poster_of_receives_looks_only_where_it_knows_no_room() {
        let mut ids: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        // SAFETY: the vector outlives the queue and is not touched.
        let (queue, mut poster) = unsafe { RecvQueue::new(NonNull::new(ids.as_mut_ptr()).unwrap(), 2) };
        assert!(!poster.has_known_room(), "nobody has looked");
        assert!(poster.has_room(&queue, 4) && poster.has_known_room());
        let mut copy = poster;
        (1..5).for_each(|id| copy.push(id));
        assert_eq!((copy.posted(), copy.slot(), copy.has_known_room()), (4, 0, false));
        assert_eq!((poster.posted(), poster.slot()), (0, 0), "it is a copy");
        poster.catch_up(copy);
        poster.publish(&queue);
        assert_eq!((poster.posted(), queue.outstanding(), queue.complete()), (4, 4, Some(1)));
        assert!(!poster.has_known_room(), "nobody has looked since");
        assert!(poster.has_room(&queue, 4) && poster.has_known_room());
        poster.forget_room();
        assert!(!poster.has_known_room() && !poster.has_room(&queue, 3), "the limit has changed");
        drop(ids);
    }

    #[test]
    fn a_request_is_from_before_a_count_or_not() {
        let mut s = Sender::new(2);
        let early = [1, 2].map(|id| s.post(id, 1).unwrap());
        let count = s.queue.posted();
        let late = s.post(3, 1).unwrap();
        assert_eq!((count, s.queue.posted()), (2, 3));
        for (block, before) in [(early[0], true), (early[1], true), (late, false)] {
            s.queue.complete(block).unwrap();
            assert_eq!(s.queue.retired_within(count), before, "block {block}");
        }
    }

    #[test]
    fn a_limit_that_falls_holds_at_once() {
        let mut s = Sender::new(2);
        s.post(1, 1).unwrap();
        s.limit = 0;
        s.poster.forget_room();
        assert_eq!(s.post(2, 1), None);
        s.limit = 4;
        assert_eq!((2..9).filter(|id| s.post(*id, 1).is_some()).count(), 3);
    }

    #[test]
    fn receives_complete_in_order() {
        let words: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let table = NonNull::new(words.as_ptr().cast_mut()).unwrap();
        // SAFETY: the vector outlives the queue.
        let (q, mut poster) = unsafe { RecvQueue::new(table, 2) };
        assert_eq!(q.complete(), None);
        for n in 0..20u64 {
            for i in 0..4 {
                assert!(poster.has_room(&q, 4));
                poster.push(10 * n + i);
            }
            assert!(!poster.has_room(&q, 4));
            assert_eq!(q.complete(), None, "not published");
            poster.publish(&q);
            assert_eq!(q.outstanding(), 4);
            assert_eq!(
                [(); 5].map(|()| q.complete()),
                [0, 1, 2, 3].map(|i| Some(10 * n + i)).into_iter().chain([None]).collect::<Vec<_>>()[..]
            );
        }
    }
}
