//! Page tables (Intel SDM volume 3, chapter 4): everything stands at its own address, and what nobody asked for is not
//! mapped at all.
//!
//! RAM is mapped once, at the entry; registers when somebody asks for them. Mappings are never taken away. A second
//! mapping of registers, write-combining, stands [`WRITE_COMBINING`] higher.

use crate::memory::{Pool, Range};
use bitflags::bitflags;
use core::{arch::asm, ptr::NonNull};
use spin::Mutex;

/// Added to a physical address for its write-combining mapping.
pub const WRITE_COMBINING: u64 = 1 << 46;

/// The page attribute table that [`Caching`] counts on: as after a reset, but entry 1 is write-combining.
const PAT: u64 = 0x0007_0406_0007_0106;
const IA32_PAT: u32 = 0x277;

const PAGE: u64 = 1 << 12;
const BIG_PAGE: u64 = 1 << 21;
const ENTRIES: usize = 512;

bitflags! {
    /// Bits of an entry.
    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Bits: u64 {
        const PRESENT = 1;
        const WRITABLE = 1 << 1;
        /// PWT, by which the entry chooses entry 1 of the page attribute table.
        const COMBINING = 1 << 3;
        /// PCD and PWT: entry 3.
        const UNCACHED = 1 << 4 | 1 << 3;
        const BIG = 1 << 7;
        const NO_EXECUTE = 1 << 63;
    }
}

const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// What mapped memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Instructions.
    Code,
    /// Constants.
    Constants,
    /// Data, cached.
    Data,
    /// Registers, uncached.
    Registers,
    /// Registers whose writes may be gathered.
    Combining,
}

impl Kind {
    fn bits(self) -> Bits {
        match self {
            Self::Code => Bits::PRESENT,
            Self::Constants => Bits::PRESENT | Bits::NO_EXECUTE,
            Self::Data => Bits::PRESENT | Bits::WRITABLE | Bits::NO_EXECUTE,
            Self::Registers => Bits::PRESENT | Bits::WRITABLE | Bits::NO_EXECUTE | Bits::UNCACHED,
            Self::Combining => Bits::PRESENT | Bits::WRITABLE | Bits::NO_EXECUTE | Bits::COMBINING,
        }
    }
}

/// Why something was not mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// No memory for a table.
    NoMemory,
    /// Something of another kind is mapped there.
    Conflict(u64),
    /// The address has more than 46 bits.
    TooHigh(u64),
}

type Table = [u64; ENTRIES];

/// The tables.
pub struct Paging {
    root: Mutex<NonNull<Table>>,
}

// SAFETY: the tables are only reached under the lock.
unsafe impl Send for Paging {}
// SAFETY: the tables are only reached under the lock.
unsafe impl Sync for Paging {}

impl Paging {
    /// Tables that map nothing.
    pub fn new(pool: &Pool) -> Result<Self, MapError> {
        Ok(Self { root: Mutex::new(table(pool)?) })
    }

    /// Maps physical memory at its own address ([`Kind::Combining`]: [`WRITE_COMBINING`] higher) and tells where. What
    /// is mapped already, as the same kind, stays.
    pub fn map(&self, pool: &Pool, range: Range, kind: Kind) -> Result<NonNull<u8>, MapError> {
        let Range { start, end } = range;
        if end > WRITE_COMBINING {
            return Err(MapError::TooHigh(end));
        }
        let shift = if kind == Kind::Combining { WRITE_COMBINING } else { 0 };
        let root = self.root.lock();
        let mut at = start & !(PAGE - 1);
        while at < end {
            let big = at.is_multiple_of(BIG_PAGE) && end - at >= BIG_PAGE;
            // SAFETY: the tables are ours under the lock, and reach only tables.
            at = unsafe { map_page(*root, pool, at, at + shift, kind, big)? };
        }
        NonNull::new((start + shift) as *mut u8).ok_or(MapError::Conflict(0))
    }

    /// Makes these the processor's tables, with the page attributes they count on.
    ///
    /// # Safety
    /// The code, the stack and all that is used from here on is mapped.
    pub unsafe fn load(&self) {
        let root = self.root.lock().as_ptr();
        // SAFETY: the caller's promise. The table of attributes is written first; what the tables used so far say means
        // the same before and after.
        unsafe {
            asm!("wrmsr", in("ecx") IA32_PAT, in("eax") PAT as u32, in("edx") (PAT >> 32) as u32,
                 options(nostack, preserves_flags));
            asm!("mov cr3, {}", in(reg) root, options(nostack, preserves_flags));
        }
    }
}

fn table(pool: &Pool) -> Result<NonNull<Table>, MapError> {
    Ok(pool.take(size_of::<Table>(), PAGE as usize, u64::MAX).ok_or(MapError::NoMemory)?.cast())
}

/// Maps one page, big or small, and tells the address behind it.
///
/// # Safety
/// `root` is the root of tables that belong to the caller.
unsafe fn map_page(
    root: NonNull<Table>,
    pool: &Pool,
    physical: u64,
    address: u64,
    kind: Kind,
    big: bool,
) -> Result<u64, MapError> {
    let mut table = root;
    for shift in [39, 30, 21, 12] {
        let i = (address >> shift) as usize % ENTRIES;
        // SAFETY: the caller's promise; the index is below the number of entries.
        let entry = unsafe { &mut table.as_mut()[i] };
        let bits = Bits::from_bits_truncate(*entry);
        let is_leaf = shift == 12 || bits.contains(Bits::BIG);
        if bits.contains(Bits::PRESENT) && is_leaf {
            let size = 1 << shift;
            let same = bits - Bits::BIG == kind.bits() && *entry & ADDRESS == physical & !(size - 1);
            // Accessed and dirty are no `Bits`, and change nothing.
            return if same { Ok((physical & !(size - 1)) + size) } else { Err(MapError::Conflict(physical)) };
        }
        if shift == 12 || (shift == 21 && big && !bits.contains(Bits::PRESENT)) {
            *entry = physical | kind.bits().bits() | if shift == 21 { Bits::BIG.bits() } else { 0 };
            return Ok(physical + (1 << shift));
        }
        if !bits.contains(Bits::PRESENT) {
            *entry = self::table(pool)?.as_ptr() as u64 | (Bits::PRESENT | Bits::WRITABLE).bits();
        }
        table = NonNull::new((*entry & ADDRESS) as *mut Table).ok_or(MapError::Conflict(physical))?;
    }
    Err(MapError::Conflict(physical))
}
