//! The machine: its memory, its clock, its PCI functions.

use crate::{
    access::Config,
    acpi::{Acpi, Physical},
    bars::BarInfo,
    clock::{Clock, Hpet},
    cmdline,
    config::{COMMAND, COMMAND_BUS_MASTER, COMMAND_MASK, COMMAND_MEMORY, ConfigSpace, Window},
    function::Function,
    memory::{Pool, Range, without},
    paging::{Kind, MapError, Paging},
    pci::{self, Enumeration, FunctionInfo, Space},
};
use bareverbs_hal::PciAddress;
use core::{
    arch::x86_64::__cpuid,
    fmt,
    ptr::NonNull,
    slice,
    sync::atomic::{AtomicU8, AtomicU32, Ordering},
};
use heapless::Vec;
use spin::Mutex;

/// Runs of RAM that are told apart; more are not used.
pub const MAX_RAM: usize = 64;

const FOUR_GIB: u64 = 1 << 32;
/// The I/O APIC's registers: nothing of PCI lies between them and 4 GiB.
const FIXED_REGISTERS: u64 = 0xfec0_0000;
const HPET_LEN: u64 = 1024;

/// All there is. The only one is made at the entry and never goes.
pub struct Machine {
    pool: Pool,
    paging: Paging,
    clock: Clock,
    config: Config,
    acpi: Acpi,
    command_line: &'static str,
    ram: Vec<Range, MAX_RAM>,
    functions: &'static [Entry],
}

/// A function that was found, and who has it.
pub(crate) struct Entry {
    pub(crate) info: FunctionInfo,
    pub(crate) holders: AtomicU32,
    pub(crate) dma_bits: AtomicU8,
}

impl Entry {
    /// The address that DMA memory of the function must end at.
    pub(crate) fn below(&self) -> u64 {
        1u64.checked_shl(self.dma_bits.load(Ordering::Relaxed).into()).unwrap_or(u64::MAX)
    }
}

/// Why a function was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// There is none at this address.
    NotFound(PciAddress),
    /// Somebody has it.
    InUse(PciAddress),
    /// It is a bridge.
    Bridge(PciAddress),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(at) => write!(f, "{at}: no such function"),
            Self::InUse(at) => write!(f, "{at} is open already"),
            Self::Bridge(at) => write!(f, "{at} is a bridge"),
        }
    }
}

impl core::error::Error for OpenError {}

/// Why a machine cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// Memory is missing, or mapped twice.
    Map(MapError),
    /// No timer tells how fast the time-stamp counter runs.
    NoTimer,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Map(MapError::NoMemory) => f.write_str("there is too little memory"),
            Self::Map(MapError::Conflict(at)) => write!(f, "{at:#x} is wanted for two things"),
            Self::Map(MapError::TooHigh(at)) => write!(f, "{at:#x} lies above what is ever mapped"),
            Self::NoTimer => f.write_str("no timer to calibrate the clock with; tell tsc_hz=HERTZ on the command line"),
        }
    }
}

impl From<MapError> for StartError {
    fn from(e: MapError) -> Self {
        Self::Map(e)
    }
}

/// What the entry knows before there is a machine. RAM is mapped, and what is free of it in the pool.
pub(crate) struct Start {
    pub(crate) pool: Pool,
    pub(crate) paging: Paging,
    pub(crate) command_line: &'static str,
    pub(crate) ram: Vec<Range, MAX_RAM>,
    /// What PCI may not have: all memory, and what firmware reserved.
    pub(crate) taken: Taken,
    pub(crate) rsdp: u64,
}

/// Addresses that are taken. What does not fit is left out: a list that long comes from firmware that does all itself.
pub(crate) type Taken = Vec<Range, 256>;

/// Tables of firmware: mapped when they are read.
struct Tables<'a>(&'a Start);

impl Physical for Tables<'_> {
    fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
        let range = Range::new(address, len as u64);
        if range.start < 4096 || range.end == u64::MAX {
            return None;
        }
        for page in (range.start >> 12)..=((range.end - 1) >> 12) {
            match self.0.paging.map(&self.0.pool, Range::new(page << 12, 4096), Kind::Registers) {
                // What is mapped in another way can be read as well.
                Ok(_) | Err(MapError::Conflict(_)) => {}
                Err(_) => return None,
            }
        }
        // SAFETY: the pages are mapped; firmware's tables do not change.
        Some(unsafe { slice::from_raw_parts(address as *const u8, len) })
    }
}

