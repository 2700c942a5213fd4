//! XRC domains: ALLOC_XRCD, DEALLOC_XRCD.

use std::collections::BTreeMap;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{alloc_xrcd as alloc, dealloc_xrcd as dealloc},
};

use crate::{
    command::Call,
    hca::Hca,
    qp::{Service, qpc},
    refusal::{Outcome, Refused, require},
    srq::SrqKind,
};

/// An XRC domain.
#[derive(Clone, Debug, Default)]
pub struct Xrcd;

/// All XRC domains by number.
pub type Xrcds = BTreeMap<u32, Xrcd>;

/// ALLOC_XRCD.
pub fn alloc_xrcd(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let Some(xrcd) = hca.numbers.xrcd.take(|n| hca.xrcds.contains_key(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x0700, "no XRC domain is left"));
    };
    hca.xrcds.insert(xrcd, Xrcd);
    alloc::out::XRCD.set(call.out, xrcd);
    Ok(())
}

/// DEALLOC_XRCD: nothing may be left in it.
pub fn dealloc_xrcd(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let xrcd = dealloc::XRCD.get(call.input);
    require(hca.xrcds.contains_key(&xrcd), Status::BadResource, 0x0701, format_args!("no XRC domain {xrcd:#x}"))?;
    let in_srq = |kind| matches!(kind, SrqKind::Xrc { xrcd: n, .. } if n == xrcd);
    let srq = hca.srqs.values().find(|srq| in_srq(srq.kind)).map(|srq| format!("SRQ {:#x}", srq.srqn));
    let in_qp = |qp: &&crate::qp::Qp| qp.service == Service::Xrc && qp.get(qpc::XRCD) == xrcd;
    let qp = hca.qps.values().find(in_qp).map(|qp| format!("QP {:#x}", qp.qpn));
    if let Some(user) = srq.or(qp) {
        return Err(Refused::new(Status::BadResourceState, 0x0702, format_args!("{user} is in XRC domain {xrcd:#x}")));
    }
    hca.xrcds.remove(&xrcd);
    Ok(())
}
