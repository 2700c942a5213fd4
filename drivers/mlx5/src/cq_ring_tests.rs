//! The completion ring on hand-made entries: offsets and codes are those of the PRM's "Completion Queue Entry", written
//! here as plain numbers, not taken from the crate that the driver reads them with.

use super::*;
use crate::{test_host, users::Users};
use bareverbs::{
    Lid, QpType, WcFlags, WcOpcode, WcStatus,
    srq::{SrqPoster, SrqSlot, SrqSlots},
    wq::{RecvPoster, RecvQueue, SendPoster, SendQueue, SendSlot},
};
use core::{cell::Cell, sync::atomic::AtomicU64};
use std::{boxed::Box, rc::Rc, vec, vec::Vec};

#[path = "cq_ring_format_tests.rs"]
mod formats;

const QPN: u32 = 0x01_0203;
/// The CQ.
const CQN: u32 = 7;

/// A host without a device that hears of reads.
pub(super) const HOST: test_host::Host<Option<Rc<Device>>> = test_host::Host(None);

impl test_host::Barriers for Option<Rc<Device>> {
    fn rmb(&self) {
        if let Some(device) = self {
            device.read.set(device.read.get() + 1);
            device.append();
        }
    }
}

/// A device that appends an entry whenever one is read, for as long as the ring has room.
pub(super) struct Device {
    first: NonNull<u8>,
    record: NonNull<[AtomicU32; 2]>,
    log: u32,
    produced: Cell<u32>,
    read: Cell<u32>,
}

impl Device {
    fn append(&self) {
        // SAFETY: ring and record are kept in the rig.
        let [consumer, _] = unsafe { self.record.as_ref() };
        let produced = self.produced.get();
        if produced - u32::from_be(consumer.load(Ordering::Relaxed)) < 1 << self.log {
            let mut cqe = Cqe::new(0x0, produced as u16).sent(0x0a);
            cqe.0[63] |= (produced >> self.log) as u8 & 1;
            // SAFETY: the entry is free: the device was told that it was read.
            unsafe {
                self.first.add(((produced & ((1 << self.log) - 1)) << 6) as usize).cast::<[u8; 64]>().write(cqe.0)
            };
            self.produced.set(produced + 1);
        }
    }
}

/// An entry as the device writes it.
#[derive(Clone)]
pub(super) struct Cqe(pub(super) [u8; 64]);

impl Cqe {
    /// CQE opcode, and the index of the WQE.
    pub(super) fn new(opcode: u8, counter: u16) -> Self {
        let mut e = [0; 64];
        e[56..60].copy_from_slice(&QPN.to_be_bytes());
        e[60..62].copy_from_slice(&counter.to_be_bytes());
        e[63] = opcode << 4;
        Self(e)
    }

    pub(super) fn dword(mut self, at: usize, value: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&value.to_be_bytes());
        self
    }

    pub(super) fn byte(mut self, at: usize, value: u8) -> Self {
        self.0[at] = value;
        self
    }

    /// The send opcode of a requester's entry.
    pub(super) fn sent(self, opcode: u8) -> Self {
        self.byte(56, opcode)
    }
}

#[repr(C, align(128))]
#[derive(Clone, Copy)]
pub(super) struct Line(pub(super) [u8; 128]);

/// A ring, a QP with user index 0 and queues of 32 requests (an SRQ of 8), and a device that writes entries.
struct Rig {
    ring: CqRing,
    next: Next,
    users: Users,
    target: Box<Target>,
    send: SendPoster,
    recv: RecvPoster,
    srq: Option<(Box<SrqSlots>, SrqPoster)>,
    record: Box<[AtomicU32; 2]>,
    produced: u32,
    log: u32,
    log_stride: u32,
    memory: Vec<Line>,
    _tables: (Vec<SendSlot>, Vec<AtomicU64>, Vec<SrqSlot>),
}

