//! The requester: executes send WQEs in order, cuts messages into packets, keeps what is not acknowledged yet and sends
//! it again where it must (IBA 9.7.3, 9.7.6, 9.8, 9.9).
//!
//! End-to-end credits (IBA 9.7.7.2) are given by the responder and not obeyed here: who sends without a credit learns the
//! same from an RNR NAK.

use std::{collections::VecDeque, time::Duration};

use bareverbs::wire::{
    atomic,
    ext::Ext,
    ieth, imm,
    opcode::{Opcode, Operation, Transport},
    reth, xrceth,
};
use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cqe::Syndrome,
    wqe::{BB, opcode},
};

use super::{
    completion::{self, Half},
    counters::Counter,
    data, deliver, enter,
    flow::Flow,
    packet::{self, Header},
    psn::Psn,
    umr,
    wqe::{Expect, Fence, Malformed, Wqe},
};
use crate::{
    eq::Event,
    hca::Hca,
    qp::{QpState, Service},
};

/// Packets that may wait for their ACK.
const WINDOW: i32 = 128;
/// An ACK is asked for at the end of each message, and after this many packets within one.
const ACK_EVERY: i32 = 32;
/// WQEs that may be taken from the queue and not be completed.
const MAX_OPS: usize = 256;
/// PSNs that may be outstanding: half of the number space, less one.
const MAX_OUTSTANDING: i32 = 0x7f_fffe;

/// A WQE under way.
#[derive(Clone, Debug, Default)]
pub struct Op {
    /// What it asks for.
    pub wqe: Wqe,
    /// It has its PSNs.
    pub started: bool,
    /// Its first PSN.
    pub first: Psn,
    /// How many PSNs it has; a READ as many as its response has packets.
    pub packets: u32,
    /// Packets of a READ response that came.
    pub received: u32,
    /// A READ or atomic was sent and is not answered yet.
    pub issued: bool,
    /// Nothing is left to do but its completion.
    pub done: bool,
    /// It failed, and says so when everything before it is done.
    pub failed: Option<Syndrome>,
}

impl Op {
    /// The PSN behind its last one.
    pub fn end(&self) -> Psn {
        self.first.plus(self.packets)
    }

    /// The PSN with which a READ goes on.
    pub fn resume(&self) -> Psn {
        self.first.plus(self.received)
    }
}

/// The sending half of a QP.
#[derive(Clone, Debug, Default)]
pub struct Requester {
    /// WQEs taken from the queue and not completed, in order.
    pub ops: VecDeque<Op>,
    /// Which of them sends the next packet.
    pub current: usize,
    /// PSN of the next packet.
    pub next: Psn,
    /// First PSN that no WQE has.
    pub free: Psn,
    /// The PSN behind the last one that was ever sent.
    pub sent: Psn,
    /// Oldest PSN that is not acknowledged.
    pub unacked: Psn,
    /// PSN behind the last packet that asked for an ACK.
    pub asked: Psn,
    /// READs and atomics on their way.
    pub fetches: u32,
    /// Retries left.
    pub retries: u8,
    /// Retries after RNR NAKs left.
    pub rnr_retries: u8,
    /// Went back to `unacked` and nothing new was acknowledged since: more of the same bad news says nothing new.
    pub recovering: bool,
    /// When to give up waiting for an answer.
    pub timeout: Option<Duration>,
    /// When to try again after an RNR NAK.
    pub rnr_until: Option<Duration>,
    /// Completed ops, whose memory is used again.
    spare: Vec<Op>,
}

impl Requester {
    /// On the way to RTS.
    pub fn start(&mut self, first: Psn, retries: u8, rnr_retries: u8) {
        *self = Self {
            next: first,
            free: first,
            sent: first,
            unacked: first,
            asked: first,
            retries,
            rnr_retries,
            ..Self::default()
        };
    }

    /// When a timer comes up.
    pub fn deadline(&self) -> Option<Duration> {
        self.timeout.into_iter().chain(self.rnr_until).min()
    }

    /// Packets are on their way.
    pub fn outstanding(&self) -> bool {
        self.unacked.before(self.sent)
    }

