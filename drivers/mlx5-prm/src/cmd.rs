//! The command interface: queue entries, mailboxes, statuses and opcodes.
//!
//! PRM: "Command Queue Entry", "Command Interface Mailbox", "Command Delivery Status", "Command
//! Return Status".

pub use crate::opcode::Opcode;

/// The header that every command's input begins with.
pub mod input {
    use crate::field::Field;

    /// What to do, an [`Opcode`](super::Opcode).
    pub const OPCODE: Field = Field::new(0x00, 31, 16);
    /// User context on whose behalf; 0 for the driver itself.
    pub const UID: Field = Field::new(0x00, 15, 0);
    /// Modifier of the opcode.
    pub const OP_MOD: Field = Field::new(0x04, 15, 0);
    /// Shortest input: header and two dwords.
    pub const MIN_LEN: usize = 16;
}

/// The header that every command's output begins with.
pub mod output {
    use crate::field::Field;

    /// How it went, a [`Status`](super::Status).
    pub const STATUS: Field = Field::new(0x00, 31, 24);
    /// Firmware's own number for the reason.
    pub const SYNDROME: Field = Field::new(0x04, 31, 0);
    /// Shortest output that carries more than the header.
    pub const MIN_LEN: usize = 16;
}

/// Command queue entry.
pub mod entry {
    use crate::field::{Bytes, Field, Field64};

    /// Size in bytes; also the usual stride of the queue (log 6).
    pub const SIZE: usize = 64;
    /// Transport; [`TYPE_PCI`] is the only one.
    pub const TYPE: Field = Field::new(0x00, 31, 24);
    /// The transport of this interface.
    pub const TYPE_PCI: u32 = 7;
    /// Input length in bytes, inline part included.
    pub const INPUT_LENGTH: Field = Field::new(0x04, 31, 0);
    /// Address of the first input mailbox, 512-byte aligned; 0 when the input fits inline.
    pub const INPUT_MAILBOX: Field64 = Field64::new(0x08);
    /// First 16 bytes of the input.
    pub const INPUT_INLINE: Bytes = Bytes::new(0x10, INLINE_LEN);
    /// First 16 bytes of the output.
    pub const OUTPUT_INLINE: Bytes = Bytes::new(0x20, INLINE_LEN);
    /// Bytes of input and output that live in the entry itself.
    pub const INLINE_LEN: usize = 16;
    /// Address of the first output mailbox, 512-byte aligned; 0 when the output fits inline.
    pub const OUTPUT_MAILBOX: Field64 = Field64::new(0x30);
    /// Output length in bytes that the driver has room for, inline part included.
    pub const OUTPUT_LENGTH: Field = Field::new(0x38, 31, 0);
    /// Dword of token, signature, status and owner.
    pub const CONTROL: usize = 0x3c;
    /// Must be the token of each mailbox of this command.
    pub const TOKEN: Field = Field::new(0x3c, 31, 24);
    /// Makes the exclusive or of all 64 bytes 0xff. Read by the device only where the capability
    /// `cmdif_checksum` is taken; the device signs its answer by the same rule.
    pub const SIGNATURE: Field = Field::new(0x3c, 23, 16);
    /// How the delivery went, a [`DeliveryStatus`](super::DeliveryStatus).
    pub const STATUS: Field = Field::new(0x3c, 7, 1);
    /// 1: the device's; it becomes 0 last, when output and status stand.
    pub const OWNERSHIP: Field = Field::new(0x3c, 0, 0);
    /// The byte that holds status and ownership.
    pub const STATUS_OWN: usize = 0x3f;
}

/// Mailbox: a block of 512 bytes of data, followed by what links and guards it.
pub mod mailbox {
    use crate::field::{Field, Field64};

    /// Size in bytes.
    pub const SIZE: usize = 576;
    /// Bytes of data in one block.
    pub const DATA_LEN: usize = 512;
    /// Alignment that the device asks of a block's address: the low 9 bits of the pointers are not
    /// part of them.
    pub const ALIGN: usize = 512;
    /// Address of the next block; 0 in the last.
    pub const NEXT: Field64 = Field64::new(0x230);
    /// Counts from 0.
    pub const BLOCK_NUMBER: Field = Field::new(0x238, 31, 0);
    /// Must be the token of the queue entry.
    pub const TOKEN: Field = Field::new(0x23c, 23, 16);
    /// Makes the exclusive or of bytes 0x200 to 0x23e (without the block's own signature) 0xff.
    pub const CTRL_SIGNATURE: Field = Field::new(0x23c, 15, 8);
    /// Makes the exclusive or of all 576 bytes 0xff.
    pub const SIGNATURE: Field = Field::new(0x23c, 7, 0);
}

