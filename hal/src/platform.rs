//! Host-only memory, time and waiting.

use crate::HalError;
use core::{alloc::Layout, ptr::NonNull, time::Duration};

/// The part of a platform that knows no device.
///
/// A value is a cheap handle; clones name the same platform.
///
/// # Safety
/// ## The implementer promises
/// - [`state_alloc`](Self::state_alloc) gives zeroed memory of the layout, disjoint from all other live memory, valid
///   until it is freed, and out of every device's reach where an IOMMU stands between.
/// - [`now`](Self::now) never goes backwards, and advances while a caller polls it.
/// ## The caller promises
/// - Memory is freed once, with the layout it was asked for, on a handle of the same platform.
pub unsafe trait Platform: Clone {
    /// Monotonic time since some fixed moment.
    fn now(&self) -> Duration;

    /// Called in every bounded wait for a device (a spin hint on hardware).
    #[inline(always)]
    fn relax(&self) {
        core::hint::spin_loop();
    }

    /// Called after a poll that found nothing. Nothing on hardware; a harness lets its devices run.
    #[inline(always)]
    fn idle(&self) {}

    /// Zeroed host-only memory. A layout of size zero is [`HalError::BadRange`].
    fn state_alloc(&self, layout: Layout) -> Result<NonNull<u8>, HalError>;

    /// Gives memory from [`state_alloc`](Self::state_alloc) back.
    ///
    /// # Safety
    /// `ptr` came from `state_alloc(layout)` of this platform and is not used afterwards.
    unsafe fn state_free(&self, ptr: NonNull<u8>, layout: Layout);
}
