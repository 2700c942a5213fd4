//! Management datagrams by command, and multicast groups.

/// MAD_IFC: hands a management datagram to the port's own agent. The op_mod says which keys it
/// ignores, see [`mad_ifc_op_mod`](super::mad_ifc_op_mod).
pub mod mad_ifc {
    use crate::cmd::Opcode;
    use crate::field::{Bytes, Field};

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::MAD_IFC;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x110;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x110;
    /// LID that it came from.
    pub const REMOTE_LID: Field = Field::new(0x08, 31, 16);
    /// Port, counted from 1.
    pub const PORT: Field = Field::new(0x08, 7, 0);
    /// The datagram.
    pub const MAD: Bytes = Bytes::new(0x10, 256);

    /// Output fields.
    pub mod out {
        use crate::field::Bytes;

        /// The agent's answer.
        pub const RESPONSE_MAD_PACKET: Bytes = Bytes::new(0x10, 256);
    }
}

/// Bits of MAD_IFC's op_mod.
pub mod mad_ifc_op_mod {
    /// Any M_Key will do.
    pub const IGNORE_MKEY: u32 = 1 << 0;
    /// Any B_Key will do.
    pub const IGNORE_BKEY: u32 = 1 << 1;
}

/// ATTACH_TO_MCG: the QP gets what is sent to the multicast group.
pub mod attach_to_mcg {
    use crate::cmd::Opcode;
    use crate::field::{Bytes, Field};

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::ATTACH_TO_MCG;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x20;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The QP.
    pub const QPN: Field = Field::new(0x08, 23, 0);
    /// The group.
    pub const MULTICAST_GID: Bytes = Bytes::new(0x10, 16);
}

/// DETACH_FROM_MCG.
pub mod detach_from_mcg {
    use crate::cmd::Opcode;
    use crate::field::{Bytes, Field};

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DETACH_FROM_MCG;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x20;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The QP.
    pub const QPN: Field = Field::new(0x08, 23, 0);
    /// The group.
    pub const MULTICAST_GID: Bytes = Bytes::new(0x10, 16);
}
