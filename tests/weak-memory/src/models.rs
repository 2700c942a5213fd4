//! The models: small programs of two or three threads.

use crate::{
    cq_ring::{CqRing, Next, Ring},
    host::HOST,
    record::Record,
    rq::{RecvMemory, RecvRing},
    srq::{SrqSlot, SrqSlots},
    sync::{self, AtomicU32, AtomicU64, Ordering, SpinLock},
    target::Target,
    users::{NO_CQN, Side, Users},
    wq::{RecvQueue, SendQueue, SendSlot},
};
use bareverbs::{Completion, Lkey, QpType, RecvWr, Sge, WcStatus};
use core::ptr::NonNull;
use loom::{cell::UnsafeCell, sync::Arc, thread};
use std::sync::{
    Arc as StdArc,
    atomic::{AtomicUsize, Ordering as Std},
};

/// All of them, by name.
pub const MODELS: &[(&str, fn())] = &[
    ("send-queue", send_queue),
    ("receive-queue", receive_queue),
    ("srq-two-cqs", srq_two_cqs),
    ("srq-one-slot-twice", srq_one_slot_twice),
    ("spin-lock", spin_lock),
    ("qp-goes", qp_goes),
    ("completion-ring", completion_ring),
    ("sweep", sweep),
    ("doorbell-record", doorbell_record),
];

/// How often a thread is stopped where it could go on: with more there are many more interleavings and nothing new.
const PREEMPTIONS: usize = 3;

/// Runs a model in every interleaving of so many preemptions; tells how many there were.
pub fn check(model: fn()) -> usize {
    let count = StdArc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(move || {
        counter.fetch_add(1, Std::Relaxed);
        model();
    });
    count.load(Std::Relaxed)
}

/// What threads share here although it holds addresses: the models keep the tables beside it.
struct Shared<T>(T);

// SAFETY: what is behind the addresses is made of loom's atomics and cells, which check.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Shared<T> {}

/// Polls meet requests while they are posted: an id that comes is right, whatever the device says and when.
fn send_queue() {
    let mut slots: Vec<SendSlot> = (0..2).map(|_| SendSlot::default()).collect();
    // SAFETY: the slots are kept until both threads ended.
    let (queue, mut poster) = unsafe { SendQueue::new(NonNull::new(slots.as_mut_ptr()).unwrap(), 1) };
    let queue = Arc::new(Shared(queue));
    let polled = queue.clone();
    let poller = thread::spawn(move || {
        let mut last = 99;
        for block in [0, 1, 2] {
            if let Some(id) = polled.0.complete(block) {
                // Blocks 0 and 2 are one place of the ring.
                assert!(id > last && id % 2 == u64::from(block) % 2, "{id} of block {block} after {last}");
                last = id;
            }
        }
        last
    });
    // Two fit; the third takes the slot of the first, once that came back.
    for block in 0..3 {
        if poster.has_room(&queue.0, 2) {
            poster.push(100 + block, 1);
            poster.publish(&queue.0);
        }
    }
    assert!(poller.join().unwrap() < 100 + u64::from(poster.posted()));
    drop(slots);
}

fn receive_queue() {
    let ids: Vec<AtomicU64> = (0..2).map(|_| AtomicU64::new(0)).collect();
    // SAFETY: the ids are kept until both threads ended.
    let (queue, mut poster) = unsafe { RecvQueue::new(NonNull::from(&ids[0]), 1) };
    let queue = Arc::new(Shared(queue));
    let polled = queue.clone();
    let poller = thread::spawn(move || {
        let mut next = 100;
        for _ in 0..3 {
            if let Some(id) = polled.0.complete() {
                assert_eq!(id, next);
                next += 1;
            }
        }
    });
    for id in 100..103 {
        if poster.has_room(&queue.0, 2) {
            poster.push(id);
            poster.publish(&queue.0);
        }
    }
    poller.join().unwrap();
    drop(ids);
}

