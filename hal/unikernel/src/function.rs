//! A PCI function that is open: this machine's implementation of the HAL.

use crate::{
    bars::BarInfo,
    config::{
        BAR0, CAPABILITIES, COMMAND, COMMAND_BUS_MASTER, COMMAND_MASK, COMMAND_MEMORY, ConfigSpace, HEADER_TYPE, ID,
        STATUS_CAPABILITIES,
    },
    machine::{Entry, Machine},
    memory::Range,
    paging::Kind,
};
use bareverbs_hal::{
    Bar, Dma, DmaBuffer, HalError, MapAccess, Mapping, PAGE_SIZE, PciAddress, PciFunction, Platform, Segment,
};
use core::{alloc::Layout, ptr::NonNull, sync::atomic::Ordering, time::Duration};

const CAPABILITY_PCIE: u32 = 0x10;
const CAPABILITY_ADVANCED_FEATURES: u32 = 0x13;
/// Device capabilities, and device control with status above it, in the PCI Express capability.
const DEVICE_CAPABILITIES: u16 = 4;
const DEVICE_CONTROL: u16 = 8;
const DEVICE_CONTROL_2: u16 = 0x28;
const CAN_RESET: u32 = 1 << 28;
const RESET: u32 = 1 << 15;
const TRANSACTIONS_PENDING: u32 = 1 << 21;
/// The same in the Advanced Features capability, whose first dword ends with what it can.
const AF_CAN_RESET: u32 = 1 << 25;
const AF_CONTROL: u16 = 4;
const AF_RESET: u32 = 1;

/// A function is given this long to finish what it began (an upper bound of completion time-outs in use), and this
/// long to reset itself (PCI Express base specification, 6.6.2).
const PENDING: Duration = Duration::from_millis(100);
const RESETTING: Duration = Duration::from_millis(100);
/// How long configuration space may say "not yet" after that.
const NOT_READY: Duration = Duration::from_secs(10);
/// What the vendor and device read as meanwhile.
const RETRY: u32 = 0xffff_0001;

/// An open function; a cheap handle. When the last one goes, the function's bus mastering is turned off.
///
/// There is no IOMMU in front of the function: it reaches all memory, and what it must not reach it is not told of.
pub struct Function {
    machine: &'static Machine,
    entry: &'static Entry,
}

impl Function {
    pub(crate) fn new(machine: &'static Machine, entry: &'static Entry) -> Self {
        Self { machine, entry }
    }

    /// The machine it is plugged into.
    pub fn machine(&self) -> &'static Machine {
        self.machine
    }

    /// The vendor's and the device's number.
    pub fn id(&self) -> (u16, u16) {
        (self.entry.info.vendor, self.entry.info.device)
    }

    /// # Safety
    /// As [`PciFunction::set_bus_master`], where it is set.
    unsafe fn update_command(&self, clear: u32, set: u32) -> u32 {
        let command = self.config_read32(COMMAND) & COMMAND_MASK;
        // SAFETY: the caller's promise.
        unsafe { self.config_write32(COMMAND, command & !clear | set) };
        self.config_read32(COMMAND)
    }

    /// Where a capability stands in configuration space.
    fn capability(&self, id: u32) -> Option<u16> {
        if self.config_read32(COMMAND) & STATUS_CAPABILITIES == 0 {
            return None;
        }
        let mut at = self.config_read32(CAPABILITIES) & 0xfc;
        // 48 capabilities fill configuration space: a list that is longer runs in a circle.
        for _ in 0..48 {
            if at < 0x40 {
                return None;
            }
            let head = self.config_read32(at as u16);
            if head & 0xff == id {
                return Some(at as u16);
            }
            at = head >> 8 & 0xfc;
        }
        None
    }

    /// Starts the reset that the function offers.
    fn start_reset(&self, pcie: Option<u16>) -> Result<(), HalError> {
        if let Some(at) = pcie
            && self.config_read32(at + DEVICE_CAPABILITIES) & CAN_RESET != 0
        {
            let control = self.config_read32(at + DEVICE_CONTROL) & 0xffff;
            // SAFETY: a function that is reset reaches no memory.
            unsafe { self.config_write32(at + DEVICE_CONTROL, control | RESET) };
            return Ok(());
        }
        if let Some(at) = self.capability(CAPABILITY_ADVANCED_FEATURES)
            && self.config_read32(at) & AF_CAN_RESET != 0
        {
            // SAFETY: as above.
            unsafe { self.config_write32(at + AF_CONTROL, AF_RESET) };
            return Ok(());
        }
        Err(HalError::Unsupported("a reset of a function that offers none of its own"))
    }

    fn wait_until(&self, limit: Duration, done: impl Fn() -> bool) -> bool {
        let end = self.now() + limit;
        while !done() {
            if self.now() > end {
                return false;
            }
            self.relax();
        }
        true
    }

    fn map_bar(&self, range: Range, kind: Kind) -> Result<NonNull<u8>, HalError> {
        let mapped = self.machine.map(range, kind);
        mapped.map_err(|_| HalError::Unsupported("a BAR at an address that cannot be mapped"))
    }
}

