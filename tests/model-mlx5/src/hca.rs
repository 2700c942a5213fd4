//! The device: its tables, and what all of its parts share.

use std::{collections::VecDeque, fmt, time::Duration};

use bareverbs_harness::model::{BarKind, Bus, DeviceModel, DmaFault, Frame, LinkKind, PciIdentity, Reset, Step};

use crate::{
    config::HcaConfig,
    cq::{CqError, Cqs},
    eq::{Eqs, Event},
    mr::{Access, KeyFault, KeyUser, Mkeys},
    pages::PageLedger,
    pd::Pds,
    port::Port,
    qp::{QpState, Qps},
    report::Report,
    ring::Segment,
    srq::{RecvWqe, Srqs},
    transport::{self, Transport},
    uar::{Doorbell, Uars},
    xrcd::Xrcds,
};

/// A modelled HCA.
#[derive(Debug)]
pub struct Hca {
    /// What it is made of.
    pub config: HcaConfig,
    /// Firmware's pages.
    pub pages: PageLedger,
    /// UARs.
    pub uars: Uars,
    /// Doorbells that wait.
    pub doorbells: VecDeque<Doorbell>,
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
    /// The port.
    pub port: Port,
    /// Packets and WQEs.
    pub transport: Transport,
    /// What happened.
    pub report: Report,
    /// The driver lets the device touch memory.
    pub bus_master: bool,
}

impl Hca {
    /// A card that was just powered on.
    pub fn new(config: HcaConfig) -> Self {
        Self {
            pages: PageLedger::default(),
            uars: Uars::default(),
            doorbells: VecDeque::new(),
            pds: Pds::default(),
            xrcds: Xrcds::default(),
            mkeys: Mkeys::default(),
            eqs: Eqs::default(),
            cqs: Cqs::default(),
            srqs: Srqs::default(),
            qps: Qps::default(),
            port: Port::default(),
            transport: Transport::default(),
            report: Report::default(),
            bus_master: false,
            config,
        }
    }

    /// What happened so far.
    pub fn report(&self) -> &Report {
        &self.report
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

    /// The next receive WQE of an SRQ; `None` if it has none.
    pub fn take_srq(&mut self, _bus: &mut dyn Bus, _srqn: u32) -> Result<Option<RecvWqe>, DmaFault> {
        Ok(None)
    }

    /// Writes a completion. The low bit of the last byte is set as the CQ's lap demands.
    pub fn push_cqe(
        &mut self,
        _bus: &mut dyn Bus,
        _cqn: u32,
        _cqe: &[u8; 64],
        _solicited: bool,
    ) -> Result<(), CqError> {
        Err(CqError)
    }

    /// Raises an event.
    pub fn event(&mut self, _bus: &mut dyn Bus, _event: Event) {}

    /// Moves a QP to another state outside of a command.
    pub fn set_qp_state(&mut self, bus: &mut dyn Bus, qpn: u32, new: QpState) {
        let Some(qp) = self.qps.get_mut(&qpn) else { return };
        let old = std::mem::replace(&mut qp.state, new);
        if old != new {
            transport::state_changed(self, bus, qpn, old, new);
        }
    }

    /// The QP that takes the packets for QP0 or QP1.
    pub fn special_qp(&self, number: u32) -> Option<u32> {
        use crate::qp::Service::{Qp0, Qp1};
        let service = if number == 0 { Qp0 } else { Qp1 };
        self.qps.values().find(|qp| qp.service == service).map(|qp| qp.qpn)
    }

    /// Hands a frame to the link.
    pub fn send(&mut self, bus: &mut dyn Bus, frame: Frame) {
        self.report.frames_out += 1;
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
            bars: [BarKind::Memory64(32 << 20), None, None, None, None, None],
            msix_vectors: 64,
        }
    }

    fn ports(&self) -> Vec<LinkKind> {
        vec![self.config.link]
    }

    fn mmio_read(&mut self, _bus: &mut dyn Bus, _bar: u8, _offset: u64, data: &mut [u8]) {
        data.fill(0);
    }

    fn mmio_write(&mut self, _bus: &mut dyn Bus, _bar: u8, _offset: u64, _data: &[u8]) {}

    fn receive(&mut self, bus: &mut dyn Bus, port: u8, frame: Frame) {
        self.report.frames_in += 1;
        transport::receive(self, bus, port, frame);
    }

    fn step(&mut self, bus: &mut dyn Bus) -> Step {
        if !self.bus_master {
            return Step::Idle;
        }
        transport::step(self, bus)
    }

    fn next_deadline(&self) -> Option<Duration> {
        transport::next_deadline(self)
    }

    fn bus_master(&mut self, _bus: &mut dyn Bus, on: bool) {
        self.bus_master = on;
    }

    fn reset(&mut self, _bus: &mut dyn Bus, _reset: Reset) {
        let (config, report) = (self.config.clone(), std::mem::take(&mut self.report));
        *self = Self { report, ..Self::new(config) };
    }
}
