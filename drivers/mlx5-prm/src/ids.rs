//! PCI ids of the functions that speak this interface.

/// PCI vendor id of Mellanox and NVIDIA networking.
pub const VENDOR_MELLANOX: u16 = 0x15b3;

/// A device id and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceId {
    /// PCI device id.
    pub id: u16,
    /// A virtual function.
    pub vf: bool,
    /// The product's name.
    pub name: &'static str,
}

const fn pf(id: u16, name: &'static str) -> DeviceId {
    DeviceId { id, vf: false, name }
}

const fn vf(id: u16, name: &'static str) -> DeviceId {
    DeviceId { id, vf: true, name }
}

/// Every function from ConnectX-4 on, in rising order of id. Source: the PCI ID Repository and the
/// table of Linux's mlx5_core.
pub const DEVICES: &[DeviceId] = &[
    pf(0x1013, "ConnectX-4"),
    vf(0x1014, "ConnectX-4 VF"),
    pf(0x1015, "ConnectX-4 Lx"),
    vf(0x1016, "ConnectX-4 Lx VF"),
    pf(0x1017, "ConnectX-5"),
    vf(0x1018, "ConnectX-5 VF"),
    pf(0x1019, "ConnectX-5 Ex"),
    vf(0x101a, "ConnectX-5 Ex VF"),
    pf(0x101b, "ConnectX-6"),
    vf(0x101c, "ConnectX-6 VF"),
    pf(0x101d, "ConnectX-6 Dx"),
    vf(0x101e, "ConnectX VF"),
    pf(0x101f, "ConnectX-6 Lx"),
    pf(0x1021, "ConnectX-7"),
    pf(0x1023, "ConnectX-8"),
    pf(0xa2d2, "BlueField ConnectX-5"),
    vf(0xa2d3, "BlueField ConnectX-5 VF"),
    pf(0xa2d6, "BlueField-2 ConnectX-6 Dx"),
    pf(0xa2dc, "BlueField-3 ConnectX-7"),
];

/// The entry of a vendor and device id, or `None` for a function that this interface does not fit.
pub fn find(vendor: u16, device: u16) -> Option<&'static DeviceId> {
    DEVICES.iter().find(|entry| vendor == VENDOR_MELLANOX && entry.id == device)
}
