//! The responder of connected services: takes requests in order, puts their data where it belongs, and decides what is
//! answered (IBA 9.7.4, 9.7.5, 9.8.3). [`respond`](super::respond) sends the answers.

use std::collections::VecDeque;

use bareverbs::wire::{
    aeth::NakCode,
    frame::{Repr, Route},
    opcode::{Operation, Position},
};
use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    context::mkc,
    cqe::{Syndrome, opcode, rqpn},
    wqe::recv_opcode,
};

use super::{
    completion::{self, Half, Received},
    counters::Counter,
    data::{self, DataFault},
    enter,
    flow::Flow,
    psn::Psn,
    recv::{self, Recv},
    respond::{Answer, Remote},
};
use crate::{
    eq::Event,
    hca::Hca,
    mr::{Access, KeyUser},
    qp::{QpState, ReceiveFrom, Service},
};

/// The receiving half of a QP.
#[derive(Clone, Debug, Default)]
pub struct Responder {
    /// Next PSN expected.
    pub expected: Psn,
    /// Messages completed.
    pub msn: Psn,
    /// A NAK was sent for the expected PSN: until it comes nothing else is answered.
    pub silent: bool,
    /// UC: the rest of the message is dropped.
    pub dropping: bool,
    /// The last WQE was reported (QP with an SRQ in the error state).
    pub last_wqe_reported: bool,
    /// The driver was told that packets come in though the QP is only in RTR.
    pub established: bool,
    /// The message that is coming in.
    pub message: Option<Message>,
    /// A receive WQE whose message was lost: the next message takes it, or it is flushed.
    pub stash: Option<Taken>,
    /// What is to be answered, in order.
    pub answers: VecDeque<Answer>,
    /// Results of the newest atomics, for duplicates.
    pub atomics: VecDeque<(Psn, u64)>,
}

/// A receive WQE, with CQ and user index where its completion does not go where the QP's go (XRC).
pub type Taken = (Recv, Option<(u32, u32)>);

/// A message of several packets.
#[derive(Clone, Debug)]
pub enum Message {
    /// A SEND.
    Send {
        /// Where it goes.
        recv: Recv,
        /// Bytes so far.
        at: u64,
        /// CQ and user index of an XRC SRQ.
        shared: Option<(u32, u32)>,
    },
    /// An RDMA WRITE.
    Write {
        /// Where it goes.
        memory: Remote,
        /// Bytes so far.
        at: u64,
    },
}

impl Responder {
    /// On the way to RTR.
    pub fn start(&mut self, expected: Psn) {
        *self = Self { expected, ..Self::default() };
    }

    fn skip(&mut self, packets: u32) {
        self.expected = self.expected.plus(packets);
    }
}

/// Why a request was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// No receive WQE.
    NotReady,
    /// The request breaks the protocol, or asks for what the QP does not offer.
    Invalid(Counter),
    /// The key does not allow it.
    Access(Counter),
    /// The message is longer than its receive WQE, which fails too.
    TooLong,
    /// The receive WQE's own memory failed, and the WQE with it.
    Local,
    /// The responder itself is in trouble.
    Operational,
}

/// Takes a request of a connected QP.
pub fn take(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, repr: &Repr, operation: Operation, payload: &[u8]) {
    if !matches!(
        flow.state,
        QpState::ReadyToReceive | QpState::ReadyToSend | QpState::SendQueueDrained | QpState::SendQueueError
    ) {
        return hca.transport.counters.count(Counter::QpNotReady);
    }
    if flow.state == QpState::ReadyToReceive && !flow.responder.established {
        flow.responder.established = true;
        hca.event(bus, Event::CommunicationEstablished(flow.qpn));
    }
    if flow.is_reliable() {
        take_reliable(hca, bus, flow, repr, operation, payload);
    } else {
        take_unreliable(hca, bus, flow, repr, operation, payload);
    }
}

