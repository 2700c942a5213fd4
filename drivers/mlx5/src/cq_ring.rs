//! The consuming side of a completion queue.

use crate::{
    cqe::{Context, Entry, Receive, completed, receive, request},
    target::{Receives, Target},
    users::{Lookup, NO_CQN, Side},
};
use bareverbs::{
    Completion, Error, PollError, Qpn, WcOpcode,
    cq::Consumer,
    sync::{AtomicU32, Ordering, reads_device_memory},
};
use bareverbs_hal::Dma;
use bareverbs_mlx5_prm::{
    cqe::{op_own, opcode},
    registers::doorbell_record,
    wqe,
};
use core::ptr::NonNull;

#[path = "cq_entries.rs"]
mod entries;
pub(crate) use entries::{Next, Ring};

/// Log of the polls after which the device's events are looked at.
pub(crate) const LOG_POLLS: u32 = 12;
/// Parts of `op_own` that tell whether the entry is there and what it is.
const KIND: u8 = !op_own::SOLICITED;
/// What came of an entry.
enum Taken {
    /// A completion, which was written to its place.
    Done,
    /// There is none yet.
    Empty,
    /// The entry tells of no request.
    Bad(PollError),
}

/// A completion that a view shows.
#[derive(Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) entry: Entry,
    pub(crate) wr_id: u64,
    pub(crate) qpn: u32,
    pub(crate) opcode: WcOpcode,
    context: Option<Context>,
    /// Of a raw packet QP.
    frames: bool,
}

impl Shown {
    /// All of it.
    #[inline(always)]
    pub(crate) fn completion(&self) -> Completion {
        let Shown { entry, wr_id, qpn, opcode: work, context, frames } = *self;
        let kind = receive(entry.op_own() & !op_own::OWNER);
        let mut completion = Completion::default();
        match entry.work() {
            _ if kind.good() && frames => {
                entry.received_frame(&mut completion, wr_id, qpn);
                completion
            }
            _ if kind.good() => {
                match context {
                    None => entry.received(&mut completion, wr_id, qpn, kind),
                    Some(context) => entry.received_datagram(&mut completion, wr_id, qpn, kind, context),
                }
                completion
            }
            Some(_) if entry.opcode() == opcode::REQ => {
                if let Some(request) = request(entry.sop_qpn() >> 24) {
                    entry.sent(&mut completion, wr_id, qpn, request);
                }
                completion
            }
            // A request that changed a memory key.
            None if entry.opcode() == opcode::REQ => {
                Completion { wr_id, opcode: work, qpn: Qpn::new(qpn), ..completion }
            }
            _ => entry.failed(wr_id, qpn),
        }
    }
}

/// A CQ's ring and where its one consumer stands.
pub(crate) struct CqRing {
    pub(crate) ring: Ring,
    pub(crate) consumer: Consumer,
    /// The newest entry that was taken is still read by a view, so the device must not get it back.
    held: bool,
    /// Where it stands.
    shown: u32,
    /// Where the consumer stood then: a poll that goes on from there holds nothing (the view was forgotten).
    held_at: u32,
    /// The error that a poll met first, until it is told.
    refused: Option<PollError>,
    /// Entries taken since [`is_due`](Self::is_due) said so, as far as they were counted: a lap of the ring at its end.
    unserved: u32,
    /// Doorbell record: consumer index, and the dword that arms.
    record: NonNull<[AtomicU32; 2]>,
    /// From user indices to QPs.
    users: Lookup,
    /// Its number, by which it knows its QPs.
    pub(crate) cqn: u32,
    /// All ones on an InfiniBand port, 0 on Ethernet.
    infiniband: u32,
    /// Other threads post to the SRQs meanwhile.
    shared: bool,
}

// SAFETY: the ring's memory is reached by one consumer at a time, which holds this exclusively.
unsafe impl Send for CqRing {}

impl CqRing {
    /// # Safety
    /// `ring` and `record` are valid for as long as this is used, and nobody else but the device touches them; `users` is
    /// valid as long.
    pub(crate) unsafe fn new(
        ring: Ring,
        record: NonNull<[AtomicU32; 2]>,
        users: Lookup,
        infiniband: bool,
        shared: bool,
    ) -> Self {
        Self {
            ring,
            consumer: Consumer::new(ring.log),
            held: false,
            shown: 0,
            held_at: 0,
            refused: None,
            unserved: 0,
            record,
            users,
            cqn: NO_CQN,
            infiniband: if infiniband { u32::MAX } else { 0 },
            shared,
        }
    }

