//! Memory key context. PRM: "MKey Context". As a command carries it; a UMR work request carries the
//! same 64 bytes behind its control segment.
use crate::field::{Field, Field64};

/// Size in bytes.
pub const SIZE: usize = 0x40;
/// The key has no translation yet; a UMR gives it one.
pub const FREE: Field = Field::new(0x00, 30, 30);
/// Bits 4:2 of the [`access_mode`].
pub const ACCESS_MODE_4_2: Field = Field::new(0x00, 28, 26);
/// The device may write with PCIe relaxed ordering.
pub const RELAXED_ORDERING_WRITE: Field = Field::new(0x00, 18, 18);
/// A UMR that changes the key waits for reads that use it.
pub const SMALL_FENCE_ON_RDMA_READ_RESPONSE: Field = Field::new(0x00, 16, 16);
/// UMR work requests may change the key.
pub const UMR_EN: Field = Field::new(0x00, 15, 15);
/// Remote atomics allowed.
pub const A: Field = Field::new(0x00, 14, 14);
/// Remote writes allowed.
pub const RW: Field = Field::new(0x00, 13, 13);
/// Remote reads allowed.
pub const RR: Field = Field::new(0x00, 12, 12);
/// Local writes allowed.
pub const LW: Field = Field::new(0x00, 11, 11);
/// Local reads allowed.
pub const LR: Field = Field::new(0x00, 10, 10);
/// Bits 1:0 of the [`access_mode`].
pub const ACCESS_MODE_1_0: Field = Field::new(0x00, 9, 8);
/// How the physical address of an untranslated key is understood.
pub const MA_TRANSLATION_MODE: Field = Field::new(0x00, 5, 4);
/// The only QP that may use the key; [`QPN_ANY`] for all of the PD.
pub const QPN: Field = Field::new(0x04, 31, 8);
/// The variant byte, the low 8 bits of lkey and rkey; the driver's choice.
pub const MKEY_7_0: Field = Field::new(0x04, 7, 0);
/// The length is 2^64, whatever [`LEN`] says.
pub const LENGTH64: Field = Field::new(0x0c, 31, 31);
/// A byte stream format (signature) belongs to the key.
pub const BSF_EN: Field = Field::new(0x0c, 30, 30);
/// Only a synchronous UMR may change the key.
pub const SYNC_UMR: Field = Field::new(0x0c, 29, 29);
/// The signature error count expected next.
pub const EXPECTED_SIGERR_COUNT: Field = Field::new(0x0c, 26, 26);
/// Remote invalidation (SEND with invalidate) allowed.
pub const EN_RINVAL: Field = Field::new(0x0c, 24, 24);
/// Protection domain.
pub const PD: Field = Field::new(0x0c, 23, 0);
/// Virtual address of the region's first byte.
pub const START_ADDR: Field64 = Field64::new(0x10);
/// Length in bytes.
pub const LEN: Field64 = Field64::new(0x18);
/// Size of the byte stream format, in 16 bytes.
pub const BSF_OCTWORD_SIZE: Field = Field::new(0x20, 31, 0);
/// Size of the translation table, in 16 bytes: 2 page addresses or 1 KLM each.
pub const TRANSLATIONS_OCTWORD_SIZE: Field = Field::new(0x34, 31, 0);
/// The device may read with PCIe relaxed ordering.
pub const RELAXED_ORDERING_READ: Field = Field::new(0x38, 6, 6);
/// Log of the page size (or entity size) of the translation, in full (12 for 4 KiB).
pub const LOG_PAGE_SIZE: Field = Field::new(0x38, 4, 0);

/// The whole dword of [`QPN`] and [`MKEY_7_0`].
pub const QPN_MKEY_7_0: Field = Field::new(0x04, 31, 0);
/// Value of [`QPN`]: every QP of the protection domain may use the key.
pub const QPN_ANY: u32 = 0xff_ffff;

/// The access mode, in two parts: `ACCESS_MODE_4_2` holds the value's upper three bits.
pub mod access_mode {
    /// Physical addresses, no translation.
    pub const PA: u32 = 0x0;
    /// Pages of one size ("memory translation table").
    pub const MTT: u32 = 0x1;
    /// Ranges of other keys ("key, length, address").
    pub const KLMS: u32 = 0x2;
    /// Ranges of other keys, all of one size.
    pub const KSM: u32 = 0x3;
    /// Physical memory of a software-owned ICM.
    pub const SW_ICM: u32 = 0x4;
    /// Memory on the device.
    pub const MEMIC: u32 = 0x5;
}

/// Range of another key in a translation, 16 bytes. PRM: "KLM".
pub mod klm {
    use crate::field::{Field, Field64};

    /// Size in bytes.
    pub const SIZE: usize = 16;
    /// Length of the range in bytes.
    pub const BYTE_COUNT: Field = Field::new(0x00, 31, 0);
    /// The other key.
    pub const KEY: Field = Field::new(0x04, 31, 0);
    /// First address, in the other key's address space.
    pub const ADDRESS: Field64 = Field64::new(0x08);
}

/// Page address in a translation table, 8 bytes. PRM: "Memory Translation Table Entry".
pub mod mtt {
    use crate::field::Field64;

    /// Size in bytes.
    pub const SIZE: usize = 8;
    /// Physical address; its low bits are flags ([`READ`], [`WRITE`]) of page-fault capable keys.
    pub const ADDRESS: Field64 = Field64::new(0);
    /// The page may be read.
    pub const READ: u64 = 1 << 0;
    /// The page may be written.
    pub const WRITE: u64 = 1 << 1;
    /// Bytes to which the device wants a list that a UMR carries padded.
    pub const ALIGN: usize = 64;
}
