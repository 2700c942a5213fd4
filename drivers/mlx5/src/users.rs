//! From the user index in a completion queue entry to the QP or XRC SRQ: one level, as large as their numbers that were
//! fixed at open, reached by a mask alone, so that no number a device tells can lead outside.
//!
//! A CQ follows a place only where the QP is its own. What the device says is not taken for it: each place holds the
//! numbers of the two CQs that the QP completes to, and a poller compares before it looks at the QP. So a QP that goes
//! takes these numbers away and waits until whoever polls its two CQs now is done ([`hide`](Users::hide), then the locks
//! of the CQs); then nobody looks at it any more, and only then is its place free for another.

use crate::{error::platform, target::Target};
use bareverbs::{
    Error, QpType,
    srq::SrqSlots,
    sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering},
    wq,
};
use bareverbs_hal::Platform;
use core::{
    alloc::Layout,
    ptr::{NonNull, null_mut},
};

/// Number of a CQ that the device does not have.
pub(crate) const NO_CQN: u32 = u32::MAX;
/// There is none: not to be seen, since there are as many numbers as objects are let be made.
pub(crate) const NO_NUMBER: Error = Error::NotReady("no user index is free");

/// Which of a QP's CQs.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Send = 0,
    Receive = 1,
}

/// Where a QP stands.
#[repr(C, align(16))]
struct Place {
    /// Null where nobody stands.
    target: AtomicPtr<Target>,
    /// The CQs of sends and of receives. [`NO_CQN`] where `target` must not be followed.
    cqs: [AtomicU32; 2],
}

/// The table. Looking up takes no lock; changing it is for one caller at a time.
pub(crate) struct Users {
    places: NonNull<Place>,
    mask: u32,
}

/// A target without a number, with queues of one entry that nobody uses: what completions of an XRC SRQ lead to. In state
/// memory.
pub(crate) struct Queueless(NonNull<Memory>);

// SAFETY: an address of memory that is owned.
unsafe impl Send for Queueless {}

#[repr(C)]
struct Memory {
    target: Target,
    slot: wq::SendSlot,
    wr_id: AtomicU64,
}

impl Queueless {
    /// Must be given back with [`free`](Self::free).
    pub(crate) fn new<H: Platform>(hal: &H) -> Result<Self, Error> {
        let memory: NonNull<Memory> = hal.state_alloc(Layout::new::<Memory>()).map_err(platform)?.cast();
        // SAFETY: memory of this layout, unused by anybody else; the queues' entries, zeroed, lie in it.
        unsafe {
            let at = memory.as_ptr();
            let (send, _) = wq::SendQueue::new(NonNull::new_unchecked(&raw mut (*at).slot), 0);
            let (recv, _) = wq::RecvQueue::new(NonNull::new_unchecked(&raw mut (*at).wr_id), 0);
            (&raw mut (*at).target).write(Target::new(QpType::Rc, send, recv, None));
        }
        Ok(Self(memory))
    }

    /// The target.
    pub(crate) fn target(&self) -> NonNull<Target> {
        self.0.cast()
    }

    /// Makes it the one of an XRC SRQ.
    ///
    /// # Safety
    /// It stands in no table yet, and the slots live as long as it does.
    pub(crate) unsafe fn receive_into(&self, slots: NonNull<SrqSlots>) {
        // SAFETY: nobody else knows the target yet (the caller's promise).
        unsafe { self.target().as_mut() }.share(slots);
    }

    /// Gives the memory back; nobody looks at the target any more.
    pub(crate) fn free<H: Platform>(self, hal: &H) {
        // SAFETY: allocated in `new` with this layout; `self` is consumed.
        unsafe { hal.state_free(self.0.cast(), Layout::new::<Memory>()) };
    }
}

/// The looking side: two words, which a loop keeps in registers.
#[derive(Clone, Copy)]
pub(crate) struct Lookup {
    places: NonNull<Place>,
    mask: u32,
}

// SAFETY: the table holds addresses in atomics; whoever follows one answers for the object.
unsafe impl Send for Users {}
// SAFETY: as above.
unsafe impl Sync for Users {}

