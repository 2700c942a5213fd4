//! The conformance suite on the homes that are in the process. The last run's table is the one in the documentation.

use super::{Bench, Tally};
use anyhow::{Result, ensure};
use std::fs;
use std::process::Command;

/// Seeds besides the default one.
const SEEDS: u64 = 8;
/// Where the table is kept.
const TABLE: &str = "docs/conformance.md";

pub fn run(bench: &Bench) -> Result<Tally> {
    let mut cargo = bench.workspace.cargo();
    bench.shell.check(cargo.args(["build", "--release", "-p", "bareverbs-conformance", "--bin", "conformance"]))?;
    let program = bench.workspace.target.join("release/conformance");
    let mut tally = Tally::default();
    for seed in 0..SEEDS {
        let text = bench.shell.run(Command::new(&program).args(["--seed", &seed.to_string()]))?.text;
        tally.add(count(&text, &format!("seed {seed}")));
    }
    let folder = bench.workspace.target.join("xtask");
    fs::create_dir_all(&folder)?;
    let [table, page] = ["conformance.md", "conformance.html"].map(|name| folder.join(name));
    let mut command = Command::new(&program);
    command.arg("--markdown").arg(&table).arg("--html").arg(&page);
    let text = bench.shell.run(&mut command)?.text;
    tally.add(count(&text, "default seed"));
    tally.count((|| {
        let kept = fs::read_to_string(bench.workspace.root.join(TABLE))?;
        let copy = format!("copy {} to {TABLE}", table.display());
        ensure!(kept == fs::read_to_string(&table)?, "{TABLE} is not what the suite writes: {copy}");
        Ok(())
    })());
    Ok(tally)
}

/// Reads the program's last line, and its complaints.
fn count(text: &str, what: &str) -> Tally {
    let mut tally = Tally::default();
    for line in text.lines().filter(|line| line.starts_with("FAILED: ")) {
        tally.fail(format!("{what}: {line}"));
    }
    match text.lines().last().and_then(|line| line.split_once(" passed, ")?.0.parse().ok()) {
        Some(passed) => tally.passed = passed,
        None => tally.fail(format!("{what}: the suite did not end: {text}")),
    }
    tally
}
