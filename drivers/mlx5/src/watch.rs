//! How events reach the objects they are about, and wait there until they are asked for: each object has a word of flags
//! that its owner reads on every poll and post, and a word of news that nobody was told of yet. So no event needs memory
//! of its own, and none is lost.

use crate::{
    row::{Link, Row},
    state::StateMemory,
    table::Table,
};
use bareverbs::{Argument, CqEvent, Cqn, Error, Event, PortNum, Qpn, Srqn};
use bareverbs_hal::Platform;
use core::{
    ops::Deref,
    ptr::NonNull,
    sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed},
};

/// What there is to tell of an object: numbers of bits, in the order in which they are told.
pub(crate) mod news {
    pub(crate) const COMMUNICATION_ESTABLISHED: u32 = 0;
    pub(crate) const SEND_QUEUE_DRAINED: u32 = 1;
    pub(crate) const QP_REQUEST_ERROR: u32 = 2;
    pub(crate) const QP_ACCESS_ERROR: u32 = 3;
    pub(crate) const QP_FATAL: u32 = 4;
    pub(crate) const LAST_WQE_REACHED: u32 = 5;
    pub(crate) const SRQ_LIMIT: u32 = 6;
    pub(crate) const SRQ_ERROR: u32 = 7;
    pub(crate) const CQ_ERROR: u32 = 8;
    pub(crate) const PORT_DOWN: u32 = 9;
    pub(crate) const PORT_ACTIVE: u32 = 10;
    /// It went down after it became active.
    pub(crate) const PORT_DOWN_AGAIN: u32 = 11;
    pub(crate) const LID_CHANGE: u32 = 12;
    pub(crate) const PKEY_CHANGE: u32 = 13;
    pub(crate) const GID_CHANGE: u32 = 14;
    pub(crate) const CLIENT_REREGISTER: u32 = 15;
}

/// News of the object with this number.
fn event(news: u32, number: u32) -> Option<Event> {
    let (qpn, port) = (Qpn::new(number), PortNum(number as u8));
    Some(match news {
        news::COMMUNICATION_ESTABLISHED => Event::CommunicationEstablished(qpn),
        news::SEND_QUEUE_DRAINED => Event::SendQueueDrained(qpn),
        news::QP_REQUEST_ERROR => Event::QpRequestError(qpn),
        news::QP_ACCESS_ERROR => Event::QpAccessError(qpn),
        news::QP_FATAL => Event::QpFatal(qpn),
        news::LAST_WQE_REACHED => Event::LastWqeReached(qpn),
        news::SRQ_LIMIT => Event::SrqLimit(Srqn::new(number)),
        news::SRQ_ERROR => Event::SrqError(Srqn::new(number)),
        news::CQ_ERROR => Event::CqError(Cqn::new(number)),
        news::PORT_DOWN | news::PORT_DOWN_AGAIN => Event::PortDown(port),
        news::PORT_ACTIVE => Event::PortActive(port),
        news::LID_CHANGE => Event::LidChange(port),
        news::PKEY_CHANGE => Event::PkeyChange(port),
        news::GID_CHANGE => Event::GidChange(port),
        news::CLIENT_REREGISTER => Event::ClientReregister(port),
        _ => return None,
    })
}

/// What happened to an object. Lies in the object itself.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Watch {
    /// In the list of those that have news.
    link: Link,
    flags: AtomicU32,
    /// Bits of [`news`] that nobody was told of.
    news: AtomicU32,
    /// The number by which events are told.
    number: AtomicU32,
    /// The RQ of a raw packet QP, by which events may name it; 0 if it has none.
    rqn: AtomicU32,
    /// The CQs that a QP or an XRC SRQ completes to, each as its number and 1; 0 for none.
    cqs: [AtomicU32; 2],
}

impl Watch {
    /// The device failed.
    pub(crate) const DEVICE_FATAL: u32 = 1 << 0;
    /// The CQ was overrun or failed; of a QP or an XRC SRQ: one that it completes to.
    pub(crate) const CQ_ERROR: u32 = 1 << 1;
    /// The QP went to the error state by itself.
    pub(crate) const QP_ERROR: u32 = 1 << 2;
    /// The SRQ failed.
    pub(crate) const SRQ_ERROR: u32 = 1 << 3;
    /// The QP, which is in the error state, uses no receive of its SRQ any more.
    pub(crate) const LAST_WQE: u32 = 1 << 4;
    /// The CQ's completion event came; it is not armed any more.
    pub(crate) const CQ_EVENT: u32 = 1 << 5;
    /// It is a raw packet QP.
    const RAW: u32 = 1 << 6;

