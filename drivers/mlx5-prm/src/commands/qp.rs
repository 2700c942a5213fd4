//! Queue pairs: creation, destruction, query. Transitions are in `qp_state.rs`.

/// CREATE_QP.
pub mod create_qp {
    use crate::cmd::Opcode;
    use crate::field::{Field, Field64};

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_QP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// QPN asked for; 0 lets the device choose.
    pub const INPUT_QPN: Field = Field::new(0x08, 23, 0);
    /// Unused here; 0.
    pub const OPT_PARAM_MASK: Field = Field::new(0x10, 31, 0);
    /// Enhanced connection establishment options; capability `ece_support`.
    pub const ECE: Field = Field::new(0x14, 31, 0);
    /// The [`qpc`](crate::context::qpc).
    pub const QPC: usize = 0x18;
    /// Where in the registered user memory they begin.
    pub const WQ_UMEM_OFFSET: Field64 = Field64::new(0x100);
    /// The registered user memory that holds the work queues.
    pub const WQ_UMEM_ID: Field = Field::new(0x108, 31, 0);
    /// The work queues lie in a registered user memory.
    pub const WQ_UMEM_VALID: Field = Field::new(0x10c, 31, 31);
    /// Page addresses of the work queues, 8 bytes each: receive queue first, then send queue.
    pub const PAS: usize = 0x110;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new QP.
        pub const QPN: Field = Field::new(0x08, 23, 0);
        /// Options the device took.
        pub const ECE: Field = Field::new(0x0c, 31, 0);
    }
}

/// DESTROY_QP.
pub mod destroy_qp {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_QP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The QP.
    pub const QPN: Field = Field::new(0x08, 23, 0);
}

/// QUERY_QP. Drivers may offer more output than this: Linux 6.12's has 0x1d0 bytes, where an extended
/// context could follow.
pub mod query_qp {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_QP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x110;
    /// The QP.
    pub const QPN: Field = Field::new(0x08, 23, 0);

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// Which optional parameters a later transition may change.
        pub const OPT_PARAM_MASK: Field = Field::new(0x10, 31, 0);
        /// Options in force.
        pub const ECE: Field = Field::new(0x14, 31, 0);
        /// The [`qpc`](crate::context::qpc).
        pub const QPC: usize = 0x18;
        /// Page addresses of the work queues.
        pub const PAS: usize = 0x110;
    }
}
