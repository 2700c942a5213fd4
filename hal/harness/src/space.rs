//! The addresses that a device can reach, and the copies through them.

use crate::model::DmaFault;
use bareverbs_hal::{MapAccess, Segment};
use std::{
    collections::BTreeMap,
    ptr,
    sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering},
};

/// Memory behind a run of device addresses.
#[derive(Clone, Copy, Debug)]
struct Range {
    len: u64,
    cpu: *mut u8,
    access: MapAccess,
}

/// A page table in effect: device address to CPU address. Ranges do not overlap.
#[derive(Default)]
pub(crate) struct AddressSpace {
    ranges: BTreeMap<u64, Range>,
}

// SAFETY: the pointers name memory that whoever inserted them keeps alive; they are not tied to a thread.
unsafe impl Send for AddressSpace {}

impl AddressSpace {
    /// # Safety
    /// `cpu` is valid for `segment.len` bytes of reads (and writes, if the access says so) until the segment is
    /// removed.
    pub(crate) unsafe fn insert(&mut self, segment: Segment, cpu: *mut u8, access: MapAccess) {
        debug_assert!(self.is_free(segment));
        self.ranges.insert(segment.addr, Range { len: segment.len, cpu, access });
    }

    /// Takes away the range that starts at `addr`. Tells its length.
    pub(crate) fn remove(&mut self, addr: u64) -> Option<u64> {
        self.ranges.remove(&addr).map(|r| r.len)
    }

    /// Whether no address of the segment is mapped.
    pub(crate) fn is_free(&self, segment: Segment) -> bool {
        let end = segment.addr + segment.len;
        self.ranges.range(..end).next_back().is_none_or(|(start, r)| start + r.len <= segment.addr)
    }

    /// The end of the last range that begins below `addr`.
    pub(crate) fn end_below(&self, addr: u64) -> Option<u64> {
        self.ranges.range(..addr).next_back().map(|(start, r)| start + r.len)
    }

    /// The highest address that is mapped.
    pub(crate) fn last(&self) -> Option<u64> {
        self.ranges.last_key_value().map(|(start, r)| start + r.len - 1)
    }

    /// The CPU's address of `addr` and how many bytes lie there in one piece.
    fn piece(&self, addr: u64, write: bool) -> Option<(*mut u8, u64)> {
        let (start, r) = self.ranges.range(..=addr).next_back()?;
        let offset = addr - start;
        (offset < r.len && (!write || r.access == MapAccess::ReadWrite))
            .then(|| (r.cpu.wrapping_add(offset as usize), r.len - offset))
    }

    /// Fails with the first address of the range that is not reachable.
    fn check(&self, addr: u64, len: usize, write: bool) -> Result<(), DmaFault> {
        let (mut at, mut left) = (addr, len as u64);
        while left > 0 {
            let (_, n) = self.piece(at, write).ok_or(DmaFault { addr: at, write })?;
            let n = n.min(left);
            left -= n;
            at = at.wrapping_add(n);
        }
        Ok(())
    }

    /// The CPU's address of `addr`, if all `len` bytes lie there in one piece, as they nearly always do.
    fn whole(&self, addr: u64, len: usize, write: bool) -> Option<*mut u8> {
        self.piece(addr, write).filter(|(_, there)| *there >= len as u64).map(|(p, _)| p)
    }

    /// Reads all bytes or none.
    pub(crate) fn read(&self, addr: u64, data: &mut [u8]) -> Result<(), DmaFault> {
        if let Some(p) = self.whole(addr, data.len(), false) {
            // SAFETY: `whole` gives memory that is mapped for `data.len()` bytes (promise of `insert`).
            unsafe { load(p, data) };
            return Ok(());
        }
        self.check(addr, data.len(), false)?;
        let (mut at, mut data) = (addr, data);
        while !data.is_empty() {
            let (p, n) = self.piece(at, false).ok_or(DmaFault { addr: at, write: false })?;
            let (head, rest) = data.split_at_mut(data.len().min(n as usize));
            // SAFETY: `piece` gives memory that is mapped for at least `head.len()` bytes (promise of `insert`).
            unsafe { load(p, head) };
            at += head.len() as u64;
            data = rest;
        }
        Ok(())
    }

    /// Writes all bytes or none; the last aligned word of up to eight bytes is released after the rest.
    pub(crate) fn write(&self, addr: u64, data: &[u8]) -> Result<(), DmaFault> {
        if let Some(p) = self.whole(addr, data.len(), true) {
            // SAFETY: `whole` gives memory that is mapped for `data.len()` bytes (promise of `insert`).
            unsafe { store(p, data) };
            return Ok(());
        }
        self.check(addr, data.len(), true)?;
        let (mut at, mut data) = (addr, data);
        while !data.is_empty() {
            let (p, n) = self.piece(at, true).ok_or(DmaFault { addr: at, write: true })?;
            let (head, rest) = data.split_at(data.len().min(n as usize));
            // SAFETY: `piece` gives memory that is mapped for at least `head.len()` bytes (promise of `insert`).
            unsafe { store(p, head) };
            at += head.len() as u64;
            data = rest;
        }
        Ok(())
    }
}

