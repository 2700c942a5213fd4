//! Queue pairs: two lists and a state.

use crate::{
    cq::{CqState, Entry},
    device::{Loopback, MAX_RD_ATOMIC, Node, PORT, Pd, check_address},
    srq::SrqState,
    window::{PostedBind, Window},
};
use bareverbs::{
    Absent, Argument, Bind, Completion, Destination, Destroy, Error, Event, Mtu, Object, Payload, PostError, QpAttr,
    QpAttrMask, QpCap, QpInit, QpState as State, QpType, Qpn, QueuePair, RecvWr, Refused, Rkey, SendFlags, SendOp,
    SendWr, Sge, WcOpcode, WcStatus, qp::check_transition,
};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::{Rc, Weak},
};

/// A queue pair.
pub struct Qp(Rc<QpState>);

pub(crate) struct QpState {
    pub(crate) node: Rc<Node>,
    pub(crate) number: u32,
    pub(crate) kind: QpType,
    pub(crate) pd: Rc<u32>,
    pub(crate) srq: Option<Rc<SrqState>>,
    send_cq: Rc<CqState>,
    /// `None` if it is the one of sends: a QP holds a CQ once.
    recv_cq: Option<Rc<CqState>>,
    cap: QpCap,
    signal_all: bool,
    context: u64,
    pub(crate) attr: RefCell<QpAttr>,
    pub(crate) sends: RefCell<VecDeque<PostedSend>>,
    receives: RefCell<VecDeque<PostedRecv>>,
    staged: RefCell<(VecDeque<PostedSend>, VecDeque<PostedRecv>)>,
    /// Slots in use: posted and not given back by a polled completion.
    used: Cell<(u32, u32)>,
    /// Requests done without a completion since the last one.
    silent: Cell<u32>,
    /// Attempts of the oldest send to find a receive.
    pub(crate) attempts: Cell<u32>,
    me: Weak<QpState>,
}

/// A send request that was posted.
pub(crate) struct PostedSend {
    pub(crate) wr_id: u64,
    pub(crate) work: Work,
    pub(crate) data: Data,
    pub(crate) flags: SendFlags,
    pub(crate) to: Option<(u16, Qpn, u32)>,
}

/// What it does.
pub(crate) enum Work {
    Op(SendOp),
    Bind(PostedBind),
}

/// Its data.
pub(crate) enum Data {
    Sges(Vec<Sge>),
    Inline(Vec<u8>),
}

/// A receive request that was posted.
pub(crate) struct PostedRecv {
    pub(crate) wr_id: u64,
    pub(crate) sges: Vec<Sge>,
}

impl PostedRecv {
    pub(crate) fn new(wr: &RecvWr<'_>) -> Self {
        Self { wr_id: wr.wr_id, sges: wr.sges.to_vec() }
    }
}

impl QpState {
    pub(crate) fn state(&self) -> State {
        self.attr.borrow().state
    }

    /// Gives slots back whose completions were polled.
    pub(crate) fn retire(&self, sends: u32, receives: u32) {
        let (s, r) = self.used.get();
        match &self.srq {
            Some(srq) if receives > 0 => srq.retire(receives),
            _ => {}
        }
        self.used.set((s - sends, if self.srq.is_some() { r } else { r - receives }));
    }

    /// Takes a receive for a message.
    pub(crate) fn take_receive(&self) -> Option<PostedRecv> {
        match &self.srq {
            Some(srq) => srq.take(),
            None => self.receives.borrow_mut().pop_front(),
        }
    }

    /// The domain of what it receives into.
    pub(crate) fn receive_pd(&self) -> u32 {
        self.srq.as_ref().map_or(*self.pd, |srq| *srq.pd)
    }

    /// Ends a send request; a failure moves the QP to ERR.
    pub(crate) fn complete_send(&self, wr: &PostedSend, status: WcStatus, opcode: WcOpcode, byte_len: u32) {
        if status == WcStatus::Success && !self.signal_all && !wr.flags.contains(SendFlags::SIGNALED) {
            self.silent.set(self.silent.get() + 1);
            return;
        }
        let completion = Completion {
            wr_id: wr.wr_id,
            status,
            opcode,
            byte_len,
            qpn: Qpn::new(self.number),
            ..Completion::default()
        };
        let sends = self.silent.replace(0) + 1;
        self.send_cq.push(Entry { completion, solicited: false, qp: self.me.clone(), sends, receives: 0 });
    }

