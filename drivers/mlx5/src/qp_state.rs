//! The transitions of a queue pair, each a command. PRM: "QP State Transition Commands".

use crate::{
    ah,
    cmd::PageList,
    cq::CqObject,
    hca::Hca,
    policy::{Lock, Policy},
    port,
    qp::QpObject,
    target::NO_QPN,
    watch::Watch,
};
use bareverbs::{
    Access, AccessOf, AckTimeout, AhAttr, Argument, Error, Gid, GlobalRoute, Lid, LinkLayer, Mac, Mtu, PortNum, Psn,
    Qkey, QpAttr, QpAttrMask, QpState, QpType, Qpn, RetryCount, RnrTimer, qp::check_transition,
};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{opt_param, qp_2err, qp_2rst, query_qp, rst2init_qp},
    context::{ads, cmd_hca_cap, qpc},
    field::Field,
};
use core::{sync::atomic::Ordering, time::Duration};

/// Packets after which an acknowledgement is asked for, as a log; Linux asks for the same.
const LOG_ACK_FREQUENCY: u32 = 8;
/// Log of the longest datagram: its MTU.
const LOG_DATAGRAM: u32 = 12;

/// How long a QP in ERR may take to say that it uses no receive of its SRQ any more.
const LAST_WQE_TIMEOUT: Duration = Duration::from_secs(1);

/// Where all transitions with a context have the same fields.
use rst2init_qp as transition;

/// Type of a QP as its context tells it.
pub(crate) fn service_type(kind: QpType) -> u32 {
    match kind {
        QpType::Rc => qpc::service_type::RC,
        QpType::Uc => qpc::service_type::UC,
        QpType::Ud => qpc::service_type::UD,
        QpType::XrcIni | QpType::XrcTgt => qpc::service_type::XRC,
        QpType::RawPacket => qpc::service_type::RAW_DATAGRAM,
    }
}

/// The command of each transition.
fn command(from: QpState, to: QpState) -> Result<Opcode, Error> {
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
    Ok(match (from, to) {
        (_, Reset) => Opcode::QP_2RST,
        (_, Err) => Opcode::QP_2ERR,
        (Reset, Init) => Opcode::RST2INIT_QP,
        (Init, Init) => Opcode::INIT2INIT_QP,
        (Init, Rtr) => Opcode::INIT2RTR_QP,
        (Rtr, Rts) => Opcode::RTR2RTS_QP,
        (Rts, Rts) => Opcode::RTS2RTS_QP,
        (Sqe, Rts) => Opcode::SQERR2RTS_QP,
        // The driver takes no QP to SQD, but a device may.
        (Sqd, Rts) => Opcode::SQD_RTS_QP,
        (_, Sqd) => return Result::Err(Error::Unsupported("draining the send queue by modify")),
        _ => return Result::Err(Error::Unsupported("this transition")),
    })
}

/// A transition's context, and the address path in it.
const QPC: usize = transition::QPC;
const PATH: usize = QPC + qpc::PRIMARY_ADDRESS_PATH;

/// Where attributes stand that are one number each.
const FIELDS: [(QpAttrMask, Field); 12] = [
    (QpAttrMask::PKEY_INDEX, ads::PKEY_INDEX.at(PATH)),
    (QpAttrMask::PORT, ads::VHCA_PORT_NUM.at(PATH)),
    (QpAttrMask::DEST_QPN, qpc::REMOTE_QPN.at(QPC)),
    (QpAttrMask::TIMEOUT, ads::ACK_TIMEOUT.at(PATH)),
    (QpAttrMask::RETRY_CNT, qpc::RETRY_COUNT.at(QPC)),
    (QpAttrMask::RNR_RETRY, qpc::RNR_RETRY.at(QPC)),
    (QpAttrMask::MAX_QP_RD_ATOMIC, qpc::LOG_SRA_MAX.at(QPC)),
    (QpAttrMask::MAX_DEST_RD_ATOMIC, qpc::LOG_RRA_MAX.at(QPC)),
    (QpAttrMask::SQ_PSN, qpc::NEXT_SEND_PSN.at(QPC)),
    (QpAttrMask::RQ_PSN, qpc::NEXT_RCV_PSN.at(QPC)),
    (QpAttrMask::MIN_RNR_TIMER, qpc::MIN_RNR_NAK.at(QPC)),
    (QpAttrMask::QKEY, qpc::Q_KEY.at(QPC)),
];

