//! QPs that come and go, the SRQ that they receive from, and the CQs that they complete to.

use super::{
    super::{
        tests::{Cqe, HOST},
        *,
    },
    queue::{Found, Queue, QueueState, Unpolled, What},
};
use crate::{target::NO_QPN, users::Users};
use bareverbs::{
    QpType,
    srq::{SrqPoster, SrqSlot, SrqSlots},
    wq::{RecvQueue, SendPoster, SendQueue, SendSlot},
};
use bareverbs_explore::wraps;
use core::sync::atomic::AtomicU64;
use std::{boxed::Box, collections::VecDeque, vec::Vec};

/// Numbers of QPs: those of the first two, and others.
const QPNS: [u32; 4] = [0x01_0203, 0x04_0506, 0x01_0303, 0x0a_0b0c];
/// A number that no QP has.
pub(super) const GONE: u32 = 0x07_0809;
/// Slots of the SRQ, of which one stays back; basic blocks of a send queue.
const LOG_SLOTS: u32 = 2;
/// No slot of it.
const NO_SLOT: u32 = 1 << LOG_SLOTS;

/// User index, number, CQ, whether the device has it still; next block and count of the send queue.
type QpState = (u32, u32, usize, bool, [u32; 2]);
/// The CQs; the QPs, and the one that the device keeps; slots of the SRQ: free, come back, waiting, unpolled; how many were
/// posted.
pub(super) type WorldState = (Vec<QueueState>, Vec<QpState>, Option<(u32, u32, usize)>, [Vec<u32>; 4], u32);

/// A QP, with the queue that it sends from.
struct Qp {
    target: Box<Target>,
    sender: SendPoster,
    user: u32,
    cq: usize,
    /// The device has it.
    there: bool,
    _tables: (Vec<SendSlot>, Box<AtomicU64>),
}

/// A QP that the device did not let go of, though the driver has: its user index, number and CQ.
type Kept = (u32, u32, usize);

/// QPs on one SRQ, at most one at a user index, and the CQs that they complete to.
pub(super) struct World {
    users: Users,
    qps: Vec<Qp>,
    kept: Option<Kept>,
    srq: Box<SrqSlots>,
    poster: SrqPoster,
    pub(super) cqs: Vec<Queue>,
    /// Slots of the SRQ that can be posted, in order, and those that came back since, the last on top.
    free: VecDeque<u32>,
    returned: Vec<u32>,
    /// Slots that no message has taken yet, with the ids in them.
    waiting: VecDeque<(u32, u64)>,
    /// Slots whose completions are not polled.
    unpolled: Vec<(u32, u64)>,
    next_id: u64,
    /// Where the counters began.
    start: u32,
    _slots: Vec<SrqSlot>,
}

impl World {
    /// CQs of these logs of entries and of an entry's bytes, and two QPs that complete to these of them.
    pub(super) fn new(sizes: &[(u32, u32)], start: u32, cq_of: [usize; 2], shared: bool) -> Self {
        let mut slots: Vec<SrqSlot> = (0..1 << LOG_SLOTS).map(|_| SrqSlot::default()).collect();
        // SAFETY: the table is kept beside the slots.
        let (mut srq, mut poster) = unsafe { SrqSlots::new(NonNull::new(slots.as_mut_ptr()).unwrap(), LOG_SLOTS) };
        srq.begin_at(&mut poster, start);
        let users = Users::new(&HOST, 4).unwrap();
        // SAFETY: the table is kept beside the CQs.
        let queue = |(cqn, size): (u32, &(u32, u32))| Queue::new(*size, start, unsafe { users.lookup() }, cqn, shared);
        let cqs = (0..).zip(sizes).map(queue).collect();
        let free = (0..1 << LOG_SLOTS).collect();
        let (returned, waiting, unpolled) = Default::default();
        let mut world = Self {
            users,
            qps: Vec::new(),
            kept: None,
            srq: Box::new(srq),
            poster,
            cqs,
            free,
            returned,
            waiting,
            unpolled,
            next_id: 1,
            start,
            _slots: slots,
        };
        (0..).zip(cq_of).for_each(|(user, cq)| world.make(user, QPNS[user as usize], cq));
        world
    }

