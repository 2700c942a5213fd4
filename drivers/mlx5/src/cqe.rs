//! Reading completion queue entries. PRM: "Completion Queue Entry (CQE)", "Completion with Error".
//!
//! An entry is read field by field through a raw pointer, once its owner bit said that it is there; nothing is
//! borrowed in the ring.

use bareverbs::{Completion, Lid, Qpn, WcFlags, WcOpcode, WcStatus, sync::read_device_byte};
use bareverbs_mlx5_prm::{
    cqe::{Cqe64, ErrCqe, L3_TYPE_IPV4, L3_TYPE_MASK, OP_OWN, Syndrome, checksum, op_own, opcode, rqpn},
    wqe,
};
use core::ptr::NonNull;

/// What an entry does not tell of a datagram.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    /// Index of the QP's P_Key.
    pub(crate) pkey_index: u16,
    /// All ones on an InfiniBand port; 0 on Ethernet, where service level and LIDs do not exist.
    pub(crate) infiniband: u32,
}

/// A [`Completion`] of a connected QP in five stores.
#[allow(dead_code, reason = "written whole, read as a `Completion`")]
struct Words([u64; 5]);

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Words>() == size_of::<Completion>() && align_of::<Words>() == align_of::<Completion>());
    assert!(offset_of!(Completion, wr_id) == 0 && offset_of!(Completion, byte_len) == 8);
    assert!(offset_of!(Completion, imm) == 12 && offset_of!(Completion, qpn) == 16);
    assert!(offset_of!(Completion, src_qp) == 20 && offset_of!(Completion, vendor_err) == 24);
    assert!(offset_of!(Completion, status) == 32 && offset_of!(Completion, opcode) == 33);
    assert!(offset_of!(Completion, flags) == 34);
};

impl Words {
    /// A success; `what` is the dword of status, opcode and flags.
    #[inline(always)]
    const fn new(wr_id: u64, len_imm: u64, qpns: u64, what: u32) -> Self {
        Self([wr_id, len_imm, qpns, 0, neighbours(what, 0)])
    }

    #[inline(always)]
    fn write(self, place: &mut Completion) {
        // SAFETY: the fields lie as asserted; QPN, status, opcode and flags have values of their types.
        unsafe { core::ptr::from_mut(place).cast::<Self>().write(self) };
    }
}

/// The dword of status, opcode and flags, as it lies in a [`Completion`].
const fn what(opcode: WcOpcode, flags: WcFlags) -> u32 {
    u32::from_ne_bytes([WcStatus::Success as u8, opcode as u8, flags.bits(), 0])
}

/// Two dwords that are neighbours in memory, as a word.
#[inline(always)]
const fn neighbours(first: u32, second: u32) -> u64 {
    if cfg!(target_endian = "little") {
        (second as u64) << 32 | first as u64
    } else {
        (first as u64) << 32 | second as u64
    }
}

/// The last 64 bytes of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) NonNull<u8>);

macro_rules! field {
    ($self:ident, $layout:ident . $name:ident) => {
        // SAFETY: whoever made the entry promised 64 bytes that the device is not writing; the layout has no alignment.
        unsafe { (&raw const (*$self.0.cast::<$layout>().as_ptr()).$name).read() }
    };
}

impl Entry {
    /// The byte that says whether the entry is there. The device may be writing it.
    #[inline(always)]
    pub(crate) fn op_own(self) -> u8 {
        // SAFETY: inside the entry.
        unsafe { read_device_byte(self.0.add(OP_OWN).as_ptr()) }
    }

    /// CQE opcode.
    #[inline(always)]
    pub(crate) fn opcode(self) -> u8 {
        self.op_own() >> op_own::OPCODE_SHIFT
    }

    /// The user index in the low 24 bits.
    #[inline(always)]
    pub(crate) fn raw_user_index(self) -> u32 {
        field!(self, Cqe64.srqn_uidx).get()
    }

    pub(crate) fn user_index(self) -> u32 {
        self.raw_user_index() & 0xff_ffff
    }

    /// Send opcode (requester) in the top byte, QPN below.
    #[inline(always)]
    pub(crate) fn sop_qpn(self) -> u32 {
        field!(self, Cqe64.sop_drop_qpn).get()
    }

    /// The same as it lies in memory, as a little-endian number: the send opcode in the low byte.
    #[inline(always)]
    pub(crate) fn raw_sop_qpn(self) -> u32 {
        self.sop_qpn().swap_bytes()
    }

