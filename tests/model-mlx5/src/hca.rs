//! The device: its tables, and what all of its parts share.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    time::Duration,
};

use bareverbs_harness::model::{BarKind, Bus, DeviceModel, DmaFault, Frame, LinkKind, PciIdentity, Reset, Step};

use crate::{
    cmd::{self, CommandQueue},
    command::Phase,
    config::HcaConfig,
    cq::{self, Cqs},
    eq::Eqs,
    ethernet::{self, Ethernet},
    fault::Faults,
    flow_table::FlowTables,
    hca_cap::Caps,
    health::{self, Health},
    mr::{Access, KeyFault, KeyUser, Mkeys},
    nic_vport::NicVport,
    numbers::AllNumbers,
    pages::PageLedger,
    pd::Pds,
    port::{self, Port},
    qp::{QpState, Qps, Service},
    registers::{self, Registers},
    report::Report,
    ring::Segment,
    rq::Rqs,
    rqt::Rqts,
    sq::Sqs,
    srq::Srqs,
    tir::Tirs,
    tis::Tiss,
    transport::{self, Transport},
    transport_domain::TransportDomains,
    uar::{self, Doorbell, Uars},
    umem::Umems,
    xrcd::Xrcds,
};

/// Bytes of BAR 0.
pub const BAR_SIZE: u64 = 32 << 20;
/// MSI-X vectors.
pub const VECTORS: u32 = 64;

/// A modelled HCA.
#[derive(Debug)]
pub struct Hca {
    /// What it is made of.
    pub config: HcaConfig,
    /// What shall still go wrong.
    pub faults: Faults,
    /// The initialization segment.
    pub registers: Registers,
    /// Health buffer and counter.
    pub health: Health,
    /// Command queue.
    pub cmd: CommandQueue,
    /// How far the function was brought up.
    pub phase: Phase,
    /// Interface step in force; 0 before SET_ISSI.
    pub issi: u32,
    /// Capabilities.
    pub caps: Caps,
    /// Numbers for new objects.
    pub numbers: AllNumbers,
    /// Firmware's pages.
    pub pages: PageLedger,
    /// UARs.
    pub uars: Uars,
    /// Doorbells that wait.
    pub doorbells: VecDeque<Doorbell>,
    /// Registered user memories.
    pub umems: Umems,
    /// Protection domains.
    pub pds: Pds,
    /// XRC domains.
    pub xrcds: Xrcds,
    /// Memory keys.
    pub mkeys: Mkeys,
    /// Event queues.
    pub eqs: Eqs,
    /// Completion queues.
    pub cqs: Cqs,
    /// Shared receive queues.
    pub srqs: Srqs,
    /// Queue pairs.
    pub qps: Qps,
    /// Multicast groups: QPNs by GID.
    pub multicast: BTreeMap<[u8; 16], BTreeSet<u32>>,
    /// Transport domains.
    pub transport_domains: TransportDomains,
    /// What send queues have in common.
    pub tiss: Tiss,
    /// Send queues.
    pub sqs: Sqs,
    /// Receive queues.
    pub rqs: Rqs,
    /// Receive queue tables.
    pub rqts: Rqts,
    /// Where received frames go.
    pub tirs: Tirs,
    /// Flow tables.
    pub flow_tables: FlowTables,
    /// Ethernet frames.
    pub ethernet: Ethernet,
    /// The port.
    pub port: Port,
    /// The vport of an Ethernet port.
    pub nic_vport: NicVport,
    /// Packets and WQEs.
    pub transport: Transport,
    /// What happened.
    pub report: Report,
    /// The driver lets the device touch memory.
    pub bus_master: bool,
    /// Whose turn it is: commands, doorbells, packets take turns.
    turn: u32,
}

impl Hca {
    /// A card that was just powered on.
    pub fn new(config: HcaConfig) -> Self {
        Self {
            faults: config.faults.clone(),
            registers: Registers::default(),
            health: Health::default(),
            cmd: CommandQueue::default(),
            phase: Phase::default(),
            issi: 0,
            caps: Caps::new(&config),
            numbers: AllNumbers::default(),
            pages: PageLedger::default(),
            uars: Uars::default(),
            doorbells: VecDeque::new(),
            umems: Umems::default(),
            pds: Pds::default(),
            xrcds: Xrcds::default(),
            mkeys: Mkeys::default(),
            eqs: Eqs::default(),
            cqs: Cqs::default(),
            srqs: Srqs::default(),
            qps: Qps::default(),
            multicast: BTreeMap::new(),
            transport_domains: TransportDomains::new(),
            tiss: Tiss::new(),
            sqs: Sqs::new(),
            rqs: Rqs::new(),
            rqts: Rqts::new(),
            tirs: Tirs::new(),
            flow_tables: FlowTables::default(),
            ethernet: Ethernet::default(),
            port: Port::new(&config),
            nic_vport: NicVport::new(&config),
            transport: Transport::default(),
            report: Report::default(),
            bus_master: false,
            turn: 0,
            config,
        }
    }

    /// What happened so far.
    pub fn report(&self) -> Report {
        Report { pages: self.pages.held.len() as u64, ..self.report.clone() }
    }

    /// How many objects exist.
    pub fn objects(&self) -> usize {
        self.pds.len()
            + self.umems.len()
            + self.xrcds.len()
            + self.mkeys.table.len()
            + self.eqs.len()
            + self.cqs.len()
            + self.srqs.len()
            + self.qps.len()
            + self.multicast.len()
            + self.transport_domains.len()
            + self.tiss.len()
            + self.sqs.len()
            + self.rqs.len()
            + self.rqts.len()
            + self.tirs.len()
            + self.flow_tables.objects()
            + self.transport.counters.sets()
    }

