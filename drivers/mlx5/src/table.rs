//! From a 24-bit number to an object: two levels, both reached by masks alone, so that no number a device tells can
//! lead outside. Empty places of the first level point to one shared leaf of nulls.

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
type Root<T> = [AtomicPtr<Leaf<T>>; SIZE];

/// A table of 2^24 places. Looking up takes no lock; changing it is for one caller at a time.
///
/// Leaves come from state memory when an object is created and stay until the table goes.
pub(crate) struct Table<T> {
    root: NonNull<Root<T>>,
    empty: NonNull<Leaf<T>>,
}

// SAFETY: the table holds addresses in atomics; whoever follows one answers for the object.
unsafe impl<T> Send for Table<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Table<T> {}

impl<T> Table<T> {
    /// An empty table. Must be given back with [`free`](Self::free).
    pub(crate) fn new<H: Platform>(hal: &H) -> Result<Self, Error> {
        let root: NonNull<Root<T>> = hal.state_alloc(Layout::new::<Root<T>>()).map_err(platform)?.cast();
        let empty: NonNull<Leaf<T>> = match hal.state_alloc(Layout::new::<Leaf<T>>()) {
            Ok(memory) => memory.cast(),
            Err(e) => {
                // SAFETY: allocated above with this layout; nobody else knows it.
                unsafe { hal.state_free(root.cast(), Layout::new::<Root<T>>()) };
                return Err(platform(e));
            }
        };
        let table = Self { root, empty };
        for place in table.root() {
            place.store(empty.as_ptr(), Ordering::Relaxed);
        }
        Ok(table)
    }

    /// Gives the memory back.
    pub(crate) fn free<H: Platform>(self, hal: &H) {
        for place in self.root() {
            let leaf = place.load(Ordering::Relaxed);
            if let Some(leaf) = NonNull::new(leaf).filter(|l| *l != self.empty) {
                // SAFETY: allocated in `insert` with this layout; the table is consumed.
                unsafe { hal.state_free(leaf.cast(), Layout::new::<Leaf<T>>()) };
            }
        }
        // SAFETY: allocated in `new` with these layouts; the table is consumed.
        unsafe {
            hal.state_free(self.empty.cast(), Layout::new::<Leaf<T>>());
            hal.state_free(self.root.cast(), Layout::new::<Root<T>>());
        }
    }

    /// What stands at a number; null if nothing does. Bits above the 24th are ignored.
    pub(crate) fn get(&self, number: u32) -> *mut T {
        let leaf = self.root()[(number >> BITS & MASK) as usize].load(Ordering::Acquire);
        // SAFETY: every place of the root points to a leaf that lives as long as the table.
        let leaf = unsafe { &*leaf };
        leaf[(number & MASK) as usize].load(Ordering::Acquire)
    }

    /// Puts an object at a number that is free.
    pub(crate) fn insert<H: Platform>(&self, hal: &H, number: u32, object: NonNull<T>) -> Result<(), Error> {
        let place = &self.root()[(number >> BITS & MASK) as usize];
        let mut leaf = place.load(Ordering::Relaxed);
        if leaf == self.empty.as_ptr() {
            // Zeroed memory is a leaf of nulls.
            leaf = hal.state_alloc(Layout::new::<Leaf<T>>()).map_err(platform)?.cast().as_ptr();
            place.store(leaf, Ordering::Release);
        }
        // SAFETY: every place of the root points to a leaf that lives as long as the table.
        let place = unsafe { &(&*leaf)[(number & MASK) as usize] };
        if !place.load(Ordering::Relaxed).is_null() {
            return Err(Error::BadAnswer { opcode: 0, why: "the device gave a number that is in use" });
        }
        place.store(object.as_ptr(), Ordering::Release);
        Ok(())
    }

    /// Takes an object away from its number, if it stands there.
    pub(crate) fn remove(&self, number: u32, object: &T) {
        let leaf = self.root()[(number >> BITS & MASK) as usize].load(Ordering::Relaxed);
        // SAFETY: every place of the root points to a leaf that lives as long as the table.
        let place = unsafe { &(&*leaf)[(number & MASK) as usize] };
        if core::ptr::eq(place.load(Ordering::Relaxed), object) {
            place.store(null_mut(), Ordering::Release);
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
            let leaf = self.root()[(number >> BITS & MASK) as usize].load(Ordering::Acquire);
            if leaf == self.empty.as_ptr() {
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

    fn root(&self) -> &Root<T> {
        // SAFETY: allocated in `new`, freed only in `free`; zero or a leaf's address in every place.
        unsafe { self.root.as_ref() }
    }
}
