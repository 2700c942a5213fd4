//! Raw packet QPs: to the device they are a send queue (SQ) with its transport interface (TIS), and a receive queue (RQ)
//! with its own (TIR). PRM: "SQ Context", "RQ Context", "TIS Context", "TIR Context".
//!
//! The QP's number is the SQ's; number space and doorbells of SQs are those of QPs.

use crate::{
    cmd::PageList,
    control::Control,
    policy::{Lock, Policy},
    qp::{QpObject, record_offset},
    target::NO_QPN,
};
use bareverbs::{Error, QpAttr, QpState};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{create_rq, create_sq, create_tir, create_tis, modify_sq, query_sq},
    context::{rqc, sqc, tirc, tisc, wq},
};
use core::sync::atomic::{AtomicU32, Ordering};

/// Log of the bytes of a basic block.
const LOG_BLOCK: u32 = 6;

/// Numbers of what the device has for a raw packet QP; [`NO_QPN`] is none.
pub(crate) struct Numbers {
    tis: AtomicU32,
    sq: AtomicU32,
    rq: AtomicU32,
    tir: AtomicU32,
}

impl Default for Numbers {
    fn default() -> Self {
        let none = || AtomicU32::new(NO_QPN);
        Self { tis: none(), sq: none(), rq: none(), tir: none() }
    }
}

/// The state of an SQ or RQ; both contexts count alike.
const _: () = assert!(
    sqc::state::RST == rqc::state::RST && sqc::state::RDY == rqc::state::RDY && sqc::state::ERR == rqc::state::ERR
);
use sqc::state::{ERR, RDY, RST};

/// One of the two queues: the commands that ask for its state and change it.
#[derive(Clone, Copy)]
struct Queue {
    query: Opcode,
    modify: Opcode,
}

const SQ: Queue = Queue { query: Opcode::QUERY_SQ, modify: Opcode::MODIFY_SQ };
const RQ: Queue = Queue { query: Opcode::QUERY_RQ, modify: Opcode::MODIFY_RQ };

/// The QP's state by those of its queues, where `now` is what it was brought to: an SQ that waits in reset does not tell
/// INIT from RTR.
fn state(sq: u32, rq: Option<u32>, now: QpState) -> Option<QpState> {
    Some(match (sq, rq.unwrap_or(sq)) {
        (RST, RST) if rq.is_none() && matches!(now, QpState::Init | QpState::Rtr) => now,
        (RST, RST) => QpState::Reset,
        (RST, RDY) if matches!(now, QpState::Init | QpState::Rtr) => now,
        (RST, RDY) => QpState::Init,
        (RDY, RDY) => QpState::Rts,
        (ERR, RDY) => QpState::Sqe,
        (_, ERR) => QpState::Err,
        _ => return None,
    })
}

impl<H: PciFunction, P: Policy> QpObject<H, P> {
    /// The TIR to which flow rules lead.
    pub(crate) fn tirn(&self) -> u32 {
        self.raw.tir.load(Ordering::Relaxed)
    }

    /// Makes all four objects; what was made before an error goes with the QP. Gives back the QP's number.
    pub(crate) fn create_raw(&self, user: u32) -> Result<u32, Error> {
        let hca = self.device.hca();
        let domain = hca.control.with(|control| control.transport_domain(&hca.hal))?;
        self.create_tis(domain)?;
        let sqn = self.create_sq(user)?;
        self.watch.set_raw(0);
        if self.shape.recv.is_some() {
            let rqn = self.create_rq(user)?;
            self.watch.set_raw(rqn);
            self.create_tir(domain, rqn)?;
        }
        Ok(sqn)
    }

    fn create_tis(&self, domain: u32) -> Result<(), Error> {
        let mut input = [0; create_tis::IN_LEN];
        tisc::TRANSPORT_DOMAIN.at(create_tis::TISC).set(&mut input, domain);
        let mut out = [0; create_tis::OUT_LEN];
        self.device.hca().execute(Opcode::CREATE_TIS, 0, &mut input, &PageList::None, &mut out)?;
        self.raw.tis.store(create_tis::out::TISN.get(&out), Ordering::Relaxed);
        Ok(())
    }

