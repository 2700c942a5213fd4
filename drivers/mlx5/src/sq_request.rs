//! Writing a request of any kind on any QP but a raw packet QP, whose frames are [`frame`](super::frame)'s.

use super::{Remote, SendRing, ops};
use crate::wqe::{self, Cursor, Element, MAX_SEGMENT};
use bareverbs::{Destination, Payload, PostError, SendOp, Sge, UdDestination};
use bareverbs_mlx5_prm::wqe::{AV_EXTENDED, DS, opcode};
use core::ptr::NonNull;

/// A request whose segments are written, but for the first.
pub(super) struct Request {
    pub(super) opcode: u8,
    /// Segments.
    pub(super) ds: u32,
    pub(super) general_id: u32,
}

/// What an operation puts in front of the payload.
struct Head {
    opcode: u8,
    general_id: u32,
    /// Segments, the control segment included.
    segments: u32,
    /// Data comes back: not inline.
    reads: bool,
}

impl SendRing {
    /// Writes a request of any kind, but for its control segment.
    pub(super) fn any(
        &self,
        wqe: NonNull<u8>,
        op: SendOp,
        payload: Payload<'_>,
        to: Option<Destination<'_>>,
    ) -> Result<Request, PostError> {
        // SAFETY: `wqe` is a free basic block: all requests that are outstanding fit the ring beside this one.
        let head = unsafe { self.head(wqe, op, &payload, to)? };
        // SAFETY: at most four segments further, so inside the block or at its end.
        let after_head = unsafe { wqe.add(head.segments as usize * DS) };
        // SAFETY: inside the ring or at its end.
        let cursor = unsafe { Cursor::new(after_head, self.start, self.end) };
        let segments = match payload {
            Payload::Sges(sges) => self.gather(cursor, sges)?,
            Payload::Inline(bytes) => self.inline(cursor, head.reads, bytes.len(), core::slice::from_ref(&bytes))?,
            Payload::InlineGather(parts) => {
                let len = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
                self.inline(cursor, head.reads, len, parts)?
            }
            Payload::Headed(_) => return Err(PostError::UnsupportedOp),
        };
        Ok(Request { opcode: head.opcode, ds: head.segments + segments, general_id: head.general_id })
    }

    /// Checks the operation and writes its segments behind the (still missing) control segment.
    ///
    /// # Safety
    /// `wqe` is a basic block of the ring that is free.
    unsafe fn head(
        &self,
        wqe: NonNull<u8>,
        op: SendOp,
        payload: &Payload<'_>,
        to: Option<Destination<'_>>,
    ) -> Result<Head, PostError> {
        // An XRC segment stands before the others.
        let xrc = usize::from(self.remote == Remote::Srq);
        // SAFETY: the block has four segments.
        let (second, third) = unsafe { (wqe.add(DS * (1 + xrc)), wqe.add(DS * (2 + xrc))) };
        let mut head = Head { opcode: opcode::SEND, general_id: 0, segments: 1, reads: false };
        let needs = match op {
            SendOp::Send => ops::SEND,
            SendOp::SendImm(imm) => {
                (head.opcode, head.general_id) = (opcode::SEND_IMM, imm);
                ops::SEND
            }
            SendOp::SendInvalidate(rkey) => {
                (head.opcode, head.general_id) = (opcode::SEND_INVAL, rkey.0);
                ops::SEND_INVALIDATE
            }
            SendOp::Write { addr, rkey } => {
                (head.opcode, head.segments) = (opcode::RDMA_WRITE, 2);
                // SAFETY: the second segment of a free block.
                unsafe { wqe::remote(second, addr, rkey.0) };
                ops::WRITE
            }
            SendOp::WriteImm { addr, rkey, imm } => {
                (head.opcode, head.segments, head.general_id) = (opcode::RDMA_WRITE_IMM, 2, imm);
                // SAFETY: the second segment of a free block.
                unsafe { wqe::remote(second, addr, rkey.0) };
                ops::WRITE
            }
            SendOp::Read { addr, rkey } => {
                (head.opcode, head.segments, head.reads) = (opcode::RDMA_READ, 2, true);
                // SAFETY: the second segment of a free block.
                unsafe { wqe::remote(second, addr, rkey.0) };
                ops::READ
            }
            SendOp::CompareSwap { addr, rkey, compare, swap } => {
                atomic_shape(addr, payload)?;
                (head.opcode, head.segments, head.reads) = (opcode::ATOMIC_CS, 3, true);
                // SAFETY: second and third segment of a free block.
                unsafe {
                    wqe::remote(second, addr, rkey.0);
                    wqe::atomic(third, swap, compare);
                }
                ops::ATOMIC
            }
            // It has a way of its own.
            SendOp::LocalInvalidate(_) => 0,
            SendOp::FetchAdd { addr, rkey, add } => {
                atomic_shape(addr, payload)?;
                (head.opcode, head.segments, head.reads) = (opcode::ATOMIC_FA, 3, true);
                // SAFETY: second and third segment of a free block.
                unsafe {
                    wqe::remote(second, addr, rkey.0);
                    wqe::atomic(third, add, 0);
                }
                ops::ATOMIC
            }
        };
        if self.ops & needs == 0 {
            return Err(PostError::UnsupportedOp);
        }
        match (self.remote, to) {
            (Remote::Connected, None) => {}
            (Remote::Srq, Some(Destination::Srq(srqn))) => {
                // SAFETY: the segment behind the first, which was left free for it.
                unsafe { wqe::xrc(wqe.add(DS), srqn.get()) };
                head.segments += 1;
            }
            (Remote::Datagram, Some(Destination::Ud(ud))) => {
                if ud.ah.owner() != self.owner {
                    return Err(PostError::ForeignAddress);
                }
                // SAFETY: the three segments behind the first; datagrams have no others there.
                unsafe { destination(second, ud) };
                head.segments = 4;
            }
            _ => return Err(PostError::Destination),
        }
        Ok(head)
    }