    /// Goes on with a PSN: what was sent from there on is sent again.
    pub fn rewind(&mut self, psn: Psn) {
        let at = self.position(psn);
        for op in self.ops.range_mut(at..).filter(|op| op.issued) {
            op.issued = false;
            self.fetches -= 1;
        }
        self.current = at;
        self.next = psn;
        self.asked = psn;
    }

    /// The WQE that has this PSN, or the first that has none yet.
    pub fn position(&self, psn: Psn) -> usize {
        self.ops.iter().position(|op| !op.done && (!op.started || psn.before(op.end()))).unwrap_or(self.ops.len())
    }
}

/// Whether a state lets the requester send.
const fn may_send(state: QpState) -> bool {
    matches!(state, QpState::ReadyToSend | QpState::SendQueueDrained)
}

/// Sends the next packet, or executes the next WQE that needs none. Tells whether there was anything to do.
pub fn send(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) -> bool {
    if !may_send(flow.state) || flow.requester.rnr_until.is_some() {
        return false;
    }
    if flow.requester.current == flow.requester.ops.len() && !fetch(hca, bus, flow) {
        return false;
    }
    let Some(op) = flow.requester.ops.get(flow.requester.current) else { return false };
    if op.failed.is_some() {
        return retire(hca, bus, flow);
    }
    if op.wqe.is_local() {
        return execute(hca, bus, flow);
    }
    if flow.is_datagram() {
        return send_datagram(hca, bus, flow);
    }
    if !start(flow) {
        return false;
    }
    send_packet(hca, bus, flow);
    true
}

/// A control segment, with the completion flags that BlueFlame brought.
fn control(wqe: &[u8], flags: Option<u8>) -> [u8; 16] {
    let mut control = *wqe.first_chunk().expect("a block");
    control[11] = flags.unwrap_or(control[11]);
    control
}

/// Takes the next WQE from the queue.
fn fetch(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) -> bool {
    if flow.requester.ops.len() >= MAX_OPS || flow.state != QpState::ReadyToSend {
        return false;
    }
    let Some(qp) = hca.qps.get_mut(&flow.qpn) else { return false };
    let posted = qp.sq.producer.wrapping_sub(qp.sq.consumer);
    if posted == 0 {
        return false;
    }
    let max_len = if flow.is_datagram() { flow.mtu as u64 } else { flow.max_len };
    let expect = Expect { qpn: flow.qpn, service: flow.service, index: qp.sq.consumer, posted, max_len };
    let mut op = flow.requester.spare.pop().unwrap_or_default();
    let mut bytes = [0; bareverbs_mlx5_prm::wqe::MAX_DS * bareverbs_mlx5_prm::wqe::DS];
    let at = u64::from(u32::from(expect.index) & (qp.sq.blocks.wrapping_sub(1))) * BB as u64;
    let flags = qp.sq.take_brought(expect.index);
    let mut read = |from: usize, to: usize, bytes: &mut [u8]| match bytes.get_mut(from..to) {
        Some(room) => qp.sq.memory.read(bus, at + from as u64, room),
        None => Ok(()),
    };
    let parsed = match read(0, BB, &mut bytes) {
        Err(fault) => Err(Ok(fault)),
        Ok(()) => match op.wqe.parse_control(&control(&bytes, flags), &expect) {
            Err(malformed) => Err(Err(malformed)),
            Ok(len) => match read(BB, len, &mut bytes) {
                Err(fault) => Err(Ok(fault)),
                Ok(()) => op.wqe.parse_segments(&bytes[16..len], &expect).map_err(Err),
            },
        },
    };
    qp.sq.consumer = expect.index.wrapping_add(op.wqe.blocks.max(1));
    op.failed = None;
    match parsed {
        Ok(()) => {}
        Err(Ok(fault)) => {
            op.wqe.index = expect.index;
            op.failed = Some(Syndrome::LocalQpOperation);
            hca.dma_fault(bus, fault, format_args!("reading send WQE {} of QP {:#x}", expect.index, flow.qpn));
        }
        Err(Err(malformed)) => {
            let too_long = matches!(malformed, Malformed::TooLong(_));
            op.failed = Some(if too_long { Syndrome::LocalLength } else { Syndrome::LocalQpOperation });
            hca.violation(bus, format_args!("QP {:#x}, send WQE {}: {malformed}", flow.qpn, expect.index));
        }
    }
    if op.failed.is_some() {
        hca.transport.counters.count(Counter::ReqLocalErrors);
    }
    (op.started, op.issued, op.done, op.received) = (false, false, false, 0);
    flow.requester.ops.push_back(op);
    true
}

