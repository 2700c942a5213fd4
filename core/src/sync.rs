//! What threads share, and a driver with its device: atomics, the lock, and looks at memory that the device writes.
//!
//! The code of the rings takes these from here, so that a checker of weak memory can put its own in their place
//! (`tests/weak-memory`).

pub use crate::latch::{Latch, SpinLock};
pub use core::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering},
};

/// Reads a byte that the device may be writing.
///
/// # Safety
/// `at` is valid for reading a byte.
#[inline(always)]
pub unsafe fn read_device_byte(at: *const u8) -> u8 {
    // SAFETY: the caller's promise.
    unsafe { at.read_volatile() }
}

/// Says that what the device wrote around an address is read now: it must not be writing there.
#[inline(always)]
pub const fn reads_device_memory(_at: *const u8) {}
