//! Ethernet frames from a send queue of one HCA to a receive queue of another, all by literal commands.

mod common;

use bareverbs_model_mlx5::HcaConfig;
use common::{
    Rig, bytes, command,
    ethernet::{Host, MACS, TO_TABLE, TO_TIR, entry, group, header, table, tcp},
};

/// Key and first row of "Verifying the RSS Hash Calculation" (Microsoft's documentation of NDIS).
const TOEPLITZ: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];

#[test]
fn a_frame_from_queue_to_queue() {
    let (mut a, mut b) = (Host::new(0), Host::new(1));
    let tir = b.tir(b.rq.number, 0);
    b.let_in(tir);
    a.post(0x0a, 0, 0, &header(0x88b5), b"hello");
    let frames = a.frames();
    let mut expected = [&header(0x88b5)[..], b"hello"].concat();
    expected.resize(60, 0);
    assert_eq!(frames, [expected.clone()], "padded to the shortest frame");
    let sent = a.cqe(a.sq, 0).unwrap();
    assert_eq!(sent[32..36], [0, 0, 0, 0x51], "user index");
    assert_eq!(
        (&sent[56..60], &sent[60..62], sent[63] >> 4),
        (&bytes(&[0x0a00_0000 | a.sq.number])[..], &[0, 0][..], 0)
    );

    b.take(frames);
    assert_eq!(b.received(b.rq, 0).unwrap(), expected);
    let cqe = b.cqe(b.rq, 0).unwrap();
    assert_eq!(cqe[32..36], [0, 0, 0, 0x52], "user index");
    assert_eq!((&cqe[56..62], cqe[63] >> 4), (&[0, 0, 0, 0x77, 0, 0][..], 2), "flow tag, WQE 0, a SEND's opcode");
    // 6865 + 6c6c + 6f00 = 1 43d1 -> 43d2.
    assert_eq!(cqe[20..22], [0x43, 0xd2], "sum over what is behind the Ethernet header");
    assert!(a.rig.bus.violations.is_empty() && b.rig.bus.violations.is_empty());
}

#[test]
fn without_a_rule_or_address_nothing_comes_in() {
    let mut b = Host::new(1);
    let frame = |to: [u8; 6]| [&to[..], &MACS[0], &[0x88, 0xb5], &[0; 46]].concat();
    b.take(vec![frame(MACS[1])]);
    assert_eq!(b.cqe(b.rq, 0), None, "no root table");
    let tir = b.tir(b.rq.number, 0);
    b.let_in(tir);
    b.take(vec![frame([2; 6]), frame([0xff; 6])]);
    assert_eq!(b.cqe(b.rq, 0), None, "neither its address, nor in a list");
    // MODIFY_NIC_VPORT_CONTEXT: broadcast in the multicast list.
    let mut list = command(0x208, &[(0, 0x0755_0000), (0xc, 1 << 2), (0x1f0, 1 << 24 | 1)]);
    list[0x202..0x208].fill(0xff);
    b.rig.good(&list, 16);
    b.take(vec![frame([2; 6]), frame([0xff; 6])]);
    assert_eq!(b.received(b.rq, 0).unwrap()[..6], [0xff; 6]);
    // All unicasts.
    b.rig.good(&command(0x200, &[(0, 0x0755_0000), (0xc, 1 << 4), (0x1f0, 1 << 31)]), 16);
    b.take(vec![frame([2; 6])]);
    assert_eq!(b.received(b.rq, 1).unwrap()[..6], [2; 6]);
    let dropped = b.rig.hca.ethernet.dropped;
    assert_eq!((dropped.steering, dropped.address), (1, 3));
}

