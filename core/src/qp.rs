//! The queue pair state machine as data (IBA 10.3.1, manual page ibv_modify_qp).

use crate::{Access, AckTimeout, AhAttr, Error, Mtu, PortNum, Psn, Qkey, QpCap, Qpn, RetryCount, RnrTimer};
use bitflags::bitflags;
use core::fmt;

/// Types of queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QpType {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Unreliable datagram.
    Ud = 2,
    /// Extended reliable connection, sending end.
    XrcIni = 3,
    /// Extended reliable connection, receiving end.
    XrcTgt = 4,
    /// Ethernet frames.
    RawPacket = 5,
}

/// States of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QpState {
    /// Nothing can be posted.
    #[default]
    Reset = 0,
    /// Receives can be posted.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send.
    Rts = 3,
    /// Send queue drained.
    Sqd = 4,
    /// Send queue error (UC, UD and raw packet): sends are flushed, receives go on.
    Sqe = 5,
    /// Error: everything is flushed.
    Err = 6,
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "RESET",
            Self::Init => "INIT",
            Self::Rtr => "RTR",
            Self::Rts => "RTS",
            Self::Sqd => "SQD",
            Self::Sqe => "SQE",
            Self::Err => "ERR",
        })
    }
}

bitflags! {
    /// Which attributes a modify sets; bits of ibv_qp_attr_mask.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct QpAttrMask: u32 {
        /// The state to go to. Always set.
        const STATE = 1 << 0;
        /// The state it should be in now.
        const CUR_STATE = 1 << 1;
        /// Ask for an event when the send queue is drained.
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// What a peer may do.
        const ACCESS_FLAGS = 1 << 3;
        /// Index of the P_Key.
        const PKEY_INDEX = 1 << 4;
        /// Port.
        const PORT = 1 << 5;
        /// Queue key.
        const QKEY = 1 << 6;
        /// Address vector.
        const AV = 1 << 7;
        /// Path MTU.
        const PATH_MTU = 1 << 8;
        /// Local ACK timeout.
        const TIMEOUT = 1 << 9;
        /// Transport retries.
        const RETRY_CNT = 1 << 10;
        /// RNR retries.
        const RNR_RETRY = 1 << 11;
        /// First PSN expected.
        const RQ_PSN = 1 << 12;
        /// Outstanding reads and atomics as initiator.
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// Alternate path.
        const ALT_PATH = 1 << 14;
        /// Minimum RNR timer.
        const MIN_RNR_TIMER = 1 << 15;
        /// First PSN sent.
        const SQ_PSN = 1 << 16;
        /// Outstanding reads and atomics as responder.
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// Path migration state.
        const PATH_MIG_STATE = 1 << 18;
        /// Queue sizes.
        const CAP = 1 << 19;
        /// The peer's QP.
        const DEST_QPN = 1 << 20;
    }
}

/// Attributes of a QP. Built by name, each call sets its bit: `QpAttr::to(QpState::Init).port(1).pkey_index(0)`.
#[derive(Clone, Copy, Debug)]
pub struct QpAttr {
    /// Which fields count.
    pub mask: QpAttrMask,
    /// The state to go to (query: the state it is in).
    pub state: QpState,
    /// The state it should be in now.
    pub cur_state: QpState,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// Queue key.
    pub qkey: Qkey,
    /// First PSN expected.
    pub rq_psn: Psn,
    /// First PSN sent.
    pub sq_psn: Psn,
    /// The peer's QP.
    pub dest_qpn: Qpn,
    /// What a peer may do.
    pub access: Access,
    /// Queue sizes (query only).
    pub cap: QpCap,
    /// Address vector.
    pub av: AhAttr,
    /// Index of the P_Key.
    pub pkey_index: u16,
    /// Outstanding reads and atomics as initiator.
    pub max_rd_atomic: u8,
    /// Outstanding reads and atomics as responder.
    pub max_dest_rd_atomic: u8,
    /// Minimum RNR timer.
    pub min_rnr_timer: RnrTimer,
    /// Port.
    pub port: PortNum,
    /// Local ACK timeout.
    pub timeout: AckTimeout,
    /// Transport retries.
    pub retry_cnt: RetryCount,
    /// RNR retries; 7 is for ever.
    pub rnr_retry: RetryCount,
}

