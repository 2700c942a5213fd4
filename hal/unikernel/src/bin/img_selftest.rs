//! `img_selftest`: says what the machine is, checks memory and the HAL's promises on every PCI function with registers,
//! and ends with status 0 if all holds. With an argument it ends in the way that the argument names instead, so that a
//! test can see that end: see [`ENDS`].
#![no_std]
#![no_main]

use bareverbs_hal::{Be32, Dma, PciFunction};
use bareverbs_hal_conformance::{Broken, Edu, NoEngine, Outcome, run};
use bareverbs_unikernel::{Function, FunctionInfo, Machine, println};
use core::{arch::asm, hint::black_box, ptr::NonNull};
use volatile_register::RW;

bareverbs_unikernel::entry!(main);

fn main(machine: &'static Machine) -> u8 {
    let mut arguments = machine.arguments();
    if let Some(wanted) = arguments.next() {
        return match ENDS.iter().find(|(name, _)| *name == wanted) {
            Some((_, end)) => end(machine),
            None => {
                println!("img_selftest: no end is called '{wanted}'");
                2
            }
        };
    }
    describe(machine);
    let mut broken = 0;
    let mut report = |name: &str, outcome: Outcome| match outcome {
        Ok(()) => println!("ok      {name}"),
        Err(e) => println!("BROKEN  {name}: {e}"),
    };
    let free = machine.pool().free_bytes();
    for below in [u64::MAX, 1 << 32] {
        broken += memory(machine, below);
    }
    broken += floating_point();
    for info in machine.functions().filter(|f| is_conforming(f)) {
        println!("{}", info.address);
        match machine.open(info.address) {
            Ok(f) if f.config_read32(0) == Edu::ID => broken += run(&f, &mut Edu, &mut report),
            Ok(f) => {
                broken += run(&f, &mut NoEngine, &mut report);
                if f.id() == SHARED_MEMORY {
                    let outcome = windows(&f);
                    broken += usize::from(outcome.is_err());
                    report("both windows show the same memory", outcome);
                }
            }
            Err(e) => {
                broken += 1;
                println!("BROKEN  {e}");
            }
        }
    }
    // Page tables stay.
    println!("{} KiB of memory did not come back", (free - machine.pool().free_bytes()) >> 10);
    println!("{broken} broken");
    u8::from(broken > 0)
}

/// Functions with registers; not bridges of any kind.
fn is_conforming(f: &FunctionInfo) -> bool {
    const BRIDGE: u32 = 6;
    f.class >> 24 != BRIDGE && f.memory_bars().any(|(_, address, _)| address != 0)
}

fn describe(machine: &Machine) {
    println!("clock: {} MHz, from {:?}", machine.clock().hz() / 1_000_000, machine.clock().source());
    for ram in machine.ram() {
        println!("RAM: {:#x} to {:#x}", ram.start, ram.end);
    }
    println!("free: {} MiB", machine.pool().free_bytes() >> 20);
    for f in machine.functions() {
        println!("PCI: {} {:04x}:{:04x} class {:06x}", f.address, f.vendor, f.device, f.class >> 8);
        for (n, address, len) in f.memory_bars() {
            println!("     BAR {n} at {address:#x}, {} KiB", len >> 10);
        }
    }
}

const BLOCK: usize = 2 << 20;
const PAGE: usize = 4096;

/// 64 MiB: more would only take longer.
const BLOCKS: u64 = 32;

/// Takes blocks of the highest memory below an address, writes its own address to each page, and reads all of it again.
fn memory(machine: &Machine, below: u64) -> usize {
    struct Block {
        next: Option<NonNull<Block>>,
    }
    let free = machine.pool().free_bytes();
    let (mut first, mut blocks) = (None, 0u64);
    while blocks < BLOCKS {
        let Some(block) = machine.pool().take(BLOCK, PAGE, below) else { break };
        if first.is_none() {
            println!("memory: the highest block below {below:#x} is at {block:p}");
        }
        for offset in (PAGE / 2..BLOCK).step_by(PAGE) {
            // SAFETY: inside the block, which is ours.
            let word = unsafe { block.add(offset).cast::<u64>() };
            // SAFETY: as above; half a page is aligned.
            unsafe { word.write_volatile(word.as_ptr() as u64) };
        }
        let block = block.cast::<Block>();
        // SAFETY: ours, and aligned to a page.
        unsafe { block.write(Block { next: first }) };
        first = Some(block);
        blocks += 1;
    }
    let mut wrong = 0;
    while let Some(block) = first {
        for offset in (PAGE / 2..BLOCK).step_by(PAGE) {
            // SAFETY: inside the block, which is ours.
            let word = unsafe { block.byte_add(offset).cast::<u64>() };
            // SAFETY: as above.
            wrong += u64::from(unsafe { word.read_volatile() } != word.as_ptr() as u64);
        }
        // SAFETY: written above.
        first = unsafe { block.read() }.next;
        // SAFETY: it came from the pool with this length.
        unsafe { machine.pool().give(block.cast(), BLOCK) };
    }
    let back = machine.pool().free_bytes() == free;
    println!(
        "memory: {blocks} blocks of 2 MiB, {wrong} pages wrong, {}",
        if back { "all came back" } else { "SOME LOST" }
    );
    usize::from(wrong > 0 || !back || blocks < BLOCKS)
}

