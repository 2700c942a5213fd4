//! `cargo xtask bench`: what posting and polling cost, in time and in instructions, beside the bench of libmlx5.

use crate::shell::Shell;
use crate::workspace::Workspace;
use anyhow::Result;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

mod chart;
pub mod instructions;
mod peer;
mod scale;
mod table;
pub mod times;

#[derive(clap::Args)]
pub struct Args {
    /// Print `case,ns_min,ns_median,instructions` and nothing else
    #[arg(long)]
    csv: bool,
    /// Run this bench of libmlx5 in turn with ours, and compare
    #[arg(long)]
    peer: Option<PathBuf>,
    /// Write a chart
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Many QPs on one CQ beside libmlx5 with as many, small and large CQs and SRQs instead
    #[arg(long)]
    scale: bool,
    /// Rounds a case
    #[arg(long, default_value_t = 1000)]
    rounds: usize,
    /// CPU to run on
    #[arg(long, default_value_t = 1)]
    cpu: usize,
    /// Only cases whose name contains this
    filter: Option<String>,
}

/// A case: its name as both benches have it, and what it cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub case: String,
    pub ns_min: f64,
    pub ns_median: f64,
    /// Instructions an operation.
    pub instructions: f64,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::read()?;
    let bar = Shell::spinner();
    let shell = Shell::new(workspace.target.join("xtask/log/bench.log"), bar.clone())?;
    if args.scale {
        let scale = scale::measure(&workspace, &shell, args.rounds, args.cpu)?;
        bar.finish_and_clear();
        print!("{}", scale.table()?);
        if let Some(file) = &args.svg {
            fs::write(file, scale.svg())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let bench = times::Ours::build(&workspace, &shell)?;
    let run = times::Run { rounds: args.rounds, cpu: args.cpu, filter: args.filter.clone().unwrap_or_default() };
    let comparison = match &args.peer {
        Some(peer) => Some(peer::compare(&workspace, &shell, &bench, peer, &run)?),
        None => None,
    };
    let rows = match &comparison {
        Some(comparison) => comparison.local.ours.clone(),
        None => bench.measure(&workspace, &shell, &run, "local")?,
    };
    let figures = if args.csv { String::new() } else { figures(&workspace, &shell)? };
    bar.finish_and_clear();
    if args.csv {
        rows.iter().for_each(|row| println!("{}", table::csv(row)));
    } else {
        match &comparison {
            Some(comparison) => print!("{}", table::comparison(comparison)),
            None => print!("{}", table::plain(&rows)),
        }
        print!("\n{figures}");
    }
    if let Some(file) = &args.svg {
        fs::write(file, chart::svg(&rows, comparison.as_ref()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Commands, memory and round trips, on two modelled HCAs.
fn figures(workspace: &Workspace, shell: &Shell) -> Result<String> {
    for package in ["bareverbs-examples", "bareverbs-bench"] {
        shell.check(workspace.cargo().args(["build", "--release", "--bins", "-p", package]))?;
    }
    shell.check(&mut Command::new(workspace.target.join("release/figures")))
}
