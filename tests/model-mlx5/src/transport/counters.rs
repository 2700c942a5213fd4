//! What happened to packets, by name. Names that Linux shows under `hw_counters` mean the same here.

use std::fmt;

/// A reason to drop a packet, to answer with a NAK, to send again or to end in error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs)] // the names say it, NAMES in other words
pub enum Counter {
    // Dropped before a QP was found.
    MalformedFrame,
    NotRdma,
    IcrcError,
    VcrcError,
    TransportVersion,
    PortNotActive,
    WrongDestinationAddress,
    NoSuchQp,
    QpNotReady,
    WrongTransport,
    PkeyViolation,
    QkeyViolation,
    WrongPeer,
    Multicast,
    // Dropped or answered by a responder.
    OutOfSequence,
    DuplicateRequest,
    OutOfBuffer,
    RespBadOpcodeSequence,
    RespBadLength,
    RespNotAllowed,
    RespTooManyReads,
    RespMisalignedAtomic,
    RespRemoteAccessErrors,
    RespInvalidateErrors,
    RespLocalLengthError,
    RespLocalProtectionError,
    RespOldAtomic,
    UcMessagesDropped,
    // What a requester met.
    PacketSeqErr,
    ImpliedNakSeqErr,
    RnrNakReceived,
    LocalAckTimeoutErr,
    UnexpectedResponse,
    BadResponse,
    RnrNakRetryErr,
    TransportRetryErr,
    ReqRemoteInvalidRequest,
    ReqRemoteAccessErrors,
    ReqRemoteOperationalErrors,
    ReqLocalErrors,
    // Completions in error.
    ReqCqeError,
    ReqCqeFlushError,
    RespCqeError,
    RespCqeFlushError,
    // Work done.
    RxWriteRequests,
    RxReadRequests,
    RxAtomicRequests,
    RxSends,
    AcksSent,
    NaksSent,
    PacketsSentAgain,
}

/// Names in the order of [`Counter`].
const NAMES: [&str; Counter::PacketsSentAgain as usize + 1] = [
    "malformed_frame",
    "not_rdma",
    "icrc_error",
    "vcrc_error",
    "transport_version",
    "port_not_active",
    "wrong_destination_address",
    "no_such_qp",
    "qp_not_ready",
    "wrong_transport",
    "pkey_violation",
    "qkey_violation",
    "wrong_peer",
    "multicast",
    "out_of_sequence",
    "duplicate_request",
    "out_of_buffer",
    "resp_bad_opcode_sequence",
    "resp_bad_length",
    "resp_not_allowed",
    "resp_too_many_reads",
    "resp_misaligned_atomic",
    "resp_remote_access_errors",
    "resp_invalidate_errors",
    "resp_local_length_error",
    "resp_local_protection_error",
    "resp_old_atomic",
    "uc_messages_dropped",
    "packet_seq_err",
    "implied_nak_seq_err",
    "rnr_nak_received",
    "local_ack_timeout_err",
    "unexpected_response",
    "bad_response",
    "rnr_nak_retry_err",
    "transport_retry_err",
    "req_remote_invalid_request",
    "req_remote_access_errors",
    "req_remote_operational_errors",
    "req_local_errors",
    "req_cqe_error",
    "req_cqe_flush_error",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "rx_write_requests",
    "rx_read_requests",
    "rx_atomic_requests",
    "rx_sends",
    "acks_sent",
    "naks_sent",
    "packets_sent_again",
];

impl Counter {
    /// Its name.
    pub const fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// All counters of a device.
#[derive(Clone)]
pub struct Counters([u64; NAMES.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; NAMES.len()])
    }
}

impl Counters {
    /// One more.
    pub fn count(&mut self, counter: Counter) {
        self.0[counter as usize] += 1;
    }

    /// How many.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Those that are not 0, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.iter().copied().zip(self.0).filter(|(_, n)| *n != 0)
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_the_order_of_the_counters() {
        for (counter, name) in [
            (Counter::MalformedFrame, "malformed_frame"),
            (Counter::OutOfSequence, "out_of_sequence"),
            (Counter::PacketSeqErr, "packet_seq_err"),
            (Counter::ReqCqeError, "req_cqe_error"),
            (Counter::PacketsSentAgain, "packets_sent_again"),
        ] {
            assert_eq!(counter.name(), name);
        }
    }
}