#[test]
fn rules_are_obeyed() {
    let mut b = Host::new(1);
    let others = b.receive_queue();
    let (tir, other) = (b.tir(b.rq.number, 0), b.tir(others.number, 0));
    // Level 0 looks at the Ethernet type and sends IPv4 on to level 1, which looks at TCP's destination port; a miss
    // there goes to level 2, which takes everything.
    let (root, ports, rest) = (table(0), table(1), table(2));
    let [root, ports, rest] = [root, ports, rest].map(|t| b.rig.good(&t, 16).dword(8));
    b.rig.good(&command(0x40, &[(0, 0x093c_0000), (0xc, 1), (0x14, ports), (0x18, 1 << 24), (0x1c, rest)]), 16);
    let g = b.rig.good(&group(root, 0, 3, &[(4, 0xffff)]), 16).dword(8);
    b.rig.good(&entry(root, g, 0, &[(4, 0x0800)], &[TO_TABLE | ports]), 16);
    b.rig.good(&entry(root, g, 1, &[(4, 0x0806)], &[]), 16);
    let g = b.rig.good(&group(ports, 0, 0, &[(0x10, 0xff << 24), (0x14, 0xffff)]), 16).dword(8);
    b.rig.good(&entry(ports, g, 0, &[(0x10, 6 << 24), (0x14, 1766)], &[TO_TIR | tir]), 16);
    let g = b.rig.good(&group(rest, 0, 15, &[]), 16).dword(8);
    b.rig.good(&entry(rest, g, 7, &[], &[TO_TIR | other]), 16);
    b.root(root);

    let (head, payload) = tcp(8);
    let matching = [head, payload].concat();
    let mut other_port = matching.clone();
    other_port[37] ^= 1;
    let arp = [&header(0x0806)[..], &[0; 46]].concat();
    b.take(vec![matching.clone(), other_port.clone(), arp.clone()]);
    assert_eq!(b.received(b.rq, 0).unwrap(), matching);
    assert_eq!(b.received(others, 0).unwrap(), other_port);
    assert_eq!((b.cqe(b.rq, 1), b.cqe(others, 1)), (None, None), "ARP is dropped");
    // DELETE_FLOW_TABLE_ENTRY: ARP misses the root table, which drops.
    b.rig.good(&command(0x40, &[(0, 0x0938_0000), (0x14, root), (0x20, 1)]), 16);
    b.take(vec![arp]);
    assert_eq!((b.cqe(b.rq, 1), b.cqe(others, 1)), (None, None));
    // Nothing that a rule leads to goes away; nor does a table lead back.
    b.rig.refused(&bytes(&[0x0902_0000, 0, tir, 0]), 16, 0x9, 0x1608);
    b.rig.refused(&command(0x40, &[(0, 0x0931_0000), (0x14, rest)]), 16, 0x9, 0x170a);
    b.rig.refused(&entry(ports, g, 0, &[], &[TO_TABLE | root]), 16, 0x3, 0x1702);
    b.rig.refused(&entry(ports, 9, 0, &[], &[TO_TIR | tir]), 16, 0x3, 0x1903);
    b.rig.refused(&group(ports, 0, 3, &[]), 16, 0x9, 0x1805);
    b.rig.refused(&bytes(&[0x090a_0000, 0, b.rq.number, 0]), 16, 0x9, 0x1407);
}

#[test]
fn checksums_are_written_and_judged() {
    let (mut a, mut b) = (Host::new(0), Host::new(1));
    let tir = b.tir(b.rq.number, 0);
    b.let_in(tir);
    let (head, payload) = tcp(9);
    a.post(0x0a, 0xc0, 0, &head, &payload);
    let mut frames = a.frames();
    // IPv4: 4500 0031 0001 4000 4006 4209 95bb a18e 6450 sum up to a2dc with the carries.
    assert_eq!(frames[0][24..26], [0x5d, 0x23]);
    let mut broken = frames[0].clone();
    broken[60] ^= 1;
    frames.push(broken);
    b.take(frames);
    let verdicts = [0, 1].map(|n| b.cqe(b.rq, n).unwrap()[28..30].to_vec());
    assert_eq!(verdicts, [[7, 0x48], [3, 0x48]], "layers 2 to 4 in order, or 2 and 3; TCP with ACK and data, IPv4");
}

#[test]
fn a_long_segment_is_cut() {
    let mut a = Host::new(0);
    let (head, payload) = tcp(100);
    a.post(0x0e, 0xc0, 40, &head, &payload);
    let frames = a.frames();
    assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [94, 94, 74]);
    let data: Vec<u8> = frames.iter().flat_map(|f| f[54..].to_vec()).collect();
    assert_eq!(data, payload);
    let numbers = frames.iter().map(|f| (f[19], f[41], f[47])).collect::<Vec<_>>();
    assert_eq!(numbers, [(1, 1, 0x10), (2, 41, 0x10), (3, 81, 0x18)], "identification, sequence number, flags");
    assert_eq!(a.cqe(a.sq, 0).unwrap()[44..48], bytes(&[262]));
}

