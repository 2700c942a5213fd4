//! Completion queues.

use std::collections::BTreeMap;

use crate::ring::PageList;

/// A completion queue.
#[derive(Clone, Debug)]
pub struct Cq {
    /// Number.
    pub cqn: u32,
    /// Log of the entries.
    pub log_size: u32,
    /// Bytes of an entry: 64 or 128.
    pub cqe_size: u32,
    /// Entry memory.
    pub memory: PageList,
    /// Doorbell record: consumer index at +0, arm word at +4.
    pub dbr: u64,
    /// Entries ever written.
    pub producer: u32,
    /// Where its completion events go.
    pub eqn: u32,
    /// In error: nothing is written any more.
    pub error: bool,
    /// QPs and SRQs that use it.
    pub users: u32,
    /// The context as the driver gave it, for the query.
    pub raw: [u8; 64],
}

/// All completion queues by number.
pub type Cqs = BTreeMap<u32, Cq>;

/// The CQ could not take the entry: it overran, its memory is not reachable, or it already was in error. The QP that
/// wanted to complete goes to the error state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqError;
