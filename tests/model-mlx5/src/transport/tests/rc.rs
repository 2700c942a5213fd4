//! Reliable connections on a link without faults.

use std::time::Duration;

use bareverbs_harness::model::LinkKind::InfiniBand;

use super::world::*;
use crate::{
    qp::QpState,
    transport::{self, Counter},
};

#[test]
fn send_arrives_in_the_posted_buffer() {
    let mut w = World::connected(InfiniBand, &Setup::default());
    let message = pattern(2500, 7);
    w.hosts[0].put(DATA + 100, &message);
    // Three packets into three pieces.
    let recv = w.hosts[1].post_recv(B, &[(DATA + 5, 1000, KEY), (DATA + 0x3000, 1, KEY), (DATA + 0x5000, 2000, KEY)]);
    let index = w.hosts[0].post_send(A, SEND, SIGNALED, 0, &data_seg(DATA + 100, 2500, KEY));
    w.run();
    w.assert_clean();
    let sent = w.hosts[0].polls(0);
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].opcode, sent[0].send_opcode, sent[0].counter, sent[0].qpn), (0, SEND, index, A));
    assert_eq!(sent[0].user_index, A ^ 0x5555);
    let received = w.hosts[1].polls(1);
    assert_eq!(received.len(), 1);
    assert_eq!((received[0].opcode, received[0].counter, received[0].bytes, received[0].qpn), (2, recv, 2500, B));
    assert_eq!((received[0].flags_rqpn & 0xff_ffff, received[0].slid), (A, 2));
    let host = &w.hosts[1];
    let got = [host.get(DATA + 5, 1000), host.get(DATA + 0x3000, 1), host.get(DATA + 0x5000, 1499)].concat();
    assert_eq!(got, message);
    assert_eq!(host.get(DATA + 0x5000 + 1499, 501), vec![0; 501]);
    // One ACK for three packets; nothing was lost, so nothing was said twice.
    assert_eq!(w.seen.len(), 4);
    assert_eq!(host.count(Counter::AcksSent), 1);
}

/// A WQE byte by byte, as the PRM's tables have it: SEND with immediate, solicited, inline data of 5 bytes.
#[test]
fn wqe_of_literal_bytes() {
    let mut w = World::connected(InfiniBand, &Setup::default());
    w.hosts[1].post_recv(B, &[(DATA, 64, KEY)]);
    #[rustfmt::skip]
    w.hosts[0].post_bytes(A, &[
        0x00, 0x00, 0x00, 0x0b, // opmod 0, index 0, SEND_IMM
        0x00, 0x00, 0x41, 0x02, // QPN 0x41, ds 2
        0x00, 0x00, 0x00, 0x0a, // CQ update, solicited
        0xca, 0xfe, 0xf0, 0x0d, // immediate data
        0x80, 0x00, 0x00, 0x05, // inline, 5 bytes
        b'h', b'e', b'l', b'l', b'o', 0, 0, 0, 0, 0, 0, 0,
    ]);
    w.run();
    w.assert_clean();
    let wc = w.hosts[1].polls(1)[0];
    assert_eq!((wc.opcode, wc.bytes, wc.imm, wc.solicited), (3, 5, 0xcafe_f00d, true));
    assert_eq!(w.hosts[1].get(DATA, 6), b"hello\0");
    // The request on the wire: LRH to LID 3 from LID 2, BTH opcode 5 (RC SEND Only with Immediate), SE, MigReq, pad 3.
    let request = &w.seen[0].1;
    assert_eq!(request[..8], [0x00, 0x02, 0x00, 0x03, 0x00, 0x09, 0x00, 0x02]);
    assert_eq!(
        request[8..29],
        [
            0x05, 0xf0, 0xff, 0xff, 0x00, 0x00, 0x00, 0x42, 0x80, 0xff, 0xff, 0xfe, 0xca, 0xfe, 0xf0, 0x0d, b'h', b'e',
            b'l', b'l', b'o'
        ]
    );
    // The answer: opcode 0x11, PSN 0xfffffe, AETH "ACK, no credits left", MSN 1.
    let answer = &w.seen[1].1;
    assert_eq!(answer[8..24], [0x11, 0x40, 0xff, 0xff, 0, 0, 0, 0x41, 0, 0xff, 0xff, 0xfe, 0x00, 0, 0, 1]);
}

