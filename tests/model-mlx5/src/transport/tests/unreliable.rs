//! UC and UD.

use bareverbs_harness::model::LinkKind::{Ethernet, InfiniBand};

use super::world::*;
use crate::{
    qp::{QpState, Service},
    transport::Counter,
};

const UC: Setup = Setup {
    service: Service::Uc,
    mtu: 512,
    psn: 0,
    receive_from: crate::qp::ReceiveFrom::Own,
    remote_access: true,
    max_rd_atomic_log: 0,
    timeout: 0,
    retry: 0,
    rnr_retry: 0,
    min_rnr_timer: 0,
    gid_index: 2,
    grh: false,
};
pub const UD: Setup = Setup { service: Service::Ud, mtu: 1024, ..UC };

/// The Q_Key of the rig's QPs.
pub const QKEY: u32 = 0x1111_2222;

/// An address vector towards a host, 48 bytes as the PRM has them.
pub fn av(w: &World, host: usize, qpn: u32, qkey: u32, setup: &Setup) -> Vec<u8> {
    let peer = w.hosts[host].peer(qpn, setup);
    let mut av = vec![0; 48];
    av[..4].copy_from_slice(&qkey.to_be_bytes());
    av[8..12].copy_from_slice(&(0x8000_0000 | qpn).to_be_bytes());
    if peer.lid != 0 {
        av[14..16].copy_from_slice(&peer.lid.to_be_bytes());
    }
    av[20..26].copy_from_slice(&peer.mac);
    av[27] = 64;
    if setup.grh {
        av[28..32].copy_from_slice(&(1u32 << 30 | setup.gid_index << 20).to_be_bytes());
        av[32..48].copy_from_slice(&peer.gid);
    }
    av
}

fn datagrams(link: bareverbs_harness::model::LinkKind, setup: &Setup) -> World {
    let mut w = World::connected(link, setup);
    w.hosts[1].post_recv(B, &[(DATA, 40, KEY), (DATA + 0x100, 1024, KEY)]);
    w
}

#[test]
fn uc_delivers_and_completes_at_once() {
    let mut w = World::connected(InfiniBand, &UC);
    w.hosts[0].put(DATA, &pattern(2000, 1));
    w.hosts[1].post_recv(B, &[(DATA, 2000, KEY)]);
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &data_seg(DATA, 2000, KEY));
    let write = [raddr_seg(DATA + 0x8000, KEY), data_seg(DATA, 2000, KEY)].concat();
    w.hosts[0].post_send(A, WRITE, SIGNALED, 0, &write);
    w.run();
    w.assert_clean();
    assert_eq!(w.hosts[0].polls(0).len(), 2);
    assert_eq!(w.hosts[1].polls(1)[0].bytes, 2000);
    assert_eq!(w.hosts[1].get(DATA, 2000), pattern(2000, 1));
    assert_eq!(w.hosts[1].get(DATA + 0x8000, 2000), pattern(2000, 1));
    assert!(w.seen.iter().all(|(from, _)| *from == 0));
    // What UC does not know.
    let read = [raddr_seg(DATA, KEY), data_seg(DATA, 8, KEY)].concat();
    w.hosts[0].post_send(A, READ, SIGNALED, 0, &read);
    w.hosts[0].post_recv(A, &[(DATA, 8, KEY)]);
    w.run();
    assert_eq!(w.hosts[0].polls(0)[0].syndrome, 2);
    // Only the send queue fails.
    assert_eq!(w.hosts[0].hca.qps[&A].state, QpState::SendQueueError);
    assert_eq!(w.hosts[0].polls(1), []);
}

#[test]
fn uc_loses_whole_messages_only() {
    let mut lost = 0;
    for seed in 1..30 {
        let mut w = World::connected(InfiniBand, &UC);
        w.random = Random(seed);
        w.faults = Faults { lose: 10, ..Default::default() };
        for n in 0..20u64 {
            let at = DATA + n * 0x1000;
            w.hosts[0].put(at, &pattern(1800, n));
            w.hosts[1].post_recv(B, &[(at, 1800, KEY)]);
            w.hosts[0].post_send(A, SEND_IMM, 0, n as u32, &data_seg(at, 1800, KEY));
        }
        w.run();
        w.assert_clean();
        let wcs = w.hosts[1].polls(1);
        // The receive WQE of a lost message serves the next one: none is skipped.
        for (n, wc) in wcs.iter().enumerate() {
            assert_eq!((wc.counter, wc.bytes), (n as u16, 1800), "seed {seed}");
            let got = w.hosts[1].get(DATA + n as u64 * 0x1000, 1800);
            assert_eq!(got, pattern(1800, u64::from(wc.imm)), "seed {seed}");
        }
        assert!(wcs.is_sorted_by(|a, b| a.imm < b.imm), "seed {seed}");
        lost += 20 - wcs.len();
    }
    assert!(lost > 0);
}

