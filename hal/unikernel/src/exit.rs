//! The end of an image.
//!
//! QEMU's `isa-debug-exit,iobase=0xf4,iosize=4` ends QEMU with status `value << 1 | 1`. Where there is no such device
//! the processor halts. 0 is never said: QEMU's own status 0 also means a triple fault or a shutdown by somebody else.
//!
//! | value | meaning |
//! |---|---|
//! | [`ENDED`] + status (0 to 63) | the image ended with this status of its own |
//! | [`PANICKED`] | a Rust panic |
//! | [`TRAPPED`] + vector (0 to 31) | a processor exception |

use crate::port::out32;
use core::arch::asm;

/// The image ended; the status is added.
pub const ENDED: u8 = 0x40;
/// A Rust panic.
pub const PANICKED: u8 = 0x11;
/// A processor exception; the vector is added.
pub const TRAPPED: u8 = 0x20;

/// The highest status that an image can end with; a higher one is told as this.
pub const MAX_STATUS: u8 = 0x3f;

const DEBUG_EXIT: u16 = 0xf4;

/// Ends the image with its own status: 0 says that all went well.
pub fn end(status: u8) -> ! {
    stop(ENDED + status.min(MAX_STATUS))
}

pub(crate) fn stop(value: u8) -> ! {
    // SAFETY: the port belongs to QEMU's debug exit, or to nobody.
    unsafe { out32(DEBUG_EXIT, value.into()) };
    loop {
        // SAFETY: halting with interrupts off changes nothing; only a non-maskable interrupt ends it.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}