    fn create_sq(&self, user: u32) -> Result<u32, Error> {
        const SQC: usize = create_sq::SQC;
        const WQ: usize = SQC + sqc::WQ;
        let hca = self.device.hca();
        let mut input = [0; create_sq::IN_LEN];
        let q = &mut input;
        sqc::FLUSH_IN_ERROR_EN.at(SQC).set(q, 1);
        sqc::MIN_WQE_INLINE_MODE.at(SQC).set(q, hca.caps.inline.mode());
        sqc::STATE.at(SQC).set(q, RST);
        sqc::USER_INDEX.at(SQC).set(q, user);
        sqc::CQN.at(SQC).set(q, self.send_cq().map_or(0, |cq| cq.cqn()));
        sqc::TIS_LST_SZ.at(SQC).set(q, 1);
        sqc::TIS_NUM_0.at(SQC).set(q, self.raw.tis.load(Ordering::Relaxed));
        wq::UAR_PAGE.at(WQ).set(q, hca.uar.number);
        let log_blocks = self.shape.send.unwrap_or(0);
        let pages = self.work_queue(&mut q[WQ..], self.shape.send_at(), log_blocks, LOG_BLOCK);
        let mut out = [0; create_sq::OUT_LEN];
        hca.execute(Opcode::CREATE_SQ, 0, &mut input, &pages, &mut out)?;
        let sqn = create_sq::out::SQN.get(&out);
        self.raw.sq.store(sqn, Ordering::Relaxed);
        Ok(sqn)
    }

    fn create_rq(&self, user: u32) -> Result<u32, Error> {
        const RQC: usize = create_rq::RQC;
        const WQ: usize = RQC + rqc::WQ;
        let hca = self.device.hca();
        let mut input = [0; create_rq::IN_LEN];
        let q = &mut input;
        // VLAN tags stay in the frame.
        rqc::VSD.at(RQC).set(q, 1);
        rqc::FLUSH_IN_ERROR_EN.at(RQC).set(q, 1);
        rqc::STATE.at(RQC).set(q, RST);
        rqc::USER_INDEX.at(RQC).set(q, user);
        rqc::CQN.at(RQC).set(q, self.recv_cq().map_or(0, |cq| cq.cqn()));
        let (log_slots, log_stride) = self.shape.recv.unwrap_or((0, 4));
        let pages = self.work_queue(&mut q[WQ..], 0, log_slots, log_stride);
        let mut out = [0; create_rq::OUT_LEN];
        hca.execute(Opcode::CREATE_RQ, 0, &mut input, &pages, &mut out)?;
        let rqn = create_rq::out::RQN.get(&out);
        self.raw.rq.store(rqn, Ordering::Relaxed);
        Ok(rqn)
    }

    fn create_tir(&self, domain: u32, rqn: u32) -> Result<(), Error> {
        let mut input = [0; create_tir::IN_LEN];
        tirc::INLINE_RQN.at(create_tir::TIRC).set(&mut input, rqn);
        tirc::TRANSPORT_DOMAIN.at(create_tir::TIRC).set(&mut input, domain);
        let mut out = [0; create_tir::OUT_LEN];
        self.device.hca().execute(Opcode::CREATE_TIR, 0, &mut input, &PageList::None, &mut out)?;
        self.raw.tir.store(create_tir::out::TIRN.get(&out), Ordering::Relaxed);
        Ok(())
    }

