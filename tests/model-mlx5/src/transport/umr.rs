//! UMR WQEs: memory keys changed by the send queue.

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::cqe::Syndrome;

use super::{flow::Flow, wqe::Wqe};
use crate::hca::Hca;

/// Executes a UMR WQE. The capability is not advertised, so a driver that posts one is wrong.
pub fn execute(hca: &mut Hca, bus: &mut dyn Bus, flow: &Flow, wqe: &Wqe) -> Result<(), Syndrome> {
    hca.violation(bus, format_args!("QP {:#x}, send WQE {}: UMR is not supported", flow.qpn, wqe.index));
    Err(Syndrome::LocalQpOperation)
}