    /// The CQ of receives.
    fn recv_cq(&self) -> &CqState {
        self.recv_cq.as_ref().unwrap_or(&self.send_cq)
    }

    /// Whether it completes to a CQ.
    pub(crate) fn completes_to(&self, cq: &CqState) -> bool {
        [&*self.send_cq, self.recv_cq()].iter().any(|own| core::ptr::eq(*own, cq))
    }

    /// Whether a service call told that a CQ of its has failed.
    fn has_failed_cq(&self) -> bool {
        self.send_cq.is_told() || self.recv_cq().is_told()
    }

    /// Ends a receive request.
    pub(crate) fn complete_receive(&self, completion: Completion, solicited: bool) {
        let completion = Completion { qpn: Qpn::new(self.number), ..completion };
        self.recv_cq().push(Entry { completion, solicited, qp: self.me.clone(), sends: 0, receives: 1 });
    }

    /// To ERR: all that is outstanding is flushed, in order.
    pub(crate) fn fail(&self) {
        let before = core::mem::replace(&mut self.attr.borrow_mut().state, State::Err);
        if before != State::Err && self.srq.is_some() {
            self.node.events.borrow_mut().push_back(Event::LastWqeReached(Qpn::new(self.number)));
        }
        self.flush();
    }

    /// After a send that failed: of datagrams the send queue alone goes wrong.
    pub(crate) fn fail_send(&self) {
        if self.kind == QpType::Ud {
            self.attr.borrow_mut().state = State::Sqe;
            self.flush_sends();
        } else {
            self.fail();
        }
    }

    fn flush_sends(&self) {
        while let Some(wr) = { self.sends.borrow_mut().pop_front() } {
            self.complete_send(&wr, WcStatus::WorkRequestFlushed, WcOpcode::Send, 0);
        }
    }

    fn flush(&self) {
        self.flush_sends();
        while let Some(wr) = { self.receives.borrow_mut().pop_front() } {
            let status = WcStatus::WorkRequestFlushed;
            self.complete_receive(Completion { wr_id: wr.wr_id, status, ..Completion::default() }, false);
        }
    }

    fn sweep(&self) {
        let receives = self.send_cq.sweep(&self.me) + self.recv_cq().sweep(&self.me);
        if let Some(srq) = &self.srq {
            srq.retire(receives);
        }
    }

    fn reset(&self) {
        self.sweep();
        self.sends.borrow_mut().clear();
        self.receives.borrow_mut().clear();
        *self.staged.borrow_mut() = Default::default();
        self.used.set((0, 0));
        self.silent.set(0);
        self.attempts.set(0);
    }
}

impl Drop for QpState {
    fn drop(&mut self) {
        self.sweep();
        self.node.qps.borrow_mut().remove(&self.number);
        let own = Qpn::new(self.number);
        let about = |e: &Event| matches!(e, Event::QpAccessError(qpn) | Event::LastWqeReached(qpn) if *qpn == own);
        self.node.events.borrow_mut().retain(|e| !about(e));
    }
}

impl Qp {
    pub(crate) fn new(node: Rc<Node>, pd: &Pd, init: &QpInit<'_, Loopback>) -> Self {
        let number = node.number();
        let own = |n: u32| if init.srq.is_some() { 0 } else { n };
        let cap =
            QpCap { max_recv_wr: own(init.cap.max_recv_wr), max_recv_sge: own(init.cap.max_recv_sge), ..init.cap };
        let state = Rc::new_cyclic(|me| QpState {
            node,
            number,
            kind: init.kind,
            pd: pd.id.clone(),
            srq: init.srq.map(|s| s.0.clone()),
            send_cq: init.send_cq.0.clone(),
            recv_cq: (!Rc::ptr_eq(&init.send_cq.0, &init.recv_cq.0)).then(|| init.recv_cq.0.clone()),
            cap,
            signal_all: init.signal_all,
            context: init.context,
            attr: RefCell::new(QpAttr::to(State::Reset)),
            sends: RefCell::default(),
            receives: RefCell::default(),
            staged: RefCell::default(),
            used: Cell::new((0, 0)),
            silent: Cell::new(0),
            attempts: Cell::new(0),
            me: me.clone(),
        });
        state.node.qps.borrow_mut().insert(number, Rc::downgrade(&state));
        Self(state)
    }

