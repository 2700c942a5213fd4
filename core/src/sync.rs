//! What threads share, and a driver with its device: atomics, the lock, and looks at memory that the device writes.
//!
//! The code of the rings takes these from here, so that a checker of weak memory can put its own in their place
//! (`tests/weak-memory`).

pub use crate::latch::{Latch, SpinLock};
pub use core::{
    hint::spin_loop,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering},
};

/// Reads a byte that the device, or a thread by [`write_device_byte`], may be writing.
///
/// # Safety
/// `at` is valid for a byte.
#[inline(always)]
pub unsafe fn read_device_byte(at: *mut u8) -> u8 {
    // SAFETY: the caller's promise; whoever writes meanwhile writes the byte as a whole.
    unsafe { AtomicU8::from_ptr(at) }.load(Ordering::Relaxed)
}

/// Writes a byte in the device's place, which a thread may be reading by [`read_device_byte`].
///
/// # Safety
/// `at` is valid for a byte, and the device does not write it now.
#[inline(always)]
pub unsafe fn write_device_byte(at: *mut u8, value: u8) {
    // SAFETY: the caller's promise.
    unsafe { AtomicU8::from_ptr(at) }.store(value, Ordering::Relaxed);
}

/// Says that what the device wrote around an address is read now: it must not be writing there.
#[inline(always)]
pub const fn reads_device_memory(_at: *mut u8) {}

/// Says that it is written now, in the device's place: nobody else may be reading or writing there.
#[inline(always)]
pub const fn writes_device_memory(_at: *mut u8) {}
