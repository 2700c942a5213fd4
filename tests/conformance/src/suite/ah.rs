//! Addresses.

use super::{
    Case, Outcome, Stop,
    lab::{Lab, Setup},
    may, must,
};
use crate::connect::{self, PORT};
use alloc::{vec, vec::Vec};
use bareverbs::{
    AhAttr, Argument, Device, Error, Gid, GidEntry, GidType, GlobalRoute, LinkLayer, Mac, PortNum, QpType, QueuePair,
    SendOp, UdDestination, WcFlags,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        must("addresses_name_a_port", "ibv_create_ah", "a port that is not there is refused", port),
        must(
            "addresses_on_ethernet_need_a_grh",
            "ibv_create_ah",
            "on Ethernet an address without a GRH has an error of its own, and one without a way to the MAC",
            grh,
        ),
        must(
            "addresses_check_their_numbers",
            "ibv_create_ah",
            "service level, flow label and source GID index beyond the range are refused by name",
            numbers,
        ),
        must(
            "address_handles_can_be_kept_and_copied",
            "ibv_create_ah",
            "one handle serves any number of datagrams",
            copied,
        ),
        may(
            "datagrams_with_a_grh",
            "ibv_create_ah",
            "a GRH that was asked for arrives, and its bytes name both ends",
            with_grh,
        ),
        must(
            "set_gid_follows_the_link",
            "traits",
            "on Ethernet GIDs are set, read back and deleted; on InfiniBand it is refused by name",
            set_gid,
        ),
        must(
            "case_72_default_gid",
            "report 72",
            "the GID that is chosen when none is named can be read back and reaches the peer",
            case_72,
        ),
    ]
}

fn port<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let av = connect::path(&lab.devices[0], &lab.devices[1])?;
    let beyond = PortNum(lab.devices[0].attributes().phys_port_cnt + 1);
    for port in [PortNum(0), beyond, PortNum(255)] {
        let result = lab.devices[0].address_handle(&AhAttr { port, ..av }).map(|_| ());
        ensure_eq!(result, Err(Error::NoSuchPort(port)), "port {port}");
    }
    Ok(())
}

fn grh<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let av = connect::path(&lab.devices[0], &lab.devices[1])?;
    let without = lab.devices[0].address_handle(&AhAttr { grh: None, ..av }).map(|_| ());
    if lab.devices[0].query_port(PORT)?.link_layer == LinkLayer::InfiniBand {
        ensure_eq!(without, Ok(()), "an address without a GRH");
        return Ok(());
    }
    ensure_eq!(without, Err(Error::GrhRequired), "an address without a GRH");
    let grh = av.grh.map(|grh| GlobalRoute { dgid: Gid::from_ipv4([10, 9, 8, 7]), ..grh });
    let result = lab.devices[0].address_handle(&AhAttr { grh, dmac: None, ..av }).map(|_| ());
    ensure_eq!(result, Err(Error::MacRequired), "an IPv4 address without a MAC");
    let grh = av.grh.map(|grh| GlobalRoute { dgid: Gid::link_local(av.dmac.unwrap_or_default()), ..grh });
    lab.devices[0].address_handle(&AhAttr { grh, dmac: None, ..av })?;
    Ok(())
}

fn numbers<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let av = connect::path(&lab.devices[0], &lab.devices[1])?;
    let ethernet = lab.devices[0].query_port(PORT)?.link_layer == LinkLayer::Ethernet;
    let levels = if ethernet { 7 } else { 15 };
    for (attr, what) in [
        (AhAttr { sl: levels + 1, ..av }, Argument::ServiceLevel),
        (AhAttr { src_path_bits: 128, ..av }, Argument::SrcPathBits),
        (AhAttr { static_rate: 200, ..av }, Argument::StaticRate),
    ] {
        let result = lab.devices[0].address_handle(&attr).map(|_| ());
        ensure!(matches!(result, Err(Error::OutOfRange { what: w, .. }) if w == what), "{what:?}: {result:?}");
    }
    lab.devices[0].address_handle(&AhAttr { sl: levels, src_path_bits: 127, static_rate: 2, ..av })?;
    let grh = av.grh.unwrap_or_default();
    let with = |grh| lab.devices[0].address_handle(&AhAttr { grh: Some(grh), ..av }).map(|_| ());
    let error = Error::OutOfRange { what: Argument::FlowLabel, wanted: 1 << 20, max: 0xf_ffff };
    ensure_eq!(with(GlobalRoute { flow_label: 1 << 20, ..grh }), Err(error), "a flow label of 21 bits");
    let len = lab.devices[0].query_port(PORT)?.gid_tbl_len;
    if let Ok(sgid_index) = u8::try_from(len) {
        let error = Error::NoSuchIndex { table: Argument::Gid, index: len.into() };
        ensure_eq!(with(GlobalRoute { sgid_index, ..grh }), Err(error), "source GID {len}");
    }
    Ok(())
}

fn copied<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Ud))?;
    let to = connect::destination(&lab.devices[0], &lab.devices[1], &b.qp)?;
    for id in 0..30 {
        b.recv(id, 0..64)?;
        a.to = Some(UdDestination { ..to });
        a.signaled(id, SendOp::Send, 0..8)?;
        ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, id, "the receive");
        lab.one(&mut a.send_cq)?;
    }
    Ok(())
}

