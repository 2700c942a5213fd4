//! Where completions lie: the entries of a ring, and where its consumer stands among them.

use super::CqRing;
use crate::{cqe::Entry, target::Target};
use bareverbs::{
    cq::Consumer,
    sync::{AtomicPtr, Ordering, reads_device_memory, write_device_byte, writes_device_memory},
};
use bareverbs_hal::Dma;
use bareverbs_mlx5_prm::cqe::{OP_OWN, op_own, opcode};
use core::ptr::NonNull;

/// The entries of a ring, whose memory somebody else owns.
#[derive(Clone, Copy)]
pub(crate) struct Ring {
    /// The last 64 bytes of entry 0, and where they would be behind the last entry.
    first: NonNull<u8>,
    end: NonNull<u8>,
    /// Bytes of an entry: 64 or 128.
    stride: usize,
    /// Log of the number of entries.
    pub(crate) log: u32,
    /// The bits of an index that do not name a place.
    beyond: u32,
    /// Log of the bytes of an entry: 6 or 7.
    pub(crate) log_stride: u32,
}

impl Ring {
    /// # Safety
    /// `start` is valid for `1 << log` entries of `1 << log_stride` bytes for as long as the ring is used, and aligned to
    /// 64 bytes.
    pub(crate) unsafe fn new(start: NonNull<u8>, log: u32, log_stride: u32) -> Self {
        let stride = 1 << log_stride;
        // SAFETY: inside the first entry.
        let first = unsafe { start.add(stride - 64) };
        // The end is compared with and never followed: with long entries it lies outside.
        let end = first.map_addr(|addr| addr.saturating_add(stride << log));
        Self { first, end, stride, log, beyond: u32::MAX << log, log_stride }
    }

    /// The entry that a consumer stands at.
    #[inline(always)]
    pub(crate) fn entry(&self, at: Consumer) -> Entry {
        let slot = (at.index() & ((1 << self.log) - 1)) as usize;
        // SAFETY: the slot is masked to the ring.
        Entry(unsafe { self.first.add(slot << self.log_stride) })
    }

    /// Whether the device has written the entry at a position.
    pub(crate) fn is_new(&self, at: Consumer) -> bool {
        let op_own = self.entry(at).op_own();
        op_own & op_own::OWNER == at.owner() && op_own >> op_own::OPCODE_SHIFT != opcode::INVALID
    }

    /// Makes every entry say that it is not there, whatever the memory held.
    pub(crate) fn invalidate(&self) {
        for index in 0..1 << self.log {
            let entry = self.entry(Consumer::at(self.log, index));
            // SAFETY: the owner byte of an entry; the device does not know the ring yet.
            unsafe { entry.0.add(OP_OWN).write(opcode::INVALID << op_own::OPCODE_SHIFT | op_own::OWNER) };
        }
    }

    /// Copies an entry to a position of another ring, or of this one, and gives it the owner bit of that place.
    pub(crate) fn copy(&self, from: Consumer, to_ring: &Ring, to: Consumer) {
        let (source, target) = (self.entry(from), to_ring.entry(to));
        let len = 1 << self.log_stride;
        debug_assert_eq!(self.log_stride, to_ring.log_stride);
        reads_device_memory(source.0.as_ptr());
        writes_device_memory(target.0.as_ptr());
        let op_own = source.op_own() & !op_own::OWNER | to.owner();
        // SAFETY: whole entries of two rings of the same stride, which the device has written and does not write now.
        // Their last byte is apart: a poll may look at it without the lock.
        unsafe {
            let before = len - 64;
            core::ptr::copy(source.0.sub(before).as_ptr(), target.0.sub(before).as_ptr(), before + OP_OWN);
            write_device_byte(target.0.add(OP_OWN).as_ptr(), op_own);
        }
    }

    /// The entry behind another one: the next, or [`end`](Self::end).
    #[inline(always)]
    pub(super) fn behind(&self, entry: Entry) -> Entry {
        // SAFETY: one that is compared with the end before it is followed.
        Entry(unsafe { entry.0.byte_add(self.stride) })
    }

    /// Entries from a position to the end.
    #[inline(always)]
    pub(super) fn lap(&self, at: Consumer) -> usize {
        (at.index() | self.beyond).wrapping_neg() as usize
    }

    /// Whether it is the end, where no entry is.
    #[inline(always)]
    pub(super) fn is_end(&self, entry: Entry) -> bool {
        entry.0 == self.end
    }

    /// Whether no entry lies behind it.
    #[inline(always)]
    pub(super) fn is_last(&self, entry: Entry) -> bool {
        self.is_end(self.behind(entry))
    }

    /// The first entry, of the other owner bit, in place of the end.
    #[inline(always)]
    pub(super) fn wrap(&self, entry: Entry, owner: u8) -> (Entry, u8) {
        if self.is_end(entry) { (Entry(self.first), owner ^ op_own::OWNER) } else { (entry, owner) }
    }
}

impl CqRing {
    /// Entries that are free once those of the QP at a user index are taken out, and how many of those tell of sends.
    pub(crate) fn room_without<H: Dma>(&self, hal: &H, user_index: u32, target: &Target) -> (u32, u32) {
        let (mut room, mut sends) = (1u32 << self.ring.log, 0);
        let shown = self.holds();
        for n in 0..self.unpolled() {
            hal.dma_rmb();
            let entry = self.ring.entry(self.consumer.plus(n));
            reads_device_memory(entry.0.as_ptr());
            let own = entry.user_index() == user_index && target.is_of(entry);
            sends += u32::from(own && !entry.is_receive());
            // While a view shows an entry, the device gets none back behind it.
            room -= u32::from(shown || !own);
        }
        let read = if shown { self.consumer.index().wrapping_sub(self.shown) } else { 0 };
        (room.saturating_sub(read), sends)
    }
}

/// Where a consumer stands, in one word that can be read without the CQ's lock: the address of the next entry (of its
/// last 64 bytes, which are aligned), with its owner bit in bit 0.
pub(crate) struct Next(AtomicPtr<u8>);

impl Next {
    /// At the beginning of a ring.
    pub(crate) fn new(ring: &CqRing) -> Self {
        let next = Self(AtomicPtr::new(core::ptr::null_mut()));
        next.set_from(ring);
        next
    }

    #[inline(always)]
    pub(super) fn set(&self, entry: Entry, owner: u8) {
        self.0.store(entry.0.as_ptr().map_addr(|addr| addr | usize::from(owner)), Ordering::Relaxed);
    }

    /// Steps to the next entry; it is not at the [last](Ring::is_last).
    #[inline(always)]
    pub(super) fn advance(&self, ring: &Ring) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_byte_add(ring.stride), Ordering::Relaxed);
    }

    /// Where the consumer of a ring stands now.
    pub(crate) fn set_from(&self, ring: &CqRing) {
        self.set(ring.ring.entry(ring.consumer), ring.consumer.owner());
    }

    #[inline(always)]
    pub(super) fn get(&self) -> (Entry, u8) {
        let word = self.0.load(Ordering::Relaxed);
        let entry = word.map_addr(|addr| addr & !usize::from(op_own::OWNER));
        // SAFETY: the address of an entry.
        (Entry(unsafe { NonNull::new_unchecked(entry) }), word.addr() as u8 & op_own::OWNER)
    }

    /// Whether the device has not written the next entry yet.
    ///
    /// # Safety
    /// The ring stays where it is meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn is_empty(&self) -> bool {
        let (entry, owner) = self.get();
        (entry.op_own() ^ owner) & op_own::OWNER != 0
    }
}
