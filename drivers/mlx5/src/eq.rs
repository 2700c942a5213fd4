//! Event queues, polled. PRM: "Event Queues".
//!
//! Two cursors walk over a queue. What the driver itself must do for an event (give pages, flag a CQ as failed) is done
//! as soon as any control verb or service call [sees](EventQueue::see) it; what the user is to hear is
//! [told](EventQueue::tell) by service calls, one at a time. So the ring itself is the only store of events. The
//! device learns of the second cursor only.

use crate::{
    error::platform,
    uar::Uar,
    watch::{Watch, Watches},
};
use bareverbs::{Cqn, Error, Event, PortNum, Qpn, Srqn};
use bareverbs_hal::{Dma, DmaBuffer, PAGE_SIZE, PciFunction};
use bareverbs_mlx5_prm::{
    commands::create_eq,
    context::eqc,
    eqe::{self, event, port_sub_type, queue_type},
};
use core::{
    ptr::NonNull,
    sync::atomic::{AtomicU8, Ordering},
};

/// Log of the entries of the queue for all events but completions.
pub(crate) const LOG_ASYNC_ENTRIES: u32 = 10;

/// Events that the asynchronous queue asks for: each is understood by [`decode`] or served by the driver.
pub(crate) const ASYNC_EVENTS: u64 = 1 << event::COMM_ESTABLISHED
    | 1 << event::SEND_QUEUE_DRAINED
    | 1 << event::CQ_ERROR
    | 1 << event::WQ_CATASTROPHIC
    | 1 << event::PORT_CHANGE
    | 1 << event::PAGE_REQUEST
    | 1 << event::WQ_INVALID_REQUEST
    | 1 << event::WQ_ACCESS_ERROR
    | 1 << event::SRQ_CATASTROPHIC
    | 1 << event::SRQ_LAST_WQE
    | 1 << event::SRQ_RQ_LIMIT;

/// Offset of an entry's type.
const KIND: usize = 1;
/// Type that no event has: of entries whose object is gone.
const FORGOTTEN: u8 = 0xff;

/// An entry, copied out of the ring.
pub(crate) struct Eqe([u8; eqe::SIZE]);

impl Eqe {
    pub(crate) fn kind(&self) -> u8 {
        self.0[KIND]
    }

    fn sub_type(&self) -> u8 {
        self.0[3]
    }

    pub(crate) fn data(&self) -> &[u8] {
        &self.0[32..60]
    }
}

/// A queue of events.
pub(crate) struct EventQueue {
    ring: DmaBuffer,
    log_entries: u32,
    /// Its number, once the device has it.
    pub(crate) number: Option<u8>,
    seen: u32,
    told: u32,
    rung: u32,
}

// SAFETY: the ring's memory is owned, and only read.
unsafe impl Send for EventQueue {}

