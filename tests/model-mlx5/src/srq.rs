//! Shared receive queues: RMPs (what Linux makes of an ordinary SRQ) and XRC SRQs. Their WQEs form a linked list: each
//! names the next, and the doorbell record counts how many were linked in.

use std::collections::BTreeMap;

use bareverbs_harness::model::{Bus, DmaFault};
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{
        arm_xrc_srq, create_rmp, create_xrc_srq, destroy_rmp, destroy_xrc_srq, modify_rmp, query_rmp, query_xrc_srq,
    },
    context::{rmpc, wq, xrc_srqc},
};

use crate::{
    command::Call,
    eq::Event,
    hca::Hca,
    refusal::{Outcome, Refused, require},
    ring::{self, PageList},
};

/// Which of the two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SrqKind {
    /// Receive memory pool: an ordinary SRQ, also of UD and RC QPs.
    Rmp,
    /// XRC SRQ: has a domain and a CQ of its own.
    Xrc {
        /// XRC domain.
        xrcd: u32,
        /// Where its completions go.
        cqn: u32,
        /// For the CQE.
        user_index: u32,
    },
}

/// One receive WQE taken off a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecvWqe {
    /// What the CQE's `wqe_counter` says: the index in an SRQ, the counter in a receive queue.
    pub counter: u16,
    /// The data segments as they lie in memory (16 bytes each), the `next` segment of an SRQ left out.
    pub segments: Vec<[u8; 16]>,
}

/// A shared receive queue.
#[derive(Clone, Debug)]
pub struct Srq {
    /// Number.
    pub srqn: u32,
    /// Which kind.
    pub kind: SrqKind,
    /// Protection domain of its WQEs' keys.
    pub pd: u32,
    /// Log of the WQEs.
    pub log_size: u32,
    /// Log of the bytes of a WQE.
    pub log_stride: u32,
    /// WQE memory.
    pub memory: PageList,
    /// Doorbell record: how many were ever posted, 16 bits.
    pub dbr: u64,
    /// Index of the next WQE to take.
    pub head: u16,
    /// How many were ever taken.
    pub taken: u16,
    /// Event when fewer than this are left; 0 is not armed.
    pub limit: u16,
    /// In error: nothing can be taken.
    pub error: bool,
    /// The context as the driver gave it, for the query.
    pub raw: Vec<u8>,
}

/// All shared receive queues by number; RMPs and XRC SRQs share the numbers.
pub type Srqs = BTreeMap<u32, Srq>;

fn check(hca: &Hca, pd: u32, dbr: u64, log_size: u32, log_stride: u32) -> Outcome {
    require(hca.pds.contains_key(&pd), Status::BadResource, 0x0a00, format_args!("no PD {pd:#x}"))?;
    let fine = dbr != 0 && dbr.is_multiple_of(8) && !hca.pages.touches(dbr, 8);
    require(fine, Status::BadParameter, 0x0a01, format_args!("doorbell record at {dbr:#x}"))?;
    let max = crate::hca_cap::LOG_MAX_SRQ_SZ;
    require(log_size <= max, Status::BadParameter, 0x0a02, format_args!("2^{log_size} WQEs, at most 2^{max}"))?;
    let fits = (5..=9).contains(&log_stride);
    require(fits, Status::BadParameter, 0x0a03, format_args!("WQEs of 2^{log_stride} bytes: 32 to 512 are possible"))
}

fn number(hca: &mut Hca) -> Outcome<u32> {
    let srqn = hca.numbers.srq.take(|n| hca.srqs.contains_key(&n));
    srqn.ok_or_else(|| Refused::quiet(Status::LimitExceeded, 0x0a04, "no SRQ is left"))
}

