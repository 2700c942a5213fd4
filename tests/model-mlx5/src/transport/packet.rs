//! Packets: where a QP's go, how they are written, and what is checked when one comes in.

use bareverbs::wire::{
    aeth, bth, ethernet,
    ext::Ext,
    frame::{self, Link, Repr, Route},
    grh, ipv4, ipv6, lrh,
    opcode::Opcode,
};
use bareverbs_harness::model::{Frame, LinkKind};
use bareverbs_mlx5_prm::wqe::Av;

use super::{Counter, Psn, wqe};
use crate::{
    hca::Hca,
    port::{Port, PortState, RoceAddress},
    qp::{Qp, Service, ads},
};

/// LIDs from here on are multicast groups; the last one is the permissive LID.
const MULTICAST_LID: u16 = 0xc000;
/// The LID that every port takes for its own.
const PERMISSIVE_LID: u16 = 0xffff;
/// Virtual lane of subnet management.
pub const MANAGEMENT_VL: u8 = 15;
/// Version field of a RoCE address table entry for RoCE v2.
const ROCE_V2: u8 = 2;
/// First 12 bytes of an IPv4 address written as a GID.
const IPV4_PREFIX: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
/// The default P_Key, full membership.
const DEFAULT_PKEY: u16 = 0xffff;

/// Where a QP's packets go.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Headers before the BTH.
    pub route: Route,
    /// Partition.
    pub pkey: u16,
    /// Who gets them.
    pub to: To,
}

/// Who gets a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// Somebody on the link.
    Link,
    /// This very port.
    OwnPort,
    /// All members of a group, here and there.
    Group,
}

/// Destination QP of multicast packets.
pub const MULTICAST_QPN: u32 = 0xff_ffff;

/// Fields that a QP context and an address vector write in different places.
struct Address {
    force_loopback: bool,
    gid_index: usize,
    has_grh: bool,
    gid: [u8; 16],
    mac: [u8; 6],
    /// DLID on InfiniBand, UDP source port on Ethernet.
    dlid_or_sport: u16,
    path_bits: u8,
    /// Service level on InfiniBand, 802.1p priority on Ethernet.
    sl: u8,
    traffic_class: u8,
    flow_label: u32,
    hop_limit: u8,
}

impl Path {
    /// The path in the context of a connected QP; `None` if its source address does not exist.
    pub fn of_qp(hca: &Hca, qp: &Qp) -> Option<Self> {
        let ethernet = hca.config.link == LinkKind::Ethernet;
        let dscp = qp.path(ads::DSCP) as u8;
        let traffic_class = if ethernet && dscp != 0 { dscp << 2 } else { qp.path(ads::TCLASS) as u8 };
        let address = Address {
            force_loopback: qp.path(ads::FL) != 0,
            gid_index: qp.path(ads::SRC_ADDR_INDEX) as usize,
            has_grh: qp.path(ads::GRH) != 0,
            gid: qp.path_gid(),
            mac: qp.path_mac(),
            dlid_or_sport: qp.path(if ethernet { ads::UDP_SPORT } else { ads::RLID }) as u16,
            path_bits: qp.path(ads::MLID) as u8,
            sl: qp.path(if ethernet { ads::ETH_PRIO } else { ads::SL }) as u8,
            traffic_class,
            flow_label: qp.path(ads::FLOW_LABEL),
            hop_limit: qp.path(ads::HOP_LIMIT) as u8,
        };
        Self::new(hca, qp, &address)
    }

    /// The path of a datagram; `None` if its source address does not exist.
    pub fn of_av(hca: &Hca, qp: &Qp, av: &Av) -> Option<Self> {
        let grh = av.grh_gid_fl.get();
        let sl = av.stat_rate_sl & 0xf;
        let address = Address {
            force_loopback: av.fl_mlid & 0x80 != 0,
            gid_index: (grh >> 20 & 0xff) as usize,
            has_grh: wqe::av_has_grh(av),
            gid: av.rgid,
            mac: av.rmac,
            dlid_or_sport: av.rlid_udp_sport.get(),
            path_bits: av.fl_mlid & 0x7f,
            sl: if hca.config.link == LinkKind::Ethernet { sl >> 1 } else { sl },
            traffic_class: av.tclass,
            flow_label: grh & 0xf_ffff,
            hop_limit: av.hop_limit,
        };
        Self::new(hca, qp, &address)
    }

