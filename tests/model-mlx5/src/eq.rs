//! Event queues: CREATE_EQ, DESTROY_EQ, QUERY_EQ, entries, and the doorbells that move and arm them.

use std::collections::BTreeMap;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{create_eq as create, destroy_eq as destroy, query_eq as query},
    context::eqc,
    eqe::queue_type,
};

use crate::{
    command::Call,
    hca::Hca,
    hca_cap::LOG_MAX_EQ_SZ,
    refusal::{Outcome, Refused, require},
    ring::{self, PageList, read_qword},
};

/// Bytes of an entry.
const EQE: u64 = 64;

/// An event queue.
#[derive(Clone, Debug)]
pub struct Eq {
    /// Number.
    pub eqn: u8,
    /// UAR whose doorbells it listens to.
    pub uar: u32,
    /// Log of the entries.
    pub log_size: u32,
    /// Entry memory.
    pub memory: PageList,
    /// MSI-X vector.
    pub vector: u16,
    /// Which event types come here: bit n of word w is type 64 w + n.
    pub mask: [u64; 4],
    /// Entries ever written.
    pub producer: u32,
    /// Entries that the driver has said it took.
    pub consumer: u32,
    /// The next entry raises the vector.
    pub armed: bool,
    /// Entries were lost, or memory was not reachable.
    pub error: bool,
    /// The context as the driver gave it, for the query.
    pub raw: [u8; eqc::SIZE],
}

impl Eq {
    /// Whether events of this type come here.
    pub fn takes(&self, kind: u8) -> bool {
        self.mask[usize::from(kind) / 64] & (1 << (kind % 64)) != 0
    }
}

/// All event queues by number.
pub type Eqs = BTreeMap<u8, Eq>;

/// Something that happened on its own. The type codes are the PRM's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// 0x02: a QP established communication (a packet arrived in RTR).
    CommunicationEstablished(u32),
    /// 0x03: the send queue is drained.
    SendQueueDrained(u32),
    /// 0x01: migrated to the alternate path.
    PathMigrated(u32),
    /// 0x05: a QP went to the error state on a local catastrophic error.
    QpFatal(u32),
    /// 0x05 too: a send or receive queue of the raw packet path failed.
    QueueFatal {
        /// A receive queue.
        rq: bool,
        /// Its number.
        number: u32,
    },
    /// 0x10: invalid request arrived at a responder.
    QpRequestError(u32),
    /// 0x11: a responder found a key or access violation.
    QpAccessError(u32),
    /// 0x12: an SRQ failed.
    SrqFatal(u32),
    /// 0x13: a QP with an SRQ in error has taken its last WQE.
    LastWqeReached(u32),
    /// 0x14: fewer WQEs than the limit are left.
    SrqLimit(u32),
    /// 0x04: a CQ failed: overrun (1) or its memory is not reachable (2).
    CqError(u32, u8),
    /// 0x09: the port's state.
    PortChange {
        /// From 1.
        port: u8,
        /// What changed: see [`port_change`].
        subtype: u8,
    },
    /// 0x0b: firmware needs (positive) or returns (negative) pages.
    PageRequest(i32),
    /// 0x0a: commands are done, a bit a slot.
    CommandsDone(u32),
    /// 0x08: the device failed.
    InternalError,
    /// 0x00: a CQ has completions and was armed.
    Completion(u32),
    /// 0x0d: the NIC vport's context changed.
    NicVportChange,
}

/// Subtypes of a port change.
pub mod port_change {
    /// Link down.
    pub const DOWN: u8 = 1;
    /// Port active.
    pub const ACTIVE: u8 = 4;
    /// Port initialized.
    pub const INITIALIZED: u8 = 5;
    /// LID.
    pub const LID: u8 = 6;
    /// P_Key table.
    pub const PKEY: u8 = 7;
    /// GUID.
    pub const GUID: u8 = 8;
    /// Client reregistration.
    pub const CLIENT_REREGISTER: u8 = 9;
}

impl Event {
    /// Type of command completions.
    pub const COMMAND: u8 = 0x0a;
    /// Type of page requests.
    pub const PAGE_REQUEST: u8 = 0x0b;

