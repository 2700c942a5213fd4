//! Completion queues: CREATE_CQ, DESTROY_CQ, QUERY_CQ, MODIFY_CQ (moderation and resize), entries, arming.

use std::{collections::BTreeMap, time::Duration};

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{
        create_cq as create, destroy_cq as destroy, modify_cq as modify, modify_cq_op_mod, modify_cq_select as select,
        query_cq as query, resize_cq_select as resize_select,
    },
    context::cqc,
    cqe, registers,
};

use crate::{
    command::Call,
    eq::Event,
    hca::Hca,
    hca_cap::LOG_MAX_CQ_SZ,
    refusal::{Outcome, Refused, require},
    ring::{self, PageList},
    umem,
};

/// A completion queue.
#[derive(Clone, Debug)]
pub struct Cq {
    /// Number.
    pub cqn: u32,
    /// UAR whose doorbells it listens to.
    pub uar: u32,
    /// Log of the entries.
    pub log_size: u32,
    /// Bytes of an entry: 64 or 128.
    pub cqe_size: u32,
    /// Entry memory.
    pub memory: PageList,
    /// Doorbell record: consumer index at +0, arm word at +4.
    pub dbr: u64,
    /// The user memories of doorbell record and queue.
    pub umems: [Option<u32>; 2],
    /// Entries ever written.
    pub producer: u32,
    /// What the doorbell record last said of the consumer, 24 bits.
    pub consumer: u32,
    /// Where its completion events go.
    pub eqn: u32,
    /// Overrun is the driver's own business.
    pub overrun_ignore: bool,
    /// Armed since this consumer index.
    armed: Option<Arm>,
    /// Sequence number of the last arming that fired.
    fired: Option<u8>,
    /// Producer index behind the last solicited entry.
    solicited: Option<u32>,
    /// Moderation: entries, and time since the first of them.
    moderation: (u32, Duration),
    /// When the first entry since arming came.
    since: Option<Duration>,
    /// In error: nothing is written any more; the context's status.
    pub error: Option<u32>,
    /// The context as the driver gave it, for the query.
    pub raw: [u8; cqc::SIZE],
}

#[derive(Clone, Copy, Debug)]
struct Arm {
    solicited: bool,
    sequence: u8,
    /// Consumer index, 24 bits.
    index: u32,
}

/// All completion queues by number.
pub type Cqs = BTreeMap<u32, Cq>;

/// The CQ could not take the entry: it overran, its memory is not reachable, or it already was in error. The QP that
/// wanted to complete goes to the error state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqError;

const INDEX: u32 = 0xff_ffff;

fn cqe_size(ctx: &[u8]) -> Outcome<(u32, u64)> {
    match cqc::CQE_SZ.get(ctx) {
        cqc::cqe_size::BYTES_64 => Ok((64, 64)),
        cqc::cqe_size::BYTES_128 => Ok((128, 128)),
        other => Err(Refused::new(Status::BadParameter, 0x0400, format_args!("entry size code {other}"))),
    }
}

fn check_size(log_size: u32) -> Outcome {
    let max = LOG_MAX_CQ_SZ;
    require(log_size <= max, Status::BadParameter, 0x0401, format_args!("2^{log_size} entries, at most 2^{max}"))
}

