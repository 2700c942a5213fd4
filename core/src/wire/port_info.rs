//! PortInfo, a subnet management attribute (IBA 14.2.5.6).

use super::bytes::*;
use super::smp::DATA_LEN;

/// Values of PortState.
pub mod state {
    /// No change, when setting.
    pub const NO_CHANGE: u8 = 0;
    /// The physical link is down.
    pub const DOWN: u8 = 1;
    /// The link is up; only SMPs pass.
    pub const INIT: u8 = 2;
    /// Configured; only SMPs pass.
    pub const ARMED: u8 = 3;
    /// All packets pass.
    pub const ACTIVE: u8 = 4;
}

/// Bits of CapabilityMask.
pub mod cap {
    /// A subnet manager runs here.
    pub const IS_SM: u32 = 1 << 1;
    /// Sends notices.
    pub const IS_NOTICE_SUPPORTED: u32 = 1 << 2;
    /// Sends traps.
    pub const IS_TRAP_SUPPORTED: u32 = 1 << 3;
    /// Automatic path migration.
    pub const IS_AUTO_MIGRATION_SUPPORTED: u32 = 1 << 5;
    /// SLtoVLMappingTable.
    pub const IS_SL_MAPPING_SUPPORTED: u32 = 1 << 6;
    /// Extended link speeds (FDR and above).
    pub const IS_EXTENDED_SPEEDS_SUPPORTED: u32 = 1 << 14;
    /// CapabilityMask2 is valid.
    pub const IS_CAPABILITY_MASK2_SUPPORTED: u32 = 1 << 15;
    /// Communication management.
    pub const IS_CM_SUPPORTED: u32 = 1 << 16;
    /// Reinitialization (InitType).
    pub const IS_REINIT_SUPPORTED: u32 = 1 << 18;
    /// Device management.
    pub const IS_DEVICE_MGMT_SUPPORTED: u32 = 1 << 19;
    /// Vendor class.
    pub const IS_VENDOR_CLASS_SUPPORTED: u32 = 1 << 20;
    /// ClientReregister.
    pub const IS_CLIENT_REREGISTRATION_SUPPORTED: u32 = 1 << 25;
}

