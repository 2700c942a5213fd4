//! The verbs of a queue pair, posting before all: short lists by a short way.

use crate::{
    mw::{FastRegion, Window},
    policy::Policy,
    qp::{Qp, QpObject},
    rq::RecvRing,
    sq::{SendRing, umr},
};
use bareverbs::{
    AccessOf, Bind, Error, FastInit, FlowSpec, Gid, Lid, Object, PostError, PostListError, QpAttr, QpCap, QpState,
    QpType, Qpn, QueuePair, RecvWr, Rkey, SendFlags, SendWr,
};
use bareverbs_hal::PciFunction;
use core::borrow::Borrow;

impl<H: PciFunction, P: Policy> Qp<H, P> {
    #[inline(always)]
    fn send_parts(&mut self) -> (&QpObject<H, P>, &mut SendRing) {
        let object = &*self.0;
        // SAFETY: this is the QP's one handle, borrowed exclusively.
        (object, unsafe { object.send.get() })
    }

    #[inline(always)]
    fn recv_parts(&mut self) -> (&QpObject<H, P>, &mut RecvRing) {
        let object = &*self.0;
        // SAFETY: this is the QP's one handle, borrowed exclusively.
        (object, unsafe { object.recv.get() })
    }
}

impl<H: PciFunction, P: Policy> QpObject<H, P> {
    /// Posts a list of send requests of any length. Apart from the list of one, which stays a short piece of code so;
    /// cold as seen from there.
    #[cold]
    #[inline(never)]
    fn post_send_many<'a>(
        &self,
        ring: &mut SendRing,
        list: impl Iterator<Item: Borrow<SendWr<'a>>>,
    ) -> Result<(), PostListError> {
        self.check().map_err(|error| PostListError { index: 0, error })?;
        let result = ring.push_list(list, |ring, wr| self.push_send(ring, wr));
        ring.ring(&self.target.send, &self.device.hca().hal);
        result
    }

    /// Posts a send request that the shortest way did not take: once in each turn of the ring only because no room was
    /// known.
    #[cold]
    #[inline(never)]
    fn post_send_long(&self, ring: &mut SendRing, wr: &SendWr<'_>) -> Result<(), PostListError> {
        let (queue, hal) = (&self.target.send, &self.device.hca().hal);
        if self.check().is_ok() && ring.look(queue) && ring.post_short(queue, hal, wr) {
            return Ok(());
        }
        self.post_send_many(ring, core::iter::once(wr))
    }

    /// Posts a list of receive requests of any length. Apart from the list of one, which stays a short piece of code so;
    /// cold as seen from there.
    #[cold]
    #[inline(never)]
    fn post_recv_many<'a>(
        &self,
        ring: &mut RecvRing,
        list: impl Iterator<Item: Borrow<RecvWr<'a>>>,
    ) -> Result<(), PostListError> {
        self.check().map_err(|error| PostListError { index: 0, error })?;
        let result = ring.push_list(list, |ring, wr| self.push_recv(ring, wr));
        ring.ring(&self.target.recv, &self.device.hca().hal);
        result
    }

    /// Posts a receive request that the shortest way did not take: once in each turn of the ring only because no room was
    /// known.
    #[cold]
    #[inline(never)]
    fn post_recv_long(&self, ring: &mut RecvRing, wr: &RecvWr<'_>) -> Result<(), PostListError> {
        let (queue, hal) = (&self.target.recv, &self.device.hca().hal);
        if self.check().is_ok() && ring.look(queue) && ring.post_short(queue, hal, wr) {
            return Ok(());
        }
        self.post_recv_many(ring, core::iter::once(wr))
    }
}

impl<H: PciFunction, P: Policy> QueuePair for Qp<H, P> {
    type Window = Window<H, P>;
    type FastRegion = FastRegion<H, P>;

    fn qpn(&self) -> Qpn {
        Qpn::new(self.0.qpn())
    }

    fn kind(&self) -> QpType {
        self.0.kind
    }

    fn state(&self) -> QpState {
        self.0.state_now()
    }

    fn cap(&self) -> QpCap {
        self.0.cap
    }

