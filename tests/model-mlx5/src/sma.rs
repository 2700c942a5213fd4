//! The subnet management agent (IBA 14): answers SMPs that come by MAD_IFC, and by the wire where the driver has no QP0.

use bareverbs::wire::{
    bth, deth,
    ext::Ext,
    frame::{Frame, Repr, Route},
    lrh, mad, node_info,
    opcode::Opcode,
    port_info::{self, state},
    smp,
};
use bareverbs_harness::model::{Bus, LinkKind};
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{mad_ifc, mad_ifc_op_mod as ignore},
};

use crate::{
    command::Call,
    eq::{Event, port_change},
    hca::Hca,
    pma,
    port::PortState,
    refusal::{Outcome, Refused, require},
    vport::CAPABILITY_MASK,
};

/// P_Keys or GUIDs of one block.
const PKEYS_A_BLOCK: usize = 32;
const GUIDS_A_BLOCK: usize = 8;

/// MAD_IFC: has the agents answer a management packet.
pub fn mad_ifc(hca: &mut Hca, bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    if hca.config.link != LinkKind::InfiniBand {
        return Err(Refused::quiet(Status::BadOperation, 0x1100, "not an InfiniBand port"));
    }
    let port = mad_ifc::PORT.get(call.input);
    require(port == 1, Status::BadParameter, 0x1101, format_args!("port {port} of 1"))?;
    let bytes: [u8; mad::MAD_LEN] = mad_ifc::MAD.array(call.input);
    let Ok(header) = mad::Packet::new_checked(&bytes).map(|p| mad::Repr::parse(&p)) else { return Ok(()) };
    let answer = match header.mgmt_class {
        mad::class::SUBN_LID_ROUTED | mad::class::SUBN_DIRECTED_ROUTE => {
            let trusted = u32::from(call.op_mod) & ignore::IGNORE_MKEY != 0;
            smp::Repr::parse(&bytes).ok().and_then(|request| answer(hca, bus, &request, trusted)).map(|answer| {
                let mut out = [0; smp::LEN];
                answer.emit(&mut out);
                out
            })
        }
        _ => pma::answer(hca, &bytes),
    };
    let Some(answer) = answer else {
        return Err(Refused::quiet(Status::BadPacket, 0x1102, "no agent answers this management packet"));
    };
    mad_ifc::out::RESPONSE_MAD_PACKET.set(call.out, &answer);
    Ok(())
}

/// Answers an SMP; `None` where it says nothing: not a request, or a wrong M_Key.
pub fn answer(hca: &mut Hca, bus: &mut dyn Bus, request: &smp::Repr, trusted: bool) -> Option<smp::Repr> {
    use mad::{method, status};
    let header = &request.header;
    let set = match header.method {
        method::GET => false,
        method::SET => true,
        _ => return None,
    };
    let mkey = hca.port.info.mkey;
    let open = !set && hca.port.info.mkey_protect < 2;
    if !trusted && mkey != 0 && mkey != request.mkey && !open {
        return None;
    }
    let mut reply = *request;
    reply.header.method = method::GET_RESP;
    reply.header.status = match (header.base_version, header.class_version) {
        (1, 1) => match attribute(hca, bus, header, set, &mut reply.data) {
            Ok(()) => 0,
            Err(status) => status,
        },
        _ => status::BAD_VERSION,
    };
    if header.mgmt_class == mad::class::SUBN_DIRECTED_ROUTE {
        reply.header.status |= smp::DIRECTION;
    }
    Some(reply)
}