    /// A QP is made at a user index that is free.
    fn make(&mut self, user: u32, qpn: u32, cq: usize) {
        let mut slots: Vec<SendSlot> = (0..1 << LOG_SLOTS).map(|_| SendSlot::default()).collect();
        let wr_id = Box::new(AtomicU64::new(0));
        // SAFETY: the tables are kept beside the queues.
        let (send, mut sender, recv) = unsafe {
            let (send, sender) = SendQueue::new(NonNull::new(slots.as_mut_ptr()).unwrap(), LOG_SLOTS);
            (send, sender, RecvQueue::new(NonNull::from(&*wr_id), 0).0)
        };
        send.begin_at(&mut sender, self.start);
        let target = Box::new(Target::new(QpType::Rc, send, recv, Some(NonNull::from(&*self.srq))));
        // SAFETY: the target is kept until it was taken out of the table.
        let at = unsafe { self.users.insert(user, 4, NonNull::from(&*target), [cq as u32; 2]) };
        assert_eq!(at, Some(user), "a user index that is free");
        target.set_qpn(qpn);
        self.qps.push(Qp { target, sender, user, cq, there: true, _tables: (slots, wr_id) });
        self.qps.sort_by_key(|qp| qp.user);
    }

    /// Another QP is made at the user index of one that has gone: with the same number, if the device has let go of it, or
    /// with another.
    pub(super) fn make_another(&mut self, user: u32, same: bool, cq: usize) -> bool {
        let kept = self.kept.map(|kept| kept.1);
        let free = |qpn: &&u32| Some(**qpn) != kept && self.qps.iter().all(|qp| qp.target.qpn() != **qpn);
        let mut numbers = QPNS.iter().filter(free);
        let first = QPNS[user as usize];
        let qpn = if same { numbers.find(|qpn| **qpn == first) } else { numbers.find(|qpn| **qpn != first) };
        match qpn {
            Some(&qpn) if self.qp(user).is_none() => self.make(user, qpn, cq),
            _ => return false,
        }
        true
    }

    fn qp(&self, user: u32) -> Option<usize> {
        self.qps.iter().position(|qp| qp.user == user)
    }

