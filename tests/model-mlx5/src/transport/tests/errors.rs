//! What goes wrong on purpose: each NAK, each syndrome, and the flush that follows.

use std::time::Duration;

use bareverbs_harness::model::LinkKind::InfiniBand;

use super::world::*;
use crate::{
    qp::{QpState, ads, qpc},
    transport::Counter,
};

const LOCAL_LENGTH: u8 = 0x01;
const LOCAL_QP_OPERATION: u8 = 0x02;
const LOCAL_PROTECTION: u8 = 0x04;
const FLUSHED: u8 = 0x05;
const BAD_RESPONSE: u8 = 0x10;
const REMOTE_INVALID_REQUEST: u8 = 0x12;
const REMOTE_ACCESS: u8 = 0x13;
const REMOTE_OPERATION: u8 = 0x14;
const RETRIES_EXCEEDED: u8 = 0x15;
const RNR_RETRIES_EXCEEDED: u8 = 0x16;

/// Send opcodes and syndromes of all send completions.
fn outcomes(w: &mut World, host: usize) -> Vec<(u8, u8)> {
    w.hosts[host].polls(0).iter().map(|wc| (wc.send_opcode, wc.syndrome)).collect()
}

fn write_to(va: u64, key: u32, len: u32) -> Vec<u8> {
    [raddr_seg(va, key), data_seg(DATA, len, KEY)].concat()
}

/// Posts one request that must fail so, and one that must be flushed after it.
fn fails(mut w: World, opcode: u8, segments: &[u8], syndrome: u8) -> World {
    w.hosts[0].post_send(A, WRITE, 0, 0, &write_to(DATA, KEY, 64));
    w.hosts[0].post_send(A, opcode, 0, 0, segments);
    w.hosts[0].post_send(A, NOP, 0, 0, &[]);
    w.run();
    assert_eq!(outcomes(&mut w, 0), [(opcode, syndrome), (NOP, FLUSHED)], "{opcode:#x}");
    assert_eq!(w.hosts[0].hca.qps[&A].state, QpState::Error);
    w
}

fn world() -> World {
    World::connected(InfiniBand, &Setup::default())
}

#[test]
fn malformed_wqes_are_violations() {
    let mut control = [0; 16];
    control[..4].copy_from_slice(&(7u32 << 8 | u32::from(NOP)).to_be_bytes());
    control[4..8].copy_from_slice(&(A << 8 | 1).to_be_bytes());
    let with = |at: usize, value: u32| {
        let mut bytes = control;
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
        bytes
    };
    let right = u32::from(NOP); // index 0
    for (bytes, complaint) in
        [(control, "index 7"), (with(0, 0x77), "opcode 0x77"), (with(0, 0x25), "UMR control"), (with(0, right), "")]
    {
        let mut w = world();
        w.hosts[0].post_bytes(A, &bytes);
        w.run();
        let wc = w.hosts[0].polls(0);
        if complaint.is_empty() {
            assert_eq!(wc, []);
            w.assert_clean();
            continue;
        }
        assert_eq!((wc[0].opcode, wc[0].syndrome, wc[0].counter), (13, LOCAL_QP_OPERATION, 0), "{complaint}");
        let violations = &w.hosts[0].bus.violations;
        assert!(violations.len() == 1 && violations[0].contains(complaint), "{violations:?}");
    }
    for (size, complaint) in [(0x99 << 8 | 1, "QPN 0x99"), (A << 8, "ds count is 0"), (A << 8 | 5, "2 basic blocks")] {
        let mut w = world();
        let mut bytes = with(0, right);
        bytes[4..8].copy_from_slice(&size.to_be_bytes());
        w.hosts[0].post_bytes(A, &bytes);
        w.run();
        assert_eq!(w.hosts[0].polls(0)[0].syndrome, LOCAL_QP_OPERATION, "{complaint}");
        let violations = &w.hosts[0].bus.violations;
        assert!(violations.len() == 1 && violations[0].contains(complaint), "{violations:?}");
    }
    let w = fails(world(), WRITE, &[], LOCAL_QP_OPERATION);
    assert!(w.hosts[0].bus.violations[0].contains("remote address segment"));
    let w = fails(world(), FETCH_ADD, &[raddr_seg(DATA, KEY), atomic_seg(1, 0)].concat(), LOCAL_QP_OPERATION);
    assert!(w.hosts[0].bus.violations[0].contains("8 bytes"));
}

