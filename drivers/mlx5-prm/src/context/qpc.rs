//! Queue pair context. PRM: "Queue Pair Context".
use crate::field::{Field, Field64};

/// Size in bytes.
pub const SIZE: usize = 0xe8;
/// [`state`]; output only, transitions are commands of their own.
pub const STATE: Field = Field::new(0x00, 31, 28);
/// Port of a bond that the QP sends on; 0 lets the device choose.
pub const LAG_TX_PORT_AFFINITY: Field = Field::new(0x00, 27, 24);
/// [`service_type`].
pub const ST: Field = Field::new(0x00, 23, 16);
/// Keep the QP's virtual lane or traffic class for itself.
pub const ISOLATE_VL_TC: Field = Field::new(0x00, 13, 13);
/// [`path_migration`] state.
pub const PM_STATE: Field = Field::new(0x00, 12, 11);
/// End-to-end credits as a requester.
pub const REQ_E2E_CREDIT_MODE: Field = Field::new(0x00, 9, 8);
/// Kind of raw offload.
pub const OFFLOAD_TYPE: Field = Field::new(0x00, 7, 4);
/// 0: scatter data ends unpadded; 1: padded to a cache line.
pub const END_PADDING_MODE: Field = Field::new(0x00, 3, 2);
/// WQEs carry signatures.
pub const WQ_SIGNATURE: Field = Field::new(0x04, 31, 31);
/// Own multicasts do not come back.
pub const BLOCK_LB_MC: Field = Field::new(0x04, 30, 30);
/// Writes of 8 bytes are atomic.
pub const ATOMIC_LIKE_WRITE_EN: Field = Field::new(0x04, 29, 29);
/// Prefer latency to throughput.
pub const LATENCY_SENSITIVE: Field = Field::new(0x04, 28, 28);
/// Signature errors end up in a drained send queue.
pub const DRAIN_SIGERR: Field = Field::new(0x04, 26, 26);
/// Protection domain.
pub const PD: Field = Field::new(0x04, 23, 0);
/// [`mtu`] code of the path.
pub const MTU: Field = Field::new(0x08, 31, 29);
/// Log of the longest message in bytes.
pub const LOG_MSG_MAX: Field = Field::new(0x08, 28, 24);
/// Log of the number of receive WQEs.
pub const LOG_RQ_SIZE: Field = Field::new(0x08, 22, 19);
/// Log of the bytes of a receive WQE, less 4.
pub const LOG_RQ_STRIDE: Field = Field::new(0x08, 18, 16);
/// There is no send queue.
pub const NO_SQ: Field = Field::new(0x08, 15, 15);
/// Log of the number of send WQE basic blocks of 64 bytes.
pub const LOG_SQ_SIZE: Field = Field::new(0x08, 14, 11);
/// [`timestamp_format`] of the completions.
pub const TS_FORMAT: Field = Field::new(0x08, 7, 6);
/// The QP may use the reserved lkey.
pub const RLKY: Field = Field::new(0x08, 4, 4);
/// IPoIB offloads.
pub const ULP_STATELESS_OFFLOAD_MODE: Field = Field::new(0x08, 3, 0);
/// Queue counter set; 0 is the default one.
pub const COUNTER_SET_ID: Field = Field::new(0x0c, 31, 24);
/// UAR page whose doorbells work this QP.
pub const UAR_PAGE: Field = Field::new(0x0c, 23, 0);
/// What CQEs of version 1 call this QP.
pub const USER_INDEX: Field = Field::new(0x10, 23, 0);
/// Log of the page size of the address list, less 12.
pub const LOG_PAGE_SIZE: Field = Field::new(0x14, 28, 24);
/// Destination QP.
pub const REMOTE_QPN: Field = Field::new(0x14, 23, 0);
/// The [`ads`](super::ads) of the primary path; also the port of a QP without a path.
pub const PRIMARY_ADDRESS_PATH: usize = 0x18;
/// The [`ads`](super::ads) of the alternate path.
pub const SECONDARY_ADDRESS_PATH: usize = 0x44;
/// Log of the number of packets after which an ACK is asked for.
pub const LOG_ACK_REQ_FREQ: Field = Field::new(0x70, 31, 28);
/// Log of the number of outstanding RDMA READs and atomics as a requester.
pub const LOG_SRA_MAX: Field = Field::new(0x70, 23, 21);
/// Transport retries.
pub const RETRY_COUNT: Field = Field::new(0x70, 18, 16);
/// Retries after RNR NAK; 7 is without end.
pub const RNR_RETRY: Field = Field::new(0x70, 15, 13);
/// Fast registration (UMR) allowed.
pub const FRE: Field = Field::new(0x70, 11, 11);
/// RNR retries left; output only.
pub const CUR_RNR_RETRY: Field = Field::new(0x70, 10, 8);
/// Retries left; output only.
pub const CUR_RETRY_COUNT: Field = Field::new(0x70, 7, 5);
/// Next PSN to send.
pub const NEXT_SEND_PSN: Field = Field::new(0x78, 23, 0);
/// CQ of the send queue.
pub const CQN_SND: Field = Field::new(0x7c, 23, 0);
/// Source QPN that datagrams carry instead of the own number (capability `set_deth_sqpn`).
pub const DETH_SQPN: Field = Field::new(0x80, 23, 0);
/// Newest PSN acknowledged; output only.
pub const LAST_ACKED_PSN: Field = Field::new(0x88, 23, 0);
/// Send sequence number; output only.
pub const SSN: Field = Field::new(0x8c, 23, 0);
/// Log of the number of outstanding RDMA READs and atomics as a responder.
pub const LOG_RRA_MAX: Field = Field::new(0x90, 23, 21);
/// [`atomic_mode`].
pub const ATOMIC_MODE: Field = Field::new(0x90, 19, 16);
/// Remote reads allowed.
pub const RRE: Field = Field::new(0x90, 15, 15);
/// Remote writes allowed.
pub const RWE: Field = Field::new(0x90, 14, 14);
/// Remote atomics allowed.
pub const RAE: Field = Field::new(0x90, 13, 13);
/// Offset of the first WQE in the first page, in units of page size / 64.
pub const PAGE_OFFSET: Field = Field::new(0x90, 11, 6);
/// Cross-channel: receive WQEs wait to be enabled.
pub const CD_SLAVE_RECEIVE: Field = Field::new(0x90, 2, 2);
/// Cross-channel: send WQEs wait to be enabled.
pub const CD_SLAVE_SEND: Field = Field::new(0x90, 1, 1);
/// Cross-channel: may wait on CQs and enable others.
pub const CD_MASTER: Field = Field::new(0x90, 0, 0);
/// RNR timer code that our NAKs carry, IBA table 45.
pub const MIN_RNR_NAK: Field = Field::new(0x94, 28, 24);
/// Next PSN expected.
pub const NEXT_RCV_PSN: Field = Field::new(0x94, 23, 0);
/// XRC domain.
pub const XRCD: Field = Field::new(0x98, 23, 0);
/// CQ of the receive queue.
pub const CQN_RCV: Field = Field::new(0x9c, 23, 0);
/// Address of the doorbell record, 8-byte aligned.
pub const DBR_ADDR: Field64 = Field64::new(0xa0);
/// Q_Key.
pub const Q_KEY: Field = Field::new(0xa8, 31, 0);
/// [`rq_type`]: where receive WQEs come from.
pub const RQ_TYPE: Field = Field::new(0xac, 26, 24);
/// Number of the SRQ, RMP or XRQ.
pub const SRQN_RMPN_XRQN: Field = Field::new(0xac, 23, 0);
/// Receive message sequence number; output only.
pub const RMSN: Field = Field::new(0xb0, 23, 0);
/// Send basic blocks the device has consumed; output only.
pub const HW_SQ_WQEBB_COUNTER: Field = Field::new(0xb4, 31, 16);
/// Send basic blocks posted, as the device last read; output only.
pub const SW_SQ_WQEBB_COUNTER: Field = Field::new(0xb4, 15, 0);
/// Receive WQEs the device has consumed; output only.
pub const HW_RQ_COUNTER: Field = Field::new(0xb8, 31, 0);
/// Receive WQEs posted, as the device last read; output only.
pub const SW_RQ_COUNTER: Field = Field::new(0xbc, 31, 0);
/// Global service of congestion control.
pub const CGS: Field = Field::new(0xc4, 16, 16);
/// CQE data scatter as a requester, see [`cs_req`].
pub const CS_REQ: Field = Field::new(0xc4, 15, 8);
/// CQE data scatter as a responder, see [`cs_res`].
pub const CS_RES: Field = Field::new(0xc4, 7, 0);
/// DC access key.
pub const DC_ACCESS_KEY: Field64 = Field64::new(0xc8);
/// The doorbell record lies in a registered user memory.
pub const DBR_UMEM_VALID: Field = Field::new(0xd0, 28, 28);
/// The registered user memory that holds the doorbell record; [`DBR_ADDR`] is an offset in it.
pub const DBR_UMEM_ID: Field = Field::new(0xe4, 31, 0);