#[test]
fn empty_messages_are_messages() {
    let mut w = World::connected(InfiniBand, &Setup::default());
    w.hosts[1].post_recv(B, &[]);
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &[]);
    w.hosts[0].post_send(A, WRITE, SIGNALED, 0, &raddr_seg(0, 0));
    w.hosts[0].post_send(A, READ, SIGNALED, 0, &raddr_seg(0, 0));
    w.run();
    w.assert_clean();
    assert_eq!(w.hosts[0].polls(0).iter().map(|wc| wc.send_opcode).collect::<Vec<_>>(), [SEND, WRITE, READ]);
    assert_eq!(w.hosts[1].polls(1)[0].bytes, 0);
}

#[test]
fn write_lands_where_the_key_says() {
    let mut w = World::connected(InfiniBand, &Setup { mtu: 256, ..Default::default() });
    let message = pattern(70_001, 3);
    w.hosts[0].put(DATA, &message);
    let wqe = [raddr_seg(DATA + 0x1_0ffd, KEY), data_seg(DATA, 60_000, KEY), data_seg(DATA + 60_000, 10_001, KEY)];
    w.hosts[0].post_send(A, WRITE, SIGNALED, 0, &wqe.concat());
    w.run();
    w.assert_clean();
    assert_eq!(w.hosts[0].polls(0).len(), 1);
    assert_eq!(w.hosts[1].polls(1), []);
    assert_eq!(w.hosts[1].get(DATA + 0x1_0ffd, message.len()), message);
    assert_eq!(w.hosts[1].get(DATA + 0x1_0ffc, 1), [0]);
    assert_eq!(w.hosts[1].get(DATA + 0x1_0ffd + 70_001, 1), [0]);
}

#[test]
fn write_with_immediate_takes_a_receive() {
    let mut w = World::connected(InfiniBand, &Setup::default());
    w.hosts[0].put(DATA, &pattern(3000, 5));
    let recv = w.hosts[1].post_recv(B, &[]);
    let wqe = [raddr_seg(DATA + 0x8000, KEY), data_seg(DATA, 3000, KEY)].concat();
    w.hosts[0].post_send(A, WRITE_IMM, SIGNALED, 0x0102_0304, &wqe);
    w.run();
    w.assert_clean();
    let wc = w.hosts[1].polls(1)[0];
    assert_eq!((wc.opcode, wc.counter, wc.bytes, wc.imm), (1, recv, 3000, 0x0102_0304));
    assert_eq!(w.hosts[1].get(DATA + 0x8000, 3000), pattern(3000, 5));
}

#[test]
fn read_fetches_in_order_and_within_its_depth() {
    let setup = Setup { max_rd_atomic_log: 1, ..Default::default() };
    let mut w = World::connected(InfiniBand, &setup);
    let message = pattern(50_000, 11);
    w.hosts[1].put(DATA + 77, &message);
    for n in 0..5 {
        let wqe = [raddr_seg(DATA + 77 + n * 10_000, KEY), data_seg(DATA + 0x2_0000 + n * 10_000, 10_000, KEY)];
        w.hosts[0].post_send(A, READ, SIGNALED, 0, &wqe.concat());
    }
    w.run();
    w.assert_clean();
    let wcs = w.hosts[0].polls(0);
    assert_eq!(wcs.iter().map(|wc| (wc.opcode, wc.send_opcode, wc.bytes)).collect::<Vec<_>>(), [(0, READ, 10_000); 5]);
    assert_eq!(w.hosts[0].get(DATA + 0x2_0000, 50_000), message);
    assert_eq!(w.hosts[1].count(Counter::RespTooManyReads), 0);
    // Never more than two requests without their last response.
    let (mut open, mut most) = (0, 0);
    for (from, frame) in &w.seen {
        match (from, frame[8]) {
            (0, 0x0c) => open += 1,
            (1, 0x0f | 0x10) => open -= 1,
            _ => {}
        }
        most = most.max(open);
    }
    assert_eq!(most, 2);
}

/// Memory is counted in the host's order; results come in it only if the driver set that capability.
#[test]
fn atomics_work_on_the_host_s_words() {
    for host_order in [true, false] {
        let mut w = World::connected(InfiniBand, &Setup::default());
        w.hosts[0].hca.caps.set_atomics_in_host_order(host_order);
        w.hosts[1].put(DATA + 8, &41u64.to_le_bytes());
        let operations = [(FETCH_ADD, 1, 0), (COMPARE_SWAP, 0x1122_3344_5566_7788, 42), (COMPARE_SWAP, 9, 43)];
        for (n, (opcode, swap_add, compare)) in operations.into_iter().enumerate() {
            let result = data_seg(DATA + 0x100 + n as u64 * 8, 8, KEY);
            let wqe = [raddr_seg(DATA + 8, KEY), atomic_seg(swap_add, compare), result].concat();
            w.hosts[0].post_send(A, opcode, SIGNALED, 0, &wqe);
        }
        w.run();
        w.assert_clean();
        assert_eq!(w.hosts[0].polls(0).len(), 3);
        let result = |n| {
            let bytes = w.hosts[0].get(DATA + 0x100 + n, 8).try_into().unwrap();
            if host_order { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) }
        };
        assert_eq!([0, 8, 16].map(result), [41, 42, 0x1122_3344_5566_7788]);
        assert_eq!(w.hosts[1].get(DATA + 8, 8), 0x1122_3344_5566_7788u64.to_le_bytes());
    }
}

