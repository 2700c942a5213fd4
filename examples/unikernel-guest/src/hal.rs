//! The HAL: three traits for one PCI function.

use crate::{kernel::Kernel, pool::Pool};
use bareverbs_hal::{
    Bar, Dma, DmaBuffer, HalError, MapAccess, Mapping, PAGE_SIZE, PciAddress, PciFunction, Platform, Segment,
};
use bareverbs_unikernel::{BarInfo, FunctionInfo};
use core::{
    alloc::Layout,
    arch::x86_64::_rdtsc,
    ptr::NonNull,
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};
use spin::Mutex;

/// All memory that the driver gets: rings, tables, and what firmware asks for.
const POOL: usize = 96 << 20;

/// What the handles of a function share.
pub struct Function {
    kernel: Kernel,
    info: &'static FunctionInfo,
    config: NonNull<u32>,
    pool: Mutex<Pool>,
    dma_bits: AtomicU8,
}

// SAFETY: the pointer is to registers that stay mapped; each access is one of 32 bits.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Takes a function that nobody else drives. `below` is the address that its DMA memory has to end at.
    pub fn new(kernel: Kernel, info: &'static FunctionInfo, below: u64) -> Option<Self> {
        let config = kernel.map_registers(kernel.config_space(info.address)?, 4096)?.cast();
        let memory = kernel.memory(POOL, PAGE_SIZE, below)?;
        // SAFETY: the kernel gave it for good.
        let pool = Mutex::new(unsafe { Pool::new(memory, POOL) });
        Some(Self { kernel, info, config, pool, dma_bits: AtomicU8::new(64) })
    }
}