/// What changes the rights that the device is told, see [`Set::granted`].
const RIGHTS: QpAttrMask = QpAttrMask::ACCESS_FLAGS.union(QpAttrMask::MAX_DEST_RD_ATOMIC);

/// Which optional parameters a mask sets. Required ones are read without being named.
fn optional(mask: QpAttrMask) -> u32 {
    const TABLE: [(QpAttrMask, u32); 5] = [
        (RIGHTS, opt_param::RRE | opt_param::RAE | opt_param::RWE),
        (QpAttrMask::PKEY_INDEX, opt_param::PKEY_INDEX),
        (QpAttrMask::PORT, opt_param::PRI_PORT),
        (QpAttrMask::QKEY, opt_param::Q_KEY),
        (QpAttrMask::MIN_RNR_TIMER, opt_param::RNR_TIMEOUT),
    ];
    TABLE.iter().filter(|(bits, _)| mask.intersects(*bits)).fold(0, |all, (_, param)| all | param)
}

/// Of attributes that the transition takes, those that are no optional parameters of its command: RST2INIT_QP has none,
/// INIT2RTR_QP needs the RNR timer anyway, and a UC QP answers writes only (PRM: tables of "Optional Parameters").
fn untaken(kind: QpType, opcode: Opcode) -> u32 {
    let reads = if kind == QpType::Uc { opt_param::RRE | opt_param::RAE } else { 0 };
    match opcode {
        Opcode::RST2INIT_QP => u32::MAX,
        Opcode::INIT2RTR_QP => reads | opt_param::RNR_TIMEOUT,
        _ => reads,
    }
}

