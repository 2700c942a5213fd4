//! Devices that copy memory when they are told to.

use crate::Broken;
use bareverbs_hal::{Be32, PciFunction};
use core::time::Duration;
use volatile_register::{RO, RW};

/// A device of the tester's that copies memory by DMA.
pub trait Engine<H: PciFunction> {
    /// Whether there is one.
    const PRESENT: bool = true;
    /// The bytes of one copy.
    const LEN: usize;
    /// The address bits that the device drives.
    const BITS: u8 = 64;

    /// Copies [`LEN`](Self::LEN) bytes from one device address to another, and waits until the device says that it is
    /// done. Where bus mastering is off the device may do nothing, but the call must return.
    fn copy(&mut self, hal: &H, from: u64, to: u64) -> Result<(), Broken>;
}

/// No such device: what needs one is left out.
pub struct NoEngine;

impl<H: PciFunction> Engine<H> for NoEngine {
    const PRESENT: bool = false;
    const LEN: usize = 0;

    fn copy(&mut self, _: &H, _: u64, _: u64) -> Result<(), Broken> {
        Err(Broken::Promise("there is a device that copies", 0))
    }
}

/// QEMU's educational device (docs/specs/edu.rst): vendor 1234, device 11e8.
///
/// It copies between memory and a buffer of its own, 100 ms a time, and drives 28 address bits.
pub struct Edu;

/// Registers 0x80 to 0xa0 of BAR 0, little-endian and 64 bits wide.
#[repr(C)]
struct Registers {
    source: RW<u64>,
    destination: RW<u64>,
    count: RW<u64>,
    command: RW<u64>,
}

const REGISTERS: usize = 0x80;
const COMMAND: usize = 0x98;
/// The device's own buffer, as its DMA registers call it.
const BUFFER: u64 = 0x4_0000;
const START: u64 = 1;
const FROM_DEVICE: u64 = 1 << 1;
const PATIENCE: Duration = Duration::from_secs(60);
const COPY: usize = 1024;

impl Edu {
    /// Vendor and device as they stand in configuration space.
    pub const ID: u32 = 0x11e8_1234;

    fn transfer<H: PciFunction>(hal: &H, source: u64, destination: u64, direction: u64) -> Result<(), Broken> {
        let bar = hal.bar(0).map_err(|e| Broken::Refused("BAR 0", e))?;
        let no_register = |e| Broken::Refused("registers of BAR 0", e);
        // SAFETY: volatile cells only; `hal` outlives the reference.
        let registers: &Registers = unsafe { bar.register(REGISTERS) }.map_err(no_register)?;
        // SAFETY: a volatile cell; `hal` outlives the reference.
        let command: &RO<Be32> = unsafe { bar.register(COMMAND) }.map_err(no_register)?;
        hal.dma_wmb();
        hal.write64(&registers.source, source.to_le());
        hal.write64(&registers.destination, destination.to_le());
        hal.write64(&registers.count, (COPY as u64).to_le());
        hal.write64(&registers.command, (START | direction).to_le());
        let end = hal.now() + PATIENCE;
        while u64::from(hal.read32(command).swap_bytes()) & START != 0 {
            if hal.now() > end {
                return Err(Broken::Promise("the device ends a copy within its time", PATIENCE.as_secs()));
            }
            hal.relax();
        }
        hal.dma_rmb();
        Ok(())
    }
}

impl<H: PciFunction> Engine<H> for Edu {
    const LEN: usize = COPY;
    const BITS: u8 = 28;

    fn copy(&mut self, hal: &H, from: u64, to: u64) -> Result<(), Broken> {
        Self::transfer(hal, from, BUFFER, 0)?;
        Self::transfer(hal, BUFFER, to, FROM_DEVICE)
    }
}
