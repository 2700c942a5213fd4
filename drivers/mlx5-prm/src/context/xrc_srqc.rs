//! Extended shared receive queue context, of XRC SRQs and, without an XRC domain, of common ones.
//! PRM: "XRC SRQ Context".
use crate::field::Field;

/// Size in bytes.
pub const SIZE: usize = 0x40;
/// [`state`] of the queue; output only.
pub const STATE: Field = Field::new(0x00, 31, 28);
/// Log of the number of WQEs.
pub const LOG_XRC_SRQ_SIZE: Field = Field::new(0x00, 27, 24);
/// WQEs carry signatures.
pub const WQ_SIGNATURE: Field = Field::new(0x04, 31, 31);
/// WQEs may use the reserved lkey.
pub const RLKY: Field = Field::new(0x04, 28, 28);
/// WQEs have no next segment.
pub const BASIC_CYCLIC_RCV_WQE: Field = Field::new(0x04, 27, 27);
/// Log of the bytes of a WQE, less 4.
pub const LOG_RQ_STRIDE: Field = Field::new(0x04, 26, 24);
/// XRC domain.
pub const XRCD: Field = Field::new(0x04, 23, 0);
/// Offset of WQE 0 in the first page, in units of page size / 64.
pub const PAGE_OFFSET: Field = Field::new(0x08, 31, 26);
/// The doorbell record lies in a registered user memory.
pub const DBR_UMEM_VALID: Field = Field::new(0x08, 24, 24);
/// CQ of XRC receives.
pub const CQN: Field = Field::new(0x08, 23, 0);
/// The user index is the SRQ's own number.
pub const USER_INDEX_EQUAL_XRC_SRQN: Field = Field::new(0x10, 31, 31);
/// Log of the page size of the address list, less 12.
pub const LOG_PAGE_SIZE: Field = Field::new(0x10, 29, 24);
/// What CQEs of version 1 call this SRQ.
pub const USER_INDEX: Field = Field::new(0x10, 23, 0);
/// Protection domain.
pub const PD: Field = Field::new(0x18, 23, 0);
/// Limit ("low water mark"): an event comes when fewer WQEs are left; 0 is unarmed.
pub const LWM: Field = Field::new(0x1c, 31, 16);
/// WQEs posted and not consumed; output only.
pub const WQE_CNT: Field = Field::new(0x1c, 15, 0);
/// Address of the doorbell record, upper dword.
pub const DB_RECORD_ADDR_H: Field = Field::new(0x28, 31, 0);
/// Address of the doorbell record, bits 31:2.
pub const DB_RECORD_ADDR_L: Field = Field::new(0x2c, 31, 2);

/// Address of the doorbell record, both parts; 4-byte aligned.
pub const DBR_ADDR: crate::field::Field64 = crate::field::Field64::new(0x28);

/// Values of [`STATE`].
pub mod state {
    /// In order.
    pub const GOOD: u32 = 0x0;
    /// In error.
    pub const ERROR: u32 = 0x1;
}
