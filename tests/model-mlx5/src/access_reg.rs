//! ACCESS_REG: the registers of port and device.

use bareverbs_harness::model::{Bus, LinkKind};
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{
        access_reg, access_reg_op_mod as direction, host_endianness, ib_speed, ib_width, node_description, paos, pfcc,
        pmtu, ppcnt, ppcnt_group, protocol, ptys, pvlc, register,
    },
};

use crate::{
    command::Call,
    frame_counters,
    hca::Hca,
    port::PortState,
    refusal::{Outcome, Refused, require},
};

/// Link modes of an Ethernet port: 100GBASE-KR4.
const ETHERNET_MODES: u32 = 1 << 22;
/// Speeds of an InfiniBand port.
const IB_SPEEDS: u32 = ib_speed::SDR | ib_speed::DDR | ib_speed::QDR | ib_speed::FDR | ib_speed::EDR;
/// Largest frame of an Ethernet port.
pub const MAX_MTU: u16 = 9978;

/// How to serve a register: reading fills `data`, which at first holds what the driver gave; writing takes it.
struct Register {
    id: u32,
    size: usize,
    /// On which links there is one; `None` is both.
    link: Option<LinkKind>,
    read: Option<fn(&Hca, &mut [u8]) -> Outcome>,
    write: Option<fn(&mut Hca, &[u8]) -> Outcome>,
}

const REGISTERS: &[Register] = &[
    Register {
        id: register::HOST_ENDIANNESS,
        size: host_endianness::SIZE,
        link: None,
        read: Some(|_, _| Ok(())),
        write: Some(write_endianness),
    },
    Register {
        id: register::NODE_DESC,
        size: node_description::SIZE,
        // Linux reads it on Ethernet too.
        link: None,
        read: Some(read_node_description),
        write: Some(write_node_description),
    },
    Register { id: register::PTYS, size: ptys::SIZE, link: None, read: Some(read_ptys), write: None },
    Register { id: register::PMTU, size: pmtu::SIZE, link: None, read: Some(read_pmtu), write: Some(write_pmtu) },
    Register {
        id: register::PVLC,
        size: pvlc::SIZE,
        link: Some(LinkKind::InfiniBand),
        read: Some(read_pvlc),
        write: None,
    },
    Register { id: register::PAOS, size: paos::SIZE, link: None, read: Some(read_paos), write: Some(write_paos) },
    Register {
        id: register::PFCC,
        size: pfcc::SIZE,
        link: Some(LinkKind::Ethernet),
        read: Some(read_pfcc),
        write: None,
    },
    Register { id: register::PPCNT, size: ppcnt::SIZE, link: None, read: Some(read_ppcnt), write: None },
];

/// ACCESS_REG.
pub fn access_reg(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let id = access_reg::REGISTER_ID.get(call.input);
    let link = hca.config.link;
    let found = REGISTERS.iter().find(|r| r.id == id && r.link.is_none_or(|l| l == link));
    let Some(register) = found else {
        return Err(Refused::quiet(Status::BadParameter, 0x0c00, format_args!("no register {id:#x}")));
    };
    let data = call.input.get(access_reg::REGISTER_DATA..).unwrap_or_default();
    require(
        data.len() >= register.size,
        Status::BadInputLength,
        0x0c01,
        format_args!("{} bytes of register {id:#x}, it has {}", data.len(), register.size),
    )?;
    let why = format_args!("room for too little of register {id:#x}").to_string();
    let room = call.out.len() >= access_reg::out::REGISTER_DATA + register.size;
    require(room, Status::BadOutputLength, 0x0c02, why)?;
    let data = &data[..register.size];
    let out = &mut call.out[access_reg::out::REGISTER_DATA..access_reg::out::REGISTER_DATA + register.size];
    out.copy_from_slice(data);
    let denied = |what| Refused::quiet(Status::BadParameter, 0x0c03, format_args!("register {id:#x} cannot be {what}"));
    if u32::from(call.op_mod) == direction::READ {
        register.read.ok_or_else(|| denied("read"))?(hca, out)
    } else {
        register.write.ok_or_else(|| denied("written"))?(hca, data)?;
        // The answer holds what is in force now: rdma-core's tests of DEVX ask for a port's state by a write of PAOS that
        // changes nothing (mlx5_base.py, query_port_state_with_registers).
        register.read.map_or(Ok(()), |read| read(hca, out))
    }
}

fn port(local_port: u32) -> Outcome {
    require(local_port == 1, Status::BadParameter, 0x0c10, format_args!("port {local_port} of 1"))
}

fn write_endianness(_hca: &mut Hca, data: &[u8]) -> Outcome {
    let big = host_endianness::HE.is_set(data);
    require(!big, Status::BadParameter, 0x0c11, "big-endian hosts are not supported")
}

fn read_node_description(hca: &Hca, data: &mut [u8]) -> Outcome {
    node_description::NODE_DESCRIPTION.set(data, &hca.port.description);
    Ok(())
}

fn write_node_description(hca: &mut Hca, data: &[u8]) -> Outcome {
    hca.port.description = node_description::NODE_DESCRIPTION.array(data);
    Ok(())
}

