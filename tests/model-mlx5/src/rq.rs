//! Receive queues of the raw packet path: CREATE_RQ, MODIFY_RQ, QUERY_RQ, DESTROY_RQ. [`ethernet`]
//! fills what is posted there.

use std::collections::BTreeMap;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{create_rq as create, destroy_rq as destroy, modify_rq as modify, query_rq as query},
    context::{rqc, wq},
    field::Field,
};

use crate::{
    command::Call,
    ethernet,
    hca::Hca,
    q_counter,
    refusal::{Outcome, Refused, require},
    wq::{WorkQueue, WqState},
};

/// A receive queue.
#[derive(Clone, Debug)]
pub struct Rq {
    /// Number.
    pub rqn: u32,
    /// State.
    pub state: WqState,
    /// WQEs, memory, doorbell record.
    pub wq: WorkQueue,
    /// Where completions go.
    pub cqn: u32,
    /// What completions call it.
    pub user_index: u32,
    /// In error, what is left is flushed with completions.
    pub flush: bool,
    /// The context as the driver gave it and changed it.
    pub raw: [u8; rqc::SIZE],
}

/// All receive queues by number.
pub type Rqs = BTreeMap<u32, Rq>;

/// Context fields that ask for something that is not advertised.
const ABSENT: &[Field] = &[rqc::DELAY_DROP_EN, rqc::SCATTER_FCS, rqc::MEM_RQ_TYPE, rqc::HAIRPIN, rqc::RMPN];

/// Bits of MODIFY_RQ's bitmask.
mod select {
    /// Whether VLAN tags are taken off.
    pub const VSD: u64 = 1 << 1;
    /// The counter set.
    pub const COUNTER_SET_ID: u64 = 1 << 3;
}

impl Rq {
    /// VLAN tags are taken off.
    pub fn strips_vlan(&self) -> bool {
        !rqc::VSD.is_set(&self.raw)
    }

    /// The counter set that counts its events.
    pub fn counter_set(&self) -> u32 {
        rqc::COUNTER_SET_ID.get(&self.raw)
    }
}

/// CREATE_RQ.
pub fn create_rq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    ethernet::port(hca)?;
    let mut raw = [0; rqc::SIZE];
    raw.copy_from_slice(&call.input[create::RQC..create::RQC + rqc::SIZE]);
    let zero = ABSENT.iter().all(|field| field.get(&raw) == 0);
    require(zero, Status::BadParameter, 0x1400, "the RQ asks for something that is not advertised")?;
    let state = rqc::STATE.get(&raw);
    let reset = state == rqc::state::RST;
    require(reset, Status::BadParameter, 0x1401, format_args!("an RQ is created in reset, not in state {state}"))?;
    let cqn = rqc::CQN.get(&raw);
    require(hca.cqs.contains_key(&cqn), Status::BadResource, 0x1402, format_args!("no CQ {cqn:#x}"))?;
    // Padding to a cache line is nothing that a driver sees; Linux asks for it always (rq_end_pad_mode).
    let padding = wq::END_PADDING_MODE.at(rqc::WQ).get(&raw);
    require(padding <= 1, Status::BadParameter, 0x1403, format_args!("end padding mode {padding}"))?;
    q_counter::check(hca, rqc::COUNTER_SET_ID.get(&raw))?;
    let pas = &call.input[create::RQC + rqc::SIZE..];
    let work_queue = WorkQueue::parse(hca, &raw[rqc::WQ..], pas, 4..=9)?;
    let Some(rqn) = hca.numbers.rq.take(|n| hca.rqs.contains_key(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x1404, "no RQ is left"));
    };
    let rq = Rq {
        rqn,
        state: WqState::Reset,
        wq: work_queue,
        cqn,
        user_index: rqc::USER_INDEX.get(&raw),
        flush: rqc::FLUSH_IN_ERROR_EN.is_set(&raw),
        raw,
    };
    hca.rqs.insert(rqn, rq);
    create::out::RQN.set(call.out, rqn);
    Ok(())
}

/// Whether there is such a receive queue.
pub fn check(hca: &Hca, rqn: u32) -> Outcome {
    require(hca.rqs.contains_key(&rqn), Status::BadResource, 0x1405, format_args!("no RQ {rqn:#x}"))
}

fn find(hca: &mut Hca, rqn: u32) -> Outcome<&mut Rq> {
    check(hca, rqn)?;
    hca.rqs.get_mut(&rqn).ok_or_else(|| Refused::new(Status::BadResource, 0x1405, "no RQ"))
}

/// MODIFY_RQ: the state, VLAN stripping, the counter set.
pub fn modify_rq(hca: &mut Hca, bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let (selected, ctx) = (modify::BITMASK.get(call.input), &call.input[modify::RQC..modify::RQC + rqc::SIZE]);
    let known = selected & !(select::VSD | select::COUNTER_SET_ID) == 0;
    require(known, Status::BadParameter, 0x1406, format_args!("bitmask {selected:#x}"))?;
    let counters = rqc::COUNTER_SET_ID.get(ctx);
    if selected & select::COUNTER_SET_ID != 0 {
        q_counter::check(hca, counters)?;
    }
    let rq = find(hca, modify::RQN.get(call.input))?;
    let (rqn, new) = (rq.rqn, rq.state.to(modify::RQ_STATE.get(call.input), rqc::STATE.get(ctx))?);
    if selected & select::VSD != 0 {
        rqc::VSD.set(&mut rq.raw, rqc::VSD.get(ctx));
    }
    if selected & select::COUNTER_SET_ID != 0 {
        rqc::COUNTER_SET_ID.set(&mut rq.raw, counters);
    }
    rq.state = new;
    match new {
        WqState::Reset => rq.wq.consumer = 0,
        WqState::Ready => {}
        WqState::Error => ethernet::rq_failed(hca, bus, rqn),
    }
    Ok(())
}

/// QUERY_RQ.
pub fn query_rq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let rq = find(hca, query::RQN.get(call.input))?;
    let base = query::out::RQC;
    call.out[base..base + rqc::SIZE].copy_from_slice(&rq.raw);
    rqc::STATE.at(base).set(call.out, rq.state.to_raw());
    wq::HW_COUNTER.at(base + rqc::WQ).set(call.out, rq.wq.consumer.into());
    Ok(())
}

/// DESTROY_RQ: in any state, but nothing may lead to it.
pub fn destroy_rq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let rqn = find(hca, destroy::RQN.get(call.input))?.rqn;
    let rqt = hca.rqts.values().find(|rqt| rqt.rqns.contains(&rqn)).map(|rqt| format!("RQT {:#x}", rqt.rqtn));
    let tir = hca.tirs.values().find(|tir| tir.direct() == Some(rqn)).map(|tir| format!("TIR {:#x}", tir.tirn));
    if let Some(user) = rqt.or(tir) {
        return Err(Refused::new(Status::BadResourceState, 0x1407, format_args!("{user} leads to RQ {rqn:#x}")));
    }
    hca.rqs.remove(&rqn);
    Ok(())
}