    /// Fills the work queue of a context, and gives its pages. PRM: "Work Queue Context".
    fn work_queue(&self, q: &mut [u8], at: usize, log_size: u32, log_stride: u32) -> PageList<'static> {
        let len = 1 << (log_size + log_stride);
        wq::WQ_TYPE.set(q, wq::wq_type::CYCLIC);
        wq::PD.set(q, self.pd_number());
        wq::DBR_ADDR.set(q, self.buffer.addr(record_offset(&self.shape)));
        wq::LOG_WQ_STRIDE.set(q, log_stride);
        wq::LOG_WQ_PG_SZ.set(q, self.buffer.log_page_at(at, len) - 12);
        wq::LOG_WQ_SZ.set(q, log_size);
        self.buffer.pages_at(at, len)
    }

    /// Refuses a QP of which a part is gone and another would not go: it only can be destroyed. So can one of a device that
    /// has failed.
    #[inline(never)]
    pub(crate) fn check_whole(&self) -> Result<(), Error> {
        self.device.hca().check_alive()?;
        let first = if self.shape.recv.is_some() { &self.raw.tir } else { &self.raw.sq };
        match first.load(Ordering::Relaxed) {
            NO_QPN => Err(Error::Unsupported("a QP that is half destroyed")),
            _ => Ok(()),
        }
    }

    /// Takes everything from the device, each object once. PRM: DESTROY_TIR, DESTROY_RQ, DESTROY_SQ, DESTROY_TIS.
    pub(crate) fn destroy_raw(&self) -> Result<(), Error> {
        let objects = [
            (&self.raw.tir, Opcode::DESTROY_TIR),
            (&self.raw.rq, Opcode::DESTROY_RQ),
            (&self.raw.sq, Opcode::DESTROY_SQ),
            (&self.raw.tis, Opcode::DESTROY_TIS),
        ];
        for (number, opcode) in objects {
            let n = number.load(Ordering::Relaxed);
            if n != NO_QPN {
                self.device.hca().destroy(opcode, n)?;
                number.store(NO_QPN, Ordering::Relaxed);
                // SAFETY: the QP's one handle, or its last one, is at work.
                let (send, recv, state) = unsafe { (self.send.get(), self.recv.get(), self.state.get()) };
                *state = QpState::Err;
                send.set_open(false);
                recv.set_open(false);
                if opcode == Opcode::DESTROY_SQ {
                    self.lose_number();
                }
            }
        }
        Ok(())
    }

    /// Changes the state: receives are taken from INIT on, sends from RTS on.
    pub(crate) fn modify_raw(&self, from: QpState, to: QpState) -> Result<(), Error> {
        self.check_whole()?;
        let (sq, rq) = match (from, to) {
            (_, QpState::Reset) => (Some(RST), Some(RST)),
            (_, QpState::Err) => (Some(ERR), Some(ERR)),
            (QpState::Reset, QpState::Init) => (None, Some(RDY)),
            (QpState::Rtr, QpState::Rts) => (Some(RDY), None),
            // Nothing changes for the device.
            _ => (None, None),
        };
        if let Some(wanted) = sq {
            self.modify_queue(SQ, &self.raw.sq, wanted)?;
        }
        if let (Some(wanted), true) = (rq, self.shape.recv.is_some()) {
            self.modify_queue(RQ, &self.raw.rq, wanted)?;
        }
        Ok(())
    }

    fn modify_queue(&self, queue: Queue, number: &AtomicU32, wanted: u32) -> Result<(), Error> {
        let (hca, number) = (self.device.hca(), number.load(Ordering::Relaxed));
        hca.control.with(|control| control.modify_queue(&hca.hal, queue, number, wanted))
    }

    fn query_queue(&self, queue: Queue, number: &AtomicU32) -> Result<u32, Error> {
        let (hca, number) = (self.device.hca(), number.load(Ordering::Relaxed));
        hca.control.with(|control| control.query_queue(&hca.hal, queue, number))
    }

    /// What the device holds: the states of both queues.
    pub(crate) fn query_raw(&self) -> Result<QpAttr, Error> {
        self.check_whole()?;
        let sq = self.query_queue(SQ, &self.raw.sq)?;
        let rq = if self.shape.recv.is_some() { Some(self.query_queue(RQ, &self.raw.rq)?) } else { None };
        // SAFETY: the QP's one handle is borrowed exclusively (`query` of the trait).
        let now = unsafe { self.state.get() };
        let bad = Error::BadAnswer { opcode: Opcode::QUERY_SQ.0, why: "states of a raw packet QP's queues" };
        *now = state(sq, rq, *now).ok_or(bad)?;
        let mut attr = QpAttr::to(*now);
        attr.cur_state = *now;
        attr.cap = self.cap;
        // SAFETY: as above.
        attr.port = unsafe { self.set.get() }.port;
        Ok(attr)
    }
}

