//! Registers: the initialization segment at the start of BAR 0 and the pages of the UAR behind it.
//!
//! Plain offsets; whoever touches registers builds its own block from them. Every register is
//! big-endian. PRM: "Initialization Segment" and "UAR Page Format".

/// Initialization segment: offsets into BAR 0, and the fields inside its dwords.
pub mod init {
    use crate::field::Field;

    /// Firmware revision: minor in the upper half, major in the lower.
    pub const FW_REV: usize = 0x00;
    /// Firmware revision, minor.
    pub const FW_REV_MINOR: Field = Field::new(0x00, 31, 16);
    /// Firmware revision, major.
    pub const FW_REV_MAJOR: Field = Field::new(0x00, 15, 0);
    /// Command interface revision and firmware sub-minor.
    pub const CMDIF_REV_FW_SUB: usize = 0x04;
    /// Command interface revision; [`super::CMD_INTERFACE_REV`] is the one described here.
    pub const CMD_INTERFACE_REV: Field = Field::new(0x04, 31, 16);
    /// Firmware revision, sub-minor.
    pub const FW_REV_SUBMINOR: Field = Field::new(0x04, 15, 0);
    /// Command queue address, upper dword. Write it before the lower one.
    pub const CMDQ_ADDR_HIGH: usize = 0x10;
    /// Command queue address, lower dword; its low 12 bits are other fields.
    pub const CMDQ_ADDR_LOW: usize = 0x14;
    /// Bits 31:12 of the command queue address.
    pub const CMDQ_ADDR_31_12: Field = Field::new(0x14, 31, 12);
    /// Interface of a port: 0 full driver, 1 disabled; see [`super::nic_interface`].
    pub const NIC_INTERFACE: Field = Field::new(0x14, 9, 8);
    /// Log of the number of command queue entries; read-only.
    pub const LOG_CMDQ_SIZE: Field = Field::new(0x14, 7, 4);
    /// Log of the bytes from one command queue entry to the next; read-only.
    pub const LOG_CMDQ_STRIDE: Field = Field::new(0x14, 3, 0);
    /// Command doorbell: a write of 1 << slot starts the command in that slot.
    pub const CMD_DOORBELL: usize = 0x18;
    /// Dword with the `initializing` bit.
    pub const INITIALIZING_DWORD: usize = 0x1fc;
    /// 1 while firmware still initializes; nothing else may be used before it reads 0.
    pub const INITIALIZING: Field = Field::new(0x1fc, 31, 31);
    /// Interfaces that the port can take.
    pub const NIC_INTERFACE_SUPPORTED: Field = Field::new(0x1fc, 26, 24);
    /// 1 on the processor of a BlueField itself.
    pub const EMBEDDED_CPU: Field = Field::new(0x1fc, 23, 23);
    /// Health buffer, see [`super::health`].
    pub const HEALTH_BUFFER: usize = 0x200;
    /// Longest time that a command may take, as firmware asks for it; 0 leaves it to the driver.
    pub const CMD_EXEC_TIMEOUT: usize = 0xff8;
    /// Longest time until `initializing` falls, as firmware asks for it; 0 leaves it to the driver.
    pub const CMD_Q_INIT_TIMEOUT: usize = 0xffc;
    /// Free-running timer, upper dword; in units of 1 / `device_frequency_khz`.
    pub const INTERNAL_TIMER_HIGH: usize = 0x1000;
    /// Free-running timer, lower dword.
    pub const INTERNAL_TIMER_LOW: usize = 0x1004;
    /// Dword whose bit 0 clears the legacy interrupt.
    pub const CLEAR_INT_DWORD: usize = 0x100c;
    /// Clears the legacy interrupt.
    pub const CLEAR_INT: Field = Field::new(0x100c, 0, 0);
    /// Health counter and syndrome: moves while firmware is alive.
    pub const HEALTH_COUNTER_DWORD: usize = 0x1010;
    /// Copy of the health buffer's syndrome.
    pub const HEALTH_SYNDROME: Field = Field::new(0x1010, 31, 24);
    /// Counts up while firmware is alive.
    pub const HEALTH_COUNTER: Field = Field::new(0x1010, 23, 0);
    /// Bytes of the segment that this crate knows.
    pub const SIZE: usize = 0x1014;
}