impl Rig {
    fn new(kind: QpType, shared_receives: bool, log: u32, log_stride: u32, infiniband: bool) -> Self {
        let mut memory = vec![Line([0xa5; 128]); 1 << log];
        let record = Box::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let mut slots: Vec<SendSlot> = (0..32).map(|_| SendSlot::default()).collect();
        let wr_ids: Vec<AtomicU64> = (0..32).map(|_| AtomicU64::new(0)).collect();
        let mut srq_slots: Vec<SrqSlot> = (0..8).map(|_| SrqSlot::default()).collect();
        let first = NonNull::new(memory.as_mut_ptr()).unwrap().cast::<u8>();
        // SAFETY: the memory is large enough for either stride, kept in the rig, and aligned.
        let ring = unsafe { Ring::new(first, log, log_stride) };
        ring.invalidate();
        let users = Users::new(&HOST, 4).unwrap();
        // SAFETY: the record and the table are kept in the rig.
        let mut ring = unsafe { CqRing::new(ring, NonNull::from(&*record), users.lookup(), infiniband, false) };
        ring.cqn = CQN;
        // SAFETY: the tables have 32 entries and are kept in the rig.
        let (queues, srq) = unsafe {
            (
                (
                    SendQueue::new(NonNull::new(slots.as_mut_ptr()).unwrap(), 5),
                    RecvQueue::new(NonNull::new(wr_ids.as_ptr().cast_mut()).unwrap(), 5),
                ),
                SrqSlots::new(NonNull::new(srq_slots.as_mut_ptr()).unwrap(), 3),
            )
        };
        let ((send_queue, send), (recv_queue, recv)) = queues;
        let srq = shared_receives.then(|| (Box::new(srq.0), srq.1));
        let slots_of = srq.as_ref().map(|(slots, _)| NonNull::from(&**slots));
        let target = Box::new(Target::new(kind, send_queue, recv_queue, slots_of));
        target.set_qpn(QPN);
        target.pkey_index.store(5, Ordering::Relaxed);
        // SAFETY: the QP is kept in the rig.
        assert_eq!(unsafe { users.insert(0, 4, NonNull::from(&*target), [CQN; 2]) }, Some(0));
        let next = Next::new(&ring);
        Self {
            ring,
            next,
            users,
            target,
            send,
            recv,
            srq,
            record,
            produced: 0,
            log,
            log_stride,
            memory,
            _tables: (slots, wr_ids, srq_slots),
        }
    }

    fn rc() -> Self {
        Self::new(QpType::Rc, false, 3, 6, true)
    }

    /// Posts sends of these ids, one block each.
    fn post_sends(&mut self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            assert!(self.send.has_room(&self.target.send, 32));
            self.send.push(id, 1);
        }
        self.send.publish(&self.target.send);
    }

    fn post_recvs(&mut self, ids: impl IntoIterator<Item = u64>) {
        for id in ids {
            assert!(self.recv.has_room(&self.target.recv, 32));
            self.recv.push(id);
        }
        self.recv.publish(&self.target.recv);
    }

    /// Posts to the SRQ; tells the slots.
    fn post_srq(&mut self, ids: impl IntoIterator<Item = u64>) -> Vec<u16> {
        let (slots, poster) = self.srq.as_mut().unwrap();
        let mut post = |id| {
            let place = poster.place(slots)?;
            poster.take(place, id);
            Some(place.slot as u16)
        };
        ids.into_iter().map_while(&mut post).collect()
    }

    /// The device writes an entry, with the owner bit of its lap.
    fn write(&mut self, mut cqe: Cqe) {
        cqe.0[63] |= (self.produced >> self.log) as u8 & 1;
        let at = ((self.produced & ((1 << self.log) - 1)) << self.log_stride) as usize + (1 << self.log_stride) - 64;
        // SAFETY: inside the memory, which the consumer does not read now.
        unsafe { self.memory.as_mut_ptr().cast::<u8>().add(at).copy_from(cqe.0.as_ptr(), 64) };
        self.produced += 1;
    }

    fn poll(&mut self, most: usize) -> Result<Vec<Completion>, PollError> {
        let mut out = vec![Completion { wr_id: 0xdead, ..Completion::default() }; most];
        let taken = match &mut out[..] {
            [place] => match self.ring.poll_one(&self.next, &HOST, false, place) {
                true => 1,
                false => self.ring.poll_odd(&self.next, &HOST, &mut out, 0),
            },
            _ => match self.ring.poll_many(&self.next, &HOST, false, &mut out) {
                Ok(taken) => taken,
                Err(taken) => self.ring.poll_odd(&self.next, &HOST, &mut out, taken),
            },
        };
        if taken == 0 {
            self.ring.refusal()?;
        }
        out.truncate(taken);
        Ok(out)
    }

    fn one(&mut self) -> Completion {
        let all = self.poll(2).unwrap();
        assert_eq!(all.len(), 1);
        all[0]
    }

    /// The consumer index that the device reads.
    fn told(&self) -> u32 {
        u32::from_be(self.record[0].load(Ordering::Relaxed))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let users = core::mem::replace(&mut self.users, Users::new(&HOST, 1).unwrap());
        users.free(&HOST);
        let last = core::mem::replace(&mut self.users, Users::new(&HOST, 1).unwrap());
        last.free(&HOST);
    }
}

