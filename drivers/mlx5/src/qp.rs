//! Queue pairs. PRM: "Queue Pairs"; manual pages ibv_create_qp, ibv_modify_qp, ibv_post_send, ibv_post_recv.
//! Transitions are in `qp_state.rs`, sizes in `qp_shape.rs`, rings in `sq.rs` and `rq.rs`.

use crate::{
    attach::Attachments,
    buffer::{Buffer, RECORD_LEN, dword, record},
    control::count_up,
    counted::{Counted, Resident, handle},
    cq::CqObject,
    device::Mlx5,
    hca::Hca,
    owned::Owned,
    pd::{Domain, Pd, Xrcd},
    policy::{Lock, Policy},
    qp_shape::{Shape, operations},
    qp_state::{Set, service_type},
    raw,
    rq::{RecvMemory, RecvRing},
    sq::{Remote, SendRing, SendRingInit},
    srq::SrqObject,
    state::StateMemory,
    target::{NO_QPN, Target},
    users::{NO_CQN, NO_NUMBER},
    watch::Watch,
};
use bareverbs::{
    Argument, Error, Object, PostError, QpCap, QpInit, QpState, QpType, RecvWr, SendWr,
    wq::{RecvQueue, SendQueue, SendSlot},
};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::create_qp,
    context::{cmd_hca_cap, qpc},
    registers::doorbell_record,
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

/// No user index.
const NO_USER: u32 = u32::MAX;

/// A queue pair, held by its handle.
pub(crate) struct QpObject<H: PciFunction, P: Policy> {
    /// What pollers see of it.
    pub(crate) target: Target,
    pub(crate) send: Owned<SendRing>,
    pub(crate) recv: Owned<RecvRing>,
    pub(crate) watch: Watch,
    /// State that this side brought it to.
    pub(crate) state: Owned<QpState>,
    pub(crate) set: Owned<Set>,
    user_index: AtomicU32,
    pub(crate) kind: QpType,
    pub(crate) cap: QpCap,
    pub(crate) shape: Shape,
    /// Multicast groups and flow rules.
    pub(crate) attachments: Owned<Attachments>,
    /// What the device has for a raw packet QP.
    pub(crate) raw: raw::Numbers,
    pub(crate) context: u64,
    pub(crate) buffer: ManuallyDrop<Buffer>,
    slots: ManuallyDrop<StateMemory<SendSlot>>,
    wr_ids: ManuallyDrop<StateMemory<AtomicU64>>,
    /// `None` of an XRC target.
    send_cq: Option<Counted<CqObject<H, P>, P>>,
    /// `None` if it is the same as the other, for a QP holds a CQ once; and of XRC QPs.
    recv_cq: Option<Counted<CqObject<H, P>, P>>,
    srq: Option<Counted<SrqObject<H, P>, P>>,
    /// `None` of an XRC target.
    pd: Option<Pd<H, P>>,
    /// Of an XRC target.
    xrcd: Option<Counted<Domain<H, P>, P>>,
    pub(crate) device: Mlx5<H, P>,
}

// SAFETY: what pollers share is made of atomics; the rest is reached by the one handle only; buffers are addresses.
unsafe impl<H: PciFunction + Send + Sync> Send for QpObject<H, crate::Shared> {}
// SAFETY: as above.
unsafe impl<H: PciFunction + Send + Sync> Sync for QpObject<H, crate::Shared> {}

impl<H: PciFunction, P: Policy> Resident for QpObject<H, P> {
    type Platform = H;

    fn platform(&self) -> &H {
        &self.device.hca().hal
    }
}

/// A queue pair (ibv_create_qp).
///
/// Posting takes `&mut self` and touches the QP's own rings only. With [`crate::Shared`] its CQs may be polled on other
/// threads meanwhile: every counter has one writer.
pub struct Qp<H: PciFunction, P: Policy>(pub(crate) Counted<QpObject<H, P>, P>);

handle!(Qp);

/// What a QP is made of.
struct Parts<H: PciFunction, P: Policy> {
    kind: QpType,
    send_cq: Option<Counted<CqObject<H, P>, P>>,
    recv_cq: Option<Counted<CqObject<H, P>, P>>,
    srq: Option<Counted<SrqObject<H, P>, P>>,
    pd: Option<Pd<H, P>>,
    xrcd: Option<Counted<Domain<H, P>, P>>,
    signal_all: bool,
    context: u64,
}

