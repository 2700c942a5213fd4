//! Completions: what is polled (manual page ibv_poll_cq).

use crate::{Lid, Qpn, Rkey};
use bitflags::bitflags;
use core::fmt;

/// How a request ended; numbers and meaning of ibv_wc_status (IBA 11.6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WcStatus {
    /// Done.
    #[default]
    Success = 0,
    /// A message longer than the receive, or a bad length of the local request.
    LocalLength = 1,
    /// The device found the request inconsistent.
    LocalQpOperation = 2,
    /// Internal inconsistency of an end-to-end context.
    LocalEecOperation = 3,
    /// A local element outside its region, or not allowed there.
    LocalProtection = 4,
    /// Outstanding when the QP went to the error state.
    WorkRequestFlushed = 5,
    /// A memory window could not be bound.
    MemoryWindowBind = 6,
    /// The answer was not one the protocol allows.
    BadResponse = 7,
    /// A protection error on a receive buffer while a write with immediate arrived.
    LocalAccess = 8,
    /// The responder could not take the request (opcode, length, no resources).
    RemoteInvalidRequest = 9,
    /// The rkey, range or access right was wrong at the responder.
    RemoteAccess = 10,
    /// The responder failed locally.
    RemoteOperation = 11,
    /// No answer after all retries.
    RetryExceeded = 12,
    /// No receive was posted at the other end after all RNR retries.
    RnrRetryExceeded = 13,
    /// Reliable datagrams: local RDD violation.
    LocalRddViolation = 14,
    /// Reliable datagrams: remote invalid request.
    RemoteInvalidRd = 15,
    /// The responder aborted the operation.
    RemoteAborted = 16,
    /// Reliable datagrams: invalid EEC number.
    InvalidEecn = 17,
    /// Reliable datagrams: invalid EEC state.
    InvalidEecState = 18,
    /// The device failed.
    Fatal = 19,
    /// The response timed out.
    ResponseTimeout = 20,
    /// Anything else; see the vendor's syndrome.
    General = 21,
    /// Tag matching error.
    TagMatching = 22,
    /// Tag matching: rendezvous is incomplete.
    TagMatchingRendezvousIncomplete = 23,
}

impl WcStatus {
    /// What ibv_wc_status_str says.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::LocalLength => "local length error",
            Self::LocalQpOperation => "local QP operation error",
            Self::LocalEecOperation => "local EE context operation error",
            Self::LocalProtection => "local protection error",
            Self::WorkRequestFlushed => "Work Request Flushed Error",
            Self::MemoryWindowBind => "memory bind operation error",
            Self::BadResponse => "bad response error",
            Self::LocalAccess => "local access error",
            Self::RemoteInvalidRequest => "remote invalid request error",
            Self::RemoteAccess => "remote access error",
            Self::RemoteOperation => "remote operation error",
            Self::RetryExceeded => "transport retry counter exceeded",
            Self::RnrRetryExceeded => "RNR retry counter exceeded",
            Self::LocalRddViolation => "local RDD violation error",
            Self::RemoteInvalidRd => "remote invalid RD request",
            Self::RemoteAborted => "aborted error",
            Self::InvalidEecn => "invalid EE context number",
            Self::InvalidEecState => "invalid EE context state",
            Self::Fatal => "fatal error",
            Self::ResponseTimeout => "response timeout error",
            Self::General => "general error",
            Self::TagMatching => "TM error",
            Self::TagMatchingRendezvousIncomplete => "TM software rendezvous",
        }
    }
}

impl fmt::Display for WcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which kind of request completed (ibv_wc_opcode). Undefined unless the status is success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WcOpcode {
    /// A SEND, with or without immediate or invalidate.
    #[default]
    Send = 0,
    /// An RDMA WRITE, with or without immediate.
    Write = 1,
    /// An RDMA READ.
    Read = 2,
    /// A compare and swap.
    CompareSwap = 3,
    /// A fetch and add.
    FetchAdd = 4,
    /// A memory window was bound.
    BindWindow = 5,
    /// A key was invalidated locally.
    LocalInvalidate = 6,
    /// A region was registered by a work request.
    RegisterRegion = 7,
    /// A message was received.
    Recv = 128,
    /// A receive was taken by an RDMA WRITE with immediate.
    RecvWriteImm = 129,
}

bitflags! {
    /// What else a completion holds (ibv_wc: wc_flags).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct WcFlags: u8 {
        /// The first 40 bytes of the buffer hold (room for) a GRH, and it is valid.
        const GRH = 1;
        /// `imm` is immediate data.
        const WITH_IMM = 2;
        /// `imm` is the key that the sender invalidated.
        const WITH_INVALIDATE = 4;
        /// IPv4 and TCP/UDP checksums were found right.
        const IP_CSUM_OK = 8;
    }
}

/// One completion: all of ibv_wc. For a failed request only `wr_id`, `status`, `vendor_err` and `qpn` are defined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Completion {
    /// Of the request.
    pub wr_id: u64,
    /// Bytes received, read or written atomically. 0 for sends and writes.
    pub byte_len: u32,
    /// Immediate data (host order) or the invalidated key, by `flags`.
    pub imm: u32,
    /// The local QP.
    pub qpn: Qpn,
    /// UD: the sending QP.
    pub src_qp: Qpn,
    /// The vendor's syndrome of a failed request.
    pub vendor_err: u32,
    /// UD: index of the P_Key that the packet carried.
    pub pkey_index: u16,
    /// UD on InfiniBand: the sender's LID.
    pub slid: Lid,
    /// How it ended.
    pub status: WcStatus,
    /// What it was.
    pub opcode: WcOpcode,
    /// What else is valid.
    pub flags: WcFlags,
    /// UD: service level of the packet.
    pub sl: u8,
    /// UD: low bits of the destination LID.
    pub dlid_path_bits: u8,
}

impl Completion {
    /// Immediate data, if the message carried any.
    pub const fn immediate(&self) -> Option<u32> {
        if self.flags.contains(WcFlags::WITH_IMM) { Some(self.imm) } else { None }
    }

    /// The key that the sender invalidated, if it did.
    pub const fn invalidated(&self) -> Option<Rkey> {
        if self.flags.contains(WcFlags::WITH_INVALIDATE) { Some(Rkey(self.imm)) } else { None }
    }
}

const _: () = assert!(size_of::<Completion>() == 40);