    fn context(&self) -> u64 {
        self.0.context
    }

    fn modify(&mut self, attr: &QpAttr) -> Result<(), Error> {
        self.0.modify(attr)
    }

    fn query(&mut self) -> Result<QpAttr, Error> {
        self.0.query()
    }

    fn attach_multicast(&mut self, gid: Gid, lid: Lid) -> Result<(), Error> {
        self.0.attach_multicast(gid, lid)
    }

    fn detach_multicast(&mut self, gid: Gid, lid: Lid) -> Result<(), Error> {
        self.0.detach_multicast(gid, lid)
    }

    fn attach_flow(&mut self, flow: &FlowSpec) -> Result<(), Error> {
        self.0.attach_flow(flow)
    }

    fn detach_flow(&mut self, flow: &FlowSpec) -> Result<(), Error> {
        self.0.detach_flow(flow)
    }

    #[inline]
    fn push_send(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        let (object, ring) = self.send_parts();
        object.check()?;
        if ring.push_short(wr) {
            return Ok(());
        }
        object.push_send(ring, wr)
    }

    #[inline]
    fn ring_send(&mut self) {
        let (object, ring) = self.send_parts();
        ring.ring(&object.target.send, &object.device.hca().hal);
    }

    fn push_bind(
        &mut self,
        window: &mut Window<H, P>,
        bind: &Bind,
        wr_id: u64,
        flags: SendFlags,
    ) -> Result<Rkey, PostError> {
        let (object, ring) = self.send_parts();
        object.check()?;
        umr::check(&window.0, &object.device, Object::Window)?;
        bind.access().check(AccessOf::Window, object.device.hca().caps.atomics).map_err(PostError::of_access)?;
        object.push_or_open(ring, |ring| ring.push_bind(&object.target.send, window, bind, (wr_id, flags)))
    }

    fn push_register(
        &mut self,
        region: &mut FastRegion<H, P>,
        init: &FastInit<'_>,
        wr_id: u64,
        flags: SendFlags,
    ) -> Result<Rkey, PostError> {
        let (object, ring) = self.send_parts();
        object.check()?;
        umr::check(&region.0, &object.device, Object::FastRegion)?;
        init.access.check(AccessOf::FastRegion, object.device.hca().caps.atomics).map_err(PostError::of_access)?;
        object.push_or_open(ring, |ring| ring.push_register(&object.target.send, region, init, (wr_id, flags)))
    }

    #[inline]
    fn push_recv(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        let (object, ring) = self.recv_parts();
        object.check()?;
        if ring.push_short(wr) {
            return Ok(());
        }
        object.push_recv(ring, wr)
    }

    #[inline]
    fn ring_recv(&mut self) {
        let (object, ring) = self.recv_parts();
        ring.ring(&object.target.recv, &object.device.hca().hal);
    }

    #[inline]
    fn post_send<'a>(&mut self, list: impl IntoIterator<Item: Borrow<SendWr<'a>>>) -> Result<(), PostListError> {
        let mut list = list.into_iter();
        let (object, ring) = self.send_parts();
        if list.size_hint().1 != Some(1) {
            return object.post_send_many(ring, list);
        }
        let Some(wr) = list.next() else { return Ok(()) };
        if object.check().is_ok() && ring.post_short(&object.target.send, &object.device.hca().hal, wr.borrow()) {
            return Ok(());
        }
        object.post_send_long(ring, wr.borrow())
    }

    #[inline]
    fn post_recv<'a>(&mut self, list: impl IntoIterator<Item: Borrow<RecvWr<'a>>>) -> Result<(), PostListError> {
        let mut list = list.into_iter();
        let (object, ring) = self.recv_parts();
        if list.size_hint().1 != Some(1) {
            return object.post_recv_many(ring, list);
        }
        let Some(wr) = list.next() else { return Ok(()) };
        if object.check().is_ok() && ring.post_short(&object.target.recv, &object.device.hca().hal, wr.borrow()) {
            return Ok(());
        }
        object.post_recv_long(ring, wr.borrow())
    }
}