/// A QP's memory before there is a QP.
struct Memory {
    buffer: Buffer,
    slots: StateMemory<SendSlot>,
    wr_ids: StateMemory<AtomicU64>,
}

impl Memory {
    fn new<H: PciFunction, P: Policy>(hca: &Hca<H, P>, shape: &Shape) -> Result<Self, Error> {
        let slots = StateMemory::new(&hca.hal, shape.send.map_or(1, |log| 1 << log))?;
        let wr_ids = match StateMemory::new(&hca.hal, shape.recv.map_or(1, |(log, _)| 1 << log)) {
            Ok(wr_ids) => wr_ids,
            Err(e) => {
                slots.free(&hca.hal);
                return Err(e);
            }
        };
        match Buffer::new(hca, shape.len().next_multiple_of(RECORD_LEN) + RECORD_LEN) {
            Ok(buffer) => Ok(Self { buffer, slots, wr_ids }),
            Err(e) => {
                slots.free(&hca.hal);
                wr_ids.free(&hca.hal);
                Err(e)
            }
        }
    }
}

impl<H: PciFunction, P: Policy> Qp<H, P> {
    /// Makes a QP in RESET. PRM: CREATE_QP.
    pub(crate) fn create(device: &Mlx5<H, P>, pd: &Pd<H, P>, init: &QpInit<'_, Mlx5<H, P>>) -> Result<Self, Error> {
        let hca = device.hca();
        if !pd.belongs_to(device) {
            return Err(Error::Foreign(Object::Pd));
        }
        let (send_cq, recv_cq, srq) = (&init.send_cq.0, &init.recv_cq.0, init.srq.map(|srq| &srq.0));
        if !send_cq.device.is(device) || !recv_cq.device.is(device) {
            return Err(Error::Foreign(Object::Cq));
        }
        send_cq.check_alive().and_then(|()| recv_cq.check_alive())?;
        if srq.is_some_and(|srq| !srq.device.is(device)) {
            return Err(Error::Foreign(Object::Srq));
        }
        if !hca.attr.has(init.kind) || init.kind == QpType::XrcTgt {
            return Err(Error::Unsupported(match init.kind {
                QpType::RawPacket => "raw packet QPs",
                _ => "this type of QP",
            }));
        }
        if init.kind == QpType::RawPacket && init.cap.max_send_wr == 0 {
            return Err(Error::Unsupported("a raw packet QP without a send queue"));
        }
        if srq.is_some_and(|srq| srq.is_xrc()) {
            return Err(Error::Unsupported("an XRC SRQ as the SRQ of a QP"));
        }
        if srq.is_some() && !matches!(init.kind, QpType::Rc | QpType::Ud) {
            return Err(Error::Unsupported("an SRQ on this type of QP"));
        }
        let recv_cq = (!send_cq.is(recv_cq) && init.kind != QpType::XrcIni).then(|| recv_cq.clone());
        let parts = Parts {
            kind: init.kind,
            send_cq: Some(send_cq.clone()),
            recv_cq,
            srq: srq.cloned(),
            pd: Some(pd.hold()),
            xrcd: None,
            signal_all: init.signal_all,
            context: init.context,
        };
        Self::new(device, parts, &init.cap)
    }

    /// Makes the receiving end of an XRC connection in RESET. PRM: CREATE_QP.
    pub(crate) fn create_xrc_target(device: &Mlx5<H, P>, xrcd: &Xrcd<H, P>, context: u64) -> Result<Self, Error> {
        if !xrcd.0.device.is(device) {
            return Err(Error::Foreign(Object::Xrcd));
        }
        let parts = Parts {
            kind: QpType::XrcTgt,
            send_cq: None,
            recv_cq: None,
            srq: None,
            pd: None,
            xrcd: Some(xrcd.0.clone()),
            signal_all: false,
            context,
        };
        Self::new(device, parts, &QpCap::default())
    }

