//! A function as its driver sees it: the harness's implementation of the HAL.

use crate::{
    machine::Point,
    memory::Region,
    model::{BarKind, PciIdentity},
    slot::Slot,
    trace::AccessKind,
};
use bareverbs_hal::{
    Bar, Be32, Dma, DmaBuffer, HalError, MapAccess, Mapping, PciAddress, PciFunction, Platform, Readable, Segment,
    Writable,
};
use std::{alloc::Layout, fmt, ops::Deref, ptr::NonNull, sync::Arc, time::Duration};
use volatile_register::WO;

const COMMAND: u16 = 0x04;
const COMMAND_MEMORY: u32 = 1 << 1;
const COMMAND_BUS_MASTER: u32 = 1 << 2;
const BAR0: u16 = 0x10;
const CAPABILITIES: u16 = 0x34;
const CAPABILITY_PCIE: u32 = 0x10;
const INITIATE_FLR: u32 = 1 << 15;

/// Where firmware would put BARs; each function has its own window.
const MEMORY64: u64 = 0x38_0000_0000;
const MEMORY32: u64 = 0xc000_0000;
const PORTS: u64 = 0xc000;

/// A PCI function for a driver; a cheap handle. Everything a test asks of it is on [`Slot`].
#[derive(Clone)]
pub struct Function(Arc<Inner>);

struct Inner {
    slot: Slot,
    bars: [BarSpace; 6],
}

// Drivers share a function between threads in the threaded mode.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Function>();
};

/// Address space that stands for a BAR: nobody can access it, so who goes around the HAL meets a fault.
enum BarSpace {
    None,
    Io,
    Memory { uncached: Region, write_combining: Option<Region> },
}

impl BarSpace {
    fn new(kind: BarKind, write_combining: bool) -> Self {
        let reserve = |len: u64| Region::reserve(len as usize).expect("address space for a BAR");
        match kind {
            BarKind::None => Self::None,
            BarKind::Io(_) => Self::Io,
            BarKind::Memory32(len) => Self::Memory { uncached: reserve(len), write_combining: None },
            BarKind::Memory64(len) => {
                Self::Memory { uncached: reserve(len), write_combining: write_combining.then(|| reserve(len)) }
            }
        }
    }

    /// The offset of an address in one of the windows.
    fn offset(&self, addr: usize) -> Option<u64> {
        let Self::Memory { uncached, write_combining } = self else { return None };
        [Some(uncached), write_combining.as_ref()].into_iter().flatten().find_map(|w| {
            let offset = addr.wrapping_sub(w.ptr() as usize);
            (offset < w.len()).then_some(offset as u64)
        })
    }
}

impl Deref for Function {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        &self.0.slot
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Function").field(&self.address()).finish()
    }
}

impl Function {
    pub(crate) fn new(slot: Slot, identity: &PciIdentity, write_combining: bool) -> Self {
        let f = Self(Arc::new(Inner { slot, bars: identity.bars.map(|b| BarSpace::new(b, write_combining)) }));
        f.assign_bars(&identity.bars);
        f
    }

    /// Gives each BAR an address, as firmware does.
    fn assign_bars(&self, kinds: &[BarKind; 6]) {
        let index = self.index() as u64;
        let mut next = [MEMORY64 + (index << 32), MEMORY32 + (index << 26), PORTS + (index << 8)];
        for (n, kind) in (0u16..).zip(kinds) {
            let (which, len) = match *kind {
                BarKind::None => continue,
                BarKind::Memory64(len) => (0, len),
                BarKind::Memory32(len) => (1, len),
                BarKind::Io(len) => (2, len.into()),
            };
            let addr = next[which].next_multiple_of(len);
            next[which] = addr + len;
            self.config_write(BAR0 + 4 * n, &(addr as u32).to_le_bytes());
            if which == 0 {
                self.config_write(BAR0 + 4 * n + 4, &((addr >> 32) as u32).to_le_bytes());
            }
        }
    }

    /// Which register an address stands for.
    fn locate<T>(&self, register: *const T) -> (u8, u64) {
        let found = (0..).zip(&self.0.bars).find_map(|(n, b)| Some((n, b.offset(register as usize)?)));
        found.expect("the register lies in one of the function's BARs")
    }

