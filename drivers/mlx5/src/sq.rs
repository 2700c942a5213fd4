//! The posting side of a send queue.

use crate::{
    record::Record,
    uar::Uar,
    wqe::{self, Element, FLAGS, FLAGS_SIGNALED, MAX_SEGMENT},
};
use bareverbs::{
    Payload, PostError, PostListError, QpType, SendFlags, SendOp, SendWr,
    wq::{SendPoster, SendQueue},
};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    registers::uar::BLUEFLAME_BUFFER_SIZE,
    wqe::{BB, DS, ctrl, opcode},
};
use core::{borrow::Borrow, ptr::NonNull};

#[path = "sq_frame.rs"]
mod frame;
#[path = "sq_request.rs"]
mod request;
#[path = "umr.rs"]
pub(crate) mod umr;

/// Blocks that a BlueFlame buffer takes.
const BURST_BLOCKS: usize = BLUEFLAME_BUFFER_SIZE / BB;

/// Operations, a bit each, that a QP type has on a device.
pub(crate) mod ops {
    pub(crate) const SEND: u8 = 1 << 0;
    pub(crate) const SEND_INVALIDATE: u8 = 1 << 1;
    pub(crate) const WRITE: u8 = 1 << 2;
    pub(crate) const READ: u8 = 1 << 3;
    pub(crate) const ATOMIC: u8 = 1 << 4;
    /// Requests that change memory keys, see `umr.rs`.
    pub(crate) const KEYS: u8 = 1 << 5;
}

/// The ring of a send queue, in basic blocks of 64 bytes, as its one poster sees it.
///
/// A list is pushed with a copy of the poster, which a loop keeps in registers; a list of one works on the memory itself.
pub(crate) struct SendRing {
    poster: SendPoster,
    start: NonNull<u8>,
    /// Beginnings of a SEND's and an RDMA WRITE's control segment: opcode and QPN in their places.
    send: u64,
    write: u64,
    /// Completion mode, fence and solicited event, by the request's flags.
    flags: &'static [u32; 8],
    /// What the short way takes; nothing while `fence_next`.
    short: Short,
    /// Requests pushed that the device was not told of, and [`BURST`]. At 0 a list of one takes the shortest way.
    waiting: u32,
    record: Record,
    /// Doorbells.
    uar: Uar,
    /// The first 8 bytes of the newest waiting request, in memory order.
    doorbell: u64,
    /// Requests that may be outstanding now: 0 while the QP's state forbids posting.
    open: u32,
    /// QPN, already in its place of the control segment.
    qpn: u64,
    /// See [`ops`].
    ops: u8,
    remote: Remote,
    /// Which BlueFlame buffer is next.
    turn: bool,
    /// The newest request changes a memory key: the next one waits for it.
    fence_next: bool,
    /// What the short way takes otherwise.
    short_else: Short,
    end: NonNull<u8>,
    max_message: u32,
    max_inline: u32,
    max_sge: u32,
    /// Mark of the device's address handles.
    owner: u32,
    /// Requests that may be outstanding.
    limit: u32,
}

/// In [`SendRing::waiting`]: one request alone goes to the device by BlueFlame.
const BURST: u32 = 1 << 31;

/// Lengths up to which [`SendRing::write_short`] takes a request, of an element and of inline data, so that the request
/// is one basic block. 0 where the QP does not have the operation.
#[derive(Clone, Copy, Default)]
struct Short {
    write: u32,
    send: u32,
    write_inline: u32,
    send_inline: u32,
}

impl Short {
    fn new(init: &SendRingInit) -> Self {
        // A basic block less control segment (and remote address segment), less the header.
        const SEND: u32 = (BB - DS) as u32 - 4;
        const WRITE: u32 = (BB - 2 * DS) as u32 - 4;
        if init.remote != Remote::Connected {
            return Self::default();
        }
        let allowed = |op, len| if init.ops & op != 0 { len } else { 0 };
        let element = init.max_message.min(MAX_SEGMENT - 1);
        Self {
            write: allowed(ops::WRITE, element),
            send: allowed(ops::SEND, element),
            write_inline: allowed(ops::WRITE, init.max_inline.min(WRITE)),
            send_inline: allowed(ops::SEND, init.max_inline.min(SEND)),
        }
    }
}