    fn kind(self) -> u8 {
        match self {
            Self::Completion(_) => 0x00,
            Self::PathMigrated(_) => 0x01,
            Self::CommunicationEstablished(_) => 0x02,
            Self::SendQueueDrained(_) => 0x03,
            Self::CqError(..) => 0x04,
            Self::QpFatal(_) | Self::QueueFatal { .. } => 0x05,
            Self::InternalError => 0x08,
            Self::PortChange { .. } => 0x09,
            Self::CommandsDone(_) => Self::COMMAND,
            Self::PageRequest(_) => Self::PAGE_REQUEST,
            Self::NicVportChange => 0x0d,
            Self::QpRequestError(_) => 0x10,
            Self::QpAccessError(_) => 0x11,
            Self::SrqFatal(_) => 0x12,
            Self::LastWqeReached(_) => 0x13,
            Self::SrqLimit(_) => 0x14,
        }
    }

    fn entry(self) -> [u8; EQE as usize] {
        let mut eqe = [0; EQE as usize];
        eqe[1] = self.kind();
        let mut put = |at: usize, value: u32| eqe[at..at + 4].copy_from_slice(&value.to_be_bytes());
        match self {
            Self::Completion(n)
            | Self::PathMigrated(n)
            | Self::CommunicationEstablished(n)
            | Self::SendQueueDrained(n)
            | Self::QpFatal(n)
            | Self::QpRequestError(n)
            | Self::QpAccessError(n)
            | Self::SrqFatal(n)
            | Self::LastWqeReached(n)
            | Self::SrqLimit(n) => put(56, n),
            Self::QueueFatal { rq, number } => {
                put(52, if rq { queue_type::RQ } else { queue_type::SQ } << 24);
                put(56, number);
            }
            Self::CqError(cqn, syndrome) => {
                put(32, cqn);
                put(40, u32::from(syndrome));
            }
            Self::PortChange { port, subtype } => {
                eqe[3] = subtype;
                eqe[40] = port << 4;
            }
            Self::CommandsDone(slots) => put(32, slots),
            Self::PageRequest(pages) => put(36, pages as u32),
            Self::InternalError | Self::NicVportChange => {}
        }
        eqe
    }
}

/// CREATE_EQ.
pub fn create_eq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let ctx = &call.input[create::EQC..create::EQC + eqc::SIZE];
    let log_size = eqc::LOG_EQ_SIZE.get(ctx);
    let max = LOG_MAX_EQ_SZ;
    require(log_size <= max, Status::BadParameter, 0x0300, format_args!("2^{log_size} entries, at most 2^{max}"))?;
    let uar = eqc::UAR_PAGE.get(ctx);
    require(hca.uars.contains(&uar), Status::BadResource, 0x0301, format_args!("UAR {uar:#x} is not allocated"))?;
    let vector = eqc::INTR.get(ctx);
    let vectors = crate::hca::VECTORS;
    require(vector < vectors, Status::BadParameter, 0x0302, format_args!("vector {vector} of {vectors}"))?;
    let zero = eqc::STATUS.get(ctx) == 0 && eqc::EC.get(ctx) == 0 && eqc::OI.get(ctx) == 0;
    require(zero, Status::BadParameter, 0x0303, "status, ec and oi of a new EQ are zero")?;
    let memory = ring::from_command(
        &hca.pages,
        &call.input[create::PAS..],
        eqc::LOG_PAGE_SIZE.get(ctx),
        eqc::PAGE_OFFSET.get(ctx),
        EQE << log_size,
    )?;
    let eqn = hca.numbers.eq.take(|n| hca.eqs.contains_key(&(n as u8)));
    let Some(eqn) = eqn else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x0304, "no EQ is left"));
    };
    let mut raw = [0; eqc::SIZE];
    raw.copy_from_slice(ctx);
    let mask = std::array::from_fn(|i| read_qword(call.input, create::EVENT_BITMASK + i * 8));
    let eq = Eq {
        eqn: eqn as u8,
        uar,
        log_size,
        memory,
        vector: vector as u16,
        mask,
        producer: 0,
        consumer: 0,
        armed: false,
        error: false,
        raw,
    };
    hca.eqs.insert(eqn as u8, eq);
    create::out::EQ_NUMBER.set(call.out, eqn);
    Ok(())
}

