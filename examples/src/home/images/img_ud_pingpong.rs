//! `img_ud_pingpong`: ud_pingpong as a machine of its own.
#![no_std]
#![no_main]

use bareverbs_examples::{home::unikernel, options::Program};
use bareverbs_unikernel::Machine;

bareverbs_unikernel::entry!(main);

fn main(machine: &'static Machine) -> u8 {
    unikernel::ping_pong(machine, Program::UdPingpong)
}
