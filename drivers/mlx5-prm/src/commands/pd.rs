//! Protection domains, XRC domains and transport domains.

/// ALLOC_PD.
pub mod alloc_pd {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::ALLOC_PD;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new protection domain.
        pub const PD: Field = Field::new(0x08, 23, 0);
    }
}

/// DEALLOC_PD.
pub mod dealloc_pd {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DEALLOC_PD;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The protection domain.
    pub const PD: Field = Field::new(0x08, 23, 0);
}

/// ALLOC_XRCD.
pub mod alloc_xrcd {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::ALLOC_XRCD;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new XRC domain.
        pub const XRCD: Field = Field::new(0x08, 23, 0);
    }
}

/// DEALLOC_XRCD.
pub mod dealloc_xrcd {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DEALLOC_XRCD;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The XRC domain.
    pub const XRCD: Field = Field::new(0x08, 23, 0);
}

/// ALLOC_TRANSPORT_DOMAIN.
pub mod alloc_transport_domain {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::ALLOC_TRANSPORT_DOMAIN;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new transport domain.
        pub const TRANSPORT_DOMAIN: Field = Field::new(0x08, 23, 0);
    }
}

/// DEALLOC_TRANSPORT_DOMAIN.
pub mod dealloc_transport_domain {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DEALLOC_TRANSPORT_DOMAIN;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The transport domain.
    pub const TRANSPORT_DOMAIN: Field = Field::new(0x08, 23, 0);
}