impl Lookup {
    /// The QP that has a number, if what completes on this side of it goes to the CQ `cqn`. Bits above the mask are
    /// ignored.
    ///
    /// # Safety
    /// The lock of that CQ is held for as long as the QP is looked at.
    #[inline(always)]
    pub(crate) unsafe fn get<'a>(self, number: u32, side: Side, cqn: u32) -> Option<&'a Target> {
        // SAFETY: the index is masked to the table, which lives while somebody looks (promise of `Users::lookup`).
        let place = unsafe { self.places.add((number & self.mask) as usize).as_ref() };
        // Acquire: the address was written before. It stays as long as the CQ's lock is held, since the QP waits for the
        // lock between taking the number away and leaving the place; had it waited before, the number would be gone.
        if place.cqs[side as usize].load(Ordering::Acquire) != cqn {
            return None;
        }
        let target = place.target.load(Ordering::Relaxed);
        // SAFETY: the address of a QP that waits for the CQ's lock before it goes.
        unsafe {
            core::hint::assert_unchecked(!target.is_null());
            Some(&*target)
        }
    }
}

impl Users {
    fn layout(mask: u32) -> Result<Layout, Error> {
        Layout::array::<Place>(mask as usize + 1)
            .map_err(|_| Error::Platform(bareverbs::PlatformError::OutOfMemory { wanted: u64::MAX }))
    }

    /// An empty table for `limit` QPs and XRC SRQs, at most 2^24. Must be given back with [`free`](Self::free).
    pub(crate) fn new<H: Platform>(hal: &H, limit: u32) -> Result<Self, Error> {
        let mask = limit.clamp(1, 1 << 24).next_power_of_two() - 1;
        let places = hal.state_alloc(Self::layout(mask)?).map_err(platform)?.cast::<Place>();
        for n in 0..=mask as usize {
            let cqs = [AtomicU32::new(NO_CQN), AtomicU32::new(NO_CQN)];
            // SAFETY: inside the table, which nobody else knows yet.
            unsafe { places.add(n).write(Place { target: AtomicPtr::new(null_mut()), cqs }) };
        }
        Ok(Self { places, mask })
    }

    /// Gives the memory back.
    pub(crate) fn free<H: Platform>(self, hal: &H) {
        if let Ok(layout) = Self::layout(self.mask) {
            // SAFETY: allocated in `new` with this layout; the table is consumed.
            unsafe { hal.state_free(self.places.cast(), layout) };
        }
    }

    /// The looking side.
    ///
    /// # Safety
    /// The table is not given back while somebody looks.
    #[inline(always)]
    pub(crate) unsafe fn lookup(&self) -> Lookup {
        Lookup { places: self.places, mask: self.mask }
    }

    fn place(&self, number: u32) -> &Place {
        // SAFETY: the index is masked to the table.
        unsafe { self.places.add((number & self.mask) as usize).as_ref() }
    }

    /// Puts a QP at a free number below `limit`, searching from `hint` on, with the CQs of its sends and receives. `None`
    /// if there is none.
    ///
    /// # Safety
    /// The QP stays until it was [hidden](Self::hide) and the locks of both CQs were taken after that.
    pub(crate) unsafe fn insert(&self, hint: u32, limit: u32, target: NonNull<Target>, cqs: [u32; 2]) -> Option<u32> {
        let limit = limit.min(self.mask + 1);
        let is_free = |number: &u32| self.place(*number).target.load(Ordering::Relaxed).is_null();
        let number = (hint..limit).chain(0..hint.min(limit)).find(is_free)?;
        let place = self.place(number);
        place.target.store(target.as_ptr(), Ordering::Relaxed);
        // Release: the address stands there before anybody follows it.
        place.cqs[Side::Send as usize].store(cqs[0], Ordering::Release);
        place.cqs[Side::Receive as usize].store(cqs[1], Ordering::Release);
        Some(number)
    }

    /// A number that leads to the same place, told from the others that do by a count in the bits which nobody looks up.
    pub(crate) fn told_apart(&self, number: u32, count: u32) -> u32 {
        number | count << self.mask.count_ones() & 0xff_ffff
    }

    /// Whoever takes the lock of a CQ from now on does not follow the number any more.
    pub(crate) fn hide(&self, number: u32) {
        self.place(number).cqs.iter().for_each(|cq| cq.store(NO_CQN, Ordering::Relaxed));
    }

    /// Leaves the place of a number that is [hidden](Self::hide), after the locks of both CQs were taken.
    pub(crate) fn remove(&self, number: u32) {
        self.place(number).target.store(null_mut(), Ordering::Relaxed);
    }
}
