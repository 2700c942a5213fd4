//! The code that threads, and driver and device, share without a lock, under loom, which tries every interleaving and
//! every value that the memory model of C++ lets a load see.
//!
//! It is the code itself, not a copy: the files of `core` and of the mlx5 driver are compiled once more here, with the
//! atomics of [`sync`] in place of the processor's. [`models`] are small programs around it. Each model must hold; then
//! each Acquire and Release in these files (and the driver's barriers) is made Relaxed, one at a time, and some model
//! must fail: else the ordering is not needed, or a model is missing.
// The files have tests of their own, which are run where they belong.
#![cfg(not(test))]
#![allow(dead_code, reason = "the files have more than the models use")]

extern crate self as bareverbs;

use anyhow::{Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::process::{Command, ExitCode};

// What the files below find in `bareverbs`: these of its modules as they are, and the rest compiled here.
pub use bareverbs_core::{
    Completion, Error, Lid, Lkey, PlatformError, PollError, PostError, PostListError, QpState, QpType, Qpn, RecvWr,
    Sge, WcFlags, WcOpcode, WcStatus, cq,
};
#[path = "../../../core/src/latch.rs"]
mod latch;
#[path = "../../../core/src/srq.rs"]
pub mod srq;
#[path = "../../../core/src/wq.rs"]
pub mod wq;

#[path = "../../../drivers/mlx5/src/cq_ring.rs"]
mod cq_ring;
#[path = "../../../drivers/mlx5/src/cqe.rs"]
mod cqe;
#[path = "../../../drivers/mlx5/src/error.rs"]
mod error;
#[path = "../../../drivers/mlx5/src/record.rs"]
mod record;
#[path = "../../../drivers/mlx5/src/rq.rs"]
mod rq;
#[path = "../../../drivers/mlx5/src/target.rs"]
mod target;
#[path = "../../../drivers/mlx5/src/test_host.rs"]
mod test_host;
#[path = "../../../drivers/mlx5/src/users.rs"]
mod users;
#[path = "../../../drivers/mlx5/src/wqe.rs"]
mod wqe;

mod host;
mod models;
pub mod sync;

fn main() -> Result<ExitCode> {
    let mut args = env::args().skip(1);
    match (args.next(), args.next()) {
        (Some(model), site) => run_one(&model, site),
        _ => run_all(),
    }
}

/// Runs one model, with one site made Relaxed; prints how many interleavings there were, and the sites.
fn run_one(name: &str, weak: Option<String>) -> Result<ExitCode> {
    let Some((_, model)) = models::MODELS.iter().find(|model| model.0 == name) else { bail!("no model is {name}") };
    sync::weaken(weak);
    println!("{}", models::check(*model));
    for site in sync::sites() {
        println!("{site}");
    }
    Ok(ExitCode::SUCCESS)
}

/// What a child said: interleavings and sites; `None` if its model failed.
fn child(model: &str, weak: Option<&str>) -> Result<Option<(usize, BTreeSet<String>)>> {
    let output = Command::new(env::current_exe()?).arg(model).args(weak).output()?;
    if !output.status.success() {
        return Ok(None);
    }
    let text = String::from_utf8(output.stdout)?;
    let mut lines = text.lines();
    let count = lines.next().unwrap_or_default().parse()?;
    Ok(Some((count, lines.map(str::to_owned).collect())))
}

fn run_all() -> Result<ExitCode> {
    let mut sites: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, _) in models::MODELS {
        let Some((count, found)) = child(name, None)? else { bail!("{name} does not hold: run `weak_memory {name}`") };
        ensure!(count > 1, "{name} has one interleaving only");
        println!("{name}: {count} interleavings, holds");
        for site in found {
            sites.entry(site).or_default().push(name);
        }
    }
    let mut failed = false;
    for (site, models) in &sites {
        let mut by = None;
        for model in models {
            if child(model, Some(site))?.is_none() {
                by = Some(*model);
                break;
            }
        }
        match by {
            Some(model) => println!("{site} made Relaxed: {model} fails"),
            None => {
                failed = true;
                println!("FAILED: {site} made Relaxed: no model sees it");
            }
        }
    }
    println!("{} models, {} orderings", models::MODELS.len(), sites.len());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