/// CREATE_RMP.
pub fn create_rmp(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let ctx = &call.input[create_rmp::RMPC..create_rmp::RMPC + rmpc::SIZE];
    let at = |field: bareverbs_mlx5_prm::field::Field| field.at(rmpc::WQ).get(ctx);
    let state = rmpc::STATE.get(ctx);
    let ready = state == rmpc::state::READY;
    require(ready, Status::BadParameter, 0x0a05, format_args!("an RMP is created ready, not in state {state}"))?;
    let linked = at(wq::WQ_TYPE) == wq::wq_type::LINKED_LIST && rmpc::BASIC_CYCLIC_RCV_WQE.get(ctx) == 0;
    require(linked, Status::BadParameter, 0x0a06, "cyclic RMPs are not advertised")?;
    let absent = [wq::WQ_SIGNATURE, wq::END_PADDING_MODE, wq::CD_SLAVE, wq::DBR_UMEM_VALID, wq::WQ_UMEM_VALID];
    let zero = absent.iter().all(|f| at(*f) == 0);
    require(zero, Status::BadParameter, 0x0a07, "the RMP asks for something that is not advertised")?;
    let (pd, dbr) = (at(wq::PD), wq::DBR_ADDR.at(rmpc::WQ).get(ctx));
    let (log_size, log_stride) = (at(wq::LOG_WQ_SZ), at(wq::LOG_WQ_STRIDE));
    check(hca, pd, dbr, log_size, log_stride)?;
    let pas = &call.input[create_rmp::RMPC + rmpc::WQ + wq::PAS..];
    // The offset counts 64ths of a page as in other contexts.
    let (log_page, offset) = (at(wq::LOG_WQ_PG_SZ), at(wq::PAGE_OFFSET));
    let memory = ring::from_command(&hca.pages, pas, log_page, offset, 1 << (log_size + log_stride))?;
    let raw = ctx.to_vec();
    let limit = at(wq::LWM) as u16;
    let srqn = number(hca)?;
    let srq = Srq {
        srqn,
        kind: SrqKind::Rmp,
        pd,
        log_size,
        log_stride,
        memory,
        dbr,
        head: 0,
        taken: 0,
        limit,
        error: false,
        raw,
    };
    hca.srqs.insert(srqn, srq);
    create_rmp::out::RMPN.set(call.out, srqn);
    Ok(())
}

/// CREATE_XRC_SRQ.
pub fn create_xrc_srq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let ctx = &call.input[create_xrc_srq::XRC_SRQC..create_xrc_srq::XRC_SRQC + xrc_srqc::SIZE];
    let absent = [
        xrc_srqc::STATE,
        xrc_srqc::WQ_SIGNATURE,
        xrc_srqc::BASIC_CYCLIC_RCV_WQE,
        xrc_srqc::DBR_UMEM_VALID,
        xrc_srqc::USER_INDEX_EQUAL_XRC_SRQN,
    ];
    let zero = absent.iter().all(|f| f.get(ctx) == 0) && !create_xrc_srq::XRC_SRQ_UMEM_VALID.is_set(call.input);
    require(zero, Status::BadParameter, 0x0a10, "the XRC SRQ asks for something that is not advertised")?;
    let (xrcd, cqn) = (xrc_srqc::XRCD.get(ctx), xrc_srqc::CQN.get(ctx));
    require(hca.xrcds.contains_key(&xrcd), Status::BadResource, 0x0a11, format_args!("no XRC domain {xrcd:#x}"))?;
    require(hca.cqs.contains_key(&cqn), Status::BadResource, 0x0a12, format_args!("no CQ {cqn:#x}"))?;
    let (pd, dbr) = (xrc_srqc::PD.get(ctx), xrc_srqc::DBR_ADDR.get(ctx));
    let (log_size, log_stride) = (xrc_srqc::LOG_XRC_SRQ_SIZE.get(ctx), xrc_srqc::LOG_RQ_STRIDE.get(ctx) + 4);
    check(hca, pd, dbr, log_size, log_stride)?;
    let (log_page, offset) = (xrc_srqc::LOG_PAGE_SIZE.get(ctx), xrc_srqc::PAGE_OFFSET.get(ctx));
    require(log_page <= 31, Status::BadParameter, 0x0a13, format_args!("pages of 2^{log_page} * 4096 bytes"))?;
    let pas = &call.input[create_xrc_srq::PAS..];
    let memory = ring::from_command(&hca.pages, pas, log_page, offset, 1 << (log_size + log_stride))?;
    let (raw, limit) = (ctx.to_vec(), xrc_srqc::LWM.get(ctx) as u16);
    let user_index = xrc_srqc::USER_INDEX.get(ctx);
    let srqn = number(hca)?;
    let srq = Srq {
        srqn,
        kind: SrqKind::Xrc { xrcd, cqn, user_index },
        pd,
        log_size,
        log_stride,
        memory,
        dbr,
        head: 0,
        taken: 0,
        limit,
        error: false,
        raw,
    };
    hca.srqs.insert(srqn, srq);
    create_xrc_srq::out::XRC_SRQN.set(call.out, srqn);
    Ok(())
}

