//! Shared receive queues.

use crate::{
    device::{Node, Pd, in_range, refuse_if_held},
    qp::PostedRecv,
};
use bareverbs::{
    Argument, Destroy, Error, Event, PostError, RecvWr, Refused, SharedReceiveQueue, SrqAttr, SrqInit, Srqn,
};
use std::{cell::RefCell, collections::VecDeque, rc::Rc};

/// A shared receive queue.
pub struct Srq(pub(crate) Rc<SrqState>);

pub(crate) struct SrqState {
    pub(crate) node: Rc<Node>,
    number: u32,
    context: u64,
    /// The domain of its requests' buffers.
    pub(crate) pd: Rc<u32>,
    inner: RefCell<Inner>,
}

struct Inner {
    attr: SrqAttr,
    /// Requests that were not given back by a polled completion yet.
    used: u32,
    staged: VecDeque<PostedRecv>,
    ready: VecDeque<PostedRecv>,
}

impl SrqState {
    /// Takes the oldest request for a message.
    pub(crate) fn take(&self) -> Option<PostedRecv> {
        let taken = self.inner.borrow_mut().ready.pop_front();
        self.check_limit();
        taken
    }

    /// Tells once that fewer requests are left than the limit.
    fn check_limit(&self) {
        let mut inner = self.inner.borrow_mut();
        if (inner.ready.len() as u32) < inner.attr.limit {
            inner.attr.limit = 0;
            self.node.events.borrow_mut().push_back(Event::SrqLimit(Srqn::new(self.number)));
        }
    }

    /// Gives the slots of requests back.
    pub(crate) fn retire(&self, n: u32) {
        self.inner.borrow_mut().used -= n;
    }
}

impl Drop for SrqState {
    fn drop(&mut self) {
        let own = Srqn::new(self.number);
        self.node.events.borrow_mut().retain(|e| !matches!(e, Event::SrqLimit(srqn) if *srqn == own));
    }
}

impl Srq {
    pub(crate) fn new(node: Rc<Node>, pd: &Pd, init: &SrqInit) -> Self {
        let number = node.number();
        let attr = SrqAttr { limit: 0, ..init.attr };
        let inner = RefCell::new(Inner { attr, used: 0, staged: VecDeque::new(), ready: VecDeque::new() });
        Self(Rc::new(SrqState { node, number, context: init.context, pd: pd.id.clone(), inner }))
    }
}

impl Destroy for Srq {
    fn destroy(self) -> Result<(), Refused<Self>> {
        refuse_if_held(self, |srq| Rc::strong_count(&srq.0))
    }
}

impl SharedReceiveQueue for Srq {
    fn srqn(&self) -> Srqn {
        Srqn::new(self.0.number)
    }

    fn context(&self) -> u64 {
        self.0.context
    }

    fn query(&mut self) -> Result<SrqAttr, Error> {
        Ok(self.0.inner.borrow().attr)
    }

    fn set_limit(&mut self, limit: u32) -> Result<(), Error> {
        let mut inner = self.0.inner.borrow_mut();
        in_range(Argument::SrqLimit, limit, 0, inner.attr.max_wr)?;
        inner.attr.limit = limit;
        drop(inner);
        self.0.check_limit();
        Ok(())
    }

    fn resize(&mut self, _max_wr: u32) -> Result<(), Error> {
        Err(Error::Unsupported("resizing an SRQ"))
    }

    fn push(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        let mut inner = self.0.inner.borrow_mut();
        if wr.sges.len() as u32 > inner.attr.max_sge {
            return Err(PostError::TooManySge { max: inner.attr.max_sge });
        }
        if inner.used >= inner.attr.max_wr {
            return Err(PostError::QueueFull);
        }
        inner.used += 1;
        inner.staged.push_back(PostedRecv::new(wr));
        Ok(())
    }

    fn ring(&mut self) {
        let mut inner = self.0.inner.borrow_mut();
        let staged = core::mem::take(&mut inner.staged);
        inner.ready.extend(staged);
    }
}
