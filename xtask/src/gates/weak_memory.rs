//! The orderings of the rings: every interleaving of small models under loom, and each ordering shown to be needed.

use crate::test::{Bench, Tally};
use anyhow::Result;
use std::process::Command;

pub fn run(bench: &Bench) -> Result<Tally> {
    let build = ["build", "--release", "-p", "bareverbs-weak-memory"];
    bench.shell.check(bench.workspace.cargo().args(build))?;
    let finished = bench.shell.run(&mut Command::new(bench.workspace.target.join("release/weak_memory")))?;
    let mut tally = Tally::default();
    for line in finished.text.lines() {
        if line.ends_with("interleavings, holds") {
            tally.pass();
            tally.notes.push(line.to_owned());
        } else if line.contains(" made Relaxed: ") && !line.starts_with("FAILED") {
            tally.pass();
        } else if let Some(complaint) = line.strip_prefix("FAILED: ") {
            tally.fail(complaint);
        }
    }
    if !finished.status.success() && tally.failed == 0 {
        tally.fail(finished.complaint());
    }
    Ok(tally)
}