    /// Writes the data segments of a message; tells how many.
    fn gather(&self, cursor: Cursor, sges: &[Sge]) -> Result<u32, PostError> {
        let (segments, total) = self.gather_total(cursor, sges)?;
        if total > u64::from(self.max_message) {
            return Err(PostError::MessageTooLong { max: self.max_message });
        }
        Ok(segments)
    }

    /// Writes data segments; tells how many, and their bytes.
    pub(super) fn gather_total(&self, mut cursor: Cursor, sges: &[Sge]) -> Result<(u32, u64), PostError> {
        if sges.len() > self.max_sge as usize {
            return Err(PostError::TooManySge { max: self.max_sge });
        }
        let (mut segments, mut total) = (0, 0u64);
        for sge in sges {
            // A byte count of 0 means 2^31, so an empty element is left out.
            if sge.length() == 0 {
                continue;
            }
            if sge.length() > MAX_SEGMENT {
                return Err(PostError::MessageTooLong { max: self.max_message });
            }
            total += u64::from(sge.length());
            // SAFETY: a segment of the WQE: no more than `max_sge`, for which the ring has room.
            unsafe { Element::new(sge).write(cursor.at) };
            cursor.advance();
            segments += 1;
        }
        Ok((segments, total))
    }

    /// Writes inline data; tells the number of its segments.
    fn inline(&self, cursor: Cursor, reads: bool, len: usize, parts: &[&[u8]]) -> Result<u32, PostError> {
        if reads {
            return Err(PostError::InlineRead);
        }
        if len > self.max_inline as usize {
            return Err(PostError::InlineTooLong { max: self.max_inline });
        }
        let bytes = len as u32;
        if bytes > self.max_message {
            return Err(PostError::MessageTooLong { max: self.max_message });
        }
        if bytes != 0 {
            // SAFETY: the ring has room for a WQE with `max_inline` bytes.
            unsafe { cursor.inline_header(bytes) };
            let mut offset = 0;
            for part in parts {
                // SAFETY: as above; the parts are `len` bytes together.
                unsafe { cursor.inline_bytes(offset, part) };
                offset += part.len();
            }
        }
        Ok(wqe::inline_segments(bytes))
    }
}

/// An atomic has one element of eight bytes and an aligned target (IBA 9.4.5).
fn atomic_shape(addr: u64, payload: &Payload<'_>) -> Result<(), PostError> {
    match payload {
        Payload::Sges([sge]) if sge.length() == 8 && addr & 7 == 0 => Ok(()),
        Payload::Sges(_) => Err(PostError::AtomicShape),
        Payload::Inline(_) | Payload::InlineGather(_) | Payload::Headed(_) => Err(PostError::InlineRead),
    }
}

/// Datagram segment: the address handle's form, and key and number of the receiver. PRM: "Datagram Segment".
///
/// # Safety
/// `at` is 16-byte aligned and valid for 48 bytes that nobody else uses.
unsafe fn destination(at: NonNull<u8>, ud: &UdDestination) {
    let form = ud.ah.form();
    // SAFETY: the caller's promise.
    unsafe {
        at.cast::<[u32; 12]>().write(*form);
        at.cast::<u64>().write((u64::from(ud.qkey.0) << 32).to_be());
        at.add(8).cast::<u32>().write((AV_EXTENDED | ud.qpn.get()).to_be());
    }
}
