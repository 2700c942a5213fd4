//! The vport of an Ethernet port: MACs, VLANs, MTU, GUIDs, and whether RoCE is on.

use std::collections::BTreeMap;

use bareverbs_harness::model::{Bus, LinkKind};
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{modify_nic_vport_context as modify, nic_vport_select as select, query_nic_vport_context as query},
    context::nic_vport_context::{self as ctx, list_type},
    field::Field,
};

use crate::{
    command::Call,
    config::HcaConfig,
    eth_cap::LOG_MAX_LIST,
    frame_counters::FrameCounters,
    hca::Hca,
    refusal::{Outcome, Refused, require},
};

/// Most entries of an allowed list.
const MAX_LIST: usize = 1 << LOG_MAX_LIST;

/// The vport's context.
#[derive(Clone, Debug)]
pub struct NicVport {
    /// Fields as the driver set them.
    pub raw: [u8; ctx::SIZE],
    /// Allowed unicast MACs, multicast MACs, VLANs: 8 bytes each.
    pub lists: BTreeMap<u32, Vec<[u8; 8]>>,
    /// Frames that passed.
    pub traffic: FrameCounters,
}

impl NicVport {
    /// A vport as a reset leaves it.
    pub fn new(config: &HcaConfig) -> Self {
        let mut raw = [0; ctx::SIZE];
        ctx::MTU.set(&mut raw, 1500);
        ctx::MIN_WQE_INLINE_MODE.set(&mut raw, config.inline_mode);
        ctx::PERMANENT_MAC.set(&mut raw, &config.mac);
        for guid in [ctx::SYSTEM_IMAGE_GUID, ctx::PORT_GUID, ctx::NODE_GUID] {
            guid.set(&mut raw, config.guid);
        }
        Self { raw, lists: BTreeMap::new(), traffic: FrameCounters::default() }
    }

    /// Whether frames to this address are let in.
    pub fn accepts(&self, mac: [u8; 6]) -> bool {
        let multicast = mac[0] & 1 != 0;
        let promiscuous = if multicast { ctx::PROMISC_MC } else { ctx::PROMISC_UC };
        ctx::PROMISC_ALL.is_set(&self.raw) || promiscuous.is_set(&self.raw) || self.lists_mac(mac)
    }

    /// Whether own frames to this address come back.
    pub fn comes_back(&self, mac: [u8; 6]) -> bool {
        let multicast = mac[0] & 1 != 0;
        let off = if multicast { ctx::DISABLE_MC_LOCAL_LB } else { ctx::DISABLE_UC_LOCAL_LB };
        !off.is_set(&self.raw) && self.lists_mac(mac)
    }

    fn lists_mac(&self, mac: [u8; 6]) -> bool {
        let kind = if mac[0] & 1 != 0 { list_type::MULTICAST } else { list_type::UNICAST };
        let listed = self.lists.get(&kind).is_some_and(|list| list.iter().any(|entry| entry[2..] == mac));
        listed || ctx::PERMANENT_MAC.get(&self.raw) == mac
    }
}

fn own(hca: &Hca, input: &[u8]) -> Outcome {
    if hca.config.link != LinkKind::Ethernet {
        return Err(Refused::quiet(Status::BadOperation, 0x0e00, "not an Ethernet port"));
    }
    let other = query::OTHER_VPORT.is_set(input) || query::VPORT_NUMBER.get(input) != 0;
    require(!other, Status::BadParameter, 0x0e01, "there is no other vport than the own")
}

