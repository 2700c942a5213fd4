//! UARs: pages of doorbells.

/// ALLOC_UAR.
pub mod alloc_uar {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::ALLOC_UAR;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new UAR: number of its page in BAR 0.
        pub const UAR: Field = Field::new(0x08, 23, 0);
    }
}

/// DEALLOC_UAR.
pub mod dealloc_uar {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DEALLOC_UAR;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The UAR.
    pub const UAR: Field = Field::new(0x08, 23, 0);
}
