//! PCI enumeration: every function behind every bridge, and what firmware left undone: bus numbers, bridge windows and
//! memory BARs. What firmware did stays as it is.
//!
//! Some firmware (QEMU's qboot) numbers buses and places no BAR; most does all of it. I/O BARs are left alone: nothing
//! here uses ports.

use crate::bars::{self, BarInfo};
use crate::config::{
    BUSES, CLASS, COMMAND, COMMAND_BUS_MASTER, COMMAND_MASK, COMMAND_MEMORY, ConfigSpace, HEADER_TYPE, ID,
    MEMORY_WINDOW, PREFETCHABLE_BASE_HIGH, PREFETCHABLE_LIMIT_HIGH, PREFETCHABLE_WINDOW,
};
use crate::memory::Range;
use bareverbs_hal::PciAddress;
use core::mem::replace;

const MULTI_FUNCTION: u32 = 1 << 23;
/// The granule of a bridge's memory windows.
const WINDOW: u64 = 1 << 20;
/// Base above limit: a window that forwards nothing.
const CLOSED: u32 = 0x0000_fff0;

/// A function as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Where it sits.
    pub address: PciAddress,
    /// Vendor.
    pub vendor: u16,
    /// Device, as the vendor numbers them.
    pub device: u16,
    /// Class, subclass, programming interface and revision, highest byte first.
    pub class: u32,
    /// Whether it is a bridge to another bus.
    pub is_bridge: bool,
    /// Its BARs.
    pub bars: [BarInfo; 6],
}

/// Addresses for BARs that have none.
pub(crate) struct Space {
    next: u64,
    end: u64,
}

impl Space {
    const EMPTY: Self = Self { next: 0, end: 0 };

    /// A range that nothing else has.
    pub(crate) fn new(range: Range) -> Self {
        Self { next: range.start, end: range.end }
    }

    fn take(&mut self, len: u64) -> Option<u64> {
        let start = self.next.checked_next_multiple_of(len)?;
        self.next = start.checked_add(len).filter(|end| *end <= self.end)?;
        Some(start)
    }

    fn align(&mut self, len: u64) -> u64 {
        self.next = self.next.saturating_add(len - 1) & !(len - 1);
        self.next
    }
}

/// What is handed out while the buses are walked.
pub(crate) struct Enumeration<'a, C, F> {
    pub(crate) config: &'a C,
    pub(crate) segment: u16,
    /// The last bus number that there can be.
    pub(crate) last_bus: u8,
    /// The highest bus number that is taken.
    pub(crate) highest_bus: u8,
    /// Below 4 GiB.
    pub(crate) low: Space,
    /// Above; for what is 64 bits wide and, behind a bridge, prefetchable.
    pub(crate) high: Space,
    pub(crate) found: F,
}

/// Calls `found` for each function of a bus and of the buses behind it, changing nothing.
pub(crate) fn walk(config: &impl ConfigSpace, segment: u16, bus: u8, found: &mut impl FnMut(PciAddress, u32)) {
    for at in functions(config, segment, bus) {
        let header = config.read32(at, HEADER_TYPE);
        found(at, header);
        let secondary = (config.read32(at, BUSES) >> 8) as u8;
        // A bridge whose bus is not behind it would be walked for ever.
        if is_bridge(header) && secondary > bus {
            walk(config, segment, secondary, found);
        }
    }
}

fn functions<C: ConfigSpace>(config: &C, segment: u16, bus: u8) -> impl Iterator<Item = PciAddress> + use<'_, C> {
    let is_there = move |at: PciAddress| config.read32(at, ID) as u16 != u16::MAX;
    let of_device = move |device| {
        let first = PciAddress { segment, bus, device, function: 0 };
        let count = match is_there(first) {
            false => 0,
            true if config.read32(first, HEADER_TYPE) & MULTI_FUNCTION != 0 => 8,
            true => 1,
        };
        (0..count).map(move |function| PciAddress { function, ..first })
    };
    (0..32).flat_map(of_device).filter(move |at| is_there(*at))
}

fn is_bridge(header: u32) -> bool {
    header >> 16 & 0x7f == 1
}

/// Calls `each` with the memory that BARs and bridge windows have already.
pub(crate) fn used(config: &impl ConfigSpace, segment: u16, bus: u8, each: &mut impl FnMut(Range)) {
    walk(config, segment, bus, &mut |at, header| {
        for bar in bars::read(config, at, bar_count(header)) {
            if let BarInfo::Memory { address, len, .. } = bar
                && address != 0
            {
                each(Range::new(address, len));
            }
        }
        if is_bridge(header) {
            windows(config, at).into_iter().flatten().for_each(&mut *each);
        }
    });
}

