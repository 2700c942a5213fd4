//! What the device reaches: a pool of DMA memory and the user's own memory, at device addresses that the IOMMU takes.

use crate::{
    memory::{HUGE_PAGE, Region},
    pool::Pool,
    space::Space,
};
use bareverbs_hal::{DmaBuffer, HalError, MapAccess, Mapping, PAGE_SIZE, Segment};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    ptr::NonNull,
};

/// The IOMMU itself: VFIO's container, or a stand-in of the tests.
pub(crate) trait Iommu {
    /// Pins `len` bytes at `ptr` and lets the device see them at `iova`. All three are multiples of the page size.
    ///
    /// # Safety
    /// The memory is valid until it is unmapped.
    unsafe fn map(&self, iova: u64, len: usize, ptr: *mut u8, access: MapAccess) -> Result<(), HalError>;

    /// Takes back exactly what one `map` did.
    fn unmap(&self, iova: u64, len: usize) -> Result<(), HalError>;
}

/// The device's view of memory.
#[derive(Debug)]
pub(crate) struct Memory {
    iova: Space,
    /// Address bits that the function drives.
    bits: u8,
    /// The first device address above all that were ever handed out.
    top: u64,
    /// Most mappings at a time, and how many there are.
    limit: u32,
    mappings: u32,
    pool: Pool,
    /// The user's memory, by the device address of its first page, which also is a mapping's token.
    users: BTreeMap<u64, User>,
    /// The same by the address of its first page.
    by_start: BTreeSet<(usize, u64)>,
}

/// A range of whole pages of the user's memory.
#[derive(Debug)]
struct User {
    pages: Range<usize>,
    access: MapAccess,
    /// Mappings that lie in it.
    holders: u32,
}

/// How many ranges that start before a new one are looked at to find one that holds it.
const NEIGHBOURS: usize = 8;

impl Memory {
    /// Memory at device addresses out of `windows`, in at most `limit` mappings.
    pub(crate) fn new(windows: Space, limit: u32) -> Self {
        Self {
            iova: windows,
            bits: 64,
            top: 0,
            limit,
            mappings: 0,
            pool: Pool::new(PAGE_SIZE),
            users: BTreeMap::new(),
            by_start: BTreeSet::new(),
        }
    }

    /// See [`bareverbs_hal::Dma::set_dma_bits`].
    pub(crate) fn set_dma_bits(&mut self, bits: u8) -> Result<(), HalError> {
        if bits < 64 && self.top > 1 << bits {
            return Err(HalError::BeyondDmaMask { bits });
        }
        self.bits = bits;
        Ok(())
    }

    /// See [`bareverbs_hal::Dma::dma_alloc`].
    pub(crate) fn alloc(&mut self, iommu: &dyn Iommu, len: usize, align: usize) -> Result<DmaBuffer, HalError> {
        if !align.is_power_of_two() {
            return Err(HalError::Misaligned);
        }
        let len = self.pool.rounded(len).ok_or(HalError::BadRange)?;
        if let Some((ptr, addr)) = self.pool.take(len, align) {
            return Ok(DmaBuffer { ptr, addr, len });
        }
        let (chunk, chunk_align) = Pool::chunk_for(len, align).ok_or(HalError::BadRange)?;
        let memory = Region::new(chunk, chunk_align)?;
        let addr = self.take_iova(chunk as u64, chunk_align as u64)?;
        // SAFETY: the pool owns the region until it is unmapped (in `free`), or as long as the container lives.
        unsafe { self.map_at(iommu, addr..addr + chunk as u64, memory.ptr().as_ptr(), MapAccess::ReadWrite)? };
        self.pool.add(memory, addr, chunk_align);
        let (ptr, addr) = self.pool.take(len, align).ok_or(HalError::OutOfDmaMemory { wanted: len })?;
        Ok(DmaBuffer { ptr, addr, len })
    }

    /// See [`bareverbs_hal::Dma::dma_free`].
    pub(crate) fn free(&mut self, iommu: &dyn Iommu, buffer: DmaBuffer) {
        if let Some(chunk) = self.pool.give(buffer.ptr, buffer.len)
            && !self.unmap_at(iommu, chunk.addr..chunk.addr + chunk.memory.len() as u64)
        {
            // The device may reach it for ever; so nobody else ever gets it.
            std::mem::forget(chunk.memory);
        }
    }

