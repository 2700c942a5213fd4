//! The device under test: the driver's objects, the memory of their rings, and the bench in the device's place.

use crate::{
    entries::{CQE, Cqe, REQ, RESP_SEND},
    hal::{BenchHal, Memory},
};
use anyhow::{Context, Result, ensure};
use bareverbs::*;
use bareverbs_harness::World;
use bareverbs_mlx5::{Config, Cq, Mlx5, Pd, Policy, Qp, Srq};
use bareverbs_model_mlx5::{Hca, HcaConfig};
use std::time::Duration;

/// Requests of a queue, entries of a CQ, requests of a round.
pub const N: usize = 1024;
/// The device posts no more than this into the SRQ in a round.
pub const SRQ_ROUND: usize = 992;

const PORT: PortNum = PortNum(1);

/// A completion queue and the device's end of it.
pub struct CqRig<P: Policy> {
    pub cq: Cq<BenchHal, P>,
    ring: Memory,
    /// Entries written since the beginning.
    produced: u32,
}

impl<P: Policy> CqRig<P> {
    /// A CQ of `entries` (a power of two).
    pub fn new(device: &Card<P>, entries: usize) -> Result<Self> {
        device.hal.take_memory();
        let cq = device.verbs.create_cq(&CqInit { entries: entries as u32 - 1, ..CqInit::default() })?;
        let ring = device.hal.take_memory().into_iter().find(|memory| memory.len == entries * CQE);
        Ok(Self { cq, ring: ring.context("a CQ's ring")?, produced: 0 })
    }

    /// Entries of its ring.
    fn entries(&self) -> u32 {
        (self.ring.len / CQE) as u32
    }

    /// Writes the next entry, as the device does.
    pub fn complete(&mut self, cqe: Cqe, counter: u16) {
        self.write(cqe.bytes(counter));
    }

    /// Writes the next entry by its bytes, whose owner bit is set here.
    pub fn write(&mut self, mut bytes: [u8; CQE]) {
        let slot = self.produced % self.entries();
        let owner = (self.produced / self.entries()) as u8 & 1;
        bytes[CQE - 1] = bytes[CQE - 1] & !1 | owner;
        // SAFETY: a whole entry inside the ring, in memory that lives as long as the CQ.
        unsafe { self.ring.ptr.add(slot as usize * CQE).cast().write_volatile(bytes) };
        self.produced = self.produced.wrapping_add(1);
    }
}

/// A QP and the device's end of it.
pub struct QpRig<P: Policy> {
    pub qp: Qp<BenchHal, P>,
    /// Receive ring, send ring, doorbell record.
    memory: Memory,
    send_offset: usize,
    /// Blocks of the send ring.
    pub blocks: u32,
    record: usize,
    /// Completion of a request, and of a receive.
    pub sent: Cqe,
    pub received: Cqe,
    /// Requests (of one block each) that were posted.
    pub posted: u32,
}

/// An SRQ and the device's end of it.
pub struct SrqRig<P: Policy> {
    pub srq: Srq<BenchHal, P>,
    ring: Memory,
    slots: usize,
    /// The slot that the device takes next.
    head: u16,
}

/// Bytes of a basic block, and of a segment.
const BLOCK: usize = 64;
const SEGMENT: usize = 16;
/// Bytes of an SRQ's WQE: next segment and one element.
const SRQ_WQE: usize = 2 * SEGMENT;

impl<P: Policy> SrqRig<P> {
    /// An SRQ of `slots` (a power of two).
    pub fn new(device: &Card<P>, slots: usize) -> Result<Self> {
        device.hal.take_memory();
        let attr = SrqAttr { max_wr: slots as u32 - 1, max_sge: 1, limit: 0 };
        let srq = device.verbs.create_srq(&device.pd, attr)?;
        let ring = *device.hal.take_memory().first().context("an SRQ's ring")?;
        Ok(Self { srq, ring, slots, head: 0 })
    }

    /// Takes the next receive, as the device does: by the links.
    pub fn take(&mut self) -> u16 {
        let slot = self.head;
        self.head = u16::from_be_bytes(self.bytes(slot, 2));
        slot
    }

