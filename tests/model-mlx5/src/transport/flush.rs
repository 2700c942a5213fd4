//! What is left of a QP in error: its WQEs complete, one after the other, in the order in which they were posted.

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cqe::Syndrome,
    wqe::{BB, recv_opcode},
};

use super::{
    completion::{self, Half},
    flow::Flow,
    recv,
    responder::Message,
    wqe,
};
use crate::{
    eq::Event,
    hca::Hca,
    qp::{QpState, ReceiveFrom},
};

/// Flushes one WQE. Tells whether there was any.
pub fn step(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) -> bool {
    match flow.state {
        QpState::Error => flush_send(hca, bus, flow) || flush_receive(hca, bus, flow),
        QpState::SendQueueError => flush_send(hca, bus, flow),
        _ => false,
    }
}

/// Flushes all sends, before a QP whose send queue failed sends again.
pub fn sends(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) {
    while flush_send(hca, bus, flow) {}
}

fn flush_send(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) -> bool {
    let index = match flow.requester.ops.pop_front() {
        Some(op) => (op.wqe.index, op.wqe.opcode),
        None => match next_posted(hca, bus, flow) {
            Some(index) => index,
            None => return false,
        },
    };
    flow.requester.current = 0;
    completion::failed(hca, bus, flow, Half::Send, index, Syndrome::WrFlush, None);
    true
}

/// Index and opcode of the next WQE in the send queue, which is taken off it.
fn next_posted(hca: &mut Hca, bus: &mut dyn Bus, flow: &Flow) -> Option<(u16, u8)> {
    let qp = hca.qps.get_mut(&flow.qpn)?;
    let index = qp.sq.consumer;
    let posted = qp.sq.producer.wrapping_sub(index);
    if posted == 0 {
        return None;
    }
    let mut control = [0; 16];
    let at = u64::from(u32::from(index) & qp.sq.blocks.wrapping_sub(1)) * BB as u64;
    let read = qp.sq.memory.read(bus, at, &mut control);
    qp.sq.consumer = index.wrapping_add(wqe::blocks(&control).clamp(1, posted));
    if let Err(fault) = read {
        hca.dma_fault(bus, fault, format_args!("reading send WQE {index} of QP {:#x}", flow.qpn));
    }
    Some((index, control[3]))
}

fn flush_receive(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) -> bool {
    let taken = match (flow.responder.message.take(), flow.responder.stash.take()) {
        (Some(Message::Send { recv, shared, .. }), stash) => {
            flow.responder.stash = stash;
            Some((recv, shared))
        }
        (_, stash) => stash,
    };
    let taken = taken.or_else(|| match flow.receive_from {
        ReceiveFrom::Own => recv::take(hca, bus, flow, ReceiveFrom::Own).map(|recv| (recv, None)),
        _ => None,
    });
    if let Some((recv, shared)) = taken {
        let index = (recv.counter, recv_opcode::SEND);
        completion::failed(hca, bus, flow, Half::Receive, index, Syndrome::WrFlush, shared);
        return true;
    }
    // The WQEs of a shared queue stay in it.
    if matches!(flow.receive_from, ReceiveFrom::Srq(_)) && !flow.responder.last_wqe_reported {
        flow.responder.last_wqe_reported = true;
        hca.event(bus, Event::LastWqeReached(flow.qpn));
    }
    false
}
