//! Configuration space of a PCI Express endpoint, made from a device's [`PciIdentity`].
//!
//! Header type 0, then three capabilities: PCI Express with function level reset, MSI-X, power management. Offsets of
//! registers are those of the PCI Local Bus 3.0, PCI Express 3.0 and PCI Power Management 1.2 specifications; the
//! capabilities lie where a ConnectX has them. Read-only bits hold, unknown registers read as zero.

use crate::model::{BarKind, PciIdentity, Reset};

/// Bytes of configuration space of a PCI Express function.
pub const CONFIG_SIZE: usize = 4096;

/// Where the MSI-X table lies in BAR 0.
pub const MSIX_TABLE: u32 = 0x2000;
/// Where the MSI-X pending bits lie in BAR 0.
pub const MSIX_PBA: u32 = 0x3000;

const COMMAND: usize = 0x04;
const COMMAND_IO: u8 = 1 << 0;
const COMMAND_MEMORY: u8 = 1 << 1;
const COMMAND_BUS_MASTER: u8 = 1 << 2;
const STATUS: usize = 0x06;
const STATUS_CAPABILITIES: u8 = 1 << 4;
const BAR0: usize = 0x10;
const CAPABILITIES: usize = 0x34;

const PCIE: usize = 0x60;
const DEVICE_CONTROL: usize = PCIE + 8;
/// Bit 15 of the device control register, seen from its upper byte.
const INITIATE_FLR: u8 = 1 << 7;
const MSIX: usize = 0x9c;
const POWER: usize = 0x40;
const POWER_STATE: usize = POWER + 4;
const D3HOT: u8 = 3;

/// What a write to configuration space asks the machine to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Bus mastering was turned on or off.
    pub bus_master: Option<bool>,
    /// The function must be reset. The registers here already are.
    pub reset: Option<Reset>,
}

/// The configuration space of one function.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    identity: PciIdentity,
    bytes: Box<[u8; CONFIG_SIZE]>,
    /// Bits that software may write.
    writable: Box<[u8; CONFIG_SIZE]>,
    /// Bits that software clears by writing one.
    clearable: Box<[u8; CONFIG_SIZE]>,
}

impl ConfigSpace {
    /// Configuration space after a conventional reset: BARs at 0, decoding and bus mastering off.
    pub fn new(identity: PciIdentity) -> Self {
        let mut c = Self {
            identity,
            bytes: Box::new([0; CONFIG_SIZE]),
            writable: Box::new([0; CONFIG_SIZE]),
            clearable: Box::new([0; CONFIG_SIZE]),
        };
        c.header();
        c.bars();
        c.pcie_capability();
        c.msix_capability();
        c.power_capability();
        c
    }

    fn set8(&mut self, at: usize, value: u8, writable: u8) {
        self.bytes[at] = value;
        self.writable[at] = writable;
    }

    fn set16(&mut self, at: usize, value: u16, writable: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        self.writable[at..at + 2].copy_from_slice(&writable.to_le_bytes());
    }

    fn set32(&mut self, at: usize, value: u32, writable: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self.writable[at..at + 4].copy_from_slice(&writable.to_le_bytes());
    }

    fn header(&mut self) {
        let id = self.identity.clone();
        let io = id.bars.iter().any(|b| matches!(b, BarKind::Io(_)));
        self.set16(0x00, id.vendor, 0);
        self.set16(0x02, id.device, 0);
        // Memory, bus master, parity response, SERR, interrupt disable; I/O where there is an I/O BAR.
        self.set16(COMMAND, 0, 0x0546 | u16::from(io));
        self.bytes[STATUS] = STATUS_CAPABILITIES;
        self.clearable[STATUS + 1] = 0xf9;
        self.set32(0x08, id.class << 8 | u32::from(id.revision), 0);
        self.set8(0x0c, 0, 0xff); // cache line size, without effect
        self.set16(0x2c, id.subsystem_vendor, 0);
        self.set16(0x2e, id.subsystem, 0);
        self.set8(CAPABILITIES, PCIE as u8, 0);
        self.set8(0x3c, 0, 0xff); // interrupt line, software's own
        self.set8(0x3d, 1, 0); // INTA
    }

    /// The size of a BAR is told by which of its bits can be written.
    fn bars(&mut self) {
        for n in 0..6 {
            let at = BAR0 + 4 * n;
            match self.identity.bars[n] {
                BarKind::None => {}
                BarKind::Memory32(len) => self.set32(at, 0, !(len - 1) as u32 & !0xf),
                BarKind::Memory64(len) => {
                    self.set32(at, 0b1100, !(len - 1) as u32 & !0xf);
                    self.set32(at + 4, 0, (!(len - 1) >> 32) as u32);
                }
                BarKind::Io(len) => self.set32(at, 0b01, !(len - 1) & !0x3),
            }
        }
    }