/// An SRQ of four slots, three of them posted.
fn srq() -> (Vec<SrqSlot>, Arc<Shared<SrqSlots>>, crate::srq::SrqPoster) {
    let mut slots: Vec<SrqSlot> = (0..4).map(|_| SrqSlot::default()).collect();
    // SAFETY: the caller keeps the slots until all threads ended.
    let (list, mut poster) = unsafe { SrqSlots::new(NonNull::new(slots.as_mut_ptr()).unwrap(), 2) };
    for id in 0..3 {
        let place = poster.place(&list).unwrap();
        poster.take(place, 100 + id);
    }
    (slots, Arc::new(Shared(list)), poster)
}

/// Two CQs give slots back while the poster takes them again.
fn srq_two_cqs() {
    let (slots, list, mut poster) = srq();
    let pollers = [0, 1].map(|slot| {
        let list = list.clone();
        thread::spawn(move || assert_eq!(list.0.complete(slot, true), Some(100 + u64::from(slot))))
    });
    // The pollers go first: loom tries a load earlier than a store before it, but not a load of one thread later than
    // another's load and store.
    thread::yield_now();
    let mut taken = Vec::new();
    for id in 0..2 {
        if let Some(place) = poster.place(&list.0) {
            poster.take(place, 200 + id);
            taken.push((place.slot, 200 + id));
        }
    }
    pollers.into_iter().for_each(|poller| poller.join().unwrap());
    // Each came back once: what is posted is there, and nothing else.
    for (slot, id) in taken.into_iter().chain([(2, 102)]) {
        assert_eq!(list.0.complete(slot, true), Some(id));
    }
    assert!((0..4).all(|slot| list.0.complete(slot, true).is_none()));
    drop(slots);
}

/// A device tells of one slot in two CQs, and of one that is posted at this moment.
fn srq_one_slot_twice() {
    let (slots, list, mut poster) = srq();
    let pollers = [0, 1].map(|_| {
        let list = list.clone();
        thread::spawn(move || u32::from(list.0.complete(0, true).is_some_and(|id| id == 100)))
    });
    let early = list.clone();
    let came: u32 = pollers.into_iter().map(|poller| poller.join().unwrap()).sum();
    assert_eq!(came, 1, "the slot comes back once");
    let poller = thread::spawn(move || early.0.complete(3, true));
    if let Some(place) = poster.place(&list.0) {
        assert_eq!(place.slot, 3);
        poster.take(place, 300);
    }
    assert!(matches!(poller.join().unwrap(), None | Some(300)));
    drop(slots);
}

fn spin_lock() {
    let lock = Arc::new(Shared(SpinLock::new(UnsafeCell::new(0))));
    // SAFETY: loom checks that one at a time is there.
    let add = |lock: &SpinLock<UnsafeCell<u32>>| lock.with(|value| value.with_mut(|value| unsafe { *value += 1 }));
    let other = lock.clone();
    let thread = thread::spawn(move || add(&other.0));
    add(&lock.0);
    // SAFETY: as above.
    let more = lock.0.try_with(|value| value.with_mut(|value| unsafe { *value += 1 })).is_some();
    thread.join().unwrap();
    // SAFETY: as above.
    assert_eq!(lock.0.with(|value| value.with(|value| unsafe { *value })), 2 + u32::from(more));
}

/// A target with queues of one entry.
fn target(slot: &mut SendSlot, id: &AtomicU64) -> Target {
    // SAFETY: the caller keeps both.
    unsafe {
        let (send, _) = SendQueue::new(NonNull::from(slot), 0);
        let (recv, _) = RecvQueue::new(NonNull::from(id), 0);
        Target::new(QpType::Rc, send, recv, None)
    }
}

