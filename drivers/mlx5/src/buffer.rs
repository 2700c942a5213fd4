//! DMA memory of queues: rings and doorbell records.

use crate::{
    cmd::PageList,
    hca::{Hca, Resource},
    policy::Policy,
    record::Record,
};
use bareverbs::Error;
use bareverbs_hal::{DmaBuffer, PAGE_SIZE, PciFunction};
use bareverbs_mlx5_prm::registers::doorbell_record;
use core::{ptr::NonNull, sync::atomic::AtomicU32};

/// Bytes that a doorbell record takes: a cache line, so that no two share one.
pub(crate) const RECORD_LEN: usize = 64;
/// Page sizes that the device takes are these powers of two at least.
const MAX_LOG_PAGE: u32 = 12 + 18;

/// Contiguous, zeroed memory that begins on a page.
pub(crate) struct Buffer(DmaBuffer);

// SAFETY: an address of memory that is owned.
unsafe impl Send for Buffer {}

impl Buffer {
    pub(crate) fn new<H: PciFunction, P: Policy>(hca: &Hca<H, P>, len: usize) -> Result<Self, Error> {
        hca.dma_alloc(len.next_multiple_of(PAGE_SIZE), PAGE_SIZE).map(Self)
    }

    /// Gives it back; where `outcome` says that the device may still use it, when the function was stopped.
    pub(crate) fn free<H: PciFunction, P: Policy>(self, hca: &Hca<H, P>, outcome: &Result<(), Error>) {
        hca.release(Resource::Dma(self.0), outcome);
    }

    /// First byte.
    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.0.ptr
    }

    /// Device address of a byte.
    pub(crate) fn addr(&self, offset: usize) -> u64 {
        self.0.addr + offset as u64
    }

    /// Log of the largest pages that the first `len` bytes are made of.
    pub(crate) fn log_page(&self, len: usize) -> u32 {
        self.log_page_at(0, len)
    }

    /// The first `len` bytes as pages of [`log_page`](Self::log_page).
    pub(crate) fn pages(&self, len: usize) -> PageList<'static> {
        self.pages_at(0, len)
    }

    /// Log of the largest pages that `len` bytes from a page boundary on are made of.
    pub(crate) fn log_page_at(&self, at: usize, len: usize) -> u32 {
        let whole = len.next_multiple_of(PAGE_SIZE);
        self.addr(at).trailing_zeros().min(whole.trailing_zeros()).min(MAX_LOG_PAGE)
    }

    /// Those bytes as pages of [`log_page_at`](Self::log_page_at).
    pub(crate) fn pages_at(&self, at: usize, len: usize) -> PageList<'static> {
        let log_page = self.log_page_at(at, len);
        let count = len.next_multiple_of(PAGE_SIZE) >> log_page;
        PageList::Contiguous { addr: self.addr(at), count, log_page }
    }
}

/// The two dwords of a doorbell record.
pub(crate) type RecordPair = [AtomicU32; 2];
const _: () = assert!(size_of::<RecordPair>() == doorbell_record::SIZE);

/// The doorbell record at an offset of a buffer.
///
/// # Safety
/// `RECORD_LEN` bytes of the buffer are there and are used for nothing else.
pub(crate) unsafe fn record(buffer: &Buffer, offset: usize) -> NonNull<RecordPair> {
    debug_assert!(offset.is_multiple_of(RECORD_LEN));
    // SAFETY: inside the buffer.
    unsafe { buffer.ptr().add(offset) }.cast()
}

/// One dword of a doorbell record.
pub(crate) fn dword(record: NonNull<RecordPair>, offset: usize) -> Record {
    // SAFETY: the record has two dwords, and lies in a buffer that goes with its queue.
    unsafe { Record::new(record.cast::<AtomicU32>().add((offset / 4) & 1)) }
}