    /// Bytes of a slot.
    pub fn bytes<const LEN: usize>(&self, slot: u16, offset: usize) -> [u8; LEN] {
        let at = usize::from(slot) * SRQ_WQE + offset;
        assert!(at + LEN <= self.ring.len, "slot {slot}");
        // SAFETY: inside the ring, which lives as long as the SRQ.
        unsafe { self.ring.ptr.add(at).cast().read_volatile() }
    }

    /// The slot that the device takes next.
    pub fn head(&self) -> u16 {
        self.head
    }

    /// The dword of receives of the doorbell record, big-endian.
    pub fn record(&self) -> [u8; 4] {
        // SAFETY: the record lies behind the ring.
        unsafe { self.ring.ptr.add(self.slots * SRQ_WQE).cast().read_volatile() }
    }
}

/// An open device on a modelled HCA.
pub struct Card<P: Policy> {
    pub hal: BenchHal,
    pub verbs: Mlx5<BenchHal, P>,
    pub pd: Pd<BenchHal, P>,
    qps: u32,
    _world: World,
}

impl<P: Policy> Card<P> {
    /// Brings a modelled HCA up.
    pub fn open(max_qps: u32) -> Result<Self> {
        let world = World::new(1);
        let hal = BenchHal::new(world.plug(Box::new(Hca::new(HcaConfig::infiniband(0)))))?;
        let verbs = Mlx5::open(hal.clone(), Config { max_qps, ..Config::default() })?;
        let pd = verbs.alloc_pd()?;
        Ok(Self { hal, verbs, pd, qps: 0, _world: world })
    }

    /// A QP in RTS. Its completions go to two CQs.
    pub fn qp(
        &mut self,
        kind: QpType,
        send: &CqRig<P>,
        recv: &CqRig<P>,
        srq: Option<&SrqRig<P>>,
        cap: QpCap,
    ) -> Result<QpRig<P>> {
        self.hal.take_memory();
        let init = QpInit {
            kind,
            send_cq: &send.cq,
            recv_cq: &recv.cq,
            srq: srq.map(|rig| &rig.srq),
            cap,
            signal_all: false,
            context: 0,
        };
        let mut qp = self.verbs.create_qp(&self.pd, &init)?;
        let memory = *self.hal.take_memory().first().context("a QP's rings")?;
        // The driver numbers QPs in the order of their making; a poll refuses a number that is another's.
        let user_index = self.qps;
        self.qps += 1;
        to_rts(&mut qp, kind)?;
        let cap = qp.cap();
        let send_offset = (cap.max_recv_wr * cap.max_recv_sge) as usize * SEGMENT;
        // A longest request takes so many blocks.
        let before = if kind == QpType::Ud { 4 } else { 2 };
        let blocks = (cap.max_send_wr * u32::div_ceil(before + cap.max_send_sge, 4)).next_power_of_two();
        let record = send_offset + blocks as usize * BLOCK;
        ensure!(record + 8 <= memory.len, "{cap:?} in {memory:?}");
        let cqe = Cqe { opcode: REQ, user_index, qpn: qp.qpn().get(), send_opcode: 0x08 };
        let received = Cqe { opcode: RESP_SEND, send_opcode: 0, ..cqe };
        Ok(QpRig { qp, memory, send_offset, blocks, record, sent: cqe, received, posted: 0 })
    }
}

fn to_rts<Q: QueuePair>(qp: &mut Q, kind: QpType) -> Result<(), Error> {
    let init = QpAttr::to(QpState::Init).port(PORT).pkey_index(0);
    let rtr = QpAttr::to(QpState::Rtr);
    let rts = QpAttr::to(QpState::Rts).sq_psn(Psn::new(0));
    let connected = |rtr: QpAttr| {
        let av = AhAttr { port: PORT, dlid: Lid(1), ..AhAttr::default() };
        rtr.av(av).path_mtu(Mtu::B1024).dest_qpn(Qpn::new(0x200)).rq_psn(Psn::new(0))
    };
    let (init, rtr, rts) = match kind {
        QpType::Ud => (init.qkey(Qkey(1)), rtr, rts),
        QpType::Uc => (init.access(Access::REMOTE_WRITE), connected(rtr), rts),
        _ => (
            init.access(Access::REMOTE_WRITE),
            connected(rtr).max_dest_rd_atomic(1).min_rnr_timer(RnrTimer::at_least(Duration::from_micros(100))),
            rts.timeout(AckTimeout::at_least(Duration::from_millis(60)))
                .retry_cnt(RetryCount::MAX)
                .rnr_retry(RetryCount::MAX)
                .max_rd_atomic(1),
        ),
    };
    qp.modify(&init)?;
    qp.modify(&rtr)?;
    qp.modify(&rts)
}

