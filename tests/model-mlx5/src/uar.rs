//! User access regions: ALLOC_UAR, DEALLOC_UAR, and the doorbells written into them.

use std::collections::BTreeSet;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{alloc_uar as alloc, dealloc_uar as dealloc},
    registers::uar as layout,
};

use crate::{
    command::Call,
    cq, eq, ethernet,
    hca::{BAR_SIZE, Hca},
    qp::qpc,
    refusal::{Outcome, Refused, require},
    ring::PageList,
    transport,
};

/// First UAR; the pages below belong to the initialization segment.
pub const FIRST: u32 = 0x100;
/// UARs end where the BAR ends.
pub const END: u32 = (BAR_SIZE / layout::PAGE_SIZE as u64) as u32;

/// A register write to a UAR that waits to be worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// The beginning of a WQE, written to a BlueFlame register: 8 bytes are a doorbell, 64 or more the WQE itself.
    Send {
        /// UAR page.
        uar: u32,
        /// Where in the page.
        offset: u64,
        /// Bytes as written.
        bytes: Vec<u8>,
    },
    /// CQ arm.
    Cq {
        /// UAR page.
        uar: u32,
        /// Bytes as written.
        bytes: Vec<u8>,
    },
    /// EQ consumer index, with or without arming.
    Eq {
        /// UAR page.
        uar: u32,
        /// Whether it arms.
        arm: bool,
        /// The dword as written.
        word: u32,
    },
}

/// The byte of a WQE with fence, completion mode and solicited event.
const CE_FLAGS: usize = 11;

/// UARs that the driver allocated.
pub type Uars = BTreeSet<u32>;

/// ALLOC_UAR.
pub fn alloc_uar(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let Some(uar) = hca.numbers.uar.take(|n| hca.uars.contains(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x0800, "no UAR is left"));
    };
    hca.uars.insert(uar);
    alloc::out::UAR.set(call.out, uar);
    Ok(())
}

/// DEALLOC_UAR: no EQ may listen to it. CQs and QPs may: they hear no doorbell from there any more (Linux 6.1 frees what a
/// process that died has left in any order).
pub fn dealloc_uar(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let uar = dealloc::UAR.get(call.input);
    require(hca.uars.contains(&uar), Status::BadResource, 0x0801, format_args!("UAR {uar:#x} is not allocated"))?;
    let eq = hca.eqs.values().find(|eq| eq.uar == uar).map(|eq| format!("EQ {}", eq.eqn));
    if let Some(user) = eq {
        return Err(Refused::new(Status::BadResourceState, 0x0802, format_args!("{user} uses UAR {uar:#x}")));
    }
    hca.uars.remove(&uar);
    Ok(())
}

/// A write into the UAR part of the BAR. Only queues; two halves of a doorbell, and the parts of a BlueFlame burst,
/// come together here.
pub fn write(hca: &mut Hca, bus: &mut dyn Bus, at: u64, data: &[u8]) {
    let (uar, offset) = ((at / layout::PAGE_SIZE as u64) as u32, at % layout::PAGE_SIZE as u64);
    if !hca.uars.contains(&uar) {
        return hca.violation(bus, format_args!("write to UAR {uar:#x}, which is not allocated"));
    }
    if !matches!(data.len(), 4 | 8) || !at.is_multiple_of(data.len() as u64) {
        return hca.violation(bus, format_args!("write of {} bytes at {offset:#x} of a UAR", data.len()));
    }
    match offset as usize {
        layout::EQ_DOORBELL_ARM | layout::EQ_DOORBELL if data.len() == 4 => {
            let arm = offset as usize == layout::EQ_DOORBELL_ARM;
            let word = crate::ring::read_dword(data, 0);
            hca.doorbells.push_back(Doorbell::Eq { uar, arm, word });
        }
        at if at == layout::CQ_DOORBELL => hca.doorbells.push_back(Doorbell::Cq { uar, bytes: data.to_vec() }),
        at if at == layout::CQ_DOORBELL + 4 && data.len() == 4 => match hca.doorbells.back_mut() {
            Some(Doorbell::Cq { uar: open, bytes }) if *open == uar && bytes.len() == 4 => bytes.extend(data),
            _ => hca.violation(bus, format_args!("second half of a CQ doorbell without the first")),
        },
        at if at >= layout::BLUEFLAME => blueflame(hca, bus, uar, offset, data),
        _ => hca.violation(bus, format_args!("write to offset {offset:#x} of a UAR, where nothing is")),
    }
}

