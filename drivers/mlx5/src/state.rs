//! Host-only memory of objects: tables that the device cannot reach.

use crate::error::platform;
use bareverbs::Error;
use bareverbs_hal::Platform;
use core::{alloc::Layout, ptr::NonNull};

/// Zeroed memory for some values of a type for which all zeros is a value. Must be given back with [`free`](Self::free).
pub(crate) struct StateMemory<T> {
    ptr: NonNull<T>,
    count: usize,
}

impl<T> StateMemory<T> {
    /// Memory for `count` values; of none there is none.
    pub(crate) fn new<H: Platform>(hal: &H, count: usize) -> Result<Self, Error> {
        let too_much = || Error::Platform(bareverbs::PlatformError::OutOfMemory { wanted: u64::MAX });
        let layout = Layout::array::<T>(count).map_err(|_| too_much())?;
        let ptr =
            if layout.size() == 0 { NonNull::dangling() } else { hal.state_alloc(layout).map_err(platform)?.cast() };
        Ok(Self { ptr, count })
    }

    /// The first value.
    pub(crate) fn ptr(&self) -> NonNull<T> {
        self.ptr
    }

    /// Gives the memory back; nobody uses it any more.
    pub(crate) fn free<H: Platform>(self, hal: &H) {
        if let Ok(layout) = Layout::array::<T>(self.count)
            && layout.size() != 0
        {
            // SAFETY: allocated in `new` with the same layout; `self` is consumed.
            unsafe { hal.state_free(self.ptr.cast(), layout) };
        }
    }
}
