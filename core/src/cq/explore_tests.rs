//! Every sequence of steps of a small completion queue, up to a depth, against a plain list: the device writes entries
//! of two QPs, the consumer polls, and sweeps out one or the other QP's. The index begins at zero and just below 2^16,
//! 2^24 and 2^32.

use super::*;
use std::{
    collections::{HashSet, VecDeque},
    println,
    vec::Vec,
};

const DEPTH: u32 = 7;
const STEPS: usize = 5;

/// An entry: QP and number, and the owner bit.
type Entry = ((u8, u32), u8);

struct Ring {
    ring: Vec<Entry>,
    consumer: Consumer,
    producer: Consumer,
    list: VecDeque<(u8, u32)>,
    written: u32,
}

impl Ring {
    fn new(log: u32, start: u32) -> Self {
        let consumer = Consumer::at(log, start);
        // As a ring is that has been in use: each place holds the lap before's bit.
        let mut ring = std::vec![((0, 0), 0); 1 << log];
        for n in 0..1 << log {
            let at = consumer.plus(n);
            ring[at.slot() as usize].1 = at.owner() ^ 1;
        }
        Self { ring, consumer, producer: consumer, list: VecDeque::new(), written: 0 }
    }

    fn is_new(ring: &[Entry], at: Consumer) -> bool {
        ring[at.slot() as usize].1 == at.owner()
    }

    fn step(&mut self, step: usize) {
        match step {
            // The device writes, unless the ring is full.
            qp @ (0 | 1) if self.list.len() < self.ring.len() => {
                self.written += 1;
                let entry = (qp as u8, self.written);
                self.ring[self.producer.slot() as usize] = (entry, self.producer.owner());
                self.producer = self.producer.plus(1);
                self.list.push_back(entry);
            }
            0 | 1 => {}
            2 => {
                let entry = Self::is_new(&self.ring, self.consumer).then(|| self.ring[self.consumer.slot() as usize].0);
                assert_eq!(entry, self.list.pop_front());
                self.consumer = self.consumer.plus(entry.is_some().into());
            }
            qp => {
                let gone = qp as u8 - 3;
                let mut swept = 0;
                self.consumer = self.consumer.sweep(
                    &mut self.ring,
                    |ring, at| Self::is_new(ring, at),
                    |ring, at| {
                        let goes = ring[at.slot() as usize].0.0 == gone;
                        swept += u32::from(goes);
                        goes
                    },
                    |ring, from, to| ring[to.slot() as usize] = (ring[from.slot() as usize].0, to.owner()),
                );
                let before = self.list.len();
                self.list.retain(|entry| entry.0 != gone);
                assert_eq!(swept as usize, before - self.list.len());
            }
        }
        let unpolled = self.producer.index().wrapping_sub(self.consumer.index());
        assert_eq!(unpolled as usize, self.list.len());
        for (n, entry) in (0..).zip(&self.list) {
            let at = self.consumer.plus(n);
            assert_eq!(self.ring[at.slot() as usize], (*entry, at.owner()), "entry {n} of {:?}", self.list);
        }
    }
}

#[test]
fn every_order_of_writing_polling_and_sweeping() {
    for log in [0, 1, 2] {
        for start in [0, 0xffff, 0xff_ffff, u32::MAX] {
            let mut states = HashSet::new();
            let sequences = STEPS.pow(DEPTH);
            for mut sequence in 0..sequences {
                let mut ring = Ring::new(log, start);
                for _ in 0..DEPTH {
                    ring.step(sequence % STEPS);
                    sequence /= STEPS;
                }
                let qps: Vec<u8> = ring.list.iter().map(|e| e.0).collect();
                states.insert((ring.consumer.index(), ring.producer.index(), qps));
            }
            println!(
                "CQ of {} from {start:#x}: {sequences} sequences of {DEPTH} steps, {} states",
                1 << log,
                states.len()
            );
            assert!(states.len() > 10);
        }
    }
}
