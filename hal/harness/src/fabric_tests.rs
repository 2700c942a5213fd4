use super::*;
use crate::clock::Clock;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

const IB: LinkKind = LinkKind::InfiniBand;
const ETHERNET: LinkKind = LinkKind::Ethernet;

struct Net {
    fabric: Fabric,
    time: Time,
    rng: Rand64,
}

impl Net {
    fn new(kinds: &[LinkKind]) -> Self {
        let mut fabric = Fabric::new(Duration::from_micros(1), Faults::NONE);
        for (function, kind) in kinds.iter().enumerate() {
            fabric.add(function, &[*kind]).unwrap();
        }
        Self { fabric, time: Time::new(Clock::Virtual), rng: Rand64::new(7) }
    }

    fn send(&mut self, from: usize, frame: &[u8]) {
        self.fabric.transmit(from, 0, frame.to_vec().into(), &self.time, &mut self.rng);
    }

    /// Lets all frames arrive: (function, frame).
    fn arrivals(&mut self) -> Vec<(usize, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some(due) = self.fabric.next_due() {
            self.time.jump(due);
            while let Some(a) = self.fabric.arrive(self.time.now()) {
                all.push((a.function, a.frame.into_bytes()));
            }
        }
        all
    }
}

/// A frame from station `from` to station `to`; 0xff is everybody.
fn ethernet(to: u8, from: u8) -> Vec<u8> {
    let mac = |n: u8| if n == 0xff { [0xff; 6] } else { [2, 0, 0, 0, 0, n] };
    [&mac(to)[..], &mac(from), &[0x08, 0x00, to, from]].concat()
}

#[test]
fn two_infiniband_ports_are_a_cable() {
    let mut n = Net::new(&[IB, ETHERNET, IB]);
    n.send(0, b"there");
    n.send(2, b"and back");
    assert_eq!(n.arrivals(), [(2, b"there".to_vec()), (0, b"and back".to_vec())]);
    let c = n.fabric.counters(0, 0).unwrap();
    assert_eq!((c.sent, c.sent_bytes, c.received, c.received_bytes), (1, 5, 1, 8));
}

#[test]
fn infiniband_ports_are_cabled_by_number_and_a_third_function_is_refused() {
    let mut f = Fabric::new(Duration::ZERO, Faults::NONE);
    f.add(0, &[IB, IB]).unwrap();
    assert!(!f.link_up(0, 0) && !f.link_up(0, 1), "a cable has two ends");
    f.add(1, &[IB]).unwrap();
    assert!(f.link_up(0, 0) && f.link_up(1, 0) && !f.link_up(0, 1));
    assert_eq!(f.add(2, &[IB]), Err(TooManyInfiniBandPorts));
}

#[test]
fn the_switch_floods_until_it_has_learnt() {
    let mut n = Net::new(&[ETHERNET, ETHERNET, IB, ETHERNET]);
    let to = |n: &mut Net| n.arrivals().into_iter().map(|a| a.0).collect::<Vec<_>>();
    n.send(0, &ethernet(1, 0));
    assert_eq!(to(&mut n), [1, 3], "unknown");
    n.send(1, &ethernet(0, 1));
    assert_eq!(to(&mut n), [0], "learnt from the first frame");
    n.send(3, &ethernet(1, 3));
    assert_eq!(to(&mut n), [1]);
    n.send(0, &ethernet(0xff, 0));
    assert_eq!(to(&mut n), [1, 3], "broadcast");
    n.send(3, &ethernet(1, 0));
    n.send(1, &ethernet(0, 1));
    assert_eq!(to(&mut n), [1, 3], "the station moved");
    n.send(3, &ethernet(0, 5));
    assert_eq!(to(&mut n), [] as [usize; 0], "not back to where it came from");
    n.send(0, &[1, 2, 3]);
    assert_eq!(to(&mut n), [] as [usize; 0]);
    assert_eq!(n.fabric.counters(0, 0).unwrap().malformed, 1);
}

