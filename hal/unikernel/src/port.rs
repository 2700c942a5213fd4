//! I/O ports.

use core::arch::asm;

/// Reads a byte from a port.
///
/// # Safety
/// Reading the port has no effect on memory that Rust knows of.
pub(crate) unsafe fn in8(port: u16) -> u8 {
    let value;
    // SAFETY: the caller's promise; the instruction itself touches no memory.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Writes a byte to a port.
///
/// # Safety
/// Writing the port has no effect on memory that Rust knows of.
pub(crate) unsafe fn out8(port: u16, value: u8) {
    // SAFETY: the caller's promise; the instruction itself touches no memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) };
}

/// Reads 32 bits from a port.
///
/// # Safety
/// As [`in8`].
pub(crate) unsafe fn in32(port: u16) -> u32 {
    let value;
    // SAFETY: the caller's promise; the instruction itself touches no memory.
    unsafe { asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Writes 32 bits to a port.
///
/// # Safety
/// As [`out8`].
pub(crate) unsafe fn out32(port: u16, value: u32) {
    // SAFETY: the caller's promise; the instruction itself touches no memory.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nomem, nostack, preserves_flags)) };
}