fn blueflame(hca: &mut Hca, bus: &mut dyn Bus, uar: u32, offset: u64, data: &[u8]) {
    if offset.is_multiple_of(layout::BLUEFLAME_BUFFER_SIZE as u64) {
        return hca.doorbells.push_back(Doorbell::Send { uar, offset, bytes: data.to_vec() });
    }
    match hca.doorbells.back_mut() {
        Some(Doorbell::Send { uar: open, offset: start, bytes })
            if *open == uar && *start + bytes.len() as u64 == offset =>
        {
            bytes.extend(data);
        }
        // The doorbell was taken already, as soon as its first 8 bytes were there: the rest says nothing new.
        _ if data.len() == 8 => {}
        _ => hca.violation(bus, format_args!("write to offset {offset:#x} of a BlueFlame register without its start")),
    }
}

/// Works on the oldest doorbell; true if there was one.
pub fn step(hca: &mut Hca, bus: &mut dyn Bus) -> bool {
    let half = |bytes: &Vec<u8>| bytes.len() < 8;
    match hca.doorbells.front() {
        None => return false,
        // The other half of a doorbell that was written in two is still to come.
        Some(Doorbell::Send { bytes, .. } | Doorbell::Cq { bytes, .. }) if half(bytes) && hca.doorbells.len() == 1 => {
            return false;
        }
        Some(_) => {}
    }
    match hca.doorbells.pop_front() {
        Some(Doorbell::Eq { uar, arm, word }) => eq::doorbell(hca, bus, uar, word, arm),
        Some(Doorbell::Cq { uar, bytes }) => match bytes.first_chunk() {
            Some(word) => cq::doorbell(hca, bus, uar, word),
            None => hca.violation(bus, format_args!("half a CQ doorbell")),
        },
        Some(Doorbell::Send { uar, bytes, .. }) => send(hca, bus, uar, &bytes),
        None => {}
    }
    true
}

/// The second dword of a WQE holds the number of the QP, or of the send queue.
fn send(hca: &mut Hca, bus: &mut dyn Bus, uar: u32, bytes: &[u8]) {
    if bytes.len() < 8 {
        return hca.violation(bus, format_args!("half a doorbell in UAR {uar:#x}"));
    }
    let qpn = crate::ring::read_dword(bytes, 4) >> 8;
    let queue = match (hca.qps.get(&qpn), hca.sqs.get(&qpn)) {
        (Some(qp), _) => Some((qp.get(qpc::UAR_PAGE), &qp.sq.memory, qp.sq.blocks)),
        (None, Some(sq)) => Some((sq.uar, &sq.wq.memory, sq.wq.size())),
        (None, None) => None,
    };
    let Some((own, memory, blocks)) = queue else {
        return hca.violation(bus, format_args!("doorbell for QP {qpn:#x}, which does not exist"));
    };
    if own != uar {
        return hca.violation(bus, format_args!("doorbell for QP {qpn:#x} in UAR {uar:#x} instead of {own:#x}"));
    }
    let wqe = (bytes.len() >= 64).then_some(bytes);
    if let Some(wqe) = wqe
        && let Some(why) = differs(memory, blocks, bus, wqe)
    {
        return hca.violation(bus, format_args!("QP {qpn:#x}: {why}"));
    }
    if hca.sqs.contains_key(&qpn) {
        return ethernet::doorbell(hca, bus, qpn);
    }
    transport::doorbell(hca, bus, qpn, wqe);
}

/// What is wrong with a WQE in a BlueFlame register: it has to be the one in the send queue, but for the completion
/// flags, which count as they were brought: Linux finds out that way whether BlueFlame works (mlx5_ib_test_wc).
fn differs(memory: &PageList, blocks: u32, bus: &mut dyn Bus, wqe: &[u8]) -> Option<String> {
    let index = (crate::ring::read_dword(wqe, 0) >> 8) as u16;
    let block = u32::from(index) & blocks.checked_sub(1)?;
    let mut queued = vec![0; wqe.len()];
    memory.read(bus, u64::from(block) * 64, &mut queued).ok()?;
    // The card takes WQEs by the doorbell record too, so that one may be done, and its place taken by a later one,
    // before its own doorbell has come through.
    let later = ((crate::ring::read_dword(&queued, 0) >> 8) as u16).wrapping_sub(index);
    if (1..0x8000).contains(&later) && u32::from(later) % blocks == 0 {
        return None;
    }
    // Only the WQE itself counts, not what a copy in units of 64 bytes brings behind it.
    let len = (wqe[7] as usize & 0x3f) * 16;
    let len = len.min(wqe.len());
    let at = (0..len).find(|&i| i != CE_FLAGS && queued[i] != wqe[i])?;
    Some(format!("BlueFlame brought another WQE {index} than the send queue holds, from byte {at:#x}"))
}
