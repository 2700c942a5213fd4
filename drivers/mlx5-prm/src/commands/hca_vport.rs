//! InfiniBand virtual ports.

/// QUERY_HCA_VPORT_CONTEXT.
pub mod query_hca_vport_context {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_HCA_VPORT_CONTEXT;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x210;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// Port, counted from 1; 0 on a device of one port.
    pub const PORT_NUM: Field = Field::new(0x08, 19, 16);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);

    /// Output fields.
    pub mod out {
        /// The [`hca_vport_context`](crate::context::hca_vport_context).
        pub const HCA_VPORT_CONTEXT: usize = 0x10;
    }
}

/// MODIFY_HCA_VPORT_CONTEXT.
pub mod modify_hca_vport_context {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::MODIFY_HCA_VPORT_CONTEXT;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x210;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// Port, counted from 1; 0 on a device of one port.
    pub const PORT_NUM: Field = Field::new(0x08, 19, 16);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// The [`hca_vport_context`](crate::context::hca_vport_context) with the new values.
    pub const HCA_VPORT_CONTEXT: usize = 0x10;
}

/// QUERY_HCA_VPORT_GID.
pub mod query_hca_vport_gid {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_HCA_VPORT_GID;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// Port, counted from 1; 0 on a device of one port.
    pub const PORT_NUM: Field = Field::new(0x08, 19, 16);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// Which GID; 0xffff for all.
    pub const GID_INDEX: Field = Field::new(0x0c, 15, 0);

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// Number of GIDs that follow.
        pub const GIDS_NUM: Field = Field::new(0x0c, 31, 16);
        /// The GIDs, 16 bytes each.
        pub const GID: usize = 0x10;
    }
}

/// QUERY_HCA_VPORT_PKEY.
pub mod query_hca_vport_pkey {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_HCA_VPORT_PKEY;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// Port, counted from 1; 0 on a device of one port.
    pub const PORT_NUM: Field = Field::new(0x08, 19, 16);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// Which P_Key; 0xffff for all.
    pub const PKEY_INDEX: Field = Field::new(0x0c, 15, 0);

    /// Output fields.
    pub mod out {
        /// The P_Keys, a dword each, the key in its low half.
        pub const PKEY: usize = 0x10;
    }
}