#[test]
fn what_a_requester_did() {
    let mut rig = Rig::rc();
    let rows = [
        (0x0a, WcOpcode::Send, 0),
        (0x0b, WcOpcode::Send, 0),
        (0x01, WcOpcode::Send, 0),
        (0x08, WcOpcode::Write, 0),
        (0x09, WcOpcode::Write, 0),
        (0x10, WcOpcode::Read, 777),
        (0x11, WcOpcode::CompareSwap, 8),
        (0x12, WcOpcode::FetchAdd, 8),
    ];
    rig.post_sends(100..108);
    for (n, (opcode, _, _)) in rows.iter().enumerate() {
        rig.write(Cqe::new(0x0, n as u16).sent(*opcode).dword(44, 777).dword(36, 0x5555));
    }
    let all = rig.poll(16).unwrap();
    for (n, (completion, (_, opcode, byte_len))) in all.iter().zip(rows).enumerate() {
        let expected = Completion {
            wr_id: 100 + n as u64,
            status: WcStatus::Success,
            opcode,
            byte_len,
            qpn: Qpn::new(QPN),
            ..Completion::default()
        };
        assert_eq!(*completion, expected);
    }
    assert_eq!((all.len(), rig.told()), (8, 8));
}

/// A frame's entry holds a flow tag in the place of the QPN, which may be any number, also that of the QP.
#[test]
fn a_frame_is_a_frame_whatever_its_flow_tag() {
    let mut rig = Rig::new(QpType::RawPacket, false, 3, 6, false);
    let tags = [0, 1, QPN, 0xff << 24 | QPN];
    rig.post_recvs(1..5);
    for tag in tags {
        // Layer 3 and 4 found right, in an IPv4 packet.
        rig.write(Cqe::new(0x2, 0).dword(56, tag).dword(44, 60).byte(28, 0x06).byte(29, 0x08));
    }
    let frame = Completion {
        opcode: WcOpcode::Recv,
        flags: WcFlags::IP_CSUM_OK,
        byte_len: 60,
        qpn: Qpn::new(QPN),
        ..Completion::default()
    };
    assert_eq!(rig.poll(1).unwrap(), [Completion { wr_id: 1, ..frame }]);
    assert_eq!(rig.poll(2).unwrap(), [2, 3].map(|wr_id| Completion { wr_id, ..frame }));
    assert_eq!(rig.poll(1).unwrap(), [Completion { wr_id: 4, ..frame }]);
}

