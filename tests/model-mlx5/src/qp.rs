//! Queue pairs: the context as the driver gave it, and what the transport keeps beside it.

use std::collections::{BTreeMap, VecDeque};

use bareverbs_harness::model::{Bus, DmaFault, LinkKind};
pub use bareverbs_mlx5_prm::context::{ads, qpc};
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{create_qp as create, destroy_qp as destroy, query_qp as query},
    field::Field,
};

use crate::{
    command::Call,
    hca::Hca,
    hca_cap::LOG_MAX_QP_SZ,
    refusal::{Outcome, Refused, require},
    ring::{self, PageList},
    srq, transport, umem,
};

/// States, as the context counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpState {
    /// Reset.
    Reset = 0,
    /// Init.
    Init = 1,
    /// Ready to receive.
    ReadyToReceive = 2,
    /// Ready to send.
    ReadyToSend = 3,
    /// Send queue error.
    SendQueueError = 4,
    /// Send queue drained.
    SendQueueDrained = 5,
    /// Error.
    Error = 6,
}

/// Transport services, as the context counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Unreliable datagram.
    Ud = 2,
    /// Extended reliable connection.
    Xrc = 3,
    /// QP0: subnet management.
    Qp0 = 7,
    /// QP1: general management.
    Qp1 = 8,
    /// UMR only: registers memory, sends nothing.
    Umr = 0xc,
}

/// Where receives come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveFrom {
    /// The QP's own receive queue.
    Own,
    /// A shared receive queue.
    Srq(u32),
    /// Nowhere: there is no receive queue.
    Nowhere,
}

/// A send queue.
#[derive(Clone, Debug, Default)]
pub struct SendQueue {
    /// Basic blocks of 64 bytes; 0 is no send queue.
    pub blocks: u32,
    /// WQE memory.
    pub memory: PageList,
    /// Next block to execute, 16 bits; kept by the transport.
    pub consumer: u16,
    /// Where the doorbell said that the driver is, 16 bits; kept by the transport.
    pub producer: u16,
    /// Index and completion flags of WQEs that BlueFlame brought: those flags count. Kept by the transport.
    pub brought: VecDeque<(u16, u8)>,
}

impl SendQueue {
    /// The completion flags with which BlueFlame brought the WQE of this index, if it did. Older ones are forgotten.
    pub fn take_brought(&mut self, index: u16) -> Option<u8> {
        while let Some(&(brought, flags)) = self.brought.front() {
            if brought.wrapping_sub(index) > 0x8000 {
                self.brought.pop_front();
                continue;
            }
            return (brought == index).then_some(flags);
        }
        None
    }
}

/// A receive queue.
#[derive(Clone, Debug, Default)]
pub struct ReceiveQueue {
    /// WQEs; 0 is none of its own.
    pub size: u32,
    /// Bytes of a WQE.
    pub stride: u32,
    /// WQE memory.
    pub memory: PageList,
    /// Next WQE to take, 16 bits; kept by the transport.
    pub consumer: u16,
}

/// A queue pair.
#[derive(Clone, Debug)]
pub struct Qp {
    /// Number.
    pub qpn: u32,
    /// State. Only [`Hca::set_qp_state`](crate::Hca::set_qp_state) writes it.
    pub state: QpState,
    /// Service.
    pub service: Service,
    /// Where receives come from.
    pub receive_from: ReceiveFrom,
    /// Address of the doorbell record.
    pub dbr: u64,
    /// The user memories of doorbell record and work queues.
    pub umems: [Option<u32>; 2],
    /// The context at creation; a reset goes back to it.
    pub created: [u8; qpc::SIZE],
    /// The context as the driver gave it: [`qpc`], [`ads`].
    pub ctx: [u8; qpc::SIZE],
    /// Send queue.
    pub sq: SendQueue,
    /// Receive queue.
    pub rq: ReceiveQueue,
    /// What the transport keeps.
    pub transport: transport::QpTransport,
}

/// All queue pairs by number.
pub type Qps = BTreeMap<u32, Qp>;

impl Service {
    /// From the context's code.
    pub fn from_raw(raw: u32) -> Option<Self> {
        use Service::*;
        [Rc, Uc, Ud, Xrc, Qp0, Qp1, Umr].into_iter().find(|s| *s as u32 == raw)
    }

    /// Has a peer: RC, UC, XRC.
    pub fn connected(self) -> bool {
        matches!(self, Self::Rc | Self::Uc | Self::Xrc)
    }

    /// Acknowledged: RC, XRC.
    pub fn reliable(self) -> bool {
        matches!(self, Self::Rc | Self::Xrc)
    }
}

impl Qp {
    /// A field of the context.
    pub fn get(&self, field: Field) -> u32 {
        field.get(&self.ctx)
    }

    /// A field of the primary path.
    pub fn path(&self, field: Field) -> u32 {
        field.at(qpc::PRIMARY_ADDRESS_PATH).get(&self.ctx)
    }

    /// Destination GID of the primary path.
    pub fn path_gid(&self) -> [u8; 16] {
        ads::RGID_RIP.at(qpc::PRIMARY_ADDRESS_PATH).array(&self.ctx)
    }