    /// Bus segments of `len` bytes at `va` of `key`.
    pub fn translate(
        &self,
        key: u32,
        user: KeyUser,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<Vec<Segment>, KeyFault> {
        self.mkeys.translate(key, user, va, len, access)
    }

    /// Moves a QP to another state.
    pub fn set_qp_state(&mut self, bus: &mut dyn Bus, qpn: u32, new: QpState) {
        let Some(qp) = self.qps.get_mut(&qpn) else { return };
        let old = std::mem::replace(&mut qp.state, new);
        if old != new {
            transport::state_changed(self, bus, qpn, old, new);
        }
    }

    /// The QP that takes the packets for QP0 or QP1.
    pub fn special_qp(&self, number: u32) -> Option<u32> {
        let service = if number == 0 { Service::Qp0 } else { Service::Qp1 };
        self.qps.values().find(|qp| qp.service == service).map(|qp| qp.qpn)
    }

    /// Hands a frame to the link.
    pub fn send(&mut self, bus: &mut dyn Bus, frame: Frame) {
        self.report.frames_out += 1;
        self.report.bytes_out += frame.len() as u64;
        self.port.frames.tx.count(frame.as_sent());
        bus.transmit(0, frame);
    }

    /// Says what the driver did wrong.
    pub fn violation(&mut self, bus: &mut dyn Bus, what: fmt::Arguments<'_>) {
        self.report.violation_count += 1;
        if self.report.violations.len() < Report::KEPT {
            self.report.violations.push(what.to_string());
        }
        bus.violation(what);
    }

    /// Counts a DMA access that was refused, and says what it was for.
    pub fn dma_fault(&mut self, bus: &mut dyn Bus, fault: DmaFault, what: fmt::Arguments<'_>) {
        self.report.dma_faults += 1;
        self.violation(bus, format_args!("{what}: {fault}"));
    }

    /// Whether the device works: not failed, and allowed to touch memory.
    fn alive(&self) -> bool {
        self.bus_master && self.health.syndrome == 0
    }
}

impl DeviceModel for Hca {
    fn identity(&self) -> PciIdentity {
        use BarKind::None;
        PciIdentity {
            vendor: 0x15b3,
            device: self.config.device.pci_id(),
            subsystem_vendor: 0x15b3,
            subsystem: 0x0008,
            revision: 0,
            class: if self.config.link == LinkKind::InfiniBand { 0x02_0700 } else { 0x02_0000 },
            bars: [BarKind::Memory64(BAR_SIZE), None, None, None, None, None],
            msix_vectors: VECTORS as u16,
        }
    }

    fn ports(&self) -> Vec<LinkKind> {
        vec![self.config.link]
    }

    fn mmio_read(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if bar == 0 && offset < BAR_SIZE {
            registers::read(self, bus, offset, data);
        }
    }

    fn mmio_write(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, data: &[u8]) {
        if bar != 0 || offset.saturating_add(data.len() as u64) > BAR_SIZE {
            self.violation(bus, format_args!("write of {} bytes at {offset:#x} of BAR {bar}", data.len()));
        } else if offset < u64::from(uar::FIRST) * 4096 {
            registers::write(self, bus, offset, data);
        } else {
            uar::write(self, bus, offset, data);
        }
    }

    fn receive(&mut self, bus: &mut dyn Bus, port: u8, frame: Frame) {
        self.report.frames_in += 1;
        self.report.bytes_in += frame.len() as u64;
        self.port.frames.rx.count(frame.as_sent());
        ethernet::receive(self, bus, port, frame);
    }

    fn step(&mut self, bus: &mut dyn Bus) -> Step {
        if health::timers(self, bus) {
            return Step::Worked;
        }
        if !self.alive() {
            return Step::Idle;
        }
        if port::poll(self, bus) || cq::timers(self, bus) {
            return Step::Worked;
        }
        // Each part gets its turn, so that none starves another.
        for _ in 0..4 {
            self.turn = (self.turn + 1) % 4;
            let worked = match self.turn {
                // Writes do not overtake each other: what was rung before a command was given is worked on before it.
                0 => uar::step(self, bus) || cmd::step(self, bus) == Step::Worked,
                1 => uar::step(self, bus),
                2 => ethernet::step(self, bus) == Step::Worked,
                _ => transport::step(self, bus) == Step::Worked,
            };
            if worked {
                return Step::Worked;
            }
        }
        Step::Idle
    }

    fn next_deadline(&self) -> Option<Duration> {
        let health = health::next_deadline(self);
        if !self.alive() {
            return health;
        }
        let parts = [cmd::next_deadline, cq::next_deadline, ethernet::next_deadline, transport::next_deadline];
        parts.iter().filter_map(|part| part(self)).chain(health).min()
    }

    fn bus_master(&mut self, _bus: &mut dyn Bus, on: bool) {
        self.bus_master = on;
    }

    fn reset(&mut self, bus: &mut dyn Bus, _reset: Reset) {
        let (report, faults) = (std::mem::take(&mut self.report), std::mem::take(&mut self.faults));
        *self = Self { report, faults, ..Self::new(self.config.clone()) };
        self.registers.reset_at = bus.now();
    }
}
