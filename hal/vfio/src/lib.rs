//! The HAL in a Linux process: VFIO gives it the PCI function, the IOMMU keeps the function to the memory it was given.
//!
//! Unlike with DPDK, where a ConnectX stays with the kernel's mlx5_core and verbs go through it, here the card is bound
//! to vfio-pci and no kernel driver of it is left: [`preflight`] tells what is missing, and the commands.
//!
//! [`Vfio::open`] makes a container of its own, of type 1 (v2), with the function's IOMMU group. What it takes care of:
//!
//! - DMA memory is cut from chunks of 2 MiB, of huge pages if some are reserved, and its pages count against the limit
//!   on locked memory (`RLIMIT_MEMLOCK`) unless the process may exceed it (CAP_IPC_LOCK). A freed buffer stays
//!   reachable for the device, as DMA memory, until its chunk is empty.
//! - The user's memory takes one of the IOMMU's mappings (65,535 by default, the parameter `dma_entry_limit` of
//!   vfio_iommu_type1) a registration; ranges inside one that is registered already take none.
//! - Device addresses lie in the windows that VFIO reports, and outside all BARs of the host.
//! - State memory never shares a page with memory that was mapped.
//! - BARs are mapped uncached; vfio-pci offers no write-combining mapping, so there is no BlueFlame.
//! - A process that ends, in whatever way, leaves a silent function: the kernel turns bus mastering off, resets the
//!   function and takes the mappings back.
//!
//! VFIO's no-IOMMU mode is not supported: the function could write anywhere.
#![cfg(target_os = "linux")]

mod error;
mod function;
mod iommu;
mod memory;
mod pool;
mod space;
mod sysfs;

pub mod preflight;

pub use error::OpenError;
pub use function::Vfio;
pub use sysfs::{FunctionInfo, Host, function, functions};