fn attribute(
    hca: &mut Hca,
    bus: &mut dyn Bus,
    header: &mad::Repr,
    set: bool,
    data: &mut [u8; smp::DATA_LEN],
) -> Result<(), u16> {
    use mad::status::{INVALID_VALUE, UNSUPPORTED_METHOD_ATTR};
    let modifier = header.attr_mod;
    match (header.attr_id, set) {
        (smp::attr::NODE_DESCRIPTION, false) => *data = hca.port.description,
        (smp::attr::NODE_INFO, false) => node_info(hca).emit(data),
        (smp::attr::PORT_INFO, _) => {
            if modifier & 0xff > 1 {
                return Err(INVALID_VALUE);
            }
            if set {
                set_port_info(hca, bus, &port_info::Repr::parse(data))?;
            }
            port_info(hca).emit(data);
        }
        (smp::attr::GUID_INFO, _) => {
            if modifier as usize * GUIDS_A_BLOCK >= hca.port.gids.len() {
                return Err(INVALID_VALUE);
            }
            if set {
                set_guids(hca, bus, &smp::guids(data));
            }
            let guid = |gid: &[u8; 16]| gid.last_chunk().map_or(0, |b| u64::from_be_bytes(*b));
            let mut guids = [0; GUIDS_A_BLOCK];
            for (to, gid) in guids.iter_mut().zip(&hca.port.gids) {
                *to = guid(gid);
            }
            *data = smp::emit_guids(&guids);
        }
        (smp::attr::PKEY_TABLE, _) => {
            let first = (modifier & 0xffff) as usize * PKEYS_A_BLOCK;
            let Some(block) = hca.port.pkeys.get_mut(first..first + PKEYS_A_BLOCK) else { return Err(INVALID_VALUE) };
            if set {
                let changed = *block != smp::pkeys(data);
                block.copy_from_slice(&smp::pkeys(data));
                if changed {
                    hca.event(bus, Event::PortChange { port: 1, subtype: port_change::PKEY });
                }
            } else {
                let mut pkeys = [0; PKEYS_A_BLOCK];
                pkeys.copy_from_slice(block);
                *data = smp::emit_pkeys(&pkeys);
            }
        }
        // One virtual lane: every service level maps to it.
        (smp::attr::SL_TO_VL_TABLE, false) => *data = [0; smp::DATA_LEN],
        (smp::attr::SL_TO_VL_TABLE, true) if data[..8] == [0; 8] => {}
        (smp::attr::SL_TO_VL_TABLE, true) => return Err(INVALID_VALUE),
        _ => return Err(UNSUPPORTED_METHOD_ATTR),
    }
    Ok(())
}

fn node_info(hca: &Hca) -> node_info::Repr {
    node_info::Repr {
        base_version: 1,
        class_version: 1,
        node_type: node_info::TYPE_CA,
        num_ports: 1,
        system_image_guid: hca.config.guid,
        node_guid: hca.config.guid,
        port_guid: hca.config.guid,
        partition_cap: hca.port.pkeys.len() as u16,
        device_id: hca.config.device.pci_id(),
        revision: 0,
        local_port: 1,
        vendor_id: 0x2c9,
    }
}

/// What a subnet manager sets and the port only keeps; the rest is filled in by [`port_info`].
pub fn initial_port_info() -> port_info::Repr {
    port_info::Repr {
        gid_prefix: 0xfe80_0000_0000_0000,
        capability_mask: CAPABILITY_MASK,
        link_down_default_state: 2,
        link_width_enabled: 0b11,
        link_speed_enabled: 0b111,
        link_speed_ext_enabled: 0b11,
        neighbor_mtu: 5,
        operational_vls: 1,
        subnet_timeout: 18,
        ..port_info::Repr::default()
    }
}

fn port_info(hca: &Hca) -> port_info::Repr {
    let port = &hca.port;
    let up = port.state > PortState::Down;
    port_info::Repr {
        lid: port.lid,
        sm_lid: port.sm_lid,
        master_sm_sl: port.sm_sl,
        lmc: port.lmc,
        local_port: 1,
        // 1x and 4x; SDR to QDR, FDR and EDR; the link runs at 4x EDR.
        link_width_supported: 0b11,
        link_width_active: if up { 0b10 } else { 0b01 },
        link_speed_supported: 0b111,
        link_speed_active: if up { 0b100 } else { 0b001 },
        link_speed_ext_supported: 0b11,
        link_speed_ext_active: if up { 0b10 } else { 0 },
        port_state: port.state as u8,
        phys_state: if up { 5 } else { 2 },
        vl_cap: 1,
        mtu_cap: 5,
        guid_cap: port.gids.len() as u8,
        resp_time_value: 16,
        local_phy_errors: 8,
        overrun_errors: 8,
        pkey_violations: port.pkey_violations,
        qkey_violations: port.qkey_violations,
        client_reregister: 0,
        ..port.info
    }
}