    fn new(device: &Mlx5<H, P>, parts: Parts<H, P>, cap: &QpCap) -> Result<Self, Error> {
        let hca = device.hca();
        let shared = parts.srq.is_some() || is_xrc(parts.kind);
        let shape = Shape::new(hca, parts.kind, cap, shared)?;
        let memory = Memory::new(hca, &shape)?;
        let counted = hca.control.with(|control| {
            count_up(&mut control.qps, hca.caps.limits.qps, Argument::Qps)?;
            Ok::<_, Error>(control.qps - 1)
        });
        let hint = match counted {
            Ok(hint) => hint,
            Err(e) => {
                memory.slots.free(&hca.hal);
                memory.wr_ids.free(&hca.hal);
                memory.buffer.free(hca, &Ok(()));
                return Err(e);
            }
        };
        let object = Self::object(device, parts, shape, memory);
        // From here on dropping the object undoes everything.
        let qp = Self(Counted::new(object)?);
        qp.0.create(hint)?;
        Ok(qp)
    }

    fn object(device: &Mlx5<H, P>, parts: Parts<H, P>, shape: Shape, memory: Memory) -> QpObject<H, P> {
        let hca = device.hca();
        let Parts { kind, send_cq, recv_cq, srq, pd, xrcd, signal_all, context } = parts;
        let Memory { buffer, slots, wr_ids } = memory;
        let log_blocks = shape.send.unwrap_or(0);
        let (log_slots, log_stride) = shape.recv.unwrap_or((0, 4));
        // SAFETY: the buffer ends with a doorbell record.
        let record = unsafe { record(&buffer, record_offset(&shape)) };
        // SAFETY: the tables have that many entries and go with the object.
        let (send_queue, send_poster) = unsafe { SendQueue::new(slots.ptr(), log_blocks) };
        // SAFETY: as above.
        let (recv_queue, recv_poster) = unsafe { RecvQueue::new(wr_ids.ptr(), log_slots) };
        let mut target = Target::new(kind, send_queue, recv_queue, srq.as_ref().map(|srq| NonNull::from(&srq.slots)));
        // A raw packet QP whose one queue has failed has failed.
        target.reliable |= kind == QpType::RawPacket && shape.recv.is_none();
        let send = SendRingInit {
            // SAFETY: the send ring lies behind the receive ring, or, if there is none, nothing is ever written there.
            start: unsafe { buffer.ptr().add(shape.send_at()) },
            log_blocks,
            poster: send_poster,
            limit: shape.cap.max_send_wr,
            max_sge: shape.cap.max_send_sge,
            max_inline: shape.cap.max_inline,
            max_message: max_message(hca, kind),
            ops: operations(kind, hca.attr.atomics, hca.attr.max_mw != 0),
            signal_all,
            remote: Remote::of(kind, hca.caps.inline.bytes()),
            owner: hca.mark(),
            record: dword(record, doorbell_record::SEND),
            uar: hca.uar,
            burst: !P::SHARED,
        };
        let recv = RecvMemory {
            start: buffer.ptr(),
            stride: 1 << log_stride,
            record: dword(record, doorbell_record::RECEIVE),
        };
        QpObject {
            target,
            // SAFETY: the buffer holds ring and record and goes with the object.
            send: Owned::new(unsafe { SendRing::new(send) }),
            // SAFETY: as above.
            recv: Owned::new(unsafe {
                RecvRing::new(recv, recv_poster, shape.cap.max_recv_wr, shape.cap.max_recv_sge)
            }),
            watch: Watch::default(),
            state: Owned::new(QpState::Reset),
            set: Owned::new(Set::default()),
            user_index: AtomicU32::new(NO_USER),
            kind,
            cap: shape.cap,
            shape,
            attachments: Owned::new(Attachments::default()),
            raw: raw::Numbers::default(),
            context,
            buffer: ManuallyDrop::new(buffer),
            slots: ManuallyDrop::new(slots),
            wr_ids: ManuallyDrop::new(wr_ids),
            send_cq,
            recv_cq,
            srq,
            pd,
            xrcd,
            device: device.clone(),
        }
    }
}

/// Whether a type is one of XRC's.
fn is_xrc(kind: QpType) -> bool {
    matches!(kind, QpType::XrcIni | QpType::XrcTgt)
}

