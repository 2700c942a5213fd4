//! The groups that cargo runs: format, lints, unit tests, documentation.
//!
//! Packages are built one by one: building the workspace at once would unify their features, and hide one that is missing.

use super::{Bench, Tally};
use crate::gates::explore;
use anyhow::{Result, bail};

pub fn fmt(bench: &Bench) -> Result<Tally> {
    component(bench, "fmt", "rustfmt")?;
    let mut tally = Tally::default();
    tally.count(
        bench
            .shell
            .check(bench.workspace.cargo().args(["fmt", "--all", "--", "--check", "--color", "never"]))
            .map(drop),
    );
    Ok(tally)
}

pub fn clippy(bench: &Bench) -> Result<Tally> {
    component(bench, "clippy", "clippy")?;
    let mut tally = Tally::default();
    for package in &bench.workspace.packages {
        let mut cargo = bench.workspace.cargo();
        cargo.args(["clippy", "--no-deps", "--all-targets", "-p", &package.name, "--", "-D", "warnings"]);
        tally.count(bench.shell.check(&mut cargo).map(drop));
    }
    Ok(tally)
}

/// Unit tests, integration tests, examples and the code in the documentation; but for the explorations, which are a group.
pub fn tests(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    for package in &bench.workspace.packages {
        let arguments = ["-p", &package.name, "--all-targets", "--no-fail-fast", "--", "--skip", explore::WORD];
        tally.add(cargo_test(bench, &arguments)?);
        if package.has_lib {
            tally.add(cargo_test(bench, &["-p", &package.name, "--doc", "--no-fail-fast"])?);
        }
    }
    Ok(tally)
}

pub fn doc(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    for package in &bench.workspace.packages {
        let mut cargo = bench.workspace.cargo();
        cargo.env("RUSTDOCFLAGS", "-D warnings");
        cargo.args(["doc", "--no-deps", "-p", &package.name]);
        tally.count(bench.shell.check(&mut cargo).map(drop));
    }
    Ok(tally)
}

/// How a line begins that tells of an exploration.
pub const EXPLORED: &str = "explored ";

/// Runs `cargo test` and counts the tests it reports. What was explored is noted, if the tests' output is shown.
pub fn cargo_test(bench: &Bench, args: &[&str]) -> Result<Tally> {
    let finished = bench.shell.run(bench.workspace.cargo().arg("test").args(args))?;
    let mut tally = Tally::default();
    for line in finished.text.lines() {
        if let Some(counts) = line.strip_prefix("test result:") {
            tally.passed += count_before(counts, "passed");
            tally.failed += count_before(counts, "failed") + count_before(counts, "ignored");
        }
        tally.notes.extend(line.strip_prefix(EXPLORED).map(str::to_owned));
    }
    if !finished.status.success() && tally.failed == 0 {
        tally.failed = 1;
    }
    if tally.failed > 0 {
        tally.complaints.push(finished.complaint());
    }
    Ok(tally)
}

/// The number before a word in libtest's `ok. 3 passed; 0 failed; 0 ignored; ...`.
fn count_before(line: &str, word: &str) -> usize {
    let words: Vec<&str> = line.split_whitespace().collect();
    let pair = words.windows(2).find(|pair| pair[1].trim_end_matches(';') == word);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

/// Tells a missing component apart from what it would have found.
fn component(bench: &Bench, command: &str, component: &str) -> Result<()> {
    if !bench.shell.run(bench.workspace.cargo().args([command, "--version"]))?.status.success() {
        bail!("{component} is not part of this toolchain: rustup component add {component}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::count_before;

    #[test]
    fn libtest_summary_is_counted() {
        // Printed by libtest of Rust 1.95.
        let line = " FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(["passed", "failed", "ignored"].map(|w| count_before(line, w)), [12, 3, 1]);
        assert_eq!(count_before(line, "skipped"), 0);
    }
}