/// Health buffer, relative to [`init::HEALTH_BUFFER`]. PRM: "Health Buffer".
pub mod health {
    use crate::field::Field;

    /// Size in bytes.
    pub const SIZE: usize = 0x40;
    /// Six dwords of what firmware found wrong.
    pub const ASSERT_VAR: usize = 0x00;
    /// Address of the failed assertion.
    pub const ASSERT_EXIT_PTR: Field = Field::new(0x20, 31, 0);
    /// Return address of the failed assertion.
    pub const ASSERT_CALLRA: Field = Field::new(0x24, 31, 0);
    /// When it happened, in firmware's own seconds.
    pub const TIME: Field = Field::new(0x2c, 31, 0);
    /// Firmware version; all ones on a device that no longer answers.
    pub const FW_VER: Field = Field::new(0x30, 31, 0);
    /// Hardware identity.
    pub const HW_ID: Field = Field::new(0x34, 31, 0);
    /// Firmware asks for a reset of the function.
    pub const RFR: Field = Field::new(0x38, 31, 31);
    /// The buffer holds a report.
    pub const VALID: Field = Field::new(0x38, 27, 27);
    /// How grave it is.
    pub const SEVERITY: Field = Field::new(0x38, 26, 24);
    /// The processor inside the device that reported.
    pub const IRISC_INDEX: Field = Field::new(0x3c, 31, 24);
    /// What happened, see [`super::HealthSyndrome`].
    pub const SYNDROME: Field = Field::new(0x3c, 23, 16);
    /// Extended syndrome.
    pub const EXT_SYNDROME: Field = Field::new(0x3c, 15, 0);
}

/// The command interface revision that Linux insists on and this crate describes.
pub const CMD_INTERFACE_REV: u32 = 5;

/// Values of [`init::NIC_INTERFACE`].
pub mod nic_interface {
    /// A full driver works the port.
    pub const FULL: u32 = 0;
    /// Nobody does; written to stop the function after a fatal error.
    pub const DISABLED: u32 = 1;
    /// Only the bare receive and transmit path.
    pub const NO_DRAM: u32 = 2;
    /// Writing it asks firmware for a software reset of the whole device.
    pub const SW_RESET: u32 = 7;
}

/// What the health buffer's syndrome says; unknown values are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthSyndrome {
    /// 0x0: the device is well.
    Ok,
    /// 0x1: firmware met an internal error.
    FirmwareInternalError,
    /// 0x7: one of the device's processors no longer answers.
    DeadIrisc,
    /// 0x8: fatal hardware error.
    HardwareFatal,
    /// 0x9: firmware's image failed its checksum.
    FirmwareCrc,
    /// 0xa: reading the pages given to the device failed on PCI.
    IcmFetchPci,
    /// 0xb: a page given to the device is not usable.
    IcmPage,
    /// 0xc: the asynchronous event queue overran.
    AsyncEqOverrun,
    /// 0xd: an event queue is in error.
    EqInError,
    /// 0xe: an event queue's number or owner is invalid.
    EqInvalid,
    /// 0xf: the PCI function reported a fatal error.
    Ffser,
    /// 0x10: too hot.
    HighTemperature,
    /// Any other value.
    Unknown(u8),
}

impl HealthSyndrome {
    /// From the buffer's byte.
    pub const fn from_raw(raw: u8) -> Self {
        match raw {
            0x0 => Self::Ok,
            0x1 => Self::FirmwareInternalError,
            0x7 => Self::DeadIrisc,
            0x8 => Self::HardwareFatal,
            0x9 => Self::FirmwareCrc,
            0xa => Self::IcmFetchPci,
            0xb => Self::IcmPage,
            0xc => Self::AsyncEqOverrun,
            0xd => Self::EqInError,
            0xe => Self::EqInvalid,
            0xf => Self::Ffser,
            0x10 => Self::HighTemperature,
            other => Self::Unknown(other),
        }
    }