/// Any bytes at all: the model neither panics nor hangs, and everything posted completes once.
#[test]
fn random_wqes_complete_in_error() {
    for seed in 1..200 {
        let mut random = Random(seed);
        let mut w = World::connected(InfiniBand, &Setup { rnr_retry: 1, ..Default::default() });
        let mut bytes: Vec<u8> = (0..192).map(|_| (random.next() >> 24) as u8).collect();
        if seed % 2 == 0 {
            // Good enough to get past the control segment.
            let opcodes = [SEND, WRITE, READ, FETCH_ADD, SEND_INVAL, WRITE_IMM];
            bytes[..4].copy_from_slice(&u32::from(opcodes[random.below(6) as usize]).to_be_bytes());
            bytes[4..8].copy_from_slice(&(A << 8 | (1 + random.below(12) as u32)).to_be_bytes());
        }
        w.hosts[0].post_bytes(A, &bytes);
        w.run();
        let wcs = w.hosts[0].polls(0);
        // Perhaps some that went well, then one failure, then what it flushed.
        let failed = wcs.iter().position(|wc| wc.opcode != 0).unwrap_or(wcs.len());
        let (first, flushed) = wcs[failed..].split_first().map_or((None, &[][..]), |(first, rest)| (Some(first), rest));
        assert!(first.is_none_or(|wc| wc.opcode == 13 && wc.syndrome != FLUSHED), "seed {seed}: {wcs:?}");
        assert!(flushed.iter().all(|wc| wc.opcode == 13 && wc.syndrome == FLUSHED), "seed {seed}: {wcs:?}");
    }
}

/// Any bytes at all as frames.
#[test]
fn random_frames_are_dropped() {
    for link in [InfiniBand, bareverbs_harness::model::LinkKind::Ethernet] {
        let mut w = World::connected(link, &Setup::default());
        w.hosts[0].post_send(A, WRITE, SIGNALED, 0, &write_to(DATA, KEY, 3000));
        w.run();
        let good = w.seen[0].1.clone();
        let mut random = Random(9);
        let frames_in = 3000;
        for n in 0..frames_in {
            let mut frame = good.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(80.min(frame.len() as u64)) as usize;
                frame[at] = random.next() as u8;
            }
            frame.truncate(if n % 3 == 0 { random.below(frame.len() as u64) as usize } else { frame.len() });
            w.hosts[1].inbox.push_back(frame.into());
            w.run();
        }
        assert_eq!(w.hosts[1].hca.qps[&B].state, QpState::ReadyToSend);
        let counters = &w.hosts[1].hca.transport.counters;
        let dropped = counters.iter().map(|(_, n)| n).sum::<u64>() + w.hosts[1].hca.ethernet.dropped.total();
        assert!(dropped >= frames_in - 50, "{counters:?}");
    }
}

#[test]
fn local_keys_are_checked() {
    let end = DATA + DATA_LEN;
    for seg in [
        data_seg(DATA, 8, KEY ^ 1),     // wrong variant
        data_seg(DATA, 8, 0x0999_9900), // no such key
        data_seg(DATA - 1, 8, KEY),     // before it
        data_seg(end - 7, 8, KEY),      // behind it
        data_seg(u64::MAX - 3, 8, KEY), // around the end of the address space
    ] {
        fails(world(), SEND, &seg, LOCAL_PROTECTION).assert_clean();
    }
    let long = fails(world(), WRITE, &write_to(DATA, KEY, 0x4000_0001), LOCAL_LENGTH);
    assert!(long.hosts[0].bus.violations[0].contains("longer"));
    // The result of a READ needs local write.
    let mut w = world();
    w.hosts[0].post_send(A, READ, 0, 0, &[raddr_seg(DATA, KEY), data_seg(DATA, 8, READ_ONLY)].concat());
    w.run();
    assert_eq!(outcomes(&mut w, 0), [(READ, LOCAL_PROTECTION)]);
}