impl<P: Policy> QpRig<P> {
    /// DMA memory of its rings.
    pub fn dma_bytes(&self) -> usize {
        self.memory.len
    }

    /// Bytes of the send ring, from a block (which counts on) on, across its end.
    pub fn send_bytes<const LEN: usize>(&self, block: u32) -> [u8; LEN] {
        let ring = self.blocks as usize * BLOCK;
        let begin = block as usize * BLOCK;
        std::array::from_fn(|i| self.byte(self.send_offset + (begin + i) % ring))
    }

    /// Bytes of the receive ring, from a slot (which counts on) on.
    pub fn recv_bytes<const LEN: usize>(&self, slot: usize) -> [u8; LEN] {
        let cap = self.qp.cap();
        let begin = slot % cap.max_recv_wr as usize * cap.max_recv_sge as usize * SEGMENT;
        std::array::from_fn(|i| self.byte(begin + i))
    }

    /// The doorbell record: receives and sends, big-endian.
    pub fn record(&self) -> [u8; 8] {
        std::array::from_fn(|i| self.byte(self.record + i))
    }

    fn byte(&self, at: usize) -> u8 {
        assert!(at < self.memory.len);
        // SAFETY: inside the buffer, which lives as long as the QP.
        unsafe { self.memory.ptr.add(at).read_volatile() }
    }
}

/// Everything that the cases work on.
pub struct Rig<P: Policy> {
    pub send_cq: CqRig<P>,
    pub recv_cq: CqRig<P>,
    pub qp: QpRig<P>,
    pub srq_qp: QpRig<P>,
    pub srq: SrqRig<P>,
    pub device: Card<P>,
}

/// Sizes of a QP of the workload. (44 bytes inline may follow a remote address, so that the driver counts with two
/// blocks a request: its send ring has 2,048 blocks, of which a round uses half.)
const CAP: QpCap =
    QpCap { max_send_wr: N as u32, max_recv_wr: N as u32, max_send_sge: 2, max_recv_sge: 1, max_inline: 44 };

impl<P: Policy> Rig<P> {
    /// Two CQs, an RC QP without and one with an SRQ.
    pub fn new() -> Result<Self> {
        let mut device = Card::open(64)?;
        let send_cq = CqRig::new(&device, N)?;
        let recv_cq = CqRig::new(&device, N)?;
        let srq = SrqRig::new(&device, N)?;
        let qp = device.qp(QpType::Rc, &send_cq, &recv_cq, None, CAP)?;
        let srq_qp = device.qp(QpType::Rc, &send_cq, &recv_cq, Some(&srq), CAP)?;
        Ok(Self { send_cq, recv_cq, qp, srq_qp, srq, device })
    }

    /// Writes a completion of each of the `n` newest requests.
    pub fn complete_sends(&mut self, n: usize) {
        for i in (1..=n as u32).rev() {
            self.send_cq.complete(self.qp.sent, self.qp.posted.wrapping_sub(i) as u16);
        }
    }

    /// Writes completions of `n` receives.
    pub fn complete_receives(&mut self, n: usize) {
        for i in 0..n {
            self.recv_cq.complete(self.qp.received, i as u16);
        }
    }

    /// Writes completions of `n` receives of the SRQ.
    pub fn complete_srq_receives(&mut self, n: usize) {
        for _ in 0..n {
            let slot = self.srq.take();
            self.recv_cq.complete(self.srq_qp.received, slot);
        }
    }
}
