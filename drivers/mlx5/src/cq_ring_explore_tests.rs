//! Every order of the steps of small completion rings, up to a depth, against plain lists and a scripted device: entries
//! of two QPs and of nobody are written, polled one or more at a time, shown by a view, swept out; the ring is changed for
//! another while the device goes on; two rings give slots back to one SRQ. Indices begin at zero and just below 2^16,
//! 2^24 and 2^32.

use super::{
    tests::{Cqe, HOST, Line},
    *,
};
use crate::users::Users;
use bareverbs::{
    QpType, WcOpcode,
    srq::{SrqPoster, SrqSlot, SrqSlots},
    wq::{RecvQueue, SendPoster, SendQueue, SendSlot},
};
use bareverbs_explore::{Machine, STARTS, explore, wraps};
use core::sync::atomic::AtomicU64;
use std::{boxed::Box, collections::VecDeque, format, vec, vec::Vec};

/// What the device counts to.
const INDEX: u32 = 0xff_ffff;
const QPNS: [u32; 2] = [0x01_0203, 0x04_0506];
/// The number of a QP that has gone.
const GONE: u32 = 0x07_0809;
/// Slots of the SRQ, of which one stays back; basic blocks of a send queue.
const LOG_SLOTS: u32 = 2;
/// No slot of it.
const NO_SLOT: u32 = 1 << LOG_SLOTS;

/// What an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Send,
    Recv,
    /// It names a QP that nobody has.
    Nobody,
    /// It names a slot that is not with the device.
    Lie,
}

/// An unpolled entry: whose, what, and the id to come.
type Unpolled = (usize, What, u64);

/// The owner byte and QP of each entry of a ring.
type Entries = Vec<(u8, u32)>;
/// Consumer index, entries produced, index told; the ring, the one to come and whether the device is there; whether there
/// is a view and it shows something; whose and what the unpolled entries are.
type QueueState = ([u32; 3], Entries, Option<(Entries, bool)>, Option<bool>, Vec<(usize, What)>);
/// The CQs; next block and count of each send queue; slots of the SRQ: free, come back, waiting, unpolled.
type WorldState = (Vec<QueueState>, Vec<(u32, u32)>, [Vec<u32>; 4]);

/// A device's ring: memory, log of its entries, and how many it has written since the beginning.
struct DeviceRing {
    memory: Vec<Line>,
    log: u32,
    /// Log of the bytes of an entry: 6 or 7.
    log_stride: u32,
}

/// A CQ between device and driver.
struct Queue {
    ring: CqRing,
    next: Next,
    record: Box<[AtomicU32; 2]>,
    device: DeviceRing,
    produced: u32,
    /// Where the counters began.
    start: u32,
    list: VecDeque<Unpolled>,
    /// What the view shows, if there is one.
    view: Option<Option<(Shown, Unpolled)>>,
    /// Where a resize goes: the new ring, and whether the device has changed over.
    resize: Option<(DeviceRing, bool)>,
    /// Rings of before.
    old: Vec<Line>,
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
    fn new(size: (u32, u32), start: u32, users: &Users, cqn: u32) -> Self {
        let (log, log_stride) = size;
        let record = Box::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let device = DeviceRing::new(log, log_stride);
        // SAFETY: record, memory and table are kept beside the ring.
        let mut ring = unsafe { CqRing::new(device.driver(), NonNull::from(&*record), users.lookup(), true, false) };
        ring.cqn = cqn;
        ring.consumer = Consumer::at(log, start);
        ring.publish();
        let next = Next::new(&ring);
        let (list, view, resize, old) = Default::default();
        Self { ring, next, record, device, produced: start, start, list, view, resize, old }
    }

    /// The consumer index that the device reads.
    fn told(&self) -> u32 {
        u32::from_be(self.record[0].load(Ordering::Relaxed))
    }

    /// Entries that the device may not overwrite.
    fn kept(&self) -> u32 {
        self.produced.wrapping_sub(self.told()) & INDEX
    }

    fn has_room(&self) -> bool {
        match &self.resize {
            Some((new, true)) => self.kept() < 1 << new.log,
            // One stays free for the entry that ends the ring.
            _ => self.kept() < (1 << self.device.log) - 1,
        }
    }