/// Numbers that only come out right if the floating-point unit, or what stands for it, is set up.
fn floating_point() -> usize {
    let third = black_box(1.0f64) / black_box(3.0);
    println!("1/3 = {third:.6}");
    usize::from((third * 3.0 - 1.0).abs() > 1e-12)
}

/// QEMU's ivshmem (docs/specs/ivshmem-spec.rst): BAR 2 is plain memory.
const SHARED_MEMORY: (u16, u16) = (0x1af4, 0x1110);

/// Writes to the ends of the BAR through the write-combining window, and reads through the uncached one.
fn windows(f: &Function) -> Outcome {
    let refused = |e| Broken::Refused("BAR 2", e);
    let bar = f.bar(2).map_err(refused)?;
    if !bar.has_write_combining() {
        return Err(Broken::Promise("prefetchable memory has a write-combining window", 2));
    }
    for (value, offset) in [(0x0123_4567, 0), (0x89ab_cdef, bar.len() - 4)] {
        // SAFETY: volatile cells, of which the function outlives the references.
        let (to, from): (&RW<Be32>, &RW<Be32>) =
            unsafe { (bar.wc_register(offset).map_err(refused)?, bar.register(offset).map_err(refused)?) };
        f.write32(to, value);
        f.mmio_wmb();
        if f.read32(from) != value {
            return Err(Broken::Promise("what one window writes the other reads", offset as u64));
        }
    }
    Ok(())
}

type End = fn(&'static Machine) -> u8;

/// The ways an image can end.
const ENDS: &[(&str, End)] = &[
    ("status-7", |_| 7),
    ("panic", |_| panic!("on request")),
    // SAFETY: the exception is what is asked for.
    ("divide", |_| unsafe {
        asm!("div {0:e}", in(reg) 0, inout("eax") 1 => _, inout("edx") 0 => _);
        1
    }),
    // SAFETY: the exception is what is asked for.
    ("breakpoint", |_| unsafe {
        asm!("int3");
        1
    }),
    // SAFETY: the exception is what is asked for.
    ("invalid-opcode", |_| unsafe {
        asm!("ud2");
        1
    }),
    // SAFETY: the exception is what is asked for: the address is not canonical.
    ("protection", |_| unsafe {
        asm!("mov {0}, [{0}]", inout(reg) 1u64 << 63 => _);
        1
    }),
    // SAFETY: the exception is what is asked for: the first page is not mapped.
    ("null", |_| unsafe {
        asm!("mov {0}, [{0}]", inout(reg) 8u64 => _);
        1
    }),
    // SAFETY: the exception is what is asked for: nothing is mapped there.
    ("wild", |_| unsafe {
        asm!("mov {0}, [{0}]", inout(reg) 0x7000_0000_0000u64 => _);
        1
    }),
    // SAFETY: the exception is what is asked for: code cannot be written.
    ("write-code", |_| unsafe {
        asm!("mov [{0}], {0}", in(reg) main as *const () as u64);
        1
    }),
    // SAFETY: the exception is what is asked for: data cannot be run.
    ("run-data", |machine| unsafe { asm!("jmp {}", in(reg) machine, options(noreturn)) }),
    ("stack", |_| deeper(black_box(1)) as u8),
    ("silence", silence),
    ("hang", |_| {
        loop {
            core::hint::spin_loop()
        }
    }),
];

/// Needs more stack than there is.
#[allow(unconditional_recursion, reason = "the end that is asked for")]
fn deeper(n: u64) -> u64 {
    let page = black_box([n; 256]);
    deeper(n + 1) + page[0]
}

/// Panics with a function's bus mastering on; a monitor can see that it is off after.
fn silence(machine: &'static Machine) -> u8 {
    let Some(info) = machine.functions().find(|f| is_conforming(f)) else { return 1 };
    let (Ok(function), at) = (machine.open(info.address), info.address) else { return 1 };
    // SAFETY: nobody told the function of memory.
    if unsafe { function.set_bus_master(true) }.is_err() {
        return 1;
    }
    println!("{at}: command {:#06x}", function.config_read32(4) & 0xffff);
    panic!("with bus mastering on")
}
