//! A host for the driver's code: memory for tables, and barriers as loom has them.

use crate::sync::{Ordering, at};
use bareverbs_hal::{Dma, DmaBuffer, HalError, MapAccess, Mapping, Platform, Segment};
use core::{alloc::Layout, ptr::NonNull, time::Duration};
use std::alloc::{alloc_zeroed, dealloc};

#[derive(Clone)]
pub struct Host;

// SAFETY: the allocator's memory.
unsafe impl Platform for Host {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn state_alloc(&self, layout: Layout) -> Result<NonNull<u8>, HalError> {
        // SAFETY: no table here is empty.
        NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(HalError::OutOfStateMemory { wanted: layout.size() })
    }

    unsafe fn state_free(&self, ptr: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { dealloc(ptr.as_ptr(), layout) }
    }
}

// SAFETY: nothing but the barriers is used.
unsafe impl Dma for Host {
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

    fn dma_rmb(&self) {
        // Relaxed: there is no barrier.
        if at(Ordering::Acquire, "dma_rmb") == Ordering::Acquire {
            loom::sync::atomic::fence(Ordering::Acquire);
        }
    }
}