fn set_port_info(hca: &mut Hca, bus: &mut dyn Bus, new: &port_info::Repr) -> Result<(), u16> {
    use mad::status::INVALID_VALUE;
    let mut tell = |hca: &mut Hca, subtype| hca.event(bus, Event::PortChange { port: 1, subtype });
    let target = match (new.port_state, hca.port.state) {
        (state::NO_CHANGE, now) => now,
        (_, PortState::Down) => return Err(INVALID_VALUE),
        // The link comes up again by itself, and waits for the subnet manager.
        (state::DOWN, _) => PortState::Init,
        (state::ARMED, PortState::Init | PortState::Armed) => PortState::Armed,
        (state::ACTIVE, PortState::Armed | PortState::Active) => PortState::Active,
        _ => return Err(INVALID_VALUE),
    };
    let unicast = |lid: u16| lid != 0 && lid < 0xc000;
    let sizes = (1..=5).contains(&new.neighbor_mtu) && new.operational_vls <= 1;
    if !unicast(new.lid) || !unicast(new.sm_lid) || !sizes {
        return Err(INVALID_VALUE);
    }
    let port = &mut hca.port;
    let moved = (port.lid, port.lmc) != (new.lid, new.lmc);
    let manager = (port.sm_lid, port.sm_sl) != (new.sm_lid, new.master_sm_sl);
    (port.lid, port.lmc, port.sm_lid, port.sm_sl) = (new.lid, new.lmc, new.sm_lid, new.master_sm_sl);
    let old = port.info;
    port.info = port_info::Repr {
        mkey: new.mkey,
        mkey_protect: new.mkey_protect,
        mkey_lease_period: new.mkey_lease_period,
        gid_prefix: new.gid_prefix,
        neighbor_mtu: new.neighbor_mtu,
        operational_vls: new.operational_vls.max(1),
        vl_high_limit: new.vl_high_limit,
        subnet_timeout: new.subnet_timeout,
        ..old
    };
    let prefix = new.gid_prefix != old.gid_prefix;
    for gid in &mut port.gids {
        gid[..8].copy_from_slice(&new.gid_prefix.to_be_bytes());
    }
    let was = std::mem::replace(&mut port.state, target);
    if moved || manager {
        tell(hca, port_change::LID);
    }
    if prefix {
        tell(hca, port_change::GUID);
    }
    if was != target {
        tell(
            hca,
            match target {
                PortState::Active => port_change::ACTIVE,
                PortState::Armed => port_change::INITIALIZED,
                _ => port_change::DOWN,
            },
        );
    }
    if new.client_reregister != 0 {
        tell(hca, port_change::CLIENT_REREGISTER);
    }
    Ok(())
}

/// The first GUID is the card's own.
fn set_guids(hca: &mut Hca, bus: &mut dyn Bus, guids: &[u64; GUIDS_A_BLOCK]) {
    for (gid, guid) in hca.port.gids.iter_mut().zip(guids).skip(1) {
        gid[8..].copy_from_slice(&guid.to_be_bytes());
    }
    hca.event(bus, Event::PortChange { port: 1, subtype: port_change::GUID });
}

/// A packet for QP0 of a port whose driver has none: the card answers by itself.
pub fn receive(hca: &mut Hca, bus: &mut dyn Bus, frame: &Frame<'_>) {
    let Route::Ib { lrh, .. } = &frame.repr.route else { return };
    let Ok(mut request) = smp::Repr::parse(frame.payload) else { return };
    let directed = match request.header.mgmt_class {
        mad::class::SUBN_DIRECTED_ROUTE => true,
        mad::class::SUBN_LID_ROUTED => false,
        _ => return,
    };
    if directed {
        // The last hop: the way back begins with the port by which it came (IBA 14.2.2.2).
        let hops = request.hop_count();
        if request.is_returning() || request.hop_pointer() != hops || usize::from(hops) >= smp::DATA_LEN {
            return;
        }
        request.return_path[usize::from(hops)] = 1;
    }
    let Some(reply) = answer(hca, bus, &request, false) else { return };
    let back = lrh::Repr {
        vl: lrh.vl,
        sl: lrh.sl,
        dlid: lrh.slid,
        slid: if directed || hca.port.lid == 0 { smp::PERMISSIVE_LID } else { lrh.dlid },
        ..Default::default()
    };
    let repr = Repr {
        route: Route::Ib { lrh: back, grh: None },
        bth: bth::Repr {
            opcode: Opcode::UD_SEND_ONLY,
            mig_req: true,
            pkey: frame.repr.bth.pkey,
            dest_qp: frame.repr.ext.deth.map_or(0, |d| d.src_qp),
            psn: frame.repr.bth.psn,
            ..Default::default()
        },
        ext: Ext { deth: Some(deth::Repr { qkey: 0, src_qp: 0 }), ..Default::default() },
    };
    let mut payload = [0; smp::LEN];
    reply.emit(&mut payload);
    let mut bytes = vec![0; repr.frame_len(payload.len())];
    if let Ok(mut emitter) = repr.emit(&mut bytes, payload.len()) {
        emitter.payload().copy_from_slice(&payload);
        emitter.finish();
        hca.send(bus, bytes.into());
    }
}
