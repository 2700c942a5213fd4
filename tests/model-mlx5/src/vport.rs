//! The vport of an InfiniBand port: its context, GIDs and P_Keys; and the state of any vport.

use bareverbs::wire::port_info::cap;
use bareverbs_harness::model::{Bus, LinkKind};
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{
        modify_hca_vport_context as modify, query_hca_vport_context as query, query_hca_vport_gid as query_gid,
        query_hca_vport_pkey as query_pkey, query_vport_state,
    },
    context::hca_vport_context as ctx,
    field::Field,
};

use crate::{
    command::Call,
    hca::Hca,
    port::PortState,
    refusal::{Outcome, Refused, require},
};

/// PortInfo's capability mask as the card begins with it.
pub const CAPABILITY_MASK: u32 =
    cap::IS_SL_MAPPING_SUPPORTED | cap::IS_EXTENDED_SPEEDS_SUPPORTED | cap::IS_CLIENT_REREGISTRATION_SUPPORTED;
/// What the host's software offers, and says so.
const SETTABLE: u32 =
    cap::IS_SM | cap::IS_CM_SUPPORTED | cap::IS_DEVICE_MGMT_SUPPORTED | cap::IS_VENDOR_CLASS_SUPPORTED;

/// All entries of a table.
const ALL: u32 = 0xffff;

fn own(hca: &Hca, input: &[u8]) -> Outcome {
    if hca.config.link != LinkKind::InfiniBand {
        return Err(Refused::quiet(Status::BadOperation, 0x0d00, "not an InfiniBand port"));
    }
    own_vport(input)
}

fn own_vport(input: &[u8]) -> Outcome {
    let other = query::OTHER_VPORT.is_set(input) || query::VPORT_NUMBER.get(input) != 0;
    require(!other, Status::BadParameter, 0x0d01, "there is no other vport than the own")?;
    // With one port it may be left out.
    let port = query::PORT_NUM.get(input);
    require(port <= 1, Status::BadParameter, 0x0d02, format_args!("port {port} of 1"))
}

/// QUERY_HCA_VPORT_CONTEXT.
pub fn query_context(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    own(hca, call.input)?;
    let (port, base) = (&hca.port, query::out::HCA_VPORT_CONTEXT);
    let physical = if port.state == PortState::Down { 2 } else { 5 };
    let fields = [
        (ctx::SM_VIRT_AWARE, 0),
        (ctx::HAS_SMI, 1),
        (ctx::PORT_PHYSICAL_STATE, physical),
        (ctx::VPORT_STATE_POLICY, ctx::policy::FOLLOW),
        (ctx::PORT_STATE, port.state as u32),
        (ctx::VPORT_STATE, port.state as u32),
        (ctx::CAP_MASK1, port.info.capability_mask),
        (ctx::CAP_MASK1_FIELD_SELECT, SETTABLE),
        (ctx::LID, port.lid.into()),
        (ctx::LMC, port.lmc.into()),
        (ctx::SUBNET_TIMEOUT, port.info.subnet_timeout.into()),
        (ctx::SM_LID, port.sm_lid.into()),
        (ctx::SM_SL, port.sm_sl.into()),
        (ctx::QKEY_VIOLATION_COUNTER, port.qkey_violations.into()),
        (ctx::PKEY_VIOLATION_COUNTER, port.pkey_violations.into()),
    ];
    for (field, value) in fields {
        field.at(base).set(call.out, value);
    }
    for guid in [ctx::SYSTEM_IMAGE_GUID, ctx::PORT_GUID, ctx::NODE_GUID] {
        guid.at(base).set(call.out, hca.config.guid);
    }
    Ok(())
}

/// MODIFY_HCA_VPORT_CONTEXT: of the own vport only the capability mask's bits that software answers for; the rest takes a
/// virtual switch.
pub fn modify_context(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    own(hca, call.input)?;
    let given = |field: Field| field.at(modify::HCA_VPORT_CONTEXT).get(call.input);
    let (selected, bits) = (given(ctx::FIELD_SELECT), given(ctx::CAP_MASK1_FIELD_SELECT));
    if selected != 0 || bits & !SETTABLE != 0 {
        let why = format!("fields {selected:#x}, capability bits {bits:#x} of the own vport cannot be changed");
        return Err(Refused::quiet(Status::BadParameter, 0x0d03, why));
    }
    let mask = &mut hca.port.info.capability_mask;
    *mask = *mask & !bits | given(ctx::CAP_MASK1) & bits;
    Ok(())
}

/// The asked rows of a table of `len` rows of `size` bytes.
fn rows(index: u32, len: usize, size: usize, room: usize) -> Outcome<std::ops::Range<usize>> {
    let range = if index == ALL { 0..len } else { index as usize..index as usize + 1 };
    require(range.end <= len, Status::BadIndex, 0x0d04, format_args!("index {index} of {len}"))?;
    let needed = range.len() * size;
    require(needed <= room, Status::BadOutputLength, 0x0d05, format_args!("{needed} bytes, room for {room}"))?;
    Ok(range)
}

/// QUERY_HCA_VPORT_GID: one or all.
pub fn query_gids(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    own(hca, call.input)?;
    let (gids, base) = (&hca.port.gids, query_gid::out::GID);
    let range = rows(query_gid::GID_INDEX.get(call.input), gids.len(), 16, call.out.len() - base)?;
    query_gid::out::GIDS_NUM.set(call.out, range.len() as u32);
    for (out, gid) in call.out[base..].chunks_exact_mut(16).zip(&gids[range]) {
        out.copy_from_slice(gid);
    }
    Ok(())
}

/// QUERY_HCA_VPORT_PKEY: one or all, 4 bytes each. Linux asks an Ethernet port too.
pub fn query_pkeys(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    own_vport(call.input)?;
    let (pkeys, base) = (&hca.port.pkeys, query_pkey::out::PKEY);
    let range = rows(query_pkey::PKEY_INDEX.get(call.input), pkeys.len(), 4, call.out.len() - base)?;
    for (out, pkey) in call.out[base..].chunks_exact_mut(4).zip(&pkeys[range]) {
        out.copy_from_slice(&u32::from(*pkey).to_be_bytes());
    }
    Ok(())
}

/// QUERY_VPORT_STATE.
pub fn query_state(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let other =
        query_vport_state::OTHER_VPORT.is_set(call.input) || query_vport_state::VPORT_NUMBER.get(call.input) != 0;
    require(!other, Status::BadParameter, 0x0d06, "there is no other vport than the own")?;
    // Administrative state 2: follows the port.
    query_vport_state::out::ADMIN_STATE.set(call.out, 2);
    query_vport_state::out::STATE.set(call.out, u32::from(hca.port.state > PortState::Down));
    Ok(())
}
