//! Ports: state, speeds, tables. InfiniBand ports are asked by the vport commands, Ethernet ports by those of the NIC
//! vport; both by the port registers (ACCESS_REG).

use crate::{
    attr::ports,
    cmd::PageList,
    control::Control,
    hca::{Caps, Hca, InlineMode},
    policy::{Lock, Policy},
};
use bareverbs::{Argument, Error, Lid, LinkLayer, Mac, Mtu, Pkey, PortAttr, PortNum, PortState};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{
        access_reg, access_reg_op_mod, pmtu, protocol, ptys, query_hca_vport_context, query_hca_vport_pkey,
        query_nic_vport_context, query_vport_state, register,
    },
    context::{cmd_hca_cap, hca_vport_context, nic_vport_context},
};

/// Refuses ports that are not there.
pub(crate) fn check(caps: &Caps, port: PortNum) -> Result<(), Error> {
    if port.0 == 0 || port.0 > ports(caps) { Err(Error::NoSuchPort(port)) } else { Ok(()) }
}

/// The number by which HCA vport commands know a port: 0 on a device of one port.
pub(crate) fn vport_port(caps: &Caps, port: PortNum) -> u32 {
    if ports(caps) == 1 { 0 } else { port.0.into() }
}

fn hca_vport<H: PciFunction>(
    hal: &H,
    control: &mut Control,
    port: u32,
) -> Result<[u8; query_hca_vport_context::OUT_LEN], Error> {
    let mut input = [0; query_hca_vport_context::IN_LEN];
    query_hca_vport_context::PORT_NUM.set(&mut input, port);
    let mut out = [0; query_hca_vport_context::OUT_LEN];
    control.execute(hal, Opcode::QUERY_HCA_VPORT_CONTEXT, 0, &mut input, &PageList::None, &mut out)?;
    Ok(out)
}

fn nic_vport<H: PciFunction>(hal: &H, control: &mut Control) -> Result<[u8; query_nic_vport_context::OUT_LEN], Error> {
    let mut out = [0; query_nic_vport_context::OUT_LEN];
    let mut input = [0; query_nic_vport_context::IN_LEN];
    control.execute(hal, Opcode::QUERY_NIC_VPORT_CONTEXT, 0, &mut input, &PageList::None, &mut out)?;
    Ok(out)
}

/// GUIDs of the node and of the system image.
pub(crate) fn guids<H: PciFunction>(hal: &H, control: &mut Control, caps: &Caps) -> Result<[[u8; 8]; 2], Error> {
    let [node, image] = match caps.link {
        LinkLayer::InfiniBand => {
            let out = hca_vport(hal, control, vport_port(caps, PortNum(1)))?;
            let at = query_hca_vport_context::out::HCA_VPORT_CONTEXT;
            [hca_vport_context::NODE_GUID, hca_vport_context::SYSTEM_IMAGE_GUID].map(|f| f.at(at).get(&out))
        }
        LinkLayer::Ethernet => {
            let out = nic_vport(hal, control)?;
            let at = query_nic_vport_context::out::NIC_VPORT_CONTEXT;
            [nic_vport_context::NODE_GUID, nic_vport_context::SYSTEM_IMAGE_GUID].map(|f| f.at(at).get(&out))
        }
    };
    Ok([node.to_be_bytes(), image.to_be_bytes()])
}

/// Reads a port register.
fn read_register<H: PciFunction, const N: usize>(
    hal: &H,
    control: &mut Control,
    id: u32,
    data: &[u8],
) -> Result<[u8; N], Error> {
    let mut input = [0; access_reg::IN_LEN + 0x40];
    let len = N.min(input.len());
    access_reg::REGISTER_ID.set(&mut input, id);
    input[access_reg::REGISTER_DATA..][..data.len()].copy_from_slice(data);
    let mut out = [0; N];
    control.execute(hal, Opcode::ACCESS_REG, access_reg_op_mod::READ, &mut input[..len], &PageList::None, &mut out)?;
    Ok(out)
}

/// The head of a port register that names the port.
fn local_port(port: PortNum) -> [u8; 4] {
    [0, port.0, 0, 0]
}

