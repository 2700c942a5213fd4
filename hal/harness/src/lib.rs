//! A PCI bus, DMA memory behind an IOMMU view, a clock and a fabric in one process, for modelled devices.
//!
//! A [`World`] holds everything; [`World::plug`] puts a [`model::DeviceModel`] into it and gives out a [`Function`],
//! on which a driver runs as on hardware. On one thread the world lets its devices run whenever the driver touches a
//! register, passes a barrier or waits; how far is drawn from the seed, so a run can be repeated bit by bit. When a
//! program waits and no device has anything to do any more, the world panics and names the seed; a device that tries again
//! for ever, as with endless RNR retries, has always something to do.
//!
//! [`Slot`] (which a function dereferences to) is the test's side: violations, refused DMA, leaks, register traces,
//! link faults, failing allocations.

mod bus;
mod clock;
mod fabric;
mod faults;
mod frame;
mod function;
mod iommu;
mod machine;
mod memory;
pub mod model;
mod pcap;
pub mod pci;
mod slot;
mod space;
mod thread;
mod trace;
#[cfg(feature = "vfio-user")]
pub mod vfio_user;
mod world;

pub use bus::{FaultReason, FaultRecord, InterruptHook};
pub use clock::Clock;
pub use fabric::{FrameInfo, LinkCounters, PacketFilter, TooManyInfiniBandPorts, Verdict};
pub use faults::{Corruptor, Faults};
pub use function::Function;
pub use iommu::IommuConfig;
pub use machine::QuietLimit;
pub use slot::Slot;
pub use trace::{Access, AccessKind};
pub use world::{Builder, World};
