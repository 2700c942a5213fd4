//! A doorbell record's dword: how many requests of a queue the device may read. PRM: "Doorbell Records".

use bareverbs::sync::{AtomicU32, Ordering};
use bareverbs_hal::Dma;
use core::ptr::NonNull;

/// The dword of a send queue, which counts basic blocks, or of a receive queue, which counts WQEs.
#[derive(Clone, Copy)]
pub(crate) struct Record(NonNull<AtomicU32>);

impl Record {
    /// # Safety
    /// The dword is valid for as long as this is used, and only the device reads it.
    pub(crate) unsafe fn new(dword: NonNull<AtomicU32>) -> Self {
        Self(dword)
    }

    fn dword(&self) -> &AtomicU32 {
        // SAFETY: valid (promise of `new`).
        unsafe { self.0.as_ref() }
    }

    /// Lets the device read what was posted up to a count: it sees the requests that were written before when it sees the
    /// count.
    #[inline(always)]
    pub(crate) fn tell<H: Dma>(&self, hal: &H, count: u32) {
        hal.dma_wmb();
        self.dword().store((count & 0xffff).to_be(), Ordering::Relaxed);
    }

    /// Clears it, as the device does its counter at a reset.
    pub(crate) fn clear(&self) {
        self.dword().store(0, Ordering::Relaxed);
    }
}
