//! The GID table: HCA vport commands on InfiniBand, the RoCE address table on Ethernet.

use crate::{
    cmd::PageList,
    hca::Hca,
    policy::Policy,
    port::{check, vport_port},
};
use bareverbs::{Argument, Error, Gid, GidEntry, GidType, LinkLayer, Mac, PortNum};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{query_hca_vport_gid, query_roce_address, set_roce_address},
    context::roce::{l3_type, roce_addr_layout as layout, version},
};

fn check_index<H: PciFunction, P: Policy>(hca: &Hca<H, P>, port: PortNum, index: u8) -> Result<(), Error> {
    check(&hca.caps, port)?;
    match u16::from(index) < hca.caps.gids {
        true => Ok(()),
        false => Err(Error::NoSuchIndex { table: Argument::Gid, index: index.into() }),
    }
}

/// Reads an entry. An empty one has the zero GID.
pub(crate) fn query<H: PciFunction, P: Policy>(hca: &Hca<H, P>, port: PortNum, index: u8) -> Result<GidEntry, Error> {
    check_index(hca, port, index)?;
    match hca.caps.link {
        LinkLayer::InfiniBand => {
            let mut input = [0; query_hca_vport_gid::IN_LEN];
            query_hca_vport_gid::PORT_NUM.set(&mut input, vport_port(&hca.caps, port));
            query_hca_vport_gid::GID_INDEX.set(&mut input, index.into());
            let mut out = [0; query_hca_vport_gid::OUT_LEN + 16];
            hca.execute(Opcode::QUERY_HCA_VPORT_GID, 0, &mut input, &PageList::None, &mut out)?;
            let gid = out[query_hca_vport_gid::out::GID..].first_chunk().map_or(Gid::ZERO, |gid| Gid(*gid));
            Ok(GidEntry { gid, ..GidEntry::default() })
        }
        LinkLayer::Ethernet => {
            let mut input = [0; query_roce_address::IN_LEN];
            query_roce_address::ROCE_ADDRESS_INDEX.set(&mut input, index.into());
            let mut out = [0; query_roce_address::OUT_LEN];
            hca.execute(Opcode::QUERY_ROCE_ADDRESS, 0, &mut input, &PageList::None, &mut out)?;
            Ok(decode(&out[query_roce_address::out::ROCE_ADDRESS..]))
        }
    }
}

/// Sets an entry on Ethernet; the zero GID deletes it.
pub(crate) fn set<H: PciFunction, P: Policy>(
    hca: &Hca<H, P>,
    port: PortNum,
    index: u8,
    entry: &GidEntry,
) -> Result<(), Error> {
    check_index(hca, port, index)?;
    if hca.caps.link != LinkLayer::Ethernet {
        return Err(Error::Unsupported("setting GIDs on InfiniBand: the subnet manager does"));
    }
    if let Some(vlan) = entry.vlan.filter(|vlan| !(1..=4094).contains(vlan)) {
        return Err(Error::OutOfRange { what: Argument::Vlan, wanted: vlan.into(), max: 4094 });
    }
    if entry.kind == GidType::RoceV2 && !hca.caps.roce_v2 {
        return Err(Error::Unsupported("RoCE v2"));
    }
    let mut input = [0; set_roce_address::IN_LEN];
    set_roce_address::ROCE_ADDRESS_INDEX.set(&mut input, index.into());
    encode(entry, &mut input[set_roce_address::ROCE_ADDRESS..]);
    hca.execute(Opcode::SET_ROCE_ADDRESS, 0, &mut input, &PageList::None, &mut [0; set_roce_address::OUT_LEN])
}

fn encode(entry: &GidEntry, out: &mut [u8]) {
    if entry.gid.is_zero() {
        return;
    }
    layout::SOURCE_L3_ADDRESS.set(out, &entry.gid.0);
    layout::SOURCE_MAC.set(out, &entry.mac.0);
    if let Some(vlan) = entry.vlan {
        layout::VLAN_VALID.set(out, 1);
        layout::VLAN_ID.set(out, vlan.into());
    }
    if entry.kind == GidType::RoceV2 {
        layout::ROCE_VERSION.set(out, version::V2);
        let l3 = if entry.gid.ipv4().is_some() { l3_type::IPV4 } else { l3_type::IPV6 };
        layout::ROCE_L3_TYPE.set(out, l3);
    }
}

fn decode(address: &[u8]) -> GidEntry {
    let v2 = layout::ROCE_VERSION.get(address) == version::V2;
    GidEntry {
        gid: Gid(layout::SOURCE_L3_ADDRESS.array(address)),
        kind: if v2 { GidType::RoceV2 } else { GidType::IbOrRoceV1 },
        mac: Mac(layout::SOURCE_MAC.array(address)),
        vlan: layout::VLAN_VALID.is_set(address).then(|| layout::VLAN_ID.get(address) as u16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // By hand from the PRM's RoCE Address Layout: l3 address, then vlan_valid 28, vlan 27:16 and MAC 47:32 in one dword,
    // MAC 31:0, and l3 type 11:8 with version 7:0 in the last but one.
    #[test]
    fn an_ipv4_entry_has_these_bytes() {
        let entry = GidEntry {
            gid: Gid::from_ipv4([10, 0, 0, 1]),
            kind: GidType::RoceV2,
            mac: Mac([2, 0, 0xc9, 1, 2, 3]),
            vlan: Some(0x123),
        };
        let mut bytes = [0; layout::SIZE];
        encode(&entry, &mut bytes);
        let mut expected = [0; 32];
        expected[10..16].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        expected[16..24].copy_from_slice(&[0x11, 0x23, 2, 0, 0xc9, 1, 2, 3]);
        expected[24..28].copy_from_slice(&[0, 0, 0, 2]);
        assert_eq!(bytes, expected);
        assert_eq!(decode(&bytes), entry);
    }
}