    /// Checks values against what the device offers.
    fn check_values(&self, new: &QpAttr) -> Result<(), Error> {
        let has = |bit| new.mask.contains(bit);
        let bad = |attribute, why| Err(Error::BadAttribute { attribute, why });
        if has(QpAttrMask::PORT) && new.port != PORT {
            return Err(Error::NoSuchPort(new.port));
        }
        if has(QpAttrMask::PKEY_INDEX) && new.pkey_index != 0 {
            return Err(Error::NoSuchIndex { table: Argument::Pkey, index: new.pkey_index.into() });
        }
        if has(QpAttrMask::MAX_QP_RD_ATOMIC) && new.max_rd_atomic > MAX_RD_ATOMIC {
            return bad(QpAttrMask::MAX_QP_RD_ATOMIC, "more than the device sends at once");
        }
        if has(QpAttrMask::MAX_DEST_RD_ATOMIC) && new.max_dest_rd_atomic > MAX_RD_ATOMIC {
            return bad(QpAttrMask::MAX_DEST_RD_ATOMIC, "more than the device answers at once");
        }
        if new.mask.intersects(QpAttrMask::ALT_PATH | QpAttrMask::PATH_MIG_STATE) {
            return Err(Error::Unsupported("alternate paths"));
        }
        if has(QpAttrMask::AV) { check_address(&new.av) } else { Ok(()) }
    }

    /// Whether there is room for a request.
    fn check_room(&self) -> Result<(), PostError> {
        if self.0.used.get().0 >= self.0.cap.max_send_wr { Err(PostError::QueueFull) } else { Ok(()) }
    }

    /// Takes a place for a request.
    fn stage(&self, posted: PostedSend) {
        let (sends, receives) = self.0.used.get();
        self.0.used.set((sends + 1, receives));
        self.0.staged.borrow_mut().0.push_back(posted);
    }

    fn check_send(&self, wr: &SendWr<'_>) -> Result<Data, PostError> {
        let (q, cap) = (&self.0, self.0.cap);
        if q.has_failed_cq() {
            return Err(PostError::CqError);
        }
        if !q.state().may_post_send() {
            return Err(PostError::WrongState(q.state()));
        }
        let datagram = q.kind == QpType::Ud;
        if datagram && !matches!(wr.op, SendOp::Send | SendOp::SendImm(_)) {
            return Err(PostError::UnsupportedOp);
        }
        match (datagram, wr.to) {
            (true, Some(Destination::Ud(ud))) if ud.ah.owner() != u32::from(q.node.lid.0) => {
                return Err(PostError::ForeignAddress);
            }
            (true, Some(Destination::Ud(_))) | (false, None) => {}
            _ => return Err(PostError::Destination),
        }
        let brings_back = matches!(wr.op, SendOp::Read { .. } | SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. });
        let data = match wr.payload {
            Payload::Sges(sges) if sges.len() as u32 > cap.max_send_sge => {
                return Err(PostError::TooManySge { max: cap.max_send_sge });
            }
            Payload::Sges(sges) => Data::Sges(sges.to_vec()),
            _ if brings_back => return Err(PostError::InlineRead),
            Payload::Inline(bytes) => Data::Inline(bytes.to_vec()),
            Payload::InlineGather(parts) => Data::Inline(parts.concat()),
            Payload::Headed(_) => return Err(PostError::UnsupportedOp),
        };
        if let Data::Sges(sges) = &data
            && datagram
            && sges.iter().map(|s| u64::from(s.length())).sum::<u64>() > Mtu::B4096.bytes().into()
        {
            return Err(PostError::MessageTooLong { max: Mtu::B4096.bytes() });
        }
        if let (SendOp::CompareSwap { addr, .. } | SendOp::FetchAdd { addr, .. }, Data::Sges(sges)) = (wr.op, &data)
            && (addr % 8 != 0 || !matches!(sges[..], [sge] if sge.length() == 8))
        {
            return Err(PostError::AtomicShape);
        }
        if let Data::Inline(bytes) = &data
            && bytes.len() as u32 > cap.max_inline
        {
            return Err(PostError::InlineTooLong { max: cap.max_inline });
        }
        self.check_room()?;
        Ok(data)
    }
}

impl Destroy for Qp {
    fn destroy(self) -> Result<(), Refused<Self>> {
        Ok(())
    }
}

impl QueuePair for Qp {
    type Window = Window;
    type FastRegion = Absent;

    fn qpn(&self) -> Qpn {
        Qpn::new(self.0.number)
    }

