//! RoCE: its capabilities and an entry of its address table.

/// RoCE capabilities. PRM: "RoCE Capabilities".
pub mod roce_cap {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x100;
    /// Automatic path migration.
    pub const ROCE_APM: Field = Field::new(0x00, 31, 31);
    /// Software chooses the UDP source port.
    pub const SW_R_ROCE_SRC_UDP_PORT: Field = Field::new(0x00, 27, 27);
    /// Force-loopback RC QPs work with RoCE off.
    pub const FL_RC_QP_WHEN_ROCE_DISABLED: Field = Field::new(0x00, 26, 26);
    /// Force-loopback RC QPs work with RoCE on.
    pub const FL_RC_QP_WHEN_ROCE_ENABLED: Field = Field::new(0x00, 25, 25);
    /// Timestamp formats of QPs.
    pub const QP_TS_FORMAT: Field = Field::new(0x00, 1, 0);
    /// Bit 1: RoCE v2 over IPv4; bit 2: over IPv6.
    pub const L3_TYPE: Field = Field::new(0x10, 19, 16);
    /// Bit n: version n of [`version`](super::version) is supported.
    pub const ROCE_VERSION: Field = Field::new(0x10, 7, 0);
    /// UDP destination port of RoCE v2; 4791.
    pub const R_ROCE_DEST_UDP_PORT: Field = Field::new(0x14, 15, 0);
    /// Largest UDP source port.
    pub const R_ROCE_MAX_SRC_UDP_PORT: Field = Field::new(0x18, 31, 16);
    /// Smallest UDP source port.
    pub const R_ROCE_MIN_SRC_UDP_PORT: Field = Field::new(0x18, 15, 0);
    /// Entries of the address table.
    pub const ROCE_ADDRESS_TABLE_SIZE: Field = Field::new(0x1c, 15, 0);
}

/// Entry of the RoCE address table. PRM: "RoCE Address Layout".
pub mod roce_addr_layout {
    use crate::field::{Bytes, Field};

    /// Size in bytes.
    pub const SIZE: usize = 0x20;
    /// GID, or IP address (IPv4 in the last 4 bytes).
    pub const SOURCE_L3_ADDRESS: Bytes = Bytes::new(0x00, 16);
    /// Packets carry a VLAN tag.
    pub const VLAN_VALID: Field = Field::new(0x10, 28, 28);
    /// VLAN.
    pub const VLAN_ID: Field = Field::new(0x10, 27, 16);
    /// MAC address, first two bytes.
    pub const SOURCE_MAC_47_32: Field = Field::new(0x10, 15, 0);
    /// MAC address, last four bytes.
    pub const SOURCE_MAC_31_0: Field = Field::new(0x14, 31, 0);
    /// RoCE v2: 0 IPv4, 1 IPv6.
    pub const ROCE_L3_TYPE: Field = Field::new(0x18, 11, 8);
    /// See [`version`](super::version).
    pub const ROCE_VERSION: Field = Field::new(0x18, 7, 0);

    /// MAC address, both parts.
    pub const SOURCE_MAC: crate::field::Bytes = crate::field::Bytes::new(0x12, 6);
}

/// RoCE versions, as an address names them and, as bits, the capabilities.
pub mod version {
    /// RoCE v1: an Ethernet type of its own and a GRH.
    pub const V1: u32 = 0;
    /// RoCE v2: UDP.
    pub const V2: u32 = 2;
}

/// RoCE v2: network header of an address.
pub mod l3_type {
    /// IPv4.
    pub const IPV4: u32 = 0;
    /// IPv6.
    pub const IPV6: u32 = 1;
}
