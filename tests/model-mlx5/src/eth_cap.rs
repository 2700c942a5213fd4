//! Capabilities of an Ethernet port: queues of raw packets, offloads, flow tables. What stands here, the model holds.

use bareverbs_mlx5_prm::{
    context::{
        cmd_hca_cap as cap, eth_caps as eth,
        steering::{flow_table_nic_cap as nic, flow_table_prop as prop, ft_field_support as support},
    },
    field::Field,
};

use crate::hca_cap::LOG_MAX_QP_SZ;

/// Transport domains, log.
pub const LOG_MAX_TRANSPORT_DOMAIN: u32 = 8;
/// TISs, log.
pub const LOG_MAX_TIS: u32 = 10;
/// TIRs, log.
pub const LOG_MAX_TIR: u32 = 10;
/// Send queues, log.
pub const LOG_MAX_SQ: u32 = 12;
/// Receive queues, log.
pub const LOG_MAX_RQ: u32 = 12;
/// Receive queue tables, log.
pub const LOG_MAX_RQT: u32 = 10;
/// Entries of a receive queue table, log.
pub const LOG_MAX_RQT_SIZE: u32 = 11;
/// Bytes of an LSO, log.
pub const LOG_MAX_LSO: u32 = 18;
/// Entries of a vport's list of addresses or VLANs, log.
pub const LOG_MAX_LIST: u32 = 8;
/// Entries of a flow table, log.
pub const LOG_MAX_FT_SIZE: u32 = 24;
/// Flow tables, log.
pub const LOG_MAX_FT_NUM: u32 = 10;
/// Highest level of a flow table.
pub const MAX_FT_LEVEL: u32 = 128;
/// Destinations of a flow table entry, log.
pub const LOG_MAX_DESTINATION: u32 = 6;
/// Flow table entries, log.
pub const LOG_MAX_FLOW: u32 = 16;
/// Counter sets of queues, besides the default one.
pub const Q_COUNTERS: u32 = 64;

/// The vport says which headers WQEs need inline.
const INLINE_BY_VPORT: u32 = 1;
/// WQEs need no headers inline.
const INLINE_NOT_NEEDED: u32 = 2;

const GENERAL: &[(Field, u32)] = &[
    (cap::ETH_NET_OFFLOADS, 1),
    (cap::NIC_FLOW_TABLE, 1),
    (cap::LOG_MAX_TRANSPORT_DOMAIN, LOG_MAX_TRANSPORT_DOMAIN),
    (cap::LOG_MAX_TIS, LOG_MAX_TIS),
    (cap::LOG_MAX_TIS_PER_SQ, 0),
    (cap::LOG_MAX_TIR, LOG_MAX_TIR),
    (cap::LOG_MAX_SQ, LOG_MAX_SQ),
    (cap::LOG_MAX_RQ, LOG_MAX_RQ),
    (cap::LOG_MAX_RQT, LOG_MAX_RQT),
    (cap::LOG_MAX_RQT_SIZE, LOG_MAX_RQT_SIZE),
    (cap::BASIC_CYCLIC_RCV_WQE, 1),
    (cap::LOG_MAX_WQ_SZ, LOG_MAX_QP_SZ),
    (cap::LOG_MIN_STRIDE_SZ_RQ, 4),
    (cap::LOG_MAX_STRIDE_SZ_RQ, 9),
    (cap::LOG_MIN_STRIDE_SZ_SQ, 6),
    (cap::LOG_MAX_STRIDE_SZ_SQ, 6),
    (cap::LOG_MAX_CURRENT_UC_LIST, LOG_MAX_LIST),
    (cap::LOG_MAX_CURRENT_MC_LIST, LOG_MAX_LIST),
    (cap::LOG_MAX_VLAN_LIST, LOG_MAX_LIST),
    (cap::DISABLE_LOCAL_LB_UC, 1),
    (cap::DISABLE_LOCAL_LB_MC, 1),
    (cap::VPORT_COUNTERS, 1),
    (cap::MAX_QP_CNT, Q_COUNTERS),
    (cap::OUT_OF_SEQ_CNT, 1),
    (cap::RETRANSMISSION_Q_COUNTERS, 1),
    (cap::ENHANCED_ERROR_Q_COUNTERS, 1),
    (cap::MODIFY_RQ_COUNTER_SET_ID, 1),
    (cap::MAX_TC, 8),
];

const ETHERNET: &[(Field, u32)] = &[
    (eth::CSUM_CAP, 1),
    (eth::VLAN_CAP, 1),
    (eth::WQE_VLAN_INSERT, 1),
    (eth::SELF_LB_EN_MODIFIABLE, 1),
    (eth::MAX_LSO_CAP, LOG_MAX_LSO),
    (eth::RSS_IND_TBL_CAP, LOG_MAX_RQT_SIZE),
    (eth::CQE_CHECKSUM_FULL, 1),
];

const RECEIVE: &[(Field, u32)] = &[
    (prop::FT_SUPPORT, 1),
    (prop::FLOW_MODIFY_EN, 1),
    (prop::MODIFY_ROOT, 1),
    (prop::IDENTIFIED_MISS_TABLE_MODE, 1),
    (prop::FLOW_TABLE_MODIFY, 1),
    (prop::LOG_MAX_FT_SIZE, LOG_MAX_FT_SIZE),
    (prop::MAX_FT_LEVEL, MAX_FT_LEVEL),
    (prop::LOG_MAX_FT_NUM, LOG_MAX_FT_NUM),
    (prop::LOG_MAX_DESTINATION, LOG_MAX_DESTINATION),
    (prop::LOG_MAX_FLOW, LOG_MAX_FLOW),
];

const MATCHED: &[Field] = &[
    support::OUTER_DMAC,
    support::OUTER_SMAC,
    support::OUTER_ETHER_TYPE,
    support::OUTER_IP_VERSION,
    support::OUTER_FIRST_PRIO,
    support::OUTER_FIRST_CFI,
    support::OUTER_FIRST_VID,
    support::OUTER_SIP,
    support::OUTER_DIP,
    support::OUTER_FRAG,
    support::OUTER_IP_PROTOCOL,
    support::OUTER_IP_ECN,
    support::OUTER_IP_DSCP,
    support::OUTER_UDP_SPORT,
    support::OUTER_UDP_DPORT,
    support::OUTER_TCP_SPORT,
    support::OUTER_TCP_DPORT,
    support::OUTER_TCP_FLAGS,
];

/// Adds to the general structure.
pub fn general(caps: &mut [u8]) {
    for &(field, value) in GENERAL {
        field.set(caps, value);
    }
}

/// Fills the structure of Ethernet offloads.
pub fn offloads(caps: &mut [u8], inline_mode: u32) {
    eth::WQE_INLINE_MODE.set(caps, if inline_mode == 0 { INLINE_NOT_NEEDED } else { INLINE_BY_VPORT });
    for &(field, value) in ETHERNET {
        field.set(caps, value);
    }
}

/// Fills the structure of flow tables.
pub fn flow_tables(caps: &mut [u8]) {
    nic::NIC_RX_MULTI_PATH_TIRS.set(caps, 1);
    nic::NIC_RX_MULTI_PATH_TIRS_FTS.set(caps, 1);
    for &(field, value) in RECEIVE {
        field.at(nic::NIC_RECEIVE).set(caps, value);
    }
    for place in [prop::FT_FIELD_SUPPORT, prop::FT_FIELD_BITMASK_SUPPORT] {
        for field in MATCHED {
            field.at(nic::NIC_RECEIVE + place).set(caps, 1);
        }
    }
}
