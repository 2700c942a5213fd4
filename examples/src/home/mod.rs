//! Where programs run. Only this module names drivers, backends and models.

#[cfg(feature = "std")]
mod both;
#[cfg(all(feature = "vfio", target_os = "linux"))]
mod exchange;
#[cfg(all(feature = "vfio", target_os = "linux"))]
mod hcas;
#[cfg(feature = "harness")]
mod loopback;
#[cfg(feature = "harness")]
mod modelled;
#[cfg(any(feature = "image", all(feature = "vfio", target_os = "linux")))]
mod port;
#[cfg(feature = "std")]
mod process;
#[cfg(feature = "image")]
mod serial_line;
#[cfg(feature = "image")]
pub mod unikernel;
#[cfg(feature = "std")]
mod usage;
#[cfg(all(feature = "vfio", target_os = "linux"))]
mod vfio;

#[cfg(all(feature = "vfio", target_os = "linux"))]
pub use hcas::{devices, preflight};
#[cfg(feature = "std")]
pub use process::main;
