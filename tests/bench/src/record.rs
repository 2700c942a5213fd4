//! What the differential test and the C program `libmlx5/differential.c` say to each other: plain structs in the order
//! of their fields, in the machine's byte order.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// QPs: RC, UC, UD, and RC with an SRQ.
pub const QPS: usize = 4;
/// Elements of a request at most.
pub const MAX_SGE: usize = 16;

/// Sizes of a QP's rings.
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
pub struct QpSetup {
    /// Number of ibv_qp_type.
    pub kind: u32,
    pub qpn: u32,
    pub sq_blocks: u32,
    pub max_send_wr: u32,
    pub max_send_sge: u32,
    pub max_inline: u32,
    pub rq_slots: u32,
    pub rq_shift: u32,
    pub max_recv_sge: u32,
}

/// The first record.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub struct Setup {
    pub qps: [QpSetup; QPS],
    pub srq_slots: u32,
    pub srq_shift: u32,
}

/// An element.
#[derive(Clone, Copy, Debug, Default, IntoBytes, Immutable)]
#[repr(C)]
pub struct Element {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// A request, and the completion that follows it.
#[derive(Clone, Copy, Debug, IntoBytes, Immutable)]
#[repr(C)]
pub struct Request {
    pub wr_id: u64,
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub qp: u32,
    /// 1 for a receive.
    pub recv: u32,
    /// Number of ibv_wr_opcode.
    pub opcode: u32,
    /// Bits of ibv_send_flags.
    pub flags: u32,
    pub rkey: u32,
    /// Immediate data, or the key to invalidate.
    pub imm: u32,
    pub num_sge: u32,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
    pub unused: u32,
    /// Address vector of a datagram.
    pub av: [u8; 48],
    pub sges: [Element; MAX_SGE],
    /// Inline data, element by element.
    pub data: [u8; 1024],
    pub cqe: [u8; 64],
}

/// What came of it.
#[derive(Clone, Copy, Debug, IntoBytes, FromBytes, Immutable)]
#[repr(C)]
pub struct Reply {
    /// As it lies in the register.
    pub doorbell: [u8; 8],
    pub wr_id: u64,
    /// 0, or an error number.
    pub post: u32,
    /// Completions.
    pub polled: u32,
    /// Dwords of the doorbell record as they lie in memory.
    pub send_record: [u8; 4],
    pub recv_record: [u8; 4],
    pub status: u32,
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub pkey_index: u32,
    pub slid: u32,
    pub sl: u32,
    pub dlid_path_bits: u32,
    /// The WQE, zeros behind it.
    pub wqe: [u8; 1024],
}