#[test]
fn what_a_responder_got() {
    let mut rig = Rig::rc();
    let rows = [
        (0x1, WcOpcode::RecvWriteImm, WcFlags::WITH_IMM, 0x1122_3344),
        (0x2, WcOpcode::Recv, WcFlags::empty(), 0),
        (0x3, WcOpcode::Recv, WcFlags::WITH_IMM, 0x1122_3344),
        (0x4, WcOpcode::Recv, WcFlags::WITH_INVALIDATE, 0x1122_3344),
    ];
    rig.post_recvs(200..204);
    for (opcode, ..) in rows {
        // GRH flags, service level and LID stand there on RoCE and InfiniBand alike; of no worth on an RC QP.
        let cqe =
            Cqe::new(opcode, 7).dword(44, 65).dword(36, 0x1122_3344).dword(24, 0x3f00_0456).dword(20, 0x0000_0009);
        rig.write(cqe);
    }
    for (n, (completion, (_, opcode, flags, imm))) in rig.poll(16).unwrap().iter().zip(rows).enumerate() {
        let wr_id = 200 + n as u64;
        let (qpn, src_qp) = (Qpn::new(QPN), Qpn::new(0x456));
        let expected = Completion { wr_id, opcode, flags, imm, byte_len: 65, qpn, src_qp, ..Completion::default() };
        assert_eq!(*completion, expected);
    }
}

#[test]
fn where_a_datagram_came_from() {
    for (infiniband, sl, slid, path) in [(true, 0xb, 0x1234, 0x15), (false, 0, 0, 0)] {
        let mut rig = Rig::new(QpType::Ud, false, 3, 6, infiniband);
        rig.post_recvs([1, 2]);
        // GRH flags 1, service level 11, source QPN 0x789; LID 0x1234; path bits 0x15 under the multicast bit.
        let cqe = Cqe::new(0x3, 0).dword(44, 104).dword(36, 0xabcd).dword(24, 0x1b00_0789);
        let cqe = cqe.byte(17, 0x95).byte(22, 0x12).byte(23, 0x34);
        rig.write(cqe.clone());
        rig.write(cqe.dword(24, 0x0b00_0789));
        let all = rig.poll(3).unwrap();
        let first = Completion {
            wr_id: 1,
            byte_len: 104,
            imm: 0xabcd,
            qpn: Qpn::new(QPN),
            src_qp: Qpn::new(0x789),
            vendor_err: 0,
            pkey_index: 5,
            slid: Lid(slid),
            status: WcStatus::Success,
            opcode: WcOpcode::Recv,
            flags: WcFlags::WITH_IMM | WcFlags::GRH,
            sl,
            dlid_path_bits: path,
        };
        assert_eq!(all, [first, Completion { wr_id: 2, flags: WcFlags::WITH_IMM, ..first }]);
    }
}

#[test]
fn why_a_request_failed() {
    let rows = [
        (0x01, WcStatus::LocalLength),
        (0x02, WcStatus::LocalQpOperation),
        (0x04, WcStatus::LocalProtection),
        (0x05, WcStatus::WorkRequestFlushed),
        (0x06, WcStatus::MemoryWindowBind),
        (0x10, WcStatus::BadResponse),
        (0x11, WcStatus::LocalAccess),
        (0x12, WcStatus::RemoteInvalidRequest),
        (0x13, WcStatus::RemoteAccess),
        (0x14, WcStatus::RemoteOperation),
        (0x15, WcStatus::RetryExceeded),
        (0x16, WcStatus::RnrRetryExceeded),
        (0x22, WcStatus::RemoteAborted),
        (0x99, WcStatus::General),
    ];
    use WcOpcode::{CompareSwap, FetchAdd, Read, Send, Write};
    let requests = [(0x0a, Send), (0x08, Write), (0x10, Read), (0x11, CompareSwap), (0x12, FetchAdd)];
    let mut rig = Rig::rc();
    for (n, (syndrome, status)) in rows.into_iter().enumerate() {
        let (id, (sent, opcode)) = (n as u64, requests[n % requests.len()]);
        rig.post_sends([id]);
        rig.write(Cqe::new(0xd, n as u16).sent(sent).byte(54, 0x88).byte(55, syndrome));
        rig.post_recvs([id + 50]);
        rig.write(Cqe::new(0xe, n as u16).byte(54, 0x77).byte(55, syndrome));
        let all: [Completion; 2] = rig.poll(2).unwrap().try_into().unwrap();
        assert_eq!((all[0].wr_id, all[0].status, all[0].vendor_err), (id, status, 0x88));
        assert_eq!((all[1].wr_id, all[1].status, all[1].vendor_err), (id + 50, status, 0x77));
        assert_eq!(all.map(|c| (c.qpn.get(), c.opcode)), [(QPN, opcode), (QPN, WcOpcode::Recv)]);
    }
}

