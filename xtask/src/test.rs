//! `cargo xtask test`: the table of groups, and the runner.
//!
//! To add a group, write a function `fn(&Bench) -> Result<Tally>` and give it a line in [`GROUPS`].
//! A group that cannot run is an error, and an error counts as failed: nothing is skipped in silence.

use crate::gates;
use crate::judges::{libmlx5, raw, wire};
use crate::mutants;
use crate::shell::Shell;
use crate::workspace::Workspace;
use anyhow::{Result, bail};
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub mod cargo;
mod conformance;
mod examples;
mod image;
mod linux;
mod vfio;
pub mod workload;

#[derive(clap::Args)]
pub struct Args {
    /// Leave out the groups that need QEMU
    #[arg(long)]
    host: bool,
    /// List the groups and run none
    #[arg(long)]
    list: bool,
    /// Run only the group of this name, or those whose name contains it
    filter: Option<String>,
}

/// What a group needs besides Rust and the tools it unpacks for itself.
#[derive(Clone, Copy, PartialEq)]
enum Needs {
    Host,
    Qemu,
}
use Needs::*;

/// A name, what it needs, and what it runs.
type Group = (&'static str, Needs, fn(&Bench) -> Result<Tally>);

/// The groups in the order they run: cheap ones first.
const GROUPS: &[Group] = &[
    ("fmt", Host, cargo::fmt),
    ("clippy", Host, cargo::clippy),
    ("tests", Host, cargo::tests),
    ("doc", Host, cargo::doc),
    ("repo", Host, gates::repo::run),
    ("arrows", Host, gates::arrows::run),
    ("no-alloc", Host, gates::no_alloc::run),
    ("no-panic", Host, gates::no_panic::run),
    ("aarch64-barriers", Host, gates::barriers::run),
    ("hal-bypass", Host, gates::hal_bypass::run),
    ("explore", Host, gates::explore::run),
    ("weak-memory", Host, gates::weak_memory::run),
    ("bench-instructions", Host, gates::instructions::run),
    ("libmlx5-differential", Host, libmlx5::differential),
    ("examples", Host, examples::run),
    ("seeds", Host, examples::seeds),
    ("conformance", Host, conformance::run),
    ("workload", Host, workload::run),
    ("wire-judges", Host, wire::self_test),
    ("wire-formats", Host, wire::formats),
    ("wire-examples", Host, examples::wire),
    ("wire-raw", Host, raw::run),
    ("mutants-diff", Host, mutants::diff),
    ("guide", Host, image::guide),
    ("image-build", Host, image::build),
    ("image-selftest", Qemu, image::selftest),
    ("image-ends", Qemu, image::ends),
    ("image-icount", Qemu, image::icount),
    ("image-pingpong", Qemu, image::ping_pong),
    ("image-boot-time", Qemu, image::boot_time),
    ("image-linux", Qemu, image::linux),
    ("conformance-image", Qemu, conformance::image),
    ("image-rxe", Qemu, image::rxe),
    ("image-guest", Qemu, image::guest),
    ("linux-boot", Qemu, linux::boot),
    ("linux-ib-6.1", Qemu, linux::ib_old_kernel),
    ("linux-ib", Qemu, linux::ib),
    ("linux-opensm", Qemu, linux::opensm),
    ("linux-ib-two-guests", Qemu, linux::ib_two_guests),
    ("linux-ib-iommu", Qemu, linux::ib_iommu),
    ("linux-ib-data", Qemu, linux::ib_data),
    ("linux-ib-damage", Qemu, linux::ib_damage),
    ("linux-wire", Qemu, linux::wire),
    ("linux-ib-lifecycle", Qemu, linux::ib_lifecycle),
    ("linux-ib-umr", Qemu, linux::ib_umr),
    ("linux-ib-vfio", Qemu, linux::ib_vfio),
    ("linux-roce-6.1", Qemu, linux::roce_old_kernel),
    ("linux-roce", Qemu, linux::roce),
    ("linux-roce-two-guests", Qemu, linux::roce_two_guests),
    ("linux-ethernet", Qemu, linux::ethernet),
    ("linux-ethernet-6.1-iommu", Qemu, linux::ethernet_old_kernel_iommu),
    ("linux-roce-data", Qemu, linux::roce_data),
    ("linux-rxe", Qemu, linux::rxe),
    ("vfio-hal", Qemu, vfio::hal),
    ("vfio-preflight", Qemu, vfio::preflight),
    ("vfio-pair", Qemu, vfio::pair),
    ("vfio-pair-roce", Qemu, vfio::pair_roce),
    ("vfio-kernel", Qemu, vfio::kernel),
    ("vfio-kernel-roce", Qemu, vfio::kernel_roce),
    ("conformance-vfio", Qemu, conformance::vfio),
    ("conformance-page", Qemu, conformance::page),
];

/// What a group works with.
pub struct Bench<'a> {
    pub workspace: &'a Workspace,
    pub shell: Shell,
}

