//! Queue pair transitions: all but the last two carry a context and the mask of its optional
//! parameters. PRM: "QP State Transition Commands".

/// RST2INIT_QP: reset to init.
pub mod rst2init_qp {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::RST2INIT_QP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The QP.
    pub const QPN: Field = Field::new(0x08, 23, 0);
    /// Which optional parameters the context holds, see [`opt_param`](super::opt_param).
    pub const OPT_PARAM_MASK: Field = Field::new(0x10, 31, 0);
    /// Enhanced connection establishment options.
    pub const ECE: Field = Field::new(0x14, 31, 0);
    /// The [`qpc`](crate::context::qpc).
    pub const QPC: usize = 0x18;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// Options the device took.
        pub const ECE: Field = Field::new(0x0c, 31, 0);
    }
}

/// INIT2INIT_QP: init stays init, with other attributes.
pub mod init2init_qp {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::INIT2INIT_QP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The QP.
    pub const QPN: Field = Field::new(0x08, 23, 0);
    /// Which optional parameters the context holds, see [`opt_param`](super::opt_param).
    pub const OPT_PARAM_MASK: Field = Field::new(0x10, 31, 0);
    /// Enhanced connection establishment options.
    pub const ECE: Field = Field::new(0x14, 31, 0);
    /// The [`qpc`](crate::context::qpc).
    pub const QPC: usize = 0x18;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// Options the device took.
        pub const ECE: Field = Field::new(0x0c, 31, 0);
    }
}

/// INIT2RTR_QP: init to ready to receive.
pub mod init2rtr_qp {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::INIT2RTR_QP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The QP.
    pub const QPN: Field = Field::new(0x08, 23, 0);
    /// Which optional parameters the context holds, see [`opt_param`](super::opt_param).
    pub const OPT_PARAM_MASK: Field = Field::new(0x10, 31, 0);
    /// Enhanced connection establishment options.
    pub const ECE: Field = Field::new(0x14, 31, 0);
    /// The [`qpc`](crate::context::qpc).
    pub const QPC: usize = 0x18;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// Options the device took.
        pub const ECE: Field = Field::new(0x0c, 31, 0);
    }
}

/// RTR2RTS_QP: ready to receive to ready to send.
pub mod rtr2rts_qp {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::RTR2RTS_QP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The QP.
    pub const QPN: Field = Field::new(0x08, 23, 0);
    /// Which optional parameters the context holds, see [`opt_param`](super::opt_param).
    pub const OPT_PARAM_MASK: Field = Field::new(0x10, 31, 0);
    /// Enhanced connection establishment options.
    pub const ECE: Field = Field::new(0x14, 31, 0);
    /// The [`qpc`](crate::context::qpc).
    pub const QPC: usize = 0x18;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// Options the device took.
        pub const ECE: Field = Field::new(0x0c, 31, 0);
    }
}

/// RTS2RTS_QP: ready to send stays so, with other attributes.
pub mod rts2rts_qp {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::RTS2RTS_QP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The QP.
    pub const QPN: Field = Field::new(0x08, 23, 0);
    /// Which optional parameters the context holds, see [`opt_param`](super::opt_param).
    pub const OPT_PARAM_MASK: Field = Field::new(0x10, 31, 0);
    /// Enhanced connection establishment options.
    pub const ECE: Field = Field::new(0x14, 31, 0);
    /// The [`qpc`](crate::context::qpc).
    pub const QPC: usize = 0x18;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// Options the device took.
        pub const ECE: Field = Field::new(0x0c, 31, 0);
    }
}

/// SQERR2RTS_QP: send queue error back to ready to send.
pub mod sqerr2rts_qp {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::SQERR2RTS_QP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The QP.
    pub const QPN: Field = Field::new(0x08, 23, 0);
    /// Which optional parameters the context holds, see [`opt_param`](super::opt_param).
    pub const OPT_PARAM_MASK: Field = Field::new(0x10, 31, 0);
    /// The [`qpc`](crate::context::qpc).
    pub const QPC: usize = 0x18;
}

/// SQD2RTS_QP: send queue drained back to ready to send; the PRM also calls the opcode SQD_RTS_QP.
pub mod sqd2rts_qp {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::SQD_RTS_QP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The QP.
    pub const QPN: Field = Field::new(0x08, 23, 0);
    /// Which optional parameters the context holds, see [`opt_param`](super::opt_param).
    pub const OPT_PARAM_MASK: Field = Field::new(0x10, 31, 0);
    /// The [`qpc`](crate::context::qpc).
    pub const QPC: usize = 0x18;
}

/// 2ERR_QP: any state to error.
pub mod qp_2err {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QP_2ERR;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The QP.
    pub const QPN: Field = Field::new(0x08, 23, 0);
}

/// 2RST_QP: any state to reset.
pub mod qp_2rst {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QP_2RST;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The QP.
    pub const QPN: Field = Field::new(0x08, 23, 0);
}

/// Bits of the `opt_param_mask` of a transition. PRM: "Optional Parameters Mask".
pub mod opt_param {
    /// Alternate path.
    pub const ALT_ADDR_PATH: u32 = 1 << 0;
    /// Remote reads allowed.
    pub const RRE: u32 = 1 << 1;
    /// Remote atomics allowed.
    pub const RAE: u32 = 1 << 2;
    /// Remote writes allowed.
    pub const RWE: u32 = 1 << 3;
    /// P_Key index.
    pub const PKEY_INDEX: u32 = 1 << 4;
    /// Q_Key.
    pub const Q_KEY: u32 = 1 << 5;
    /// Minimal RNR NAK timer.
    pub const RNR_TIMEOUT: u32 = 1 << 6;
    /// Primary path.
    pub const PRIMARY_ADDR_PATH: u32 = 1 << 7;
    /// Outstanding reads and atomics as a requester.
    pub const SRA_MAX: u32 = 1 << 8;
    /// Outstanding reads and atomics as a responder.
    pub const RRA_MAX: u32 = 1 << 9;
    /// Path migration state.
    pub const PM_STATE: u32 = 1 << 10;
    /// Retry count.
    pub const RETRY_COUNT: u32 = 1 << 12;
    /// RNR retry count.
    pub const RNR_RETRY: u32 = 1 << 13;
    /// ACK timeout.
    pub const ACK_TIMEOUT: u32 = 1 << 14;
    /// Port of a bond.
    pub const LAG_TX_AFF: u32 = 1 << 15;
    /// Primary port.
    pub const PRI_PORT: u32 = 1 << 16;
    /// Shared receive queue.
    pub const SRQN: u32 = 1 << 18;
    /// Receive CQ.
    pub const CQN_RCV: u32 = 1 << 19;
    /// DC hash.
    pub const DC_HS: u32 = 1 << 20;
    /// DC key.
    pub const DC_KEY: u32 = 1 << 21;
    /// Counter set.
    pub const COUNTER_SET_ID: u32 = 1 << 25;
}