#[test]
fn entries_that_make_no_sense_are_told_when_they_come_first() {
    let mut rig = Rig::rc();
    rig.post_sends([1, 2]);
    rig.write(Cqe::new(0x0, 0).sent(0x0a));
    rig.write(Cqe::new(0x0, 1).sent(0x0a).dword(56, 0x0a << 24 | 0x99)); // another QP's number
    rig.write(Cqe::new(0x0, 1).sent(0x0a).dword(32, 3)); // a user index that nobody has
    rig.write(Cqe::new(0x0, 5).sent(0x0a)); // no such request
    rig.write(Cqe::new(0x0, 1).sent(0x77)); // no such operation
    rig.write(Cqe::new(0x2, 0)); // no receive is posted
    rig.write(Cqe::new(0x9, 0)); // no such opcode
    rig.write(Cqe::new(0x0, 1).sent(0x0a));
    assert_eq!(rig.poll(16).unwrap().len(), 1);
    assert_eq!(rig.poll(16), Err(PollError::UnknownQp(Qpn::new(0x99))));
    assert_eq!(rig.poll(1), Err(PollError::UnknownQp(Qpn::new(QPN))));
    for _ in 0..4 {
        assert_eq!(rig.poll(16), Err(PollError::BadEntry));
    }
    assert_eq!(rig.one().wr_id, 2);
    assert_eq!((rig.poll(16), rig.told()), (Ok(vec![]), 8));
}

#[test]
fn data_inside_the_entry_is_not_taken_for_data_in_memory() {
    let mut rig = Rig::rc();
    rig.post_recvs([1, 2]);
    rig.write(Cqe::new(0x2, 0).byte(63, 0x2 << 4 | 1 << 2)); // 32 bytes in the entry: never asked for
    rig.write(Cqe::new(0x2, 0).byte(63, 0x2 << 4 | 1 << 1)); // solicited
    assert_eq!(rig.poll(4), Err(PollError::BadEntry));
    assert_eq!(rig.one().wr_id, 1);
}

#[test]
fn case_01_and_07_laps_and_bounds() {
    for log_stride in [6, 7] {
        let mut rig = Rig::new(QpType::Rc, false, 2, log_stride, true);
        for id in 0..50u64 {
            assert_eq!(rig.poll(4), Ok(vec![]));
            rig.post_sends([id, id + 1000]);
            rig.write(Cqe::new(0x0, (2 * id) as u16).sent(0x0a));
            rig.write(Cqe::new(0x0, (2 * id + 1) as u16).sent(0x0a));
            // Two are there; who asks for one gets one.
            assert_eq!(rig.poll(1).unwrap().iter().map(|c| c.wr_id).collect::<Vec<_>>(), [id]);
            assert_eq!(rig.told(), 2 * id as u32 + 1);
            assert_eq!(rig.one().wr_id, id + 1000);
        }
    }
}

/// The device appends an entry each time one is read: a poll for 16 ends after 16, and has read no more.
#[test]
fn case_07_the_device_appends_while_it_is_polled() {
    let mut rig = Rig::new(QpType::Rc, false, 5, 6, true);
    let first = NonNull::new(rig.memory.as_mut_ptr()).unwrap().cast::<u8>();
    let (record, zero) = (NonNull::from(&*rig.record), || Cell::new(0));
    let device = Rc::new(Device { first, record, log: 5, produced: zero(), read: zero() });
    device.append();
    let (mut posted, mut next) = (0, 0);
    for poll in 0..1000 {
        rig.post_sends(posted..next + 32);
        posted = next + 32;
        device.read.set(0);
        let mut out = [Completion::default(); 16];
        let host = test_host::Host(Some(device.clone()));
        let taken = rig.ring.poll_many(&rig.next, &host, false, &mut out);
        let taken = taken.unwrap_or_else(|taken| rig.ring.poll_odd(&rig.next, &host, &mut out, taken));
        assert_eq!((taken, device.read.get()), (16, 16), "poll {poll}");
        for done in &out {
            assert_eq!(done.wr_id, next);
            next += 1;
        }
        // One more is there than was read: the entry appended last.
        assert_eq!(u64::from(device.produced.get()), next + 1);
        assert_eq!(u64::from(rig.told()), next);
    }
}

