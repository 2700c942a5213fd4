//! A host for tests of the rings: memory for tables, and barriers that a test hears of. The checker of weak memory
//! (`tests/weak-memory`) uses it too.

use bareverbs_hal::{Dma, DmaBuffer, HalError, MapAccess, Mapping, Platform, Segment};
use core::{alloc::Layout, ptr::NonNull, time::Duration};
use std::alloc::{alloc_zeroed, dealloc};

/// What hears of barriers.
pub(crate) trait Barriers: Clone {
    /// What was written before is seen before what is written after.
    fn wmb(&self) {}
    /// What is read after is read after what was read before.
    fn rmb(&self) {}
}

/// The host.
#[derive(Clone)]
pub(crate) struct Host<B>(pub(crate) B);

// SAFETY: memory comes from the allocator, zeroed.
unsafe impl<B: Barriers> Platform for Host<B> {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn state_alloc(&self, layout: Layout) -> Result<NonNull<u8>, HalError> {
        // SAFETY: no table here is empty.
        NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(HalError::OutOfStateMemory { wanted: layout.size() })
    }

    unsafe fn state_free(&self, ptr: NonNull<u8>, layout: Layout) {
        // SAFETY: allocated above with this layout.
        unsafe { dealloc(ptr.as_ptr(), layout) }
    }
}

// SAFETY: there is no DMA memory.
unsafe impl<B: Barriers> Dma for Host<B> {
    fn dma_alloc(&self, _: usize, _: usize) -> Result<DmaBuffer, HalError> {
        Err(HalError::Unsupported("DMA"))
    }

    unsafe fn dma_free(&self, _: DmaBuffer) {}

    unsafe fn map(&self, _: NonNull<u8>, _: usize, _: MapAccess) -> Result<Mapping, HalError> {
        Err(HalError::Unsupported("DMA"))
    }

    fn segments(&self, _: &Mapping, _: &mut dyn FnMut(Segment)) {}

    unsafe fn unmap(&self, _: Mapping) {}

    fn set_dma_bits(&self, _: u8) -> Result<(), HalError> {
        Ok(())
    }

    fn dma_wmb(&self) {
        self.0.wmb();
    }

    fn dma_rmb(&self) {
        self.0.rmb();
    }
}
