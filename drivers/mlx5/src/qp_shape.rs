//! Sizes of a QP's queues: what is asked for is the least, what comes out is what the rings hold.

use crate::{attr, hca::Hca, policy::Policy, sq::ops};
use bareverbs::{Argument, Error, QpCap, QpType};
use bareverbs_hal::{PAGE_SIZE, PciFunction};
use bareverbs_mlx5_prm::{
    context::cmd_hca_cap,
    wqe::{BB, DS, DS_PER_BB, INLINE_LENGTH_MASK, MAX_DS},
};

/// Segments that a WQE of a type holds beside elements or inline data.
fn overhead(kind: QpType) -> u32 {
    match kind {
        // Control and datagram segment.
        QpType::Ud => 4,
        // Control, XRC and remote address segment.
        QpType::XrcIni => 3,
        // Control and Ethernet segment, or control and remote address segment.
        _ => 2,
    }
}

/// Segments of an atomic beside the overhead: atomic, one element.
const ATOMIC: u32 = 2;

/// The rings of a QP. One buffer: the receive queue first, the send queue behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Logs of receive WQEs and of the bytes of one; `None` without a receive queue of its own.
    pub(crate) recv: Option<(u32, u32)>,
    /// Log of the basic blocks; `None` without a send queue.
    pub(crate) send: Option<u32>,
    /// Actual sizes.
    pub(crate) cap: QpCap,
    /// Each ring is a queue of its own to the device, and begins on a page.
    apart: bool,
}

/// Bytes of inline headers that the Ethernet segment itself holds.
pub(crate) const HEAD_START: u32 = 2;
/// Inline bytes that every raw packet QP has: the longest Ethernet header that a device may want in the request.
const LEAST_HEAD: u32 = 18;

/// Refuses a number above `max`.
pub(crate) fn check(what: Argument, wanted: u32, max: u32) -> Result<(), Error> {
    if wanted > max {
        return Err(Error::OutOfRange { what, wanted: wanted.into(), max: max.into() });
    }
    Ok(())
}

impl Shape {
    /// The smallest rings that do what is asked for. With an SRQ the receive sizes are ignored.
    pub(crate) fn new<H: PciFunction, P: Policy>(
        hca: &Hca<H, P>,
        kind: QpType,
        wanted: &QpCap,
        srq: bool,
    ) -> Result<Self, Error> {
        let send_bytes = cmd_hca_cap::MAX_WQE_SZ_SQ.get(&hca.caps.general);
        let limits = Limits {
            log_wqes: attr::log_wqes(&hca.caps),
            send_segments: (send_bytes / DS as u32).min(MAX_DS as u32),
            recv_segments: attr::recv_segments(&hca.caps),
        };
        limits.shape(kind, wanted, srq, hca.attr.atomics)
    }

    /// Bytes of the receive ring, behind which the send ring begins.
    pub(crate) fn recv_len(&self) -> usize {
        self.recv.map_or(0, |(log_slots, log_stride)| 1 << (log_slots + log_stride))
    }

    /// Where the send ring begins.
    pub(crate) fn send_at(&self) -> usize {
        if self.apart { self.recv_len().next_multiple_of(PAGE_SIZE) } else { self.recv_len() }
    }

    /// Bytes of both rings.
    pub(crate) fn len(&self) -> usize {
        self.send_at() + self.send.map_or(0, |log_blocks| BB << log_blocks)
    }
}

/// What the device holds at most.
struct Limits {
    log_wqes: u32,
    send_segments: u32,
    recv_segments: u32,
}

impl Limits {
    fn shape(&self, kind: QpType, wanted: &QpCap, srq: bool, atomics: bool) -> Result<Shape, Error> {
        let mut cap = QpCap::default();
        let atomics = atomics && matches!(kind, QpType::Rc | QpType::XrcIni);
        let apart = kind == QpType::RawPacket;
        let send = match apart {
            true => self.send_frames(wanted, &mut cap)?,
            false => self.send(kind, wanted, atomics, &mut cap)?,
        };
        let recv = if srq { None } else { self.recv(wanted, &mut cap)? };
        Ok(Shape { recv, send, cap, apart })
    }

