//! Work queues and packets: executes WQEs, builds and takes packets, keeps PSNs and timers.
//!
//! The rest of the model calls the functions of this page. They may call:
//!
//! - `hca.qps`, [`Qp`](crate::qp::Qp): `qp.get(qpc::X)`, `qp.path(ads::X)`, `qp.mtu()`, `qp.read_dbr(bus)`,
//!   `qp.sq.memory.read(bus, offset, buf)` (wraps around), `qp.rq`, `qp.transport` (own state);
//! - `hca.translate(key, KeyUser { pd, qpn }, va, len, access)`: bus segments or a [`KeyFault`](crate::mr::KeyFault);
//!   then `bus.read` and `bus.write` (count their faults with `hca.dma_fault(bus, fault, what)`);
//! - `hca.take_srq(bus, srqn)`: the next receive WQE of an SRQ (its limit event is raised in there);
//! - `hca.push_cqe(bus, cqn, &cqe, solicited)`: writes a CQE whose owner bit it sets itself, raises the event if armed;
//! - `hca.event(bus, Event::...)`: an asynchronous event;
//! - `hca.set_qp_state(bus, qpn, QpState::Error)`: a state change that the transport itself finds necessary; calls
//!   [`state_changed`] as commands do;
//! - `hca.port` (state, LID, GIDs, P_Keys, RoCE addresses), `hca.special_qp(0 | 1)`: the QP that takes QP0's or QP1's
//!   packets;
//! - `hca.send(bus, frame)`: hands a frame to the link (counted);
//! - `hca.violation(bus, format_args!(...))`: a driver's mistake that only the transport sees (a malformed WQE).

mod answers;
mod completion;
mod counters;
mod data;
mod datagram;
mod flow;
mod flush;
mod packet;
mod psn;
mod recv;
mod requester;
mod respond;
mod responder;
mod timers;
mod umr;
mod wqe;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use bareverbs::wire::{self, frame::Route, opcode::Transport as WireTransport};
use bareverbs_harness::model::{Bus, Frame, LinkKind, Step};

pub use counters::{Counter, Counters};
use flow::Flow;
use packet::{Path, To};
pub use psn::Psn;
pub(crate) use {
    data::{gather, len as pieces_len, scatter},
    recv::pieces,
    wqe::Piece,
};

use crate::{
    eq::Event,
    hca::Hca,
    port::PortState,
    q_counter,
    qp::{QpState, ReceiveFrom, Service, qpc},
    sma,
};

/// First and longest pause between two looks at the receive doorbell records of QPs in error.
pub const POLL: (Duration, Duration) = (Duration::from_micros(50), Duration::from_secs(2));

/// WQEs that BlueFlame brought and that are remembered at a time.
const BROUGHT: usize = 64;

/// What the transport keeps for the whole device.
#[derive(Debug, Default)]
pub struct Transport {
    /// What happened to packets.
    pub counters: Counters,
    /// Frames that came in, from the link or from this very port.
    rx: VecDeque<Frame>,
    /// QPs that may have something to do, each at most once.
    ready: VecDeque<u32>,
    timers: timers::Timers,
    /// Frames and QPs take turns.
    turn: bool,
    /// QPs in error with a receive queue of their own: what is posted there must be flushed though no doorbell rings.
    in_error: BTreeSet<u32>,
    /// When to look at those, and how long to pause then.
    poll: Option<(Duration, Duration)>,
}

/// What the transport keeps for a QP; `Default` is the RESET state.
#[derive(Clone, Debug, Default)]
pub struct QpTransport {
    flow: Option<Box<Flow>>,
    /// The flow is being worked on and will be put back.
    away: bool,
}

