//! Two hosts and the link between them, which can lose, double, reorder and damage frames.

use std::time::Duration;

use bareverbs_harness::model::{DeviceModel, LinkKind, Step};

pub use super::rig::*;
use crate::HcaConfig;

/// How a QP is reached.
#[derive(Clone, Copy)]
pub struct Peer {
    pub qpn: u32,
    pub psn: u32,
    pub lid: u16,
    pub mac: [u8; 6],
    pub gid: [u8; 16],
}

pub fn data_seg(addr: u64, len: u32, key: u32) -> [u8; 16] {
    let mut seg = [0; 16];
    seg[..4].copy_from_slice(&len.to_be_bytes());
    seg[4..8].copy_from_slice(&key.to_be_bytes());
    seg[8..].copy_from_slice(&addr.to_be_bytes());
    seg
}

pub fn raddr_seg(addr: u64, key: u32) -> [u8; 16] {
    let mut seg = [0; 16];
    seg[..8].copy_from_slice(&addr.to_be_bytes());
    seg[8..12].copy_from_slice(&key.to_be_bytes());
    seg
}

pub fn atomic_seg(swap_add: u64, compare: u64) -> [u8; 16] {
    let mut seg = [0; 16];
    seg[..8].copy_from_slice(&swap_add.to_be_bytes());
    seg[8..].copy_from_slice(&compare.to_be_bytes());
    seg
}

/// A small random generator (xorshift64*), so that a seed says everything.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        n != 0 && self.next().is_multiple_of(n)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// What goes wrong on the link: once in so many frames, 0 is never.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub lose: u64,
    pub double: u64,
    pub reorder: u64,
    pub corrupt: u64,
}

/// Two hosts and a cable.
pub struct World {
    pub hosts: [Host; 2],
    pub random: Random,
    pub faults: Faults,
    /// Frames that a test wants lost: tells by sender and bytes.
    pub lose: Option<fn(usize, &[u8]) -> bool>,
    /// All frames that were on the cable, with their sender.
    pub seen: Vec<(usize, Vec<u8>)>,
}

impl World {
    pub fn new(link: LinkKind) -> Self {
        let config = |n| if link == LinkKind::Ethernet { HcaConfig::ethernet(n) } else { HcaConfig::infiniband(n) };
        Self {
            hosts: [Host::new(config(1)), Host::new(config(2))],
            random: Random(1),
            faults: Faults::default(),
            lose: None,
            seen: Vec::new(),
        }
    }

    /// Two hosts with a connected QP each: 0x41 on host 0, 0x42 on host 1.
    pub fn connected(link: LinkKind, setup: &Setup) -> Self {
        let mut world = Self::new(link);
        let qpns = [0x41, 0x42];
        for (host, qpn) in world.hosts.iter_mut().zip(qpns) {
            host.create_qp(qpn, setup);
        }
        let peers = [world.hosts[1].peer(qpns[1], setup), world.hosts[0].peer(qpns[0], setup)];
        for ((host, qpn), peer) in world.hosts.iter_mut().zip(qpns).zip(peers) {
            host.connect(qpn, setup, &peer);
        }
        world
    }

    /// Runs until nothing is left to do but wait for a timer later than `until`.
    pub fn run_until(&mut self, until: Duration) {
        for _ in 0..2_000_000 {
            let first = (self.random.next() & 1) as usize;
            if self.one_step(first) || self.one_step(1 - first) {
                continue;
            }
            let next = self.hosts.iter().filter_map(|host| host.hca.next_deadline()).min();
            match next {
                Some(at) if at <= until => {
                    for host in &mut self.hosts {
                        host.bus.now = host.bus.now.max(at);
                    }
                }
                _ => return,
            }
        }
        panic!("the world does not come to rest");
    }

    /// Runs until nothing is left to do.
    pub fn run(&mut self) {
        self.run_until(Duration::MAX);
    }

    fn one_step(&mut self, n: usize) -> bool {
        let mut any = self.carry(n);
        let host = &mut self.hosts[n];
        if let Some(frame) = host.inbox.pop_front() {
            host.hca.receive(&mut host.bus, 0, frame);
            any = true;
        }
        host.hca.step(&mut host.bus) == Step::Worked || any
    }

    /// Takes the frames that a host sent to the other one's inbox.
    fn carry(&mut self, n: usize) -> bool {
        let mut any = false;
        while let Some(mut frame) = self.hosts[n].bus.out.pop_front() {
            any = true;
            self.seen.push((n, frame.clone().into_bytes()));
            if self.lose.is_some_and(|lose| lose(n, frame.as_sent())) || self.random.one_in(self.faults.lose) {
                continue;
            }
            if self.random.one_in(self.faults.corrupt) {
                let at = self.random.below(frame.len() as u64) as usize;
                frame.bytes_mut()[at] ^= 1 << self.random.below(8);
            }
            let inbox = &mut self.hosts[1 - n].inbox;
            if self.random.one_in(self.faults.double) {
                inbox.push_back(frame.clone());
            }
            if self.random.one_in(self.faults.reorder) && !inbox.is_empty() {
                let at = self.random.below(inbox.len() as u64) as usize;
                inbox.insert(at, frame);
            } else {
                inbox.push_back(frame);
            }
        }
        any
    }

    /// Nobody complained about the driver.
    pub fn assert_clean(&self) {
        for host in &self.hosts {
            assert!(host.bus.violations.is_empty(), "{:?}", host.bus.violations);
        }
    }
}

/// The QPs of [`World::connected`].
pub const A: u32 = 0x41;
pub const B: u32 = 0x42;
/// Control byte of a signaled WQE.
pub const SIGNALED: u8 = 0x08;
/// Send opcodes of the PRM.
pub const NOP: u8 = 0x00;
pub const SEND_INVAL: u8 = 0x01;
pub const WRITE: u8 = 0x08;
pub const WRITE_IMM: u8 = 0x09;
pub const SEND: u8 = 0x0a;
pub const SEND_IMM: u8 = 0x0b;
pub const READ: u8 = 0x10;
pub const COMPARE_SWAP: u8 = 0x11;
pub const FETCH_ADD: u8 = 0x12;

/// Bytes of a test message, different enough to tell an offset by.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed * 2 + 1);
    (0..len).map(|_| (random.next() >> 32) as u8).collect()
}