    /// Destination MAC of the primary path.
    pub fn path_mac(&self) -> [u8; 6] {
        ads::RMAC.at(qpc::PRIMARY_ADDRESS_PATH).array(&self.ctx)
    }

    /// Path MTU in bytes; 0 while it was not set.
    pub fn mtu(&self) -> usize {
        match self.get(qpc::MTU) {
            n @ 1..=5 => 128 << n,
            _ => 0,
        }
    }

    /// Protection domain.
    pub fn pd(&self) -> u32 {
        self.get(qpc::PD)
    }

    /// Reads the doorbell record: how many receive WQEs and how many send blocks were posted, 16 bits each.
    pub fn read_dbr(&self, bus: &mut dyn Bus) -> Result<(u16, u16), DmaFault> {
        let mut words = [0; 8];
        bus.read(self.dbr, &mut words)?;
        Ok((u16::from_be_bytes([words[2], words[3]]), u16::from_be_bytes([words[6], words[7]])))
    }
}

/// Context fields that ask for something that is not advertised.
const ABSENT: &[(Field, &str)] = &[
    (qpc::STATE, "a state"),
    (qpc::LAG_TX_PORT_AFFINITY, "link aggregation"),
    (qpc::ISOLATE_VL_TC, "VL isolation"),
    (qpc::OFFLOAD_TYPE, "an offload type"),
    (qpc::END_PADDING_MODE, "end padding"),
    (qpc::WQ_SIGNATURE, "WQE signatures"),
    (qpc::ATOMIC_LIKE_WRITE_EN, "atomic-like writes"),
    (qpc::DRAIN_SIGERR, "draining on signature errors"),
    (qpc::CD_MASTER, "cross-channel operation"),
    (qpc::CD_SLAVE_SEND, "cross-channel operation"),
    (qpc::CD_SLAVE_RECEIVE, "cross-channel operation"),
    (qpc::BLOCK_LB_MC, "blocking multicast loopback"),
    (qpc::CS_REQ, "scatter to CQE"),
    (qpc::CS_RES, "scatter to CQE"),
];

/// CREATE_QP: checks what the context names, and lays out the work queues: receive first, then send.
pub fn create_qp(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let mut ctx = [0; qpc::SIZE];
    ctx.copy_from_slice(&call.input[create::QPC..create::QPC + qpc::SIZE]);
    for (field, what) in ABSENT {
        let asks = format!("the QP asks for {what}, which is not advertised");
        require(field.get(&ctx) == 0, Status::BadParameter, 0x0900, asks)?;
    }
    let absent = create::ECE.get(call.input);
    require(absent == 0, Status::BadParameter, 0x0901, "ECE is not advertised")?;
    let wish = create::INPUT_QPN.get(call.input);
    require(wish == 0, Status::BadParameter, 0x0902, "a QPN cannot be asked for")?;
    let st = qpc::ST.get(&ctx);
    let Some(service) = Service::from_raw(st) else {
        return Err(Refused::quiet(Status::BadParameter, 0x0903, format_args!("service type {st} is not advertised")));
    };
    let pd = qpc::PD.get(&ctx);
    // Linux 6.1 names no PD for its UMR QP (mlx5_ib create_kernel_qp).
    let known = hca.pds.contains_key(&pd) || service == Service::Umr && pd == 0;
    require(known, Status::BadResource, 0x0904, format_args!("no PD {pd:#x}"))?;
    let receive_from = receive_from(hca, service, &ctx)?;
    cqs(hca, receive_from, &ctx)?;
    if service == Service::Xrc {
        let xrcd = qpc::XRCD.get(&ctx);
        let known = hca.xrcds.contains_key(&xrcd);
        require(known, Status::BadResource, 0x0905, format_args!("no XRC domain {xrcd:#x}"))?;
    }
    let fits = service != Service::Qp0 || hca.config.link == LinkKind::InfiniBand;
    require(fits, Status::BadParameter, 0x0906, "there is no QP0 on an Ethernet port")?;

    let own = receive_from == ReceiveFrom::Own;
    let (mut size, mut stride, mut blocks) = (0u32, 0u32, 0u32);
    if own {
        let (log_size, log_stride) = (qpc::LOG_RQ_SIZE.get(&ctx), qpc::LOG_RQ_STRIDE.get(&ctx));
        check_log_size(log_size)?;
        (size, stride) = (1 << log_size, 16 << log_stride);
    }
    if !qpc::NO_SQ.is_set(&ctx) {
        check_log_size(qpc::LOG_SQ_SIZE.get(&ctx))?;
        blocks = 1 << qpc::LOG_SQ_SIZE.get(&ctx);
        let uar = qpc::UAR_PAGE.get(&ctx);
        require(hca.uars.contains(&uar), Status::BadResource, 0x0907, format_args!("UAR {uar:#x} is not allocated"))?;
    }
    let mut umems = [None; 2];
    let mut dbr = qpc::DBR_ADDR.get(&ctx);
    if qpc::DBR_UMEM_VALID.is_set(&ctx) {
        let id = qpc::DBR_UMEM_ID.get(&ctx);
        dbr = umem::doorbell_record(hca, id, dbr)?;
        umems[0] = Some(id);
    }
    if blocks > 0 || own {
        let fine = dbr != 0 && dbr.is_multiple_of(8) && !hca.pages.touches(dbr, 8);
        require(fine, Status::BadParameter, 0x0908, format_args!("doorbell record at {dbr:#x}"))?;
    }
    let rq_len = u64::from(size) * u64::from(stride);
    let sq_len = u64::from(blocks) * 64;
    let pas = &call.input[create::PAS..];
    let (log_page, offset) = (qpc::LOG_PAGE_SIZE.get(&ctx), qpc::PAGE_OFFSET.get(&ctx));
    let memory = if create::WQ_UMEM_VALID.is_set(call.input) {
        let (id, at) = (create::WQ_UMEM_ID.get(call.input), create::WQ_UMEM_OFFSET.get(call.input));
        umems[1] = Some(id);
        umem::queue(hca, id, at, rq_len + sq_len)?
    } else {
        ring::from_command(&hca.pages, pas, log_page, offset, rq_len + sq_len)?
    };
    let Some(qpn) = hca.numbers.qp.take(|n| hca.qps.contains_key(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x0909, "no QP is left"));
    };
    let qp = Qp {
        qpn,
        state: QpState::Reset,
        service,
        receive_from,
        dbr,
        umems,
        created: ctx,
        ctx,
        sq: SendQueue { blocks, memory: memory.part(rq_len, sq_len), ..SendQueue::default() },
        rq: ReceiveQueue { size, stride, memory: memory.part(0, rq_len), ..ReceiveQueue::default() },
        transport: transport::QpTransport::default(),
    };
    hca.qps.insert(qpn, qp);
    create::out::QPN.set(call.out, qpn);
    Ok(())
}

