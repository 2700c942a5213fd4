//! Send queues: from the doorbell to the frame on the link.

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    context::sqc,
    cqe::{self, Cqe64, Syndrome, op_own},
    registers::doorbell_record,
    wqe::{CtrlSeg, DS, DS_PER_BB, DataSeg, EthSeg, INLINE, INLINE_LENGTH_MASK, ctrl, eth, opcode},
};
use zerocopy::{FromBytes, IntoBytes};

use super::{checksum, deliver, failed, headers::Headers, headers::ethertype, schedule, segment, timestamped};
use crate::{
    eq::Event,
    eth_cap::LOG_MAX_LSO,
    hca::Hca,
    mr::KeyUser,
    transport::{Piece, gather},
    wq::WqState,
};

/// Shortest frame on the link, without its check sequence; shorter ones are padded.
const SHORTEST: usize = 60;
/// Bytes of a frame check sequence.
const FCS: usize = 4;
/// Bytes of headers before an LSO's payload at most.
const HEADERS: u64 = 512;
/// Where the inline headers begin in a WQE.
const INLINE_START: usize = 30;
/// Where the data segments begin in a WQE without inline headers.
const DATA: usize = 32;

/// Bits of the word that otherwise counts inline headers: add a VLAN tag, whose control information follows; make it a
/// service tag.
mod insert {
    pub const VLAN: u16 = 1 << 15;
    pub const SERVICE: u16 = 1 << 0;
}

/// What stops a WQE.
struct Failure {
    syndrome: Syndrome,
    /// What the driver did wrong.
    why: Option<String>,
}

fn malformed(why: impl Into<String>) -> Failure {
    Failure { syndrome: Syndrome::LocalQpOperation, why: Some(why.into()) }
}

/// A doorbell rang: the doorbell record may have moved.
pub fn doorbell(hca: &mut Hca, bus: &mut dyn Bus, sqn: u32) {
    let Some(sq) = hca.sqs.get_mut(&sqn) else { return };
    // A doorbell that rang before the command that reset the queue may be worked on after it.
    if sq.state == WqState::Reset {
        return;
    }
    match sq.wq.posted(bus, doorbell_record::SEND as u64) {
        Err(fault) => hca.dma_fault(bus, fault, format_args!("reading the doorbell record of SQ {sqn:#x}")),
        Ok(producer) => {
            let (consumer, size) = (sq.wq.consumer, sq.wq.size());
            let posted = producer.wrapping_sub(consumer);
            if u32::from(posted) > size {
                let what = format_args!(
                    "SQ {sqn:#x}: the doorbell record says {producer}, {posted} blocks beyond {consumer} in a queue of {size}"
                );
                return hca.violation(bus, what);
            }
            sq.producer = producer;
            schedule(hca, sqn);
        }
    }
}

/// Executes or flushes the next WQE; false if there is none.
pub fn execute(hca: &mut Hca, bus: &mut dyn Bus, sqn: u32) -> bool {
    let Some(sq) = hca.sqs.get(&sqn) else { return false };
    let (state, flush, index, posted) = (sq.state, sq.flush, sq.wq.consumer, sq.producer.wrapping_sub(sq.wq.consumer));
    if posted == 0 || state == WqState::Reset || state == WqState::Error && !flush {
        return false;
    }
    let mut head = [0; DS];
    if let Err(fault) = sq.wq.memory.read(bus, sq.wq.at(index), &mut head) {
        hca.dma_fault(bus, fault, format_args!("reading WQE {index} of SQ {sqn:#x}"));
        stop(hca, bus, sqn, index, 0, Syndrome::LocalQpOperation);
        return false;
    }
    let control = CtrlSeg::read_from_bytes(&head).expect("16 bytes");
    let (what, size) = (control.opmod_idx_opcode.get(), control.qpn_ds.get());
    let (code, units) = (what as u8, (size & 0x3f) as usize);
    let blocks = units.div_ceil(DS_PER_BB).max(1) as u16;
    advance(hca, sqn, blocks.min(posted));
    if state == WqState::Error {
        stop(hca, bus, sqn, index, code, Syndrome::WrFlush);
        return true;
    }
    let checked = if (what >> 8) as u16 != index {
        Err(malformed(format!("its control segment says index {}", (what >> 8) as u16)))
    } else if size >> 8 != sqn {
        Err(malformed(format!("its control segment says queue {:#x}", size >> 8)))
    } else if units == 0 || blocks > posted {
        Err(malformed(format!("it has {units} units, {posted} blocks were posted")))
    } else {
        Ok(())
    };
    match checked.and_then(|()| run(hca, bus, sqn, index, code, units)) {
        Ok(bytes) => {
            if control.fm_ce_se & ctrl::CE_MASK != 0 {
                complete(hca, bus, sqn, index, code, bytes);
            }
        }
        Err(failure) => {
            if let Some(why) = failure.why {
                hca.violation(bus, format_args!("SQ {sqn:#x}, WQE {index}: {why}"));
            }
            stop(hca, bus, sqn, index, code, failure.syndrome);
        }
    }
    true
}

