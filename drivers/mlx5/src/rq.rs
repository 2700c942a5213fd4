//! The posting side of receive queues: a QP's own ([`RecvRing`]) and a shared one ([`SrqRing`]).

use crate::wqe;
use bareverbs::{
    PostError, RecvWr, Sge,
    srq::{SrqHead, SrqSlots},
    wq::RecvQueue,
};
use bareverbs_hal::Dma;
use bareverbs_mlx5_prm::wqe::DS;
use core::{
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

/// The longest element of a receive: its byte count has 31 bits.
const MAX_ELEMENT: u32 = (1 << 31) - 1;

/// Memory of a ring of receive WQEs.
pub(crate) struct RecvMemory {
    /// The ring, aligned to its stride.
    pub start: NonNull<u8>,
    /// Log of its WQEs.
    pub log_slots: u32,
    /// Log of the bytes from one WQE to the next.
    pub log_stride: u32,
    /// The receive dword of the doorbell record.
    pub record: NonNull<AtomicU32>,
}

impl RecvMemory {
    fn record(&self) -> &AtomicU32 {
        // SAFETY: the record lives as long as the ring (promise of the constructors below).
        unsafe { self.record.as_ref() }
    }

    /// Writes the list of a receive WQE.
    ///
    /// # Safety
    /// `at` has room for `max_sge` segments that nobody else uses.
    #[inline(always)]
    unsafe fn scatter(mut at: NonNull<u8>, max_sge: u32, sges: &[Sge]) -> Result<(), PostError> {
        if sges.len() > max_sge as usize {
            return Err(PostError::TooManySge { max: max_sge });
        }
        let mut left = max_sge;
        for sge in sges {
            if sge.length() > MAX_ELEMENT {
                return Err(PostError::MessageTooLong { max: MAX_ELEMENT });
            }
            // An empty element takes no place: its byte count would mean something else.
            if sge.length() == 0 {
                continue;
            }
            // SAFETY: at most `max_sge` segments.
            unsafe {
                wqe::data(at, sge);
                at = at.add(DS);
            }
            left -= 1;
        }
        if left > 0 {
            // SAFETY: fewer than `max_sge` segments were written.
            unsafe { wqe::end_of_list(at) };
        }
        Ok(())
    }
}

/// The ring of a QP's own receive queue, as its one poster sees it.
pub(crate) struct RecvRing {
    memory: RecvMemory,
    /// WQEs less one.
    mask: u32,
    /// Requests pushed; counts on.
    posted: u32,
    /// Requests that may be outstanding now: 0 while the QP's state forbids posting.
    open: u32,
    /// Requests that may be outstanding; 0 without a receive queue.
    limit: u32,
    max_sge: u32,
    /// `posted` when the device was told last.
    rung: u32,
}

impl RecvRing {
    /// # Safety
    /// The memory is valid as it says for as long as the ring lives; nobody else writes it.
    pub(crate) unsafe fn new(memory: RecvMemory, limit: u32, max_sge: u32) -> Self {
        Self { mask: (1 << memory.log_slots) - 1, memory, posted: 0, open: 0, limit, max_sge, rung: 0 }
    }

    /// Lets requests through, or not.
    pub(crate) fn set_open(&mut self, open: bool) {
        self.open = if open { self.limit } else { 0 };
    }

    /// Whether the QP's state lets requests through.
    pub(crate) fn is_open(&self) -> bool {
        self.open == self.limit
    }

    /// Begins at slot 0 again, as the device does after a reset, and clears the doorbell record.
    pub(crate) fn reset(&mut self) {
        (self.posted, self.rung) = (0, 0);
        self.memory.record().store(0, Ordering::Relaxed);
    }

    /// Writes one request to the ring.
    #[inline(always)]
    pub(crate) fn push(&mut self, queue: &RecvQueue, wr: &RecvWr<'_>) -> Result<(), PostError> {
        if self.posted.wrapping_sub(queue.retired()) >= self.open {
            return Err(PostError::QueueFull);
        }
        let offset = ((self.posted & self.mask) as usize) << self.memory.log_stride;
        // SAFETY: a slot of the ring that is free, with room for `max_sge` segments.
        unsafe { RecvMemory::scatter(self.memory.start.add(offset), self.max_sge, wr.sges)? };
        queue.record(self.posted, wr.wr_id);
        self.posted = self.posted.wrapping_add(1);
        Ok(())
    }

    /// Tells the device of all requests pushed since the last time.
    #[inline(always)]
    pub(crate) fn ring<H: Dma>(&mut self, queue: &RecvQueue, hal: &H) {
        if self.posted == self.rung {
            return;
        }
        self.rung = self.posted;
        queue.publish(self.posted);
        hal.dma_wmb();
        self.memory.record().store((self.posted & 0xffff).to_be(), Ordering::Relaxed);
    }
}

/// The ring of a shared receive queue, as its one poster sees it.
pub(crate) struct SrqRing {
    memory: RecvMemory,
    head: SrqHead,
    /// Requests pushed; counts on.
    posted: u32,
    max_sge: u32,
    /// `posted` when the device was told last.
    rung: u32,
}

impl SrqRing {
    /// # Safety
    /// The memory is valid as it says for as long as the ring lives; nobody else writes it.
    pub(crate) unsafe fn new(memory: RecvMemory, head: SrqHead, max_sge: u32) -> Self {
        Self { memory, head, posted: 0, max_sge, rung: 0 }
    }

    /// Writes one request to the ring, linked to the place of the one that will follow it.
    #[inline(always)]
    pub(crate) fn push(&mut self, slots: &SrqSlots, wr: &RecvWr<'_>) -> Result<(), PostError> {
        let Some(place) = slots.place(&self.head) else { return Err(PostError::QueueFull) };
        // SAFETY: a slot of the ring that is free, with room for a next segment and `max_sge` others.
        unsafe {
            let at = self.memory.start.add((place.slot as usize) << self.memory.log_stride);
            RecvMemory::scatter(at.add(DS), self.max_sge, wr.sges)?;
            wqe::next(at, place.next);
        }
        slots.take(&mut self.head, place, wr.wr_id);
        self.posted = self.posted.wrapping_add(1);
        Ok(())
    }

    /// Tells the device of all requests pushed since the last time.
    #[inline(always)]
    pub(crate) fn ring<H: Dma>(&mut self, hal: &H) {
        if self.posted == self.rung {
            return;
        }
        self.rung = self.posted;
        hal.dma_wmb();
        self.memory.record().store((self.posted & 0xffff).to_be(), Ordering::Relaxed);
    }
}