impl QpAttr {
    /// Only the state to go to.
    pub fn to(state: QpState) -> Self {
        Self {
            mask: QpAttrMask::STATE,
            state,
            cur_state: QpState::Reset,
            path_mtu: Mtu::B1024,
            qkey: Qkey(0),
            rq_psn: Psn::new(0),
            sq_psn: Psn::new(0),
            dest_qpn: Qpn::new(0),
            access: Access::empty(),
            cap: QpCap::default(),
            av: AhAttr::default(),
            pkey_index: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: RnrTimer::at_least(core::time::Duration::ZERO),
            port: PortNum(1),
            timeout: AckTimeout::INFINITE,
            retry_cnt: RetryCount::MAX,
            rnr_retry: RetryCount::MAX,
        }
    }

    const fn with(mut self, bit: QpAttrMask) -> Self {
        self.mask = self.mask.union(bit);
        self
    }

    /// The state it should be in now.
    pub const fn cur_state(mut self, v: QpState) -> Self {
        self.cur_state = v;
        self.with(QpAttrMask::CUR_STATE)
    }

    /// Path MTU.
    pub const fn path_mtu(mut self, v: Mtu) -> Self {
        self.path_mtu = v;
        self.with(QpAttrMask::PATH_MTU)
    }

    /// Queue key.
    pub const fn qkey(mut self, v: Qkey) -> Self {
        self.qkey = v;
        self.with(QpAttrMask::QKEY)
    }

    /// First PSN expected.
    pub const fn rq_psn(mut self, v: Psn) -> Self {
        self.rq_psn = v;
        self.with(QpAttrMask::RQ_PSN)
    }

    /// First PSN sent.
    pub const fn sq_psn(mut self, v: Psn) -> Self {
        self.sq_psn = v;
        self.with(QpAttrMask::SQ_PSN)
    }

    /// The peer's QP.
    pub const fn dest_qpn(mut self, v: Qpn) -> Self {
        self.dest_qpn = v;
        self.with(QpAttrMask::DEST_QPN)
    }

    /// What a peer may do.
    pub const fn access(mut self, v: Access) -> Self {
        self.access = v;
        self.with(QpAttrMask::ACCESS_FLAGS)
    }

    /// Address vector.
    pub const fn av(mut self, v: AhAttr) -> Self {
        self.av = v;
        self.with(QpAttrMask::AV)
    }

    /// Index of the P_Key.
    pub const fn pkey_index(mut self, v: u16) -> Self {
        self.pkey_index = v;
        self.with(QpAttrMask::PKEY_INDEX)
    }

    /// Outstanding reads and atomics as initiator.
    pub const fn max_rd_atomic(mut self, v: u8) -> Self {
        self.max_rd_atomic = v;
        self.with(QpAttrMask::MAX_QP_RD_ATOMIC)
    }

    /// Outstanding reads and atomics as responder.
    pub const fn max_dest_rd_atomic(mut self, v: u8) -> Self {
        self.max_dest_rd_atomic = v;
        self.with(QpAttrMask::MAX_DEST_RD_ATOMIC)
    }

    /// Minimum RNR timer.
    pub const fn min_rnr_timer(mut self, v: RnrTimer) -> Self {
        self.min_rnr_timer = v;
        self.with(QpAttrMask::MIN_RNR_TIMER)
    }

    /// Port.
    pub const fn port(mut self, v: PortNum) -> Self {
        self.port = v;
        self.with(QpAttrMask::PORT)
    }

    /// Local ACK timeout.
    pub const fn timeout(mut self, v: AckTimeout) -> Self {
        self.timeout = v;
        self.with(QpAttrMask::TIMEOUT)
    }

    /// Transport retries.
    pub const fn retry_cnt(mut self, v: RetryCount) -> Self {
        self.retry_cnt = v;
        self.with(QpAttrMask::RETRY_CNT)
    }

    /// RNR retries; 7 is for ever.
    pub const fn rnr_retry(mut self, v: RetryCount) -> Self {
        self.rnr_retry = v;
        self.with(QpAttrMask::RNR_RETRY)
    }
}

