//! Flow tables: their context, what an entry matches and what it does.

/// Flow table context. PRM: "Flow Table Context".
pub mod flow_table_context {
    use crate::field::{Field, Field64};

    /// Size in bytes.
    pub const SIZE: usize = 0x28;
    /// Entries may reformat packets.
    pub const REFORMAT_EN: Field = Field::new(0x00, 31, 31);
    /// Entries may decapsulate.
    pub const DECAP_EN: Field = Field::new(0x00, 30, 30);
    /// Software writes the table itself.
    pub const SW_OWNER: Field = Field::new(0x00, 29, 29);
    /// The table ends steering.
    pub const TERMINATION_TABLE: Field = Field::new(0x00, 28, 28);
    /// Without a match: 0 the default, 1 go to `table_miss_id`.
    pub const TABLE_MISS_ACTION: Field = Field::new(0x00, 27, 24);
    /// Tables point to higher levels only.
    pub const LEVEL: Field = Field::new(0x00, 23, 16);
    /// Log of the number of entries.
    pub const LOG_SIZE: Field = Field::new(0x00, 7, 0);
    /// Table for packets without a match.
    pub const TABLE_MISS_ID: Field = Field::new(0x04, 23, 0);
    /// Next table of a bond's master.
    pub const LAG_MASTER_NEXT_TABLE_ID: Field = Field::new(0x08, 23, 0);
    /// Address of a table that software owns, the other direction.
    pub const SW_OWNER_ICM_ROOT_1: Field64 = Field64::new(0x18);
    /// Address of a table that software owns.
    pub const SW_OWNER_ICM_ROOT_0: Field64 = Field64::new(0x20);
}

/// Flow context: a flow table entry. PRM: "Flow Context".
pub mod flow_context {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x300;
    /// VLAN tag to add: Ethernet type, priority, id.
    pub const PUSH_VLAN: Field = Field::new(0x00, 31, 0);
    /// The group it belongs to.
    pub const GROUP_ID: Field = Field::new(0x04, 31, 0);
    /// What completions tell of a match.
    pub const FLOW_TAG: Field = Field::new(0x08, 23, 0);
    /// See [`action`](super::action).
    pub const ACTION: Field = Field::new(0x0c, 15, 0);
    /// Destinations have the extended form.
    pub const EXTENDED_DESTINATION: Field = Field::new(0x10, 31, 31);
    /// Where packets come from: 0 any, 1 uplink, 2 local vport.
    pub const FLOW_SOURCE: Field = Field::new(0x10, 29, 28);
    /// 0 IPsec, 1 MACsec.
    pub const ENCRYPT_DECRYPT_TYPE: Field = Field::new(0x10, 27, 24);
    /// Number of destinations.
    pub const DESTINATION_LIST_SIZE: Field = Field::new(0x10, 23, 0);
    /// Number of counters.
    pub const FLOW_COUNTER_LIST_SIZE: Field = Field::new(0x14, 23, 0);
    /// Reformat context.
    pub const PACKET_REFORMAT_ID: Field = Field::new(0x18, 31, 0);
    /// Modify header context.
    pub const MODIFY_HEADER_ID: Field = Field::new(0x1c, 31, 0);
    /// Second VLAN tag to add.
    pub const PUSH_VLAN_2: Field = Field::new(0x20, 31, 0);
    /// Encryption object.
    pub const ENCRYPT_DECRYPT_OBJ_ID: Field = Field::new(0x24, 31, 0);
    /// What is matched, a [`fte_match_param`](super::fte_match_param).
    pub const MATCH_VALUE: usize = 0x40;
    /// [Destinations](super::dest_format), 8 bytes each, then counters, 8 bytes each with the
    /// number in the first dword.
    pub const DESTINATION: usize = 0x300;
}

/// Bits of [`flow_context::ACTION`].
pub mod action {
    /// Let pass.
    pub const ALLOW: u32 = 0x1;
    /// Drop.
    pub const DROP: u32 = 0x2;
    /// Go to the destinations.
    pub const FWD_DEST: u32 = 0x4;
    /// Count.
    pub const COUNT: u32 = 0x8;
    /// Reformat.
    pub const PACKET_REFORMAT: u32 = 0x10;
    /// Decapsulate.
    pub const DECAP: u32 = 0x20;
    /// Modify headers.
    pub const MOD_HDR: u32 = 0x40;
    /// Take off a VLAN tag.
    pub const VLAN_POP: u32 = 0x80;
    /// Add a VLAN tag.
    pub const VLAN_PUSH: u32 = 0x100;
}