/// Values of [`STATE`].
pub mod state {
    /// Reset.
    pub const RST: u32 = 0x0;
    /// Initialized.
    pub const INIT: u32 = 0x1;
    /// Ready to receive.
    pub const RTR: u32 = 0x2;
    /// Ready to send.
    pub const RTS: u32 = 0x3;
    /// Send queue error.
    pub const SQER: u32 = 0x4;
    /// Send queue drained.
    pub const SQD: u32 = 0x5;
    /// Error.
    pub const ERR: u32 = 0x6;
    /// Send queue draining.
    pub const SQ_DRAINING: u32 = 0x7;
    /// Suspended by a page fault or for migration.
    pub const SUSPENDED: u32 = 0x9;
}

/// Values of [`ST`].
pub mod service_type {
    /// Reliable connection.
    pub const RC: u32 = 0x0;
    /// Unreliable connection.
    pub const UC: u32 = 0x1;
    /// Unreliable datagram.
    pub const UD: u32 = 0x2;
    /// Extended reliable connection.
    pub const XRC: u32 = 0x3;
    /// Dynamic connection initiator.
    pub const DCI: u32 = 0x5;
    /// Dynamic connection target.
    pub const DCT: u32 = 0x6;
    /// Subnet management, the port's QP 0.
    pub const QP0: u32 = 0x7;
    /// General services, the port's QP 1.
    pub const QP1: u32 = 0x8;
    /// Raw datagram of an Ethernet type.
    pub const RAW_DATAGRAM: u32 = 0x9;
    /// Registers memory by UMR work requests.
    pub const REG_UMR: u32 = 0xc;
}

