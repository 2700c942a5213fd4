//! What happened to packets, by name. Names that Linux shows under `hw_counters` mean the same here.

use std::{collections::BTreeMap, fmt};

use crate::q_counter;

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

/// A number for each counter.
type Numbers = [u64; NAMES.len()];

/// All counters of a device: of everything that happened, and by counter set.
#[derive(Clone)]
pub struct Counters {
    all: Numbers,
    sets: BTreeMap<u32, Numbers>,
    /// The set of whom the device works for now.
    current: u32,
}

impl Default for Counters {
    fn default() -> Self {
        let none = [0; NAMES.len()];
        Self { all: none, sets: BTreeMap::from([(q_counter::DEFAULT, none)]), current: q_counter::DEFAULT }
    }
}

impl Counters {
    /// One more.
    pub fn count(&mut self, counter: Counter) {
        self.all[counter as usize] += 1;
        if let Some(set) = self.sets.get_mut(&self.current) {
            set[counter as usize] += 1;
        }
    }

    /// How many.
    pub fn get(&self, counter: Counter) -> u64 {
        self.all[counter as usize]
    }

    /// From now on, this set counts too.
    pub fn use_set(&mut self, set: u32) {
        self.current = set;
    }

    /// Whether there is such a set.
    pub fn has_set(&self, set: u32) -> bool {
        self.sets.contains_key(&set)
    }

    /// A new set.
    pub fn add_set(&mut self, set: u32) {
        self.sets.insert(set, [0; NAMES.len()]);
    }

    /// A set is no more.
    pub fn remove_set(&mut self, set: u32) {
        self.sets.remove(&set);
    }

    /// How many a set counted.
    pub fn of_set(&self, set: u32, counter: Counter) -> u64 {
        self.sets.get(&set).map_or(0, |numbers| numbers[counter as usize])
    }

    /// A set starts from 0.
    pub fn clear_set(&mut self, set: u32) {
        if let Some(numbers) = self.sets.get_mut(&set) {
            *numbers = [0; NAMES.len()];
        }
    }

    /// How many sets there are besides the default one.
    pub fn sets(&self) -> usize {
        self.sets.len() - 1
    }

    /// Those that are not 0, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.iter().copied().zip(self.all).filter(|(_, n)| *n != 0)
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
