//! Memory keys (the PRM's mkeys) and the translation from a key and an address to bus addresses.

use std::{collections::BTreeMap, fmt};

use crate::ring::Segment;

/// What someone wants to do with memory, or may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    /// Gather data for a send, RDMA write or the like.
    pub const LOCAL_READ: Self = Self(1);
    /// Scatter received data, READ responses, atomics' results.
    pub const LOCAL_WRITE: Self = Self(2);
    /// An RDMA READ from the wire.
    pub const REMOTE_READ: Self = Self(4);
    /// An RDMA WRITE from the wire.
    pub const REMOTE_WRITE: Self = Self(8);
    /// An atomic from the wire.
    pub const REMOTE_ATOMIC: Self = Self(16);
    /// Nothing.
    pub const NONE: Self = Self(0);

    /// Whether `self` holds all of `other`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Who uses a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUser {
    /// Protection domain of the QP or SRQ.
    pub pd: u32,
    /// The QP; 0 for none.
    pub qpn: u32,
}

/// Why a key could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// No key of this index.
    Unknown,
    /// The key exists, but its low 8 bits differ.
    WrongVariant,
    /// The key is free: not yet, or no longer, valid.
    Free,
    /// The key belongs to another protection domain.
    WrongPd,
    /// The key is bound to another QP.
    WrongQp,
    /// The range is not inside the region.
    OutOfRange,
    /// The key does not allow this access.
    Access,
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "no such key",
            Self::WrongVariant => "wrong low 8 bits of the key",
            Self::Free => "the key is not valid (free)",
            Self::WrongPd => "the key is of another protection domain",
            Self::WrongQp => "the key is bound to another QP",
            Self::OutOfRange => "outside the region",
            Self::Access => "the key does not allow this access",
        })
    }
}

/// How a key finds its memory.
#[derive(Clone, Debug)]
pub enum Translation {
    /// Addresses are bus addresses (PA mode).
    Physical,
    /// Pages of `1 << log_page` bytes; the region's first byte lies in the first page at its address modulo the page size.
    Pages {
        /// Bus addresses.
        pages: Vec<u64>,
        /// Log of the page size.
        log_page: u32,
    },
    /// Ranges of other keys: bytes, key, address.
    Keys(Vec<(u64, u32, u64)>),
    /// Reads nothing, writes nowhere.
    Null,
}

/// A memory key.
#[derive(Clone, Debug)]
pub struct Mkey {
    /// The whole key: index in the upper 24 bits.
    pub key: u32,
    /// Not valid yet (or invalidated).
    pub free: bool,
    /// Protection domain.
    pub pd: u32,
    /// The QP it is bound to.
    pub qpn: Option<u32>,
    /// What it allows.
    pub access: Access,
    /// First address.
    pub start: u64,
    /// Bytes; `None` is all of the address space.
    pub len: Option<u64>,
    /// Where its bytes are.
    pub translation: Translation,
    /// UMR may change it.
    pub umr: bool,
    /// The context as the driver gave it, for the query.
    pub raw: [u8; 64],
}

/// All keys by index (the upper 24 bits of the key).
#[derive(Clone, Debug, Default)]
pub struct Mkeys {
    /// Keys by index.
    pub table: BTreeMap<u32, Mkey>,
    /// The key that means bus addresses for who may use it.
    pub reserved_lkey: u32,
}

impl Mkeys {
    /// The bus addresses of `len` bytes at `va` of `key`. A length of 0 checks nothing, as on the wire.
    pub fn translate(
        &self,
        key: u32,
        user: KeyUser,
        va: u64,
        len: u64,
        access: Access,
    ) -> Result<Vec<Segment>, KeyFault> {
        self.walk(key, user, va, len, access, 0)
    }

    fn walk(
        &self,
        key: u32,
        user: KeyUser,
        va: u64,
        len: u64,
        access: Access,
        depth: u32,
    ) -> Result<Vec<Segment>, KeyFault> {
        if len == 0 {
            return Ok(Vec::new());
        }
        let mkey = self.table.get(&(key >> 8)).ok_or(KeyFault::Unknown)?;
        if mkey.key != key {
            return Err(KeyFault::WrongVariant);
        }
        if mkey.free {
            return Err(KeyFault::Free);
        }
        if mkey.pd != user.pd {
            return Err(KeyFault::WrongPd);
        }
        if mkey.qpn.is_some_and(|qpn| qpn != user.qpn) {
            return Err(KeyFault::WrongQp);
        }
        if !mkey.access.contains(access) {
            return Err(KeyFault::Access);
        }
        let end = va.checked_add(len - 1).ok_or(KeyFault::OutOfRange)?;
        if let Some(bytes) = mkey.len {
            let last = bytes.checked_sub(1).and_then(|n| mkey.start.checked_add(n)).ok_or(KeyFault::OutOfRange)?;
            if va < mkey.start || end > last {
                return Err(KeyFault::OutOfRange);
            }
        }
        match &mkey.translation {
            Translation::Physical => Ok(vec![Segment { addr: va, len }]),
            Translation::Null => Ok(Vec::new()),
            Translation::Pages { pages, log_page } => {
                let size = 1u64 << log_page;
                let (mut at, mut left) = ((mkey.start & (size - 1)) + (va - mkey.start), len);
                let mut out = Vec::<Segment>::new();
                while left > 0 {
                    let page = *pages.get((at >> log_page) as usize).ok_or(KeyFault::OutOfRange)?;
                    let n = left.min(size - (at & (size - 1)));
                    let addr = page + (at & (size - 1));
                    match out.last_mut() {
                        Some(last) if last.addr + last.len == addr => last.len += n,
                        _ => out.push(Segment { addr, len: n }),
                    }
                    at += n;
                    left -= n;
                }
                Ok(out)
            }
            Translation::Keys(entries) => {
                if depth >= 4 {
                    return Err(KeyFault::OutOfRange);
                }
                let (mut skip, mut left, mut out) = (va - mkey.start, len, Vec::new());
                for &(bytes, key, addr) in entries {
                    if skip >= bytes {
                        skip -= bytes;
                        continue;
                    }
                    let n = left.min(bytes - skip);
                    out.extend(self.walk(key, user, addr + skip, n, access, depth + 1)?);
                    skip = 0;
                    left -= n;
                    if left == 0 {
                        return Ok(out);
                    }
                }
                Err(KeyFault::OutOfRange)
            }
        }
    }
}