/// One row of the table of transitions.
#[derive(Clone, Copy, Debug)]
pub struct Transition {
    /// State now.
    pub from: QpState,
    /// State asked for.
    pub to: QpState,
    /// QP types that the row is for.
    pub kinds: &'static [QpType],
    /// Attributes that must be given (besides the state).
    pub required: QpAttrMask,
    /// Attributes that may be given.
    pub optional: QpAttrMask,
}

macro_rules! attrs {
    () => { QpAttrMask::empty() };
    ($($name:ident)|+) => { QpAttrMask::empty()$(.union(QpAttrMask::$name))+ };
}

const fn row(
    from: QpState,
    to: QpState,
    kinds: &'static [QpType],
    required: QpAttrMask,
    optional: QpAttrMask,
) -> Transition {
    Transition { from, to, kinds, required, optional }
}

use QpState::{Init, Reset, Rtr, Rts, Sqd, Sqe};
use QpType::{RawPacket, Rc, Uc, Ud, XrcIni, XrcTgt};

/// Every transition but those to RESET and ERR, which all states have and which take nothing
/// (IBA 11.2.5.2, table 96; manual page ibv_modify_qp).
#[rustfmt::skip]
pub const TRANSITIONS: &[Transition] = &[
    row(Reset, Init, &[Rc, Uc, XrcIni, XrcTgt], attrs!(PKEY_INDEX | PORT | ACCESS_FLAGS), attrs!()),
    row(Reset, Init, &[Ud],                     attrs!(PKEY_INDEX | PORT | QKEY), attrs!()),
    row(Reset, Init, &[RawPacket],              attrs!(PORT), attrs!()),

    row(Init, Init, &[Rc, Uc, XrcIni, XrcTgt], attrs!(), attrs!(PKEY_INDEX | PORT | ACCESS_FLAGS)),
    row(Init, Init, &[Ud],                     attrs!(), attrs!(PKEY_INDEX | PORT | QKEY)),
    row(Init, Init, &[RawPacket],              attrs!(), attrs!(PORT)),

    row(Init, Rtr, &[Rc, XrcTgt], attrs!(AV | PATH_MTU | DEST_QPN | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER),
                                  attrs!(ALT_PATH | ACCESS_FLAGS | PKEY_INDEX)),
    row(Init, Rtr, &[Uc, XrcIni], attrs!(AV | PATH_MTU | DEST_QPN | RQ_PSN), attrs!(ALT_PATH | ACCESS_FLAGS | PKEY_INDEX)),
    row(Init, Rtr, &[Ud],         attrs!(), attrs!(PKEY_INDEX | QKEY)),
    row(Init, Rtr, &[RawPacket],  attrs!(), attrs!()),

    row(Rtr, Rts, &[Rc],        attrs!(TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC),
                                attrs!(CUR_STATE | ALT_PATH | ACCESS_FLAGS | MIN_RNR_TIMER | PATH_MIG_STATE)),
    row(Rtr, Rts, &[XrcIni],    attrs!(TIMEOUT | RETRY_CNT | RNR_RETRY | SQ_PSN | MAX_QP_RD_ATOMIC),
                                attrs!(CUR_STATE | ALT_PATH | ACCESS_FLAGS | PATH_MIG_STATE)),
    row(Rtr, Rts, &[XrcTgt],    attrs!(TIMEOUT | SQ_PSN),
                                attrs!(CUR_STATE | ALT_PATH | ACCESS_FLAGS | MIN_RNR_TIMER | PATH_MIG_STATE)),
    row(Rtr, Rts, &[Uc],        attrs!(SQ_PSN), attrs!(CUR_STATE | ALT_PATH | ACCESS_FLAGS | PATH_MIG_STATE)),
    row(Rtr, Rts, &[Ud],        attrs!(SQ_PSN), attrs!(CUR_STATE | QKEY)),
    row(Rtr, Rts, &[RawPacket], attrs!(), attrs!()),

    row(Rts, Rts, &[Rc, XrcTgt], attrs!(), attrs!(CUR_STATE | ACCESS_FLAGS | ALT_PATH | PATH_MIG_STATE | MIN_RNR_TIMER)),
    row(Rts, Rts, &[Uc, XrcIni], attrs!(), attrs!(CUR_STATE | ACCESS_FLAGS | ALT_PATH | PATH_MIG_STATE)),
    row(Rts, Rts, &[Ud],         attrs!(), attrs!(CUR_STATE | QKEY)),
    row(Rts, Rts, &[RawPacket],  attrs!(), attrs!()),

    row(Rts, Sqd, &[Rc, Uc, Ud, XrcIni, XrcTgt], attrs!(), attrs!(EN_SQD_ASYNC_NOTIFY)),

    row(Sqd, Rts, &[Rc, XrcTgt], attrs!(), attrs!(CUR_STATE | ALT_PATH | ACCESS_FLAGS | MIN_RNR_TIMER | PATH_MIG_STATE)),
    row(Sqd, Rts, &[Uc, XrcIni], attrs!(), attrs!(CUR_STATE | ALT_PATH | ACCESS_FLAGS | PATH_MIG_STATE)),
    row(Sqd, Rts, &[Ud],         attrs!(), attrs!(CUR_STATE | QKEY)),

    row(Sqd, Sqd, &[Rc],     attrs!(), attrs!(PORT | AV | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC | MAX_DEST_RD_ATOMIC
                                              | ALT_PATH | ACCESS_FLAGS | PKEY_INDEX | MIN_RNR_TIMER | PATH_MIG_STATE)),
    row(Sqd, Sqd, &[XrcIni], attrs!(), attrs!(PORT | AV | TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_QP_RD_ATOMIC
                                              | ALT_PATH | ACCESS_FLAGS | PKEY_INDEX | PATH_MIG_STATE)),
    row(Sqd, Sqd, &[XrcTgt], attrs!(), attrs!(PORT | AV | TIMEOUT | MAX_DEST_RD_ATOMIC
                                              | ALT_PATH | ACCESS_FLAGS | PKEY_INDEX | MIN_RNR_TIMER | PATH_MIG_STATE)),
    row(Sqd, Sqd, &[Uc],     attrs!(), attrs!(AV | ALT_PATH | ACCESS_FLAGS | PKEY_INDEX | PATH_MIG_STATE)),
    row(Sqd, Sqd, &[Ud],     attrs!(), attrs!(PKEY_INDEX | QKEY)),

    row(Sqe, Rts, &[Uc], attrs!(), attrs!(CUR_STATE | ACCESS_FLAGS)),
    row(Sqe, Rts, &[Ud], attrs!(), attrs!(CUR_STATE | QKEY)),
];

