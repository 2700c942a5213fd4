//! Send queues of the raw packet path: CREATE_SQ, MODIFY_SQ, QUERY_SQ, DESTROY_SQ. [`ethernet`]
//! executes what is posted there.

use std::collections::BTreeMap;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{create_sq as create, destroy_sq as destroy, modify_sq as modify, query_sq as query},
    context::{sqc, wq},
    field::Field,
};

use crate::{
    command::Call,
    ethernet,
    hca::Hca,
    refusal::{Outcome, Refused, require},
    wq::{WorkQueue, WqState},
};

/// A send queue.
#[derive(Clone, Debug)]
pub struct Sq {
    /// Number.
    pub sqn: u32,
    /// State.
    pub state: WqState,
    /// Basic blocks, memory, doorbell record.
    pub wq: WorkQueue,
    /// UAR whose doorbells it listens to.
    pub uar: u32,
    /// Where completions go.
    pub cqn: u32,
    /// What completions call it.
    pub user_index: u32,
    /// Its TIS; without one it sends nothing (Linux's queue for internal work has none, mlx5e_open_icosq).
    pub tisn: Option<u32>,
    /// In error, what is left is flushed with completions.
    pub flush: bool,
    /// Where the doorbell said that the driver is, 16 bits.
    pub producer: u16,
    /// It is in the queue of those that have something to do.
    pub queued: bool,
    /// The context as the driver gave it.
    pub raw: [u8; sqc::SIZE],
}

/// All send queues by number.
pub type Sqs = BTreeMap<u32, Sq>;

/// Context fields that ask for something that is not advertised.
const ABSENT: &[Field] = &[
    sqc::CD_MASTER,
    sqc::ALLOW_MULTI_PKT_SEND_WQE,
    sqc::REG_UMR,
    sqc::ALLOW_SWP,
    sqc::HAIRPIN,
    sqc::TS_CQE_TO_DEST_CQN,
    sqc::PACKET_PACING_RATE_LIMIT_INDEX,
    sqc::QOS_QUEUE_GROUP_ID,
];

/// CREATE_SQ.
pub fn create_sq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    ethernet::port(hca)?;
    let mut raw = [0; sqc::SIZE];
    raw.copy_from_slice(&call.input[create::SQC..create::SQC + sqc::SIZE]);
    let zero = ABSENT.iter().all(|field| field.get(&raw) == 0);
    require(zero, Status::BadParameter, 0x1310, "the SQ asks for something that is not advertised")?;
    let state = sqc::STATE.get(&raw);
    let reset = state == sqc::state::RST;
    require(reset, Status::BadParameter, 0x1311, format_args!("an SQ is created in reset, not in state {state}"))?;
    let tisn = match sqc::TIS_LST_SZ.get(&raw) {
        0 => None,
        1 => Some(sqc::TIS_NUM_0.get(&raw)),
        n => return Err(Refused::new(Status::BadParameter, 0x1312, format_args!("a list of {n} TISs"))),
    };
    let known = tisn.is_none_or(|tisn| hca.tiss.contains_key(&tisn));
    require(known, Status::BadResource, 0x1313, format_args!("no TIS {tisn:x?}"))?;
    let cqn = sqc::CQN.get(&raw);
    require(hca.cqs.contains_key(&cqn), Status::BadResource, 0x1314, format_args!("no CQ {cqn:#x}"))?;
    let uar = wq::UAR_PAGE.at(sqc::WQ).get(&raw);
    require(hca.uars.contains(&uar), Status::BadResource, 0x1315, format_args!("UAR {uar:#x} is not allocated"))?;
    let pas = &call.input[create::SQC + sqc::SIZE..];
    let work_queue = WorkQueue::parse(hca, &raw[sqc::WQ..], pas, 6..=6)?;
    // The vport's mode is the least (Linux and DPDK ask it and tell it to each SQ; only queues without a TIS leave it out).
    let (mode, least) = (sqc::MIN_WQE_INLINE_MODE.get(&raw), hca.config.inline_mode);
    let enough = mode >= least || tisn.is_none();
    require(enough, Status::BadParameter, 0x1319, format_args!("inline mode {mode}, the vport wants {least}"))?;
    let Some(sqn) = hca.numbers.sq.take(|n| hca.sqs.contains_key(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x1316, "no SQ is left"));
    };
    let sq = Sq {
        sqn,
        state: WqState::Reset,
        wq: work_queue,
        uar,
        cqn,
        user_index: sqc::USER_INDEX.get(&raw),
        tisn,
        flush: sqc::FLUSH_IN_ERROR_EN.is_set(&raw),
        producer: 0,
        queued: false,
        raw,
    };
    hca.sqs.insert(sqn, sq);
    create::out::SQN.set(call.out, sqn);
    Ok(())
}

fn find(hca: &mut Hca, sqn: u32) -> Outcome<&mut Sq> {
    hca.sqs.get_mut(&sqn).ok_or_else(|| Refused::new(Status::BadResource, 0x1317, format_args!("no SQ {sqn:#x}")))
}

/// MODIFY_SQ: the state.
pub fn modify_sq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let selected = modify::BITMASK.get(call.input);
    require(selected == 0, Status::BadParameter, 0x1318, format_args!("bitmask {selected:#x}"))?;
    let wanted = sqc::STATE.at(modify::SQC).get(call.input);
    let sq = find(hca, modify::SQN.get(call.input))?;
    let (sqn, new) = (sq.sqn, sq.state.to(modify::SQ_STATE.get(call.input), wanted)?);
    sq.state = new;
    match new {
        WqState::Reset => (sq.wq.consumer, sq.producer) = (0, 0),
        WqState::Ready => {}
        WqState::Error => ethernet::schedule(hca, sqn),
    }
    Ok(())
}

/// QUERY_SQ.
pub fn query_sq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let sq = find(hca, query::SQN.get(call.input))?;
    let base = query::out::SQC;
    call.out[base..base + sqc::SIZE].copy_from_slice(&sq.raw);
    sqc::STATE.at(base).set(call.out, sq.state.to_raw());
    wq::HW_COUNTER.at(base + sqc::WQ).set(call.out, sq.wq.consumer.into());
    wq::SW_COUNTER.at(base + sqc::WQ).set(call.out, sq.producer.into());
    Ok(())
}

/// DESTROY_SQ: in any state.
pub fn destroy_sq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let sqn = find(hca, destroy::SQN.get(call.input))?.sqn;
    hca.sqs.remove(&sqn);
    Ok(())
}
