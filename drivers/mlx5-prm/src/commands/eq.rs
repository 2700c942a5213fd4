//! Event queues.

/// CREATE_EQ.
pub mod create_eq {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_EQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The [`eqc`](crate::context::eqc).
    pub const EQC: usize = 0x10;
    /// Four qwords: bit n of the first is event type n; of the second 64 + n; ...
    pub const EVENT_BITMASK: usize = 0x58;
    /// Page addresses of the queue, 8 bytes each.
    pub const PAS: usize = 0x110;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new EQ.
        pub const EQ_NUMBER: Field = Field::new(0x08, 7, 0);
    }
}

/// DESTROY_EQ.
pub mod destroy_eq {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_EQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The EQ.
    pub const EQ_NUMBER: Field = Field::new(0x08, 7, 0);
}

/// QUERY_EQ.
pub mod query_eq {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_EQ;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x110;
    /// The EQ.
    pub const EQ_NUMBER: Field = Field::new(0x08, 7, 0);

    /// Output fields.
    pub mod out {
        use crate::field::Field64;

        /// The [`eqc`](crate::context::eqc).
        pub const EQC: usize = 0x10;
        /// First qword of the event bit mask.
        pub const EVENT_BITMASK: Field64 = Field64::new(0x58);
        /// Page addresses of the queue.
        pub const PAS: usize = 0x110;
    }
}
