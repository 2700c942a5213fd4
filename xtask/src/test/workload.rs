//! Random workloads by seed, on two modelled HCAs.

use super::{Bench, Tally};
use anyhow::{Result, bail, ensure};
use std::path::PathBuf;
use std::process::Command;

/// How many seeds the gate runs. The long runs are `cargo xtask soak`'s.
const SEEDS: u64 = 500;
/// How many seeds one process runs, so that progress is seen.
const CHUNK: u64 = 100;

/// Builds the program.
pub fn program(bench: &Bench) -> Result<PathBuf> {
    let mut cargo = bench.workspace.cargo();
    bench.shell.check(cargo.args(["build", "--release", "-p", "bareverbs-conformance", "--bin", "workload"]))?;
    Ok(bench.workspace.target.join("release/workload"))
}

/// Runs a range of seeds; the last line but one tells what was done.
pub fn seeds(bench: &Bench, program: &PathBuf, first: u64, count: u64) -> Result<String> {
    let mut command = Command::new(program);
    command.args(["--seed", &first.to_string(), "--count", &count.to_string()]);
    let text = bench.shell.check(&mut command)?;
    let Some(line) = text.lines().find(|line| line.starts_with("seeds ")) else { bail!("no summary in: {text}") };
    Ok(line.to_owned())
}

pub fn run(bench: &Bench) -> Result<Tally> {
    let program = program(bench)?;
    let mut tally = Tally::default();
    for first in (0..SEEDS).step_by(CHUNK as usize) {
        match seeds(bench, &program, first, CHUNK) {
            Ok(line) => {
                bench.shell.note(&line);
                tally.passed += CHUNK as usize;
            }
            Err(error) => tally.fail(format!("seeds {first}..{}: {error:#}", first + CHUNK)),
        }
    }
    // The comparison itself is judged by damage that only it can see.
    tally.count(damage_is_seen(bench, &program));
    Ok(tally)
}

fn damage_is_seen(bench: &Bench, program: &PathBuf) -> Result<()> {
    let mut command = Command::new(program);
    let finished = bench.shell.run(command.args(["--damage", "--count", "4"]))?;
    let seen = !finished.status.success() && finished.text.contains("is wrong at byte");
    ensure!(seen, "damaged payloads were not noticed: {}", finished.complaint());
    Ok(())
}