    /// See [`bareverbs_hal::Dma::map`]. A range inside one that is mapped already, for the same access, takes no
    /// mapping of its own; any other overlap has device addresses of its own.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn map(
        &mut self,
        iommu: &dyn Iommu,
        ptr: NonNull<u8>,
        len: usize,
        access: MapAccess,
    ) -> Result<Mapping, HalError> {
        let pages = pages(ptr, len).ok_or(HalError::BadRange)?;
        if let Some(token) = self.holder(&pages, access) {
            return Ok(Mapping { ptr, len, token });
        }
        let bytes = pages.len() as u64;
        let iova = self.take_like(&pages)?;
        // SAFETY: the caller's promise.
        unsafe { self.map_at(iommu, iova..iova + bytes, ptr.as_ptr().wrapping_sub(into_page(ptr)), access)? };
        self.by_start.insert((pages.start, iova));
        self.users.insert(iova, User { pages, access, holders: 1 });
        Ok(Mapping { ptr, len, token: iova })
    }

    /// See [`bareverbs_hal::Dma::segments`].
    pub(crate) fn segment(&self, mapping: &Mapping) -> Option<Segment> {
        let user = self.users.get(&mapping.token)?;
        let pages = pages(mapping.ptr, mapping.len)?;
        let offset = pages.start.checked_sub(user.pages.start)?;
        Some(Segment { addr: mapping.token + offset as u64, len: pages.len() as u64 })
    }

    /// See [`bareverbs_hal::Dma::unmap`].
    pub(crate) fn unmap(&mut self, iommu: &dyn Iommu, mapping: &Mapping) {
        let iova = mapping.token;
        let Some(user) = self.users.get_mut(&iova) else {
            return;
        };
        user.holders -= 1;
        if user.holders == 0 {
            let pages = user.pages.clone();
            self.users.remove(&iova);
            self.by_start.remove(&(pages.start, iova));
            self.unmap_at(iommu, iova..iova + pages.len() as u64);
        }
    }

    /// Counts one more mapping of a range that holds `pages`, and tells its token.
    fn holder(&mut self, pages: &Range<usize>, access: MapAccess) -> Option<u64> {
        let before = self.by_start.range(..=(pages.start, u64::MAX)).rev().take(NEIGHBOURS);
        let holds = |user: &User| user.access == access && pages.end <= user.pages.end && user.holders < u32::MAX;
        let iova = before.map(|(_, iova)| *iova).find(|iova| self.users.get(iova).is_some_and(holds))?;
        self.users.get_mut(&iova)?.holders += 1;
        Some(iova)
    }

    /// Device addresses for pages of the user's. Where a huge page fits in, they are congruent to the CPU's, so that
    /// the IOMMU can use one too.
    fn take_like(&mut self, pages: &Range<usize>) -> Result<u64, HalError> {
        let len = pages.len() as u64;
        if pages.len() < HUGE_PAGE {
            return self.take_iova(len, PAGE_SIZE as u64);
        }
        let front = (pages.start % HUGE_PAGE) as u64;
        let base = self.take_iova(front + len, HUGE_PAGE as u64)?;
        if front > 0 {
            self.iova.give(base..base + front);
        }
        Ok(base + front)
    }

    fn take_iova(&mut self, len: u64, align: u64) -> Result<u64, HalError> {
        let limit = if self.bits < 64 { 1 << self.bits } else { u64::MAX };
        if let Some(addr) = self.iova.take(len, align, limit) {
            return Ok(addr);
        }
        match self.iova.take(len, align, u64::MAX) {
            Some(addr) => {
                self.iova.give(addr..addr + len);
                Err(HalError::BeyondDmaMask { bits: self.bits })
            }
            None => Err(HalError::IommuWindow { addr: len }),
        }
    }

    /// Maps at device addresses that were taken; gives them back if that fails.
    ///
    /// # Safety
    /// The memory is valid until it is unmapped.
    unsafe fn map_at(
        &mut self,
        iommu: &dyn Iommu,
        iova: Range<u64>,
        ptr: *mut u8,
        access: MapAccess,
    ) -> Result<(), HalError> {
        let outcome = if self.mappings >= self.limit {
            Err(HalError::MappingLimit { limit: self.limit })
        } else {
            // SAFETY: the caller's promise.
            unsafe { iommu.map(iova.start, (iova.end - iova.start) as usize, ptr, access) }
        };
        match outcome {
            Ok(()) => {
                self.mappings += 1;
                self.top = self.top.max(iova.end);
            }
            Err(_) => self.iova.give(iova),
        }
        outcome
    }

    /// Unmaps and gives the device addresses back. What the IOMMU refuses to unmap is never used again.
    fn unmap_at(&mut self, iommu: &dyn Iommu, iova: Range<u64>) -> bool {
        let unmapped = iommu.unmap(iova.start, (iova.end - iova.start) as usize).is_ok();
        if unmapped {
            self.mappings -= 1;
            self.iova.give(iova);
        }
        unmapped
    }
}

/// How far into its page an address lies.
fn into_page(ptr: NonNull<u8>) -> usize {
    ptr.as_ptr() as usize % PAGE_SIZE
}

