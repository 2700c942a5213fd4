//! Commands on the HCA as a whole.

/// ENABLE_HCA: the first command of a function.
pub mod enable_hca {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::ENABLE_HCA;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x0c;
    /// 0 for the function itself.
    pub const FUNCTION_ID: Field = Field::new(0x08, 15, 0);
    /// The function is meant from the other side of a BlueField.
    pub const EMBEDDED_CPU_FUNCTION: Field = Field::new(0x08, 31, 31);
}

/// DISABLE_HCA: the last command of a function.
pub mod disable_hca {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::DISABLE_HCA;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x0c;
    /// 0 for the function itself.
    pub const FUNCTION_ID: Field = Field::new(0x08, 15, 0);
    /// The function is meant from the other side of a BlueField.
    pub const EMBEDDED_CPU_FUNCTION: Field = Field::new(0x08, 31, 31);
}

/// QUERY_ISSI: which interface step sequence ids are supported.
pub mod query_issi {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_ISSI;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x70;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// The one in force.
        pub const CURRENT_ISSI: Field = Field::new(0x08, 15, 0);
        /// Bit n: ISSI n is supported (n up to 31).
        pub const SUPPORTED_ISSI_DW0: Field = Field::new(0x6c, 31, 0);
    }
}

/// SET_ISSI: chooses the interface that is described here.
pub mod set_issi {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::SET_ISSI;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The ISSI to use; 1.
    pub const CURRENT_ISSI: Field = Field::new(0x08, 15, 0);
}

/// QUERY_HCA_CAP. The op_mod holds what to query, see [`hca_cap_op_mod`](super::hca_cap_op_mod).
pub mod query_hca_cap {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_HCA_CAP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x1010;
    /// The capabilities of `function_id` are meant, not the own ones.
    pub const OTHER_FUNCTION: Field = Field::new(0x08, 31, 31);
    /// The function.
    pub const FUNCTION_ID: Field = Field::new(0x08, 15, 0);

    /// Output fields.
    pub mod out {
        /// The structure asked for, 4096 bytes.
        pub const CAPABILITY: usize = 0x10;
    }
}

/// SET_HCA_CAP. The op_mod holds which structure, as with QUERY_HCA_CAP.
pub mod set_hca_cap {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::SET_HCA_CAP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x1010;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// The capabilities of `function_id` are meant, not the own ones.
    pub const OTHER_FUNCTION: Field = Field::new(0x08, 31, 31);
    /// The function.
    pub const FUNCTION_ID: Field = Field::new(0x08, 15, 0);
    /// The structure to put in force, 4096 bytes.
    pub const CAPABILITY: usize = 0x10;
}

/// The op_mod of QUERY_HCA_CAP and SET_HCA_CAP: structure << 1 | mode. PRM: "QUERY_HCA_CAP
/// Op_mod".
pub mod hca_cap_op_mod {
    /// Mode bit: what the device could do at most.
    pub const MAX: u32 = 0;
    /// Mode bit: what is in force.
    pub const CURRENT: u32 = 1;
    /// Structure: [`cmd_hca_cap`](crate::context::cmd_hca_cap).
    pub const GENERAL: u32 = 0x0 << 1;
    /// Structure: Ethernet offloads.
    pub const ETHERNET: u32 = 0x1 << 1;
    /// Structure: on-demand paging.
    pub const ODP: u32 = 0x2 << 1;
    /// Structure: atomics.
    pub const ATOMIC: u32 = 0x3 << 1;
    /// Structure: RoCE.
    pub const ROCE: u32 = 0x4 << 1;
    /// Structure: IPoIB offloads.
    pub const IPOIB: u32 = 0x5 << 1;
    /// Structure: IPoIB enhanced offloads.
    pub const IPOIB_ENHANCED: u32 = 0x6 << 1;
    /// Structure: NIC flow tables.
    pub const FLOW_TABLE: u32 = 0x7 << 1;
    /// Structure: flow tables of the embedded switch.
    pub const ESWITCH_FLOW_TABLE: u32 = 0x8 << 1;
    /// Structure: embedded switch.
    pub const ESWITCH: u32 = 0x9 << 1;
    /// Structure: quality of service.
    pub const QOS: u32 = 0xc << 1;
    /// Structure: debugging.
    pub const DEBUG: u32 = 0xd << 1;
    /// Structure: device memory.
    pub const DEVICE_MEMORY: u32 = 0xf << 1;
    /// Structure: events.
    pub const DEVICE_EVENT: u32 = 0x14 << 1;
    /// Structure: the second general one.
    pub const GENERAL_2: u32 = 0x20 << 1;
}

