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

use std::time::Duration;

use bareverbs_harness::model::{Bus, Frame, Step};

use crate::{hca::Hca, qp::QpState};

/// What the transport keeps for the whole device.
#[derive(Debug, Default)]
pub struct Transport {}

/// What the transport keeps for a QP; `Default` is the RESET state.
#[derive(Clone, Debug, Default)]
pub struct QpTransport {}

/// A doorbell rang for the QP: its doorbell record may have moved. `wqe` is what a BlueFlame write brought, if it did.
pub fn doorbell(_hca: &mut Hca, _bus: &mut dyn Bus, _qpn: u32, _wqe: Option<&[u8]>) {}

/// A frame came in; only queue it.
pub fn receive(_hca: &mut Hca, _bus: &mut dyn Bus, _port: u8, _frame: Frame) {}

/// Does one unit of work.
pub fn step(_hca: &mut Hca, _bus: &mut dyn Bus) -> Step {
    Step::Idle
}

/// When [`step`] has something to do though nothing happens from outside.
pub fn next_deadline(_hca: &Hca) -> Option<Duration> {
    None
}

/// The QP's state changed: `Error` flushes, `Reset` drops everything, `ReadyToReceive` and `ReadyToSend` take the PSNs
/// from the context.
pub fn state_changed(_hca: &mut Hca, _bus: &mut dyn Bus, _qpn: u32, _old: QpState, _new: QpState) {}

/// Writes into a copy of the QP context what the transport knows better: next PSNs, counters.
pub fn fill_context(_hca: &Hca, _qpn: u32, _ctx: &mut [u8]) {}