/// A doorbell rang for the QP: its doorbell record may have moved. `wqe` is what a BlueFlame write brought, if it did; the
/// WQE is read from the queue all the same (Linux's write-combining probe lets the two differ, so that is allowed).
pub fn doorbell(hca: &mut Hca, bus: &mut dyn Bus, qpn: u32, wqe: Option<&[u8]>) {
    let Some(qp) = hca.qps.get_mut(&qpn) else { return };
    match qp.state {
        // A doorbell that rang before the command that reset the QP may be worked on after it.
        QpState::Reset => return,
        state @ (QpState::Init | QpState::ReadyToReceive) => {
            return hca.violation(bus, format_args!("QP {qpn:#x}: send doorbell in state {state:?}"));
        }
        _ => {}
    }
    let producer = match qp.read_dbr(bus) {
        Ok((_, producer)) => producer,
        Err(fault) => {
            return hca.dma_fault(bus, fault, format_args!("reading the doorbell record of QP {qpn:#x}"));
        }
    };
    if let Some(&[_, high, low, ..]) = wqe
        && u16::from_be_bytes([high, low]).wrapping_sub(producer) < 0x8000
    {
        let index = u16::from_be_bytes([high, low]);
        let why = format_args!("QP {qpn:#x}: BlueFlame write of WQE {index} before the doorbell record counted it");
        return hca.violation(bus, why);
    }
    // Blocks are free again when their WQE has completed.
    let oldest = match qp.transport.flow.as_ref().and_then(|flow| flow.requester.ops.front()) {
        Some(op) => op.wqe.index,
        None => qp.sq.consumer,
    };
    let (posted, blocks) = (producer.wrapping_sub(oldest), qp.sq.blocks);
    if u32::from(posted) > blocks {
        return hca.violation(
            bus,
            format_args!(
                "QP {qpn:#x}: the send doorbell record says {producer}, {posted} blocks beyond {oldest} in a queue of {blocks}"
            ),
        );
    }
    qp.sq.producer = producer;
    if let Some(&[_, high, low, _, _, _, _, _, _, _, _, flags, ..]) = wqe {
        qp.sq.brought.truncate(BROUGHT - 1);
        qp.sq.brought.push_back((u16::from_be_bytes([high, low]), flags));
    }
    schedule(hca, qpn);
}

/// A frame came in; only queue it.
pub fn receive(hca: &mut Hca, _bus: &mut dyn Bus, _port: u8, frame: Frame) {
    hca.transport.rx.push_back(frame);
}

/// Does one unit of work.
pub fn step(hca: &mut Hca, bus: &mut dyn Bus) -> Step {
    let timer = match hca.transport.timers.next() {
        Some(_) => hca.transport.timers.expired(bus.now()),
        None => None,
    };
    if let Some(qpn) = timer {
        with_flow(hca, bus, qpn, answers::timer);
        return Step::Worked;
    }
    for _ in 0..2 {
        hca.transport.turn = !hca.transport.turn;
        let worked = if hca.transport.turn {
            hca.transport.rx.pop_front().is_some_and(|frame| {
                take_frame(hca, bus, &frame);
                true
            })
        } else {
            work(hca, bus)
        };
        if worked {
            return Step::Worked;
        }
    }
    if poll_in_error(hca, bus) { Step::Worked } else { Step::Idle }
}

/// When [`step`] has something to do though nothing happens from outside.
pub fn next_deadline(hca: &Hca) -> Option<Duration> {
    let poll = hca.transport.poll.map(|(at, _)| at);
    hca.transport.timers.next().into_iter().chain(poll).min()
}

/// The QP's state or context changed: `Error` flushes, `Reset` drops everything, `ReadyToReceive` and `ReadyToSend` take
/// the PSNs from the context.
pub fn state_changed(hca: &mut Hca, bus: &mut dyn Bus, qpn: u32, old: QpState, new: QpState) {
    let Some(qp) = hca.qps.get_mut(&qpn) else { return };
    if qp.transport.away {
        return; // the transport itself changed it
    }
    if new == QpState::Reset {
        qp.transport.flow = None;
        (qp.sq.consumer, qp.sq.producer, qp.rq.consumer) = (0, 0, 0);
        qp.sq.brought.clear();
        hca.transport.timers.set(qpn, None);
        hca.transport.in_error.remove(&qpn);
        return;
    }
    if qp.transport.flow.is_none() {
        let Some(qp) = hca.qps.get(&qpn) else { return };
        let flow = Box::new(Flow::new(hca, qp));
        if let Some(qp) = hca.qps.get_mut(&qpn) {
            qp.transport.flow = Some(flow);
        }
    }
    with_flow(hca, bus, qpn, |hca, bus, flow| {
        if (old, new) == (QpState::SendQueueError, QpState::ReadyToSend) {
            flush::sends(hca, bus, flow);
        }
        if let Some(qp) = hca.qps.get(&flow.qpn) {
            flow.configure(hca, qp);
            match (old, new) {
                (QpState::Init, QpState::ReadyToReceive) => flow.start_receiving(qp),
                (QpState::ReadyToReceive, QpState::ReadyToSend) => flow.start_sending(qp),
                _ => {}
            }
        }
        match new {
            QpState::Error => {
                flow.responder.answers.clear();
                entered_error(hca, bus, flow);
            }
            QpState::SendQueueDrained if old != new && flow.requester.ops.is_empty() => {
                hca.event(bus, Event::SendQueueDrained(flow.qpn));
            }
            _ => {}
        }
    });
}

