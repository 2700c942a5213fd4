//! Receive queue context of the raw packet path. PRM: "RQ Context".
use crate::field::Field;

/// Size in bytes, without the page addresses behind it.
pub const SIZE: usize = 0xf0;
/// WQEs may use the reserved lkey.
pub const RLKY: Field = Field::new(0x00, 31, 31);
/// Packets without a WQE wait for one.
pub const DELAY_DROP_EN: Field = Field::new(0x00, 30, 30);
/// The frame check sequence is scattered too.
pub const SCATTER_FCS: Field = Field::new(0x00, 29, 29);
/// VLAN tags are not taken off.
pub const VSD: Field = Field::new(0x00, 28, 28);
/// 0: the queue has WQEs of its own; 1: it takes them from an RMP.
pub const MEM_RQ_TYPE: Field = Field::new(0x00, 27, 24);
/// [`state`].
pub const STATE: Field = Field::new(0x00, 23, 20);
/// In error, WQEs left are flushed with completions.
pub const FLUSH_IN_ERROR_EN: Field = Field::new(0x00, 18, 18);
/// What is received goes to an SQ, without software.
pub const HAIRPIN: Field = Field::new(0x00, 17, 17);
/// Timestamp format, as in [`qpc`](super::qpc).
pub const TS_FORMAT: Field = Field::new(0x00, 5, 4);
/// What CQEs of version 1 call this RQ.
pub const USER_INDEX: Field = Field::new(0x04, 23, 0);
/// CQ.
pub const CQN: Field = Field::new(0x08, 23, 0);
/// Queue counter set.
pub const COUNTER_SET_ID: Field = Field::new(0x0c, 31, 24);
/// The RMP.
pub const RMPN: Field = Field::new(0x10, 23, 0);
/// The SQ of a hairpin.
pub const HAIRPIN_PEER_SQ: Field = Field::new(0x14, 23, 0);
/// The SQ's function.
pub const HAIRPIN_PEER_VHCA: Field = Field::new(0x18, 15, 0);
/// The [`wq`](super::wq).
pub const WQ: usize = 0x30;

/// Values of [`STATE`].
pub mod state {
    /// Reset.
    pub const RST: u32 = 0x0;
    /// Ready.
    pub const RDY: u32 = 0x1;
    /// In error.
    pub const ERR: u32 = 0x3;
}