#[test]
fn vlan_tags_are_put_in_and_taken_off() {
    let (mut a, mut b) = (Host::new(0), Host::new(1));
    let tir = b.tir(b.rq.number, 0);
    b.let_in(tir);
    a.rig.bus.put(a.sq.buffers, &[&header(0x88b5)[..], &[9; 50]].concat());
    let mut wqe = vec![0; 32];
    wqe[28..32].copy_from_slice(&[0x80, 0, 0x60, 5]); // insert, priority 3, VLAN 5
    wqe.extend(bytes(&[64, a.key, (a.sq.buffers >> 32) as u32, a.sq.buffers as u32]));
    a.ring(0x0a, wqe);
    let frames = a.frames();
    assert_eq!(frames[0][12..18], [0x81, 0, 0x60, 5, 0x88, 0xb5]);
    b.take(frames.clone());
    assert_eq!(b.received(b.rq, 0).unwrap(), [&header(0x88b5)[..], &[9; 50]].concat());
    assert_eq!(b.cqe(b.rq, 0).unwrap()[29..32], [1, 0x60, 5]);
    // MODIFY_RQ: the tag stays.
    let ready = 1 << 28 | b.rq.number;
    b.rig.good(&command(0x110, &[(0, 0x0909_0000), (8, ready), (0x14, 2), (0x20, 1 << 28 | 1 << 20)]), 16);
    b.take(frames.clone());
    assert_eq!(b.received(b.rq, 1).unwrap(), frames[0]);
    assert_eq!(b.cqe(b.rq, 1).unwrap()[29..32], [0, 0, 0]);
}

#[test]
fn packets_are_spread_by_their_hash() {
    let mut b = Host::new(1);
    let second = b.receive_queue();
    // CREATE_RQT: 64 entries, all the first queue but entry 0x38: the hash of the packet is 51ccc178.
    let mut rqt = command(0x110, &[(0, 0x0916_0000), (0x34, 64), (0x38, 64)]);
    let rqn = |i| if i == 0x38 { second.number } else { b.rq.number };
    rqt.extend((0..64).flat_map(|i| rqn(i).to_be_bytes()));
    let rqt = b.rig.good(&rqt, 16).dword(8);
    let mut tir =
        command(0x110, &[(0, 0x0900_0000), (0x24, 1 << 28), (0x40, rqt), (0x44, 2 << 28 | b.td), (0x70, 0b1111)]);
    tir[0x48..0x70].copy_from_slice(&TOEPLITZ);
    let tir = b.rig.good(&tir, 16).dword(8);
    b.let_in(tir);
    let (head, payload) = tcp(10);
    b.take(vec![[head, payload].concat(), [&header(0x88b5)[..], &[0; 50]].concat()]);
    let cqe = b.cqe(second, 0).unwrap();
    assert_eq!(cqe[12..17], [0x51, 0xcc, 0xc1, 0x78, 0b0101_0101], "hash; IPv4 and TCP, source and destination");
    assert_eq!(b.cqe(b.rq, 0).unwrap()[12..17], [0; 5], "no hash: the first entry");
    b.rig.refused(&bytes(&[0x0918_0000, 0, rqt, 0]), 16, 0x9, 0x1507);
    b.rig.refused(&bytes(&[0x090a_0000, 0, second.number, 0]), 16, 0x9, 0x1407);
}

#[test]
fn own_frames_come_back_where_the_tir_says_so() {
    for lb in [0, 1] {
        let mut a = Host::new(0);
        let tir = a.tir(a.rq.number, lb);
        a.let_in(tir);
        let own = [&MACS[0][..], &MACS[0], &[0x88, 0xb5]].concat();
        a.post(0x0a, 0, 0, &own, &[3; 50]);
        assert!(a.frames().is_empty(), "it does not leave the card");
        assert_eq!(a.received(a.rq, 0).is_some(), lb == 1);
        // MODIFY_TIR turns it around.
        a.rig.good(&command(0x110, &[(0, 0x0901_0000), (8, tir), (0x14, 1 << 4), (0x44, (lb ^ 1) << 24)]), 16);
        a.post(0x0a, 0, 0, &own, &[3; 50]);
        assert!(a.received(a.rq, 1).is_none());
        assert!(a.received(a.rq, 0).is_some());
    }
}

#[test]
fn a_full_or_small_queue_drops() {
    let mut b = Host::new(1);
    // ALLOC_Q_COUNTER; MODIFY_RQ takes it.
    let counters = b.rig.ok(&[0x0771_0000, 0, 0, 0], 16).dword(8);
    let ready = 1 << 28 | b.rq.number;
    let set = command(0x110, &[(0, 0x0909_0000), (8, ready), (0x14, 8), (0x20, 1 << 20), (0x2c, counters << 24)]);
    b.rig.good(&set, 16);
    let tir = b.tir(b.rq.number, 0);
    b.let_in(tir);
    let frame = [&header(0x88b5)[..], &[0; 50]].concat();
    b.rig.bus.put(b.rq.memory, &32u32.to_be_bytes());
    b.take(vec![frame.clone()]);
    assert_eq!((b.cqe(b.rq, 0), b.rig.hca.ethernet.dropped.wqe_too_small), (None, 1));
    b.rig.bus.put(b.rq.memory, &2048u32.to_be_bytes());
    b.take(vec![frame; 6]);
    assert!(b.cqe(b.rq, 3).is_some() && b.cqe(b.rq, 4).is_none());
    let query = command(0x20, &[(0, 0x0773_0000), (0x1c, counters)]);
    assert_eq!(b.rig.good(&query, 0x100).dword(0x30), 2, "out of buffer");
    b.rig.refused(&bytes(&[0x0772_0000, 0, counters, 0]), 16, 0x9, 0x1a03);
}

