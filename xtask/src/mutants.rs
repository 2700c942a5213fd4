//! `cargo xtask mutants`: changes the code in small ways and looks whether a test notices, by cargo-mutants.
//!
//! Works on a clone in `target/`, so that nobody's files are touched. Resumable: what was caught is kept by the text of the
//! function, and only the rest is tried again. A mutant that no test notices fails the command unless it stands, with
//! the reason, in [`LIST`].

use crate::shell::Shell;
use crate::test::{Bench, Tally};
use crate::tools;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

mod known;
mod record;

use known::{Known, Mutant};

#[derive(clap::Args)]
pub struct Args {
    /// Only files whose path contains this
    filter: Option<String>,
    /// Only each N-th file, beginning with the K-th (from 0)
    #[arg(long, value_name = "K/N", value_parser = shard, default_value = "0/1")]
    shard: (usize, usize),
    /// List the files and run nothing
    #[arg(long)]
    list: bool,
    /// Try those too that are listed as noticed by no test, whether one notices them now
    #[arg(long)]
    listed: bool,
}

fn shard(text: &str) -> Result<(usize, usize)> {
    let (k, n) = text.split_once('/').context("K/N")?;
    let (k, n) = (k.parse()?, n.parse()?);
    ensure!(k < n, "K is below N");
    Ok((k, n))
}

/// Which tests must notice, and how long they may take. On a busy host they take many times as long as on an idle one: what
/// ends a loop without end is the processor's time.
struct Tests {
    profile: &'static str,
    packages: &'static [&'static str],
    targets: &'static [&'static str],
    /// Which of the tests, as cargo is told.
    which: &'static [&'static str],
    /// Of the processor.
    cpu: u32,
    seconds: u64,
}

const CORE: Tests = Tests {
    profile: "mutants",
    packages: &["bareverbs"],
    targets: &["--lib", "--test", "qp_table"],
    which: &[],
    cpu: 30,
    seconds: 1800,
};
const DRIVER_UNITS: Tests = Tests {
    profile: "mutants",
    packages: &["bareverbs-mlx5"],
    targets: &["--lib"],
    which: &[],
    cpu: 60,
    seconds: 1800,
};
/// On hand-made entries.
const ENTRIES: Tests = Tests { which: &["cq_ring::tests"], ..DRIVER_UNITS };
const SIZES: Tests = Tests { which: &["qp_shape::"], ..DRIVER_UNITS };
/// The conformance suite on the modelled card.
const SUITE: Tests = Tests {
    profile: "mutants-suite",
    packages: &["bareverbs-mlx5", "bareverbs-conformance"],
    targets: &["--test", "modelled_card"],
    which: &[],
    cpu: 60,
    seconds: 1800,
};
/// The driver's own tests, most on the modelled card, but for those that take long.
const DRIVER: Tests = Tests {
    profile: "mutants",
    packages: &["bareverbs-mlx5"],
    targets: &["--tests"],
    which: &["--", "--skip", "every_order"],
    cpu: 60,
    seconds: 1800,
};
/// Those: whoever is here has been missed by all others.
const ORDERS: Tests = Tests { which: &["every_order"], cpu: 600, ..DRIVER };

/// The files, and their tests: quick ones first, the next for what those miss.
const FILES: &[(&str, &[&Tests])] = &[
    ("core/src/cq.rs", &[&CORE]),
    ("core/src/srq.rs", &[&CORE]),
    ("core/src/qp.rs", &[&CORE]),
    ("core/src/wq.rs", &[&CORE]),
    ("drivers/mlx5/src/cq_entries.rs", &[&ENTRIES, &SUITE, &DRIVER, &ORDERS]),
    ("drivers/mlx5/src/cq_ring.rs", &[&ENTRIES, &SUITE, &DRIVER, &ORDERS]),
    ("drivers/mlx5/src/cq.rs", &[&SUITE, &DRIVER, &ORDERS]),
    ("drivers/mlx5/src/srq.rs", &[&SUITE, &DRIVER, &ORDERS]),
    ("drivers/mlx5/src/qp_state.rs", &[&SUITE, &DRIVER, &ORDERS]),
    ("drivers/mlx5/src/qp.rs", &[&SUITE, &DRIVER, &ORDERS]),
    ("drivers/mlx5/src/qp_post.rs", &[&SUITE, &DRIVER, &ORDERS]),
    ("drivers/mlx5/src/qp_shape.rs", &[&SIZES, &SUITE, &DRIVER, &ORDERS]),
    ("drivers/mlx5/src/cq_view.rs", &[&SUITE, &DRIVER, &ORDERS]),
    ("drivers/mlx5/src/cqe.rs", &[&ENTRIES, &SUITE, &DRIVER, &ORDERS]),
    ("drivers/mlx5/src/target.rs", &[&ENTRIES, &SUITE, &DRIVER, &ORDERS]),
    ("drivers/mlx5/src/sq.rs", &[&SUITE, &DRIVER, &ORDERS]),
    ("drivers/mlx5/src/rq.rs", &[&SUITE, &DRIVER, &ORDERS]),
];

