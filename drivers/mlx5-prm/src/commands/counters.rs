//! Counters of queues and vports.

/// ALLOC_Q_COUNTER.
pub mod alloc_q_counter {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::ALLOC_Q_COUNTER;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new counter set.
        pub const COUNTER_SET_ID: Field = Field::new(0x08, 7, 0);
    }
}

/// DEALLOC_Q_COUNTER.
pub mod dealloc_q_counter {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DEALLOC_Q_COUNTER;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The counter set.
    pub const COUNTER_SET_ID: Field = Field::new(0x08, 7, 0);
}

/// QUERY_Q_COUNTER.
pub mod query_q_counter {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_Q_COUNTER;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x20;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x100;
    /// Start from 0 after the answer.
    pub const CLEAR: Field = Field::new(0x18, 31, 31);
    /// The counter set; 0 is the default one.
    pub const COUNTER_SET_ID: Field = Field::new(0x1c, 7, 0);

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// RDMA WRITE requests received.
        pub const RX_WRITE_REQUESTS: Field = Field::new(0x10, 31, 0);
        /// RDMA READ requests received.
        pub const RX_READ_REQUESTS: Field = Field::new(0x18, 31, 0);
        /// Atomic requests received.
        pub const RX_ATOMIC_REQUESTS: Field = Field::new(0x20, 31, 0);
        /// DC connections received.
        pub const RX_DCT_CONNECT: Field = Field::new(0x28, 31, 0);
        /// Messages that met no receive WQE.
        pub const OUT_OF_BUFFER: Field = Field::new(0x30, 31, 0);
        /// Packets out of sequence.
        pub const OUT_OF_SEQUENCE: Field = Field::new(0x38, 31, 0);
        /// Duplicate requests.
        pub const DUPLICATE_REQUEST: Field = Field::new(0x40, 31, 0);
        /// RNR NAKs received, within the retries.
        pub const RNR_NAK_RETRY_ERR: Field = Field::new(0x48, 31, 0);
        /// Sequence NAKs received, within the retries.
        pub const PACKET_SEQ_ERR: Field = Field::new(0x50, 31, 0);
        /// Answers that implied a lost one.
        pub const IMPLIED_NAK_SEQ_ERR: Field = Field::new(0x58, 31, 0);
        /// ACK timeouts.
        pub const LOCAL_ACK_TIMEOUT_ERR: Field = Field::new(0x60, 31, 0);
        /// Responder: local length errors.
        pub const RESP_LOCAL_LENGTH_ERROR: Field = Field::new(0x78, 31, 0);
        /// Requester: local length errors.
        pub const REQ_LOCAL_LENGTH_ERROR: Field = Field::new(0x7c, 31, 0);
        /// Responder: local QP errors.
        pub const RESP_LOCAL_QP_ERROR: Field = Field::new(0x80, 31, 0);
        /// Local operation errors.
        pub const LOCAL_OPERATION_ERROR: Field = Field::new(0x84, 31, 0);
        /// Responder: local protection errors.
        pub const RESP_LOCAL_PROTECTION: Field = Field::new(0x88, 31, 0);
        /// Requester: local protection errors.
        pub const REQ_LOCAL_PROTECTION: Field = Field::new(0x8c, 31, 0);
        /// Responder: completions in error.
        pub const RESP_CQE_ERROR: Field = Field::new(0x90, 31, 0);
        /// Requester: completions in error.
        pub const REQ_CQE_ERROR: Field = Field::new(0x94, 31, 0);
        /// Requester: window bind errors.
        pub const REQ_MW_BINDING: Field = Field::new(0x98, 31, 0);
        /// Requester: bad responses.
        pub const REQ_BAD_RESPONSE: Field = Field::new(0x9c, 31, 0);
        /// Requester: remote invalid requests.
        pub const REQ_REMOTE_INVALID_REQUEST: Field = Field::new(0xa0, 31, 0);
        /// Responder: invalid requests.
        pub const RESP_REMOTE_INVALID_REQUEST: Field = Field::new(0xa4, 31, 0);
        /// Requester: remote access errors.
        pub const REQ_REMOTE_ACCESS_ERRORS: Field = Field::new(0xa8, 31, 0);
        /// Responder: access errors.
        pub const RESP_REMOTE_ACCESS_ERRORS: Field = Field::new(0xac, 31, 0);
        /// Requester: remote operation errors.
        pub const REQ_REMOTE_OPERATION_ERRORS: Field = Field::new(0xb0, 31, 0);
        /// Requester: retries exceeded.
        pub const REQ_TRANSPORT_RETRIES_EXCEEDED: Field = Field::new(0xb4, 31, 0);
        /// CQ overflows.
        pub const CQ_OVERFLOW: Field = Field::new(0xb8, 31, 0);
        /// Responder: completions flushed.
        pub const RESP_CQE_FLUSH_ERROR: Field = Field::new(0xbc, 31, 0);
        /// Requester: completions flushed.
        pub const REQ_CQE_FLUSH_ERROR: Field = Field::new(0xc0, 31, 0);
    }
}

/// QUERY_VPORT_COUNTER.
pub mod query_vport_counter {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_VPORT_COUNTER;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x20;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x210;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// Port, counted from 1; 0 on a device of one port.
    pub const PORT_NUM: Field = Field::new(0x08, 19, 16);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// Start from 0 after the answer.
    pub const CLEAR: Field = Field::new(0x18, 31, 31);

    /// Output fields.
    pub mod out {
        /// Received in error. Each counter is a pair of qwords: packets, then octets.
        pub const RECEIVED_ERRORS: usize = 0x10;
        /// Sent in error.
        pub const TRANSMIT_ERRORS: usize = 0x20;
        /// InfiniBand unicasts received.
        pub const RECEIVED_IB_UNICAST: usize = 0x30;
        /// InfiniBand unicasts sent.
        pub const TRANSMITTED_IB_UNICAST: usize = 0x40;
        /// InfiniBand multicasts received.
        pub const RECEIVED_IB_MULTICAST: usize = 0x50;
        /// InfiniBand multicasts sent.
        pub const TRANSMITTED_IB_MULTICAST: usize = 0x60;
        /// Ethernet broadcasts received.
        pub const RECEIVED_ETH_BROADCAST: usize = 0x70;
        /// Ethernet broadcasts sent.
        pub const TRANSMITTED_ETH_BROADCAST: usize = 0x80;
        /// Ethernet unicasts received.
        pub const RECEIVED_ETH_UNICAST: usize = 0x90;
        /// Ethernet unicasts sent.
        pub const TRANSMITTED_ETH_UNICAST: usize = 0xa0;
        /// Ethernet multicasts received.
        pub const RECEIVED_ETH_MULTICAST: usize = 0xb0;
        /// Ethernet multicasts sent.
        pub const TRANSMITTED_ETH_MULTICAST: usize = 0xc0;
    }
}

/// QUERY_VNIC_ENV: diagnostics of a vport.
pub mod query_vnic_env {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_VNIC_ENV;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x210;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);

    /// Output fields.
    pub mod out {
        /// The counters.
        pub const VPORT_ENV: usize = 0x10;
    }
}