#[test]
fn one_signaled_completion_stands_for_those_before() {
    let mut w = World::connected(InfiniBand, &Setup::default());
    for round in 0..200u16 {
        for n in 0..16 {
            w.hosts[1].post_recv(B, &[(DATA, 64, KEY)]);
            let flags = if n == 15 { SIGNALED } else { 0 };
            w.hosts[0].post_send(A, SEND, flags, 0, &data_seg(DATA, 64, KEY));
        }
        w.run();
        let wcs = w.hosts[0].polls(0);
        assert_eq!(wcs.iter().map(|wc| wc.counter).collect::<Vec<_>>(), [round * 16 + 15]);
        let counters: Vec<u16> = w.hosts[1].polls(1).iter().map(|wc| wc.counter).collect();
        assert_eq!(counters, (round * 16..round * 16 + 16).collect::<Vec<_>>());
    }
    w.assert_clean();
}

#[test]
fn fence_waits_for_the_read() {
    let mut w = World::connected(InfiniBand, &Setup::default());
    w.hosts[1].put(DATA, b"from far");
    let read = [raddr_seg(DATA, KEY), data_seg(DATA + 0x100, 8, KEY)].concat();
    let write = [raddr_seg(DATA + 0x200, KEY), data_seg(DATA + 0x100, 8, KEY)].concat();
    const FENCE: u8 = 2 << 5;
    w.hosts[0].post_send(A, READ, 0, 0, &read);
    w.hosts[0].post_send(A, WRITE, SIGNALED | FENCE, 0, &write);
    w.run();
    w.assert_clean();
    assert_eq!(w.hosts[1].get(DATA + 0x200, 8), b"from far");
    // Without the fence the write leaves before the response is there, and carries what was there before.
    let order: Vec<u8> = w.seen.iter().map(|(_, frame)| frame[8]).collect();
    assert_eq!(order, [0x0c, 0x10, 0x0a, 0x11]);
}

#[test]
fn nops_complete_in_their_turn() {
    let mut w = World::connected(InfiniBand, &Setup::default());
    w.hosts[1].post_recv(B, &[(DATA, 64, KEY)]);
    w.hosts[0].post_send(A, NOP, SIGNALED, 0, &[]);
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &data_seg(DATA, 64, KEY));
    w.hosts[0].post_send(A, NOP, SIGNALED, 0, &[]);
    w.run();
    let wcs = w.hosts[0].polls(0);
    assert_eq!(wcs.iter().map(|wc| wc.send_opcode).collect::<Vec<_>>(), [NOP, SEND, NOP]);
    w.assert_clean();
}

#[test]
fn loopback_between_two_qps_of_one_port() {
    let mut w = World::new(InfiniBand);
    let (setup, [host, _]) = (Setup::default(), &mut w.hosts);
    host.create_qp(A, &setup);
    host.create_qp(B, &setup);
    let (a, b) = (host.peer(A, &setup), host.peer(B, &setup));
    host.connect(A, &setup, &b);
    host.connect(B, &setup, &a);
    host.put(DATA, &pattern(5000, 2));
    host.post_recv(B, &[(DATA + 0x1_0000, 5000, KEY)]);
    host.post_send(A, SEND, SIGNALED, 0, &data_seg(DATA, 5000, KEY));
    w.run();
    w.assert_clean();
    assert_eq!(w.hosts[0].polls(1)[0].bytes, 5000);
    assert_eq!(w.hosts[0].get(DATA + 0x1_0000, 5000), pattern(5000, 2));
    assert!(w.seen.is_empty());
}

#[test]
fn a_packet_may_carry_a_grh() {
    let mut w = World::connected(InfiniBand, &Setup { grh: true, ..Default::default() });
    w.hosts[1].post_recv(B, &[(DATA, 64, KEY)]);
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &data_seg(DATA, 10, KEY));
    w.run();
    w.assert_clean();
    let wc = w.hosts[1].polls(1)[0];
    assert_eq!((wc.bytes, wc.flags_rqpn >> 28 & 3), (10, 1));
    assert_eq!(w.seen[0].1[1] & 3, 3);
}

