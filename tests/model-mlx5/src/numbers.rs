//! Numbers of objects: given out in rising order and only reused after a lap, so that a stale one is noticed.

/// A range of numbers.
#[derive(Clone, Debug)]
pub struct Numbers {
    first: u32,
    end: u32,
    next: u32,
}

impl Numbers {
    /// Numbers from `first` to `end - 1`.
    pub fn new(first: u32, end: u32) -> Self {
        Self { first, end, next: first }
    }

    /// Gives out `n` next, if it is not used: a number comes back sooner than it usually does.
    pub fn rewind(&mut self, n: u32) {
        self.next = n.clamp(self.first, self.end - 1);
    }

    /// The next one that is not used.
    pub fn take(&mut self, used: impl Fn(u32) -> bool) -> Option<u32> {
        for _ in self.first..self.end {
            let n = self.next;
            self.next = if n + 1 == self.end { self.first } else { n + 1 };
            if !used(n) {
                return Some(n);
            }
        }
        None
    }
}

/// The ranges of all kinds of objects.
#[derive(Clone, Debug)]
pub struct AllNumbers {
    /// UARs.
    pub uar: Numbers,
    /// EQs.
    pub eq: Numbers,
    /// CQs.
    pub cq: Numbers,
    /// QPs; 0 and 1 are nobody's.
    pub qp: Numbers,
    /// SRQs.
    pub srq: Numbers,
    /// PDs.
    pub pd: Numbers,
    /// XRC domains.
    pub xrcd: Numbers,
    /// Memory keys' indices.
    pub mkey: Numbers,
    /// Transport domains.
    pub transport_domain: Numbers,
    /// TISs.
    pub tis: Numbers,
    /// Send queues; behind the QPs, with which they share doorbells.
    pub sq: Numbers,
    /// Receive queues.
    pub rq: Numbers,
    /// Receive queue tables.
    pub rqt: Numbers,
    /// TIRs.
    pub tir: Numbers,
    /// Flow tables.
    pub flow_table: Numbers,
    /// Counter sets of queues; 0 is the default one.
    pub q_counter: Numbers,
    /// Registered user memories.
    pub umem: Numbers,
}

impl Default for AllNumbers {
    /// As many as [`hca_cap`](crate::hca_cap) advertises. Each kind starts elsewhere, so that a confusion shows.
    fn default() -> Self {
        use crate::{eth_cap as eth, hca_cap as cap, uar};
        let of = |first: u32, log: u32| Numbers::new(first, first + (1 << log));
        Self {
            uar: Numbers::new(uar::FIRST, uar::END),
            eq: Numbers::new(4, 4 + cap::MAX_EQS),
            cq: of(0x400, cap::LOG_MAX_CQ),
            qp: of(0x800, cap::LOG_MAX_QP),
            srq: of(0x300, cap::LOG_MAX_SRQ),
            pd: of(0x20, cap::LOG_MAX_PD),
            xrcd: of(0x10, cap::LOG_MAX_XRCD),
            mkey: of(0x1000, cap::LOG_MAX_MKEY),
            transport_domain: of(0x8, eth::LOG_MAX_TRANSPORT_DOMAIN),
            tis: of(0x50, eth::LOG_MAX_TIS),
            sq: of(0x800 + (1 << cap::LOG_MAX_QP), eth::LOG_MAX_SQ),
            rq: of(0x2000, eth::LOG_MAX_RQ),
            rqt: of(0x70, eth::LOG_MAX_RQT),
            tir: of(0x90, eth::LOG_MAX_TIR),
            flow_table: of(0xb0, eth::LOG_MAX_FT_NUM),
            q_counter: Numbers::new(1, 1 + eth::Q_COUNTERS),
            umem: of(0x600, cap::LOG_MAX_UMEM),
        }
    }
}
