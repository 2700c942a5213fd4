//! A pool of memory, cut out of large chunks.

use crate::{
    memory::{HUGE_PAGE, Region},
    space::Space,
};
use std::{ops::Range, ptr::NonNull};

/// A piece of contiguous memory in a pool.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) memory: Region,
    /// Where the device sees it; 0 in a pool that no device sees.
    pub(crate) addr: u64,
    /// What `memory` and `addr` are multiples of.
    align: usize,
    free: Space,
}

/// How large a chunk is at least.
const CHUNK: usize = HUGE_PAGE;

/// Chunks, and what is free in each.
#[derive(Debug)]
pub(crate) struct Pool {
    chunks: Vec<Chunk>,
    /// What lengths are rounded up to.
    granule: usize,
}

impl Pool {
    /// An empty pool whose lengths are multiples of `granule`, a power of two.
    pub(crate) fn new(granule: usize) -> Self {
        Self { chunks: Vec::new(), granule }
    }

    /// What an allocation of `len` bytes takes, or `None` if that is nothing or does not fit.
    pub(crate) fn rounded(&self, len: usize) -> Option<usize> {
        (len > 0).then(|| len.checked_next_multiple_of(self.granule)).flatten()
    }

    /// The length and alignment of the chunk that an allocation of `len` bytes needs when nothing is free.
    pub(crate) fn chunk_for(len: usize, align: usize) -> Option<(usize, usize)> {
        Some((len.checked_next_multiple_of(CHUNK)?, align.max(CHUNK)))
    }

    /// Adds memory that starts at a multiple of `align`, for the device too.
    pub(crate) fn add(&mut self, memory: Region, addr: u64, align: usize) {
        let free = Space::new(Some(0..memory.len() as u64));
        self.chunks.push(Chunk { memory, addr, align, free });
    }

    /// Takes `len` bytes (as [`rounded`](Self::rounded)), zeroed, and tells where the CPU and the device see them.
    pub(crate) fn take(&mut self, len: usize, align: usize) -> Option<(NonNull<u8>, u64)> {
        let mut fitting = self.chunks.iter_mut().filter(|chunk| chunk.align >= align);
        let (chunk, offset) = fitting.find_map(|chunk| {
            let offset = chunk.free.take(len as u64, align.max(1) as u64, u64::MAX)?;
            Some((chunk, offset))
        })?;
        // SAFETY: the offset comes out of the chunk's own free ranges, so it lies inside its memory.
        let ptr = unsafe { chunk.memory.ptr().add(offset as usize) };
        // SAFETY: `len` bytes from there were free: nobody else uses them.
        unsafe { ptr.write_bytes(0, len) };
        Some((ptr, chunk.addr + offset))
    }

    /// Gives `len` bytes back, and hands the chunk out if nothing in it is used any more.
    pub(crate) fn give(&mut self, ptr: NonNull<u8>, len: usize) -> Option<Chunk> {
        let at = ptr.as_ptr() as usize;
        let i = self.chunks.iter().position(|chunk| addresses(&chunk.memory).contains(&at))?;
        let chunk = &mut self.chunks[i];
        let offset = (at - chunk.memory.ptr().as_ptr() as usize) as u64;
        chunk.free.give(offset..offset + len as u64);
        let all = 0..chunk.memory.len() as u64;
        chunk.free.holds(&all).then(|| self.chunks.swap_remove(i))
    }
}

fn addresses(memory: &Region) -> Range<usize> {
    let start = memory.ptr().as_ptr() as usize;
    start..start + memory.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Pool {
        let mut pool = Pool::new(4096);
        pool.add(Region::new(CHUNK, CHUNK).unwrap(), 0x4000_0000, CHUNK);
        pool
    }

    #[test]
    fn both_addresses_are_aligned_and_advance_together() {
        let mut pool = pool();
        let (p0, a0) = pool.take(4096, 64).unwrap();
        let (p1, a1) = pool.take(8192, 65536).unwrap();
        assert_eq!((a0, a1), (0x4000_0000, 0x4001_0000));
        assert_eq!(p1.as_ptr() as usize - p0.as_ptr() as usize, 0x1_0000);
        assert!(pool.take(4096, 2 * CHUNK).is_none(), "no chunk is aligned so far");
        assert!(pool.take(CHUNK, 1).is_none(), "not so much is left");
    }

    #[test]
    fn memory_comes_zeroed_again_and_an_unused_chunk_goes() {
        let mut pool = pool();
        let (p, _) = pool.take(4096, 1).unwrap();
        // SAFETY: the pool's memory, used by this test alone.
        unsafe { p.write_bytes(0xff, 4096) };
        let (other, _) = pool.take(4096, 1).unwrap();
        assert!(pool.give(p, 4096).is_none(), "the chunk is still used");
        let (again, _) = pool.take(4096, 1).unwrap();
        assert_eq!(again, p);
        // SAFETY: as above.
        assert!(unsafe { std::slice::from_raw_parts(again.as_ptr(), 4096) }.iter().all(|b| *b == 0));
        assert!(pool.give(other, 4096).is_none());
        assert_eq!(pool.give(again, 4096).unwrap().addr, 0x4000_0000);
        assert!(pool.take(1, 1).is_none());
    }

    #[test]
    fn lengths_are_rounded_and_nonsense_is_none() {
        let pool = pool();
        assert_eq!((pool.rounded(1), pool.rounded(4096), pool.rounded(4097)), (Some(4096), Some(4096), Some(8192)));
        assert_eq!((pool.rounded(0), pool.rounded(usize::MAX)), (None, None));
        assert_eq!(Pool::chunk_for(CHUNK + 1, 8 * CHUNK), Some((2 * CHUNK, 8 * CHUNK)));
        assert_eq!(Pool::chunk_for(usize::MAX, 1), None);
    }
}