/// A QP of CQ 1 goes and its number is another's, of CQ 2, while both CQs are polled and the device names the number.
fn qp_goes() {
    let mut slots = [SendSlot::default(), SendSlot::default()];
    let ids = [AtomicU64::new(0), AtomicU64::new(0)];
    let [slot, other] = &mut slots;
    let targets = [target(slot, &ids[0]), target(other, &ids[1])];
    let addresses = [0, 1].map(|n| NonNull::from(&targets[n]));
    // Stands for the memory of the first QP: freed is written.
    let memory = Arc::new(Shared(UnsafeCell::new(())));
    let users = Arc::new(Shared(Users::new(&HOST, 1).unwrap()));
    let locks = Arc::new(Shared([SpinLock::new(()), SpinLock::new(())]));
    // SAFETY: it is hidden below, and the lock taken, before its memory goes.
    assert_eq!(unsafe { users.0.insert(0, 1, addresses[0], [1, 1]) }, Some(0));
    let pollers = [1, 2].map(|cqn: u32| {
        let (users, locks, memory) = (users.clone(), locks.clone(), memory.clone());
        let first = Shared(addresses[0]);
        thread::spawn(move || {
            let first = first;
            locks.0[cqn as usize - 1].with(|()| {
                for side in [Side::Send, Side::Receive] {
                    // SAFETY: the lock of the CQ is held; the table is kept.
                    let Some(found) = (unsafe { users.0.lookup().get(0, side, cqn) }) else { continue };
                    let is_first = NonNull::from(found) == first.0;
                    assert_eq!(is_first, cqn == 1, "a QP of another CQ");
                    if is_first {
                        memory.0.with(|_| ());
                    }
                }
            });
        })
    });
    users.0.hide(0);
    locks.0[0].with(|()| ());
    memory.0.with_mut(|_| ());
    users.0.remove(0);
    // SAFETY: nothing of the second goes before the end.
    assert_eq!(unsafe { users.0.insert(0, 1, addresses[1], [2, 2]) }, Some(0));
    pollers.into_iter().for_each(|poller| poller.join().unwrap());
    let Ok(Shared(users)) = Arc::try_unwrap(users) else { panic!("both ended") };
    users.free(&HOST);
}

/// Entries of a ring of two.
const ENTRIES: usize = 2;

#[repr(align(64))]
struct Entry([u8; 64]);

/// The memory of a ring, whose entries are not there.
struct Entries(Vec<Entry>);

impl Entries {
    fn new() -> Self {
        let mut memory: Vec<Entry> = (0..ENTRIES).map(|_| Entry([0; 64])).collect();
        let start = memory.as_mut_ptr();
        sync::shadow((0..ENTRIES).map(|n| (start.wrapping_add(n).addr(), 0xf1)));
        Self(memory)
    }

    fn start(&mut self) -> Shared<*mut Entry> {
        Shared(self.0.as_mut_ptr())
    }

    fn ring(&mut self) -> Ring {
        // SAFETY: the memory has so many entries; the models keep it.
        unsafe { Ring::new(NonNull::new(self.0.as_mut_ptr()).unwrap().cast(), ENTRIES.trailing_zeros(), 6) }
    }
}

impl Shared<*mut Entry> {
    /// The device writes the `n`th entry since the beginning: a user index, send opcode and QPN, the index of the WQE,
    /// and a CQE opcode.
    fn write(&self, n: u8, user: u8, sop_qpn: [u8; 4], counter: u8, opcode: u8) {
        let at = self.0.wrapping_add(usize::from(n) % ENTRIES);
        let shadow = sync::shadow_of(at.addr());
        // SAFETY: loom checks that nobody reads the entry; its bytes lie in the memory of the ring.
        shadow.rest.with_mut(|_| unsafe {
            let bytes = at.cast::<u8>();
            bytes.add(0x20).cast::<[u8; 4]>().write([0, 0, 0, user]);
            bytes.add(0x38).cast::<[u8; 4]>().write(sop_qpn);
            bytes.add(0x3c).cast::<[u8; 2]>().write([0, counter]);
        });
        shadow.owner.store(opcode << 4 | (n / ENTRIES as u8) & 1, Ordering::Release);
    }
}

/// Send queues of four requests each, for targets: QP 7 and QP 8 at user indices 0 and 1, of CQ 1.
struct Qps {
    users: Users,
    #[expect(clippy::vec_box, reason = "the table of QPs holds their addresses")]
    targets: Vec<Box<Target>>,
    _slots: Vec<Vec<SendSlot>>,
    _id: Box<AtomicU64>,
}

