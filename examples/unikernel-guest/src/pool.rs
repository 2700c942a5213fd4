//! Memory in blocks of a power of two, cut one behind the other; what comes back is kept in a list for its size.

use core::ptr::NonNull;

/// A cache line, so that no two owners share one.
const SMALLEST: usize = 64;

/// A pool.
pub struct Pool {
    next: usize,
    end: usize,
    free: [Option<NonNull<Free>>; usize::BITS as usize],
}

struct Free {
    next: Option<NonNull<Free>>,
}

// SAFETY: the blocks belong to the pool, which is reached under a lock only.
unsafe impl Send for Pool {}

impl Pool {
    /// A pool of `len` bytes.
    ///
    /// # Safety
    /// They are nobody else's, for good.
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        let start = start.as_ptr() as usize;
        Self { next: start, end: start + len, free: [None; usize::BITS as usize] }
    }

    /// The address behind all memory of the pool.
    pub fn end(&self) -> u64 {
        self.end as u64
    }

    /// The bytes of the block that is cut for a length and an alignment. A block starts at a multiple of its size.
    pub fn size(len: usize, align: usize) -> Option<usize> {
        len.max(align).max(SMALLEST).checked_next_power_of_two()
    }

    /// A zeroed block of a size.
    pub fn take(&mut self, size: usize) -> Option<NonNull<u8>> {
        let list = &mut self.free[size.trailing_zeros() as usize];
        let block = match *list {
            Some(first) => {
                // SAFETY: written by `give`.
                *list = unsafe { first.read() }.next;
                first.cast()
            }
            None => {
                let start = self.next.checked_next_multiple_of(size)?;
                self.next = start.checked_add(size).filter(|end| *end <= self.end)?;
                NonNull::new(start as *mut u8)?
            }
        };
        // SAFETY: the block is ours to give.
        unsafe { block.write_bytes(0, size) };
        Some(block)
    }

    /// Takes a block back.
    ///
    /// # Safety
    /// It came from `take` with this size, and nobody uses it.
    pub unsafe fn give(&mut self, block: NonNull<u8>, size: usize) {
        let list = &mut self.free[size.trailing_zeros() as usize];
        let block = block.cast();
        // SAFETY: the block is at least as long as a cache line.
        unsafe { block.write(Free { next: *list }) };
        *list = Some(block);
    }
}