/// The QP may go under the other CQ's lock at this moment: it is not looked at.
#[test]
fn an_entry_that_names_a_qp_of_another_cq_is_refused() {
    for (opcode, most) in [(0x0, 1), (0x0, 2), (0x2, 1), (0xd, 1), (0xe, 2)] {
        let mut rig = Rig::rc();
        rig.post_sends([1]);
        rig.post_recvs([2]);
        rig.write(Cqe::new(opcode, 0).sent(0x0a));
        rig.ring.cqn = CQN + 1;
        assert_eq!(rig.poll(most), Err(PollError::UnknownQp(Qpn::new(QPN))), "opcode {opcode:#x}");
        assert_eq!((rig.target.send.outstanding(), rig.target.recv.outstanding()), (1, 1));
    }
}

#[test]
fn a_view_keeps_the_entry_that_it_shows() {
    let mut rig = Rig::rc();
    rig.post_sends([1, 2]);
    rig.write(Cqe::new(0x0, 0).sent(0x10).dword(44, 33).dword(48, 1).dword(52, 2));
    rig.write(Cqe::new(0xd, 1).sent(0x08).byte(55, 0x13));
    let shown = rig.ring.advance(&HOST).unwrap().unwrap();
    assert_eq!((shown.wr_id, rig.told()), (1, 0));
    assert_eq!((shown.completion().byte_len, shown.entry.timestamp()), (33, 1 << 32 | 2));
    let shown = rig.ring.advance(&HOST).unwrap().unwrap();
    assert_eq!((shown.wr_id, shown.completion().status, rig.told()), (2, WcStatus::RemoteAccess, 1));
    assert!(rig.ring.advance(&HOST).unwrap().is_none());
    assert_eq!(rig.told(), 2);
}

#[test]
fn sweeping_takes_one_qps_entries_and_gives_slots_back() {
    let mut rig = Rig::new(QpType::Rc, true, 3, 6, true);
    rig.post_sends([1, 2]);
    let slots = rig.post_srq(0..8);
    assert_eq!(slots.len(), 7, "one slot stays back");
    // Another QP's entries between: its number and user index, nobody's here.
    let other = |n| Cqe::new(0x0, n).dword(56, 0x0a << 24 | 0x99).dword(32, 1);
    rig.write(Cqe::new(0x0, 0).sent(0x0a));
    rig.write(other(0));
    for slot in &slots[..3] {
        rig.write(Cqe::new(0x2, *slot));
    }
    rig.write(other(1));
    rig.ring.sweep(&HOST, 0, &rig.target);
    rig.next.set_from(&rig.ring);
    assert_eq!(rig.told(), 4, "four of six are gone");
    assert_eq!(rig.post_srq(10..20).len(), 3);
    for _ in 0..2 {
        assert_eq!(rig.poll(8), Err(PollError::UnknownQp(Qpn::new(0x99))));
    }
    assert_eq!(rig.poll(8), Ok(vec![]));
}

#[test]
fn the_room_that_is_there_without_a_qp() {
    let mut rig = Rig::rc();
    rig.post_sends([1, 2]);
    rig.post_recvs([3]);
    assert_eq!(rig.ring.room_without(&HOST, 0, &rig.target), (8, 0));
    rig.write(Cqe::new(0x0, 0).sent(0x0a));
    rig.write(Cqe::new(0x2, 0));
    // Of a QP that had its user index before, and of one that has its number at another.
    rig.write(Cqe::new(0x0, 0).dword(56, 0x0a << 24 | 0x99));
    rig.write(Cqe::new(0x0, 0).sent(0x0a).dword(32, 1));
    assert_eq!(rig.ring.room_without(&HOST, 0, &rig.target), (6, 1));
    // The entry that is shown and those behind it stay the driver's; its request is retired.
    assert_eq!(rig.ring.advance(&HOST).unwrap().unwrap().wr_id, 1);
    assert_eq!(rig.ring.room_without(&HOST, 0, &rig.target), (4, 0));
    rig.ring.end_view();
    assert_eq!(rig.ring.room_without(&HOST, 0, &rig.target), (6, 0));
}

