//! Firmware's pages: 4 KiB each, given and taken back.

/// QUERY_PAGES. The op_mod says which, see [`query_pages_op_mod`](super::query_pages_op_mod).
pub mod query_pages {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_PAGES;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The function is meant from the other side of a BlueField.
    pub const EMBEDDED_CPU_FUNCTION: Field = Field::new(0x08, 31, 31);
    /// 0 for the function itself.
    pub const FUNCTION_ID: Field = Field::new(0x08, 15, 0);

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// As in the input.
        pub const EMBEDDED_CPU_FUNCTION: Field = Field::new(0x08, 31, 31);
        /// As in the input.
        pub const FUNCTION_ID: Field = Field::new(0x08, 15, 0);
        /// Pages that firmware wants; as a signed number, negative for pages that it can give
        /// back.
        pub const NUM_PAGES: Field = Field::new(0x0c, 31, 0);
    }
}

/// Values of QUERY_PAGES' op_mod.
pub mod query_pages_op_mod {
    /// Pages to boot, before SET_HCA_CAP.
    pub const BOOT: u32 = 1;
    /// Pages to initialize, before INIT_HCA.
    pub const INIT: u32 = 2;
    /// Pages at any later time.
    pub const REGULAR: u32 = 3;
}

/// MANAGE_PAGES. The op_mod says what, see [`manage_pages_op_mod`](super::manage_pages_op_mod).
pub mod manage_pages {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::MANAGE_PAGES;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The function is meant from the other side of a BlueField.
    pub const EMBEDDED_CPU_FUNCTION: Field = Field::new(0x08, 31, 31);
    /// 0 for the function itself.
    pub const FUNCTION_ID: Field = Field::new(0x08, 15, 0);
    /// Number of pages given or asked back.
    pub const INPUT_NUM_ENTRIES: Field = Field::new(0x0c, 31, 0);
    /// When given: addresses of the pages, 8 bytes each, 4 KiB aligned.
    pub const PAS: usize = 0x10;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// Number of pages taken or given back.
        pub const OUTPUT_NUM_ENTRIES: Field = Field::new(0x08, 31, 0);
        /// When taken back: addresses of the pages, 8 bytes each.
        pub const PAS: usize = 0x10;
    }
}

/// Values of MANAGE_PAGES' op_mod.
pub mod manage_pages_op_mod {
    /// The driver cannot give what a page request event asked for.
    pub const CANT_GIVE: u32 = 0;
    /// The driver gives pages.
    pub const GIVE: u32 = 1;
    /// The driver wants pages back.
    pub const TAKE: u32 = 2;
}
