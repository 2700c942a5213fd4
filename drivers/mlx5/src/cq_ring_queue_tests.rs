//! A completion ring between a scripted device and the driver, and the plain list that it must agree with.

use super::super::{
    tests::{Cqe, HOST, Line},
    *,
};
use bareverbs::WcOpcode;
use bareverbs_explore::wraps;
use std::{boxed::Box, collections::VecDeque, vec, vec::Vec};

/// What the device counts to.
const INDEX: u32 = 0xff_ffff;

/// What an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Send,
    Recv,
    /// It names a slot that is not with the device.
    Lie,
}

/// An unpolled entry: the user index and QPN in it, what it is for, and the id to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unpolled {
    pub(super) user: u32,
    pub(super) qpn: u32,
    pub(super) what: What,
    pub(super) id: u64,
}

/// What a poll or view says of an entry.
pub(super) type Found = Result<(u64, Qpn, WcOpcode), PollError>;

/// The owner byte, user index and QPN of each entry of a ring.
type Entries = Vec<(u8, u32, u32)>;
/// Consumer index, entries produced, index told; the ring, the one to come and whether the device is there; whether there
/// is a view and it shows something; whether an entry is held back, and by whom; what the unpolled entries are.
pub(super) type QueueState =
    ([u32; 3], Entries, Option<(Entries, bool)>, Option<bool>, [bool; 3], Vec<(u32, u32, What)>);

/// A device's ring: memory, log of its entries, and how many it has written since the beginning.
pub(super) struct DeviceRing {
    memory: Vec<Line>,
    log: u32,
    /// Log of the bytes of an entry: 6 or 7.
    log_stride: u32,
}

/// A CQ between device and driver.
pub(super) struct Queue {
    pub(super) ring: CqRing,
    pub(super) next: Next,
    record: Box<[AtomicU32; 2]>,
    device: DeviceRing,
    produced: u32,
    /// Where the counters began.
    start: u32,
    pub(super) list: VecDeque<Unpolled>,
    /// What the view shows, if there is one.
    view: Option<Option<(Shown, Unpolled)>>,
    /// A view was forgotten while it showed an entry, and the device did not get it back yet.
    forgotten: bool,
    /// Where a resize goes: the new ring, and whether the device has changed over.
    resize: Option<(DeviceRing, bool)>,
    /// Rings of before.
    old: Vec<Line>,
    /// Other threads are at work, as far as the queue knows.
    shared: bool,
}

impl DeviceRing {
    fn new(log: u32, log_stride: u32) -> Self {
        let ring = Self { memory: vec![Line([0x5a; 128]); 1 << log], log, log_stride };
        ring.driver().invalidate();
        ring
    }

    /// As the driver reaches it.
    fn driver(&self) -> Ring {
        let first = NonNull::from(&self.memory[0]).cast();
        // SAFETY: the memory has that many entries of either size, is aligned, and is kept as long as the ring is used.
        unsafe { Ring::new(first, self.log, self.log_stride) }
    }

    fn write(&mut self, index: u32, mut cqe: Cqe) {
        cqe.0[63] |= (index >> self.log) as u8 & 1;
        let end = ((index & ((1 << self.log) - 1)) as usize + 1) << self.log_stride;
        let at = end - 64;
        self.memory[at / 128].0[at % 128..at % 128 + 64].copy_from_slice(&cqe.0);
    }
}

impl Queue {
    /// A ring of these logs of entries and of an entry's bytes.
    pub(super) fn new(size: (u32, u32), start: u32, users: Lookup, cqn: u32, shared: bool) -> Self {
        let (log, log_stride) = size;
        let record = Box::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let device = DeviceRing::new(log, log_stride);
        // SAFETY: record, memory and table are kept beside the ring.
        let mut ring = unsafe { CqRing::new(device.driver(), NonNull::from(&*record), users, true, shared) };
        ring.cqn = cqn;
        ring.consumer = Consumer::at(log, start);
        ring.publish();
        let next = Next::new(&ring);
        let (list, view, forgotten, resize, old) = Default::default();
        Self { ring, next, record, device, produced: start, start, list, view, forgotten, resize, old, shared }
    }