/// Checks counted by a group. A check that was skipped is a failed one.
#[derive(Default, Clone)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    /// What to tell about the failed ones.
    pub complaints: Vec<String>,
    /// What to tell although nothing failed.
    pub warnings: Vec<String>,
    /// Figures that were found.
    pub notes: Vec<String>,
}

impl Tally {
    pub fn pass(&mut self) {
        self.passed += 1;
    }

    pub fn fail(&mut self, complaint: impl Into<String>) {
        self.failed += 1;
        self.complaints.push(complaint.into());
    }

    /// Counts a check that passed, or failed with an error.
    pub fn count(&mut self, outcome: Result<()>) {
        match outcome {
            Ok(()) => self.pass(),
            Err(error) => self.fail(format!("{error:#}")),
        }
    }

    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.complaints.extend(other.complaints);
        self.warnings.extend(other.warnings);
        self.notes.extend(other.notes);
    }
}

pub fn main(args: &Args) -> Result<ExitCode> {
    let exact = GROUPS.iter().any(|group| args.filter.as_deref() == Some(group.0));
    let wanted = |name: &str| match &args.filter {
        Some(filter) if exact => name == filter,
        Some(filter) => name.contains(filter.as_str()),
        None => true,
    };
    let groups: Vec<&Group> = GROUPS.iter().filter(|g| wanted(g.0) && !(args.host && g.1 == Qemu)).collect();
    if groups.is_empty() {
        let name = args.filter.as_deref().unwrap_or_default();
        bail!("no group's name contains '{name}'; `cargo xtask test --list` names them");
    }
    if args.list {
        for (name, needs, _) in groups {
            println!("{name}{}", if *needs == Qemu { " (needs QEMU)" } else { "" });
        }
        return Ok(ExitCode::SUCCESS);
    }
    let workspace = Workspace::read()?;
    let started = Instant::now();
    let mut rows = Vec::new();
    let mut total = Tally::default();
    let mut twice = Vec::new();
    for (i, (name, needs, run)) in groups.iter().enumerate() {
        println!("[{}/{}] {name}", i + 1, groups.len());
        let (mut tally, mut time) = run_group(&workspace, name, name, *run)?;
        if *needs == Qemu && tally.failed > 0 {
            // Emulated machines share two processors with whatever else runs here, and their kernels complain of it in
            // ever new ways. What fails twice is a fault; what failed once is told at the end too.
            println!("      once more, since the group emulates machines");
            let (again, more) = run_group(&workspace, name, &format!("{name}-again"), *run)?;
            if again.failed == 0 {
                twice.push(format!("{name}: {}", tally.complaints.join("; ")));
            }
            (tally, time) = (again, time + more);
        }
        rows.push((*name, tally.passed, tally.failed, time));
        total.add(tally);
    }
    print_summary(&rows, started.elapsed());
    for line in twice {
        println!("passed only the second time: {line}\n");
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one group and tells what it found.
fn run_group(
    workspace: &Workspace,
    name: &str,
    log: &str,
    run: fn(&Bench) -> Result<Tally>,
) -> Result<(Tally, Duration)> {
    let started = Instant::now();
    let bar = Shell::spinner();
    bar.set_prefix(name.to_owned());
    let log = workspace.target.join("xtask/log").join(format!("{log}.log"));
    let bench = Bench { workspace, shell: Shell::new(log, bar.clone())? };
    let mut tally = run(&bench).unwrap_or_else(|error| {
        let mut tally = Tally::default();
        tally.fail(format!("{error:#}"));
        tally
    });
    if tally.passed + tally.failed == 0 {
        tally.fail("nothing was checked");
    }
    bar.finish_and_clear();
    for line in &tally.notes {
        println!("      {line}");
    }
    for line in &tally.warnings {
        println!("warning: {line}");
    }
    for line in &tally.complaints {
        println!("FAILED: {line}");
    }
    let time = started.elapsed();
    println!("      {} passed, {} failed, {:.1} s", tally.passed, tally.failed, time.as_secs_f64());
    if tally.failed > 0 {
        println!("      log: {}", bench.shell.log_path.display());
    }
    Ok((tally, time))
}

fn print_summary(rows: &[(&str, usize, usize, Duration)], time: Duration) {
    println!("\n{:<20} {:>8} {:>8} {:>9}", "group", "passed", "failed", "seconds");
    for (name, passed, failed, time) in rows {
        println!("{name:<20} {passed:>8} {failed:>8} {:>9.1}", time.as_secs_f64());
    }
    println!("{:<20} {:>8} {:>8} {:>9.1}\n", "all", "", "", time.as_secs_f64());
}
