//! What a platform gives to a bareverbs driver.
//!
//! The traits come in layers, each an instance a PCI function, all methods on `&self`, cheap to clone, no globals:
//! [`Platform`] (host-only memory, time, waiting) < [`Dma`] (memory that the device reaches, barriers) <
//! [`PciFunction`] (configuration space, registers, bus mastering, reset). [`Nic`] stands beside them for
//! software transports.
//!
//! A driver reaches registers only through [`PciFunction::read32`] and its sisters. On hardware each is one load or
//! store; a harness overrides them, so that a modelled device sees every access in order.
#![no_std]

mod barrier;
mod be;
mod dma;
mod error;
mod nic;
mod pci;
mod platform;
mod register;

pub use barrier::{dma_rmb, dma_wmb, mmio_wmb, wc_wmb};
pub use be::Be32;
pub use dma::{Dma, DmaBuffer, MapAccess, Mapping, PAGE_SIZE, Segment};
pub use error::HalError;
pub use nic::Nic;
pub use pci::{BadPciAddress, Bar, PciAddress, PciFunction};
pub use platform::Platform;
pub use register::{Readable, Writable};