fn advance(hca: &mut Hca, sqn: u32, blocks: u16) {
    if let Some(sq) = hca.sqs.get_mut(&sqn) {
        sq.wq.consumer = sq.wq.consumer.wrapping_add(blocks);
    }
}

/// Does what a WQE says; tells how many bytes were sent.
fn run(hca: &mut Hca, bus: &mut dyn Bus, sqn: u32, index: u16, code: u8, units: usize) -> Result<u32, Failure> {
    match code {
        opcode::NOP => return Ok(0),
        opcode::SEND | opcode::LSO => {}
        other => return Err(malformed(format!("opcode {other:#x} is not for a send queue of Ethernet"))),
    }
    let domain = transport_domain(hca, sqn).ok_or_else(|| malformed("a queue without a TIS sends nothing"))?;
    let Some(sq) = hca.sqs.get(&sqn) else { return Ok(0) };
    let pd = sq.wq.pd;
    let mut wqe = vec![0; units * DS];
    if let Err(fault) = sq.wq.memory.read(bus, sq.wq.at(index), &mut wqe) {
        hca.dma_fault(bus, fault, format_args!("reading WQE {index} of SQ {sqn:#x}"));
        return Err(Failure { syndrome: Syndrome::LocalQpOperation, why: None });
    }
    let segment = wqe.get(DS..DATA).ok_or_else(|| malformed("no room for the Ethernet segment"))?;
    let segment = EthSeg::read_from_bytes(segment).expect("16 bytes");
    if segment.cs_flags & (eth::L3_INNER_CSUM | eth::L4_INNER_CSUM) != 0 || segment.swp_flags != 0 {
        return Err(malformed("offloads of tunnels and software parsing are not advertised"));
    }
    let word = segment.inline_hdr_sz.get();
    let tag = (word & insert::VLAN != 0).then(|| {
        let kind = if word & insert::SERVICE != 0 { ethertype::SVLAN } else { ethertype::CVLAN };
        (kind, segment.inline_hdr_start)
    });
    let inline = if tag.is_some() { 0 } else { usize::from(word) };
    let least = sqc::MIN_WQE_INLINE_MODE.get(&sq.raw);
    let mut header =
        wqe.get(INLINE_START..INLINE_START + inline).ok_or_else(|| malformed("inline headers too long"))?.to_vec();
    let data = DATA + inline.saturating_sub(2).next_multiple_of(DS);
    let payload = collect(hca, bus, pd, wqe.get(data..).unwrap_or_default())?;
    if inline < least_inline(least).min(inline + payload.len()) {
        return Err(malformed(format!("{inline} bytes of headers inline, in inline mode {least}")));
    }

    let mut frames = if code == opcode::LSO {
        let mss = usize::from(segment.mss.get());
        let why =
            || malformed(format!("an LSO of {} bytes behind {inline} of headers, segments of {mss}", payload.len()));
        segment::cut(&header, &payload, mss).ok_or_else(why)?
    } else {
        header.extend(payload);
        vec![header]
    };
    let bytes = frames.iter().map(Vec::len).sum::<usize>() as u32;
    for frame in &mut frames {
        finish(frame, tag, segment.cs_flags);
    }
    for frame in frames {
        transmit(hca, bus, frame, domain);
    }
    Ok(bytes)
}

/// Bytes that the headers of an inline mode take at least: an Ethernet header with room for a tag (both Linux and libmlx5
/// bring 18 bytes of any frame), IPv4, and UDP.
fn least_inline(mode: u32) -> usize {
    match mode {
        0 => 0,
        1 => 18,
        2 => 14 + 20,
        _ => 14 + 20 + 8,
    }
}

