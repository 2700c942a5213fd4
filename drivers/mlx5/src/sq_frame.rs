//! The posting side of a raw packet QP's send queue: requests that are frames.

use super::{SendRing, request::Request};
use crate::{
    qp_shape::HEAD_START,
    wqe::{self, Cursor},
};
use bareverbs::{Payload, PostError, SendFlags, SendOp, SendWr, Sge};
use bareverbs_mlx5_prm::wqe::{DS, opcode};
use core::ptr::NonNull;

/// The shortest frame: its header.
const SHORTEST_FRAME: u32 = 14;

impl SendRing {
    /// Writes the request of a frame, but for its control segment: the Ethernet segment with the headers that stand in
    /// the request, and elements. `least` bytes of headers must stand there, if the frame has as many.
    pub(super) fn frame(&self, wqe: NonNull<u8>, wr: &SendWr<'_>, least: u32) -> Result<Request, PostError> {
        if wr.op != SendOp::Send {
            return Err(PostError::UnsupportedOp);
        }
        if wr.to.is_some() {
            return Err(PostError::Destination);
        }
        let (one, parts, sges): (&[u8], &[&[u8]], &[Sge]) = match wr.payload {
            Payload::Sges(sges) => (&[], &[], sges),
            Payload::Inline(bytes) => (bytes, &[], &[]),
            Payload::InlineGather(parts) => (&[], parts, &[]),
            Payload::Headed(headed) => (headed.head, &[], headed.sges),
        };
        let parts = || core::iter::once(&one).chain(parts);
        let head = parts().fold(0usize, |sum, part| sum.saturating_add(part.len()));
        if head > self.max_inline as usize {
            return Err(PostError::InlineTooLong { max: self.max_inline });
        }
        let head = head as u32;
        // SAFETY: the block has four segments.
        let ethernet = unsafe { wqe.add(DS) };
        // SAFETY: inside the ring.
        let cursor = unsafe { Cursor::new(ethernet, self.start, self.end) };
        let mut behind = cursor;
        let segments = 1 + head.saturating_sub(HEAD_START).div_ceil(DS as u32);
        for _ in 0..segments {
            behind.advance();
        }
        let (elements, gathered) = self.gather_total(behind, sges)?;
        let total = gathered + u64::from(head);
        if total > u64::from(self.max_message) {
            return Err(PostError::MessageTooLong { max: self.max_message });
        }
        if total < u64::from(SHORTEST_FRAME) {
            return Err(PostError::FrameTooShort { min: SHORTEST_FRAME });
        }
        if u64::from(head) < total.min(least.into()) {
            return Err(PostError::HeaderRequired { bytes: total.min(least.into()) as u32 });
        }
        let checksums = wr.flags.contains(SendFlags::IP_CSUM);
        // SAFETY: the second segment of a free block, and the room for `max_inline` bytes that each request has.
        unsafe {
            wqe::ethernet(ethernet, checksums, head as u16);
            let mut offset = wqe::ETHERNET_HEAD;
            for part in parts() {
                cursor.bytes(offset, part);
                offset += part.len();
            }
        }
        Ok(Request { opcode: opcode::SEND, ds: 1 + segments + elements, general_id: 0 })
    }
}