/// Whether there is such an SRQ, of the XRC kind or of the ordinary one.
pub fn check_kind(hca: &Hca, srqn: u32, xrc: bool) -> Outcome {
    let known = hca.srqs.get(&srqn).is_some_and(|srq| (srq.kind != SrqKind::Rmp) == xrc);
    let kind = if xrc { "XRC SRQ" } else { "RMP" };
    require(known, Status::BadResource, 0x0a20, format_args!("no {kind} {srqn:#x}"))
}

fn find(hca: &mut Hca, srqn: u32, rmp: bool) -> Outcome<&mut Srq> {
    check_kind(hca, srqn, !rmp)?;
    hca.srqs.get_mut(&srqn).ok_or_else(|| Refused::new(Status::BadResource, 0x0a20, format_args!("no SRQ {srqn:#x}")))
}

fn destroy(hca: &mut Hca, srqn: u32) -> Outcome {
    let user = hca.qps.values().find(|qp| qp.receive_from == crate::qp::ReceiveFrom::Srq(srqn));
    if let Some(qp) = user {
        let why = format_args!("QP {:#x} uses SRQ {srqn:#x}", qp.qpn).to_string();
        return Err(Refused::new(Status::BadResourceState, 0x0a21, why));
    }
    hca.srqs.remove(&srqn);
    Ok(())
}

/// DESTROY_RMP.
pub fn destroy_rmp(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let srqn = find(hca, destroy_rmp::RMPN.get(call.input), true)?.srqn;
    destroy(hca, srqn)
}

/// DESTROY_XRC_SRQ.
pub fn destroy_xrc_srq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let srqn = find(hca, destroy_xrc_srq::XRC_SRQN.get(call.input), false)?.srqn;
    destroy(hca, srqn)
}

/// QUERY_RMP.
pub fn query_rmp(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let srq = find(hca, query_rmp::RMPN.get(call.input), true)?;
    let ctx = &mut call.out[query_rmp::out::RMPC..query_rmp::out::RMPC + rmpc::SIZE];
    ctx.copy_from_slice(&srq.raw);
    let state = if srq.error { rmpc::state::ERROR } else { rmpc::state::READY };
    rmpc::STATE.set(ctx, state);
    wq::LWM.at(rmpc::WQ).set(ctx, srq.limit.into());
    wq::HW_COUNTER.at(rmpc::WQ).set(ctx, srq.taken.into());
    Ok(())
}

/// QUERY_XRC_SRQ.
pub fn query_xrc_srq(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let srq = find(hca, query_xrc_srq::XRC_SRQN.get(call.input), false)?;
    let ctx = &mut call.out[query_xrc_srq::out::XRC_SRQC..query_xrc_srq::out::XRC_SRQC + xrc_srqc::SIZE];
    ctx.copy_from_slice(&srq.raw);
    let state = if srq.error { xrc_srqc::state::ERROR } else { xrc_srqc::state::GOOD };
    xrc_srqc::STATE.set(ctx, state);
    xrc_srqc::LWM.set(ctx, srq.limit.into());
    Ok(())
}

