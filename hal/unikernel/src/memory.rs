//! Memory: what of the machine's RAM is ours, and the pool that state and DMA memory come from.
//!
//! The pool is one list of free blocks in the order of their addresses, kept in the blocks themselves. Whoever frees
//! says how long the block was, so nothing is stored beside it: page-aligned pages cost exactly a page each. Blocks
//! are cut from the highest memory that a caller can use, which leaves low memory to devices that reach no other.

use core::ptr::NonNull;
use spin::Mutex;

/// Sizes and addresses are multiples of it: a cache line, so that no two owners share one.
pub const GRANULE: usize = 64;

/// Physical addresses from `start` up to, but not with, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
}

impl Range {
    /// A range of `len` bytes.
    pub const fn new(start: u64, len: u64) -> Self {
        Self { start, end: start.saturating_add(len) }
    }

    /// Whether all of `other` lies inside.
    pub const fn contains(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// Calls `each` with the parts of `whole` that none of `cuts` covers, from low to high.
pub fn without(whole: Range, cuts: &[Range], each: &mut dyn FnMut(Range)) {
    let mut at = whole.start;
    while at < whole.end {
        let next = cuts.iter().filter(|c| c.end > at && c.start < whole.end && c.start < c.end).min_by_key(|c| c.start);
        let end = next.map_or(whole.end, |c| c.start);
        if at < end {
            each(Range { start: at, end });
        }
        at = next.map_or(whole.end, |c| c.end);
    }
}

/// Free memory. Addresses are those of the CPU, which an identity mapping makes the device's too.
pub struct Pool(Mutex<List>);

struct List {
    first: Option<NonNull<Block>>,
    free: u64,
}

/// Stands at the start of each free block.
struct Block {
    len: usize,
    next: Option<NonNull<Block>>,
}

// SAFETY: the blocks belong to the list, which is only reached under its lock.
unsafe impl Send for List {}

const _: () = assert!(size_of::<Block>() <= GRANULE);

/// Where a block is to be cut: behind `prev`, from `start`.
struct Cut {
    prev: Option<NonNull<Block>>,
    block: NonNull<Block>,
    start: usize,
}

impl Pool {
    /// A pool with nothing in it.
    pub const fn new() -> Self {
        Self(Mutex::new(List { first: None, free: 0 }))
    }

    /// Adds memory.
    ///
    /// # Safety
    /// The memory is mapped, writable, and nobody else's for as long as the pool lives.
    pub unsafe fn add(&self, range: Range) {
        let start = range.start.next_multiple_of(GRANULE as u64) as usize;
        let end = range.end as usize & !(GRANULE - 1);
        if let Some(ptr) = NonNull::new(start as *mut u8).filter(|_| start < end) {
            // SAFETY: the caller's promise; the range was shrunk to whole granules.
            unsafe { self.0.lock().insert(ptr.cast(), end - start) };
        }
    }

    /// Bytes that are free.
    pub fn free_bytes(&self) -> u64 {
        self.0.lock().free
    }

    /// Zeroed memory of at least `len` bytes, aligned to `align` (a power of two) and all below the address `below`.
    pub fn take(&self, len: usize, align: usize, below: u64) -> Option<NonNull<u8>> {
        let len = len.checked_next_multiple_of(GRANULE).filter(|len| *len > 0)?;
        let ptr = self.0.lock().take(len, align.max(GRANULE), usize::try_from(below).unwrap_or(usize::MAX))?;
        // SAFETY: the list gave `len` bytes that are ours now.
        unsafe { ptr.write_bytes(0, len) };
        Some(ptr)
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// `ptr` came from [`take`](Self::take) of this pool with this `len`, and is not used any more.
    pub unsafe fn give(&self, ptr: NonNull<u8>, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.lock().insert(ptr.cast(), len.next_multiple_of(GRANULE)) };
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

fn start_of(block: NonNull<Block>) -> usize {
    block.as_ptr() as usize
}

impl List {
    /// The block before an address, and the one after it.
    fn around(&self, address: usize) -> (Option<NonNull<Block>>, Option<NonNull<Block>>) {
        let (mut prev, mut next) = (None, self.first);
        while let Some(block) = next.filter(|b| start_of(*b) < address) {
            prev = next;
            // SAFETY: blocks in the list are valid.
            next = unsafe { block.as_ref() }.next;
        }
        (prev, next)
    }

    fn link(&mut self, prev: Option<NonNull<Block>>, next: Option<NonNull<Block>>) {
        match prev {
            None => self.first = next,
            // SAFETY: blocks in the list are valid, and ours under the lock.
            Some(mut prev) => unsafe { prev.as_mut() }.next = next,
        }
    }

    /// Puts a block into its place and joins it with its neighbours.
    ///
    /// # Safety
    /// The memory is valid for writes, whole granules, and in no other block.
    unsafe fn insert(&mut self, block: NonNull<Block>, len: usize) {
        self.free += len as u64;
        let (prev, next) = self.around(start_of(block));
        let (mut len, mut after) = (len, next);
        // SAFETY: blocks in the list are valid.
        if let Some(next) = next.filter(|n| start_of(block) + len == start_of(*n)).map(|n| unsafe { n.as_ref() }) {
            len += next.len;
            after = next.next;
        }
        // SAFETY: blocks in the list are valid.
        let joins = |p: &NonNull<Block>| start_of(*p) + unsafe { p.as_ref() }.len == start_of(block);
        if let Some(mut prev) = prev.filter(joins) {
            // SAFETY: blocks in the list are valid, and ours under the lock.
            let prev = unsafe { prev.as_mut() };
            prev.len += len;
            prev.next = after;
        } else {
            // SAFETY: the caller's promise; a granule holds a block.
            unsafe { block.write(Block { len, next: after }) };
            self.link(prev, Some(block));
        }
    }

    fn take(&mut self, len: usize, align: usize, below: usize) -> Option<NonNull<u8>> {
        let Cut { prev, block, start } = self.find(len, align, below)?;
        // SAFETY: blocks in the list are valid, and ours under the lock.
        let (begin, end, next) =
            unsafe { (start_of(block), start_of(block) + block.as_ref().len, block.as_ref().next) };
        self.link(prev, next);
        self.free -= (end - begin) as u64;
        for (start, end) in [(begin, start), (start + len, end)] {
            if let Some(rest) = NonNull::new(start as *mut Block).filter(|_| start < end) {
                // SAFETY: what is left of the block was ours before; granules stay whole.
                unsafe { self.insert(rest, end - start) };
            }
        }
        NonNull::new(start as *mut u8)
    }

    /// The highest place for so many bytes.
    fn find(&self, len: usize, align: usize, below: usize) -> Option<Cut> {
        let (mut prev, mut next, mut found) = (None, self.first, None);
        while let Some(block) = next {
            // SAFETY: blocks in the list are valid.
            let (begin, b) = (start_of(block), unsafe { block.as_ref() });
            if begin >= below {
                break;
            }
            let end = (begin + b.len).min(below);
            if let Some(start) = end.checked_sub(len).map(|start| start & !(align - 1)).filter(|start| *start >= begin)
            {
                found = Some(Cut { prev, block, start });
            }
            prev = next;
            next = b.next;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{vec, vec::Vec};

    #[test]
    fn cuts_leave_the_rest() {
        let r = |start, end| Range { start, end };
        let cuts = [r(50, 60), r(0, 10), r(55, 70), r(95, 200), r(20, 20)];
        let mut parts = Vec::new();
        without(r(5, 100), &cuts, &mut |part| parts.push(part));
        assert_eq!(parts, [r(10, 50), r(70, 95)]);
    }

    /// A pool over memory of the test.
    struct Area {
        pool: Pool,
        memory: Vec<u64>,
    }

    impl Area {
        fn new(bytes: usize) -> Self {
            let area = Self { pool: Pool::new(), memory: vec![!0; bytes / 8] };
            // SAFETY: the vector is not used but through the pool, and lives as long.
            unsafe { area.pool.add(area.range()) };
            area
        }

        fn range(&self) -> Range {
            Range::new(self.memory.as_ptr() as u64, self.memory.len() as u64 * 8)
        }
    }

    #[test]
    fn memory_is_zeroed_aligned_disjoint_and_comes_back_whole() {
        const SEED: u64 = 0x5eed_0001;
        let area = Area::new(1 << 20);
        let whole = area.pool.free_bytes();
        let (mut random, mut live) = (SEED, Vec::<(NonNull<u8>, usize)>::new());
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) % below
        };
        for _ in 0..20_000 {
            if draw(2) == 0 {
                let (len, align) = (1 + draw(9000) as usize, 1 << draw(13));
                let Some(ptr) = area.pool.take(len, align, u64::MAX) else { continue };
                let start = ptr.as_ptr() as usize;
                assert_eq!(start % align, 0, "seed {SEED:#x}");
                assert!(area.range().contains(&Range::new(start as u64, len as u64)), "seed {SEED:#x}");
                let apart = |(p, n): &(NonNull<u8>, usize)| {
                    start + len <= p.as_ptr() as usize || p.as_ptr() as usize + n <= start
                };
                assert!(live.iter().all(apart), "seed {SEED:#x}");
                // SAFETY: the pool gave `len` bytes.
                let bytes = unsafe { core::slice::from_raw_parts_mut(ptr.as_ptr(), len) };
                assert!(bytes.iter().all(|b| *b == 0), "seed {SEED:#x}");
                bytes.fill(0xa5);
                live.push((ptr, len));
            } else if !live.is_empty() {
                let (ptr, len) = live.swap_remove(draw(live.len() as u64) as usize);
                // SAFETY: it came from this pool with this length.
                unsafe { area.pool.give(ptr, len) };
            }
        }
        for (ptr, len) in live {
            // SAFETY: it came from this pool with this length.
            unsafe { area.pool.give(ptr, len) };
        }
        assert_eq!(area.pool.free_bytes(), whole);
        assert!(area.pool.take(whole as usize, 1, u64::MAX).is_some(), "all blocks were joined again");
        assert_eq!(area.pool.take(1, 1, u64::MAX), None);
    }

    #[test]
    fn memory_comes_from_the_top_but_below_the_limit() {
        let area = Area::new(1 << 16);
        let Range { start, end } = area.range();
        let high = area.pool.take(4096, 1, u64::MAX).unwrap().as_ptr() as u64;
        assert!(high + 4096 + GRANULE as u64 > end);
        let low = area.pool.take(4096, 1, start + 8192).unwrap().as_ptr() as u64;
        assert!(low + 4096 <= start + 8192);
        assert_eq!(area.pool.take(4096, 1, start), None);
        assert_eq!(area.pool.take(0, 1, u64::MAX), None);
        assert_eq!(area.pool.take(usize::MAX, 1, u64::MAX), None);
    }
}
