//! Anonymous memory and reserved address space.

use bareverbs_hal::{HalError, PAGE_SIZE};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};
use std::{ffi::c_void, ptr};

/// Buffers of at least this size are aligned to it, so that the kernel may back them with huge pages.
const HUGE_PAGE: usize = 2 << 20;

/// Address space that is reserved without access rights, and the part of it that may be accessed.
#[derive(Debug)]
pub(crate) struct Region {
    reserved: *mut u8,
    reserved_len: usize,
    ptr: *mut u8,
    len: usize,
}

// SAFETY: a Region owns its address space; the pointers are not tied to a thread.
unsafe impl Send for Region {}
// SAFETY: a shared Region gives out pointers only; who follows them says why that is sound.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves `len` bytes that nobody may access: a load or store in them faults.
    pub(crate) fn reserve(len: usize) -> Result<Self, HalError> {
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
        let p = unsafe {
            mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)
        };
        let p = p.map_err(|e| HalError::Os(e.raw_os_error()))?.cast();
        Ok(Self { reserved: p, reserved_len: len, ptr: p, len })
    }

    /// Zeroed memory of `len` bytes (a multiple of the page size) at a multiple of `align`. With `guard`, the pages
    /// before and behind it fault.
    pub(crate) fn zeroed(len: usize, align: usize, guard: bool) -> Result<Self, HalError> {
        let huge = len >= HUGE_PAGE;
        let align = align.max(if huge { HUGE_PAGE } else { PAGE_SIZE });
        let margin = if guard { PAGE_SIZE } else { 0 };
        let slack = 2 * margin + align - PAGE_SIZE;
        let mut region = Self::reserve(len.checked_add(slack).ok_or(HalError::BadRange)?)?;
        let start = (region.reserved as usize + margin).next_multiple_of(align) - region.reserved as usize;
        // start + len <= margin + align - PAGE_SIZE + len: the front stays inside, and a margin is left behind it.
        region.ptr = region.reserved.wrapping_add(start);
        region.len = len;
        let p = region.ptr.cast::<c_void>();
        // SAFETY: the range lies inside this region's own reservation, which nobody else knows yet.
        unsafe { mprotect(p, len, MprotectFlags::READ | MprotectFlags::WRITE) }
            .map_err(|_| HalError::OutOfDmaMemory { wanted: len })?;
        if huge {
            // SAFETY: the advice changes how the region's own pages are backed, not what they hold. A kernel without
            // huge pages refuses it, which costs speed only.
            let _ = unsafe { madvise(p, len, Advice::LinuxHugepage) };
        }
        Ok(region)
    }

    pub(crate) fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range is this region's own reservation; nobody may use it after its owner is gone.
        let _ = unsafe { munmap(self.reserved.cast(), self.reserved_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_aligned_and_writable() {
        for (len, align) in [(4096, 1), (8192, 65536), (2 << 20, 4096), (3 << 20, 8 << 20)] {
            let r = Region::zeroed(len, align, true).unwrap();
            assert_eq!(r.ptr() as usize % align.max(PAGE_SIZE), 0);
            // SAFETY: the region's own memory, `len` bytes long, used by this test alone.
            let bytes = unsafe { std::slice::from_raw_parts_mut(r.ptr(), r.len()) };
            assert!(bytes.iter().all(|b| *b == 0));
            bytes[0] = 1;
            bytes[len - 1] = 1;
        }
    }
}
