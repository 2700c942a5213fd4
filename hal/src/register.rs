//! Which `volatile-register` cells may be read and which written.

use volatile_register::{RO, RW, WO};

/// A register that can be read.
pub trait Readable<T> {
    /// One volatile load.
    fn load(&self) -> T;
}

/// A register that can be written.
pub trait Writable<T> {
    /// One volatile store.
    ///
    /// # Safety
    /// The register lies in a BAR that is mapped, and the device tolerates the write now.
    unsafe fn store(&self, value: T);
}

impl<T: Copy> Readable<T> for RO<T> {
    #[inline(always)]
    fn load(&self) -> T {
        self.read()
    }
}

impl<T: Copy> Readable<T> for RW<T> {
    #[inline(always)]
    fn load(&self) -> T {
        self.read()
    }
}

impl<T: Copy> Writable<T> for RW<T> {
    #[inline(always)]
    unsafe fn store(&self, value: T) {
        // SAFETY: the caller's promise is the same.
        unsafe { self.write(value) }
    }
}

impl<T: Copy> Writable<T> for WO<T> {
    #[inline(always)]
    unsafe fn store(&self, value: T) {
        // SAFETY: the caller's promise is the same.
        unsafe { self.write(value) }
    }
}
