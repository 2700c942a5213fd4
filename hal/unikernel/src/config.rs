//! PCI configuration space: its registers, and the memory-mapped way to it (PCI Express base specification, 7.2.2).

use bareverbs_hal::PciAddress;
use heapless::Vec;

/// Offsets in configuration space (PCI local bus specification 3.0, chapter 6; PCI-to-PCI bridges 1.2, chapter 3).
pub(crate) const ID: u16 = 0x00;
pub(crate) const COMMAND: u16 = 0x04;
pub(crate) const CLASS: u16 = 0x08;
pub(crate) const HEADER_TYPE: u16 = 0x0c;
pub(crate) const BAR0: u16 = 0x10;
pub(crate) const BUSES: u16 = 0x18;
pub(crate) const MEMORY_WINDOW: u16 = 0x20;
pub(crate) const PREFETCHABLE_WINDOW: u16 = 0x24;
pub(crate) const PREFETCHABLE_BASE_HIGH: u16 = 0x28;
pub(crate) const PREFETCHABLE_LIMIT_HIGH: u16 = 0x2c;
pub(crate) const CAPABILITIES: u16 = 0x34;

pub(crate) const COMMAND_IO: u32 = 1;
pub(crate) const COMMAND_MEMORY: u32 = 1 << 1;
pub(crate) const COMMAND_BUS_MASTER: u32 = 1 << 2;
/// The upper half of the dword is the status register, whose bits are cleared by writing ones.
pub(crate) const COMMAND_MASK: u32 = 0xffff;
pub(crate) const STATUS_CAPABILITIES: u32 = 1 << 20;

/// Access to the configuration space of all functions; offsets are those of dwords. What is not there reads all-ones.
pub(crate) trait ConfigSpace {
    fn read32(&self, at: PciAddress, offset: u16) -> u32;
    fn write32(&self, at: PciAddress, offset: u16, value: u32);
}

/// A mapped window of enhanced configuration space.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// Where bus 0 would be.
    base: *mut u32,
    pub(crate) segment: u16,
    pub(crate) first_bus: u8,
    pub(crate) last_bus: u8,
}

impl Window {
    /// # Safety
    /// 1 MiB for each bus from the first to the last is mapped uncached from `base` + first bus on.
    pub(crate) unsafe fn new(base: *mut u32, segment: u16, first_bus: u8, last_bus: u8) -> Self {
        Self { base, segment, first_bus, last_bus }
    }

    fn register(&self, at: PciAddress, offset: u16) -> Option<*mut u32> {
        let here = at.segment == self.segment && (self.first_bus..=self.last_bus).contains(&at.bus);
        let function =
            usize::from(at.bus) << 20 | usize::from(at.device & 31) << 15 | usize::from(at.function & 7) << 12;
        here.then(|| self.base.wrapping_byte_add(function | usize::from(offset & 0xffc)))
    }
}

// SAFETY: registers of hardware; each access is one of 32 bits.
unsafe impl Send for Window {}
// SAFETY: registers of hardware; each access is one of 32 bits.
unsafe impl Sync for Window {}

/// All windows that ACPI tells of.
pub(crate) type Windows = Vec<Window, 8>;

impl ConfigSpace for Windows {
    fn read32(&self, at: PciAddress, offset: u16) -> u32 {
        match self.iter().find_map(|w| w.register(at, offset)) {
            // SAFETY: the promise of `Window::new`.
            Some(register) => unsafe { register.read_volatile() },
            None => u32::MAX,
        }
    }

    fn write32(&self, at: PciAddress, offset: u16, value: u32) {
        if let Some(register) = self.iter().find_map(|w| w.register(at, offset)) {
            // SAFETY: the promise of `Window::new`.
            unsafe { register.write_volatile(value) };
        }
    }
}