/// Destination of a flow table entry. PRM: "Destination Format".
pub mod dest_format {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x08;
    /// See [`destination_type`](super::destination_type).
    pub const DESTINATION_TYPE: Field = Field::new(0x00, 31, 24);
    /// Its number.
    pub const DESTINATION_ID: Field = Field::new(0x00, 23, 0);
    /// The function counts.
    pub const DESTINATION_ESWITCH_OWNER_VHCA_ID_VALID: Field = Field::new(0x04, 31, 31);
    /// A reformat context follows.
    pub const PACKET_REFORMAT: Field = Field::new(0x04, 30, 30);
    /// The function.
    pub const DESTINATION_ESWITCH_OWNER_VHCA_ID: Field = Field::new(0x04, 15, 0);
}

/// Values of [`dest_format::DESTINATION_TYPE`].
pub mod destination_type {
    /// A vport.
    pub const VPORT: u32 = 0x0;
    /// A flow table.
    pub const FLOW_TABLE: u32 = 0x1;
    /// A TIR.
    pub const TIR: u32 = 0x2;
    /// A sampler.
    pub const FLOW_SAMPLER: u32 = 0x6;
    /// The uplink.
    pub const UPLINK: u32 = 0x8;
}

/// Match parameters, as a mask or as values. PRM: "Flow Table Entry Match Parameters".
pub mod fte_match_param {
    /// Size in bytes.
    pub const SIZE: usize = 0x200;
    /// [Outer headers](super::fte_match_set_lyr_2_4).
    pub const OUTER_HEADERS: usize = 0x00;
    /// [Miscellaneous parameters](super::fte_match_set_misc).
    pub const MISC_PARAMETERS: usize = 0x40;
    /// [Inner headers](super::fte_match_set_lyr_2_4).
    pub const INNER_HEADERS: usize = 0x80;
    /// Miscellaneous parameters 2.
    pub const MISC_PARAMETERS_2: usize = 0xc0;
    /// Miscellaneous parameters 3.
    pub const MISC_PARAMETERS_3: usize = 0x100;
    /// Miscellaneous parameters 4.
    pub const MISC_PARAMETERS_4: usize = 0x140;
    /// Miscellaneous parameters 5.
    pub const MISC_PARAMETERS_5: usize = 0x180;
}

/// Headers of layers 2 to 4. PRM: "Flow Table Entry Match Set Layers 2-4".
pub mod fte_match_set_lyr_2_4 {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x40;
    /// Source MAC address, first four bytes.
    pub const SMAC_47_16: Field = Field::new(0x00, 31, 0);
    /// Source MAC address, last two bytes.
    pub const SMAC_15_0: Field = Field::new(0x04, 31, 16);
    /// Ethernet type.
    pub const ETHERTYPE: Field = Field::new(0x04, 15, 0);
    /// Destination MAC address, first four bytes.
    pub const DMAC_47_16: Field = Field::new(0x08, 31, 0);
    /// Destination MAC address, last two bytes.
    pub const DMAC_15_0: Field = Field::new(0x0c, 31, 16);
    /// VLAN priority.
    pub const FIRST_PRIO: Field = Field::new(0x0c, 15, 13);
    /// VLAN drop eligible.
    pub const FIRST_CFI: Field = Field::new(0x0c, 12, 12);
    /// VLAN.
    pub const FIRST_VID: Field = Field::new(0x0c, 11, 0);
    /// IP protocol, or next header.
    pub const IP_PROTOCOL: Field = Field::new(0x10, 31, 24);
    /// Differentiated services code point.
    pub const IP_DSCP: Field = Field::new(0x10, 23, 18);
    /// Explicit congestion notification.
    pub const IP_ECN: Field = Field::new(0x10, 17, 16);
    /// There is a customer VLAN tag.
    pub const CVLAN_TAG: Field = Field::new(0x10, 15, 15);
    /// There is a service VLAN tag.
    pub const SVLAN_TAG: Field = Field::new(0x10, 14, 14);
    /// The packet is a fragment.
    pub const FRAG: Field = Field::new(0x10, 13, 13);
    /// IP version: 4 or 6.
    pub const IP_VERSION: Field = Field::new(0x10, 12, 9);
    /// TCP flags.
    pub const TCP_FLAGS: Field = Field::new(0x10, 8, 0);
    /// TCP source port.
    pub const TCP_SPORT: Field = Field::new(0x14, 31, 16);
    /// TCP destination port.
    pub const TCP_DPORT: Field = Field::new(0x14, 15, 0);
    /// IPv4 header length.
    pub const IPV4_IHL: Field = Field::new(0x18, 15, 12);
    /// Time to live, or hop limit.
    pub const TTL_HOPLIMIT: Field = Field::new(0x18, 7, 0);
    /// UDP source port.
    pub const UDP_SPORT: Field = Field::new(0x1c, 31, 16);
    /// UDP destination port.
    pub const UDP_DPORT: Field = Field::new(0x1c, 15, 0);
    /// Source address; IPv4 in the last four bytes.
    pub const SRC_IP: usize = 0x20;
    /// Destination address; IPv4 in the last four bytes.
    pub const DST_IP: usize = 0x30;
}