    /// A dword of the doorbell record.
    #[inline(always)]
    fn record(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: valid for as long as this is (promise of `new`).
        let [consumer, arm] = unsafe { self.record.as_ref() };
        if offset == doorbell_record::CQ_SET_CI { consumer } else { arm }
    }

    /// The consumer index as the device is told it.
    pub(crate) fn index(&self) -> u32 {
        self.consumer.index() & 0xff_ffff
    }

    /// Tells the device how far the ring was consumed.
    #[inline(always)]
    pub(crate) fn publish(&self) {
        // Release: entries were read before the device may overwrite them.
        self.record(doorbell_record::CQ_SET_CI).store(self.index().to_be(), Ordering::Release);
    }

    /// Whether a view still reads an entry.
    fn holds(&self) -> bool {
        self.held && self.held_at == self.consumer.index()
    }

    /// The same, but for an entry that a view still reads.
    fn publish_but_shown(&self) {
        let index = if self.holds() { self.shown & 0xff_ffff } else { self.index() };
        self.record(doorbell_record::CQ_SET_CI).store(index.to_be(), Ordering::Release);
    }

    /// Writes the dword that arms.
    pub(crate) fn write_arm(&self, value: u32) {
        self.record(doorbell_record::CQ_ARM).store(value.to_be(), Ordering::Release);
    }

    /// Takes one completion. `false`, and nothing was done, if there is none that [`take_short`](Self::take_short) takes, and
    /// for the last of the ring.
    #[inline(always)]
    pub(crate) fn poll_one<H: Dma>(&mut self, next: &Next, hal: &H, shared: bool, place: &mut Completion) -> bool {
        let (entry, owner) = next.get();
        if self.ring.is_last(entry) || !self.take_short(entry, Self::kind(hal, entry, owner), shared, place) {
            return false;
        }
        next.advance(&self.ring);
        self.consumer = self.consumer.plus(1);
        self.publish();
        true
    }

    /// Takes up to `out.len()` completions. The error is that so many were taken, and the rest is for
    /// [`poll_odd`](Self::poll_odd): others, or to begin the ring anew.
    #[inline(always)]
    pub(crate) fn poll_many<H: Dma>(
        &mut self,
        next: &Next,
        hal: &H,
        shared: bool,
        out: &mut [Completion],
    ) -> Result<usize, u32> {
        let (mut entry, owner) = next.get();
        // As far as the end of the ring, so that the loops need not look for it.
        let lap = out.len().min(self.ring.lap(self.consumer));
        let places = out.get_mut(..lap).unwrap_or_default();
        let mut taken = 0;
        // A loop for each sort of entry: it jumps once for each, and a processor that remembers so many jumps knows after
        // 16 entries that the batch ends. One loop for both guesses wrong at each end.
        loop {
            let before = taken;
            while let Some(place) = places.get_mut(taken)
                && Self::kind(hal, entry, owner) & KIND == opcode::REQ
                && self.take_request(entry, place)
            {
                (entry, taken) = (self.ring.behind(entry), taken + 1);
            }
            while let Some(place) = places.get_mut(taken)
                && self.take_receive(entry, receive(Self::kind(hal, entry, owner)), shared, place)
            {
                (entry, taken) = (self.ring.behind(entry), taken + 1);
            }
            if taken == lap || taken == before {
                break;
            }
        }
        let all =
            if taken == lap { !self.ring.is_end(entry) } else { Self::kind(hal, entry, owner) & op_own::OWNER != 0 };
        if !all {
            return Err(taken as u32);
        }
        Ok(self.took(next, entry, owner, taken as u32))
    }

    /// What the entry is, by `op_own`: its owner bit 0 if it is there. What else it tells is read after this.
    #[inline(always)]
    fn kind<H: Dma>(hal: &H, entry: Entry, owner: u8) -> u8 {
        let kind = entry.op_own() ^ owner;
        hal.dma_rmb();
        kind
    }

    /// The rest of a poll, from an entry that does not come every day or the first of the ring; `taken` were before it.
    /// Where none was taken, [`refusal`](Self::refusal) says why.
    pub(crate) fn poll_odd<H: Dma>(&mut self, next: &Next, hal: &H, out: &mut [Completion], mut taken: u32) -> usize {
        let consumer = self.consumer.plus(taken);
        let (mut entry, mut owner) = (self.ring.entry(consumer), consumer.owner());
        for place in out.iter_mut().skip(taken as usize) {
            match self.take(hal, entry, owner, place) {
                Taken::Done => {}
                Taken::Empty => break,
                Taken::Bad(error) => {
                    // Told when it comes first, and gone over at once, for a sweep may take it out; behind others the
                    // next poll meets it again.
                    if taken == 0 {
                        self.refused = Some(error);
                        (entry, owner) = self.after(entry, owner);
                        self.took(next, entry, owner, 1);
                        return 0;
                    }
                    break;
                }
            }
            taken += 1;
            (entry, owner) = self.after(entry, owner);
        }
        // Where nothing was taken nothing is told: what a forgotten view holds would be told twice.
        if taken == 0 {
            return 0;
        }
        let lap = self.consumer.index() >> self.ring.log;
        let taken = self.took(next, entry, owner, taken);
        let same = self.consumer.index() >> self.ring.log == lap;
        self.unserved += if same { taken as u32 } else { 1 << self.ring.log };
        taken
    }