    fn read_register(&self, bar: u8, offset: u64) -> u32 {
        let mut data = [0; 4];
        let mut state = self.world().lock();
        state.run_at_access();
        state.mmio_read(self.index(), bar, offset, &mut data);
        let value = u32::from_be_bytes(data);
        state.trace(self.index(), bar, offset, AccessKind::Read32(value));
        drop(state);
        self.world().notify();
        value
    }

    fn write_register(&self, bar: u8, offset: u64, words: &[&[u8]], kind: AccessKind) {
        let mut state = self.world().lock();
        state.run_at_access();
        state.trace(self.index(), bar, offset, kind);
        let mut at = offset;
        for w in words {
            state.mmio_write(self.index(), bar, at, w);
            at += w.len() as u64;
        }
        state.run_at_access();
        drop(state);
        self.world().notify();
    }

    /// The device control register of the PCI Express capability.
    fn device_control(&self) -> Option<u16> {
        let mut at = self.config_read32(CAPABILITIES) & 0xfc;
        // The chain has no more entries than configuration space has dwords.
        for _ in 0..64 {
            let head = self.config_read32(at as u16);
            if at != 0 && head & 0xff == CAPABILITY_PCIE {
                return Some(at as u16 + 8);
            }
            at = head >> 8 & 0xfc;
        }
        None
    }
}

// SAFETY: host memory comes zeroed from the global allocator and is put into no address space; the world's clock
// never goes back and a read advances it.
unsafe impl Platform for Function {
    fn now(&self) -> Duration {
        self.world().lock().now()
    }

    fn relax(&self) {
        self.run(Point::Relax);
    }

    fn idle(&self) {
        self.run(Point::Idle);
    }

    fn state_alloc(&self, layout: Layout) -> Result<NonNull<u8>, HalError> {
        self.with_iommu(|iommu| iommu.state_alloc(layout))
    }

    unsafe fn state_free(&self, ptr: NonNull<u8>, layout: Layout) {
        if let Err(what) = self.with_iommu(|iommu| iommu.state_free(ptr, layout)) {
            self.violation(what);
        }
    }
}

// SAFETY: buffers are mappings of their own, zeroed, aligned for both sides, and in the address space until they are
// freed; a mapping's segments cover its pages in order; removal from the address space ends the device's reach. The
// devices' accesses are the CPU's own, so memory is coherent.
unsafe impl Dma for Function {
    fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaBuffer, HalError> {
        self.with_iommu(|iommu| iommu.dma_alloc(len, align))
    }

    unsafe fn dma_free(&self, buffer: DmaBuffer) {
        if let Err(what) = self.with_iommu(|iommu| iommu.dma_free(&buffer)) {
            self.violation(what);
        }
        let command = self.config_read32(COMMAND);
        if self.dma_outstanding() == 0 && command != u32::MAX && command & COMMAND_BUS_MASTER != 0 {
            self.violation("the last DMA memory was given back while the function masters the bus".to_owned());
        }
    }

    unsafe fn map(&self, ptr: NonNull<u8>, len: usize, access: MapAccess) -> Result<Mapping, HalError> {
        // SAFETY: the caller's promise.
        self.with_iommu(|iommu| unsafe { iommu.map(ptr, len, access) })
    }

    fn segments(&self, mapping: &Mapping, each: &mut dyn FnMut(Segment)) {
        // The callback may call into the HAL, so the lock is not held over it.
        match self.with_iommu(|iommu| iommu.segments(mapping)) {
            Some(segments) => segments.iter().for_each(|s| each(*s)),
            None => self.violation(format!("segments of memory that is not mapped: {mapping:x?}")),
        }
    }

    unsafe fn unmap(&self, mapping: Mapping) {
        if let Err(what) = self.with_iommu(|iommu| iommu.unmap(&mapping)) {
            self.violation(what);
        }
    }

    fn set_dma_bits(&self, bits: u8) -> Result<(), HalError> {
        self.with_iommu(|iommu| iommu.set_dma_bits(bits))
    }

    fn dma_wmb(&self) {
        bareverbs_hal::dma_wmb();
        self.run(Point::Barrier);
    }

    fn dma_rmb(&self) {
        bareverbs_hal::dma_rmb();
        self.run(Point::Barrier);
    }