/// Miscellaneous parameters. PRM: "Flow Table Entry Match Set Misc".
pub mod fte_match_set_misc {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x40;
    /// GRE has a checksum.
    pub const GRE_C_PRESENT: Field = Field::new(0x00, 31, 31);
    /// GRE has a key.
    pub const GRE_K_PRESENT: Field = Field::new(0x00, 29, 29);
    /// GRE has a sequence number.
    pub const GRE_S_PRESENT: Field = Field::new(0x00, 28, 28);
    /// SQ that the packet comes from.
    pub const SOURCE_SQN: Field = Field::new(0x00, 23, 0);
    /// Function of the source vport.
    pub const SOURCE_ESWITCH_OWNER_VHCA_ID: Field = Field::new(0x04, 31, 16);
    /// Source vport.
    pub const SOURCE_PORT: Field = Field::new(0x04, 15, 0);
    /// Second VLAN priority, outer.
    pub const OUTER_SECOND_PRIO: Field = Field::new(0x08, 31, 29);
    /// Second VLAN drop eligible, outer.
    pub const OUTER_SECOND_CFI: Field = Field::new(0x08, 28, 28);
    /// Second VLAN, outer.
    pub const OUTER_SECOND_VID: Field = Field::new(0x08, 27, 16);
    /// Second VLAN priority, inner.
    pub const INNER_SECOND_PRIO: Field = Field::new(0x08, 15, 13);
    /// Second VLAN drop eligible, inner.
    pub const INNER_SECOND_CFI: Field = Field::new(0x08, 12, 12);
    /// Second VLAN, inner.
    pub const INNER_SECOND_VID: Field = Field::new(0x08, 11, 0);
    /// There is a second customer VLAN tag, outer.
    pub const OUTER_SECOND_CVLAN_TAG: Field = Field::new(0x0c, 31, 31);
    /// There is a second customer VLAN tag, inner.
    pub const INNER_SECOND_CVLAN_TAG: Field = Field::new(0x0c, 30, 30);
    /// There is a second service VLAN tag, outer.
    pub const OUTER_SECOND_SVLAN_TAG: Field = Field::new(0x0c, 29, 29);
    /// There is a second service VLAN tag, inner.
    pub const INNER_SECOND_SVLAN_TAG: Field = Field::new(0x0c, 28, 28);
    /// Protocol within GRE.
    pub const GRE_PROTOCOL: Field = Field::new(0x0c, 15, 0);
    /// GRE key.
    pub const GRE_KEY: Field = Field::new(0x10, 31, 0);
    /// VXLAN network.
    pub const VXLAN_VNI: Field = Field::new(0x14, 31, 8);
    /// RoCE: opcode.
    pub const BTH_OPCODE: Field = Field::new(0x14, 7, 0);
    /// Geneve network.
    pub const GENEVE_VNI: Field = Field::new(0x18, 31, 8);
    /// Geneve control packet.
    pub const GENEVE_OAM: Field = Field::new(0x18, 0, 0);
    /// IPv6 flow label, outer.
    pub const OUTER_IPV6_FLOW_LABEL: Field = Field::new(0x1c, 19, 0);
    /// IPv6 flow label, inner.
    pub const INNER_IPV6_FLOW_LABEL: Field = Field::new(0x20, 19, 0);
    /// Geneve option length.
    pub const GENEVE_OPT_LEN: Field = Field::new(0x24, 21, 16);
    /// Protocol within Geneve.
    pub const GENEVE_PROTOCOL_TYPE: Field = Field::new(0x24, 15, 0);
    /// RoCE: destination QP.
    pub const BTH_DST_QP: Field = Field::new(0x28, 23, 0);
    /// IPsec security parameters index.
    pub const OUTER_ESP_SPI: Field = Field::new(0x30, 31, 0);
}