/// One more than was asked for.
#[test]
fn all_entries_of_a_full_ring_are_unpolled() {
    let mut rig = Rig::rc();
    (0..8).for_each(|n| rig.write(Cqe::new(0x0, n).sent(0x0a)));
    assert_eq!((rig.ring.fit(7), rig.ring.fit(8)), (Err(Error::BelowUnpolled { unpolled: 8 }), Ok(())));
}

#[test]
fn case_04_unpolled_entries_move_to_the_new_ring() {
    let mut rig = Rig::rc();
    // Into the second lap, so that owner bits differ between the rings.
    for id in 0..10u64 {
        rig.post_sends([id]);
        rig.write(Cqe::new(0x0, id as u16).sent(0x0a));
        assert_eq!(rig.one().wr_id, id);
    }
    rig.post_sends(100..106);
    for n in 10..16u16 {
        rig.write(Cqe::new(0x0, n).sent(0x0a));
    }
    let mut memory = vec![Line([0x5a; 128]); 8];
    // SAFETY: 16 entries of 64 bytes, kept until the end.
    let new = unsafe { Ring::new(NonNull::new(memory.as_mut_ptr()).unwrap().cast(), 4, 6) };
    new.invalidate();
    assert!(!rig.ring.switch(&HOST, new), "the old ring has not ended");
    assert_eq!(rig.told(), 10);
    rig.write(Cqe::new(0x5, 0)); // RESIZE_CQ, which the device counts
    assert!(rig.ring.switch(&HOST, new));
    rig.next.set_from(&rig.ring);
    (rig.memory, rig.log) = (memory, 4);
    rig.post_sends([200, 201]);
    rig.write(Cqe::new(0x0, 16).sent(0x0a));
    rig.write(Cqe::new(0x0, 17).sent(0x0a));
    let ids: Vec<u64> = rig.poll(16).unwrap().iter().map(|c| c.wr_id).collect();
    assert_eq!(ids, [100, 101, 102, 103, 104, 105, 200, 201]);
    assert_eq!((rig.poll(16), rig.told()), (Ok(vec![]), 19));
}

#[test]
fn arming_leaves_the_consumer_index_alone() {
    let mut rig = Rig::rc();
    rig.ring.consumer = Consumer::at(3, 0x1200_0345);
    rig.ring.publish();
    rig.ring.write_arm(0x1234_5678);
    assert_eq!([&rig.record[0], &rig.record[1]].map(|w| w.load(Ordering::Relaxed).to_be()), [0x345, 0x1234_5678]);
    assert_eq!(rig.ring.index(), 0x345, "24 bits");
}

#[test]
fn case_02_a_fresh_ring_is_empty_whatever_its_memory_held() {
    let random = |n: usize| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) as u8;
    let patterns: [&dyn Fn(usize) -> u8; 3] = [&|_| 0, &|_| 0xff, &random];
    for pattern in patterns {
        for (log, log_stride) in [(0, 6), (3, 6), (5, 7)] {
            let mut memory: Vec<u8> = (0..1 << (log + log_stride)).map(pattern).collect();
            // SAFETY: the vector has that many entries and outlives the ring.
            let ring = unsafe { Ring::new(NonNull::new(memory.as_mut_ptr()).unwrap(), log, log_stride) };
            ring.invalidate();
            // In either lap.
            for index in 0..2 << log {
                let at = Consumer::at(log, index);
                assert!(!ring.is_new(at), "entry {index} of 2^{log}");
                assert_eq!(ring.entry(at).opcode(), opcode::INVALID);
            }
        }
    }
}
