//! Ethernet frames: executes the WQEs of send queues, lets frames that come in through the flow tables, spreads them
//! over receive queues. RoCE packets are not seen here: the [`transport`] takes them.

mod checksum;
mod headers;
mod receive;
mod rss;
mod segment;
mod send;
mod steering;

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use bareverbs_harness::model::{Bus, Frame, LinkKind, Step};
use bareverbs_mlx5_prm::{
    cmd::Status,
    cqe::{Cqe64, ErrCqe, Syndrome, op_own},
};
use zerocopy::{FromZeros, IntoBytes};

pub use headers::Headers;
use headers::{ethertype, protocol};

use crate::{
    hca::Hca,
    port::ROCE_UDP_PORT,
    refusal::{Outcome, Refused},
    registers,
    transport::{self, POLL},
};

/// What is kept for the whole port.
#[derive(Debug, Default)]
pub struct Ethernet {
    /// Frames that came in; own ones with the transport domain that sent them.
    rx: VecDeque<(Frame, Option<u32>)>,
    /// Send queues that may have something to do, each at most once.
    ready: VecDeque<u32>,
    /// Receive queues in error.
    failed: BTreeSet<u32>,
    /// When they are looked at next although nothing happens, and the pause before it.
    poll: Option<(Duration, Duration)>,
    /// Frames and send queues take turns.
    turn: bool,
    /// Frames that were dropped, by reason.
    pub dropped: Dropped,
}

/// Why frames were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Too short to be a frame.
    pub malformed: u64,
    /// No entry of the flow tables let them in.
    pub steering: u64,
    /// Longer than the port or the vport allows, on their way in.
    pub rx_too_long: u64,
    /// Longer than the port allows, on their way out.
    pub tx_too_long: u64,
    /// The port was down.
    pub port_down: u64,
    /// For another address.
    pub address: u64,
    /// The WQE had too little room.
    pub wqe_too_small: u64,
    /// The receive queue was not ready.
    pub queue_not_ready: u64,
}

impl Dropped {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Self { malformed, steering, rx_too_long, tx_too_long, port_down, address, wqe_too_small, queue_not_ready } =
            *self;
        malformed + steering + rx_too_long + tx_too_long + port_down + address + wqe_too_small + queue_not_ready
    }
}

/// Refuses on an InfiniBand port.
pub fn port(hca: &Hca) -> Outcome {
    match hca.config.link {
        LinkKind::Ethernet => Ok(()),
        LinkKind::InfiniBand => Err(Refused::quiet(Status::BadOperation, 0x12f0, "not an Ethernet port")),
    }
}

/// Takes a frame from the link, or leaves it to the RoCE transport.
pub fn receive(hca: &mut Hca, bus: &mut dyn Bus, port: u8, frame: Frame) {
    if hca.config.link == LinkKind::Ethernet {
        sort(hca, bus, frame, None);
    } else {
        transport::receive(hca, bus, port, frame);
    }
}

/// Sorts RoCE packets from other frames. `origin` is the transport domain that sent an own frame.
fn sort(hca: &mut Hca, bus: &mut dyn Bus, frame: Frame, origin: Option<u32>) {
    if is_roce(hca, frame.as_sent()) {
        hca.nic_vport.traffic.rx.count_rdma(frame.as_sent());
        transport::receive(hca, bus, 0, frame);
    } else {
        hca.ethernet.rx.push_back((frame, origin));
    }
}

/// Whether a frame is a RoCE packet: v1, or v2 where RoCE is on.
fn is_roce(hca: &Hca, frame: &[u8]) -> bool {
    let Some(headers) = Headers::parse(frame) else { return false };
    let v2 =
        || headers.protocol == protocol::UDP && headers.ports(frame).is_some_and(|(_, port)| port == ROCE_UDP_PORT);
    hca.port.roce_enabled && (headers.ethertype == ethertype::ROCE || v2())
}

/// A doorbell rang for a send queue.
pub fn doorbell(hca: &mut Hca, bus: &mut dyn Bus, sqn: u32) {
    send::doorbell(hca, bus, sqn);
}

