//! State that only an object's one handle works on.

use core::cell::UnsafeCell;

/// A value inside a shared object that is reached only through the exclusive borrow of the object's one handle: no
/// lock is needed.
pub(crate) struct Owned<T>(UnsafeCell<T>);

// SAFETY: whoever reaches the value holds the object's one handle exclusively (see `get`).
unsafe impl<T: Send> Sync for Owned<T> {}

impl<T> Owned<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// The value.
    ///
    /// # Safety
    /// The caller holds the object's one handle exclusively, and no other reference from here lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the contract above")]
    pub(crate) unsafe fn get(&self) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.0.get() }
    }

    /// A copy of the value.
    ///
    /// # Safety
    /// The caller borrows the object's one handle, and no other reference from here lives.
    #[inline(always)]
    pub(crate) unsafe fn copy(&self) -> T
    where
        T: Copy,
    {
        // SAFETY: the caller's promise; who else borrows the handle reads too.
        unsafe { self.0.get().read() }
    }
}