    /// All flags.
    #[inline(always)]
    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Relaxed)
    }

    /// Raises flags.
    pub(crate) fn raise(&self, flags: u32) {
        self.flags.fetch_or(flags, Relaxed);
    }

    /// Takes flags back (a QP was reset, a CQ is armed again).
    pub(crate) fn clear(&self, flags: u32) {
        self.flags.fetch_and(!flags, Relaxed);
    }

    /// The object completes to CQs of these numbers.
    pub(crate) fn set_cqs(&self, cqns: [Option<u32>; 2]) {
        for (place, cqn) in self.cqs.iter().zip(cqns) {
            place.store(cqn.map_or(0, |cqn| cqn.wrapping_add(1)), Relaxed);
        }
    }

    /// Whether it completes to a CQ that has failed.
    fn has_failed_cq(&self, cqs: &Table<CqWatch>) -> bool {
        let cqns = self.cqs.iter().filter_map(|cqn| cqn.load(Relaxed).checked_sub(1));
        // SAFETY: objects leave the table before they go; null is none.
        let mut cqs = cqns.filter_map(|cqn| unsafe { cqs.get(cqn).as_ref() });
        cqs.any(|cq| cq.flags() & Self::CQ_ERROR != 0)
    }

    /// The RQ, 0 for none, of a raw packet QP, which the device knows as two queues; `None` of any other.
    pub(crate) fn raw(&self) -> Option<u32> {
        (self.flags() & Self::RAW != 0).then(|| self.rqn.load(Relaxed))
    }

    /// The object is a raw packet QP with this RQ, 0 for none.
    pub(crate) fn set_raw(&self, rqn: u32) {
        self.raise(Self::RAW);
        self.rqn.store(rqn, Relaxed);
    }
}

impl AsRef<Watch> for Watch {
    fn as_ref(&self) -> &Watch {
        self
    }
}

/// What happened to a CQ, and where its completion events wait.
#[derive(Default)]
#[repr(C)]
pub(crate) struct CqWatch {
    /// In the list of those that have completion events.
    link: Link,
    watch: Watch,
    context: u64,
    /// The list of its channel; null is the device's.
    channel: AtomicPtr<Row>,
    /// Completion events that came and that nobody got.
    came: AtomicU32,
    /// Completion events that were got and not acknowledged.
    got: AtomicU32,
}

impl Deref for CqWatch {
    type Target = Watch;

    #[inline(always)]
    fn deref(&self) -> &Watch {
        &self.watch
    }
}

impl AsRef<Watch> for CqWatch {
    fn as_ref(&self) -> &Watch {
        &self.watch
    }
}

impl CqWatch {
    /// Of a CQ with this context.
    ///
    /// # Safety
    /// The channel's list outlives it.
    pub(crate) unsafe fn new(context: u64, channel: Option<NonNull<Row>>) -> Self {
        let channel = channel.map_or(core::ptr::null_mut(), NonNull::as_ptr);
        Self { context, channel: AtomicPtr::new(channel), ..Self::default() }
    }

    /// The user's own word.
    pub(crate) fn context(&self) -> u64 {
        self.context
    }

