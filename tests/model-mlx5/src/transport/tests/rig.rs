//! One host: flat memory, a card, queues in that memory.

use std::{collections::VecDeque, fmt, time::Duration};

use bareverbs_harness::model::{Bus, DmaFault, Frame, LinkKind};
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{create_cq, create_eq, create_rmp},
    context::{cqc, eqc, rmpc, wq},
    field::Field,
};

use super::world::{Peer, data_seg};
use crate::{
    Hca, HcaConfig,
    command::Call,
    cq, eq,
    mr::{Access, Mkey, Translation},
    pd::Pd,
    port::{PortState, RoceAddress},
    qp::{Qp, QpState, ReceiveFrom, ReceiveQueue, SendQueue, Service, ads, qpc},
    refusal::Outcome,
    ring::PageList,
    srq,
    transport::{self, Counter},
};

/// Memory of a host, from address 0 on. The first page is not mapped.
const MEMORY: usize = 0x80_0000;
/// Where a host's data lie; a region starts here.
pub const DATA: u64 = 0x40_0000;
/// Bytes of that region.
pub const DATA_LEN: u64 = 0x40_0000;
/// Its key: local read and write, everything remote.
pub const KEY: u32 = 0x1234_5642;
/// A key on the same bytes that allows local read only.
pub const READ_ONLY: u32 = 0x0055_5501;
/// Protection domain of all of it.
pub const PD: u32 = 0x21;
/// Its UAR.
const UAR: u32 = 1;
/// Completion queue entries.
const CQ_LOG: u32 = 8;
/// Event queue entries.
const EQ_LOG: u32 = 7;

/// A host's half of the machine.
pub struct ToyBus {
    pub memory: Vec<u8>,
    pub now: Duration,
    pub out: VecDeque<Frame>,
    pub violations: Vec<String>,
}

impl ToyBus {
    fn range(&self, addr: u64, len: usize, write: bool) -> Result<std::ops::Range<usize>, DmaFault> {
        let end = addr.saturating_add(len as u64);
        if addr < 0x1000 || end > self.memory.len() as u64 {
            return Err(DmaFault { addr, write });
        }
        Ok(addr as usize..end as usize)
    }
}

impl Bus for ToyBus {
    fn now(&self) -> Duration {
        self.now
    }

    fn read(&mut self, addr: u64, data: &mut [u8]) -> Result<(), DmaFault> {
        let range = self.range(addr, data.len(), false)?;
        data.copy_from_slice(&self.memory[range]);
        Ok(())
    }

    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), DmaFault> {
        let range = self.range(addr, data.len(), true)?;
        self.memory[range].copy_from_slice(data);
        Ok(())
    }

    fn interrupt(&mut self, _vector: u16) {}

    fn transmit(&mut self, _port: u8, frame: Frame) {
        self.out.push_back(frame);
    }

    fn link_up(&self, _port: u8) -> bool {
        true
    }

    fn violation(&mut self, what: fmt::Arguments<'_>) {
        self.violations.push(what.to_string());
    }

    fn random(&mut self) -> u64 {
        4
    }
}

/// A completion, read at the offsets of the PRM's CQE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wc {
    /// CQE opcode: 0 requester, 1 to 4 responder, 13 and 14 in error.
    pub opcode: u8,
    pub qpn: u32,
    /// Send opcode.
    pub send_opcode: u8,
    pub counter: u16,
    pub bytes: u32,
    pub imm: u32,
    pub syndrome: u8,
    pub flags_rqpn: u32,
    pub slid: u16,
    pub user_index: u32,
    pub solicited: bool,
}

/// A host with its card.
pub struct Host {
    pub hca: Hca,
    pub bus: ToyBus,
    next_page: u64,
    /// Send CQ, receive CQ.
    pub cqns: [u32; 2],
    cq_consumer: [u32; 2],
    eq_consumer: u32,
    /// Frames of the link that are not processed yet.
    pub inbox: VecDeque<Frame>,
}

/// What a QP is made of.
#[derive(Clone, Copy)]
pub struct Setup {
    pub service: Service,
    pub mtu: usize,
    pub psn: u32,
    pub receive_from: ReceiveFrom,
    pub remote_access: bool,
    pub max_rd_atomic_log: u32,
    pub timeout: u32,
    pub retry: u32,
    pub rnr_retry: u32,
    pub min_rnr_timer: u32,
    pub gid_index: u32,
    pub grh: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            service: Service::Rc,
            mtu: 1024,
            psn: 0xff_fffe,
            receive_from: ReceiveFrom::Own,
            remote_access: true,
            max_rd_atomic_log: 2,
            timeout: 14,
            retry: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            gid_index: 0,
            grh: false,
        }
    }
}

