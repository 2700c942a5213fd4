//! Work queue entries. PRM: "Work Request (WQE) Formats".
//!
//! A send WQE is a [`CtrlSeg`] and further segments, all in units of 16 bytes ([`DS`]), and takes
//! whole basic blocks of 64 ([`BB`]). A receive WQE is a list of [`DataSeg`]; in a shared receive
//! queue a [`SrqNextSeg`] comes before it.

use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a segment unit ("data segment"), in which a WQE's length is counted.
pub const DS: usize = 16;
/// Bytes of a basic block, in which a send queue is counted.
pub const BB: usize = 64;
/// Units in a basic block.
pub const DS_PER_BB: usize = BB / DS;
/// Units of a send WQE at most: its `ds` field has 6 bits.
pub const MAX_DS: usize = 63;

/// Send opcodes, the low byte of [`CtrlSeg::opmod_idx_opcode`].
pub mod opcode {
    /// Nothing.
    pub const NOP: u8 = 0x00;
    /// SEND with invalidate.
    pub const SEND_INVAL: u8 = 0x01;
    /// RDMA WRITE.
    pub const RDMA_WRITE: u8 = 0x08;
    /// RDMA WRITE with immediate data.
    pub const RDMA_WRITE_IMM: u8 = 0x09;
    /// SEND.
    pub const SEND: u8 = 0x0a;
    /// SEND with immediate data.
    pub const SEND_IMM: u8 = 0x0b;
    /// SEND of a packet to be cut into segments.
    pub const LSO: u8 = 0x0e;
    /// RDMA READ.
    pub const RDMA_READ: u8 = 0x10;
    /// Compare and swap.
    pub const ATOMIC_CS: u8 = 0x11;
    /// Fetch and add.
    pub const ATOMIC_FA: u8 = 0x12;
    /// Masked compare and swap.
    pub const ATOMIC_MASKED_CS: u8 = 0x14;
    /// Masked fetch and add.
    pub const ATOMIC_MASKED_FA: u8 = 0x15;
    /// Bind of a type 1 window; drivers bind by [`UMR`] instead.
    pub const BIND_MW: u8 = 0x18;
    /// Fast registration, older than [`UMR`].
    pub const FMR: u8 = 0x19;
    /// Local invalidate, older than [`UMR`].
    pub const LOCAL_INVAL: u8 = 0x1b;
    /// Configuration.
    pub const CONFIG_CMD: u8 = 0x1f;
    /// Sets a signature variable.
    pub const SET_PSV: u8 = 0x20;
    /// Sends the contents of memory without a header of its own.
    pub const DUMP: u8 = 0x23;
    /// Changes a memory key.
    pub const UMR: u8 = 0x25;
    /// Several packets in one WQE.
    pub const ENHANCED_MPSW: u8 = 0x29;
}

/// Receive opcodes as a CQE in error tells them.
pub mod recv_opcode {
    /// RDMA WRITE with immediate data.
    pub const RDMA_WRITE_IMM: u8 = 0x00;
    /// SEND.
    pub const SEND: u8 = 0x01;
    /// SEND with immediate data.
    pub const SEND_IMM: u8 = 0x02;
    /// SEND with invalidate.
    pub const SEND_INVAL: u8 = 0x03;
}

/// Bits of [`CtrlSeg::fm_ce_se`].
pub mod ctrl {
    /// Solicited event: the receiver's completion is a solicited one.
    pub const SOLICITED: u8 = 1 << 1;
    /// Write a CQE in any case.
    pub const CQ_UPDATE: u8 = 2 << 2;
    /// Write a CQE and an event in any case.
    pub const CQ_UPDATE_AND_EQE: u8 = 3 << 2;
    /// Mask of completion mode; 0 writes a CQE in case of error only.
    pub const CE_MASK: u8 = 3 << 2;
    /// Fence: wait for earlier local invalidations and UMRs only.
    pub const FENCE_INITIATOR_SMALL: u8 = 1 << 5;
    /// Fence: wait for earlier RDMA READs and atomics.
    pub const FENCE: u8 = 2 << 5;
    /// Fence: wait for everything earlier.
    pub const FENCE_STRONG_ORDERING: u8 = 3 << 5;
    /// Fence: small fence and fence; what libmlx5 and Linux ask for as the verbs' fence.
    pub const FENCE_SMALL_AND_FENCE: u8 = 4 << 5;
    /// Mask of the fence mode.
    pub const FENCE_MASK: u8 = 7 << 5;
}