/// What a send ring is made with.
pub(crate) struct SendRingInit {
    /// The ring, aligned to a basic block.
    pub start: NonNull<u8>,
    pub log_blocks: u32,
    pub poster: SendPoster,
    /// Requests that may be outstanding: with the longest WQE each, they fit the ring.
    pub limit: u32,
    pub max_sge: u32,
    pub max_inline: u32,
    pub max_message: u32,
    pub ops: u8,
    pub signal_all: bool,
    pub remote: Remote,
    pub owner: u32,
    /// The send dword of the doorbell record.
    pub record: Record,
    /// Doorbells.
    pub uar: Uar,
    /// Nobody else rings meanwhile, so that the BlueFlame register may be used.
    pub burst: bool,
}

/// What a request names beside the connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remote {
    /// Nothing.
    Connected,
    /// The receiver of a datagram.
    Datagram,
    /// The SRQ at the other end.
    Srq,
    /// Nothing: requests are frames, of whose headers they must hold so many bytes themselves.
    Wire { head: u32 },
}

impl Remote {
    /// Of a type; `head` is what the device wants of frames.
    pub(crate) fn of(kind: QpType, head: u32) -> Self {
        match kind {
            QpType::Ud => Self::Datagram,
            QpType::XrcIni => Self::Srq,
            QpType::RawPacket => Self::Wire { head },
            _ => Self::Connected,
        }
    }
}

impl SendRing {
    /// # Safety
    /// `start` is valid for the ring, `record` for a doorbell record, for as long as the ring lives; nobody else writes
    /// them.
    pub(crate) unsafe fn new(init: SendRingInit) -> Self {
        // SAFETY: the end of the ring that the caller promised.
        let end = unsafe { init.start.add(BB << init.log_blocks) };
        let short = Short::new(&init);
        Self {
            poster: init.poster,
            start: init.start,
            send: 0,
            write: 0,
            flags: if init.signal_all { &FLAGS_SIGNALED } else { &FLAGS },
            short,
            waiting: if init.burst && init.uar.blueflame.is_some() { BURST } else { 0 },
            record: init.record,
            uar: init.uar,
            doorbell: 0,
            open: 0,
            qpn: 0,
            ops: init.ops,
            remote: init.remote,
            turn: false,
            fence_next: false,
            short_else: short,
            end,
            max_message: init.max_message,
            max_inline: init.max_inline,
            max_sge: init.max_sge,
            owner: init.owner,
            limit: init.limit,
        }
    }

    /// Sets the QP's number, once the device has told it.
    pub(crate) fn set_qpn(&mut self, qpn: u32) {
        self.qpn = u64::from(qpn << 8);
        self.send = u64::from(opcode::SEND) << 32 | self.qpn;
        self.write = u64::from(opcode::RDMA_WRITE) << 32 | self.qpn;
    }

    /// Lets requests through, or not.
    pub(crate) fn set_open(&mut self, open: bool) {
        self.open = if open { self.limit } else { 0 };
        self.poster.forget_room();
    }

    /// Whether the QP's state lets requests through.
    pub(crate) fn is_open(&self) -> bool {
        self.open == self.limit
    }

    /// Begins at block 0 again, as the device does after a reset, and clears the doorbell record.
    pub(crate) fn reset(&mut self, queue: &SendQueue) {
        queue.reset(&mut self.poster);
        self.waiting &= BURST;
        (self.fence_next, self.short) = (false, self.short_else);
        self.record.clear();
    }

    /// Tells the device of all requests pushed since the last time.
    #[inline(always)]
    pub(crate) fn ring<H: PciFunction>(&mut self, queue: &SendQueue, hal: &H) {
        let waiting = self.waiting;
        self.waiting &= BURST;
        if waiting == self.waiting {
            return;
        }
        self.publish(queue, hal);
        if waiting == BURST | 1 { self.blueflame(hal) } else { self.doorbell(hal, self.doorbell) }
    }

    /// Lets the completions' side and the device see all requests pushed.
    #[inline(always)]
    fn publish<H: PciFunction>(&self, queue: &SendQueue, hal: &H) {
        self.poster.publish(queue);
        self.record.tell(hal, self.poster.block());
        hal.mmio_wmb();
    }

    /// The doorbell: the newest request's first 8 bytes.
    #[inline(always)]
    fn doorbell<H: PciFunction>(&self, hal: &H, doorbell: u64) {
        let [register, ..] = &self.uar.page.blueflame;
        hal.write64(&register.buffers[0].chunks[0][0], doorbell);
    }

