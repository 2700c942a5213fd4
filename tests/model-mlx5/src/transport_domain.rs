//! Transport domains: ALLOC_TRANSPORT_DOMAIN, DEALLOC_TRANSPORT_DOMAIN. What is sent through a TIS of a domain is an
//! own packet to the TIRs of the same domain.

use std::collections::BTreeSet;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{alloc_transport_domain as alloc, dealloc_transport_domain as dealloc},
};

use crate::{
    command::Call,
    ethernet,
    hca::Hca,
    refusal::{Outcome, Refused, require},
};

/// All transport domains.
pub type TransportDomains = BTreeSet<u32>;

/// ALLOC_TRANSPORT_DOMAIN.
pub fn alloc(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    ethernet::port(hca)?;
    let Some(td) = hca.numbers.transport_domain.take(|n| hca.transport_domains.contains(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x1100, "no transport domain is left"));
    };
    hca.transport_domains.insert(td);
    alloc::out::TRANSPORT_DOMAIN.set(call.out, td);
    Ok(())
}

/// DEALLOC_TRANSPORT_DOMAIN: nothing may be left in it.
pub fn dealloc(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let td = dealloc::TRANSPORT_DOMAIN.get(call.input);
    check(hca, td)?;
    let tis = hca.tiss.values().find(|tis| tis.transport_domain() == td).map(|tis| format!("TIS {:#x}", tis.tisn));
    let tir = hca.tirs.values().find(|tir| tir.transport_domain() == td).map(|tir| format!("TIR {:#x}", tir.tirn));
    if let Some(user) = tis.or(tir) {
        let why = format!("{user} is in transport domain {td:#x}");
        return Err(Refused::new(Status::BadResourceState, 0x1101, why));
    }
    hca.transport_domains.remove(&td);
    Ok(())
}

/// Whether there is such a domain.
pub fn check(hca: &Hca, td: u32) -> Outcome {
    let known = hca.transport_domains.contains(&td);
    require(known, Status::BadResource, 0x1102, format_args!("no transport domain {td:#x}"))
}