    fn new(hca: &Hca, qp: &Qp, address: &Address) -> Option<Self> {
        let pkey = pkey_of(&hca.port, qp);
        let (route, to) = match hca.config.link {
            LinkKind::InfiniBand => ib_route(&hca.port, qp.service, address)?,
            LinkKind::Ethernet => roce_route(&hca.port, qp.qpn, address)?,
        };
        let to = if address.force_loopback { To::OwnPort } else { to };
        Some(Self { route, pkey, to })
    }

    /// Whether the other end of this path sent a packet with that route.
    pub fn is_from_peer(&self, route: &Route) -> bool {
        match (&self.route, route) {
            (Route::Ib { lrh: ours, grh: our_grh }, Route::Ib { lrh: theirs, grh: their_grh }) => {
                let grh_ok = match (our_grh, their_grh) {
                    (Some(ours), Some(theirs)) => ours.dst == theirs.src && ours.src == theirs.dst,
                    (None, None) => true,
                    _ => false,
                };
                ours.dlid == theirs.slid && ours.slid == theirs.dlid && grh_ok
            }
            (Route::RoceV1 { eth: e1, grh: ours }, Route::RoceV1 { eth: e2, grh: theirs }) => {
                ours.dst == theirs.src && ours.src == theirs.dst && vlan(e1) == vlan(e2)
            }
            (Route::RoceV2Ipv4 { eth: e1, ip: ours, .. }, Route::RoceV2Ipv4 { eth: e2, ip: theirs, .. }) => {
                ours.dst == theirs.src && ours.src == theirs.dst && vlan(e1) == vlan(e2)
            }
            (Route::RoceV2Ipv6 { eth: e1, ip: ours, .. }, Route::RoceV2Ipv6 { eth: e2, ip: theirs, .. }) => {
                ours.dst == theirs.src && ours.src == theirs.dst && vlan(e1) == vlan(e2)
            }
            _ => false,
        }
    }
}

/// The partition key that a QP uses; QP0 has none.
pub fn pkey_of(port: &Port, qp: &Qp) -> u16 {
    let index = qp.path(ads::PKEY_INDEX) as usize;
    let entry = port.pkeys.get(index).filter(|_| qp.service != Service::Qp0);
    entry.copied().unwrap_or(DEFAULT_PKEY)
}

/// Whether two partition keys let their owners talk: the same partition, and not limited members both (IBA 10.9.3).
pub const fn pkeys_match(a: u16, b: u16) -> bool {
    a & 0x7fff == b & 0x7fff && a & 0x7fff != 0 && (a | b) & 0x8000 != 0
}

/// The VLAN, without priority.
fn vlan(eth: &ethernet::Repr) -> Option<u16> {
    eth.vlan.map(|tci| tci & 0xfff).filter(|&id| id != 0)
}

fn ib_route(port: &Port, service: Service, address: &Address) -> Option<(Route, To)> {
    let path_bits = u16::from(address.path_bits) & ((1 << port.lmc) - 1);
    let lrh = lrh::Repr {
        vl: if service == Service::Qp0 { MANAGEMENT_VL } else { 0 },
        sl: address.sl,
        dlid: address.dlid_or_sport,
        slid: if port.lid == 0 { PERMISSIVE_LID } else { port.lid | path_bits },
        ..Default::default()
    };
    let grh = match address.has_grh {
        false => None,
        true => Some(grh::Repr {
            traffic_class: address.traffic_class,
            flow_label: address.flow_label,
            hop_limit: address.hop_limit,
            src: *port.gids.get(address.gid_index)?,
            dst: address.gid,
            ..Default::default()
        }),
    };
    let to = match lrh.dlid {
        PERMISSIVE_LID => To::Link,
        MULTICAST_LID.. => To::Group,
        lid if is_own_lid(port, lid) => To::OwnPort,
        _ => To::Link,
    };
    Some((Route::Ib { lrh, grh }, to))
}