impl EventQueue {
    /// Gets a queue's memory. All entries belong to the device: in the first lap a new one has owner bit 0.
    pub(crate) fn new<H: Dma>(hal: &H, log_entries: u32) -> Result<Self, Error> {
        let len = eqe::SIZE << log_entries;
        let ring = hal.dma_alloc(len.next_multiple_of(PAGE_SIZE), PAGE_SIZE).map_err(platform)?;
        for n in 0..1 << log_entries {
            // SAFETY: the owner byte of entry `n`, inside the ring.
            unsafe { ring.ptr.add(n * eqe::SIZE + eqe::OWNER).write(1) };
        }
        Ok(Self { ring, log_entries, number: None, seen: 0, told: 0, rung: 0 })
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// The device does not write to the queue any more.
    pub(crate) unsafe fn free<H: Dma>(self, hal: &H) {
        // SAFETY: the caller's promise.
        unsafe { hal.dma_free(self.ring) }
    }

    /// Address and number of 4 KiB pages.
    pub(crate) fn pages(&self) -> (u64, usize) {
        (self.ring.addr, (eqe::SIZE << self.log_entries).div_ceil(PAGE_SIZE))
    }

    /// The fixed part of CREATE_EQ's input.
    pub(crate) fn context(&self, uar: u32, events: u64) -> [u8; create_eq::IN_LEN] {
        let mut input = [0; create_eq::IN_LEN];
        eqc::LOG_EQ_SIZE.at(create_eq::EQC).set(&mut input, self.log_entries);
        eqc::UAR_PAGE.at(create_eq::EQC).set(&mut input, uar);
        input[create_eq::EVENT_BITMASK..][..8].copy_from_slice(&events.to_be_bytes());
        input
    }

    fn entry(&self, index: u32) -> Option<Eqe> {
        let n = (index & ((1 << self.log_entries) - 1)) as usize;
        // SAFETY: entry `n` lies inside the ring.
        let at = unsafe { self.ring.ptr.add(n * eqe::SIZE) };
        // SAFETY: its owner byte; the device writes it last.
        let owner = unsafe { at.add(eqe::OWNER).cast::<AtomicU8>().as_ref() }.load(Ordering::Acquire);
        if u32::from(owner) & 1 != index >> self.log_entries & 1 {
            return None;
        }
        let mut e = [0; eqe::SIZE];
        // SAFETY: the entry is the driver's until the consumer index has passed it and the queue has wrapped.
        unsafe { at.copy_to_nonoverlapping(NonNull::from(&mut e).cast(), e.len()) };
        Some(Eqe(e))
    }

    /// The next event that the driver has not seen yet.
    pub(crate) fn see<H: Dma>(&mut self, hal: &H) -> Option<Eqe> {
        let e = self.entry(self.seen)?;
        hal.dma_rmb();
        self.seen = self.seen.wrapping_add(1);
        // A user that never asks must not let the queue overrun, which is the device's end: what is oldest goes.
        if self.seen.wrapping_sub(self.told) > (1 << self.log_entries) / 2 {
            log::debug!("an event was dropped: nobody calls service");
            self.told = self.told.wrapping_add(1);
        }
        Some(e)
    }

    /// The next event that was seen but not told.
    pub(crate) fn tell(&mut self) -> Option<Eqe> {
        if self.told == self.seen {
            return None;
        }
        let e = self.entry(self.told);
        self.told = self.told.wrapping_add(1);
        e
    }

    /// Forgets events that were seen but not told and that nobody is to hear.
    pub(crate) fn forget(&mut self, nobodys: impl Fn(&Eqe) -> bool) {
        let mut index = self.told;
        while index != self.seen {
            if self.entry(index).is_some_and(|e| nobodys(&e)) {
                let n = (index & ((1 << self.log_entries) - 1)) as usize;
                // SAFETY: the type byte of an entry that the device gets back only when it was told.
                unsafe { self.ring.ptr.add(n * eqe::SIZE + KIND).write(FORGOTTEN) };
            }
            index = index.wrapping_add(1);
        }
    }

    /// Tells the device how far the queue was consumed.
    pub(crate) fn ring<H: PciFunction>(&mut self, hal: &H, uar: &Uar) {
        if let Some(number) = self.number.filter(|_| self.rung != self.told) {
            uar.consume_events(hal, number, self.told);
            self.rung = self.told;
        }
    }
}

/// Whether the number of an event is that of a receive queue; send queues share the numbers of QPs.
fn is_rq(data: &[u8]) -> bool {
    eqe::qp::QUEUE_TYPE.get(data) == queue_type::RQ
}

/// Whether an event says that a QP uses no receive of its SRQ any more.
pub(crate) fn is_last_wqe(e: &Eqe, qpn: u32) -> bool {
    e.kind() == event::SRQ_LAST_WQE && eqe::qp::NUMBER.get(e.data()) == qpn
}

/// What an event means for the objects it names, before anybody is told.
pub(crate) fn note(e: &Eqe, watches: &Watches) {
    let data = e.data();
    let (watch, flag) = match e.kind() {
        event::WQ_CATASTROPHIC | event::WQ_INVALID_REQUEST | event::WQ_ACCESS_ERROR if is_rq(data) => {
            let found = watches.by_rqn(eqe::qp::NUMBER.get(data));
            (found.map_or(core::ptr::null_mut(), |(_, watch)| watch.as_ptr()), Watch::QP_ERROR)
        }
        event::COMPLETION => (watches.cqs.get(eqe::completion::CQN.get(data)), Watch::CQ_EVENT),
        event::CQ_ERROR => (watches.cqs.get(eqe::cq_error::CQN.get(data)), Watch::CQ_ERROR),
        event::WQ_CATASTROPHIC | event::WQ_INVALID_REQUEST | event::WQ_ACCESS_ERROR => {
            (watches.qps.get(eqe::qp::NUMBER.get(data)), Watch::QP_ERROR)
        }
        event::SRQ_LAST_WQE => (watches.qps.get(eqe::qp::NUMBER.get(data)), Watch::LAST_WQE),
        event::SRQ_CATASTROPHIC => (watches.srqs.get(eqe::qp::NUMBER.get(data)), Watch::SRQ_ERROR),
        _ => return,
    };
    // SAFETY: objects leave the table before they go; null is none.
    if let Some(watch) = unsafe { watch.as_ref() } {
        watch.raise(flag);
    }
}

/// What the user is told of an event; nothing if it is about an object that is gone, or nobody's business.
pub(crate) fn decode(e: &Eqe, watches: &Watches) -> Option<Event> {
    let data = e.data();
    let number = eqe::qp::NUMBER.get(data);
    let qp = || match is_rq(data) {
        true => watches.by_rqn(number).map(|(qpn, _)| Qpn::new(qpn)),
        false => (!watches.qps.get(number).is_null()).then(|| Qpn::new(number)),
    };
    let srq = || (!watches.srqs.get(number).is_null()).then(|| Srqn::new(number));
    let cq = |number: u32| (!watches.cqs.get(number).is_null()).then(|| Cqn::new(number));
    match e.kind() {
        event::COMPLETION => cq(eqe::completion::CQN.get(data)).map(Event::Completion),
        event::CQ_ERROR => cq(eqe::cq_error::CQN.get(data)).map(Event::CqError),
        event::COMM_ESTABLISHED => qp().map(Event::CommunicationEstablished),
        event::SEND_QUEUE_DRAINED => qp().map(Event::SendQueueDrained),
        event::WQ_CATASTROPHIC => qp().map(Event::QpFatal),
        event::WQ_INVALID_REQUEST => qp().map(Event::QpRequestError),
        event::WQ_ACCESS_ERROR => qp().map(Event::QpAccessError),
        event::SRQ_LAST_WQE => qp().map(Event::LastWqeReached),
        event::SRQ_CATASTROPHIC => srq().map(Event::SrqError),
        event::SRQ_RQ_LIMIT => srq().map(Event::SrqLimit),
        event::PORT_CHANGE => port(e),
        event::PAGE_REQUEST | FORGOTTEN => None,
        other => {
            log::debug!("event {other:#x}, sub type {:#x}: nobody understands it", e.sub_type());
            None
        }
    }
}

fn port(e: &Eqe) -> Option<Event> {
    let port = PortNum(eqe::port_change::PORT.get(e.data()) as u8);
    Some(match e.sub_type() {
        port_sub_type::DOWN => Event::PortDown(port),
        port_sub_type::ACTIVE => Event::PortActive(port),
        port_sub_type::LID => Event::LidChange(port),
        port_sub_type::PKEY => Event::PkeyChange(port),
        port_sub_type::GUID => Event::GidChange(port),
        port_sub_type::CLIENT_REREGISTER => Event::ClientReregister(port),
        _ => return None,
    })
}
