//! Frames that come in: which receive queue gets them, and what its completion says.

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cqe::{self, Cqe64, HAS_VLAN, Syndrome, checksum as status, op_own},
    registers::doorbell_record,
};
use zerocopy::IntoBytes;

use super::{
    checksum, failed,
    headers::{ETHERNET, Headers, VLAN, ethertype, protocol},
    rq_failed, rss, steering, timestamped,
};
use crate::{
    eq::Event,
    hca::Hca,
    mr::KeyUser,
    port::PortState,
    transport::{Counter, pieces, pieces_len, scatter},
    wq::WqState,
};

/// Bytes of a frame check sequence.
const FCS: usize = 4;

/// Layer 3 in the CQE's header types.
mod l3_type {
    pub const IPV6: u8 = 1 << 2;
    pub const IPV4: u8 = 2 << 2;
}

/// Layer 4 in the CQE's header types.
mod l4_type {
    pub const TCP: u8 = 1 << 4;
    pub const UDP: u8 = 2 << 4;
    pub const TCP_ACK: u8 = 3 << 4;
    pub const TCP_ACK_AND_DATA: u8 = 4 << 4;
}

/// Takes a frame in. `origin` is the transport domain that sent it, if it is an own one.
pub fn take(hca: &mut Hca, bus: &mut dyn Bus, frame: &[u8], origin: Option<u32>) {
    let Some(headers) = Headers::parse(frame) else {
        hca.ethernet.dropped.malformed += 1;
        return;
    };
    if origin.is_none() && hca.port.state == PortState::Down {
        hca.ethernet.dropped.port_down += 1;
        return;
    }
    if frame.len() + FCS > usize::from(hca.port.max_frame) {
        hca.ethernet.dropped.rx_too_long += 1;
        return;
    }
    if !hca.nic_vport.accepts(headers.dst) {
        hca.ethernet.dropped.address += 1;
        return;
    }
    hca.nic_vport.traffic.rx.count(frame);
    let hits = steering::walk(&hca.flow_tables, &headers.matched(frame));
    if hits.is_empty() {
        hca.ethernet.dropped.steering += 1;
    }
    for hit in hits {
        let Some(tir) = hca.tirs.get(&hit.tirn) else { continue };
        if origin == Some(tir.transport_domain()) && !tir.takes_own(headers.is_multicast()) {
            continue;
        }
        let hash = rss::hash(tir, &headers, frame);
        let table = tir.indirect().and_then(|rqtn| hca.rqts.get(&rqtn));
        let spread = || table.and_then(|rqt| rqt.rqns.get(hash.value as usize & (rqt.rqns.len() - 1)).copied());
        if let Some(rqn) = tir.direct().or_else(spread) {
            fill(hca, bus, rqn, &Packet { frame, headers, hash, tag: hit.tag });
        }
    }
}

/// A frame on its way into a receive queue.
struct Packet<'a> {
    frame: &'a [u8],
    headers: Headers,
    hash: rss::Hash,
    tag: u32,
}

/// Puts a frame into the next WQE of a receive queue.
fn fill(hca: &mut Hca, bus: &mut dyn Bus, rqn: u32, packet: &Packet) {
    let Some(rq) = hca.rqs.get(&rqn) else { return };
    if rq.state != WqState::Ready {
        hca.ethernet.dropped.queue_not_ready += 1;
        return;
    }
    let (counter_set, strips, pd) = (rq.counter_set(), rq.strips_vlan(), rq.wq.pd);
    let Some((counter, wqe)) = next(hca, bus, rqn) else {
        hca.transport.counters.use_set(counter_set);
        hca.transport.counters.count(Counter::OutOfBuffer);
        hca.transport.counters.use_set(crate::q_counter::DEFAULT);
        return;
    };
    // Only a customer tag is taken off.
    let tag = packet.headers.vlan.filter(|(kind, _)| strips && *kind == ethertype::CVLAN).map(|(_, tci)| tci);
    let untagged;
    let (frame, headers) = if tag.is_some() {
        untagged = [&packet.frame[..ETHERNET - 2], &packet.frame[ETHERNET - 2 + VLAN..]].concat();
        (&untagged[..], Headers::parse(&untagged).unwrap_or_default())
    } else {
        (packet.frame, packet.headers)
    };
    let list = pieces(wqe.chunks_exact(16));
    if pieces_len(&list) < frame.len() as u64 {
        hca.ethernet.dropped.wqe_too_small += 1;
        return;
    }
    let Some(rq) = hca.rqs.get_mut(&rqn) else { return };
    rq.wq.consumer = counter.wrapping_add(1);
    if let Err(fault) = scatter(hca, bus, KeyUser { pd, qpn: 0 }, &list, 0, frame) {
        hca.violation(bus, format_args!("RQ {rqn:#x}, WQE {counter}: {fault:?}"));
        return stop(hca, bus, rqn, counter, Syndrome::LocalProtection);
    }
    let Some(rq) = hca.rqs.get(&rqn) else { return };
    let (cqn, user_index) = (rq.cqn, rq.user_index);
    let cqe = Cqe64 {
        rx_hash_result: packet.hash.value.into(),
        rx_hash_type: packet.hash.kind,
        // Over everything behind the Ethernet header.
        check_sum: checksum::sum(&frame[ETHERNET..]).into(),
        hds_ip_ext: verdict(&headers, frame),
        l4_l3_hdr_type: types(&headers, frame) | if tag.is_some() { HAS_VLAN } else { 0 },
        vlan_info: tag.unwrap_or(0).into(),
        srqn_uidx: user_index.into(),
        byte_cnt: (frame.len() as u32).into(),
        sop_drop_qpn: packet.tag.into(),
        wqe_counter: counter.into(),
        op_own: cqe::opcode::RESP_SEND << op_own::OPCODE_SHIFT,
        ..timestamped(bus)
    };
    push(hca, bus, rqn, cqn, cqe.as_bytes());
}