/// The fields of a PortInfo. Fields narrower than their type say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Management key of the port.
    pub mkey: u64,
    /// GID prefix of the subnet.
    pub gid_prefix: u64,
    /// Base LID.
    pub lid: u16,
    /// LID of the master subnet manager.
    pub sm_lid: u16,
    /// CapabilityMask: see [`cap`].
    pub capability_mask: u32,
    /// Diagnostic code.
    pub diag_code: u16,
    /// M_Key lease period, seconds.
    pub mkey_lease_period: u16,
    /// The port that took the packet.
    pub local_port: u8,
    /// Link widths enabled: 1 = 1x, 2 = 4x, 4 = 8x, 8 = 12x.
    pub link_width_enabled: u8,
    /// Link widths supported.
    pub link_width_supported: u8,
    /// Link width active.
    pub link_width_active: u8,
    /// Link speeds supported: 1 = SDR, 2 = DDR, 4 = QDR; 4 bits.
    pub link_speed_supported: u8,
    /// PortState: see [`state`]; 4 bits.
    pub port_state: u8,
    /// PortPhysicalState: 2 = polling, 3 = disabled, 5 = link up; 4 bits.
    pub phys_state: u8,
    /// LinkDownDefaultState: 1 = sleep, 2 = polling; 4 bits.
    pub link_down_default_state: u8,
    /// M_KeyProtectBits; 2 bits.
    pub mkey_protect: u8,
    /// LID mask control; 3 bits.
    pub lmc: u8,
    /// Link speed active; 4 bits.
    pub link_speed_active: u8,
    /// Link speeds enabled; 4 bits.
    pub link_speed_enabled: u8,
    /// MTU of the neighbour: 1 = 256 ... 5 = 4096; 4 bits.
    pub neighbor_mtu: u8,
    /// Service level to reach the subnet manager; 4 bits.
    pub master_sm_sl: u8,
    /// Virtual lanes: 1 = VL0, 2 = VL0-1, 3 = VL0-3, 4 = VL0-7, 5 = VL0-14; 4 bits.
    pub vl_cap: u8,
    /// InitType; 4 bits.
    pub init_type: u8,
    /// VLHighLimit.
    pub vl_high_limit: u8,
    /// Entries of the high-priority arbitration table.
    pub vl_arb_high_cap: u8,
    /// Entries of the low-priority arbitration table.
    pub vl_arb_low_cap: u8,
    /// InitTypeReply; 4 bits.
    pub init_type_reply: u8,
    /// Largest MTU, coded as the neighbour's; 4 bits.
    pub mtu_cap: u8,
    /// VLStallCount; 3 bits.
    pub vl_stall_count: u8,
    /// HOQLife; 5 bits.
    pub hoq_life: u8,
    /// Virtual lanes in operation, coded as `vl_cap`; 4 bits.
    pub operational_vls: u8,
    /// Partition enforcement: inbound (2), outbound (1); 2 bits.
    pub partition_enforcement: u8,
    /// Raw packet filter: inbound (2), outbound (1); 2 bits.
    pub filter_raw: u8,
    /// M_Key violations counted.
    pub mkey_violations: u16,
    /// P_Key violations counted.
    pub pkey_violations: u16,
    /// Q_Key violations counted.
    pub qkey_violations: u16,
    /// GUIDs the port can have.
    pub guid_cap: u8,
    /// ClientReregister: 1 asks for registering again; 1 bit.
    pub client_reregister: u8,
    /// MulticastPKeyTrapSuppressionEnabled; 2 bits.
    pub mcast_pkey_trap_suppression: u8,
    /// SubnetTimeOut: 4.096 us * 2^value; 5 bits.
    pub subnet_timeout: u8,
    /// RespTimeValue: 4.096 us * 2^value; 5 bits.
    pub resp_time_value: u8,
    /// LocalPhyErrors threshold; 4 bits.
    pub local_phy_errors: u8,
    /// OverrunErrors threshold; 4 bits.
    pub overrun_errors: u8,
    /// MaxCreditHint.
    pub max_credit_hint: u16,
    /// LinkRoundTripLatency, in units of 4 ns; 24 bits.
    pub link_round_trip_latency: u32,
    /// CapabilityMask2.
    pub capability_mask2: u16,
    /// Extended link speed active: 1 = FDR, 2 = EDR, 4 = HDR, 8 = NDR; 4 bits.
    pub link_speed_ext_active: u8,
    /// Extended link speeds supported; 4 bits.
    pub link_speed_ext_supported: u8,
    /// Extended link speeds enabled; 5 bits.
    pub link_speed_ext_enabled: u8,
}

/// `bits` bits of a byte, from `shift` up.
fn bits<const AT: usize>(data: &[u8; DATA_LEN], shift: u8, bits: u8) -> u8 {
    low(u8_at::<AT, _>(data) >> shift, bits)
}

/// The low `bits` bits, at most 7.
const fn low(value: u8, bits: u8) -> u8 {
    value & ((1 << bits) - 1)
}

