//! A link that loses, doubles, reorders and damages frames: everything still happens exactly once.

use bareverbs_harness::model::LinkKind::{Ethernet, InfiniBand};

use super::world::*;
use crate::transport::Counter;

/// Sends, writes, reads and atomics, mixed; each message is checked by its bytes.
fn traffic(seed: u64, link: bareverbs_harness::model::LinkKind, faults: Faults) -> World {
    let setup = Setup { mtu: 512, timeout: 5, gid_index: 2, ..Default::default() };
    let mut w = World::connected(link, &setup);
    w.random = Random(seed);
    w.faults = faults;
    let mut random = Random(seed ^ 0xabcd);
    let (mut sends, mut added, mut posted) = (0u64, 0u64, Vec::new());
    const SLOT: u64 = 0x4000;
    w.hosts[1].put(DATA + 0x10_0000, &pattern(0x4000, 99));
    for n in 0..40u64 {
        let len = random.below(5000) as u32;
        let at = DATA + 0x20_0000 + n * SLOT;
        let (opcode, segments) = match random.below(5) {
            0 | 1 => {
                w.hosts[1].post_recv(B, &[(at, 5000, KEY)]);
                w.hosts[0].put(at, &pattern(len as usize, n));
                sends += 1;
                (SEND, data_seg(at, len.max(1), KEY).to_vec())
            }
            2 => {
                w.hosts[0].put(at, &pattern(len as usize, n));
                (WRITE, [raddr_seg(at, KEY), data_seg(at, len.max(1), KEY)].concat())
            }
            3 => (READ, [raddr_seg(DATA + 0x10_0000, KEY), data_seg(at, len.max(1), KEY)].concat()),
            _ => {
                added += n;
                (FETCH_ADD, [raddr_seg(DATA, KEY), atomic_seg(n, 0), data_seg(at, 8, KEY)].concat())
            }
        };
        w.hosts[0].post_send(A, opcode, SIGNALED, n as u32, &segments);
        posted.push((opcode, at, len, n));
        if n % 8 == 7 {
            w.run();
        }
    }
    w.run();
    w.assert_clean();
    let sent = w.hosts[0].polls(0);
    let opcodes: Vec<(u8, u8, u8)> = sent.iter().map(|wc| (wc.opcode, wc.syndrome, wc.send_opcode)).collect();
    let expected: Vec<(u8, u8, u8)> = posted.iter().map(|p| (0, 0, p.0)).collect();
    assert_eq!(opcodes, expected, "seed {seed}");
    assert_eq!(w.hosts[1].polls(1).len() as u64, sends, "seed {seed}");
    let total = u64::from_le_bytes(w.hosts[1].get(DATA, 8).try_into().unwrap());
    assert_eq!(total, added, "seed {seed}: atomics");
    let mut before = 0;
    for (opcode, at, len, n) in posted {
        match opcode {
            SEND | WRITE => assert_eq!(w.hosts[1].get(at, len as usize), pattern(len as usize, n), "seed {seed}"),
            READ => {
                let want = &pattern(0x4000, 99)[..len as usize];
                assert_eq!(w.hosts[0].get(at, len as usize), want, "seed {seed}");
            }
            _ => {
                let original = u64::from_le_bytes(w.hosts[0].get(at, 8).try_into().unwrap());
                assert_eq!(original, before, "seed {seed}: atomic {n}");
                before += n;
            }
        }
    }
    w
}

#[test]
fn a_good_link_needs_no_retries() {
    for seed in 1..20 {
        let w = traffic(seed, InfiniBand, Faults::default());
        for counter in [Counter::PacketsSentAgain, Counter::OutOfSequence, Counter::LocalAckTimeoutErr] {
            assert_eq!(w.hosts[0].count(counter) + w.hosts[1].count(counter), 0, "seed {seed}: {counter:?}");
        }
    }
}

#[test]
fn loss_is_made_good() {
    let mut again = 0;
    for seed in 1..60 {
        let w = traffic(seed, InfiniBand, Faults { lose: 12, ..Default::default() });
        again += w.hosts[0].count(Counter::PacketsSentAgain);
    }
    assert!(again > 0);
}

#[test]
fn doubles_are_told_apart() {
    let mut duplicates = 0;
    for seed in 1..40 {
        let w = traffic(seed, InfiniBand, Faults { double: 3, ..Default::default() });
        duplicates += w.hosts[1].count(Counter::DuplicateRequest);
    }
    assert!(duplicates > 0);
}

#[test]
fn order_is_restored() {
    let mut out_of_sequence = 0;
    for seed in 1..40 {
        let w = traffic(seed, InfiniBand, Faults { reorder: 10, ..Default::default() });
        out_of_sequence += w.hosts[1].count(Counter::OutOfSequence);
    }
    assert!(out_of_sequence > 0);
}

#[test]
fn damage_is_loss() {
    let mut damaged = 0;
    for seed in 1..40 {
        for link in [InfiniBand, Ethernet] {
            let w = traffic(seed, link, Faults { corrupt: 15, ..Default::default() });
            damaged += w.hosts.iter().map(|h| h.count(Counter::VcrcError) + h.count(Counter::IcrcError)).sum::<u64>();
        }
    }
    assert!(damaged > 0);
}

#[test]
fn all_of_it_at_once() {
    for seed in 1..60 {
        for link in [InfiniBand, Ethernet] {
            traffic(seed, link, Faults { lose: 25, double: 8, reorder: 12, corrupt: 40 });
        }
    }
}

/// One gap, one NAK; one rewind.
#[test]
fn one_lost_packet_costs_one_nak() {
    let mut w = World::connected(InfiniBand, &Setup { mtu: 256, psn: 0, ..Default::default() });
    w.lose = Some({
        static LOST: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        // The third packet of the message, once.
        |from, frame| from == 0 && frame[17..20] == [0, 0, 2] && !LOST.swap(true, std::sync::atomic::Ordering::Relaxed)
    });
    w.hosts[0].put(DATA, &pattern(20 * 256, 1));
    w.hosts[0].post_send(A, WRITE, SIGNALED, 0, &[raddr_seg(DATA, KEY), data_seg(DATA, 20 * 256, KEY)].concat());
    w.run();
    assert_eq!(w.hosts[0].polls(0)[0].opcode, 0);
    assert_eq!(w.hosts[1].get(DATA, 20 * 256), pattern(20 * 256, 1));
    assert_eq!((w.hosts[1].count(Counter::NaksSent), w.hosts[0].count(Counter::PacketSeqErr)), (1, 1));
    assert_eq!(w.hosts[0].count(Counter::LocalAckTimeoutErr), 0);
    // AETH: NAK, PSN sequence error; for PSN 2.
    let nak = w.seen.iter().find(|(from, frame)| *from == 1 && frame[20] == 0x60).unwrap();
    assert_eq!(nak.1[17..20], [0, 0, 2]);
}