/// The data behind the segments of a WQE.
fn collect(hca: &mut Hca, bus: &mut dyn Bus, pd: u32, mut segments: &[u8]) -> Result<Vec<u8>, Failure> {
    let (mut pieces, mut inline, mut len) = (Vec::new(), Vec::new(), 0u64);
    while let Some((head, _)) = segments.split_first_chunk::<4>() {
        let count = u32::from_be_bytes(*head);
        let short = || malformed("a data segment is cut off");
        if count & INLINE != 0 {
            let n = (count & INLINE_LENGTH_MASK) as usize;
            pieces.push(Piece::Inline { at: inline.len() as u32, len: n as u32 });
            inline.extend_from_slice(segments.get(4..4 + n).ok_or_else(short)?);
            len += n as u64;
            segments = segments.get((4 + n).next_multiple_of(DS)..).ok_or_else(short)?;
        } else {
            let (seg, rest) = DataSeg::read_from_prefix(segments).map_err(|_| short())?;
            pieces.push(Piece::Memory { lkey: seg.lkey.get(), addr: seg.addr.get(), len: count });
            len += u64::from(count);
            segments = rest;
        }
    }
    if len > (1 << LOG_MAX_LSO) + HEADERS {
        return Err(malformed(format!("{len} bytes in one WQE")));
    }
    let mut bytes = vec![0; len as usize];
    let user = KeyUser { pd, qpn: 0 };
    match gather(hca, bus, user, (&pieces, &inline), 0, &mut bytes) {
        Ok(()) => Ok(bytes),
        Err(fault) => Err(Failure { syndrome: Syndrome::LocalProtection, why: Some(format!("its data: {fault:?}")) }),
    }
}

/// Adds the VLAN tag, and the checksums that were asked for.
fn finish(frame: &mut Vec<u8>, tag: Option<(u16, [u8; 2])>, flags: u8) {
    if let Some((kind, tci)) = tag
        && frame.len() >= 12
    {
        let [high, low] = kind.to_be_bytes();
        frame.splice(12..12, [high, low, tci[0], tci[1]]);
    }
    let Some(headers) = Headers::parse(frame) else { return };
    if flags & eth::L3_CSUM != 0 {
        checksum::write_layer3(&headers, frame);
    }
    if flags & eth::L4_CSUM != 0 {
        checksum::write_layer4(&headers, frame);
    }
}

fn transmit(hca: &mut Hca, bus: &mut dyn Bus, mut frame: Vec<u8>, domain: u32) {
    if frame.len() + FCS > usize::from(hca.port.max_frame) {
        hca.ethernet.dropped.tx_too_long += 1;
        return;
    }
    frame.resize(frame.len().max(SHORTEST), 0);
    deliver(hca, bus, frame.into(), domain);
}

fn transport_domain(hca: &Hca, sqn: u32) -> Option<u32> {
    Some(hca.tiss.get(&hca.sqs.get(&sqn)?.tisn?)?.transport_domain())
}

fn complete(hca: &mut Hca, bus: &mut dyn Bus, sqn: u32, index: u16, code: u8, bytes: u32) {
    let Some(sq) = hca.sqs.get(&sqn) else { return };
    let cqn = sq.cqn;
    let cqe = Cqe64 {
        srqn_uidx: sq.user_index.into(),
        byte_cnt: bytes.into(),
        sop_drop_qpn: (u32::from(code) << 24 | sqn).into(),
        wqe_counter: index.into(),
        op_own: cqe::opcode::REQ << op_own::OPCODE_SHIFT,
        ..timestamped(bus)
    };
    push(hca, bus, sqn, cqn, cqe.as_bytes());
}

/// Completes a WQE in error; the queue is in error from then on.
fn stop(hca: &mut Hca, bus: &mut dyn Bus, sqn: u32, index: u16, code: u8, syndrome: Syndrome) {
    let Some(sq) = hca.sqs.get_mut(&sqn) else { return };
    sq.state = WqState::Error;
    let (cqn, user_index) = (sq.cqn, sq.user_index);
    let cqe = failed(cqe::opcode::REQ_ERR, syndrome, user_index, u32::from(code) << 24 | sqn, index);
    push(hca, bus, sqn, cqn, &cqe);
}

/// Writes a completion. A CQ that takes no more takes the send queue with it.
fn push(hca: &mut Hca, bus: &mut dyn Bus, sqn: u32, cqn: u32, cqe: &[u8]) {
    let Ok(cqe) = cqe.try_into() else { return };
    if hca.push_cqe(bus, cqn, cqe, false).is_err()
        && let Some(sq) = hca.sqs.get_mut(&sqn)
    {
        (sq.state, sq.flush) = (WqState::Error, false);
        hca.event(bus, Event::QueueFatal { rq: false, number: sqn });
    }
}
