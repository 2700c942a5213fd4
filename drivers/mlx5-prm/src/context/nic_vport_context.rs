//! Context of an Ethernet virtual port. PRM: "NIC Vport Context".
use crate::field::{Field, Field64};

/// Size in bytes, without the address list behind it.
pub const SIZE: usize = 0x100;
/// Headers that a raw packet WQE must hold inline: 0 none, 1 layer 2, 2 layer 3, 3 layer 4.
pub const MIN_WQE_INLINE_MODE: Field = Field::new(0x00, 26, 24);
/// Own multicasts do not come back.
pub const DISABLE_MC_LOCAL_LB: Field = Field::new(0x00, 2, 2);
/// Own unicasts do not come back.
pub const DISABLE_UC_LOCAL_LB: Field = Field::new(0x00, 1, 1);
/// RoCE is on.
pub const ROCE_EN: Field = Field::new(0x00, 0, 0);
/// Arm the event of changes.
pub const ARM_CHANGE_EVENT: Field = Field::new(0x04, 31, 31);
/// The MTU's change raises it.
pub const EVENT_ON_MTU: Field = Field::new(0x04, 4, 4);
/// Promiscuous mode's change raises it.
pub const EVENT_ON_PROMISC_CHANGE: Field = Field::new(0x04, 3, 3);
/// The VLAN list's change raises it.
pub const EVENT_ON_VLAN_CHANGE: Field = Field::new(0x04, 2, 2);
/// The multicast list's change raises it.
pub const EVENT_ON_MC_ADDRESS_CHANGE: Field = Field::new(0x04, 1, 1);
/// The unicast list's change raises it.
pub const EVENT_ON_UC_ADDRESS_CHANGE: Field = Field::new(0x04, 0, 0);
/// What joins the ports of a multi-port device.
pub const AFFILIATION_CRITERIA: Field = Field::new(0x08, 19, 16);
/// The function whose port this is.
pub const AFFILIATED_VHCA_ID: Field = Field::new(0x08, 15, 0);
/// MTU in bytes.
pub const MTU: Field = Field::new(0x24, 15, 0);
/// System image GUID.
pub const SYSTEM_IMAGE_GUID: Field64 = Field64::new(0x28);
/// Port GUID.
pub const PORT_GUID: Field64 = Field64::new(0x30);
/// Node GUID.
pub const NODE_GUID: Field64 = Field64::new(0x38);
/// Q_Key violations.
pub const QKEY_VIOLATION_COUNTER: Field = Field::new(0x68, 31, 16);
/// All unicasts are received.
pub const PROMISC_UC: Field = Field::new(0xf0, 31, 31);
/// All multicasts are received.
pub const PROMISC_MC: Field = Field::new(0xf0, 30, 30);
/// Everything is received.
pub const PROMISC_ALL: Field = Field::new(0xf0, 29, 29);
/// [`list_type`] of the list behind the context.
pub const ALLOWED_LIST_TYPE: Field = Field::new(0xf0, 26, 24);
/// Its number of entries.
pub const ALLOWED_LIST_SIZE: Field = Field::new(0xf0, 11, 0);
/// MAC address in 47:0.
pub const PERMANENT_ADDRESS: Field64 = Field64::new(0xf4);
/// The list: 8 bytes an entry, MAC address in 47:0 or VLAN in 43:32.
pub const ALLOWED_LIST: usize = 0x100;

/// Values of [`ALLOWED_LIST_TYPE`].
pub mod list_type {
    /// Unicast addresses.
    pub const UNICAST: u32 = 0;
    /// Multicast addresses.
    pub const MULTICAST: u32 = 1;
    /// VLANs.
    pub const VLAN: u32 = 2;
}

/// The permanent MAC address alone.
pub const PERMANENT_MAC: crate::field::Bytes = crate::field::Bytes::new(0xf6, 6);