    /// The device writes an entry, into the ring that it uses now.
    fn write(&mut self, cqe: Cqe, unpolled: Unpolled) {
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

    fn check(&self) {
        let changing_over = self.resize.as_ref().is_some_and(|(_, switched)| *switched);
        let unpolled = self.list.len() as u32 + u32::from(changing_over);
        assert_eq!(self.produced.wrapping_sub(self.ring.consumer.index()), unpolled, "{:?}", self.list);
        match self.view {
            // What was swept behind the entry that is shown comes back with it.
            Some(Some(_)) => assert!(self.kept() > unpolled, "the entry that a view shows is given back"),
            _ => assert_eq!(self.kept(), unpolled, "{:?}", self.list),
        }
        if !changing_over {
            assert_eq!(self.ring.unpolled(), self.list.len() as u32, "{:?}", self.list);
            // SAFETY: the ring stays.
            let empty = unsafe { self.next.is_empty() };
            assert!(!empty || self.list.is_empty(), "a poll would overlook {:?}", self.list);
        }
        if let Some(Some((shown, unpolled))) = &self.view {
            assert_eq!((shown.wr_id, shown.entry.qpn()), (unpolled.2, QPNS[unpolled.0]), "what a view shows stays");
        }
    }

    fn state(&self) -> QueueState {
        let entries = |ring: &DeviceRing| -> Entries {
            let entry = |n| ring.driver().entry(Consumer::at(ring.log, n));
            (0..1 << ring.log).map(|n| (entry(n).op_own(), entry(n).qpn())).collect()
        };
        let resize = self.resize.as_ref().map(|(ring, switched)| (entries(ring), *switched));
        let view = self.view.as_ref().map(Option::is_some);
        let list = self.list.iter().map(|(qp, what, _)| (*qp, *what)).collect();
        ([self.ring.consumer.index(), self.produced, self.told()], entries(&self.device), resize, view, list)
    }
}

/// Two QPs with send queues of their own and one SRQ, and the CQs that they complete to.
struct World {
    users: Users,
    targets: Vec<Target>,
    senders: Vec<SendPoster>,
    srq: Box<SrqSlots>,
    poster: SrqPoster,
    cqs: Vec<Queue>,
    /// The CQ of each QP.
    cq_of: [usize; 2],
    /// Slots of the SRQ that can be posted, in order, and those that came back since, the last on top.
    free: VecDeque<u32>,
    returned: Vec<u32>,
    /// Slots that no message has taken yet, with the ids in them.
    waiting: VecDeque<(u32, u64)>,
    /// Slots whose completions are not polled.
    unpolled: Vec<(u32, u64)>,
    next_id: u64,
    _tables: (Vec<Vec<SendSlot>>, Vec<SrqSlot>, Vec<AtomicU64>),
}

impl World {
    /// CQs of these logs of entries and of an entry's bytes.
    fn new(sizes: &[(u32, u32)], start: u32, cq_of: [usize; 2]) -> Self {
        let mut srq_slots: Vec<SrqSlot> = (0..1 << LOG_SLOTS).map(|_| SrqSlot::default()).collect();
        let mut send_slots: Vec<Vec<SendSlot>> =
            (0..2).map(|_| (0..1 << LOG_SLOTS).map(|_| SendSlot::default()).collect()).collect();
        let wr_ids = vec![AtomicU64::new(0)];
        // SAFETY: the table is kept beside the slots.
        let (srq, poster) = unsafe { SrqSlots::new(NonNull::new(srq_slots.as_mut_ptr()).unwrap(), LOG_SLOTS) };
        let srq = Box::new(srq);
        let users = Users::new(&HOST, 4).unwrap();
        let (mut targets, mut senders) = (Vec::new(), Vec::new());
        for (n, qpn) in QPNS.into_iter().enumerate() {
            // SAFETY: the tables are kept beside the queues.
            let (send, sender, recv) = unsafe {
                let (send, sender) = SendQueue::new(NonNull::new(send_slots[n].as_mut_ptr()).unwrap(), LOG_SLOTS);
                (send, sender, RecvQueue::new(NonNull::from(&wr_ids[0]), 0).0)
            };
            let target = Target::new(QpType::Rc, send, recv, Some(NonNull::from(&*srq)));
            target.set_qpn(qpn);
            targets.push(target);
            senders.push(sender);
        }
        for (n, target) in (0..).zip(&targets) {
            let cqn = cq_of[n as usize] as u32;
            // SAFETY: the targets are kept beside the table.
            assert_eq!(unsafe { users.insert(0, 4, NonNull::from(target), [cqn; 2]) }, Some(n));
        }
        let cqs = (0..).zip(sizes).map(|(cqn, size)| Queue::new(*size, start, &users, cqn)).collect();
        let free = (0..1 << LOG_SLOTS).collect();
        let (returned, waiting, unpolled) = Default::default();
        let _tables = (send_slots, srq_slots, wr_ids);
        let next_id = 1;
        Self { users, targets, senders, srq, poster, cqs, cq_of, free, returned, waiting, unpolled, next_id, _tables }
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// An entry of a QP's.
    fn entry(qp: usize, opcode: u8, counter: u32) -> Cqe {
        Cqe::new(opcode, counter as u16).dword(56, QPNS[qp]).dword(32, qp as u32)
    }

    /// A request is sent and done.
    fn send(&mut self, qp: usize) -> bool {
        let cq = &mut self.cqs[self.cq_of[qp]];
        if !cq.has_room() || !self.senders[qp].has_room(&self.targets[qp].send, 1 << LOG_SLOTS) {
            return false;
        }
        self.next_id += 1;
        let block = self.senders[qp].block();
        self.senders[qp].push(self.next_id, 1);
        self.senders[qp].publish(&self.targets[qp].send);
        cq.write(Self::entry(qp, 0x0, block).sent(0x0a), (qp, What::Send, self.next_id));
        true
    }

    fn post_recv(&mut self) -> bool {
        let place = self.poster.place(&self.srq);
        if self.free.len() == 1 {
            self.free.extend(self.returned.drain(..));
        }
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

    /// A message to a QP takes the n-th of the posted receives, as where messages overtake each other.
    fn receive(&mut self, qp: usize, n: usize) -> bool {
        let cq = &mut self.cqs[self.cq_of[qp]];
        if !cq.has_room() || n >= self.waiting.len() {
            return false;
        }
        let Some((slot, id)) = self.waiting.remove(n) else { return false };
        cq.write(Self::entry(qp, 0x2, slot), (qp, What::Recv, id));
        self.unpolled.push((slot, id));
        true
    }

    /// The device tells what cannot be: of a QP that nobody has, or of a slot that is not with it.
    fn lie(&mut self, qp: usize, what: What) -> bool {
        let id = self.id();
        let cq = &mut self.cqs[self.cq_of[qp]];
        if !cq.has_room() {
            return false;
        }
        let slot = self.returned.last().copied().unwrap_or(NO_SLOT);
        let cqe = Self::entry(qp, 0x2, slot);
        let cqe = if what == What::Nobody { cqe.dword(56, GONE) } else { cqe };
        cq.write(cqe, (qp, what, id));
        true
    }

    /// What a poll or view must say of an entry.
    fn expect(&mut self, unpolled: Unpolled, found: Result<(u64, Qpn, WcOpcode), PollError>) {
        let (qp, what, id) = unpolled;
        self.come_back(id);
        let qpn = Qpn::new(QPNS[qp]);
        let expected = match what {
            What::Send => Ok((id, qpn, WcOpcode::Send)),
            What::Recv => Ok((id, qpn, WcOpcode::Recv)),
            What::Nobody => Err(PollError::UnknownQp(Qpn::new(GONE))),
            What::Lie => Err(PollError::BadEntry),
        };
        assert_eq!(found, expected);
    }

    fn poll(&mut self, n: usize, most: usize) -> bool {
        if !self.cqs[n].is_free() {
            return false;
        }
        let mut out = vec![Completion::default(); most];
        let cq = &mut self.cqs[n];
        let taken = match &mut out[..] {
            [place] => match cq.ring.poll_one(&cq.next, &HOST, false, place) {
                true => 1,
                false => cq.ring.poll_odd(&cq.next, &HOST, &mut out, 0),
            },
            _ => match cq.ring.poll_many(&cq.next, &HOST, false, &mut out) {
                Ok(taken) => taken,
                Err(taken) => cq.ring.poll_odd(&cq.next, &HOST, &mut out, taken),
            },
        };
        let good = cq.list.iter().take_while(|(_, what, _)| matches!(what, What::Send | What::Recv)).count();
        assert_eq!(taken, good.min(most), "{:?}", cq.list);
        if taken == 0 {
            let result = cq.ring.refusal();
            match cq.list.pop_front() {
                None => assert_eq!(result, Ok(0)),
                Some(first) => self.expect(first, result.map(|_| panic!("a poll says nothing of {first:?}"))),
            }
            return true;
        }
        for completion in &out[..taken] {
            let first = self.cqs[n].list.pop_front().unwrap();
            self.expect(first, Ok((completion.wr_id, completion.qpn, completion.opcode)));
        }
        true
    }

    /// A view is begun, or goes on.
    fn advance(&mut self, n: usize) -> bool {
        let cq = &mut self.cqs[n];
        if cq.resize.is_some() {
            return false;
        }
        let result = cq.ring.advance(&HOST);
        cq.next.set_from(&cq.ring);
        cq.view = Some(None);
        match (cq.list.pop_front(), result) {
            (None, result) => assert!(matches!(result, Ok(None))),
            (Some(first), Ok(Some(shown))) => {
                cq.view = Some(Some((shown, first)));
                let completion = shown.completion();
                self.expect(first, Ok((completion.wr_id, completion.qpn, completion.opcode)));
            }
            (Some(first), result) => self.expect(first, Err(result.err().expect("an entry to show"))),
        }
        true
    }

    fn end_view(&mut self, n: usize) -> bool {
        let was = self.cqs[n].view.take().is_some();
        self.cqs[n].ring.end_view();
        was
    }

    /// A QP is reset, or goes: its completions are swept, and its sends forgotten.
    fn sweep(&mut self, qp: usize) -> bool {
        let cq = &mut self.cqs[self.cq_of[qp]];
        if cq.resize.is_some() {
            return false;
        }
        cq.ring.sweep(&HOST, qp as u32, &self.targets[qp]);
        cq.next.set_from(&cq.ring);
        self.targets[qp].send.reset(&mut self.senders[qp]);
        // A lie is an entry of the QP's like any other.
        let gone: Vec<Unpolled> =
            cq.list.iter().filter(|(of, what, _)| *of == qp && *what != What::Nobody).copied().collect();
        cq.list.retain(|entry| !gone.contains(entry));
        // Newest first.
        gone.iter().rev().for_each(|(.., id)| self.come_back(*id));
        true
    }

    /// A resize begins: the driver looks whether the entries fit, and makes the new ring.
    fn resize(&mut self, n: usize, log: u32) -> bool {
        let cq = &mut self.cqs[n];
        if !cq.is_free() {
            return false;
        }
        let unpolled = cq.list.len() as u32;
        let refused = Err(Error::BelowUnpolled { unpolled });
        assert_eq!(cq.ring.fit((1 << log) - 1), if unpolled >= 1 << log { refused } else { Ok(()) });
        let goes = unpolled < 1 << log && log != cq.device.log;
        if goes {
            cq.resize = Some((DeviceRing::new(log, cq.device.log_stride), false));
        }
        goes
    }

    /// The device changes over: it writes a last entry, which it counts, into the old ring. Or it refuses, where more
    /// have come than fit, and the driver stays with the old one.
    fn change_over(&mut self, n: usize) -> bool {
        let cq = &mut self.cqs[n];
        let kept = cq.kept();
        let Some((new, switched @ false)) = &mut cq.resize else { return false };
        if kept >= 1 << new.log {
            cq.resize = None;
            return true;
        }
        *switched = true;
        cq.device.write(cq.produced, Cqe::new(0x5, 0));
        cq.produced = cq.produced.wrapping_add(1);
        true
    }

    /// The driver looks whether the device has changed over, and follows.
    fn follow(&mut self, n: usize) -> bool {
        let cq = &mut self.cqs[n];
        let Some((new, switched)) = &cq.resize else { return false };
        assert_eq!(cq.ring.switch(&HOST, new.driver()), *switched);
        if !*switched {
            return true;
        }
        cq.next.set_from(&cq.ring);
        if let Some((new, _)) = cq.resize.take() {
            cq.old.append(&mut core::mem::replace(&mut cq.device, new).memory);
        }
        true
    }

    /// After each step.
    fn check(&self) -> bool {
        self.cqs.iter().for_each(Queue::check);
        for slot in self.free.iter().chain(&self.returned).chain([&NO_SLOT]) {
            assert_eq!(self.srq.complete(*slot, false), None, "slot {slot} is not with the device");
        }
        true
    }

    fn wraps(&self) -> usize {
        self.cqs.iter().map(|cq| wraps(cq.start, cq.ring.consumer.index())).sum()
    }

    fn state(&self) -> WorldState {
        let cqs: Vec<_> = self.cqs.iter().map(Queue::state).collect();
        let senders: Vec<_> = self.senders.iter().map(|sender| (sender.block(), sender.posted())).collect();
        let waiting = self.waiting.iter().map(|(slot, _)| *slot).collect();
        let unpolled = self.unpolled.iter().map(|(slot, _)| *slot).collect();
        (cqs, senders, [self.free.iter().copied().collect(), self.returned.clone(), waiting, unpolled])
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: the table has no drop of its own, and nothing reaches it any more.
        unsafe { core::ptr::read(&self.users) }.free(&HOST);
    }
}

/// One CQ for both QPs, which changes its ring.
struct Resized(World);

impl Machine for Resized {
    type State = WorldState;

    fn step(&mut self, step: usize) -> bool {
        let world = &mut self.0;
        let taken = match step {
            0 => world.send(0),
            1 => world.cqs[0].has_room() && world.post_recv() && world.receive(1, 0),
            2 => world.lie(0, What::Nobody),
            3 => world.poll(0, 1),
            4 => world.poll(0, 8),
            5 => world.advance(0),
            6 => world.end_view(0),
            7 | 8 => world.sweep(step - 7),
            9..12 => world.resize(0, step as u32 - 8),
            12 => world.change_over(0),
            _ => world.follow(0),
        };
        taken && world.check()
    }

    fn state(&self) -> Self::State {
        self.0.state()
    }

    fn wraps(&self) -> usize {
        self.0.wraps()
    }
}

/// A CQ for each QP.
struct Shared(World);

impl Machine for Shared {
    type State = WorldState;

    fn step(&mut self, step: usize) -> bool {
        let world = &mut self.0;
        let (of, step) = (step % 2, step / 2);
        let taken = match step {
            0 => of == 0 && world.post_recv(),
            1 => world.receive(of, 0),
            2 => world.receive(of, 1),
            3 => world.poll(of, 1),
            4 => world.sweep(of),
            5 => world.lie(of, What::Lie),
            6 => world.advance(of),
            _ => world.end_view(of),
        };
        taken && world.check()
    }

    fn state(&self) -> Self::State {
        self.0.state()
    }

    fn wraps(&self) -> usize {
        self.0.wraps()
    }
}

#[test]
fn every_order_of_writing_polling_sweeping_and_resizing() {
    for start in STARTS {
        let (depth, states) = if start == 0 { (8, 29182) } else { (7, 11728) };
        // The larger entries where the numbers end, too.
        let log_stride = if start == 0 || start == 0xfffe { 6 } else { 7 };
        let explored = explore(14, depth, || Resized(World::new(&[(2, log_stride)], start, [0, 0])));
        let name = format!("CQ of 4 entries of {} bytes from {start:#x}, resized to 2, 4 and 8", 1 << log_stride);
        explored.recorded(&name, states, if start == 0 { 0 } else { 8346 });
    }
}

#[test]
fn every_order_of_two_cqs_on_one_srq() {
    const DEPTH: usize = 8;
    for start in STARTS {
        let explored = explore(16, DEPTH, || Shared(World::new(&[(2, 6), (1, 7)], start, [0, 1])));
        explored.recorded(
            &format!("CQs of 4 and 2 on an SRQ of 4 slots, from {start:#x}"),
            6218,
            usize::from(start != 0),
        );
    }
}
