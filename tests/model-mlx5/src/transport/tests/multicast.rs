//! Datagrams to a group.

use bareverbs_harness::model::LinkKind::{Ethernet, InfiniBand};

use super::{
    unreliable::{QKEY, UD, av},
    world::*,
};
use crate::transport::Counter;

const GROUP: [u8; 16] = [0xff, 0x12, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5];

#[test]
fn every_member_gets_a_copy() {
    for link in [InfiniBand, Ethernet] {
        let setup = Setup { grh: true, gid_index: if link == Ethernet { 1 } else { 0 }, ..UD };
        let mut w = World::connected(link, &setup);
        // Two members there, one of them the addressee of nothing else; the sender itself here.
        w.hosts[1].create_qp(0x60, &setup);
        let peer = w.hosts[0].peer(A, &setup);
        w.hosts[1].connect(0x60, &setup, &peer);
        w.hosts[0].hca.multicast.insert(GROUP, [A].into());
        w.hosts[1].hca.multicast.insert(GROUP, [B, 0x60].into());
        for (host, qpn) in [(0, A), (1, B), (1, 0x60)] {
            w.hosts[host].post_recv(qpn, &[(DATA + 0x1000 + u64::from(qpn) * 0x100, 0x100, KEY)]);
        }
        w.hosts[0].put(DATA, b"to all of you");
        let send = |w: &mut World, group: [u8; 16]| {
            let mut vector = av(w, 1, 0xff_ffff, QKEY, &setup);
            vector[32..48].copy_from_slice(&group);
            if link == InfiniBand {
                vector[14..16].copy_from_slice(&[0xc0, 0x01]);
            } else {
                vector[20..26].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 5]);
            }
            w.hosts[0].post_send(A, SEND, SIGNALED, 0, &[vector, data_seg(DATA, 13, KEY).to_vec()].concat());
            w.run();
        };
        send(&mut w, GROUP);
        w.assert_clean();
        for (host, qpns) in [(0, vec![A]), (1, vec![B, 0x60])] {
            let wcs = w.hosts[host].polls(1);
            assert_eq!(
                wcs.iter().map(|wc| (wc.qpn, wc.bytes)).collect::<Vec<_>>(),
                qpns.iter().map(|&q| (q, 53)).collect::<Vec<_>>()
            );
            for qpn in qpns {
                assert_eq!(w.hosts[host].get(DATA + 0x1028 + u64::from(qpn) * 0x100, 13), b"to all of you");
            }
        }
        assert_eq!(w.seen.len(), 1);
        // A group without members here.
        let mut other = GROUP;
        other[15] = 6;
        send(&mut w, other);
        assert_eq!(w.hosts[1].count(Counter::Multicast), 1, "{:?}", w.hosts[1].hca.transport.counters);
    }
}