/// INIT_HCA: from here on objects can be created.
pub mod init_hca {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::INIT_HCA;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x20;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// Number by which software knows the function; capability `sw_vhca_id`.
    pub const SW_VHCA_ID: Field = Field::new(0x0c, 29, 16);
    /// Four dwords that name the owner of several functions; capability `sw_owner_id`.
    pub const SW_OWNER_ID: usize = 0x10;
}

/// TEARDOWN_HCA.
pub mod teardown_hca {
    use crate::cmd::Opcode;
    use crate::field::Field;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::TEARDOWN_HCA;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// See [`teardown_profile`](super::teardown_profile).
    pub const PROFILE: Field = Field::new(0x08, 15, 0);

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// 1: a forced teardown failed.
        pub const STATE: Field = Field::new(0x0c, 0, 0);
    }
}

/// Values of [`teardown_hca::PROFILE`].
pub mod teardown_profile {
    /// Objects were destroyed before.
    pub const GRACEFUL: u32 = 0x0;
    /// The device gives up whatever is left.
    pub const FORCE: u32 = 0x1;
    /// Like force, prepared by a write of `nic_interface`.
    pub const PREPARE_FAST: u32 = 0x2;
}

/// QUERY_ADAPTER: which board this is.
pub mod query_adapter {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_ADAPTER;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x110;

    /// Output fields.
    pub mod out {
        /// The [`query_adapter_param_block`](super::super::query_adapter_param_block).
        pub const QUERY_ADAPTER_STRUCT: usize = 0x10;
    }
}

/// Adapter parameters. PRM: "Query Adapter Parameters Block".
pub mod query_adapter_param_block {
    use crate::field::{Bytes, Field};

    /// Size in bytes.
    pub const SIZE: usize = 0x100;
    /// IEEE id of the board's vendor; 0x2c9 for Mellanox and NVIDIA.
    pub const IEEE_VENDOR_ID: Field = Field::new(0x18, 23, 0);
    /// PCI vendor id of the vital data.
    pub const VSD_VENDOR_ID: Field = Field::new(0x1c, 15, 0);
    /// Vital data of the vendor.
    pub const VSD: Bytes = Bytes::new(0x20, 208);
    /// Parameter set id, the board's identity in ASCII.
    pub const PSID: Bytes = Bytes::new(0xf0, 16);
}

/// SET_DRIVER_VERSION.
pub mod set_driver_version {
    use crate::cmd::Opcode;
    use crate::field::Bytes;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::SET_DRIVER_VERSION;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x50;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
    /// Name and version of the driver in ASCII: OS, name, version with commas between.
    pub const DRIVER_VERSION: Bytes = Bytes::new(0x10, 64);
}

/// QUERY_SPECIAL_CONTEXTS.
pub mod query_special_contexts {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::QUERY_SPECIAL_CONTEXTS;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x20;

    /// Output fields.
    pub mod out {
        use crate::field::Field;

        /// Reads as zeros and swallows writes.
        pub const DUMP_FILL_MKEY: Field = Field::new(0x08, 31, 0);
        /// The reserved lkey: physical addresses without translation.
        pub const RESD_LKEY: Field = Field::new(0x0c, 31, 0);
        /// Key of no memory; page faults only.
        pub const NULL_MKEY: Field = Field::new(0x10, 31, 0);
    }
}

/// NOP: nothing.
pub mod nop {
    use crate::cmd::Opcode;

    /// The opcode of this command.
    pub const OPCODE: Opcode = Opcode::NOP;
    /// Input length in bytes, without any array that follows.
    pub const IN_LEN: usize = 0x10;
    /// Output length in bytes, without any array that follows.
    pub const OUT_LEN: usize = 0x10;
}
