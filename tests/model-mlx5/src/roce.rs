//! The RoCE address table: SET_ROCE_ADDRESS, QUERY_ROCE_ADDRESS.

use bareverbs_harness::model::{Bus, LinkKind};
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{query_roce_address as query, set_roce_address as set},
    context::roce::{l3_type, roce_addr_layout as layout, version},
};

use crate::{
    command::Call,
    hca::Hca,
    port::RoceAddress,
    refusal::{Outcome, Refused, require},
};

fn index(hca: &Hca, input: &[u8]) -> Outcome<usize> {
    if hca.config.link != LinkKind::Ethernet {
        return Err(Refused::quiet(Status::BadOperation, 0x0f00, "not an Ethernet port"));
    }
    let port = set::VHCA_PORT_NUM.get(input);
    require(port <= 1, Status::BadParameter, 0x0f01, format_args!("port {port} of 1"))?;
    let (index, len) = (set::ROCE_ADDRESS_INDEX.get(input) as usize, hca.port.roce.len());
    require(index < len, Status::BadIndex, 0x0f02, format_args!("index {index} of {len}"))?;
    Ok(index)
}

/// SET_ROCE_ADDRESS; all zero empties the entry.
pub fn set_address(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let index = index(hca, call.input)?;
    let given = &call.input[set::ROCE_ADDRESS..set::ROCE_ADDRESS + layout::SIZE];
    let gid: [u8; 16] = layout::SOURCE_L3_ADDRESS.array(given);
    let (kind, l3) = (layout::ROCE_VERSION.get(given), layout::ROCE_L3_TYPE.get(given));
    let known = kind == version::V1 || kind == version::V2;
    require(known, Status::BadParameter, 0x0f03, format_args!("RoCE version {kind} is not advertised"))?;
    let known = l3 == l3_type::IPV4 || l3 == l3_type::IPV6;
    require(known, Status::BadParameter, 0x0f04, format_args!("address type {l3}"))?;
    let mac: [u8; 6] = layout::SOURCE_MAC.array(given);
    let empty = gid == [0; 16];
    let unicast = empty || mac[0] & 1 == 0 && mac != [0; 6];
    require(unicast, Status::BadParameter, 0x0f05, format_args!("source MAC {mac:02x?}"))?;
    let vlan = layout::VLAN_VALID.is_set(given).then(|| layout::VLAN_ID.get(given) as u16);
    hca.port.roce[index] = RoceAddress { gid, version: kind as u8, l3_type: l3 as u8, mac, vlan };
    Ok(())
}

/// QUERY_ROCE_ADDRESS.
pub fn query_address(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let index = index(hca, call.input)?;
    let (entry, base) = (hca.port.roce[index], query::out::ROCE_ADDRESS);
    layout::SOURCE_L3_ADDRESS.at(base).set(call.out, &entry.gid);
    layout::SOURCE_MAC.at(base).set(call.out, &entry.mac);
    layout::ROCE_VERSION.at(base).set(call.out, entry.version.into());
    layout::ROCE_L3_TYPE.at(base).set(call.out, entry.l3_type.into());
    if let Some(vlan) = entry.vlan {
        layout::VLAN_VALID.at(base).set(call.out, 1);
        layout::VLAN_ID.at(base).set(call.out, vlan.into());
    }
    Ok(())
}