fn with_grh<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Ud))?;
    let [(sgid_index, from), (_, to)] = [connect::gid(&lab.devices[0])?, connect::gid(&lab.devices[1])?];
    let grh = GlobalRoute { dgid: to.gid, sgid_index, flow_label: 0, hop_limit: 9, traffic_class: 0 };
    let av = AhAttr { grh: Some(grh), ..connect::path(&lab.devices[0], &lab.devices[1])? };
    let ah = lab.devices[0].address_handle(&av)?;
    a.to = Some(UdDestination { ah, ..connect::destination(&lab.devices[0], &lab.devices[1], &b.qp)? });
    b.recv(1, 0..64)?;
    a.signaled(2, SendOp::Send, 0..8)?;
    let done = lab.one(&mut b.recv_cq)?;
    if !done.flags.contains(WcFlags::GRH) {
        return Err(super::Stop::Unsupported("GRH"));
    }
    let bytes = b.bytes(0..40)?;
    if let (Some(from), Some(to)) = (from.gid.ipv4(), to.gid.ipv4()) {
        ensure_eq!((&bytes[32..36], &bytes[36..40]), (&from[..], &to[..]), "both IPv4 addresses");
    } else {
        ensure_eq!((&bytes[8..24], &bytes[24..40]), (&from.gid.0[..], &to.gid.0[..]), "both GIDs");
        ensure_eq!(bytes[0] >> 4, 6, "the version");
    }
    Ok(())
}

fn set_gid<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let device = &lab.devices[0];
    let port = device.query_port(PORT)?;
    let entry = GidEntry { gid: Gid::from_ipv4([10, 1, 2, 3]), kind: GidType::RoceV2, mac: port.mac, vlan: None };
    let Some(index) = (1..port.gid_tbl_len.min(256)).rev().map(|i| i as u8).next() else { return Ok(()) };
    if port.link_layer == LinkLayer::InfiniBand {
        let result = device.set_gid(PORT, index, &entry);
        ensure!(matches!(result, Err(Error::Unsupported(_))), "{result:?} on InfiniBand");
        return Ok(());
    }
    let before = device.query_gid(PORT, index)?;
    for vlan in [None, Some(1), Some(4094)] {
        let entry = GidEntry { vlan, ..entry };
        device.set_gid(PORT, index, &entry)?;
        ensure_eq!(device.query_gid(PORT, index)?, entry, "the entry");
    }
    for vlan in [0, 4095] {
        let error = Error::OutOfRange { what: Argument::Vlan, wanted: vlan.into(), max: 4094 };
        ensure_eq!(device.set_gid(PORT, index, &GidEntry { vlan: Some(vlan), ..entry }), Err(error), "VLAN {vlan}");
    }
    device.set_gid(PORT, index, &GidEntry::default())?;
    ensure_eq!(device.query_gid(PORT, index)?.gid, Gid::ZERO, "the deleted entry");
    if !before.gid.is_zero() {
        device.set_gid(PORT, index, &before)?;
    }
    Ok(())
}

fn case_72<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for i in 0..2 {
        let (index, entry) = connect::gid(&lab.devices[i])?;
        ensure!(!entry.gid.is_zero(), "the GID chosen is an empty entry");
        ensure_eq!(lab.devices[i].query_gid(PORT, index)?, entry, "the entry chosen");
    }
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Ud))?;
    b.recv(1, 0..64)?;
    a.signaled(2, SendOp::Send, 0..8)?;
    ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, 1, "the receive");
    if lab.devices[0].query_port(PORT)?.link_layer == LinkLayer::Ethernet { named_index(lab) } else { Ok(()) }
}

/// An index that is named wins over the one that would be chosen, and reads back.
fn named_index<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let device = lab.devices[0].clone();
    let (chosen, entry) = connect::gid(&device)?;
    let len = device.query_port(PORT)?.gid_tbl_len.min(256);
    let is_free = |index: &u8| device.query_gid(PORT, *index).is_ok_and(|entry| entry.gid.is_zero());
    let free = (0..len).map(|index| index as u8).filter(|index| *index > chosen).find(is_free);
    let Some(named) = free else { return Err(Stop::failed(format_args!("no GID is free behind {chosen}"), line!())) };
    // Of the same kind, so that it is no better, and behind it. An IPv4 header fills the second half of the room for a GRH.
    let (gid, source) = match entry.gid.ipv4() {
        Some(_) => (Gid::from_ipv4([10, 0, 77, 1]), 32..36),
        None => (Gid::link_local(Mac([2, 0, 0, 0, 77, 1])), 8..24),
    };
    device.set_gid(PORT, named, &GidEntry { gid, ..entry })?;
    ensure_eq!(connect::gid(&device)?.0, chosen, "the index chosen");
    let path = connect::path(&lab.devices[0], &lab.devices[1])?;
    let grh = path.grh.map(|grh| GlobalRoute { sgid_index: named, ..grh });
    let path = AhAttr { grh, ..path };
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Ud))?;
    a.to = a.to.map(|to| Ok::<_, Error>(UdDestination { ah: device.address_handle(&path)?, ..to })).transpose()?;
    b.recv(1, 0..64)?;
    a.signaled(2, SendOp::Send, 0..8)?;
    lab.one(&mut b.recv_cq)?;
    ensure_eq!(b.bytes(source.clone())?, gid.0[16 - source.len()..], "the source address");
    let c = connect::Connection::default();
    let mut end = lab.end(0, &Setup::of(QpType::Rc))?;
    connect::to_init(&mut end.qp, c.access)?;
    connect::to_rtr(&mut end.qp, &b.qp, path, &c, 0)?;
    ensure_eq!(end.qp.query()?.av.grh.map(|grh| grh.sgid_index), Some(named), "the index of a connection");
    drop((a, end));
    Ok(device.set_gid(PORT, named, &GidEntry::default())?)
}
