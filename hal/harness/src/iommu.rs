//! A function's memory: DMA buffers, the user's mappings and host-only memory, behind an IOMMU.
//!
//! Device addresses never equal CPU addresses, are not used twice before the window is exhausted, and have unmapped
//! gaps between them, so that a driver that mixes the two up, forgets an unmap or runs over an end meets a fault.

use crate::{memory::Region, space::AddressSpace};
use bareverbs_hal::{DmaBuffer, HalError, MapAccess, Mapping, PAGE_SIZE, Segment};
use oorandom::Rand64;
use std::{
    alloc::{self, Layout},
    collections::HashMap,
    ops::Range,
    ptr::NonNull,
    sync::Arc,
};

const PAGE: u64 = PAGE_SIZE as u64;

/// More buffers than this have no faulting pages around them: the kernel limits the number of its mappings.
const GUARDED_BUFFERS: usize = 8192;

/// What the IOMMU allows.
#[derive(Clone, Debug)]
pub struct IommuConfig {
    /// Device addresses that may be handed out. The default ends at 2^39, the width of QEMU's and of small Intel
    /// IOMMUs. Addresses below 4 GiB are used only where nothing else is left or the driver's mask asks for them.
    pub window: Range<u64>,
    /// Most user mappings at a time. VFIO's default is 65,535. A user mapping counts once, however scattered; DMA
    /// buffers come from a pool and do not count.
    pub mapping_limit: u32,
    /// Most bytes of user memory and DMA buffers at a time, as `RLIMIT_MEMLOCK` limits them.
    pub memlock: u64,
    /// Whether user memory lies in short runs of device addresses in no order (as physical memory does), or in one.
    pub scatter: bool,
}

impl Default for IommuConfig {
    fn default() -> Self {
        Self { window: 1 << 20..1 << 39, mapping_limit: 65_535, memlock: u64::MAX, scatter: true }
    }
}

/// The DMA and host memory of one function.
pub(crate) struct Iommu {
    pub(crate) space: AddressSpace,
    config: IommuConfig,
    /// A stream of its own: how many pages the user's memory lies in must not change the rest of the run.
    rng: Rand64,
    /// Where the next range is looked for.
    next: u64,
    dma_bits: u8,
    buffers: HashMap<usize, Buffer>,
    mappings: HashMap<u64, UserMapping>,
    next_token: u64,
    state: HashMap<usize, Layout>,
    locked: u64,
    fail_in: Option<u64>,
    pub(crate) dma_outstanding: usize,
    pub(crate) state_outstanding: usize,
}

struct Buffer {
    memory: Region,
    addr: u64,
}

struct UserMapping {
    segments: Arc<[Segment]>,
    bytes: u64,
}

impl Iommu {
    pub(crate) fn new(config: IommuConfig, seed: u64) -> Self {
        let mut rng = Rand64::new(seed.into());
        let Range { start, end } = config.window;
        // No run knows its addresses beforehand, and none of them fits 32 bits.
        let low = if end > 8 << 30 { start.max(4 << 30) } else { start };
        let next = low + rng.rand_range(0..((end - low) / 4).max(PAGE)) / PAGE * PAGE;
        Self {
            space: AddressSpace::default(),
            config,
            rng,
            next,
            dma_bits: 64,
            buffers: HashMap::new(),
            mappings: HashMap::new(),
            next_token: 1,
            state: HashMap::new(),
            locked: 0,
            fail_in: None,
            dma_outstanding: 0,
            state_outstanding: 0,
        }
    }

    /// Lets the n-th allocation or mapping from now on fail; `None` takes it back.
    pub(crate) fn fail_allocation(&mut self, n: Option<u64>) {
        self.fail_in = n;
    }

    pub(crate) fn failure_pending(&self) -> bool {
        self.fail_in.is_some()
    }

    pub(crate) fn mappings_outstanding(&self) -> usize {
        self.mappings.len()
    }

    fn fails_now(&mut self) -> bool {
        self.fail_in = self.fail_in.map(|n| n.saturating_sub(1));
        self.fail_in.take_if(|n| *n == 0).is_some()
    }

