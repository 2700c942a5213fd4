//! Instructions a case, counted by callgrind: the same on every run, whatever else the machine does.
//!
//! Collection is off until a bench switches it on around a round; each case is dumped by itself, and the header of the
//! dump names the case and the number of its operations.

use crate::shell::Shell;
use crate::tools;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// Instructions an operation, by case.
pub type Counts = BTreeMap<String, f64>;

/// Runs a bench under callgrind.
pub fn count(workspace: &Workspace, shell: &Shell, bench: &Command) -> Result<Counts> {
    run(workspace, shell, bench, &[])
}

/// Like [`count`], for a program (or a script that becomes one) that takes long to its first case and starts
/// instrumentation by itself.
pub fn count_cases(workspace: &Workspace, shell: &Shell, bench: &Command) -> Result<Counts> {
    run(workspace, shell, bench, &["--instr-atstart=no", "--trace-children=yes"])
}

fn run(workspace: &Workspace, shell: &Shell, bench: &Command, options: &[&str]) -> Result<Counts> {
    let folder = workspace.target.join("xtask/callgrind").join(std::process::id().to_string());
    fs::create_dir_all(&folder)?;
    let mut command = tools::valgrind(workspace, shell)?.command()?;
    command.args(["--tool=callgrind", "--collect-atstart=no"]).args(options);
    command.arg(format!("--callgrind-out-file={}", folder.join("dump").display()));
    command.arg(bench.get_program()).args(bench.get_args());
    command.envs(bench.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.check(&mut command)?;
    let mut counts = Counts::new();
    for file in fs::read_dir(&folder)? {
        let text = fs::read_to_string(file?.path())?;
        counts.extend(read(&text)?);
    }
    fs::remove_dir_all(&folder)?;
    ensure!(!counts.is_empty(), "callgrind dumped no case");
    Ok(counts)
}

/// The case of a dump; `None` in the one that is written at the end of the program.
fn read(dump: &str) -> Result<Option<(String, f64)>> {
    let line = |start: &str| dump.lines().find_map(|line| line.strip_prefix(start));
    let Some(request) = line("desc: Trigger: Client Request: ") else { return Ok(None) };
    let (case, operations) = request.split_once(" ops=").with_context(|| format!("no operations: {request}"))?;
    let total = line("summary: ").or_else(|| line("totals: ")).context("a dump without a sum")?;
    Ok(Some((case.to_owned(), total.trim().parse::<f64>()? / operations.parse::<f64>()?)))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_dump_of_callgrind() {
        // The head and the tail of a file that valgrind 3.19 wrote.
        let dump = "# callgrind format\nversion: 1\ndesc: Trigger: Client Request: poll_req/16 ops=1024\npositions: line\nevents: Ir\nsummary: 98304\n\ntotals: 98304\n";
        assert_eq!(read(dump).unwrap(), Some(("poll_req/16".into(), 96.0)));
        assert_eq!(read("desc: Trigger: Program termination\nsummary: 0\n").unwrap(), None);
    }
}
