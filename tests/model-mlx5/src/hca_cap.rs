//! Capabilities: what QUERY_HCA_CAP says, and what SET_HCA_CAP may change. What stands here, the model holds.

use std::collections::BTreeMap;

use bareverbs_harness::model::{Bus, LinkKind};
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{hca_cap_op_mod as kind, query_hca_cap as query, set_hca_cap as set},
    context::{
        atomic_caps::{self as atomic, operations},
        cmd_hca_cap as cap,
        roce::roce_cap as roce,
    },
    field::Field,
};

use crate::{
    command::{Call, Phase},
    config::HcaConfig,
    eth_cap,
    hca::Hca,
    port,
    refusal::{Outcome, Refused, require},
    registers::FREQUENCY_KHZ,
};

/// QPs, log.
pub const LOG_MAX_QP: u32 = 16;
/// WQEs of a QP, log.
pub const LOG_MAX_QP_SZ: u32 = 15;
/// SRQs, log.
pub const LOG_MAX_SRQ: u32 = 12;
/// WQEs of an SRQ, log.
pub const LOG_MAX_SRQ_SZ: u32 = 15;
/// CQs, log.
pub const LOG_MAX_CQ: u32 = 16;
/// Entries of a CQ, log.
pub const LOG_MAX_CQ_SZ: u32 = 22;
/// EQs.
pub const MAX_EQS: u32 = 64;
/// Entries of an EQ, log.
pub const LOG_MAX_EQ_SZ: u32 = 22;
/// PDs, log.
pub const LOG_MAX_PD: u32 = 16;
/// XRC domains, log.
pub const LOG_MAX_XRCD: u32 = 12;
/// Memory keys, log.
pub const LOG_MAX_MKEY: u32 = 20;
/// Registered user memories, log.
pub const LOG_MAX_UMEM: u32 = 12;
/// Bytes of a message, log.
pub const LOG_MAX_MSG: u32 = 30;
/// Outstanding READs and atomics in each direction, log.
pub const LOG_MAX_RA: u32 = 4;
/// Bytes of a send WQE.
pub const MAX_WQE_SZ: u32 = 1024;
/// Multicast groups, log.
pub const LOG_MAX_MCG: u32 = 10;
/// QPs of a multicast group.
pub const MAX_QP_MCG: u32 = 64;

/// Bytes of each structure.
const LEN: usize = 0x1000;
/// Shortest output of QUERY_HCA_CAP. rdma-core's tests of DEVX, which are made for cards, ask for the first half only
/// (`QueryCmdHcaCapOut`); nothing lies behind it.
pub const QUERY_MIN_OUT: usize = query::out::CAPABILITY + LEN / 2;

/// Both views of each structure: what the device could do, and what is in force.
#[derive(Clone, Debug)]
pub struct Caps {
    max: BTreeMap<u32, Vec<u8>>,
    current: BTreeMap<u32, Vec<u8>>,
}

/// General capabilities of all ports.
const GENERAL: &[(Field, u32)] = &[
    (cap::LOG_MAX_SRQ_SZ, LOG_MAX_SRQ_SZ),
    (cap::LOG_MAX_SRQ, LOG_MAX_SRQ),
    (cap::LOG_MAX_QP_SZ, LOG_MAX_QP_SZ),
    (cap::LOG_MAX_QP, LOG_MAX_QP),
    (cap::LOG_MAX_CQ_SZ, LOG_MAX_CQ_SZ),
    (cap::LOG_MAX_CQ, LOG_MAX_CQ),
    (cap::LOG_MAX_EQ_SZ, LOG_MAX_EQ_SZ),
    (cap::LOG_MAX_EQ, MAX_EQS.ilog2()),
    (cap::MAX_NUM_EQS, MAX_EQS),
    (cap::LOG_MAX_MKEY, LOG_MAX_MKEY),
    (cap::LOG_MAX_MRW_SZ, 61),
    (cap::LOG_MAX_KLM_LIST_SIZE, 18),
    (cap::MAX_INDIRECTION, 4),
    (cap::LOG_MAX_RA_REQ_QP, LOG_MAX_RA),
    (cap::LOG_MAX_RA_RES_QP, LOG_MAX_RA),
    (cap::LOG_MAX_PD, LOG_MAX_PD),
    (cap::LOG_MAX_XRCD, LOG_MAX_XRCD),
    (cap::LOG_MAX_MSG, LOG_MAX_MSG),
    (cap::LOG_MAX_RMP, LOG_MAX_SRQ),
    (cap::MAX_WQE_SZ_SQ, MAX_WQE_SZ),
    (cap::MAX_WQE_SZ_RQ, 512),
    // The IBA's rates of up to 120 Gb/s.
    (cap::STAT_RATE_SUPPORT, 0xff80),
    (cap::LOG_MAX_MCG, LOG_MAX_MCG),
    (cap::MAX_QP_MCG, MAX_QP_MCG),
    (cap::NUM_PORTS, 1),
    (cap::LOCAL_CA_ACK_DELAY, 12),
    (cap::CQE_VERSION, 1),
    (cap::COMPACT_ADDRESS_VECTOR, 1),
    (cap::CMDIF_CHECKSUM, cap::cmdif_checksum::ENABLED),
    (cap::CQ_OI, 1),
    (cap::CQ_RESIZE, 1),
    (cap::CQ_MODERATION, 1),
    (cap::CQ_EQ_REMAP, 1),
    (cap::IMAICL, 1),
    (cap::ATOMIC, 1),
    (cap::QKV, 1),
    (cap::PKV, 1),
    (cap::XRC, 1),
    (cap::UD, 1),
    (cap::UC, 1),
    (cap::RC, 1),
    (cap::UAR_4K, 1),
    (cap::UAR_SZ, 5),
    (cap::UMEM_UID_0, 1),
    (cap::LOG_MAX_UMEM, LOG_MAX_UMEM),
    (cap::LOG_PG_SZ, 12),
    (cap::BF, 1),
    (cap::LOG_BF_REG_SIZE, 9),
    (cap::LOG_UAR_PAGE_SZ, 0),
    (cap::NUM_OF_UARS_PER_PAGE, 1),
    (cap::DEVICE_FREQUENCY_KHZ, FREQUENCY_KHZ),
    (cap::DEVICE_FREQUENCY_MHZ, FREQUENCY_KHZ / 1000),
];

