//! Registered user memory: what queues and doorbell records can be laid into by an id and an offset.

/// CREATE_UMEM.
pub mod create_umem {
    use crate::cmd::Opcode;
    use crate::field::{Field, Field64};

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_UMEM;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x30;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// Log of the page size, less 12.
    pub const LOG_PAGE_SIZE: Field = Field::new(0x20, 4, 0);
    /// Where in the first page the memory begins, in bytes.
    pub const PAGE_OFFSET: Field = Field::new(0x24, 31, 0);
    /// How many pages follow.
    pub const NUM_OF_MTT: Field64 = Field64::new(0x28);
    /// Page addresses, 8 bytes each, as [`mtt`](crate::context::mkc::mtt).
    pub const MTT: usize = 0x30;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new memory.
        pub const UMEM_ID: Field = Field::new(0x08, 23, 0);
    }
}

/// DESTROY_UMEM.
pub mod destroy_umem {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_UMEM;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The memory.
    pub const UMEM_ID: Field = Field::new(0x08, 23, 0);
}
