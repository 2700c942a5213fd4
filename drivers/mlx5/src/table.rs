//! From a 24-bit number to an object: two levels, both reached by masks alone, so that no number a device tells can
//! lead outside.

use crate::error::platform;
use bareverbs::Error;
use bareverbs_hal::Platform;
use core::{
    alloc::Layout,
    ptr::{NonNull, null_mut},
    sync::atomic::{AtomicPtr, Ordering},
};

const BITS: u32 = 12;
const SIZE: usize = 1 << BITS;
const MASK: u32 = SIZE as u32 - 1;

type Leaf<T> = [AtomicPtr<T>; SIZE];

/// A table of 2^24 places. Looking up takes no lock; changing it is for one caller at a time. Zeroed memory is an empty
/// one.
///
/// Leaves come from state memory when an object is created and stay until the table goes.
pub(crate) struct Table<T>([AtomicPtr<Leaf<T>>; SIZE]);

impl<T> Table<T> {
    /// Gives the leaves back. Nobody uses the table any more.
    pub(crate) fn free<H: Platform>(&self, hal: &H) {
        for leaf in self.0.iter().filter_map(|place| NonNull::new(place.load(Ordering::Relaxed))) {
            // SAFETY: allocated in `insert` with this layout; nobody follows it any more.
            unsafe { hal.state_free(leaf.cast(), Layout::new::<Leaf<T>>()) };
        }
    }

    /// The leaf of a number, if there is one. Bits above the 24th are ignored.
    fn leaf(&self, number: u32) -> Option<&Leaf<T>> {
        // SAFETY: null, or a leaf that lives as long as the table.
        unsafe { self.0[(number >> BITS & MASK) as usize].load(Ordering::Acquire).as_ref() }
    }

    /// What stands at a number; null if nothing does. Bits above the 24th are ignored.
    pub(crate) fn get(&self, number: u32) -> *mut T {
        self.leaf(number).map_or(null_mut(), |leaf| leaf[(number & MASK) as usize].load(Ordering::Acquire))
    }

    /// Puts an object at a number that is free.
    pub(crate) fn insert<H: Platform>(&self, hal: &H, number: u32, object: NonNull<T>) -> Result<(), Error> {
        let leaf = match self.leaf(number) {
            Some(leaf) => leaf,
            None => {
                // Zeroed memory is a leaf of nulls.
                let leaf = hal.state_alloc(Layout::new::<Leaf<T>>()).map_err(platform)?.cast::<Leaf<T>>();
                self.0[(number >> BITS & MASK) as usize].store(leaf.as_ptr(), Ordering::Release);
                // SAFETY: lives as long as the table.
                unsafe { leaf.as_ref() }
            }
        };
        let place = &leaf[(number & MASK) as usize];
        if !place.load(Ordering::Relaxed).is_null() {
            return Err(Error::BadAnswer { opcode: 0, why: "the device gave a number that is in use" });
        }
        place.store(object.as_ptr(), Ordering::Release);
        Ok(())
    }

    /// Takes an object away from its number, if it stands there.
    pub(crate) fn remove(&self, number: u32, object: &T) {
        if core::ptr::eq(self.get(number), object)
            && let Some(leaf) = self.leaf(number)
        {
            leaf[(number & MASK) as usize].store(null_mut(), Ordering::Release);
        }
    }

    /// All objects, in rising order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NonNull<T>> + '_ {
        let mut from = 0;
        core::iter::from_fn(move || {
            let (number, object) = self.first(from)?;
            from = number + 1;
            Some(object)
        })
    }

    /// The object with the lowest number from `from` on, and that number.
    pub(crate) fn first(&self, from: u32) -> Option<(u32, NonNull<T>)> {
        let mut number = from;
        while number >> (2 * BITS) == 0 {
            if self.leaf(number).is_none() {
                number = (number | MASK) + 1;
                continue;
            }
            if let Some(object) = NonNull::new(self.get(number)) {
                return Some((number, object));
            }
            number += 1;
        }
        None
    }
}
