//! Send and receive work queues as counters: what was posted, what was retired, and whose id comes back.
//!
//! Each word has one writer: the poster writes `posted` and a slot before the device is told of it, the poller of the
//! one CQ that the queue completes to writes `retired`. So posting on one core and polling on another needs no lock.
//! No word that a device says is trusted: a completion that names no outstanding request is refused.

use core::{
    ptr::NonNull,
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// What a send request leaves behind for its completion. One for each basic block of the ring, in host-only memory.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub struct SendSlot {
    wr_id: AtomicU64,
    /// Requests posted when this one was, itself included.
    after: AtomicU32,
}

/// A send queue. Requests take one or more basic blocks of the ring; completions name a request by its first block.
///
/// A signaled completion retires all requests before it too: unsignaled requests free their places that way only
/// (manual page ibv_post_send). The queue is full when `limit` requests are outstanding.
#[derive(Debug)]
pub struct SendQueue {
    slots: NonNull<SendSlot>,
    mask: u32,
    posted: AtomicU32,
    retired: AtomicU32,
}

impl SendQueue {
    /// A queue over `1 << log_blocks` zeroed slots.
    ///
    /// # Safety
    /// `slots` is valid for that many slots while the queue lives, and nobody else touches them.
    pub const unsafe fn new(slots: NonNull<SendSlot>, log_blocks: u32) -> Self {
        Self { slots, mask: (1 << log_blocks) - 1, posted: AtomicU32::new(0), retired: AtomicU32::new(0) }
    }

    #[inline(always)]
    fn slot(&self, block: u32) -> &SendSlot {
        // SAFETY: the index is masked to the table that `new` was promised.
        unsafe { self.slots.add((block & self.mask) as usize).as_ref() }
    }

    /// Poster: requests that completions have retired.
    #[inline(always)]
    pub fn retired(&self) -> u32 {
        self.retired.load(Acquire)
    }

    /// Poster: keeps the id of the request that begins at `block` and is the `after`th.
    #[inline(always)]
    pub fn record(&self, block: u32, wr_id: u64, after: u32) {
        let slot = self.slot(block);
        slot.wr_id.store(wr_id, Relaxed);
        slot.after.store(after, Relaxed);
    }

    /// Poster: publishes all requests up to the `posted`th, before the device is told of them.
    #[inline(always)]
    pub fn publish(&self, posted: u32) {
        self.posted.store(posted, Release);
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

    /// The id of the request that begins at `block`, if it is outstanding.
    pub fn peek(&self, block: u32) -> Option<u64> {
        let slot = self.slot(block);
        let retired = self.retired.load(Relaxed);
        let ahead = slot.after.load(Relaxed).wrapping_sub(retired).wrapping_sub(1);
        (ahead < self.posted.load(Acquire).wrapping_sub(retired)).then(|| slot.wr_id.load(Relaxed))
    }

    /// Requests that are posted and not retired.
    pub fn outstanding(&self) -> u32 {
        self.posted.load(Acquire).wrapping_sub(self.retired.load(Acquire))
    }

    /// Forgets everything. Only while neither side is at work: after the device was reset.
    pub fn reset(&self) {
        self.posted.store(0, Relaxed);
        self.retired.store(0, Relaxed);
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

impl RecvQueue {
    /// A queue over `1 << log_slots` zeroed words for ids.
    ///
    /// # Safety
    /// `wr_ids` is valid for that many words while the queue lives, and nobody else touches them.
    pub const unsafe fn new(wr_ids: NonNull<AtomicU64>, log_slots: u32) -> Self {
        Self { wr_ids, mask: (1 << log_slots) - 1, posted: AtomicU32::new(0), retired: AtomicU32::new(0) }
    }

    #[inline(always)]
    fn wr_id(&self, slot: u32) -> &AtomicU64 {
        // SAFETY: the index is masked to the table that `new` was promised.
        unsafe { self.wr_ids.add((slot & self.mask) as usize).as_ref() }
    }

    /// Poster: requests that completions have retired.
    #[inline(always)]
    pub fn retired(&self) -> u32 {
        self.retired.load(Acquire)
    }

    /// Poster: keeps the id of the request in `slot`.
    #[inline(always)]
    pub fn record(&self, slot: u32, wr_id: u64) {
        self.wr_id(slot).store(wr_id, Relaxed);
    }

    /// Poster: publishes all requests up to the `posted`th, before the device is told of them.
    #[inline(always)]
    pub fn publish(&self, posted: u32) {
        self.posted.store(posted, Release);
    }

    /// Poller: retires the oldest request and gives its id back; `None` if nothing is outstanding.
    #[inline(always)]
    pub fn complete(&self) -> Option<u64> {
        let retired = self.retired.load(Relaxed);
        if self.posted.load(Acquire) == retired {
            return None;
        }
        let wr_id = self.wr_id(retired).load(Relaxed);
        self.retired.store(retired.wrapping_add(1), Release);
        Some(wr_id)
    }

    /// Requests that are posted and not retired.
    pub fn outstanding(&self) -> u32 {
        self.posted.load(Acquire).wrapping_sub(self.retired.load(Acquire))
    }

    /// Forgets everything. Only while neither side is at work: after the device was reset.
    pub fn reset(&self) {
        self.posted.store(0, Relaxed);
        self.retired.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    struct Sender {
        queue: SendQueue,
        _slots: Vec<SendSlot>,
        limit: u32,
        block: u32,
        posted: u32,
    }

    impl Sender {
        fn new(log_blocks: u32) -> Self {
            let mut slots: Vec<SendSlot> = (0..1 << log_blocks).map(|_| SendSlot::default()).collect();
            let table = NonNull::new(slots.as_mut_ptr()).unwrap();
            // SAFETY: the vector is kept beside the queue and not touched.
            let queue = unsafe { SendQueue::new(table, log_blocks) };
            Self { queue, _slots: slots, limit: 1 << log_blocks, block: 0, posted: 0 }
        }

        /// Posts a request of `blocks`; tells where it begins.
        fn post(&mut self, wr_id: u64, blocks: u32) -> Option<u32> {
            if self.posted.wrapping_sub(self.queue.retired()) >= self.limit {
                return None;
            }
            let at = self.block;
            self.posted = self.posted.wrapping_add(1);
            self.queue.record(at, wr_id, self.posted);
            self.queue.publish(self.posted);
            self.block = self.block.wrapping_add(blocks);
            Some(at)
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
        s.posted = u32::MAX - 1;
        s.queue.posted.store(u32::MAX - 1, Relaxed);
        s.queue.retired.store(u32::MAX - 1, Relaxed);
        for id in 0..8 {
            let at = s.post(id, 1).unwrap();
            assert_eq!(s.queue.complete(at), Some(id));
        }
    }

    #[test]
    fn receives_complete_in_order() {
        let words: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
        let table = NonNull::new(words.as_ptr().cast_mut()).unwrap();
        // SAFETY: the vector outlives the queue.
        let q = unsafe { RecvQueue::new(table, 2) };
        assert_eq!(q.complete(), None);
        for n in 0..20u32 {
            q.record(n, u64::from(n) + 5);
            q.publish(n + 1);
            assert_eq!(q.outstanding(), 1);
            assert_eq!(q.complete(), Some(u64::from(n) + 5));
            assert_eq!(q.complete(), None);
        }
    }
}