/// What a bridge forwards: its memory window and its prefetchable one, where they are open.
fn windows(config: &impl ConfigSpace, at: PciAddress) -> [Option<Range>; 2] {
    let range = |low: u32, base_high: u32, limit_high: u32| {
        let start = u64::from(base_high) << 32 | u64::from(low & 0xfff0) << 16;
        let end = (u64::from(limit_high) << 32 | u64::from(low & 0xfff0_0000)) + WINDOW;
        (start < end && start != 0).then_some(Range { start, end })
    };
    [
        range(config.read32(at, MEMORY_WINDOW), 0, 0),
        range(
            config.read32(at, PREFETCHABLE_WINDOW),
            config.read32(at, PREFETCHABLE_BASE_HIGH),
            config.read32(at, PREFETCHABLE_LIMIT_HIGH),
        ),
    ]
}

fn bar_count(header: u32) -> u16 {
    match header >> 16 & 0x7f {
        0 => 6,
        1 => 2,
        _ => 0,
    }
}

impl<C: ConfigSpace, F: FnMut(FunctionInfo)> Enumeration<'_, C, F> {
    /// Enumerates a bus and all behind it.
    pub(crate) fn bus(&mut self, bus: u8) {
        let config = self.config;
        for at in functions(config, self.segment, bus) {
            let header = config.read32(at, HEADER_TYPE);
            let mut bars = bars::read(config, at, bar_count(header));
            self.place_bars(at, &mut bars);
            let id = config.read32(at, ID);
            (self.found)(FunctionInfo {
                address: at,
                vendor: id as u16,
                device: (id >> 16) as u16,
                class: config.read32(at, CLASS),
                is_bridge: is_bridge(header),
                bars,
            });
            if is_bridge(header) {
                self.bridge(at);
            }
        }
    }

    /// Gives addresses to the BARs that have none.
    fn place_bars(&mut self, at: PciAddress, bars: &mut [BarInfo; 6]) {
        for (n, bar) in (0..).zip(bars) {
            let BarInfo::Memory { address, len, wide, prefetchable } = bar else { continue };
            if *address != 0 {
                continue;
            }
            // On a root bus nobody prefetches; a bridge's window for the others is 32 bits wide.
            let high = *wide && (*prefetchable || at.bus == 0);
            let space = if high { &mut self.high } else { &mut self.low };
            if let Some(free) = space.take(*len) {
                bars::place(self.config, at, n, *wide, free);
                *address = free;
            }
        }
    }

    fn bridge(&mut self, at: PciAddress) {
        let buses = self.config.read32(at, BUSES);
        let secondary = (buses >> 8) as u8;
        if secondary > at.bus {
            self.highest_bus = self.highest_bus.max((buses >> 16) as u8);
            self.behind(at, secondary);
        } else if self.highest_bus < self.last_bus {
            self.highest_bus += 1;
            let secondary = self.highest_bus;
            let config = self.config;
            let set = |last: u8| {
                let numbers = u32::from(last) << 16 | u32::from(secondary) << 8 | u32::from(at.bus);
                config.write32(at, BUSES, buses & 0xff00_0000 | numbers);
            };
            // All numbers above lead here until it is known how many there are.
            set(self.last_bus);
            self.behind(at, secondary);
            set(self.highest_bus);
        }
        // A bridge forwards for the functions behind it; whether they write to memory is decided at each of them.
        let command = self.config.read32(at, COMMAND) & COMMAND_MASK;
        self.config.write32(at, COMMAND, command | COMMAND_MEMORY | COMMAND_BUS_MASTER);
    }

    /// Enumerates the bus behind a bridge, and gives the bridge windows around what was placed there.
    fn behind(&mut self, at: PciAddress, secondary: u8) {
        let [memory, prefetchable] = windows(self.config, at).map(|window| window.is_some());
        // Behind a window of firmware's there is no room of ours.
        let low = memory.then(|| replace(&mut self.low, Space::EMPTY));
        let high = prefetchable.then(|| replace(&mut self.high, Space::EMPTY));
        let (low_start, high_start) = (self.low.align(WINDOW), self.high.align(WINDOW));
        self.bus(secondary);
        let (low_end, high_end) = (self.low.align(WINDOW), self.high.align(WINDOW));
        let window = |start: u64, end: u64| {
            if start == end { CLOSED } else { (end - 1) as u32 & 0xfff0_0000 | (start >> 16) as u32 & 0xfff0 }
        };
        let write = |offset, value| self.config.write32(at, offset, value);
        match low {
            Some(low) => self.low = low,
            None => write(MEMORY_WINDOW, window(low_start, low_end)),
        }
        match high {
            Some(high) => self.high = high,
            None => {
                write(PREFETCHABLE_WINDOW, window(high_start, high_end));
                write(PREFETCHABLE_BASE_HIGH, (high_start >> 32) as u32);
                write(PREFETCHABLE_LIMIT_HIGH, (high_end.saturating_sub(1) >> 32) as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests;
