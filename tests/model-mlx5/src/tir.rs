//! Transport interface receive: to which receive queue a packet goes. CREATE_TIR, MODIFY_TIR, QUERY_TIR, DESTROY_TIR.

use std::collections::BTreeMap;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{create_tir as create, destroy_tir as destroy, modify_tir as modify, query_tir as query},
    context::tirc,
    field::Field,
};

use crate::{
    command::Call,
    ethernet,
    hca::Hca,
    refusal::{Outcome, Refused, require},
    rq, rqt, transport_domain,
};

/// Values of the dispatch type.
pub mod dispatch {
    /// To one receive queue.
    pub const DIRECT: u32 = 0;
    /// Spread over a table.
    pub const INDIRECT: u32 = 1;
}

/// Values of the hash function.
pub mod hash_fn {
    /// None: the table's first entry.
    pub const NONE: u32 = 0;
    /// Exclusive or of all bytes, its bits in reverse order.
    pub const INVERTED_XOR8: u32 = 1;
    /// Toeplitz.
    pub const TOEPLITZ: u32 = 2;
}

/// Bits of MODIFY_TIR's bitmask.
mod select {
    pub const PACKET_MERGE: u64 = 1 << 0;
    pub const HASH: u64 = 1 << 2;
    pub const SELF_LB: u64 = 1 << 4;
}

/// A TIR.
#[derive(Clone, Debug)]
pub struct Tir {
    /// Number.
    pub tirn: u32,
    /// The context as the driver gave it and changed it.
    pub raw: [u8; tirc::SIZE],
}

/// All TIRs by number.
pub type Tirs = BTreeMap<u32, Tir>;

/// Context fields that ask for something that is not advertised.
const ABSENT: &[Field] = &[
    tirc::TLS_EN,
    tirc::LRO_TIMEOUT_PERIOD_USECS,
    tirc::PACKET_MERGE_MASK,
    tirc::LRO_MAX_IP_PAYLOAD_SIZE,
    tirc::TUNNELED_OFFLOAD_EN,
    tirc::RX_HASH_FIELD_SELECTOR_INNER,
];

impl Tir {
    /// A field of the context.
    pub fn get(&self, field: Field) -> u32 {
        field.get(&self.raw)
    }

    /// Its transport domain.
    pub fn transport_domain(&self) -> u32 {
        self.get(tirc::TRANSPORT_DOMAIN)
    }

    /// The receive queue, where it is always the same.
    pub fn direct(&self) -> Option<u32> {
        (self.get(tirc::DISP_TYPE) == dispatch::DIRECT).then(|| self.get(tirc::INLINE_RQN))
    }

    /// The table of receive queues, if there is one.
    pub fn indirect(&self) -> Option<u32> {
        (self.get(tirc::DISP_TYPE) == dispatch::INDIRECT).then(|| self.get(tirc::INDIRECT_TABLE))
    }

    /// Whether packets that were sent in its own transport domain may come in here. What the field's name says is not
    /// what it does: Linux sets a bit to let such packets in (mlx5e_refresh_tirs, MLX5_QP_FLAG_TIR_ALLOW_SELF_LB_UC),
    /// and so does DPDK for its loopback mode.
    pub fn takes_own(&self, multicast: bool) -> bool {
        self.get(tirc::SELF_LB_BLOCK) & if multicast { 2 } else { 1 } != 0
    }
}

fn check_hash(ctx: &[u8]) -> Outcome {
    let (function, fields) = (tirc::RX_HASH_FN.get(ctx), tirc::RX_HASH_FIELD_SELECTOR_OUTER.get(ctx));
    let known = function <= hash_fn::TOEPLITZ;
    require(known, Status::BadParameter, 0x1600, format_args!("hash function {function}"))?;
    use tirc::hash_field::*;
    let known = L3_IPV6 | L4_UDP | SRC_IP | DST_IP | L4_SPORT | L4_DPORT | IPSEC_SPI;
    require(fields & !known == 0, Status::BadParameter, 0x1601, format_args!("hash fields {fields:#x}"))
}

