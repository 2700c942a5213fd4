//! Queue pairs: the context as the driver gave it, and what the transport keeps beside it.

use std::collections::BTreeMap;

use crate::prm_field::{Field, Field64};
use bareverbs_harness::model::{Bus, DmaFault};

use crate::{ring::PageList, transport};

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

/// Fields of the QP context that the model itself needs.
pub mod qpc {
    use super::{Field, Field64};

    /// Offset of the primary path.
    pub const PRIMARY: usize = 0x18;
    /// Message size limit, log.
    pub const LOG_MSG_MAX: Field = Field::new(0x08, 28, 24);
    /// Path MTU code: 1 is 256, 5 is 4096.
    pub const MTU: Field = Field::new(0x08, 31, 29);
    /// Reserved lkey allowed.
    pub const RLKY: Field = Field::new(0x08, 4, 4);
    /// PD.
    pub const PD: Field = Field::new(0x04, 23, 0);
    /// For CQEs.
    pub const USER_INDEX: Field = Field::new(0x10, 23, 0);
    /// Peer.
    pub const REMOTE_QPN: Field = Field::new(0x14, 23, 0);
    /// 2^n outstanding READs and atomics as requester.
    pub const LOG_SRA_MAX: Field = Field::new(0x70, 23, 21);
    /// Retries.
    pub const RETRY_COUNT: Field = Field::new(0x70, 18, 16);
    /// RNR retries, 7 is for ever.
    pub const RNR_RETRY: Field = Field::new(0x70, 15, 13);
    /// First PSN sent.
    pub const NEXT_SEND_PSN: Field = Field::new(0x78, 23, 0);
    /// Send CQ.
    pub const CQN_SND: Field = Field::new(0x7c, 23, 0);
    /// Source QPN in the DETH where it is not the QP's own.
    pub const DETH_SQPN: Field = Field::new(0x80, 23, 0);
    /// 2^n outstanding READs and atomics as responder.
    pub const LOG_RRA_MAX: Field = Field::new(0x90, 23, 21);
    /// Atomics: 1 is the IB specification's.
    pub const ATOMIC_MODE: Field = Field::new(0x90, 19, 16);
    /// Remote reads allowed.
    pub const RRE: Field = Field::new(0x90, 15, 15);
    /// Remote writes allowed.
    pub const RWE: Field = Field::new(0x90, 14, 14);
    /// Remote atomics allowed.
    pub const RAE: Field = Field::new(0x90, 13, 13);
    /// RNR timer code.
    pub const MIN_RNR_NAK: Field = Field::new(0x94, 28, 24);
    /// First PSN expected.
    pub const NEXT_RCV_PSN: Field = Field::new(0x94, 23, 0);
    /// XRC domain.
    pub const XRCD: Field = Field::new(0x98, 23, 0);
    /// Receive CQ.
    pub const CQN_RCV: Field = Field::new(0x9c, 23, 0);
    /// Doorbell record.
    pub const DBR_ADDR: Field64 = Field64::new(0xa0);
    /// Q_Key.
    pub const Q_KEY: Field = Field::new(0xa8, 31, 0);
}

/// Fields of an address path (`ads`), relative to its start.
pub mod ads {
    use super::Field;

    /// P_Key index.
    pub const PKEY_INDEX: Field = Field::new(0x00, 15, 0);
    /// A GRH is sent.
    pub const GRH: Field = Field::new(0x04, 23, 23);
    /// Low LID bits of the source (LMC).
    pub const MLID: Field = Field::new(0x04, 22, 16);
    /// Destination LID.
    pub const RLID: Field = Field::new(0x04, 15, 0);
    /// Local ACK timeout code; 0 is for ever.
    pub const ACK_TIMEOUT: Field = Field::new(0x08, 31, 27);
    /// Index of the source GID.
    pub const SRC_ADDR_INDEX: Field = Field::new(0x08, 23, 16);
    /// Static rate.
    pub const STAT_RATE: Field = Field::new(0x08, 11, 8);
    /// Hop limit.
    pub const HOP_LIMIT: Field = Field::new(0x08, 7, 0);
    /// Traffic class.
    pub const TCLASS: Field = Field::new(0x0c, 27, 20);
    /// Flow label.
    pub const FLOW_LABEL: Field = Field::new(0x0c, 19, 0);
    /// Destination GID or IP.
    pub const RGID: usize = 0x10;
    /// RoCE: DSCP is forced.
    pub const F_DSCP: Field = Field::new(0x20, 27, 27);
    /// RoCE: DSCP.
    pub const DSCP: Field = Field::new(0x20, 21, 16);
    /// RoCE v2: UDP source port.
    pub const UDP_SPORT: Field = Field::new(0x20, 15, 0);
    /// RoCE: Ethernet priority.
    pub const ETH_PRIO: Field = Field::new(0x24, 30, 28);
    /// Service level.
    pub const SL: Field = Field::new(0x24, 27, 24);
    /// Port, from 1.
    pub const PORT: Field = Field::new(0x24, 23, 16);
    /// Destination MAC, upper 16 bits.
    pub const RMAC_47_32: Field = Field::new(0x24, 15, 0);
    /// Destination MAC, lower 32 bits.
    pub const RMAC_31_0: Field = Field::new(0x28, 31, 0);
}

/// Bytes of a QP context.
pub const QPC_LEN: usize = 0xe8;

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
    /// The context as the driver gave it: [`qpc`], [`ads`].
    pub ctx: [u8; QPC_LEN],
    /// UAR whose doorbells it listens to.
    pub uar: u32,
    /// Send queue.
    pub sq: SendQueue,
    /// Receive queue.
    pub rq: ReceiveQueue,
    /// What the transport keeps.
    pub transport: transport::QpTransport,
}

/// All queue pairs by number.
pub type Qps = BTreeMap<u32, Qp>;

impl Qp {
    /// A field of the context.
    pub fn get(&self, field: Field) -> u32 {
        field.get(&self.ctx)
    }

    /// A field of the primary path.
    pub fn path(&self, field: Field) -> u32 {
        field.at(qpc::PRIMARY).get(&self.ctx)
    }

    /// Destination GID of the primary path.
    pub fn path_gid(&self) -> [u8; 16] {
        let at = qpc::PRIMARY + ads::RGID;
        std::array::from_fn(|i| self.ctx[at + i])
    }

    /// Destination MAC of the primary path.
    pub fn path_mac(&self) -> [u8; 6] {
        let (high, low) = (self.path(ads::RMAC_47_32) as u16, self.path(ads::RMAC_31_0));
        let (h, l) = (high.to_be_bytes(), low.to_be_bytes());
        [h[0], h[1], l[0], l[1], l[2], l[3]]
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
        bus.read(qpc::DBR_ADDR.get(&self.ctx), &mut words)?;
        Ok((u16::from_be_bytes([words[2], words[3]]), u16::from_be_bytes([words[6], words[7]])))
    }
}
