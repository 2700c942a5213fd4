//! Completion queue context. PRM: "Completion Queue Context".
use crate::field::{Field, Field64};

/// Size in bytes.
pub const SIZE: usize = 0x40;
/// [`status`] of the queue.
pub const STATUS: Field = Field::new(0x00, 31, 28);
/// The doorbell record lies in a registered user memory.
pub const DBR_UMEM_VALID: Field = Field::new(0x00, 25, 25);
/// The registered user memory that holds the doorbell record; [`DBR_ADDR`] is an offset in it.
pub const DBR_UMEM_ID: Field = Field::new(0x04, 31, 0);
/// The events go to an APU element, not to an EQ.
pub const APU_CQ: Field = Field::new(0x00, 24, 24);
/// [`cqe_size`] of the entries.
pub const CQE_SZ: Field = Field::new(0x00, 23, 21);
/// Collapse all completions into the queue's first entry.
pub const CC: Field = Field::new(0x00, 20, 20);
/// A solicited completion ends moderation at once.
pub const SCQE_BREAK_MODERATION_EN: Field = Field::new(0x00, 18, 18);
/// Ignore overruns: the device does not read the consumer index.
pub const OI: Field = Field::new(0x00, 17, 17);
/// 0: the moderation period starts with an event; 1: with a completion.
pub const CQ_PERIOD_MODE: Field = Field::new(0x00, 16, 15);
/// Compress completions into mini CQEs.
pub const CQE_COMP_EN: Field = Field::new(0x00, 14, 14);
/// What a compressed responder completion carries.
pub const MINI_CQE_RES_FORMAT: Field = Field::new(0x00, 13, 12);
/// [`state`] of notification.
pub const ST: Field = Field::new(0x00, 11, 8);
/// Offset of entry 0 in the first page, in units of page size / 64.
pub const PAGE_OFFSET: Field = Field::new(0x08, 11, 6);
/// Log of the number of entries.
pub const LOG_CQ_SIZE: Field = Field::new(0x0c, 28, 24);
/// UAR page whose doorbell arms this CQ.
pub const UAR_PAGE: Field = Field::new(0x0c, 23, 0);
/// Moderation: the longest wait before an event, in microseconds.
pub const CQ_PERIOD: Field = Field::new(0x10, 27, 16);
/// Moderation: completions that raise an event at once; 0 means no moderation.
pub const CQ_MAX_COUNT: Field = Field::new(0x10, 15, 0);
/// EQ that gets the completion events (8 bits used).
pub const C_EQN: Field = Field::new(0x14, 31, 0);
/// Log of the page size of the address list, less 12.
pub const LOG_PAGE_SIZE: Field = Field::new(0x18, 28, 24);
/// Producer index at the last event.
pub const LAST_NOTIFIED_INDEX: Field = Field::new(0x20, 23, 0);
/// Producer index at the last solicited completion.
pub const LAST_SOLICIT_INDEX: Field = Field::new(0x24, 23, 0);
/// Consumer counter, as the device last read it.
pub const CONSUMER_COUNTER: Field = Field::new(0x28, 23, 0);
/// Producer counter.
pub const PRODUCER_COUNTER: Field = Field::new(0x2c, 23, 0);
/// Address of the doorbell record, 8-byte aligned.
pub const DBR_ADDR: Field64 = Field64::new(0x38);

/// Values of [`STATUS`].
pub mod status {
    /// In order.
    pub const OK: u32 = 0x0;
    /// The producer passed the consumer.
    pub const OVERFLOW: u32 = 0x9;
    /// A write to the queue failed.
    pub const WRITE_FAILURE: u32 = 0xa;
    /// The queue does not exist.
    pub const INVALID: u32 = 0xf;
}

/// Values of [`CQE_SZ`].
pub mod cqe_size {
    /// 64 bytes.
    pub const BYTES_64: u32 = 0;
    /// 128 bytes: 64 for scattered data or GRH, then the CQE.
    pub const BYTES_128: u32 = 1;
    /// 64 bytes in slots of 128.
    pub const BYTES_64_PADDED: u32 = 2;
}

/// Values of [`ST`].
pub mod state {
    /// Armed for solicited completions and errors.
    pub const SOLICITED_ARMED: u32 = 0x6;
    /// Armed for any completion.
    pub const ARMED: u32 = 0x9;
    /// The event was sent and the CQ not armed since.
    pub const FIRED: u32 = 0xa;
}
