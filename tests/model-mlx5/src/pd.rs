//! Protection domains: ALLOC_PD, DEALLOC_PD.

use std::collections::BTreeMap;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{alloc_pd as alloc, dealloc_pd as dealloc},
};

use crate::{
    command::Call,
    hca::Hca,
    refusal::{Outcome, Refused, require},
};

/// A protection domain.
#[derive(Clone, Debug, Default)]
pub struct Pd;

/// All protection domains by number.
pub type Pds = BTreeMap<u32, Pd>;

/// ALLOC_PD.
pub fn alloc_pd(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let Some(pd) = hca.numbers.pd.take(|n| hca.pds.contains_key(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x0600, "no PD is left"));
    };
    hca.pds.insert(pd, Pd);
    alloc::out::PD.set(call.out, pd);
    Ok(())
}

/// DEALLOC_PD: nothing may be left in it.
pub fn dealloc_pd(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let pd = dealloc::PD.get(call.input);
    require(hca.pds.contains_key(&pd), Status::BadResource, 0x0601, format_args!("no PD {pd:#x}"))?;
    let mkey = hca.mkeys.table.values().find(|m| m.pd == pd).map(|m| format!("memory key {:#x}", m.key));
    let qp = hca.qps.values().find(|qp| qp.pd() == pd).map(|qp| format!("QP {:#x}", qp.qpn));
    let srq = hca.srqs.values().find(|srq| srq.pd == pd).map(|srq| format!("SRQ {:#x}", srq.srqn));
    let sq = hca.sqs.values().find(|sq| sq.wq.pd == pd).map(|sq| format!("SQ {:#x}", sq.sqn));
    let rq = hca.rqs.values().find(|rq| rq.wq.pd == pd).map(|rq| format!("RQ {:#x}", rq.rqn));
    if let Some(user) = mkey.or(qp).or(srq).or(sq).or(rq) {
        return Err(Refused::new(Status::BadResourceState, 0x0602, format_args!("{user} is in PD {pd:#x}")));
    }
    hca.pds.remove(&pd);
    Ok(())
}
