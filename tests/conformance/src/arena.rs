//! Ranges of one memory region, handed out and taken back, with guard bytes between them.

use alloc::{vec, vec::Vec};
use bareverbs::{Error, Memory, MemoryRegion};
use core::{marker::PhantomData, ops::Range};

/// What untouched bytes hold.
const GUARD: u8 = 0xa5;
/// Guard bytes before and behind each range.
const MARGIN: usize = 16;

/// A region and which of its bytes are in use.
pub struct Arena<R, M> {
    region: R,
    /// Ranges in use with their margins, ordered by start.
    used: Vec<Range<usize>>,
    memory: PhantomData<M>,
}

impl<M: Memory, R: MemoryRegion<M>> Arena<R, M> {
    /// Fills the region with guard bytes.
    pub fn new(region: R) -> Result<Self, Error> {
        let chunk = vec![GUARD; 4096];
        for at in (0..region.len()).step_by(chunk.len()) {
            region.write(at, &chunk[..chunk.len().min(region.len() - at)])?;
        }
        Ok(Self { region, used: Vec::new(), memory: PhantomData })
    }

    /// The region.
    pub fn region(&self) -> &R {
        &self.region
    }

    /// A range of `len` bytes whose start is a multiple of `align`, at or behind `hint` if there is room, else
    /// anywhere; `None` if there is no room.
    pub fn take(&mut self, len: usize, align: usize, hint: usize) -> Option<Range<usize>> {
        self.take_from(len, align, hint).or_else(|| self.take_from(len, align, 0))
    }

    fn take_from(&mut self, len: usize, align: usize, from: usize) -> Option<Range<usize>> {
        let mut start = (from + MARGIN).next_multiple_of(align);
        let mut place = 0;
        for used in &self.used {
            if start + len + MARGIN <= used.start {
                break;
            }
            start = start.max((used.end + MARGIN).next_multiple_of(align));
            place += 1;
        }
        let range = start..start + len;
        if range.end + MARGIN > self.region.len() {
            return None;
        }
        self.used.insert(place, range.start - MARGIN..range.end + MARGIN);
        Some(range)
    }

    /// Gives a range back. Its bytes become guard bytes again; fails if the bytes around it were touched.
    pub fn give(&mut self, range: &Range<usize>) -> Result<(), Touched> {
        self.used.retain(|u| u.start != range.start - MARGIN);
        let mut around = [0; MARGIN];
        for at in [range.start - MARGIN, range.end] {
            // The margins lie inside the region: `take` saw to it.
            let read = self.region.read(at, &mut around);
            if let Some(i) = around.iter().position(|b| *b != GUARD).filter(|_| read.is_ok()) {
                return Err(Touched { offset: at + i, found: around[i] });
            }
        }
        let guard = [GUARD; 512];
        for at in range.clone().step_by(guard.len()) {
            let _inside = self.region.write(at, &guard[..guard.len().min(range.end - at)]);
        }
        Ok(())
    }

    /// Whether nothing is handed out and every byte is a guard byte.
    pub fn check_untouched(&self) -> Result<(), Touched> {
        let mut chunk = vec![0; 4096];
        for at in (0..self.region.len()).step_by(4096) {
            let chunk = &mut chunk[..4096.min(self.region.len() - at)];
            let read = self.region.read(at, chunk);
            if let Some(i) = chunk.iter().position(|b| *b != GUARD).filter(|_| read.is_ok()) {
                return Err(Touched { offset: at + i, found: chunk[i] });
            }
        }
        Ok(())
    }

    /// The region back.
    pub fn into_region(self) -> R {
        self.region
    }
}

/// A byte outside every range was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Which byte of the region.
    pub offset: usize,
    /// What it holds now.
    pub found: u8,
}
