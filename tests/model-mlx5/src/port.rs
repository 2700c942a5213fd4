//! The port: its state, and the tables that name it on the wire.

use bareverbs::wire::port_info;
use bareverbs_harness::model::{Bus, LinkKind};

use crate::{
    config::HcaConfig,
    eq::{Event, port_change},
    frame_counters::FrameCounters,
    hca::Hca,
    sma,
};

/// Entries of the RoCE address table.
pub const ROCE_ADDRESSES: usize = 256;
/// UDP destination port of RoCE v2.
pub const ROCE_UDP_PORT: u16 = 4791;
/// Entries of the GID table of an InfiniBand port.
const GIDS: usize = 8;
/// Entries of the P_Key table.
const PKEYS: usize = 128;
/// Ports that come up without a subnet manager name one all the same, the same on the whole cable: the first card's LID.
const SM_LID: u16 = 1;
/// Subnet prefix without a subnet manager.
const DEFAULT_PREFIX: u64 = 0xfe80_0000_0000_0000;

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

/// Traffic at some time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Bytes sent.
    pub bytes_out: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Frames sent.
    pub frames_out: u64,
    /// Frames received.
    pub frames_in: u64,
}

/// The port.
#[derive(Clone, Debug)]
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
    /// InfiniBand: what the subnet manager set and nobody else needs.
    pub info: port_info::Repr,
    /// Frames that passed; Ethernet.
    pub frames: FrameCounters,
    /// Traffic when the counters were cleared.
    pub counters: Traffic,
    /// RoCE is switched on.
    pub roce_enabled: bool,
    /// Longest Ethernet frame, its header included.
    pub max_frame: u16,
    /// Node description.
    pub description: [u8; 64],
    /// The driver wants the port up.
    pub admin_up: bool,
    /// Q_Key violations.
    pub qkey_violations: u16,
    /// P_Key violations.
    pub pkey_violations: u16,
}

impl Port {
    /// A port without a link.
    pub fn new(config: &HcaConfig) -> Self {
        let ib = config.link == LinkKind::InfiniBand;
        let mut gid = [0; 16];
        gid[..8].copy_from_slice(&DEFAULT_PREFIX.to_be_bytes());
        gid[8..].copy_from_slice(&config.guid.to_be_bytes());
        let mut gids = vec![[0; 16]; if ib { GIDS } else { 0 }];
        if let Some(first) = gids.first_mut() {
            *first = gid;
        }
        let mut description = [0; 64];
        let name = b"bareverbs modelled HCA";
        description[..name.len()].copy_from_slice(name);
        let mut pkeys = vec![0; PKEYS];
        pkeys[0] = 0xffff;
        Self {
            gids,
            pkeys,
            roce: vec![RoceAddress::default(); if ib { 0 } else { ROCE_ADDRESSES }],
            max_frame: 1522,
            description,
            admin_up: true,
            state: PortState::Down,
            lid: 0,
            lmc: 0,
            sm_lid: 0,
            sm_sl: 0,
            info: sma::initial_port_info(),
            frames: FrameCounters::default(),
            counters: Traffic::default(),
            roce_enabled: false,
            qkey_violations: 0,
            pkey_violations: 0,
        }
    }
}

/// Follows the link; true if something changed.
pub fn poll(hca: &mut Hca, bus: &mut dyn Bus) -> bool {
    let up = bus.link_up(0) && hca.port.admin_up;
    match (up, hca.port.state) {
        (false, PortState::Down) => false,
        (false, _) => {
            hca.port.state = PortState::Down;
            hca.event(bus, Event::PortChange { port: 1, subtype: port_change::DOWN });
            true
        }
        (true, PortState::Down) => {
            let state = match (hca.config.link, hca.config.lid) {
                (LinkKind::Ethernet, _) => PortState::Active,
                (LinkKind::InfiniBand, Some(lid)) => {
                    (hca.port.lid, hca.port.sm_lid) = (lid, SM_LID);
                    PortState::Active
                }
                (LinkKind::InfiniBand, None) => PortState::Init,
            };
            hca.port.state = state;
            let active = state == PortState::Active;
            let subtype = if active { port_change::ACTIVE } else { port_change::INITIALIZED };
            hca.event(bus, Event::PortChange { port: 1, subtype });
            true
        }
        _ => false,
    }
}
