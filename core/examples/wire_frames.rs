//! Writes a frame of every kind that the wire formats know: each opcode on each way of carrying it, with payloads around
//! a word. Standard output gets a line of hexadecimal digits a frame, for other programs to judge.
//!
//! usage: `wire_frames roce|ib`

use bareverbs::wire::frame::{Repr, Route};
use bareverbs::wire::opcode::{ExtHeaders, Opcode, Transport};
use bareverbs::wire::{
    Error, aeth, atomic, bth, deth, ethernet, ext::Ext, grh, ieth, imm, ipv4, ipv6, lrh, reth, xrceth,
};
use std::process::ExitCode;

const GIDS: [[u8; 16]; 2] = [
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1],
    [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 2],
];

fn main() -> ExitCode {
    let routes = match std::env::args().nth(1).as_deref() {
        Some("roce") => roce(),
        Some("ib") => ib(),
        _ => {
            eprintln!("usage: wire_frames roce|ib");
            return ExitCode::FAILURE;
        }
    };
    for opcode in (0..=255).map(Opcode).filter(|opcode| opcode.is_known() && opcode.transport() != Transport::Rd) {
        for route in &routes {
            if let Err(error) = frames(opcode, *route) {
                eprintln!("{opcode:?} on {route:?}: {error:?}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// RoCEv2 over IPv4, the same with a VLAN tag, and over IPv6.
fn roce() -> Vec<Route> {
    let eth = ethernet::Repr { dst: [2, 0, 0, 0, 0, 2], src: [2, 0, 0, 0, 0, 1], ..Default::default() };
    let tagged = ethernet::Repr { vlan: Some(3 << 13 | 100), ..eth };
    let ip = ipv4::Repr {
        tos: 0x6a,
        ident: 0x1234,
        ttl: 64,
        dont_frag: true,
        src: [192, 0, 2, 1],
        dst: [192, 0, 2, 2],
        ..Default::default()
    };
    let ip6 = ipv6::Repr {
        traffic_class: 0x6a,
        flow_label: 0x12345,
        hop_limit: 64,
        src: GIDS[0],
        dst: GIDS[1],
        ..Default::default()
    };
    vec![
        Route::RoceV2Ipv4 { eth, ip, src_port: 0xc001 },
        Route::RoceV2Ipv4 { eth: tagged, ip, src_port: 0xffff },
        Route::RoceV2Ipv6 { eth, ip: ip6, src_port: 0xc001 },
    ]
}

/// InfiniBand within a subnet, and with a GRH.
fn ib() -> Vec<Route> {
    let lrh = lrh::Repr { vl: 3, sl: 5, dlid: 2, slid: 1, ..Default::default() };
    let grh = grh::Repr {
        traffic_class: 0x6a,
        flow_label: 0x12345,
        hop_limit: 64,
        src: GIDS[0],
        dst: GIDS[1],
        ..Default::default()
    };
    vec![Route::Ib { lrh, grh: None }, Route::Ib { lrh, grh: Some(grh) }]
}

fn frames(opcode: Opcode, route: Route) -> Result<(), Error> {
    let lengths: &[usize] =
        if opcode.operation().is_some_and(|op| op.has_payload()) { &[1, 4, 255, 1024] } else { &[0] };
    for &len in lengths {
        let bth = bth::Repr {
            opcode,
            solicited: true,
            pkey: 0xffff,
            dest_qp: 0x1234,
            ack_req: true,
            psn: 0x00ab_cdef,
            ..Default::default()
        };
        let repr = Repr { route, bth, ext: ext(opcode) };
        let mut buffer = vec![0; repr.frame_len(len)];
        let mut emitter = repr.emit(&mut buffer, len)?;
        // A payload without a meaning in any protocol that may follow a BTH.
        emitter.payload().iter_mut().enumerate().for_each(|(i, byte)| *byte = 0xa5 ^ i as u8);
        let len = emitter.finish();
        println!("{}", buffer[..len].iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    }
    Ok(())
}

/// The extension headers that an opcode asks for.
fn ext(opcode: Opcode) -> Ext {
    let headers = opcode.headers().unwrap_or(ExtHeaders::empty());
    let (vaddr, rkey) = (0x7f00_1234_5000, 0x00c0_ffee);
    let atomic = atomic::Repr { vaddr, rkey, swap_add: 0x0102_0304_0506_0708, compare: 0x1112_1314_1516_1718 };
    Ext {
        rdeth: None,
        xrceth: headers.contains(ExtHeaders::XRCETH).then_some(xrceth::Repr { srqn: 0x4321 }),
        deth: headers.contains(ExtHeaders::DETH).then_some(deth::Repr { qkey: 0x1111_1111, src_qp: 0x42 }),
        reth: headers.contains(ExtHeaders::RETH).then_some(reth::Repr { vaddr, rkey, dma_len: 1024 }),
        atomic: headers.contains(ExtHeaders::ATOMIC_ETH).then_some(atomic),
        aeth: headers
            .contains(ExtHeaders::AETH)
            .then_some(aeth::Repr { syndrome: aeth::Syndrome::from_byte(0x1f), msn: 7 }),
        atomic_ack: headers.contains(ExtHeaders::ATOMIC_ACK_ETH).then_some(atomic::AckRepr { original: 0x2122_2324 }),
        imm: headers.contains(ExtHeaders::IMMDT).then_some(imm::Repr { data: 0xdead_beef }),
        ieth: headers.contains(ExtHeaders::IETH).then_some(ieth::Repr { rkey }),
    }
}
