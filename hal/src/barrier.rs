//! Barriers between the CPU and a device that reads and writes coherent memory.
//!
//! x86: normal stores are seen in order, loads are not passed by older loads, and an uncached register write drains
//! after older write-back stores, so each barrier only stops the compiler (`compiler_fence`). aarch64: the device is
//! an observer in the outer shareable domain, which Rust's fences (inner shareable) do not order, so the instructions
//! stand here themselves. Other architectures get the strongest fence Rust has and must check it against their manual.
//!
//! Write-combined registers (BlueFlame) are weakly ordered even on x86: [`wc_wmb`] is `sfence` there.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
use core::sync::atomic::fence;
#[cfg(target_arch = "x86_64")]
use core::sync::atomic::{Ordering, compiler_fence};

/// Stores to DMA memory before it are seen by the device before stores after it (WQE before doorbell record).
#[inline(always)]
pub fn dma_wmb() {
    #[cfg(target_arch = "x86_64")]
    compiler_fence(Ordering::Release);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier instruction touches neither memory nor registers.
    unsafe {
        core::arch::asm!("dmb oshst", options(nostack, preserves_flags))
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fence(core::sync::atomic::Ordering::Release);
}

/// Loads from DMA memory after it are not satisfied before loads before it (owner byte before the rest of a CQE).
#[inline(always)]
pub fn dma_rmb() {
    #[cfg(target_arch = "x86_64")]
    compiler_fence(Ordering::Acquire);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier instruction touches neither memory nor registers.
    unsafe {
        core::arch::asm!("dmb oshld", options(nostack, preserves_flags))
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fence(core::sync::atomic::Ordering::Acquire);
}

/// Stores to DMA memory and registers before it reach the device before uncached register writes after it
/// (doorbell record before doorbell).
#[inline(always)]
pub fn mmio_wmb() {
    // An uncached store of x86 does not pass older stores (Intel SDM volume 3, "Memory Ordering").
    #[cfg(target_arch = "x86_64")]
    compiler_fence(Ordering::Release);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier instruction touches neither memory nor registers.
    unsafe {
        core::arch::asm!("dsb st", options(nostack, preserves_flags))
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fence(core::sync::atomic::Ordering::SeqCst);
}

/// All stores before it reach the device before all stores after it, those to write-combining windows too: stands
/// before a BlueFlame burst and behind it.
#[inline(always)]
pub fn wc_wmb() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86_64; the instruction only orders stores.
    unsafe {
        core::arch::x86_64::_mm_sfence()
    };
    #[cfg(not(target_arch = "x86_64"))]
    mmio_wmb();
}
