//! NodeInfo, a subnet management attribute (IBA 14.2.5.3).

use super::bytes::*;
use super::smp::DATA_LEN;

/// Byte offsets.
pub mod field {
    /// Base version, 8 bits.
    pub const BASE_VERSION: usize = 0;
    /// Class version, 8 bits.
    pub const CLASS_VERSION: usize = 1;
    /// Node type, 8 bits.
    pub const NODE_TYPE: usize = 2;
    /// Number of physical ports, 8 bits.
    pub const NUM_PORTS: usize = 3;
    /// System image GUID, 64 bits.
    pub const SYSTEM_IMAGE_GUID: usize = 4;
    /// Node GUID, 64 bits.
    pub const NODE_GUID: usize = 12;
    /// Port GUID, 64 bits.
    pub const PORT_GUID: usize = 20;
    /// Entries of the P_KeyTable, 16 bits.
    pub const PARTITION_CAP: usize = 28;
    /// Device id, 16 bits.
    pub const DEVICE_ID: usize = 30;
    /// Device revision, 32 bits.
    pub const REVISION: usize = 32;
    /// Local port number, 8 bits.
    pub const LOCAL_PORT: usize = 36;
    /// Vendor id, 24 bits.
    pub const VENDOR_ID: usize = 37;
}

/// Node type of a channel adapter.
pub const TYPE_CA: u8 = 1;
/// Node type of a switch.
pub const TYPE_SWITCH: u8 = 2;
/// Node type of a router.
pub const TYPE_ROUTER: u8 = 3;

/// The fields of a NodeInfo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// MAD base version supported: 1.
    pub base_version: u8,
    /// Subnet management class version supported: 1.
    pub class_version: u8,
    /// What the node is: [`TYPE_CA`], [`TYPE_SWITCH`], [`TYPE_ROUTER`].
    pub node_type: u8,
    /// Number of physical ports.
    pub num_ports: u8,
    /// GUID of the system that the node is part of.
    pub system_image_guid: u64,
    /// GUID of the node.
    pub node_guid: u64,
    /// GUID of the port that took the packet.
    pub port_guid: u64,
    /// Entries of the P_KeyTable.
    pub partition_cap: u16,
    /// Device id, given by the vendor.
    pub device_id: u16,
    /// Device revision.
    pub revision: u32,
    /// The port that took the packet.
    pub local_port: u8,
    /// The vendor's IEEE OUI, 24 bits.
    pub vendor_id: u32,
}

impl Repr {
    /// Reads the attribute's data.
    pub fn parse(data: &[u8; DATA_LEN]) -> Repr {
        Repr {
            base_version: u8_at::<{ field::BASE_VERSION }, _>(data),
            class_version: u8_at::<{ field::CLASS_VERSION }, _>(data),
            node_type: u8_at::<{ field::NODE_TYPE }, _>(data),
            num_ports: u8_at::<{ field::NUM_PORTS }, _>(data),
            system_image_guid: u64_at::<{ field::SYSTEM_IMAGE_GUID }, _>(data),
            node_guid: u64_at::<{ field::NODE_GUID }, _>(data),
            port_guid: u64_at::<{ field::PORT_GUID }, _>(data),
            partition_cap: u16_at::<{ field::PARTITION_CAP }, _>(data),
            device_id: u16_at::<{ field::DEVICE_ID }, _>(data),
            revision: u32_at::<{ field::REVISION }, _>(data),
            local_port: u8_at::<{ field::LOCAL_PORT }, _>(data),
            vendor_id: u24_at::<{ field::VENDOR_ID }, _>(data),
        }
    }

    /// Writes the attribute's data; what follows the NodeInfo becomes zero.
    pub fn emit(&self, data: &mut [u8; DATA_LEN]) {
        *data = [0; DATA_LEN];
        let first = [self.base_version, self.class_version, self.node_type, self.num_ports];
        put::<{ field::BASE_VERSION }, 4, _>(data, first);
        put::<{ field::SYSTEM_IMAGE_GUID }, 8, _>(data, self.system_image_guid.to_be_bytes());
        put::<{ field::NODE_GUID }, 8, _>(data, self.node_guid.to_be_bytes());
        put::<{ field::PORT_GUID }, 8, _>(data, self.port_guid.to_be_bytes());
        put::<{ field::PARTITION_CAP }, 2, _>(data, self.partition_cap.to_be_bytes());
        put::<{ field::DEVICE_ID }, 2, _>(data, self.device_id.to_be_bytes());
        put::<{ field::REVISION }, 4, _>(data, self.revision.to_be_bytes());
        put::<{ field::LOCAL_PORT }, 1, _>(data, [self.local_port]);
        put_u24::<{ field::VENDOR_ID }, _>(data, self.vendor_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `mad_set_field` of libibmad (rdma-core 44.0) from the values below.
    #[rustfmt::skip]
    const BYTES: [u8; 40] = [
        0x01, 0x02, 0x01, 0x02, 0x00, 0x02, 0xc9, 0x02, 0x00, 0xaa, 0xbb, 0xcc, 0x00, 0x02, 0xc9, 0x02,
        0x00, 0xaa, 0xbb, 0xcd, 0x00, 0x02, 0xc9, 0x02, 0x00, 0xaa, 0xbb, 0xce, 0x00, 0x80, 0x10, 0x17,
        0x00, 0x00, 0x00, 0xa0, 0x01, 0x00, 0x02, 0xc9,
    ];

    #[test]
    fn parse_and_emit() {
        let mut bytes = [0; DATA_LEN];
        bytes[..40].copy_from_slice(&BYTES);
        let repr = Repr {
            base_version: 1,
            class_version: 2,
            node_type: TYPE_CA,
            num_ports: 2,
            system_image_guid: 0x0002_c902_00aa_bbcc,
            node_guid: 0x0002_c902_00aa_bbcd,
            port_guid: 0x0002_c902_00aa_bbce,
            partition_cap: 128,
            device_id: 0x1017,
            revision: 0xa0,
            local_port: 1,
            vendor_id: 0x0002c9,
        };
        assert_eq!(Repr::parse(&bytes), repr);
        let mut data = [0xee; DATA_LEN];
        repr.emit(&mut data);
        assert_eq!(data, bytes);
    }
}
