//! The data path stays as short as it is: instructions a case, counted by callgrind, against recorded ceilings.
//!
//! Instructions are the same on every machine and under every load, so that this is a gate where time is not. A
//! ceiling that is exceeded, and a case that is missing, fail. Who makes a case shorter lowers its ceiling.

use crate::bench::instructions::Counts;
use crate::bench::times::Ours;
use crate::test::{Bench, Tally};
use anyhow::{Result, bail, ensure};

/// Instructions an operation with `Local`, measured with Rust 1.95 and rounded up by about two in a hundred.
const CEILINGS: &[(&str, f64)] = &[
    ("post_send_write/1", 98.0),
    ("post_send_write/8", 75.0),
    ("post_send_write/32", 67.0),
    ("post_send_inl32/1", 102.0),
    ("post_send_inl32/8", 79.0),
    ("post_send_inl32/32", 71.0),
    ("post_recv/1", 57.0),
    ("post_recv/8", 34.0),
    ("post_recv/32", 28.0),
    ("post_srq_recv/1", 64.0),
    ("post_srq_recv/8", 43.0),
    ("post_srq_recv/32", 36.0),
    ("poll_req/1", 138.0),
    ("poll_req/16", 69.0),
    ("poll_req/64", 64.0),
    ("poll_resp/1", 142.0),
    ("poll_resp/16", 72.0),
    ("poll_resp/64", 66.0),
    ("poll_srq/1", 152.0),
    ("poll_srq/16", 82.0),
    ("poll_srq/64", 76.0),
    ("poll_empty/16", 45.0),
];

pub fn run(bench: &Bench) -> Result<Tally> {
    let ours = Ours::build(bench.workspace, &bench.shell)?;
    let counts = ours.instructions(bench.workspace, &bench.shell, "", "local")?;
    let mut tally = Tally::default();
    for (case, ceiling) in CEILINGS {
        tally.count(check(&counts, case, *ceiling));
    }
    for case in counts.keys() {
        if !CEILINGS.iter().any(|known| known.0 == case) {
            tally.fail(format!("{case} has no ceiling"));
        }
    }
    Ok(tally)
}

fn check(counts: &Counts, case: &str, ceiling: f64) -> Result<()> {
    let Some(count) = counts.get(case) else { bail!("{case} was not run") };
    ensure!(*count <= ceiling, "{case} takes {count:.1} instructions, its ceiling is {ceiling}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_or_missing_fails() {
        let counts = Counts::from([("a".to_owned(), 10.0)]);
        assert!(check(&counts, "a", 10.0).is_ok());
        assert!(check(&counts, "a", 9.9).is_err());
        assert!(check(&counts, "b", 10.0).is_err());
    }
}