    /// The QP at a user index that the device has, if its CQ has room for an entry.
    fn sends(&self, user: u32) -> Option<usize> {
        self.qp(user).filter(|n| self.qps[*n].there && self.cqs[self.qps[*n].cq].has_room())
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// An entry for a QP.
    fn entry(user: u32, qpn: u32, opcode: u8, counter: u32) -> Cqe {
        Cqe::new(opcode, counter as u16).dword(56, qpn).dword(32, user)
    }

    /// A request is sent and done.
    pub(super) fn send(&mut self, user: u32) -> bool {
        let Some(n) = self.sends(user) else { return false };
        let id = self.id();
        let Qp { target, sender, cq, .. } = &mut self.qps[n];
        if !sender.has_room(&target.send, 1 << LOG_SLOTS) {
            return false;
        }
        let (block, qpn) = (sender.block(), target.qpn());
        sender.push(id, 1);
        sender.publish(&target.send);
        let entry = Self::entry(user, qpn, 0x0, block).sent(0x0a);
        self.cqs[*cq].write(entry, Unpolled { user, qpn, what: What::Send, id });
        true
    }

    pub(super) fn post_recv(&mut self) -> bool {
        if self.free.len() == 1 {
            self.free.extend(self.returned.drain(..));
        }
        let place = self.poster.place(&self.srq);
        // One stays back.
        let expected = (self.free.len() > 1).then(|| (self.free[0], self.free[1]));
        assert_eq!(place.map(|place| (place.slot, place.next)), expected);
        let Some(place) = place else { return false };
        let id = self.id();
        self.poster.take(place, id);
        self.free.pop_front();
        self.waiting.push_back((place.slot, id));
        true
    }

    /// The slot of a receive comes back, if the id is one's.
    fn come_back(&mut self, id: u64) {
        if let Some(n) = self.unpolled.iter().position(|(_, of)| *of == id) {
            self.returned.push(self.unpolled.remove(n).0);
        }
    }

    /// An entry of a receive is written, for a message that takes the n-th of the posted ones.
    fn received(&mut self, (user, qpn, cq): Kept, n: usize) -> bool {
        let Some((slot, id)) = self.waiting.remove(n) else { return false };
        let unpolled = Unpolled { user, qpn, what: What::Recv, id };
        self.cqs[cq].write(Self::entry(user, qpn, 0x2, slot), unpolled);
        self.unpolled.push((slot, id));
        true
    }

    /// A message to a QP takes the n-th of the posted receives, as where messages overtake each other.
    pub(super) fn receive(&mut self, user: u32, n: usize) -> bool {
        let Some(at) = self.sends(user) else { return false };
        let (qpn, cq) = (self.qps[at].target.qpn(), self.qps[at].cq);
        self.received((user, qpn, cq), n)
    }

    /// A receive is posted, and a message takes it.
    pub(super) fn post_and_receive(&mut self, user: u32) -> bool {
        self.sends(user).is_some() && self.post_recv() && self.receive(user, 0)
    }

    /// A QP that the device did not let go of receives on.
    pub(super) fn kept_receives(&mut self) -> bool {
        let Some(kept) = self.kept.filter(|kept| self.cqs[kept.2].has_room()) else { return false };
        self.post_recv() && self.received(kept, 0)
    }

    /// The device tells what cannot be: of the number `qpn`, which nobody has, or of a slot that is not with it.
    pub(super) fn lie(&mut self, user: u32, qpn: Option<u32>) -> bool {
        let Some(n) = self.sends(user) else { return false };
        let id = self.id();
        let (cq, qpn) = (self.qps[n].cq, qpn.unwrap_or(self.qps[n].target.qpn()));
        let slot = self.returned.last().copied().unwrap_or(NO_SLOT);
        self.cqs[cq].write(Self::entry(user, qpn, 0x2, slot), Unpolled { user, qpn, what: What::Lie, id });
        true
    }

    /// The device tells a CQ of a QP that completes to another.
    pub(super) fn stray(&mut self, user: u32, cq: usize) -> bool {
        let Some(n) = self.sends(user).filter(|_| self.cqs[cq].has_room()) else { return false };
        let (id, qpn) = (self.id(), self.qps[n].target.qpn());
        let entry = Self::entry(user, qpn, 0x0, self.start).sent(0x0a);
        self.cqs[cq].write(entry, Unpolled { user, qpn, what: What::Send, id });
        true
    }

    /// Whether an entry of a CQ is of a QP that is there and completes to it: not of one that has gone, though another
    /// stands in its place.
    fn is_known(&self, cq: usize, entry: &Unpolled) -> bool {
        self.qp(entry.user).is_some_and(|n| self.qps[n].cq == cq && self.qps[n].target.qpn() == entry.qpn)
    }

    /// What a poll or view must say of an entry.
    fn expect(&mut self, cq: usize, entry: Unpolled, found: Found) {
        let Unpolled { qpn, what, id, .. } = entry;
        let expected = match what {
            _ if !self.is_known(cq, &entry) => Err(PollError::UnknownQp(Qpn::new(qpn))),
            What::Send => Ok((id, Qpn::new(qpn), WcOpcode::Send)),
            What::Recv => Ok((id, Qpn::new(qpn), WcOpcode::Recv)),
            What::Lie => Err(PollError::BadEntry),
        };
        assert_eq!(found, expected, "{entry:?}");
        if found.is_ok() {
            self.come_back(id);
        }
    }

    pub(super) fn poll(&mut self, n: usize, most: usize) -> bool {
        let is_good = |entry: &&Unpolled| entry.what != What::Lie && self.is_known(n, entry);
        let good = self.cqs[n].list.iter().take_while(is_good).count();
        let Some((taken, found)) = self.cqs[n].poll(most) else { return false };
        assert_eq!(taken, good.min(most), "{:?}", self.cqs[n].list);
        assert_eq!(found.len(), taken.max(usize::from(!self.cqs[n].list.is_empty())), "{:?}", self.cqs[n].list);
        for found in found {
            let first = self.cqs[n].list.pop_front().unwrap();
            self.expect(n, first, found);
        }
        true
    }

    /// A view is begun, or goes on.
    pub(super) fn advance(&mut self, n: usize) -> bool {
        match self.cqs[n].advance() {
            None => return false,
            Some(None) => {}
            Some(Some((entry, found))) => self.expect(n, entry, found),
        }
        true
    }

    /// A QP is reset: its completions are swept, and its sends forgotten.
    pub(super) fn reset(&mut self, user: u32) -> bool {
        let Some(n) = self.qp(user).filter(|n| self.qps[*n].there) else { return false };
        let swept = self.sweep(n);
        if swept {
            let Qp { target, sender, .. } = &mut self.qps[n];
            target.send.reset(sender);
        }
        swept
    }

    fn sweep(&mut self, n: usize) -> bool {
        let Qp { target, user, cq, .. } = &self.qps[n];
        let Some(gone) = self.cqs[*cq].sweep(*user, target) else { return false };
        // Newest first.
        gone.iter().rev().for_each(|entry| self.come_back(entry.id));
        true
    }

    /// The device lets go of a QP: it writes nothing more of it.
    pub(super) fn destroy(&mut self, user: u32) -> bool {
        self.qp(user).is_some_and(|n| core::mem::replace(&mut self.qps[n].there, false))
    }

    /// The driver sweeps the completions of a QP that the device has let go of, and leaves its user index.
    pub(super) fn leave(&mut self, user: u32) -> bool {
        let Some(n) = self.qp(user).filter(|n| !self.qps[*n].there && self.sweep(*n)) else { return false };
        self.qps[n].target.set_qpn(NO_QPN);
        self.forget(n);
        true
    }

    /// The device does not let go of a QP; the driver leaves its user index, and its completions where they are.
    pub(super) fn leave_kept(&mut self, user: u32) -> bool {
        let Some(n) = self.qp(user).filter(|_| self.kept.is_none()) else { return false };
        let Qp { target, cq, there, .. } = &self.qps[n];
        if !there || self.cqs[*cq].is_resized() {
            return false;
        }
        self.kept = Some((user, target.qpn(), *cq));
        self.forget(n);
        true
    }

    fn forget(&mut self, n: usize) {
        let qp = self.qps.remove(n);
        self.users.hide(qp.user);
        self.users.remove(qp.user);
    }

    /// After each step.
    pub(super) fn check(&self) -> bool {
        self.cqs.iter().for_each(Queue::check);
        for slot in self.free.iter().chain(&self.returned).chain([&NO_SLOT]) {
            assert_eq!(self.srq.complete(*slot, false), None, "slot {slot} is not with the device");
        }
        true
    }

    pub(super) fn wraps(&self) -> usize {
        self.cqs.iter().map(Queue::wraps).sum::<usize>() + wraps(self.start, self.poster.posted())
    }

    pub(super) fn state(&self) -> WorldState {
        let cqs = self.cqs.iter().map(Queue::state).collect();
        let qp = |qp: &Qp| (qp.user, qp.target.qpn(), qp.cq, qp.there, [qp.sender.block(), qp.sender.posted()]);
        let waiting = self.waiting.iter().map(|(slot, _)| *slot).collect();
        let unpolled = self.unpolled.iter().map(|(slot, _)| *slot).collect();
        let slots = [self.free.iter().copied().collect(), self.returned.clone(), waiting, unpolled];
        (cqs, self.qps.iter().map(qp).collect(), self.kept, slots, self.poster.posted())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: the table has no drop of its own, and nothing reaches it any more.
        unsafe { core::ptr::read(&self.users) }.free(&HOST);
    }
}