impl Machine {
    /// Finds out what there is.
    pub(crate) fn new(start: Start) -> Result<Self, StartError> {
        let acpi = Acpi::read(&Tables(&start), start.rsdp);
        let hpet = match acpi.hpet {
            Some(address) => {
                let registers = start.paging.map(&start.pool, Range::new(address, HPET_LEN), Kind::Registers)?;
                // SAFETY: ACPI says that the registers are there, and they were mapped just now.
                Some(unsafe { Hpet::new(registers.as_ptr().cast()) })
            }
            None => None,
        };
        let told = cmdline::value(start.command_line, "tsc_hz").and_then(|hz| hz.parse().ok());
        let clock = Clock::calibrate(told, acpi.pm_timer, hpet).ok_or(StartError::NoTimer)?;
        let config = map_config(&start, &acpi)?;
        let functions = enumerate(&start, &config, &acpi)?;
        let Start { pool, paging, command_line, ram, .. } = start;
        Ok(Self { pool, paging, clock, config, acpi, command_line, ram, functions })
    }

    /// The words of the command line that are the program's.
    pub fn arguments(&self) -> impl Iterator<Item = &'static str> + Clone {
        cmdline::arguments(self.command_line)
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What ACPI says.
    pub fn acpi(&self) -> &Acpi {
        &self.acpi
    }

    /// The memory that is free.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// RAM, all of it mapped at its own addresses.
    pub fn ram(&self) -> &[Range] {
        &self.ram
    }