    /// A free run of device addresses behind a gap, searched from the last one on, once around the window.
    fn find_addresses(&mut self, len: u64, align: u64) -> Result<u64, HalError> {
        let Range { start, end } = self.config.window;
        let end = if self.dma_bits < 64 { end.min(1 << self.dma_bits) } else { end };
        let gap = PAGE * (1 + self.rng.rand_range(0..8));
        let mut at = self.next + gap;
        let mut wrapped = false;
        loop {
            at = at.next_multiple_of(align.max(PAGE));
            if len > end.saturating_sub(at) {
                if wrapped || start >= end {
                    return Err(if end < self.config.window.end {
                        HalError::BeyondDmaMask { bits: self.dma_bits }
                    } else {
                        HalError::IommuWindow { addr: len }
                    });
                }
                wrapped = true;
                at = start;
                continue;
            }
            // One page more on each side, so that ranges never touch.
            let low = at.saturating_sub(PAGE);
            if self.space.is_free(Segment { addr: low, len: at - low + len + PAGE }) {
                self.next = at + len;
                return Ok(at);
            }
            at = self.space.end_below(at + len + PAGE).unwrap_or(at) + PAGE;
        }
    }

    fn lock_bytes(&mut self, bytes: u64) -> Result<(), HalError> {
        let limit = self.config.memlock;
        let locked = self.locked.checked_add(bytes).filter(|l| *l <= limit).ok_or(HalError::MemLock { limit })?;
        self.locked = locked;
        Ok(())
    }

    pub(crate) fn dma_alloc(&mut self, len: usize, align: usize) -> Result<DmaBuffer, HalError> {
        if len == 0 {
            return Err(HalError::BadRange);
        }
        if !align.is_power_of_two() {
            return Err(HalError::Misaligned);
        }
        if self.fails_now() {
            return Err(HalError::OutOfDmaMemory { wanted: len });
        }
        let bytes = len.checked_next_multiple_of(PAGE_SIZE).ok_or(HalError::BadRange)?;
        let addr = self.find_addresses(bytes as u64, align as u64)?;
        let memory = Region::zeroed(bytes, align, self.buffers.len() < GUARDED_BUFFERS)?;
        self.lock_bytes(bytes as u64)?;
        let ptr = NonNull::new(memory.ptr()).ok_or(HalError::OutOfDmaMemory { wanted: len })?;
        // SAFETY: the buffer's own memory, which lives until `dma_free` has removed the range.
        unsafe { self.space.insert(Segment { addr, len: bytes as u64 }, memory.ptr(), MapAccess::ReadWrite) };
        self.dma_outstanding += bytes;
        self.buffers.insert(ptr.as_ptr() as usize, Buffer { memory, addr });
        Ok(DmaBuffer { ptr, addr, len: bytes })
    }

    /// Frees a buffer, or says what is wrong with it.
    pub(crate) fn dma_free(&mut self, buffer: &DmaBuffer) -> Result<(), String> {
        let known = self.buffers.get(&(buffer.ptr.as_ptr() as usize));
        if known.is_none_or(|b| b.addr != buffer.addr || b.memory.len() != buffer.len) {
            return Err(format!("a DMA buffer was freed that was never handed out, or twice: {buffer:x?}"));
        }
        self.buffers.remove(&(buffer.ptr.as_ptr() as usize));
        self.space.remove(buffer.addr);
        self.locked -= buffer.len as u64;
        self.dma_outstanding -= buffer.len;
        Ok(())
    }

    /// # Safety
    /// As [`bareverbs_hal::Dma::map`].
    pub(crate) unsafe fn map(&mut self, ptr: NonNull<u8>, len: usize, access: MapAccess) -> Result<Mapping, HalError> {
        let first = ptr.as_ptr() as usize / PAGE_SIZE * PAGE_SIZE;
        let end = (ptr.as_ptr() as usize).checked_add(len).and_then(|e| e.checked_next_multiple_of(PAGE_SIZE));
        let bytes = end.filter(|_| len > 0).ok_or(HalError::BadRange)? - first;
        if self.fails_now() {
            return Err(HalError::MemLock { limit: self.locked });
        }
        if self.mappings.len() >= self.config.mapping_limit as usize {
            return Err(HalError::MappingLimit { limit: self.config.mapping_limit });
        }
        let segments = self.lay_out(bytes as u64)?;
        self.lock_bytes(bytes as u64)?;
        let mut cpu = ptr.as_ptr().wrapping_sub(ptr.as_ptr() as usize - first);
        for s in segments.iter() {
            // SAFETY: the caller's promise, until `unmap` has removed the range. The rest of the first and the last
            // page belongs to the same pages, so it is mapped memory too.
            unsafe { self.space.insert(*s, cpu, access) };
            cpu = cpu.wrapping_add(s.len as usize);
        }
        let token = self.next_token;
        self.next_token += 1;
        self.mappings.insert(token, UserMapping { segments, bytes: bytes as u64 });
        Ok(Mapping { ptr, len, token })
    }

