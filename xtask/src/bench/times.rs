//! Our bench: built, run, read.

use super::{Row, instructions};
use crate::shell::Shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;

/// How a bench is run.
#[derive(Clone)]
pub struct Run {
    pub rounds: usize,
    pub cpu: usize,
    pub filter: String,
}

/// The program `fast_path` of `tests/bench`.
pub struct Ours(PathBuf);

/// A case, its minimum and its median in ns.
pub type Time = (String, f64, f64);

impl Ours {
    pub fn build(workspace: &Workspace, shell: &Shell) -> Result<Self> {
        let build = ["build", "--release", "-p", "bareverbs-bench", "--bin", "fast_path"];
        shell.check(workspace.cargo().args(build))?;
        Ok(Self(workspace.target.join("release/fast_path")))
    }

    fn command(&self, policy: &str, filter: &str) -> Command {
        let mut command = Command::new(&self.0);
        command.args(["--policy", policy, "--only", filter]);
        command
    }

    /// Takes the time of every case.
    pub fn times(&self, shell: &Shell, run: &Run, policy: &str) -> Result<Vec<Time>> {
        let mut command = self.command(policy, &run.filter);
        command.args(["--rounds", &run.rounds.to_string(), "--cpu", &run.cpu.to_string()]);
        shell.check(&mut command)?.lines().map(read).collect()
    }

    /// Counts the instructions of every case: one round does, since they do not vary.
    pub fn instructions(
        &self,
        workspace: &Workspace,
        shell: &Shell,
        filter: &str,
        policy: &str,
    ) -> Result<instructions::Counts> {
        let mut command = self.command(policy, filter);
        command.args(["--rounds", "1", "--cpu", "0"]);
        instructions::count(workspace, shell, &command)
    }

    /// Both.
    pub fn measure(&self, workspace: &Workspace, shell: &Shell, run: &Run, policy: &str) -> Result<Vec<Row>> {
        let counts = self.instructions(workspace, shell, &run.filter, policy)?;
        merge(self.times(shell, run, policy)?, &counts)
    }
}

/// Rows of times and instructions.
pub fn merge(times: Vec<Time>, counts: &instructions::Counts) -> Result<Vec<Row>> {
    ensure!(!times.is_empty(), "no case has such a name");
    let row = |(case, ns_min, ns_median): Time| {
        let instructions = *counts.get(&case).with_context(|| format!("{case} was not counted"))?;
        Ok(Row { case, ns_min, ns_median, instructions })
    };
    times.into_iter().map(row).collect()
}

/// A line `case,ns_min,ns_median`.
fn read(line: &str) -> Result<Time> {
    let parts: Vec<&str> = line.split(',').collect();
    let [case, min, median] = parts[..] else { anyhow::bail!("not a line of the bench: {line:?}") };
    Ok((case.to_owned(), min.parse()?, median.parse()?))
}