fn is_own_lid(port: &Port, lid: u16) -> bool {
    port.lid != 0 && lid >> port.lmc == port.lid >> port.lmc
}

fn roce_route(port: &Port, qpn: u32, address: &Address) -> Option<(Route, To)> {
    let source = port.roce.get(address.gid_index).filter(|entry| entry.gid != [0; 16])?;
    let eth = ethernet::Repr {
        dst: address.mac,
        src: source.mac,
        vlan: source.vlan.map(|id| id & 0xfff | u16::from(address.sl & 7) << 13),
        ..Default::default()
    };
    let src_port = match address.dlid_or_sport {
        0 => 0xc000 | qpn as u16 & 0x3fff,
        sport => sport,
    };
    // The two low bits are ECN: not capable.
    let traffic_class = address.traffic_class & !3;
    let ipv6 = ipv6::Repr {
        traffic_class,
        flow_label: address.flow_label,
        hop_limit: address.hop_limit,
        src: source.gid,
        dst: address.gid,
        ..Default::default()
    };
    let route = match (source.version, ipv4_of(&source.gid)) {
        (ROCE_V2, Some(src)) => {
            let ip = ipv4::Repr {
                tos: traffic_class,
                ttl: address.hop_limit,
                dont_frag: true,
                src,
                dst: ipv4_of(&address.gid)?,
                ..Default::default()
            };
            Route::RoceV2Ipv4 { eth, ip, src_port }
        }
        (ROCE_V2, None) => Route::RoceV2Ipv6 { eth, ip: ipv6, src_port },
        _ => Route::RoceV1 { eth, grh: grh::Repr { traffic_class: address.traffic_class, ..ipv6 } },
    };
    let to = match address.mac {
        mac if mac[0] & 1 != 0 => To::Group,
        mac if is_own_mac(port, &mac) => To::OwnPort,
        _ => To::Link,
    };
    Some((route, to))
}

fn is_own_mac(port: &Port, mac: &[u8; 6]) -> bool {
    port.roce.iter().any(|entry| entry.gid != [0; 16] && entry.mac == *mac)
}

fn ipv4_of(gid: &[u8; 16]) -> Option<[u8; 4]> {
    let (prefix, address) = gid.split_at(12);
    if prefix == IPV4_PREFIX { address.try_into().ok() } else { None }
}

fn gid_of(ip: &[u8; 4]) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[..12].copy_from_slice(&IPV4_PREFIX);
    gid[12..].copy_from_slice(ip);
    gid
}

/// What a packet says besides where it goes.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Opcode.
    pub opcode: Opcode,
    /// Destination QP.
    pub dest_qp: u32,
    /// PSN.
    pub psn: Psn,
    /// An ACK is asked for.
    pub ack_req: bool,
    /// The receiver's completion is a solicited one.
    pub solicited: bool,
    /// Extension headers.
    pub ext: Ext,
}

impl Header {
    /// The header of an answer.
    pub fn answer(opcode: Opcode, dest_qp: u32, psn: Psn, aeth: Option<aeth::Repr>) -> Self {
        Self { opcode, dest_qp, psn, ack_req: false, solicited: false, ext: Ext { aeth, ..Default::default() } }
    }
}