/// QUERY_NIC_VPORT_CONTEXT.
pub fn query_context(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    own(hca, call.input)?;
    let kind = query::ALLOWED_LIST_TYPE.get(call.input);
    let base = query::out::NIC_VPORT_CONTEXT;
    call.out[base..base + ctx::SIZE].copy_from_slice(&hca.nic_vport.raw);
    ctx::ROCE_EN.at(base).set(call.out, u32::from(hca.port.roce_enabled));
    let none = Vec::new();
    let list = hca.nic_vport.lists.get(&kind).unwrap_or(&none);
    let room = (call.out.len() - base - ctx::ALLOWED_LIST) / 8;
    let shown = list.len().min(room);
    ctx::ALLOWED_LIST_TYPE.at(base).set(call.out, kind);
    ctx::ALLOWED_LIST_SIZE.at(base).set(call.out, shown as u32);
    for (out, entry) in call.out[base + ctx::ALLOWED_LIST..].chunks_exact_mut(8).zip(list) {
        out.copy_from_slice(entry);
    }
    Ok(())
}

/// Fields behind each bit of the field select.
const FIELDS: &[(u32, &[Field])] = &[
    (select::PROMISC, &[ctx::PROMISC_UC, ctx::PROMISC_MC, ctx::PROMISC_ALL]),
    (
        select::CHANGE_EVENT,
        &[
            ctx::ARM_CHANGE_EVENT,
            ctx::EVENT_ON_MTU,
            ctx::EVENT_ON_PROMISC_CHANGE,
            ctx::EVENT_ON_VLAN_CHANGE,
            ctx::EVENT_ON_MC_ADDRESS_CHANGE,
            ctx::EVENT_ON_UC_ADDRESS_CHANGE,
        ],
    ),
    (select::MTU, &[ctx::MTU]),
    (select::DISABLE_MC_LOCAL_LB, &[ctx::DISABLE_MC_LOCAL_LB]),
    (select::DISABLE_UC_LOCAL_LB, &[ctx::DISABLE_UC_LOCAL_LB]),
];

/// MODIFY_NIC_VPORT_CONTEXT.
pub fn modify_context(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    own(hca, call.input)?;
    let selected = modify::FIELD_SELECT.get(call.input);
    let known = FIELDS.iter().fold(
        select::ROCE_EN | select::ADDRESSES_LIST | select::PERMANENT_ADDRESS | select::PORT_GUID | select::NODE_GUID,
        |all, (bit, _)| all | bit,
    );
    require(selected & !known == 0, Status::BadParameter, 0x0e02, format_args!("field select {selected:#x}"))?;
    let given = &call.input[modify::NIC_VPORT_CONTEXT..];
    let mtu = ctx::MTU.get(given);
    let fits = selected & select::MTU == 0 || (68..=9978).contains(&mtu);
    require(fits, Status::BadParameter, 0x0e03, format_args!("MTU {mtu}"))?;
    if selected & select::ADDRESSES_LIST != 0 {
        let (kind, n) = (ctx::ALLOWED_LIST_TYPE.get(given), ctx::ALLOWED_LIST_SIZE.get(given) as usize);
        let list = given.get(ctx::ALLOWED_LIST..ctx::ALLOWED_LIST + 8 * n);
        let Some(list) = list.filter(|_| n <= MAX_LIST && kind <= list_type::VLAN) else {
            return Err(Refused::new(Status::BadParameter, 0x0e04, format_args!("list {kind} of {n} entries")));
        };
        let list = list.chunks_exact(8).filter_map(|e| e.try_into().ok()).collect();
        hca.nic_vport.lists.insert(kind, list);
    }
    for (bit, fields) in FIELDS {
        if selected & bit != 0 {
            for field in *fields {
                field.set(&mut hca.nic_vport.raw, field.get(given));
            }
        }
    }
    if selected & select::PERMANENT_ADDRESS != 0 {
        let mac: [u8; 6] = ctx::PERMANENT_MAC.array(given);
        ctx::PERMANENT_MAC.set(&mut hca.nic_vport.raw, &mac);
    }
    for (bit, guid) in [(select::PORT_GUID, ctx::PORT_GUID), (select::NODE_GUID, ctx::NODE_GUID)] {
        if selected & bit != 0 {
            guid.set(&mut hca.nic_vport.raw, guid.get(given));
        }
    }
    if selected & select::ROCE_EN != 0 {
        hca.port.roce_enabled = ctx::ROCE_EN.is_set(given);
    }
    Ok(())
}
