//! Completion queue entries. PRM: "Completion Queue Entry (CQE)".

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Completion, 64 bytes. A 128-byte CQE is 64 bytes of scattered data or GRH before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Cqe64 {
    /// Tunneled packets, TLS offload; also the first of 32 bytes of scattered data.
    pub outer_l3_tunneled: u8,
    /// Reserved.
    pub reserved0: u8,
    /// Index of the receive WQE of a striding queue.
    pub wqe_id: U16,
    /// Large receive offload or header split, 8 bytes.
    pub lro: [u8; 8],
    /// Hash that receive side scaling computed.
    pub rx_hash_result: U32,
    /// What was hashed.
    pub rx_hash_type: u8,
    /// Path bits of the destination LID 6:0; bit 7: multicast.
    pub ml_path: u8,
    /// Reserved.
    pub reserved1: [u8; 2],
    /// Checksum over the packet.
    pub check_sum: U16,
    /// InfiniBand: source LID.
    pub slid: U16,
    /// [`rqpn`]: GRH flags, service level, source QPN.
    pub flags_rqpn: U32,
    /// Checksum status, see [`checksum`].
    pub hds_ip_ext: u8,
    /// Header types: layer 4 in 6:4, layer 3 in 3:2, bit 0: the VLAN tag was taken off.
    pub l4_l3_hdr_type: u8,
    /// VLAN tag.
    pub vlan_info: U16,
    /// SRQ number, or user index (CQE version 1) in 23:0; segments of an LRO in 31:24.
    pub srqn_uidx: U32,
    /// Immediate data, or the rkey invalidated, or the P_Key in 15:0, or metadata.
    pub imm_inval_pkey: U32,
    /// Application data of tag matching.
    pub app: [u8; 4],
    /// Bytes received or read.
    pub byte_cnt: U32,
    /// When the completion came, upper dword.
    pub timestamp_h: U32,
    /// When the completion came, lower dword.
    pub timestamp_l: U32,
    /// Send opcode (or flow tag's top) 31:24, QPN (or flow tag) 23:0.
    pub sop_drop_qpn: U32,
    /// Index of the WQE: send queue in basic blocks, receive queue in WQEs.
    pub wqe_counter: U16,
    /// Makes the exclusive or of the CQE 0xff, where the CQ asks for it.
    pub signature: u8,
    /// [`op_own`]: opcode, format, solicited, owner. Written last.
    pub op_own: u8,
}

/// Completion in error: opcode [`opcode::REQ_ERR`] or [`opcode::RESP_ERR`]. PRM: "Completion with
/// Error".
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ErrCqe {
    /// Reserved.
    pub reserved0: [u8; 32],
    /// SRQ number, or user index (CQE version 1) in 23:0.
    pub srqn_uidx: U32,
    /// Reserved.
    pub reserved1: [u8; 18],
    /// The vendor's own syndrome.
    pub vendor_err_synd: u8,
    /// See [`Syndrome`].
    pub syndrome: u8,
    /// Opcode of the failed work request 31:24, QPN 23:0.
    pub s_wqe_opcode_qpn: U32,
    /// Index of the WQE.
    pub wqe_counter: U16,
    /// Makes the exclusive or of the CQE 0xff, where the CQ asks for it.
    pub signature: u8,
    /// [`op_own`]: opcode, format, solicited, owner.
    pub op_own: u8,
}

/// Byte of a CQE (of its last 64 bytes) that says whether it is there.
pub const OP_OWN: usize = 63;

const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<Cqe64>() == 64 && size_of::<ErrCqe>() == 64);
    assert!(offset_of!(Cqe64, rx_hash_result) == 12 && offset_of!(Cqe64, slid) == 22);
    assert!(offset_of!(Cqe64, flags_rqpn) == 24 && offset_of!(Cqe64, srqn_uidx) == 32);
    assert!(offset_of!(Cqe64, imm_inval_pkey) == 36 && offset_of!(Cqe64, byte_cnt) == 44);
    assert!(offset_of!(Cqe64, timestamp_h) == 48 && offset_of!(Cqe64, sop_drop_qpn) == 56);
    assert!(offset_of!(Cqe64, wqe_counter) == 60 && offset_of!(Cqe64, op_own) == OP_OWN);
    assert!(offset_of!(ErrCqe, srqn_uidx) == offset_of!(Cqe64, srqn_uidx));
    assert!(offset_of!(ErrCqe, vendor_err_synd) == 54 && offset_of!(ErrCqe, syndrome) == 55);
    assert!(offset_of!(ErrCqe, s_wqe_opcode_qpn) == offset_of!(Cqe64, sop_drop_qpn));
    assert!(offset_of!(ErrCqe, op_own) == OP_OWN);
};

/// Parts of [`Cqe64::op_own`].
pub mod op_own {
    /// Shift of the [`opcode`](super::opcode).
    pub const OPCODE_SHIFT: u32 = 4;
    /// Mask of the [`format`](super::format), in place.
    pub const FORMAT_MASK: u8 = 3 << 2;
    /// Shift of the format.
    pub const FORMAT_SHIFT: u32 = 2;
    /// The completion is a solicited one.
    pub const SOLICITED: u8 = 1 << 1;
    /// Owner bit: flips each time the queue wraps; in the first lap software's is 0.
    pub const OWNER: u8 = 1 << 0;
}