/// Writes a frame; `fill` writes the payload.
pub fn build<E>(
    path: &Path,
    header: &Header,
    payload: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Option<Frame>, E> {
    let repr = Repr {
        route: path.route,
        bth: bth::Repr {
            opcode: header.opcode,
            solicited: header.solicited,
            mig_req: true,
            pkey: path.pkey,
            dest_qp: header.dest_qp,
            ack_req: header.ack_req,
            psn: header.psn.get(),
            ..Default::default()
        },
        ext: header.ext,
    };
    let mut frame = vec![0; repr.frame_len(payload)];
    // Fails only where payload or extension headers do not suit the opcode; then nothing is sent.
    let Ok(mut emitter) = repr.emit(&mut frame, payload) else { return Ok(None) };
    fill(emitter.payload())?;
    emitter.finish_open();
    let seal = match path.route {
        Route::Ib { .. } => |bytes: &mut [u8]| seal(Link::InfiniBand, bytes),
        _ => |bytes: &mut [u8]| seal(Link::Ethernet, bytes),
    };
    Ok(Some(Frame::open(frame, seal)))
}

/// Writes the CRCs that [`build`] left out.
fn seal(link: Link, bytes: &mut [u8]) {
    frame::seal(link, bytes).expect("a frame of our own");
}

/// What the port checks before it looks for a QP.
pub fn check_port(hca: &Hca, repr: &Repr) -> Result<(), Counter> {
    if repr.bth.version != 0 {
        return Err(Counter::TransportVersion);
    }
    let port = &hca.port;
    if repr.bth.dest_qp == MULTICAST_QPN && mac(&repr.route).is_some_and(|mac| mac[0] & 1 != 0) {
        return Ok(());
    }
    let ours = match &repr.route {
        Route::Ib { lrh, grh } => {
            let management = lrh.vl == MANAGEMENT_VL;
            if management != (repr.bth.dest_qp == 0) {
                return Err(Counter::WrongTransport);
            }
            if !management && port.state != PortState::Active {
                return Err(Counter::PortNotActive);
            }
            match lrh.dlid {
                PERMISSIVE_LID => management,
                MULTICAST_LID.. => repr.bth.dest_qp == MULTICAST_QPN && grh.is_some(),
                lid => is_own_lid(port, lid) && grh.is_none_or(|grh| port.gids.contains(&grh.dst)),
            }
        }
        Route::RoceV1 { eth, grh } => has_address(port, eth, &grh.dst, |entry| entry.version != ROCE_V2),
        Route::RoceV2Ipv4 { eth, ip, .. } => has_address(port, eth, &gid_of(&ip.dst), |entry| entry.version == ROCE_V2),
        Route::RoceV2Ipv6 { eth, ip, .. } => has_address(port, eth, &ip.dst, |entry| entry.version == ROCE_V2),
    };
    if ours { Ok(()) } else { Err(Counter::WrongDestinationAddress) }
}

/// Destination MAC.
const fn mac(route: &Route) -> Option<[u8; 6]> {
    match route {
        Route::Ib { .. } => None,
        Route::RoceV1 { eth, .. } | Route::RoceV2Ipv4 { eth, .. } | Route::RoceV2Ipv6 { eth, .. } => Some(eth.dst),
    }
}

/// The group that a multicast packet is for.
pub fn group(route: &Route) -> Option<[u8; 16]> {
    match route {
        Route::Ib { grh, .. } => grh.map(|grh| grh.dst),
        Route::RoceV1 { grh, .. } => Some(grh.dst),
        Route::RoceV2Ipv6 { ip, .. } => Some(ip.dst),
        Route::RoceV2Ipv4 { ip, .. } => Some(gid_of(&ip.dst)),
    }
}

fn has_address(port: &Port, eth: &ethernet::Repr, gid: &[u8; 16], version: impl Fn(&RoceAddress) -> bool) -> bool {
    port.roce.iter().any(|entry| {
        entry.gid == *gid
            && entry.mac == eth.dst
            && entry.vlan.filter(|&id| id != 0) == vlan(eth)
            && version(entry)
            && *gid != [0; 16]
    })
}

/// The kind of link, as the parser calls it.
pub const fn link(kind: LinkKind) -> Link {
    match kind {
        LinkKind::InfiniBand => Link::InfiniBand,
        LinkKind::Ethernet => Link::Ethernet,
    }
}
