//! The raw packet path: transport interface send (TIS) and receive (TIR), send and receive queues,
//! and receive queue tables.

/// CREATE_SQ.
pub mod create_sq {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_SQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The [`sqc`](crate::context::sqc), with the page addresses at its end.
    pub const SQC: usize = 0x20;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new SQ.
        pub const SQN: Field = Field::new(0x08, 23, 0);
    }
}

/// MODIFY_SQ.
pub mod modify_sq {
    use crate::cmd::Opcode;
    use crate::field::{Field, Field64};

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::MODIFY_SQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The state it is in; the context holds the one wanted.
    pub const SQ_STATE: Field = Field::new(0x08, 31, 28);
    /// The SQ.
    pub const SQN: Field = Field::new(0x08, 23, 0);
    /// Which optional fields change.
    pub const BITMASK: Field64 = Field64::new(0x10);
    /// The [`sqc`](crate::context::sqc) with the new values.
    pub const SQC: usize = 0x20;
}

/// QUERY_SQ.
pub mod query_sq {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_SQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x110;
    /// The SQ.
    pub const SQN: Field = Field::new(0x08, 23, 0);

    /// Output fields.
    pub mod out {
        /// The [`sqc`](crate::context::sqc), with the page addresses at its end.
        pub const SQC: usize = 0x20;
    }
}

/// DESTROY_SQ.
pub mod destroy_sq {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_SQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The SQ.
    pub const SQN: Field = Field::new(0x08, 23, 0);
}

/// CREATE_RQ.
pub mod create_rq {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_RQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The [`rqc`](crate::context::rqc), with the page addresses at its end.
    pub const RQC: usize = 0x20;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new RQ.
        pub const RQN: Field = Field::new(0x08, 23, 0);
    }
}

/// MODIFY_RQ.
pub mod modify_rq {
    use crate::cmd::Opcode;
    use crate::field::{Field, Field64};

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::MODIFY_RQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The state it is in; the context holds the one wanted.
    pub const RQ_STATE: Field = Field::new(0x08, 31, 28);
    /// The RQ.
    pub const RQN: Field = Field::new(0x08, 23, 0);
    /// Which optional fields change.
    pub const BITMASK: Field64 = Field64::new(0x10);
    /// The [`rqc`](crate::context::rqc) with the new values.
    pub const RQC: usize = 0x20;
}

/// QUERY_RQ.
pub mod query_rq {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_RQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x110;
    /// The RQ.
    pub const RQN: Field = Field::new(0x08, 23, 0);

    /// Output fields.
    pub mod out {
        /// The [`rqc`](crate::context::rqc), with the page addresses at its end.
        pub const RQC: usize = 0x20;
    }
}

/// DESTROY_RQ.
pub mod destroy_rq {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_RQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The RQ.
    pub const RQN: Field = Field::new(0x08, 23, 0);
}

/// CREATE_TIS.
pub mod create_tis {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_TIS;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0xc0;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The [`tisc`](crate::context::tisc).
    pub const TISC: usize = 0x20;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new TIS.
        pub const TISN: Field = Field::new(0x08, 23, 0);
    }
}

/// MODIFY_TIS.
pub mod modify_tis {
    use crate::cmd::Opcode;
    use crate::field::{Field, Field64};

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::MODIFY_TIS;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0xc0;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The TIS.
    pub const TISN: Field = Field::new(0x08, 23, 0);
    /// Which optional fields change.
    pub const BITMASK: Field64 = Field64::new(0x10);
    /// The [`tisc`](crate::context::tisc) with the new values.
    pub const TISC: usize = 0x20;
}

/// QUERY_TIS.
pub mod query_tis {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_TIS;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0xb0;
    /// The TIS.
    pub const TISN: Field = Field::new(0x08, 23, 0);

    /// Output fields.
    pub mod out {
        /// The [`tisc`](crate::context::tisc).
        pub const TISC: usize = 0x10;
    }
}

/// DESTROY_TIS.
pub mod destroy_tis {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_TIS;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The TIS.
    pub const TISN: Field = Field::new(0x08, 23, 0);
}

/// CREATE_TIR.
pub mod create_tir {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_TIR;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The [`tirc`](crate::context::tirc).
    pub const TIRC: usize = 0x20;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new TIR.
        pub const TIRN: Field = Field::new(0x08, 23, 0);
    }
}

/// MODIFY_TIR.
pub mod modify_tir {
    use crate::cmd::Opcode;
    use crate::field::{Field, Field64};

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::MODIFY_TIR;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The TIR.
    pub const TIRN: Field = Field::new(0x08, 23, 0);
    /// Which optional fields change.
    pub const BITMASK: Field64 = Field64::new(0x10);
    /// The [`tirc`](crate::context::tirc) with the new values.
    pub const TIRC: usize = 0x20;
}

/// QUERY_TIR.
pub mod query_tir {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_TIR;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x110;
    /// The TIR.
    pub const TIRN: Field = Field::new(0x08, 23, 0);

    /// Output fields.
    pub mod out {
        /// The [`tirc`](crate::context::tirc).
        pub const TIRC: usize = 0x20;
    }
}

/// DESTROY_TIR.
pub mod destroy_tir {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_TIR;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The TIR.
    pub const TIRN: Field = Field::new(0x08, 23, 0);
}

/// CREATE_RQT.
pub mod create_rqt {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_RQT;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The [`rqtc`](crate::context::rqtc), with the queues at its end.
    pub const RQTC: usize = 0x20;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new RQT.
        pub const RQTN: Field = Field::new(0x08, 23, 0);
    }
}

/// MODIFY_RQT.
pub mod modify_rqt {
    use crate::cmd::Opcode;
    use crate::field::{Field, Field64};

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::MODIFY_RQT;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The RQT.
    pub const RQTN: Field = Field::new(0x08, 23, 0);
    /// Which optional fields change.
    pub const BITMASK: Field64 = Field64::new(0x10);
    /// The [`rqtc`](crate::context::rqtc) with the new values.
    pub const RQTC: usize = 0x20;
}

/// QUERY_RQT.
pub mod query_rqt {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_RQT;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x110;
    /// The RQT.
    pub const RQTN: Field = Field::new(0x08, 23, 0);

    /// Output fields.
    pub mod out {
        /// The [`rqtc`](crate::context::rqtc), with the queues at its end.
        pub const RQTC: usize = 0x20;
    }
}

/// DESTROY_RQT.
pub mod destroy_rqt {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_RQT;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The RQT.
    pub const RQTN: Field = Field::new(0x08, 23, 0);
}
