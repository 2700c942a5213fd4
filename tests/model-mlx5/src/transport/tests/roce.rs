//! The same over Ethernet: RoCE v1, v2 over IPv4 and IPv6, with and without a VLAN.

use bareverbs_harness::model::LinkKind::Ethernet;

use super::world::*;
use crate::transport::Counter;

/// Rows of the rig's RoCE address table.
const V1: u32 = 0;
const V2_IPV6: u32 = 1;
const V2_IPV4: u32 = 2;
const V2_IPV4_VLAN: u32 = 3;

fn connected(gid_index: u32) -> World {
    World::connected(Ethernet, &Setup { gid_index, grh: true, ..Default::default() })
}

#[test]
fn a_message_on_each_kind_of_route() {
    // EtherType, offset of the BTH, kind of packet in the CQE, VLAN.
    for (index, ether_type, bth, l3) in [
        (V1, [0x89, 0x15], 54, 0),
        (V2_IPV6, [0x86, 0xdd], 62, 1),
        (V2_IPV4, [0x08, 0x00], 42, 2),
        (V2_IPV4_VLAN, [0x81, 0x00], 46, 2),
    ] {
        let mut w = connected(index);
        w.hosts[0].put(DATA, &pattern(3000, 1));
        w.hosts[1].post_recv(B, &[(DATA, 3000, KEY)]);
        w.hosts[0].post_send(A, SEND, SIGNALED, 0, &data_seg(DATA, 3000, KEY));
        w.run();
        w.assert_clean();
        let wc = w.hosts[1].polls(1)[0];
        assert_eq!((wc.opcode, wc.bytes, wc.flags_rqpn >> 24 & 3, wc.slid), (2, 3000, l3, 0));
        assert_eq!(w.hosts[1].get(DATA, 3000), pattern(3000, 1));
        let frame = &w.seen[0].1;
        assert_eq!(frame[..12], [2, 0, 0xc9, 0, 0, 2, 2, 0, 0xc9, 0, 0, 1]);
        assert_eq!(frame[12..14], ether_type);
        // BTH: RC SEND First, MigReq, P_Key, destination QP.
        assert_eq!(frame[bth..bth + 8], [0x00, 0x40, 0xff, 0xff, 0, 0, 0, 0x42]);
    }
}

#[test]
fn the_ip_header_of_v2() {
    let mut w = connected(V2_IPV4);
    w.hosts[0].post_send(A, WRITE, SIGNALED, 0, &raddr_seg(0, 0));
    w.run();
    let frame = &w.seen[0].1;
    // Version and length, no ECN; TTL 64, UDP; 10.0.0.1 to 10.0.0.2; ports 0xc041 and 4791, no checksum.
    assert_eq!((frame[14], frame[15], frame[22], frame[23]), (0x45, 0, 64, 17));
    assert_eq!(frame[26..34], [10, 0, 0, 1, 10, 0, 0, 2]);
    assert_eq!(frame[34..38], [0xc0, 0x41, 0x12, 0xb7]);
    assert_eq!(frame[40..42], [0, 0]);
    assert_eq!(frame.len(), 14 + 20 + 8 + 12 + 16 + 4);
}

#[test]
fn loopback_does_not_leave_the_port() {
    for index in [V1, V2_IPV6, V2_IPV4, V2_IPV4_VLAN] {
        let mut w = World::new(Ethernet);
        let setup = Setup { gid_index: index, grh: true, ..Default::default() };
        let host = &mut w.hosts[0];
        host.create_qp(A, &setup);
        host.create_qp(B, &setup);
        let (a, b) = (host.peer(A, &setup), host.peer(B, &setup));
        host.connect(A, &setup, &b);
        host.connect(B, &setup, &a);
        host.put(DATA, &pattern(3000, 4));
        host.post_send(A, WRITE, SIGNALED, 0, &[raddr_seg(DATA + 0x1_0000, KEY), data_seg(DATA, 3000, KEY)].concat());
        w.run();
        w.assert_clean();
        assert_eq!(w.hosts[0].polls(0).len(), 1);
        assert_eq!(w.hosts[0].get(DATA + 0x1_0000, 3000), pattern(3000, 4));
        assert!(w.seen.is_empty());
    }
}

#[test]
fn frames_for_others_are_dropped() {
    let mut w = connected(V2_IPV4);
    w.hosts[0].post_send(A, WRITE, SIGNALED, 0, &raddr_seg(0, 0));
    w.run();
    let good = w.seen[0].1.clone();
    let offered = |w: &mut World, at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        w.hosts[1].inbox.push_back(frame.into());
        w.run();
    };
    offered(&mut w, 5, 9); // another MAC
    assert_eq!(w.hosts[1].count(Counter::WrongDestinationAddress), 1);
    offered(&mut w, 37, 1); // another UDP port
    assert_eq!(w.hosts[1].hca.ethernet.dropped.steering, 1, "an Ethernet frame, which no flow table lets in");
    offered(&mut w, 45, 7); // P_Key: the ICRC says so first
    assert_eq!(w.hosts[1].count(Counter::IcrcError), 1);
    // A frame of the VLAN goes to no QP that is outside of it.
    let mut tagged = good.clone();
    tagged.splice(12..12, [0x81, 0x00, 0x00, 0x09]);
    w.hosts[1].inbox.push_back(tagged.into());
    w.run();
    assert_eq!(w.hosts[1].count(Counter::WrongDestinationAddress), 2);
}