/// A handle of a function: what the driver is opened with.
#[derive(Clone, Copy)]
pub struct Hal(pub &'static Function);

impl Hal {
    fn take(&self, len: usize, align: usize) -> Option<(NonNull<u8>, usize)> {
        let size = Pool::size(len, align)?;
        Some((self.0.pool.lock().take(size)?, size))
    }

    fn reaches(&self, end: u64, bits: u8) -> Result<(), HalError> {
        if bits >= 64 || end <= 1 << bits { Ok(()) } else { Err(HalError::BeyondDmaMask { bits }) }
    }

    /// # Safety
    /// As [`PciFunction::set_bus_master`], where it is set.
    unsafe fn command(&self, clear: u32, set: u32) -> u32 {
        const COMMAND: u16 = 4;
        // The upper half is the status, whose bits are cleared by writing ones.
        let command = self.config_read32(COMMAND) & 0xffff;
        // SAFETY: the caller's promise.
        unsafe { self.config_write32(COMMAND, command & !clear | set) };
        self.config_read32(COMMAND)
    }
}

// SAFETY: the pool's blocks are zeroed, disjoint and valid until they come back, and no device is told of those that
// are state. The counter never goes back.
unsafe impl Platform for Hal {
    fn now(&self) -> Duration {
        // SAFETY: every x86_64 processor has the counter.
        let ticks = u128::from(unsafe { _rdtsc() });
        Duration::from_nanos((ticks * 1_000_000_000 / u128::from(self.0.kernel.tsc_hz())) as u64)
    }

    fn state_alloc(&self, layout: Layout) -> Result<NonNull<u8>, HalError> {
        if layout.size() == 0 {
            return Err(HalError::BadRange);
        }
        let block = self.take(layout.size(), layout.align());
        block.map(|(ptr, _)| ptr).ok_or(HalError::OutOfStateMemory { wanted: layout.size() })
    }

    unsafe fn state_free(&self, ptr: NonNull<u8>, layout: Layout) {
        let Some(size) = Pool::size(layout.size(), layout.align()) else { return };
        // SAFETY: the caller's promise; the size is that of `state_alloc`.
        unsafe { self.0.pool.lock().give(ptr, size) };
    }
}

// SAFETY: without an IOMMU a device address is a physical one, and the kernel's RAM is contiguous wherever its addresses
// are; so a mapping is one segment, and nothing has to be counted. x86 keeps its caches coherent with DMA.
unsafe impl Dma for Hal {
    fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaBuffer, HalError> {
        if !align.is_power_of_two() {
            return Err(HalError::Misaligned);
        }
        if len == 0 {
            return Err(HalError::BadRange);
        }
        let (ptr, len) = self.take(len, align).ok_or(HalError::OutOfDmaMemory { wanted: len })?;
        let addr = self.0.kernel.physical(ptr.as_ptr() as usize, len).ok_or(HalError::BadRange)?;
        Ok(DmaBuffer { ptr, addr, len })
    }

    unsafe fn dma_free(&self, buffer: DmaBuffer) {
        // SAFETY: the caller's promise; the length is the block's size.
        unsafe { self.0.pool.lock().give(buffer.ptr, buffer.len) };
    }

    unsafe fn map(&self, ptr: NonNull<u8>, len: usize, _access: MapAccess) -> Result<Mapping, HalError> {
        let physical = self.0.kernel.physical(ptr.as_ptr() as usize, len).filter(|_| len > 0);
        let token = physical.ok_or(HalError::BadRange)?;
        self.reaches(token + len as u64, self.0.dma_bits.load(Ordering::Relaxed))?;
        Ok(Mapping { ptr, len, token })
    }

    fn segments(&self, mapping: &Mapping, each: &mut dyn FnMut(Segment)) {
        const PAGE: u64 = PAGE_SIZE as u64;
        let addr = mapping.token & !(PAGE - 1);
        each(Segment { addr, len: (mapping.token + mapping.len as u64).next_multiple_of(PAGE) - addr });
    }

    unsafe fn unmap(&self, _mapping: Mapping) {}

    fn set_dma_bits(&self, bits: u8) -> Result<(), HalError> {
        self.reaches(self.0.pool.lock().end(), bits)?;
        self.0.dma_bits.store(bits, Ordering::Relaxed);
        Ok(())
    }
}

// SAFETY: BARs and configuration space stay mapped. A function whose bus mastering is off issues no requests (PCI local
// bus specification 3.0, 6.2.2).
unsafe impl PciFunction for Hal {
    fn address(&self) -> PciAddress {
        self.0.info.address
    }

    fn config_read32(&self, offset: u16) -> u32 {
        // SAFETY: inside the 4 KiB that are mapped.
        unsafe { self.0.config.byte_add(usize::from(offset & 0xffc)).read_volatile() }
    }

    unsafe fn config_write32(&self, offset: u16, value: u32) {
        // SAFETY: inside the 4 KiB that are mapped.
        unsafe { self.0.config.byte_add(usize::from(offset & 0xffc)).write_volatile(value) };
    }

    fn bar(&self, n: u8) -> Result<Bar, HalError> {
        match self.0.info.bars.get(usize::from(n)) {
            None | Some(BarInfo::None) => Err(HalError::NoSuchBar(n)),
            Some(BarInfo::Io) => Err(HalError::BarIsIo(n)),
            Some(BarInfo::Memory { address, len, .. }) => {
                let base = self.0.kernel.map_registers(*address, *len);
                let base = base.ok_or(HalError::Unsupported("a BAR that the kernel does not map"))?;
                // SAFETY: the registers are mapped, for good.
                Ok(unsafe { Bar::new(base, *len as usize, None) })
            }
        }
    }

    unsafe fn set_bus_master(&self, on: bool) -> Result<(), HalError> {
        const MEMORY: u32 = 1 << 1;
        const BUS_MASTER: u32 = 1 << 2;
        let (clear, set) = if on { (0, MEMORY | BUS_MASTER) } else { (BUS_MASTER, MEMORY) };
        // SAFETY: the caller's promise.
        let command = unsafe { self.command(clear, set) };
        if command == u32::MAX { Err(HalError::Gone) } else { Ok(()) }
    }

    fn reset(&self) -> Result<(), HalError> {
        Err(HalError::Unsupported("a reset"))
    }
}
