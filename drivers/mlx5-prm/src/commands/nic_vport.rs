//! Ethernet virtual ports.

/// QUERY_NIC_VPORT_CONTEXT.
pub mod query_nic_vport_context {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_NIC_VPORT_CONTEXT;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x110;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// Which list is asked for, see [`list_type`](crate::context::nic_vport_context::list_type).
    pub const ALLOWED_LIST_TYPE: Field = Field::new(0x0c, 26, 24);

    /// Output fields.
    pub mod out {
        /// The [`nic_vport_context`](crate::context::nic_vport_context), with the list at its end.
        pub const NIC_VPORT_CONTEXT: usize = 0x10;
    }
}

/// MODIFY_NIC_VPORT_CONTEXT.
pub mod modify_nic_vport_context {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::MODIFY_NIC_VPORT_CONTEXT;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x200;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// Which fields change, see [`nic_vport_select`](super::nic_vport_select).
    pub const FIELD_SELECT: Field = Field::new(0x0c, 31, 0);
    /// The [`nic_vport_context`](crate::context::nic_vport_context) with the new values.
    pub const NIC_VPORT_CONTEXT: usize = 0x100;
}

/// Bits of [`modify_nic_vport_context::FIELD_SELECT`].
pub mod nic_vport_select {
    /// `roce_en`.
    pub const ROCE_EN: u32 = 1 << 1;
    /// The allowed list.
    pub const ADDRESSES_LIST: u32 = 1 << 2;
    /// `permanent_address`.
    pub const PERMANENT_ADDRESS: u32 = 1 << 3;
    /// The promiscuous modes.
    pub const PROMISC: u32 = 1 << 4;
    /// Arming of the event, and what raises it.
    pub const CHANGE_EVENT: u32 = 1 << 5;
    /// `mtu`.
    pub const MTU: u32 = 1 << 6;
    /// `min_wqe_inline_mode`.
    pub const MIN_INLINE: u32 = 1 << 7;
    /// `port_guid`.
    pub const PORT_GUID: u32 = 1 << 8;
    /// `node_guid`.
    pub const NODE_GUID: u32 = 1 << 9;
    /// `disable_mc_local_lb`.
    pub const DISABLE_MC_LOCAL_LB: u32 = 1 << 10;
    /// `disable_uc_local_lb`.
    pub const DISABLE_UC_LOCAL_LB: u32 = 1 << 11;
    /// `affiliation_criteria` and `affiliated_vhca_id`.
    pub const AFFILIATION: u32 = 1 << 13;
}

/// QUERY_VPORT_STATE. The op_mod says of what, see
/// [`vport_state_op_mod`](super::vport_state_op_mod).
pub mod query_vport_state {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_VPORT_STATE;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// What the administrator wants: 0 down, 1 up, 2 as the port is.
        pub const ADMIN_STATE: Field = Field::new(0x0c, 7, 4);
        /// 0 down, 1 up.
        pub const STATE: Field = Field::new(0x0c, 3, 0);
    }
}

/// MODIFY_VPORT_STATE. The op_mod says of what, see
/// [`vport_state_op_mod`](super::vport_state_op_mod).
pub mod modify_vport_state {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::MODIFY_VPORT_STATE;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// What the administrator wants: 0 down, 1 up, 2 as the port is.
    pub const ADMIN_STATE: Field = Field::new(0x0c, 7, 4);
}

/// Values of QUERY_VPORT_STATE's and MODIFY_VPORT_STATE's op_mod.
pub mod vport_state_op_mod {
    /// The function's own vport.
    pub const VNIC_VPORT: u32 = 0;
    /// A vport of the embedded switch.
    pub const ESW_VPORT: u32 = 1;
    /// The uplink.
    pub const UPLINK: u32 = 2;
}

/// SET_L2_TABLE_ENTRY: a unicast address that the port takes in for this function.
pub mod set_l2_table_entry {
    use crate::cmd::Opcode;
    use crate::field::{Field, Field64};

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::SET_L2_TABLE_ENTRY;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x40;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// Index.
    pub const TABLE_INDEX: Field = Field::new(0x14, 23, 0);
    /// The VLAN counts too.
    pub const VLAN_VALID: Field = Field::new(0x1c, 12, 12);
    /// VLAN.
    pub const VLAN: Field = Field::new(0x1c, 11, 0);
    /// MAC address in the low 6 of 8 bytes.
    pub const MAC_ADDRESS: Field64 = Field64::new(0x20);
}

/// DELETE_L2_TABLE_ENTRY.
pub mod delete_l2_table_entry {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DELETE_L2_TABLE_ENTRY;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x40;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// Index.
    pub const TABLE_INDEX: Field = Field::new(0x14, 23, 0);
}