    /// Device addresses for a mapping: one run, or runs of one to four pages in no order with a gap behind each.
    fn lay_out(&mut self, bytes: u64) -> Result<Arc<[Segment]>, HalError> {
        if !self.config.scatter {
            return Ok([Segment { addr: self.find_addresses(bytes, PAGE)?, len: bytes }].into());
        }
        let mut runs = Vec::new();
        let mut left = bytes / PAGE;
        while left > 0 {
            let n = (1 + self.rng.rand_range(0..4)).min(left);
            runs.push(Segment { addr: 0, len: n * PAGE });
            left -= n;
        }
        let mut at = self.find_addresses(bytes + runs.len() as u64 * PAGE, PAGE)?;
        let mut order: Vec<usize> = (0..runs.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.rng.rand_range(0..i as u64 + 1) as usize);
        }
        for i in order {
            runs[i].addr = at;
            at += runs[i].len + PAGE;
        }
        Ok(runs.into())
    }

    pub(crate) fn segments(&self, mapping: &Mapping) -> Option<Arc<[Segment]>> {
        self.mappings.get(&mapping.token).map(|m| m.segments.clone())
    }

    /// Takes a mapping away, or says what is wrong with it.
    pub(crate) fn unmap(&mut self, mapping: &Mapping) -> Result<(), String> {
        let Some(m) = self.mappings.remove(&mapping.token) else {
            return Err(format!("memory was unmapped that was not mapped, or twice: {mapping:x?}"));
        };
        for s in m.segments.iter() {
            self.space.remove(s.addr);
        }
        self.locked -= m.bytes;
        Ok(())
    }

    pub(crate) fn set_dma_bits(&mut self, bits: u8) -> Result<(), HalError> {
        if bits < 64 && self.space.last().is_some_and(|a| a >> bits != 0) {
            return Err(HalError::BeyondDmaMask { bits });
        }
        self.dma_bits = bits;
        Ok(())
    }

    pub(crate) fn state_alloc(&mut self, layout: Layout) -> Result<NonNull<u8>, HalError> {
        if layout.size() == 0 {
            return Err(HalError::BadRange);
        }
        let refused = HalError::OutOfStateMemory { wanted: layout.size() };
        if self.fails_now() {
            return Err(refused);
        }
        // SAFETY: the layout's size is not zero.
        let p = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or(refused)?;
        self.state.insert(p.as_ptr() as usize, layout);
        self.state_outstanding += layout.size();
        Ok(p)
    }

    /// Frees host memory, or says what is wrong with it.
    pub(crate) fn state_free(&mut self, ptr: NonNull<u8>, layout: Layout) -> Result<(), String> {
        if self.state.get(&(ptr.as_ptr() as usize)) != Some(&layout) {
            return Err(format!("host memory {ptr:?} was freed with a wrong layout, or twice: {layout:?}"));
        }
        self.state.remove(&(ptr.as_ptr() as usize));
        self.state_outstanding -= layout.size();
        // SAFETY: it was allocated with this very layout and was not freed before: the table says so.
        unsafe { alloc::dealloc(ptr.as_ptr(), layout) };
        Ok(())
    }
}

