//! What ibv_devinfo prints.

use bareverbs::{Device, DeviceAttr, Error, LinkLayer, PortNum, QpType};
use core::fmt;

fn guid(f: &mut dyn fmt::Write, name: &str, g: [u8; 8]) -> fmt::Result {
    let w = |i: usize| u16::from_be_bytes([g[i], g[i + 1]]);
    writeln!(f, "\t{name}:\t\t\t{:04x}:{:04x}:{:04x}:{:04x}", w(0), w(2), w(4), w(6))
}

/// Prints a device and one port of it, or for port 0 all, in the form of ibv_devinfo; with `verbose` also limits and
/// tables.
pub fn print<D: Device>(
    out: &mut dyn fmt::Write,
    name: &str,
    device: &D,
    wanted: PortNum,
    verbose: bool,
) -> Result<(), Failure> {
    if wanted.0 > 0 {
        // That there is no such port is told before anything is printed.
        device.query_port(wanted)?;
    }
    let a = device.attributes();
    writeln!(out, "hca_id:\t{name}")?;
    writeln!(out, "\ttransport:\t\t\tInfiniBand (0)")?;
    let [major, minor, sub] = a.firmware;
    writeln!(out, "\tfw_ver:\t\t\t\t{major}.{minor}.{sub:04}")?;
    guid(out, "node_guid", a.node_guid)?;
    guid(out, "sys_image_guid", a.sys_image_guid)?;
    writeln!(out, "\tvendor_id:\t\t\t0x{:04x}", a.vendor_id)?;
    writeln!(out, "\tvendor_part_id:\t\t\t{}", a.vendor_part_id)?;
    writeln!(out, "\thw_ver:\t\t\t\t0x{:X}", a.hw_ver)?;
    writeln!(out, "\tphys_port_cnt:\t\t\t{}", a.phys_port_cnt)?;
    if verbose {
        limits(out, &a)?;
    }
    for n in (1..=a.phys_port_cnt).filter(|n| wanted.0 == 0 || wanted.0 == *n) {
        port(out, device, PortNum(n), verbose)?;
    }
    writeln!(out)?;
    Ok(())
}

fn limits(out: &mut dyn fmt::Write, a: &DeviceAttr) -> fmt::Result {
    writeln!(out, "\tmax_mr_size:\t\t\t{:#x}", a.max_mr_size)?;
    writeln!(out, "\tpage_size_cap:\t\t\t{:#x}", a.page_size_cap)?;
    let rows: [(&str, u64); 14] = [
        ("max_qp:\t\t\t\t", a.max_qp.into()),
        ("max_qp_wr:\t\t\t", a.max_qp_wr.into()),
        ("max_sge:\t\t\t", a.max_sge.into()),
        ("max_sge_rd:\t\t\t", a.max_sge_rd.into()),
        ("max_cq:\t\t\t\t", a.max_cq.into()),
        ("max_cqe:\t\t\t", a.max_cqe.into()),
        ("max_mr:\t\t\t\t", a.max_mr.into()),
        ("max_pd:\t\t\t\t", a.max_pd.into()),
        ("max_qp_rd_atom:\t\t\t", a.max_qp_rd_atom.into()),
        ("max_qp_init_rd_atom:\t\t", a.max_qp_init_rd_atom.into()),
        ("max_srq:\t\t\t", a.max_srq.into()),
        ("max_srq_wr:\t\t\t", a.max_srq_wr.into()),
        ("max_srq_sge:\t\t\t", a.max_srq_sge.into()),
        ("max_pkeys:\t\t\t", a.max_pkeys.into()),
    ];
    for (name, value) in rows {
        writeln!(out, "\t{name}{value}")?;
    }
    let atomic = if a.atomics { "ATOMIC_HCA (1)" } else { "ATOMIC_NONE (0)" };
    writeln!(out, "\tatomic_cap:\t\t\t{atomic}")?;
    writeln!(out, "\tnum_comp_vectors:\t\t{}", a.num_comp_vectors)?;
    write!(out, "\tqp_types:\t\t\t")?;
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcIni, QpType::XrcTgt, QpType::RawPacket] {
        if a.has(kind) {
            write!(out, "{kind:?} ")?;
        }
    }
    writeln!(out)
}

fn port<D: Device>(out: &mut dyn fmt::Write, device: &D, n: PortNum, verbose: bool) -> Result<(), Failure> {
    let p = device.query_port(n)?;
    writeln!(out, "\t\tport:\t{}", n.0)?;
    writeln!(out, "\t\t\tstate:\t\t\t{} ({})", p.state.name(), p.state as u8)?;
    writeln!(out, "\t\t\tmax_mtu:\t\t{} ({})", p.max_mtu.bytes(), p.max_mtu as u8)?;
    writeln!(out, "\t\t\tactive_mtu:\t\t{} ({})", p.active_mtu.bytes(), p.active_mtu as u8)?;
    writeln!(out, "\t\t\tsm_lid:\t\t\t{}", p.sm_lid.0)?;
    writeln!(out, "\t\t\tport_lid:\t\t{}", p.lid.0)?;
    writeln!(out, "\t\t\tport_lmc:\t\t0x{:02x}", p.lmc)?;
    let layer = match p.link_layer {
        LinkLayer::InfiniBand => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
    };
    writeln!(out, "\t\t\tlink_layer:\t\t{layer}")?;
    if !verbose {
        return Ok(());
    }
    writeln!(out, "\t\t\tmax_msg_sz:\t\t{:#x}", p.max_msg_sz)?;
    writeln!(out, "\t\t\tport_cap_flags:\t\t{:#010x}", p.port_cap_flags)?;
    writeln!(out, "\t\t\tgid_tbl_len:\t\t{}", p.gid_tbl_len)?;
    writeln!(out, "\t\t\tpkey_tbl_len:\t\t{}", p.pkey_tbl_len)?;
    writeln!(out, "\t\t\tactive_width:\t\t{}", p.active_width)?;
    writeln!(out, "\t\t\tactive_speed:\t\t{}", p.active_speed)?;
    writeln!(out, "\t\t\tphys_state:\t\t{}", p.phys_state)?;
    for i in 0..p.gid_tbl_len.min(256) {
        let entry = device.query_gid(n, i as u8)?;
        if !entry.gid.is_zero() {
            let kind = match (p.link_layer, entry.kind) {
                (LinkLayer::InfiniBand, _) => "",
                (_, bareverbs::GidType::IbOrRoceV1) => ", RoCE v1",
                (_, bareverbs::GidType::RoceV2) => ", RoCE v2",
            };
            writeln!(out, "\t\t\tGID[{i:3}]:\t\t{}{kind}", entry.gid)?;
        }
    }
    Ok(())
}

/// Why a device was not printed.
#[derive(Debug)]
pub enum Failure {
    /// A query failed.
    Verb(Error),
    /// The output failed.
    Output,
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Self::Verb(e)
    }
}

impl From<fmt::Error> for Failure {
    fn from(_: fmt::Error) -> Self {
        Self::Output
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verb(e) => e.fmt(f),
            Self::Output => f.write_str("output failed"),
        }
    }
}

impl core::error::Error for Failure {}