/// Puts a send queue into the queue of those that have something to do.
pub fn schedule(hca: &mut Hca, sqn: u32) {
    let Some(sq) = hca.sqs.get_mut(&sqn) else { return };
    if !std::mem::replace(&mut sq.queued, true) {
        hca.ethernet.ready.push_back(sqn);
    }
}

/// A receive queue is in error: what is posted there has to be flushed.
pub fn rq_failed(hca: &mut Hca, bus: &mut dyn Bus, rqn: u32) {
    hca.ethernet.failed.insert(rqn);
    hca.ethernet.poll = Some((bus.now() + POLL.0, POLL.0));
}

/// When [`step`] has something to do though nothing happens from outside.
pub fn next_deadline(hca: &Hca) -> Option<Duration> {
    hca.ethernet.poll.map(|(at, _)| at)
}

/// Looks for receive WQEs that were posted to queues in error: their doorbell record is all that tells, as with QPs.
fn poll_failed(hca: &mut Hca, bus: &mut dyn Bus) -> bool {
    if hca.ethernet.failed.is_empty() {
        hca.ethernet.poll = None;
        return false;
    }
    let now = bus.now();
    if let Some((at, pause)) = hca.ethernet.poll
        && at <= now
    {
        let next = pause * 2;
        hca.ethernet.poll = (next <= POLL.1).then_some((now + next, next));
    }
    receive::flush(hca, bus)
}

/// Does one unit of work.
pub fn step(hca: &mut Hca, bus: &mut dyn Bus) -> Step {
    for _ in 0..2 {
        hca.ethernet.turn = !hca.ethernet.turn;
        let worked = if hca.ethernet.turn {
            hca.ethernet.rx.pop_front().is_some_and(|(mut frame, origin)| {
                receive::take(hca, bus, frame.bytes(), origin);
                true
            })
        } else {
            work(hca, bus)
        };
        if worked {
            return Step::Worked;
        }
    }
    if poll_failed(hca, bus) { Step::Worked } else { Step::Idle }
}

/// Lets the send queue whose turn it is execute one WQE.
fn work(hca: &mut Hca, bus: &mut dyn Bus) -> bool {
    while let Some(sqn) = hca.ethernet.ready.pop_front() {
        let Some(sq) = hca.sqs.get_mut(&sqn) else { continue };
        sq.queued = false;
        if send::execute(hca, bus, sqn) {
            schedule(hca, sqn);
            return true;
        }
    }
    false
}

/// A frame leaves: to the link, to the own port, or to both.
fn deliver(hca: &mut Hca, bus: &mut dyn Bus, frame: Frame, domain: u32) {
    let Some(headers) = Headers::parse(frame.as_sent()) else { return };
    hca.nic_vport.traffic.tx.count(frame.as_sent());
    if hca.nic_vport.comes_back(headers.dst) {
        sort(hca, bus, frame.clone(), Some(domain));
        if !headers.is_multicast() {
            return;
        }
    }
    if hca.port.state > crate::port::PortState::Down {
        hca.send(bus, frame);
    } else {
        hca.ethernet.dropped.port_down += 1;
    }
}

/// A completion with the time in it.
fn timestamped(bus: &dyn Bus) -> Cqe64 {
    let now = registers::ticks(bus.now());
    Cqe64 { timestamp_h: ((now >> 32) as u32).into(), timestamp_l: (now as u32).into(), ..Cqe64::new_zeroed() }
}

/// A completion in error.
fn failed(opcode: u8, syndrome: Syndrome, user_index: u32, opcode_qpn: u32, index: u16) -> [u8; 64] {
    let cqe = ErrCqe {
        srqn_uidx: user_index.into(),
        syndrome: syndrome.to_raw(),
        s_wqe_opcode_qpn: opcode_qpn.into(),
        wqe_counter: index.into(),
        op_own: opcode << op_own::OPCODE_SHIFT,
        ..ErrCqe::new_zeroed()
    };
    let mut bytes = [0; 64];
    bytes.copy_from_slice(cqe.as_bytes());
    bytes
}