/// How the delivery of a command went: the entry's own status. Nothing was executed unless `Ok`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryStatus {
    /// 0x0: delivered.
    Ok,
    /// 0x1: a signature is wrong.
    SignatureError,
    /// 0x2: tokens differ.
    TokenError,
    /// 0x3: block numbers do not count up.
    BadBlockNumber,
    /// 0x4: output mailbox not aligned.
    BadOutputPointer,
    /// 0x5: input mailbox not aligned.
    BadInputPointer,
    /// 0x6: internal error.
    InternalError,
    /// 0x7: the input's length is not this command's.
    BadInputLength,
    /// 0x8: the output's length is not this command's.
    BadOutputLength,
    /// 0x9: a reserved field is not zero.
    ReservedNotZero,
    /// 0x10: the entry's type is unknown.
    BadType,
    /// Any other value.
    Unknown(u8),
}

impl DeliveryStatus {
    /// From the entry's 7 bits.
    pub const fn from_raw(raw: u8) -> Self {
        match raw {
            0x0 => Self::Ok,
            0x1 => Self::SignatureError,
            0x2 => Self::TokenError,
            0x3 => Self::BadBlockNumber,
            0x4 => Self::BadOutputPointer,
            0x5 => Self::BadInputPointer,
            0x6 => Self::InternalError,
            0x7 => Self::BadInputLength,
            0x8 => Self::BadOutputLength,
            0x9 => Self::ReservedNotZero,
            0x10 => Self::BadType,
            other => Self::Unknown(other),
        }
    }

    /// The entry's 7 bits.
    pub const fn to_raw(self) -> u8 {
        match self {
            Self::Ok => 0x0,
            Self::SignatureError => 0x1,
            Self::TokenError => 0x2,
            Self::BadBlockNumber => 0x3,
            Self::BadOutputPointer => 0x4,
            Self::BadInputPointer => 0x5,
            Self::InternalError => 0x6,
            Self::BadInputLength => 0x7,
            Self::BadOutputLength => 0x8,
            Self::ReservedNotZero => 0x9,
            Self::BadType => 0x10,
            Self::Unknown(raw) => raw,
        }
    }
}

/// How a delivered command went: the first byte of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// 0x0: done.
    Ok,
    /// 0x1: internal error.
    InternalError,
    /// 0x2: unknown or unsupported opcode.
    BadOperation,
    /// 0x3: a parameter is out of range, a reserved field set, a capability missing.
    BadParameter,
    /// 0x4: the device is not in a state that allows the command.
    BadSystemState,
    /// 0x5: no such resource, or not of this kind.
    BadResource,
    /// 0x6: the resource is in use by others.
    ResourceBusy,
    /// 0x8: a limit of the device is exceeded.
    LimitExceeded,
    /// 0x9: the resource is not in a state that allows the command.
    BadResourceState,
    /// 0xa: index out of range.
    BadIndex,
    /// 0xf: out of resources, try again later.
    NoResources,
    /// 0x10: the QP is not in a state that allows the command.
    BadQpState,
    /// 0x30: a management packet is malformed.
    BadPacket,
    /// 0x40: a CQ cannot shrink below its outstanding completions.
    BadSizeOutstandingCqes,
    /// 0x50: input too short or too long.
    BadInputLength,
    /// 0x51: output too short.
    BadOutputLength,
    /// Any other value.
    Unknown(u8),
}

impl Status {
    /// From the output's byte.
    pub const fn from_raw(raw: u8) -> Self {
        match raw {
            0x00 => Self::Ok,
            0x01 => Self::InternalError,
            0x02 => Self::BadOperation,
            0x03 => Self::BadParameter,
            0x04 => Self::BadSystemState,
            0x05 => Self::BadResource,
            0x06 => Self::ResourceBusy,
            0x08 => Self::LimitExceeded,
            0x09 => Self::BadResourceState,
            0x0a => Self::BadIndex,
            0x0f => Self::NoResources,
            0x10 => Self::BadQpState,
            0x30 => Self::BadPacket,
            0x40 => Self::BadSizeOutstandingCqes,
            0x50 => Self::BadInputLength,
            0x51 => Self::BadOutputLength,
            other => Self::Unknown(other),
        }
    }

    /// The output's byte.
    pub const fn to_raw(self) -> u8 {
        match self {
            Self::Ok => 0x00,
            Self::InternalError => 0x01,
            Self::BadOperation => 0x02,
            Self::BadParameter => 0x03,
            Self::BadSystemState => 0x04,
            Self::BadResource => 0x05,
            Self::ResourceBusy => 0x06,
            Self::LimitExceeded => 0x08,
            Self::BadResourceState => 0x09,
            Self::BadIndex => 0x0a,
            Self::NoResources => 0x0f,
            Self::BadQpState => 0x10,
            Self::BadPacket => 0x30,
            Self::BadSizeOutstandingCqes => 0x40,
            Self::BadInputLength => 0x50,
            Self::BadOutputLength => 0x51,
            Self::Unknown(raw) => raw,
        }
    }
}
