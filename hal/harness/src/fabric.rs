//! The links between the ports: a cable between two InfiniBand ports, a learning switch for Ethernet ports.

use crate::{
    clock::Time,
    faults::{Corruptor, Faults},
    model::{Frame, LinkKind},
    pcap::Capture,
};
use oorandom::Rand64;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    fmt,
    time::Duration,
};

/// What happened on one port's link, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Handed to the link by the port.
    pub sent: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// Handed to the port by the link.
    pub received: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Sent while the link was down or had no other end.
    pub no_link: u64,
    /// Dropped by the filter.
    pub filtered: u64,
    /// Lost by a fault.
    pub lost: u64,
    /// Sent twice by a fault.
    pub duplicated: u64,
    /// Overtaken by a fault.
    pub reordered: u64,
    /// Held back by a fault.
    pub delayed: u64,
    /// Damaged by a fault.
    pub corrupted: u64,
    /// Too short to have a destination.
    pub malformed: u64,
}

impl fmt::Display for LinkCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sent {} ({} bytes), received {} ({} bytes)", self.sent, self.sent_bytes, self.received, {
            self.received_bytes
        })?;
        let rest = [
            ("no link", self.no_link),
            ("filtered", self.filtered),
            ("lost", self.lost),
            ("duplicated", self.duplicated),
            ("reordered", self.reordered),
            ("delayed", self.delayed),
            ("corrupted", self.corrupted),
            ("malformed", self.malformed),
        ];
        rest.into_iter().filter(|(_, n)| *n > 0).try_for_each(|(what, n)| write!(f, ", {what} {n}"))
    }
}

/// Where and when a frame was sent, for a [`PacketFilter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// Function that sent it, in the order of plugging.
    pub function: usize,
    /// Its port.
    pub port: u8,
    /// What the link carries.
    pub kind: LinkKind,
    /// The port's number of frames before this one.
    pub index: u64,
    /// The world's time.
    pub at: Duration,
}

/// What a [`PacketFilter`] wants done with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Sent on, as it is now.
    Pass,
    /// Dropped.
    Drop,
}

/// Sees every frame as it enters the fabric, before faults; may change or drop it. Must not call into the world.
pub type PacketFilter = Box<dyn FnMut(&FrameInfo, &mut Vec<u8>) -> Verdict + Send>;

/// Why a port could not be linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyInfiniBandPorts;

impl fmt::Display for TooManyInfiniBandPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("two InfiniBand functions are a cable; more need a switch with its own management agent")
    }
}

impl std::error::Error for TooManyInfiniBandPorts {}

struct Port {
    function: usize,
    number: u8,
    kind: LinkKind,
    up: bool,
    /// The other end of an InfiniBand cable.
    peer: Option<usize>,
    /// When the last frame that keeps its order arrives at the other end.
    last_due: Duration,
    faults: Faults,
    counters: LinkCounters,
}

/// A frame on its way.
struct InFlight {
    due: Duration,
    order: u64,
    to: usize,
    frame: Frame,
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for InFlight {}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}

/// A frame that has arrived.
pub(crate) struct Arrival {
    pub(crate) function: usize,
    pub(crate) port: u8,
    pub(crate) frame: Frame,
}

/// All links.
pub(crate) struct Fabric {
    ports: Vec<Port>,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    order: u64,
    /// Which Ethernet port a MAC address was last seen on.
    stations: BTreeMap<[u8; 6], usize>,
    pub(crate) latency: Duration,
    pub(crate) faults: Faults,
    pub(crate) corruptor: Option<Corruptor>,
    pub(crate) filter: Option<PacketFilter>,
    pub(crate) captures: Vec<Capture>,
}

impl Fabric {
    pub(crate) fn new(latency: Duration, faults: Faults) -> Self {
        Self {
            ports: Vec::new(),
            in_flight: BinaryHeap::new(),
            order: 0,
            stations: BTreeMap::new(),
            latency,
            faults,
            corruptor: None,
            filter: None,
            captures: Vec::new(),
        }
    }

    /// Links a new function's ports. An InfiniBand port is cabled to the same port of the other function.
    pub(crate) fn add(&mut self, function: usize, kinds: &[LinkKind]) -> Result<(), TooManyInfiniBandPorts> {
        for (number, kind) in kinds.iter().enumerate() {
            let index = self.ports.len();
            let mut peer = None;
            if *kind == LinkKind::InfiniBand {
                let same = |p: &Port| p.kind == *kind && p.function != function && p.number as usize == number;
                peer = self.ports.iter().position(|p| same(p) && p.peer.is_none());
                if peer.is_none() && self.ports.iter().any(same) {
                    return Err(TooManyInfiniBandPorts);
                }
            }
            if let Some(p) = peer {
                self.ports[p].peer = Some(index);
            }
            self.ports.push(Port {
                function,
                number: number as u8,
                kind: *kind,
                up: true,
                peer,
                last_due: Duration::ZERO,
                faults: self.faults,
                counters: LinkCounters::default(),
            });
        }
        Ok(())
    }

    fn index(&self, function: usize, port: u8) -> Option<usize> {
        self.ports.iter().position(|p| p.function == function && p.number == port)
    }

    pub(crate) fn counters(&self, function: usize, port: u8) -> Option<LinkCounters> {
        self.index(function, port).map(|i| self.ports[i].counters)
    }