/// Mutants that no test notices: a line each, `file: what is changed`, below the reason, which begins with `#`.
const LIST: &str = "xtask/mutants.txt";
/// The record of what was run.
const RECORD: &str = "docs/mutants.md";
/// How many mutants of a diff the gate tries at most.
const MOST_OF_A_DIFF: usize = 24;

/// What came of the mutants of a file, each as `file:line:column: what is changed`.
#[derive(Default)]
struct Outcome {
    caught: BTreeSet<String>,
    /// The tests did not end in time.
    timeout: BTreeSet<String>,
    missed: BTreeSet<String>,
    /// No program came out.
    unviable: BTreeSet<String>,
}

pub fn main(args: &Args) -> Result<ExitCode> {
    let wanted = |n: usize, file: &str| {
        n % args.shard.1 == args.shard.0 && args.filter.as_ref().is_none_or(|filter| file.contains(filter.as_str()))
    };
    let files: Vec<_> =
        FILES.iter().enumerate().filter(|(n, (file, _))| wanted(*n, file)).map(|(_, row)| row).collect();
    if args.list {
        files.iter().for_each(|(file, _)| println!("{file}"));
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(!files.is_empty(), "no file is called so; --list names them");
    let workspace = Workspace::read()?;
    let bar = Shell::spinner();
    let shell = Shell::new(workspace.target.join("xtask/log/mutants.log"), bar.clone())?;
    let mill = Mill::new(&workspace, &shell, "HEAD")?;
    let listed = record::listed(&fs::read_to_string(mill.tree.join(LIST))?)?;
    let mut known = Known::kept(mill.folder.join("known.txt"))?;
    let mut complaints = Vec::new();
    for (file, tests) in files {
        bar.set_prefix((*file).to_owned());
        let mut mutants = mill.list(file, &[])?;
        let believed = if args.listed { Vec::new() } else { record::take_listed(&mut mutants, &listed) };
        let mut outcome = mill.run(file, tests, &mutants, &mut known)?;
        outcome.missed.extend(believed);
        let row = record::Row::new(file, &mill.commit, &mill.day, &outcome);
        bar.suspend(|| println!("{row}"));
        complaints.extend(record::unlisted(&outcome.missed, &listed));
        complaints.extend(record::needless(file, &outcome.missed, &listed));
        record::write(&workspace.root.join(RECORD), FILES.iter().map(|(file, _)| *file), row, &listed)?;
    }
    bar.finish_and_clear();
    complaints.iter().for_each(|complaint| println!("FAILED: {complaint}"));
    Ok(if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The group of the gate: the mutants in what the working tree changes since the base, see [`base`].
pub fn diff(bench: &Bench) -> Result<Tally> {
    let (workspace, shell) = (bench.workspace, &bench.shell);
    let base = base(workspace, shell)?;
    let mut tally = Tally::default();
    let mut left = MOST_OF_A_DIFF;
    let mut mill = None;
    for (file, tests) in FILES {
        let mut command = git(workspace);
        let diff = shell.check(command.args(["diff", "--no-color", "--no-ext-diff", &base, "--", file]))?;
        if diff.is_empty() {
            continue;
        }
        if mill.is_none() {
            let stash = shell.check(git(workspace).args(["stash", "create"]))?;
            let commit = if stash.trim().is_empty() { "HEAD" } else { stash.trim() };
            mill = Some(Mill::new(workspace, shell, commit)?);
        }
        let Some(mill) = &mill else { continue };
        let patch = mill.folder.join("diff.patch");
        fs::write(&patch, &diff)?;
        let in_diff = ["--in-diff".to_owned(), patch.display().to_string()];
        let mut all = mill.list(file, &in_diff)?;
        let listed = record::listed(&fs::read_to_string(mill.tree.join(LIST))?)?;
        record::take_listed(&mut all, &listed);
        // Spread over the file, if they are too many.
        let step = all.len().div_ceil(left.max(1)).max(1);
        let some: Vec<Mutant> = all.iter().step_by(step).take(left).cloned().collect();
        left -= some.len();
        tally.notes.push(format!("{file}: {} of the {} mutants in the diff", some.len(), all.len()));
        if some.is_empty() {
            continue;
        }
        let outcome = mill.run(file, tests, &some, &mut Known::default())?;
        let unlisted = record::unlisted(&outcome.missed, &listed);
        tally.passed += some.len() - unlisted.len();
        unlisted.into_iter().for_each(|complaint| tally.fail(complaint));
    }
    if tally.passed + tally.failed == 0 {
        tally
            .notes
            .push(format!("none of the code of {} files has changed since {base:.12}: nothing to do", FILES.len()));
        tally.pass();
    }
    Ok(tally)
}

/// What the gate compares with: the commit that `BAREVERBS_MUTANTS_BASE` names (for a branch, where it left the main one),
/// else the commit before; where neither is at hand (a shallow checkout), only what is not committed is new.
fn base(workspace: &Workspace, shell: &Shell) -> Result<String> {
    if let Ok(named) = std::env::var("BAREVERBS_MUTANTS_BASE") {
        return Ok(shell.check(git(workspace).args(["rev-parse", "--verify", &named]))?.trim().to_owned());
    }
    let parent = shell.run(git(workspace).args(["rev-parse", "--verify", "--quiet", "HEAD~1"]))?;
    let text =
        if parent.status.success() { parent.text } else { shell.check(git(workspace).args(["rev-parse", "HEAD"]))? };
    Ok(text.trim().to_owned())
}

fn git(workspace: &Workspace) -> Command {
    let mut command = Command::new("git");
    command.current_dir(&workspace.root);
    command
}

/// A clone in which files are changed, and cargo-mutants.
struct Mill<'a> {
    shell: &'a Shell,
    program: PathBuf,
    folder: PathBuf,
    tree: PathBuf,
    commit: String,
    day: String,
}

impl<'a> Mill<'a> {
    fn new(workspace: &Workspace, shell: &'a Shell, commit: &str) -> Result<Self> {
        let program = tools::cargo_mutants(workspace, shell)?;
        let commit = shell.check(git(workspace).args(["rev-parse", commit]))?.trim().to_owned();
        let day = shell.check(Command::new("date").args(["-u", "+%Y-%m-%d"]))?.trim().to_owned();
        let folder = workspace.target.join("xtask/mutants");
        let tree = folder.join("tree");
        fs::create_dir_all(&folder)?;
        if !tree.join(".git").exists() {
            shell.check(git(workspace).args(["clone", "--quiet", "--shared", "--no-checkout", "."]).arg(&tree))?;
        }
        // Also away with what an interrupted run has left changed.
        let mut checkout = Command::new("git");
        shell.check(checkout.current_dir(&tree).args(["checkout", "--quiet", "--force", "--detach", &commit]))?;
        Ok(Self { shell, program, folder, tree, commit, day })
    }

    fn command(&self, file: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.tree).env("CARGO_TARGET_DIR", self.folder.join("target"));
        command.args(["mutants", "--colors", "never", "--file", file]);
        command
    }

    /// The mutants of a file.
    fn list(&self, file: &str, more: &[String]) -> Result<Vec<Mutant>> {
        let text = self.shell.check(self.command(file).args(["--list", "--json"]).args(more))?;
        known::read(&text, &fs::read_to_string(self.tree.join(file))?)
    }

    /// Tries mutants of a file, but for those of which it is known what comes of them.
    fn run(&self, file: &str, tests: &[&Tests], mutants: &[Mutant], known: &mut Known) -> Result<Outcome> {
        let out = self.folder.join("run");
        known.take(&out)?;
        for tests in tests {
            let rest: Vec<&Mutant> = mutants.iter().filter(|mutant| known.of(mutant).is_none()).collect();
            if rest.is_empty() {
                break;
            }
            known::prepare(&out, &rest)?;
            let mut command = self.command(file);
            command.args(["--in-place", "--profile", tests.profile, "--caught", "--timeout"]);
            command.arg(tests.seconds.to_string()).arg("--output").arg(&out);
            rest.iter().for_each(|mutant| _ = command.args(["--re", &format!("^{}$", regex::escape(&mutant.name))]));
            for package in tests.packages {
                // The second for what is built before, which else is the changed package with all its tests.
                command.args(["--test-package", package, &format!("--cargo-arg=--package={package}")]);
            }
            // One test after the other: when one has failed, the rest is not waited for.
            command.env("RUST_TEST_THREADS", "1");
            let runner = format!("target.'cfg(all())'.runner=['prlimit', '--cpu={}']", tests.cpu);
            // Not behind `--`, where they are for the run alone.
            for arg in ["--config", &runner].iter().chain(tests.targets) {
                command.arg(format!("--cargo-arg={arg}"));
            }
            if !tests.which.is_empty() {
                command.arg("--").args(tests.which);
            }
            let finished = self.shell.run_within(&mut command, Duration::from_secs(24 * 3600))?;
            // All caught, some missed, some without end; anything else is none of the mutants' fault.
            if !matches!(finished.status.code(), Some(0 | 2 | 3)) {
                bail!("{}", finished.complaint());
            }
            known.take(&out)?;
        }
        Ok(known.outcome(mutants))
    }
}