/// Values of [`PM_STATE`].
pub mod path_migration {
    /// Armed.
    pub const ARMED: u32 = 0x0;
    /// Rearm.
    pub const REARM: u32 = 0x1;
    /// Migrated; the value of a QP without an alternate path.
    pub const MIGRATED: u32 = 0x3;
}

/// Values of [`MTU`], IBA's codes.
pub mod mtu {
    /// 256 bytes.
    pub const BYTES_256: u32 = 1;
    /// 512 bytes.
    pub const BYTES_512: u32 = 2;
    /// 1024 bytes.
    pub const BYTES_1024: u32 = 3;
    /// 2048 bytes.
    pub const BYTES_2048: u32 = 4;
    /// 4096 bytes.
    pub const BYTES_4096: u32 = 5;
    /// A raw Ethernet QP has no path MTU.
    pub const RAW_ETHERNET: u32 = 7;
}

/// Values of [`RQ_TYPE`].
pub mod rq_type {
    /// A receive queue of its own.
    pub const REGULAR: u32 = 0x0;
    /// A shared receive queue.
    pub const SRQ: u32 = 0x1;
    /// No receive queue; messages without data only.
    pub const ZERO_SIZE: u32 = 0x3;
}

/// Values of [`ATOMIC_MODE`].
pub mod atomic_mode {
    /// No atomics.
    pub const NONE: u32 = 0x0;
    /// As IBA says: 8 bytes, coherent within the HCA.
    pub const IB_SPEC: u32 = 0x1;
    /// Compare and swap of 8 bytes only.
    pub const ONLY_8B: u32 = 0x2;
    /// 8 bytes.
    pub const UP_TO_8B: u32 = 0x3;
    /// 16 bytes at most.
    pub const UP_TO_16B: u32 = 0x4;
}

/// Values of [`TS_FORMAT`].
pub mod timestamp_format {
    /// Free-running device clock.
    pub const FREE_RUNNING: u32 = 0x0;
    /// The device's default.
    pub const DEFAULT: u32 = 0x1;
    /// Seconds and nanoseconds.
    pub const REAL_TIME: u32 = 0x2;
}

/// Values of [`CS_REQ`]: small RDMA READ and atomic answers inside the CQE.
pub mod cs_req {
    /// Never.
    pub const DISABLE: u32 = 0x0;
    /// Up to 32 bytes, in a 64-byte CQE.
    pub const UP_TO_32B: u32 = 0x11;
    /// Up to 64 bytes, in a 128-byte CQE.
    pub const UP_TO_64B: u32 = 0x22;
}

/// Values of [`CS_RES`]: small received messages inside the CQE.
pub mod cs_res {
    /// Never.
    pub const DISABLE: u32 = 0x0;
    /// Up to 32 bytes, in a 64-byte CQE.
    pub const UP_TO_32B: u32 = 0x1;
    /// Up to 64 bytes, in a 128-byte CQE.
    pub const UP_TO_64B: u32 = 0x2;
}