/// Checks a modify against the table: whether the transition exists and its mask is right.
///
/// The errors name the transition and all attributes that are missing or too much.
pub fn check_transition(kind: QpType, from: QpState, attr: &QpAttr) -> Result<(), Error> {
    let to = if attr.mask.contains(QpAttrMask::STATE) { attr.state } else { from };
    let given = attr.mask.difference(QpAttrMask::STATE);
    let (required, optional) = if matches!(to, QpState::Reset | QpState::Err) {
        (QpAttrMask::empty(), QpAttrMask::empty())
    } else {
        match TRANSITIONS.iter().find(|t| t.from == from && t.to == to && t.kinds.contains(&kind)) {
            Some(t) => (t.required, t.optional),
            None => return Err(Error::NoSuchTransition { kind, from, to }),
        }
    };
    let missing = required.difference(given);
    if !missing.is_empty() {
        return Err(Error::MissingAttribute { missing, from, to });
    }
    let forbidden = given.difference(required.union(optional));
    if !forbidden.is_empty() {
        return Err(Error::ForbiddenAttribute { forbidden, from, to });
    }
    if given.contains(QpAttrMask::CUR_STATE) && attr.cur_state != from {
        return Err(Error::BadAttribute { attribute: QpAttrMask::CUR_STATE, why: "not the state it is in" });
    }
    Ok(())
}

impl QpState {
    /// Whether send requests may be posted (IBA 10.8.2; in ERR and SQE they are flushed).
    #[inline(always)]
    pub const fn may_post_send(self) -> bool {
        matches!(self, Self::Rts | Self::Sqd | Self::Sqe | Self::Err)
    }

    /// Whether receive requests may be posted.
    #[inline(always)]
    pub const fn may_post_recv(self) -> bool {
        !matches!(self, Self::Reset)
    }
}