#[test]
fn a_link_that_is_down_carries_nothing() {
    let mut n = Net::new(&[IB, IB]);
    n.send(0, b"under way");
    n.fabric.set_link(1, 0, false);
    assert!(!n.fabric.link_up(0, 0) && !n.fabric.link_up(1, 0), "both ends see it");
    n.send(0, b"too late");
    assert_eq!(n.arrivals(), []);
    n.fabric.set_link(1, 0, true);
    n.send(0, b"again");
    assert_eq!(n.arrivals().len(), 1);
    let (sender, receiver) = (n.fabric.counters(0, 0).unwrap(), n.fabric.counters(1, 0).unwrap());
    assert_eq!((sender.no_link, receiver.no_link, receiver.received), (1, 1, 1));
}

/// Sends numbered frames under one fault and tells which arrived, in order, and the sender's counters.
fn with(faults: Faults, frames: u32) -> (Vec<u32>, LinkCounters) {
    let mut n = Net::new(&[IB, IB]);
    n.fabric.set_faults(Some((0, 0)), faults);
    let mut got = Vec::new();
    for i in 0..frames {
        n.send(0, &i.to_be_bytes());
        n.time.advance(Duration::from_micros(2));
    }
    got.extend(n.arrivals().into_iter().map(|(_, f)| u32::from_be_bytes(f.try_into().unwrap())));
    (got, n.fabric.counters(0, 0).unwrap())
}

#[test]
fn faults_happen_as_often_as_asked_and_are_counted() {
    let all: Vec<u32> = (0..1000).collect();
    let near = |n: u64| assert!((50..150).contains(&n), "a tenth of 1000: {n}");
    assert_eq!(
        with(Faults::NONE, 1000),
        (all.clone(), LinkCounters { sent: 1000, sent_bytes: 4000, ..Default::default() })
    );

    let (got, c) = with(Faults { loss: 0.1, ..Faults::NONE }, 1000);
    near(c.lost);
    assert_eq!(got.len() as u64, 1000 - c.lost);
    assert!(got.is_sorted());

    let (got, c) = with(Faults { duplicate: 0.1, ..Faults::NONE }, 1000);
    near(c.duplicated);
    assert_eq!(got.len() as u64, 1000 + c.duplicated);

    let (mut got, c) = with(Faults { reorder: 0.1, ..Faults::NONE }, 1000);
    near(c.reordered);
    assert!(!got.is_sorted());
    got.sort();
    assert_eq!(got, all);

    let (got, c) = with(Faults { delay: 0.1, ..Faults::NONE }, 1000);
    near(c.delayed);
    assert_eq!(got, all, "a delay keeps the order");

    let (got, c) = with(Faults { corrupt: 0.1, ..Faults::NONE }, 1000);
    near(c.corrupted);
    let flips: Vec<u32> = got.iter().zip(&all).map(|(g, a)| (g ^ a).count_ones()).collect();
    assert_eq!(flips.iter().filter(|f| **f == 1).count() as u64, c.corrupted);
    assert!(flips.iter().all(|f| *f <= 1));

    assert_eq!(with(Faults { loss: 1.0, ..Faults::NONE }, 10).0, []);
}

#[test]
fn the_same_seed_makes_the_same_faults() {
    let faults = Faults { loss: 0.2, duplicate: 0.2, reorder: 0.2, delay: 0.2, corrupt: 0.2, ..Faults::NONE };
    assert_eq!(with(faults, 500), with(faults, 500));
}

#[test]
fn the_corruptor_damages_payloads() {
    let mut n = Net::new(&[IB, IB]);
    n.fabric.set_faults(None, Faults { corrupt_payload: 1.0, ..Faults::NONE });
    n.fabric.corruptor = Some(Box::new(|kind, frame, _| {
        assert_eq!(kind, IB);
        let data = frame[0] == b'd';
        frame[1] ^= u8::from(data);
        data
    }));
    n.send(0, b"d0");
    n.send(0, b"a0");
    assert_eq!(n.arrivals(), [(1, b"d1".to_vec()), (1, b"a0".to_vec())]);
    assert_eq!(n.fabric.counters(0, 0).unwrap().corrupted, 1, "it tells what it did");
}