/// Fields of the general structure that SET_HCA_CAP may make smaller.
const SETTABLE: &[Field] = &[
    cap::CMDIF_CHECKSUM,
    cap::LOG_MAX_QP,
    cap::LOG_UAR_PAGE_SZ,
    cap::UAR_4K,
    cap::PKEY_TABLE_SIZE,
    cap::NUM_OF_UARS_PER_PAGE,
    cap::LOG_MAX_CURRENT_UC_LIST,
];

impl Caps {
    /// What this card can do.
    pub fn new(config: &HcaConfig) -> Self {
        let mut general = vec![0; LEN];
        for &(field, value) in GENERAL {
            field.set(&mut general, value);
        }
        cap::VHCA_ID.set(&mut general, 0);
        for field in [cap::UMR_MODIFY_ENTITY_SIZE_DISABLED, cap::UMR_MODIFY_ATOMIC_DISABLED] {
            field.set(&mut general, u32::from(!config.umr));
        }
        let mut max = BTreeMap::new();
        match config.link {
            LinkKind::InfiniBand => {
                cap::PORT_TYPE.set(&mut general, cap::port_type::INFINIBAND);
                cap::IB_VIRT.set(&mut general, 1);
                cap::GID_TABLE_SIZE.set(&mut general, cap::gid_table_size::ENTRIES_8);
                cap::PKEY_TABLE_SIZE.set(&mut general, cap::pkey_table_size::ENTRIES_128);
            }
            LinkKind::Ethernet => {
                cap::PORT_TYPE.set(&mut general, cap::port_type::ETHERNET);
                cap::ROCE.set(&mut general, 1);
                eth_cap::general(&mut general);
                let mut caps = vec![0; LEN];
                eth_cap::offloads(&mut caps, config.inline_mode);
                max.insert(kind::ETHERNET, caps);
                let mut caps = vec![0; LEN];
                eth_cap::flow_tables(&mut caps);
                max.insert(kind::FLOW_TABLE, caps);
                let mut caps = vec![0; LEN];
                roce::ROCE_VERSION.set(&mut caps, 0b101);
                // IPv4 and IPv6: bit 1 and bit 2, as Linux's device.h counts them.
                roce::L3_TYPE.set(&mut caps, 0b110);
                roce::R_ROCE_DEST_UDP_PORT.set(&mut caps, u32::from(port::ROCE_UDP_PORT));
                roce::R_ROCE_MIN_SRC_UDP_PORT.set(&mut caps, 0xc000);
                roce::R_ROCE_MAX_SRC_UDP_PORT.set(&mut caps, 0xffff);
                roce::ROCE_ADDRESS_TABLE_SIZE.set(&mut caps, port::ROCE_ADDRESSES as u32);
                max.insert(kind::ROCE, caps);
            }
        }
        let mut caps = vec![0; LEN];
        // The 8-byte operations of the IB specification; results in big-endian order unless the driver asks for the
        // host's.
        atomic::SUPPORTED_ATOMIC_REQ_8B_ENDIANNESS_MODE_1.set(&mut caps, 1);
        atomic::ATOMIC_REQ_8B_ENDIANNESS_MODE.set(&mut caps, 1);
        atomic::ATOMIC_OPERATIONS.set(&mut caps, operations::CMP_SWAP | operations::FETCH_ADD);
        atomic::ATOMIC_SIZE_QP.set(&mut caps, 8);
        max.insert(kind::ATOMIC, caps);
        max.insert(kind::GENERAL, general);
        let mut current = max.clone();
        if let Some(general) = current.get_mut(&kind::GENERAL) {
            // Signatures are checked only where a driver asked for it.
            cap::CMDIF_CHECKSUM.set(general, cap::cmdif_checksum::DISABLED);
        }
        if let Some(caps) = current.get_mut(&kind::ATOMIC) {
            atomic::ATOMIC_REQ_8B_ENDIANNESS_MODE.set(caps, 0);
        }
        Self { max, current }
    }

