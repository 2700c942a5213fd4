//! `cargo xtask bench --scale`: the fast path with many QPs on one CQ, small and large CQs and SRQs.

use super::instructions;
use crate::shell::Shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::process::Command;

/// QPs whose instructions are counted: made under callgrind, more of them take long and tell nothing new.
const COUNTED_QPS: &str = "1,16,1024";

pub fn table(workspace: &Workspace, shell: &Shell, rounds: usize, cpu: usize) -> Result<String> {
    shell.check(workspace.cargo().args(["build", "--release", "-p", "bareverbs-bench", "--bin", "scale"]))?;
    let program = workspace.target.join("release/scale");
    let mut timed = Command::new(&program);
    timed.args(["--rounds", &rounds.to_string(), "--cpu", &cpu.to_string()]);
    let lines = shell.check(&mut timed)?;
    let mut counted = Command::new(&program);
    counted.args(["--rounds", "1", "--cpu", "0", "--qps", COUNTED_QPS]);
    let counts = instructions::count(workspace, shell, &counted)?;
    let mut text = format!("{:<18} {:>8} {:>10} {:>8} {:>13}\n", "case", "of", "", "ns min", "instructions");
    for line in lines.lines() {
        if let Some(note) = line.strip_prefix("# ") {
            let _ = writeln!(text, "{note}");
            continue;
        }
        let parts: Vec<&str> = line.split(',').collect();
        let [case, of, count, min, _] = parts[..] else { bail!("not a line of the bench: {line:?}") };
        let instructions = counts.get(&format!("{case} {of}={count}")).map(|n| format!("{n:.1}"));
        let count: u64 = count.parse().context("a number")?;
        let _ = writeln!(text, "{case:<18} {of:>8} {count:>10} {min:>8} {:>13}", instructions.unwrap_or("-".into()));
    }
    Ok(text)
}
