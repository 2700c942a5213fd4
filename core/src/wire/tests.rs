//! Whole frames: what others wrote, damaged in every way, and every shape of our own.

use super::ext::Ext;
use super::frame::{Frame, Link, Repr, Route, seal};
use super::opcode::{ExtHeaders, Opcode};
use super::vectors::*;
use super::{Error, Header, aeth, atomic, bth, deth, ethernet, grh, ieth, imm, ipv4, lrh, reth, xrceth};

/// The frames of others that parse, and the link each is of.
const FRAMES: [(Link, &[u8]); 9] = [
    (Link::InfiniBand, &IBA_LOCAL),
    (Link::InfiniBand, &IB_SEND),
    (Link::InfiniBand, &IB_ACK),
    (Link::InfiniBand, &IB_MULTICAST),
    (Link::InfiniBand, &IB_SMP),
    (Link::Ethernet, &CNP_CONNECTX4),
    (Link::Ethernet, &UC_SEND_SCAPY),
    (Link::Ethernet, &WRITE_IPV6_SCAPY),
    (Link::Ethernet, &UD_IMM_VLAN_SCAPY),
];

fn check(link: Link, bytes: &[u8]) -> Result<Frame<'_>, Error> {
    let frame = Frame::parse(link, bytes)?;
    frame.check_icrc()?;
    frame.check_vcrc()?;
    Ok(frame)
}

/// xorshift64*; the seed is printed, and a failing test shows it.
struct Random(u64);

