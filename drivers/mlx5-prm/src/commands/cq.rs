//! Completion queues.

/// CREATE_CQ.
pub mod create_cq {
    use crate::cmd::Opcode;
    use crate::field::{Field, Field64};

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_CQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The [`cqc`](crate::context::cqc).
    pub const CQC: usize = 0x10;
    /// Where in the registered user memory it begins.
    pub const CQ_UMEM_OFFSET: Field64 = Field64::new(0x50);
    /// The registered user memory that holds the queue.
    pub const CQ_UMEM_ID: Field = Field::new(0x58, 31, 0);
    /// The queue lies in a registered user memory.
    pub const CQ_UMEM_VALID: Field = Field::new(0x5c, 31, 31);
    /// Page addresses of the queue, 8 bytes each.
    pub const PAS: usize = 0x110;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new CQ.
        pub const CQN: Field = Field::new(0x08, 23, 0);
    }
}

/// DESTROY_CQ.
pub mod destroy_cq {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_CQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The CQ.
    pub const CQN: Field = Field::new(0x08, 23, 0);
}

/// QUERY_CQ.
pub mod query_cq {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_CQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x110;
    /// The CQ.
    pub const CQN: Field = Field::new(0x08, 23, 0);

    /// Output fields.
    pub mod out {
        /// The [`cqc`](crate::context::cqc).
        pub const CQC: usize = 0x10;
        /// Page addresses of the queue.
        pub const PAS: usize = 0x110;
    }
}

/// MODIFY_CQ. The op_mod is 0 to modify, 1 to resize, see
/// [`modify_cq_op_mod`](super::modify_cq_op_mod).
pub mod modify_cq {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::MODIFY_CQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The CQ.
    pub const CQN: Field = Field::new(0x08, 23, 0);
    /// Which fields: [`modify_cq_select`](super::modify_cq_select) or
    /// [`resize_cq_select`](super::resize_cq_select).
    pub const FIELD_SELECT: Field = Field::new(0x0c, 31, 0);
    /// The [`cqc`](crate::context::cqc) with the new values.
    pub const CQC: usize = 0x10;
    /// The new buffer lies in a registered user memory.
    pub const CQ_UMEM_VALID: Field = Field::new(0x5c, 31, 31);
    /// Page addresses of the new buffer, 8 bytes each.
    pub const PAS: usize = 0x110;
}

/// Values of MODIFY_CQ's op_mod.
pub mod modify_cq_op_mod {
    /// Change fields in place.
    pub const MODIFY: u32 = 0;
    /// Continue in another buffer; a CQE with opcode RESIZE_CQ is the last in the old one.
    pub const RESIZE: u32 = 1;
}

/// Bits of [`modify_cq::FIELD_SELECT`] when modifying.
pub mod modify_cq_select {
    /// `cq_period`.
    pub const CQ_PERIOD: u32 = 1 << 0;
    /// `cq_max_count`.
    pub const CQ_MAX_COUNT: u32 = 1 << 1;
    /// `oi`.
    pub const OVERRUN_IGNORE: u32 = 1 << 2;
    /// `c_eqn`.
    pub const C_EQN: u32 = 1 << 3;
    /// `cq_period_mode`.
    pub const CQ_PERIOD_MODE: u32 = 1 << 4;
}

/// Bits of [`modify_cq::FIELD_SELECT`] when resizing.
pub mod resize_cq_select {
    /// `log_cq_size`.
    pub const LOG_CQ_SIZE: u32 = 1 << 0;
    /// `page_offset`.
    pub const PAGE_OFFSET: u32 = 1 << 1;
    /// `log_page_size`.
    pub const LOG_PAGE_SIZE: u32 = 1 << 2;
}
