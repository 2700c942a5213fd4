//! From the loader to the program: reads what a PVH loader hands over, and makes the [`Machine`] of it.

use crate::{
    exit,
    machine::{MAX_RAM, Machine, Start, StartError},
    memory::{Pool, Range, without},
    paging::{Kind, MapError, Paging},
    serial::Serial,
    trap,
};
use core::{
    arch::global_asm,
    ffi::CStr,
    fmt::Write,
    panic::PanicInfo,
    slice,
    sync::atomic::{AtomicBool, Ordering},
};
use heapless::Vec;
use spin::Once;

global_asm!(include_str!("boot.s"), options(att_syntax));
global_asm!(include_str!("trap.s"), options(att_syntax));

static MACHINE: Once<Machine> = Once::new();

/// hvm_start_info, version 1 (xen/include/public/arch-x86/hvm/start_info.h).
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

const MAGIC: u32 = 0x336e_c578;

/// hvm_modlist_entry.
#[repr(C)]
#[derive(Clone, Copy)]
struct Module {
    address: u64,
    len: u64,
    command_line: u64,
    reserved: u64,
}

/// hvm_memmap_table_entry.
#[repr(C)]
#[derive(Clone, Copy)]
struct Memory {
    address: u64,
    len: u64,
    kind: u32,
    reserved: u32,
}

/// Memory and modules that we are told of; what a longer list says besides is not used.
const MAX_MAP: usize = 128;
const MAX_MODULES: usize = 8;

const RAM: u32 = 1;
const MIB: u64 = 1 << 20;
const FOUR_GIB: u64 = 1 << 32;
const PAGE: u64 = 4096;

unsafe extern "C" {
    static __image_start: u8;
    static __text_end: u8;
    static __rodata_end: u8;
    static __stack_guard: u8;
    static __image_end: u8;
}