    /// A field of the general structure in force.
    pub fn general(&self, field: Field) -> u32 {
        self.current.get(&kind::GENERAL).map_or(0, |caps| field.get(caps))
    }

    /// Results of atomics land in the host's byte order (x86: little-endian); big-endian otherwise.
    pub fn atomics_in_host_order(&self) -> bool {
        self.current.get(&kind::ATOMIC).is_some_and(|caps| atomic::ATOMIC_REQ_8B_ENDIANNESS_MODE.get(caps) == 1)
    }

    /// Chooses the order in which results of atomics land, as SET_HCA_CAP does.
    pub fn set_atomics_in_host_order(&mut self, host: bool) {
        if let Some(caps) = self.current.get_mut(&kind::ATOMIC) {
            atomic::ATOMIC_REQ_8B_ENDIANNESS_MODE.set(caps, u32::from(host));
        }
    }

    /// Command signatures must be right even where they are zero.
    pub fn checks_signatures(&self) -> bool {
        self.general(cap::CMDIF_CHECKSUM) == cap::cmdif_checksum::ENABLED
    }
}

fn own_function(input: &[u8]) -> Outcome {
    let own = !query::OTHER_FUNCTION.is_set(input) && query::FUNCTION_ID.get(input) == 0;
    require(own, Status::BadParameter, 0x0b00, "there is no other function")
}

/// QUERY_HCA_CAP.
pub fn query_hca_cap(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    own_function(call.input)?;
    let (which, current) = (u32::from(call.op_mod) & !1, call.op_mod & 1 != 0);
    let caps = if current { hca.caps.current.get(&which) } else { hca.caps.max.get(&which) };
    let Some(caps) = caps else {
        let why = format_args!("capability structure {:#x} is not advertised", which >> 1).to_string();
        return Err(Refused::quiet(Status::BadParameter, 0x0b01, why));
    };
    let room = &mut call.out[query::out::CAPABILITY..];
    let len = room.len().min(LEN);
    room[..len].copy_from_slice(&caps[..len]);
    Ok(())
}

/// SET_HCA_CAP: before INIT_HCA, only what can be chosen, never more than there is.
pub fn set_hca_cap(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    own_function(call.input)?;
    let why = "capabilities are set before INIT_HCA";
    require(hca.phase == Phase::Enabled, Status::BadSystemState, 0x0b02, why)?;
    let which = u32::from(call.op_mod);
    let wanted = &call.input[set::CAPABILITY..set::CAPABILITY + LEN];
    let (Some(max), Some(current)) = (hca.caps.max.get(&which), hca.caps.current.get_mut(&which)) else {
        let why = format_args!("capability structure {:#x} is not advertised", which >> 1).to_string();
        return Err(Refused::new(Status::BadParameter, 0x0b03, why));
    };
    if which != kind::GENERAL {
        let fewer = wanted.iter().zip(max).all(|(w, m)| w & !m == 0);
        require(fewer, Status::BadParameter, 0x0b04, "more than the device can do")?;
        // Only the order of atomics' results can be chosen.
        if which == kind::ATOMIC {
            let field = atomic::ATOMIC_REQ_8B_ENDIANNESS_MODE;
            field.set(current, field.get(wanted));
        }
        return Ok(());
    }
    let mut result = current.clone();
    for field in SETTABLE {
        let (value, limit) = (field.get(wanted), field.get(max));
        let code = *field == cap::PKEY_TABLE_SIZE;
        let why = format_args!("{field:?} is {value:#x}, at most {limit:#x}").to_string();
        require(code || value <= limit.max(field.get(&result)), Status::BadParameter, 0x0b05, why)?;
        field.set(&mut result, value);
    }
    // Everything else has to be as it was read.
    let changed = wanted.iter().zip(&result).position(|(w, r)| w != r);
    if let Some(at) = changed {
        let (is, has) = (wanted[at], result[at]);
        let why = format_args!("byte {at:#x} is {is:#04x} instead of {has:#04x} and cannot be chosen").to_string();
        return Err(Refused::new(Status::BadParameter, 0x0b06, why));
    }
    *current = result;
    Ok(())
}
