//! What a kernel has anyway, by the names that the HAL calls it. Yours has its own; here `bareverbs_unikernel` boots the
//! machine and stands in for it. Of that crate's own HAL nothing is used.

use bareverbs_hal::PciAddress;
use bareverbs_unikernel::{FunctionInfo, Machine, memory::Range};
use core::ptr::NonNull;

/// A kernel.
#[derive(Clone, Copy)]
pub struct Kernel(pub &'static Machine);

impl Kernel {
    /// Contiguous RAM below an address, for good.
    pub fn memory(&self, len: usize, align: usize, below: u64) -> Option<NonNull<u8>> {
        self.0.pool().take(len, align, below)
    }

    /// The physical address of RAM that the kernel has mapped; none for any other address.
    pub fn physical(&self, start: usize, len: usize) -> Option<u64> {
        let range = Range::new(start as u64, len as u64);
        self.0.ram().iter().any(|ram| ram.contains(&range)).then_some(range.start)
    }

    /// Maps registers, uncached.
    pub fn map_registers(&self, physical: u64, len: u64) -> Option<NonNull<u8>> {
        self.0.map_registers(Range::new(physical, len)).ok()
    }

    /// Hertz of the time-stamp counter.
    pub fn tsc_hz(&self) -> u64 {
        self.0.clock().hz()
    }

    /// The functions on the PCI bus.
    pub fn functions(&self) -> impl Iterator<Item = &'static FunctionInfo> {
        self.0.functions()
    }

    /// The physical address of a function's 4 KiB of configuration space (PCI Express base specification, 7.2.2).
    pub fn config_space(&self, at: PciAddress) -> Option<u64> {
        let ecam = self.0.acpi().ecam.iter().find(|e| e.segment == at.segment && e.last_bus >= at.bus)?;
        let function = u64::from(at.bus) << 20 | u64::from(at.device) << 15 | u64::from(at.function) << 12;
        Some(ecam.base + function)
    }
}
