//! Shared receive queues: RMPs (what Linux makes of an ordinary SRQ) and XRC SRQs. Their WQEs form a linked list.

use std::collections::BTreeMap;

use crate::ring::PageList;

/// Which of the two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SrqKind {
    /// Receive memory pool: an ordinary SRQ, also of UD and RC QPs.
    Rmp,
    /// XRC SRQ: has a domain and a CQ of its own.
    Xrc {
        /// XRC domain.
        xrcd: u32,
        /// Where its completions go.
        cqn: u32,
        /// For the CQE.
        user_index: u32,
    },
}

/// One receive WQE taken off a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecvWqe {
    /// What the CQE's `wqe_counter` says: the index in an SRQ, the counter in a receive queue.
    pub counter: u16,
    /// The data segments as they lie in memory (16 bytes each), the `next` segment of an SRQ left out.
    pub segments: Vec<[u8; 16]>,
}

/// A shared receive queue.
#[derive(Clone, Debug)]
pub struct Srq {
    /// Number.
    pub srqn: u32,
    /// Which kind.
    pub kind: SrqKind,
    /// Protection domain of its WQEs' keys.
    pub pd: u32,
    /// WQEs.
    pub log_size: u32,
    /// Log of the bytes of a WQE.
    pub log_stride: u32,
    /// WQE memory.
    pub memory: PageList,
    /// Doorbell record: how many were ever posted, 16 bits.
    pub dbr: u64,
    /// Index of the next WQE to take.
    pub head: u16,
    /// How many were ever taken.
    pub taken: u16,
    /// Event when fewer than this are left; 0 is not armed.
    pub limit: u16,
    /// In error: nothing can be taken.
    pub error: bool,
    /// QPs that use it.
    pub users: u32,
    /// The context as the driver gave it, for the query.
    pub raw: Vec<u8>,
}

/// All shared receive queues by number; RMPs and XRC SRQs share the numbers.
pub type Srqs = BTreeMap<u32, Srq>;
