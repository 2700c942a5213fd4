//! `img_devinfo`: devinfo as a machine of its own.
#![no_std]
#![no_main]

use bareverbs_examples::home::unikernel;
use bareverbs_unikernel::Machine;

bareverbs_unikernel::entry!(main);

fn main(machine: &'static Machine) -> u8 {
    unikernel::devinfo(machine)
}
