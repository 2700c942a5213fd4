//! ACCESS_REG and the port and management registers behind it.

/// ACCESS_REG. The op_mod is 0 to write, 1 to read, see
/// [`access_reg_op_mod`](super::access_reg_op_mod).
pub mod access_reg {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::ACCESS_REG;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// Which register, see [`register`](super::register).
    pub const REGISTER_ID: Field = Field::new(0x08, 15, 0);
    /// Argument of some registers.
    pub const ARGUMENT: Field = Field::new(0x0c, 31, 0);
    /// The register; its index fields (`local_port` ...) count when reading too.
    pub const REGISTER_DATA: usize = 0x10;

    /// Output fields.
    pub mod out {
        /// The register.
        pub const REGISTER_DATA: usize = 0x10;
    }
}

/// Values of ACCESS_REG's op_mod.
pub mod access_reg_op_mod {
    /// Write.
    pub const WRITE: u32 = 0;
    /// Read.
    pub const READ: u32 = 1;
}

/// Register ids.
pub mod register {
    /// Trust state of priorities.
    pub const QPTS: u32 = 0x4002;
    /// Transmission selection.
    pub const QETCR: u32 = 0x4005;
    /// Priority to traffic class.
    pub const QTCT: u32 = 0x400a;
    /// DSCP to priority.
    pub const QPDPM: u32 = 0x4013;
    /// Which QoS registers there are.
    pub const QCAM: u32 = 0x4019;
    /// DCBX parameters.
    pub const DCBX_PARAM: u32 = 0x4020;
    /// DCBX applications.
    pub const DCBX_APP: u32 = 0x4021;
    /// Core dump.
    pub const CORE_DUMP: u32 = 0x402e;
    /// Port capabilities.
    pub const PCAP: u32 = 0x5001;
    /// Lanes of a port.
    pub const PMLP: u32 = 0x5002;
    /// [`pmtu`](super::pmtu).
    pub const PMTU: u32 = 0x5003;
    /// [`ptys`](super::ptys).
    pub const PTYS: u32 = 0x5004;
    /// [`paos`](super::paos).
    pub const PAOS: u32 = 0x5006;
    /// [`pfcc`](super::pfcc).
    pub const PFCC: u32 = 0x5007;
    /// [`ppcnt`](super::ppcnt).
    pub const PPCNT: u32 = 0x5008;
    /// Port up and down event.
    pub const PUDE: u32 = 0x5009;
    /// Priority to buffer.
    pub const PPTB: u32 = 0x500b;
    /// Port buffers.
    pub const PBMC: u32 = 0x500c;
    /// Port event logging.
    pub const PELC: u32 = 0x500e;
    /// [`pvlc`](super::pvlc).
    pub const PVLC: u32 = 0x500f;
    /// Port module event.
    pub const PMPE: u32 = 0x5010;
    /// Administrative and operational status of a module.
    pub const PMAOS: u32 = 0x5012;
    /// Forward error correction.
    pub const PPLM: u32 = 0x5023;
    /// Port diagnostics.
    pub const PDDR: u32 = 0x5031;
    /// Port checks.
    pub const PCMR: u32 = 0x5041;
    /// Which port registers there are.
    pub const PCAM: u32 = 0x507f;
    /// [`node_description`](super::node_description).
    pub const NODE_DESC: u32 = 0x6001;
    /// [`host_endianness`](super::host_endianness).
    pub const HOST_ENDIANNESS: u32 = 0x7004;
    /// Cable's memory.
    pub const MCIA: u32 = 0x9014;
    /// Firmware reset level.
    pub const MFRL: u32 = 0x9028;
    /// LED of a port.
    pub const MLCR: u32 = 0x902b;
    /// Real-time clock.
    pub const MRTC: u32 = 0x902d;
    /// Tracer capabilities.
    pub const MTRC_CAP: u32 = 0x9040;
    /// Tracer configuration.
    pub const MTRC_CONF: u32 = 0x9041;
    /// Tracer strings.
    pub const MTRC_STDB: u32 = 0x9042;
    /// Tracer control.
    pub const MTRC_CTRL: u32 = 0x9043;
    /// PCIe information.
    pub const MPEIN: u32 = 0x9050;
    /// PCIe counters.
    pub const MPCNT: u32 = 0x9051;
    /// Pulse per second.
    pub const MTPPS: u32 = 0x9053;
    /// Pulse per second events.
    pub const MTPPSE: u32 = 0x9054;
    /// Free-running clock.
    pub const MTUTC: u32 = 0x9055;
    /// PCIe general configuration.
    pub const MPEGC: u32 = 0x9056;
    /// Component status.
    pub const MCQS: u32 = 0x9060;
    /// Component information.
    pub const MCQI: u32 = 0x9061;
    /// Component control.
    pub const MCC: u32 = 0x9062;
    /// Component data.
    pub const MCDA: u32 = 0x9063;
    /// Which management registers there are.
    pub const MCAM: u32 = 0x907f;
    /// Image reactivation.
    pub const MIRC: u32 = 0x9162;
    /// Shared buffer pools.
    pub const SBPR: u32 = 0xb001;
    /// Shared buffer quotas.
    pub const SBCM: u32 = 0xb002;
    /// Shared buffer capabilities.
    pub const SBCAM: u32 = 0xb01f;
    /// Resource dump.
    pub const RESOURCE_DUMP: u32 = 0xc000;
    /// [Default timeouts](super::dtor).
    pub const DTOR: u32 = 0xc00e;
}

