//! Every order of the steps of a small completion queue, up to a depth, against a plain list: the device writes entries
//! of two QPs, the consumer polls, and sweeps out one or the other QP's. The
//! index begins at zero and just below 2^16, 2^24 and 2^32.

use super::*;
use bareverbs_explore::{Machine, STARTS, explore, wraps};
use std::{collections::VecDeque, format, vec::Vec};

const DEPTH: usize = 16;
const STEPS: usize = 5;

/// An entry: QP and number, and the owner bit.
type Entry = ((u8, u32), u8);

struct Ring {
    ring: Vec<Entry>,
    consumer: Consumer,
    producer: Consumer,
    list: VecDeque<(u8, u32)>,
    written: u32,
    start: u32,
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
        Self { ring, consumer, producer: consumer, list: VecDeque::new(), written: 0, start }
    }

    fn is_new(ring: &[Entry], at: Consumer) -> bool {
        ring[at.slot() as usize].1 == at.owner()
    }
}

impl Machine for Ring {
    /// Both indices, and the QP and bit in each place; the numbers of entries are only names.
    type State = (u32, u32, Vec<(u8, u8)>);

    fn step(&mut self, step: usize) -> bool {
        match step {
            // The device writes, unless the ring is full.
            qp @ (0 | 1) => {
                if self.list.len() == self.ring.len() {
                    return false;
                }
                self.written += 1;
                let entry = (qp as u8, self.written);
                self.ring[self.producer.slot() as usize] = (entry, self.producer.owner());
                self.producer = self.producer.plus(1);
                self.list.push_back(entry);
            }
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
        if self.list.len() < self.ring.len() {
            let behind = self.consumer.plus(self.list.len() as u32);
            assert!(!Self::is_new(&self.ring, behind), "nothing lies behind {:?}", self.list);
        }
        true
    }

    fn state(&self) -> Self::State {
        let places = self.ring.iter().map(|((qp, _), owner)| (*qp, *owner)).collect();
        (self.consumer.index(), self.producer.index(), places)
    }

    fn wraps(&self) -> usize {
        wraps(self.start, self.consumer.index())
    }
}

#[test]
fn every_order_of_writing_polling_and_sweeping() {
    for (log, states, wrapped) in [(0, 33, 26), (1, 121, 104), (2, 819, 742), (3, 17651, 16374)] {
        for start in STARTS {
            let explored = explore(STEPS, DEPTH, || Ring::new(log, start));
            explored.recorded(
                &format!("CQ of {} from {start:#x}", 1 << log),
                states,
                if start == 0 { 0 } else { wrapped },
            );
        }
    }
}
