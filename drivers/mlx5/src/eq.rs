//! Event queues, polled. PRM: "Event Queues".
//!
//! As soon as any control verb or service call [sees](EventQueue::see) an event, the driver does what it asks for: gives
//! pages, flags a CQ as failed, and [notes](note) at the object what its user is to hear (see [`crate::watch`]). So a
//! queue is empty again at once, however late the user asks.

use crate::{
    error::platform,
    uar::Uar,
    watch::{Watch, Watches, news},
};
use bareverbs::Error;
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

/// Events that the asynchronous queue asks for: each is understood by [`note`] or served by the driver.
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

/// An entry, copied out of the ring.
pub(crate) struct Eqe([u8; eqe::SIZE]);

impl Eqe {
    pub(crate) fn kind(&self) -> u8 {
        self.0[1]
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
        Ok(Self { ring, log_entries, number: None, seen: 0, rung: 0 })
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// The device does not write to the queue any more.
    pub(crate) unsafe fn free<H: Dma>(self, hal: &H) {
        // SAFETY: the caller's promise.
        unsafe { hal.dma_free(self.ring) }
    }

    /// Entries of the ring.
    pub(crate) fn capacity(&self) -> u32 {
        1 << self.log_entries
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
        Some(e)
    }

    /// Tells the device how far the queue was consumed.
    pub(crate) fn ring<H: PciFunction>(&mut self, hal: &H, uar: &Uar) {
        if let Some(number) = self.number.filter(|_| self.rung != self.seen) {
            uar.consume_events(hal, number, self.seen);
            self.rung = self.seen;
        }
    }
}

/// Whether the number of an event is that of a receive queue; send queues share the numbers of QPs.
fn is_rq(data: &[u8]) -> bool {
    eqe::qp::QUEUE_TYPE.get(data) == queue_type::RQ
}

/// Does what an event asks for at the object that it names. What is about an object that is gone is nobody's.
pub(crate) fn note(e: &Eqe, watches: &Watches) {
    let data = e.data();
    let number = eqe::qp::NUMBER.get(data);
    let qp = || if is_rq(data) { watches.by_rqn(number) } else { NonNull::new(watches.qps.get(number)) };
    let srq = || NonNull::new(watches.srqs.get(number));
    let (object, flags, news) = match e.kind() {
        event::COMPLETION => return watches.completed(eqe::completion::CQN.get(data)),
        event::CQ_ERROR => return watches.cq_failed(eqe::cq_error::CQN.get(data)),
        event::PORT_CHANGE => return port(e, watches),
        event::PAGE_REQUEST => return,
        event::COMM_ESTABLISHED => (qp(), 0, news::COMMUNICATION_ESTABLISHED),
        event::SEND_QUEUE_DRAINED => (qp(), 0, news::SEND_QUEUE_DRAINED),
        event::WQ_CATASTROPHIC => (qp(), Watch::QP_ERROR, news::QP_FATAL),
        event::WQ_INVALID_REQUEST => (qp(), Watch::QP_ERROR, news::QP_REQUEST_ERROR),
        event::WQ_ACCESS_ERROR => (qp(), Watch::QP_ERROR, news::QP_ACCESS_ERROR),
        event::SRQ_LAST_WQE => (qp(), Watch::LAST_WQE, news::LAST_WQE_REACHED),
        event::SRQ_CATASTROPHIC => (srq(), Watch::SRQ_ERROR, news::SRQ_ERROR),
        event::SRQ_RQ_LIMIT => (srq(), 0, news::SRQ_LIMIT),
        other => {
            log::debug!("event {other:#x}, sub type {:#x}: nobody understands it", e.sub_type());
            return;
        }
    };
    watches.note(object, flags, news);
}

fn port(e: &Eqe, watches: &Watches) {
    let news = match e.sub_type() {
        port_sub_type::DOWN => news::PORT_DOWN,
        port_sub_type::ACTIVE => news::PORT_ACTIVE,
        port_sub_type::LID => news::LID_CHANGE,
        port_sub_type::PKEY => news::PKEY_CHANGE,
        port_sub_type::GUID => news::GID_CHANGE,
        port_sub_type::CLIENT_REREGISTER => news::CLIENT_REREGISTER,
        _ => return,
    };
    watches.note_port(eqe::port_change::PORT.get(e.data()), news);
}
