//! How events reach the objects they are about: each object has a word of flags that service calls raise and that its
//! owner reads on every poll and post.

use crate::table::Table;
use bareverbs::Error;
use bareverbs_hal::Platform;
use core::{
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

/// What happened to an object. Lies in the object itself.
#[derive(Default)]
pub(crate) struct Watch {
    flags: AtomicU32,
    /// The RQ of a raw packet QP, by which events may name it, and the QP's number; 0 if it has none.
    rqn: AtomicU32,
    qpn: AtomicU32,
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

    /// All flags.
    #[inline(always)]
    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Raises flags.
    pub(crate) fn raise(&self, flags: u32) {
        self.flags.fetch_or(flags, Ordering::Relaxed);
    }

    /// Takes flags back (a QP was reset, a CQ is armed again).
    pub(crate) fn clear(&self, flags: u32) {
        self.flags.fetch_and(!flags, Ordering::Relaxed);
    }

    /// The object completes to CQs of these numbers.
    pub(crate) fn set_cqs(&self, cqns: [Option<u32>; 2]) {
        for (place, cqn) in self.cqs.iter().zip(cqns) {
            place.store(cqn.map_or(0, |cqn| cqn.wrapping_add(1)), Ordering::Relaxed);
        }
    }

    /// Whether it completes to a CQ that has failed.
    fn has_failed_cq(&self, cqs: &Table<Watch>) -> bool {
        let cqns = self.cqs.iter().filter_map(|cqn| cqn.load(Ordering::Relaxed).checked_sub(1));
        // SAFETY: objects leave the table before they go; null is none.
        let mut cqs = cqns.filter_map(|cqn| unsafe { cqs.get(cqn).as_ref() });
        cqs.any(|cq| cq.flags() & Self::CQ_ERROR != 0)
    }

    /// Whether it is a raw packet QP, which the device knows as two queues.
    pub(crate) fn is_raw(&self) -> bool {
        self.qpn.load(Ordering::Relaxed) != 0
    }

    /// The object is a raw packet QP of this number and with this RQ, 0 for none.
    pub(crate) fn set_raw(&self, qpn: u32, rqn: u32) {
        self.qpn.store(qpn, Ordering::Relaxed);
        self.rqn.store(rqn, Ordering::Relaxed);
    }
}

/// All objects that events name, by their numbers. Changed and read under the control lock.
pub(crate) struct Watches {
    pub(crate) cqs: Table<Watch>,
    pub(crate) srqs: Table<Watch>,
    pub(crate) qps: Table<Watch>,
}

impl Watches {
    pub(crate) fn new<H: Platform>(hal: &H) -> Result<Self, Error> {
        let cqs = Table::new(hal)?;
        let srqs = match Table::new(hal) {
            Ok(table) => table,
            Err(e) => {
                cqs.free(hal);
                return Err(e);
            }
        };
        match Table::new(hal) {
            Ok(qps) => Ok(Self { cqs, srqs, qps }),
            Err(e) => {
                cqs.free(hal);
                srqs.free(hal);
                Err(e)
            }
        }
    }

    pub(crate) fn free<H: Platform>(self, hal: &H) {
        self.cqs.free(hal);
        self.srqs.free(hal);
        self.qps.free(hal);
    }

    /// The raw packet QP that has an RQ, and its number.
    pub(crate) fn by_rqn(&self, rqn: u32) -> Option<(u32, NonNull<Watch>)> {
        let has = |watch: &Watch| watch.rqn.load(Ordering::Relaxed) == rqn && rqn != 0;
        self.qps.iter().find_map(|at| {
            // SAFETY: objects leave the table before they go.
            let watch = unsafe { at.as_ref() };
            has(watch).then(|| (watch.qpn.load(Ordering::Relaxed), at))
        })
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
        for watch in self.cqs.iter().chain(self.srqs.iter()).chain(self.qps.iter()) {
            // SAFETY: objects leave the table before they go.
            unsafe { watch.as_ref() }.raise(Watch::DEVICE_FATAL);
        }
    }
}
