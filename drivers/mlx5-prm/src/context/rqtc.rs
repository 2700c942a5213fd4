//! Receive queue table context. PRM: "RQT Context".
use crate::field::Field;

/// Size in bytes, without the queues behind it.
pub const SIZE: usize = 0xf0;
/// 0: the entries are RQs.
pub const LIST_Q_TYPE: Field = Field::new(0x14, 26, 24);
/// Entries at most.
pub const RQT_MAX_SIZE: Field = Field::new(0x14, 15, 0);
/// The entries name a function too.
pub const RQ_VHCA_ID_FORMAT: Field = Field::new(0x18, 31, 31);
/// Entries that follow.
pub const RQT_ACTUAL_SIZE: Field = Field::new(0x18, 15, 0);
/// The queues, a dword each: number in 23:0.
pub const RQ_NUM: usize = 0xf0;
