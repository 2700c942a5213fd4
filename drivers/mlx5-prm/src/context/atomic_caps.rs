//! Atomics capabilities. PRM: "Atomic Capabilities".
use crate::field::Field;

/// Size in bytes.
pub const SIZE: usize = 0x100;
/// 1: the answers to 8-byte atomics come in host order; set by SET_HCA_CAP.
pub const ATOMIC_REQ_8B_ENDIANNESS_MODE: Field = Field::new(0x08, 31, 30);
/// The device can do so.
pub const SUPPORTED_ATOMIC_REQ_8B_ENDIANNESS_MODE_1: Field = Field::new(0x08, 25, 25);
/// [`operations`] supported.
pub const ATOMIC_OPERATIONS: Field = Field::new(0x10, 15, 0);
/// Bit n: operands of 2^n bytes are supported by QPs.
pub const ATOMIC_SIZE_QP: Field = Field::new(0x14, 15, 0);
/// Bit n: operands of 2^n bytes are supported by DC.
pub const ATOMIC_SIZE_DC: Field = Field::new(0x18, 15, 0);

/// Bits of [`ATOMIC_OPERATIONS`].
pub mod operations {
    /// Compare and swap.
    pub const CMP_SWAP: u32 = 1 << 0;
    /// Fetch and add.
    pub const FETCH_ADD: u32 = 1 << 1;
    /// Masked compare and swap.
    pub const MASKED_CMP_SWAP: u32 = 1 << 2;
    /// Masked fetch and add.
    pub const MASKED_FETCH_ADD: u32 = 1 << 3;
}