/// Control segment: the first of every send WQE. PRM: "Control Segment".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CtrlSeg {
    /// Opcode modifier 31:24, index of the first basic block 23:8 (16 bits, not masked by the size of
    /// the queue), [`opcode`] 7:0.
    pub opmod_idx_opcode: U32,
    /// QPN 31:8, number of units 5:0.
    pub qpn_ds: U32,
    /// Makes the exclusive or of the WQE 0xff; only where the QP asks for signatures.
    pub signature: u8,
    /// Channel number of DC streams.
    pub dci_stream_channel_id: U16,
    /// Fence mode, completion mode, solicited event: see [`ctrl`].
    pub fm_ce_se: u8,
    /// Immediate data, rkey to invalidate, key of a UMR, TIS number: as the opcode says.
    pub general_id: U32,
}

/// Remote address segment. PRM: "Remote Address Segment".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RaddrSeg {
    /// Remote virtual address.
    pub raddr: U64,
    /// Remote key.
    pub rkey: U32,
    /// Zero.
    pub reserved: U32,
}

/// Atomic segment. PRM: "Atomic Segment".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct AtomicSeg {
    /// Swap or add operand.
    pub swap_add: U64,
    /// Compare operand.
    pub compare: U64,
}

/// Masked atomic segment for operands of 8 bytes. PRM: "Masked Atomic Segment".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct MaskedAtomicSeg {
    /// Swap or add operand.
    pub swap_add: U64,
    /// Compare operand; of a masked fetch and add the boundaries of its fields.
    pub compare: U64,
    /// Which bits are swapped.
    pub swap_add_mask: U64,
    /// Which bits are compared.
    pub compare_mask: U64,
}

/// Data segment, in send and receive WQEs. PRM: "Memory Pointer Data Segment".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DataSeg {
    /// Length in bytes, 30:0. In a send WQE 0 means 2^31.
    pub byte_count: U32,
    /// Local key; [`INVALID_LKEY`] ends the list of a receive WQE.
    pub lkey: U32,
    /// Local virtual address.
    pub addr: U64,
}

/// An lkey that belongs to no memory: ends the list of a receive WQE that is not full.
pub const INVALID_LKEY: u32 = 0x100;

/// Header of inline data: the data follow at once, the whole padded to 16 bytes. PRM: "Inline Data
/// Segment".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct InlineSeg {
    /// [`INLINE`] and the length in bytes.
    pub byte_count: U32,
}

/// Bit of a byte count: the data stand in the WQE.
pub const INLINE: u32 = 0x8000_0000;
/// The length within an inline header.
pub const INLINE_LENGTH_MASK: u32 = 0x3ff;

/// Address vector of a datagram. PRM: "Address Vector". The first 16 bytes are the compact form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Av {
    /// UD: Q_Key in the upper half, zero in the lower; DC: access key.
    pub key: U64,
    /// [`AV_EXTENDED`] and destination QPN 23:0.
    pub dqp_dct: U32,
    /// Static rate 7:4 (the verbs' code plus 5, 0 for the port's), service level 3:0 (RoCE: priority
    /// 3:1).
    pub stat_rate_sl: u8,
    /// Force loopback 7, path bits of the source LID 6:0.
    pub fl_mlid: u8,
    /// InfiniBand: destination LID; RoCE v2: UDP source port.
    pub rlid_udp_sport: U16,
    /// Zero.
    pub reserved: [u8; 4],
    /// RoCE: destination MAC address.
    pub rmac: [u8; 6],
    /// Traffic class.
    pub tclass: u8,
    /// Hop limit, or time to live.
    pub hop_limit: u8,
    /// [`AV_GRH`], source GID index 27:20, flow label 19:0.
    pub grh_gid_fl: U32,
    /// Destination GID, or IP address.
    pub rgid: [u8; 16],
}

