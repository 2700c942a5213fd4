//! Exceptions: said on the serial port with the registers, then the end. None is expected, none is gone on from.

use crate::{exit, serial::Serial};
use core::{arch::asm, cell::UnsafeCell, fmt::Write};

/// What `trap_common` leaves on the stack, lowest address first.
#[repr(C)]
struct Frame {
    /// rax, rbx, rcx, rdx, rsi, rdi, rbp, r8 to r15.
    registers: [u64; 15],
    vector: u64,
    error: u64,
    rip: u64,
    cs: u64,
    flags: u64,
    rsp: u64,
    ss: u64,
}

const REGISTERS: [&str; 15] =
    ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

/// Names of the vectors (Intel SDM volume 3, table 6-1).
const NAMES: [&str; 32] = [
    "divide error",
    "debug",
    "non-maskable interrupt",
    "breakpoint",
    "overflow",
    "bound range exceeded",
    "invalid opcode",
    "device not available",
    "double fault",
    "coprocessor segment overrun",
    "invalid TSS",
    "segment not present",
    "stack fault",
    "general protection",
    "page fault",
    "vector 15",
    "floating-point error",
    "alignment check",
    "machine check",
    "SIMD floating-point exception",
    "virtualization exception",
    "control protection",
    "vector 22",
    "vector 23",
    "vector 24",
    "vector 25",
    "vector 26",
    "vector 27",
    "vector 28",
    "vector 29",
    "security exception",
    "vector 31",
];

const CODE: u16 = 8;
const TSS: u16 = 24;

/// Vectors that may strike while another is being reported: they have a stack of their own.
const NMI: usize = 2;
const DOUBLE_FAULT: usize = 8;
const MACHINE_CHECK: usize = 18;

#[repr(C, align(16))]
struct Tables {
    gdt: [u64; 5],
    idt: [[u64; 2]; 32],
    /// The task state segment: nothing of it is used but the stacks, dwords 9 and on.
    tss: [u32; 26],
}

struct Cell(UnsafeCell<Tables>);

// SAFETY: written once, before anybody else runs.
unsafe impl Sync for Cell {}

static TABLES: Cell = Cell(UnsafeCell::new(Tables {
    gdt: [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff, 0, 0],
    idt: [[0; 2]; 32],
    tss: [0; 26],
}));

unsafe extern "C" {
    static trap_entries: u8;
    static __trap_stack_top: u8;
    static __fault_stack_top: u8;
}

#[repr(C, packed)]
struct Pointer {
    limit: u16,
    base: u64,
}

impl Pointer {
    fn to<T>(table: *const T) -> Self {
        Self { limit: (size_of::<T>() - 1) as u16, base: table as u64 }
    }
}

/// Makes exceptions come to us.
///
/// # Safety
/// Called once, at the entry.
pub(crate) unsafe fn set_up() {
    // SAFETY: the caller promises that nobody else has the tables.
    let tables = unsafe { &mut *TABLES.0.get() };
    let (trap, fault) = ((&raw const __trap_stack_top) as u64, (&raw const __fault_stack_top) as u64);
    for (i, stack) in [(9, trap), (11, fault)] {
        tables.tss[i] = stack as u32;
        tables.tss[i + 1] = (stack >> 32) as u32;
    }
    let tss = (&raw const tables.tss) as u64;
    let limit = size_of_val(&tables.tss) as u64 - 1;
    // An available 64-bit TSS.
    tables.gdt[3] = limit | (tss & 0xff_ffff) << 16 | 0x89 << 40 | (tss >> 24 & 0xff) << 56;
    tables.gdt[4] = tss >> 32;
    for (vector, gate) in tables.idt.iter_mut().enumerate() {
        let entry = (&raw const trap_entries) as u64 + 16 * vector as u64;
        let stack = if matches!(vector, NMI | DOUBLE_FAULT | MACHINE_CHECK) { 2 } else { 1 };
        // A present interrupt gate.
        gate[0] = entry & 0xffff | u64::from(CODE) << 16 | stack << 32 | 0x8e << 40 | (entry >> 16 & 0xffff) << 48;
        gate[1] = entry >> 32;
    }
    let (gdt, idt) = (Pointer::to(&raw const tables.gdt), Pointer::to(&raw const tables.idt));
    // SAFETY: the tables are static and complete; the segments in use are the same in the new table as in the old.
    unsafe {
        asm!("lgdt [{}]", "lidt [{}]", "ltr {:x}", in(reg) &gdt, in(reg) &idt, in(reg) TSS,
             options(readonly, nostack, preserves_flags));
    }
}

/// Called by `trap_common`.
#[unsafe(no_mangle)]
extern "C" fn trap_report(frame: &Frame) -> ! {
    let fault_address: u64;
    // SAFETY: reading the register has no effect.
    unsafe { asm!("mov {}, cr2", out(reg) fault_address, options(nomem, nostack, preserves_flags)) };
    crate::boot::silence();
    let vector = frame.vector as usize % NAMES.len();
    // The serial port takes all.
    let mut out = Serial;
    let _ = writeln!(
        out,
        "\nexception: {} (vector {vector}, error {:#x}) at {:#x}, address {fault_address:#x}",
        NAMES[vector], frame.error, frame.rip
    );
    let _ = writeln!(out, "flags {:#x} cs {:#x} ss {:#x} rsp {:#x}", frame.flags, frame.cs, frame.ss, frame.rsp);
    for (i, (name, value)) in REGISTERS.iter().zip(frame.registers).enumerate() {
        let _ = write!(out, "{name} {value:#x}{}", if i % 5 == 4 { "\n" } else { " " });
    }
    exit::stop(exit::TRAPPED + vector as u8)
}
