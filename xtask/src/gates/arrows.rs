//! The arrows of the design: which folder may need which.
//!
//! examples, tests -> core <- drivers -> hal <- hal backends. A driver names no backend, core names nobody, a model
//! names no driver. Tests inside a package (dev-dependencies) may look further.

use crate::test::{Bench, Tally};
use anyhow::{Context, Result, bail};

/// A folder, and the folders that packages in it may need. The first line that matches counts.
/// `*` stands for anything.
const ARROWS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("hal", &["core"]),
    ("hal/*", &["core", "hal", "hal/*"]),
    ("drivers/*-prm", &["core"]),
    ("drivers/*", &["core", "hal", "drivers/*-prm"]),
    ("tests/model-*", &["core", "hal", "hal/harness", "drivers/*-prm"]),
    ("tests/loopback", &["core", "hal"]),
    ("tests/*", &["core", "hal", "hal/*", "drivers/*", "tests/*"]),
    ("examples/*", &["core", "hal", "hal/*", "drivers/*", "examples"]),
    ("examples", &["core", "hal", "hal/*", "drivers/*", "tests/*"]),
    ("xtask", &[]),
];

pub fn run(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    for package in &bench.workspace.packages {
        for need in &package.needs {
            let needed = bench.workspace.packages.iter().find(|p| p.name == *need);
            let needed = needed.with_context(|| format!("{need} is no member of the workspace"))?;
            tally.count(check(&package.folder, &needed.folder));
        }
    }
    Ok(tally)
}

fn check(from: &str, to: &str) -> Result<()> {
    let row = ARROWS.iter().find(|(folder, _)| matches(folder, from));
    let (_, allowed) = row.with_context(|| format!("{from} has no line in the table of arrows"))?;
    if !allowed.iter().any(|folder| matches(folder, to)) {
        bail!("{from} must not need {to}");
    }
    Ok(())
}

/// Whether a folder is meant by a name with at most one `*` in it.
fn matches(name: &str, folder: &str) -> bool {
    match name.split_once('*') {
        None => name == folder,
        Some((start, end)) => {
            folder.len() >= start.len() + end.len() && folder.starts_with(start) && folder.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn arrows_against_the_design_are_refused() {
        for (from, to) in [
            ("core", "hal"),
            ("drivers/mlx5", "hal/harness"),
            ("drivers/mlx5-prm", "drivers/mlx5"),
            ("tests/model-mlx5", "drivers/mlx5"),
            ("hal/harness", "drivers/mlx5-prm"),
            ("tests/loopback", "drivers/mlx5-prm"),
            ("somewhere", "core"),
        ] {
            assert!(check(from, to).is_err(), "{from} -> {to}");
        }
    }

    #[test]
    fn arrows_of_the_design_hold() {
        for (from, to) in [
            ("drivers/mlx5", "drivers/mlx5-prm"),
            ("drivers/mlx5", "hal"),
            ("tests/model-mlx5", "drivers/mlx5-prm"),
            ("tests/model-mlx5", "hal/harness"),
            ("examples", "tests/model-mlx5"),
        ] {
            assert!(check(from, to).is_ok(), "{from} -> {to}");
        }
    }
}
