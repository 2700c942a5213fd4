//! Receive WQEs: from a QP's own receive queue or from a shared one.

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::wqe::{DataSeg, INVALID_LKEY};
use zerocopy::FromBytes;

use super::{flow::Flow, wqe::Piece};
use crate::{
    hca::Hca,
    mr::KeyUser,
    qp::ReceiveFrom,
    srq::{RecvWqe, SrqKind},
};

/// A receive WQE that a message took.
#[derive(Clone, Debug)]
pub struct Recv {
    /// What the CQE calls it.
    pub counter: u16,
    /// Where the message goes.
    pub pieces: Vec<Piece>,
    /// Who uses the keys: an SRQ has a protection domain of its own.
    pub user: KeyUser,
}

/// Bytes of a data segment.
const SEG: usize = size_of::<DataSeg>();

/// Takes the next receive WQE; `None` if there is none, or none that can be read (which is a violation).
pub fn take(hca: &mut Hca, bus: &mut dyn Bus, flow: &Flow, from: ReceiveFrom) -> Option<Recv> {
    match from {
        ReceiveFrom::Own => take_own(hca, bus, flow),
        ReceiveFrom::Srq(srqn) => take_shared(hca, bus, flow, srqn),
        ReceiveFrom::Nowhere => None,
    }
}

/// Receive WQEs that are posted and not taken, where the QP has a queue of its own.
pub fn posted(hca: &mut Hca, bus: &mut dyn Bus, flow: &Flow) -> Option<u16> {
    if flow.receive_from != ReceiveFrom::Own {
        return None;
    }
    let qp = hca.qps.get(&flow.qpn)?;
    let (consumer, size) = (qp.rq.consumer, qp.rq.size);
    let producer = match qp.read_dbr(bus) {
        Ok((producer, _)) => producer,
        Err(fault) => {
            hca.dma_fault(bus, fault, format_args!("reading the doorbell record of QP {:#x}", flow.qpn));
            return Some(0);
        }
    };
    let posted = producer.wrapping_sub(consumer);
    if u32::from(posted) > size {
        hca.violation(
            bus,
            format_args!(
                "QP {:#x}: the receive doorbell record says {producer}, {posted} WQEs beyond {consumer} in a queue of {size}",
                flow.qpn
            ),
        );
        return Some(0);
    }
    Some(posted)
}

fn take_own(hca: &mut Hca, bus: &mut dyn Bus, flow: &Flow) -> Option<Recv> {
    if posted(hca, bus, flow)? == 0 {
        return None;
    }
    let qp = hca.qps.get_mut(&flow.qpn)?;
    let counter = qp.rq.consumer;
    let stride = qp.rq.stride as usize;
    let mut wqe = vec![0; stride];
    let at = u64::from(u32::from(counter) & (qp.rq.size - 1)) * stride as u64;
    if let Err(fault) = qp.rq.memory.read(bus, at, &mut wqe) {
        hca.dma_fault(bus, fault, format_args!("reading receive WQE {counter} of QP {:#x}", flow.qpn));
        return None;
    }
    qp.rq.consumer = counter.wrapping_add(1);
    Some(Recv { counter, pieces: pieces(wqe.chunks_exact(SEG)), user: flow.user() })
}

fn take_shared(hca: &mut Hca, bus: &mut dyn Bus, flow: &Flow, srqn: u32) -> Option<Recv> {
    let RecvWqe { counter, segments } = match hca.take_srq(bus, srqn) {
        Ok(wqe) => wqe?,
        Err(fault) => {
            hca.dma_fault(bus, fault, format_args!("reading a WQE of SRQ {srqn:#x}"));
            return None;
        }
    };
    let pd = hca.srqs.get(&srqn).map_or(flow.pd, |srq| srq.pd);
    Some(Recv { counter, pieces: pieces(segments.iter().map(|s| &s[..])), user: KeyUser { pd, qpn: flow.qpn } })
}

/// The scatter list of a receive WQE; it ends at the invalid lkey or with the WQE.
pub fn pieces<'a>(segments: impl Iterator<Item = &'a [u8]>) -> Vec<Piece> {
    segments
        .map_while(|bytes| DataSeg::read_from_bytes(bytes).ok())
        .take_while(|seg| seg.lkey.get() != INVALID_LKEY)
        .map(|seg| Piece::Memory {
            lkey: seg.lkey.get(),
            addr: seg.addr.get(),
            len: seg.byte_count.get() & 0x7fff_ffff,
        })
        .collect()
}

/// CQ and user index of completions of receives from an XRC SRQ of this domain.
pub fn shared_completion(hca: &Hca, srqn: u32, domain: u32) -> Option<(u32, u32)> {
    match hca.srqs.get(&srqn)?.kind {
        SrqKind::Xrc { xrcd, cqn, user_index } if xrcd == domain => Some((cqn, user_index)),
        _ => None,
    }
}