    /// The consumer index that the device reads.
    fn told(&self) -> u32 {
        u32::from_be(self.record[0].load(Ordering::Relaxed))
    }

    /// Entries that the device may not overwrite.
    fn kept(&self) -> u32 {
        self.produced.wrapping_sub(self.told()) & INDEX
    }

    pub(super) fn has_room(&self) -> bool {
        match &self.resize {
            Some((new, true)) => self.kept() < 1 << new.log,
            // One stays free for the entry that ends the ring.
            _ => self.kept() < (1 << self.device.log) - 1,
        }
    }

    /// The device writes an entry, into the ring that it uses now.
    pub(super) fn write(&mut self, cqe: Cqe, unpolled: Unpolled) {
        let ring = match &mut self.resize {
            Some((new, true)) => new,
            _ => &mut self.device,
        };
        ring.write(self.produced, cqe);
        self.produced = self.produced.wrapping_add(1);
        self.list.push_back(unpolled);
    }

    /// The driver may use the CQ: it is not being resized, and no view is at work.
    fn is_free(&self) -> bool {
        self.resize.is_none() && self.view.is_none()
    }

    /// A poll of the CQ, as its handle does it: how many were taken, and what was said of them, or of the first.
    pub(super) fn poll(&mut self, most: usize) -> Option<(usize, Vec<Found>)> {
        if !self.is_free() {
            return None;
        }
        // SAFETY: the ring stays.
        if unsafe { self.next.is_empty() } {
            assert!(self.list.is_empty(), "a poll overlooks {:?}", self.list);
            return Some((0, Vec::new()));
        }
        // Nothing is taken, so nothing is given back.
        self.forgotten &= self.list.is_empty();
        let mut out = vec![Completion::default(); most];
        let (ring, next, shared) = (&mut self.ring, &self.next, self.shared);
        let taken = match &mut out[..] {
            [place] => match ring.poll_one(next, &HOST, shared, place) {
                true => 1,
                false => ring.poll_odd(next, &HOST, &mut out, 0),
            },
            _ => match ring.poll_many(next, &HOST, shared, &mut out) {
                Ok(taken) => taken,
                Err(taken) => ring.poll_odd(next, &HOST, &mut out, taken),
            },
        };
        if taken == 0 {
            return Some((0, ring.refusal().err().map(Err).into_iter().collect()));
        }
        Some((taken, out[..taken].iter().map(|c| Ok((c.wr_id, c.qpn, c.opcode))).collect()))
    }

    /// A view is begun, or goes on: what it says of which entry, `None` where there is none.
    pub(super) fn advance(&mut self) -> Option<Option<(Unpolled, Found)>> {
        if self.resize.is_some() {
            return None;
        }
        let result = self.ring.advance(&HOST);
        self.next.set_from(&self.ring);
        (self.view, self.forgotten) = (Some(None), false);
        let Some(first) = self.list.pop_front() else {
            assert!(matches!(result, Ok(None)), "a view shows what is not there");
            return Some(None);
        };
        let found = match result {
            Ok(shown) => {
                let shown = shown.unwrap_or_else(|| panic!("a view overlooks {first:?}"));
                self.view = Some(Some((shown, first)));
                let completion = shown.completion();
                Ok((completion.wr_id, completion.qpn, completion.opcode))
            }
            Err(e) => Err(e),
        };
        Some(Some((first, found)))
    }

    /// A view ends, or is forgotten.
    pub(super) fn end_view(&mut self, forget: bool) -> bool {
        let Some(view) = self.view.take() else { return false };
        match forget {
            true => self.forgotten = view.is_some(),
            false => self.ring.end_view(),
        }
        true
    }

    /// The completions of a QP are swept; gives those of the list that must have gone.
    pub(super) fn sweep(&mut self, user: u32, target: &Target) -> Option<Vec<Unpolled>> {
        if self.resize.is_some() {
            return None;
        }
        self.ring.sweep(&HOST, user, target);
        self.next.set_from(&self.ring);
        let goes = |entry: &Unpolled| entry.user == user && entry.qpn == target.qpn();
        let gone = self.list.iter().filter(|entry| goes(entry)).copied().collect();
        self.list.retain(|entry| !goes(entry));
        Some(gone)
    }

