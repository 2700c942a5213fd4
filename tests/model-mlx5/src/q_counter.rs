//! Counter sets of queues: ALLOC_Q_COUNTER, DEALLOC_Q_COUNTER, QUERY_Q_COUNTER. QPs and receive queues name the set
//! that counts for them; [`Counters`](crate::transport::Counters) holds the numbers.

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{alloc_q_counter as alloc, dealloc_q_counter as dealloc, query_q_counter as query},
    field::Field,
};

use crate::{
    command::Call,
    hca::Hca,
    qp::qpc,
    refusal::{Outcome, Refused, require},
    transport::Counter,
};

/// The set that counts for those who name none.
pub const DEFAULT: u32 = 0;

/// Whether there is such a set.
pub fn check(hca: &Hca, set: u32) -> Outcome {
    let known = set == DEFAULT || hca.transport.counters.has_set(set);
    require(known, Status::BadResource, 0x1a00, format_args!("no counter set {set}"))
}

/// ALLOC_Q_COUNTER.
pub fn alloc(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let Some(set) = hca.numbers.q_counter.take(|n| hca.transport.counters.has_set(n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x1a01, "no counter set is left"));
    };
    hca.transport.counters.add_set(set);
    alloc::out::COUNTER_SET_ID.set(call.out, set);
    Ok(())
}

/// DEALLOC_Q_COUNTER: nobody may use it.
pub fn dealloc(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let set = dealloc::COUNTER_SET_ID.get(call.input);
    let known = hca.transport.counters.has_set(set);
    require(known, Status::BadResource, 0x1a02, format_args!("no counter set {set}"))?;
    let qp = hca.qps.values().find(|qp| qp.get(qpc::COUNTER_SET_ID) == set).map(|qp| format!("QP {:#x}", qp.qpn));
    let rq = hca.rqs.values().find(|rq| rq.counter_set() == set).map(|rq| format!("RQ {:#x}", rq.rqn));
    if let Some(user) = qp.or(rq) {
        let why = format!("{user} uses counter set {set}");
        return Err(Refused::new(Status::BadResourceState, 0x1a03, why));
    }
    hca.transport.counters.remove_set(set);
    Ok(())
}

/// Which counter stands where; what is not here is 0, because it does not happen in the model.
const FIELDS: &[(Field, Counter)] = &[
    (query::out::RX_WRITE_REQUESTS, Counter::RxWriteRequests),
    (query::out::RX_READ_REQUESTS, Counter::RxReadRequests),
    (query::out::RX_ATOMIC_REQUESTS, Counter::RxAtomicRequests),
    (query::out::OUT_OF_BUFFER, Counter::OutOfBuffer),
    (query::out::OUT_OF_SEQUENCE, Counter::OutOfSequence),
    (query::out::DUPLICATE_REQUEST, Counter::DuplicateRequest),
    (query::out::RNR_NAK_RETRY_ERR, Counter::RnrNakReceived),
    (query::out::PACKET_SEQ_ERR, Counter::PacketSeqErr),
    (query::out::IMPLIED_NAK_SEQ_ERR, Counter::ImpliedNakSeqErr),
    (query::out::LOCAL_ACK_TIMEOUT_ERR, Counter::LocalAckTimeoutErr),
    (query::out::RESP_LOCAL_LENGTH_ERROR, Counter::RespLocalLengthError),
    (query::out::RESP_LOCAL_PROTECTION, Counter::RespLocalProtectionError),
    (query::out::RESP_CQE_ERROR, Counter::RespCqeError),
    (query::out::REQ_CQE_ERROR, Counter::ReqCqeError),
    (query::out::REQ_BAD_RESPONSE, Counter::BadResponse),
    (query::out::REQ_REMOTE_INVALID_REQUEST, Counter::ReqRemoteInvalidRequest),
    (query::out::REQ_REMOTE_ACCESS_ERRORS, Counter::ReqRemoteAccessErrors),
    (query::out::RESP_REMOTE_ACCESS_ERRORS, Counter::RespRemoteAccessErrors),
    (query::out::REQ_REMOTE_OPERATION_ERRORS, Counter::ReqRemoteOperationalErrors),
    (query::out::REQ_TRANSPORT_RETRIES_EXCEEDED, Counter::TransportRetryErr),
    (query::out::RESP_CQE_FLUSH_ERROR, Counter::RespCqeFlushError),
    (query::out::REQ_CQE_FLUSH_ERROR, Counter::ReqCqeFlushError),
];

/// QUERY_Q_COUNTER.
pub fn query(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let set = query::COUNTER_SET_ID.get(call.input);
    check(hca, set)?;
    for &(field, counter) in FIELDS {
        field.set(call.out, hca.transport.counters.of_set(set, counter) as u32);
    }
    if query::CLEAR.is_set(call.input) {
        hca.transport.counters.clear_set(set);
    }
    Ok(())
}