/// Where the doorbell record lies in a QP's buffer.
pub(crate) fn record_offset(shape: &Shape) -> usize {
    shape.len().next_multiple_of(RECORD_LEN)
}

/// The longest message of a type: a datagram is one packet.
fn max_message<H: PciFunction, P: Policy>(hca: &Hca<H, P>, kind: QpType) -> u32 {
    match kind {
        QpType::Ud => hca.caps.max_mtu.bytes(),
        QpType::RawPacket => hca.caps.max_frame,
        _ => 1 << cmd_hca_cap::LOG_MAX_MSG.get(&hca.caps.general).min(31),
    }
}

impl<H: PciFunction, P: Policy> QpObject<H, P> {
    fn create(&self, hint: u32) -> Result<(), Error> {
        let hca = self.device.hca();
        let target = NonNull::from(&self.target);
        let cqs = [self.send_cq(), self.recv_cq()].map(|cq| cq.map_or(NO_CQN, CqObject::cqn));
        // SAFETY: `drop` does as it must.
        let user = hca.control.with(|_| unsafe { hca.users.insert(hint, hca.caps.limits.users(), target, cqs) });
        let user = user.ok_or(NO_NUMBER)?;
        self.user_index.store(user, Ordering::Relaxed);
        self.watch.set_cqs([self.send_cq(), self.recv_cq()].map(|cq| cq.map(CqObject::cqn)));
        let qpn = match self.kind {
            QpType::RawPacket => self.create_raw(user)?,
            _ => self.create_qp(user)?,
        };
        self.target.set_qpn(qpn);
        // SAFETY: nobody else has a handle yet.
        unsafe { self.send.get() }.set_qpn(qpn);
        // SAFETY: the object takes the number out before it goes.
        unsafe { hca.watch(|watches| &watches.qps, qpn, &self.watch) }
    }

    /// PRM: CREATE_QP.
    fn create_qp(&self, user: u32) -> Result<u32, Error> {
        const QPC: usize = create_qp::QPC;
        let hca = self.device.hca();
        let shape = &self.shape;
        let mut input = [0; create_qp::IN_LEN];
        let q = &mut input;
        qpc::ST.at(QPC).set(q, service_type(self.kind));
        qpc::PM_STATE.at(QPC).set(q, qpc::path_migration::MIGRATED);
        if let Some(pd) = &self.pd {
            qpc::PD.at(QPC).set(q, pd.0.number());
        }
        match shape.recv {
            Some((log_slots, log_stride)) => {
                qpc::LOG_RQ_SIZE.at(QPC).set(q, log_slots);
                qpc::LOG_RQ_STRIDE.at(QPC).set(q, log_stride - 4);
                qpc::RQ_TYPE.at(QPC).set(q, qpc::rq_type::REGULAR);
            }
            None => qpc::RQ_TYPE.at(QPC).set(q, qpc::rq_type::ZERO_SIZE),
        }
        if let Some(srq) = &self.srq {
            qpc::RQ_TYPE.at(QPC).set(q, qpc::rq_type::SRQ);
            qpc::SRQN_RMPN_XRQN.at(QPC).set(q, srq.srqn());
        }
        match shape.send {
            Some(log_blocks) => qpc::LOG_SQ_SIZE.at(QPC).set(q, log_blocks),
            None => qpc::NO_SQ.at(QPC).set(q, 1),
        }
        qpc::UAR_PAGE.at(QPC).set(q, hca.uar.number);
        qpc::USER_INDEX.at(QPC).set(q, user);
        qpc::LOG_PAGE_SIZE.at(QPC).set(q, self.buffer.log_page(shape.len()) - 12);
        if let Some(cq) = &self.send_cq {
            qpc::CQN_SND.at(QPC).set(q, cq.cqn());
        }
        if let Some(cq) = self.recv_cq() {
            qpc::CQN_RCV.at(QPC).set(q, cq.cqn());
        }
        if is_xrc(self.kind) {
            self.name_unused(&mut input)?;
        }
        let q = &mut input;
        qpc::DBR_ADDR.at(QPC).set(q, self.buffer.addr(record_offset(shape)));
        let mut out = [0; create_qp::OUT_LEN];
        hca.execute(create_qp::OPCODE, 0, &mut input, &self.buffer.pages(shape.len()), &mut out)?;
        Ok(create_qp::out::QPN.get(&out))
    }