/// Executes a WQE that stays in the device.
fn execute(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) -> bool {
    let at = flow.requester.current;
    if !flow.requester.ops[at].done {
        if waits(flow, at) {
            return false;
        }
        let wqe = std::mem::take(&mut flow.requester.ops[at].wqe);
        let outcome = match wqe.opcode {
            opcode::UMR => umr::execute(hca, bus, flow, &wqe),
            _ => Ok(()),
        };
        let op = &mut flow.requester.ops[at];
        op.wqe = wqe;
        match outcome {
            Ok(()) => op.done = true,
            Err(syndrome) => {
                op.failed = Some(syndrome);
                hca.transport.counters.count(Counter::ReqLocalErrors);
                retire(hca, bus, flow);
                return true;
            }
        }
    }
    flow.requester.current += 1;
    retire(hca, bus, flow);
    true
}

/// Whether the fence of a WQE still holds it back.
fn waits(flow: &Flow, at: usize) -> bool {
    match flow.requester.ops[at].wqe.fence {
        Fence::None => false,
        Fence::Reads => flow.requester.fetches > 0,
        Fence::All => at > 0,
    }
}

/// Gives the current WQE its PSNs if it has none; tells whether it may send now.
fn start(flow: &mut Flow) -> bool {
    let at = flow.requester.current;
    let reliable = flow.is_reliable();
    let max_rd_atomic = flow.max_rd_atomic;
    let op = &flow.requester.ops[at];
    let fetch = op.wqe.is_fetch();
    if !op.started {
        if waits(flow, at) {
            return false;
        }
        let packets = if op.wqe.is_atomic() { 1 } else { flow.packets(op.wqe.len) };
        let requester = &mut flow.requester;
        if reliable && requester.free.since(requester.unacked).saturating_add(packets as i32) > MAX_OUTSTANDING {
            return false;
        }
        let op = &mut requester.ops[at];
        (op.first, op.packets, op.started) = (requester.free, packets, true);
        requester.free = requester.free.plus(packets);
    }
    let requester = &flow.requester;
    if !reliable {
        return true;
    }
    if fetch { requester.fetches < max_rd_atomic } else { requester.next.since(requester.unacked) < WINDOW }
}

/// Sends the packet that is next; the current WQE is a connected one that may send.
fn send_packet(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) {
    let Some(path) = flow.path else { return fail_local(hca, bus, flow, Syndrome::LocalQpOperation) };
    let reliable = flow.is_reliable();
    let requester = &flow.requester;
    let op = &requester.ops[requester.current];
    let wqe = &op.wqe;
    let psn = requester.next;
    let index = psn.since(op.first) as u32;
    let at = u64::from(index) * flow.mtu as u64;
    let (len, last, after) = match wqe.is_fetch() {
        true => (0, true, op.end()),
        false => {
            let len = (wqe.len.saturating_sub(at)).min(flow.mtu as u64) as usize;
            (len, index + 1 == op.packets, psn.plus(1))
        }
    };
    let again = psn.before(requester.sent);
    let ack_req = reliable && !wqe.is_fetch() && (last || after.since(requester.asked) >= ACK_EVERY);
    let header = Header {
        opcode: Opcode::new(transport(flow.service), operation(wqe.opcode, index == 0, last)),
        dest_qp: flow.remote_qpn,
        psn,
        ack_req,
        solicited: last && wqe.solicited,
        ext: extensions(flow.service, wqe, at, index == 0, last),
    };
    let user = flow.user();
    let built =
        packet::build(&path, &header, len, |room| data::gather(hca, bus, user, (&wqe.pieces, &wqe.inline), at, room));
    let frame = match built {
        Ok(Some(frame)) => frame,
        Ok(None) => return fail_local(hca, bus, flow, Syndrome::LocalQpOperation),
        Err(_) => return fail_local(hca, bus, flow, Syndrome::LocalProtection),
    };
    deliver(hca, bus, &path, frame);
    if again {
        hca.transport.counters.count(Counter::PacketsSentAgain);
    }
    let requester = &mut flow.requester;
    let op = &mut requester.ops[requester.current];
    if op.wqe.is_fetch() {
        op.issued = true;
        requester.fetches += 1;
    }
    if ack_req {
        requester.asked = after;
    }
    requester.next = after;
    if requester.sent.before(after) {
        requester.sent = after;
    }
    if last {
        requester.current += 1;
    }
    if reliable {
        if requester.timeout.is_none() {
            requester.timeout = flow.ack_timeout.map(|t| bus.now() + t);
        }
    } else if last {
        op.done = true;
        retire(hca, bus, flow);
    }
}

