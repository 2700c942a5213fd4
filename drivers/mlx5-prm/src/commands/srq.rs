//! Shared receive queues: XRC SRQs (which serve as common SRQs too) and receive memory pools.

/// CREATE_XRC_SRQ.
pub mod create_xrc_srq {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_XRC_SRQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The [`xrc_srqc`](crate::context::xrc_srqc).
    pub const XRC_SRQC: usize = 0x10;
    /// The queue lies in a registered user memory.
    pub const XRC_SRQ_UMEM_VALID: Field = Field::new(0x5c, 31, 31);
    /// Page addresses of the queue, 8 bytes each.
    pub const PAS: usize = 0x110;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new SRQ.
        pub const XRC_SRQN: Field = Field::new(0x08, 23, 0);
    }
}

/// DESTROY_XRC_SRQ.
pub mod destroy_xrc_srq {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_XRC_SRQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The SRQ.
    pub const XRC_SRQN: Field = Field::new(0x08, 23, 0);
}

/// QUERY_XRC_SRQ.
pub mod query_xrc_srq {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_XRC_SRQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x110;
    /// The SRQ.
    pub const XRC_SRQN: Field = Field::new(0x08, 23, 0);

    /// Output fields.
    pub mod out {
        /// The [`xrc_srqc`](crate::context::xrc_srqc).
        pub const XRC_SRQC: usize = 0x10;
        /// Page addresses of the queue.
        pub const PAS: usize = 0x110;
    }
}

/// ARM_XRC_SRQ. The op_mod is [`arm_xrc_srq_op_mod::XRC_SRQ`](super::arm_xrc_srq_op_mod).
pub mod arm_xrc_srq {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::ARM_XRC_SRQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The SRQ.
    pub const XRC_SRQN: Field = Field::new(0x08, 23, 0);
    /// The limit: an event comes, once, when fewer WQEs are left.
    pub const LWM: Field = Field::new(0x0c, 15, 0);
}

/// Values of ARM_XRC_SRQ's op_mod.
pub mod arm_xrc_srq_op_mod {
    /// An XRC SRQ.
    pub const XRC_SRQ: u32 = 1;
}

/// CREATE_RMP.
pub mod create_rmp {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_RMP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The [`rmpc`](crate::context::rmpc), with the page addresses at its end.
    pub const RMPC: usize = 0x20;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new RMP.
        pub const RMPN: Field = Field::new(0x08, 23, 0);
    }
}

/// DESTROY_RMP.
pub mod destroy_rmp {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_RMP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The RMP.
    pub const RMPN: Field = Field::new(0x08, 23, 0);
}

/// QUERY_RMP.
pub mod query_rmp {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_RMP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x110;
    /// The RMP.
    pub const RMPN: Field = Field::new(0x08, 23, 0);

    /// Output fields.
    pub mod out {
        /// The [`rmpc`](crate::context::rmpc).
        pub const RMPC: usize = 0x20;
    }
}

/// MODIFY_RMP.
pub mod modify_rmp {
    use crate::cmd::Opcode;
    use crate::field::{Field, Field64};

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::MODIFY_RMP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The state it is in.
    pub const RMP_STATE: Field = Field::new(0x08, 31, 28);
    /// The RMP.
    pub const RMPN: Field = Field::new(0x08, 23, 0);
    /// Which fields change: bit 0 is the limit.
    pub const BITMASK: Field64 = Field64::new(0x10);
    /// The [`rmpc`](crate::context::rmpc) with the new values.
    pub const RMPC: usize = 0x20;
}
