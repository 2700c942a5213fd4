//! Transport interface send: what send queues have in common. CREATE_TIS, MODIFY_TIS, QUERY_TIS, DESTROY_TIS.

use std::collections::BTreeMap;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{create_tis as create, destroy_tis as destroy, modify_tis as modify, query_tis as query},
    context::tisc,
    field::Field,
};

use crate::{
    command::Call,
    ethernet,
    hca::Hca,
    refusal::{Outcome, Refused, require},
    transport_domain,
};

/// A TIS.
#[derive(Clone, Debug)]
pub struct Tis {
    /// Number.
    pub tisn: u32,
    /// The context as the driver gave it.
    pub raw: [u8; tisc::SIZE],
}

/// All TISs by number.
pub type Tiss = BTreeMap<u32, Tis>;

/// Context fields that ask for something that is not advertised.
const ABSENT: &[Field] =
    &[tisc::STRICT_LAG_TX_PORT_AFFINITY, tisc::TLS_EN, tisc::LAG_TX_PORT_AFFINITY, tisc::UNDERLAY_QPN];

/// Bit of MODIFY_TIS' bitmask: the priority.
const SELECT_PRIO: u64 = 1 << 0;

impl Tis {
    /// Its transport domain.
    pub fn transport_domain(&self) -> u32 {
        tisc::TRANSPORT_DOMAIN.get(&self.raw)
    }
}

fn check(ctx: &[u8]) -> Outcome {
    let zero = ABSENT.iter().all(|field| field.get(ctx) == 0);
    require(zero, Status::BadParameter, 0x1200, "the TIS asks for something that is not advertised")
}

/// CREATE_TIS.
pub fn create_tis(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    ethernet::port(hca)?;
    let mut raw = [0; tisc::SIZE];
    raw.copy_from_slice(&call.input[create::TISC..create::TISC + tisc::SIZE]);
    check(&raw)?;
    transport_domain::check(hca, tisc::TRANSPORT_DOMAIN.get(&raw))?;
    let Some(tisn) = hca.numbers.tis.take(|n| hca.tiss.contains_key(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x1201, "no TIS is left"));
    };
    hca.tiss.insert(tisn, Tis { tisn, raw });
    create::out::TISN.set(call.out, tisn);
    Ok(())
}

fn find(hca: &mut Hca, tisn: u32) -> Outcome<&mut Tis> {
    hca.tiss.get_mut(&tisn).ok_or_else(|| Refused::new(Status::BadResource, 0x1202, format_args!("no TIS {tisn:#x}")))
}

/// MODIFY_TIS: only the priority can be changed.
pub fn modify_tis(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let tis = find(hca, modify::TISN.get(call.input))?;
    let (selected, ctx) = (modify::BITMASK.get(call.input), &call.input[modify::TISC..]);
    let known = selected & !SELECT_PRIO == 0;
    require(known, Status::BadParameter, 0x1203, format_args!("bitmask {selected:#x}"))?;
    if selected & SELECT_PRIO != 0 {
        tisc::PRIO.set(&mut tis.raw, tisc::PRIO.get(ctx));
    }
    Ok(())
}

/// QUERY_TIS.
pub fn query_tis(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let tis = find(hca, query::TISN.get(call.input))?;
    call.out[query::out::TISC..query::out::TISC + tisc::SIZE].copy_from_slice(&tis.raw);
    Ok(())
}

/// DESTROY_TIS: no send queue may use it.
pub fn destroy_tis(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let tisn = find(hca, destroy::TISN.get(call.input))?.tisn;
    if let Some(sq) = hca.sqs.values().find(|sq| sq.tisn == Some(tisn)) {
        let why = format!("SQ {:#x} uses TIS {tisn:#x}", sq.sqn);
        return Err(Refused::new(Status::BadResourceState, 0x1204, why));
    }
    hca.tiss.remove(&tisn);
    Ok(())
}
