//! What the transport keeps for one QP.

use std::time::Duration;

use super::{packet::Path, psn::Psn, requester::Requester, responder::Responder, timers};
use crate::{
    hca::Hca,
    mr::KeyUser,
    qp::{Qp, QpState, ReceiveFrom, Service, ads, qpc},
};

/// One QP: its context in the form in which packets need it, and both of its halves.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Number.
    pub qpn: u32,
    /// State.
    pub state: QpState,
    /// Service.
    pub service: Service,
    /// What its CQEs call it.
    pub user_index: u32,
    /// Send CQ.
    pub cqn_snd: u32,
    /// Receive CQ.
    pub cqn_rcv: u32,
    /// Protection domain.
    pub pd: u32,
    /// Where receives come from.
    pub receive_from: ReceiveFrom,
    /// Peer.
    pub remote_qpn: u32,
    /// Path MTU in bytes.
    pub mtu: usize,
    /// Longest message in bytes.
    pub max_len: u64,
    /// Where its packets go; `None` for datagrams and before the path is known.
    pub path: Option<Path>,
    /// Partition.
    pub pkey: u16,
    /// XRC domain.
    pub xrcd: u32,
    /// Q_Key of datagrams.
    pub qkey: u32,
    /// What datagrams say where they come from.
    pub source_qpn: u32,
    /// READs and atomics that may be outstanding as requester.
    pub max_rd_atomic: u32,
    /// READs and atomics that may be outstanding as responder.
    pub max_dest_rd_atomic: u32,
    /// How long to wait for an answer.
    pub ack_timeout: Option<Duration>,
    /// How often to try again.
    pub retry_count: u8,
    /// How often to try again after RNR NAKs; 7 is for ever.
    pub rnr_retry: u8,
    /// Timer code of the RNR NAKs sent.
    pub min_rnr_timer: u8,
    /// READs from the wire allowed.
    pub remote_read: bool,
    /// WRITEs from the wire allowed.
    pub remote_write: bool,
    /// Atomics from the wire allowed.
    pub remote_atomic: bool,
    /// It stands in the queue of QPs that have something to do.
    pub queued: bool,
    /// The QP as requester.
    pub requester: Requester,
    /// The QP as responder.
    pub responder: Responder,
}

impl Flow {
    /// Of a QP that leaves RESET.
    pub fn new(hca: &Hca, qp: &Qp) -> Self {
        let mut flow = Self {
            qpn: qp.qpn,
            state: qp.state,
            service: qp.service,
            user_index: 0,
            cqn_snd: 0,
            cqn_rcv: 0,
            pd: 0,
            receive_from: qp.receive_from,
            remote_qpn: 0,
            mtu: 0,
            max_len: 0,
            path: None,
            pkey: 0,
            xrcd: 0,
            qkey: 0,
            source_qpn: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            ack_timeout: None,
            retry_count: 0,
            rnr_retry: 0,
            min_rnr_timer: 0,
            remote_read: false,
            remote_write: false,
            remote_atomic: false,
            queued: false,
            requester: Requester::default(),
            responder: Responder::default(),
        };
        flow.configure(hca, qp);
        flow
    }

    /// Takes over what the context says now.
    pub fn configure(&mut self, hca: &Hca, qp: &Qp) {
        self.state = qp.state;
        self.user_index = qp.get(qpc::USER_INDEX);
        self.cqn_snd = qp.get(qpc::CQN_SND);
        self.cqn_rcv = qp.get(qpc::CQN_RCV);
        self.pd = qp.pd();
        self.receive_from = qp.receive_from;
        self.remote_qpn = qp.get(qpc::REMOTE_QPN);
        self.mtu = qp.mtu();
        self.max_len = 1 << qp.get(qpc::LOG_MSG_MAX);
        self.path = if self.is_datagram() { None } else { Path::of_qp(hca, qp) };
        self.pkey = super::packet::pkey_of(&hca.port, qp);
        self.xrcd = qp.get(qpc::XRCD);
        self.qkey = qp.get(qpc::Q_KEY);
        self.source_qpn = match (self.service, qp.get(qpc::DETH_SQPN)) {
            (Service::Qp0, _) => 0,
            (Service::Qp1, _) => 1,
            (_, 0) => qp.qpn,
            (_, other) => other,
        };
        self.max_rd_atomic = 1 << qp.get(qpc::LOG_SRA_MAX);
        self.max_dest_rd_atomic = 1 << qp.get(qpc::LOG_RRA_MAX);
        self.ack_timeout = timers::ack_timeout(qp.path(ads::ACK_TIMEOUT) as u8);
        self.retry_count = qp.get(qpc::RETRY_COUNT) as u8;
        self.rnr_retry = qp.get(qpc::RNR_RETRY) as u8;
        self.min_rnr_timer = qp.get(qpc::MIN_RNR_NAK) as u8;
        self.remote_read = qp.get(qpc::RRE) != 0;
        self.remote_write = qp.get(qpc::RWE) != 0;
        self.remote_atomic = qp.get(qpc::RAE) != 0;
    }

    /// The first PSN expected, on the way to RTR.
    pub fn start_receiving(&mut self, qp: &Qp) {
        self.responder.start(Psn::new(qp.get(qpc::NEXT_RCV_PSN)));
    }

    /// The first PSN to send, on the way to RTS.
    pub fn start_sending(&mut self, qp: &Qp) {
        self.requester.start(Psn::new(qp.get(qpc::NEXT_SEND_PSN)), self.retry_count, self.rnr_retry);
    }

    /// Who uses keys.
    pub fn user(&self) -> KeyUser {
        KeyUser { pd: self.pd, qpn: self.qpn }
    }

    /// Whether its messages are single packets without a connection.
    pub fn is_datagram(&self) -> bool {
        matches!(self.service, Service::Ud | Service::Qp0 | Service::Qp1)
    }

    /// Whether its messages are acknowledged.
    pub fn is_reliable(&self) -> bool {
        matches!(self.service, Service::Rc | Service::Xrc)
    }

    /// Packets that a message takes; one even if it is empty.
    pub fn packets(&self, len: u64) -> u32 {
        (len.div_ceil(self.mtu.max(1) as u64) as u32).max(1)
    }
}