    /// The buffer's byte.
    pub const fn to_raw(self) -> u8 {
        match self {
            Self::Ok => 0x0,
            Self::FirmwareInternalError => 0x1,
            Self::DeadIrisc => 0x7,
            Self::HardwareFatal => 0x8,
            Self::FirmwareCrc => 0x9,
            Self::IcmFetchPci => 0xa,
            Self::IcmPage => 0xb,
            Self::AsyncEqOverrun => 0xc,
            Self::EqInError => 0xd,
            Self::EqInvalid => 0xe,
            Self::Ffser => 0xf,
            Self::HighTemperature => 0x10,
            Self::Unknown(raw) => raw,
        }
    }
}

/// UAR page: offsets from the start of the page with the number that ALLOC_UAR returned; page `n`
/// lies at `n` * page size from the start of BAR 0.
pub mod uar {
    /// Bytes of a UAR where the `uar_4k` capability is taken.
    pub const PAGE_SIZE: usize = 4096;
    /// CQ doorbell: one 8-byte write, see [`super::cq_doorbell`].
    pub const CQ_DOORBELL: usize = 0x20;
    /// EQ doorbell that arms the queue.
    pub const EQ_DOORBELL_ARM: usize = 0x40;
    /// EQ doorbell that moves the consumer index only.
    pub const EQ_DOORBELL: usize = 0x48;
    /// The first BlueFlame register: two buffers of equal size, used in turn. A send doorbell is an
    /// 8-byte write of the first bytes of the newest WQE, or a copy of the whole WQE.
    pub const BLUEFLAME: usize = 0x800;
    /// Bytes from one BlueFlame register (of two buffers) to the next.
    pub const BLUEFLAME_STRIDE: usize = 0x200;
    /// Bytes of one buffer when `log_bf_reg_size` is 9: half of the register.
    pub const BLUEFLAME_BUFFER_SIZE: usize = 0x100;
    /// BlueFlame registers in a page: two for common use, then two of the fast path.
    pub const BLUEFLAME_REGISTERS: usize = 4;
}

/// The two dwords of a CQ doorbell, in the doorbell register as well as, without the CQN, in the
/// doorbell record. PRM: "CQ DoorBell Register".
pub mod cq_doorbell {
    use crate::field::Field;

    /// Sequence number: counts the CQ's completion events modulo 4.
    pub const CMD_SN: Field = Field::new(0x00, 29, 28);
    /// 0: arm for any completion; 1: arm for solicited ones and errors only.
    pub const CMD: Field = Field::new(0x00, 24, 24);
    /// Consumer index at the time of arming.
    pub const CONSUMER_INDEX: Field = Field::new(0x00, 23, 0);
    /// The CQ.
    pub const CQN: Field = Field::new(0x04, 23, 0);
}

/// The dword of an EQ doorbell. PRM: "EQ DoorBell Register".
pub mod eq_doorbell {
    use crate::field::Field;

    /// The EQ.
    pub const EQN: Field = Field::new(0x00, 31, 24);
    /// Consumer index.
    pub const CONSUMER_INDEX: Field = Field::new(0x00, 23, 0);
}

/// Doorbell records: 8 bytes in memory that the device reads.
pub mod doorbell_record {
    /// QP, RQ, SRQ: the receive counter (16 bits used), a big-endian dword.
    pub const RECEIVE: usize = 0;
    /// QP: the send counter (16 bits used), a big-endian dword.
    pub const SEND: usize = 4;
    /// CQ: the consumer index (24 bits used).
    pub const CQ_SET_CI: usize = 0;
    /// CQ: what [`super::cq_doorbell`] says in its first dword.
    pub const CQ_ARM: usize = 4;
    /// Size in bytes.
    pub const SIZE: usize = 8;
}