/// Port type and speed register. PRM: "PTYS".
pub mod ptys {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x40;
    /// Port, counted from 1.
    pub const LOCAL_PORT: Field = Field::new(0x00, 23, 16);
    /// [`protocol`](super::protocol) that is asked for.
    pub const PROTO_MASK: Field = Field::new(0x00, 2, 0);
    /// Autonegotiation is switched off.
    pub const AN_DISABLE_ADMIN: Field = Field::new(0x00, 30, 30);
    /// Autonegotiation can be switched off.
    pub const AN_DISABLE_CAP: Field = Field::new(0x00, 29, 29);
    /// Autonegotiation's outcome.
    pub const AN_STATUS: Field = Field::new(0x04, 31, 28);
    /// Data rate in force.
    pub const DATA_RATE_OPER: Field = Field::new(0x04, 15, 0);
    /// Ethernet: extended modes supported.
    pub const EXT_ETH_PROTO_CAPABILITY: Field = Field::new(0x08, 31, 0);
    /// Ethernet: modes supported.
    pub const ETH_PROTO_CAPABILITY: Field = Field::new(0x0c, 31, 0);
    /// InfiniBand: widths supported, see [`ib_width`](super::ib_width).
    pub const IB_LINK_WIDTH_CAPABILITY: Field = Field::new(0x10, 31, 16);
    /// InfiniBand: speeds supported, see [`ib_speed`](super::ib_speed).
    pub const IB_PROTO_CAPABILITY: Field = Field::new(0x10, 15, 0);
    /// Ethernet: extended modes allowed.
    pub const EXT_ETH_PROTO_ADMIN: Field = Field::new(0x14, 31, 0);
    /// Ethernet: modes allowed.
    pub const ETH_PROTO_ADMIN: Field = Field::new(0x18, 31, 0);
    /// InfiniBand: widths allowed.
    pub const IB_LINK_WIDTH_ADMIN: Field = Field::new(0x1c, 31, 16);
    /// InfiniBand: speeds allowed.
    pub const IB_PROTO_ADMIN: Field = Field::new(0x1c, 15, 0);
    /// Ethernet: extended mode in force.
    pub const EXT_ETH_PROTO_OPER: Field = Field::new(0x20, 31, 0);
    /// Ethernet: mode in force.
    pub const ETH_PROTO_OPER: Field = Field::new(0x24, 31, 0);
    /// InfiniBand: width in force.
    pub const IB_LINK_WIDTH_OPER: Field = Field::new(0x28, 31, 16);
    /// InfiniBand: speed in force.
    pub const IB_PROTO_OPER: Field = Field::new(0x28, 15, 0);
    /// Kind of connector.
    pub const CONNECTOR_TYPE: Field = Field::new(0x2c, 3, 0);
    /// Ethernet: modes the link partner offers.
    pub const ETH_PROTO_LP_ADVERTISE: Field = Field::new(0x30, 31, 0);
}

/// Bits of [`ptys::PROTO_MASK`].
pub mod protocol {
    /// InfiniBand.
    pub const INFINIBAND: u32 = 1 << 0;
    /// Ethernet.
    pub const ETHERNET: u32 = 1 << 2;
}

/// Bits of PTYS' InfiniBand link widths.
pub mod ib_width {
    /// One lane.
    pub const X1: u32 = 1 << 0;
    /// Two lanes.
    pub const X2: u32 = 1 << 1;
    /// Four lanes.
    pub const X4: u32 = 1 << 2;
    /// Eight lanes.
    pub const X8: u32 = 1 << 3;
    /// Twelve lanes.
    pub const X12: u32 = 1 << 4;
}

/// Bits of PTYS' InfiniBand speeds, per lane.
pub mod ib_speed {
    /// 2.5 Gb/s.
    pub const SDR: u32 = 1 << 0;
    /// 5 Gb/s.
    pub const DDR: u32 = 1 << 1;
    /// 10 Gb/s.
    pub const QDR: u32 = 1 << 2;
    /// 10.3 Gb/s.
    pub const FDR10: u32 = 1 << 3;
    /// 14 Gb/s.
    pub const FDR: u32 = 1 << 4;
    /// 25 Gb/s.
    pub const EDR: u32 = 1 << 5;
    /// 50 Gb/s.
    pub const HDR: u32 = 1 << 6;
    /// 100 Gb/s.
    pub const NDR: u32 = 1 << 7;
}

