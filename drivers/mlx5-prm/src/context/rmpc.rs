//! Receive memory pool context: a receive queue that several RQs share. PRM: "RMP Context".
use crate::field::Field;

/// Size in bytes, without the page addresses behind it.
pub const SIZE: usize = 0xf0;
/// [`state`] of the pool.
pub const STATE: Field = Field::new(0x00, 23, 20);
/// WQEs have no next segment.
pub const BASIC_CYCLIC_RCV_WQE: Field = Field::new(0x04, 31, 31);
/// The [`wq`](super::wq).
pub const WQ: usize = 0x30;

/// Values of [`STATE`].
pub mod state {
    /// Ready.
    pub const READY: u32 = 0x1;
    /// In error.
    pub const ERROR: u32 = 0x3;
}