/// Basic blocks of a send queue, WQEs of a receive queue.
pub const SQ: u32 = 64;
pub const RQ: u32 = 64;
/// Bytes of a receive WQE.
pub const RQ_STRIDE: u32 = 64;

impl Host {
    pub fn new(config: HcaConfig) -> Self {
        let mut hca = Hca::new(config);
        hca.bus_master = true;
        hca.caps.set_atomics_in_host_order(true);
        hca.port.state = PortState::Active;
        hca.port.pkeys = vec![0xffff];
        let n = hca.config.mac[5];
        hca.port.lid = u16::from(n) + 1;
        hca.port.gids = vec![link_local(n)];
        let bus = ToyBus { memory: vec![0; MEMORY], now: Duration::ZERO, out: VecDeque::new(), violations: Vec::new() };
        let mut host = Self {
            hca,
            bus,
            next_page: 0x1_0000,
            cqns: [0; 2],
            cq_consumer: [0; 2],
            eq_consumer: 0,
            inbox: VecDeque::new(),
        };
        if host.hca.config.link == LinkKind::Ethernet {
            let mac = host.hca.config.mac;
            host.hca.port.roce_enabled = true;
            host.hca.port.roce.clear();
            let v4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, n];
            for (gid, version, l3_type, vlan) in
                [(link_local(n), 0, 1, None), (link_local(n), 2, 1, None), (v4, 2, 0, None), (v4, 2, 0, Some(7))]
            {
                host.hca.port.roce.push(RoceAddress { gid, version, l3_type, mac, vlan });
            }
        }
        host.create_queues();
        let all =
            [Access::LOCAL_READ, Access::LOCAL_WRITE, Access::REMOTE_READ, Access::REMOTE_WRITE, Access::REMOTE_ATOMIC];
        host.key(KEY, all.into_iter().fold(Access::NONE, Access::with));
        host.key(READ_ONLY, Access::LOCAL_READ.with(Access::REMOTE_READ));
        host
    }

    /// Executes a command's function on an input with page addresses behind it.
    fn command(
        &mut self,
        run: fn(&mut Hca, &mut dyn Bus, &mut Call) -> Outcome,
        opcode: Opcode,
        mut input: Vec<u8>,
        pages: &[u64],
    ) -> [u8; 16] {
        input.extend(pages.iter().flat_map(|page| page.to_be_bytes()));
        let mut out = [0; 16];
        let mut call = Call { opcode, op_mod: 0, input: &input, out: &mut out };
        run(&mut self.hca, &mut self.bus, &mut call).unwrap();
        out
    }

    /// UAR 1, a PD, an EQ for all events, both CQs. Their memory belongs to the device's first lap.
    fn create_queues(&mut self) {
        self.hca.uars.insert(UAR);
        self.hca.pds.insert(PD, Pd);
        let mut input = vec![0; create_eq::IN_LEN];
        let at = |field: Field| field.at(create_eq::EQC);
        at(eqc::LOG_EQ_SIZE).set(&mut input, EQ_LOG);
        at(eqc::UAR_PAGE).set(&mut input, UAR);
        input[create_eq::EVENT_BITMASK..create_eq::EVENT_BITMASK + 32].fill(0xff);
        let pages = self.filled_pages((64 << EQ_LOG) / 0x1000, 1);
        let out = self.command(eq::create_eq, create_eq::OPCODE, input, &pages);
        let eqn = create_eq::out::EQ_NUMBER.get(&out);
        for which in 0..2 {
            let mut input = vec![0; create_cq::IN_LEN];
            let at = |field: Field| field.at(create_cq::CQC);
            at(cqc::LOG_CQ_SIZE).set(&mut input, CQ_LOG);
            at(cqc::UAR_PAGE).set(&mut input, UAR);
            at(cqc::C_EQN).set(&mut input, eqn);
            let dbr = self.page();
            cqc::DBR_ADDR.at(create_cq::CQC).set(&mut input, dbr);
            let pages = self.filled_pages((64 << CQ_LOG) / 0x1000, 0xf1);
            let out = self.command(cq::create_cq, create_cq::OPCODE, input, &pages);
            self.cqns[which] = create_cq::out::CQN.get(&out);
        }
    }

    /// Pages of entries of 64 bytes whose last byte is this.
    fn filled_pages(&mut self, n: usize, owner: u8) -> Vec<u64> {
        let pages: Vec<u64> = (0..n).map(|_| self.page()).collect();
        for &page in &pages {
            for at in (63..0x1000).step_by(64) {
                self.bus.memory[page as usize + at] = owner;
            }
        }
        pages
    }

    /// An SRQ of `1 << log_size` WQEs of 64 bytes, linked one after the other.
    pub fn create_srq(&mut self, log_size: u32) -> u32 {
        let mut input = vec![0; create_rmp::RMPC + rmpc::WQ + wq::PAS];
        rmpc::STATE.at(create_rmp::RMPC).set(&mut input, rmpc::state::READY);
        let at = |field: Field| field.at(create_rmp::RMPC + rmpc::WQ);
        at(wq::WQ_TYPE).set(&mut input, wq::wq_type::LINKED_LIST);
        at(wq::PD).set(&mut input, PD);
        at(wq::LOG_WQ_SZ).set(&mut input, log_size);
        at(wq::LOG_WQ_STRIDE).set(&mut input, 6);
        let dbr = self.page();
        wq::DBR_ADDR.at(create_rmp::RMPC + rmpc::WQ).set(&mut input, dbr);
        let page = self.page();
        let out = self.command(srq::create_rmp, create_rmp::OPCODE, input, &[page]);
        for n in 0..1u16 << log_size {
            let next = (n + 1) & ((1 << log_size) - 1);
            self.bus.write(page + u64::from(n) * 64 + 2, &next.to_be_bytes()).unwrap();
        }
        create_rmp::out::RMPN.get(&out)
    }

    /// Writes a receive into WQE `index` of an SRQ and counts it in the doorbell record.
    pub fn post_srq(&mut self, srqn: u32, index: u16, (addr, len, key): (u64, u32, u32)) {
        let srq = &self.hca.srqs[&srqn];
        let wqe = [data_seg(addr, len, key), data_seg(0, 0, 0x100)].concat();
        srq.memory.write(&mut self.bus, u64::from(index) * 64 + 16, &wqe).unwrap();
        let at = srq.dbr as usize;
        let posted = u32::from_be_bytes(self.bus.memory[at..at + 4].try_into().unwrap()) + 1;
        self.bus.memory[at..at + 4].copy_from_slice(&posted.to_be_bytes());
    }

    /// Types of the events since the last call, with the number of the QP or SRQ.
    pub fn events(&mut self) -> Vec<(u8, u32)> {
        let mut events = Vec::new();
        loop {
            let eq = self.hca.eqs.values().next().unwrap();
            let mut eqe = [0; 64];
            eq.memory.read(&mut self.bus, u64::from(self.eq_consumer % (1 << EQ_LOG)) * 64, &mut eqe).unwrap();
            if u32::from(eqe[63] & 1) != self.eq_consumer >> EQ_LOG & 1 {
                return events;
            }
            self.eq_consumer += 1;
            events.push((eqe[1], u32::from_be_bytes(eqe[56..60].try_into().unwrap()) & 0xff_ffff));
        }
    }

    /// A key on all of the data, in pages that lie in reverse order.
    pub fn key(&mut self, key: u32, access: Access) {
        let pages = (0..DATA_LEN >> 12).rev().map(|n| DATA + (n << 12)).collect();
        let mkey = Mkey {
            key,
            free: false,
            pd: PD,
            qpn: None,
            access,
            start: DATA,
            len: Some(DATA_LEN),
            translation: Translation::Pages { pages, log_page: 12 },
            octowords: 0,
            umr: false,
            raw: [0; 64],
        };
        self.hca.mkeys.table.insert(key >> 8, mkey);
    }

    fn page(&mut self) -> u64 {
        self.next_page += 0x1000;
        self.next_page - 0x1000
    }

    fn pages(&mut self, len: u64) -> PageList {
        let pages = (0..len.div_ceil(0x1000)).map(|_| self.page()).collect();
        PageList::new(pages, 12, 0, len).unwrap()
    }

    /// A QP in INIT.
    pub fn create_qp(&mut self, qpn: u32, setup: &Setup) {
        let mut ctx = [0; qpc::SIZE];
        let dbr = self.page();
        for (field, value) in [
            (qpc::PD, PD),
            (qpc::USER_INDEX, qpn ^ 0x5555),
            (qpc::CQN_SND, self.cqns[0]),
            (qpc::CQN_RCV, self.cqns[1]),
            (qpc::Q_KEY, 0x1111_2222),
        ] {
            field.set(&mut ctx, value);
        }
        qpc::DBR_ADDR.set(&mut ctx, dbr);
        let sq_memory = self.pages(u64::from(SQ) * 64);
        let rq_memory = self.pages(u64::from(RQ * RQ_STRIDE));
        let qp = Qp {
            qpn,
            state: QpState::Reset,
            service: setup.service,
            receive_from: setup.receive_from,
            dbr,
            umems: [None; 2],
            ctx,
            created: ctx,
            sq: SendQueue { blocks: SQ, memory: sq_memory, ..Default::default() },
            rq: ReceiveQueue { size: RQ, stride: RQ_STRIDE, memory: rq_memory, ..Default::default() },
            transport: Default::default(),
        };
        self.hca.qps.insert(qpn, qp);
        self.state(qpn, QpState::Init);
    }

    pub fn state(&mut self, qpn: u32, state: QpState) {
        self.hca.set_qp_state(&mut self.bus, qpn, state);
    }

    fn set(&mut self, qpn: u32, values: &[(Field, u32)]) {
        let ctx = &mut self.hca.qps.get_mut(&qpn).unwrap().ctx;
        for &(field, value) in values {
            field.set(ctx, value);
        }
    }

    /// INIT to RTS, towards the QP of another host (or this one).
    pub fn connect(&mut self, qpn: u32, setup: &Setup, peer: &Peer) {
        let path = |field: Field| field.at(qpc::PRIMARY_ADDRESS_PATH);
        let flag = u32::from(setup.remote_access);
        self.set(
            qpn,
            &[
                (qpc::MTU, setup.mtu.ilog2() - 7),
                (qpc::LOG_MSG_MAX, 30),
                (qpc::REMOTE_QPN, peer.qpn),
                (qpc::LOG_RRA_MAX, setup.max_rd_atomic_log),
                (qpc::RRE, flag),
                (qpc::RWE, flag),
                (qpc::RAE, flag),
                (qpc::MIN_RNR_NAK, setup.min_rnr_timer),
                (qpc::NEXT_RCV_PSN, peer.psn),
                (path(ads::RLID), u32::from(peer.lid)),
                (path(ads::GRH), u32::from(setup.grh)),
                (path(ads::SRC_ADDR_INDEX), setup.gid_index),
                (path(ads::HOP_LIMIT), 64),
                (path(ads::RMAC_47_32), u32::from(u16::from_be_bytes([peer.mac[0], peer.mac[1]]))),
                (path(ads::RMAC_31_0), u32::from_be_bytes(peer.mac[2..].try_into().unwrap())),
            ],
        );
        let ctx = &mut self.hca.qps.get_mut(&qpn).unwrap().ctx;
        ads::RGID_RIP.at(qpc::PRIMARY_ADDRESS_PATH).set(ctx, &peer.gid);
        self.state(qpn, QpState::ReadyToReceive);
        self.set(
            qpn,
            &[
                (qpc::LOG_SRA_MAX, setup.max_rd_atomic_log),
                (qpc::NEXT_SEND_PSN, setup.psn),
                (qpc::RETRY_COUNT, setup.retry),
                (qpc::RNR_RETRY, setup.rnr_retry),
                (path(ads::ACK_TIMEOUT), setup.timeout),
            ],
        );
        self.state(qpn, QpState::ReadyToSend);
    }

    /// How others reach a QP of this host.
    pub fn peer(&self, qpn: u32, setup: &Setup) -> Peer {
        let port = &self.hca.port;
        let gid = match self.hca.config.link {
            LinkKind::InfiniBand => port.gids[0],
            LinkKind::Ethernet => port.roce[setup.gid_index as usize].gid,
        };
        Peer { qpn, psn: setup.psn, lid: port.lid, mac: self.hca.config.mac, gid }
    }

    /// Posts a send WQE given as its segments behind the control segment; rings the doorbell.
    pub fn post_send(&mut self, qpn: u32, opcode: u8, fm_ce_se: u8, general_id: u32, segments: &[u8]) -> u16 {
        assert_eq!(segments.len() % 16, 0);
        let index = self.posted(qpn, 6);
        let ds = 1 + segments.len() as u32 / 16;
        let mut wqe = Vec::new();
        wqe.extend_from_slice(&(u32::from(index) << 8 | u32::from(opcode)).to_be_bytes());
        wqe.extend_from_slice(&(qpn << 8 | ds).to_be_bytes());
        wqe.extend_from_slice(&[0, 0, 0, fm_ce_se]);
        wqe.extend_from_slice(&general_id.to_be_bytes());
        wqe.extend_from_slice(segments);
        self.post_bytes(qpn, &wqe);
        index
    }

    /// Posts bytes as a send WQE of as many basic blocks as they fill.
    pub fn post_bytes(&mut self, qpn: u32, wqe: &[u8]) {
        let index = self.posted(qpn, 6);
        let at = u64::from(u32::from(index) % SQ) * 64;
        let qp = &self.hca.qps[&qpn];
        qp.sq.memory.write(&mut self.bus, at, wqe).unwrap();
        self.set_posted(qpn, 6, index.wrapping_add(wqe.len().div_ceil(64) as u16));
        transport::doorbell(&mut self.hca, &mut self.bus, qpn, None);
    }

    /// Posts a receive WQE of these pieces: address, length, key.
    pub fn post_recv(&mut self, qpn: u32, pieces: &[(u64, u32, u32)]) -> u16 {
        let index = self.posted(qpn, 2);
        let mut wqe: Vec<u8> = pieces.iter().flat_map(|&(addr, len, key)| data_seg(addr, len, key)).collect();
        if wqe.len() < RQ_STRIDE as usize {
            wqe.extend(data_seg(0, 0, 0x100));
        }
        let at = u64::from(u32::from(index) % RQ * RQ_STRIDE);
        let qp = &self.hca.qps[&qpn];
        qp.rq.memory.write(&mut self.bus, at, &wqe).unwrap();
        self.set_posted(qpn, 2, index.wrapping_add(1));
        index
    }

    fn dbr(&self, qpn: u32) -> usize {
        qpc::DBR_ADDR.get(&self.hca.qps[&qpn].ctx) as usize
    }

    fn posted(&self, qpn: u32, at: usize) -> u16 {
        let at = self.dbr(qpn) + at;
        u16::from_be_bytes(self.bus.memory[at..at + 2].try_into().unwrap())
    }

    pub fn set_posted(&mut self, qpn: u32, at: usize, value: u16) {
        let at = self.dbr(qpn) + at;
        self.bus.memory[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// The next entry of a CQ (0: send, 1: receive).
    pub fn poll(&mut self, which: usize) -> Option<Wc> {
        let consumer = self.cq_consumer[which];
        let cq = &self.hca.cqs[&self.cqns[which]];
        let mut cqe = [0; 64];
        cq.memory.read(&mut self.bus, u64::from(consumer % (1 << CQ_LOG)) * 64, &mut cqe).unwrap();
        let (opcode, owner) = (cqe[63] >> 4, u32::from(cqe[63] & 1));
        if opcode == 15 || owner != consumer >> CQ_LOG & 1 {
            return None;
        }
        self.cq_consumer[which] += 1;
        let dbr = cq.dbr;
        self.bus.write(dbr, &self.cq_consumer[which].to_be_bytes()).unwrap();
        let be32 = |at: usize| u32::from_be_bytes(cqe[at..at + 4].try_into().unwrap());
        Some(Wc {
            opcode,
            qpn: be32(56) & 0xff_ffff,
            send_opcode: cqe[56],
            counter: u16::from_be_bytes([cqe[60], cqe[61]]),
            bytes: be32(44),
            imm: be32(36),
            syndrome: if opcode >= 13 { cqe[55] } else { 0 },
            flags_rqpn: be32(24),
            slid: u16::from_be_bytes([cqe[22], cqe[23]]),
            user_index: be32(32) & 0xff_ffff,
            solicited: cqe[63] & 2 != 0,
        })
    }

    pub fn polls(&mut self, which: usize) -> Vec<Wc> {
        std::iter::from_fn(|| self.poll(which)).collect()
    }

    /// Data by virtual address: the region's pages lie in reverse order.
    pub fn put(&mut self, va: u64, data: &[u8]) {
        for (n, byte) in data.iter().enumerate() {
            let at = physical(va + n as u64);
            self.bus.memory[at] = *byte;
        }
    }

    pub fn get(&self, va: u64, len: usize) -> Vec<u8> {
        (0..len as u64).map(|n| self.bus.memory[physical(va + n)]).collect()
    }

    pub fn count(&self, counter: Counter) -> u64 {
        self.hca.transport.counters.get(counter)
    }
}

fn physical(va: u64) -> usize {
    let last = (DATA_LEN >> 12) - 1;
    let page = last - ((va - DATA) >> 12);
    (DATA + (page << 12) + (va & 0xfff)) as usize
}

fn link_local(n: u8) -> [u8; 16] {
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0xc9, 0xff, 0xfe, 0, 0, n]
}