/// Port MTU register. PRM: "PMTU". InfiniBand counts the payload (4096), Ethernet the frame with
/// its header.
pub mod pmtu {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x10;
    /// Port, counted from 1.
    pub const LOCAL_PORT: Field = Field::new(0x00, 23, 16);
    /// Largest MTU in bytes.
    pub const MAX_MTU: Field = Field::new(0x04, 31, 16);
    /// MTU wanted in bytes.
    pub const ADMIN_MTU: Field = Field::new(0x08, 31, 16);
    /// MTU in force in bytes.
    pub const OPER_MTU: Field = Field::new(0x0c, 31, 16);
}

/// Port administrative and operational status register. PRM: "PAOS".
pub mod paos {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x10;
    /// 0.
    pub const SWID: Field = Field::new(0x00, 31, 24);
    /// Port, counted from 1.
    pub const LOCAL_PORT: Field = Field::new(0x00, 23, 16);
    /// Wanted: 1 up, 2 down, 3 up once, 4 disabled by the system.
    pub const ADMIN_STATUS: Field = Field::new(0x00, 11, 8);
    /// In force: 1 up, 2 down, 4 down and in error.
    pub const OPER_STATUS: Field = Field::new(0x00, 3, 0);
    /// Writing: the administrative status counts.
    pub const ASE: Field = Field::new(0x04, 31, 31);
    /// Writing: `e` counts.
    pub const EE: Field = Field::new(0x04, 30, 30);
    /// Event: 0 none, 1 of every change, 2 of the next one.
    pub const E: Field = Field::new(0x04, 1, 0);
}

/// Port flow control register. PRM: "PFCC".
pub mod pfcc {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x20;
    /// Port, counted from 1.
    pub const LOCAL_PORT: Field = Field::new(0x00, 23, 16);
    /// Global pause: send.
    pub const PPTX: Field = Field::new(0x08, 31, 31);
    /// Global pause: obey.
    pub const PPRX: Field = Field::new(0x0c, 31, 31);
    /// Priority flow control: priorities that send.
    pub const PFCTX: Field = Field::new(0x08, 23, 16);
    /// Priority flow control: priorities that obey.
    pub const PFCRX: Field = Field::new(0x0c, 23, 16);
}

/// Virtual lane capability register. PRM: "PVLC". Values are IBA's VLCap codes: 1 is VL0, 2 VL0-1,
/// 3 VL0-3, 4 VL0-7, 5 VL0-14.
pub mod pvlc {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x10;
    /// Port, counted from 1.
    pub const LOCAL_PORT: Field = Field::new(0x00, 23, 16);
    /// Lanes of the port.
    pub const VL_HW_CAP: Field = Field::new(0x04, 3, 0);
    /// Lanes wanted.
    pub const VL_ADMIN: Field = Field::new(0x08, 3, 0);
    /// Lanes in force.
    pub const VL_OPERATIONAL: Field = Field::new(0x0c, 3, 0);
}

/// Port counters register. PRM: "PPCNT".
pub mod ppcnt {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x100;
    /// 0.
    pub const SWID: Field = Field::new(0x00, 31, 24);
    /// Port, counted from 1.
    pub const LOCAL_PORT: Field = Field::new(0x00, 23, 16);
    /// 0: the port is a local one.
    pub const PNAT: Field = Field::new(0x00, 15, 14);
    /// [`ppcnt_group`](super::ppcnt_group).
    pub const GRP: Field = Field::new(0x00, 5, 0);
    /// Start from 0 after the answer.
    pub const CLR: Field = Field::new(0x04, 31, 31);
    /// Priority or traffic class of groups that count by it.
    pub const PRIO_TC: Field = Field::new(0x04, 2, 0);
    /// The counters, 248 bytes.
    pub const COUNTER_SET: usize = 0x08;
}

/// Values of [`ppcnt::GRP`].
pub mod ppcnt_group {
    /// IEEE 802.3.
    pub const IEEE_802_3: u32 = 0x00;
    /// RFC 2863.
    pub const RFC_2863: u32 = 0x01;
    /// RFC 2819.
    pub const RFC_2819: u32 = 0x02;
    /// RFC 3635.
    pub const RFC_3635: u32 = 0x03;
    /// Ethernet extended.
    pub const ETHERNET_EXTENDED: u32 = 0x05;
    /// By priority.
    pub const PER_PRIORITY: u32 = 0x10;
    /// By traffic class.
    pub const PER_TRAFFIC_CLASS: u32 = 0x11;
    /// Physical layer.
    pub const PHYSICAL_LAYER: u32 = 0x12;
    /// Congestion by traffic class.
    pub const PER_TRAFFIC_CLASS_CONGESTION: u32 = 0x13;
    /// Physical layer, statistics.
    pub const PHYSICAL_LAYER_STATISTICAL: u32 = 0x16;
    /// InfiniBand port counters, [`ppcnt_ib`](super::ppcnt_ib).
    pub const INFINIBAND: u32 = 0x20;
}

