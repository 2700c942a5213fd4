//! Base address registers (PCI local bus specification 3.0, 6.2.5.1): what a function wants, and where it has it.

use crate::config::{BAR0, COMMAND, COMMAND_BUS_MASTER, COMMAND_IO, COMMAND_MASK, COMMAND_MEMORY, ConfigSpace};
use bareverbs_hal::PciAddress;

/// A base address register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BarInfo {
    /// There is none, or it is the upper half of the one before.
    #[default]
    None,
    /// I/O ports. Nothing here uses them, so they get no address.
    Io,
    /// Memory.
    Memory {
        /// Physical address; 0 where it has none.
        address: u64,
        /// Bytes, a power of two.
        len: u64,
        /// Whether it may lie above 4 GiB.
        wide: bool,
        /// Whether reads have no side effects, so that a bridge may prefetch and writes may be combined.
        prefetchable: bool,
    },
}

const IO: u32 = 1;
const WIDE: u32 = 0b100;
const PREFETCHABLE: u32 = 0b1000;

fn register(n: u16) -> u16 {
    BAR0 + 4 * n
}

/// Reads all BARs of a function and finds how long they are. Decoding and bus mastering are off meanwhile, and after:
/// whoever opens the function turns them on.
pub(crate) fn read(config: &impl ConfigSpace, at: PciAddress, count: u16) -> [BarInfo; 6] {
    let command = config.read32(at, COMMAND) & COMMAND_MASK;
    config.write32(at, COMMAND, command & !(COMMAND_IO | COMMAND_MEMORY | COMMAND_BUS_MASTER));
    let mut bars = [BarInfo::None; 6];
    let mut n = 0;
    while n < count {
        let low = config.read32(at, register(n));
        let size_low = ones(config, at, n, low);
        let wide = low & IO == 0 && low & WIDE != 0 && n + 1 < count;
        bars[usize::from(n)] = if size_low == 0 {
            BarInfo::None
        } else if low & IO != 0 {
            BarInfo::Io
        } else {
            let (high, size_high) = if wide {
                let high = config.read32(at, register(n + 1));
                (high, ones(config, at, n + 1, high))
            } else {
                (0, u32::MAX)
            };
            let size = u64::from(size_high) << 32 | u64::from(size_low & !0xf);
            BarInfo::Memory {
                address: u64::from(high) << 32 | u64::from(low & !0xf),
                len: size.wrapping_neg(),
                wide,
                prefetchable: low & PREFETCHABLE != 0,
            }
        };
        n += if wide { 2 } else { 1 };
    }
    bars
}

/// Which bits of a BAR can be set.
fn ones(config: &impl ConfigSpace, at: PciAddress, n: u16, value: u32) -> u32 {
    config.write32(at, register(n), u32::MAX);
    let ones = config.read32(at, register(n));
    config.write32(at, register(n), value);
    ones
}

/// Gives a memory BAR an address.
pub(crate) fn place(config: &impl ConfigSpace, at: PciAddress, n: u16, wide: bool, address: u64) {
    config.write32(at, register(n), address as u32);
    if wide {
        config.write32(at, register(n + 1), (address >> 32) as u32);
    }
}

#[cfg(test)]
#[path = "bars_tests.rs"]
mod tests;