impl Repr {
    /// Reads the attribute's data. Reserved bits are dropped.
    pub fn parse(data: &[u8; DATA_LEN]) -> Repr {
        Repr {
            mkey: u64_at::<0, _>(data),
            gid_prefix: u64_at::<8, _>(data),
            lid: u16_at::<16, _>(data),
            sm_lid: u16_at::<18, _>(data),
            capability_mask: u32_at::<20, _>(data),
            diag_code: u16_at::<24, _>(data),
            mkey_lease_period: u16_at::<26, _>(data),
            local_port: u8_at::<28, _>(data),
            link_width_enabled: u8_at::<29, _>(data),
            link_width_supported: u8_at::<30, _>(data),
            link_width_active: u8_at::<31, _>(data),
            link_speed_supported: bits::<32>(data, 4, 4),
            port_state: bits::<32>(data, 0, 4),
            phys_state: bits::<33>(data, 4, 4),
            link_down_default_state: bits::<33>(data, 0, 4),
            mkey_protect: bits::<34>(data, 6, 2),
            lmc: bits::<34>(data, 0, 3),
            link_speed_active: bits::<35>(data, 4, 4),
            link_speed_enabled: bits::<35>(data, 0, 4),
            neighbor_mtu: bits::<36>(data, 4, 4),
            master_sm_sl: bits::<36>(data, 0, 4),
            vl_cap: bits::<37>(data, 4, 4),
            init_type: bits::<37>(data, 0, 4),
            vl_high_limit: u8_at::<38, _>(data),
            vl_arb_high_cap: u8_at::<39, _>(data),
            vl_arb_low_cap: u8_at::<40, _>(data),
            init_type_reply: bits::<41>(data, 4, 4),
            mtu_cap: bits::<41>(data, 0, 4),
            vl_stall_count: bits::<42>(data, 5, 3),
            hoq_life: bits::<42>(data, 0, 5),
            operational_vls: bits::<43>(data, 4, 4),
            partition_enforcement: bits::<43>(data, 2, 2),
            filter_raw: bits::<43>(data, 0, 2),
            mkey_violations: u16_at::<44, _>(data),
            pkey_violations: u16_at::<46, _>(data),
            qkey_violations: u16_at::<48, _>(data),
            guid_cap: u8_at::<50, _>(data),
            client_reregister: bits::<51>(data, 7, 1),
            mcast_pkey_trap_suppression: bits::<51>(data, 5, 2),
            subnet_timeout: bits::<51>(data, 0, 5),
            resp_time_value: bits::<52>(data, 0, 5),
            local_phy_errors: bits::<53>(data, 4, 4),
            overrun_errors: bits::<53>(data, 0, 4),
            max_credit_hint: u16_at::<54, _>(data),
            link_round_trip_latency: u24_at::<57, _>(data),
            capability_mask2: u16_at::<60, _>(data),
            link_speed_ext_active: bits::<62>(data, 4, 4),
            link_speed_ext_supported: bits::<62>(data, 0, 4),
            link_speed_ext_enabled: bits::<63>(data, 0, 5),
        }
    }

