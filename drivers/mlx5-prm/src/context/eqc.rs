//! Event queue context. PRM: "Event Queue Context".
use crate::field::Field;

/// Size in bytes.
pub const SIZE: usize = 0x40;
/// [`status`] of the queue.
pub const STATUS: Field = Field::new(0x00, 31, 28);
/// Collapse all events into the queue's first entry.
pub const EC: Field = Field::new(0x00, 18, 18);
/// Ignore overruns: the device does not compare with the consumer counter.
pub const OI: Field = Field::new(0x00, 17, 17);
/// [`state`] of the queue.
pub const ST: Field = Field::new(0x00, 11, 8);
/// Offset of entry 0 in the first page, in units of 64 bytes; 0 for EQs.
pub const PAGE_OFFSET: Field = Field::new(0x08, 11, 6);
/// Log of the number of entries.
pub const LOG_EQ_SIZE: Field = Field::new(0x0c, 28, 24);
/// UAR page whose doorbells work this EQ.
pub const UAR_PAGE: Field = Field::new(0x0c, 23, 0);
/// Interrupt vector (MSI-X entry).
pub const INTR: Field = Field::new(0x14, 11, 0);
/// Log of the page size of the address list, less 12.
pub const LOG_PAGE_SIZE: Field = Field::new(0x18, 28, 24);
/// Consumer counter.
pub const CONSUMER_COUNTER: Field = Field::new(0x28, 23, 0);
/// Producer counter.
pub const PRODUCER_COUNTER: Field = Field::new(0x2c, 23, 0);

/// Values of [`STATUS`].
pub mod status {
    /// In order.
    pub const OK: u32 = 0x0;
    /// A write to the queue failed.
    pub const WRITE_FAILURE: u32 = 0xa;
}

/// Values of [`ST`].
pub mod state {
    /// Armed: the next event raises the interrupt.
    pub const ARMED: u32 = 0x9;
    /// The interrupt was raised and the queue not armed since.
    pub const FIRED: u32 = 0xa;
}