fn take_reliable(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, repr: &Repr, operation: Operation, payload: &[u8]) {
    let psn = Psn::new(repr.bth.psn);
    let ahead = psn.since(flow.responder.expected);
    if ahead > 0 {
        hca.transport.counters.count(Counter::OutOfSequence);
        if !flow.responder.silent {
            flow.responder.silent = true;
            let expected = flow.responder.expected;
            flow.responder.nak(expected, NakCode::PsnSequence);
        }
        return;
    }
    if ahead < 0 {
        hca.transport.counters.count(Counter::DuplicateRequest);
        return take_duplicate(hca, flow, repr, operation, psn);
    }
    flow.responder.silent = false;
    let outcome = match operation {
        Operation::ReadRequest => read(hca, flow, repr, psn),
        Operation::CompareSwap | Operation::FetchAdd => atomic(hca, bus, flow, repr, operation, psn),
        _ => place(hca, bus, flow, repr, operation, payload).inspect(|()| flow.responder.skip(1)),
    };
    match outcome {
        Ok(()) if repr.bth.ack_req && operation != Operation::ReadRequest && !operation.is_atomic() => {
            flow.responder.ack()
        }
        Ok(()) => {}
        Err(refusal) => refuse(hca, bus, flow, psn, refusal),
    }
}

/// A request that was executed before is acknowledged again; a READ is executed again, an atomic answered from memory.
fn take_duplicate(hca: &mut Hca, flow: &mut Flow, repr: &Repr, operation: Operation, psn: Psn) {
    match operation {
        Operation::ReadRequest => {
            let Ok(memory) = remote(hca, flow, repr, Access::REMOTE_READ) else { return };
            let fits = Psn::new(psn.get()).plus(flow.packets(memory.len)).since(flow.responder.expected) <= 0;
            if fits && flow.remote_read && flow.responder.pending(true) < flow.max_dest_rd_atomic {
                let msn = flow.responder.msn;
                flow.responder.answers.push_back(Answer::Read { psn, memory, at: 0, msn, again: true });
            }
        }
        Operation::CompareSwap | Operation::FetchAdd => {
            match flow.responder.atomics.iter().find(|(done, _)| *done == psn) {
                Some(&(psn, original)) => {
                    let msn = flow.responder.msn;
                    flow.responder.answers.push_back(Answer::Atomic { psn, original, msn, again: true });
                }
                None => hca.transport.counters.count(Counter::RespOldAtomic),
            }
        }
        _ => flow.responder.ack(),
    }
}

/// UC: a gap costs the message it lies in; the next First or Only begins anew.
fn take_unreliable(
    hca: &mut Hca,
    bus: &mut dyn Bus,
    flow: &mut Flow,
    repr: &Repr,
    operation: Operation,
    payload: &[u8],
) {
    let psn = Psn::new(repr.bth.psn);
    let begins = matches!(operation.position(), Position::First | Position::Only);
    let gap = psn != flow.responder.expected;
    flow.responder.expected = psn.plus(1);
    if gap {
        hca.transport.counters.count(Counter::OutOfSequence);
    }
    if gap || begins && flow.responder.message.is_some() {
        drop_message(hca, flow);
    }
    if flow.responder.dropping && !begins {
        return;
    }
    flow.responder.dropping = false;
    match place(hca, bus, flow, repr, operation, payload) {
        Ok(()) => {}
        Err(refusal @ (Refusal::TooLong | Refusal::Local)) => refuse(hca, bus, flow, psn, refusal),
        Err(refusal) => {
            hca.transport.counters.count(counter_of(refusal));
            drop_message(hca, flow);
        }
    }
}

fn drop_message(hca: &mut Hca, flow: &mut Flow) {
    flow.responder.dropping = true;
    if let Some(message) = flow.responder.message.take() {
        hca.transport.counters.count(Counter::UcMessagesDropped);
        if let Message::Send { recv, shared, .. } = message {
            flow.responder.stash = Some((recv, shared));
        }
    }
}

/// Executes the packet of a SEND or an RDMA WRITE that is next in sequence.
fn place(
    hca: &mut Hca,
    bus: &mut dyn Bus,
    flow: &mut Flow,
    repr: &Repr,
    operation: Operation,
    payload: &[u8],
) -> Result<(), Refusal> {
    let position = operation.position();
    let begins = matches!(position, Position::First | Position::Only);
    let ends = matches!(position, Position::Last | Position::Only);
    let in_sequence = match &flow.responder.message {
        None => begins,
        Some(Message::Send { .. }) => !begins && operation.is_send(),
        Some(Message::Write { .. }) => !begins && operation.is_write(),
    };
    if !in_sequence {
        return Err(Refusal::Invalid(Counter::RespBadOpcodeSequence));
    }
    // All packets but the last are full; a last one is not empty (IBA 9.7.4.1.6).
    let len_ok = match position {
        Position::First | Position::Middle => payload.len() == flow.mtu,
        Position::Last => (1..=flow.mtu).contains(&payload.len()),
        Position::Only => payload.len() <= flow.mtu,
    };
    if !len_ok {
        return Err(Refusal::Invalid(Counter::RespBadLength));
    }
    if operation.is_write() {
        place_write(hca, bus, flow, repr, ends, payload)
    } else {
        place_send(hca, bus, flow, repr, operation, begins, ends, payload)
    }
}