    fn mmio_wmb(&self) {
        bareverbs_hal::mmio_wmb();
        self.run(Point::Barrier);
    }

    fn wc_wmb(&self) {
        bareverbs_hal::wc_wmb();
        self.run(Point::Barrier);
    }
}

// SAFETY: a BAR's address space is reserved until the last clone is gone; every register method calls the model once,
// in program order; the bus refuses DMA while bus mastering is off, and a reset turns it off.
unsafe impl PciFunction for Function {
    fn address(&self) -> PciAddress {
        PciAddress { segment: 0, bus: 1 + self.index() as u8, device: 0, function: 0 }
    }

    fn config_read32(&self, offset: u16) -> u32 {
        let mut data = [0; 4];
        self.config_read(offset, &mut data);
        u32::from_le_bytes(data)
    }

    unsafe fn config_write32(&self, offset: u16, value: u32) {
        self.config_write(offset, &value.to_le_bytes());
    }

    fn bar(&self, n: u8) -> Result<Bar, HalError> {
        match self.0.bars.get(usize::from(n)) {
            None | Some(BarSpace::None) => Err(HalError::NoSuchBar(n)),
            Some(BarSpace::Io) => Err(HalError::BarIsIo(n)),
            Some(BarSpace::Memory { uncached, write_combining }) => {
                let base = NonNull::new(uncached.ptr()).ok_or(HalError::NoSuchBar(n))?;
                let window = write_combining.as_ref().and_then(|w| NonNull::new(w.ptr()));
                // SAFETY: address space of this length, reserved for the BAR while a handle lives.
                Ok(unsafe { Bar::new(base, uncached.len(), window) })
            }
        }
    }

    unsafe fn set_bus_master(&self, on: bool) -> Result<(), HalError> {
        let command = self.config_read32(COMMAND);
        if command == u32::MAX {
            return Err(HalError::Gone);
        }
        if on && self.dma_outstanding() == 0 {
            self.violation("the function masters the bus before it has any DMA memory".to_owned());
        }
        // The upper half is the status register: zeros there clear nothing.
        let command = command & 0xffff;
        let command = if on { command | COMMAND_MEMORY | COMMAND_BUS_MASTER } else { command & !COMMAND_BUS_MASTER };
        self.config_write(COMMAND, &command.to_le_bytes());
        Ok(())
    }

    fn reset(&self) -> Result<(), HalError> {
        if self.config_read32(0) == u32::MAX {
            return Err(HalError::Gone);
        }
        let control = self.device_control().ok_or(HalError::Unsupported("function level reset"))?;
        // The reset clears them.
        let bars: [u32; 6] = std::array::from_fn(|n| self.config_read32(BAR0 + 4 * n as u16));
        self.config_write(control, &(self.config_read32(control) & 0xffff | INITIATE_FLR).to_le_bytes());
        if self.config_read32(0) == u32::MAX {
            return Err(HalError::Gone);
        }
        for (n, bar) in (0u16..).zip(bars) {
            self.config_write(BAR0 + 4 * n, &bar.to_le_bytes());
        }
        Ok(())
    }

    fn read32<R: Readable<Be32>>(&self, r: &R) -> u32 {
        let (bar, offset) = self.locate(r);
        self.read_register(bar, offset)
    }

    fn write32<R: Writable<Be32>>(&self, r: &R, value: u32) {
        let (bar, offset) = self.locate(r);
        self.write_register(bar, offset, &[&value.to_be_bytes()], AccessKind::Write32(value));
    }

    fn write64<R: Writable<u64>>(&self, r: &R, value: u64) {
        let (bar, offset) = self.locate(r);
        let bytes = value.to_ne_bytes();
        self.write_register(bar, offset, &[&bytes], AccessKind::Write64(bytes));
    }

    fn write_burst(&self, r: &[WO<u64>; 8], values: &[u64; 8]) {
        let (bar, offset) = self.locate(r);
        let mut bytes = [0; 64];
        for (b, v) in bytes.chunks_exact_mut(8).zip(values) {
            b.copy_from_slice(&v.to_ne_bytes());
        }
        let words: [&[u8]; 8] = std::array::from_fn(|i| &bytes[8 * i..8 * i + 8]);
        self.write_register(bar, offset, &words, AccessKind::Burst(bytes));
    }
}
