//! Whether handles may be shared between threads: a type parameter, so that an owner of everything pays for no lock.

/// How shared state is guarded. Sealed: [`Local`] or [`Shared`].
pub trait Policy: sealed::Guards {}

/// One thread owns the device and all its objects; no locks. Handles cannot be sent to other threads.
#[derive(Clone, Copy, Debug)]
pub struct Local;

/// Handles may be used from any thread; spin locks guard what they share.
#[derive(Clone, Copy, Debug)]
pub struct Shared;

impl Policy for Local {}
impl Policy for Shared {}

pub(crate) use sealed::{Count, Guards, Lock};

mod sealed {
    use super::{Local, Shared};
    use bareverbs::sync::SpinLock;
    use core::{
        cell::{Cell, UnsafeCell},
        sync::atomic::{AtomicU32, Ordering, fence},
    };

    /// What a policy is made of.
    pub trait Guards: 'static {
        /// Whether several threads may be at work.
        const SHARED: bool;
        /// A lock.
        type Lock<T>: Lock<T>;
        /// A count of holders.
        type Count: Count;
    }

    impl Guards for Local {
        const SHARED: bool = false;
        type Lock<T> = Once<T>;
        type Count = Cell<u32>;
    }

    impl Guards for Shared {
        const SHARED: bool = true;
        type Lock<T> = SpinLock<T>;
        type Count = AtomicU32;
    }

    /// A value that one caller at a time works on.
    pub trait Lock<T> {
        /// Guards a value.
        fn new(value: T) -> Self;
        /// Waits for the value and works on it. Must not be nested.
        fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R;
        /// Works on the value if nobody else does.
        fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R>;
        /// The value, from its only owner.
        fn get_mut(&mut self) -> &mut T;
    }

    impl<T> Lock<T> for SpinLock<T> {
        fn new(value: T) -> Self {
            Self::new(value)
        }

        #[inline(always)]
        fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            self.with(f)
        }

        fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
            self.try_with(f)
        }

        fn get_mut(&mut self) -> &mut T {
            self.get_mut()
        }
    }

    /// The lock of [`Local`]: nobody else can be there, so it only keeps a nested call out, as a spin lock would.
    pub struct Once<T> {
        busy: Cell<bool>,
        value: UnsafeCell<T>,
    }

    impl<T> Lock<T> for Once<T> {
        fn new(value: T) -> Self {
            Self { busy: Cell::new(false), value: UnsafeCell::new(value) }
        }

        #[inline(always)]
        fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
            while self.busy.replace(true) {
                core::hint::spin_loop();
            }
            let release = Release(&self.busy);
            // SAFETY: the type is not `Sync`, and `busy` was false, so this is the only reference.
            let result = f(unsafe { &mut *self.value.get() });
            drop(release);
            result
        }

        fn try_with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
            (!self.busy.get()).then(|| self.with(f))
        }

        fn get_mut(&mut self) -> &mut T {
            self.value.get_mut()
        }
    }

    /// Lets go of the lock, also when the closure unwinds.
    struct Release<'a>(&'a Cell<bool>);

    impl Drop for Release<'_> {
        fn drop(&mut self) {
            self.0.set(false);
        }
    }

    /// A count that cannot grow further never shrinks again: handles that were forgotten 2^32 times leave their object
    /// where it is.
    const FOREVER: u32 = u32::MAX;

    /// How many hold an object.
    pub trait Count {
        /// One holder.
        fn one() -> Self;
        /// One more.
        fn increment(&self);
        /// One fewer; whether that was the last.
        fn decrement(&self) -> bool;
        /// How many.
        fn get(&self) -> u32;
    }

    impl Count for Cell<u32> {
        fn one() -> Self {
            Self::new(1)
        }

        fn increment(&self) {
            self.set(self.get().saturating_add(1));
        }

        fn decrement(&self) -> bool {
            if self.get() != FOREVER {
                self.set(self.get() - 1);
            }
            self.get() == 0
        }

        fn get(&self) -> u32 {
            self.get()
        }
    }

    impl Count for AtomicU32 {
        fn one() -> Self {
            Self::new(1)
        }

        fn increment(&self) {
            // An error is a count that stays where it is.
            let _stuck = self.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_add(1));
        }

        fn decrement(&self) -> bool {
            let fewer = |n| if n == FOREVER { None } else { Some(n - 1) };
            let last = self.fetch_update(Ordering::Release, Ordering::Relaxed, fewer) == Ok(1);
            if last {
                // The holders before wrote to the object; the last one takes it apart.
                fence(Ordering::Acquire);
            }
            last
        }

        fn get(&self) -> u32 {
            self.load(Ordering::Acquire)
        }
    }
}