/// Bit of [`Av::dqp_dct`]: all 48 bytes of the address vector are there.
pub const AV_EXTENDED: u32 = 0x8000_0000;
/// Bit of [`Av::grh_gid_fl`]: the packet carries a GRH.
pub const AV_GRH: u32 = 1 << 30;

/// Datagram segment of a UD send WQE. PRM: "Datagram Segment".
pub type DatagramSeg = Av;

/// XRC segment, behind the control segment of an XRC send WQE. PRM: "XRC Segment".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct XrcSeg {
    /// Remote SRQ number.
    pub xrc_srqn: U32,
    /// Zero.
    pub reserved: [u8; 12],
}

/// UMR control segment. Behind it come the 64 bytes of an [`mkc`](crate::context::mkc) and the
/// translation, or a [`DataSeg`] that points to it. PRM: "UMR Control Segment".
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct UmrCtrlSeg {
    /// See [`umr`].
    pub flags: u8,
    /// Zero.
    pub reserved0: [u8; 3],
    /// Size of the translation in this WQE, in 16 bytes.
    pub klm_octowords: U16,
    /// Offset of the translation in the key's table, in 16 bytes, bits 15:0; or size of the byte stream
    /// format in 16 bytes.
    pub translation_offset: U16,
    /// Which fields of the memory key change, see [`mkey_mask`].
    pub mkey_mask: U64,
    /// Bits 47:16 of the translation's offset.
    pub translation_offset_47_16: U32,
    /// Zero.
    pub reserved1: [u8; 28],
}

/// Bits of [`UmrCtrlSeg::flags`].
pub mod umr {
    /// Fail unless the key belongs to this QP.
    pub const CHECK_QPN: u8 = 1 << 3;
    /// The translation is written at [`translation_offset`](super::UmrCtrlSeg::translation_offset).
    pub const TRANSLATION_OFFSET_EN: u8 = 1 << 4;
    /// Fail if the key is not free.
    pub const CHECK_NOT_FREE: u8 = 1 << 5;
    /// Fail if the key is free.
    pub const CHECK_FREE: u8 = 2 << 5;
    /// The translation stands in the WQE.
    pub const INLINE: u8 = 1 << 7;
}

/// Bits of [`UmrCtrlSeg::mkey_mask`].
pub mod mkey_mask {
    /// Length.
    pub const LEN: u64 = 1 << 0;
    /// Page size.
    pub const PAGE_SIZE: u64 = 1 << 1;
    /// Start address.
    pub const START_ADDR: u64 = 1 << 6;
    /// Protection domain.
    pub const PD: u64 = 1 << 7;
    /// Remote invalidation.
    pub const EN_RINVAL: u64 = 1 << 8;
    /// Signature error count.
    pub const EN_SIGERR: u64 = 1 << 9;
    /// Byte stream format.
    pub const BSF_EN: u64 = 1 << 12;
    /// The key's variant byte.
    pub const KEY: u64 = 1 << 13;
    /// QPN.
    pub const QPN: u64 = 1 << 14;
    /// Local read.
    pub const LR: u64 = 1 << 17;
    /// Local write.
    pub const LW: u64 = 1 << 18;
    /// Remote read.
    pub const RR: u64 = 1 << 19;
    /// Remote write.
    pub const RW: u64 = 1 << 20;
    /// Remote atomics.
    pub const A: u64 = 1 << 21;
    /// Small fence.
    pub const SMALL_FENCE: u64 = 1 << 23;
    /// Relaxed ordering of writes.
    pub const RELAXED_ORDERING_WRITE: u64 = 1 << 25;
    /// Free.
    pub const FREE: u64 = 1 << 29;
    /// Relaxed ordering of reads.
    pub const RELAXED_ORDERING_READ: u64 = 1 << 47;
}