    /// The send ring of a raw packet QP: a request has inline headers and elements at once.
    fn send_frames(&self, wanted: &QpCap, cap: &mut QpCap) -> Result<Option<u32>, Error> {
        let room = self.send_segments.saturating_sub(overhead(QpType::RawPacket));
        let most = (room * DS as u32 + HEAD_START).min(INLINE_LENGTH_MASK);
        check(Argument::MaxInline, wanted.max_inline, most)?;
        let head = (wanted.max_inline.max(LEAST_HEAD) - HEAD_START).div_ceil(DS as u32);
        check(Argument::MaxSendSge, wanted.max_send_sge, room.saturating_sub(head))?;
        let blocks = (overhead(QpType::RawPacket) + head + wanted.max_send_sge).div_ceil(DS_PER_BB as u32);
        check(Argument::MaxSendWr, wanted.max_send_wr, (1 << self.log_wqes) / blocks)?;
        let log_blocks = (wanted.max_send_wr * blocks).next_power_of_two().trailing_zeros();
        let room = (blocks * DS_PER_BB as u32).min(self.send_segments).saturating_sub(overhead(QpType::RawPacket));
        cap.max_send_wr = (1 << log_blocks) / blocks;
        cap.max_send_sge = room.saturating_sub(head);
        cap.max_inline = (head * DS as u32 + HEAD_START).min(INLINE_LENGTH_MASK);
        Ok(Some(log_blocks))
    }

    fn send(&self, kind: QpType, wanted: &QpCap, atomics: bool, cap: &mut QpCap) -> Result<Option<u32>, Error> {
        if wanted.max_send_wr == 0 {
            return Ok(None);
        }
        let room = self.send_segments.saturating_sub(overhead(kind));
        check(Argument::MaxSendSge, wanted.max_send_sge, room)?;
        let inline_room = (room * DS as u32).saturating_sub(4).min(INLINE_LENGTH_MASK);
        check(Argument::MaxInline, wanted.max_inline, inline_room)?;
        let inline = if wanted.max_inline == 0 { 0 } else { (wanted.max_inline + 4).div_ceil(DS as u32) };
        let segments = overhead(kind) + wanted.max_send_sge.max(inline);
        let segments = if atomics { segments.max(overhead(kind) + ATOMIC) } else { segments };
        let blocks = segments.div_ceil(DS_PER_BB as u32);
        let most = (1 << self.log_wqes) / blocks;
        check(Argument::MaxSendWr, wanted.max_send_wr, most)?;
        let log_blocks = (wanted.max_send_wr * blocks).next_power_of_two().trailing_zeros();
        let room = (blocks * DS_PER_BB as u32).min(self.send_segments).saturating_sub(overhead(kind));
        cap.max_send_wr = (1 << log_blocks) / blocks;
        cap.max_send_sge = room;
        cap.max_inline = (room * DS as u32).saturating_sub(4).min(INLINE_LENGTH_MASK);
        Ok(Some(log_blocks))
    }

    fn recv(&self, wanted: &QpCap, cap: &mut QpCap) -> Result<Option<(u32, u32)>, Error> {
        if wanted.max_recv_wr == 0 {
            return Ok(None);
        }
        check(Argument::MaxRecvWr, wanted.max_recv_wr, 1 << self.log_wqes)?;
        check(Argument::MaxRecvSge, wanted.max_recv_sge, self.recv_segments)?;
        let stride = (DS * wanted.max_recv_sge.max(1) as usize).next_power_of_two();
        // The send ring behind begins on a basic block.
        let slots = wanted.max_recv_wr.next_power_of_two().max((BB / stride.min(BB)) as u32);
        cap.max_recv_wr = slots;
        cap.max_recv_sge = (stride / DS) as u32;
        Ok(Some((slots.trailing_zeros(), stride.trailing_zeros())))
    }
}