#[test]
fn ud_on_infiniband() {
    let mut w = datagrams(InfiniBand, &UD);
    w.hosts[1].put(DATA, &[0xee; 40]);
    w.hosts[0].put(DATA, &pattern(700, 3));
    let wqe = [av(&w, 1, B, QKEY, &UD), data_seg(DATA, 700, KEY).to_vec()].concat();
    w.hosts[0].post_send(A, SEND_IMM, SIGNALED, 0x77, &wqe);
    w.run();
    w.assert_clean();
    assert_eq!(w.hosts[0].polls(0).len(), 1);
    let wc = w.hosts[1].polls(1)[0];
    assert_eq!((wc.opcode, wc.bytes, wc.imm, wc.flags_rqpn, wc.slid), (3, 740, 0x77, A, 2));
    assert_eq!(w.hosts[1].get(DATA + 0x100, 700), pattern(700, 3));
    // No GRH came, and nothing was written where it would be.
    assert_eq!(w.hosts[1].get(DATA, 40), [0xee; 40]);
}

#[test]
fn ud_with_a_grh() {
    let setup = Setup { grh: true, gid_index: 0, ..UD };
    let mut w = datagrams(InfiniBand, &setup);
    let wqe = [av(&w, 1, B, QKEY, &setup), data_seg(DATA, 8, KEY).to_vec()].concat();
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &wqe);
    w.run();
    w.assert_clean();
    assert_eq!(w.hosts[1].polls(1)[0].flags_rqpn, 1 << 28 | A);
    let grh = w.hosts[1].get(DATA, 40);
    // Version 6, BTH to ICRC after it (12 + 8 + 8 + 4), next header 0x1b, hop limit, both GIDs.
    assert_eq!(grh[..8], [0x60, 0, 0, 0, 0, 32, 0x1b, 64]);
    assert_eq!(grh[8..24], [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0xc9, 0xff, 0xfe, 0, 0, 1]);
    assert_eq!(grh[39], 2);
}

#[test]
fn ud_over_ipv4_shows_its_header() {
    let setup = Setup { grh: true, ..UD };
    let mut w = datagrams(Ethernet, &setup);
    w.hosts[1].put(DATA, &[0xee; 40]);
    let wqe = [av(&w, 1, B, QKEY, &setup), data_seg(DATA, 8, KEY).to_vec()].concat();
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &wqe);
    w.run();
    w.assert_clean();
    assert_eq!(w.hosts[1].polls(1)[0].flags_rqpn, 1 << 28 | 2 << 24 | A);
    let header = w.hosts[1].get(DATA, 40);
    assert_eq!(header[..20], [0; 20]);
    assert_eq!((header[20], &header[32..40]), (0x45, &[10, 0, 0, 1, 10, 0, 0, 2][..]));
}

#[test]
fn datagrams_that_do_not_fit_or_do_not_belong() {
    let mut w = datagrams(InfiniBand, &UD);
    let send = |w: &mut World, qkey, len| {
        let wqe = [av(w, 1, B, qkey, &UD), data_seg(DATA, len, KEY).to_vec()].concat();
        w.hosts[0].post_send(A, SEND, SIGNALED, 0, &wqe);
        w.run();
    };
    send(&mut w, QKEY + 1, 8);
    assert_eq!(w.hosts[1].count(Counter::QkeyViolation), 1);
    send(&mut w, 0x8000_0000, 8); // the QP's own
    assert_eq!(w.hosts[1].polls(1).len(), 1);
    send(&mut w, QKEY, 8);
    assert_eq!(w.hosts[1].count(Counter::OutOfBuffer), 1);
    w.hosts[1].post_recv(B, &[(DATA, 47, KEY)]);
    send(&mut w, QKEY, 8);
    assert_eq!(w.hosts[1].polls(1)[0].syndrome, 1);
    assert_eq!(w.hosts[1].hca.qps[&B].state, QpState::Error);
    // Longer than the MTU: fails at the sender.
    send(&mut w, QKEY, 1025);
    assert_eq!(w.hosts[0].polls(0).last().unwrap().syndrome, 1);
    assert_eq!(w.hosts[0].hca.qps[&A].state, QpState::SendQueueError);
}

#[test]
fn datagrams_come_back_to_their_own_port() {
    let mut w = World::new(InfiniBand);
    w.hosts[0].create_qp(A, &UD);
    let peer = w.hosts[0].peer(A, &UD);
    w.hosts[0].connect(A, &UD, &peer);
    w.hosts[0].post_recv(A, &[(DATA + 0x1000, 100, KEY)]);
    w.hosts[0].put(DATA, b"to myself");
    let wqe = [av(&w, 0, A, QKEY, &UD), data_seg(DATA, 9, KEY).to_vec()].concat();
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &wqe);
    w.run();
    assert_eq!(w.hosts[0].polls(1)[0].bytes, 49);
    assert_eq!(w.hosts[0].get(DATA + 0x1028, 9), b"to myself");
}