#[test]
fn remote_keys_are_checked() {
    let end = DATA + DATA_LEN;
    for (va, key) in
        [(DATA, KEY ^ 1), (DATA, 0x0999_9900), (DATA - 1, KEY), (end - 7, KEY), (u64::MAX - 3, KEY), (DATA, READ_ONLY)]
    {
        let mut w = fails(world(), WRITE, &write_to(va, key, 8), REMOTE_ACCESS);
        w.assert_clean();
        assert_eq!(w.hosts[1].hca.qps[&B].state, QpState::Error);
        assert_eq!(w.hosts[1].count(Counter::RespRemoteAccessErrors), 1);
        assert_eq!(w.hosts[1].get(DATA + 64, 64), [0; 64]);
        assert_eq!(w.hosts[1].polls(1), []);
    }
    fails(
        world(),
        FETCH_ADD,
        &[raddr_seg(DATA, READ_ONLY), atomic_seg(1, 0), data_seg(DATA, 8, KEY)].concat(),
        REMOTE_ACCESS,
    );
    fails(world(), READ, &[raddr_seg(end, KEY), data_seg(DATA, 8, KEY)].concat(), REMOTE_ACCESS);
    // The first and the last byte are inside.
    let mut w = world();
    w.hosts[0].post_send(A, WRITE, SIGNALED, 0, &write_to(DATA, KEY, 1));
    w.hosts[0].post_send(A, WRITE, SIGNALED, 0, &write_to(end - 1, KEY, 1));
    w.run();
    assert_eq!(outcomes(&mut w, 0), [(WRITE, 0), (WRITE, 0)]);
}

#[test]
fn a_key_of_another_domain_does_not_count() {
    let mut w = world();
    w.hosts[1].hca.mkeys.table.get_mut(&(KEY >> 8)).unwrap().pd = PD + 1;
    w.hosts[0].post_send(A, WRITE, 0, 0, &write_to(DATA, KEY, 8));
    w.run();
    assert_eq!(outcomes(&mut w, 0), [(WRITE, REMOTE_ACCESS)]);
}

#[test]
fn what_the_qp_does_not_allow_is_an_invalid_request() {
    let read = [raddr_seg(DATA, KEY), data_seg(DATA, 8, KEY)].concat();
    let atomic = [raddr_seg(DATA, KEY), atomic_seg(1, 0), data_seg(DATA, 8, KEY)].concat();
    for (opcode, segments) in [(WRITE, write_to(DATA, KEY, 8)), (READ, read), (FETCH_ADD, atomic)] {
        let mut w = World::connected(InfiniBand, &Setup { remote_access: false, ..Default::default() });
        w.hosts[0].post_send(A, opcode, 0, 0, &segments);
        w.run();
        assert_eq!(outcomes(&mut w, 0), [(opcode, REMOTE_INVALID_REQUEST)]);
        assert_eq!(w.hosts[1].count(Counter::RespNotAllowed), 1);
    }
    let misaligned = [raddr_seg(DATA + 4, KEY), atomic_seg(1, 0), data_seg(DATA, 8, KEY)].concat();
    let w = fails(world(), COMPARE_SWAP, &misaligned, REMOTE_INVALID_REQUEST);
    assert_eq!(w.hosts[1].count(Counter::RespMisalignedAtomic), 1);
}

#[test]
fn a_message_longer_than_its_receive_fails_both() {
    for len in [2001, 3000] {
        let mut w = world();
        let recv = w.hosts[1].post_recv(B, &[(DATA, 2000, KEY)]);
        let flushed = w.hosts[1].post_recv(B, &[(DATA, 5000, KEY)]);
        w.hosts[0].post_send(A, SEND, 0, 0, &data_seg(DATA, len, KEY));
        w.run();
        w.assert_clean();
        assert_eq!(outcomes(&mut w, 0), [(SEND, REMOTE_INVALID_REQUEST)]);
        let wcs: Vec<_> = w.hosts[1].polls(1).iter().map(|wc| (wc.opcode, wc.counter, wc.syndrome)).collect();
        assert_eq!(wcs, [(14, recv, LOCAL_LENGTH), (14, flushed, FLUSHED)]);
    }
}

#[test]
fn a_receive_into_a_read_only_region_fails_both() {
    let mut w = world();
    w.hosts[1].post_recv(B, &[(DATA, 64, READ_ONLY)]);
    w.hosts[0].post_send(A, SEND, 0, 0, &data_seg(DATA, 8, KEY));
    w.run();
    assert_eq!(outcomes(&mut w, 0), [(SEND, REMOTE_OPERATION)]);
    assert_eq!(w.hosts[1].polls(1)[0].syndrome, LOCAL_PROTECTION);
}

