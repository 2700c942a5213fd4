//! Memory keys.

/// CREATE_MKEY.
pub mod create_mkey {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_MKEY;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The page addresses are written into the key at once, not by a later UMR.
    pub const PG_ACCESS: Field = Field::new(0x0c, 31, 31);
    /// The memory is a registered user memory.
    pub const MKEY_UMEM_VALID: Field = Field::new(0x0c, 30, 30);
    /// The [`mkc`](crate::context::mkc).
    pub const MKC: usize = 0x10;
    /// Size of the list that follows, in 16 bytes.
    pub const TRANSLATIONS_OCTWORD_ACTUAL_SIZE: Field = Field::new(0x60, 31, 0);
    /// Page addresses (8 bytes each) or KLMs (16 bytes each).
    pub const KLM_PAS_MTT: usize = 0x110;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new key's upper 24 bits; the low 8 are the context's `mkey_7_0`.
        pub const MKEY_INDEX: Field = Field::new(0x08, 23, 0);
    }
}

/// DESTROY_MKEY.
pub mod destroy_mkey {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_MKEY;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The key's upper 24 bits.
    pub const MKEY_INDEX: Field = Field::new(0x08, 23, 0);
}

/// QUERY_MKEY.
pub mod query_mkey {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_MKEY;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x130;
    /// The key's upper 24 bits.
    pub const MKEY_INDEX: Field = Field::new(0x08, 23, 0);
    /// Answer with the first entries of the translation too.
    pub const PG_ACCESS: Field = Field::new(0x0c, 31, 31);

    /// Output fields.
    pub mod out {
        /// The [`mkc`](crate::context::mkc).
        pub const MKC: usize = 0x10;
        /// First 16 bytes of the translation: a [`klm`](crate::context::mkc::klm) or two page addresses.
        pub const TRANSLATION_0: usize = 0x110;
        /// Second 16 bytes of the translation.
        pub const TRANSLATION_1: usize = 0x120;
    }
}