/// Range of another memory key, an entry of an indirect key's table. PRM: "KLM Entry".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Klm {
    /// Length in bytes.
    pub byte_count: U32,
    /// The other key.
    pub mkey: U32,
    /// Address in the other key's space.
    pub address: U64,
}

/// Ethernet segment of a raw packet send WQE, with the first two bytes of inline headers. PRM:
/// "Ethernet Segment".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct EthSeg {
    /// Offset of the outer layer 4 header in 2 bytes, where software parses.
    pub swp_outer_l4_offset: u8,
    /// Offset of the outer layer 3 header in 2 bytes.
    pub swp_outer_l3_offset: u8,
    /// Offset of the inner layer 4 header in 2 bytes.
    pub swp_inner_l4_offset: u8,
    /// Offset of the inner layer 3 header in 2 bytes.
    pub swp_inner_l3_offset: u8,
    /// See [`eth`].
    pub cs_flags: u8,
    /// What software parsed.
    pub swp_flags: u8,
    /// Largest segment of an LSO, in bytes.
    pub mss: U16,
    /// Metadata for the flow tables.
    pub flow_table_metadata: U32,
    /// Length of the inline headers in bytes.
    pub inline_hdr_sz: U16,
    /// First two bytes of the inline headers; the rest follows.
    pub inline_hdr_start: [u8; 2],
}

/// Bits of [`EthSeg::cs_flags`].
pub mod eth {
    /// Compute the inner layer 3 checksum.
    pub const L3_INNER_CSUM: u8 = 1 << 4;
    /// Compute the inner layer 4 checksum.
    pub const L4_INNER_CSUM: u8 = 1 << 5;
    /// Compute the layer 3 checksum.
    pub const L3_CSUM: u8 = 1 << 6;
    /// Compute the layer 4 checksum.
    pub const L4_CSUM: u8 = 1 << 7;
}

/// Next segment: the first of each WQE in a shared receive queue, linking the free list. PRM: "Linked
/// List WQE Format", "Next Segment".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SrqNextSeg {
    /// Zero.
    pub reserved0: [u8; 2],
    /// Index of the next WQE.
    pub next_wqe_index: U16,
    /// Signature, where the queue asks for it.
    pub signature: u8,
    /// Zero.
    pub reserved1: [u8; 11],
}

const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<CtrlSeg>() == 16 && offset_of!(CtrlSeg, fm_ce_se) == 11);
    assert!(size_of::<RaddrSeg>() == 16 && offset_of!(RaddrSeg, rkey) == 8);
    assert!(size_of::<AtomicSeg>() == 16);
    assert!(size_of::<MaskedAtomicSeg>() == 32);
    assert!(size_of::<DataSeg>() == 16 && offset_of!(DataSeg, addr) == 8);
    assert!(size_of::<InlineSeg>() == 4);
    assert!(size_of::<Av>() == 48 && offset_of!(Av, stat_rate_sl) == 12);
    assert!(offset_of!(Av, rmac) == 20 && offset_of!(Av, rgid) == 32);
    assert!(size_of::<XrcSeg>() == 16);
    assert!(size_of::<UmrCtrlSeg>() == 48 && offset_of!(UmrCtrlSeg, mkey_mask) == 8);
    assert!(size_of::<Klm>() == 16);
    assert!(size_of::<EthSeg>() == 16 && offset_of!(EthSeg, inline_hdr_sz) == 12);
    assert!(size_of::<SrqNextSeg>() == 16 && offset_of!(SrqNextSeg, next_wqe_index) == 2);
};
