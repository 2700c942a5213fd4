//! A PCI function that is bound to vfio-pci.

use crate::{
    Host, OpenError,
    iommu::{Iommu, Memory},
    memory::Region,
    pool::Pool,
    space::Space,
    sysfs,
};
use bareverbs_hal::{
    Bar, Dma, DmaBuffer, HalError, MapAccess, Mapping, PAGE_SIZE, PciAddress, PciFunction, Platform, Segment,
};
use pci_driver::{
    backends::vfio::{VfioContainer, VfioPciDevice},
    device::PciDevice,
    regions::{AsPciSubregion, BackedByPciSubregion, MappedOwningPciRegion, Permissions, structured::PciRegisterRw},
};
use rustix::process::{Resource, getrlimit};
use std::{
    alloc::Layout,
    io,
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// A PCI function on vfio-pci, owned by this process. A cheap handle; the function is given back to the kernel, which
/// stops and resets it, when the last clone is dropped or the process ends in whatever way.
#[derive(Clone, Debug)]
pub struct Vfio(Arc<Function>);

#[derive(Debug)]
struct Function {
    address: PciAddress,
    started: Instant,
    // The order of the fields is the order of dropping: the function stops before its memory goes.
    bars: Mutex<[Option<MappedOwningPciRegion>; 6]>,
    device: VfioPciDevice,
    memory: Mutex<Memory>,
    state: Mutex<Pool>,
}

/// Configuration space: the command register, its bits for memory decoding and bus mastering, and the first BAR.
const COMMAND: u16 = 4;
const MEMORY_SPACE: u32 = 1 << 1;
const BUS_MASTER: u32 = 1 << 2;
const BAR0: u16 = 0x10;

/// How long a function may take to answer again after its reset; what Linux gives it.
const RESET_LIMIT: Duration = Duration::from_secs(60);

/// What state memory is rounded up to: a cache line, so that two owners never share one.
const CACHE_LINE: usize = 64;

impl Vfio {
    /// Opens a function that is bound to vfio-pci, in a container of its own. Bus mastering is off.
    ///
    /// The error tells in words what stands in the way, as [`preflight`](crate::preflight) does.
    pub fn open(address: PciAddress) -> Result<Self, OpenError> {
        let host = Host::default();
        let explain = |cause: io::Error| OpenError::new(&host, address, cause);
        let device = VfioPciDevice::open(host.device(address)).map_err(explain)?;
        Self::with(&host, address, device).map_err(explain)
    }

    fn with(host: &Host, address: PciAddress, device: VfioPciDevice) -> io::Result<Self> {
        if device.iommu().alignment() > PAGE_SIZE {
            return Err(io::Error::other(HalError::Unsupported("an IOMMU whose pages are larger than 4096 bytes")));
        }
        coherent().map_err(io::Error::other)?;
        let mut windows = Space::new(device.iommu().valid_iova_ranges().iter().map(whole_pages));
        // Without ACS a switch sends a DMA access to where its address lies in another function's BAR.
        for range in sysfs::bar_ranges(host)? {
            windows.exclude(&range);
        }
        let memory = Memory::new(windows, device.iommu().max_num_mappings());
        let function = Function {
            address,
            started: Instant::now(),
            bars: Mutex::default(),
            device,
            memory: Mutex::new(memory),
            state: Mutex::new(Pool::new(CACHE_LINE)),
        };
        Ok(Self(Arc::new(function)))
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        locked(&self.0.memory)
    }

    fn iommu(&self) -> &dyn Iommu {
        &**self.0.device.container()
    }

    /// A register of configuration space.
    fn config(&self, offset: u16) -> PciRegisterRw<'_, u32> {
        PciRegisterRw::backed_by(self.0.device.config().subregion(u64::from(offset)..))
    }
}

/// A lock whose other holders never leave it half done: they do not panic.
fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The pages that lie in a window wholly. pci-driver takes the window's last address for its end, which costs a page.
fn whole_pages(window: &std::ops::Range<u64>) -> std::ops::Range<u64> {
    let page = PAGE_SIZE as u64;
    window.start.next_multiple_of(page)..window.end / page * page
}

/// Whether DMA is coherent with the CPU's caches: always on x86; elsewhere Linux refuses functions that are not from
/// 6.0 on ("vfio: Require that devices support DMA cache coherence"), and before nobody tells.
fn coherent() -> Result<(), HalError> {
    if cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let major = release.split('.').next().and_then(|n| n.parse::<u32>().ok());
    if major >= Some(6) { Ok(()) } else { Err(HalError::NotCoherent) }
}

