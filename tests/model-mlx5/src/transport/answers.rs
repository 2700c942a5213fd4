//! What the requester does with the responder's answers, and when none comes (IBA 9.7.5, 9.7.6).

use bareverbs::wire::{
    aeth::{self, NakCode},
    frame::Repr,
    opcode::{Operation, Position},
};
use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::cqe::Syndrome;

use super::{
    counters::Counter,
    data,
    flow::Flow,
    psn::Psn,
    requester::{self, Requester},
};
use crate::{hca::Hca, qp::QpState};

/// Takes an answer.
pub fn take(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, repr: &Repr, operation: Operation, payload: &[u8]) {
    if !matches!(flow.state, QpState::ReadyToSend | QpState::SendQueueDrained) {
        return hca.transport.counters.count(Counter::QpNotReady);
    }
    let psn = Psn::new(repr.bth.psn);
    if psn.before(flow.requester.unacked) || !psn.before(flow.requester.sent) {
        return hca.transport.counters.count(Counter::UnexpectedResponse);
    }
    match operation {
        Operation::AtomicAcknowledge => take_atomic(hca, bus, flow, psn, repr.ext.atomic_ack.map_or(0, |a| a.original)),
        operation if operation.is_read_response() => take_read(hca, bus, flow, psn, operation, payload),
        _ => match repr.ext.aeth.map(|aeth| aeth.syndrome) {
            Some(aeth::Syndrome::Ack { .. }) => take_ack(hca, bus, flow, psn),
            Some(aeth::Syndrome::RnrNak { timer }) => take_rnr(hca, bus, flow, psn, timer),
            Some(aeth::Syndrome::Nak(code)) => take_nak(hca, bus, flow, psn, code),
            _ => hca.transport.counters.count(Counter::UnexpectedResponse),
        },
    }
    rearm(bus, flow);
}

impl Requester {
    /// Everything before `limit` is acknowledged, but for a READ or an atomic whose answer did not come: it stops there.
    /// Tells whether it went all the way.
    fn acknowledge(&mut self, mut limit: Psn, retries: (u8, u8)) -> bool {
        let mut all = true;
        for op in &mut self.ops {
            if op.wqe.is_local() {
                continue;
            }
            if !op.started || !op.first.before(limit) {
                break;
            }
            if op.wqe.is_fetch() {
                if !op.done && op.resume().before(limit) {
                    limit = op.resume();
                    all = false;
                    break;
                }
            } else if !limit.before(op.end()) {
                op.done = true;
            }
        }
        if self.unacked.before(limit) {
            self.unacked = limit;
            (self.retries, self.rnr_retries) = retries;
            self.recovering = false;
            self.timeout = None;
            if self.next.before(limit) {
                self.current = self.position(limit);
                self.next = limit;
            }
        }
        all
    }
}

fn acknowledge(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, limit: Psn) -> bool {
    let retries = (flow.retry_count, flow.rnr_retry);
    let all = flow.requester.acknowledge(limit, retries);
    requester::retire(hca, bus, flow);
    if !all && flow.state != QpState::Error {
        hca.transport.counters.count(Counter::ImpliedNakSeqErr);
        again(hca, bus, flow);
    }
    all && flow.state != QpState::Error
}

fn take_ack(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, psn: Psn) {
    acknowledge(hca, bus, flow, psn.plus(1));
}

fn take_rnr(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, psn: Psn, timer: u8) {
    hca.transport.counters.count(Counter::RnrNakReceived);
    if !acknowledge(hca, bus, flow, psn) {
        return;
    }
    let requester = &mut flow.requester;
    if requester.rnr_until.is_some() {
        return; // the same one once more
    }
    if flow.rnr_retry != 7 {
        match requester.rnr_retries.checked_sub(1) {
            Some(left) => requester.rnr_retries = left,
            None => {
                hca.transport.counters.count(Counter::RnrNakRetryErr);
                return requester::fail(hca, bus, flow, Syndrome::RnrRetryExceeded);
            }
        }
    }
    requester.rewind(psn);
    requester.rnr_until = Some(bus.now() + aeth::rnr_delay(timer));
}

fn take_nak(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, psn: Psn, code: NakCode) {
    if !acknowledge(hca, bus, flow, psn) {
        return;
    }
    let (counter, syndrome) = match code {
        NakCode::PsnSequence => {
            hca.transport.counters.count(Counter::PacketSeqErr);
            return again(hca, bus, flow);
        }
        NakCode::InvalidRequest => (Counter::ReqRemoteInvalidRequest, Syndrome::RemoteInvalidRequest),
        NakCode::RemoteAccess => (Counter::ReqRemoteAccessErrors, Syndrome::RemoteAccess),
        NakCode::RemoteOperational => (Counter::ReqRemoteOperationalErrors, Syndrome::RemoteOperation),
        NakCode::InvalidRdRequest | NakCode::Reserved(_) => {
            return hca.transport.counters.count(Counter::UnexpectedResponse);
        }
    };
    hca.transport.counters.count(counter);
    requester::fail(hca, bus, flow, syndrome);
}

