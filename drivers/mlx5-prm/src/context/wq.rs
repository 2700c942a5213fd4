//! Work queue of an RMP, RQ or SQ. PRM: "Work Queue Context" (wq).
use crate::field::{Field, Field64};

/// Size in bytes, without the page addresses behind it.
pub const SIZE: usize = 0xc0;
/// [`wq_type`].
pub const WQ_TYPE: Field = Field::new(0x00, 31, 28);
/// WQEs carry signatures.
pub const WQ_SIGNATURE: Field = Field::new(0x00, 27, 27);
/// 0: scatter data ends unpadded; 1: padded to a cache line.
pub const END_PADDING_MODE: Field = Field::new(0x00, 26, 25);
/// Cross-channel: WQEs wait to be enabled.
pub const CD_SLAVE: Field = Field::new(0x00, 24, 24);
/// Offset of WQE 0 in the first page, in units of page size / 64.
pub const PAGE_OFFSET: Field = Field::new(0x04, 20, 16);
/// Limit ("low water mark"): an event comes when fewer WQEs are left; 0 is unarmed.
pub const LWM: Field = Field::new(0x04, 15, 0);
/// Protection domain.
pub const PD: Field = Field::new(0x08, 23, 0);
/// UAR page whose doorbells work this queue.
pub const UAR_PAGE: Field = Field::new(0x0c, 23, 0);
/// Address of the doorbell record, 8-byte aligned.
pub const DBR_ADDR: Field64 = Field64::new(0x10);
/// WQEs the device has consumed; output only.
pub const HW_COUNTER: Field = Field::new(0x18, 31, 0);
/// WQEs posted, as the device last read; output only.
pub const SW_COUNTER: Field = Field::new(0x1c, 31, 0);
/// Log of the bytes of a WQE.
pub const LOG_WQ_STRIDE: Field = Field::new(0x20, 19, 16);
/// Log of the page size of the address list, less 12.
pub const LOG_WQ_PG_SZ: Field = Field::new(0x20, 12, 8);
/// Log of the number of WQEs.
pub const LOG_WQ_SZ: Field = Field::new(0x20, 4, 0);
/// The doorbell record lies in a registered user memory.
pub const DBR_UMEM_VALID: Field = Field::new(0x24, 31, 31);
/// The queue lies in a registered user memory.
pub const WQ_UMEM_VALID: Field = Field::new(0x24, 30, 30);
/// Hairpin: log of the packets held.
pub const LOG_HAIRPIN_NUM_PACKETS: Field = Field::new(0x24, 28, 24);
/// Hairpin: log of the bytes held.
pub const LOG_HAIRPIN_DATA_SZ: Field = Field::new(0x24, 20, 16);
/// Striding: log of the strides of a WQE, less 9.
pub const LOG_WQE_NUM_OF_STRIDES: Field = Field::new(0x24, 11, 8);
/// Data begin 2 bytes into the buffer.
pub const TWO_BYTE_SHIFT_EN: Field = Field::new(0x24, 7, 7);
/// Striding: log of the bytes of a stride, less 6.
pub const LOG_WQE_STRIDE_SIZE: Field = Field::new(0x24, 2, 0);
/// Page addresses of the queue, 8 bytes each.
pub const PAS: usize = 0xc0;

/// Values of [`WQ_TYPE`].
pub mod wq_type {
    /// WQEs with a next segment, linked.
    pub const LINKED_LIST: u32 = 0x0;
    /// WQEs in order.
    pub const CYCLIC: u32 = 0x1;
    /// Linked WQEs of strides.
    pub const LINKED_LIST_STRIDING: u32 = 0x2;
    /// WQEs of strides in order.
    pub const CYCLIC_STRIDING: u32 = 0x3;
}
