//! What a modelled HCA is made of.

use bareverbs_harness::model::LinkKind;

use crate::fault::Faults;

/// Which card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// ConnectX-5.
    ConnectX5,
    /// ConnectX-6 Dx.
    ConnectX6Dx,
    /// ConnectX-7.
    ConnectX7,
}

impl Device {
    /// The PCI device id.
    pub const fn pci_id(self) -> u16 {
        match self {
            Self::ConnectX5 => 0x1017,
            Self::ConnectX6Dx => 0x101d,
            Self::ConnectX7 => 0x1021,
        }
    }

    /// Firmware major, minor, sub-minor.
    pub const fn firmware(self) -> (u16, u16, u16) {
        match self {
            Self::ConnectX5 => (16, 35, 4030),
            Self::ConnectX6Dx => (22, 39, 1002),
            Self::ConnectX7 => (28, 39, 1002),
        }
    }

    /// The board's identity, as `ibv_devinfo` shows it.
    pub const fn psid(self) -> &'static [u8; 16] {
        match self {
            Self::ConnectX5 => b"MT_0000000012\0\0\0",
            Self::ConnectX6Dx => b"MT_0000000359\0\0\0",
            Self::ConnectX7 => b"MT_0000000838\0\0\0",
        }
    }
}

/// What a modelled HCA is made of.
#[derive(Clone, Debug)]
pub struct HcaConfig {
    /// Which card.
    pub device: Device,
    /// What its port speaks.
    pub link: LinkKind,
    /// GUID of the node; the port's is the same.
    pub guid: u64,
    /// Burnt-in MAC of an Ethernet port.
    pub mac: [u8; 6],
    /// InfiniBand: the LID with which the port comes up ACTIVE without a subnet manager as soon as the link is up;
    /// `None` waits for a subnet manager in INIT.
    pub lid: Option<u16>,
    /// Advertise that UMR changes all of a key. Linux then registers its users' memory by UMR, and fills a cache with
    /// thousands of keys first, which takes its time on an emulated processor.
    pub umr: bool,
    /// Headers that a WQE of the raw packet path must hold inline, as the vport says it: 0 none, 1 layer 2 (a
    /// ConnectX-4 Lx wants that), 2 layer 3, 3 layer 4.
    pub inline_mode: u32,
    /// Faults on demand.
    pub faults: Faults,
}

impl HcaConfig {
    /// A ConnectX-5 whose port speaks InfiniBand; `n` tells several apart (GUID, LID = `n` + 1).
    pub fn infiniband(n: u8) -> Self {
        Self { lid: Some(u16::from(n) + 1), ..Self::new(LinkKind::InfiniBand, n) }
    }

    /// A ConnectX-5 whose port speaks Ethernet (RoCE); `n` tells several apart (GUID, MAC).
    pub fn ethernet(n: u8) -> Self {
        Self::new(LinkKind::Ethernet, n)
    }

    fn new(link: LinkKind, n: u8) -> Self {
        Self {
            device: Device::ConnectX5,
            link,
            guid: 0x0200_c9ff_fe00_0000 | u64::from(n),
            mac: [0x02, 0x00, 0xc9, 0x00, 0x00, n],
            lid: None,
            umr: false,
            inline_mode: 0,
            faults: Faults::default(),
        }
    }
}
