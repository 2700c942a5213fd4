//! `cargo xtask`: the tests, the tools they need, and the Linux guests they run in.
//!
//! Nothing is installed on the machine. What a command needs is taken from `PATH`, or unpacked out of Debian packages
//! into `target/tools/`; see [`debs`].

use clap::{Parser, Subcommand};
use std::process::ExitCode;

mod bench;
mod debs;
mod gates;
mod guest;
mod image;
mod judges;
mod linux;
mod linux_cases;
mod linux_opcodes;
mod linux_speed;
mod mixed;
mod mutants;
mod qemu;
mod shell;
mod soak;
mod test;
mod tools;
mod workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Runs the tests and gets the tools they need", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The gate: every group of tests, one after the other
    Test(test::Args),
    /// The long runs, resumable; writes a dated summary into docs/soak.md
    Soak(soak::Args),
    /// Change the code in small ways and see whether a test notices; resumable; writes docs/mutants.md
    Mutants(mutants::Args),
    /// Measure what posting and polling cost
    Bench(bench::Args),
    /// Run a command in Linux guests with modelled cards
    Linux(linux::Options),
    /// Measure the modelled card under QEMU, beside Linux's RoCE in software
    LinuxSpeed,
    /// Build a program that is a machine of its own, and print where it is
    Image(image::Args),
    /// Boot one image, or two against each other, with modelled cards
    Qemu(qemu::Options),
    /// Get an outside tool and run it
    Tool(tools::Args),
}

fn main() -> ExitCode {
    let outcome = match Args::parse().command {
        Command::Test(args) => test::main(&args),
        Command::Soak(args) => soak::main(&args),
        Command::Mutants(args) => mutants::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Linux(options) => linux::main(&options),
        Command::LinuxSpeed => linux_speed::main(),
        Command::Image(args) => image::main(&args),
        Command::Qemu(options) => qemu::main(&options),
        Command::Tool(args) => tools::main(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