/// CREATE_CQ.
pub fn create_cq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let ctx = &call.input[create::CQC..create::CQC + cqc::SIZE];
    let log_size = cqc::LOG_CQ_SIZE.get(ctx);
    check_size(log_size)?;
    let (cqe_size, stride) = cqe_size(ctx)?;
    let uar = cqc::UAR_PAGE.get(ctx);
    require(hca.uars.contains(&uar), Status::BadResource, 0x0402, format_args!("UAR {uar:#x} is not allocated"))?;
    let eqn = cqc::C_EQN.get(ctx);
    let eq = u8::try_from(eqn).ok().filter(|n| hca.eqs.contains_key(n));
    require(eq.is_some(), Status::BadResource, 0x0403, format_args!("no EQ {eqn}"))?;
    let absent = [cqc::STATUS, cqc::APU_CQ, cqc::CQE_COMP_EN, cqc::MINI_CQE_RES_FORMAT];
    let zero = absent.iter().all(|f| f.get(ctx) == 0);
    require(zero, Status::BadParameter, 0x0404, "the CQ asks for something that is not advertised")?;
    let mut umems = [None; 2];
    let mut dbr = cqc::DBR_ADDR.get(ctx);
    if cqc::DBR_UMEM_VALID.is_set(ctx) {
        let id = cqc::DBR_UMEM_ID.get(ctx);
        dbr = umem::doorbell_record(hca, id, dbr)?;
        umems[0] = Some(id);
    }
    require(
        dbr != 0 && dbr.is_multiple_of(8),
        Status::BadParameter,
        0x0405,
        format_args!("doorbell record at {dbr:#x}"),
    )?;
    let firmwares = hca.pages.touches(dbr, 8);
    require(!firmwares, Status::BadParameter, 0x0406, format_args!("doorbell record {dbr:#x} in a firmware page"))?;
    let memory = if create::CQ_UMEM_VALID.is_set(call.input) {
        let (id, at) = (create::CQ_UMEM_ID.get(call.input), create::CQ_UMEM_OFFSET.get(call.input));
        umems[1] = Some(id);
        umem::queue(hca, id, at, stride << log_size)?
    } else {
        let (log_page, offset) = (cqc::LOG_PAGE_SIZE.get(ctx), cqc::PAGE_OFFSET.get(ctx));
        ring::from_command(&hca.pages, &call.input[create::PAS..], log_page, offset, stride << log_size)?
    };
    let Some(cqn) = hca.numbers.cq.take(|n| hca.cqs.contains_key(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x0407, "no CQ is left"));
    };
    let mut raw = [0; cqc::SIZE];
    raw.copy_from_slice(ctx);
    let mut cq = Cq {
        cqn,
        uar,
        log_size,
        cqe_size,
        memory,
        dbr,
        umems,
        producer: 0,
        consumer: 0,
        eqn,
        overrun_ignore: cqc::OI.is_set(ctx),
        armed: None,
        fired: None,
        solicited: None,
        moderation: (0, Duration::ZERO),
        since: None,
        error: None,
        raw,
    };
    cq.moderate();
    hca.cqs.insert(cqn, cq);
    create::out::CQN.set(call.out, cqn);
    Ok(())
}

fn find(hca: &mut Hca, cqn: u32) -> Outcome<&mut Cq> {
    hca.cqs.get_mut(&cqn).ok_or_else(|| Refused::new(Status::BadResource, 0x0408, format_args!("no CQ {cqn:#x}")))
}

/// DESTROY_CQ.
pub fn destroy_cq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let cqn = find(hca, destroy::CQN.get(call.input))?.cqn;
    if let Some(user) = hca.user_of_cq(cqn) {
        return Err(Refused::new(Status::BadResourceState, 0x0409, format_args!("{user} uses CQ {cqn:#x}")));
    }
    hca.cqs.remove(&cqn);
    Ok(())
}

/// QUERY_CQ.
pub fn query_cq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let cq = find(hca, query::CQN.get(call.input))?;
    let base = query::out::CQC;
    call.out[base..base + cqc::SIZE].copy_from_slice(&cq.raw);
    let state = match cq.armed {
        Some(Arm { solicited: true, .. }) => cqc::state::SOLICITED_ARMED,
        Some(_) => cqc::state::ARMED,
        None => cqc::state::FIRED,
    };
    cqc::STATUS.at(base).set(call.out, cq.error.unwrap_or(cqc::status::OK));
    cqc::ST.at(base).set(call.out, state);
    cqc::CONSUMER_COUNTER.at(base).set(call.out, cq.consumer);
    cqc::PRODUCER_COUNTER.at(base).set(call.out, cq.producer & INDEX);
    Ok(())
}