unsafe extern "Rust" {
    /// Made by [`crate::entry`].
    safe fn bareverbs_main(machine: &'static Machine) -> u8;
}

/// Called by `pvh_start` with what the loader hands over.
#[unsafe(no_mangle)]
unsafe extern "C" fn rust_start(info: *const StartInfo) -> ! {
    Serial::set_up();
    // SAFETY: this is the entry, which runs once.
    unsafe { trap::set_up() };
    // SAFETY: the loader's promise, on the boot tables that map the first 4 GiB.
    let machine = unsafe { start(info) };
    match machine {
        Ok(machine) => exit::end(bareverbs_main(MACHINE.call_once(|| machine))),
        Err(e) => panic!("this machine cannot be used: {e}"),
    }
}

/// # Safety
/// `info` is what a PVH loader hands over; the first 4 GiB are mapped; nobody uses RAM outside the image.
unsafe fn start(info: *const StartInfo) -> Result<Machine, StartError> {
    // SAFETY: the caller's promise.
    let info = unsafe { info.read() };
    assert!(info.magic == MAGIC && info.version >= 1, "the loader is not a PVH loader with a memory map");
    // Copies, since all this may lie in the first page, which is not going to be mapped.
    // SAFETY: the loader's arrays have these lengths.
    let (map, modules) = unsafe {
        (
            array::<_, MAX_MAP>(info.memory_map as *const Memory, info.memory_map_entries),
            array::<_, MAX_MODULES>(info.module_list as *const Module, info.modules),
        )
    };
    let range = |m: &Memory| Range::new(m.address, m.len);
    let reserved: Vec<_, MAX_MAP> = map.iter().filter(|m| m.kind != RAM).map(range).collect();
    let modules = modules.iter().map(|m| Range::new(m.address, m.len));
    // Firmware's data, and what the loader hands over, lie in the first MiB.
    let first = [Range::new(0, MIB), image()];
    let cuts: Vec<_, { MAX_MAP + MAX_MODULES + 2 }> = reserved.iter().copied().chain(modules).chain(first).collect();
    let ram = || map.iter().filter(|m| m.kind == RAM).map(range);

    let pool = Pool::new();
    let add = |part: Range| {
        // SAFETY: RAM that is mapped, outside the image and what is reserved.
        without(part, &cuts, &mut |free| unsafe { pool.add(free) });
    };
    ram().for_each(|r| add(Range { end: r.end.min(FOUR_GIB), ..r }));
    // SAFETY: the loader's string ends with a zero.
    let command_line = unsafe { copy(&pool, info.command_line as *const i8)? };
    let (paging, ram_mapped) = map_memory(&pool, ram(), &reserved)?;
    // SAFETY: the image, its stack and all RAM are mapped.
    unsafe { paging.load() };
    ram().for_each(|r| add(Range { start: r.start.max(FOUR_GIB), ..r }));

    Machine::new(Start {
        pool,
        paging,
        command_line,
        ram: ram_mapped,
        taken: map.iter().map(range).collect(),
        rsdp: info.rsdp,
    })
}

fn image() -> Range {
    Range { start: (&raw const __image_start) as u64, end: (&raw const __image_end) as u64 }
}

/// Maps the image by what is in it, and RAM around it. The first page and the one below the stack stay out: who goes
/// there has a wild pointer, or too little stack.
fn map_memory(
    pool: &Pool,
    ram: impl Iterator<Item = Range>,
    reserved: &[Range],
) -> Result<(Paging, Vec<Range, MAX_RAM>), MapError> {
    let paging = Paging::new(pool)?;
    let [text, rodata, guard] =
        [&raw const __text_end, &raw const __rodata_end, &raw const __stack_guard].map(|end| end as u64);
    let Range { start, end } = image();
    for (start, end, kind) in [
        (start, text, Kind::Code),
        (text, rodata, Kind::Constants),
        (rodata, guard, Kind::Data),
        (guard + PAGE, end, Kind::Data),
    ] {
        paging.map(pool, Range { start, end }, kind)?;
    }
    let mut known = Vec::new();
    let mut outcome = Ok(());
    for r in ram {
        let whole = Range { start: r.start.max(PAGE), end: r.end };
        without(whole, reserved, &mut |part| {
            // Only whole pages are RAM.
            let part = Range { start: part.start.next_multiple_of(PAGE), end: part.end & !(PAGE - 1) };
            if part.start < part.end && known.push(part).is_ok() {
                without(part, &[image()], &mut |part| {
                    outcome = outcome.and(paging.map(pool, part, Kind::Data).map(drop));
                });
            }
        });
    }
    outcome.map(|()| (paging, known))
}

/// A copy of the loader's array, as far as we have room for it.
///
/// # Safety
/// `len` values are there, or none, and the pointer is null.
unsafe fn array<T: Copy, const N: usize>(first: *const T, len: u32) -> Vec<T, N> {
    let len = if first.is_null() { 0 } else { len as usize };
    // SAFETY: the caller's promise.
    (0..len.min(N)).map(|i| unsafe { first.add(i).read() }).collect()
}

/// A copy of the loader's string. What is not UTF-8 counts as no command line.
///
/// # Safety
/// The string ends with a zero, or the pointer is null.
unsafe fn copy(pool: &Pool, string: *const i8) -> Result<&'static str, MapError> {
    if string.is_null() {
        return Ok("");
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(string) }.to_bytes();
    let copy = pool.take(bytes.len().max(1), 1, FOUR_GIB).ok_or(MapError::NoMemory)?;
    // SAFETY: the pool gave as many bytes, and they are never given back.
    let copy = unsafe {
        copy.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        slice::from_raw_parts(copy.as_ptr(), bytes.len())
    };
    Ok(core::str::from_utf8(copy).unwrap_or(""))
}

/// Keeps devices from writing to memory, before the end is reported.
pub(crate) fn silence() {
    if let Some(machine) = MACHINE.get() {
        machine.silence();
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    static PANICKING: AtomicBool = AtomicBool::new(false);
    if !PANICKING.swap(true, Ordering::Relaxed) {
        silence();
        // The serial port takes all.
        let _ = writeln!(Serial, "\n{info}");
    }
    exit::stop(exit::PANICKED)
}