/// A naturally aligned word is acquired (doorbell records, owner bits), everything else is copied.
///
/// # Safety
/// `p` is valid for reads of `data.len()` bytes.
unsafe fn load(p: *mut u8, data: &mut [u8]) {
    let aligned = (p as usize).is_multiple_of(data.len().max(1));
    // SAFETY: the caller's promise; each atomic access is aligned and `data.len()` bytes long.
    unsafe {
        match data.len() {
            8 if aligned => {
                data.copy_from_slice(&AtomicU64::from_ptr(p.cast()).load(Ordering::Acquire).to_ne_bytes());
            }
            4 if aligned => {
                data.copy_from_slice(&AtomicU32::from_ptr(p.cast()).load(Ordering::Acquire).to_ne_bytes());
            }
            n => ptr::copy_nonoverlapping(p, data.as_mut_ptr(), n),
        }
    }
}

/// # Safety
/// `p` is valid for writes of `data.len()` bytes.
unsafe fn store(p: *mut u8, data: &[u8]) {
    let end = p as usize + data.len();
    let word = [8, 4, 2, 1].into_iter().find(|w| end.is_multiple_of(*w) && *w <= data.len());
    let Some(word) = word else { return };
    let (bulk, last) = data.split_at(data.len() - word);
    // SAFETY: the caller's promise; `last` begins at a multiple of its length, so the atomic access is aligned.
    unsafe {
        ptr::copy_nonoverlapping(bulk.as_ptr(), p, bulk.len());
        let p = p.add(bulk.len());
        let mut v = [0; 8];
        v[..word].copy_from_slice(last);
        match word {
            8 => AtomicU64::from_ptr(p.cast()).store(u64::from_ne_bytes(v), Ordering::Release),
            4 => AtomicU32::from_ptr(p.cast()).store(u32::from_ne_bytes([v[0], v[1], v[2], v[3]]), Ordering::Release),
            2 => AtomicU16::from_ptr(p.cast()).store(u16::from_ne_bytes([v[0], v[1]]), Ordering::Release),
            _ => AtomicU8::from_ptr(p).store(v[0], Ordering::Release),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Region;

    fn two_pages(access: MapAccess) -> (Region, AddressSpace) {
        let r = Region::zeroed(8192, 1, true).unwrap();
        let mut s = AddressSpace::default();
        // SAFETY: the region outlives the space in every test below. The pages are swapped on purpose.
        unsafe {
            s.insert(Segment { addr: 0x1000, len: 4096 }, r.ptr().wrapping_add(4096), access);
            s.insert(Segment { addr: 0x2000, len: 4096 }, r.ptr(), access);
        }
        (r, s)
    }

    #[test]
    fn every_length_and_offset_comes_back() {
        let (r, s) = two_pages(MapAccess::ReadWrite);
        for offset in 0..17 {
            for len in 0..40 {
                let data: Vec<u8> = (0..len).map(|i| (i * 7 + offset) as u8 | 1).collect();
                let addr = 0x2000 - 20 + offset as u64;
                s.write(addr, &data).unwrap();
                let mut back = vec![0; len];
                s.read(addr, &mut back).unwrap();
                assert_eq!(back, data, "offset {offset} length {len}");
            }
        }
        s.write(0x1ffe, &[1, 2, 3, 4]).unwrap();
        // SAFETY: two bytes of the test's own region each.
        let (a, b) = unsafe { (r.ptr().add(8190).cast::<[u8; 2]>().read(), r.ptr().cast::<[u8; 2]>().read()) };
        assert_eq!((a, b), ([1, 2], [3, 4]), "device page 1 is the second CPU page");
    }

    #[test]
    fn a_write_beyond_the_end_changes_nothing_and_names_the_first_bad_address() {
        let (_r, s) = two_pages(MapAccess::ReadWrite);
        assert_eq!(s.write(0x2ffe, &[9; 4]), Err(DmaFault { addr: 0x3000, write: true }));
        let mut b = [7; 2];
        s.read(0x2ffe, &mut b).unwrap();
        assert_eq!(b, [0; 2]);
        assert_eq!(s.read(0xfff, &mut b), Err(DmaFault { addr: 0xfff, write: false }));
        assert_eq!(s.read(u64::MAX, &mut b), Err(DmaFault { addr: u64::MAX, write: false }));
    }

    #[test]
    fn read_only_memory_cannot_be_written() {
        let (_r, s) = two_pages(MapAccess::Read);
        assert_eq!(s.write(0x1000, &[1]), Err(DmaFault { addr: 0x1000, write: true }));
        s.read(0x1000, &mut [0; 8]).unwrap();
    }
}