fn place_write(
    hca: &mut Hca,
    bus: &mut dyn Bus,
    flow: &mut Flow,
    repr: &Repr,
    ends: bool,
    payload: &[u8],
) -> Result<(), Refusal> {
    let (memory, at) = match flow.responder.message {
        Some(Message::Write { memory, at }) => (memory, at),
        _ if repr.ext.reth.is_some() && !flow.remote_write => return Err(Refusal::Invalid(Counter::RespNotAllowed)),
        _ => (remote(hca, flow, repr, Access::REMOTE_WRITE)?, 0),
    };
    let Remote { user, va, rkey, len } = memory;
    let after = at + payload.len() as u64;
    if after > len || ends && after != len {
        return Err(Refusal::Invalid(Counter::RespBadLength));
    }
    // Nothing changes before the receive WQE of the immediate data is there: without it the packet comes again.
    let recv = match repr.ext.imm {
        Some(_) => Some(take_recv(hca, bus, flow, repr)?),
        None => None,
    };
    if let Err(fault) = data::write(hca, bus, user, rkey, va.wrapping_add(at), Access::REMOTE_WRITE, payload) {
        flow.responder.stash = recv;
        return Err(match fault {
            DataFault::Key(_) => Refusal::Access(Counter::RespRemoteAccessErrors),
            _ => Refusal::Operational,
        });
    }
    flow.responder.message = (!ends).then_some(Message::Write { memory, at: after });
    if !ends {
        return Ok(());
    }
    hca.transport.counters.count(Counter::RxWriteRequests);
    flow.responder.msn = flow.responder.msn.plus(1);
    if let Some((recv, shared)) = recv {
        let what = Received {
            opcode: opcode::RESP_WR_IMM,
            counter: recv.counter,
            byte_count: len as u32,
            immediate: repr.ext.imm.map_or(0, |imm| imm.data),
            solicited: repr.bth.solicited,
            shared,
            ..arrival(repr, flow.remote_qpn)
        };
        completion::received(hca, bus, flow, &what);
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn place_send(
    hca: &mut Hca,
    bus: &mut dyn Bus,
    flow: &mut Flow,
    repr: &Repr,
    operation: Operation,
    begins: bool,
    ends: bool,
    payload: &[u8],
) -> Result<(), Refusal> {
    if begins {
        let (recv, shared) = take_recv(hca, bus, flow, repr)?;
        flow.responder.message = Some(Message::Send { recv, at: 0, shared });
    }
    let Some(Message::Send { recv, at, shared }) = &mut flow.responder.message else {
        return Err(Refusal::Invalid(Counter::RespBadOpcodeSequence));
    };
    let (counter, shared) = (recv.counter, *shared);
    if *at + payload.len() as u64 > data::len(&recv.pieces) {
        return Err(Refusal::TooLong);
    }
    data::scatter(hca, bus, recv.user, &recv.pieces, *at, payload).map_err(|_| Refusal::Local)?;
    *at += payload.len() as u64;
    if !ends {
        return Ok(());
    }
    let byte_count = *at as u32;
    let (cqe_opcode, immediate) = match operation {
        Operation::SendLastImm | Operation::SendOnlyImm => {
            (opcode::RESP_SEND_IMM, repr.ext.imm.map_or(0, |imm| imm.data))
        }
        Operation::SendLastInvalidate | Operation::SendOnlyInvalidate => {
            let rkey = repr.ext.ieth.map_or(0, |ieth| ieth.rkey);
            invalidate(hca, flow, repr, rkey)?;
            (opcode::RESP_SEND_INV, rkey)
        }
        _ => (opcode::RESP_SEND, 0),
    };
    flow.responder.message = None;
    flow.responder.msn = flow.responder.msn.plus(1);
    hca.transport.counters.count(Counter::RxSends);
    let what = Received {
        opcode: cqe_opcode,
        counter,
        byte_count,
        immediate,
        solicited: repr.bth.solicited,
        shared,
        ..arrival(repr, flow.remote_qpn)
    };
    completion::received(hca, bus, flow, &what);
    Ok(())
}

/// Takes the receive WQE of a message, and says where it completes if not where the QP's do.
fn take_recv(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, repr: &Repr) -> Result<Taken, Refusal> {
    if let Some(taken) = flow.responder.stash.take() {
        return Ok(taken);
    }
    let (from, shared) = match repr.ext.xrceth {
        Some(xrc) => (ReceiveFrom::Srq(xrc.srqn), recv::shared_completion(hca, xrc.srqn, flow.xrcd)),
        None => (flow.receive_from, None),
    };
    if flow.service == Service::Xrc && shared.is_none() {
        return Err(Refusal::Invalid(Counter::RespNotAllowed));
    }
    Ok((recv::take(hca, bus, flow, from).ok_or(Refusal::NotReady)?, shared))
}

/// For whom the keys of a request have to be good: the QP, in XRC the SRQ that the request names. Linux puts an XRC QP's
/// responder into a protection domain of the driver's own, in which no key is (`create_xrc_tgt_qp`).
fn key_user(hca: &Hca, flow: &Flow, repr: &Repr) -> Result<KeyUser, Refusal> {
    if flow.service != Service::Xrc {
        return Ok(flow.user());
    }
    let srqn = repr.ext.xrceth.map_or(0, |xrc| xrc.srqn);
    let srq = hca.srqs.get(&srqn).filter(|_| recv::shared_completion(hca, srqn, flow.xrcd).is_some());
    let srq = srq.ok_or(Refusal::Invalid(Counter::RespNotAllowed))?;
    Ok(KeyUser { pd: srq.pd, qpn: flow.qpn })
}

/// The memory that a READ or WRITE names, if it may do so.
fn remote(hca: &Hca, flow: &Flow, repr: &Repr, access: Access) -> Result<Remote, Refusal> {
    let reth = repr.ext.reth.ok_or(Refusal::Invalid(Counter::RespBadOpcodeSequence))?;
    let user = key_user(hca, flow, repr)?;
    let memory = Remote { user, va: reth.vaddr, rkey: reth.rkey, len: u64::from(reth.dma_len) };
    data::check(hca, user, memory.rkey, memory.va, memory.len, access)
        .map_err(|_| Refusal::Access(Counter::RespRemoteAccessErrors))?;
    Ok(memory)
}

/// SEND with invalidate: the key must be the QP's to use, and one that the other side may invalidate.
fn invalidate(hca: &mut Hca, flow: &Flow, repr: &Repr, rkey: u32) -> Result<(), Refusal> {
    let KeyUser { pd, qpn } = key_user(hca, flow, repr)?;
    let mkey = hca.mkeys.table.get_mut(&(rkey >> 8)).filter(|mkey| {
        let usable = mkey.key == rkey && !mkey.free && mkey.pd == pd && mkey.qpn.is_none_or(|bound| bound == qpn);
        usable && mkc::EN_RINVAL.is_set(&mkey.raw)
    });
    mkey.ok_or(Refusal::Access(Counter::RespInvalidateErrors))?.free = true;
    Ok(())
}

fn read(hca: &mut Hca, flow: &mut Flow, repr: &Repr, psn: Psn) -> Result<(), Refusal> {
    if flow.responder.message.is_some() {
        return Err(Refusal::Invalid(Counter::RespBadOpcodeSequence));
    }
    if !flow.remote_read {
        return Err(Refusal::Invalid(Counter::RespNotAllowed));
    }
    if flow.responder.pending(false) >= flow.max_dest_rd_atomic {
        return Err(Refusal::Invalid(Counter::RespTooManyReads));
    }
    let memory = remote(hca, flow, repr, Access::REMOTE_READ)?;
    hca.transport.counters.count(Counter::RxReadRequests);
    let packets = flow.packets(memory.len);
    let responder = &mut flow.responder;
    responder.skip(packets);
    responder.msn = responder.msn.plus(1);
    let msn = responder.msn;
    responder.answers.push_back(Answer::Read { psn, memory, at: 0, msn, again: false });
    Ok(())
}

fn atomic(
    hca: &mut Hca,
    bus: &mut dyn Bus,
    flow: &mut Flow,
    repr: &Repr,
    operation: Operation,
    psn: Psn,
) -> Result<(), Refusal> {
    let atomic = repr.ext.atomic.filter(|_| flow.responder.message.is_none());
    let atomic = atomic.ok_or(Refusal::Invalid(Counter::RespBadOpcodeSequence))?;
    if !flow.remote_atomic {
        return Err(Refusal::Invalid(Counter::RespNotAllowed));
    }
    if flow.responder.pending(false) >= flow.max_dest_rd_atomic {
        return Err(Refusal::Invalid(Counter::RespTooManyReads));
    }
    if atomic.vaddr % 8 != 0 {
        return Err(Refusal::Invalid(Counter::RespMisalignedAtomic));
    }
    let (user, va, rkey) = (key_user(hca, flow, repr)?, atomic.vaddr, atomic.rkey);
    let refused = |fault| match fault {
        DataFault::Key(_) => Refusal::Access(Counter::RespRemoteAccessErrors),
        _ => Refusal::Operational,
    };
    let mut bytes = [0; 8];
    data::read(hca, bus, user, rkey, va, Access::REMOTE_ATOMIC, &mut bytes).map_err(refused)?;
    let original = u64::from_le_bytes(bytes);
    let new = match operation {
        Operation::FetchAdd => original.wrapping_add(atomic.swap_add),
        _ if original == atomic.compare => atomic.swap_add,
        _ => original,
    };
    data::write(hca, bus, user, rkey, va, Access::REMOTE_ATOMIC, &new.to_le_bytes()).map_err(refused)?;
    hca.transport.counters.count(Counter::RxAtomicRequests);
    let kept = flow.max_dest_rd_atomic as usize;
    let responder = &mut flow.responder;
    responder.skip(1);
    responder.msn = responder.msn.plus(1);
    responder.atomics.push_back((psn, original));
    while responder.atomics.len() > kept {
        responder.atomics.pop_front();
    }
    let msn = responder.msn;
    responder.answers.push_back(Answer::Atomic { psn, original, msn, again: false });
    Ok(())
}

const fn counter_of(refusal: Refusal) -> Counter {
    match refusal {
        Refusal::NotReady => Counter::OutOfBuffer,
        Refusal::Invalid(counter) | Refusal::Access(counter) => counter,
        Refusal::TooLong => Counter::RespLocalLengthError,
        Refusal::Local | Refusal::Operational => Counter::RespLocalProtectionError,
    }
}

/// Answers a request with a NAK where the service has any; everything but RNR is the end of the connection (IBA 9.9.3).
fn refuse(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, psn: Psn, refusal: Refusal) {
    hca.transport.counters.count(counter_of(refusal));
    let (code, receive_error, event) = match refusal {
        Refusal::NotReady => {
            flow.responder.silent = true;
            return flow.responder.rnr(psn, flow.min_rnr_timer);
        }
        Refusal::Invalid(_) => (NakCode::InvalidRequest, None, Some(Event::QpRequestError(flow.qpn))),
        Refusal::Access(_) => (NakCode::RemoteAccess, None, Some(Event::QpAccessError(flow.qpn))),
        Refusal::TooLong => (NakCode::InvalidRequest, Some(Syndrome::LocalLength), None),
        Refusal::Local => (NakCode::RemoteOperational, Some(Syndrome::LocalProtection), None),
        Refusal::Operational => (NakCode::RemoteOperational, None, Some(Event::QpFatal(flow.qpn))),
    };
    if flow.is_reliable() {
        flow.responder.nak(psn, code);
    }
    if let Some(syndrome) = receive_error
        && let Some(Message::Send { recv, shared, .. }) = flow.responder.message.take()
    {
        let index = (recv.counter, recv_opcode::SEND);
        completion::failed(hca, bus, flow, Half::Receive, index, syndrome, shared);
    }
    if let Some(event) = event {
        hca.event(bus, event);
    }
    enter(hca, bus, flow, QpState::Error);
}

/// What a completion says about the packet that ended the message.
pub fn arrival(repr: &Repr, source_qpn: u32) -> Received {
    use bareverbs_mlx5_prm::cqe::l3_type;
    let mut received = Received { flags_rqpn: source_qpn & rqpn::SRC_QPN_MASK, ..Default::default() };
    let (l3, eth) = match &repr.route {
        Route::Ib { lrh, grh } => {
            received.slid = lrh.slid;
            received.path_bits = lrh.dlid as u8 & 0x7f;
            received.flags_rqpn |= u32::from(lrh.sl) << rqpn::SL_SHIFT | u32::from(grh.is_some()) << rqpn::GRH_SHIFT;
            return received;
        }
        Route::RoceV1 { eth, .. } => (l3_type::GRH, eth),
        Route::RoceV2Ipv6 { eth, .. } => (l3_type::IPV6, eth),
        Route::RoceV2Ipv4 { eth, .. } => (l3_type::IPV4, eth),
    };
    received.flags_rqpn |= l3 << rqpn::L3_TYPE_SHIFT | 1 << rqpn::GRH_SHIFT;
    received.vlan = eth.vlan;
    received
}