fn transport(service: Service) -> Transport {
    match service {
        Service::Uc => Transport::Uc,
        Service::Xrc => Transport::Xrc,
        Service::Ud | Service::Qp0 | Service::Qp1 => Transport::Ud,
        Service::Rc | Service::Umr => Transport::Rc,
    }
}

/// What a packet of a message is called.
fn operation(wqe_opcode: u8, first: bool, last: bool) -> Operation {
    use Operation::*;
    let of_four = |only, first_op, middle, last_op| match (first, last) {
        (true, true) => only,
        (true, false) => first_op,
        (false, false) => middle,
        (false, true) => last_op,
    };
    match wqe_opcode {
        opcode::SEND_IMM => of_four(SendOnlyImm, SendFirst, SendMiddle, SendLastImm),
        opcode::SEND_INVAL => of_four(SendOnlyInvalidate, SendFirst, SendMiddle, SendLastInvalidate),
        opcode::RDMA_WRITE => of_four(WriteOnly, WriteFirst, WriteMiddle, WriteLast),
        opcode::RDMA_WRITE_IMM => of_four(WriteOnlyImm, WriteFirst, WriteMiddle, WriteLastImm),
        opcode::RDMA_READ => ReadRequest,
        opcode::ATOMIC_CS => CompareSwap,
        opcode::ATOMIC_FA => FetchAdd,
        _ => of_four(SendOnly, SendFirst, SendMiddle, SendLast),
    }
}

/// The extension headers of a request packet that begins with byte `at` of its message.
fn extensions(service: Service, wqe: &Wqe, at: u64, first: bool, last: bool) -> Ext {
    let (vaddr, rkey) = wqe.remote;
    let write = matches!(wqe.opcode, opcode::RDMA_WRITE | opcode::RDMA_WRITE_IMM);
    let read = wqe.opcode == opcode::RDMA_READ;
    let with_imm = last && matches!(wqe.opcode, opcode::SEND_IMM | opcode::RDMA_WRITE_IMM);
    let (swap_add, compare) = wqe.atomic;
    Ext {
        xrceth: (service == Service::Xrc).then_some(xrceth::Repr { srqn: wqe.xrc_srqn }),
        reth: (read || write && first).then(|| reth::Repr {
            vaddr: vaddr.wrapping_add(at),
            rkey,
            dma_len: wqe.len.saturating_sub(at) as u32,
        }),
        atomic: wqe.is_atomic().then_some(atomic::Repr { vaddr, rkey, swap_add, compare }),
        imm: with_imm.then_some(imm::Repr { data: wqe.general_id }),
        ieth: (last && wqe.opcode == opcode::SEND_INVAL).then_some(ieth::Repr { rkey: wqe.general_id }),
        ..Default::default()
    }
}

