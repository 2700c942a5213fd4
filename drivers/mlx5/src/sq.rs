//! The posting side of a send queue.

use crate::{
    uar::Uar,
    wqe::{self, Cursor, FLAGS, MAX_SEGMENT},
};
use bareverbs::{Payload, PostError, SendOp, SendWr, Sge, UdDestination, wq::SendQueue};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    registers::uar::BLUEFLAME_BUFFER_SIZE,
    wqe::{AV_EXTENDED, BB, ctrl, opcode},
};
use core::{
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

/// Blocks that a BlueFlame buffer takes.
const BURST: usize = BLUEFLAME_BUFFER_SIZE / BB;

/// Operations, a bit each, that a QP type has on a device.
pub(crate) mod ops {
    pub(crate) const SEND: u8 = 1 << 0;
    pub(crate) const SEND_INVALIDATE: u8 = 1 << 1;
    pub(crate) const WRITE: u8 = 1 << 2;
    pub(crate) const READ: u8 = 1 << 3;
    pub(crate) const ATOMIC: u8 = 1 << 4;
}

/// The ring of a send queue, in basic blocks of 64 bytes, as its one poster sees it.
pub(crate) struct SendRing {
    start: NonNull<u8>,
    end: NonNull<u8>,
    /// Blocks less one.
    mask: u32,
    /// Next block; counts on.
    block: u32,
    /// Requests pushed; counts on.
    posted: u32,
    /// Requests that may be outstanding now: 0 while the QP's state forbids posting.
    open: u32,
    /// QPN, already in its place of the control segment.
    qpn: u32,
    max_sge: u32,
    max_inline: u32,
    max_message: u32,
    /// See [`ops`].
    ops: u8,
    /// Every request takes this completion mode.
    signal: u8,
    /// Requests name a destination.
    datagram: bool,
    /// Mark of the device's address handles.
    owner: u32,
    /// First block of the newest request.
    newest: u32,
    /// The first 8 bytes of the newest request, in memory order.
    doorbell: u64,
    /// `block` when the device was told last.
    rung: u32,
    /// Requests that may be outstanding.
    limit: u32,
    record: NonNull<AtomicU32>,
    /// Doorbells.
    uar: Uar,
    /// One request alone goes to the device by BlueFlame.
    burst: bool,
    /// Requests pushed when the device was told last.
    told: u32,
    /// Which BlueFlame buffer is next.
    turn: bool,
}

/// What a send ring is made with.
pub(crate) struct SendRingInit {
    /// The ring, aligned to a basic block.
    pub start: NonNull<u8>,
    pub log_blocks: u32,
    /// Requests that may be outstanding: with the longest WQE each, they fit the ring.
    pub limit: u32,
    pub max_sge: u32,
    pub max_inline: u32,
    pub max_message: u32,
    pub ops: u8,
    pub signal_all: bool,
    pub datagram: bool,
    pub owner: u32,
    /// The send dword of the doorbell record.
    pub record: NonNull<AtomicU32>,
    /// Doorbells.
    pub uar: Uar,
    /// Nobody else rings meanwhile, so that the BlueFlame register may be used.
    pub burst: bool,
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
    /// # Safety
    /// `start` is valid for the ring, `record` for a doorbell record, for as long as the ring lives; nobody else writes
    /// them.
    pub(crate) unsafe fn new(init: &SendRingInit) -> Self {
        // SAFETY: the end of the ring that the caller promised.
        let end = unsafe { init.start.add(BB << init.log_blocks) };
        Self {
            start: init.start,
            end,
            mask: (1 << init.log_blocks) - 1,
            block: 0,
            posted: 0,
            open: 0,
            qpn: 0,
            max_sge: init.max_sge,
            max_inline: init.max_inline,
            max_message: init.max_message,
            ops: init.ops,
            signal: if init.signal_all { ctrl::CQ_UPDATE } else { 0 },
            datagram: init.datagram,
            owner: init.owner,
            newest: 0,
            doorbell: 0,
            rung: 0,
            limit: init.limit,
            record: init.record,
            uar: init.uar,
            burst: init.burst && init.uar.blueflame.is_some(),
            told: 0,
            turn: false,
        }
    }

    /// Sets the QP's number, once the device has told it.
    pub(crate) fn set_qpn(&mut self, qpn: u32) {
        self.qpn = qpn << 8;
    }

    /// Lets requests through, or not.
    pub(crate) fn set_open(&mut self, open: bool) {
        self.open = if open { self.limit } else { 0 };
    }

    /// Whether the QP's state lets requests through.
    pub(crate) fn is_open(&self) -> bool {
        self.open == self.limit
    }

    /// Begins at block 0 again, as the device does after a reset, and clears the doorbell record.
    pub(crate) fn reset(&mut self) {
        (self.block, self.posted, self.rung, self.newest, self.told) = (0, 0, 0, 0, 0);
        self.record().store(0, Ordering::Relaxed);
    }

    fn record(&self) -> &AtomicU32 {
        // SAFETY: the record lives as long as the ring (promise of `new`).
        unsafe { self.record.as_ref() }
    }

    /// Writes one request to the ring.
    #[inline(always)]
    pub(crate) fn push(&mut self, queue: &SendQueue, wr: &SendWr<'_>) -> Result<(), PostError> {
        if self.posted.wrapping_sub(queue.retired()) >= self.open {
            return Err(PostError::QueueFull);
        }
        let offset = (self.block & self.mask) as usize * BB;
        // SAFETY: the block's number is masked to the ring.
        let wqe = unsafe { self.start.add(offset) };
        // SAFETY: `wqe` is a free basic block: all requests that are outstanding fit the ring beside this one.
        let head = unsafe { self.head(wqe, wr)? };
        // SAFETY: at most four segments further, so inside the block or at its end.
        let after_head = unsafe { wqe.add(head.segments as usize * 16) };
        // SAFETY: inside the ring or at its end.
        let cursor = unsafe { Cursor::new(after_head, self.start, self.end) };
        let ds = head.segments
            + match wr.payload {
                Payload::Sges(sges) => self.gather(cursor, sges)?,
                Payload::Inline(bytes) => {
                    self.inline(cursor, head.reads, bytes.len(), core::slice::from_ref(&bytes))?
                }
                Payload::InlineGather(parts) => {
                    let len = parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
                    self.inline(cursor, head.reads, len, parts)?
                }
            };
        let flags = FLAGS[(wr.flags.bits() & 7) as usize] | self.signal;
        // SAFETY: the block's first segment.
        self.doorbell = unsafe { wqe::control(wqe, self.block, head.opcode, self.qpn | ds, flags, head.general_id) };
        self.posted = self.posted.wrapping_add(1);
        queue.record(self.block, wr.wr_id, self.posted);
        self.newest = self.block;
        self.block = self.block.wrapping_add(wqe::blocks(ds));
        Ok(())
    }

    /// Checks the operation and writes its segments behind the (still missing) control segment.
    ///
    /// # Safety
    /// `wqe` is a basic block of the ring that is free.
    #[inline(always)]
    unsafe fn head(&self, wqe: NonNull<u8>, wr: &SendWr<'_>) -> Result<Head, PostError> {
        // SAFETY: the block has four segments.
        let (second, third) = unsafe { (wqe.add(16), wqe.add(32)) };
        let mut head = Head { opcode: opcode::SEND, general_id: 0, segments: 1, reads: false };
        let needs = match wr.op {
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
                atomic_shape(addr, &wr.payload)?;
                (head.opcode, head.segments, head.reads) = (opcode::ATOMIC_CS, 3, true);
                // SAFETY: second and third segment of a free block.
                unsafe {
                    wqe::remote(second, addr, rkey.0);
                    wqe::atomic(third, swap, compare);
                }
                ops::ATOMIC
            }
            SendOp::FetchAdd { addr, rkey, add } => {
                atomic_shape(addr, &wr.payload)?;
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
        match (self.datagram, wr.ud) {
            (false, None) => {}
            (true, Some(ud)) => {
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

    /// Writes data segments; tells how many.
    #[inline(always)]
    fn gather(&self, mut cursor: Cursor, sges: &[Sge]) -> Result<u32, PostError> {
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
            unsafe { wqe::data(cursor.at, sge) };
            cursor.advance();
            segments += 1;
        }
        if total > u64::from(self.max_message) {
            return Err(PostError::MessageTooLong { max: self.max_message });
        }
        Ok(segments)
    }

    /// Writes inline data; tells the number of its segments.
    #[inline(always)]
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

    /// Tells the device of all requests pushed since the last time.
    #[inline(always)]
    pub(crate) fn ring<H: PciFunction>(&mut self, queue: &SendQueue, hal: &H) {
        if self.block == self.rung {
            return;
        }
        let blocks = self.block.wrapping_sub(self.newest);
        let alone = self.posted.wrapping_sub(self.told) == 1;
        (self.rung, self.told) = (self.block, self.posted);
        queue.publish(self.posted);
        hal.dma_wmb();
        self.record().store((self.block & 0xffff).to_be(), Ordering::Relaxed);
        hal.mmio_wmb();
        if self.burst && alone && blocks as usize <= BURST {
            return self.blueflame(hal, blocks);
        }
        let [register, ..] = &self.uar.page.blueflame;
        hal.write64(&register.buffers[0].chunks[0][0], self.doorbell);
    }

    /// Copies the newest request to the device, which need not fetch it then. PRM: "BlueFlame".
    #[cold]
    #[inline(never)]
    fn blueflame<H: PciFunction>(&mut self, hal: &H, blocks: u32) {
        let Some(page) = &self.uar.blueflame else { return };
        let [register, ..] = &page.blueflame;
        let [even, odd] = &register.buffers;
        let buffer = if self.turn { odd } else { even };
        self.turn = !self.turn;
        for (n, chunk) in buffer.chunks.iter().take(blocks as usize).enumerate() {
            let offset = (self.newest.wrapping_add(n as u32) & self.mask) as usize * BB;
            // SAFETY: a block of the ring, which is aligned; nobody writes it now.
            let block = unsafe { self.start.add(offset).cast::<[u64; BB / 8]>().read() };
            hal.write_burst(chunk, &block);
        }
        // The next burst must not mix with this one.
        hal.mmio_wmb();
    }
}

/// An atomic has one element of eight bytes and an aligned target (IBA 9.4.5).
#[inline(always)]
fn atomic_shape(addr: u64, payload: &Payload<'_>) -> Result<(), PostError> {
    match payload {
        Payload::Sges([sge]) if sge.length() == 8 && addr & 7 == 0 => Ok(()),
        Payload::Sges(_) => Err(PostError::AtomicShape),
        Payload::Inline(_) | Payload::InlineGather(_) => Err(PostError::InlineRead),
    }
}

/// Datagram segment: the address handle's form, and key and number of the receiver. PRM: "Datagram Segment".
///
/// # Safety
/// `at` is 16-byte aligned and valid for 48 bytes that nobody else uses.
#[inline(always)]
unsafe fn destination(at: NonNull<u8>, ud: &UdDestination) {
    let form = ud.ah.form();
    // SAFETY: the caller's promise.
    unsafe {
        at.cast::<[u32; 12]>().write(*form);
        at.cast::<u64>().write((u64::from(ud.qkey.0) << 32).to_be());
        at.add(8).cast::<u32>().write((AV_EXTENDED | ud.qpn.get()).to_be());
    }
}