/// The whole pages that `len` bytes lie in; `None` for no bytes and for a range that wraps.
fn pages(ptr: NonNull<u8>, len: usize) -> Option<Range<usize>> {
    let start = ptr.as_ptr() as usize;
    let end = start.checked_add(len)?.checked_next_multiple_of(PAGE_SIZE)?;
    (len > 0).then_some(start - into_page(ptr)..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Keeps what is mapped, and refuses what type 1 of VFIO refuses.
    #[derive(Default)]
    struct Fake(RefCell<BTreeMap<u64, (usize, usize, MapAccess)>>);

    impl Iommu for Fake {
        unsafe fn map(&self, iova: u64, len: usize, ptr: *mut u8, access: MapAccess) -> Result<(), HalError> {
            assert!(len > 0 && [iova as usize, len, ptr as usize].iter().all(|n| n.is_multiple_of(PAGE_SIZE)));
            let mut mapped = self.0.borrow_mut();
            let before = mapped.range(..iova + len as u64).next_back();
            assert!(before.is_none_or(|(at, (len, ..))| at + *len as u64 <= iova), "device addresses used twice");
            mapped.insert(iova, (len, ptr as usize, access));
            Ok(())
        }

        fn unmap(&self, iova: u64, len: usize) -> Result<(), HalError> {
            let mapped = self.0.borrow_mut().remove(&iova);
            assert_eq!(mapped.map(|(len, ..)| len), Some(len), "only whole mappings go");
            Ok(())
        }
    }

    /// Refuses everything.
    struct Full;

    impl Iommu for Full {
        unsafe fn map(&self, _: u64, _: usize, _: *mut u8, _: MapAccess) -> Result<(), HalError> {
            Err(HalError::MemLock { limit: 65536 })
        }

        fn unmap(&self, _: u64, _: usize) -> Result<(), HalError> {
            Err(HalError::Os(22))
        }
    }

    fn memory(limit: u32) -> Memory {
        Memory::new(Space::new([0x1000..0xfee0_0000, 0xfef0_0000..1 << 39]), limit)
    }

    fn at(addr: usize) -> NonNull<u8> {
        NonNull::new(std::ptr::without_provenance_mut(addr)).unwrap()
    }

    fn map(m: &mut Memory, iommu: &dyn Iommu, addr: usize, len: usize) -> Result<Mapping, HalError> {
        // SAFETY: nothing here looks at the memory.
        unsafe { m.map(iommu, at(addr), len, MapAccess::ReadWrite) }
    }

    #[test]
    fn a_segment_covers_the_pages_of_the_first_to_the_last_byte() {
        let (mut m, iommu) = (memory(8), Fake::default());
        let mapping = map(&mut m, &iommu, 0x7000_0fff, 2).unwrap();
        let segment = m.segment(&mapping).unwrap();
        assert_eq!(segment.len, 0x2000);
        assert_eq!(iommu.0.borrow()[&segment.addr], (0x2000, 0x7000_0000, MapAccess::ReadWrite));
        m.unmap(&iommu, &mapping);
        assert!(iommu.0.borrow().is_empty() && m.segment(&mapping).is_none());
    }

    #[test]
    fn a_range_inside_a_mapped_one_is_counted() {
        let (mut m, iommu) = (memory(8), Fake::default());
        let outer = map(&mut m, &iommu, 0x7000_0000, 0x10_0000).unwrap();
        let inner = map(&mut m, &iommu, 0x7000_5010, 0x1000).unwrap();
        assert_eq!(iommu.0.borrow().len(), 1);
        let segment = m.segment(&inner).unwrap();
        assert_eq!((segment.addr - m.segment(&outer).unwrap().addr, segment.len), (0x5000, 0x2000));
        m.unmap(&iommu, &outer);
        assert_eq!(iommu.0.borrow().len(), 1, "the inner one still needs it");
        assert_eq!(m.segment(&inner), Some(segment));
        m.unmap(&iommu, &inner);
        assert!(iommu.0.borrow().is_empty());
    }

    #[test]
    fn other_overlaps_and_other_rights_have_device_addresses_of_their_own() {
        let (mut m, iommu) = (memory(8), Fake::default());
        let first = map(&mut m, &iommu, 0x7000_0000, 0x3000).unwrap();
        let second = map(&mut m, &iommu, 0x7000_2000, 0x3000).unwrap();
        // SAFETY: nothing here looks at the memory.
        let read_only = unsafe { m.map(&iommu, at(0x7000_0000), 0x3000, MapAccess::Read) }.unwrap();
        assert_eq!(iommu.0.borrow().len(), 3);
        m.unmap(&iommu, &first);
        m.unmap(&iommu, &read_only);
        let segment = m.segment(&second).unwrap();
        assert_eq!(iommu.0.borrow()[&segment.addr].1, 0x7000_2000);
    }

    #[test]
    fn large_memory_lies_like_the_cpu_sees_it() {
        let (mut m, iommu) = (memory(8), Fake::default());
        map(&mut m, &iommu, 0x5000, 1).unwrap();
        let large = map(&mut m, &iommu, 0x7012_3000, 8 << 20).unwrap();
        assert_eq!(m.segment(&large).unwrap().addr % HUGE_PAGE as u64, 0x12_3000);
    }

    #[test]
    fn buffers_share_a_chunk_which_goes_with_the_last() {
        let (mut m, iommu) = (memory(8), Fake::default());
        let a = m.alloc(&iommu, 1, 64).unwrap();
        let b = m.alloc(&iommu, 5000, 4096).unwrap();
        assert_eq!((a.len, b.len, iommu.0.borrow().len()), (4096, 8192, 1));
        assert_eq!((a.addr % 64, b.addr % 4096, b.ptr.as_ptr() as usize % 4096), (0, 0, 0));
        let large = m.alloc(&iommu, 3 << 20, 16 << 20).unwrap();
        assert_eq!((large.addr % (16 << 20), large.ptr.as_ptr() as usize % (16 << 20)), (0, 0));
        for buffer in [a, large, b] {
            m.free(&iommu, buffer);
        }
        assert!(iommu.0.borrow().is_empty());
        assert_eq!(m.alloc(&iommu, 0, 1).unwrap_err(), HalError::BadRange);
        assert_eq!(m.alloc(&iommu, 1, 3).unwrap_err(), HalError::Misaligned);
    }

    #[test]
    fn the_limit_on_mappings_is_named() {
        let (mut m, iommu) = (memory(2), Fake::default());
        let first = map(&mut m, &iommu, 0x1000, 1).unwrap();
        map(&mut m, &iommu, 0x8000, 1).unwrap();
        assert_eq!(map(&mut m, &iommu, 0xf000, 1).unwrap_err(), HalError::MappingLimit { limit: 2 });
        assert_eq!(m.alloc(&iommu, 1, 1).unwrap_err(), HalError::MappingLimit { limit: 2 });
        m.unmap(&iommu, &first);
        m.alloc(&iommu, 1, 1).unwrap();
    }

    #[test]
    fn windows_and_address_bits_are_kept() {
        let (mut m, iommu) =
            (Memory::new(Space::new([0x1000..0x3000, 1 << 32..(1 << 32) + 0x2000]), 9), Fake::default());
        m.set_dma_bits(32).unwrap();
        let low = map(&mut m, &iommu, 0x10_0000, 0x2000).unwrap();
        assert_eq!(m.segment(&low).unwrap().addr, 0x1000);
        assert_eq!(map(&mut m, &iommu, 0x20_0000, 1).unwrap_err(), HalError::BeyondDmaMask { bits: 32 });
        m.set_dma_bits(64).unwrap();
        map(&mut m, &iommu, 0x20_0000, 1).unwrap();
        assert_eq!(map(&mut m, &iommu, 0x30_0000, 0x2000).unwrap_err(), HalError::IommuWindow { addr: 0x2000 });
        assert_eq!(m.set_dma_bits(32), Err(HalError::BeyondDmaMask { bits: 32 }));
    }

    #[test]
    fn a_refused_mapping_leaves_nothing_behind() {
        let mut m = memory(8);
        let error = HalError::MemLock { limit: 65536 };
        assert_eq!(map(&mut m, &Full, 0x1000, 1).unwrap_err(), error);
        assert_eq!(m.alloc(&Full, 1, 1).unwrap_err(), error);
        assert!(m.mappings == 0 && m.users.is_empty() && m.by_start.is_empty());
        assert!(m.iova.holds(&(0x1000..0xfee0_0000)));
    }

    #[test]
    fn device_addresses_that_stay_mapped_are_not_used_again() {
        let (mut m, iommu) = (memory(8), Fake::default());
        let mapping = map(&mut m, &iommu, 0x1000, 1).unwrap();
        let addr = m.segment(&mapping).unwrap().addr;
        m.unmap(&Full, &mapping);
        let next = map(&mut m, &iommu, 0x1000, 1).unwrap();
        assert_ne!(m.segment(&next).unwrap().addr, addr);
    }

    #[test]
    fn ranges_that_are_none_are_refused() {
        let (mut m, iommu) = (memory(8), Fake::default());
        for (addr, len) in [(0x1000, 0), (0x1000, usize::MAX), (usize::MAX - 4094, 4000)] {
            assert_eq!(map(&mut m, &iommu, addr, len).unwrap_err(), HalError::BadRange, "{addr:#x} {len:#x}");
        }
    }
}