    /// Copies the newest request to the device, which need not fetch it then; rings the doorbell if it is too long. PRM:
    /// "BlueFlame".
    #[inline(never)]
    fn blueflame<H: PciFunction>(&mut self, hal: &H) {
        let Some(page) = &self.uar.blueflame else { return self.doorbell(hal, self.doorbell) };
        // The doorbell holds the index of the request's first block.
        let newest = (u64::from_be(self.doorbell) >> 40) as u32 & 0xffff;
        let blocks = (self.poster.block().wrapping_sub(newest) & 0xffff) as usize;
        if blocks > BURST_BLOCKS {
            return self.doorbell(hal, self.doorbell);
        }
        let [register, ..] = &page.blueflame;
        let [even, odd] = &register.buffers;
        let buffer = if self.turn { odd } else { even };
        hal.wc_wmb();
        for (n, chunk) in buffer.chunks.iter().take(blocks).enumerate() {
            let at = self.block(self.poster.at(newest.wrapping_add(n as u32)));
            // SAFETY: a block of the ring, which is aligned; nobody writes it now.
            let block = unsafe { at.cast::<[u64; BB / 8]>().read() };
            hal.write_burst(chunk, &block);
        }
        self.turn = !self.turn;
        // The next burst must not mix with this one.
        hal.wc_wmb();
    }
}

impl SendRing {
    /// Posts one request by the shortest way, see [`write_short`](Self::write_short). `false`, and nothing was done, if
    /// it cannot be taken, also where others wait and where one request alone goes by BlueFlame.
    #[inline(always)]
    pub(crate) fn post_short<H: PciFunction>(&mut self, queue: &SendQueue, hal: &H, wr: &SendWr<'_>) -> bool {
        if self.waiting != 0 || !self.poster.has_known_room() {
            return false;
        }
        let at = self.block(self.poster.place());
        // SAFETY: there is room, so the block is free.
        let Some(head) = (unsafe { self.write_short(at, wr) }) else { return false };
        // SAFETY: as above.
        let doorbell = unsafe { wqe::control(at, self.poster.block(), head, self.flags_of(wr), 0) };
        self.poster.push(wr.wr_id, 1);
        self.publish(queue, hal);
        self.doorbell(hal, doorbell);
        true
    }

    /// Pushes one request by the short way, see [`write_short`](Self::write_short). `false`, and nothing was done, if it
    /// cannot be taken.
    #[inline(always)]
    pub(crate) fn push_short(&mut self, wr: &SendWr<'_>) -> bool {
        let mut poster = self.poster;
        let pushed = self.push_with(&mut poster, wr);
        self.poster.catch_up(poster);
        pushed
    }

    /// Whether there is room where none was known.
    pub(crate) fn look(&mut self, queue: &SendQueue) -> bool {
        !self.poster.has_known_room() && self.poster.has_room(queue, self.open)
    }

    /// Pushes a list. What the short way does not take goes to `long`, and so does what does not fit.
    #[inline(always)]
    pub(crate) fn push_list<'a>(
        &mut self,
        list: impl Iterator<Item: Borrow<SendWr<'a>>>,
        mut long: impl FnMut(&mut Self, &SendWr<'_>) -> Result<(), PostError>,
    ) -> Result<(), PostListError> {
        let mut poster = self.poster;
        let mut begin = poster.posted();
        for wr in list {
            if !self.push_with(&mut poster, wr.borrow()) {
                self.poster.catch_up(poster);
                let index = poster.posted().wrapping_sub(begin) as usize;
                long(self, wr.borrow()).map_err(|error| PostListError { index, error })?;
                // It may have taken the places of several.
                begin = begin.wrapping_add(self.poster.posted().wrapping_sub(poster.posted()).wrapping_sub(1));
                poster = self.poster;
            }
        }
        self.poster.catch_up(poster);
        Ok(())
    }

    /// Pushes one request by the short way with a copy of the poster.
    #[inline(always)]
    fn push_with(&mut self, poster: &mut SendPoster, wr: &SendWr<'_>) -> bool {
        if !poster.has_known_room() {
            return false;
        }
        let at = self.block(poster.place());
        // SAFETY: there is room, so the block is free.
        let Some(head) = (unsafe { self.write_short(at, wr) }) else { return false };
        // SAFETY: as above.
        self.doorbell = unsafe { wqe::control(at, poster.block(), head, self.flags_of(wr), 0) };
        poster.push(wr.wr_id, 1);
        self.waiting += 1;
        true
    }

