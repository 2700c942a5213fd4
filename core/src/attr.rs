//! Attributes of devices, ports, addresses and objects (manual pages ibv_query_device, ibv_query_port, ...).

use crate::{Device, Error, Gid, Lid, Mac, Mtu, PortNum, QpType};
use bitflags::bitflags;

bitflags! {
    /// What may be done with a memory region, and by a QP's peer (ibv_reg_mr, ibv_modify_qp).
    /// Local reading is always allowed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Access: u8 {
        /// The local device may write (receives, reads and atomics that return here).
        const LOCAL_WRITE = 1;
        /// A peer may write; needs `LOCAL_WRITE`.
        const REMOTE_WRITE = 2;
        /// A peer may read.
        const REMOTE_READ = 4;
        /// A peer may do atomics; needs `LOCAL_WRITE`.
        const REMOTE_ATOMIC = 8;
        /// Memory windows may be bound to the region.
        const MW_BIND = 16;
        /// Of a region: pages come when they are touched (on-demand paging).
        const ON_DEMAND = 64;
    }
}

/// Who is given rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessOf {
    /// A region, registered by a verb.
    Region,
    /// A region, registered by a request.
    FastRegion,
    /// A memory window.
    Window,
    /// The peer of a QP.
    Qp,
}

impl Access {
    /// What a peer may do.
    pub const REMOTE: Self = Self::REMOTE_WRITE.union(Self::REMOTE_READ).union(Self::REMOTE_ATOMIC);
    /// What changes memory at a peer's word.
    pub const REMOTE_CHANGE: Self = Self::REMOTE_WRITE.union(Self::REMOTE_ATOMIC);

    /// For drivers: whether these rights go together, suit who is given them, and are there on a device with or without
    /// atomics. [`Error::AccessNeedsLocalWrite`] (IBA 10.6.3.1, ibv_reg_mr: of regions, since a window has no local rights
    /// and lends its region's), [`Error::Unsupported`].
    pub const fn check(self, of: AccessOf, atomics: bool) -> Result<(), Error> {
        let is_region = matches!(of, AccessOf::Region | AccessOf::FastRegion);
        if is_region && self.intersects(Self::REMOTE_CHANGE) && !self.contains(Self::LOCAL_WRITE) {
            return Err(Error::AccessNeedsLocalWrite);
        }
        if self.contains(Self::REMOTE_ATOMIC) && !atomics {
            return Err(Error::Unsupported("atomics"));
        }
        if self.contains(Self::ON_DEMAND) {
            return Err(Error::Unsupported("on-demand paging"));
        }
        match of {
            AccessOf::Window if !Self::REMOTE.contains(self) => Err(Error::Unsupported("local rights of a window")),
            AccessOf::FastRegion if self.contains(Self::MW_BIND) => {
                Err(Error::Unsupported("windows of a region for fast registration"))
            }
            _ => Ok(()),
        }
    }
}

/// What the device can do (ibv_query_device). Limits are what this driver offers, not what the card could.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DeviceAttr {
    /// Firmware version: major, minor, sub-minor.
    pub firmware: [u16; 3],
    /// GUID of the node, network byte order.
    pub node_guid: [u8; 8],
    /// GUID of the system image, network byte order.
    pub sys_image_guid: [u8; 8],
    /// PCI vendor id (or OUI).
    pub vendor_id: u32,
    /// PCI device id.
    pub vendor_part_id: u32,
    /// Hardware revision.
    pub hw_ver: u32,
    /// Largest memory region, bytes.
    pub max_mr_size: u64,
    /// Page sizes of regions, a bit each.
    pub page_size_cap: u64,
    /// QPs.
    pub max_qp: u32,
    /// Requests a queue.
    pub max_qp_wr: u32,
    /// Elements a request.
    pub max_sge: u32,
    /// Elements of an RDMA READ.
    pub max_sge_rd: u32,
    /// Inline bytes.
    pub max_inline: u32,
    /// CQs.
    pub max_cq: u32,
    /// Entries a CQ.
    pub max_cqe: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Memory windows; 0 without them.
    pub max_mw: u32,
    /// Elements of a fast registration; 0 without it.
    pub max_fast_reg_elements: u32,
    /// Protection domains.
    pub max_pd: u32,
    /// XRC domains; 0 without XRC.
    pub max_xrcd: u32,
    /// Outstanding reads and atomics as responder, a QP.
    pub max_qp_rd_atom: u8,
    /// Outstanding reads and atomics as initiator, a QP.
    pub max_qp_init_rd_atom: u8,
    /// Whether 8-byte atomics exist.
    pub atomics: bool,
    /// SRQs; 0 if there are none.
    pub max_srq: u32,
    /// Requests an SRQ.
    pub max_srq_wr: u32,
    /// Elements a request of an SRQ.
    pub max_srq_sge: u32,
    /// Whether SRQs can be resized (IBV_DEVICE_SRQ_RESIZE).
    pub srq_resize: bool,
    /// Multicast groups; 0 if there are none.
    pub max_mcast_grp: u32,
    /// QPs of a multicast group.
    pub max_mcast_qp_attach: u32,
    /// P_Keys.
    pub max_pkeys: u16,
    /// Completion vectors.
    pub num_comp_vectors: u32,
    /// Ports.
    pub phys_port_cnt: u8,
    /// QP types, a bit each by [`QpType`]'s number.
    pub qp_types: u32,
    /// Ticks a millisecond of [`crate::CompletionView::timestamp`] (hca_core_clock of ibv_query_device_ex); 0 where the
    /// device does not tell.
    pub core_clock_khz: u32,
}

