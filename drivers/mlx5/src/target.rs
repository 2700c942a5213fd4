//! What a completion needs to know of the QP that it names.

use crate::cqe::Entry;
use bareverbs::{
    QpState, QpType, WcStatus,
    srq::SrqSlots,
    sync::{AtomicU8, AtomicU16, AtomicU32, Ordering},
    wq::{RecvQueue, SendQueue},
};
use core::ptr::NonNull;

/// No QPN: what a QP has before the device has given it one. No device gives the 24 bits of it (IBA 9.2.1: multicast).
pub(crate) const NO_QPN: u32 = u32::MAX;

/// What a good receive takes to be told of. A compiler thinks a tag of 0 the rare one, and lets the poll jump there and
/// back.
pub(crate) enum Receives {
    /// Its entry, and the SRQ whose slot it gives back.
    Srq(NonNull<SrqSlots>),
    /// Its entry, and the queue of its own that it comes from.
    Own,
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
    failed: AtomicU8,
    /// Sends that were posted when the QP last came back from SQE: the device has done with them.
    resumed: AtomicU32,
    /// A failed request of its takes the QP to ERR, not only its send queue.
    pub(crate) reliable: bool,
    /// It is an XRC SRQ's: completions name it beside whatever QP received.
    pub(crate) shared: bool,
    /// The whole user index of an XRC SRQ, all that tells its completions from those of one before at the same place.
    user_index: AtomicU32,
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
            resumed: AtomicU32::new(0),
            reliable: !matches!(kind, QpType::Uc | QpType::Ud | QpType::RawPacket),
            datagram: kind == QpType::Ud,
            shared: false,
            user_index: AtomicU32::new(u32::MAX),
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

    /// Sets the user index of an XRC SRQ.
    pub(crate) fn set_user_index(&self, user_index: u32) {
        self.user_index.store(user_index, Ordering::Relaxed);
    }

    /// Whether an entry that has its user index is its own: the QPN says so, but for receives of raw packet QPs, where a
    /// flow tag or the number of the receive queue stands in its place, and for those of an XRC SRQ, which any QP may bring.
    pub(crate) fn is_of(&self, entry: Entry) -> bool {
        if self.shared {
            return self.user_index.load(Ordering::Relaxed) == entry.user_index();
        }
        self.qpn() == entry.qpn() || self.frames && entry.is_receive() && self.qpn() != NO_QPN
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

    /// Poller: the request of the send queue that was retired last, or one of the receive queue, failed like this.
    pub(crate) fn fail(&self, receive: bool, status: WcStatus) {
        let state = if receive || self.reliable {
            QpState::Err
        } else if status == WcStatus::WorkRequestFlushed
            || self.send.retired_within(self.resumed.load(Ordering::Relaxed))
        {
            // The state was told by the send that failed first, and may be another one by now.
            return;
        } else {
            QpState::Sqe
        };
        // A QP in ERR stays there, whichever of its CQs is polled first.
        self.failed.fetch_max(state as u8, Ordering::Relaxed);
    }

    /// The state of a QP that was brought to this one, by what failed completions told since.
    pub(crate) fn state(&self, brought_to: QpState) -> QpState {
        match self.failed.load(Ordering::Relaxed) {
            0 => brought_to,
            state if state == QpState::Sqe as u8 && brought_to != QpState::Err => QpState::Sqe,
            _ => QpState::Err,
        }
    }

    /// The QP was reset, and so were its queues.
    pub(crate) fn reset(&self) {
        self.resumed.store(0, Ordering::Relaxed);
        self.failed.store(0, Ordering::Relaxed);
    }

    /// The QP came back from SQE. `wait` returns when every poll of sends that is going on has ended: later ones see where
    /// it came back, and what fails from then on is news.
    pub(crate) fn resume(&self, wait: impl FnOnce()) {
        self.resumed.store(self.send.posted(), Ordering::Relaxed);
        wait();
        let sqe = QpState::Sqe as u8;
        // Not a failure of the whole QP, which may have come meanwhile.
        let _ = self.failed.compare_exchange(sqe, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bareverbs::wq::{SendPoster, SendSlot};

    const FAILED: WcStatus = WcStatus::LocalProtection;
    const FLUSHED: WcStatus = WcStatus::WorkRequestFlushed;

    /// A UC QP's, and what posts to it.
    fn target(slots: &mut [SendSlot; 4], wr_ids: &mut [bareverbs::sync::AtomicU64; 4]) -> (Target, SendPoster) {
        // SAFETY: the tables outlive both, which nobody else touches.
        let (send, poster) = unsafe { SendQueue::new(NonNull::from(slots).cast(), 2) };
        // SAFETY: as above.
        let (recv, _) = unsafe { RecvQueue::new(NonNull::from(wr_ids).cast(), 2) };
        (Target::new(QpType::Uc, send, recv, None), poster)
    }

    fn send(target: &Target, poster: &mut SendPoster) -> u32 {
        let block = poster.block();
        poster.push(0, 1);
        poster.publish(&target.send);
        block
    }

    /// A send completes with an error.
    fn fails(target: &Target, block: u32, status: WcStatus) -> QpState {
        target.send.complete(block).expect("outstanding");
        target.fail(false, status);
        target.state(QpState::Rts)
    }

    #[test]
    fn sends_that_fail_tell_of_the_time_since_the_queue_came_back() {
        let (mut slots, mut wr_ids) = Default::default();
        let (target, mut poster) = target(&mut slots, &mut wr_ids);
        // Many laps, so that the counters wrap around.
        target.send.begin_at(&mut poster, u32::MAX - 9);
        target.resume(|| ());
        for _ in 0..9 {
            let old = [send(&target, &mut poster), send(&target, &mut poster)];
            // The QP may be in ERR as well as in SQE.
            assert_eq!(fails(&target, old[0], FLUSHED), QpState::Rts);
            target.resume(|| ());
            let new = [send(&target, &mut poster), send(&target, &mut poster)];
            assert_eq!(fails(&target, old[1], FAILED), QpState::Rts);
            assert_eq!(fails(&target, new[0], FAILED), QpState::Sqe);
            assert_eq!(fails(&target, new[1], FLUSHED), QpState::Sqe);
            target.resume(|| assert_eq!(target.state(QpState::Rts), QpState::Sqe));
            assert_eq!(target.state(QpState::Rts), QpState::Rts);
        }
    }

    #[test]
    fn only_a_reset_ends_err() {
        let (mut slots, mut wr_ids) = Default::default();
        let (target, mut poster) = target(&mut slots, &mut wr_ids);
        let block = send(&target, &mut poster);
        assert_eq!(fails(&target, block, FAILED), QpState::Sqe);
        assert_eq!(target.state(QpState::Err), QpState::Err);
        // A receive fails while the command waits that leads back from SQE.
        target.resume(|| target.fail(true, FLUSHED));
        assert_eq!(target.state(QpState::Rts), QpState::Err);
        let block = send(&target, &mut poster);
        assert_eq!(fails(&target, block, FAILED), QpState::Err);
        target.reset();
        assert_eq!(target.state(QpState::Reset), QpState::Reset);
    }
}