    #[inline(always)]
    pub(crate) fn qpn(self) -> u32 {
        self.sop_qpn() & 0xff_ffff
    }

    #[inline(always)]
    pub(crate) fn wqe_counter(self) -> u32 {
        u32::from(field!(self, Cqe64.wqe_counter).get())
    }

    #[inline(always)]
    pub(crate) fn byte_cnt(self) -> u32 {
        field!(self, Cqe64.byte_cnt).get()
    }

    #[inline(always)]
    pub(crate) fn imm(self) -> u32 {
        field!(self, Cqe64.imm_inval_pkey).get()
    }

    #[inline(always)]
    pub(crate) fn flags_rqpn(self) -> u32 {
        field!(self, Cqe64.flags_rqpn).get()
    }

    pub(crate) fn timestamp(self) -> u64 {
        u64::from(field!(self, Cqe64.timestamp_h).get()) << 32 | u64::from(field!(self, Cqe64.timestamp_l).get())
    }

    pub(crate) fn vendor_err(self) -> u32 {
        u32::from(field!(self, ErrCqe.vendor_err_synd))
    }

    /// Whether it completes a receive.
    pub(crate) fn is_receive(self) -> bool {
        matches!(self.opcode(), opcode::RESP_WR_IMM..=opcode::RESP_SEND_INV | opcode::RESP_ERR)
    }

    /// Whether it says that a request failed.
    #[inline(always)]
    pub(crate) fn is_error(self) -> bool {
        matches!(self.opcode(), opcode::REQ_ERR | opcode::RESP_ERR)
    }

    /// How the request ended.
    pub(crate) fn status(self) -> WcStatus {
        if !self.is_error() {
            return WcStatus::Success;
        }
        match Syndrome::from_raw(field!(self, ErrCqe.syndrome)) {
            Syndrome::LocalLength => WcStatus::LocalLength,
            Syndrome::LocalQpOperation => WcStatus::LocalQpOperation,
            Syndrome::LocalProtection => WcStatus::LocalProtection,
            Syndrome::WrFlush => WcStatus::WorkRequestFlushed,
            Syndrome::MwBind => WcStatus::MemoryWindowBind,
            Syndrome::BadResponse => WcStatus::BadResponse,
            Syndrome::LocalAccess => WcStatus::LocalAccess,
            Syndrome::RemoteInvalidRequest => WcStatus::RemoteInvalidRequest,
            Syndrome::RemoteAccess => WcStatus::RemoteAccess,
            Syndrome::RemoteOperation => WcStatus::RemoteOperation,
            Syndrome::TransportRetryExceeded => WcStatus::RetryExceeded,
            Syndrome::RnrRetryExceeded => WcStatus::RnrRetryExceeded,
            Syndrome::RemoteAborted => WcStatus::RemoteAborted,
            Syndrome::Unknown(_) => WcStatus::General,
        }
    }

    /// What was done, as far as the entry tells; `None` if it makes no sense.
    #[inline(always)]
    pub(crate) fn work(self) -> Option<WcOpcode> {
        match self.opcode() {
            opcode::REQ | opcode::REQ_ERR => request(self.sop_qpn() >> 24).map(Request::opcode),
            opcode::RESP_WR_IMM => Some(WcOpcode::RecvWriteImm),
            opcode::RESP_SEND | opcode::RESP_SEND_IMM | opcode::RESP_SEND_INV | opcode::RESP_ERR => {
                Some(WcOpcode::Recv)
            }
            _ => None,
        }
    }

    /// A requester's success, of the QP `qpn`.
    #[inline(always)]
    pub(crate) fn sent(self, place: &mut Completion, wr_id: u64, qpn: u32, kind: Request) {
        Words::new(wr_id, neighbours(kind.len(self), 0), neighbours(qpn, 0), kind.what()).write(place);
    }

    /// A responder's success, of the connected QP `qpn`.
    #[inline(always)]
    pub(crate) fn received(self, place: &mut Completion, wr_id: u64, qpn: u32, kind: Receive) {
        let src_qp = self.flags_rqpn() & 0xff_ffff;
        Words::new(wr_id, kind.len_imm(self), neighbours(qpn, src_qp), kind.what()).write(place);
    }

