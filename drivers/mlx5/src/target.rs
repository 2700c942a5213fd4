//! What a completion needs to know of the QP that it names.

use crate::cqe::Entry;
use bareverbs::{
    QpState, QpType,
    srq::SrqSlots,
    sync::{AtomicU8, AtomicU16, AtomicU32, Ordering},
    wq::{RecvQueue, SendQueue},
};
use core::ptr::NonNull;

/// No QPN: what a QP has before the device has given it one. No device gives the 24 bits of it (IBA 9.2.1: multicast).
pub(crate) const NO_QPN: u32 = u32::MAX;

/// What a good receive takes to be told of.
pub(crate) enum Receives {
    /// Nothing but its entry, and the queue of its own that it comes from.
    Own,
    /// The same, with the SRQ whose slot it gives back.
    Srq(NonNull<SrqSlots>),
    /// More: it is a datagram, a frame, or of an XRC SRQ.
    Odd,
}

/// The completions' side of a QP. Stands in the table of user indices; pollers reach it there.
///
/// Counters have one writer each (see [`bareverbs::wq`]), so the side that posts needs no lock against them.
pub(crate) struct Target {
    /// The QP's number, as [`Entry::raw_sop_qpn`](crate::cqe::Entry::raw_sop_qpn) has it; [`NO_QPN`] if it has none.
    raw_qpn: AtomicU32,
    /// What its receives take to be told of.
    pub(crate) receives: Receives,
    /// Its receives begin with room for a GRH.
    pub(crate) datagram: bool,
    /// Its receives are frames, whose entries hold a flow tag instead of a QPN.
    pub(crate) frames: bool,
    /// Index of the P_Key that its packets carry.
    pub(crate) pkey_index: AtomicU16,
    /// The state that a failed completion told of, as its number; 0 for none.
    pub(crate) failed: AtomicU8,
    /// A failed request of its takes the QP to ERR, not only its send queue.
    pub(crate) reliable: bool,
    /// It is an XRC SRQ's: completions name it beside whatever QP received.
    pub(crate) shared: bool,
    /// Slots of the SRQ that it receives from; `None` with a receive queue of its own.
    pub(crate) srq: Option<NonNull<SrqSlots>>,
    /// Outstanding sends.
    pub(crate) send: SendQueue,
    /// Outstanding receives; of no entries with an SRQ.
    pub(crate) recv: RecvQueue,
}

impl Target {
    /// The completions' side of a QP without a number, with its queues and the SRQ that it receives from.
    pub(crate) fn new(kind: QpType, send: SendQueue, recv: RecvQueue, srq: Option<NonNull<SrqSlots>>) -> Self {
        let receives = match (kind, srq) {
            (QpType::Ud | QpType::RawPacket, _) => Receives::Odd,
            (_, None) => Receives::Own,
            (_, Some(slots)) => Receives::Srq(slots),
        };
        Self {
            receives,
            raw_qpn: AtomicU32::new(NO_QPN),
            pkey_index: AtomicU16::new(0),
            failed: AtomicU8::new(0),
            reliable: !matches!(kind, QpType::Uc | QpType::Ud),
            datagram: kind == QpType::Ud,
            shared: false,
            frames: kind == QpType::RawPacket,
            srq,
            send,
            recv,
        }
    }

    /// Makes it the one of an XRC SRQ with these slots.
    pub(crate) fn share(&mut self, slots: NonNull<SrqSlots>) {
        (self.receives, self.shared, self.srq) = (Receives::Odd, true, Some(slots));
    }

    /// Whether an entry that has its user index is its own: the QPN says so, but for receives of raw packet QPs, where a
    /// flow tag or the number of the receive queue stands in its place.
    pub(crate) fn is_of(&self, entry: Entry) -> bool {
        self.shared || self.qpn() == entry.qpn() || self.frames && entry.is_receive() && self.qpn() != NO_QPN
    }

    /// The QP's number; [`NO_QPN`] if it has none.
    #[inline(always)]
    pub(crate) fn qpn(&self) -> u32 {
        self.raw_qpn().swap_bytes()
    }

    /// The number as an entry holds it: all bits that differ but the lowest eight say that it is another's.
    #[inline(always)]
    pub(crate) fn raw_qpn(&self) -> u32 {
        self.raw_qpn.load(Ordering::Relaxed)
    }

    /// Sets the QP's number, or [`NO_QPN`].
    pub(crate) fn set_qpn(&self, qpn: u32) {
        self.raw_qpn.store(qpn.swap_bytes(), Ordering::Relaxed);
    }

    /// Poller: a request of the send queue (or of the receive queue) failed.
    pub(crate) fn fail(&self, receive: bool) {
        let state = if receive || self.reliable { QpState::Err } else { QpState::Sqe };
        // A QP in ERR stays there.
        let state = self.failed.load(Ordering::Relaxed).max(state as u8);
        self.failed.store(state, Ordering::Relaxed);
    }

    /// The state that a failed completion told of.
    pub(crate) fn failure(&self) -> Option<QpState> {
        match self.failed.load(Ordering::Relaxed) {
            0 => None,
            state if state == QpState::Sqe as u8 => Some(QpState::Sqe),
            _ => Some(QpState::Err),
        }
    }

    /// The QP was taken to another state.
    pub(crate) fn clear_failure(&self) {
        self.failed.store(0, Ordering::Relaxed);
    }
}
