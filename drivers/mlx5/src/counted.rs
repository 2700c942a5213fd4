//! Objects in the platform's state memory, with pointer-sized, counted handles.

use crate::{
    error::platform,
    policy::{Count, Policy, Shared},
};
use bareverbs::Error;
use bareverbs_hal::Platform;
use core::{alloc::Layout, ops::Deref, ptr::NonNull};

/// The verbs of a handle around a [`Counted`] object whose `destroy` takes it from the device: an object that others
/// hold is busy.
macro_rules! handle {
    ($handle:ident) => {
        impl<H: bareverbs_hal::PciFunction, P: $crate::policy::Policy> bareverbs::Destroy for $handle<H, P> {
            fn destroy(self) -> Result<(), bareverbs::Refused<Self>> {
                let result = match self.0.holders() - 1 {
                    0 => self.0.destroy(),
                    holders => Err(bareverbs::Error::Busy { holders }),
                };
                result.map_err(|error| bareverbs::Refused { handle: self, error })
            }
        }

        impl<H: bareverbs_hal::PciFunction, P: $crate::policy::Policy> bareverbs::Handle for $handle<H, P> {
            fn into_raw(self) -> core::ptr::NonNull<()> {
                self.0.into_raw()
            }

            unsafe fn from_raw(raw: core::ptr::NonNull<()>) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { $crate::counted::Counted::from_raw(raw) })
            }
        }
    };
}

pub(crate) use handle;

/// An object that knows whose memory it lies in.
pub(crate) trait Resident {
    /// The platform.
    type Platform: Platform;

    /// A handle of the platform.
    fn platform(&self) -> &Self::Platform;
}

struct Slot<T, P: Policy> {
    holders: P::Count,
    value: T,
}

/// A holder of an object in state memory. The last holder drops the object and gives its memory back.
pub(crate) struct Counted<T: Resident, P: Policy>(NonNull<Slot<T, P>>);

// SAFETY: the policy's count is atomic; the object itself may be used and dropped on any thread.
unsafe impl<T: Resident + Send + Sync> Send for Counted<T, Shared> {}
// SAFETY: as above.
unsafe impl<T: Resident + Send + Sync> Sync for Counted<T, Shared> {}

impl<T: Resident, P: Policy> Counted<T, P> {
    const LAYOUT: Layout = Layout::new::<Slot<T, P>>();

    /// Moves an object into state memory. If there is none left, the object is dropped.
    pub(crate) fn new(value: T) -> Result<Self, Error> {
        let memory = value.platform().state_alloc(Self::LAYOUT).map_err(platform)?.cast::<Slot<T, P>>();
        // SAFETY: the platform gave memory of this layout, unused by anybody else.
        unsafe { memory.write(Slot { holders: P::Count::one(), value }) };
        Ok(Self(memory))
    }

    /// How many handles there are.
    pub(crate) fn holders(&self) -> u32 {
        self.slot().holders.get()
    }

    /// Whether both name the same object.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// Gives up the handle without letting go of the object.
    pub(crate) fn into_raw(self) -> NonNull<()> {
        let raw = self.0.cast();
        core::mem::forget(self);
        raw
    }

    /// Takes a handle up again.
    ///
    /// # Safety
    /// `raw` came from `into_raw` of the same type and is taken up once.
    pub(crate) unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Self(raw.cast())
    }

    /// The object, if this is the only handle.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        if self.holders() != 1 {
            return None;
        }
        // SAFETY: nobody else holds the object, and this handle is borrowed exclusively.
        Some(unsafe { &mut self.0.as_mut().value })
    }

    fn slot(&self) -> &Slot<T, P> {
        // SAFETY: a handle keeps its object alive; objects are only shared immutably.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Resident, P: Policy> Clone for Counted<T, P> {
    fn clone(&self) -> Self {
        self.slot().holders.increment();
        Self(self.0)
    }
}

impl<T: Resident, P: Policy> Deref for Counted<T, P> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.slot().value
    }
}

impl<T: Resident, P: Policy> Drop for Counted<T, P> {
    fn drop(&mut self) {
        if !self.slot().holders.decrement() {
            return;
        }
        let platform = self.slot().value.platform().clone();
        // SAFETY: this was the last handle; the memory came from the same platform with the same layout.
        unsafe {
            self.0.drop_in_place();
            platform.state_free(self.0.cast(), Self::LAYOUT);
        }
    }
}
