//! The posting side of receive queues: a QP's own ([`RecvRing`]) and a shared one ([`SrqRing`]).

use crate::{
    record::Record,
    wqe::{self, Element},
};
use bareverbs::{
    PostError, PostListError, RecvWr, Sge,
    srq::{SrqPoster, SrqSlots},
    sync::writes_device_memory,
    wq::{RecvPoster, RecvQueue},
};
use bareverbs_hal::Dma;
use bareverbs_mlx5_prm::wqe::DS;
use core::{borrow::Borrow, ptr::NonNull};

/// The longest element of a receive: its byte count has 31 bits.
const MAX_ELEMENT: u32 = (1 << 31) - 1;

/// Memory of a ring of receive WQEs.
#[derive(Clone, Copy)]
pub(crate) struct RecvMemory {
    /// The ring, aligned to its stride.
    pub start: NonNull<u8>,
    /// Bytes from one WQE to the next.
    pub stride: usize,
    /// The receive dword of the doorbell record.
    pub record: Record,
}

impl RecvMemory {
    /// A WQE that is written now.
    #[inline(always)]
    fn wqe(&self, slot: u32) -> NonNull<u8> {
        // SAFETY: slots are masked to the ring, and so are places of the list of an SRQ.
        let at = unsafe { self.start.add(slot as usize * self.stride) };
        writes_device_memory(at.as_ptr());
        at
    }
}

/// The element of a list of one that is neither empty nor too long.
#[inline(always)]
fn one(sges: &[Sge]) -> Option<Element> {
    let [sge] = sges else { return None };
    let element = Element::new(sge);
    if element.len().wrapping_sub(1) >= MAX_ELEMENT { None } else { Some(element) }
}

/// Writes the list of a receive WQE of one element.
///
/// # Safety
/// `at` has room for `max_sge` segments that nobody else uses, at least one.
#[inline(always)]
unsafe fn scatter_one(at: NonNull<u8>, max_sge: u32, element: Element) {
    // SAFETY: one segment, and where there is room for a second, that.
    unsafe {
        if max_sge > 1 {
            wqe::end_of_list(at.add(DS));
        }
        element.write_short(at);
    }
}

/// Writes a receive WQE of one element that links to another slot.
///
/// # Safety
/// `at` has room for a next segment and `max_sge` others that nobody else uses, at least one.
#[inline(always)]
unsafe fn link_one(at: NonNull<u8>, max_sge: u32, element: Element, next: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        scatter_one(at.add(DS), max_sge, element);
        wqe::next(at, next);
    }
}

/// Writes the list of a receive WQE.
///
/// # Safety
/// `at` has room for `max_sge` segments that nobody else uses.
unsafe fn scatter(mut at: NonNull<u8>, max_sge: u32, sges: &[Sge]) -> Result<(), PostError> {
    if sges.len() > max_sge as usize {
        return Err(PostError::TooManySge { max: max_sge });
    }
    let mut left = max_sge;
    for sge in sges {
        if sge.length() > MAX_ELEMENT {
            return Err(PostError::MessageTooLong { max: MAX_ELEMENT });
        }
        // An empty element takes no place: its byte count would mean something else.
        if sge.length() == 0 {
            continue;
        }
        // SAFETY: at most `max_sge` segments.
        unsafe {
            Element::new(sge).write(at);
            at = at.add(DS);
        }
        left -= 1;
    }
    if left > 0 {
        // SAFETY: fewer than `max_sge` segments were written.
        unsafe { wqe::end_of_list(at) };
    }
    Ok(())
}

/// The ring of a QP's own receive queue, as its one poster sees it.
pub(crate) struct RecvRing {
    poster: RecvPoster,
    memory: RecvMemory,
    /// Requests that may be outstanding now: 0 while the QP's state forbids posting.
    open: u32,
    max_sge: u32,
    /// Requests that may be outstanding; 0 without a receive queue.
    limit: u32,
}

impl RecvRing {
    /// # Safety
    /// The memory is valid as it says for as long as the ring lives; nobody else writes it.
    pub(crate) unsafe fn new(memory: RecvMemory, poster: RecvPoster, limit: u32, max_sge: u32) -> Self {
        Self { poster, memory, open: 0, max_sge, limit }
    }

    /// Lets requests through, or not.
    pub(crate) fn set_open(&mut self, open: bool) {
        self.open = if open { self.limit } else { 0 };
        self.poster.forget_room();
    }

    /// Whether the QP's state lets requests through.
    pub(crate) fn is_open(&self) -> bool {
        self.open == self.limit
    }

    /// Begins at slot 0 again, as the device does after a reset, and clears the doorbell record.
    pub(crate) fn reset(&mut self, queue: &RecvQueue) {
        queue.reset(&mut self.poster);
        self.memory.record.clear();
    }

    /// Posts a request of one element. `false`, and nothing was done, for any other, and if the ring looks full.
    #[inline(always)]
    pub(crate) fn post_short<H: Dma>(&mut self, queue: &RecvQueue, hal: &H, wr: &RecvWr<'_>) -> bool {
        let pushed = self.push_short(wr);
        if pushed {
            self.ring(queue, hal);
        }
        pushed
    }

    /// Pushes a request of one element. `false`, and nothing was done, for any other, and if the ring looks full.
    #[inline(always)]
    pub(crate) fn push_short(&mut self, wr: &RecvWr<'_>) -> bool {
        if !self.poster.has_known_room() {
            return false;
        }
        let Some(element) = one(wr.sges) else { return false };
        // SAFETY: a slot of the ring that is free, with room for `max_sge` segments.
        unsafe { scatter_one(self.memory.wqe(self.poster.slot()), self.max_sge, element) };
        self.poster.push(wr.wr_id);
        true
    }

