//! Completion queues: a list, and which requests each completion retires.

use crate::{
    device::{Node, in_range, refuse_if_held},
    qp::QpState,
};
use bareverbs::{
    Argument, Completion, CompletionChannel, CompletionQueue, CompletionView, CqEvent, CqInit, Cqn, Destroy, Error,
    Event, Notify, PollError, Qpn, Refused, WcFlags, WcOpcode, WcStatus,
};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::{Rc, Weak},
    time::Duration,
};

/// A completion queue.
pub struct Cq(pub(crate) Rc<CqState>);

/// A completion channel.
pub struct Channel(pub(crate) Rc<ChannelState>);

pub(crate) struct ChannelState {
    pub(crate) node: Rc<Node>,
    events: RefCell<VecDeque<CqEvent>>,
}

pub(crate) struct CqState {
    pub(crate) node: Rc<Node>,
    channel: Option<Rc<ChannelState>>,
    number: u32,
    capacity: u32,
    context: u64,
    entries: RefCell<VecDeque<Entry>>,
    armed: Cell<Option<Notify>>,
    error: Cell<bool>,
    /// A service call told of the error: from then on no entry comes out.
    told: Cell<bool>,
    /// Completion events that were got and not acknowledged.
    got: Cell<u32>,
}

/// A completion, and what is free again once it is polled.
pub(crate) struct Entry {
    pub(crate) completion: Completion,
    pub(crate) solicited: bool,
    pub(crate) qp: Weak<QpState>,
    pub(crate) sends: u32,
    pub(crate) receives: u32,
}

impl CqState {
    /// Appends an entry; one too many breaks the queue for good.
    pub(crate) fn push(&self, entry: Entry) {
        if self.error.get() {
            return;
        }
        if self.entries.borrow().len() as u32 >= self.capacity {
            self.error.set(true);
            self.node.events.borrow_mut().push_back(Event::CqError(Cqn::new(self.number)));
            let qps: Vec<_> = self.node.qps.borrow().values().filter_map(Weak::upgrade).collect();
            qps.iter().filter(|qp| qp.completes_to(self)).for_each(|qp| qp.fail());
            return;
        }
        let told = match self.armed.get() {
            Some(Notify::Any) => true,
            Some(Notify::Solicited) => entry.solicited || entry.completion.status != WcStatus::Success,
            None => false,
        };
        if told {
            self.armed.set(None);
            let event = CqEvent { cqn: Cqn::new(self.number), context: self.context };
            match &self.channel {
                Some(channel) => channel.events.borrow_mut().push_back(event),
                None => self.node.events.borrow_mut().push_back(Event::Completion(event)),
            }
        }
        self.entries.borrow_mut().push_back(entry);
    }

    /// A service call tells of the error.
    pub(crate) fn tell_error(&self) {
        self.told.set(true);
    }

    /// Whether it did.
    pub(crate) fn is_told(&self) -> bool {
        self.told.get()
    }

    /// Somebody got a completion event.
    pub(crate) fn count_event(&self) {
        self.got.set(self.got.get() + 1);
    }

    /// Takes out what belongs to a QP that is gone or was reset, and tells how many receives that gives back.
    pub(crate) fn sweep(&self, qp: &Weak<QpState>) -> u32 {
        let mut receives = 0;
        self.entries.borrow_mut().retain(|e| {
            let stays = !e.qp.ptr_eq(qp);
            receives += if stays { 0 } else { e.receives };
            stays
        });
        receives
    }

    fn take(&self) -> Result<Option<Completion>, PollError> {
        if self.told.get() || self.error.get() && self.entries.borrow().is_empty() {
            return Err(PollError::CqError);
        }
        Ok(self.entries.borrow_mut().pop_front().map(|entry| {
            if let Some(qp) = entry.qp.upgrade() {
                qp.retire(entry.sends, entry.receives);
            }
            entry.completion
        }))
    }
}

impl Drop for CqState {
    fn drop(&mut self) {
        let own = Cqn::new(self.number);
        self.node.events.borrow_mut().retain(|e| match e {
            Event::Completion(event) => event.cqn != own,
            Event::CqError(cqn) => *cqn != own,
            _ => true,
        });
        if let Some(channel) = &self.channel {
            channel.events.borrow_mut().retain(|event| event.cqn != own);
        }
    }
}

