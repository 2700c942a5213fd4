//! Send queue context of the raw packet path. PRM: "SQ Context".
use crate::field::Field;

/// Size in bytes, without the page addresses behind it.
pub const SIZE: usize = 0xf0;
/// WQEs may use the reserved lkey.
pub const RLKY: Field = Field::new(0x00, 31, 31);
/// Cross-channel: may wait on CQs and enable others.
pub const CD_MASTER: Field = Field::new(0x00, 30, 30);
/// Fast registration allowed.
pub const FRE: Field = Field::new(0x00, 29, 29);
/// In error, WQEs left are flushed with completions.
pub const FLUSH_IN_ERROR_EN: Field = Field::new(0x00, 28, 28);
/// WQEs of several packets are allowed.
pub const ALLOW_MULTI_PKT_SEND_WQE: Field = Field::new(0x00, 27, 27);
/// Headers that a WQE must hold inline: 0 none, 1 layer 2, 2 layer 3, 3 layer 4.
pub const MIN_WQE_INLINE_MODE: Field = Field::new(0x00, 26, 24);
/// [`state`].
pub const STATE: Field = Field::new(0x00, 23, 20);
/// UMR work requests are allowed.
pub const REG_UMR: Field = Field::new(0x00, 19, 19);
/// Software parsing is allowed.
pub const ALLOW_SWP: Field = Field::new(0x00, 18, 18);
/// The queue sends what an RQ received, without software.
pub const HAIRPIN: Field = Field::new(0x00, 17, 17);
/// Timestamp format, as in [`qpc`](super::qpc).
pub const TS_FORMAT: Field = Field::new(0x00, 5, 4);
/// What CQEs of version 1 call this SQ.
pub const USER_INDEX: Field = Field::new(0x04, 23, 0);
/// CQ.
pub const CQN: Field = Field::new(0x08, 23, 0);
/// The RQ of a hairpin.
pub const HAIRPIN_PEER_RQ: Field = Field::new(0x0c, 23, 0);
/// The RQ's function.
pub const HAIRPIN_PEER_VHCA: Field = Field::new(0x10, 15, 0);
/// CQ that gets timestamps.
pub const TS_CQE_TO_DEST_CQN: Field = Field::new(0x18, 23, 0);
/// Rate limit.
pub const PACKET_PACING_RATE_LIMIT_INDEX: Field = Field::new(0x1c, 15, 0);
/// Number of TISs: 1.
pub const TIS_LST_SZ: Field = Field::new(0x20, 31, 16);
/// Group of quality of service.
pub const QOS_QUEUE_GROUP_ID: Field = Field::new(0x20, 15, 0);
/// The TIS.
pub const TIS_NUM_0: Field = Field::new(0x2c, 23, 0);
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