/// Writes into a copy of the QP context what the transport knows better: next PSNs, counters.
pub fn fill_context(hca: &Hca, qpn: u32, ctx: &mut [u8]) {
    let Some(flow) = hca.qps.get(&qpn).and_then(|qp| qp.transport.flow.as_ref()) else { return };
    if flow.state as u32 >= QpState::ReadyToReceive as u32 {
        qpc::NEXT_RCV_PSN.set(ctx, flow.responder.expected.get());
    }
    if flow.state as u32 >= QpState::ReadyToSend as u32 {
        qpc::NEXT_SEND_PSN.set(ctx, flow.requester.free.get());
    }
}

/// Puts a QP into the queue of those that have something to do.
fn schedule(hca: &mut Hca, qpn: u32) {
    let Some(flow) = hca.qps.get_mut(&qpn).and_then(|qp| qp.transport.flow.as_mut()) else { return };
    if !std::mem::replace(&mut flow.queued, true) {
        hca.transport.ready.push_back(qpn);
    }
}

/// Works on a QP, then puts it into the queue and sets its timer. `None` if there is no such QP, or it is in RESET.
fn with_flow<T>(
    hca: &mut Hca,
    bus: &mut dyn Bus,
    qpn: u32,
    work: impl FnOnce(&mut Hca, &mut dyn Bus, &mut Flow) -> T,
) -> Option<T> {
    let qp = hca.qps.get_mut(&qpn)?;
    let mut flow = qp.transport.flow.take()?;
    qp.transport.away = true;
    hca.transport.counters.use_set(qp.get(qpc::COUNTER_SET_ID));
    let result = work(hca, bus, &mut flow);
    hca.transport.counters.use_set(q_counter::DEFAULT);
    if !std::mem::replace(&mut flow.queued, true) {
        hca.transport.ready.push_back(qpn);
    }
    hca.transport.timers.set(qpn, flow.requester.deadline());
    if let Some(qp) = hca.qps.get_mut(&qpn) {
        qp.transport = QpTransport { flow: Some(flow), away: false };
    }
    Some(result)
}

/// Lets the QP whose turn it is do one thing: an answer, a packet, a flushed WQE.
fn work(hca: &mut Hca, bus: &mut dyn Bus) -> bool {
    while let Some(qpn) = hca.transport.ready.pop_front() {
        let Some(qp) = hca.qps.get_mut(&qpn) else { continue };
        let Some(mut flow) = qp.transport.flow.take() else { continue };
        qp.transport.away = true;
        hca.transport.counters.use_set(qp.get(qpc::COUNTER_SET_ID));
        let worked = respond::send(hca, bus, &mut flow)
            || requester::send(hca, bus, &mut flow)
            || flush::step(hca, bus, &mut flow);
        hca.transport.counters.use_set(q_counter::DEFAULT);
        flow.queued = worked;
        if worked {
            hca.transport.ready.push_back(qpn);
            hca.transport.timers.set(qpn, flow.requester.deadline());
        }
        if let Some(qp) = hca.qps.get_mut(&qpn) {
            qp.transport = QpTransport { flow: Some(flow), away: false };
        }
        if worked {
            return true;
        }
    }
    false
}

/// The transport itself moves a QP to another state.
fn enter(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, new: QpState) {
    flow.state = new;
    hca.set_qp_state(bus, flow.qpn, new);
    if new == QpState::Error {
        entered_error(hca, bus, flow);
    } else {
        flow.requester.timeout = None;
        flow.requester.rnr_until = None;
    }
}

fn entered_error(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) {
    flow.requester.timeout = None;
    flow.requester.rnr_until = None;
    if flow.receive_from == ReceiveFrom::Own {
        hca.transport.in_error.insert(flow.qpn);
        hca.transport.poll = Some((bus.now() + POLL.0, POLL.0));
    }
}

/// Looks for receive WQEs that were posted to QPs in error: their doorbell record is all that tells. Looked at whenever
/// there is nothing else to do, and a few times by the clock.
fn poll_in_error(hca: &mut Hca, bus: &mut dyn Bus) -> bool {
    if hca.transport.in_error.is_empty() {
        hca.transport.poll = None;
        return false;
    }
    let now = bus.now();
    if let Some((at, pause)) = hca.transport.poll
        && at <= now
    {
        let next = pause * 2;
        hca.transport.poll = (next <= POLL.1).then_some((now + next, next));
    }
    let qpns: Vec<u32> = hca.transport.in_error.iter().copied().collect();
    let mut any = false;
    for qpn in qpns {
        let state = hca.qps.get(&qpn).map(|qp| qp.state);
        if state != Some(QpState::Error) {
            hca.transport.in_error.remove(&qpn);
            continue;
        }
        any |= with_flow(hca, bus, qpn, flush::step).unwrap_or(false);
    }
    if any {
        hca.transport.poll = Some((now + POLL.0, POLL.0));
    }
    any
}

