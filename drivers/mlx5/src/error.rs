//! The device's and the platform's words in the core's errors.

use bareverbs::{Error, PlatformError};
use bareverbs_hal::HalError;
use bareverbs_mlx5_prm::cmd::{DeliveryStatus, Opcode, Status};

/// What the platform refused.
pub(crate) fn platform(e: HalError) -> Error {
    Error::Platform(match e {
        HalError::OutOfStateMemory { wanted } => PlatformError::OutOfMemory { wanted: wanted as u64 },
        HalError::OutOfDmaMemory { wanted } => PlatformError::OutOfDmaMemory { wanted: wanted as u64 },
        HalError::IommuWindow { addr } => PlatformError::IommuWindow { addr },
        HalError::MemLock { limit } => PlatformError::MemLock { limit },
        HalError::MappingLimit { limit } => PlatformError::MappingLimit { limit },
        HalError::BeyondDmaMask { bits } => PlatformError::BeyondDmaMask { bits },
        HalError::Gone => PlatformError::Gone,
        HalError::Os(errno) => PlatformError::Os(errno),
        HalError::NotCoherent => PlatformError::Other("DMA memory is not coherent with the CPU's caches"),
        HalError::NoSuchBar(_) => PlatformError::Other("the function lacks a BAR"),
        HalError::BarIsIo(_) => PlatformError::Other("a BAR is I/O, not memory"),
        HalError::BarTooSmall { .. } => PlatformError::Other("a BAR is too small for its registers"),
        HalError::Misaligned => PlatformError::Other("address or length is not aligned"),
        HalError::BadRange => PlatformError::Other("the range is empty or wraps"),
        HalError::ResetFailed => PlatformError::Other("the function did not come back from reset"),
        HalError::Unsupported(what) => PlatformError::Other(what),
        _ => PlatformError::Other("unknown to this driver"),
    })
}

/// A command that the device took and refused.
pub(crate) fn status(opcode: Opcode, raw: u8, syndrome: u32) -> Result<(), Error> {
    let name = match Status::from_raw(raw) {
        Status::Ok => return Ok(()),
        Status::InternalError => "internal error",
        Status::BadOperation => "bad operation",
        Status::BadParameter => "bad parameter",
        Status::BadSystemState => "bad system state",
        Status::BadResource => "bad resource",
        Status::ResourceBusy => "resource busy",
        Status::LimitExceeded => "limit exceeded",
        Status::BadResourceState => "bad resource state",
        Status::BadIndex => "bad index",
        Status::NoResources => "no resources",
        Status::BadQpState => "bad QP state",
        Status::BadPacket => "bad packet",
        Status::BadSizeOutstandingCqes => "bad size, outstanding CQEs",
        Status::BadInputLength => "bad input length",
        Status::BadOutputLength => "bad output length",
        Status::Unknown(_) => "unknown status",
    };
    Err(Error::Command { opcode: opcode.0, status: raw, name, syndrome })
}

/// A command that did not arrive whole.
pub(crate) fn delivery(opcode: Opcode, raw: u8) -> Result<(), Error> {
    let name = match DeliveryStatus::from_raw(raw) {
        DeliveryStatus::Ok => return Ok(()),
        DeliveryStatus::SignatureError => "signature error",
        DeliveryStatus::TokenError => "token error",
        DeliveryStatus::BadBlockNumber => "bad block number",
        DeliveryStatus::BadOutputPointer => "bad output pointer",
        DeliveryStatus::BadInputPointer => "bad input pointer",
        DeliveryStatus::InternalError => "internal error",
        DeliveryStatus::BadInputLength => "bad input length",
        DeliveryStatus::BadOutputLength => "bad output length",
        DeliveryStatus::ReservedNotZero => "reserved field not zero",
        DeliveryStatus::BadType => "bad command type",
        DeliveryStatus::Unknown(_) => "unknown delivery status",
    };
    Err(Error::CommandDelivery { opcode: opcode.0, status: raw, name })
}