/// InfiniBand port counters, in PPCNT's counter set. PRM: "InfiniBand PortCounters Attribute
/// Group".
pub mod ppcnt_ib {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x28;
    /// Symbol errors.
    pub const SYMBOL_ERROR_COUNTER: Field = Field::new(0x00, 31, 16);
    /// Link recoveries.
    pub const LINK_ERROR_RECOVERY_COUNTER: Field = Field::new(0x00, 15, 8);
    /// Link downs.
    pub const LINK_DOWNED_COUNTER: Field = Field::new(0x00, 7, 0);
    /// Packets received in error.
    pub const PORT_RCV_ERRORS: Field = Field::new(0x04, 31, 16);
    /// Packets marked bad by others.
    pub const PORT_RCV_REMOTE_PHYSICAL_ERRORS: Field = Field::new(0x04, 15, 0);
    /// Packets that could not be relayed.
    pub const PORT_RCV_SWITCH_RELAY_ERRORS: Field = Field::new(0x08, 31, 16);
    /// Packets not sent.
    pub const PORT_XMIT_DISCARDS: Field = Field::new(0x08, 15, 0);
    /// Packets not sent by rule.
    pub const PORT_XMIT_CONSTRAINT_ERRORS: Field = Field::new(0x0c, 31, 24);
    /// Packets not received by rule.
    pub const PORT_RCV_CONSTRAINT_ERRORS: Field = Field::new(0x0c, 23, 16);
    /// Buffer overruns.
    pub const LINK_OVERRUN_ERRORS: Field = Field::new(0x0c, 7, 0);
    /// Management packets dropped.
    pub const VL_15_DROPPED: Field = Field::new(0x10, 15, 0);
    /// Ticks of waiting to send.
    pub const PORT_XMIT_WAIT: Field = Field::new(0x24, 31, 0);
}

/// Node description, ACCESS_REG 0x6001: the name that a subnet manager sees.
pub mod node_description {
    use crate::field::Bytes;

    /// Size in bytes.
    pub const SIZE: usize = 0x40;
    /// UTF-8, padded with zeros.
    pub const NODE_DESCRIPTION: Bytes = Bytes::new(0x00, 64);
}

/// Host endianness register, ACCESS_REG 0x7004.
pub mod host_endianness {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x10;
    /// 0: little-endian, 1: big-endian host.
    pub const HE: Field = Field::new(0x00, 31, 31);
}

/// Default timeouts register, ACCESS_REG 0xc00e; each is a
/// [`default_timeout`](super::default_timeout).
pub mod dtor {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x40;
    /// Until the PCIe link toggles.
    pub const PCIE_TOGGLE_TO: Field = Field::new(0x04, 31, 0);
    /// Between two looks at the health counter.
    pub const HEALTH_POLL_TO: Field = Field::new(0x14, 31, 0);
    /// A full core dump.
    pub const FULL_CRDUMP_TO: Field = Field::new(0x18, 31, 0);
    /// A firmware reset.
    pub const FW_RESET_TO: Field = Field::new(0x1c, 31, 0);
    /// A flush after an error.
    pub const FLUSH_ON_ERR_TO: Field = Field::new(0x20, 31, 0);
    /// Synchronizing for a firmware update.
    pub const PCI_SYNC_UPDATE_TO: Field = Field::new(0x24, 31, 0);
    /// A teardown.
    pub const TEAR_DOWN_TO: Field = Field::new(0x28, 31, 0);
    /// Reactivation.
    pub const FSM_REACTIVATE_TO: Field = Field::new(0x2c, 31, 0);
    /// Taking back pages.
    pub const RECLAIM_PAGES_TO: Field = Field::new(0x30, 31, 0);
    /// Taking back pages of virtual functions.
    pub const RECLAIM_VFS_PAGES_TO: Field = Field::new(0x34, 31, 0);
}

/// A timeout. PRM: "Default Timeout".
pub mod default_timeout {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x04;
    /// 0: milliseconds, 1: seconds, 2: minutes, 3: hours.
    pub const TO_MULTIPLIER: Field = Field::new(0x00, 31, 29);
    /// Number of them.
    pub const TO_VALUE: Field = Field::new(0x00, 19, 0);
}