    /// The CQ of sends.
    pub(crate) fn send_cq(&self) -> Option<&CqObject<H, P>> {
        self.send_cq.as_deref()
    }

    /// The number of its protection domain; 0, which is nobody's, if it has none.
    pub(crate) fn pd_number(&self) -> u32 {
        self.pd.as_ref().map_or(0, |pd| pd.0.number())
    }

    /// What the context of an XRC QP has to name though the QP does not use it, see [`crate::xrc`].
    fn name_unused(&self, q: &mut [u8; create_qp::IN_LEN]) -> Result<(), Error> {
        const QPC: usize = create_qp::QPC;
        let hca = self.device.hca();
        let unused = hca.control.with(|control| control.unused(&hca.hal))?;
        qpc::RQ_TYPE.at(QPC).set(q, qpc::rq_type::SRQ);
        qpc::SRQN_RMPN_XRQN.at(QPC).set(q, unused.srqn);
        qpc::CQN_RCV.at(QPC).set(q, unused.cqn);
        qpc::XRCD.at(QPC).set(q, self.xrcd.as_ref().map_or(unused.xrcd, |xrcd| xrcd.number()));
        if self.kind == QpType::XrcTgt {
            qpc::PD.at(QPC).set(q, unused.pd);
            qpc::CQN_SND.at(QPC).set(q, unused.cqn);
        }
        Ok(())
    }

    /// The CQ of receives.
    pub(crate) fn recv_cq(&self) -> Option<&CqObject<H, P>> {
        self.recv_cq.as_ref().or(self.send_cq.as_ref()).map(|cq| &**cq)
    }

    /// Takes the QP from the device, if nothing keeps it.
    fn destroy(&self) -> Result<(), Error> {
        // SAFETY: the QP's one handle is at work.
        let holders = unsafe { self.attachments.get() }.iter().count() as u32;
        if holders > 0 {
            return Err(Error::Busy { holders });
        }
        self.leave_srq()?;
        self.remove()
    }

    /// Takes the QP from the device, once, and its completions out of the CQs. PRM: DESTROY_QP.
    fn remove(&self) -> Result<(), Error> {
        let (hca, qpn) = (self.device.hca(), self.qpn());
        if self.kind == QpType::RawPacket {
            return self.destroy_raw();
        }
        if qpn == NO_QPN {
            return Ok(());
        }
        hca.destroy(Opcode::DESTROY_QP, qpn)?;
        self.lose_number();
        Ok(())
    }

    /// The device may give the QP's number to another one from now on.
    #[inline(never)]
    pub(crate) fn lose_number(&self) {
        self.sweep();
        self.device.hca().unwatch(|watches| &watches.qps, self.qpn(), &self.watch);
        self.target.set_qpn(NO_QPN);
    }

    /// Takes its completions out of the CQs; slots of an SRQ that they held come back.
    pub(crate) fn sweep(&self) {
        let user = self.user_index.load(Ordering::Relaxed);
        for cq in self.send_cq.iter().chain(&self.recv_cq) {
            cq.sweep(user, &self.target);
        }
    }

    /// Its number; [`NO_QPN`] if the device does not have it.
    pub(crate) fn qpn(&self) -> u32 {
        self.target.qpn()
    }

    /// The state it is in, as far as this side knows.
    pub(crate) fn state_now(&self) -> QpState {
        if self.watch.flags() & Watch::QP_ERROR != 0 {
            return QpState::Err;
        }
        // SAFETY: only the one handle writes it, and it is borrowed by whoever asks.
        self.target.state(unsafe { self.state.copy() })
    }

    /// Why a request cannot be posted now, when the ring said that it is full. One without places is always open.
    #[cold]
    fn full(&self, is_open: bool, may_post: fn(QpState) -> bool) -> PostError {
        let state = self.state_now();
        if is_open && may_post(state) { PostError::QueueFull } else { PostError::WrongState(state) }
    }

    #[inline(always)]
    pub(crate) fn check(&self) -> Result<(), PostError> {
        if self.watch.flags() & (Watch::DEVICE_FATAL | Watch::CQ_ERROR) != 0 { Err(self.failed()) } else { Ok(()) }
    }