    /// Writes the attribute's data; reserved bits become zero, values wider than their
    /// fields are cut.
    pub fn emit(&self, data: &mut [u8; DATA_LEN]) {
        *data = [0; DATA_LEN];
        put::<0, 8, _>(data, self.mkey.to_be_bytes());
        put::<8, 8, _>(data, self.gid_prefix.to_be_bytes());
        put::<16, 2, _>(data, self.lid.to_be_bytes());
        put::<18, 2, _>(data, self.sm_lid.to_be_bytes());
        put::<20, 4, _>(data, self.capability_mask.to_be_bytes());
        put::<24, 2, _>(data, self.diag_code.to_be_bytes());
        put::<26, 2, _>(data, self.mkey_lease_period.to_be_bytes());
        put::<28, 1, _>(data, [self.local_port]);
        put::<29, 1, _>(data, [self.link_width_enabled]);
        put::<30, 1, _>(data, [self.link_width_supported]);
        put::<31, 1, _>(data, [self.link_width_active]);
        put::<32, 1, _>(data, [low(self.link_speed_supported, 4) << 4 | low(self.port_state, 4)]);
        put::<33, 1, _>(data, [low(self.phys_state, 4) << 4 | low(self.link_down_default_state, 4)]);
        put::<34, 1, _>(data, [low(self.mkey_protect, 2) << 6 | low(self.lmc, 3)]);
        put::<35, 1, _>(data, [low(self.link_speed_active, 4) << 4 | low(self.link_speed_enabled, 4)]);
        put::<36, 1, _>(data, [low(self.neighbor_mtu, 4) << 4 | low(self.master_sm_sl, 4)]);
        put::<37, 1, _>(data, [low(self.vl_cap, 4) << 4 | low(self.init_type, 4)]);
        put::<38, 1, _>(data, [self.vl_high_limit]);
        put::<39, 1, _>(data, [self.vl_arb_high_cap]);
        put::<40, 1, _>(data, [self.vl_arb_low_cap]);
        put::<41, 1, _>(data, [low(self.init_type_reply, 4) << 4 | low(self.mtu_cap, 4)]);
        put::<42, 1, _>(data, [low(self.vl_stall_count, 3) << 5 | low(self.hoq_life, 5)]);
        put::<43, 1, _>(
            data,
            [low(self.operational_vls, 4) << 4 | low(self.partition_enforcement, 2) << 2 | low(self.filter_raw, 2)],
        );
        put::<44, 2, _>(data, self.mkey_violations.to_be_bytes());
        put::<46, 2, _>(data, self.pkey_violations.to_be_bytes());
        put::<48, 2, _>(data, self.qkey_violations.to_be_bytes());
        put::<50, 1, _>(data, [self.guid_cap]);
        put::<51, 1, _>(
            data,
            [low(self.client_reregister, 1) << 7
                | low(self.mcast_pkey_trap_suppression, 2) << 5
                | low(self.subnet_timeout, 5)],
        );
        put::<52, 1, _>(data, [low(self.resp_time_value, 5)]);
        put::<53, 1, _>(data, [low(self.local_phy_errors, 4) << 4 | low(self.overrun_errors, 4)]);
        put::<54, 2, _>(data, self.max_credit_hint.to_be_bytes());
        put_u24::<57, _>(data, self.link_round_trip_latency);
        put::<60, 2, _>(data, self.capability_mask2.to_be_bytes());
        put::<62, 1, _>(data, [low(self.link_speed_ext_active, 4) << 4 | low(self.link_speed_ext_supported, 4)]);
        put::<63, 1, _>(data, [low(self.link_speed_ext_enabled, 5)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `mad_set_field` of libibmad (rdma-core 44.0) from the values below.
    #[rustfmt::skip]
    const BYTES: [u8; DATA_LEN] = [
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0xfe, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x12, 0x34, 0x56, 0x78, 0x02, 0x51, 0x48, 0x68, 0x9a, 0xbc, 0xde, 0xf0, 0x01, 0x03, 0x07, 0x02,
        0x54, 0x62, 0x85, 0x9a, 0x5b, 0x4d, 0x21, 0x43, 0x65, 0xe5, 0xd1, 0x99, 0x11, 0x11, 0x22, 0x22,
        0x33, 0x33, 0x08, 0xd2, 0x13, 0x78, 0x44, 0x44, 0x00, 0x55, 0x56, 0x57, 0x67, 0x89, 0x13, 0x15,
    ];

    const REPR: Repr = Repr {
        mkey: 0x0102_0304_0506_0708,
        gid_prefix: 0xfe80_0000_0000_0000,
        lid: 0x1234,
        sm_lid: 0x5678,
        capability_mask: 0x0251_4868,
        diag_code: 0x9abc,
        mkey_lease_period: 0xdef0,
        local_port: 1,
        link_width_enabled: 3,
        link_width_supported: 7,
        link_width_active: 2,
        link_speed_supported: 5,
        port_state: state::ACTIVE,
        phys_state: 6,
        link_down_default_state: 2,
        mkey_protect: 2,
        lmc: 5,
        link_speed_active: 9,
        link_speed_enabled: 10,
        neighbor_mtu: 5,
        master_sm_sl: 11,
        vl_cap: 4,
        init_type: 13,
        vl_high_limit: 0x21,
        vl_arb_high_cap: 0x43,
        vl_arb_low_cap: 0x65,
        init_type_reply: 14,
        mtu_cap: 5,
        vl_stall_count: 6,
        hoq_life: 17,
        operational_vls: 9,
        partition_enforcement: 2,
        filter_raw: 1,
        mkey_violations: 0x1111,
        pkey_violations: 0x2222,
        qkey_violations: 0x3333,
        guid_cap: 8,
        client_reregister: 1,
        mcast_pkey_trap_suppression: 2,
        subnet_timeout: 18,
        resp_time_value: 19,
        local_phy_errors: 7,
        overrun_errors: 8,
        max_credit_hint: 0x4444,
        link_round_trip_latency: 0x555657,
        capability_mask2: 0x6789,
        link_speed_ext_active: 1,
        link_speed_ext_supported: 3,
        link_speed_ext_enabled: 21,
    };

    #[test]
    fn parse_and_emit() {
        assert_eq!(Repr::parse(&BYTES), REPR);
        let mut data = [0xee; DATA_LEN];
        REPR.emit(&mut data);
        assert_eq!(data, BYTES);
    }

    #[test]
    fn reserved_bits_are_the_only_ones_dropped() {
        let mut data = [0; DATA_LEN];
        Repr::parse(&[0xff; DATA_LEN]).emit(&mut data);
        let mut expected = [0xff; DATA_LEN];
        expected[34] = 0xc7; // between M_KeyProtectBits and LMC
        expected[52] = 0x1f; // above RespTimeValue
        expected[56] = 0x00; // before LinkRoundTripLatency
        expected[63] = 0x1f; // above LinkSpeedExtEnabled
        assert_eq!(data, expected);
    }
}
