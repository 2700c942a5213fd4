//! Loom's atomics in place of [`core::sync::atomic`]'s, with the same names. An ordering can be taken away at one place
//! of the code; ids of requests are watched like plain data; memory of the device has a shadow.

pub use crate::latch::{Latch, SpinLock};
pub use core::sync::atomic::Ordering;
use loom::{cell::UnsafeCell, sync::atomic};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    panic::Location,
    path::Path,
    rc::Rc,
    sync::Mutex,
};

/// The place whose ordering is taken away.
static WEAK: Mutex<Option<String>> = Mutex::new(None);
/// Places with an ordering that were run.
static SITES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

pub fn weaken(site: Option<String>) {
    *WEAK.lock().expect("nobody panicked") = site;
}

pub fn sites() -> BTreeSet<String> {
    SITES.lock().expect("nobody panicked").clone()
}

/// The ordering of a place, if it was not taken away.
pub fn at(ordering: Ordering, place: &str) -> Ordering {
    if ordering == Ordering::Relaxed {
        return ordering;
    }
    let site = format!("{place} {ordering:?}");
    SITES.lock().expect("nobody panicked").insert(site.clone());
    let weak = WEAK.lock().expect("nobody panicked").as_deref() == Some(&*site);
    if weak { Ordering::Relaxed } else { ordering }
}

#[track_caller]
fn here(ordering: Ordering) -> Ordering {
    let caller = Location::caller();
    let file = Path::new(caller.file()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    at(ordering, &format!("{file}:{}:{}", caller.line(), caller.column()))
}

/// What a spinning thread does: the others go on.
pub fn spin_loop() {
    loom::thread::yield_now();
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[derive(Debug)]
        pub struct $name(atomic::$name);

        impl $name {
            pub fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            #[track_caller]
            pub fn load(&self, ordering: Ordering) -> $value {
                self.0.load(here(ordering))
            }

            #[track_caller]
            pub fn store(&self, value: $value, ordering: Ordering) {
                self.0.store(value, here(ordering))
            }

            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(current, new, here(success), failure)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(<$value>::default())
            }
        }
    };
}

atomic!(AtomicBool, bool);
atomic!(AtomicU8, u8);
atomic!(AtomicU16, u16);
atomic!(AtomicU32, u32);

impl AtomicU8 {
    #[track_caller]
    pub fn fetch_max(&self, value: u8, ordering: Ordering) -> u8 {
        self.0.fetch_max(value, here(ordering))
    }
}

/// An address.
pub struct AtomicPtr<T>(atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    pub fn new(value: *mut T) -> Self {
        Self(atomic::AtomicPtr::new(value))
    }

    #[track_caller]
    pub fn load(&self, ordering: Ordering) -> *mut T {
        self.0.load(here(ordering))
    }

    #[track_caller]
    pub fn store(&self, value: *mut T, ordering: Ordering) {
        self.0.store(value, here(ordering))
    }
}

/// The id of a request: data, which no two threads may be at, one of them writing, though each access is atomic.
#[derive(Debug)]
pub struct AtomicU64(UnsafeCell<u64>);

// SAFETY: loom ends the model where two are at it.
unsafe impl Sync for AtomicU64 {}
// SAFETY: a number.
unsafe impl Send for AtomicU64 {}

impl AtomicU64 {
    pub fn new(value: u64) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub fn load(&self, _: Ordering) -> u64 {
        // SAFETY: loom checks that nobody writes meanwhile.
        self.0.with(|value| unsafe { *value })
    }

    pub fn store(&self, value: u64, _: Ordering) {
        // SAFETY: loom checks that nobody else is there.
        self.0.with_mut(|place| unsafe { *place = value })
    }
}

impl Default for AtomicU64 {
    fn default() -> Self {
        Self::new(0)
    }
}

/// An entry that the device writes: the byte that says that it is there, and the rest. Or one that it reads: the rest.
pub struct Shadow {
    pub owner: atomic::AtomicU8,
    pub rest: UnsafeCell<()>,
}

thread_local! {
    /// The shadows of the model that runs, by the address of the entry. (Loom runs all threads of a model on one.)
    static SHADOWS: RefCell<BTreeMap<usize, Rc<Shadow>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Gives entries a shadow with this owner byte, in place of all before.
pub fn shadow(entries: impl Iterator<Item = (usize, u8)>) {
    let shadow = |owner| Rc::new(Shadow { owner: atomic::AtomicU8::new(owner), rest: UnsafeCell::new(()) });
    let all = entries.map(|(at, owner)| (at, shadow(owner))).collect();
    SHADOWS.with_borrow_mut(|shadows| *shadows = all);
}

pub fn shadow_of(entry: usize) -> Rc<Shadow> {
    SHADOWS.with_borrow(|shadows| shadows[&entry].clone())
}

/// Where the byte lies that says that an entry is there.
const OWNER: usize = 63;

/// # Safety
/// None is asked for here.
pub unsafe fn read_device_byte(at: *mut u8) -> u8 {
    shadow_of(at.addr() - OWNER).owner.load(Ordering::Relaxed)
}

/// # Safety
/// None is asked for here.
pub unsafe fn write_device_byte(at: *mut u8, value: u8) {
    shadow_of(at.addr() - OWNER).owner.store(value, Ordering::Relaxed);
}

pub fn reads_device_memory(entry: *mut u8) {
    shadow_of(entry.addr()).rest.with(|_| ());
}

pub fn writes_device_memory(entry: *mut u8) {
    shadow_of(entry.addr()).rest.with_mut(|_| ());
}
