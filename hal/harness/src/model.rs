//! What a modelled device is, and what it sees of the machine around it.

use std::{fmt, time::Duration};

/// What configuration space says of a device.
#[derive(Clone, Debug)]
pub struct PciIdentity {
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Subsystem vendor id.
    pub subsystem_vendor: u16,
    /// Subsystem id.
    pub subsystem: u16,
    /// Revision id.
    pub revision: u8,
    /// Base class, subclass, interface: 24 bits.
    pub class: u32,
    /// BAR slots; a 64-bit BAR takes two, the second is [`BarKind::None`].
    pub bars: [BarKind; 6],
    /// MSI-X table size, 0 for none.
    pub msix_vectors: u16,
}

/// One BAR slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarKind {
    /// Nothing, or the upper half of a 64-bit BAR.
    None,
    /// 32-bit memory of this many bytes.
    Memory32(u64),
    /// 64-bit memory of this many bytes; prefetchable.
    Memory64(u64),
    /// I/O ports.
    Io(u32),
}

/// What travels on a port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// InfiniBand: a frame is LRH .. VCRC.
    InfiniBand,
    /// Ethernet: a frame is the destination MAC .. the last payload byte, without FCS.
    Ethernet,
}

pub use crate::frame::{Frame, Seal};

/// How a function was reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Function level reset, also D3hot to D0.
    Function,
    /// The machine itself was reset or is gone.
    Bus,
}

/// Whether a step found something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One unit of work was done (a command, a WQE's next packet, a frame, a timer).
    Worked,
    /// Nothing can be done before a register access, a frame or the next deadline.
    Idle,
}

/// A DMA access that the IOMMU view does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaFault {
    /// First address that was not reachable.
    pub addr: u64,
    /// Whether it was a write.
    pub write: bool,
}

impl fmt::Display for DmaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DMA {} at {:#x} is not mapped", if self.write { "write" } else { "read" }, self.addr)
    }
}

impl std::error::Error for DmaFault {}

/// The machine as a device sees it.
pub trait Bus {
    /// The world's clock.
    fn now(&self) -> Duration;

    /// Reads memory through the IOMMU view; whole or not at all. A fault is counted.
    fn read(&mut self, addr: u64, data: &mut [u8]) -> Result<(), DmaFault>;

    /// Writes memory through the IOMMU view, whole or not at all, ascending, with the last aligned word of up to eight
    /// bytes released after the rest: a poller that sees the last byte sees all of them. A fault is counted.
    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), DmaFault>;

    /// Raises an MSI-X vector. Lost where nobody listens.
    fn interrupt(&mut self, vector: u16);

    /// Hands a frame to the port's link.
    fn transmit(&mut self, port: u8, frame: Frame);

    /// Whether the port's link has another end.
    fn link_up(&self, port: u8) -> bool;

    /// Says in one line what the driver did wrong; counted.
    fn violation(&mut self, what: fmt::Arguments<'_>);

    /// The world's random numbers, reproducible from its seed.
    fn random(&mut self) -> u64;
}

/// A modelled PCI function. It never blocks, never waits and never panics on what a driver or the wire does.
pub trait DeviceModel: Send {
    /// What configuration space says; constant.
    fn identity(&self) -> PciIdentity;

    /// The links of the device's ports, by index; constant.
    fn ports(&self) -> Vec<LinkKind>;

    /// A register read of 1, 2, 4 or 8 bytes; `data` holds the bytes in address order.
    fn mmio_read(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, data: &mut [u8]);

    /// A register write of 1, 2, 4 or 8 bytes; `data` holds the bytes in address order.
    fn mmio_write(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, data: &[u8]);

    /// A frame arrives on a port. Should only queue it; the work is done by [`step`](Self::step).
    fn receive(&mut self, bus: &mut dyn Bus, port: u8, frame: Frame);

    /// Does one unit of work.
    fn step(&mut self, bus: &mut dyn Bus) -> Step;

    /// When [`step`](Self::step) has something to do though nothing happens from outside.
    fn next_deadline(&self) -> Option<Duration>;

    /// The driver turned bus mastering on or off. While it is off the device must not touch memory.
    fn bus_master(&mut self, bus: &mut dyn Bus, on: bool);

    /// All state is lost but what a real card keeps over a reset.
    fn reset(&mut self, bus: &mut dyn Bus, reset: Reset);
}