#[test]
fn different_mtus_do_not_go_together() {
    let setup = Setup::default();
    let differing = |mtu: usize| {
        let mut w = World::new(InfiniBand);
        w.hosts[0].create_qp(A, &setup);
        w.hosts[1].create_qp(B, &setup);
        let peers = [w.hosts[1].peer(B, &setup), w.hosts[0].peer(A, &setup)];
        w.hosts[0].connect(A, &setup, &peers[0]);
        w.hosts[1].connect(B, &Setup { mtu, ..setup }, &peers[1]);
        w
    };
    let mut w = differing(512);
    w.hosts[0].post_send(A, WRITE, 0, 0, &write_to(DATA, KEY, 2000));
    w.run();
    assert_eq!(outcomes(&mut w, 0), [(WRITE, REMOTE_INVALID_REQUEST)]);
    assert_eq!(w.hosts[1].count(Counter::RespBadLength), 1);
    let mut w = differing(512);
    w.hosts[0].post_send(A, READ, 0, 0, &[raddr_seg(DATA, KEY), data_seg(DATA, 2000, KEY)].concat());
    w.run();
    assert_eq!(outcomes(&mut w, 0), [(READ, BAD_RESPONSE)]);
}

#[test]
fn a_dead_peer_costs_all_retries() {
    for (retry, tries) in [(7, 8), (0, 1), (3, 4)] {
        let mut w = World::connected(InfiniBand, &Setup { retry, timeout: 1, ..Default::default() });
        w.lose = Some(|_, _| true);
        w.hosts[0].post_send(A, WRITE, 0, 0, &write_to(DATA, KEY, 8));
        w.hosts[0].post_send(A, NOP, 0, 0, &[]);
        w.run();
        assert_eq!(w.seen.len(), tries);
        assert_eq!(outcomes(&mut w, 0), [(WRITE, RETRIES_EXCEEDED), (NOP, FLUSHED)]);
        assert_eq!(w.hosts[0].count(Counter::LocalAckTimeoutErr), tries as u64);
        // 4.096 us * 2^1 each.
        assert!(w.hosts[0].bus.now >= Duration::from_nanos(8192) * tries as u32);
    }
}

#[test]
fn timeout_zero_waits_for_ever() {
    let mut w = World::connected(InfiniBand, &Setup { timeout: 0, ..Default::default() });
    w.lose = Some(|_, _| true);
    w.hosts[0].post_send(A, WRITE, 0, 0, &write_to(DATA, KEY, 8));
    w.run();
    assert_eq!((w.seen.len(), w.hosts[0].polls(0)), (1, vec![]));
}

#[test]
fn rnr_retries_end() {
    let mut w = World::connected(InfiniBand, &Setup { rnr_retry: 2, ..Default::default() });
    w.hosts[0].post_send(A, SEND, 0, 0, &data_seg(DATA, 8, KEY));
    w.run();
    assert_eq!(outcomes(&mut w, 0), [(SEND, RNR_RETRIES_EXCEEDED)]);
    assert_eq!(w.hosts[1].count(Counter::OutOfBuffer), 3);
    // 7 is for ever.
    let mut w = world();
    w.hosts[0].post_send(A, SEND, 0, 0, &data_seg(DATA, 8, KEY));
    w.run_until(Duration::from_millis(100));
    assert_eq!(w.hosts[0].polls(0), []);
    assert!(w.hosts[0].count(Counter::RnrNakReceived) > 100);
}

#[test]
fn error_flushes_both_queues_in_order_and_the_marker_last() {
    let mut w = world();
    w.lose = Some(|_, _| true);
    let mut posted = Vec::new();
    for _ in 0..5 {
        posted.push(w.hosts[0].post_send(A, WRITE, 0, 0, &write_to(DATA, KEY, 5000)));
    }
    let receives: Vec<u16> = (0..3).map(|_| w.hosts[0].post_recv(A, &[(DATA, 8, KEY)])).collect();
    w.run_until(Duration::from_micros(1));
    w.hosts[0].state(A, QpState::Error);
    w.run();
    posted.push(w.hosts[0].post_send(A, NOP, SIGNALED, 0, &[]));
    w.run();
    let wcs = w.hosts[0].polls(0);
    assert_eq!(wcs.iter().map(|wc| wc.counter).collect::<Vec<_>>(), posted);
    assert!(wcs.iter().all(|wc| wc.opcode == 13 && wc.syndrome == FLUSHED));
    let wcs = w.hosts[0].polls(1);
    assert_eq!(wcs.iter().map(|wc| wc.counter).collect::<Vec<_>>(), receives);
    assert!(wcs.iter().all(|wc| wc.opcode == 14 && wc.syndrome == FLUSHED));
    // No doorbell rings for a receive, and still it is flushed.
    let marker = w.hosts[0].post_recv(A, &[]);
    w.run();
    assert_eq!(w.hosts[0].polls(1).iter().map(|wc| (wc.counter, wc.syndrome)).collect::<Vec<_>>(), [(marker, FLUSHED)]);
    w.assert_clean();
}