fn take_read(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, psn: Psn, operation: Operation, payload: &[u8]) {
    if !acknowledge(hca, bus, flow, psn) {
        return;
    }
    let at = flow.requester.position(psn);
    let Some(op) = flow.requester.ops.get(at).filter(|op| {
        op.started && op.wqe.is_fetch() && !op.wqe.is_atomic() && op.failed.is_none() && op.resume() == psn
    }) else {
        return hca.transport.counters.count(Counter::UnexpectedResponse);
    };
    let offset = u64::from(op.received) * flow.mtu as u64;
    let expected = op.wqe.len.saturating_sub(offset).min(flow.mtu as u64);
    let last = op.received + 1 == op.packets;
    // A response to an earlier request of the same READ may call First what this one calls Middle.
    let position_ok = matches!(operation.position(), Position::Last | Position::Only) == last;
    if payload.len() as u64 != expected || !position_ok {
        hca.transport.counters.count(Counter::BadResponse);
        return requester::fail(hca, bus, flow, Syndrome::BadResponse);
    }
    let user = flow.user();
    if data::scatter(hca, bus, user, &op.wqe.pieces, offset, payload).is_err() {
        hca.transport.counters.count(Counter::ReqLocalErrors);
        return requester::fail(hca, bus, flow, Syndrome::LocalProtection);
    }
    let op = &mut flow.requester.ops[at];
    op.received += 1;
    answered(hca, bus, flow, at, psn, last);
}

fn take_atomic(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, psn: Psn, original: u64) {
    if !acknowledge(hca, bus, flow, psn) {
        return;
    }
    let at = flow.requester.position(psn);
    let Some(op) = flow
        .requester
        .ops
        .get(at)
        .filter(|op| op.started && op.wqe.is_atomic() && op.failed.is_none() && op.first == psn)
    else {
        return hca.transport.counters.count(Counter::UnexpectedResponse);
    };
    // The result is big-endian unless the driver chose the host's order (atomic capabilities).
    let host = hca.caps.atomics_in_host_order();
    let result = if host { original.to_le_bytes() } else { original.to_be_bytes() };
    let user = flow.user();
    if data::scatter(hca, bus, user, &op.wqe.pieces, 0, &result).is_err() {
        hca.transport.counters.count(Counter::ReqLocalErrors);
        return requester::fail(hca, bus, flow, Syndrome::LocalProtection);
    }
    flow.requester.ops[at].received = 1;
    answered(hca, bus, flow, at, psn, true);
}

/// A packet of an answer is where it belongs.
fn answered(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, at: usize, psn: Psn, last: bool) {
    if last {
        let requester = &mut flow.requester;
        let op = &mut requester.ops[at];
        op.done = true;
        if std::mem::take(&mut op.issued) {
            requester.fetches -= 1;
        }
    }
    acknowledge(hca, bus, flow, psn.plus(1));
}

/// Sends again what is not acknowledged, if there is a retry left. Further bad news about the same packets changes nothing
/// before there is good news, or the timer comes up.
fn again(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) {
    if !flow.requester.recovering {
        retry(hca, bus, flow);
    }
}

fn retry(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) {
    let requester = &mut flow.requester;
    let Some(left) = requester.retries.checked_sub(1) else {
        hca.transport.counters.count(Counter::TransportRetryErr);
        return requester::fail(hca, bus, flow, Syndrome::TransportRetryExceeded);
    };
    requester.retries = left;
    requester.recovering = true;
    requester.timeout = None;
    requester.rewind(requester.unacked);
}

/// A deadline has come.
pub fn timer(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) {
    let now = bus.now();
    let requester = &mut flow.requester;
    if requester.rnr_until.is_some_and(|at| at <= now) {
        requester.rnr_until = None;
    }
    if requester.timeout.is_some_and(|at| at <= now) {
        requester.timeout = None;
        if requester.outstanding() {
            hca.transport.counters.count(Counter::LocalAckTimeoutErr);
            retry(hca, bus, flow);
            rearm(bus, flow);
        }
    }
}

/// The timer runs while something is outstanding, from the last good news on.
fn rearm(bus: &dyn Bus, flow: &mut Flow) {
    let requester = &mut flow.requester;
    if flow.state == QpState::Error || requester.rnr_until.is_some() || !requester.outstanding() {
        requester.timeout = None;
    } else if requester.timeout.is_none() {
        requester.timeout = flow.ack_timeout.map(|t| bus.now() + t);
    }
}
