//! The bench of libmlx5: the same workload on rdma-core's compiled data path, and minimal loops on the same rings.

use super::times::{Ours, Run, Time, merge};
use super::{Row, instructions};
use crate::shell::Shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// Runs in turn: drift of the machine meets both, and the minimum of several runs is steadier than one.
pub const TURNS: usize = 3;

/// Both benches, with and without sharing between threads.
pub struct Comparison {
    /// Ours with `Local`, libmlx5 without locks; doorbells of 8 bytes.
    pub local: Pair,
    /// libmlx5 without locks and with its `lfence`s patched out.
    pub without_lfence: Vec<Row>,
    /// Ours with `Shared`, libmlx5 with its locks.
    pub shared: Pair,
}

/// The same cases of both.
pub struct Pair {
    pub ours: Vec<Row>,
    pub peer: Vec<Row>,
}

impl Pair {
    /// The peer's row for a case of ours.
    pub fn peer(&self, case: &str) -> Option<&Row> {
        find(&self.peer, case)
    }
}

impl Comparison {
    /// The minimal loop for a case, where there is one.
    pub fn floor(&self, case: &str) -> Option<&Row> {
        let name = format!("floor_{}", case.replace("post_send_", "post_"));
        find(&self.local.peer, &name)
    }
}

pub fn find<'a>(rows: &'a [Row], case: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.case == case)
}

/// Runs both in turn.
pub fn compare(workspace: &Workspace, shell: &Shell, bench: &Ours, peer: &Path, run: &Run) -> Result<Comparison> {
    let peer = |locks: bool, lfence: bool| Peer { program: peer, locks, lfence };
    let (plain, bare, locked) = (peer(false, true), peer(false, false), peer(true, true));
    let mut times: [Vec<Time>; 5] = Default::default();
    for turn in 1..=TURNS {
        shell.note(&format!("turn {turn} of {TURNS}"));
        keep_minima(&mut times[0], bench.times(shell, run, "local")?);
        keep_minima(&mut times[1], plain.times(shell, run)?);
        keep_minima(&mut times[2], bare.times(shell, run)?);
        keep_minima(&mut times[3], bench.times(shell, run, "shared")?);
        keep_minima(&mut times[4], locked.times(shell, run)?);
    }
    let [local, plain_times, bare_times, shared, locked_times] = times;
    let ours = |policy| bench.instructions(workspace, shell, &run.filter, policy);
    let plain_counts = plain.instructions(workspace, shell, run)?;
    Ok(Comparison {
        local: Pair { ours: merge(local, &ours("local")?)?, peer: merge(plain_times, &plain_counts)? },
        without_lfence: merge(bare_times, &plain_counts)?,
        shared: Pair {
            ours: merge(shared, &ours("shared")?)?,
            peer: merge(locked_times, &locked.instructions(workspace, shell, run)?)?,
        },
    })
}

/// Keeps the smaller of two minima, and of two medians.
pub fn keep_minima(kept: &mut Vec<Time>, new: Vec<Time>) {
    for (case, min, median) in new {
        match kept.iter_mut().find(|time| time.0 == case) {
            Some(time) => (time.1, time.2) = (time.1.min(min), time.2.min(median)),
            None => kept.push((case, min, median)),
        }
    }
}

struct Peer<'a> {
    program: &'a Path,
    locks: bool,
    lfence: bool,
}

impl Peer<'_> {
    fn command(&self, rounds: usize, cpu: usize) -> Command {
        let mut command = Command::new(self.program);
        command.args(["-r", &rounds.to_string(), "-c", &cpu.to_string(), "-b", "0"]);
        command.args(["-l", if self.locks { "1" } else { "0" }]);
        if !self.lfence {
            command.env("NOBAR", "l");
        }
        command
    }

    fn times(&self, shell: &Shell, run: &Run) -> Result<Vec<Time>> {
        let text = shell.check(&mut self.command(run.rounds, run.cpu))?;
        text.lines().filter(|line| line.contains("ops/round=")).map(read).collect()
    }

    fn instructions(&self, workspace: &Workspace, shell: &Shell, run: &Run) -> Result<instructions::Counts> {
        instructions::count(workspace, shell, &self.command(1, run.cpu))
    }
}

/// A line `post_recv/1  ops/round=1024  min=   4.27 p10=   4.37 median=   4.40 ns/op`.
fn read(line: &str) -> Result<Time> {
    let value = |name: &str| {
        let (_, rest) = line.split_once(name).with_context(|| format!("no {name} in {line:?}"))?;
        Ok::<f64, anyhow::Error>(rest.split_whitespace().next().context("no number")?.parse()?)
    };
    let case = line.split_whitespace().next().context("an empty line")?;
    Ok((case.to_owned(), value("min=")?, value("median=")?))
}

#[cfg(test)]
mod tests {
    use super::{keep_minima, read};

    #[test]
    fn a_line_of_the_peer() {
        let line = "post_recv/1                  ops/round=1024   min=   4.27 p10=   4.37 median=   4.40 ns/op";
        assert_eq!(read(line).unwrap(), ("post_recv/1".into(), 4.27, 4.40));
    }

    #[test]
    fn the_best_of_the_turns_is_kept() {
        let mut kept = vec![("a".to_owned(), 2.0, 3.0)];
        keep_minima(&mut kept, vec![("a".into(), 1.0, 4.0), ("b".into(), 5.0, 6.0)]);
        assert_eq!(kept, [("a".into(), 1.0, 3.0), ("b".into(), 5.0, 6.0)]);
    }
}