/// NIC flow table capabilities. PRM: "Flow Table NIC Capabilities".
pub mod flow_table_nic_cap {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x1000;
    /// A rule may spread over several TIRs.
    pub const NIC_RX_MULTI_PATH_TIRS: Field = Field::new(0x00, 31, 31);
    /// A rule may go to TIRs and tables.
    pub const NIC_RX_MULTI_PATH_TIRS_FTS: Field = Field::new(0x00, 30, 30);
    /// A TIR may serve sniffer and NIC.
    pub const ALLOW_SNIFFER_AND_NIC_RX_SHARED_TIR: Field = Field::new(0x00, 29, 29);
    /// Encapsulation with any header.
    pub const ENCAP_GENERAL_HEADER: Field = Field::new(0x04, 31, 31);
    /// Log of the number of reformat contexts.
    pub const LOG_MAX_PACKET_REFORMAT_CONTEXT: Field = Field::new(0x04, 20, 16);
    /// Bytes of an encapsulation header at most.
    pub const MAX_ENCAP_HEADER_SIZE: Field = Field::new(0x04, 9, 0);
    /// [Properties](super::flow_table_prop) of what the NIC receives.
    pub const NIC_RECEIVE: usize = 0x40;
    /// Of what RDMA receives.
    pub const NIC_RECEIVE_RDMA: usize = 0x80;
    /// Of the copy of what is received.
    pub const NIC_RECEIVE_SNIFFER: usize = 0xc0;
    /// Of what the NIC sends.
    pub const NIC_TRANSMIT: usize = 0x100;
    /// Of what RDMA sends.
    pub const NIC_TRANSMIT_RDMA: usize = 0x140;
    /// Of the copy of what is sent.
    pub const NIC_TRANSMIT_SNIFFER: usize = 0x180;
}