/// State of a port (ibv_query_port).
pub(crate) fn query<H: PciFunction, P: Policy>(hca: &Hca<H, P>, port: PortNum) -> Result<PortAttr, Error> {
    check(&hca.caps, port)?;
    hca.control.with(|control| match hca.caps.link {
        LinkLayer::InfiniBand => query_infiniband(&hca.hal, control, &hca.caps, port),
        LinkLayer::Ethernet => query_ethernet(&hca.hal, control, &hca.caps, port),
    })
}

fn common(caps: &Caps) -> PortAttr {
    let mut attr = PortAttr::default();
    attr.link_layer = caps.link;
    attr.gid_tbl_len = caps.gids;
    attr.max_msg_sz = crate::bringup::power(cmd_hca_cap::LOG_MAX_MSG.get(&caps.general));
    attr
}

const REGISTER: usize = access_reg::out::REGISTER_DATA;

fn query_infiniband<H: PciFunction>(
    hal: &H,
    control: &mut Control,
    caps: &Caps,
    port: PortNum,
) -> Result<PortAttr, Error> {
    use hca_vport_context as context;
    let out = hca_vport(hal, control, vport_port(caps, port))?;
    let vport = &out[query_hca_vport_context::out::HCA_VPORT_CONTEXT..];
    let mut attr = common(caps);
    attr.pkey_tbl_len = caps.pkeys;
    attr.state = state(context::VPORT_STATE.get(vport));
    attr.phys_state = context::PORT_PHYSICAL_STATE.get(vport) as u8;
    attr.port_cap_flags = context::CAP_MASK1.get(vport);
    attr.lid = Lid(context::LID.get(vport) as u16);
    attr.lmc = context::LMC.get(vport) as u8;
    attr.sm_lid = Lid(context::SM_LID.get(vport) as u16);
    attr.sm_sl = context::SM_SL.get(vport) as u8;

    let [a, b, c, _] = local_port(port);
    let out: [u8; REGISTER + ptys::SIZE] =
        read_register(hal, control, register::PTYS, &[a, b, c, protocol::INFINIBAND as u8])?;
    attr.active_width = ptys::IB_LINK_WIDTH_OPER.at(REGISTER).get(&out) as u8;
    attr.active_speed = ptys::IB_PROTO_OPER.at(REGISTER).get(&out) as u8;
    let out: [u8; REGISTER + pmtu::SIZE] = read_register(hal, control, register::PMTU, &local_port(port))?;
    attr.max_mtu = mtu(pmtu::MAX_MTU.at(REGISTER).get(&out))?;
    attr.active_mtu = mtu(pmtu::OPER_MTU.at(REGISTER).get(&out))?;
    Ok(attr)
}

fn state(code: u32) -> PortState {
    match code {
        1 => PortState::Down,
        2 => PortState::Init,
        3 => PortState::Armed,
        4 => PortState::Active,
        5 => PortState::ActiveDefer,
        _ => PortState::Nop,
    }
}

fn mtu(bytes: u32) -> Result<Mtu, Error> {
    Mtu::from_bytes(bytes).ok_or(Error::BadAnswer { opcode: Opcode::ACCESS_REG.0, why: "a port's MTU" })
}

/// Bytes of headers and ICRC beside a RoCE packet's payload, of which the payload's MTU must leave room in a frame:
/// GRH or IPv6 40, UDP 8, BTH 12, the longest extension headers 28 (AtomicETH), ICRC 4.
const ROCE_HEADERS: u32 = 40 + 8 + 12 + 28 + 4;
/// What PMTU counts beside the payload of an Ethernet frame: addresses, VLAN tag, type and FCS.
const FRAME_HEADERS: u32 = 14 + 4 + FCS;
/// Bytes of a frame's check sequence.
const FCS: u32 = 4;