impl Clone for Function {
    fn clone(&self) -> Self {
        self.entry.holders.fetch_add(1, Ordering::Relaxed);
        Self { ..*self }
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        if self.entry.holders.load(Ordering::Acquire) == 1 {
            // SAFETY: bus mastering is not set.
            unsafe { self.update_command(COMMAND_BUS_MASTER, 0) };
        }
        // Only now may the function be opened again.
        self.entry.holders.fetch_sub(1, Ordering::Release);
    }
}

impl core::fmt::Debug for Function {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Function").field(&self.address()).finish()
    }
}

// SAFETY: memory comes from the machine's pool: zeroed, disjoint, aligned, valid until it is freed. No device is told
// of it, and on this machine only that keeps devices away. The counter behind `now` never goes back.
unsafe impl Platform for Function {
    #[inline]
    fn now(&self) -> Duration {
        self.machine.clock().now()
    }

    fn state_alloc(&self, layout: Layout) -> Result<NonNull<u8>, HalError> {
        if layout.size() == 0 {
            return Err(HalError::BadRange);
        }
        let taken = self.machine.pool().take(layout.size(), layout.align(), u64::MAX);
        taken.ok_or(HalError::OutOfStateMemory { wanted: layout.size() })
    }

    unsafe fn state_free(&self, ptr: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.machine.pool().give(ptr, layout.size()) };
    }
}

// SAFETY: device addresses are the CPU's: RAM stands at its own address in the page tables, and no IOMMU is between.
// Memory of the pool is zeroed, disjoint, aligned; RAM is contiguous wherever its addresses are, so that a mapping is
// one segment, and nothing has to be counted. x86 keeps its caches coherent with DMA.
unsafe impl Dma for Function {
    fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaBuffer, HalError> {
        if !align.is_power_of_two() {
            return Err(HalError::Misaligned);
        }
        if len == 0 {
            return Err(HalError::BadRange);
        }
        let taken = self.machine.pool().take(len, align, self.entry.below());
        let ptr = taken.ok_or(HalError::OutOfDmaMemory { wanted: len })?;
        Ok(DmaBuffer { ptr, addr: ptr.as_ptr() as u64, len })
    }

    unsafe fn dma_free(&self, buffer: DmaBuffer) {
        // SAFETY: the caller's promise.
        unsafe { self.machine.pool().give(buffer.ptr, buffer.len) };
    }

    unsafe fn map(&self, ptr: NonNull<u8>, len: usize, _access: MapAccess) -> Result<Mapping, HalError> {
        let start = ptr.as_ptr() as u64;
        let end = start.checked_add(len as u64).filter(|_| len > 0).ok_or(HalError::BadRange)?;
        if !self.machine.is_ram(Range { start, end }) {
            return Err(HalError::BadRange);
        }
        if end > self.entry.below() {
            return Err(HalError::BeyondDmaMask { bits: self.entry.dma_bits.load(Ordering::Relaxed) });
        }
        Ok(Mapping { ptr, len, token: 0 })
    }

    fn segments(&self, mapping: &Mapping, each: &mut dyn FnMut(Segment)) {
        const PAGE: u64 = PAGE_SIZE as u64;
        let start = mapping.ptr.as_ptr() as u64;
        let end = (start + mapping.len as u64).next_multiple_of(PAGE);
        let addr = start & !(PAGE - 1);
        each(Segment { addr, len: end - addr });
    }

