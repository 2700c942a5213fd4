//! Firmware's pages: memory that the device works in, given and taken back by MANAGE_PAGES.
//!
//! The ledger cuts 4 KiB pages from large chunks (a platform's number of mappings is limited) and knows of each whether
//! the device has it. A chunk that the device has nothing of goes back to the platform.

use crate::error::platform;
use bareverbs::Error;
use bareverbs_hal::{Dma, DmaBuffer, HalError, PAGE_SIZE};
use core::{alloc::Layout, ptr::NonNull};

/// Pages of a chunk, at most.
const CHUNK: usize = 512;

struct Chunk {
    buffer: DmaBuffer,
    pages: usize,
    /// A bit a page: the device has it.
    given: [u64; CHUNK / 64],
    next: Option<NonNull<Chunk>>,
}

impl Chunk {
    fn given(&self) -> u32 {
        self.given.iter().map(|w| w.count_ones()).sum()
    }

    /// Marks a free page as given.
    fn take_free(&mut self) -> Option<u64> {
        let (n, word) = self.given.iter_mut().enumerate().find(|(_, word)| **word != u64::MAX)?;
        let bit = word.trailing_ones() as usize;
        let page = n * 64 + bit;
        if page >= self.pages {
            return None;
        }
        *word |= 1 << bit;
        Some(self.buffer.addr + (page * PAGE_SIZE) as u64)
    }

    /// Marks a page as free again. Whether it was given.
    fn put_back(&mut self, addr: u64) -> bool {
        let Some(offset) = addr.checked_sub(self.buffer.addr) else { return false };
        let page = offset / PAGE_SIZE as u64;
        if !offset.is_multiple_of(PAGE_SIZE as u64) || page >= self.pages as u64 {
            return false;
        }
        let (page, bit) = (page as usize, 1 << (page % 64));
        match self.given.get_mut(page / 64) {
            Some(word) if *word & bit != 0 => {
                *word &= !bit;
                true
            }
            _ => false,
        }
    }
}

/// Which pages the device has.
#[derive(Default)]
pub(crate) struct Ledger {
    first: Option<NonNull<Chunk>>,
    given: u32,
}

// SAFETY: the chunks are owned by the ledger alone.
unsafe impl Send for Ledger {}

impl Ledger {
    /// Pages that the device has.
    pub(crate) fn given(&self) -> u32 {
        self.given
    }

    /// Marks one page as given and tells its address; `left` more are wanted, itself included.
    pub(crate) fn take<H: Dma>(&mut self, hal: &H, left: usize) -> Result<u64, Error> {
        let mut at = self.first;
        while let Some(mut chunk) = at {
            // SAFETY: chunks of the list are alive, and reached through an exclusive borrow.
            let chunk = unsafe { chunk.as_mut() };
            if let Some(addr) = chunk.take_free() {
                self.given += 1;
                return Ok(addr);
            }
            at = chunk.next;
        }
        self.grow(hal, left.clamp(1, CHUNK))?;
        // The new chunk stands first and is all free.
        self.take(hal, left)
    }

    /// Gets a chunk; a smaller one where memory is short.
    fn grow<H: Dma>(&mut self, hal: &H, wanted: usize) -> Result<(), Error> {
        let mut pages = wanted;
        let buffer = loop {
            match hal.dma_alloc(pages * PAGE_SIZE, PAGE_SIZE) {
                Ok(buffer) => break buffer,
                Err(HalError::OutOfDmaMemory { .. }) if pages > 1 => pages = pages.div_ceil(2),
                Err(e) => return Err(platform(e)),
            }
        };
        let memory = match hal.state_alloc(Layout::new::<Chunk>()) {
            Ok(memory) => memory.cast::<Chunk>(),
            Err(e) => {
                // SAFETY: the device was not told of it.
                unsafe { hal.dma_free(buffer) };
                return Err(platform(e));
            }
        };
        // SAFETY: memory of this layout, unused by anybody else.
        unsafe { memory.write(Chunk { buffer, pages, given: [0; CHUNK / 64], next: self.first }) };
        self.first = Some(memory);
        Ok(())
    }

    /// Marks a page as free again. Whether it was one that the device had.
    pub(crate) fn put_back(&mut self, addr: u64) -> bool {
        let mut at = self.first;
        while let Some(mut chunk) = at {
            // SAFETY: chunks of the list are alive, and reached through an exclusive borrow.
            let chunk = unsafe { chunk.as_mut() };
            if chunk.put_back(addr) {
                self.given -= 1;
                return true;
            }
            at = chunk.next;
        }
        false
    }

    /// Gives chunks that the device has nothing of back to the platform.
    pub(crate) fn trim<H: Dma>(&mut self, hal: &H) {
        self.retain(hal, |chunk| chunk.given() > 0);
    }

    /// Gives everything back to the platform.
    ///
    /// # Safety
    /// The function was stopped: it uses none of the pages any more.
    pub(crate) unsafe fn free<H: Dma>(&mut self, hal: &H) {
        self.retain(hal, |_| false);
        self.given = 0;
    }

    fn retain<H: Dma>(&mut self, hal: &H, keep: impl Fn(&Chunk) -> bool) {
        let mut kept = None;
        let mut at = self.first;
        while let Some(mut node) = at {
            // SAFETY: chunks of the list are alive, and reached through an exclusive borrow.
            let chunk = unsafe { node.as_mut() };
            at = chunk.next;
            if keep(chunk) {
                chunk.next = kept;
                kept = Some(node);
            } else {
                // SAFETY: the node is not linked any more; its memory came from `grow`. The device has none of its
                // pages (`trim`), or was stopped (`free`).
                unsafe {
                    let chunk = node.read();
                    hal.state_free(node.cast(), Layout::new::<Chunk>());
                    hal.dma_free(chunk.buffer);
                }
            }
        }
        self.first = kept;
    }
}
