//! Memory that a device reaches.

use crate::{HalError, Platform};
use core::ptr::NonNull;

/// The granule of device addresses: every mapping and buffer is rounded to it.
pub const PAGE_SIZE: usize = 4096;

/// DMA memory handed out by the platform: contiguous for the CPU and for the device.
#[derive(Debug)]
pub struct DmaBuffer {
    /// Where the CPU sees it.
    pub ptr: NonNull<u8>,
    /// Where the device sees it; need not equal the CPU's address.
    pub addr: u64,
    /// Bytes; at least what was asked for.
    pub len: usize,
}

/// A run of device addresses that a mapped range lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Device address, a multiple of [`PAGE_SIZE`].
    pub addr: u64,
    /// Bytes, a multiple of [`PAGE_SIZE`].
    pub len: u64,
}

/// What the device may do to mapped memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapAccess {
    /// The device reads only.
    Read,
    /// The device reads and writes.
    ReadWrite,
}

/// The user's own memory, pinned and mapped. Must be given back with [`Dma::unmap`].
#[derive(Debug)]
pub struct Mapping {
    /// First byte of the user's range.
    pub ptr: NonNull<u8>,
    /// Bytes of the user's range.
    pub len: usize,
    /// The platform's own mark.
    pub token: u64,
}

/// Memory that the device reaches, and barriers. Coherent, or opening fails with [`HalError::NotCoherent`].
///
/// # Safety
/// ## The implementer promises
/// - A [`DmaBuffer`] is zeroed, disjoint from all other live memory, aligned as asked for both the CPU and the device,
///   and stays reachable for the device until it is freed.
/// - The segments of a [`Mapping`] cover, in order and without holes, the pages of the user's range from the page of
///   its first byte to the page of its last; they stay valid until `unmap`. Overlapping mappings are counted, so that
///   a page stays reachable until its last mapping goes.
/// - After the last `unmap` of a page returns, the device cannot reach it any more where an IOMMU stands between. After
///   `dma_free`, it reaches the memory at most as a free part of the pool that DMA memory is cut from: nobody gets it
///   for another purpose while it does.
/// ## The caller promises
/// - Memory is unmapped and freed once, after the device was stopped from using it.
pub unsafe trait Dma: Platform {
    /// Zeroed, contiguous DMA memory of at least `len` bytes, aligned to `align` (a power of two).
    fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaBuffer, HalError>;

    /// Gives a buffer back.
    ///
    /// # Safety
    /// The device does not use the buffer any more, nor does the caller.
    unsafe fn dma_free(&self, buffer: DmaBuffer);

    /// Pins the user's memory and makes it reachable for the device, in place or not at all.
    ///
    /// # Safety
    /// `ptr` is valid for `len` bytes until the mapping is given back, and nobody holds a reference into the range
    /// while the device may write.
    unsafe fn map(&self, ptr: NonNull<u8>, len: usize, access: MapAccess) -> Result<Mapping, HalError>;

    /// Calls `each` with every segment of the mapping, in order. May be called any number of times.
    fn segments(&self, mapping: &Mapping, each: &mut dyn FnMut(Segment));

    /// Gives a mapping back.
    ///
    /// # Safety
    /// The device does not use the memory any more.
    unsafe fn unmap(&self, mapping: Mapping);

    /// Tells how many address bits the function drives. Fails if memory handed out would lie above.
    fn set_dma_bits(&self, bits: u8) -> Result<(), HalError>;

    /// See [`crate::dma_wmb`].
    #[inline(always)]
    fn dma_wmb(&self) {
        crate::dma_wmb();
    }

    /// See [`crate::dma_rmb`].
    #[inline(always)]
    fn dma_rmb(&self) {
        crate::dma_rmb();
    }

    /// See [`crate::mmio_wmb`].
    #[inline(always)]
    fn mmio_wmb(&self) {
        crate::mmio_wmb();
    }

    /// See [`crate::wc_wmb`].
    #[inline(always)]
    fn wc_wmb(&self) {
        crate::wc_wmb();
    }
}
