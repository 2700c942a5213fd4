//! Ping-pongs and tools, the same source on every home.
//!
//! A program is a step function over [`bareverbs::Device`]: it never blocks on one end, so that both ends can run on
//! one thread. Only [`home`] names drivers, backends and models.
#![cfg_attr(not(feature = "std"), no_std)]

pub mod address;
pub mod devinfo;
pub mod endpoint;
pub mod home;
pub mod neighbours;
pub mod options;
pub mod pattern;
pub mod report;

/// The README's code is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