/// Hands a frame to the link, or takes it in at once if it is for this very port.
fn deliver(hca: &mut Hca, bus: &mut dyn Bus, path: &Path, frame: Frame) {
    match path.to {
        To::OwnPort => return hca.transport.rx.push_back(frame),
        To::Group if packet::group(&path.route).is_some_and(|gid| hca.multicast.contains_key(&gid)) => {
            hca.transport.rx.push_back(frame.clone());
        }
        To::Group | To::Link => {}
    }
    if hca.config.link == LinkKind::Ethernet {
        hca.nic_vport.traffic.tx.count_rdma(frame.as_sent());
    }
    let management = matches!(path.route, Route::Ib { lrh, .. } if lrh.vl == packet::MANAGEMENT_VL);
    if !management && hca.port.state != PortState::Active {
        return hca.transport.counters.count(Counter::PortNotActive);
    }
    hca.send(bus, frame);
}

/// Takes a frame in: checks what the port checks, finds the QP, and hands it what the packet says.
fn take_frame(hca: &mut Hca, bus: &mut dyn Bus, frame: &Frame) {
    if let Err(counter) = try_frame(hca, bus, frame) {
        hca.transport.counters.count(counter);
    }
}

fn try_frame(hca: &mut Hca, bus: &mut dyn Bus, whole: &Frame) -> Result<(), Counter> {
    let frame =
        wire::frame::Frame::parse(packet::link(hca.config.link), whole.as_sent()).map_err(|error| match error {
            wire::Error::NotRdma(_) => Counter::NotRdma,
            _ => Counter::MalformedFrame,
        })?;
    // Nobody has touched an open frame since its sender left its CRCs to whoever looks.
    if !whole.is_open() {
        frame.check_vcrc().map_err(|_| Counter::VcrcError)?;
        frame.check_icrc().map_err(|_| Counter::IcrcError)?;
    }
    let repr = &frame.repr;
    packet::check_port(hca, repr)?;
    match repr.bth.dest_qp {
        0 if hca.special_qp(0).is_none() => {
            sma::receive(hca, bus, &frame);
            Ok(())
        }
        special @ (0 | 1) => {
            let qpn = hca.special_qp(special).ok_or(Counter::NoSuchQp)?;
            take_packet(hca, bus, qpn, &frame)
        }
        packet::MULTICAST_QPN => {
            let group = packet::group(&repr.route).and_then(|gid| hca.multicast.get(&gid)).cloned();
            for qpn in group.ok_or(Counter::Multicast)? {
                if let Err(counter) = take_packet(hca, bus, qpn, &frame) {
                    hca.transport.counters.count(counter);
                }
            }
            Ok(())
        }
        qpn => take_packet(hca, bus, qpn, &frame),
    }
}

/// Hands a packet to its QP, if it is one that the QP takes.
fn take_packet(hca: &mut Hca, bus: &mut dyn Bus, qpn: u32, frame: &wire::frame::Frame<'_>) -> Result<(), Counter> {
    let repr = &frame.repr;
    let operation = repr.bth.opcode.operation().ok_or(Counter::MalformedFrame)?;
    let qp = hca.qps.get(&qpn).ok_or(Counter::NoSuchQp)?;
    let flow = qp.transport.flow.as_deref().ok_or(Counter::QpNotReady)?;
    let suits = match repr.bth.opcode.transport() {
        WireTransport::Rc => flow.service == Service::Rc,
        WireTransport::Uc => flow.service == Service::Uc,
        WireTransport::Ud => flow.is_datagram(),
        WireTransport::Xrc => flow.service == Service::Xrc,
        _ => false,
    };
    if !suits {
        return Err(Counter::WrongTransport);
    }
    let pkey_ok = match flow.service {
        Service::Qp0 => true,
        Service::Qp1 => hca.port.pkeys.iter().any(|&pkey| packet::pkeys_match(pkey, repr.bth.pkey)),
        _ => packet::pkeys_match(flow.pkey, repr.bth.pkey),
    };
    if !pkey_ok {
        return Err(Counter::PkeyViolation);
    }
    if flow.is_datagram() {
        with_flow(hca, bus, qpn, |hca, bus, flow| datagram::take(hca, bus, flow, frame));
        return Ok(());
    }
    if !matches!(flow.state, QpState::Init) && !flow.path.is_some_and(|path| path.is_from_peer(&repr.route)) {
        return Err(Counter::WrongPeer);
    }
    with_flow(hca, bus, qpn, |hca, bus, flow| {
        if operation.is_response() {
            answers::take(hca, bus, flow, repr, operation, frame.payload);
        } else {
            responder::take(hca, bus, flow, repr, operation, frame.payload);
        }
    });
    Ok(())
}