/// Checks values against what the device offers, but for an address, see [`set_path`]. Nothing is sent.
fn check_values<H: PciFunction, P: Policy>(hca: &Hca<H, P>, attr: &QpAttr) -> Result<(), Error> {
    let has = |bit| attr.mask.contains(bit);
    let bad = |attribute, why| Err(Error::BadAttribute { attribute, why });
    if attr.mask.intersects(QpAttrMask::ALT_PATH | QpAttrMask::PATH_MIG_STATE) {
        return Err(Error::Unsupported("alternate paths"));
    }
    if has(QpAttrMask::PORT) {
        port::check(&hca.caps, attr.port)?;
    }
    if has(QpAttrMask::PKEY_INDEX) {
        let entries = if hca.caps.link == LinkLayer::Ethernet { 1 } else { hca.caps.pkeys };
        if attr.pkey_index >= entries {
            return Err(Error::NoSuchIndex { table: Argument::Pkey, index: attr.pkey_index.into() });
        }
    }
    if has(QpAttrMask::ACCESS_FLAGS)
        && let Err(error) = attr.access.check(AccessOf::Qp, hca.caps.atomics)
    {
        return bad(QpAttrMask::ACCESS_FLAGS, if let Error::Unsupported(what) = error { what } else { "rights" });
    }
    if has(QpAttrMask::PATH_MTU) && attr.path_mtu > hca.caps.max_mtu {
        return bad(QpAttrMask::PATH_MTU, "larger than the port's");
    }
    if has(QpAttrMask::MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > hca.attr.max_qp_init_rd_atom {
        return bad(QpAttrMask::MAX_QP_RD_ATOMIC, "more than the device sends at once");
    }
    if has(QpAttrMask::MAX_DEST_RD_ATOMIC) && attr.max_dest_rd_atomic > hca.attr.max_qp_rd_atom {
        return bad(QpAttrMask::MAX_DEST_RD_ATOMIC, "more than the device answers at once");
    }
    Ok(())
}

/// Attributes that the device holds in another form than they were set, or not at all.
#[derive(Default)]
pub(crate) struct Set {
    /// Of a raw packet QP.
    pub(crate) port: PortNum,
    access: Access,
    max_rd_atomic: u8,
    max_dest_rd_atomic: u8,
}

impl Set {
    fn note(&mut self, attr: &QpAttr) {
        let has = |bit| attr.mask.contains(bit);
        if has(QpAttrMask::PORT) {
            self.port = attr.port;
        }
        if has(QpAttrMask::ACCESS_FLAGS) {
            self.access = attr.access;
        }
        if has(QpAttrMask::MAX_QP_RD_ATOMIC) {
            self.max_rd_atomic = attr.max_rd_atomic;
        }
        if has(QpAttrMask::MAX_DEST_RD_ATOMIC) {
            self.max_dest_rd_atomic = attr.max_dest_rd_atomic;
        }
    }

    /// The rights that the device is told with these attributes, if any: depth 0 as responder has no code there, so that
    /// those to READs and atomics are kept back while it holds, as Linux does (mlx5_ib, set_qpc_atomic_flags).
    fn granted(&self, attr: &QpAttr) -> Option<Access> {
        let has = |bit| attr.mask.contains(bit);
        let access = if has(QpAttrMask::ACCESS_FLAGS) { attr.access } else { self.access };
        let depth = if has(QpAttrMask::MAX_DEST_RD_ATOMIC) { attr.max_dest_rd_atomic } else { self.max_dest_rd_atomic };
        let told = attr.mask.intersects(RIGHTS).then_some(access);
        if depth == 0 { told.map(|access| access & Access::REMOTE_WRITE) } else { told }
    }
}

impl<H: PciFunction, P: Policy> QpObject<H, P> {
    /// Changes state and attributes; the handle is borrowed exclusively.
    pub(crate) fn modify(&self, attr: &QpAttr) -> Result<(), Error> {
        let from = self.state_now();
        let to = if attr.mask.contains(QpAttrMask::STATE) { attr.state } else { from };
        check_transition(self.kind, from, attr)?;
        let opcode = command(from, to)?;
        let hca = self.device.hca();
        check_values(hca, attr)?;
        match to {
            _ if self.kind == QpType::RawPacket => self.modify_raw(from, to)?,
            QpState::Reset => {
                self.leave_srq()?;
                self.without_context(opcode)?;
            }
            QpState::Err => self.without_context(opcode)?,
            _ => {
                let mut input = [0; transition::IN_LEN];
                transition::QPN.set(&mut input, self.qpn());
                transition::OPT_PARAM_MASK.set(&mut input, optional(attr.mask) & !untaken(self.kind, opcode));
                self.context(&mut input, attr)?;
                hca.execute(opcode, 0, &mut input, &PageList::None, &mut [0; transition::OUT_LEN])?;
            }
        }
        self.enter(from, to, attr);
        Ok(())
    }

    /// The transitions to RESET and ERR.
    fn without_context(&self, opcode: Opcode) -> Result<(), Error> {
        let mut input = [0; qp_2rst::IN_LEN];
        const { assert!(qp_2rst::IN_LEN == qp_2err::IN_LEN) };
        qp_2rst::QPN.set(&mut input, self.qpn());
        self.device.hca().execute(opcode, 0, &mut input, &PageList::None, &mut [0; qp_2rst::OUT_LEN])
    }

    /// Before a QP is reset or destroyed: has it give back the receive that it took from an SRQ for a message that is not
    /// complete. Reset and destroy drop it in silence; in ERR the device completes it, and says when nothing is left
    /// (ibv_get_async_event: IBV_EVENT_QP_LAST_WQE_REACHED). An error, and nothing has changed, where the CQs have no room
    /// for what would be flushed. A QP that has nothing of an SRQ is left as it is; so is one of a device that has failed,
    /// or does not answer in time.
    pub(crate) fn leave_srq(&self) -> Result<(), Error> {
        let (hca, from) = (self.device.hca(), self.state_now());
        let failed = || self.watch.flags() & Watch::DEVICE_FATAL != 0;
        if !self.is_of_srq() || self.qpn() == NO_QPN || failed() || matches!(from, QpState::Reset | QpState::Init) {
            return Ok(());
        }
        if from != QpState::Err {
            self.check_room()?;
        }
        // What came until now is nobody's any more, and makes room.
        self.sweep();
        if from != QpState::Err {
            if let Err(e) = self.without_context(Opcode::QP_2ERR) {
                return if failed() { Ok(()) } else { Err(e) };
            }
            self.watch.raise(Watch::QP_ERROR);
        }
        let deadline = hca.hal.now().saturating_add(LAST_WQE_TIMEOUT);
        while self.watch.flags() & Watch::LAST_WQE == 0 && hca.control.with(|c| c.drive(&hca.hal)).is_ok() {
            if hca.hal.now() >= deadline {
                break;
            }
            hca.hal.relax();
        }
        if from != QpState::Err {
            hca.forget_last_wqe(&self.watch);
        }
        Ok(())
    }

    /// The transition is done.
    fn enter(&self, from: QpState, to: QpState, attr: &QpAttr) {
        // SAFETY: the QP's one handle is borrowed exclusively (`modify`).
        let (send, recv, state, set) = unsafe { (self.send.get(), self.recv.get(), self.state.get(), self.set.get()) };
        if to == QpState::Reset {
            *set = Set::default();
            // The device has forgotten all requests: so do CQs, queues and rings, and the doorbell record.
            self.sweep();
            send.reset(&self.target.send);
            recv.reset(&self.target.recv);
            // What went wrong before is no news of the QP that begins now.
            self.device.hca().see_events();
            self.watch.clear(Watch::QP_ERROR | Watch::LAST_WQE);
            self.target.reset();
        }
        // Any other failure may have come while the command waited, and holds.
        if from == QpState::Sqe && to == QpState::Rts {
            self.target.resume(|| self.send_cq().map_or((), CqObject::wait));
        }
        if attr.mask.contains(QpAttrMask::PKEY_INDEX) {
            self.target.pkey_index.store(attr.pkey_index, Ordering::Relaxed);
        }
        set.note(attr);
        *state = to;
        send.set_open(to.may_post_send());
        recv.set_open(to.may_post_recv());
    }

    /// Fills a transition's context.
    fn context(&self, input: &mut [u8; transition::IN_LEN], attr: &QpAttr) -> Result<(), Error> {
        let hca = self.device.hca();
        let has = |bit| attr.mask.contains(bit);
        qpc::ST.at(QPC).set(input, service_type(self.kind));
        qpc::PM_STATE.at(QPC).set(input, qpc::path_migration::MIGRATED);
        qpc::LOG_ACK_REQ_FREQ.at(QPC).set(input, LOG_ACK_FREQUENCY);
        if self.kind == QpType::Ud {
            qpc::MTU.at(QPC).set(input, Mtu::B4096 as u32);
            qpc::LOG_MSG_MAX.at(QPC).set(input, LOG_DATAGRAM);
        } else if has(QpAttrMask::PATH_MTU) {
            qpc::MTU.at(QPC).set(input, attr.path_mtu as u32);
            qpc::LOG_MSG_MAX.at(QPC).set(input, cmd_hca_cap::LOG_MAX_MSG.get(&hca.caps.general));
        }
        let values = [
            attr.pkey_index.into(),
            attr.port.0.into(),
            attr.dest_qpn.get(),
            attr.timeout.code().into(),
            attr.retry_cnt.get().into(),
            attr.rnr_retry.get().into(),
            // Not more than the peer may answer; of depth 0 it answers none.
            attr.max_rd_atomic.max(1).ilog2(),
            u32::from(attr.max_dest_rd_atomic).next_power_of_two().trailing_zeros(),
            attr.sq_psn.get(),
            attr.rq_psn.get(),
            attr.min_rnr_timer.code().into(),
            attr.qkey.0,
        ];
        for ((bit, field), value) in FIELDS.iter().zip(values) {
            if has(*bit) {
                field.set(input, value);
            }
        }
        if has(QpAttrMask::AV) {
            set_path(hca, &mut input[PATH..PATH + ads::SIZE], &attr.av, self.qpn(), attr.dest_qpn)?;
        }
        // SAFETY: the QP's one handle is borrowed exclusively (`modify` of the trait).
        if let Some(access) = unsafe { self.set.get() }.granted(attr) {
            qpc::RRE.at(QPC).set(input, access.contains(Access::REMOTE_READ).into());
            qpc::RWE.at(QPC).set(input, access.contains(Access::REMOTE_WRITE).into());
            if access.contains(Access::REMOTE_ATOMIC) {
                qpc::RAE.at(QPC).set(input, 1);
                qpc::ATOMIC_MODE.at(QPC).set(input, qpc::atomic_mode::IB_SPEC);
            }
        }
        Ok(())
    }

    /// What the device holds. PRM: QUERY_QP.
    pub(crate) fn query(&self) -> Result<QpAttr, Error> {
        if self.kind == QpType::RawPacket {
            return self.query_raw();
        }
        const QPC: usize = query_qp::out::QPC;
        const PATH: usize = QPC + qpc::PRIMARY_ADDRESS_PATH;
        let hca = self.device.hca();
        let mut input = [0; query_qp::IN_LEN];
        query_qp::QPN.set(&mut input, self.qpn());
        let mut out = [0; query_qp::OUT_LEN];
        hca.execute(query_qp::OPCODE, 0, &mut input, &PageList::None, &mut out)?;
        let get = |field: Field| field.get(&out[QPC..]);
        let path = &out[PATH..PATH + ads::SIZE];
        let bad = |why| Error::BadAnswer { opcode: query_qp::OPCODE.0, why };
        let state = state(get(qpc::STATE)).ok_or(bad("state of a QP"))?;
        let mut attr = QpAttr::to(state);
        attr.cur_state = state;
        attr.cap = self.cap;
        attr.path_mtu = Mtu::from_code(get(qpc::MTU) as u8).unwrap_or_default();
        attr.qkey = Qkey(get(qpc::Q_KEY));
        attr.rq_psn = Psn::new(get(qpc::NEXT_RCV_PSN));
        attr.sq_psn = Psn::new(get(qpc::NEXT_SEND_PSN));
        attr.dest_qpn = Qpn::new(get(qpc::REMOTE_QPN));
        attr.access.set(Access::REMOTE_READ, get(qpc::RRE) != 0);
        attr.access.set(Access::REMOTE_WRITE, get(qpc::RWE) != 0);
        attr.access.set(Access::REMOTE_ATOMIC, get(qpc::RAE) != 0);
        attr.pkey_index = ads::PKEY_INDEX.get(path) as u16;
        attr.port = PortNum(ads::VHCA_PORT_NUM.get(path) as u8);
        attr.min_rnr_timer = RnrTimer::from_code(get(qpc::MIN_RNR_NAK) as u8).ok_or(bad("RNR timer of a QP"))?;
        attr.timeout = AckTimeout::from_code(ads::ACK_TIMEOUT.get(path) as u8).unwrap_or(AckTimeout::INFINITE);
        attr.retry_cnt = RetryCount::new(get(qpc::RETRY_COUNT) as u8).unwrap_or(RetryCount::MAX);
        attr.rnr_retry = RetryCount::new(get(qpc::RNR_RETRY) as u8).unwrap_or(RetryCount::MAX);
        attr.av = get_path(hca.caps.link, path);
        // SAFETY: the QP's one handle is borrowed exclusively (`query` of the trait).
        let (set, now) = unsafe { (self.set.get(), self.state.get()) };
        (attr.max_rd_atomic, attr.max_dest_rd_atomic) = (set.max_rd_atomic, set.max_dest_rd_atomic);
        if set.max_dest_rd_atomic == 0 {
            // Kept back, see `granted`.
            attr.access |= set.access & (Access::REMOTE_READ | Access::REMOTE_ATOMIC);
        }
        *now = state;
        Ok(attr)
    }
}

/// State as the device tells it.
fn state(code: u32) -> Option<QpState> {
    Some(match code {
        qpc::state::RST => QpState::Reset,
        qpc::state::INIT => QpState::Init,
        qpc::state::RTR => QpState::Rtr,
        qpc::state::RTS => QpState::Rts,
        qpc::state::SQER => QpState::Sqe,
        qpc::state::SQD | qpc::state::SQ_DRAINING => QpState::Sqd,
        qpc::state::ERR => QpState::Err,
        _ => return None,
    })
}

/// Writes an address path. PRM: "Address Path Structure".
fn set_path<H: PciFunction, P: Policy>(
    hca: &Hca<H, P>,
    path: &mut [u8],
    av: &AhAttr,
    qpn: u32,
    dest: Qpn,
) -> Result<(), Error> {
    let resolved = ah::resolve(&hca.caps, av, Some((qpn, dest.get())))?;
    match hca.caps.link {
        LinkLayer::InfiniBand => {
            ads::RLID.set(path, av.dlid.0.into());
            ads::MLID.set(path, av.src_path_bits.into());
            ads::SL.set(path, av.sl.into());
            ads::GRH.set(path, av.grh.is_some().into());
        }
        LinkLayer::Ethernet => {
            ads::RMAC.set(path, &resolved.dmac.0);
            ads::ETH_PRIO.set(path, av.sl.into());
            ads::UDP_SPORT.set(path, resolved.udp_sport.into());
        }
    }
    if let Some(grh) = &av.grh {
        ads::SRC_ADDR_INDEX.set(path, grh.sgid_index.into());
        ads::HOP_LIMIT.set(path, grh.hop_limit.into());
        ads::TCLASS.set(path, grh.traffic_class.into());
        ads::FLOW_LABEL.set(path, grh.flow_label);
        ads::RGID_RIP.set(path, &grh.dgid.0);
        if hca.caps.link == LinkLayer::Ethernet {
            ads::DSCP.set(path, (grh.traffic_class >> 2).into());
        }
    }
    ads::STAT_RATE.set(path, resolved.rate.into());
    ads::VHCA_PORT_NUM.set(path, av.port.0.into());
    Ok(())
}

/// Reads an address path.
fn get_path(link: LinkLayer, path: &[u8]) -> AhAttr {
    let has_grh = link == LinkLayer::Ethernet || ads::GRH.is_set(path);
    let grh = has_grh.then(|| GlobalRoute {
        dgid: Gid(ads::RGID_RIP.array(path)),
        sgid_index: ads::SRC_ADDR_INDEX.get(path) as u8,
        flow_label: ads::FLOW_LABEL.get(path),
        hop_limit: ads::HOP_LIMIT.get(path) as u8,
        traffic_class: ads::TCLASS.get(path) as u8,
    });
    let ethernet = link == LinkLayer::Ethernet;
    AhAttr {
        port: PortNum(ads::VHCA_PORT_NUM.get(path) as u8),
        dlid: Lid(ads::RLID.get(path) as u16),
        sl: if ethernet { ads::ETH_PRIO.get(path) } else { ads::SL.get(path) } as u8,
        src_path_bits: ads::MLID.get(path) as u8,
        static_rate: ads::STAT_RATE.get(path).saturating_sub(ads::STAT_RATE_OFFSET) as u8,
        grh,
        dmac: ethernet.then(|| Mac(ads::RMAC.array(path))),
        udp_sport: ethernet.then(|| ads::UDP_SPORT.get(path) as u16),
    }
}
