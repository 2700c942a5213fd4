//! Queue pairs.

use super::{Handle, push_all};
use crate::{
    Bind, Error, FastInit, FastRegion, FlowSpec, Gid, Lid, MemoryWindow, PostError, PostListError, QpAttr, QpCap,
    QpState, QpType, Qpn, RecvWr, Rkey, SendFlags, SendWr,
};
use core::borrow::Borrow;

/// A queue pair.
pub trait QueuePair: Handle {
    /// Memory window of the device.
    type Window: MemoryWindow;
    /// Region for fast registration of the device.
    type FastRegion: FastRegion;

    /// Its number.
    fn qpn(&self) -> Qpn;

    /// Its type.
    fn kind(&self) -> QpType;

    /// Its state, as far as this side knows: a device error shows with the completion or event that tells of it.
    fn state(&self) -> QpState;

    /// Actual sizes.
    fn cap(&self) -> QpCap;

    /// The user's own word.
    fn context(&self) -> u64;

    /// Changes state and attributes (ibv_modify_qp). The mask is checked against [`crate::qp::TRANSITIONS`] before
    /// anything is sent to the device. To RESET a QP of an SRQ may be refused with [`Error::CqFull`].
    fn modify(&mut self, attr: &QpAttr) -> Result<(), Error>;

    /// What the device holds (ibv_query_qp).
    fn query(&mut self) -> Result<QpAttr, Error>;

    /// Lets a UD QP receive what is sent to a multicast group (ibv_attach_mcast). The LID counts on InfiniBand only,
    /// where the subnet administrator gives it to those that join. Attaching twice is attaching once.
    /// [`Error::NotMulticast`], [`Error::MulticastFull`], [`Error::Unsupported`] for other types of QP.
    fn attach_multicast(&mut self, _gid: Gid, _lid: Lid) -> Result<(), Error> {
        Err(Error::Unsupported("multicast"))
    }

    /// Leaves a multicast group (ibv_detach_mcast). [`Error::NotAttached`]. A QP that is attached is not destroyed:
    /// [`Error::Busy`]; dropping it detaches it.
    fn detach_multicast(&mut self, _gid: Gid, _lid: Lid) -> Result<(), Error> {
        Err(Error::Unsupported("multicast"))
    }

    /// Lets a raw packet QP receive the frames of a rule (ibv_create_flow). The same rule twice is the rule once.
    /// [`Error::Unsupported`] for other types of QP, [`Error::FlowsFull`].
    fn attach_flow(&mut self, _flow: &FlowSpec) -> Result<(), Error> {
        Err(Error::Unsupported("flow rules"))
    }

    /// Takes a rule away (ibv_destroy_flow). [`Error::NotAttached`]. A QP that has rules is not destroyed:
    /// [`Error::Busy`]; dropping it takes them away.
    fn detach_flow(&mut self, _flow: &FlowSpec) -> Result<(), Error> {
        Err(Error::Unsupported("flow rules"))
    }

    /// Writes one send request to the ring; [`ring_send`](Self::ring_send) tells the device.
    fn push_send(&mut self, wr: &SendWr<'_>) -> Result<(), PostError>;

    /// Tells the device of all send requests pushed since.
    fn ring_send(&mut self);

    /// Writes a request to the send ring that binds a window, or with [`Bind::NOTHING`] closes it (ibv_bind_mw,
    /// IBV_WR_BIND_MW); tells the key that peers use once it is done. Requests behind it wait for it. It completes as
    /// [`WcOpcode::BindWindow`], with [`WcStatus::MemoryWindowBind`] if the window is bound and of type 2, or if window and
    /// QP are not of one protection domain. A region of another domain opens nothing: some devices say so at the bind,
    /// others when a peer comes. It takes the places of several requests.
    ///
    /// [`WcOpcode::BindWindow`]: crate::WcOpcode::BindWindow
    /// [`WcStatus::MemoryWindowBind`]: crate::WcStatus::MemoryWindowBind
    fn push_bind(
        &mut self,
        _window: &mut Self::Window,
        _bind: &Bind,
        _wr_id: u64,
        _flags: SendFlags,
    ) -> Result<Rkey, PostError> {
        Err(PostError::UnsupportedOp)
    }

    /// Writes a request to the send ring that registers elements in a region for fast registration (IB_WR_REG_MR); tells
    /// the key that peers use once it is done. Requests behind it wait for it. It completes as
    /// [`WcOpcode::RegisterRegion`], with [`WcStatus::MemoryWindowBind`] if the region is valid already. It takes the
    /// places of several requests.
    ///
    /// [`WcOpcode::RegisterRegion`]: crate::WcOpcode::RegisterRegion
    /// [`WcStatus::MemoryWindowBind`]: crate::WcStatus::MemoryWindowBind
    fn push_register(
        &mut self,
        _region: &mut Self::FastRegion,
        _init: &FastInit<'_>,
        _wr_id: u64,
        _flags: SendFlags,
    ) -> Result<Rkey, PostError> {
        Err(PostError::UnsupportedOp)
    }

    /// Writes one receive request to the ring; [`ring_recv`](Self::ring_recv) tells the device.
    fn push_recv(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError>;

    /// Tells the device of all receive requests pushed since.
    fn ring_recv(&mut self);

    /// Posts a list of send requests with one doorbell (ibv_post_send). On an error all before it are posted. The list
    /// may be of requests or of references to them.
    #[inline]
    fn post_send<'a>(&mut self, list: impl IntoIterator<Item: Borrow<SendWr<'a>>>) -> Result<(), PostListError> {
        let result = push_all(list, |wr| self.push_send(wr.borrow()));
        self.ring_send();
        result
    }

    /// Posts a list of receive requests with one doorbell record (ibv_post_recv). On an error all before it are posted.
    #[inline]
    fn post_recv<'a>(&mut self, list: impl IntoIterator<Item: Borrow<RecvWr<'a>>>) -> Result<(), PostListError> {
        let result = push_all(list, |wr| self.push_recv(wr.borrow()));
        self.ring_recv();
        result
    }
}
