//! The bareverbs HAL on bare x86_64: no operating system below, the program is the machine.
//!
//! A PVH loader (QEMU's `-kernel`, Firecracker, Cloud Hypervisor) starts the image in 32-bit mode; from there this crate
//! goes to long mode, maps RAM at its own addresses, reads ACPI, calibrates the clock, walks PCI, and calls the function
//! that [`entry`] names with the [`Machine`]. [`Machine::open`] gives a [`Function`], on which a driver runs.
//!
//! Everything is polled: interrupts stay off. One processor runs; the others are left where firmware parked them.
//! Without the feature `image` there is no entry, no trap and no panic handler: for who has their own, and for tests.
//!
//! Exceptions and panics are reported on the serial port and end the machine, after bus mastering of every open
//! function was turned off; see [`exit`].
//!
//! On other processors only what does not depend on them is there: ACPI's tables, PCI, the pool, the command line.
#![cfg_attr(not(test), no_std)]
#![cfg_attr(not(all(feature = "image", target_arch = "x86_64")), allow(dead_code, reason = "what only an entry calls"))]

pub mod acpi;
mod bars;
pub mod cmdline;
mod config;
pub mod memory;
mod pci;

#[cfg(target_arch = "x86_64")]
mod access;
#[cfg(all(target_arch = "x86_64", feature = "image"))]
mod boot;
#[cfg(target_arch = "x86_64")]
pub mod clock;
#[cfg(target_arch = "x86_64")]
pub mod exit;
#[cfg(target_arch = "x86_64")]
mod function;
#[cfg(target_arch = "x86_64")]
mod machine;
#[cfg(all(target_arch = "x86_64", feature = "image", not(target_os = "none")))]
mod mem;
#[cfg(target_arch = "x86_64")]
mod paging;
#[cfg(target_arch = "x86_64")]
mod port;
#[cfg(target_arch = "x86_64")]
pub mod serial;
#[cfg(all(target_arch = "x86_64", feature = "image"))]
mod trap;

pub use bars::BarInfo;
#[cfg(target_arch = "x86_64")]
pub use function::Function;
#[cfg(target_arch = "x86_64")]
pub use machine::{MAX_RAM, Machine, OpenError, StartError};
#[cfg(target_arch = "x86_64")]
pub use paging::MapError;
pub use pci::FunctionInfo;

/// Names the function that an image runs: `fn(&'static Machine) -> u8`, whose result is the image's exit status.
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[unsafe(no_mangle)]
        fn bareverbs_main(machine: &'static $crate::Machine) -> u8 {
            let main: fn(&'static $crate::Machine) -> u8 = $main;
            main(machine)
        }
    };
}

/// Prints a line on the serial port.
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! println {
    ($($arguments:tt)*) => {{
        // The serial port takes all.
        let _ = ::core::fmt::Write::write_fmt(
            &mut $crate::serial::Serial,
            ::core::format_args!("{}\n", ::core::format_args!($($arguments)*)),
        );
    }};
}
