//! Where programs run. Only this module names drivers, backends and models.

#[cfg(feature = "std")]
mod both;
#[cfg(feature = "harness")]
mod loopback;
#[cfg(feature = "harness")]
mod modelled;
#[cfg(feature = "std")]
mod process;

#[cfg(feature = "std")]
pub use process::main;