fn read_ptys(hca: &Hca, data: &mut [u8]) -> Outcome {
    port(ptys::LOCAL_PORT.get(data))?;
    let mask = ptys::PROTO_MASK.get(data);
    data.fill(0);
    ptys::LOCAL_PORT.set(data, 1);
    ptys::PROTO_MASK.set(data, mask);
    let up = hca.port.state > PortState::Down;
    let fields = match (hca.config.link, mask) {
        (LinkKind::InfiniBand, protocol::INFINIBAND) => [
            (ptys::IB_LINK_WIDTH_CAPABILITY, ib_width::X1 | ib_width::X4),
            (ptys::IB_PROTO_CAPABILITY, IB_SPEEDS),
            (ptys::IB_LINK_WIDTH_ADMIN, ib_width::X1 | ib_width::X4),
            (ptys::IB_PROTO_ADMIN, IB_SPEEDS),
            (ptys::IB_LINK_WIDTH_OPER, if up { ib_width::X4 } else { ib_width::X1 }),
            (ptys::IB_PROTO_OPER, if up { ib_speed::EDR } else { ib_speed::SDR }),
        ]
        .to_vec(),
        (LinkKind::Ethernet, protocol::ETHERNET) => [
            (ptys::ETH_PROTO_CAPABILITY, ETHERNET_MODES),
            (ptys::ETH_PROTO_ADMIN, ETHERNET_MODES),
            (ptys::ETH_PROTO_OPER, if up { ETHERNET_MODES } else { 0 }),
        ]
        .to_vec(),
        _ => {
            return Err(Refused::quiet(Status::BadParameter, 0x0c12, format_args!("protocol mask {mask:#x}")));
        }
    };
    for (field, value) in fields {
        field.set(data, value);
    }
    Ok(())
}

fn read_pmtu(hca: &Hca, data: &mut [u8]) -> Outcome {
    port(pmtu::LOCAL_PORT.get(data))?;
    let (max, now) = match hca.config.link {
        // InfiniBand counts in MTU codes' bytes.
        LinkKind::InfiniBand => (4096, 4096),
        LinkKind::Ethernet => (u32::from(MAX_MTU), u32::from(hca.port.max_frame)),
    };
    pmtu::MAX_MTU.set(data, max);
    pmtu::ADMIN_MTU.set(data, now);
    pmtu::OPER_MTU.set(data, now);
    Ok(())
}

fn write_pmtu(hca: &mut Hca, data: &[u8]) -> Outcome {
    port(pmtu::LOCAL_PORT.get(data))?;
    let mtu = pmtu::ADMIN_MTU.get(data) as u16;
    let fits = hca.config.link == LinkKind::Ethernet && (64..=MAX_MTU).contains(&mtu);
    require(fits, Status::BadParameter, 0x0c13, format_args!("frames of {mtu} bytes, at most {MAX_MTU}"))?;
    hca.port.max_frame = mtu;
    Ok(())
}

fn read_pvlc(_hca: &Hca, data: &mut [u8]) -> Outcome {
    port(pvlc::LOCAL_PORT.get(data))?;
    // 1: only VL0.
    for field in [pvlc::VL_HW_CAP, pvlc::VL_ADMIN, pvlc::VL_OPERATIONAL] {
        field.set(data, 1);
    }
    Ok(())
}

fn read_paos(hca: &Hca, data: &mut [u8]) -> Outcome {
    port(paos::LOCAL_PORT.get(data))?;
    let code = |up: bool| if up { 1 } else { 2 };
    paos::ADMIN_STATUS.set(data, code(hca.port.admin_up));
    paos::OPER_STATUS.set(data, code(hca.port.state > PortState::Down));
    Ok(())
}

fn write_paos(hca: &mut Hca, data: &[u8]) -> Outcome {
    port(paos::LOCAL_PORT.get(data))?;
    if paos::ASE.is_set(data) {
        let status = paos::ADMIN_STATUS.get(data);
        require(status == 1 || status == 2, Status::BadParameter, 0x0c14, format_args!("port status {status}"))?;
        hca.port.admin_up = status == 1;
    }
    Ok(())
}

/// No flow control: the link of the model never stops a sender.
fn read_pfcc(_hca: &Hca, data: &mut [u8]) -> Outcome {
    port(pfcc::LOCAL_PORT.get(data))?;
    data.fill(0);
    pfcc::LOCAL_PORT.set(data, 1);
    Ok(())
}

/// Of the counter groups only those that can be answered truly: an ideal link has no errors.
fn read_ppcnt(hca: &Hca, data: &mut [u8]) -> Outcome {
    port(ppcnt::LOCAL_PORT.get(data))?;
    let group = ppcnt::GRP.get(data);
    let counters = match hca.config.link {
        LinkKind::InfiniBand => (group == ppcnt_group::INFINIBAND).then(Vec::new),
        LinkKind::Ethernet => frame_counters::ppcnt_group(hca, group, ppcnt::PRIO_TC.get(data)),
    };
    let Some(counters) = counters else {
        return Err(Refused::quiet(Status::BadParameter, 0x0c15, format_args!("counter group {group:#x}")));
    };
    frame_counters::write_group(data, &counters);
    Ok(())
}