    /// Whether there is room where none was known.
    pub(crate) fn look(&mut self, queue: &RecvQueue) -> bool {
        !self.poster.has_known_room() && self.poster.has_room(queue, self.open)
    }

    /// Pushes a list. What the short way does not take goes to `long`, and so does what does not fit.
    #[inline(always)]
    pub(crate) fn push_list<'a>(
        &mut self,
        list: impl Iterator<Item: Borrow<RecvWr<'a>>>,
        mut long: impl FnMut(&mut Self, &RecvWr<'_>) -> Result<(), PostError>,
    ) -> Result<(), PostListError> {
        let (mut poster, max_sge) = (self.poster, self.max_sge);
        let begin = poster.posted();
        for wr in list {
            let wr = wr.borrow();
            if let (true, Some(element)) = (poster.has_known_room(), one(wr.sges)) {
                // SAFETY: a slot of the ring that is free, with room for `max_sge` segments.
                unsafe { scatter_one(self.memory.wqe(poster.slot()), max_sge, element) };
                poster.push(wr.wr_id);
                continue;
            }
            self.poster.catch_up(poster);
            let index = poster.posted().wrapping_sub(begin) as usize;
            long(self, wr).map_err(|error| PostListError { index, error })?;
            poster = self.poster;
        }
        self.poster.catch_up(poster);
        Ok(())
    }

    /// Writes one request to the ring.
    #[inline(never)]
    pub(crate) fn push(&mut self, queue: &RecvQueue, wr: &RecvWr<'_>) -> Result<(), PostError> {
        if !self.poster.has_room(queue, self.open) {
            return Err(PostError::QueueFull);
        }
        // SAFETY: a slot of the ring that is free, with room for `max_sge` segments.
        unsafe { scatter(self.memory.wqe(self.poster.slot()), self.max_sge, wr.sges)? };
        self.poster.push(wr.wr_id);
        Ok(())
    }

    /// Tells the device of all requests pushed. To say it twice does no harm.
    #[inline(always)]
    pub(crate) fn ring<H: Dma>(&mut self, queue: &RecvQueue, hal: &H) {
        self.poster.publish(queue);
        self.memory.record.tell(hal, self.poster.posted());
    }
}

/// The ring of a shared receive queue, as its one poster sees it.
pub(crate) struct SrqRing {
    poster: SrqPoster,
    memory: RecvMemory,
    max_sge: u32,
}

impl SrqRing {
    /// # Safety
    /// The memory is zeroed and valid as it says for as long as the ring lives; nobody else writes it.
    pub(crate) unsafe fn new(memory: RecvMemory, poster: SrqPoster, max_sge: u32) -> Self {
        Self { poster, memory, max_sge }
    }

    /// Posts a request of one element. `false`, and nothing was done, for any other, and if the ring looks full.
    #[inline(always)]
    pub(crate) fn post_short<H: Dma>(&mut self, hal: &H, wr: &RecvWr<'_>) -> bool {
        let Some(place) = self.poster.known_place() else { return false };
        let Some(element) = one(wr.sges) else { return false };
        // The count before the ring is written, while it is in a register.
        self.poster.take(place, wr.wr_id);
        let posted = self.poster.posted();
        // SAFETY: a slot of the ring that is free, with room for a next segment and `max_sge` others.
        unsafe { link_one(self.memory.wqe(place.slot), self.max_sge, element, place.next) };
        self.memory.record.tell(hal, posted);
        true
    }

    /// Pushes a list.
    #[inline(always)]
    pub(crate) fn push_list<'a>(
        &mut self,
        slots: &SrqSlots,
        list: impl Iterator<Item: Borrow<RecvWr<'a>>>,
    ) -> Result<(), PostListError> {
        // Copies, which the ring's stores cannot change, as far as the compiler knows.
        let (mut poster, max_sge, memory) = (self.poster, self.max_sge, self.memory);
        let begin = poster.posted();
        for wr in list {
            let wr = wr.borrow();
            if let Some(place) = poster.known_place()
                && let Some(element) = one(wr.sges)
            {
                // SAFETY: a slot of the ring that is free, with room for a next segment and `max_sge` others.
                unsafe { link_one(memory.wqe(place.slot), max_sge, element, place.next) };
                poster.take(place, wr.wr_id);
                continue;
            }
            self.poster.catch_up(poster);
            let index = poster.posted().wrapping_sub(begin) as usize;
            self.push(slots, wr).map_err(|error| PostListError { index, error })?;
            poster = self.poster;
        }
        self.poster.catch_up(poster);
        Ok(())
    }

    /// Writes one request to the ring.
    #[inline(never)]
    pub(crate) fn push(&mut self, slots: &SrqSlots, wr: &RecvWr<'_>) -> Result<(), PostError> {
        let Some(place) = self.poster.place(slots) else { return Err(PostError::QueueFull) };
        let at = self.memory.wqe(place.slot);
        // SAFETY: a slot of the ring that is free, with room for a next segment and `max_sge` others.
        unsafe {
            scatter(at.add(DS), self.max_sge, wr.sges)?;
            wqe::next(at, place.next);
        }
        self.poster.take(place, wr.wr_id);
        Ok(())
    }

    /// Tells the device of all requests pushed. To say it twice does no harm.
    #[inline(always)]
    pub(crate) fn ring<H: Dma>(&mut self, hal: &H) {
        self.memory.record.tell(hal, self.poster.posted());
    }
}

#[cfg(test)]
#[path = "rq_explore_tests.rs"]
mod explore_tests;
