//! From the user index in a completion queue entry to the QP or XRC SRQ: one level, as large as their numbers that were
//! fixed at open, reached by a mask alone, so that no number a device tells can lead outside. Empty places lead to a QP that
//! nobody has, whose number no entry names: a completion looks nowhere whether there is one.

use crate::{error::platform, target::Target};
use bareverbs::{Error, QpType, srq::SrqSlots, wq};
use bareverbs_hal::Platform;
use core::{
    alloc::Layout,
    ptr::NonNull,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

/// The table. Looking up takes no lock; changing it is for one caller at a time.
pub(crate) struct Users {
    places: NonNull<AtomicPtr<Target>>,
    mask: u32,
    nobody: Queueless,
}

/// A target without a number, with queues of one entry that nobody uses: what stands in empty places, and what
/// completions of an XRC SRQ lead to. In state memory.
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
    places: NonNull<AtomicPtr<Target>>,
    mask: u32,
}

// SAFETY: the table holds addresses in atomics; whoever follows one answers for the object.
unsafe impl Send for Users {}
// SAFETY: as above.
unsafe impl Sync for Users {}

impl Lookup {
    /// Who has a number; a QP without a number if nobody has. Bits above the mask are ignored.
    #[inline(always)]
    pub(crate) fn get(self, number: u32) -> NonNull<Target> {
        // SAFETY: the index is masked to the table, which lives while somebody looks (promise of `Users::lookup`).
        let place = unsafe { self.places.add((number & self.mask) as usize).as_ref() };
        // SAFETY: no place is ever null.
        unsafe { NonNull::new_unchecked(place.load(Ordering::Acquire)) }
    }
}

impl Users {
    fn layout(mask: u32) -> Result<Layout, Error> {
        Layout::array::<AtomicPtr<Target>>(mask as usize + 1)
            .map_err(|_| Error::Platform(bareverbs::PlatformError::OutOfMemory { wanted: u64::MAX }))
    }

    /// An empty table for `limit` QPs and XRC SRQs, at most 2^24. Must be given back with [`free`](Self::free).
    pub(crate) fn new<H: Platform>(hal: &H, limit: u32) -> Result<Self, Error> {
        let mask = limit.clamp(1, 1 << 24).next_power_of_two() - 1;
        let layout = Self::layout(mask)?;
        let nobody = Queueless::new(hal)?;
        let places = match hal.state_alloc(layout) {
            Ok(memory) => memory.cast::<AtomicPtr<Target>>(),
            Err(e) => {
                nobody.free(hal);
                return Err(platform(e));
            }
        };
        let target = nobody.target();
        for n in 0..=mask {
            // SAFETY: inside the table, which nobody else knows yet.
            unsafe { places.add(n as usize).write(AtomicPtr::new(target.as_ptr())) };
        }
        Ok(Self { places, mask, nobody })
    }

    /// Gives the memory back.
    pub(crate) fn free<H: Platform>(self, hal: &H) {
        // SAFETY: allocated in `new` with these layouts; the table is consumed.
        unsafe {
            if let Ok(layout) = Self::layout(self.mask) {
                hal.state_free(self.places.cast(), layout);
            }
        }
        self.nobody.free(hal);
    }

    /// The looking side.
    ///
    /// # Safety
    /// The table is not given back while somebody looks.
    #[inline(always)]
    pub(crate) unsafe fn lookup(&self) -> Lookup {
        Lookup { places: self.places, mask: self.mask }
    }

    fn place(&self, number: u32) -> &AtomicPtr<Target> {
        // SAFETY: the index is masked to the table.
        unsafe { self.places.add((number & self.mask) as usize).as_ref() }
    }

    /// Puts a target at a free number below `limit`, searching from `hint` on. `None` if there is none.
    pub(crate) fn insert(&self, hint: u32, limit: u32, target: NonNull<Target>) -> Option<u32> {
        let limit = limit.min(self.mask + 1);
        let nobody = self.nobody.target().as_ptr();
        let is_free = |number: &u32| self.place(*number).load(Ordering::Relaxed) == nobody;
        let number = (hint..limit).chain(0..hint.min(limit)).find(is_free)?;
        self.place(number).store(target.as_ptr(), Ordering::Release);
        Some(number)
    }

    /// Takes away who stands at a number.
    pub(crate) fn remove(&self, number: u32) {
        self.place(number).store(self.nobody.target().as_ptr(), Ordering::Release);
    }
}