impl Channel {
    pub(crate) fn new(node: Rc<Node>) -> Self {
        Self(Rc::new(ChannelState { node, events: RefCell::default() }))
    }
}

impl Destroy for Channel {
    fn destroy(self) -> Result<(), Refused<Self>> {
        refuse_if_held(self, |channel| Rc::strong_count(&channel.0))
    }
}

impl CompletionChannel for Channel {
    fn event(&self) -> Result<Option<CqEvent>, Error> {
        self.0.node.net.progress();
        let event = self.0.events.borrow_mut().pop_front();
        if let Some(event) = event {
            self.0.node.count_event(event.cqn);
        }
        Ok(event)
    }
}

impl Cq {
    pub(crate) fn new(node: Rc<Node>, init: &CqInit, channel: Option<&Channel>) -> Self {
        let number = node.number();
        let state = Rc::new(CqState {
            node,
            channel: channel.map(|channel| channel.0.clone()),
            number,
            capacity: init.entries,
            context: init.context,
            entries: RefCell::default(),
            armed: Cell::new(None),
            error: Cell::new(false),
            told: Cell::new(false),
            got: Cell::new(0),
        });
        state.node.cqs.borrow_mut().insert(number, Rc::downgrade(&state));
        Self(state)
    }
}

impl Destroy for Cq {
    fn destroy(self) -> Result<(), Refused<Self>> {
        match self.0.got.get() {
            events if events > 0 && Rc::strong_count(&self.0) == 1 => {
                Err(Refused { handle: self, error: Error::Unacknowledged { events } })
            }
            _ => refuse_if_held(self, |cq| Rc::strong_count(&cq.0)),
        }
    }
}

impl CompletionQueue for Cq {
    type View<'a> = View<'a>;

    fn cqn(&self) -> Cqn {
        Cqn::new(self.0.number)
    }

    fn capacity(&self) -> u32 {
        self.0.capacity
    }

    fn context(&self) -> u64 {
        self.0.context
    }

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, PollError> {
        self.0.node.net.progress();
        for (n, slot) in out.iter_mut().enumerate() {
            match self.0.take() {
                Ok(Some(completion)) => *slot = completion,
                Err(error) if n == 0 => return Err(error),
                Ok(None) | Err(_) => return Ok(n),
            }
        }
        Ok(out.len())
    }

    fn view(&mut self) -> View<'_> {
        View { cq: self, current: Completion::default() }
    }

    fn resize(&mut self, _entries: u32) -> Result<(), Error> {
        Err(Error::Unsupported("CQ resize"))
    }

    fn request_notify(&mut self, which: Notify) -> Result<(), Error> {
        if self.0.error.get() {
            return Err(Error::CqError);
        }
        // A request for any completion holds until its event has come.
        if self.0.armed.get() != Some(Notify::Any) {
            self.0.armed.set(Some(which));
        }
        Ok(())
    }

    fn ack_events(&mut self, n: u32) -> Result<(), Error> {
        in_range(Argument::CqEvents, n, 0, self.0.got.get())?;
        self.0.got.set(self.0.got.get() - n);
        Ok(())
    }

    fn moderate(&mut self, _count: u16, _period: Duration) -> Result<(), Error> {
        Err(Error::Unsupported("CQ moderation"))
    }
}

/// Completions one by one.
pub struct View<'a> {
    cq: &'a mut Cq,
    current: Completion,
}

impl CompletionView for View<'_> {
    fn advance(&mut self) -> Result<bool, PollError> {
        self.cq.0.node.net.progress();
        let next = self.cq.0.take()?;
        self.current = next.unwrap_or_default();
        Ok(next.is_some())
    }

    fn wr_id(&self) -> u64 {
        self.current.wr_id
    }

    fn status(&self) -> WcStatus {
        self.current.status
    }

    fn opcode(&self) -> WcOpcode {
        self.current.opcode
    }

    fn byte_len(&self) -> u32 {
        self.current.byte_len
    }

    fn flags(&self) -> WcFlags {
        self.current.flags
    }

    fn imm(&self) -> u32 {
        self.current.imm
    }

    fn qpn(&self) -> Qpn {
        self.current.qpn
    }

    fn src_qp(&self) -> Qpn {
        self.current.src_qp
    }

    fn vendor_err(&self) -> u32 {
        self.current.vendor_err
    }

    fn timestamp(&self) -> u64 {
        0
    }

    fn completion(&self) -> Completion {
        self.current
    }
}