/// Sends a datagram, which is done at once.
fn send_datagram(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) -> bool {
    let at = flow.requester.current;
    if waits(flow, at) {
        return false;
    }
    let wqe = &flow.requester.ops[at].wqe;
    let Some(av) = wqe.av else {
        fail_local(hca, bus, flow, Syndrome::LocalQpOperation);
        return true;
    };
    let path = hca.qps.get(&flow.qpn).and_then(|qp| packet::Path::of_av(hca, qp, &av));
    let Some(path) = path else {
        hca.violation(
            bus,
            format_args!("QP {:#x}, send WQE {}: its source address does not exist", flow.qpn, wqe.index),
        );
        fail_local(hca, bus, flow, Syndrome::LocalQpOperation);
        return true;
    };
    let with_imm = wqe.opcode == opcode::SEND_IMM;
    // A Q_Key with the highest bit set asks for the QP's own (IBA 10.2.5).
    let asked = (av.key.get() >> 32) as u32;
    let qkey = if asked & 0x8000_0000 != 0 { flow.qkey } else { asked };
    let header = Header {
        opcode: Opcode::new(Transport::Ud, operation(wqe.opcode, true, true)),
        dest_qp: av.dqp_dct.get() & 0xff_ffff,
        psn: flow.requester.next,
        ack_req: false,
        solicited: wqe.solicited,
        ext: Ext {
            deth: Some(bareverbs::wire::deth::Repr { qkey, src_qp: flow.source_qpn }),
            imm: with_imm.then_some(imm::Repr { data: wqe.general_id }),
            ..Default::default()
        },
    };
    let (user, len) = (flow.user(), wqe.len as usize);
    match packet::build(&path, &header, len, |room| data::gather(hca, bus, user, (&wqe.pieces, &wqe.inline), 0, room)) {
        Ok(Some(frame)) => deliver(hca, bus, &path, frame),
        Ok(None) => {
            fail_local(hca, bus, flow, Syndrome::LocalQpOperation);
            return true;
        }
        Err(_) => {
            fail_local(hca, bus, flow, Syndrome::LocalProtection);
            return true;
        }
    }
    flow.requester.next = flow.requester.next.plus(1);
    flow.requester.ops[at].done = true;
    flow.requester.current += 1;
    retire(hca, bus, flow);
    true
}

/// The current WQE failed here, before anything of it is answered.
fn fail_local(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, syndrome: Syndrome) {
    hca.transport.counters.count(Counter::ReqLocalErrors);
    let at = flow.requester.current;
    flow.requester.ops[at].failed = Some(syndrome);
    retire(hca, bus, flow);
}

/// Completes what is done, in order. Tells whether anything was.
pub fn retire(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) -> bool {
    let mut any = false;
    while let Some(op) = flow.requester.ops.front() {
        if let Some(syndrome) = op.failed {
            fail(hca, bus, flow, syndrome);
            return true;
        }
        if !op.done {
            break;
        }
        let Some(op) = flow.requester.ops.pop_front() else { break };
        flow.requester.current = flow.requester.current.saturating_sub(1);
        if op.wqe.signaled {
            let len = op.wqe.len as u32;
            completion::sent(hca, bus, flow, &op.wqe, len);
        }
        flow.requester.spare.push(op);
        any = true;
        if flow.state == QpState::Error {
            return true;
        }
    }
    if flow.state == QpState::SendQueueDrained && flow.requester.ops.is_empty() && any {
        hca.event(bus, Event::SendQueueDrained(flow.qpn));
    }
    any
}

/// The oldest WQE fails: it completes in error, everything behind it is flushed.
pub fn fail(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, syndrome: Syndrome) {
    let Some(op) = flow.requester.ops.pop_front() else { return };
    flow.requester.current = flow.requester.current.saturating_sub(1);
    // Connected reliably, the whole QP fails; else the send queue only (IBA 10.3.1).
    let next = if flow.is_reliable() { QpState::Error } else { QpState::SendQueueError };
    // The PSNs that it did not send are the next request's (connected unreliably, the responder takes up any PSN).
    if !flow.is_reliable() {
        flow.requester.free = flow.requester.next;
    }
    let index = (op.wqe.index, op.wqe.opcode);
    completion::failed(hca, bus, flow, Half::Send, index, syndrome, None);
    if flow.state != QpState::Error {
        enter(hca, bus, flow, next);
    }
}
