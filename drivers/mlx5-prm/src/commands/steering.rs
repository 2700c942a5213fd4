//! Flow tables, groups, entries and counters.

/// CREATE_FLOW_TABLE.
pub mod create_flow_table {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_FLOW_TABLE;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x40;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// See [`flow_table_type`](super::flow_table_type).
    pub const TABLE_TYPE: Field = Field::new(0x10, 31, 24);
    /// The [`flow_table_context`](crate::context::steering::flow_table_context).
    pub const FLOW_TABLE_CONTEXT: usize = 0x18;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new table.
        pub const TABLE_ID: Field = Field::new(0x08, 23, 0);
        /// Address of the table, where software owns it, bits 63:40.
        pub const ICM_ADDRESS_63_40: Field = Field::new(0x00, 23, 0);
        /// Bits 39:32.
        pub const ICM_ADDRESS_39_32: Field = Field::new(0x08, 31, 24);
        /// Bits 31:0.
        pub const ICM_ADDRESS_31_0: Field = Field::new(0x0c, 31, 0);
    }
}

/// Values of the flow table type.
pub mod flow_table_type {
    /// What the NIC receives.
    pub const NIC_RX: u32 = 0x0;
    /// What the NIC sends.
    pub const NIC_TX: u32 = 0x1;
    /// Embedded switch, egress ACL.
    pub const ESW_EGRESS_ACL: u32 = 0x2;
    /// Embedded switch, ingress ACL.
    pub const ESW_INGRESS_ACL: u32 = 0x3;
    /// Embedded switch.
    pub const FDB: u32 = 0x4;
    /// Copy of what is received.
    pub const SNIFFER_RX: u32 = 0x5;
    /// Copy of what is sent.
    pub const SNIFFER_TX: u32 = 0x6;
    /// What RDMA receives.
    pub const RDMA_RX: u32 = 0x7;
    /// What RDMA sends.
    pub const RDMA_TX: u32 = 0x8;
    /// Choice of a bond's port.
    pub const PORT_SEL: u32 = 0x9;
}

/// DESTROY_FLOW_TABLE.
pub mod destroy_flow_table {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_FLOW_TABLE;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x40;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// See [`flow_table_type`](super::flow_table_type).
    pub const TABLE_TYPE: Field = Field::new(0x10, 31, 24);
    /// The table.
    pub const TABLE_ID: Field = Field::new(0x14, 23, 0);
}

/// QUERY_FLOW_TABLE.
pub mod query_flow_table {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_FLOW_TABLE;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x40;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x40;
    /// See [`flow_table_type`](super::flow_table_type).
    pub const TABLE_TYPE: Field = Field::new(0x10, 31, 24);
    /// The table.
    pub const TABLE_ID: Field = Field::new(0x14, 23, 0);

    /// Output fields.
    pub mod out {
        /// The [`flow_table_context`](crate::context::steering::flow_table_context).
        pub const FLOW_TABLE_CONTEXT: usize = 0x18;
    }
}

/// MODIFY_FLOW_TABLE.
pub mod modify_flow_table {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::MODIFY_FLOW_TABLE;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x40;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// Bit 0: the miss table; bit 15: the bond's next table.
    pub const MODIFY_FIELD_SELECT: Field = Field::new(0x0c, 15, 0);
    /// See [`flow_table_type`](super::flow_table_type).
    pub const TABLE_TYPE: Field = Field::new(0x10, 31, 24);
    /// The table.
    pub const TABLE_ID: Field = Field::new(0x14, 23, 0);
    /// The [`flow_table_context`](crate::context::steering::flow_table_context) with the new
    /// values.
    pub const FLOW_TABLE_CONTEXT: usize = 0x18;
}

/// SET_FLOW_TABLE_ROOT. The op_mod is 0 to connect, 1 to disconnect.
pub mod set_flow_table_root {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::SET_FLOW_TABLE_ROOT;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x40;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// See [`flow_table_type`](super::flow_table_type).
    pub const TABLE_TYPE: Field = Field::new(0x10, 31, 24);
    /// The table is another vport's.
    pub const TABLE_OF_OTHER_VPORT: Field = Field::new(0x10, 16, 16);
    /// That vport.
    pub const TABLE_VPORT_NUMBER: Field = Field::new(0x10, 15, 0);
    /// The table that comes first.
    pub const TABLE_ID: Field = Field::new(0x14, 23, 0);
    /// IPoIB: the QP underneath.
    pub const UNDERLAY_QPN: Field = Field::new(0x18, 23, 0);
    /// The next field counts.
    pub const TABLE_ESWITCH_OWNER_VHCA_ID_VALID: Field = Field::new(0x1c, 31, 31);
    /// The function that owns the table.
    pub const TABLE_ESWITCH_OWNER_VHCA_ID: Field = Field::new(0x1c, 15, 0);
}