    fn pcie_capability(&mut self) {
        self.set16(PCIE, u16::from_le_bytes([0x10, MSIX as u8]), 0);
        self.set16(PCIE + 0x02, 0x0002, 0); // version 2, endpoint
        // Payloads of 512 bytes, role-based error reporting, function level reset.
        self.set32(PCIE + 0x04, 2 | 1 << 15 | 1 << 28, 0);
        // Error reporting, relaxed ordering, payload size, no snoop, read request size; bit 15 starts the reset.
        self.set16(DEVICE_CONTROL, 0x2810, 0x78ff);
        self.clearable[PCIE + 0x0a] = 0x0f;
        self.set32(PCIE + 0x0c, 0x0000_0103, 0); // 8 GT/s, 16 lanes
        self.set16(PCIE + 0x10, 0, 0x00c3); // ASPM control, common clock, extended sync
        self.set16(PCIE + 0x12, 0x1103, 0); // 8 GT/s, 16 lanes, slot clock
        self.set32(PCIE + 0x24, 0x0000_001f, 0); // completion timeouts of all ranges, and none
        self.set16(PCIE + 0x28, 0, 0x001f);
        self.set32(PCIE + 0x2c, 0x0000_000e, 0); // 2.5, 5 and 8 GT/s
        self.set16(PCIE + 0x30, 3, 0x000f);
    }

    fn msix_capability(&mut self) {
        if self.identity.msix_vectors == 0 {
            // Nothing of the kind: the chain goes on to power management.
            self.bytes[PCIE + 1] = POWER as u8;
            return;
        }
        self.set16(MSIX, u16::from_le_bytes([0x11, POWER as u8]), 0);
        // Table size minus one; function mask and enable can be written.
        self.set16(MSIX + 2, (self.identity.msix_vectors - 1) & 0x7ff, 0xc000);
        self.set32(MSIX + 4, MSIX_TABLE, 0);
        self.set32(MSIX + 8, MSIX_PBA, 0);
    }

    fn power_capability(&mut self) {
        self.set16(POWER, u16::from_le_bytes([0x01, 0]), 0);
        self.set16(POWER + 2, 0x0003, 0); // version 1.2, D0 and D3 only, no PME
        // D0. No_Soft_Reset is clear: the way from D3hot to D0 resets.
        self.set16(POWER_STATE, 0, 0x0003);
    }

    /// Reads bytes; beyond the end they are all-ones.
    pub fn read(&self, offset: usize, data: &mut [u8]) {
        for (i, b) in data.iter_mut().enumerate() {
            *b = self.bytes.get(offset.saturating_add(i)).copied().unwrap_or(0xff);
        }
    }

    /// Writes bytes, and says what follows from it.
    pub fn write(&mut self, offset: usize, data: &[u8]) -> Effects {
        let (mastering, power) = (self.bus_master(), self.bytes[POWER_STATE] & D3HOT);
        let mut flr = false;
        for (i, new) in data.iter().enumerate() {
            let at = offset.saturating_add(i);
            if at >= CONFIG_SIZE {
                break;
            }
            flr |= at == DEVICE_CONTROL + 1 && new & INITIATE_FLR != 0;
            // A power state that the function does not have (D1, D2) is ignored.
            if at == POWER_STATE && !matches!(new & D3HOT, 0 | D3HOT) {
                continue;
            }
            let (old, w, c) = (self.bytes[at], self.writable[at], self.clearable[at]);
            self.bytes[at] = (old & !w | new & w) & !(new & c);
        }
        let woken = power == D3HOT && self.bytes[POWER_STATE] & D3HOT == 0;
        if flr || woken {
            self.reset();
            return Effects { bus_master: mastering.then_some(false), reset: Some(Reset::Function) };
        }
        let now = self.bus_master();
        Effects { bus_master: (now != mastering).then_some(now), reset: None }
    }

    /// Everything as after [`Self::new`].
    pub fn reset(&mut self) {
        *self = Self::new(self.identity.clone());
    }

    /// Whether the function answers to its memory BARs.
    pub fn memory_enabled(&self) -> bool {
        self.bytes[COMMAND] & COMMAND_MEMORY != 0 && self.awake()
    }

    /// Whether the function answers to its I/O BARs.
    pub fn io_enabled(&self) -> bool {
        self.bytes[COMMAND] & COMMAND_IO != 0 && self.awake()
    }

    /// Whether the function may issue DMA and message interrupts.
    pub fn bus_master(&self) -> bool {
        self.bytes[COMMAND] & COMMAND_BUS_MASTER != 0 && self.awake()
    }

    /// Whether MSI-X is enabled and not masked as a whole.
    pub fn msix_enabled(&self) -> bool {
        self.identity.msix_vectors > 0 && self.bytes[MSIX + 3] & 0xc0 == 0x80
    }

    fn awake(&self) -> bool {
        self.bytes[POWER_STATE] & D3HOT == 0
    }

    /// The address that a BAR was given.
    pub fn bar_address(&self, n: usize) -> u64 {
        let at = BAR0 + 4 * n;
        let low = |at: usize| {
            let mut b = [0; 4];
            self.read(at, &mut b);
            u32::from_le_bytes(b)
        };
        match self.identity.bars.get(n) {
            None | Some(BarKind::None) => 0,
            Some(BarKind::Memory32(_)) => u64::from(low(at) & !0xf),
            Some(BarKind::Memory64(_)) => u64::from(low(at + 4)) << 32 | u64::from(low(at) & !0xf),
            Some(BarKind::Io(_)) => u64::from(low(at) & !0x3),
        }
    }
}

#[cfg(test)]
#[path = "pci_tests.rs"]
mod tests;