    /// Whether so many entries were taken that the device's events are to be looked at: of a program that always finds
    /// something, nobody else would.
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.unserved >> LOG_POLLS != 0;
        if due {
            self.unserved = 0;
        }
        due
    }

    /// The entry after another one, and its owner bit.
    #[inline(always)]
    fn after(&self, entry: Entry, owner: u8) -> (Entry, u8) {
        self.ring.wrap(self.ring.behind(entry), owner)
    }

    /// A poll took so many entries, and stands at this one now.
    #[inline(always)]
    fn took(&mut self, next: &Next, entry: Entry, owner: u8, n: u32) -> usize {
        next.set(entry, owner);
        self.consumer = self.consumer.plus(n);
        self.publish();
        n as usize
    }

    /// Why a poll took nothing: the error that it met, or there was none.
    #[cold]
    #[inline(never)]
    pub(crate) fn refusal(&mut self) -> Result<usize, PollError> {
        self.refused.take().map_or(Ok(0), Err)
    }

    /// Makes a completion of an entry, if it is there, and retires its request.
    fn take<H: Dma>(&self, hal: &H, entry: Entry, owner: u8, place: &mut Completion) -> Taken {
        let kind = (entry.op_own() ^ owner) & KIND;
        if kind & op_own::OWNER != 0 {
            return Taken::Empty;
        }
        hal.dma_rmb();
        if self.take_short(entry, kind, self.shared, place) { Taken::Done } else { self.odd(entry, kind, place) }
    }

    /// Makes a completion of an entry that is there and tells of a success, and retires its request. `false`, and nothing
    /// was done, for any other, and for receives of [`Receives::Odd`]. The completion is written to its place at once:
    /// built elsewhere and copied, its small fields would be read back before they have left the store buffer. There is
    /// no call in here, and nothing to be kept across one. `shared` is what the field says, for the compiler to know.
    #[inline(always)]
    fn take_short(&self, entry: Entry, kind: u8, shared: bool, place: &mut Completion) -> bool {
        if kind & KIND == opcode::REQ {
            self.take_request(entry, place)
        } else {
            self.take_receive(entry, receive(kind), shared, place)
        }
    }

    /// [`take_short`](Self::take_short) of a requester's entry.
    #[inline(always)]
    fn take_request(&self, entry: Entry, place: &mut Completion) -> bool {
        reads_device_memory(entry.0.as_ptr());
        let Some(target) = self.target(entry, Side::Send) else { return false };
        let raw_qpn = target.raw_qpn();
        // What is left of the QPN is zero if it is the QP's; then the send opcode stands alone.
        let Some(request) = request(entry.raw_sop_qpn() ^ raw_qpn) else { return false };
        let Some(wr_id) = target.send.complete(entry.wqe_counter()) else { return false };
        entry.sent(place, wr_id, raw_qpn.swap_bytes(), request);
        true
    }

    /// [`take_short`](Self::take_short) of a responder's entry.
    #[inline(always)]
    fn take_receive(&self, entry: Entry, kind: Receive, shared: bool, place: &mut Completion) -> bool {
        if !kind.good() {
            return false;
        }
        reads_device_memory(entry.0.as_ptr());
        let Some(target) = self.target(entry, Side::Receive) else { return false };
        let raw_qpn = target.raw_qpn();
        if u8::try_from(entry.raw_sop_qpn() ^ raw_qpn).is_err() {
            return false;
        }
        let wr_id = match target.receives {
            Receives::Own => target.recv.complete(),
            // SAFETY: a QP holds its SRQ, so the slots live as long as the target.
            Receives::Srq(slots) => unsafe { slots.as_ref() }.complete(entry.wqe_counter(), shared),
            Receives::Odd => None,
        };
        let Some(wr_id) = wr_id else { return false };
        entry.received(place, wr_id, raw_qpn.swap_bytes(), kind);
        true
    }

    /// The QP at the user index of an entry, if it completes to this CQ.
    #[inline(always)]
    fn target(&self, entry: Entry, side: Side) -> Option<&Target> {
        // SAFETY: this CQ's lock is held while there is a reference to this.
        unsafe { self.users.get(entry.raw_user_index(), side, self.cqn) }
    }

    /// What an entry does not tell of a receive; nothing on a connected QP, where an entry may tell of a GRH that is not
    /// delivered.
    #[inline(always)]
    fn context(&self, target: &Target) -> Option<Context> {
        let pkey_index = target.pkey_index.load(Ordering::Relaxed);
        target.datagram.then_some(Context { pkey_index, infiniband: self.infiniband })
    }

    /// Retires the receive that an entry names.
    #[inline(always)]
    fn receive(&self, target: &Target, entry: Entry) -> Option<u64> {
        match target.srq {
            // SAFETY: a QP holds its SRQ, so the slots live as long as the target.
            Some(slots) => unsafe { slots.as_ref() }.complete(entry.wqe_counter(), self.shared),
            None => target.recv.complete(),
        }
    }

    /// The entries that [`take_short`](Self::take_short) leaves: failed requests, what makes no sense, and those that are
    /// not there yet although their owner bit is already that of the lap, as in a ring just made. The device may write
    /// such a one at this moment, so what it is follows from `kind` alone, which was read once.
    fn odd(&self, entry: Entry, kind: u8, place: &mut Completion) -> Taken {
        let cqe_opcode = kind >> op_own::OPCODE_SHIFT;
        if cqe_opcode == opcode::INVALID {
            return Taken::Empty;
        }
        // Compressed, or with data inside: nothing that this driver asks for, and nothing in it is where it is read here.
        if kind & op_own::FORMAT_MASK != 0 {
            return Taken::Bad(PollError::BadEntry);
        }
        reads_device_memory(entry.0.as_ptr());
        let side = if matches!(cqe_opcode, opcode::REQ | opcode::REQ_ERR) { Side::Send } else { Side::Receive };
        let Some(target) = self.target(entry, side).filter(|target| target.is_of(entry)) else {
            return Taken::Bad(PollError::UnknownQp(Qpn::new(entry.qpn())));
        };
        if target.shared {
            return self.shared(target, entry, kind, place);
        }
        if cqe_opcode == opcode::REQ {
            return Self::key_changed(target, entry, place);
        }
        let wr_id = match cqe_opcode {
            opcode::REQ_ERR => target.send.complete(entry.wqe_counter()),
            opcode::RESP_ERR => self.receive(target, entry),
            _ => return self.datagram(target, entry, kind, place),
        };
        let Some(wr_id) = wr_id else { return Taken::Bad(PollError::BadEntry) };
        *place = entry.failed(wr_id, target.qpn());
        target.fail(entry.is_receive(), place.status);
        Taken::Done
    }

    /// Makes a completion of an entry that tells of a datagram, or of a frame.
    fn datagram(&self, target: &Target, entry: Entry, kind: u8, place: &mut Completion) -> Taken {
        let (good, context) = (receive(kind), self.context(target));
        let told = context.is_some() || target.frames && kind >> op_own::OPCODE_SHIFT == opcode::RESP_SEND;
        let wr_id = if told && good.good() { self.receive(target, entry) } else { None };
        let Some(wr_id) = wr_id else { return Taken::Bad(PollError::BadEntry) };
        match context {
            Some(context) => entry.received_datagram(place, wr_id, target.qpn(), good, context),
            None => entry.received_frame(place, wr_id, target.qpn()),
        }
        Taken::Done
    }

    /// Makes a completion of an entry that tells of a request that changed a memory key.
    fn key_changed(target: &Target, entry: Entry, place: &mut Completion) -> Taken {
        let opcode = completed(target.send.note(entry.wqe_counter()));
        let Some(opcode) = opcode.filter(|_| entry.sop_qpn() >> 24 == wqe::opcode::UMR.into()) else {
            return Taken::Bad(PollError::BadEntry);
        };
        let Some(wr_id) = target.send.complete(entry.wqe_counter()) else { return Taken::Bad(PollError::BadEntry) };
        *place = Completion { wr_id, opcode, qpn: Qpn::new(target.qpn()), ..Completion::default() };
        Taken::Done
    }

    /// Makes a completion of an entry that tells of a receive of an XRC SRQ, by whatever QP.
    fn shared(&self, target: &Target, entry: Entry, kind: u8, place: &mut Completion) -> Taken {
        let good = receive(kind);
        if !good.good() && kind >> op_own::OPCODE_SHIFT != opcode::RESP_ERR {
            return Taken::Bad(PollError::BadEntry);
        }
        let Some(wr_id) = self.receive(target, entry) else { return Taken::Bad(PollError::BadEntry) };
        match good.good() {
            true => entry.received(place, wr_id, entry.qpn(), good),
            false => *place = entry.failed(wr_id, entry.qpn()),
        }
        Taken::Done
    }

    /// Takes the next completion for a view to show.
    #[inline(always)]
    pub(crate) fn advance<H: Dma>(&mut self, hal: &H) -> Result<Option<Shown>, PollError> {
        let entry = self.ring.entry(self.consumer);
        let mut completion = Completion::default();
        let result = match self.take(hal, entry, self.consumer.owner(), &mut completion) {
            Taken::Done => {
                let side = if entry.is_receive() { Side::Receive } else { Side::Send };
                let target = self.target(entry, side);
                let frames = target.is_some_and(|target| target.frames);
                let qpn = target.filter(|_| frames).map_or(entry.qpn(), Target::qpn);
                let context = target.and_then(|target| self.context(target));
                let Completion { wr_id, opcode, .. } = completion;
                Ok(Shown { entry, wr_id, qpn, opcode, context, frames })
            }
            Taken::Empty => {
                self.end_view();
                return Ok(None);
            }
            Taken::Bad(error) => Err(error),
        };
        self.shown = self.consumer.index();
        self.consumer = self.consumer.plus(1);
        (self.held, self.held_at) = (result.is_ok(), self.consumer.index());
        self.publish_but_shown();
        result.map(Some)
    }

    /// A view reads no entry any more: the one that it read goes back to the device.
    pub(crate) fn end_view(&mut self) {
        if self.held {
            self.held = false;
            self.publish();
        }
    }

    /// Takes out all completions of the QP or XRC SRQ at a user index, and gives the slots of an SRQ back that they held.
    pub(crate) fn sweep<H: Dma>(&mut self, hal: &H, user_index: u32, target: &Target) {
        let ring = self.ring;
        let shared = self.shared;
        let held = self.holds();
        self.consumer = self.consumer.sweep(
            &mut (),
            |(), at| ring.is_new(at),
            |(), at| {
                hal.dma_rmb();
                let entry = ring.entry(at);
                reads_device_memory(entry.0.as_ptr());
                if entry.user_index() != user_index || !target.is_of(entry) {
                    return false;
                }
                let names_a_slot = entry.is_receive() && entry.op_own() & op_own::FORMAT_MASK == 0;
                if let (true, Some(slots)) = (names_a_slot, target.srq) {
                    // SAFETY: a QP holds its SRQ, so the slots live as long as the target.
                    unsafe { slots.as_ref() }.complete(entry.wqe_counter(), shared);
                }
                true
            },
            |(), from, to| ring.copy(from, &ring, to),
        );
        (self.held, self.held_at) = (held, self.consumer.index());
        self.publish_but_shown();
    }

    /// Entries that the device has written and nobody has taken.
    pub(crate) fn unpolled(&self) -> u32 {
        (0..1 << self.ring.log).find(|n| !self.ring.is_new(self.consumer.plus(*n))).unwrap_or(1 << self.ring.log)
    }

    /// Whether there are at most so many unpolled entries; rings have one entry more, for the last one of the old ring.
    pub(crate) fn fit(&self, entries: u32) -> Result<(), Error> {
        let unpolled = self.unpolled();
        if unpolled > entries { Err(Error::BelowUnpolled { unpolled }) } else { Ok(()) }
    }

    /// Goes over to another ring once the device has: copies the unpolled entries there, up to the one that says that
    /// the old ring ended. The device counts that one, so the others move one place on. `false`, and nothing changes,
    /// if it has not come yet.
    pub(crate) fn switch<H: Dma>(&mut self, hal: &H, new: Ring) -> bool {
        let old = self.ring;
        let unpolled = self.unpolled();
        let last = (0..unpolled).find(|n| old.entry(self.consumer.plus(*n)).opcode() == opcode::RESIZE_CQ);
        // More than the new ring holds cannot have come before the switch.
        let Some(last) = last.filter(|last| last >> new.log == 0) else { return false };
        hal.dma_rmb();
        let begin = Consumer::at(new.log, self.consumer.index().wrapping_add(1));
        for n in 0..last {
            old.copy(self.consumer.plus(n), &new, begin.plus(n));
        }
        self.ring = new;
        self.consumer = begin;
        self.publish_but_shown();
        true
    }
}

#[cfg(test)]
#[path = "cq_ring_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "cq_ring_explore_tests.rs"]
mod explore_tests;