/// CREATE_FLOW_GROUP: entries of a table that look at the same fields.
pub mod create_flow_group {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::CREATE_FLOW_GROUP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x400;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// See [`flow_table_type`](super::flow_table_type).
    pub const TABLE_TYPE: Field = Field::new(0x10, 31, 24);
    /// 0 matches by criteria, 1 by a hash split.
    pub const GROUP_TYPE: Field = Field::new(0x10, 19, 16);
    /// The table.
    pub const TABLE_ID: Field = Field::new(0x14, 23, 0);
    /// Entries name a source function.
    pub const SOURCE_ESWITCH_OWNER_VHCA_ID_VALID: Field = Field::new(0x18, 31, 31);
    /// First entry.
    pub const START_FLOW_INDEX: Field = Field::new(0x1c, 31, 0);
    /// Last entry.
    pub const END_FLOW_INDEX: Field = Field::new(0x24, 31, 0);
    /// The match definer of a hash split.
    pub const MATCH_DEFINER_ID: Field = Field::new(0x28, 15, 0);
    /// Which parts of the criteria count, see [`match_criteria`](super::match_criteria).
    pub const MATCH_CRITERIA_ENABLE: Field = Field::new(0x3c, 7, 0);
    /// The mask, a [`fte_match_param`](crate::context::steering::fte_match_param).
    pub const MATCH_CRITERIA: usize = 0x40;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new group.
        pub const GROUP_ID: Field = Field::new(0x08, 23, 0);
    }
}

/// Bits of [`create_flow_group::MATCH_CRITERIA_ENABLE`].
pub mod match_criteria {
    /// Outer headers.
    pub const OUTER_HEADERS: u32 = 1 << 0;
    /// Miscellaneous parameters.
    pub const MISC_PARAMETERS: u32 = 1 << 1;
    /// Inner headers.
    pub const INNER_HEADERS: u32 = 1 << 2;
    /// Miscellaneous parameters 2.
    pub const MISC_PARAMETERS_2: u32 = 1 << 3;
    /// Miscellaneous parameters 3.
    pub const MISC_PARAMETERS_3: u32 = 1 << 4;
    /// Miscellaneous parameters 4.
    pub const MISC_PARAMETERS_4: u32 = 1 << 5;
    /// Miscellaneous parameters 5.
    pub const MISC_PARAMETERS_5: u32 = 1 << 6;
}

/// DESTROY_FLOW_GROUP.
pub mod destroy_flow_group {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DESTROY_FLOW_GROUP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x40;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// See [`flow_table_type`](super::flow_table_type).
    pub const TABLE_TYPE: Field = Field::new(0x10, 31, 24);
    /// The table.
    pub const TABLE_ID: Field = Field::new(0x14, 23, 0);
    /// The group.
    pub const GROUP_ID: Field = Field::new(0x18, 31, 0);
}

/// SET_FLOW_TABLE_ENTRY. The op_mod is 0 to set, 1 to modify.
pub mod set_flow_table_entry {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::SET_FLOW_TABLE_ENTRY;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x340;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// See [`flow_table_type`](super::flow_table_type).
    pub const TABLE_TYPE: Field = Field::new(0x10, 31, 24);
    /// The table.
    pub const TABLE_ID: Field = Field::new(0x14, 23, 0);
    /// A destination may be a table of a lower level.
    pub const IGNORE_FLOW_LEVEL: Field = Field::new(0x18, 31, 31);
    /// Modifying: bit 0 action, 1 flow tag, 2 destinations, 3 counters.
    pub const MODIFY_ENABLE_MASK: Field = Field::new(0x18, 7, 0);
    /// The entry.
    pub const FLOW_INDEX: Field = Field::new(0x20, 31, 0);
    /// The [`flow_context`](crate::context::steering::flow_context).
    pub const FLOW_CONTEXT: usize = 0x40;
}

/// DELETE_FLOW_TABLE_ENTRY.
pub mod delete_flow_table_entry {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DELETE_FLOW_TABLE_ENTRY;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x40;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// `vport_number` is meant, not the own vport.
    pub const OTHER_VPORT: Field = Field::new(0x08, 31, 31);
    /// The vport.
    pub const VPORT_NUMBER: Field = Field::new(0x08, 15, 0);
    /// See [`flow_table_type`](super::flow_table_type).
    pub const TABLE_TYPE: Field = Field::new(0x10, 31, 24);
    /// The table.
    pub const TABLE_ID: Field = Field::new(0x14, 23, 0);
    /// The entry.
    pub const FLOW_INDEX: Field = Field::new(0x20, 31, 0);
}

/// ALLOC_FLOW_COUNTER.
pub mod alloc_flow_counter {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::ALLOC_FLOW_COUNTER;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// Log of the number of counters, where the capability is there.
    pub const FLOW_COUNTER_BULK_LOG_SIZE: Field = Field::new(0x0c, 12, 8);
    /// Bit n: 128 << n counters at once; 0 is one.
    pub const FLOW_COUNTER_BULK: Field = Field::new(0x0c, 7, 0);

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The new counter, or the first.
        pub const FLOW_COUNTER_ID: Field = Field::new(0x08, 31, 0);
    }
}

/// DEALLOC_FLOW_COUNTER.
pub mod dealloc_flow_counter {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DEALLOC_FLOW_COUNTER;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The counter, or the first.
    pub const FLOW_COUNTER_ID: Field = Field::new(0x08, 31, 0);
}

/// QUERY_FLOW_COUNTER.
pub mod query_flow_counter {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_FLOW_COUNTER;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x20;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// Start from 0 after the answer.
    pub const CLEAR: Field = Field::new(0x18, 31, 31);
    /// How many; 0 is one.
    pub const NUM_OF_COUNTERS: Field = Field::new(0x18, 15, 0);
    /// The first counter.
    pub const FLOW_COUNTER_ID: Field = Field::new(0x1c, 31, 0);

    /// Output fields.
    pub mod out {
        /// A pair of qwords for each: packets, then octets.
        pub const FLOW_STATISTICS: usize = 0x10;
    }
}