impl Qps {
    /// With the ids of the requests that each has posted.
    fn new(posted: &[&[u64]]) -> Self {
        let id = Box::new(AtomicU64::new(0));
        let users = Users::new(&HOST, posted.len() as u32).unwrap();
        let (mut targets, mut all_slots) = (Vec::new(), Vec::new());
        for (n, ids) in posted.iter().enumerate() {
            let mut slots: Vec<SendSlot> = (0..4).map(|_| SendSlot::default()).collect();
            // SAFETY: both are kept beside the target.
            let (send, mut poster) = unsafe { SendQueue::new(NonNull::new(slots.as_mut_ptr()).unwrap(), 2) };
            // SAFETY: as above.
            let (recv, _) = unsafe { RecvQueue::new(NonNull::from(&*id), 0) };
            for id in *ids {
                assert!(poster.has_room(&send, 4));
                poster.push(*id, 1);
            }
            poster.publish(&send);
            let target = Box::new(Target::new(QpType::Rc, send, recv, None));
            target.set_qpn(7 + n as u32);
            // SAFETY: the target is kept until the threads ended.
            let user = unsafe { users.insert(n as u32, 2, NonNull::from(&*target), [1, NO_CQN]) };
            assert_eq!(user, Some(n as u32));
            targets.push(target);
            all_slots.push(slots);
        }
        Self { users, targets, _slots: all_slots, _id: id }
    }

    fn ring(&self, entries: &mut Entries, record: &[AtomicU32; 2]) -> CqRing {
        // SAFETY: record and table are kept.
        let mut ring = unsafe { CqRing::new(entries.ring(), NonNull::from(record), self.users.lookup(), true, true) };
        ring.cqn = 1;
        ring
    }

    fn end(self) {
        self.users.free(&HOST);
        sync::shadow(core::iter::empty());
    }
}

/// Send opcodes and QPNs of the two QPs' requests.
const OF_QP_7: [u8; 4] = [0x0a, 0, 0, 7];
const OF_QP_8: [u8; 4] = [0x0a, 0, 0, 8];

/// The device writes three completions into a ring of two; the third when it was told that the first was read.
fn completion_ring() {
    let qps = Qps::new(&[&[100, 101, 102]]);
    let mut entries = Entries::new();
    let record = Box::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let ring = qps.ring(&mut entries, &record);
    let next = Next::new(&ring);
    let poller = Shared((ring, next));
    let thread = thread::spawn(move || {
        let Shared((mut ring, next)) = { poller };
        let mut expected = 100;
        for _ in 0..3 {
            let mut out = Completion::default();
            if ring.poll_one(&next, &HOST, true, &mut out) {
                assert_eq!(out.wr_id, expected);
                expected += 1;
            }
        }
    });
    for n in 0..3u8 {
        // Acquire stands for the device, which reads the record before it writes.
        let told = u32::from_be(record[0].load(Ordering::Acquire));
        if u32::from(n) - told >= ENTRIES as u32 {
            break;
        }
        entries.start().write(n, 0, OF_QP_7, n, 0x0);
    }
    thread.join().unwrap();
    qps.end();
    drop(entries);
}