#[test]
fn a_half_received_message_is_flushed_first() {
    let mut w = world();
    let receives: Vec<u16> = (0..2).map(|_| w.hosts[1].post_recv(B, &[(DATA, 5000, KEY)])).collect();
    // Everything but the first packet is lost.
    w.lose = Some(|from, frame| from == 0 && frame[8] != 0);
    w.hosts[0].post_send(A, SEND, 0, 0, &data_seg(DATA, 5000, KEY));
    w.run_until(Duration::from_micros(1));
    w.hosts[1].state(B, QpState::Error);
    w.run_until(Duration::from_micros(2));
    assert_eq!(w.hosts[1].polls(1).iter().map(|wc| wc.counter).collect::<Vec<_>>(), receives);
}

#[test]
fn doorbells_that_make_no_sense_are_violations() {
    let mut w = world();
    w.hosts[0].set_posted(A, 6, 65);
    crate::transport::doorbell(&mut w.hosts[0].hca, &mut w.hosts[0].bus, A, None);
    assert!(w.hosts[0].bus.violations[0].contains("65 blocks beyond 0"));
    w.hosts[1].set_posted(B, 2, 65);
    w.hosts[0].set_posted(A, 6, 0);
    w.hosts[0].post_send(A, SEND, 0, 0, &[]);
    w.run_until(Duration::from_micros(1));
    assert!(w.hosts[1].bus.violations[0].contains("65 WQEs beyond 0"));
    // A BlueFlame write of WQE 1, which the doorbell record does not count yet.
    let burst = [&[0, 0, 1, NOP, 0, 0, 0x41, 1][..], &[0; 56]].concat();
    crate::transport::doorbell(&mut w.hosts[0].hca, &mut w.hosts[0].bus, A, Some(&burst));
    assert!(w.hosts[0].bus.violations.pop().unwrap().contains("before the doorbell record counted it"));
    w.hosts[0].create_qp(0x77, &Setup::default());
    w.hosts[0].post_send(0x77, NOP, 0, 0, &[]);
    assert!(w.hosts[0].bus.violations[1].contains("state Init"));
}

#[test]
fn strangers_and_other_partitions_are_not_heard() {
    type Change = fn(&mut Host);
    let checks: [(Change, Counter); 5] = [
        (
            |host| {
                host.hca.port.pkeys[0] = 0x8001;
                host.state(B, QpState::SendQueueDrained);
            },
            Counter::PkeyViolation,
        ),
        (
            |host| {
                let ctx = &mut host.hca.qps.get_mut(&B).unwrap().ctx;
                ads::RLID.at(qpc::PRIMARY_ADDRESS_PATH).set(ctx, 9);
                host.state(B, QpState::SendQueueDrained); // takes the changed context over
            },
            Counter::WrongPeer,
        ),
        (|host| host.hca.port.lid = 77, Counter::WrongDestinationAddress),
        (|host| host.hca.port.state = crate::port::PortState::Init, Counter::PortNotActive),
        (|host| host.state(B, QpState::Reset), Counter::QpNotReady),
    ];
    for (change, counter) in checks {
        let mut w = World::connected(InfiniBand, &Setup { retry: 0, ..Default::default() });
        change(&mut w.hosts[1]);
        w.hosts[0].post_send(A, WRITE, 0, 0, &write_to(DATA, KEY, 8));
        w.run();
        assert_eq!(w.hosts[1].count(counter), 1, "{counter:?} {:?}", w.hosts[1].hca.transport.counters);
        assert_eq!(outcomes(&mut w, 0), [(WRITE, RETRIES_EXCEEDED)]);
    }
}
