//! `cargo xtask soak`: the long runs. Resumable: what is done is kept in `target/xtask/soak`.

use crate::linux_opcodes;
use crate::shell::Shell;
use crate::test::{Bench, workload};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use std::fs;
use std::process::{Command, ExitCode};
use std::time::Instant;

#[derive(clap::Args)]
pub struct Args {
    /// Leave out the guests that find out who notices commands without effect
    #[arg(long)]
    host: bool,
    /// Seeds of random workloads
    #[arg(long, default_value_t = 10_000)]
    seeds: u64,
}

/// How many seeds are done before progress is kept.
const CHUNK: u64 = 250;

pub fn main(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::read()?;
    let (commit, today) = (commit(&workspace)?, today()?);
    let folder = workspace.target.join("xtask/soak");
    fs::create_dir_all(&folder)?;
    let kept = folder.join(format!("workload-{commit}"));
    let done: Vec<String> = fs::read_to_string(&kept).unwrap_or_default().lines().map(str::to_owned).collect();
    let bench = Bench { workspace: &workspace, shell: Shell::new(folder.join("log"), ProgressBar::hidden())? };
    if !args.host && !linux_opcodes::run(&bench, &folder, &today, &commit)? {
        bail!("nobody notices some commands without effect: docs/opcodes.md");
    }
    if args.seeds == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let program = workload::program(&bench)?;
    let bar = ProgressBar::new(args.seeds);
    bar.set_position((done.len() as u64 * CHUNK).min(args.seeds));
    let started = Instant::now();
    let mut lines = done;
    for first in (0..args.seeds).step_by(CHUNK as usize).skip(lines.len()) {
        let line = workload::seeds(&bench, &program, first, CHUNK.min(args.seeds - first))?;
        lines.push(line);
        fs::write(&kept, lines.join("\n"))?;
        bar.inc(CHUNK);
    }
    bar.finish_and_clear();
    let total = lines.iter().fold([0u64; 6], |mut sum, line| {
        // "seeds A..B: N requests, N bytes, N on links with faults, N frames (N lost, ...)"
        let numbers = line.split_once(": ").map_or("", |(_, rest)| rest).split(|c: char| !c.is_ascii_digit());
        let numbers = numbers.filter_map(|n| n.parse::<u64>().ok());
        sum.iter_mut().zip(numbers).for_each(|(s, n)| *s += n);
        sum
    });
    let [requests, bytes, faulty, frames, lost, doubled] = total;
    let text = format!(
        "# The long runs\n\nWritten by `cargo xtask soak` on {today}, at commit {commit}.\n\n\
         | run | what was done | failed |\n|---|---|---|\n\
         | random workloads, seeds 0..{} | {requests} requests of {bytes} bytes, {faulty} runs on links with faults, \
         {frames} frames of which {lost} were lost and {doubled} doubled | 0 |\n\n\
         A seed is run again with `cargo run --release -p bareverbs-conformance --bin workload -- --seed N -v`.\n",
        args.seeds
    );
    fs::write(workspace.root.join("docs/soak.md"), &text).context("docs/soak.md")?;
    println!("{text}\n{:.0} s for what was not done before", started.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}

/// The commit that is checked out.
pub fn commit(workspace: &Workspace) -> Result<String> {
    said(Command::new("git").current_dir(&workspace.root).args(["rev-parse", "--short=12", "HEAD"]))
}

/// The date, as in 2026-01-31.
pub fn today() -> Result<String> {
    said(Command::new("date").args(["-u", "+%Y-%m-%d"]))
}

/// What a program printed.
fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