fn query_ethernet<H: PciFunction>(
    hal: &H,
    control: &mut Control,
    caps: &Caps,
    port: PortNum,
) -> Result<PortAttr, Error> {
    let mut attr = common(caps);
    attr.pkey_tbl_len = 1;
    let out = nic_vport(hal, control)?;
    let mac = nic_vport_context::PERMANENT_MAC.at(query_nic_vport_context::out::NIC_VPORT_CONTEXT);
    attr.mac = Mac(mac.array(&out));

    let mut out = [0; query_vport_state::OUT_LEN];
    let mut input = [0; query_vport_state::IN_LEN];
    control.execute(hal, Opcode::QUERY_VPORT_STATE, 0, &mut input, &PageList::None, &mut out)?;
    let up = query_vport_state::out::STATE.get(&out) == 1;
    attr.state = if up { PortState::Active } else { PortState::Down };
    attr.phys_state = if up { LINK_UP } else { DISABLED };

    let [a, b, c, _] = local_port(port);
    let out: [u8; REGISTER + ptys::SIZE] =
        read_register(hal, control, register::PTYS, &[a, b, c, protocol::ETHERNET as u8])?;
    (attr.active_width, attr.active_speed) =
        ethernet_speed(ptys::ETH_PROTO_OPER.at(REGISTER).get(&out), ptys::EXT_ETH_PROTO_OPER.at(REGISTER).get(&out));
    let out: [u8; REGISTER + pmtu::SIZE] = read_register(hal, control, register::PMTU, &local_port(port))?;
    attr.max_mtu = roce_mtu(pmtu::MAX_MTU.at(REGISTER).get(&out));
    attr.active_mtu = roce_mtu(pmtu::OPER_MTU.at(REGISTER).get(&out));
    Ok(attr)
}

/// Physical states, the IBA's codes (PortInfo:PortPhysicalState).
const LINK_UP: u8 = 5;
const DISABLED: u8 = 3;

/// Largest MTU that a path over the first port can have: on InfiniBand the port's own, for the subnet manager may still
/// raise the one in use; on Ethernet what fits the frames in use.
/// With it the longest frame that an Ethernet port sends, without the check sequence; 0 on InfiniBand.
pub(crate) fn limits<H: PciFunction>(hal: &H, control: &mut Control, caps: &Caps) -> Result<(Mtu, u32), Error> {
    let out: [u8; REGISTER + pmtu::SIZE] = read_register(hal, control, register::PMTU, &local_port(PortNum(1)))?;
    let frame = pmtu::OPER_MTU.at(REGISTER).get(&out);
    match caps.link {
        LinkLayer::InfiniBand => Ok((mtu(pmtu::MAX_MTU.at(REGISTER).get(&out))?, 0)),
        LinkLayer::Ethernet => Ok((roce_mtu(frame), frame.saturating_sub(FCS))),
    }
}

/// Which headers the request of a frame must hold, where the vport says so.
pub(crate) fn inline_mode<H: PciFunction>(hal: &H, control: &mut Control) -> Result<InlineMode, Error> {
    let out = nic_vport(hal, control)?;
    let mode = nic_vport_context::MIN_WQE_INLINE_MODE.at(query_nic_vport_context::out::NIC_VPORT_CONTEXT);
    Ok(InlineMode::from_code(mode.get(&out)))
}

/// The largest RoCE MTU that fits a frame.
fn roce_mtu(frame: u32) -> Mtu {
    let payload = frame.saturating_sub(FRAME_HEADERS + ROCE_HEADERS);
    let fits = [Mtu::B4096, Mtu::B2048, Mtu::B1024, Mtu::B512].into_iter().find(|m| m.bytes() <= payload);
    fits.unwrap_or(Mtu::B256)
}

/// Link widths and speeds, the IBA's codes (PortInfo:LinkWidthActive, LinkSpeedActive and its extensions).
mod ib {
    pub(super) const X1: u8 = 1;
    pub(super) const X2: u8 = 16;
    pub(super) const X4: u8 = 2;
    pub(super) const X8: u8 = 4;
    pub(super) const SDR: u8 = 1;
    pub(super) const QDR: u8 = 4;
    pub(super) const FDR: u8 = 16;
    pub(super) const EDR: u8 = 32;
    pub(super) const HDR: u8 = 64;
    pub(super) const NDR: u8 = 128;
}

