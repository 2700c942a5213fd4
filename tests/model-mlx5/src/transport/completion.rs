//! Completion queue entries.

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::cqe::{Cqe64, ErrCqe, Syndrome, op_own, opcode};
use zerocopy::{FromZeros, IntoBytes};

use super::{counters::Counter, flow::Flow, wqe::Wqe};
use crate::{eq::Event, hca::Hca, qp::QpState, registers};

/// Which half of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Requester: send queue.
    Send,
    /// Responder: receive queue.
    Receive,
}

/// The byte beside the syndrome. The PRM leaves it to the vendor; these are the values that reports of real cards show,
/// 0 where none is known.
const fn vendor(syndrome: Syndrome, half: Half) -> u8 {
    match syndrome {
        Syndrome::WrFlush => match half {
            Half::Send => 0xf5,
            Half::Receive => 0xf9,
        },
        Syndrome::LocalProtection => match half {
            Half::Send => 0x53,
            Half::Receive => 0x33,
        },
        Syndrome::LocalLength => 0x6a,
        Syndrome::TransportRetryExceeded => 0x81,
        Syndrome::RnrRetryExceeded => 0x87,
        Syndrome::RemoteAccess => 0x88,
        Syndrome::RemoteOperation => 0x89,
        Syndrome::RemoteInvalidRequest => 0x8a,
        _ => 0,
    }
}

/// What a received message's completion says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// CQE opcode.
    pub opcode: u8,
    /// The receive WQE.
    pub counter: u16,
    /// Bytes, with the GRH's 40 of a datagram.
    pub byte_count: u32,
    /// Immediate data or the key that was invalidated; of QP1 the P_Key.
    pub immediate: u32,
    /// The sender asked for a solicited event.
    pub solicited: bool,
    /// Source QPN, service level or kind of RoCE packet, GRH flag.
    pub flags_rqpn: u32,
    /// Source LID.
    pub slid: u16,
    /// Low bits of the destination LID.
    pub path_bits: u8,
    /// VLAN tag that was taken off.
    pub vlan: Option<u16>,
    /// CQ and user index where they are not the QP's.
    pub shared: Option<(u32, u32)>,
}

/// A send WQE is done.
pub fn sent(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, wqe: &Wqe, byte_count: u32) {
    let cqe = Cqe64 {
        srqn_uidx: flow.user_index.into(),
        byte_cnt: byte_count.into(),
        sop_drop_qpn: (u32::from(wqe.opcode) << 24 | flow.qpn).into(),
        wqe_counter: wqe.index.into(),
        op_own: opcode::REQ << op_own::OPCODE_SHIFT,
        ..timestamped(bus)
    };
    push(hca, bus, flow, flow.cqn_snd, cqe.as_bytes(), false);
}

/// A receive WQE is done.
pub fn received(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, what: &Received) {
    let (cqn, user_index) = what.shared.unwrap_or((flow.cqn_rcv, flow.user_index));
    let cqe = Cqe64 {
        ml_path: what.path_bits,
        slid: what.slid.into(),
        flags_rqpn: what.flags_rqpn.into(),
        l4_l3_hdr_type: u8::from(what.vlan.is_some()),
        vlan_info: what.vlan.unwrap_or(0).into(),
        srqn_uidx: user_index.into(),
        imm_inval_pkey: what.immediate.into(),
        byte_cnt: what.byte_count.into(),
        sop_drop_qpn: flow.qpn.into(),
        wqe_counter: what.counter.into(),
        op_own: what.opcode << op_own::OPCODE_SHIFT | if what.solicited { op_own::SOLICITED } else { 0 },
        ..timestamped(bus)
    };
    push(hca, bus, flow, cqn, cqe.as_bytes(), what.solicited);
}

/// A WQE failed or was flushed.
pub fn failed(
    hca: &mut Hca,
    bus: &mut dyn Bus,
    flow: &mut Flow,
    half: Half,
    (index, wqe_opcode): (u16, u8),
    syndrome: Syndrome,
    shared: Option<(u32, u32)>,
) {
    let flush = syndrome == Syndrome::WrFlush;
    let (cqn, cqe_opcode, counter) = match half {
        Half::Send => {
            (flow.cqn_snd, opcode::REQ_ERR, if flush { Counter::ReqCqeFlushError } else { Counter::ReqCqeError })
        }
        Half::Receive => {
            (flow.cqn_rcv, opcode::RESP_ERR, if flush { Counter::RespCqeFlushError } else { Counter::RespCqeError })
        }
    };
    hca.transport.counters.count(counter);
    let (cqn, user_index) = shared.unwrap_or((cqn, flow.user_index));
    let cqe = ErrCqe {
        srqn_uidx: user_index.into(),
        vendor_err_synd: vendor(syndrome, half),
        syndrome: syndrome.to_raw(),
        s_wqe_opcode_qpn: (u32::from(wqe_opcode) << 24 | flow.qpn).into(),
        wqe_counter: index.into(),
        op_own: cqe_opcode << op_own::OPCODE_SHIFT,
        ..ErrCqe::new_zeroed()
    };
    push(hca, bus, flow, cqn, cqe.as_bytes(), false);
}

/// An entry with the time in it, in ticks of the internal timer.
fn timestamped(bus: &dyn Bus) -> Cqe64 {
    let now = registers::ticks(bus.now());
    Cqe64 { timestamp_h: ((now >> 32) as u32).into(), timestamp_l: (now as u32).into(), ..Cqe64::new_zeroed() }
}

/// Writes an entry. A CQ that takes no more takes the QP with it.
fn push(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, cqn: u32, cqe: &[u8], solicited: bool) {
    let Ok(cqe) = cqe.try_into() else { return };
    if hca.push_cqe(bus, cqn, cqe, solicited).is_err() && flow.state != QpState::Error {
        hca.event(bus, Event::QpFatal(flow.qpn));
        super::enter(hca, bus, flow, QpState::Error);
    }
}
