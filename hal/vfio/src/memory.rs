//! Anonymous memory, in huge pages where there are any.

use bareverbs_hal::{HalError, PAGE_SIZE};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::{
    ffi::c_void,
    ptr::{self, NonNull},
};

/// The size of a huge page of x86-64, and of aarch64 with pages of 4 KiB.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Zeroed memory of this process, outside the heap.
#[derive(Debug)]
pub(crate) struct Region {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: a Region owns its memory; the pointer is not tied to a thread.
unsafe impl Send for Region {}

impl Region {
    /// Memory of `len` bytes at a multiple of `align`, both multiples of the page size.
    pub(crate) fn new(len: usize, align: usize) -> Result<Self, HalError> {
        let huge = len.is_multiple_of(HUGE_PAGE) && align <= HUGE_PAGE;
        let region = if huge { Self::huge(len) } else { None };
        let region = match region {
            Some(region) => region,
            None => Self::ordinary(len, align)?,
        };
        // A forked child would make pinned pages copy-on-write, and the first write of ours then moves them away from
        // the device. Memory that only the device and this process know is none of a child's business.
        // SAFETY: the advice concerns what a fork copies, not what the region's own pages hold.
        unsafe { madvise(region.ptr.as_ptr().cast(), len, Advice::LinuxDontFork) }.map_err(os)?;
        Ok(region)
    }

    /// Reserved huge pages, if so many are free.
    fn huge(len: usize) -> Option<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
        let p = unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags) }.ok()?;
        Some(Self { ptr: NonNull::new(p.cast())?, len })
    }

    /// Ordinary pages, which the kernel may join to huge ones.
    fn ordinary(len: usize, align: usize) -> Result<Self, HalError> {
        let wanted = len.checked_add(align - PAGE_SIZE).ok_or(HalError::BadRange)?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
        let p = unsafe { mmap_anonymous(ptr::null_mut(), wanted, rights, MapFlags::PRIVATE) };
        let p: *mut u8 = p.map_err(|_| HalError::OutOfDmaMemory { wanted: len })?.cast();
        let front = (p as usize).next_multiple_of(align) - p as usize;
        // What stands before and behind the aligned part goes back.
        for (start, len) in [(0, front), (front + len, wanted - len - front)] {
            if len > 0 {
                // SAFETY: the range lies inside the mapping made above, which nobody else knows yet.
                unsafe { munmap(p.wrapping_add(start).cast(), len) }.map_err(os)?;
            }
        }
        let ptr = NonNull::new(p.wrapping_add(front)).ok_or(HalError::OutOfDmaMemory { wanted: len })?;
        if len >= HUGE_PAGE {
            // SAFETY: the advice changes how the region's own pages are backed, not what they hold. A kernel without
            // huge pages refuses it, which costs speed only.
            let _ = unsafe { madvise(ptr.as_ptr().cast::<c_void>(), len, Advice::LinuxHugepage) };
        }
        Ok(Self { ptr, len })
    }

    /// First byte.
    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range is this region's own mapping; nobody may use it after its owner is gone.
        let _ = unsafe { munmap(self.ptr.as_ptr().cast(), self.len) };
    }
}

fn os(error: rustix::io::Errno) -> HalError {
    HalError::Os(error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_aligned_and_writable() {
        for (len, align) in [(4096, 4096), (8192, 65536), (2 << 20, 2 << 20), (4 << 20, 8 << 20)] {
            let region = Region::new(len, align).unwrap();
            assert_eq!(region.ptr().as_ptr() as usize % align, 0);
            // SAFETY: the region's own memory, `len` bytes long, used by this test alone.
            let bytes = unsafe { std::slice::from_raw_parts_mut(region.ptr().as_ptr(), region.len()) };
            assert!(bytes.len() == len && bytes.iter().all(|b| *b == 0));
            bytes[0] = 1;
            bytes[len - 1] = 1;
        }
    }

    #[test]
    fn memory_that_no_machine_has_is_refused() {
        assert_eq!(Region::new(1 << 62, 4096).unwrap_err(), HalError::OutOfDmaMemory { wanted: 1 << 62 });
        assert_eq!(Region::new(usize::MAX & !4095, 1 << 20).unwrap_err(), HalError::BadRange);
    }
}