#[test]
fn errors_stop_a_queue_and_flush_it() {
    let mut a = Host::new(0);
    a.key ^= 0x100;
    a.post(0x0a, 0, 0, &header(0x88b5), &[0; 50]);
    a.key ^= 0x100;
    a.post(0x0a, 0, 0, &header(0x88b5), &[0; 50]);
    assert!(a.frames().is_empty());
    let errors = [0, 1].map(|n| a.cqe(a.sq, n).unwrap()).map(|cqe| (cqe[55], cqe[63] >> 4));
    assert_eq!(errors, [(4, 0xd), (5, 0xd)], "local protection, then flushed");
    assert_eq!(a.rig.bus.violations.len(), 1);
    let query = a.rig.ok(&[0x0907_0000, 0, a.sq.number, 0], 0x110);
    assert_eq!(query.dword(0x20) >> 20 & 0xf, 3, "in error");
    // Through reset, it works again.
    for (from, to) in [(3, 0), (0, 1)] {
        a.rig.good(&command(0x110, &[(0, 0x0905_0000), (8, from << 28 | a.sq.number), (0x20, to << 20)]), 16);
    }
    a.producer = 0;
    a.rig.bus.put(a.sq.dbr + 4, &[0; 4]);
    a.post(0x0a, 0, 0, &header(0x88b5), &[0; 50]);
    assert_eq!(a.frames().len(), 1);
    // A NOP needs no TIS and no Ethernet segment.
    a.ring(0, vec![0; 16]);
    assert_eq!(a.cqe(a.sq, 3).unwrap()[63] >> 4, 0);
    a.ring(0x0a, vec![0; 16]);
    assert_eq!(a.cqe(a.sq, 4).unwrap()[55], 2, "local QP operation");
}

#[test]
fn roce_is_left_to_the_transport_while_it_is_on() {
    let mut b = Host::new(1);
    let tir = b.tir(b.rq.number, 0);
    b.let_in(tir);
    let v1 = [&header(0x8915)[..], &[0; 60]].concat();
    b.take(vec![v1.clone()]);
    assert_eq!(b.received(b.rq, 0).unwrap(), v1, "RoCE is off");
    b.rig.good(&command(0x200, &[(0, 0x0755_0000), (0xc, 1 << 1), (0x100, 1)]), 16);
    b.take(vec![v1]);
    assert_eq!(b.cqe(b.rq, 1), None);
}

#[test]
fn an_infiniband_port_has_none_of_it() {
    let mut rig = Rig::running(HcaConfig::infiniband(0));
    for (opcode, len) in [(0x816, 16), (0x904, 0x110), (0x908, 0x110), (0x900, 0x110), (0x912, 0xc0), (0x930, 0x40)] {
        let answer = rig.run(&command(len, &[(0, opcode << 16)]), 16);
        assert_eq!((answer.status(), answer.syndrome()), (0x2, 0x12f0), "{opcode:#x}");
    }
}

#[test]
fn everything_goes_away_in_order() {
    let mut a = Host::new(0);
    let tir = a.tir(a.rq.number, 0);
    let root = a.let_in(tir);
    a.rig.refused(&bytes(&[0x0817_0000, 0, a.td, 0]), 16, 0x9, 0x1101);
    a.rig.refused(&bytes(&[0x0914_0000, 0, a.tis, 0]), 16, 0x9, 0x1204);
    a.rig.good(&command(0x40, &[(0, 0x0938_0000), (0x14, root), (0x20, 0)]), 16);
    a.rig.good(&command(0x40, &[(0, 0x0934_0000), (0x14, root), (0x18, 1)]), 16);
    a.rig.good(&command(0x40, &[(0, 0x0931_0000), (0x14, root)]), 16);
    for (opcode, number) in [(0x902, tir), (0x90a, a.rq.number), (0x906, a.sq.number), (0x914, a.tis), (0x817, a.td)] {
        a.rig.ok(&[opcode << 16, 0, number, 0], 16);
        a.rig.run(&bytes(&[opcode << 16, 0, number, 0]), 16);
        assert_eq!(a.rig.bus.violations.pop().map(|v| v.contains("no ")), Some(true), "{opcode:#x} twice");
    }
}
