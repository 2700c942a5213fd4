//! The responder of datagrams: UD, and the management QPs (IBA 9.8.3, 9.9.2.2, 11.4.1.2).

use bareverbs::wire::frame::Frame;
use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cqe::{Syndrome, opcode},
    wqe::recv_opcode,
};

use super::{
    completion::{self, Half, Received},
    counters::Counter,
    data, enter,
    flow::Flow,
    recv,
    responder::arrival,
};
use crate::{
    hca::Hca,
    qp::{QpState, Service},
};

/// Room for a GRH or an IP header before each datagram.
const HEADER_ROOM: usize = 40;

/// Takes a datagram.
pub fn take(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, frame: &Frame<'_>) {
    if !matches!(
        flow.state,
        QpState::ReadyToReceive | QpState::ReadyToSend | QpState::SendQueueDrained | QpState::SendQueueError
    ) {
        return hca.transport.counters.count(Counter::QpNotReady);
    }
    let repr = &frame.repr;
    let Some(deth) = repr.ext.deth else { return hca.transport.counters.count(Counter::MalformedFrame) };
    if flow.service != Service::Qp0 && deth.qkey != flow.qkey {
        return hca.transport.counters.count(Counter::QkeyViolation);
    }
    let Some(recv) = recv::take(hca, bus, flow, flow.receive_from) else {
        return hca.transport.counters.count(Counter::OutOfBuffer);
    };
    let len = HEADER_ROOM + frame.payload.len();
    let placed = if len as u64 > data::len(&recv.pieces) {
        Err(Syndrome::LocalLength)
    } else {
        let mut room = [0; HEADER_ROOM];
        let header = frame.network_header().map(|header| {
            // An IPv4 header stands at the end of the room (A17.4.5.2).
            let at = HEADER_ROOM.saturating_sub(header.len());
            room[at..].copy_from_slice(&header[..HEADER_ROOM - at]);
            &room[..]
        });
        data::scatter(hca, bus, recv.user, &recv.pieces, 0, header.unwrap_or(&[]))
            .and_then(|()| data::scatter(hca, bus, recv.user, &recv.pieces, HEADER_ROOM as u64, frame.payload))
            .map_err(|_| Syndrome::LocalProtection)
    };
    if let Err(syndrome) = placed {
        hca.transport.counters.count(match syndrome {
            Syndrome::LocalLength => Counter::RespLocalLengthError,
            _ => Counter::RespLocalProtectionError,
        });
        completion::failed(hca, bus, flow, Half::Receive, (recv.counter, recv_opcode::SEND), syndrome, None);
        return enter(hca, bus, flow, QpState::Error);
    }
    hca.transport.counters.count(Counter::RxSends);
    let immediate = repr.ext.imm.map(|imm| imm.data);
    let what = Received {
        opcode: if immediate.is_some() { opcode::RESP_SEND_IMM } else { opcode::RESP_SEND },
        counter: recv.counter,
        byte_count: len as u32,
        immediate: immediate.unwrap_or(if flow.service == Service::Qp1 { u32::from(repr.bth.pkey) } else { 0 }),
        solicited: repr.bth.solicited,
        ..arrival(repr, deth.src_qp)
    };
    completion::received(hca, bus, flow, &what);
}
