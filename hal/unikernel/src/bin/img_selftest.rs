//! `img_selftest`
#![no_std]
#![no_main]

use bareverbs_unikernel::{Machine, serial::Serial};
use core::fmt::Write;

bareverbs_unikernel::entry!(main);

fn main(machine: &'static Machine) -> u8 {
    let _ = writeln!(Serial, "clock {} Hz from {:?}", machine.clock().hz(), machine.clock().source());
    for f in machine.functions() {
        let _ = writeln!(Serial, "{} {:04x}:{:04x} class {:08x} {:x?}", f.address, f.vendor, f.device, f.class, f.bars);
    }
    for r in machine.ram() {
        let _ = writeln!(Serial, "ram {:#x}..{:#x}", r.start, r.end);
    }
    let _ = writeln!(Serial, "free {:#x}", machine.pool().free_bytes());
    3
}
