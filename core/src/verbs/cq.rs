//! Completion queues and their channels.

use super::Handle;
use crate::{Completion, CqEvent, Cqn, Error, PollError, Qpn, WcFlags, WcOpcode, WcStatus};
use core::time::Duration;

/// A channel for completion events (ibv_create_comp_channel). CQs hold their channel: [`Destroy::destroy`] refuses with
/// [`Error::Busy`] while there are any, and a channel that was dropped goes with its last CQ.
///
/// [`Destroy::destroy`]: crate::Destroy::destroy
pub trait CompletionChannel: Handle {
    /// The next completion event of the channel's CQs, or `None` when there is none (ibv_get_cq_event, without waiting).
    /// Drives the device as [`Device::service`] does. What it yields must be acknowledged:
    /// [`CompletionQueue::ack_events`].
    ///
    /// The device's fatal error, once all events of before were got.
    ///
    /// [`Device::service`]: crate::Device::service
    fn event(&self) -> Result<Option<CqEvent>, Error>;
}

/// Which completions an armed CQ tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// The next one.
    Any,
    /// The next solicited or failed one.
    Solicited,
}

/// A completion queue. Beside [`Error::Busy`], destroying it is refused with [`Error::Unacknowledged`].
pub trait CompletionQueue: Handle {
    /// The lazy form of polling.
    type View<'a>: CompletionView
    where
        Self: 'a;

    /// Its number, by which events name it.
    fn cqn(&self) -> Cqn;

    /// Entries that it really holds.
    fn capacity(&self) -> u32;

    /// The user's own word.
    fn context(&self) -> u64;

    /// Takes up to `out.len()` completions, oldest first, and tells how many (ibv_poll_cq). Looks at no more entries
    /// than that. An error is told when it comes first; completions before it are delivered first.
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, PollError>;

    /// Takes completions one by one without decoding more than is asked for (ibv_start_poll); shares the index with
    /// [`poll`](Self::poll). Ends when dropped.
    fn view(&mut self) -> Self::View<'_>;

    /// Makes it hold at least `entries`, keeping all unpolled completions in order (ibv_resize_cq).
    /// [`Error::BelowUnpolled`].
    fn resize(&mut self, entries: u32) -> Result<(), Error>;

    /// Arms it once: the next completion is told by the CQ's channel or, without one, as [`Event::Completion`] by the
    /// service call (ibv_req_notify_cq). Whether completions that lie there unpolled count is up to the device. A request
    /// for any completion holds until its event has come, whatever is asked for meanwhile (IBA 11.4.2.2).
    ///
    /// [`Event::Completion`]: crate::Event::Completion
    fn request_notify(&mut self, which: Notify) -> Result<(), Error>;

    /// Acknowledges `n` of the completion events that were got of this CQ (ibv_ack_cq_events).
    /// [`Error::OutOfRange`] if fewer are left to acknowledge; none is then.
    fn ack_events(&mut self, n: u32) -> Result<(), Error>;

    /// Delays notifications until `count` completions or `period` since the first, whichever comes first
    /// (ibv_modify_cq).
    fn moderate(&mut self, count: u16, period: Duration) -> Result<(), Error>;
}

/// Completions one by one.
pub trait CompletionView {
    /// Goes to the next completion; `false` when there is none now. Before the first call nothing can be read.
    fn advance(&mut self) -> Result<bool, PollError>;

    /// The request's id.
    fn wr_id(&self) -> u64;

    /// How it ended.
    fn status(&self) -> WcStatus;

    /// What it was.
    fn opcode(&self) -> WcOpcode;

    /// Bytes received or read.
    fn byte_len(&self) -> u32;

    /// What else is valid.
    fn flags(&self) -> WcFlags;

    /// Immediate data or invalidated key, by the flags.
    fn imm(&self) -> u32;

    /// The local QP.
    fn qpn(&self) -> Qpn;

    /// UD: the sender's QP.
    fn src_qp(&self) -> Qpn;

    /// The vendor's syndrome of a failed request.
    fn vendor_err(&self) -> u32;

    /// The device's raw time stamp, 0 where it has none, as a failed request may.
    fn timestamp(&self) -> u64;

    /// All of it.
    fn completion(&self) -> Completion;
}