    #[cold]
    fn failed(&self) -> PostError {
        if self.watch.flags() & Watch::DEVICE_FATAL != 0 { PostError::DeviceFatal } else { PostError::CqError }
    }

    /// Whether it receives from an SRQ, be it that of the QP or one that a request names.
    pub(crate) fn is_of_srq(&self) -> bool {
        self.srq.is_some() || self.kind == QpType::XrcTgt
    }

    /// Refuses where its CQs have no room for what comes when all its requests are flushed, and one receive of an SRQ. Its
    /// own completions do not count: they go with it, and what they tell of is not flushed any more.
    pub(crate) fn check_room(&self) -> Result<(), Error> {
        // The receive of an XRC target completes to the CQ of the SRQ, whichever that is.
        let Some(send_cq) = self.send_cq() else { return Ok(()) };
        let user = self.user_index.load(Ordering::Relaxed);
        let check = |room, wanted| if room < wanted { Err(Error::CqFull { wanted, room }) } else { Ok(()) };
        let (room, done) = send_cq.room_without(user, &self.target);
        let sends = self.target.send.outstanding().saturating_sub(done);
        match &self.recv_cq {
            Some(recv_cq) => check(room, sends).and_then(|()| check(recv_cq.room_without(user, &self.target).0, 1)),
            None => check(room, sends + 1),
        }
    }

    /// Pushes one send request by the long way.
    pub(crate) fn push_send(&self, ring: &mut SendRing, wr: &SendWr<'_>) -> Result<(), PostError> {
        self.push_or_open(ring, |ring| ring.push(&self.target.send, wr))
    }

    /// Pushes to the send ring; names what the ring calls full. In ERR requests are taken, to be flushed (IBA 10.3.1), and
    /// nobody has opened the ring of a QP that failed before RTS; but the send queue of a raw packet QP needs a command
    /// first.
    pub(crate) fn push_or_open<T>(
        &self,
        ring: &mut SendRing,
        mut push: impl FnMut(&mut SendRing) -> Result<T, PostError>,
    ) -> Result<T, PostError> {
        loop {
            match push(ring) {
                Err(PostError::QueueFull) => match self.full(ring.is_open(), QpState::may_post_send) {
                    PostError::WrongState(QpState::Err) if self.kind != QpType::RawPacket => ring.set_open(true),
                    error => return Err(error),
                },
                result => return result,
            }
        }
    }

    /// Pushes one receive request by the long way; names what the ring calls full.
    pub(crate) fn push_recv(&self, ring: &mut RecvRing, wr: &RecvWr<'_>) -> Result<(), PostError> {
        match ring.push(&self.target.recv, wr) {
            Err(PostError::QueueFull) if self.srq.is_some() => Err(PostError::UsesSrq),
            Err(PostError::QueueFull) => Err(self.full(ring.is_open(), QpState::may_post_recv)),
            result => result,
        }
    }
}

impl<H: PciFunction, P: Policy> Drop for QpObject<H, P> {
    fn drop(&mut self) {
        self.detach_all();
        // Nobody is there to be refused: without room in the CQs the receive is lost.
        if let Err(e) = self.leave_srq() {
            log::debug!("a QP keeps what it took from an SRQ: {e}");
        }
        let outcome = self.remove();
        let hca = self.device.hca();
        if outcome.is_err() {
            hca.unwatch(|watches| &watches.qps, self.qpn(), &self.watch);
        }
        let user = self.user_index.load(Ordering::Relaxed);
        if user != NO_USER {
            hca.users.hide(user);
            // A poll on another thread that still looks at this QP ends before these return.
            self.send_cq.iter().chain(&self.recv_cq).for_each(|cq| cq.wait());
            // What a device that keeps the QP says of it must not be taken for another's.
            if outcome.is_ok() {
                hca.control.with(|_| hca.users.remove(user));
            }
        }
        // SAFETY: taken once, and not used after.
        unsafe {
            ManuallyDrop::take(&mut self.buffer).free(hca, &outcome);
            ManuallyDrop::take(&mut self.slots).free(&hca.hal);
            ManuallyDrop::take(&mut self.wr_ids).free(&hca.hal);
        }
        hca.control.with(|control| control.qps -= 1);
    }
}