impl DeviceAttr {
    /// Whether the device has this type of QP.
    pub const fn has(&self, kind: QpType) -> bool {
        self.qp_types & (1 << kind as u32) != 0
    }
}

/// State of a port; numbers of ibv_port_state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum PortState {
    /// Nothing to say.
    #[default]
    Nop = 0,
    /// No link.
    Down = 1,
    /// Link, but the subnet manager has not set it up.
    Init = 2,
    /// Set up, not yet active.
    Armed = 3,
    /// Packets flow.
    Active = 4,
    /// Active, waiting for a link error to clear.
    ActiveDefer = 5,
}

impl PortState {
    /// The name that ibv_devinfo prints.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nop => "PORT_NOP",
            Self::Down => "PORT_DOWN",
            Self::Init => "PORT_INIT",
            Self::Armed => "PORT_ARMED",
            Self::Active => "PORT_ACTIVE",
            Self::ActiveDefer => "PORT_ACTIVE_DEFER",
        }
    }
}

/// What the port's link speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand.
    #[default]
    InfiniBand,
    /// Ethernet: RoCE.
    Ethernet,
}

/// A port (ibv_query_port).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PortAttr {
    /// State.
    pub state: PortState,
    /// Largest MTU.
    pub max_mtu: Mtu,
    /// MTU in use.
    pub active_mtu: Mtu,
    /// Entries of the GID table.
    pub gid_tbl_len: u16,
    /// Entries of the P_Key table.
    pub pkey_tbl_len: u16,
    /// Capability mask (IBA 14.2.5.6).
    pub port_cap_flags: u32,
    /// Largest message, bytes.
    pub max_msg_sz: u32,
    /// Own LID; 0 on Ethernet.
    pub lid: Lid,
    /// Low bits of the LID that are free.
    pub lmc: u8,
    /// LID of the subnet manager.
    pub sm_lid: Lid,
    /// Service level of the subnet manager.
    pub sm_sl: u8,
    /// Active link width, the IBA's code (1: 1x, 2: 4x, 4: 8x, 8: 12x, 16: 2x).
    pub active_width: u8,
    /// Active link speed, the IBA's code (1: SDR, 2: DDR, 4: QDR, 8: FDR10, 16: FDR, 32: EDR, 64: HDR, 128: NDR).
    pub active_speed: u8,
    /// Physical state, the IBA's code (5: link up).
    pub phys_state: u8,
    /// What the link speaks.
    pub link_layer: LinkLayer,
    /// The port's Ethernet address; zero on InfiniBand.
    pub mac: Mac,
}

/// How packets of a GID look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GidType {
    /// InfiniBand, or RoCE v1 (ethertype 0x8915) on Ethernet.
    #[default]
    IbOrRoceV1,
    /// RoCE v2 (UDP port 4791).
    RoceV2,
}

/// An entry of the GID table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GidEntry {
    /// The GID; zero deletes the entry.
    pub gid: Gid,
    /// How its packets look.
    pub kind: GidType,
    /// Source MAC of its packets.
    pub mac: Mac,
    /// VLAN, 1 to 4094.
    pub vlan: Option<u16>,
}

