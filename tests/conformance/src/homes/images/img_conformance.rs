//! `img_conformance`: the suite as a machine of its own.
#![no_std]
#![no_main]

use bareverbs_conformance::homes::unikernel::{self, Heap};
use bareverbs_unikernel::Machine;

#[global_allocator]
static HEAP: Heap = Heap::new();

bareverbs_unikernel::entry!(main);

fn main(machine: &'static Machine) -> u8 {
    unikernel::main(machine, &HEAP)
}
