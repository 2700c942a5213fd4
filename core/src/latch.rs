//! The lock of those who cannot do without: a compare-and-swap takes it, a store gives it back.

use crate::sync::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
    spin_loop,
};
use core::cell::UnsafeCell;

/// A spin lock without a value.
#[derive(Debug, Default)]
pub struct Latch(AtomicBool);

impl Latch {
    /// Nobody holds it.
    pub fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Waits until nobody holds it, and takes it.
    #[inline(always)]
    pub fn lock(&self) {
        while !self.try_lock() {
            spin_loop();
            // Loads alone do not take the cache line from its holder.
            while self.0.load(Relaxed) {
                spin_loop();
            }
        }
    }

    /// Takes it if nobody holds it; tells whether it did.
    #[inline(always)]
    pub fn try_lock(&self) -> bool {
        self.0.compare_exchange(false, true, Acquire, Relaxed).is_ok()
    }

    /// Gives it back; for whoever holds it.
    #[inline(always)]
    pub fn unlock(&self) {
        self.0.store(false, Release);
    }
}

/// A value that one thread at a time works on.
#[derive(Debug, Default)]
pub struct SpinLock<T> {
    latch: Latch,
    value: UnsafeCell<T>,
}

// SAFETY: the latch lets one thread at a time reach the value.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// Guards a value.
    pub fn new(value: T) -> Self {
        Self { latch: Latch::new(), value: UnsafeCell::new(value) }
    }

    /// Waits for the value and works on it. Must not be nested.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.latch.lock();
        let _held = Held(&self.latch);
        // SAFETY: the latch is held until `_held` goes, so this is the only reference.
        f(unsafe { &mut *self.value.get() })
    }

    /// Works on the value if nobody else does.
    pub fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        if !self.latch.try_lock() {
            return None;
        }
        let _held = Held(&self.latch);
        // SAFETY: as in `with`.
        Some(f(unsafe { &mut *self.value.get() }))
    }

    /// The value, from its only owner.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

/// Gives the latch back, also when the closure unwinds.
struct Held<'a>(&'a Latch);

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.unlock();
    }
}