    pub(crate) fn all_counters(&self) -> impl Iterator<Item = (usize, u8, LinkCounters)> + '_ {
        self.ports.iter().map(|p| (p.function, p.number, p.counters))
    }

    pub(crate) fn set_faults(&mut self, function: Option<(usize, u8)>, faults: Faults) {
        match function {
            None => {
                self.faults = faults;
                self.ports.iter_mut().for_each(|p| p.faults = faults);
            }
            Some((f, n)) => {
                self.ports.iter_mut().filter(|p| p.function == f && p.number == n).for_each(|p| p.faults = faults);
            }
        }
    }

    /// Takes a link down (frames on their way to it are lost) or up.
    pub(crate) fn set_link(&mut self, function: usize, port: u8, up: bool) {
        let Some(i) = self.index(function, port) else { return };
        self.ports[i].up = up;
    }

    /// Whether the port's link is up and has another end.
    pub(crate) fn link_up(&self, function: usize, port: u8) -> bool {
        self.index(function, port).is_some_and(|i| self.port_up(i))
    }

    fn port_up(&self, i: usize) -> bool {
        let p = &self.ports[i];
        p.up && match p.kind {
            LinkKind::Ethernet => true,
            LinkKind::InfiniBand => p.peer.is_some_and(|q| self.ports[q].up),
        }
    }

    /// Takes a frame from a port.
    pub(crate) fn transmit(&mut self, function: usize, port: u8, mut frame: Frame, time: &Time, rng: &mut Rand64) {
        let Some(from) = self.index(function, port) else { return };
        let now = time.now();
        let kind = self.ports[from].kind;
        if !self.port_up(from) {
            self.ports[from].counters.no_link += 1;
            return;
        }
        for c in self.captures.iter_mut().filter(|c| c.kind() == kind) {
            c.record(now, from, frame.bytes());
        }
        let counters = &mut self.ports[from].counters;
        let info = FrameInfo { function, port, kind, index: counters.sent, at: now };
        counters.sent += 1;
        counters.sent_bytes += frame.len() as u64;
        if let Some(filter) = &mut self.filter
            && filter(&info, frame.bytes_mut()) == Verdict::Drop
        {
            counters.filtered += 1;
            return;
        }
        let faults = self.ports[from].faults;
        let counters = &mut self.ports[from].counters;
        if faults.hits(faults.loss, rng) {
            counters.lost += 1;
            return;
        }
        if faults.hits(faults.corrupt, rng) && !frame.is_empty() {
            counters.corrupted += 1;
            let at = rng.rand_range(0..frame.len() as u64) as usize;
            frame.bytes_mut()[at] ^= 1 << rng.rand_range(0..8);
        }
        if faults.hits(faults.corrupt_payload, rng)
            && let Some(corruptor) = &mut self.corruptor
        {
            counters.corrupted += u64::from(corruptor(kind, frame.bytes_mut(), rng.rand_u64()));
        }
        let mut due = now + self.latency;
        let mut in_order = true;
        if faults.hits(faults.delay, rng) {
            counters.delayed += 1;
            due += faults.delay_by;
        }
        if faults.hits(faults.reorder, rng) {
            // It stands back while the frames behind it keep their time.
            counters.reordered += 1;
            due += faults.reorder_by;
            in_order = false;
        }
        if in_order {
            due = due.max(self.ports[from].last_due);
            self.ports[from].last_due = due;
        }
        if faults.hits(faults.duplicate, rng) {
            self.ports[from].counters.duplicated += 1;
            self.route(from, due, frame.clone());
        }
        self.route(from, due, frame);
    }

    fn route(&mut self, from: usize, due: Duration, frame: Frame) {
        if self.ports[from].kind == LinkKind::InfiniBand {
            if let Some(to) = self.ports[from].peer {
                self.launch(due, to, frame);
            }
            return;
        }
        let headers = frame.as_sent();
        let (Some(&destination), Some(&source)) =
            (headers.first_chunk::<6>(), headers.get(6..).and_then(|f| f.first_chunk()))
        else {
            self.ports[from].counters.malformed += 1;
            return;
        };
        let multicast = |mac: [u8; 6]| mac[0] & 1 != 0;
        if !multicast(source) {
            self.stations.insert(source, from);
        }
        match self.stations.get(&destination).filter(|_| !multicast(destination)) {
            // A switch does not send a frame back where it came from.
            Some(&to) if to == from => {}
            Some(&to) => self.launch(due, to, frame),
            None => {
                for to in 0..self.ports.len() {
                    if to != from && self.ports[to].kind == LinkKind::Ethernet {
                        self.launch(due, to, frame.clone());
                    }
                }
            }
        }
    }

    /// Puts a frame on its way to a port.
    pub(crate) fn inject(&mut self, function: usize, port: u8, due: Duration, frame: Frame) {
        if let Some(to) = self.index(function, port) {
            self.launch(due, to, frame);
        }
    }

    fn launch(&mut self, due: Duration, to: usize, frame: Frame) {
        self.order += 1;
        self.in_flight.push(Reverse(InFlight { due, order: self.order, to, frame }));
    }

    /// When the next frame arrives.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.in_flight.peek().map(|f| f.0.due)
    }

    /// The next frame that has arrived by `now`.
    pub(crate) fn arrive(&mut self, now: Duration) -> Option<Arrival> {
        while self.next_due().is_some_and(|due| due <= now) {
            let Reverse(InFlight { to, frame, .. }) = self.in_flight.pop()?;
            let up = self.port_up(to);
            let port = &mut self.ports[to];
            if !up {
                port.counters.no_link += 1;
                continue;
            }
            port.counters.received += 1;
            port.counters.received_bytes += frame.len() as u64;
            return Some(Arrival { function: port.function, port: port.number, frame });
        }
        None
    }
}

#[cfg(test)]
#[path = "fabric_tests.rs"]
mod tests;