/// A QP goes while its CQ is polled: its entry is taken out of a full ring of two, so that another moves to its place, and
/// the device goes on where that was. The poller looks at the owner byte before it takes the lock.
fn sweep() {
    let qps = Arc::new(Shared(Qps::new(&[&[100, 101], &[200]])));
    let mut entries = Entries::new();
    let record = Arc::new(Shared(Box::new([AtomicU32::new(1_u32.to_be()), AtomicU32::new(0)])));
    let mut ring = qps.0.ring(&mut entries, &record.0);
    ring.consumer = bareverbs::cq::Consumer::at(ENTRIES.trailing_zeros(), 1);
    let next = Next::new(&ring);
    let device = entries.start();
    device.write(1, 0, OF_QP_7, 0, 0x0);
    device.write(2, 1, OF_QP_8, 0, 0xd);
    let cq = Arc::new(Shared((SpinLock::new(ring), next)));
    let polled = cq.clone();
    let poll = move |cq: &(SpinLock<CqRing>, Next), seen: &mut Vec<(u64, bool)>| {
        let (lock, next) = cq;
        // SAFETY: the ring is not changed for another.
        if unsafe { next.is_empty() } {
            return;
        }
        let mut out = [Completion::default()];
        let taken = lock.with(|ring| {
            let [place] = &mut out;
            match ring.poll_one(next, &HOST, true, place) {
                true => 1,
                false => ring.poll_odd(next, &HOST, &mut out, 0),
            }
        });
        seen.extend(out[..taken].iter().map(|done| (done.wr_id, done.status == WcStatus::Success)));
    };
    let poller = thread::spawn(move || {
        let mut seen = Vec::new();
        (0..2).for_each(|_| poll(&polled.0, &mut seen));
        seen
    });
    let (swept, goes) = (cq.clone(), qps.clone());
    let sweeper = thread::spawn(move || {
        swept.0.0.with(|ring| {
            ring.sweep(&HOST, 1, &goes.0.targets[1]);
            swept.0.1.set_from(ring);
        });
    });
    // Acquire stands for the device, which reads the record before it writes.
    let written = u32::from_be(record.0[0].load(Ordering::Acquire)) >= 2;
    if written {
        device.write(3, 0, OF_QP_7, 1, 0x0);
    }
    let mut seen = poller.join().unwrap();
    sweeper.join().unwrap();
    (0..2).for_each(|_| poll(&cq.0, &mut seen));
    // The failed request of the QP that goes, if it was met before.
    seen.retain(|done| *done != (200, false));
    let all = [(100, true), (101, true)];
    assert_eq!(seen, all[..1 + usize::from(written)]);
    drop(cq);
    let Ok(Shared(qps)) = Arc::try_unwrap(qps) else { panic!("all ended") };
    qps.end();
    drop(entries);
}

/// The device reads how many receives there are, and then these: what it reads was written before.
fn doorbell_record() {
    #[repr(align(64))]
    struct Wqe([u8; 16]);
    let mut ring: Vec<Wqe> = (0..2).map(|_| Wqe([0; 16])).collect();
    let start = Shared(ring.as_mut_ptr());
    sync::shadow((0..2).map(|n| (start.0.wrapping_add(n).addr(), 0)));
    let ids: Vec<AtomicU64> = (0..2).map(|_| AtomicU64::new(0)).collect();
    // SAFETY: the ids are kept until both threads ended.
    let (queue, poster) = unsafe { RecvQueue::new(NonNull::from(&ids[0]), 1) };
    let dword = Arc::new(Shared(AtomicU32::new(0)));
    let memory = RecvMemory {
        start: NonNull::new(start.0).unwrap().cast(),
        stride: size_of::<Wqe>(),
        // SAFETY: the dword is kept until both threads ended.
        record: unsafe { Record::new(NonNull::from(&dword.0)) },
    };
    // SAFETY: the memory has two WQEs of one segment, and is kept.
    let mut poster = unsafe { RecvRing::new(memory, poster, 2, 1) };
    poster.set_open(true);
    assert!(poster.look(&queue));
    let record = dword.clone();
    let device = thread::spawn(move || {
        let start = start;
        // Acquire stands for the device, which reads the record before the requests.
        let posted = u32::from_be(record.0.load(Ordering::Acquire)) as usize;
        for n in 0..posted {
            let at = start.0.wrapping_add(n);
            // SAFETY: loom checks that nobody writes it meanwhile.
            let bytes = sync::shadow_of(at.addr()).rest.with(|_| unsafe { (*at).0 });
            assert_eq!(bytes[7], n as u8 + 1, "the lkey of receive {n}");
        }
        posted
    });
    for n in 0..2 {
        // SAFETY: no device writes there.
        let sge = [unsafe { Sge::from_raw(0x1000, 64, Lkey(n + 1)) }];
        assert!(poster.post_short(&queue, &HOST, &RecvWr::new(n.into(), &sge)));
    }
    assert!(device.join().unwrap() <= 2);
    sync::shadow(core::iter::empty());
    drop((ring, ids));
}