#[test]
fn two_qps_take_turns() {
    let setup = Setup { mtu: 256, ..Default::default() };
    let mut w = World::connected(InfiniBand, &setup);
    let qpns = [0x51, 0x52];
    for (host, qpn) in w.hosts.iter_mut().zip(qpns) {
        host.create_qp(qpn, &setup);
    }
    let peers = [w.hosts[1].peer(qpns[1], &setup), w.hosts[0].peer(qpns[0], &setup)];
    for ((host, qpn), peer) in w.hosts.iter_mut().zip(qpns).zip(peers) {
        host.connect(qpn, &setup, &peer);
    }
    let wqe = [raddr_seg(DATA, KEY), data_seg(DATA, 25_600, KEY)].concat();
    w.hosts[0].post_send(A, WRITE, SIGNALED, 0, &wqe);
    w.hosts[0].post_send(0x51, WRITE, SIGNALED, 0, &wqe);
    w.run();
    w.assert_clean();
    let to: Vec<u8> = w.seen.iter().filter(|(from, _)| *from == 0).map(|(_, frame)| frame[15]).collect();
    assert_eq!(to.len(), 200);
    assert!(to[..180].windows(2).all(|pair| pair[0] != pair[1]), "{to:x?}");
}

#[test]
fn rnr_waits_and_tries_again() {
    let mut w = World::connected(InfiniBand, &Setup { min_rnr_timer: 12, ..Default::default() });
    w.hosts[0].put(DATA, b"late");
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &data_seg(DATA, 4, KEY));
    w.run_until(Duration::from_micros(630));
    assert_eq!(w.hosts[0].count(Counter::RnrNakReceived), 1);
    assert_eq!((w.hosts[0].polls(0), w.seen.len()), (vec![], 2));
    // AETH: RNR NAK with timer code 12, which is 0.64 ms.
    assert_eq!(w.seen[1].1[20], 0x2c);
    w.hosts[1].post_recv(B, &[(DATA, 64, KEY)]);
    w.run();
    w.assert_clean();
    assert_eq!(w.hosts[0].polls(0)[0].opcode, 0);
    assert_eq!(w.hosts[1].get(DATA, 4), b"late");
    assert_eq!(w.seen.len(), 4);
}

#[test]
fn reset_forgets_everything() {
    let setup = Setup::default();
    let mut w = World::connected(InfiniBand, &setup);
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &data_seg(DATA, 4, KEY));
    w.hosts[0].state(A, QpState::Reset);
    w.hosts[1].state(B, QpState::Reset);
    w.run();
    assert_eq!(w.hosts[0].polls(0), []);
    for (host, qpn) in [(0, A), (1, B)] {
        w.hosts[host].set_posted(qpn, 2, 0);
        w.hosts[host].set_posted(qpn, 6, 0);
        w.hosts[host].state(qpn, QpState::Init);
    }
    let peers = [w.hosts[1].peer(B, &setup), w.hosts[0].peer(A, &setup)];
    w.hosts[0].connect(A, &setup, &peers[0]);
    w.hosts[1].connect(B, &setup, &peers[1]);
    w.hosts[1].post_recv(B, &[(DATA, 64, KEY)]);
    assert_eq!(w.hosts[0].post_send(A, SEND, SIGNALED, 0, &data_seg(DATA, 4, KEY)), 0);
    w.run();
    w.assert_clean();
    assert_eq!(w.hosts[0].polls(0)[0].counter, 0);
}

#[test]
fn query_shows_how_far_the_psns_are() {
    use crate::qp::qpc;
    let mut w = World::connected(InfiniBand, &Setup { psn: 10, ..Default::default() });
    w.hosts[0].post_send(A, WRITE, SIGNALED, 0, &[raddr_seg(DATA, KEY), data_seg(DATA, 3000, KEY)].concat());
    w.run();
    let mut ctx = [[0; qpc::SIZE]; 2];
    transport::fill_context(&w.hosts[0].hca, A, &mut ctx[0]);
    transport::fill_context(&w.hosts[1].hca, B, &mut ctx[1]);
    assert_eq!(qpc::NEXT_SEND_PSN.get(&ctx[0]), 13);
    assert_eq!(qpc::NEXT_RCV_PSN.get(&ctx[1]), 13);
    assert_eq!(qpc::NEXT_SEND_PSN.get(&ctx[1]), 10);
}