    /// The list of its channel, or the one of CQs without.
    fn list<'a>(&self, device: &'a Row) -> &'a Row {
        // SAFETY: null, or a list that outlives the CQ, by the promise of `new`; nobody keeps it longer.
        unsafe { self.channel.load(Relaxed).as_ref() }.unwrap_or(device)
    }

    /// Completion events that were got and not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u32 {
        self.got.load(Relaxed)
    }

    /// Acknowledges completion events that were got.
    pub(crate) fn acknowledge(&self, n: u32) -> Result<(), Error> {
        let refused = |got: u32| Error::OutOfRange { what: Argument::CqEvents, wanted: n.into(), max: got.into() };
        self.got.fetch_update(Relaxed, Relaxed, |got| got.checked_sub(n)).map(|_| ()).map_err(refused)
    }

    /// The next completion event of a list's CQs: each gives one and goes behind the others.
    pub(crate) fn next_of(list: &Row) -> Option<CqEvent> {
        let link = list.first()?;
        // SAFETY: CQs with completion events alone stand in the list, and leave it before they go.
        let cq = unsafe { link.cast::<Self>().as_ref() };
        // SAFETY: it stands there, and stays where it is.
        unsafe {
            list.remove(link);
            if cq.came.fetch_sub(1, Relaxed) > 1 {
                list.push(link);
            }
        }
        cq.got.fetch_add(1, Relaxed);
        Some(CqEvent { cqn: Cqn::new(cq.number.load(Relaxed)), context: cq.context })
    }
}

/// All objects that events name, by their numbers. Changed and read under the control lock.
pub(crate) struct Watches {
    tables: StateMemory<Tables>,
    /// Objects that have news.
    news: Row,
    /// CQs without a channel that have completion events.
    completions: Row,
}

/// What stays where it is. Zeroed memory is what it is at first.
pub(crate) struct Tables {
    pub(crate) cqs: Table<CqWatch>,
    pub(crate) srqs: Table<Watch>,
    pub(crate) qps: Table<Watch>,
    /// The port's.
    port: Watch,
}

impl Deref for Watches {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        // SAFETY: zeroed, and freed in `free` alone.
        unsafe { self.tables.ptr().as_ref() }
    }
}

impl Watches {
    pub(crate) fn new<H: Platform>(hal: &H) -> Result<Self, Error> {
        Ok(Self { tables: StateMemory::new(hal, 1)?, news: Row::default(), completions: Row::default() })
    }

    pub(crate) fn free<H: Platform>(self, hal: &H) {
        self.cqs.free(hal);
        self.srqs.free(hal);
        self.qps.free(hal);
        self.tables.free(hal);
    }

    /// An object has a number: events find it by that.
    ///
    /// # Safety
    /// It stays where it is until it is [removed](Self::remove).
    pub(crate) unsafe fn insert<T: AsRef<Watch>, H: Platform>(
        table: &Table<T>,
        hal: &H,
        number: u32,
        object: &T,
    ) -> Result<(), Error> {
        object.as_ref().number.store(number, Relaxed);
        table.insert(hal, number, NonNull::from(object))
    }

    /// The raw packet QP that has an RQ.
    pub(crate) fn by_rqn(&self, rqn: u32) -> Option<NonNull<Watch>> {
        // SAFETY: objects leave the table before they go.
        self.qps.iter().find(|at| rqn != 0 && unsafe { at.as_ref() }.rqn.load(Relaxed) == rqn)
    }

    /// Something happened to an object: flags for its owner, and what is to be told.
    pub(crate) fn note(&self, object: Option<NonNull<Watch>>, flags: u32, news: u32) {
        let Some(at) = object else { return };
        // SAFETY: objects leave the table before they go.
        let watch = unsafe { at.as_ref() };
        watch.raise(flags);
        self.tell_later(at, watch.news.load(Relaxed) | 1 << news);
    }

    /// An object's news that are to be told, if there were none before it goes behind the others that have some.
    fn tell_later(&self, at: NonNull<Watch>, news: u32) {
        // SAFETY: objects leave the table before they go.
        let before = unsafe { at.as_ref() }.news.swap(news, Relaxed);
        if before == 0 {
            // SAFETY: without news it stood in no list, and leaves this one before it goes.
            unsafe { self.news.push(at.cast()) };
        }
    }

    /// Something happened to a port. How it is comes last: what is told of it in the end is what holds.
    pub(crate) fn note_port(&self, port: u32, news: u32) {
        const DOWN: u32 = 1 << news::PORT_DOWN;
        const ACTIVE: u32 = 1 << news::PORT_ACTIVE;
        const DOWN_AGAIN: u32 = 1 << news::PORT_DOWN_AGAIN;
        let watch = &self.port;
        watch.number.store(port, Relaxed);
        let before = watch.news.load(Relaxed);
        let after = match 1 << news {
            DOWN if before & ACTIVE != 0 => before & !DOWN | DOWN_AGAIN,
            ACTIVE if before & DOWN_AGAIN != 0 => before & !DOWN_AGAIN | DOWN,
            other => before | other,
        };
        self.tell_later(NonNull::from(watch), after);
    }