#[test]
fn the_filter_sees_changes_and_drops() {
    let mut n = Net::new(&[IB, IB]);
    let seen = Arc::new(AtomicU64::new(0));
    let count = seen.clone();
    n.fabric.filter = Some(Box::new(move |info, frame| {
        assert_eq!((info.port, info.kind, info.index), (0, IB, count.fetch_add(1, Ordering::Relaxed)));
        frame.push(info.function as u8);
        if info.index == 1 { Verdict::Drop } else { Verdict::Pass }
    }));
    (0..3).for_each(|_| n.send(0, &[9]));
    assert_eq!(n.arrivals(), [(1, vec![9, 0]), (1, vec![9, 0])]);
    assert_eq!(seen.load(Ordering::Relaxed), 3);
    assert_eq!(n.fabric.counters(0, 0).unwrap().filtered, 1);
}

/// A frame whose checksum, its last byte, is the sum of the others.
fn open(bytes: &[u8]) -> Frame {
    Frame::open([bytes, &[0]].concat(), |bytes| {
        let (sum, data) = bytes.split_last_mut().unwrap();
        *sum = data.iter().sum();
    })
}

/// Sends an open frame and tells how it arrives: still open, and its bytes as they are.
fn arrives(prepare: impl FnOnce(&mut Fabric)) -> (bool, Vec<u8>) {
    let mut n = Net::new(&[IB, IB]);
    prepare(&mut n.fabric);
    n.fabric.transmit(0, 0, open(&[1, 2, 3]), &n.time, &mut n.rng);
    n.time.jump(n.fabric.next_due().unwrap());
    let frame = n.fabric.arrive(n.time.now()).unwrap().frame;
    (frame.is_open(), frame.as_sent().to_vec())
}

#[test]
fn a_frame_is_sealed_by_whoever_looks_or_touches() {
    assert_eq!(arrives(|_| ()), (true, vec![1, 2, 3, 0]), "nobody looks");
    let held_back = Faults { delay: 1.0, reorder: 1.0, duplicate: 1.0, ..Faults::NONE };
    assert_eq!(arrives(|f| f.set_faults(None, held_back)), (true, vec![1, 2, 3, 0]), "nobody touches");

    let sealed = (false, vec![1, 2, 3, 6]);
    let capture = |f: &mut Fabric| f.captures.push(Capture::new(IB, Box::new(std::io::sink())).unwrap());
    assert_eq!(arrives(capture), sealed);
    assert_eq!(arrives(|f| f.filter = Some(Box::new(|_, _| Verdict::Pass))), sealed);
    let corruptor = |f: &mut Fabric| {
        f.set_faults(None, Faults { corrupt_payload: 1.0, ..Faults::NONE });
        f.corruptor = Some(Box::new(|_, _, _| false));
    };
    assert_eq!(arrives(corruptor), sealed);
    let (open, bytes) = arrives(|f| f.set_faults(None, Faults { corrupt: 1.0, ..Faults::NONE }));
    let flipped: u32 = bytes.iter().zip(&sealed.1).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!((open, flipped), (false, 1), "sealed first, then damaged");
}

#[test]
fn an_injected_frame_arrives() {
    let mut n = Net::new(&[IB, IB]);
    n.fabric.inject(1, 0, Duration::from_micros(3), vec![1].into());
    assert_eq!(n.arrivals(), [(1, vec![1])]);
    assert_eq!(n.time.now(), Duration::from_micros(3));
}

#[test]
fn counters_print_faults_only_where_there_were_any() {
    let mut c = LinkCounters { sent: 2, sent_bytes: 20, received: 1, received_bytes: 10, ..Default::default() };
    assert_eq!(c.to_string(), "sent 2 (20 bytes), received 1 (10 bytes)");
    c.lost = 1;
    assert_eq!(c.to_string(), "sent 2 (20 bytes), received 1 (10 bytes), lost 1");
}