/// The number of the system's error. pci-driver keeps it for a refused mapping in the text only.
fn errno(error: &io::Error) -> Option<i32> {
    error.raw_os_error().or_else(|| {
        let text = error.to_string();
        let (_, number) = text.rsplit_once("(os error ")?;
        number.strip_suffix(')')?.parse().ok()
    })
}

/// Linux error numbers (asm-generic/errno-base.h, errno.h).
const ENOMEM: i32 = 12;
const EINVAL: i32 = 22;
const ENOTTY: i32 = 25;
const ENOSPC: i32 = 28;

/// What VFIO's answer to a mapping means (Linux, vfio_iommu_type1.c, `vfio_dma_do_map`): ENOSPC for the limit of
/// mappings, ENOMEM for the limit of locked memory, EINVAL for device addresses outside the windows.
fn refused(error: &io::Error, iova: u64, len: usize, limit: u32) -> HalError {
    match errno(error) {
        Some(ENOSPC) => HalError::MappingLimit { limit },
        Some(ENOMEM) => match getrlimit(Resource::Memlock).current {
            Some(limit) => HalError::MemLock { limit },
            None => HalError::OutOfDmaMemory { wanted: len },
        },
        Some(EINVAL) => HalError::IommuWindow { addr: iova },
        Some(number) => HalError::Os(number),
        None => HalError::Unsupported("a mapping that VFIO refuses without a number"),
    }
}

impl Iommu for VfioContainer {
    unsafe fn map(&self, iova: u64, len: usize, ptr: *mut u8, access: MapAccess) -> Result<(), HalError> {
        let rights = match access {
            MapAccess::Read => Permissions::Read,
            MapAccess::ReadWrite => Permissions::ReadWrite,
        };
        // SAFETY: the caller's promise: the memory stays until it is unmapped.
        let mapped = unsafe { self.iommu().map(iova, len, ptr, rights) };
        mapped.map_err(|e| refused(&e, iova, len, self.iommu().max_num_mappings()))
    }

    fn unmap(&self, iova: u64, len: usize) -> Result<(), HalError> {
        self.iommu().unmap(iova, len).map_err(|e| HalError::Os(errno(&e).unwrap_or(EINVAL)))
    }
}

// SAFETY: state memory comes out of regions of its own, zeroed and disjoint (see `Pool`), that are never mapped for a
// device and share no page with memory that is. `Instant` never goes back.
unsafe impl Platform for Vfio {
    fn now(&self) -> Duration {
        self.0.started.elapsed()
    }

    fn state_alloc(&self, layout: Layout) -> Result<NonNull<u8>, HalError> {
        let out_of_memory = HalError::OutOfStateMemory { wanted: layout.size() };
        let mut state = locked(&self.0.state);
        let len = state.rounded(layout.size()).ok_or(HalError::BadRange)?;
        let align = layout.align().max(CACHE_LINE);
        if let Some((ptr, _)) = state.take(len, align) {
            return Ok(ptr);
        }
        let (chunk, chunk_align) = Pool::chunk_for(len, align).ok_or(out_of_memory)?;
        state.add(Region::new(chunk, chunk_align).map_err(|_| out_of_memory)?, 0, chunk_align);
        state.take(len, align).map(|(ptr, _)| ptr).ok_or(out_of_memory)
    }

    unsafe fn state_free(&self, ptr: NonNull<u8>, layout: Layout) {
        let mut state = locked(&self.0.state);
        if let Some(len) = state.rounded(layout.size()) {
            drop(state.give(ptr, len));
        }
    }
}

// SAFETY: `Memory` hands out zeroed memory that nobody else has and keeps it mapped until it is freed; a chunk whose
// last buffer was freed, and the user's memory after its last mapping, are unmapped from the IOMMU. `coherent` was
// asked at opening.
unsafe impl Dma for Vfio {
    fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaBuffer, HalError> {
        self.memory().alloc(self.iommu(), len, align)
    }

    unsafe fn dma_free(&self, buffer: DmaBuffer) {
        self.memory().free(self.iommu(), buffer);
    }

    unsafe fn map(&self, ptr: NonNull<u8>, len: usize, access: MapAccess) -> Result<Mapping, HalError> {
        // SAFETY: the caller's promise.
        unsafe { self.memory().map(self.iommu(), ptr, len, access) }
    }

    fn segments(&self, mapping: &Mapping, each: &mut dyn FnMut(Segment)) {
        let segment = self.memory().segment(mapping);
        segment.into_iter().for_each(each);
    }

    unsafe fn unmap(&self, mapping: Mapping) {
        self.memory().unmap(self.iommu(), &mapping);
    }