/// PTYS' bits of Ethernet modes, with the width and speed that come closest.
const ETHERNET_MODES: [(u32, u8, u8); 7] = [
    (1 << 20 | 1 << 21 | 1 << 22 | 1 << 23, ib::X4, ib::EDR), // 100G CR4, SR4, KR4, LR4
    (1 << 18 | 1 << 30 | 1 << 31, ib::X2, ib::EDR),           // 50G SR2, CR2, KR2
    (1 << 8, ib::X4, ib::FDR),                                // 56G R4
    (1 << 6 | 1 << 7 | 1 << 15 | 1 << 16, ib::X4, ib::QDR),   // 40G CR4, KR4, SR4, LR4
    (1 << 27 | 1 << 28 | 1 << 29, ib::X1, ib::EDR),           // 25G CR, KR, SR
    (1 << 2 | 1 << 3 | 1 << 4 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 26, ib::X1, ib::QDR), // 10G
    (1 << 0 | 1 << 1 | 1 << 24 | 1 << 25, ib::X1, ib::SDR),   // 1G and below
];

/// The same of the extended modes, which cards from ConnectX-6 on use instead.
const EXTENDED_ETHERNET_MODES: [(u32, u8, u8); 11] = [
    (1 << 18, ib::X4, ib::NDR), // 400G on 4 lanes
    (1 << 15, ib::X8, ib::HDR), // 400G on 8 lanes
    (1 << 17, ib::X2, ib::NDR), // 200G on 2 lanes
    (1 << 12, ib::X4, ib::HDR), // 200G on 4 lanes
    (1 << 16, ib::X1, ib::NDR), // 100G on 1 lane
    (1 << 10, ib::X2, ib::HDR), // 100G on 2 lanes
    (1 << 9, ib::X4, ib::EDR),  // 100G on 4 lanes
    (1 << 8, ib::X1, ib::HDR),  // 50G on 1 lane
    (1 << 7, ib::X2, ib::EDR),  // 50G on 2 lanes
    (1 << 5, ib::X4, ib::QDR),  // 40G on 4 lanes
    (1 << 6, ib::X1, ib::EDR),  // 25G
];

/// Width and speed of an Ethernet port by its modes; the slowest where no mode is known.
fn ethernet_speed(modes: u32, extended: u32) -> (u8, u8) {
    let find = |table: &[(u32, u8, u8)], modes| {
        table.iter().find(|(bits, ..)| modes & bits != 0).map(|&(_, width, speed)| (width, speed))
    };
    let found = find(&ETHERNET_MODES, modes).or_else(|| find(&EXTENDED_ETHERNET_MODES, extended));
    found.unwrap_or((ib::X1, ib::SDR))
}

/// An entry of the P_Key table (ibv_query_pkey). Ethernet ports have the default one only.
pub(crate) fn query_pkey<H: PciFunction, P: Policy>(hca: &Hca<H, P>, port: PortNum, index: u16) -> Result<Pkey, Error> {
    check(&hca.caps, port)?;
    let entries = if hca.caps.link == LinkLayer::Ethernet { 1 } else { hca.caps.pkeys };
    if index >= entries {
        return Err(Error::NoSuchIndex { table: Argument::Pkey, index: index.into() });
    }
    if hca.caps.link == LinkLayer::Ethernet {
        return hca.check_alive().map(|()| Pkey::DEFAULT);
    }
    let mut input = [0; query_hca_vport_pkey::IN_LEN];
    query_hca_vport_pkey::PORT_NUM.set(&mut input, vport_port(&hca.caps, port));
    query_hca_vport_pkey::PKEY_INDEX.set(&mut input, index.into());
    let mut out = [0; query_hca_vport_pkey::OUT_LEN + 4];
    hca.execute(Opcode::QUERY_HCA_VPORT_PKEY, 0, &mut input, &PageList::None, &mut out)?;
    let at = query_hca_vport_pkey::out::PKEY;
    Ok(Pkey(u16::from_be_bytes([out[at + 2], out[at + 3]])))
}
