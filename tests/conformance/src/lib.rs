//! What every verbs provider must do, whatever its home.
//!
//! Written against the traits alone, so that it runs on each driver: in a process, in an image, over VFIO.
#![no_std]

extern crate alloc;
#[cfg(any(feature = "harness", feature = "vfio"))]
extern crate std;

pub mod arena;
pub mod connect;
pub mod homes;
pub mod kept;
pub mod pattern;
pub mod sentences;
pub mod suite;
pub mod workload;