/// Operations of a type (IBA 9.2, table 38; manual page ibv_post_send).
pub(crate) fn operations(kind: QpType, atomics: bool, keys: bool) -> u8 {
    let keys = if keys && matches!(kind, QpType::Rc | QpType::Uc | QpType::XrcIni) { ops::KEYS } else { 0 };
    keys | match kind {
        QpType::Rc | QpType::XrcIni if atomics => {
            ops::SEND | ops::SEND_INVALIDATE | ops::WRITE | ops::READ | ops::ATOMIC
        }
        QpType::Rc | QpType::XrcIni => ops::SEND | ops::SEND_INVALIDATE | ops::WRITE | ops::READ,
        QpType::Uc => ops::SEND | ops::WRITE,
        _ => ops::SEND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { log_wqes: 15, send_segments: 32, recv_segments: 32 };

    fn wanted(max_send_wr: u32, max_send_sge: u32, max_inline: u32) -> QpCap {
        QpCap { max_send_wr, max_send_sge, max_inline, max_recv_wr: 3, max_recv_sge: 1 }
    }

    #[test]
    fn the_smallest_rings_that_do() {
        let shape = LIMITS.shape(QpType::Rc, &wanted(4, 1, 0), false, true).unwrap();
        let cap = QpCap { max_send_wr: 4, max_send_sge: 2, max_inline: 28, max_recv_wr: 4, max_recv_sge: 1 };
        assert_eq!(shape, Shape { recv: Some((2, 4)), send: Some(2), cap, apart: false });
        assert_eq!((shape.recv_len(), shape.len()), (64, 64 + 256));
        // 44 inline bytes of an RDMA WRITE take 16 + 16 + 48 bytes: two blocks.
        let shape = LIMITS.shape(QpType::Rc, &wanted(1000, 2, 44), false, true).unwrap();
        assert_eq!((shape.send, shape.cap.max_send_wr, shape.cap.max_inline), (Some(11), 1024, 92));
        // A datagram needs a second block for its first element.
        let shape = LIMITS.shape(QpType::Ud, &wanted(16, 1, 0), false, true).unwrap();
        assert_eq!((shape.send, shape.cap.max_send_wr, shape.cap.max_send_sge), (Some(5), 16, 4));
    }

    // Segments of 16 bytes, four a block.
    #[test]
    fn a_block_more_begins_where_a_request_needs_it() {
        let send = |kind, cap: QpCap| LIMITS.shape(kind, &cap, false, true).unwrap();
        // Control, XRC and remote address segment, an atomic's two.
        assert_eq!(send(QpType::XrcIni, wanted(16, 0, 0)).send, Some(5));
        assert_eq!(send(QpType::XrcIni, wanted(16, 2, 0)).cap.max_send_sge, 5);
        // A datagram is never an atomic.
        assert_eq!(send(QpType::Ud, wanted(16, 0, 0)).send, Some(4));
        assert_eq!(send(QpType::Uc, wanted(16, 2, 0)).send, Some(4));
        // Inline data begin with four bytes of length.
        assert_eq!(send(QpType::Uc, wanted(16, 0, 28)).send, Some(4));
        assert_eq!(send(QpType::Uc, wanted(16, 0, 29)).send, Some(5));
    }

    #[test]
    fn a_receive_ring_has_whole_blocks_of_whole_strides() {
        let recv = |max_recv_wr, max_recv_sge| {
            let cap = QpCap { max_recv_wr, max_recv_sge, ..wanted(1, 1, 0) };
            let shape = LIMITS.shape(QpType::Rc, &cap, false, true).unwrap();
            (shape.recv.unwrap(), shape.cap.max_recv_wr, shape.cap.max_recv_sge)
        };
        assert_eq!(recv(1, 1), ((2, 4), 4, 1));
        assert_eq!(recv(1, 2), ((1, 5), 2, 2));
        assert_eq!(recv(1, 3), ((0, 6), 1, 4));
        assert_eq!(recv(1, 5), ((0, 7), 1, 8));
        assert_eq!(recv(5, 5), ((3, 7), 8, 8));
        assert_eq!(recv(32768, 32), ((15, 9), 32768, 32));
    }

    // A frame's request: 16 of control, 16 of Ethernet segment with 2 bytes of header, 16 with 16 more, elements.
    #[test]
    fn queues_of_frames_lie_apart_and_hold_headers_beside_elements() {
        let shape = LIMITS.shape(QpType::RawPacket, &wanted(4, 1, 0), false, true).unwrap();
        let cap = QpCap { max_send_wr: 4, max_send_sge: 1, max_inline: 18, max_recv_wr: 4, max_recv_sge: 1 };
        assert_eq!(shape, Shape { recv: Some((2, 4)), send: Some(2), cap, apart: true });
        assert_eq!((shape.send_at(), shape.len()), (4096, 4096 + 256));
        let shape = LIMITS.shape(QpType::RawPacket, &wanted(4, 2, 60), false, true).unwrap();
        assert_eq!((shape.send, shape.cap.max_send_sge, shape.cap.max_inline), (Some(3), 2, 66));
        let error = LIMITS.shape(QpType::RawPacket, &wanted(4, 29, 34), false, true).unwrap_err();
        assert_eq!(error, Error::OutOfRange { what: Argument::MaxSendSge, wanted: 29, max: 28 });
        assert_eq!(shape.cap.max_send_wr, 4);
        let refused = |cap: QpCap| LIMITS.shape(QpType::RawPacket, &cap, false, true).unwrap_err();
        assert_eq!(refused(wanted(4, 0, 483)), Error::OutOfRange { what: Argument::MaxInline, wanted: 483, max: 482 });
        let error = Error::OutOfRange { what: Argument::MaxSendWr, wanted: 16385, max: 16384 };
        assert_eq!(refused(wanted(16385, 2, 60)), error);
        let most = LIMITS.shape(QpType::RawPacket, &wanted(16384, 2, 60), false, true).unwrap();
        assert_eq!((most.send, most.cap.max_send_wr), (Some(15), 16384));
        let whole = LIMITS.shape(QpType::RawPacket, &wanted(4, 0, 482), false, true).unwrap();
        assert_eq!((whole.cap.max_send_sge, whole.cap.max_inline), (0, 482));
    }

    #[test]
    fn each_type_has_its_operations() {
        let connected = ops::SEND | ops::SEND_INVALIDATE | ops::WRITE | ops::READ;
        for kind in [QpType::Rc, QpType::XrcIni] {
            assert_eq!(operations(kind, false, false), connected, "a device without atomics");
            assert_eq!(operations(kind, true, true), connected | ops::ATOMIC | ops::KEYS);
        }
        assert_eq!(operations(QpType::Uc, true, true), ops::SEND | ops::WRITE | ops::KEYS);
        for kind in [QpType::Ud, QpType::RawPacket] {
            assert_eq!(operations(kind, true, true), ops::SEND);
        }
    }

    #[test]
    fn case_21_receive_sizes_are_ignored_with_an_srq() {
        let cap = QpCap { max_recv_wr: 32769, max_recv_sge: 99, ..wanted(1, 1, 0) };
        let shape = LIMITS.shape(QpType::Rc, &cap, true, false).unwrap();
        assert_eq!((shape.recv, shape.cap.max_recv_wr, shape.cap.max_recv_sge), (None, 0, 0));
        let error = LIMITS.shape(QpType::Rc, &cap, false, false).unwrap_err();
        assert!(matches!(error, Error::OutOfRange { what: Argument::MaxRecvWr, .. }));
    }

    #[test]
    fn each_size_has_its_own_error() {
        let what = |cap: QpCap| match LIMITS.shape(QpType::Rc, &cap, false, true) {
            Err(Error::OutOfRange { what, max, .. }) => (what, max),
            other => panic!("{other:?}"),
        };
        let largest = QpCap { max_recv_wr: 32768, max_recv_sge: 32, ..wanted(4096, 30, 476) };
        assert_eq!(LIMITS.shape(QpType::Rc, &largest, false, true).unwrap().cap, largest);
        assert_eq!(what(wanted(1, 31, 0)), (Argument::MaxSendSge, 30));
        assert_eq!(what(wanted(1, 1, 477)), (Argument::MaxInline, 476));
        assert_eq!(what(wanted(32769, 1, 0)), (Argument::MaxSendWr, 32768));
        assert_eq!(what(wanted(32768, 3, 0)), (Argument::MaxSendWr, 16384));
        assert_eq!(what(QpCap { max_recv_sge: 33, ..wanted(1, 1, 0) }), (Argument::MaxRecvSge, 32));
    }
}
