//! The agents: SMPs by command and by the wire, performance counters.

mod common;

use bareverbs::wire::{
    bth, deth,
    ext::Ext,
    frame::{Frame, Link, Repr, Route},
    lrh,
    opcode::Opcode,
};
use bareverbs_harness::model::DeviceModel;
use bareverbs_model_mlx5::{HcaConfig, port::PortState};
use common::{Rig, bytes};

const GUID: [u8; 8] = [0x02, 0x00, 0xc9, 0xff, 0xfe, 0x00, 0x00, 0x00];

/// A packet of 256 bytes: class, method, attribute, modifier, data.
fn mad(class: u8, method: u8, attribute: u8, modifier: u8, data: &[u8]) -> Vec<u8> {
    let mut mad = vec![0; 256];
    mad[..4].copy_from_slice(&[1, class, 1, method]);
    mad[8..16].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    mad[17] = attribute;
    mad[23] = modifier;
    mad[64..64 + data.len()].copy_from_slice(data);
    mad
}

/// Sends a packet by MAD_IFC; status and data of the answer.
fn ifc(rig: &mut Rig, mad: &[u8]) -> (u16, Vec<u8>) {
    let mut input = bytes(&[0x050d_0000, 3, 1, 0]);
    input.extend(mad);
    let answer = rig.good(&input, 0x110);
    let mad = &answer.out[0x10..];
    assert_eq!((mad[3], &mad[8..16]), (0x81, &[1u8, 2, 3, 4, 5, 6, 7, 8][..]), "GetResp with the request's id");
    (u16::from_be_bytes([mad[4], mad[5]]), mad[64..128].to_vec())
}

fn unmanaged() -> Rig {
    let mut rig = Rig::running(HcaConfig { lid: None, ..HcaConfig::infiniband(0) });
    rig.bus.link = true;
    rig.settle();
    assert_eq!(rig.hca.port.state, PortState::Init);
    rig
}

#[test]
fn node_info() {
    let mut rig = unmanaged();
    let (status, data) = ifc(&mut rig, &mad(0x01, 1, 0x11, 0, &[]));
    assert_eq!((status, &data[..4]), (0, &[1, 1, 1, 1][..]), "versions, channel adapter, one port");
    assert_eq!((&data[4..12], &data[12..20], &data[20..28]), (&GUID[..], &GUID[..], &GUID[..]));
    assert_eq!(&data[28..32], [0, 128, 0x10, 0x17], "P_Keys, device id");
    // A directed route comes back with the direction bit; an unknown attribute is told.
    assert_eq!(ifc(&mut rig, &mad(0x81, 1, 0x11, 0, &[])).0, 0x8000);
    assert_eq!(ifc(&mut rig, &mad(0x01, 1, 0x30, 0, &[])).0, 0x000c);
}

#[test]
fn a_subnet_manager_brings_the_port_up() {
    let mut rig = unmanaged();
    let (_, mut info) = ifc(&mut rig, &mad(0x81, 1, 0x15, 1, &[]));
    assert_eq!(info[32] & 0xf, 2, "INIT");
    info[16..20].copy_from_slice(&[0x00, 0x07, 0x00, 0x01]);
    info[32] = info[32] & 0xf0 | 4;
    assert_eq!(ifc(&mut rig, &mad(0x81, 2, 0x15, 1, &info)).0, 0x801c, "not from INIT to ACTIVE at once");
    info[32] = info[32] & 0xf0 | 3;
    assert_eq!(ifc(&mut rig, &mad(0x81, 2, 0x15, 1, &info)).0, 0x8000);
    info[32] = info[32] & 0xf0 | 4;
    assert_eq!(ifc(&mut rig, &mad(0x81, 2, 0x15, 1, &info)).0, 0x8000);
    // What the vport context says: state in the low byte of dword 0x20, LID and SM LID at 0x60.
    let context = rig.ok(&[0x0762_0000, 0, 0, 0], 0x210);
    assert_eq!(context.dword(0x10 + 0x20) & 0xff, 0x44);
    assert_eq!((context.dword(0x10 + 0x60) >> 16, context.dword(0x10 + 0x64) >> 16), (7, 1));
    assert_eq!((rig.hca.port.state, rig.hca.port.lid), (PortState::Active, 7));
}

#[test]
fn partition_keys_are_set() {
    let mut rig = unmanaged();
    let mut block = vec![0xff, 0xff, 0x80, 0x05];
    block.resize(64, 0);
    assert_eq!(ifc(&mut rig, &mad(0x01, 2, 0x16, 0, &block)).0, 0);
    assert_eq!(ifc(&mut rig, &mad(0x01, 1, 0x16, 0, &[])).1, block);
    assert_eq!(ifc(&mut rig, &mad(0x01, 1, 0x16, 4, &[])).0, 0x001c, "four blocks of 32");
    let table = rig.ok(&[0x0765_0000, 0, 0, 1], 0x14);
    assert_eq!(table.dword(0x10), 0x8005);
}

#[test]
fn the_card_answers_by_itself_without_qp0() {
    let mut rig = unmanaged();
    let lrh = lrh::Repr { vl: 15, dlid: 0xffff, slid: 0xffff, ..Default::default() };
    let repr = Repr {
        route: Route::Ib { lrh, grh: None },
        bth: bth::Repr { opcode: Opcode::UD_SEND_ONLY, pkey: 0xffff, mig_req: true, ..Default::default() },
        ext: Ext { deth: Some(deth::Repr { qkey: 0, src_qp: 0 }), ..Default::default() },
    };
    let mut request = mad(0x81, 1, 0x10, 0, &[]);
    // One hop, which is done; both ends permissive.
    request[6..8].copy_from_slice(&[1, 1]);
    request[32..36].copy_from_slice(&[0xff; 4]);
    let mut frame = vec![0; repr.frame_len(256)];
    let mut emitter = repr.emit(&mut frame, 256).unwrap();
    emitter.payload().copy_from_slice(&request);
    emitter.finish();
    rig.hca.receive(&mut rig.bus, 0, frame.into());
    rig.settle();
    let sent = rig.bus.frames.pop().unwrap();
    let reply = Frame::parse(Link::InfiniBand, &sent).unwrap();
    reply.check_icrc().unwrap();
    reply.check_vcrc().unwrap();
    assert_eq!(reply.payload[3..6], [0x81, 0x80, 0x00], "GetResp, on its way back");
    assert_eq!(reply.payload[6..8], [1, 1]);
    assert_eq!(reply.payload[193], 1, "came in by port 1");
    assert!(reply.payload[64..128].starts_with(b"bareverbs"));
}

#[test]
fn traffic_is_counted() {
    let mut rig = unmanaged();
    rig.hca.send(&mut rig.bus, vec![0; 400].into());
    let (status, data) = ifc(&mut rig, &mad(0x04, 1, 0x12, 0, &[0, 1]));
    assert_eq!((status, &data[24..28], &data[32..36]), (0, &[0, 0, 0, 100][..], &[0, 0, 0, 1][..]));
    ifc(&mut rig, &mad(0x04, 2, 0x12, 0, &[0, 1]));
    let (_, data) = ifc(&mut rig, &mad(0x04, 1, 0x12, 0, &[0, 1]));
    assert_eq!(data[24..40], [0; 16]);
}