    fn set_dma_bits(&self, bits: u8) -> Result<(), HalError> {
        self.memory().set_dma_bits(bits)
    }
}

// SAFETY: BARs are mapped from the function's own file descriptor and stay so while a clone lives; registers are
// reached by the provided methods. Bus mastering is switched in the function's own command register, and VFIO's reset
// gives back the command register that it found, so it is switched off before.
unsafe impl PciFunction for Vfio {
    fn address(&self) -> PciAddress {
        self.0.address
    }

    fn config_read32(&self, offset: u16) -> u32 {
        self.config(offset).read().unwrap_or(u32::MAX)
    }

    unsafe fn config_write32(&self, offset: u16, value: u32) {
        // What is not there cannot be written, and reads as all-ones.
        let _ = self.config(offset).write(value);
    }

    fn bar(&self, n: u8) -> Result<Bar, HalError> {
        let mut bars = locked(&self.0.bars);
        let slot = bars.get_mut(usize::from(n)).ok_or(HalError::NoSuchBar(n))?;
        if slot.is_none() {
            let region = self.0.device.bar(usize::from(n)).ok_or(HalError::NoSuchBar(n))?;
            if self.config_read32(BAR0 + 4 * u16::from(n)) & 1 == 1 {
                return Err(HalError::BarIsIo(n));
            }
            if !region.is_mappable() {
                return Err(HalError::Unsupported("BARs that vfio-pci does not map, such as those below a page"));
            }
            let mapped = region.map(.., Permissions::ReadWrite);
            *slot = Some(mapped.map_err(|e| HalError::Os(errno(&e).unwrap_or(EINVAL)))?);
        }
        let region = slot.as_ref().ok_or(HalError::NoSuchBar(n))?;
        let base = NonNull::new(region.as_mut_ptr()).ok_or(HalError::NoSuchBar(n))?;
        // SAFETY: the mapping lives as long as the function's last handle. vfio-pci maps uncached and knows no
        // write-combining mapping (Linux, vfio_pci_core.c, `vfio_pci_core_mmap`: pgprot_noncached).
        Ok(unsafe { Bar::new(base, region.len(), None) })
    }

    unsafe fn set_bus_master(&self, on: bool) -> Result<(), HalError> {
        let command = self.config_read32(COMMAND);
        if command == u32::MAX {
            return Err(HalError::Gone);
        }
        let command = if on { command | MEMORY_SPACE | BUS_MASTER } else { command & !BUS_MASTER };
        // The upper half is the status register, whose ones are cleared by writing ones.
        // SAFETY: bus mastering is switched by the caller's promise.
        unsafe { self.config_write32(COMMAND, command & 0xffff) };
        let holds = self.config_read32(COMMAND) & BUS_MASTER != 0;
        if holds == on { Ok(()) } else { Err(HalError::Gone) }
    }

    fn reset(&self) -> Result<(), HalError> {
        self.silence()?;
        self.0.device.reset().map_err(|e| match errno(&e) {
            Some(EINVAL | ENOTTY) => HalError::Unsupported("a reset of this function alone"),
            _ => HalError::ResetFailed,
        })?;
        let begun = Instant::now();
        while self.config_read32(0) == u32::MAX {
            if begun.elapsed() > RESET_LIMIT {
                return Err(HalError::ResetFailed);
            }
            std::thread::yield_now();
        }
        // Whatever the reset gave back.
        self.silence()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_vfio_get_their_names() {
        // The form of pci-driver 0.1.4 for a refused mapping: text around the system's error.
        let as_text = |number| io::Error::other(format!("Failed to map: {}", io::Error::from_raw_os_error(number)));
        for error in [as_text(28), io::Error::from_raw_os_error(28)] {
            assert_eq!(refused(&error, 0x1000, 4096, 65535), HalError::MappingLimit { limit: 65535 });
        }
        assert_eq!(refused(&as_text(22), 0x1000, 4096, 9), HalError::IommuWindow { addr: 0x1000 });
        assert_eq!(refused(&as_text(14), 0x1000, 4096, 9), HalError::Os(14));
        let locked = refused(&as_text(12), 0x1000, 4096, 9);
        let expected = match getrlimit(Resource::Memlock).current {
            Some(limit) => HalError::MemLock { limit },
            None => HalError::OutOfDmaMemory { wanted: 4096 },
        };
        assert_eq!(locked, expected);
    }

    #[test]
    fn windows_are_cut_to_whole_pages() {
        assert_eq!(whole_pages(&(0x1000..0xfedf_ffff)), 0x1000..0xfedf_f000);
        assert_eq!(whole_pages(&(0x1001..u64::MAX)), 0x2000..u64::MAX - 0xfff);
    }
}