    /// A CQ was overrun or failed.
    pub(crate) fn cq_failed(&self, cqn: u32) {
        // SAFETY: objects leave the table before they go; null is none.
        let cq = unsafe { self.cqs.get(cqn).as_ref() };
        self.note(cq.map(|cq| NonNull::from(&cq.watch)), Watch::CQ_ERROR, news::CQ_ERROR);
    }

    /// A CQ's completion event came.
    pub(crate) fn completed(&self, cqn: u32) {
        let Some(at) = NonNull::new(self.cqs.get(cqn)) else { return };
        // SAFETY: objects leave the table before they go.
        let cq = unsafe { at.as_ref() };
        cq.raise(Watch::CQ_EVENT);
        if cq.came.fetch_add(1, Relaxed) == 0 {
            // SAFETY: without completion events it stood in no list, and leaves this one before it goes.
            unsafe { cq.list(&self.completions).push(at.cast()) };
        }
    }

    /// The next event that nobody was told of: news of objects first, then completion events of CQs without a channel.
    pub(crate) fn next(&self) -> Option<Event> {
        let Some(link) = self.news.first() else { return CqWatch::next_of(&self.completions).map(Event::Completion) };
        // SAFETY: objects with news alone stand in the list, and leave it before they go.
        let watch = unsafe { link.cast::<Watch>().as_ref() };
        let news = watch.news.load(Relaxed);
        let left = news & news.wrapping_sub(1);
        watch.news.store(left, Relaxed);
        if left == 0 {
            // SAFETY: it stands there.
            unsafe { self.news.remove(link) };
        }
        event(news.trailing_zeros(), watch.number.load(Relaxed))
    }

    /// Forgets news of an object; all of them when it goes, so that they are nobody's, whoever gets its number.
    pub(crate) fn forget(&self, watch: &Watch, news: u32) {
        let before = watch.news.fetch_and(!news, Relaxed);
        if before != 0 && before & !news == 0 {
            // SAFETY: with news it stands in the list.
            unsafe { self.news.remove(NonNull::from(watch).cast()) };
        }
    }

    /// A CQ goes.
    pub(crate) fn forget_cq(&self, cq: &CqWatch) {
        self.forget(cq, u32::MAX);
        if cq.came.swap(0, Relaxed) != 0 {
            // SAFETY: with completion events it stands in the list.
            unsafe { cq.list(&self.completions).remove(NonNull::from(cq).cast()) };
        }
    }

    /// Tells every XRC SRQ whose CQ has failed.
    pub(crate) fn srqs_of_failed_cqs(&self) {
        // SAFETY: objects leave the table before they go.
        let srqs = self.srqs.iter().map(|srq| unsafe { srq.as_ref() });
        srqs.filter(|srq| srq.has_failed_cq(&self.cqs)).for_each(|srq| srq.raise(Watch::CQ_ERROR));
    }

    /// The first QP from a number on of which a CQ has failed and that was not told yet.
    pub(crate) fn qp_of_failed_cq(&self, from: u32) -> Option<(u32, &Watch)> {
        let mut from = from;
        loop {
            let (qpn, watch) = self.qps.first(from)?;
            // SAFETY: objects leave the table before they go.
            let watch = unsafe { watch.as_ref() };
            if watch.flags() & Watch::CQ_ERROR == 0 && watch.has_failed_cq(&self.cqs) {
                return Some((qpn, watch));
            }
            from = qpn + 1;
        }
    }

    /// Tells every object of the device's end.
    pub(crate) fn device_failed(&self) {
        let all = |at: NonNull<Watch>| {
            // SAFETY: objects leave the table before they go.
            unsafe { at.as_ref() }.raise(Watch::DEVICE_FATAL);
        };
        self.srqs.iter().chain(self.qps.iter()).for_each(all);
        // SAFETY: as above.
        self.cqs.iter().for_each(|at| unsafe { at.as_ref() }.raise(Watch::DEVICE_FATAL));
    }
}