    /// A responder's success, of the datagram QP `qpn`.
    #[inline(never)]
    pub(crate) fn received_datagram(
        self,
        place: &mut Completion,
        wr_id: u64,
        qpn: u32,
        kind: Receive,
        context: Context,
    ) {
        let Context { pkey_index, infiniband } = context;
        let rqpn = self.flags_rqpn();
        let grh = rqpn >> rqpn::GRH_SHIFT & rqpn::GRH_MASK != 0;
        *place = Completion {
            wr_id,
            byte_len: self.byte_cnt(),
            imm: self.imm() & kind.imm_mask(),
            qpn: Qpn::new(qpn),
            src_qp: Qpn::new(rqpn),
            vendor_err: 0,
            pkey_index,
            slid: Lid(field!(self, Cqe64.slid).get() & infiniband as u16),
            status: WcStatus::Success,
            opcode: kind.opcode(),
            flags: WcFlags::from_bits_retain(kind.flags() | (u8::from(grh) * WcFlags::GRH.bits())),
            sl: (rqpn >> rqpn::SL_SHIFT & rqpn::SL_MASK & infiniband) as u8,
            dlid_path_bits: field!(self, Cqe64.ml_path) & 0x7f & infiniband as u8,
        };
    }

    /// A frame, which the raw packet QP `qpn` received.
    #[inline(never)]
    pub(crate) fn received_frame(self, place: &mut Completion, wr_id: u64, qpn: u32) {
        let verdict = field!(self, Cqe64.hds_ip_ext);
        let both = checksum::L3_OK | checksum::L4_OK;
        let is_ipv4 = field!(self, Cqe64.l4_l3_hdr_type) & L3_TYPE_MASK == L3_TYPE_IPV4;
        let flags = if is_ipv4 && verdict & both == both { WcFlags::IP_CSUM_OK } else { WcFlags::empty() };
        *place = Completion {
            wr_id,
            byte_len: self.byte_cnt(),
            qpn: Qpn::new(qpn),
            opcode: WcOpcode::Recv,
            flags,
            ..Completion::default()
        };
    }

    /// A failure.
    pub(crate) fn failed(self, wr_id: u64, qpn: u32) -> Completion {
        Completion {
            wr_id,
            qpn: Qpn::new(qpn),
            vendor_err: self.vendor_err(),
            status: self.status(),
            opcode: self.work().unwrap_or_default(),
            ..Completion::default()
        }
    }
}

/// What a good requester's entry says by its send opcode: [`what`] below, above it how many bytes were moved. One word, so
/// that one load brings it and nothing has to be decided.
#[derive(Clone, Copy)]
pub(crate) struct Request(u64);

impl Request {
    /// An opcode that this driver does not post.
    const NOTHING: Self = Self(0);
    /// As many bytes as the entry tells; else those in the lowest bits, [`BYTES`](Self::BYTES).
    const TOLD: u32 = 1 << 31;
    /// One that this driver posts: without it, a send of no bytes were nothing.
    const POSTED: u32 = 1 << 30;
    const BYTES: u32 = 0xf;

    const fn new(opcode: WcOpcode, bytes: u32) -> Self {
        Self(((Self::POSTED | bytes) as u64) << 32 | what(opcode, WcFlags::empty()) as u64)
    }

    /// Bytes that were read or changed; 0 for sends and writes.
    #[inline(always)]
    fn len(self, entry: Entry) -> u32 {
        let above = (self.0 >> 32) as u32;
        if above & Self::TOLD != 0 { entry.byte_cnt() } else { above & Self::BYTES }
    }

    #[inline(always)]
    const fn what(self) -> u32 {
        self.0 as u32
    }

    /// What the user asked for.
    pub(crate) const fn opcode(self) -> WcOpcode {
        use WcOpcode::{CompareSwap, FetchAdd, Read, Send, Write};
        let [_, opcode, ..] = self.what().to_ne_bytes();
        match opcode {
            1 => Write,
            2 => Read,
            3 => CompareSwap,
            4 => FetchAdd,
            _ => Send,
        }
    }
}

/// What a send opcode is to the user; `None` for those that this driver does not post.
#[inline(always)]
pub(crate) fn request(opcode: u32) -> Option<Request> {
    match REQUESTS.get(opcode as usize) {
        Some(request) if request.0 != 0 => Some(*request),
        _ => None,
    }
}

/// What a completion is to the user, by the note that its request left: the device tells of all of them alike.
pub(crate) fn completed(note: u32) -> Option<WcOpcode> {
    [WcOpcode::BindWindow, WcOpcode::LocalInvalidate, WcOpcode::RegisterRegion]
        .into_iter()
        .find(|opcode| *opcode as u32 == note)
}