/// CREATE_TIR.
pub fn create_tir(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    ethernet::port(hca)?;
    let mut raw = [0; tirc::SIZE];
    raw.copy_from_slice(&call.input[create::TIRC..create::TIRC + tirc::SIZE]);
    let zero = ABSENT.iter().all(|field| field.get(&raw) == 0);
    require(zero, Status::BadParameter, 0x1602, "the TIR asks for something that is not advertised")?;
    transport_domain::check(hca, tirc::TRANSPORT_DOMAIN.get(&raw))?;
    check_hash(&raw)?;
    match tirc::DISP_TYPE.get(&raw) {
        dispatch::DIRECT => rq::check(hca, tirc::INLINE_RQN.get(&raw))?,
        dispatch::INDIRECT => rqt::check(hca, tirc::INDIRECT_TABLE.get(&raw))?,
        other => return Err(Refused::new(Status::BadParameter, 0x1603, format_args!("dispatch type {other}"))),
    }
    let Some(tirn) = hca.numbers.tir.take(|n| hca.tirs.contains_key(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x1604, "no TIR is left"));
    };
    hca.tirs.insert(tirn, Tir { tirn, raw });
    create::out::TIRN.set(call.out, tirn);
    Ok(())
}

/// Whether there is such a TIR.
pub fn check(hca: &Hca, tirn: u32) -> Outcome {
    require(hca.tirs.contains_key(&tirn), Status::BadResource, 0x1605, format_args!("no TIR {tirn:#x}"))
}

fn find(hca: &mut Hca, tirn: u32) -> Outcome<&mut Tir> {
    check(hca, tirn)?;
    hca.tirs.get_mut(&tirn).ok_or_else(|| Refused::new(Status::BadResource, 0x1605, "no TIR"))
}

/// MODIFY_TIR: the hash, and whether own packets come back.
pub fn modify_tir(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let (selected, ctx) = (modify::BITMASK.get(call.input), &call.input[modify::TIRC..modify::TIRC + tirc::SIZE]);
    let known = selected & !(select::PACKET_MERGE | select::HASH | select::SELF_LB) == 0;
    require(known, Status::BadParameter, 0x1606, format_args!("bitmask {selected:#x}"))?;
    let merge = selected & select::PACKET_MERGE != 0 && tirc::PACKET_MERGE_MASK.get(ctx) != 0;
    require(!merge, Status::BadParameter, 0x1607, "large receive offload is not advertised")?;
    let tir = find(hca, modify::TIRN.get(call.input))?;
    if selected & select::HASH != 0 {
        check_hash(ctx)?;
        for field in [tirc::RX_HASH_SYMMETRIC, tirc::RX_HASH_FN, tirc::RX_HASH_FIELD_SELECTOR_OUTER] {
            field.set(&mut tir.raw, field.get(ctx));
        }
        let key = tirc::RX_HASH_TOEPLITZ_KEY..tirc::RX_HASH_TOEPLITZ_KEY + TOEPLITZ_KEY;
        tir.raw[key.clone()].copy_from_slice(&ctx[key]);
    }
    if selected & select::SELF_LB != 0 {
        tirc::SELF_LB_BLOCK.set(&mut tir.raw, tirc::SELF_LB_BLOCK.get(ctx));
    }
    Ok(())
}

/// Bytes of a Toeplitz key.
pub const TOEPLITZ_KEY: usize = 40;

/// QUERY_TIR.
pub fn query_tir(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let tir = find(hca, query::TIRN.get(call.input))?;
    call.out[query::out::TIRC..query::out::TIRC + tirc::SIZE].copy_from_slice(&tir.raw);
    Ok(())
}

/// DESTROY_TIR: no flow table entry may lead to it.
pub fn destroy_tir(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let tirn = find(hca, destroy::TIRN.get(call.input))?.tirn;
    if let Some(user) = hca.flow_tables.leads_to_tir(tirn) {
        return Err(Refused::new(Status::BadResourceState, 0x1608, format_args!("{user} leads to TIR {tirn:#x}")));
    }
    hca.tirs.remove(&tirn);
    Ok(())
}