    unsafe fn unmap(&self, _mapping: Mapping) {}

    /// Memory is handed out below the function's limit from here on.
    fn set_dma_bits(&self, bits: u8) -> Result<(), HalError> {
        if bits < 64 && self.machine.lowest_memory() >= 1 << bits {
            return Err(HalError::BeyondDmaMask { bits });
        }
        self.entry.dma_bits.store(bits.min(64), Ordering::Relaxed);
        Ok(())
    }
}

// SAFETY: BARs are mapped at the function's own addresses and never unmapped; the provided register methods act on
// the mapped registers. With bus mastering off a function issues no requests (PCI 3.0, 6.2.2), and its reset turns it off.
unsafe impl PciFunction for Function {
    fn address(&self) -> PciAddress {
        self.entry.info.address
    }

    fn config_read32(&self, offset: u16) -> u32 {
        self.machine.config().read32(self.address(), offset)
    }

    unsafe fn config_write32(&self, offset: u16, value: u32) {
        self.machine.config().write32(self.address(), offset, value);
    }

    fn bar(&self, n: u8) -> Result<Bar, HalError> {
        let (address, len, prefetchable) = match self.entry.info.bars.get(usize::from(n)) {
            None | Some(BarInfo::None) => return Err(HalError::NoSuchBar(n)),
            Some(BarInfo::Io) => return Err(HalError::BarIsIo(n)),
            Some(BarInfo::Memory { address: 0, .. }) => return Err(HalError::Unsupported("a BAR without an address")),
            Some(BarInfo::Memory { address, len, prefetchable, .. }) => (*address, *len, *prefetchable),
        };
        let range = Range::new(address, len);
        let base = self.map_bar(range, Kind::Registers)?;
        let combining = if prefetchable { Some(self.map_bar(range, Kind::Combining)?) } else { None };
        // SAFETY: both windows are mapped over the function's registers, for good.
        Ok(unsafe { Bar::new(base, len as usize, combining) })
    }

    unsafe fn set_bus_master(&self, on: bool) -> Result<(), HalError> {
        let (clear, set) = if on { (0, COMMAND_MEMORY | COMMAND_BUS_MASTER) } else { (COMMAND_BUS_MASTER, 0) };
        // SAFETY: the caller's promise.
        let command = unsafe { self.update_command(clear, set) };
        if command == u32::MAX { Err(HalError::Gone) } else { Ok(()) }
    }

    /// Resets the function (PCI Express base specification, 6.6.2) and puts its BARs back.
    fn reset(&self) -> Result<(), HalError> {
        if self.config_read32(ID) == u32::MAX {
            return Err(HalError::Gone);
        }
        let pcie = self.capability(CAPABILITY_PCIE);
        // SAFETY: bus mastering is not set.
        let command = unsafe { self.update_command(COMMAND_BUS_MASTER, 0) } & COMMAND_MASK;
        if let Some(at) = pcie {
            // What is still pending after that is lost by the reset.
            self.wait_until(PENDING, || self.config_read32(at + DEVICE_CONTROL) & TRANSACTIONS_PENDING == 0);
        }
        let header = [HEADER_TYPE, BAR0, 0x14, 0x18, 0x1c, 0x20, 0x24, 0x30, 0x3c];
        let express = pcie.map(|at| [at + DEVICE_CONTROL, at + DEVICE_CONTROL_2]);
        let offsets = || header.into_iter().chain(express.into_iter().flatten());
        let mut saved = [0; 11];
        for (value, offset) in saved.iter_mut().zip(offsets()) {
            *value = self.config_read32(offset);
        }
        self.start_reset(pcie)?;
        self.machine.clock().wait(RESETTING);
        if !self.wait_until(NOT_READY, || !matches!(self.config_read32(ID), u32::MAX | RETRY)) {
            return Err(HalError::ResetFailed);
        }
        for (value, offset) in saved.into_iter().zip(offsets()) {
            // The upper half of device control is a status that is cleared by writing ones.
            let is_control = express.is_some_and(|e| e.contains(&offset));
            // SAFETY: the value of before the reset.
            unsafe { self.config_write32(offset, if is_control { value & 0xffff } else { value }) };
        }
        // SAFETY: bus mastering stays off.
        unsafe { self.config_write32(COMMAND, command) };
        Ok(())
    }
}
