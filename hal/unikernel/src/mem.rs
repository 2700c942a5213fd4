//! The memory functions that compiled code calls, for targets whose `compiler_builtins` leaves them to a C library.
//!
//! String instructions, eight bytes a time, and volatile loops: a plain loop would be turned into a call to itself.

use core::arch::asm;

/// C's `memcpy`.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear by the ABI.
    unsafe {
        asm!("rep movsq", "mov rcx, {rest}", "rep movsb", rest = in(reg) n % 8, inout("rcx") n / 8 => _,
             inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
    }
    to
}

/// C's `memmove`.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= n {
        // SAFETY: going up, no byte is written before it is read.
        return unsafe { memcpy(to, from, n) };
    }
    // SAFETY: going down from the last byte, no byte is written before it is read; the flag is cleared again.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") n => _, inout("rdi") to.wrapping_add(n).wrapping_sub(1) => _,
             inout("rsi") from.wrapping_add(n).wrapping_sub(1) => _, options(nostack));
    }
    to
}

/// C's `memset`.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    // SAFETY: the caller's promise; the direction flag is clear by the ABI.
    unsafe {
        asm!("rep stosq", "mov rcx, {rest}", "rep stosb", rest = in(reg) n % 8, inout("rcx") n / 8 => _,
             inout("rdi") to => _, in("rax") u64::from(byte as u8) * 0x0101_0101_0101_0101,
             options(nostack, preserves_flags));
    }
    to
}

/// C's `memcmp`.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    for i in 0..n {
        // SAFETY: the caller promises n bytes at both.
        let (x, y) = unsafe { (a.add(i).read_volatile(), b.add(i).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// BSD's `bcmp`.
///
/// # Safety
/// As C's `memcmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(a, b, n) }
}

/// C's `strlen`.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strlen(s: *const u8) -> usize {
    let mut n = 0;
    // SAFETY: the caller promises a zero byte at the end.
    while unsafe { s.add(n).read_volatile() } != 0 {
        n += 1;
    }
    n
}