fn check_log_size(log_size: u32) -> Outcome {
    let max = LOG_MAX_QP_SZ;
    require(log_size <= max, Status::BadParameter, 0x090a, format_args!("2^{log_size} WQEs, at most 2^{max}"))
}

fn receive_from(hca: &Hca, service: Service, ctx: &[u8]) -> Outcome<ReceiveFrom> {
    match qpc::RQ_TYPE.get(ctx) {
        qpc::rq_type::REGULAR => {
            let allowed = service != Service::Xrc;
            require(allowed, Status::BadParameter, 0x0911, "an XRC QP receives from SRQs only")?;
            Ok(ReceiveFrom::Own)
        }
        qpc::rq_type::ZERO_SIZE => Ok(ReceiveFrom::Nowhere),
        qpc::rq_type::SRQ => {
            // mlx5_ib gives XRC QPs an SRQ of the XRC kind and all others one of the ordinary kind, its place holders
            // too (`mlx5_ib_dev_res_init`: s0, s1).
            let srqn = qpc::SRQN_RMPN_XRQN.get(ctx);
            srq::check_kind(hca, srqn, service == Service::Xrc)?;
            let allowed = !matches!(service, Service::Uc | Service::Umr | Service::Qp0);
            require(allowed, Status::BadParameter, 0x090c, format_args!("{service:?} cannot use an SRQ"))?;
            Ok(ReceiveFrom::Srq(srqn))
        }
        other => Err(Refused::new(Status::BadParameter, 0x090d, format_args!("receive queue type {other}"))),
    }
}

fn cqs(hca: &Hca, receive_from: ReceiveFrom, ctx: &[u8]) -> Outcome {
    let needed = [(qpc::CQN_SND, !qpc::NO_SQ.is_set(ctx)), (qpc::CQN_RCV, receive_from != ReceiveFrom::Nowhere)];
    for (field, needed) in needed {
        let cqn = field.get(ctx);
        let known = hca.cqs.contains_key(&cqn) || !needed && cqn == 0;
        require(known, Status::BadResource, 0x090e, format_args!("no CQ {cqn:#x}"))?;
    }
    Ok(())
}

/// The QP of this number, or a refusal.
pub fn find(hca: &Hca, qpn: u32) -> Outcome<&Qp> {
    hca.qps.get(&qpn).ok_or_else(|| Refused::new(Status::BadResource, 0x090f, format_args!("no QP {qpn:#x}")))
}

/// DESTROY_QP: in any state.
pub fn destroy_qp(hca: &mut Hca, bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let qpn = find(hca, destroy::QPN.get(call.input))?.qpn;
    if hca.multicast.values().any(|qpns| qpns.contains(&qpn)) {
        return Err(Refused::new(Status::BadResourceState, 0x0910, "the QP is attached to a multicast group"));
    }
    hca.set_qp_state(bus, qpn, QpState::Reset);
    hca.qps.remove(&qpn);
    Ok(())
}

/// QUERY_QP: what was set, and where the queue is.
pub fn query_qp(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let qp = find(hca, query::QPN.get(call.input))?;
    let ctx = &mut call.out[query::out::QPC..query::out::QPC + qpc::SIZE];
    ctx.copy_from_slice(&qp.ctx);
    qpc::STATE.set(ctx, qp.state as u32);
    transport::fill_context(hca, qp.qpn, ctx);
    Ok(())
}
