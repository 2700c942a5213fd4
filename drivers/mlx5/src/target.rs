//! What a completion needs to know of the QP that it names.

use bareverbs::{
    srq::SrqSlots,
    wq::{RecvQueue, SendQueue},
};
use core::{
    ptr::NonNull,
    sync::atomic::{AtomicU16, AtomicU32},
};

/// No QPN: what a QP has before the device has given it one.
pub(crate) const NO_QPN: u32 = u32::MAX;

/// The completions' side of a QP. Stands in the table of user indices; pollers reach it there.
///
/// Counters have one writer each (see [`bareverbs::wq`]), so the side that posts needs no lock against them.
pub(crate) struct Target {
    /// The QP's number, compared with the one a CQE names; [`NO_QPN`] if it has none yet.
    pub(crate) qpn: AtomicU32,
    /// Index of the P_Key that its packets carry.
    pub(crate) pkey_index: AtomicU16,
    /// Slots of the SRQ that it receives from; `None` with a receive queue of its own.
    pub(crate) srq: Option<NonNull<SrqSlots>>,
    /// Outstanding sends.
    pub(crate) send: SendQueue,
    /// Outstanding receives; of no entries with an SRQ.
    pub(crate) recv: RecvQueue,
}
