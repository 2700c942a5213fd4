//! Event queues.

use std::collections::BTreeMap;

use crate::ring::PageList;

/// An event queue.
#[derive(Clone, Debug)]
pub struct Eq {
    /// Number.
    pub eqn: u8,
    /// Log of the entries.
    pub log_size: u32,
    /// Entry memory.
    pub memory: PageList,
    /// MSI-X vector.
    pub vector: u16,
    /// Which event types come here: bit 63 - n of word n / 64 counted from the mask's end.
    pub mask: [u64; 4],
    /// Entries ever written.
    pub producer: u32,
    /// Entries that the driver has said it took.
    pub consumer: u32,
    /// The next entry raises the vector.
    pub armed: bool,
    /// The context as the driver gave it, for the query.
    pub raw: [u8; 64],
}

/// All event queues by number.
pub type Eqs = BTreeMap<u8, Eq>;

/// Something that happened on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// 0x02: a QP established communication (a packet arrived in RTR).
    CommunicationEstablished(u32),
    /// 0x03: the send queue is drained.
    SendQueueDrained(u32),
    /// 0x01: migrated to the alternate path.
    PathMigrated(u32),
    /// 0x05: a QP went to the error state on a local catastrophic error.
    QpFatal(u32),
    /// 0x10: invalid request arrived at a responder.
    QpRequestError(u32),
    /// 0x11: a responder found a key or access violation.
    QpAccessError(u32),
    /// 0x12: an SRQ failed.
    SrqFatal(u32),
    /// 0x13: a QP with an SRQ in error has taken its last WQE.
    LastWqeReached(u32),
    /// 0x14: fewer WQEs than the limit are left.
    SrqLimit(u32),
    /// 0x04: a CQ failed: overrun (1) or its memory is not reachable (2).
    CqError(u32, u8),
    /// 0x09: the port's state; see `MLX5_PORT_CHANGE_SUBTYPE_*`.
    PortChange {
        /// From 1.
        port: u8,
        /// What changed.
        subtype: u8,
    },
    /// 0x0b: firmware needs (positive) or returns (negative) pages.
    PageRequest(i32),
    /// 0x0a: commands are done, a bit a slot.
    CommandsDone(u32),
    /// 0x08: the device failed.
    InternalError,
    /// 0x00: a CQ has completions and was armed.
    Completion(u32),
}
