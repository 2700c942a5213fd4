//! Configuration space, BARs, bus mastering, reset.

use crate::{Broken, Check, Outcome, holds, refused};
use bareverbs_hal::{Be32, HalError, PciFunction};
use volatile_register::RO;

pub(crate) fn checks<H: PciFunction>() -> [Check<H>; 5] {
    [
        ("configuration space answers", configuration),
        ("BARs end where they end", bars),
        ("bus mastering is off until it is asked for", bus_mastering),
        ("a clone is the same function", clone),
        ("a reset leaves BARs and silence", reset),
    ]
}

const ID: u16 = 0;
const COMMAND: u16 = 4;
const BAR0: u16 = 0x10;
const MEMORY: u32 = 1 << 1;
const BUS_MASTER: u32 = 1 << 2;

fn command<H: PciFunction>(hal: &H) -> u32 {
    hal.config_read32(COMMAND) & 0xffff
}

fn configuration<H: PciFunction>(hal: &H) -> Outcome {
    let id = hal.config_read32(ID);
    holds(id != u32::MAX && id & 0xffff != 0, "the function has a vendor", id.into())?;
    holds(hal.config_read32(ID) == id, "the function's number stays", id.into())?;
    let at = hal.address();
    holds(at.device < 32 && at.function < 8, "the address is one of PCI", at.device.into())
}

fn bars<H: PciFunction>(hal: &H) -> Outcome {
    let mut memory = 0;
    for n in 0..6 {
        match hal.bar(n) {
            Ok(bar) => {
                memory += 1;
                let (number, len) = (u64::from(n), bar.len());
                holds(len.is_power_of_two(), "a BAR's length is a power of two", number)?;
                holds((bar.base().as_ptr() as usize).is_multiple_of(len.min(4096)), "a BAR is aligned", number)?;
                let again = hal.bar(n).map_err(|e| Broken::Refused("a BAR for the second time", e))?;
                holds(again.base() == bar.base() && again.len() == len, "a BAR stays where it is", number)?;
                // SAFETY: the cell is not read.
                let past = unsafe { bar.register::<RO<Be32>>(len) }.map(drop);
                refused(past, "a register behind the end", |e| e == HalError::BarTooSmall { len, wanted: len + 4 })?;
                // SAFETY: the cell is not read.
                let odd = unsafe { bar.wc_register::<RO<Be32>>(1) }.map(drop);
                refused(odd, "a register between two", |e| e == HalError::Misaligned)?;
                // SAFETY: the cell is not read.
                let last = unsafe { bar.register::<RO<Be32>>(len - 4) }.map(drop);
                last.map_err(|e| Broken::Refused("the last register of a BAR", e))?;
            }
            Err(HalError::NoSuchBar(m) | HalError::BarIsIo(m)) => {
                holds(m == n, "the BAR is called by its number", n.into())?
            }
            Err(e) => return Err(Broken::Refused("a BAR", e)),
        }
    }
    holds(memory > 0, "the function has a memory BAR", 0)?;
    for n in [6, 255] {
        refused(hal.bar(n).map(drop), "a BAR that PCI does not have", |e| e == HalError::NoSuchBar(n))?;
    }
    Ok(())
}

fn set<H: PciFunction>(hal: &H, on: bool) -> Outcome {
    // SAFETY: nobody told the function of memory.
    let switched = unsafe { hal.set_bus_master(on) };
    switched.map_err(|e| Broken::Refused("switching bus mastering", e))
}

fn bus_mastering<H: PciFunction>(hal: &H) -> Outcome {
    holds(command(hal) & BUS_MASTER == 0, "bus mastering is off at first", command(hal).into())?;
    for _ in 0..2 {
        set(hal, true)?;
        let on = command(hal);
        set(hal, false)?;
        holds(on & (MEMORY | BUS_MASTER) == MEMORY | BUS_MASTER, "bus mastering and decoding are on", on.into())?;
        let off = command(hal);
        holds(off & BUS_MASTER == 0, "bus mastering is off again", off.into())?;
        holds(off & MEMORY != 0, "registers can still be reached", off.into())?;
    }
    Ok(())
}

fn clone<H: PciFunction>(hal: &H) -> Outcome {
    let other = hal.clone();
    holds(other.address() == hal.address(), "a clone sits where the function sits", 0)?;
    set(&other, true)?;
    let on = command(hal);
    drop(other);
    let still_on = command(hal);
    set(hal, false)?;
    holds(on & BUS_MASTER != 0, "a clone switches the function's bus mastering", on.into())?;
    holds(still_on & BUS_MASTER != 0, "bus mastering stays on when a clone goes", still_on.into())
}

fn reset<H: PciFunction>(hal: &H) -> Outcome {
    let registers = || [0u16, 1, 2, 3, 4, 5].map(|n| hal.config_read32(BAR0 + 4 * n));
    let (id, before) = (hal.config_read32(ID), registers());
    set(hal, true)?;
    let outcome = hal.reset();
    let (after, command) = (registers(), command(hal));
    set(hal, false)?;
    match outcome {
        // Not every function can be reset; then the platform says so.
        Err(HalError::Unsupported(_)) => return Ok(()),
        Err(e) => return Err(Broken::Refused("a reset", e)),
        Ok(()) => {}
    }
    holds(hal.config_read32(ID) == id, "the function is the same after a reset", id.into())?;
    holds(after == before, "BARs are where they were", after[0].into())?;
    holds(command & BUS_MASTER == 0, "bus mastering is off after a reset", command.into())
}
