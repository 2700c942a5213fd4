//! Work requests: what is posted (manual pages ibv_post_send, ibv_post_recv, ibv_post_srq_recv).

use crate::{Lkey, Qkey, Qpn, Rkey, Srqn};
use bitflags::bitflags;

/// A scatter/gather element: a range inside one memory region. Comes from [`crate::MemoryRegion::sge`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sge {
    addr: u64,
    length: u32,
    lkey: Lkey,
}

impl Sge {
    /// An element of raw numbers.
    ///
    /// # Safety
    /// The device reads or writes the range when a request that holds the element is executed: `addr` must be an
    /// address in the address space of `lkey` (not necessarily a CPU address), and nobody may hold a reference into
    /// the memory behind it meanwhile.
    #[inline(always)]
    pub const unsafe fn from_raw(addr: u64, length: u32, lkey: Lkey) -> Self {
        Self { addr, length, lkey }
    }

    /// First byte, in the region's address space.
    #[inline(always)]
    pub const fn addr(&self) -> u64 {
        self.addr
    }

    /// Bytes, at most 2^31.
    #[inline(always)]
    pub const fn length(&self) -> u32 {
        self.length
    }

    /// The region.
    #[inline(always)]
    pub const fn lkey(&self) -> Lkey {
        self.lkey
    }
}

bitflags! {
    /// Flags of a send request (ibv_post_send: send_flags).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SendFlags: u8 {
        /// Write a completion when the request is done.
        const SIGNALED = 1;
        /// The receiver's completion is a solicited event.
        const SOLICITED = 2;
        /// Wait for all reads and atomics before it.
        const FENCE = 4;
        /// Raw packet QPs: the device fills in the checksums of IPv4, TCP and UDP (IBV_SEND_IP_CSUM).
        const IP_CSUM = 8;
    }
}

/// What a send request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// SEND.
    Send,
    /// SEND with immediate data (host byte order here, big-endian on the wire).
    SendImm(u32),
    /// SEND that invalidates one of the receiver's keys.
    SendInvalidate(Rkey),
    /// RDMA WRITE.
    Write {
        /// Where, in the remote region's address space.
        addr: u64,
        /// The remote region.
        rkey: Rkey,
    },
    /// RDMA WRITE with immediate data: takes a receive at the other end.
    WriteImm {
        /// Where, in the remote region's address space.
        addr: u64,
        /// The remote region.
        rkey: Rkey,
        /// Immediate data.
        imm: u32,
    },
    /// RDMA READ into the elements.
    Read {
        /// Where from, in the remote region's address space.
        addr: u64,
        /// The remote region.
        rkey: Rkey,
    },
    /// 8-byte compare and swap; the old value arrives in the one 8-byte element, in host byte order.
    CompareSwap {
        /// Where, 8-byte aligned.
        addr: u64,
        /// The remote region.
        rkey: Rkey,
        /// Swapped only if this is the old value.
        compare: u64,
        /// The new value.
        swap: u64,
    },
    /// 8-byte fetch and add; the old value arrives in the one 8-byte element, in host byte order.
    FetchAdd {
        /// Where, 8-byte aligned.
        addr: u64,
        /// The remote region.
        rkey: Rkey,
        /// Added, wrapping.
        add: u64,
    },
    /// Makes a key of this device invalid: of a window of type 2, or of a region for fast registration
    /// (IBV_WR_LOCAL_INV). The payload is ignored. Takes the places of several requests, as binds and fast registrations
    /// do.
    LocalInvalidate(Rkey),
}

/// A send request's data.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// Gathered from (or, for READ and atomics, scattered to) registered memory when the device executes the request.
    Sges(&'a [Sge]),
    /// Copied into the WQE by the post; needs no registration.
    Inline(&'a [u8]),
    /// Gathered into the WQE by the post.
    InlineGather(&'a [&'a [u8]]),
    /// The first bytes copied into the WQE by the post, the others gathered: a frame whose header the program makes. Raw
    /// packet QPs only.
    Headed(&'a Headed<'a>),
}