impl Drop for Iommu {
    fn drop(&mut self) {
        for (p, layout) in self.state.drain() {
            // SAFETY: allocated with this layout, never freed; the last handle of the function is gone.
            unsafe { alloc::dealloc(p as *mut u8, layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iommu(config: IommuConfig) -> Iommu {
        Iommu::new(config, 1)
    }

    fn map(i: &mut Iommu, m: &mut [u8]) -> Result<Mapping, HalError> {
        // SAFETY: the tests keep the memory until the end and touch it through the space only.
        unsafe { i.map(NonNull::from(&mut m[0]), m.len(), MapAccess::ReadWrite) }
    }

    #[test]
    fn scattered_segments_cover_the_pages_in_order() {
        let mut i = iommu(IommuConfig::default());
        let mut memory = vec![0u8; 100 * 4096];
        memory.iter_mut().enumerate().for_each(|(n, b)| *b = (n / 4096) as u8);
        let m = map(&mut i, &mut memory).unwrap();
        let segments = i.segments(&m).unwrap();
        let offset = m.ptr.as_ptr() as u64 % PAGE;
        assert_eq!(segments.iter().map(|s| s.len).sum::<u64>(), (offset + m.len as u64).next_multiple_of(PAGE));
        assert!(segments.len() >= 25);
        assert!(segments.windows(2).all(|w| w[0].addr + w[0].len != w[1].addr), "no two runs touch");
        assert!(segments.windows(2).any(|w| w[0].addr > w[1].addr), "not sorted");
        let pages: Vec<u64> = segments.iter().flat_map(|s| (0..s.len / PAGE).map(|p| s.addr + p * PAGE)).collect();
        for (n, b) in memory.iter().enumerate().step_by(4096) {
            let at = offset + n as u64;
            let mut got = [0];
            i.space.read(pages[(at / PAGE) as usize] + at % PAGE, &mut got).unwrap();
            assert_eq!(got[0], *b);
        }
        i.unmap(&m).unwrap();
        assert!(i.space.read(segments[0].addr, &mut [0]).is_err());
        assert!(i.unmap(&m).is_err());
    }

    #[test]
    fn overlapping_mappings_each_keep_their_pages_reachable() {
        let mut i = iommu(IommuConfig { scatter: false, ..IommuConfig::default() });
        let mut memory = vec![5u8; 8192];
        let a = map(&mut i, &mut memory).unwrap();
        let b = map(&mut i, &mut memory[..100]).unwrap();
        let (sa, sb) = (i.segments(&a).unwrap()[0], i.segments(&b).unwrap()[0]);
        i.unmap(&a).unwrap();
        let mut got = [0];
        i.space.read(sb.addr + a.ptr.as_ptr() as u64 % PAGE, &mut got).unwrap();
        assert_eq!(got, [5]);
        assert!(i.space.read(sa.addr, &mut got).is_err());
    }

    #[test]
    fn limits_have_names() {
        let config = IommuConfig { mapping_limit: 1, memlock: 4 * 8192, ..IommuConfig::default() };
        let mut i = iommu(config);
        let mut memory = vec![0u8; 4096];
        let first = map(&mut i, &mut memory).unwrap();
        assert_eq!(map(&mut i, &mut memory).unwrap_err(), HalError::MappingLimit { limit: 1 });
        i.unmap(&first).unwrap();
        let limit = 4 * 8192;
        assert_eq!(i.dma_alloc(5 * 8192, 1).unwrap_err(), HalError::MemLock { limit });
        i.dma_alloc(3 * 8192, 1).unwrap();
        assert_eq!(map(&mut i, &mut [0; 3 * 4096]).unwrap_err(), HalError::MemLock { limit });
    }

    #[test]
    fn the_window_and_the_mask_bound_device_addresses() {
        let mut i = iommu(IommuConfig { window: 0x10000..0x20000, ..IommuConfig::default() });
        assert_eq!(i.dma_alloc(0x11000, 1).unwrap_err(), HalError::IommuWindow { addr: 0x11000 });
        let mut live = Vec::new();
        while let Ok(b) = i.dma_alloc(4096, 1) {
            assert!((0x10000..0x20000).contains(&b.addr));
            live.push(b);
        }
        assert!(live.len() >= 4, "{live:x?}");
        let again = live.pop().unwrap();
        i.dma_free(&again).unwrap();
        i.dma_alloc(4096, 1).unwrap();
        let mut i = iommu(IommuConfig::default());
        let b = i.dma_alloc(4096, 1 << 16).unwrap();
        assert_eq!((b.addr % (1 << 16), b.ptr.as_ptr() as usize % (1 << 16)), (0, 0));
        assert_eq!(i.set_dma_bits(32), Err(HalError::BeyondDmaMask { bits: 32 }));
        i.dma_free(&b).unwrap();
        i.set_dma_bits(32).unwrap();
        assert!(i.dma_alloc(4096, 1).unwrap().addr < 1 << 32);
        i.set_dma_bits(20).unwrap_err();
    }

    #[test]
    fn the_chosen_allocation_fails_and_counters_return_to_zero() {
        let mut i = iommu(IommuConfig::default());
        i.fail_allocation(Some(2));
        let b = i.dma_alloc(10, 64).unwrap();
        let layout = Layout::new::<u64>();
        assert_eq!(i.state_alloc(layout).unwrap_err(), HalError::OutOfStateMemory { wanted: 8 });
        assert!(!i.failure_pending());
        let p = i.state_alloc(layout).unwrap();
        assert_eq!((i.dma_outstanding, i.state_outstanding), (4096, 8));
        assert!(i.state_free(p, Layout::new::<u32>()).is_err());
        i.state_free(p, layout).unwrap();
        i.dma_free(&b).unwrap();
        assert!(i.dma_free(&b).is_err());
        assert_eq!((i.dma_outstanding, i.state_outstanding), (0, 0));
    }
}