static REQUESTS: [Request; 32] = {
    let mut table = [Request::NOTHING; 32];
    table[wqe::opcode::SEND as usize] = Request::new(WcOpcode::Send, 0);
    table[wqe::opcode::SEND_IMM as usize] = Request::new(WcOpcode::Send, 0);
    table[wqe::opcode::SEND_INVAL as usize] = Request::new(WcOpcode::Send, 0);
    table[wqe::opcode::RDMA_WRITE as usize] = Request::new(WcOpcode::Write, 0);
    table[wqe::opcode::RDMA_WRITE_IMM as usize] = Request::new(WcOpcode::Write, 0);
    table[wqe::opcode::RDMA_READ as usize] = Request::new(WcOpcode::Read, Request::TOLD);
    table[wqe::opcode::ATOMIC_CS as usize] = Request::new(WcOpcode::CompareSwap, 8);
    table[wqe::opcode::ATOMIC_FA as usize] = Request::new(WcOpcode::FetchAdd, 8);
    table
};

/// What a good responder's entry says by its opcode: the mask of the immediate data below, [`what`] above (0 for an entry
/// that is none). One word, so that one load brings it.
#[derive(Clone, Copy)]
pub(crate) struct Receive(u64);

impl Receive {
    const NOTHING: Self = Self(0);

    const fn new(opcode: WcOpcode, flags: WcFlags) -> Self {
        let imm_mask = if flags.is_empty() { 0 } else { u32::MAX };
        Self((what(opcode, flags) as u64) << 32 | imm_mask as u64)
    }

    /// It is one.
    #[inline(always)]
    pub(crate) const fn good(self) -> bool {
        self.0 != 0
    }

    #[inline(always)]
    const fn imm_mask(self) -> u32 {
        self.0 as u32
    }

    /// Byte count and immediate data of an entry, as they lie in a [`Completion`].
    #[inline(always)]
    fn len_imm(self, entry: Entry) -> u64 {
        if cfg!(target_endian = "little") {
            // As they lie in the entry, and the other way round at once.
            let imm = u64::from(entry.imm().swap_bytes()) & self.0;
            (u64::from(entry.byte_cnt().swap_bytes()) << 32 | imm).swap_bytes()
        } else {
            neighbours(entry.byte_cnt(), entry.imm() & self.imm_mask())
        }
    }

    #[inline(always)]
    const fn what(self) -> u32 {
        (self.0 >> 32) as u32
    }

    const fn opcode(self) -> WcOpcode {
        let [_, opcode, ..] = self.what().to_ne_bytes();
        if opcode == WcOpcode::RecvWriteImm as u8 { WcOpcode::RecvWriteImm } else { WcOpcode::Recv }
    }

    const fn flags(self) -> u8 {
        let [_, _, flags, _] = self.what().to_ne_bytes();
        flags
    }
}

/// By `op_own`, its owner bit 0 where the entry is there: an entry that is not, or that is of another format than the plain
/// one, is none of these.
#[inline(always)]
pub(crate) fn receive(kind: u8) -> Receive {
    match RECEIVES.get(place(kind)) {
        Some(receive) => *receive,
        None => Receive::NOTHING,
    }
}

/// The other half first, so that the table has no more than the solicited bit and the owner bit above the opcode.
#[inline(always)]
const fn place(kind: u8) -> usize {
    kind.rotate_right(op_own::OPCODE_SHIFT) as usize
}

static RECEIVES: [Receive; place(op_own::SOLICITED) + 16] = {
    let mut table = [Receive::NOTHING; place(op_own::SOLICITED) + 16];
    let all = [
        (opcode::RESP_WR_IMM, Receive::new(WcOpcode::RecvWriteImm, WcFlags::WITH_IMM)),
        (opcode::RESP_SEND, Receive::new(WcOpcode::Recv, WcFlags::empty())),
        (opcode::RESP_SEND_IMM, Receive::new(WcOpcode::Recv, WcFlags::WITH_IMM)),
        (opcode::RESP_SEND_INV, Receive::new(WcOpcode::Recv, WcFlags::WITH_INVALIDATE)),
    ];
    let mut n = 0;
    while n < all.len() {
        let (opcode, receive) = all[n];
        table[place(opcode << op_own::OPCODE_SHIFT)] = receive;
        table[place(opcode << op_own::OPCODE_SHIFT | op_own::SOLICITED)] = receive;
        n += 1;
    }
    table
};
