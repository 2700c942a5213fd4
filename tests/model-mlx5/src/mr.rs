//! Memory keys (the PRM's mkeys) and the translation from a key and an address to bus addresses.

use std::{collections::BTreeMap, fmt};

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{create_mkey as create, destroy_mkey as destroy, query_mkey as query},
    context::mkc,
};

use crate::{
    command::Call,
    hca::Hca,
    pages::PageLedger,
    refusal::{Outcome, Refused, require},
    ring::{Segment, read_qword},
};

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

    /// What a peer's access asks of the keys behind the one that it names: a window or a list of ranges opens to peers
    /// what its regions allow locally. rdma-core's tests write through a window to a region without remote rights
    /// (`test_mr.py`: MWRC), Linux puts its local key behind keys that peers use (`IBK_SG_GAPS_REG`).
    const fn behind(self) -> Self {
        match self {
            Self::REMOTE_READ => Self::LOCAL_READ,
            Self::REMOTE_WRITE | Self::REMOTE_ATOMIC => Self::LOCAL_WRITE,
            other => other,
        }
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
    /// How many octowords (16 bytes) of translation fit; UMR cannot exceed it.
    pub octowords: u32,
    /// UMR may change it.
    pub umr: bool,
    /// The context as the driver gave it, for the query.
    pub raw: [u8; mkc::SIZE],
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
                    let at = addr.checked_add(skip).ok_or(KeyFault::OutOfRange)?;
                    out.extend(self.walk(key, user, at, n, access.behind(), depth + 1)?);
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

/// Most octowords of translation of one key.
const MAX_OCTOWORDS: u32 = 1 << 22;

/// Checks a context and its translation entries, and makes a key of them.
pub fn parse(hca: &Hca, index: u32, ctx: &[u8], entries: &[u8]) -> Outcome<Mkey> {
    use mkc::access_mode;
    let mode = mkc::ACCESS_MODE_1_0.get(ctx) | mkc::ACCESS_MODE_4_2.get(ctx) << 2;
    let absent = [mkc::BSF_EN, mkc::SYNC_UMR, mkc::EXPECTED_SIGERR_COUNT, mkc::BSF_OCTWORD_SIZE];
    let zero = absent.iter().all(|f| f.get(ctx) == 0);
    require(zero, Status::BadParameter, 0x0500, "the key asks for something that is not advertised")?;
    let pd = mkc::PD.get(ctx);
    require(hca.pds.contains_key(&pd), Status::BadResource, 0x0501, format_args!("no PD {pd:#x}"))?;
    let qpn = match mkc::QPN.get(ctx) {
        mkc::QPN_ANY => None,
        n => Some(n),
    };
    let octowords = mkc::TRANSLATIONS_OCTWORD_SIZE.get(ctx);
    let fits = octowords <= MAX_OCTOWORDS && entries.len() <= octowords as usize * 16;
    require(fits, Status::BadParameter, 0x0502, format_args!("{octowords} octowords of translation"))?;
    let (start, len) = (mkc::START_ADDR.get(ctx), mkc::LEN.get(ctx));
    let whole = mkc::LENGTH64.is_set(ctx);
    require(!whole || len == 0, Status::BadParameter, 0x0503, "length64 with a length")?;
    let free = mkc::FREE.is_set(ctx);
    let wraps = len != 0 && start.checked_add(len - 1).is_none();
    require(!wraps, Status::BadParameter, 0x0504, format_args!("{len:#x} bytes at {start:#x} wrap around"))?;
    let translation = match mode {
        access_mode::PA => Translation::Physical,
        access_mode::MTT => {
            let log_page = mkc::LOG_PAGE_SIZE.get(ctx);
            if free && entries.is_empty() {
                Translation::Pages { pages: Vec::new(), log_page }
            } else {
                require(!whole, Status::BadParameter, 0x0505, "length64 with a page list")?;
                pages(&hca.pages, log_page, start, len, addresses(entries).collect())?
            }
        }
        access_mode::KLMS => Translation::Keys(klms(entries)),
        access_mode::KSM => {
            let log_page = mkc::LOG_PAGE_SIZE.get(ctx);
            Translation::Keys(keys(entries, |_| 1 << log_page))
        }
        other => {
            return Err(Refused::new(
                Status::BadParameter,
                0x0506,
                format_args!("access mode {other} is not advertised"),
            ));
        }
    };
    let mut raw = [0; mkc::SIZE];
    raw.copy_from_slice(ctx);
    Ok(Mkey {
        key: index << 8 | mkc::MKEY_7_0.get(ctx),
        free,
        pd,
        qpn,
        access: access(ctx),
        start,
        len: (!whole).then_some(len),
        translation,
        octowords,
        umr: mkc::UMR_EN.is_set(ctx),
        raw,
    })
}

/// What a context allows.
pub fn access(ctx: &[u8]) -> Access {
    let bits = [
        (mkc::LR, Access::LOCAL_READ),
        (mkc::LW, Access::LOCAL_WRITE),
        (mkc::RR, Access::REMOTE_READ),
        (mkc::RW, Access::REMOTE_WRITE),
        (mkc::A, Access::REMOTE_ATOMIC),
    ];
    bits.iter().filter(|(f, _)| f.is_set(ctx)).fold(Access::NONE, |all, (_, a)| all.with(*a))
}

/// A page that is not there.
pub const ABSENT: u64 = u64::MAX;

/// Bus addresses out of translation entries, whose lowest bits are flags.
fn addresses(entries: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let flags = mkc::mtt::READ | mkc::mtt::WRITE;
    entries.chunks_exact(8).map(move |entry| read_qword(entry, 0) & !flags)
}

/// What a UMR writes: an entry that is empty, flags and all, is a page that is not there. In CREATE_MKEY it is the page
/// at address 0, as a page list without flags has it on a machine without an IOMMU.
pub fn page_entries(entries: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let empty = entries.chunks_exact(8).map(|entry| read_qword(entry, 0) == 0);
    addresses(entries).zip(empty).map(|(address, empty)| if empty { ABSENT } else { address })
}

/// Checks a page list against the region that it is for.
pub fn pages(ledger: &PageLedger, log_page: u32, start: u64, len: u64, mut pages: Vec<u64>) -> Outcome<Translation> {
    require(log_page >= 12, Status::BadParameter, 0x0507, format_args!("pages of 2^{log_page} bytes"))?;
    let size = 1u64 << log_page;
    let last = (start & (size - 1)).saturating_add(len);
    let needed = last.div_ceil(size) as usize;
    let given = pages.len();
    require(given >= needed, Status::BadParameter, 0x0508, format_args!("{given} pages given, {needed} are needed"))?;
    pages.truncate(needed);
    let mut from = start & (size - 1);
    let mut left = len;
    for &page in &pages {
        let fits = page.is_multiple_of(4096) && page.checked_add(size).is_some();
        require(fits, Status::BadParameter, 0x0509, format_args!("page at {page:#x} is not aligned"))?;
        // A large page reaches beyond the region; only what lies inside is ever accessed.
        let inside = left.min(size - from);
        let firmwares = ledger.touches(page + from, inside);
        (from, left) = (0, left - inside);
        require(!firmwares, Status::BadParameter, 0x050a, format_args!("page at {page:#x} belongs to firmware"))?;
    }
    Ok(Translation::Pages { pages, log_page })
}

/// KLM entries: bytes, key and address of each range.
pub fn klms(entries: &[u8]) -> Vec<(u64, u32, u64)> {
    keys(entries, |e| u64::from(u32::from_be_bytes([e[0], e[1], e[2], e[3]])))
}

fn keys(entries: &[u8], bytes: impl Fn(&[u8]) -> u64) -> Vec<(u64, u32, u64)> {
    let entry = |e: &[u8]| (bytes(e), u32::from_be_bytes([e[4], e[5], e[6], e[7]]), read_qword(e, 8));
    entries.chunks_exact(16).map(entry).collect()
}

/// CREATE_MKEY.
pub fn create_mkey(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let absent = create::MKEY_UMEM_VALID.is_set(call.input);
    require(!absent, Status::BadParameter, 0x050b, "keys of user memory ids are not advertised")?;
    let given = create::TRANSLATIONS_OCTWORD_ACTUAL_SIZE.get(call.input) as usize;
    let tail = call.input.get(create::KLM_PAS_MTT..).unwrap_or_default();
    let fits = given.checked_mul(16).is_some_and(|n| n <= tail.len());
    require(fits, Status::BadInputLength, 0x050c, format_args!("{given} octowords announced, {} bytes", tail.len()))?;
    let Some(index) = hca.numbers.mkey.take(|n| hca.mkeys.table.contains_key(&n)) else {
        return Err(Refused::quiet(Status::LimitExceeded, 0x050d, "no memory key is left"));
    };
    let ctx = &call.input[create::MKC..create::MKC + mkc::SIZE];
    let mkey = parse(hca, index, ctx, &tail[..given * 16])?;
    // Where pages may be absent, which needs on-demand paging, a flag says that one is there. libmlx5's VFIO part asks for
    // it with all pages there.
    if create::PG_ACCESS.is_set(call.input)
        && let Translation::Pages { pages, .. } = &mkey.translation
    {
        let there = (0..pages.len()).all(|i| read_qword(tail, i * 8) & mkc::mtt::READ != 0);
        require(there, Status::BadParameter, 0x0510, "a page is absent, and on-demand paging is not advertised")?;
    }
    hca.mkeys.table.insert(index, mkey);
    create::out::MKEY_INDEX.set(call.out, index);
    Ok(())
}

/// DESTROY_MKEY.
pub fn destroy_mkey(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let index = destroy::MKEY_INDEX.get(call.input);
    let gone = hca.mkeys.table.remove(&index);
    require(gone.is_some(), Status::BadResource, 0x050e, format_args!("no memory key {index:#x}"))
}

/// QUERY_MKEY. Asked for the translation too, it tells the first 32 bytes of it.
pub fn query_mkey(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let index = query::MKEY_INDEX.get(call.input);
    let Some(mkey) = hca.mkeys.table.get(&index) else {
        return Err(Refused::new(Status::BadResource, 0x050f, format_args!("no memory key {index:#x}")));
    };
    let base = query::out::MKC;
    call.out[base..base + mkc::SIZE].copy_from_slice(&mkey.raw);
    mkc::FREE.at(base).set(call.out, u32::from(mkey.free));
    if query::PG_ACCESS.is_set(call.input) {
        let translation = &mut call.out[query::out::TRANSLATION_0..query::OUT_LEN];
        match &mkey.translation {
            Translation::Keys(ranges) => {
                for (klm, (bytes, key, address)) in translation.chunks_exact_mut(mkc::klm::SIZE).zip(ranges) {
                    mkc::klm::BYTE_COUNT.set(klm, *bytes as u32);
                    mkc::klm::KEY.set(klm, *key);
                    mkc::klm::ADDRESS.set(klm, *address);
                }
            }
            Translation::Pages { pages, .. } => {
                for (mtt, page) in translation.chunks_exact_mut(mkc::mtt::SIZE).zip(pages) {
                    mkc::mtt::ADDRESS.set(mtt, *page);
                }
            }
            Translation::Physical | Translation::Null => {}
        }
    }
    Ok(())
}