impl Random {
    fn new() -> Random {
        let seed = std::env::var("BAREVERBS_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_240_817);
        std::println!("BAREVERBS_SEED={seed}");
        Random(seed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        core::array::from_fn(|_| (self.next() >> 56) as u8)
    }
}

#[test]
fn iba_sample_packet() {
    let frame = check(Link::InfiniBand, &IBA_LOCAL).unwrap();
    let Route::Ib { lrh, grh: None } = frame.repr.route else { panic!("{:?}", frame.repr) };
    assert_eq!((lrh.vl, lrh.sl, lrh.dlid, lrh.slid), (7, 1, 0x375c, 0x17d2));
    assert_eq!(frame.repr.bth.opcode, Opcode::RC_WRITE_ONLY);
    assert_eq!(frame.repr.bth.dest_qp, 0x87b1b3);
    let reth = reth::Repr { vaddr: 0x0171_0a1c_015d_4002, rkey: 0x38f2_7a05, dma_len: 14 };
    assert_eq!(frame.repr.ext, Ext { reth: Some(reth), ..Ext::default() });
    assert_eq!(frame.payload, &IBA_LOCAL[36..50]);
    assert_eq!(frame.network_header(), None);
}

#[test]
fn cnp_of_a_connectx4() {
    let frame = check(Link::Ethernet, &CNP_CONNECTX4).unwrap();
    let Route::RoceV2Ipv4 { eth, ip, src_port } = frame.repr.route else { panic!("{:?}", frame.repr) };
    assert_eq!(eth.dst, [0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2]);
    assert_eq!((ip.src, ip.dst, src_port), ([10, 0, 17, 1], [10, 0, 18, 1], 0));
    assert_eq!(frame.repr.bth.opcode, Opcode::CNP);
    assert!(frame.repr.bth.becn && !frame.repr.bth.fecn);
    assert_eq!(frame.repr.bth.dest_qp, 0x118);
    assert_eq!(frame.payload, [0; 16]);
    assert_eq!(frame.network_header(), Some(&CNP_CONNECTX4[14..34]));
}

#[test]
fn frames_of_scapy() {
    let frame = check(Link::Ethernet, &UC_SEND_SCAPY).unwrap();
    assert_eq!(frame.repr.bth.opcode, Opcode::UC_SEND_ONLY);
    assert_eq!((frame.repr.bth.dest_qp, frame.repr.bth.psn), (211, 13_571_856));
    assert!(frame.repr.bth.mig_req);
    assert_eq!(frame.payload.len(), 18);

    let frame = check(Link::Ethernet, &WRITE_IPV6_SCAPY).unwrap();
    let Route::RoceV2Ipv6 { ip, src_port: 0xd123, .. } = frame.repr.route else { panic!("{:?}", frame.repr) };
    assert_eq!((ip.traffic_class, ip.flow_label, ip.hop_limit), (0x69, 0x12345, 63));
    assert!(frame.repr.bth.solicited && frame.repr.bth.ack_req);
    assert_eq!(frame.repr.bth.pkey, 0x8001);
    let reth = reth::Repr { vaddr: 0x7f00_1234_5000, rkey: 0xc0_ffee, dma_len: 5 };
    assert_eq!(frame.repr.ext, Ext { reth: Some(reth), ..Ext::default() });
    assert_eq!(frame.payload, b"hello");
    assert_eq!(frame.network_header(), Some(&WRITE_IPV6_SCAPY[14..54]));

    let frame = check(Link::Ethernet, &UD_IMM_VLAN_SCAPY).unwrap();
    let Route::RoceV2Ipv4 { eth, .. } = frame.repr.route else { panic!("{:?}", frame.repr) };
    assert_eq!(eth.vlan, Some(3 << 13 | 100));
    let deth = deth::Repr { qkey: 0x8001_0000, src_qp: 1 };
    let imm = imm::Repr { data: 0xdead_beef };
    assert_eq!(frame.repr.ext, Ext { deth: Some(deth), imm: Some(imm), ..Ext::default() });
    assert_eq!(frame.payload, []);
}

#[test]
fn emit_gives_the_bytes_of_others() {
    for (link, bytes) in FRAMES {
        let frame = check(link, bytes).unwrap();
        let mut expected = bytes.to_vec();
        if bytes == UC_SEND_SCAPY {
            expected[40..42].fill(0); // We send no UDP checksum.
        }
        let mut buffer = [0xee; 512];
        let mut emitter = frame.repr.emit(&mut buffer, frame.payload.len()).unwrap();
        emitter.payload().copy_from_slice(frame.payload);
        let len = emitter.finish();
        assert_eq!(buffer[..len], expected);
        assert!(buffer[len..].iter().all(|&b| b == 0xee), "wrote past the frame");
    }
}

#[test]
fn every_truncation_is_refused() {
    for (link, bytes) in FRAMES {
        for len in 0..bytes.len() {
            assert!(Frame::parse(link, &bytes[..len]).is_err(), "{len} of {bytes:02x?}");
        }
        let mut long = bytes.to_vec();
        long.extend([0; 4]);
        match link {
            // Ethernet pads short frames.
            Link::Ethernet => assert!(check(link, &long).is_ok()),
            Link::InfiniBand => assert_eq!(check(link, &long).err(), Some(Error::Length(Header::Lrh))),
        }
    }
}

/// Bits that no check of an Ethernet frame covers, as (byte, mask), for the CNP and the IPv6
/// frame: addresses, and what the ICRC leaves out. The IPv4 header has its own checksum.
const UNCOVERED_IPV4: [(core::ops::Range<usize>, u8); 3] = [(0..12, 0xff), (40..42, 0xff), (46..47, 0xff)];
const UNCOVERED_IPV6: [(core::ops::Range<usize>, u8); 6] =
    [(0..12, 0xff), (14..15, 0x0f), (15..18, 0xff), (21..22, 0xff), (60..62, 0xff), (66..67, 0xff)];

#[test]
fn a_flipped_bit_is_found_exactly_where_a_crc_covers_it() {
    for (frame, uncovered) in [(&CNP_CONNECTX4[..], &UNCOVERED_IPV4[..]), (&WRITE_IPV6_SCAPY[..], &UNCOVERED_IPV6[..])]
    {
        for bit in 0..frame.len() * 8 {
            let mut bytes = frame.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let free = uncovered.iter().any(|(at, mask)| at.contains(&(bit / 8)) && mask >> (bit % 8) & 1 != 0);
            assert_eq!(check(Link::Ethernet, &bytes).is_ok(), free, "bit {bit} of {frame:02x?}");
        }
    }
}

#[test]
fn a_flipped_bit_on_infiniband() {
    for (frame, global) in [(&IBA_LOCAL[..], false), (&IB_MULTICAST[..], true)] {
        for bit in 0..frame.len() * 8 {
            let mut bytes = frame.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let Ok(frame) = Frame::parse(Link::InfiniBand, &bytes) else { continue };
            // The VCRC covers everything. The ICRC leaves out the virtual lane and byte 4 of
            // the BTH; with a GRH the whole LRH, traffic class, flow label and hop limit.
            assert!(matches!(frame.check_vcrc(), Err(Error::Vcrc { .. })), "bit {bit}");
            let free = match global {
                false => matches!((bit / 8, bit % 8), (0, 4..) | (12, _)),
                true => matches!((bit / 8, bit % 8), (0..8, _) | (8, ..4) | (9..12 | 15 | 52, _)),
            };
            let in_vcrc = bit / 8 >= bytes.len() - 2;
            assert_eq!(frame.check_icrc().is_ok(), free || in_vcrc, "bit {bit}");
        }
    }
}

#[test]
fn captured_infiniband() {
    let frame = check(Link::InfiniBand, &IB_SEND).unwrap();
    let Route::Ib { lrh, grh: None } = frame.repr.route else { panic!("{:?}", frame.repr) };
    assert_eq!((lrh.slid, lrh.dlid), (4, 1));
    assert_eq!(frame.repr.bth.opcode, Opcode::RC_SEND_ONLY);
    assert!(frame.repr.bth.ack_req);
    assert_eq!((frame.repr.bth.psn, frame.payload.len()), (0xd40a55, 88));

    let frame = check(Link::InfiniBand, &IB_ACK).unwrap();
    let syndrome = aeth::Syndrome::Ack { credit: aeth::CREDIT_INVALID };
    assert_eq!(frame.repr.ext, Ext { aeth: Some(aeth::Repr { syndrome, msn: 1 }), ..Ext::default() });
    assert_eq!((frame.repr.bth.psn, frame.payload.len()), (0xd40a55, 0));

    let frame = check(Link::InfiniBand, &IB_MULTICAST).unwrap();
    let Route::Ib { lrh, grh: Some(grh) } = frame.repr.route else { panic!("{:?}", frame.repr) };
    assert_eq!((lrh.slid, lrh.dlid, lrh.vl), (5, 0xc000, 0));
    assert_eq!((grh.payload_len, grh.hop_limit, grh.dst[0]), (124, 0, 0xff));
    let deth = deth::Repr { qkey: 0xb1b, src_qp: 0x48 };
    assert_eq!(frame.repr.ext, Ext { deth: Some(deth), ..Ext::default() });
    assert_eq!((frame.repr.bth.dest_qp, frame.payload.len()), (0xff_ffff, 100));
    assert_eq!(frame.network_header(), Some(&IB_MULTICAST[8..48]));
}

/// Extension headers with random values, those of `headers`.
fn random_ext(random: &mut Random, headers: ExtHeaders) -> Ext {
    let mut u24 = || (random.next() >> 40) as u32;
    let (srqn, src_qp, msn) = (u24(), u24(), u24());
    let (vaddr, swap_add, compare, original) = (random.next(), random.next(), random.next(), random.next());
    let (rkey, dma_len, data) = (random.next() as u32, random.next() as u32, random.next() as u32);
    let syndrome = aeth::Syndrome::from_byte(random.next() as u8);
    let has = |header| headers.contains(header);
    Ext {
        rdeth: has(ExtHeaders::RDETH).then(|| random.bytes()),
        xrceth: has(ExtHeaders::XRCETH).then_some(xrceth::Repr { srqn }),
        deth: has(ExtHeaders::DETH).then_some(deth::Repr { qkey: data, src_qp }),
        reth: has(ExtHeaders::RETH).then_some(reth::Repr { vaddr, rkey, dma_len }),
        atomic: has(ExtHeaders::ATOMIC_ETH).then_some(atomic::Repr { vaddr, rkey, swap_add, compare }),
        aeth: has(ExtHeaders::AETH).then_some(aeth::Repr { syndrome, msn }),
        atomic_ack: has(ExtHeaders::ATOMIC_ACK_ETH).then_some(atomic::AckRepr { original }),
        imm: has(ExtHeaders::IMMDT).then_some(imm::Repr { data }),
        ieth: has(ExtHeaders::IETH).then_some(ieth::Repr { rkey }),
    }
}

fn random_routes(random: &mut Random) -> [Route; 6] {
    let vlan = Some(random.next() as u16);
    let eth = ethernet::Repr { dst: random.bytes(), src: random.bytes(), vlan: None, ether_type: 0 };
    let ip = ipv4::Repr {
        src: random.bytes(),
        dst: random.bytes(),
        tos: random.next() as u8,
        ttl: random.next() as u8,
        ident: random.next() as u16,
        ..ipv4::Repr::default()
    };
    let grh = grh::Repr {
        src: random.bytes(),
        dst: random.bytes(),
        traffic_class: random.next() as u8,
        flow_label: random.next() as u32 & 0xf_ffff,
        hop_limit: random.next() as u8,
        ..grh::Repr::default()
    };
    let lrh = lrh::Repr {
        vl: random.next() as u8 & 15,
        sl: random.next() as u8 & 15,
        dlid: random.next() as u16,
        slid: random.next() as u16,
        ..lrh::Repr::default()
    };
    let src_port = random.next() as u16;
    [
        Route::RoceV2Ipv4 { eth, ip, src_port },
        Route::RoceV2Ipv4 { eth: ethernet::Repr { vlan, ..eth }, ip, src_port },
        Route::RoceV2Ipv6 { eth, ip: grh, src_port },
        Route::RoceV1 { eth, grh },
        Route::Ib { lrh, grh: None },
        Route::Ib { lrh, grh: Some(grh) },
    ]
}

fn link_of(route: &Route) -> Link {
    if matches!(route, Route::Ib { .. }) { Link::InfiniBand } else { Link::Ethernet }
}

/// Every opcode on every route with payloads around the word and the MTU: what was asked for
/// comes back, and the lengths that `emit` filled in are those that `parse` demands.
#[test]
fn every_shape_comes_back() {
    let mut random = Random::new();
    let mut buffer = [0; 4096 + super::frame::MAX_OVERHEAD];
    for opcode in (0..=255).map(Opcode).filter(|o| o.is_known()) {
        for route in random_routes(&mut random) {
            let headers = opcode.headers().unwrap();
            let repr = Repr {
                route,
                bth: bth::Repr {
                    opcode,
                    solicited: random.below(2) == 1,
                    mig_req: random.below(2) == 1,
                    pkey: random.next() as u16,
                    dest_qp: (random.next() >> 40) as u32,
                    ack_req: random.below(2) == 1,
                    psn: (random.next() >> 40) as u32,
                    ..bth::Repr::default()
                },
                ext: random_ext(&mut random, headers),
            };
            for payload_len in [0, 1, 2, 3, 4, 255, 4095, 4096] {
                let mut emitter = repr.emit(&mut buffer, payload_len).unwrap();
                let payload: std::vec::Vec<u8> = (0..payload_len).map(|_| random.next() as u8).collect();
                emitter.payload().copy_from_slice(&payload);
                let len = emitter.finish();
                assert_eq!(len, repr.frame_len(payload_len));

                // Sealed later, it is the same frame; before that no receiver takes it.
                let mut late = [0xee; 4096 + super::frame::MAX_OVERHEAD];
                let mut emitter = repr.emit(&mut late, payload_len).unwrap();
                emitter.payload().copy_from_slice(&payload);
                assert_eq!(emitter.finish_open(), len);
                assert!(check(link_of(&route), &late[..len]).is_err());
                seal(link_of(&route), &mut late[..len]).unwrap();
                assert_eq!(late[..len], buffer[..len]);

                let frame = check(link_of(&route), &buffer[..len]).unwrap();
                assert_eq!(frame.payload, payload);
                assert_eq!(frame.repr.ext, repr.ext);
                let pad_count = (4 - payload_len % 4) as u8 % 4;
                assert_eq!(frame.repr.bth, bth::Repr { pad_count, ..repr.bth });
                // All lengths and types are filled in alike, so a second emit changes nothing.
                let mut again = [0; 4096 + super::frame::MAX_OVERHEAD];
                let mut emitter = frame.repr.emit(&mut again, payload_len).unwrap();
                emitter.payload().copy_from_slice(&payload);
                emitter.finish();
                assert_eq!(again[..len], buffer[..len]);
            }
            // One byte short.
            let needed = repr.frame_len(6);
            assert_eq!(repr.emit(&mut buffer[..needed - 1], 6).err(), Some(Error::Buffer { needed }));
        }
    }
}

#[test]
fn emit_refuses_by_name() {
    let mut buffer = std::vec![0; 70_000];
    let mut repr = check(Link::InfiniBand, &IBA_LOCAL).unwrap().repr;
    // 2,047 words at most, of which LRH, BTH, RETH and ICRC take ten.
    assert!(repr.emit(&mut buffer, 2037 * 4).is_ok());
    assert_eq!(repr.emit(&mut buffer, 2037 * 4 + 1).err(), Some(Error::Payload { len: 2037 * 4 + 1 }));
    repr.route = check(Link::Ethernet, &CNP_CONNECTX4).unwrap().repr.route;
    // 65,535 bytes at most, of which IPv4, UDP, BTH, RETH, ICRC take 60.
    assert!(repr.emit(&mut buffer, 65_472).is_ok());
    assert_eq!(repr.emit(&mut buffer, 65_476).err(), Some(Error::Payload { len: 65_476 }));
    assert!(matches!(repr.emit(&mut buffer, usize::MAX).err(), Some(Error::Buffer { .. })));

    repr.bth.opcode = Opcode::RC_SEND_ONLY;
    let (expected, given) = (ExtHeaders::empty(), ExtHeaders::RETH);
    assert_eq!(repr.emit(&mut buffer, 0).err(), Some(Error::ExtensionHeaders { expected, given }));
    repr.bth.opcode = Opcode(0xff);
    assert_eq!(repr.emit(&mut buffer, 0).err(), Some(Error::Opcode(Opcode(0xff))));
}

/// Random bytes at all lengths, and frames of others with random bytes in them: no panic,
/// and nothing but an error or a frame inside of the bytes.
#[test]
fn arbitrary_bytes() {
    let mut random = Random::new();
    let mut parsed = 0;
    for round in 0..20_000 {
        let mut bytes = random.bytes::<300>();
        let mut len = round % 301;
        if round % 4 != 0 {
            let (_, frame) = FRAMES[random.below(FRAMES.len())];
            bytes[..frame.len()].copy_from_slice(frame);
            len = frame.len();
            for _ in 0..=random.below(3) {
                bytes[random.below(len)] = random.next() as u8;
            }
        }
        for link in [Link::Ethernet, Link::InfiniBand] {
            if let Ok(frame) = Frame::parse(link, &bytes[..len]) {
                parsed += 1;
                let _ = (frame.check_icrc(), frame.check_vcrc());
                assert!(bytes[..len].as_ptr_range().start <= frame.payload.as_ptr());
                assert!(frame.payload.as_ptr_range().end <= bytes[..len].as_ptr_range().end);
                assert_eq!(frame.repr.bth.opcode.headers(), Some(frame.repr.ext.headers()));
            }
        }
    }
    assert!(parsed > 1000, "only {parsed} got past the lengths: the test has no depth");
}
