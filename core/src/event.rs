//! Events that are not completions of requests (manual page ibv_get_async_event).

use crate::{Cqn, Error, PortNum, Qpn, Srqn};
use core::fmt;

/// A completion event: the CQ that got it, and the user's word for that CQ (ibv_get_cq_event).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqEvent {
    /// The CQ's number.
    pub cqn: Cqn,
    /// What it was made with: [`crate::CqInit::context`].
    pub context: u64,
}

/// Something that happened, and to which object. Yielded by [`crate::Device::service`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A completion arrived on a CQ that was armed and has no channel. It must be acknowledged:
    /// [`crate::CompletionQueue::ack_events`].
    Completion(CqEvent),
    /// The CQ was overrun or failed. The service call that saw it has taken all attached QPs to the error state, and
    /// every verb on the CQ and every post to such a QP names it from now on. Completions that found no room are lost:
    /// a receive of an SRQ among them never comes back.
    CqError(Cqn),
    /// The first packet reached a QP in RTR.
    CommunicationEstablished(Qpn),
    /// The send queue is drained (SQD).
    SendQueueDrained(Qpn),
    /// The QP failed for a reason that no completion tells.
    QpFatal(Qpn),
    /// A request could not be taken; the QP went to the error state.
    QpRequestError(Qpn),
    /// A remote peer broke the access rules of the QP.
    QpAccessError(Qpn),
    /// The QP in the error state takes nothing more from its SRQ.
    LastWqeReached(Qpn),
    /// Fewer requests are left on the SRQ than its limit; the limit is 0 now.
    SrqLimit(Srqn),
    /// The SRQ failed.
    SrqError(Srqn),
    /// The port became active.
    PortActive(PortNum),
    /// The port went down.
    PortDown(PortNum),
    /// The port's LID changed.
    LidChange(PortNum),
    /// The port's P_Key table changed.
    PkeyChange(PortNum),
    /// The port's GID table changed.
    GidChange(PortNum),
    /// The subnet manager asks clients to register again.
    ClientReregister(PortNum),
    /// The device failed; [`Error::Fatal`] says how. Everything fails from now on.
    DeviceFatal(Error),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An object's kind and number, and what happened to it.
        let (object, number, what) = match *self {
            Self::Completion(event) => ("CQ", event.cqn.get(), "has a completion"),
            Self::CqError(cqn) => ("CQ", cqn.get(), "is in error"),
            Self::CommunicationEstablished(qpn) => ("QP", qpn.get(), "got its first packet"),
            Self::SendQueueDrained(qpn) => ("QP", qpn.get(), "has drained its send queue"),
            Self::QpFatal(qpn) => ("QP", qpn.get(), "failed"),
            Self::QpRequestError(qpn) => ("QP", qpn.get(), "could not take a request"),
            Self::QpAccessError(qpn) => ("QP", qpn.get(), "was accessed against its rules"),
            Self::LastWqeReached(qpn) => ("QP", qpn.get(), "takes nothing more from its SRQ"),
            Self::SrqLimit(srqn) => ("SRQ", srqn.get(), "fell below its limit"),
            Self::SrqError(srqn) => ("SRQ", srqn.get(), "is in error"),
            Self::PortActive(PortNum(n)) => ("port", n.into(), "is active"),
            Self::PortDown(PortNum(n)) => ("port", n.into(), "is down"),
            Self::LidChange(PortNum(n)) => ("port", n.into(), "has another LID"),
            Self::PkeyChange(PortNum(n)) => ("port", n.into(), "has other P_Keys"),
            Self::GidChange(PortNum(n)) => ("port", n.into(), "has other GIDs"),
            Self::ClientReregister(PortNum(n)) => ("port", n.into(), "needs its clients to register again"),
            Self::DeviceFatal(e) => return e.fmt(f),
        };
        write!(f, "{object} {number:#x} {what}")
    }
}