    fn kind(&self) -> QpType {
        self.0.kind
    }

    fn state(&self) -> State {
        self.0.state()
    }

    fn cap(&self) -> QpCap {
        self.0.cap
    }

    fn context(&self) -> u64 {
        self.0.context
    }

    fn modify(&mut self, new: &QpAttr) -> Result<(), Error> {
        check_transition(self.0.kind, self.0.state(), new)?;
        if new.mask.contains(QpAttrMask::STATE) && new.state == State::Sqd {
            return Err(Error::Unsupported("draining the send queue by modify"));
        }
        self.check_values(new)?;
        let mut attr = self.0.attr.borrow_mut();
        let kept = attr.state;
        macro_rules! set { ($($bit:ident => $field:ident),+) => {$(
            if new.mask.contains(QpAttrMask::$bit) { attr.$field = new.$field; }
        )+}}
        set!(STATE => state, ACCESS_FLAGS => access, PKEY_INDEX => pkey_index, PORT => port, QKEY => qkey, AV => av,
            PATH_MTU => path_mtu, TIMEOUT => timeout, RETRY_CNT => retry_cnt, RNR_RETRY => rnr_retry, RQ_PSN => rq_psn,
            MAX_QP_RD_ATOMIC => max_rd_atomic, MIN_RNR_TIMER => min_rnr_timer, SQ_PSN => sq_psn,
            MAX_DEST_RD_ATOMIC => max_dest_rd_atomic, DEST_QPN => dest_qpn);
        let state = attr.state;
        drop(attr);
        match state {
            State::Reset => self.0.reset(),
            State::Err => {
                self.0.attr.borrow_mut().state = kept;
                self.0.fail();
            }
            _ => {}
        }
        Ok(())
    }

    fn query(&mut self) -> Result<QpAttr, Error> {
        let attr = *self.0.attr.borrow();
        Ok(QpAttr { cur_state: attr.state, cap: self.0.cap, ..attr })
    }

    fn push_send(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        let data = self.check_send(wr)?;
        let to = match wr.to {
            Some(Destination::Ud(ud)) => Some((ud.ah.form()[0] as u16, ud.qpn, ud.qkey.0)),
            _ => None,
        };
        self.stage(PostedSend { wr_id: wr.wr_id, work: Work::Op(wr.op), data, flags: wr.flags, to });
        Ok(())
    }

    fn push_bind(&mut self, window: &mut Window, bind: &Bind, wr_id: u64, flags: SendFlags) -> Result<Rkey, PostError> {
        if !self.0.state().may_post_send() {
            return Err(PostError::WrongState(self.0.state()));
        }
        if self.0.kind == QpType::Ud {
            return Err(PostError::UnsupportedOp);
        }
        if !window.is_of(&self.0.node) {
            return Err(PostError::Foreign(Object::Window));
        }
        self.check_room()?;
        let (posted, rkey) = window.bind(bind);
        let data = Data::Sges(Vec::new());
        self.stage(PostedSend { wr_id, work: Work::Bind(posted), data, flags, to: None });
        Ok(rkey)
    }

    fn ring_send(&mut self) {
        let staged = core::mem::take(&mut self.0.staged.borrow_mut().0);
        self.0.sends.borrow_mut().extend(staged);
        if matches!(self.0.state(), State::Err | State::Sqe) {
            self.0.flush_sends();
        }
    }

    fn push_recv(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        if self.0.srq.is_some() {
            return Err(PostError::UsesSrq);
        }
        if self.0.has_failed_cq() {
            return Err(PostError::CqError);
        }
        if !self.0.state().may_post_recv() {
            return Err(PostError::WrongState(self.0.state()));
        }
        if wr.sges.len() as u32 > self.0.cap.max_recv_sge {
            return Err(PostError::TooManySge { max: self.0.cap.max_recv_sge });
        }
        let (sends, receives) = self.0.used.get();
        if receives >= self.0.cap.max_recv_wr {
            return Err(PostError::QueueFull);
        }
        self.0.used.set((sends, receives + 1));
        self.0.staged.borrow_mut().1.push_back(PostedRecv::new(wr));
        Ok(())
    }

    fn ring_recv(&mut self) {
        let staged = core::mem::take(&mut self.0.staged.borrow_mut().1);
        self.0.receives.borrow_mut().extend(staged);
        if self.0.state() == State::Err {
            self.0.flush();
        }
    }
}