/// MODIFY_RMP: only the limit can be changed.
pub fn modify_rmp(hca: &mut Hca, bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let ctx = &call.input[modify_rmp::RMPC..modify_rmp::RMPC + rmpc::SIZE];
    let mask = modify_rmp::BITMASK.get(call.input);
    require(mask == 1, Status::BadParameter, 0x0a22, format_args!("field mask {mask:#x}: only the limit can change"))?;
    let states = [modify_rmp::RMP_STATE.get(call.input), rmpc::STATE.get(ctx)];
    let ready = states == [rmpc::state::READY; 2];
    require(ready, Status::BadParameter, 0x0a23, format_args!("states {states:?}: an RMP stays ready"))?;
    let limit = wq::LWM.at(rmpc::WQ).get(ctx) as u16;
    let srqn = find(hca, modify_rmp::RMPN.get(call.input), true)?.srqn;
    arm(hca, bus, srqn, limit)
}

/// ARM_XRC_SRQ.
pub fn arm_xrc_srq(hca: &mut Hca, bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let srqn = find(hca, arm_xrc_srq::XRC_SRQN.get(call.input), false)?.srqn;
    arm(hca, bus, srqn, arm_xrc_srq::LWM.get(call.input) as u16)
}

fn arm(hca: &mut Hca, bus: &mut dyn Bus, srqn: u32, limit: u16) -> Outcome {
    if let Some(srq) = hca.srqs.get_mut(&srqn) {
        let size = 1u32 << srq.log_size;
        let fits = u32::from(limit) <= size;
        require(fits, Status::BadParameter, 0x0a24, format_args!("limit {limit} of {size} WQEs"))?;
        srq.limit = limit;
    }
    // Already fewer: the event comes at once.
    let posted = hca.srqs.get(&srqn).map_or(Ok(0), |srq| srq.posted(bus));
    if let Ok(posted) = posted {
        hca.check_limit(bus, srqn, posted);
    }
    Ok(())
}

impl Srq {
    fn posted(&self, bus: &mut dyn Bus) -> Result<u16, DmaFault> {
        let mut word = [0; 4];
        bus.read(self.dbr, &mut word)?;
        Ok(u16::from_be_bytes([word[2], word[3]]))
    }
}

impl Hca {
    /// The next receive WQE of an SRQ; `None` if it has none.
    pub fn take_srq(&mut self, bus: &mut dyn Bus, srqn: u32) -> Result<Option<RecvWqe>, DmaFault> {
        let Some(srq) = self.srqs.get_mut(&srqn).filter(|srq| !srq.error) else { return Ok(None) };
        let posted = srq.posted(bus)?;
        if posted == srq.taken {
            return Ok(None);
        }
        let size = 1u32 << srq.log_size;
        let waiting = posted.wrapping_sub(srq.taken);
        let head = srq.head;
        let mut wqe = vec![0; 1 << srq.log_stride];
        srq.memory.read(bus, u64::from(head) << srq.log_stride, &mut wqe)?;
        let next = u16::from_be_bytes([wqe[2], wqe[3]]);
        srq.taken = srq.taken.wrapping_add(1);
        // A WQE names its follower before that one is posted: the driver always keeps one that is free.
        srq.head = (u32::from(next) & (size - 1)) as u16;
        if u32::from(waiting) > size {
            self.violation(bus, format_args!("SRQ {srqn:#x}: {waiting} WQEs are posted, {size} fit"));
        }
        if u32::from(next) >= size {
            self.violation(bus, format_args!("SRQ {srqn:#x}: WQE {head} says that {next} follows, there are {size}"));
        }
        self.check_limit(bus, srqn, posted);
        let segments = wqe[16..].chunks_exact(16).filter_map(|s| s.try_into().ok()).collect();
        Ok(Some(RecvWqe { counter: head, segments }))
    }

    fn check_limit(&mut self, bus: &mut dyn Bus, srqn: u32, posted: u16) {
        let Some(srq) = self.srqs.get_mut(&srqn) else { return };
        if srq.limit != 0 && posted.wrapping_sub(srq.taken) < srq.limit {
            srq.limit = 0;
            self.event(bus, Event::SrqLimit(srqn));
        }
    }
}