/// Which checksums are right.
fn verdict(headers: &Headers, frame: &[u8]) -> u8 {
    let l3 = if headers.l3_ok(frame) { status::L3_OK } else { 0 };
    let l4 = if headers.l4_ok(frame) { status::L4_OK } else { 0 };
    status::L2_OK | l3 | l4
}

fn types(headers: &Headers, frame: &[u8]) -> u8 {
    const ACK: u8 = 0x10;
    let l3 = match headers.ip_version {
        4 => l3_type::IPV4,
        6 => l3_type::IPV6,
        _ => 0,
    };
    let l4 = match (headers.l4, headers.protocol) {
        (Some(at), protocol::TCP) => {
            let data = headers.ip.zip(headers.payload(frame)).is_some_and(|((_, end), start)| end > start);
            match (frame[at + 13] & ACK != 0, data) {
                (true, true) => l4_type::TCP_ACK_AND_DATA,
                (true, false) => l4_type::TCP_ACK,
                (false, _) => l4_type::TCP,
            }
        }
        (Some(_), _) => l4_type::UDP,
        (None, _) => 0,
    };
    l3 | l4
}

/// Index and bytes of the next WQE; `None` if there is none that can be read.
fn next(hca: &mut Hca, bus: &mut dyn Bus, rqn: u32) -> Option<(u16, Vec<u8>)> {
    let rq = hca.rqs.get(&rqn)?;
    let (counter, size) = (rq.wq.consumer, rq.wq.size());
    let producer = match rq.wq.posted(bus, doorbell_record::RECEIVE as u64) {
        Ok(producer) => producer,
        Err(fault) => {
            hca.dma_fault(bus, fault, format_args!("reading the doorbell record of RQ {rqn:#x}"));
            return None;
        }
    };
    let posted = producer.wrapping_sub(counter);
    if u32::from(posted) > size {
        let what = format_args!(
            "RQ {rqn:#x}: the doorbell record says {producer}, {posted} WQEs beyond {counter} in a queue of {size}"
        );
        hca.violation(bus, what);
        return None;
    }
    if posted == 0 {
        return None;
    }
    let mut wqe = vec![0; rq.wq.stride()];
    if let Err(fault) = rq.wq.memory.read(bus, rq.wq.at(counter), &mut wqe) {
        hca.dma_fault(bus, fault, format_args!("reading WQE {counter} of RQ {rqn:#x}"));
        return None;
    }
    Some((counter, wqe))
}

/// Flushes a WQE of a receive queue in error; false if there is none.
pub fn flush(hca: &mut Hca, bus: &mut dyn Bus) -> bool {
    let rqns: Vec<u32> = hca.ethernet.failed.iter().copied().collect();
    for rqn in rqns {
        let flushes = hca.rqs.get(&rqn).is_some_and(|rq| rq.state == WqState::Error && rq.flush);
        if !flushes {
            hca.ethernet.failed.remove(&rqn);
            continue;
        }
        if let Some((counter, _)) = next(hca, bus, rqn) {
            if let Some(rq) = hca.rqs.get_mut(&rqn) {
                rq.wq.consumer = counter.wrapping_add(1);
            }
            stop(hca, bus, rqn, counter, Syndrome::WrFlush);
            return true;
        }
    }
    false
}

/// Completes a WQE in error; the queue is in error from then on.
fn stop(hca: &mut Hca, bus: &mut dyn Bus, rqn: u32, counter: u16, syndrome: Syndrome) {
    let Some(rq) = hca.rqs.get_mut(&rqn) else { return };
    rq.state = WqState::Error;
    let (cqn, user_index) = (rq.cqn, rq.user_index);
    rq_failed(hca, bus, rqn);
    let cqe = failed(cqe::opcode::RESP_ERR, syndrome, user_index, rqn, counter);
    push(hca, bus, rqn, cqn, &cqe);
}

/// Writes a completion. A CQ that takes no more takes the receive queue with it.
fn push(hca: &mut Hca, bus: &mut dyn Bus, rqn: u32, cqn: u32, cqe: &[u8]) {
    let Ok(cqe) = cqe.try_into() else { return };
    if hca.push_cqe(bus, cqn, cqe, false).is_err()
        && let Some(rq) = hca.rqs.get_mut(&rqn)
    {
        (rq.state, rq.flush) = (WqState::Error, false);
        hca.event(bus, Event::QueueFatal { rq: true, number: rqn });
    }
}