/// The commands of both queues have their fields in the same places, as the test below compares them.
impl Control {
    /// Takes the queues of a raw packet QP to ERR; an RQ 0 is none.
    pub(crate) fn fail_raw<H: PciFunction>(&mut self, hal: &H, sqn: u32, rqn: u32) {
        for (queue, number) in [(SQ, Some(sqn)), (RQ, Some(rqn).filter(|rqn| *rqn != 0))] {
            let result = number.map(|number| self.modify_queue(hal, queue, number, ERR));
            log::debug!("{:?} of a raw packet QP, whose CQ has failed, to ERR: {result:?}", queue.modify);
        }
    }

    /// PRM: MODIFY_SQ, MODIFY_RQ.
    fn modify_queue<H: PciFunction>(&mut self, hal: &H, queue: Queue, number: u32, wanted: u32) -> Result<(), Error> {
        let mut input = [0; modify_sq::IN_LEN];
        // The command says which state the queue is in, and a failed request may have changed it.
        modify_sq::SQ_STATE.set(&mut input, self.query_queue(hal, queue, number)?);
        modify_sq::SQN.set(&mut input, number);
        sqc::STATE.at(modify_sq::SQC).set(&mut input, wanted);
        let out = &mut [0; modify_sq::OUT_LEN];
        self.execute(hal, queue.modify, 0, &mut input, &PageList::None, out)
    }

    /// A queue's state. PRM: QUERY_SQ, QUERY_RQ.
    fn query_queue<H: PciFunction>(&mut self, hal: &H, queue: Queue, number: u32) -> Result<u32, Error> {
        let mut input = [0; query_sq::IN_LEN];
        query_sq::SQN.set(&mut input, number);
        let mut out = [0; query_sq::OUT_LEN];
        self.execute(hal, queue.query, 0, &mut input, &PageList::None, &mut out)?;
        Ok(sqc::STATE.at(query_sq::out::SQC).get(&out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bareverbs_mlx5_prm::commands::{modify_rq, query_rq};

    #[test]
    fn the_commands_of_both_queues_have_one_layout() {
        assert_eq!((modify_sq::IN_LEN, modify_sq::OUT_LEN), (modify_rq::IN_LEN, modify_rq::OUT_LEN));
        assert_eq!([modify_sq::SQ_STATE, modify_sq::SQN], [modify_rq::RQ_STATE, modify_rq::RQN]);
        assert_eq!((modify_sq::SQC, sqc::STATE), (modify_rq::RQC, rqc::STATE));
        assert_eq!((query_sq::IN_LEN, query_sq::OUT_LEN), (query_rq::IN_LEN, query_rq::OUT_LEN));
        assert_eq!((query_sq::SQN, query_sq::out::SQC), (query_rq::RQN, query_rq::out::RQC));
    }

    // Linux's table of the same (drivers/infiniband/hw/mlx5, sqrq_to_qp_state) agrees where it is definite.
    #[test]
    fn two_queues_make_a_state() {
        let of = |sq, rq| state(sq, Some(rq), QpState::Rtr);
        assert_eq!(of(RST, RST), Some(QpState::Reset));
        assert_eq!(of(RST, RDY), Some(QpState::Rtr));
        assert_eq!(state(RST, Some(RDY), QpState::Rts), Some(QpState::Init));
        assert_eq!(of(RDY, RDY), Some(QpState::Rts));
        assert_eq!(of(ERR, RDY), Some(QpState::Sqe));
        assert_eq!([RST, RDY, ERR].map(|sq| of(sq, ERR)), [Some(QpState::Err); 3]);
        assert_eq!([of(RDY, RST), of(ERR, RST), of(2, RDY)], [None; 3]);
        assert_eq!(state(RST, None, QpState::Init), Some(QpState::Init));
        assert_eq!(state(ERR, None, QpState::Rts), Some(QpState::Err));
    }
}