/// Flow table properties. PRM: "Flow Table Properties Layout".
pub mod flow_table_prop {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x40;
    /// Tables of this type are supported.
    pub const FT_SUPPORT: Field = Field::new(0x00, 31, 31);
    /// Entries may count.
    pub const FLOW_COUNTER: Field = Field::new(0x00, 29, 29);
    /// Entries may be modified.
    pub const FLOW_MODIFY_EN: Field = Field::new(0x00, 28, 28);
    /// The first table may be changed.
    pub const MODIFY_ROOT: Field = Field::new(0x00, 27, 27);
    /// A miss may go to a chosen table.
    pub const IDENTIFIED_MISS_TABLE_MODE: Field = Field::new(0x00, 26, 26);
    /// Tables may be modified.
    pub const FLOW_TABLE_MODIFY: Field = Field::new(0x00, 25, 25);
    /// Packets may be reformatted.
    pub const REFORMAT: Field = Field::new(0x00, 24, 24);
    /// Packets may be decapsulated.
    pub const DECAP: Field = Field::new(0x00, 23, 23);
    /// VLAN tags may be taken off.
    pub const POP_VLAN: Field = Field::new(0x00, 21, 21);
    /// VLAN tags may be added.
    pub const PUSH_VLAN: Field = Field::new(0x00, 20, 20);
    /// Two VLAN tags may be taken off.
    pub const POP_VLAN_2: Field = Field::new(0x00, 18, 18);
    /// Two VLAN tags may be added.
    pub const PUSH_VLAN_2: Field = Field::new(0x00, 17, 17);
    /// Both at once.
    pub const REFORMAT_AND_VLAN_ACTION: Field = Field::new(0x00, 16, 16);
    /// Software may own tables.
    pub const SW_OWNER: Field = Field::new(0x00, 14, 14);
    /// Destinations may be of any level.
    pub const IGNORE_FLOW_LEVEL: Field = Field::new(0x00, 10, 10);
    /// A miss may go to the default of the domain.
    pub const TABLE_MISS_ACTION_DOMAIN: Field = Field::new(0x00, 8, 8);
    /// Termination tables are supported.
    pub const TERMINATION_TABLE: Field = Field::new(0x00, 7, 7);
    /// Log of the entries of a table at most.
    pub const LOG_MAX_FT_SIZE: Field = Field::new(0x04, 29, 24);
    /// Log of the number of modify header contexts.
    pub const LOG_MAX_MODIFY_HEADER_CONTEXT: Field = Field::new(0x04, 23, 16);
    /// Actions of a modify header context at most.
    pub const MAX_MODIFY_HEADER_ACTIONS: Field = Field::new(0x04, 15, 8);
    /// Levels.
    pub const MAX_FT_LEVEL: Field = Field::new(0x04, 7, 0);
    /// Log of the number of tables.
    pub const LOG_MAX_FT_NUM: Field = Field::new(0x0c, 7, 0);
    /// Log of the counters of an entry at most.
    pub const LOG_MAX_FLOW_COUNTER: Field = Field::new(0x10, 15, 8);
    /// Log of the destinations of an entry at most.
    pub const LOG_MAX_DESTINATION: Field = Field::new(0x10, 7, 0);
    /// Log of the number of entries.
    pub const LOG_MAX_FLOW: Field = Field::new(0x14, 7, 0);
    /// Fields that can be matched, 16 bytes; see [`ft_field_support`](super::ft_field_support).
    pub const FT_FIELD_SUPPORT: usize = 0x20;
    /// Fields that can be matched under a mask, 16 bytes.
    pub const FT_FIELD_BITMASK_SUPPORT: usize = 0x30;
}

/// Fields that flow tables can match, a bit each. PRM: "Flow Table Fields Supported".
pub mod ft_field_support {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x10;
    /// Destination MAC address.
    pub const OUTER_DMAC: Field = Field::new(0x00, 31, 31);
    /// Source MAC address.
    pub const OUTER_SMAC: Field = Field::new(0x00, 30, 30);
    /// Ethernet type.
    pub const OUTER_ETHER_TYPE: Field = Field::new(0x00, 29, 29);
    /// IP version.
    pub const OUTER_IP_VERSION: Field = Field::new(0x00, 28, 28);
    /// VLAN priority.
    pub const OUTER_FIRST_PRIO: Field = Field::new(0x00, 27, 27);
    /// VLAN drop eligible.
    pub const OUTER_FIRST_CFI: Field = Field::new(0x00, 26, 26);
    /// VLAN.
    pub const OUTER_FIRST_VID: Field = Field::new(0x00, 25, 25);
    /// Source address.
    pub const OUTER_SIP: Field = Field::new(0x00, 19, 19);
    /// Destination address.
    pub const OUTER_DIP: Field = Field::new(0x00, 18, 18);
    /// Fragment.
    pub const OUTER_FRAG: Field = Field::new(0x00, 17, 17);
    /// IP protocol.
    pub const OUTER_IP_PROTOCOL: Field = Field::new(0x00, 16, 16);
    /// ECN.
    pub const OUTER_IP_ECN: Field = Field::new(0x00, 15, 15);
    /// DSCP.
    pub const OUTER_IP_DSCP: Field = Field::new(0x00, 14, 14);
    /// UDP source port.
    pub const OUTER_UDP_SPORT: Field = Field::new(0x00, 13, 13);
    /// UDP destination port.
    pub const OUTER_UDP_DPORT: Field = Field::new(0x00, 12, 12);
    /// TCP source port.
    pub const OUTER_TCP_SPORT: Field = Field::new(0x00, 11, 11);
    /// TCP destination port.
    pub const OUTER_TCP_DPORT: Field = Field::new(0x00, 10, 10);
    /// TCP flags.
    pub const OUTER_TCP_FLAGS: Field = Field::new(0x00, 9, 9);
    /// Source vport.
    pub const SOURCE_ESWITCH_PORT: Field = Field::new(0x00, 0, 0);
    /// RoCE: destination QP.
    pub const BTH_DST_QP: Field = Field::new(0x08, 5, 5);
}