    /// Writes one request, but for its control segment, by a short way, for what most programs do all the time: SEND and
    /// RDMA WRITE of one element, or of so few bytes of inline data that the request is one basic block, on a connected
    /// QP. Gives back what the control segment begins with. `None` for anything else: then the block is still free.
    ///
    /// # Safety
    /// `at` is a basic block of the ring that is free.
    #[inline(always)]
    unsafe fn write_short(&self, at: NonNull<u8>, wr: &SendWr<'_>) -> Option<u64> {
        if wr.to.is_some() {
            return None;
        }
        // SAFETY: a basic block has four segments.
        let (second, third) = unsafe { (at.add(DS), at.add(2 * DS)) };
        // Every segment below lies in this block; the lengths were compared with what fits it.
        Some(match (wr.op, wr.payload) {
            (SendOp::Write { addr, rkey }, Payload::Sges([sge])) => {
                let element = Element::new(sge);
                if element.len().wrapping_sub(1) >= self.short.write {
                    return None;
                }
                // SAFETY: as said above.
                unsafe {
                    wqe::remote(second, addr, rkey.0);
                    element.write_short(third);
                }
                self.write | 3
            }
            (SendOp::Send, Payload::Sges([sge])) => {
                let element = Element::new(sge);
                if element.len().wrapping_sub(1) >= self.short.send {
                    return None;
                }
                // SAFETY: as said above.
                unsafe { element.write_short(second) };
                self.send | 2
            }
            (SendOp::Send, Payload::Inline(bytes)) => {
                if bytes.len().wrapping_sub(1) >= self.short.send_inline as usize {
                    return None;
                }
                // SAFETY: as said above.
                unsafe { wqe::inline_short(second, bytes) };
                self.send | u64::from(1 + wqe::inline_segments(bytes.len() as u32))
            }
            (SendOp::Write { addr, rkey }, Payload::Inline(bytes)) => {
                if bytes.len().wrapping_sub(1) >= self.short.write_inline as usize {
                    return None;
                }
                // SAFETY: as said above.
                unsafe {
                    wqe::remote(second, addr, rkey.0);
                    wqe::inline_short(third, bytes);
                }
                self.write | u64::from(2 + wqe::inline_segments(bytes.len() as u32))
            }
            _ => return None,
        })
    }

    /// A block of the ring, by its place.
    #[inline(always)]
    fn block(&self, place: u32) -> NonNull<u8> {
        // SAFETY: places are masked to the ring.
        unsafe { self.start.add(place as usize * BB) }
    }

    /// The same of a request that goes the long way: behind one that changes a key it waits for that.
    fn fenced(&mut self, flags: SendFlags) -> u32 {
        let flags = self.flags[(flags.bits() & 7) as usize];
        if !core::mem::take(&mut self.fence_next) {
            return flags;
        }
        self.short = self.short_else;
        let [all, small] = [ctrl::FENCE_MASK, ctrl::FENCE_INITIATOR_SMALL].map(|fence| u32::from(fence).to_be());
        if flags & all == 0 { flags | small } else { flags }
    }

    /// Completion mode, fence and solicited event of a request.
    #[inline(always)]
    fn flags_of(&self, wr: &SendWr<'_>) -> u32 {
        self.flags[(wr.flags.bits() & 7) as usize]
    }

    /// Writes one request of any kind to the ring.
    #[inline(never)]
    pub(crate) fn push(&mut self, queue: &SendQueue, wr: &SendWr<'_>) -> Result<(), PostError> {
        if let SendOp::LocalInvalidate(key) = wr.op {
            return self.push_invalidate(queue, key, (wr.wr_id, wr.flags));
        }
        if !self.poster.has_room(queue, self.open) {
            return Err(PostError::QueueFull);
        }
        let at = self.block(self.poster.place());
        let request::Request { opcode, ds, general_id } = match self.remote {
            Remote::Wire { head } => self.frame(at, wr, head)?,
            _ => self.any(at, wr.op, wr.payload, wr.to)?,
        };
        let head = u64::from(opcode) << 32 | self.qpn | u64::from(ds);
        let flags = self.fenced(wr.flags);
        // SAFETY: the first segment of a free block.
        self.doorbell = unsafe { wqe::control(at, self.poster.block(), head, flags, general_id) };
        self.poster.push(wr.wr_id, wqe::blocks(ds));
        self.waiting += 1;
        Ok(())
    }
}

#[cfg(test)]
#[path = "sq_explore_tests.rs"]
mod explore_tests;
