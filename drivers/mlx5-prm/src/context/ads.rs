//! Address path of a QP. PRM: "Address Path Structure" (ads).
use crate::field::{Bytes, Field};

/// Size in bytes.
pub const SIZE: usize = 0x2c;
/// Force loopback: never leave the port.
pub const FL: Field = Field::new(0x00, 31, 31);
/// Adaptive routing is free to choose.
pub const FREE_AR: Field = Field::new(0x00, 30, 30);
/// Index into the P_Key table.
pub const PKEY_INDEX: Field = Field::new(0x00, 15, 0);
/// InfiniBand: packets carry a GRH.
pub const GRH: Field = Field::new(0x04, 23, 23);
/// InfiniBand: path bits of the source LID (local mask control).
pub const MLID: Field = Field::new(0x04, 22, 16);
/// InfiniBand: destination LID. RoCE v1 and v2: unused.
pub const RLID: Field = Field::new(0x04, 15, 0);
/// Local ACK timeout, IBA 9.7.6.1.3: 4.096 us * 2^value; 0 is never.
pub const ACK_TIMEOUT: Field = Field::new(0x08, 31, 27);
/// Index of the source GID, or of the RoCE address.
pub const SRC_ADDR_INDEX: Field = Field::new(0x08, 23, 16);
/// Static rate, the verbs' rate code plus 5; 0 is the port's own.
pub const STAT_RATE: Field = Field::new(0x08, 11, 8);
/// Hop limit, or time to live.
pub const HOP_LIMIT: Field = Field::new(0x08, 7, 0);
/// Traffic class; with RoCE v2 see [`DSCP`].
pub const TCLASS: Field = Field::new(0x0c, 27, 20);
/// Flow label.
pub const FLOW_LABEL: Field = Field::new(0x0c, 19, 0);
/// Destination GID, or IP address (IPv4 in its mapped form).
pub const RGID_RIP: Bytes = Bytes::new(0x10, 16);
/// RoCE v2: [`DSCP`] is valid.
pub const F_DSCP: Field = Field::new(0x20, 27, 27);
/// RoCE v2: [`ECN`] is valid.
pub const F_ECN: Field = Field::new(0x20, 26, 26);
/// [`ETH_PRIO`] is valid.
pub const F_ETH_PRIO: Field = Field::new(0x20, 24, 24);
/// Explicit congestion notification bits.
pub const ECN: Field = Field::new(0x20, 23, 22);
/// Differentiated services code point.
pub const DSCP: Field = Field::new(0x20, 21, 16);
/// RoCE v2: UDP source port.
pub const UDP_SPORT: Field = Field::new(0x20, 15, 0);
/// VLAN tag: drop eligible.
pub const DEI_CFI: Field = Field::new(0x24, 31, 31);
/// VLAN tag: priority.
pub const ETH_PRIO: Field = Field::new(0x24, 30, 28);
/// InfiniBand: service level.
pub const SL: Field = Field::new(0x24, 27, 24);
/// Port, counted from 1.
pub const VHCA_PORT_NUM: Field = Field::new(0x24, 23, 16);
/// RoCE: destination MAC address, first two bytes.
pub const RMAC_47_32: Field = Field::new(0x24, 15, 0);
/// RoCE: destination MAC address, last four bytes.
pub const RMAC_31_0: Field = Field::new(0x28, 31, 0);

/// RoCE: destination MAC address, both parts.
pub const RMAC: crate::field::Bytes = crate::field::Bytes::new(0x26, 6);
/// The verbs' rate codes (IBV_RATE_*) are written with this added.
pub const STAT_RATE_OFFSET: u32 = 5;
