//! RoCE's address table.

/// SET_ROCE_ADDRESS.
pub mod set_roce_address {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::SET_ROCE_ADDRESS;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x30;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// Index into the table.
    pub const ROCE_ADDRESS_INDEX: Field = Field::new(0x08, 31, 16);
    /// Port, counted from 1, on a device that joins several.
    pub const VHCA_PORT_NUM: Field = Field::new(0x08, 3, 0);
    /// The [`roce_addr_layout`](crate::context::roce::roce_addr_layout); all zero removes the
    /// entry.
    pub const ROCE_ADDRESS: usize = 0x10;
}

/// QUERY_ROCE_ADDRESS.
pub mod query_roce_address {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_ROCE_ADDRESS;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x30;
    /// Index into the table.
    pub const ROCE_ADDRESS_INDEX: Field = Field::new(0x08, 31, 16);
    /// Port, counted from 1, on a device that joins several.
    pub const VHCA_PORT_NUM: Field = Field::new(0x08, 3, 0);

    /// Output fields.
    pub mod out {
        /// The [`roce_addr_layout`](crate::context::roce::roce_addr_layout).
        pub const ROCE_ADDRESS: usize = 0x10;
    }
}
