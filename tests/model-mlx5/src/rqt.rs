//! Receive queue tables, over which a TIR spreads packets: CREATE_RQT, MODIFY_RQT, QUERY_RQT, DESTROY_RQT.

use std::collections::BTreeMap;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{create_rqt as create, destroy_rqt as destroy, modify_rqt as modify, query_rqt as query},
    context::rqtc,
};

use crate::{
    command::Call,
    eth_cap::LOG_MAX_RQT_SIZE,
    ethernet,
    hca::Hca,
    refusal::{Outcome, Refused, require},
    ring::read_dword,
    rq,
};

/// A receive queue table.
#[derive(Clone, Debug)]
pub struct Rqt {
    /// Number.
    pub rqtn: u32,
    /// Entries at most.
    pub max_size: u32,
    /// The queues; a power of two of them.
    pub rqns: Vec<u32>,
}

/// All receive queue tables by number.
pub type Rqts = BTreeMap<u32, Rqt>;

/// Bit of MODIFY_RQT's bitmask: the list.
const SELECT_LIST: u64 = 1 << 0;

/// The queues of a context. Each entry is a dword.
fn list(hca: &Hca, ctx: &[u8], max_size: u32) -> Outcome<Vec<u32>> {
    let absent = rqtc::LIST_Q_TYPE.get(ctx) != 0 || rqtc::RQ_VHCA_ID_FORMAT.is_set(ctx);
    require(!absent, Status::BadParameter, 0x1500, "the RQT asks for something that is not advertised")?;
    let size = rqtc::RQT_ACTUAL_SIZE.get(ctx);
    let fits = size.is_power_of_two() && size <= max_size;
    require(fits, Status::BadParameter, 0x1501, format_args!("{size} entries in a table of {max_size}"))?;
    let given = ctx.len().saturating_sub(rqtc::RQ_NUM) / 4;
    let why = format!("{size} entries announced, {given} given");
    require(given >= size as usize, Status::BadInputLength, 0x1502, why)?;
    let rqns: Vec<u32> = (0..size as usize).map(|i| read_dword(ctx, rqtc::RQ_NUM + i * 4) & 0xff_ffff).collect();
    rqns.iter().try_for_each(|&rqn| rq::check(hca, rqn))?;
    Ok(rqns)
}

/// CREATE_RQT.
pub fn create_rqt(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    ethernet::port(hca)?;
    let ctx = &call.input[create::RQTC..];
    let (max_size, limit) = (rqtc::RQT_MAX_SIZE.get(ctx), 1 << LOG_MAX_RQT_SIZE);
    let fits = max_size > 0 && max_size <= limit;
    require(fits, Status::BadParameter, 0x1503, format_args!("a table of {max_size} entries, at most {limit}"))?;
    let rqns = list(hca, ctx, max_size)?;
    let Some(rqtn) = hca.numbers.rqt.take(|n| hca.rqts.contains_key(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x1504, "no RQT is left"));
    };
    hca.rqts.insert(rqtn, Rqt { rqtn, max_size, rqns });
    create::out::RQTN.set(call.out, rqtn);
    Ok(())
}

/// Whether there is such a table.
pub fn check(hca: &Hca, rqtn: u32) -> Outcome {
    require(hca.rqts.contains_key(&rqtn), Status::BadResource, 0x1505, format_args!("no RQT {rqtn:#x}"))
}

/// MODIFY_RQT: another list.
pub fn modify_rqt(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let (rqtn, selected) = (modify::RQTN.get(call.input), modify::BITMASK.get(call.input));
    check(hca, rqtn)?;
    let known = selected & !SELECT_LIST == 0;
    require(known, Status::BadParameter, 0x1506, format_args!("bitmask {selected:#x}"))?;
    if selected & SELECT_LIST != 0 {
        let max_size = hca.rqts.get(&rqtn).map_or(0, |rqt| rqt.max_size);
        let rqns = list(hca, &call.input[modify::RQTC..], max_size)?;
        if let Some(rqt) = hca.rqts.get_mut(&rqtn) {
            rqt.rqns = rqns;
        }
    }
    Ok(())
}

/// QUERY_RQT: as many entries as there is room for.
pub fn query_rqt(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let rqtn = query::RQTN.get(call.input);
    check(hca, rqtn)?;
    let Some(rqt) = hca.rqts.get(&rqtn) else { return Ok(()) };
    let base = query::out::RQTC;
    rqtc::RQT_MAX_SIZE.at(base).set(call.out, rqt.max_size);
    rqtc::RQT_ACTUAL_SIZE.at(base).set(call.out, rqt.rqns.len() as u32);
    let room = call.out.get_mut(base + rqtc::RQ_NUM..).unwrap_or_default();
    for (out, rqn) in room.chunks_exact_mut(4).zip(&rqt.rqns) {
        out.copy_from_slice(&rqn.to_be_bytes());
    }
    Ok(())
}

/// DESTROY_RQT: no TIR may lead to it.
pub fn destroy_rqt(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let rqtn = destroy::RQTN.get(call.input);
    check(hca, rqtn)?;
    if let Some(tir) = hca.tirs.values().find(|tir| tir.indirect() == Some(rqtn)) {
        let why = format!("TIR {:#x} leads to RQT {rqtn:#x}", tir.tirn);
        return Err(Refused::new(Status::BadResourceState, 0x1507, why));
    }
    hca.rqts.remove(&rqtn);
    Ok(())
}
