//! What a platform can refuse.

use core::fmt;

/// Why a platform could not do what a driver asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HalError {
    /// No host-only memory of this many bytes is left.
    OutOfStateMemory {
        /// Bytes that were asked for.
        wanted: usize,
    },
    /// No DMA memory of this many bytes is left.
    OutOfDmaMemory {
        /// Bytes that were asked for.
        wanted: usize,
    },
    /// The platform's DMA memory is not cache coherent; this library needs it to be.
    NotCoherent,
    /// The function has no such BAR.
    NoSuchBar(u8),
    /// The BAR is an I/O BAR, not memory.
    BarIsIo(u8),
    /// The BAR is smaller than the register block asked for.
    BarTooSmall {
        /// The BAR's number of bytes.
        len: usize,
        /// Bytes that were asked for.
        wanted: usize,
    },
    /// A pointer or length does not have the alignment that the call needs.
    Misaligned,
    /// A length is zero or the range wraps.
    BadRange,
    /// No device address can be had inside the IOMMU's windows.
    IommuWindow {
        /// The address that fell outside, or the length that did not fit.
        addr: u64,
    },
    /// The limit on locked memory was reached.
    MemLock {
        /// The limit in bytes.
        limit: u64,
    },
    /// The IOMMU's limit on the number of mappings was reached.
    MappingLimit {
        /// The limit, in mappings.
        limit: u32,
    },
    /// A device address lies above what the function can reach.
    BeyondDmaMask {
        /// Address bits that the function drives.
        bits: u8,
    },
    /// The function did not come back from its reset.
    ResetFailed,
    /// The function does not answer (all-ones were read).
    Gone,
    /// The platform cannot do this at all.
    Unsupported(&'static str),
    /// An operating system call failed with this number.
    Os(i32),
}

impl fmt::Display for HalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutOfStateMemory { wanted } => {
                write!(f, "no host memory left for {wanted} bytes")
            }
            Self::OutOfDmaMemory { wanted } => write!(f, "no DMA memory left for {wanted} bytes"),
            Self::NotCoherent => f.write_str("DMA memory is not coherent with the CPU's caches"),
            Self::NoSuchBar(n) => write!(f, "the function has no BAR {n}"),
            Self::BarIsIo(n) => write!(f, "BAR {n} is an I/O BAR"),
            Self::BarTooSmall { len, wanted } => {
                write!(f, "the BAR has {len} bytes, {wanted} are needed")
            }
            Self::Misaligned => f.write_str("address or length is not aligned"),
            Self::BadRange => f.write_str("the range is empty or wraps"),
            Self::IommuWindow { addr } => write!(f, "{addr:#x} lies outside the IOMMU's windows"),
            Self::MemLock { limit } => {
                write!(f, "the limit on locked memory ({limit} bytes) is reached")
            }
            Self::MappingLimit { limit } => {
                write!(f, "the IOMMU's limit of {limit} mappings is reached")
            }
            Self::BeyondDmaMask { bits } => {
                write!(f, "a device address needs more than {bits} bits")
            }
            Self::ResetFailed => f.write_str("the function did not come back from reset"),
            Self::Gone => f.write_str("the function does not answer"),
            Self::Unsupported(what) => write!(f, "the platform does not support {what}"),
            Self::Os(errno) => write!(f, "system error {errno}"),
        }
    }
}

impl core::error::Error for HalError {}
