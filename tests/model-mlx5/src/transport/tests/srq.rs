//! Receives from a shared queue.

use std::time::Duration;

use bareverbs_harness::model::LinkKind::InfiniBand;

use super::world::*;
use crate::{
    qp::{QpState, ReceiveFrom},
    transport::Counter,
};

/// Event types of the PRM.
const LAST_WQE_REACHED: u8 = 0x13;
const SRQ_LIMIT: u8 = 0x14;

/// A second pair of connected QPs.
const A2: u32 = 0x43;
const B2: u32 = 0x44;

/// Two connections whose responders share one queue of 16.
fn shared() -> (World, u32) {
    let setup = Setup { timeout: 0, ..Default::default() };
    let mut w = World::new(InfiniBand);
    let srqn = w.hosts[1].create_srq(4);
    let with_srq = Setup { receive_from: ReceiveFrom::Srq(srqn), ..setup };
    for (a, b) in [(A, B), (A2, B2)] {
        w.hosts[0].create_qp(a, &setup);
        w.hosts[1].create_qp(b, &with_srq);
        let peers = [w.hosts[1].peer(b, &setup), w.hosts[0].peer(a, &setup)];
        w.hosts[0].connect(a, &setup, &peers[0]);
        w.hosts[1].connect(b, &with_srq, &peers[1]);
    }
    (w, srqn)
}

#[test]
fn each_message_takes_the_next_wqe() {
    let (mut w, srqn) = shared();
    for n in 0..3u16 {
        w.hosts[1].post_srq(srqn, n, (DATA + u64::from(n) * 0x1000, 100, KEY));
    }
    for (qpn, text) in [(A, b"one.."), (A2, b"two.."), (A, b"three")] {
        w.hosts[0].put(DATA, text);
        w.hosts[0].post_send(qpn, SEND, SIGNALED, 0, &data_seg(DATA, 5, KEY));
        w.run();
    }
    w.assert_clean();
    let wcs = w.hosts[1].polls(1);
    let told: Vec<_> = wcs.iter().map(|wc| (wc.qpn, wc.counter, wc.user_index)).collect();
    assert_eq!(told, [(B, 0, B ^ 0x5555), (B2, 1, B2 ^ 0x5555), (B, 2, B ^ 0x5555)]);
    for (n, text) in [b"one..", b"two..", b"three"].iter().enumerate() {
        assert_eq!(w.hosts[1].get(DATA + n as u64 * 0x1000, 5), *text);
    }
    // An ACK of a QP with an SRQ promises no credits.
    assert!(w.seen.iter().filter(|(from, _)| *from == 1).all(|(_, frame)| frame[20] == 0x1f));
}

/// A message of three packets keeps the WQE it began with, whoever overtakes it.
#[test]
fn out_of_order_completion() {
    let (mut w, srqn) = shared();
    for n in 0..4u16 {
        w.hosts[1].post_srq(srqn, n, (DATA + u64::from(n) * 0x1000, 3000, KEY));
    }
    w.hosts[0].put(DATA, &pattern(3000, 1));
    // Middle and last packets of QP 1 are lost at first.
    w.lose = Some(|from, frame| from == 0 && frame[15] == B as u8 && frame[8] != 0);
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &data_seg(DATA, 3000, KEY));
    w.run();
    w.hosts[0].post_send(A2, SEND, SIGNALED, 0, &data_seg(DATA, 10, KEY));
    w.run();
    assert_eq!(w.hosts[1].polls(1).iter().map(|wc| (wc.qpn, wc.counter)).collect::<Vec<_>>(), [(B2, 1)]);
    w.lose = None;
    // Nothing times out here: a further message shows the gap, and brings a NAK.
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &data_seg(DATA, 20, KEY));
    w.run();
    w.assert_clean();
    let told: Vec<_> = w.hosts[1].polls(1).iter().map(|wc| (wc.qpn, wc.counter, wc.bytes)).collect();
    assert_eq!(told, [(B, 0, 3000), (B, 2, 20)]);
    assert_eq!(w.hosts[1].get(DATA, 3000), pattern(3000, 1));
}

#[test]
fn an_empty_queue_is_not_ready() {
    let (mut w, srqn) = shared();
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &data_seg(DATA, 10, KEY));
    w.run_until(Duration::from_micros(10));
    assert_eq!(w.hosts[1].count(Counter::OutOfBuffer), 1);
    w.hosts[1].post_srq(srqn, 0, (DATA, 100, KEY));
    w.run();
    assert_eq!(w.hosts[0].polls(0)[0].opcode, 0);
}

#[test]
fn the_limit_event_comes_once() {
    let (mut w, srqn) = shared();
    for n in 0..5 {
        w.hosts[1].post_srq(srqn, n, (DATA, 100, KEY));
    }
    w.hosts[1].hca.srqs.get_mut(&srqn).unwrap().limit = 3;
    let mut events = Vec::new();
    for _ in 0..5 {
        w.hosts[0].post_send(A, SEND, SIGNALED, 0, &data_seg(DATA, 10, KEY));
        w.run();
        events.push(w.hosts[1].events());
    }
    assert_eq!(events, [vec![], vec![], vec![(SRQ_LIMIT, srqn)], vec![], vec![]]);
    assert_eq!(w.hosts[1].hca.srqs[&srqn].limit, 0);
}

#[test]
fn a_qp_in_error_leaves_the_queue_alone() {
    let (mut w, srqn) = shared();
    for n in 0..4 {
        w.hosts[1].post_srq(srqn, n, (DATA, 3000, KEY));
    }
    // A message is under way on B: its WQE is flushed, the others are not.
    w.lose = Some(|from, frame| from == 0 && frame[8] != 0);
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &data_seg(DATA, 3000, KEY));
    w.run();
    w.hosts[1].state(B, QpState::Error);
    w.run();
    let told: Vec<_> = w.hosts[1].polls(1).iter().map(|wc| (wc.opcode, wc.qpn, wc.counter, wc.syndrome)).collect();
    assert_eq!(told, [(14, B, 0, 5)]);
    assert_eq!(w.hosts[1].events(), [(LAST_WQE_REACHED, B)]);
    w.lose = None;
    for n in 0..3 {
        w.hosts[0].post_send(A2, SEND, SIGNALED, 0, &data_seg(DATA, 10, KEY));
        w.run();
        assert_eq!(w.hosts[1].polls(1)[0].counter, n + 1);
    }
}