    /// A resize begins: the driver looks whether the entries fit, and makes the new ring.
    pub(super) fn resize(&mut self, log: u32) -> bool {
        if !self.is_free() {
            return false;
        }
        let unpolled = self.list.len() as u32;
        let refused = Err(Error::BelowUnpolled { unpolled });
        assert_eq!(self.ring.fit((1 << log) - 1), if unpolled >= 1 << log { refused } else { Ok(()) });
        let goes = unpolled < 1 << log && log != self.device.log;
        if goes {
            self.resize = Some((DeviceRing::new(log, self.device.log_stride), false));
        }
        goes
    }

    /// The device changes over: it writes a last entry, which it counts, into the old ring. Or it refuses, where more
    /// have come than fit, and the driver stays with the old one.
    pub(super) fn change_over(&mut self) -> bool {
        let kept = self.kept();
        let Some((new, switched @ false)) = &mut self.resize else { return false };
        if kept >= 1 << new.log {
            self.resize = None;
            return true;
        }
        *switched = true;
        self.device.write(self.produced, Cqe::new(0x5, 0));
        self.produced = self.produced.wrapping_add(1);
        true
    }

    /// The driver looks whether the device has changed over, and follows.
    pub(super) fn follow(&mut self) -> bool {
        let Some((new, switched)) = &self.resize else { return false };
        assert_eq!(self.ring.switch(&HOST, new.driver()), *switched);
        if !*switched {
            return true;
        }
        self.next.set_from(&self.ring);
        self.forgotten = false;
        if let Some((new, _)) = self.resize.take() {
            self.old.append(&mut core::mem::replace(&mut self.device, new).memory);
        }
        true
    }

    pub(super) fn is_resized(&self) -> bool {
        self.resize.is_some()
    }

    pub(super) fn wraps(&self) -> usize {
        wraps(self.start, self.ring.consumer.index())
    }

    pub(super) fn check(&self) {
        let changing_over = self.resize.as_ref().is_some_and(|(_, switched)| *switched);
        let unpolled = self.list.len() as u32 + u32::from(changing_over);
        assert_eq!(self.produced.wrapping_sub(self.ring.consumer.index()), unpolled, "{:?}", self.list);
        match self.view {
            // What was swept behind the entry that is shown comes back with it.
            Some(Some(_)) => assert!(self.kept() > unpolled, "the entry that a view shows is given back"),
            _ if self.forgotten => assert!(self.kept() > unpolled, "nobody has given the entry back"),
            _ => assert_eq!(self.kept(), unpolled, "{:?}", self.list),
        }
        if !changing_over {
            assert_eq!(self.ring.unpolled(), self.list.len() as u32, "{:?}", self.list);
            // SAFETY: the ring stays.
            let empty = unsafe { self.next.is_empty() };
            assert!(!empty || self.list.is_empty(), "a poll would overlook {:?}", self.list);
        }
        if let Some(Some((shown, unpolled))) = &self.view {
            let is = (shown.wr_id, shown.entry.user_index(), shown.entry.qpn());
            assert_eq!(is, (unpolled.id, unpolled.user, unpolled.qpn), "what a view shows stays");
        }
    }

    pub(super) fn state(&self) -> QueueState {
        let entries = |ring: &DeviceRing| -> Entries {
            let entry = |n| ring.driver().entry(Consumer::at(ring.log, n));
            (0..1 << ring.log).map(|n| (entry(n).op_own(), entry(n).user_index(), entry(n).qpn())).collect()
        };
        let resize = self.resize.as_ref().map(|(ring, switched)| (entries(ring), *switched));
        let view = self.view.as_ref().map(Option::is_some);
        let held = [self.ring.held, self.ring.holds(), self.forgotten];
        let list = self.list.iter().map(|entry| (entry.user, entry.qpn, entry.what)).collect();
        let indices = [self.ring.consumer.index(), self.produced, self.told()];
        (indices, entries(&self.device), resize, view, held, list)
    }
}
