//! Where the suite runs. Only this module names drivers, backends and models.

#[cfg(any(feature = "harness", feature = "vfio"))]
mod buffers;
#[cfg(any(feature = "harness", feature = "vfio", feature = "image"))]
mod card;
#[cfg(feature = "harness")]
mod loopback;
#[cfg(feature = "harness")]
mod modelled;
#[cfg(feature = "image")]
pub mod unikernel;
#[cfg(all(feature = "vfio", target_os = "linux"))]
mod vfio;

#[cfg(any(feature = "harness", feature = "vfio"))]
pub use buffers::Buffers;
#[cfg(all(feature = "vfio", target_os = "linux"))]
pub use vfio::VfioHome;
#[cfg(feature = "harness")]
pub use {
    card::open,
    loopback::LoopbackHome,
    modelled::{ModelHome, plug},
};