/// CQE opcodes.
pub mod opcode {
    /// Requester: a send work request is done.
    pub const REQ: u8 = 0x0;
    /// Responder: RDMA WRITE with immediate data.
    pub const RESP_WR_IMM: u8 = 0x1;
    /// Responder: SEND.
    pub const RESP_SEND: u8 = 0x2;
    /// Responder: SEND with immediate data.
    pub const RESP_SEND_IMM: u8 = 0x3;
    /// Responder: SEND with invalidate.
    pub const RESP_SEND_INV: u8 = 0x4;
    /// The queue goes on in the new buffer.
    pub const RESIZE_CQ: u8 = 0x5;
    /// No packet.
    pub const NO_PACKET: u8 = 0x6;
    /// Signature error.
    pub const SIG_ERR: u8 = 0xc;
    /// Requester in error.
    pub const REQ_ERR: u8 = 0xd;
    /// Responder in error.
    pub const RESP_ERR: u8 = 0xe;
    /// Not a completion; software fills new rings with it.
    pub const INVALID: u8 = 0xf;
}

/// Where the data are.
pub mod format {
    /// In memory.
    pub const NO_INLINE: u8 = 0;
    /// In the first 32 bytes of the CQE.
    pub const INLINE_32: u8 = 1;
    /// In the 64 bytes before a 64-byte CQE.
    pub const INLINE_64: u8 = 2;
    /// Compressed: a mini CQE array follows.
    pub const COMPRESSED: u8 = 3;
}

/// Parts of [`Cqe64::flags_rqpn`].
pub mod rqpn {
    /// Source QPN.
    pub const SRC_QPN_MASK: u32 = 0xff_ffff;
    /// InfiniBand: service level 27:24.
    pub const SL_SHIFT: u32 = 24;
    /// Mask of the service level behind the shift.
    pub const SL_MASK: u32 = 0xf;
    /// GRH flags 29:28: not 0 if the first 40 bytes of the buffer hold a GRH.
    pub const GRH_SHIFT: u32 = 28;
    /// Mask of the GRH flags behind the shift.
    pub const GRH_MASK: u32 = 0x3;
    /// RoCE: [`l3_type`](super::l3_type) 25:24.
    pub const L3_TYPE_SHIFT: u32 = 24;
    /// Mask of the header type behind the shift.
    pub const L3_TYPE_MASK: u32 = 0x3;
}

/// RoCE: which network header the packet had.
pub mod l3_type {
    /// RoCE v1.
    pub const GRH: u32 = 0;
    /// RoCE v2 over IPv6.
    pub const IPV6: u32 = 1;
    /// RoCE v2 over IPv4.
    pub const IPV4: u32 = 2;
}

/// Bits of [`Cqe64::hds_ip_ext`].
pub mod checksum {
    /// Layer 2 is in order.
    pub const L2_OK: u8 = 1 << 0;
    /// Layer 3 checksum is right.
    pub const L3_OK: u8 = 1 << 1;
    /// Layer 4 checksum is right.
    pub const L4_OK: u8 = 1 << 2;
}

/// Layer 3 of [`Cqe64::l4_l3_hdr_type`].
pub const L3_TYPE_MASK: u8 = 3 << 2;
/// Value of it: IPv4. (1 << 2 is IPv6.)
pub const L3_TYPE_IPV4: u8 = 2 << 2;

/// Bit of [`Cqe64::l4_l3_hdr_type`]: a VLAN tag was taken off and stands in `vlan_info`.
pub const HAS_VLAN: u8 = 1 << 0;

/// Why a work request failed. PRM: "Completion with Error Syndrome".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// 0x01: local length error.
    LocalLength,
    /// 0x02: local QP operation error.
    LocalQpOperation,
    /// 0x04: local protection error.
    LocalProtection,
    /// 0x05: flushed.
    WrFlush,
    /// 0x06: memory window bind error.
    MwBind,
    /// 0x10: bad response.
    BadResponse,
    /// 0x11: local access error.
    LocalAccess,
    /// 0x12: remote invalid request.
    RemoteInvalidRequest,
    /// 0x13: remote access error.
    RemoteAccess,
    /// 0x14: remote operation error.
    RemoteOperation,
    /// 0x15: transport retries exceeded.
    TransportRetryExceeded,
    /// 0x16: RNR retries exceeded.
    RnrRetryExceeded,
    /// 0x22: remote aborted.
    RemoteAborted,
    /// Any other value.
    Unknown(u8),
}

impl Syndrome {
    /// From the CQE's byte.
    pub const fn from_raw(raw: u8) -> Self {
        match raw {
            0x01 => Self::LocalLength,
            0x02 => Self::LocalQpOperation,
            0x04 => Self::LocalProtection,
            0x05 => Self::WrFlush,
            0x06 => Self::MwBind,
            0x10 => Self::BadResponse,
            0x11 => Self::LocalAccess,
            0x12 => Self::RemoteInvalidRequest,
            0x13 => Self::RemoteAccess,
            0x14 => Self::RemoteOperation,
            0x15 => Self::TransportRetryExceeded,
            0x16 => Self::RnrRetryExceeded,
            0x22 => Self::RemoteAborted,
            other => Self::Unknown(other),
        }
    }

    /// The CQE's byte.
    pub const fn to_raw(self) -> u8 {
        match self {
            Self::LocalLength => 0x01,
            Self::LocalQpOperation => 0x02,
            Self::LocalProtection => 0x04,
            Self::WrFlush => 0x05,
            Self::MwBind => 0x06,
            Self::BadResponse => 0x10,
            Self::LocalAccess => 0x11,
            Self::RemoteInvalidRequest => 0x12,
            Self::RemoteAccess => 0x13,
            Self::RemoteOperation => 0x14,
            Self::TransportRetryExceeded => 0x15,
            Self::RnrRetryExceeded => 0x16,
            Self::RemoteAborted => 0x22,
            Self::Unknown(raw) => raw,
        }
    }
}
