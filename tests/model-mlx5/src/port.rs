//! The port.

/// State of a port's link, as an InfiniBand PortInfo counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortState {
    /// No link.
    #[default]
    Down = 1,
    /// A link, not configured by a subnet manager.
    Init = 2,
    /// Configured, only management traffic.
    Armed = 3,
    /// Traffic.
    Active = 4,
}

/// One entry of the RoCE address table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoceAddress {
    /// The GID; all zero is an empty entry.
    pub gid: [u8; 16],
    /// 0: RoCE v1, 2: RoCE v2 (UDP).
    pub version: u8,
    /// 0: IPv4 in the GID's last 4 bytes, 1: IPv6.
    pub l3_type: u8,
    /// Source MAC.
    pub mac: [u8; 6],
    /// VLAN of frames.
    pub vlan: Option<u16>,
}

/// The port.
#[derive(Clone, Debug, Default)]
pub struct Port {
    /// State.
    pub state: PortState,
    /// Local identifier; InfiniBand.
    pub lid: u16,
    /// Low bits of the LID that are a path's.
    pub lmc: u8,
    /// LID of the subnet manager.
    pub sm_lid: u16,
    /// Service level to it.
    pub sm_sl: u8,
    /// GIDs; InfiniBand. The first is the port's GUID below the subnet prefix.
    pub gids: Vec<[u8; 16]>,
    /// Partition keys.
    pub pkeys: Vec<u16>,
    /// RoCE addresses.
    pub roce: Vec<RoceAddress>,
    /// RoCE is switched on.
    pub roce_enabled: bool,
    /// Largest Ethernet frame payload.
    pub mtu: u16,
    /// UDP destination port of RoCE v2.
    pub roce_udp_port: u16,
}
