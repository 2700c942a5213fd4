//! Ports, tables and addresses.

use super::{Judge, out_of_range};
use crate::bench::pair::*;
use bareverbs::*;

pub fn device_verbs(judge: &mut Judge, pair: &Pair) {
    let device = &pair.a.device;
    let port = device.query_port(PORT).unwrap();
    for bad in [PortNum(0), PortNum(2), PortNum(255)] {
        let error = Error::NoSuchPort(bad);
        judge.refuses("query_port", || device.query_port(bad), error);
        judge.refuses("query_gid", || device.query_gid(bad, 0), error);
        judge.refuses("set_gid", || device.set_gid(bad, 0, &GidEntry::default()), error);
        judge.refuses("query_pkey", || device.query_pkey(bad, 0), error);
        judge.refuses("address_handle", || device.address_handle(&AhAttr { port: bad, ..pair.b.address() }), error);
    }
    // A table of 256 has no index too many.
    if let Ok(gid) = u8::try_from(port.gid_tbl_len) {
        let error = Error::NoSuchIndex { table: Argument::Gid, index: gid.into() };
        judge.refuses("query_gid", || device.query_gid(PORT, gid), error);
        judge.refuses("set_gid", || device.set_gid(PORT, gid, &GidEntry::default()), error);
    }
    let pkey = port.pkey_tbl_len;
    let error = Error::NoSuchIndex { table: Argument::Pkey, index: pkey.into() };
    judge.refuses("query_pkey", || device.query_pkey(PORT, pkey), error);
    match pair.link {
        Link::InfiniBand => {
            let error = Error::Unsupported("setting GIDs on InfiniBand: the subnet manager does");
            judge.refuses("set_gid", || device.set_gid(PORT, 0, &GidEntry::default()), error);
        }
        Link::Roce => {
            for vlan in [0, 4095, 65535] {
                let entry = GidEntry { vlan: Some(vlan), ..device.query_gid(PORT, 0).unwrap() };
                let error = out_of_range(Argument::Vlan, vlan, 4094u32);
                judge.refuses("set_gid", || device.set_gid(PORT, 1, &entry), error);
            }
        }
    }
}

/// Addresses with numbers that the device has no place or no code for.
pub fn bent(pair: &Pair) -> Vec<(AhAttr, Error)> {
    let right = pair.b.address();
    let levels = if pair.link == Link::Roce { 7u8 } else { 15 };
    let mut all = Vec::new();
    for sl in [levels + 1, u8::MAX] {
        all.push((AhAttr { sl, ..right }, out_of_range(Argument::ServiceLevel, sl, levels)));
    }
    for src_path_bits in [128, 200] {
        let error = out_of_range(Argument::SrcPathBits, src_path_bits, 127u8);
        all.push((AhAttr { src_path_bits, ..right }, error));
    }
    for static_rate in [1, 11, 13, 200, u8::MAX] {
        all.push((AhAttr { static_rate, ..right }, out_of_range(Argument::StaticRate, static_rate, 10u8)));
    }
    all
}

pub fn addresses(judge: &mut Judge, pair: &Pair) {
    let device = &pair.a.device;
    let right = pair.b.address();
    let grh = right.grh.unwrap_or_default();
    let with = |grh| AhAttr { grh: Some(grh), ..right };
    for (attr, error) in bent(pair) {
        judge.refuses("address_handle", || device.address_handle(&attr), error);
    }
    let label = GlobalRoute { flow_label: 1 << 20, ..grh };
    let error = out_of_range(Argument::FlowLabel, 1u32 << 20, 0xf_ffffu32);
    judge.refuses("address_handle", || device.address_handle(&with(label)), error);
    if let Ok(sgid_index) = u8::try_from(device.query_port(PORT).unwrap().gid_tbl_len) {
        let index = GlobalRoute { sgid_index, ..grh };
        let error = Error::NoSuchIndex { table: Argument::Gid, index: sgid_index.into() };
        judge.refuses("address_handle", || device.address_handle(&with(index)), error);
    }
    if pair.link == Link::Roce {
        let without = AhAttr { grh: None, ..right };
        judge.refuses("address_handle", || device.address_handle(&without), Error::GrhRequired);
        let unknown = AhAttr { dmac: None, ..with(GlobalRoute { dgid: Gid::from_ipv4([10, 0, 0, 9]), ..grh }) };
        judge.refuses("address_handle", || device.address_handle(&unknown), Error::MacRequired);
    }
}