/// The data of [`Payload::Headed`].
#[derive(Clone, Copy, Debug)]
pub struct Headed<'a> {
    /// Copied by the post.
    pub head: &'a [u8],
    /// Gathered when the device executes the request.
    pub sges: &'a [Sge],
}

/// Where a request goes that the QP's connection does not settle.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// A datagram's receiver.
    Ud(&'a UdDestination),
    /// The shared receive queue at the other end of an XRC connection (ibv_post_send: qp_type.xrc.remote_srqn).
    Srq(Srqn),
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug)]
pub struct UdDestination {
    /// The path, from [`crate::Device::address_handle`].
    pub ah: AddressHandle,
    /// The receiving QP.
    pub qpn: Qpn,
    /// Its queue key. With bit 31 set the sending QP's own key is sent.
    pub qkey: Qkey,
}

/// A resolved path for datagrams, in the driver's own form. Plain data; it can be copied and kept.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct AddressHandle {
    form: [u32; 12],
    owner: u32,
}

impl AddressHandle {
    /// For drivers: keeps the driver's form, and a mark by which it recognizes its own.
    #[inline]
    pub const fn from_driver(form: [u32; 12], owner: u32) -> Self {
        Self { form, owner }
    }

    /// For drivers: the form.
    #[inline(always)]
    pub const fn form(&self) -> &[u32; 12] {
        &self.form
    }

    /// For drivers: the mark.
    #[inline(always)]
    pub const fn owner(&self) -> u32 {
        self.owner
    }
}

/// A send request. `SendWr::new(op, payload).wr_id(7).signaled()`.
#[derive(Clone, Copy, Debug)]
pub struct SendWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// With what.
    pub payload: Payload<'a>,
    /// How.
    pub flags: SendFlags,
    /// Where to, for UD and XRC QPs; `None` for all others.
    pub to: Option<Destination<'a>>,
}

impl<'a> SendWr<'a> {
    /// A request of registered memory, without flags.
    #[inline(always)]
    pub const fn new(op: SendOp, sges: &'a [Sge]) -> Self {
        Self { wr_id: 0, op, payload: Payload::Sges(sges), flags: SendFlags::empty(), to: None }
    }

    /// A request whose data is copied into the WQE.
    #[inline(always)]
    pub const fn inline(op: SendOp, data: &'a [u8]) -> Self {
        Self { wr_id: 0, op, payload: Payload::Inline(data), flags: SendFlags::empty(), to: None }
    }

    /// Sets the id that comes back in the completion.
    #[inline(always)]
    pub const fn wr_id(mut self, wr_id: u64) -> Self {
        self.wr_id = wr_id;
        self
    }

    /// Asks for a completion.
    #[inline(always)]
    pub const fn signaled(self) -> Self {
        self.flags(SendFlags::SIGNALED)
    }

    /// Adds flags.
    #[inline(always)]
    pub const fn flags(mut self, flags: SendFlags) -> Self {
        self.flags = self.flags.union(flags);
        self
    }

    /// Names the receiver of a datagram.
    #[inline(always)]
    pub const fn to(mut self, ud: &'a UdDestination) -> Self {
        self.to = Some(Destination::Ud(ud));
        self
    }

    /// Names the shared receive queue of an XRC request.
    #[inline(always)]
    pub const fn to_srq(mut self, srqn: Srqn) -> Self {
        self.to = Some(Destination::Srq(srqn));
        self
    }
}

/// A receive request.
#[derive(Clone, Copy, Debug)]
pub struct RecvWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Where a message is scattered to, in order.
    pub sges: &'a [Sge],
}

impl<'a> RecvWr<'a> {
    /// A receive request.
    #[inline(always)]
    pub const fn new(wr_id: u64, sges: &'a [Sge]) -> Self {
        Self { wr_id, sges }
    }
}
