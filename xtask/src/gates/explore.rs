//! The explorations: every order of the steps of small queues and QPs up to a depth, and how many states that were.

use crate::test::cargo::{EXPLORED, cargo_test};
use crate::test::{Bench, Tally};
use anyhow::{Context, Result, ensure};

/// The packages that have some.
const PACKAGES: [&str; 2] = ["bareverbs", "bareverbs-mlx5"];
/// The module that they are in.
pub const WORD: &str = "explore_tests";

pub fn run(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    for package in PACKAGES {
        let arguments = ["-p", package, "--lib", "--tests", "--no-fail-fast", WORD, "--", "--show-output"];
        let mut tests = cargo_test(bench, &arguments)?;
        if tests.notes.is_empty() {
            tests.fail(format!("{package} has explored nothing"));
        }
        for line in tests.notes.clone() {
            tests.count(is_enough(&line));
        }
        tally.add(tests);
    }
    Ok(tally)
}

/// At least as many states as are recorded.
fn is_enough(line: &str) -> Result<()> {
    let number = |before: &str| -> Result<usize> {
        let words = line.split_once(before).with_context(|| format!("no {before:?} in {line:?}"))?.1;
        let digits = words.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse().with_context(|| format!("no number behind {before:?} in {line:?}"))
    };
    let (states, recorded) = (number(": ")?, number("recorded: ")?);
    ensure!(states > 0 && states >= recorded, "fewer states than are recorded: {EXPLORED}{line}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_enough;

    #[test]
    fn fewer_states_than_recorded_none_and_no_number_are_failures() {
        let line =
            |states, recorded: u32| format!("a CQ of 4: {states} states, 0 behind a wrap; recorded: {recorded} and 0");
        assert!(is_enough(&line(7, 7)).is_ok() && is_enough(&line(8, 7)).is_ok());
        for bad in [line(6, 7), line(0, 0), "a CQ of 4: some states; recorded: 1 and 0".into(), "a CQ: 4 states".into()]
        {
            assert!(is_enough(&bad).is_err(), "{bad}");
        }
    }
}