/// MODIFY_CQ: moderation and the like, or another buffer.
pub fn modify_cq(hca: &mut Hca, bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    if u32::from(call.op_mod) == modify_cq_op_mod::RESIZE {
        return resize(hca, bus, call.input);
    }
    let ctx = &call.input[modify::CQC..modify::CQC + cqc::SIZE];
    let selected = modify::FIELD_SELECT.get(call.input);
    let known =
        select::CQ_PERIOD | select::CQ_MAX_COUNT | select::OVERRUN_IGNORE | select::C_EQN | select::CQ_PERIOD_MODE;
    require(selected & !known == 0, Status::BadParameter, 0x040a, format_args!("field select {selected:#x}"))?;
    if selected & select::C_EQN != 0 {
        let eqn = cqc::C_EQN.get(ctx);
        let eq = u8::try_from(eqn).ok().filter(|n| hca.eqs.contains_key(n));
        require(eq.is_some(), Status::BadResource, 0x040b, format_args!("no EQ {eqn}"))?;
    }
    let cq = find(hca, modify::CQN.get(call.input))?;
    let fields = [
        (select::CQ_PERIOD, cqc::CQ_PERIOD),
        (select::CQ_MAX_COUNT, cqc::CQ_MAX_COUNT),
        (select::OVERRUN_IGNORE, cqc::OI),
        (select::C_EQN, cqc::C_EQN),
        (select::CQ_PERIOD_MODE, cqc::CQ_PERIOD_MODE),
    ];
    for (bit, field) in fields {
        if selected & bit != 0 {
            field.set(&mut cq.raw, field.get(ctx));
        }
    }
    cq.eqn = cqc::C_EQN.get(&cq.raw);
    cq.overrun_ignore = cqc::OI.is_set(&cq.raw);
    cq.moderate();
    Ok(())
}

/// The last entry in the old buffer says so; the next index is the first in the new one.
fn resize(hca: &mut Hca, bus: &mut dyn Bus, input: &[u8]) -> Outcome {
    let ctx = &input[modify::CQC..modify::CQC + cqc::SIZE];
    let selected = modify::FIELD_SELECT.get(input);
    let needed = resize_select::LOG_CQ_SIZE | resize_select::PAGE_OFFSET | resize_select::LOG_PAGE_SIZE;
    require(selected == needed, Status::BadParameter, 0x040c, format_args!("resize with field select {selected:#x}"))?;
    let log_size = cqc::LOG_CQ_SIZE.get(ctx);
    check_size(log_size)?;
    let (new_size, stride) = cqe_size(ctx)?;
    let (log_page, offset) = (cqc::LOG_PAGE_SIZE.get(ctx), cqc::PAGE_OFFSET.get(ctx));
    let memory = ring::from_command(&hca.pages, &input[modify::PAS..], log_page, offset, stride << log_size)?;
    let cqn = modify::CQN.get(input);
    let cq = find(hca, cqn)?;
    require(cq.error.is_none(), Status::BadResourceState, 0x040d, format_args!("CQ {cqn:#x} is in error"))?;
    cq.read_consumer(bus);
    let outstanding = cq.producer.wrapping_sub(cq.consumer) & INDEX;
    // A driver that has looked at its ring before may be overtaken by completions.
    if outstanding >= 1 << log_size.min(cq.log_size) {
        let why = format_args!("{outstanding} entries are outstanding, 2^{log_size} asked for");
        return Err(Refused::quiet(Status::BadSizeOutstandingCqes, 0x040e, why));
    }
    let mut last = [0; 64];
    last[cqe::OP_OWN] = cqe::opcode::RESIZE_CQ << cqe::op_own::OPCODE_SHIFT;
    let written = cq.write(bus, &last);
    require(written.is_ok(), Status::BadResourceState, 0x040f, "the old buffer is not reachable")?;
    (cq.memory, cq.log_size, cq.cqe_size) = (memory, log_size, new_size);
    for field in [cqc::LOG_CQ_SIZE, cqc::PAGE_OFFSET, cqc::LOG_PAGE_SIZE, cqc::CQE_SZ] {
        field.set(&mut cq.raw, field.get(ctx));
    }
    Ok(())
}

impl Cq {
    fn moderate(&mut self) {
        let period = Duration::from_micros(cqc::CQ_PERIOD.get(&self.raw).into());
        self.moderation = (cqc::CQ_MAX_COUNT.get(&self.raw), period);
    }