/// The global part of an address (ibv_ah_attr: grh). Required on Ethernet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalRoute {
    /// Destination.
    pub dgid: Gid,
    /// Source, by index of the GID table.
    pub sgid_index: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit; with RoCEv2 the IP TTL.
    pub hop_limit: u8,
    /// Traffic class; with RoCEv2 the IP DSCP and ECN bits.
    pub traffic_class: u8,
}

/// A path to a peer (ibv_ah_attr). Nobody resolves addresses here: on Ethernet the MAC comes from the caller, or from
/// a link-local EUI-64 GID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AhAttr {
    /// Local port.
    pub port: PortNum,
    /// Destination LID (InfiniBand).
    pub dlid: Lid,
    /// Service level, 0 to 15; on Ethernet the priority, 0 to 7.
    pub sl: u8,
    /// Low bits of the source LID, seven at most (IBA 4.1.3).
    pub src_path_bits: u8,
    /// Static rate, the IBA's code; 0 for the port's own.
    pub static_rate: u8,
    /// Global part.
    pub grh: Option<GlobalRoute>,
    /// Destination MAC (Ethernet).
    pub dmac: Option<Mac>,
    /// UDP source port of RoCEv2; `None` lets the driver choose from flow label and QPNs.
    pub udp_sport: Option<u16>,
}

/// What a CQ is made with (ibv_create_cq).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CqInit {
    /// At least so many entries.
    pub entries: u32,
    /// Which completion vector (event queue) tells of it.
    pub comp_vector: u32,
    /// Comes back from [`crate::CompletionQueue::context`].
    pub context: u64,
    /// 128-byte entries, where the device has them.
    pub large_entries: bool,
}

/// Sizes of an SRQ (ibv_create_srq), and what [`crate::SharedReceiveQueue::query`] tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrqAttr {
    /// At least so many requests.
    pub max_wr: u32,
    /// At least so many elements a request.
    pub max_sge: u32,
    /// An event is given once when fewer requests than this are left; 0 for none. Ignored at creation.
    pub limit: u32,
}

/// What an SRQ is made with (ibv_create_srq); made of its sizes alone it has the context 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrqInit {
    /// Sizes.
    pub attr: SrqAttr,
    /// Comes back from [`crate::SharedReceiveQueue::context`].
    pub context: u64,
}

impl From<SrqAttr> for SrqInit {
    fn from(attr: SrqAttr) -> Self {
        Self { attr, context: 0 }
    }
}

impl From<&SrqAttr> for SrqInit {
    fn from(attr: &SrqAttr) -> Self {
        Self::from(*attr)
    }
}

/// What an XRC SRQ is made with (ibv_create_srq_ex: IBV_SRQT_XRC).
pub struct XrcSrqInit<'a, D: Device> {
    /// Sizes.
    pub attr: SrqAttr,
    /// Comes back from [`crate::SharedReceiveQueue::context`].
    pub context: u64,
    /// Target QPs of this domain receive into it.
    pub xrcd: &'a D::Xrcd,
    /// Completions of all its receives go here, whichever QP took them.
    pub cq: &'a D::Cq,
}

/// Sizes of a QP's queues (ibv_create_qp: cap). What is asked for is a minimum; the QP tells the actual ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpCap {
    /// Outstanding send requests.
    pub max_send_wr: u32,
    /// Outstanding receive requests; ignored with an SRQ.
    pub max_recv_wr: u32,
    /// Elements a send request.
    pub max_send_sge: u32,
    /// Elements a receive request; ignored with an SRQ.
    pub max_recv_sge: u32,
    /// Inline bytes a send request.
    pub max_inline: u32,
}

/// What a QP is made with (ibv_create_qp).
pub struct QpInit<'a, D: Device> {
    /// Type. XRC targets are made by [`Device::create_xrc_target`] instead.
    pub kind: QpType,
    /// Completions of sends go here.
    pub send_cq: &'a D::Cq,
    /// Completions of receives go here; may be the same. An XRC initiator has none and does not hold it.
    pub recv_cq: &'a D::Cq,
    /// Receives come from here instead of an own queue.
    pub srq: Option<&'a D::Srq>,
    /// Sizes.
    pub cap: QpCap,
    /// Every send request is signaled.
    pub signal_all: bool,
    /// Comes back from [`crate::QueuePair::context`].
    pub context: u64,
}

// Derived, both would ask for a device that can be copied.
impl<D: Device> Clone for QpInit<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Device> Copy for QpInit<'_, D> {}