    /// The PCI functions that were found, bridges too, in the order of the walk.
    pub fn functions(&self) -> impl Iterator<Item = &'static FunctionInfo> {
        self.functions.iter().map(|entry| &entry.info)
    }

    /// Takes a function. Its memory BARs can be reached from then on; bus mastering stays off until the driver asks.
    pub fn open(&'static self, at: PciAddress) -> Result<Function, OpenError> {
        let entry = self.functions.iter().find(|e| e.info.address == at).ok_or(OpenError::NotFound(at))?;
        if entry.info.is_bridge {
            return Err(OpenError::Bridge(at));
        }
        let free = entry.holders.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        free.map_err(|_| OpenError::InUse(at))?;
        entry.dma_bits.store(64, Ordering::Relaxed);
        let command = self.config.read32(at, COMMAND) & COMMAND_MASK & !COMMAND_BUS_MASTER;
        self.config.write32(at, COMMAND, command | COMMAND_MEMORY);
        Ok(Function::new(self, entry))
    }

    /// Turns the bus mastering of all open functions off: nothing writes to memory any more.
    pub fn silence(&self) {
        for entry in self.functions.iter().filter(|e| e.holders.load(Ordering::Relaxed) > 0) {
            let command = self.config.read32(entry.info.address, COMMAND) & COMMAND_MASK;
            self.config.write32(entry.info.address, COMMAND, command & !COMMAND_BUS_MASTER);
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Maps registers at their own address, uncached, for good: those of a function that is driven by other means than
    /// [`Function`].
    pub fn map_registers(&self, range: Range) -> Result<NonNull<u8>, MapError> {
        self.map(range, Kind::Registers)
    }

    pub(crate) fn map(&self, range: Range, kind: Kind) -> Result<NonNull<u8>, MapError> {
        self.paging.map(&self.pool, range, kind)
    }

    pub(crate) fn is_ram(&self, range: Range) -> bool {
        self.ram.iter().any(|ram| ram.contains(&range))
    }

    /// The lowest address that the pool may give.
    pub(crate) fn lowest_memory(&self) -> u64 {
        const MIB: u64 = 1 << 20;
        self.ram.iter().filter(|r| r.end > MIB).map(|r| r.start.max(MIB)).min().unwrap_or(u64::MAX)
    }
}

/// Maps configuration space where ACPI has it; else there are the ports.
fn map_config(start: &Start, acpi: &Acpi) -> Result<Config, StartError> {
    let mut windows = Vec::new();
    for ecam in &acpi.ecam {
        let offset = u64::from(ecam.first_bus) << 20;
        let len = (u64::from(ecam.last_bus - ecam.first_bus) + 1) << 20;
        start.paging.map(&start.pool, Range::new(ecam.base + offset, len), Kind::Registers)?;
        // SAFETY: the window was mapped just now.
        let window = unsafe { Window::new(ecam.base as *mut u32, ecam.segment, ecam.first_bus, ecam.last_bus) };
        // Both lists hold as many.
        let _ = windows.push(window);
    }
    Ok(if windows.is_empty() { Config::Ports(Mutex::new(())) } else { Config::Mapped(windows) })
}

/// Walks all segments, does what firmware left undone, and keeps what was found.
fn enumerate(start: &Start, config: &Config, acpi: &Acpi) -> Result<&'static [Entry], StartError> {
    let roots: Vec<(u16, u8, u8), 8> = match config {
        Config::Mapped(windows) => windows.iter().map(|w| (w.segment, w.first_bus, w.last_bus)).collect(),
        Config::Ports(_) => core::iter::once((0, 0, 255)).collect(),
    };
    let mut taken = start.taken.clone();
    for &(segment, first_bus, _) in &roots {
        pci::used(config, segment, first_bus, &mut |range| {
            let _ = taken.push(range);
        });
    }
    for ecam in &acpi.ecam {
        let _ = taken.push(Range::new(ecam.base, (u64::from(ecam.last_bus) + 1) << 20));
    }
    let [mut low, mut high] = spaces(&taken);
    let mut count = 0;
    let mut found: Option<NonNull<Entry>> = None;
    // Bus numbers given in the first round stay in the second, which finds the same.
    for round in 0..2 {
        if round == 1 {
            let bytes = size_of::<Entry>() * count;
            let memory = start.pool.take(bytes.max(1), align_of::<Entry>(), u64::MAX).ok_or(MapError::NoMemory)?;
            found = Some(memory.cast());
        }
        let room = count;
        count = 0;
        for &(segment, first_bus, last_bus) in &roots {
            let mut walk = Enumeration {
                config,
                segment,
                last_bus,
                highest_bus: first_bus,
                low,
                high,
                found: |info| {
                    if let Some(entries) = found.filter(|_| count < room) {
                        let entry = Entry { info, holders: AtomicU32::new(0), dma_bits: AtomicU8::new(64) };
                        // SAFETY: the array has room for as many as were found in the first round.
                        unsafe { entries.add(count).write(entry) };
                    }
                    count += 1;
                },
            };
            walk.bus(first_bus);
            Enumeration { low, high, .. } = walk;
        }
    }
    // SAFETY: that many entries were written; the memory is never given back.
    Ok(found.map_or(&[], |entries| unsafe { slice::from_raw_parts(entries.as_ptr(), count) }))
}

/// Where BARs without an address can go: the largest gaps below 4 GiB and above.
fn spaces(taken: &[Range]) -> [Space; 2] {
    // CPUID 8000_0008h: physical address bits.
    let bits = if __cpuid(0x8000_0000).eax >= 0x8000_0008 { __cpuid(0x8000_0008).eax & 0xff } else { 36 };
    let low = Range { start: 16 << 20, end: FIXED_REGISTERS };
    let high = Range { start: FOUR_GIB, end: 1 << bits.clamp(33, 46) };
    [low, high].map(|whole| {
        let mut largest = Range::new(0, 0);
        without(whole, taken, &mut |gap| {
            if gap.end - gap.start > largest.end - largest.start {
                largest = gap;
            }
        });
        Space::new(largest)
    })
}

impl FunctionInfo {
    /// The memory BARs with their numbers: (number, address, bytes).
    pub fn memory_bars(&self) -> impl Iterator<Item = (u8, u64, u64)> + '_ {
        (0..).zip(&self.bars).filter_map(|(n, bar)| match *bar {
            BarInfo::Memory { address, len, .. } => Some((n, address, len)),
            _ => None,
        })
    }
}