    fn read_consumer(&mut self, bus: &mut dyn Bus) {
        let mut word = [0; 4];
        if bus.read(self.dbr, &mut word).is_ok() {
            self.consumer = u32::from_be_bytes(word) & INDEX;
        }
    }

    fn full(&self) -> bool {
        self.producer.wrapping_sub(self.consumer) & INDEX >= 1 << self.log_size
    }

    /// Writes an entry at the producer index, whatever is there.
    fn write(&mut self, bus: &mut dyn Bus, entry: &[u8; 64]) -> Result<(), bareverbs_harness::model::DmaFault> {
        let mut entry = *entry;
        let lap = (self.producer >> self.log_size) & 1;
        entry[cqe::OP_OWN] = entry[cqe::OP_OWN] & !cqe::op_own::OWNER | lap as u8;
        let slot = u64::from(self.producer & ((1 << self.log_size) - 1));
        // In an entry of 128 bytes the completion is the second half.
        let at = slot * u64::from(self.cqe_size) + u64::from(self.cqe_size - 64);
        self.memory.write(bus, at, &entry)?;
        self.producer = self.producer.wrapping_add(1);
        Ok(())
    }

    /// Whether the arming has to fire now, or when.
    fn due(&self, now: Duration) -> Option<Duration> {
        let arm = self.armed?;
        let behind = self.producer.wrapping_sub(arm.index) & INDEX;
        if behind == 0 || behind > INDEX / 2 {
            return None;
        }
        if arm.solicited {
            let last = self.solicited?.wrapping_sub(arm.index) & INDEX;
            return (last != 0 && last <= INDEX / 2).then_some(now);
        }
        let (count, period) = self.moderation;
        if (count == 0 && period.is_zero()) || (count != 0 && behind >= count) {
            return Some(now);
        }
        if period.is_zero() { None } else { Some(self.since? + period) }
    }
}

/// When moderation makes an armed CQ fire.
pub fn next_deadline(hca: &Hca) -> Option<Duration> {
    hca.cqs.values().filter(|cq| cq.armed.is_some()).filter_map(|cq| cq.due(Duration::MAX)).min()
}

/// Fires what is due; true if something was.
pub fn timers(hca: &mut Hca, bus: &mut dyn Bus) -> bool {
    let now = bus.now();
    let due = hca.cqs.values().find(|cq| cq.armed.is_some() && cq.due(now).is_some_and(|at| at <= now));
    let Some(cqn) = due.map(|cq| cq.cqn) else { return false };
    fire_if_due(hca, bus, cqn);
    true
}

fn fire_if_due(hca: &mut Hca, bus: &mut dyn Bus, cqn: u32) {
    let now = bus.now();
    let Some(cq) = hca.cqs.get_mut(&cqn) else { return };
    if cq.due(now).is_none_or(|at| at > now) {
        return;
    }
    cq.fired = cq.armed.take().map(|arm| arm.sequence);
    cq.since = None;
    hca.event(bus, Event::Completion(cqn));
}

/// The driver armed a CQ.
pub fn doorbell(hca: &mut Hca, bus: &mut dyn Bus, uar: u32, word: &[u8; 8]) {
    use registers::cq_doorbell as bell;
    let cqn = bell::CQN.get(word);
    let Some(cq) = hca.cqs.get_mut(&cqn) else {
        return hca.violation(bus, format_args!("doorbell for CQ {cqn:#x}, which does not exist"));
    };
    let (dbr, own_uar) = (cq.dbr, cq.uar);
    if own_uar != uar {
        return hca.violation(bus, format_args!("doorbell for CQ {cqn:#x} in UAR {uar:#x} instead of {own_uar:#x}"));
    }
    let arm = Arm {
        solicited: bell::CMD.is_set(word),
        sequence: bell::CMD_SN.get(word) as u8,
        index: bell::CONSUMER_INDEX.get(word),
    };
    let ahead = arm.index.wrapping_sub(cq.producer) & INDEX;
    if ahead != 0 && ahead <= INDEX / 2 {
        let (index, producer) = (arm.index, cq.producer);
        return hca.violation(
            bus,
            format_args!("CQ {cqn:#x} armed at index {index:#x}, only {producer:#x} entries were written"),
        );
    }
    let mut record = [0; 4];
    match bus.read(dbr + registers::doorbell_record::CQ_ARM as u64, &mut record) {
        Err(fault) => return hca.dma_fault(bus, fault, format_args!("CQ {cqn:#x}: reading the doorbell record")),
        // Another thread may already have armed again; but an older word than the doorbell's is a mistake.
        Ok(()) if older(&record, &arm) => {
            hca.violation(bus, format_args!("CQ {cqn:#x}: the doorbell record's arm word is older than the doorbell"));
        }
        Ok(()) => {}
    }
    let Some(cq) = hca.cqs.get_mut(&cqn) else { return };
    // A sequence number that has fired already is an old request: its event is on the way.
    if cq.fired != Some(arm.sequence) {
        cq.armed = Some(arm);
        let now = bus.now();
        cq.since = (cq.producer & INDEX != arm.index).then_some(now);
        fire_if_due(hca, bus, cqn);
    }
}