fn find(hca: &Hca, eqn: u32) -> Outcome<&Eq> {
    hca.eqs.get(&(eqn as u8)).ok_or_else(|| Refused::new(Status::BadResource, 0x0305, format_args!("no EQ {eqn}")))
}

/// DESTROY_EQ.
pub fn destroy_eq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let eqn = find(hca, destroy::EQ_NUMBER.get(call.input))?.eqn;
    let used = hca.cqs.values().find(|cq| cq.eqn == u32::from(eqn)).map(|cq| cq.cqn);
    if let Some(cqn) = used {
        return Err(Refused::new(Status::BadResourceState, 0x0306, format_args!("CQ {cqn:#x} uses EQ {eqn}")));
    }
    hca.eqs.remove(&eqn);
    Ok(())
}

/// QUERY_EQ.
pub fn query_eq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let eq = find(hca, query::EQ_NUMBER.get(call.input))?;
    let base = query::out::EQC;
    call.out[base..base + eqc::SIZE].copy_from_slice(&eq.raw);
    let state = if eq.armed { eqc::state::ARMED } else { eqc::state::FIRED };
    let status = if eq.error { eqc::status::WRITE_FAILURE } else { eqc::status::OK };
    eqc::STATUS.at(base).set(call.out, status);
    eqc::ST.at(base).set(call.out, state);
    eqc::CONSUMER_COUNTER.at(base).set(call.out, eq.consumer & 0xff_ffff);
    eqc::PRODUCER_COUNTER.at(base).set(call.out, eq.producer & 0xff_ffff);
    query::out::EVENT_BITMASK.set(call.out, eq.mask[0]);
    Ok(())
}

/// The driver moved the consumer index, and perhaps armed.
pub fn doorbell(hca: &mut Hca, bus: &mut dyn Bus, uar: u32, word: u32, arm: bool) {
    let (eqn, index) = ((word >> 24) as u8, word & 0xff_ffff);
    let Some(eq) = hca.eqs.get_mut(&eqn) else {
        return hca.violation(bus, format_args!("doorbell for EQ {eqn}, which does not exist"));
    };
    if eq.uar != uar {
        let has = eq.uar;
        return hca.violation(bus, format_args!("doorbell for EQ {eqn} in UAR {uar:#x} instead of {has:#x}"));
    }
    let step = index.wrapping_sub(eq.consumer) & 0xff_ffff;
    let ready = eq.producer.wrapping_sub(eq.consumer) & 0xff_ffff;
    if step > ready {
        return hca.violation(
            bus,
            format_args!("EQ {eqn}: consumer index {index:#x} is {step} on, only {ready} entries were written"),
        );
    }
    eq.consumer = eq.consumer.wrapping_add(step);
    if arm {
        eq.armed = true;
        if eq.producer != eq.consumer {
            fire(eq, bus);
        }
    }
}

fn fire(eq: &mut Eq, bus: &mut dyn Bus) {
    eq.armed = false;
    bus.interrupt(eq.vector);
}

impl Hca {
    /// Raises an event: into the EQ that asked for its type; lost where none did.
    pub fn event(&mut self, bus: &mut dyn Bus, event: Event) {
        let eqn = match event {
            Event::Completion(cqn) => self.cqs.get(&cqn).map(|cq| cq.eqn as u8),
            _ => self.eqs.values().find(|eq| eq.takes(event.kind())).map(|eq| eq.eqn),
        };
        let Some(eq) = eqn.and_then(|n| self.eqs.get_mut(&n)) else { return };
        if eq.error {
            return;
        }
        let eqn = eq.eqn;
        let size = 1 << eq.log_size;
        if eq.producer.wrapping_sub(eq.consumer) >= size {
            eq.error = true;
            self.violation(bus, format_args!("EQ {eqn} overran: {size} entries were not taken"));
            return self.fail(bus, 0x0c);
        }
        let mut entry = event.entry();
        entry[63] = ((eq.producer >> eq.log_size) & 1) as u8;
        let slot = u64::from(eq.producer & (size - 1));
        if let Err(fault) = eq.memory.write(bus, slot * EQE, &entry) {
            eq.error = true;
            return self.dma_fault(bus, fault, format_args!("EQ {eqn}: writing an entry"));
        }
        eq.producer = eq.producer.wrapping_add(1);
        if eq.armed {
            fire(eq, bus);
        }
        self.report.events += 1;
    }
}
