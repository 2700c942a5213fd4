//! No way around the HAL: the harness's BARs and DMA guards have no access rights, so an access that does not go
//! through the HAL ends the process. Every test of a driver on the harness is this gate; here it is shown to close.

use crate::test::cargo::cargo_test;
use crate::test::{Bench, Tally};
use anyhow::Result;

/// Tests that do what a driver must not, each in a process of its own, and expect the signal.
const BYPASSES: [&str; 2] = ["going_around_the_hal_faults", "running_over_the_end_of_a_buffer_faults"];

pub fn run(bench: &Bench) -> Result<Tally> {
    let mut arguments = vec!["-p", "bareverbs-harness", "--test", "world", "--", "--exact"];
    arguments.extend(BYPASSES);
    let mut tally = cargo_test(bench, &arguments)?;
    // libtest finds nothing wrong with a name that no test has.
    if tally.passed + tally.failed != BYPASSES.len() {
        tally.fail(format!("{} of the tests {BYPASSES:?} ran", tally.passed + tally.failed));
    }
    Ok(tally)
}