/// Whether the record's arm word is of the same round as the doorbell, but of an earlier consumer index.
fn older(record: &[u8; 4], arm: &Arm) -> bool {
    use registers::cq_doorbell as bell;
    let behind = arm.index.wrapping_sub(bell::CONSUMER_INDEX.get(record)) & INDEX;
    bell::CMD_SN.get(record) == u32::from(arm.sequence) && behind != 0 && behind <= INDEX / 2
}

impl Hca {
    /// Writes a completion. The low bit of the last byte is set as the CQ's lap demands. A failure counts as solicited.
    pub fn push_cqe(&mut self, bus: &mut dyn Bus, cqn: u32, entry: &[u8; 64], solicited: bool) -> Result<(), CqError> {
        let now = bus.now();
        let cq = self.cqs.get_mut(&cqn).ok_or(CqError)?;
        if cq.error.is_some() {
            return Err(CqError);
        }
        if cq.full() {
            cq.read_consumer(bus);
        }
        if cq.full() && !cq.overrun_ignore {
            cq.error = Some(cqc::status::OVERFLOW);
            let size = 1 << cq.log_size;
            self.violation(bus, format_args!("CQ {cqn:#x} overran: {size} entries were not polled"));
            self.event(bus, Event::CqError(cqn, 1));
            return Err(CqError);
        }
        if let Err(fault) = cq.write(bus, entry) {
            cq.error = Some(cqc::status::WRITE_FAILURE);
            self.dma_fault(bus, fault, format_args!("CQ {cqn:#x}: writing an entry"));
            self.event(bus, Event::CqError(cqn, 2));
            return Err(CqError);
        }
        let failed =
            matches!(entry[cqe::OP_OWN] >> cqe::op_own::OPCODE_SHIFT, cqe::opcode::REQ_ERR | cqe::opcode::RESP_ERR);
        if solicited || failed {
            cq.solicited = Some(cq.producer);
        }
        cq.since.get_or_insert(now);
        self.report.completions += 1;
        fire_if_due(self, bus, cqn);
        Ok(())
    }

    /// Who completes into the CQ.
    fn user_of_cq(&self, cqn: u32) -> Option<String> {
        use crate::{qp::qpc, srq::SrqKind};
        let qp = self.qps.values().find(|qp| qp.get(qpc::CQN_SND) == cqn || qp.get(qpc::CQN_RCV) == cqn);
        let srq = self.srqs.values().find(|srq| matches!(srq.kind, SrqKind::Xrc { cqn: n, .. } if n == cqn));
        let sq = self.sqs.values().find(|sq| sq.cqn == cqn);
        let rq = self.rqs.values().find(|rq| rq.cqn == cqn);
        qp.map(|qp| format!("QP {:#x}", qp.qpn))
            .or_else(|| srq.map(|srq| format!("SRQ {:#x}", srq.srqn)))
            .or_else(|| sq.map(|sq| format!("SQ {:#x}", sq.sqn)))
            .or_else(|| rq.map(|rq| format!("RQ {:#x}", rq.rqn)))
    }
}
