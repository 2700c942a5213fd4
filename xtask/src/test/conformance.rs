//! The conformance suite on every home: in the process, in an image, over VFIO. The table in the documentation is what
//! these runs gave, and so is the page, which a browser looks at.

use super::{Bench, Tally};
use crate::judges::browser;
use crate::linux::{self, Link};
use crate::linux_cases;
use crate::qemu::{self, End};
use crate::test::vfio;
use anyhow::{Context, Result, anyhow, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, PoisonError};

/// Seeds besides the default one.
const SEEDS: u64 = 8;
/// Seconds that a home outside the process may take on a busy host.
const LIMIT: u64 = 900;
/// Where the table is kept.
const TABLE: &str = "docs/conformance.md";

/// A home outside the process: its column, its file's name, the link, and what runs the suite there.
type Home = (&'static str, &'static str, Link, fn(&Bench, Link) -> Result<Told>);

const HOMES: &[Home] = &[
    ("mlx5, image, InfiniBand", "image-ib", Link::Ib, in_image),
    ("mlx5, image, RoCE v2", "image-roce", Link::Roce, in_image),
    ("mlx5, VFIO, InfiniBand", "vfio-ib", Link::Ib, over_vfio),
    ("mlx5, VFIO, RoCE v2", "vfio-roce", Link::Roce, over_vfio),
];

/// What a run on another home said, and what else was judged there.
struct Told {
    text: String,
    besides: Tally,
}

/// The homes whose files were written in this run of xtask.
static TOLD: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// On the homes in the process, with several seeds.
pub fn run(bench: &Bench) -> Result<Tally> {
    let program = build(bench)?;
    let mut tally = Tally::default();
    for seed in 0..SEEDS {
        let text = bench.shell.run(held(bench, &program).args(["--seed", &seed.to_string()]))?.text;
        tally.add(count(&text, &format!("seed {seed}")));
    }
    let text = bench.shell.run(&mut held(bench, &program))?.text;
    tally.add(count(&text, "default seed"));
    Ok(tally)
}

/// The program, which holds each cell to the kept table.
fn held(bench: &Bench, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--kept").arg(bench.workspace.root.join(TABLE));
    command
}

/// In an image that is a machine of its own, with two HCAs.
pub fn image(bench: &Bench) -> Result<Tally> {
    homes(bench, "image-")
}

/// Over VFIO in a Linux guest with two cards behind an IOMMU.
pub fn vfio(bench: &Bench) -> Result<Tally> {
    homes(bench, "vfio-")
}

fn homes(bench: &Bench, file: &str) -> Result<Tally> {
    let mut tally = Tally::default();
    for home in HOMES.iter().filter(|home| home.1.starts_with(file)) {
        tally.add(on_home(bench, home).with_context(|| home.0)?);
    }
    Ok(tally)
}

/// Runs the suite on a home, keeps what it said, and judges it.
fn on_home(bench: &Bench, &(name, file, link, run): &Home) -> Result<Tally> {
    let Told { text, besides } = run(bench, link)?;
    let path = told_by(bench, file);
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    let mut command = held(bench, &build(bench)?);
    command.args(["--told-only", "--told"]).arg(column(bench, name, file));
    let mut tally = count(&bench.shell.run(&mut command)?.text, name);
    tally.add(besides);
    Ok(tally)
}

/// Where what a home said is kept.
fn told_by(bench: &Bench, file: &str) -> PathBuf {
    bench.workspace.target.join("xtask").join(format!("conformance-{file}.txt"))
}

/// `--told` of a home.
fn column(bench: &Bench, name: &str, file: &str) -> String {
    format!("{name}={}", told_by(bench, file).display())
}

fn in_image(bench: &Bench, link: Link) -> Result<Told> {
    let options = qemu::Options { link, hcas: 2, limit: LIMIT, ..qemu::Options::of(&["img_conformance"]) };
    let outcome = qemu::run(bench.workspace, &bench.shell, &options, |_, _| {})?;
    let text = outcome.output.concat();
    let mut besides = Tally::default();
    // 1 says that a case failed, which is told by name.
    besides.count(match outcome.ends[..] {
        [End::Status(0 | 1)] => Ok(()),
        _ => Err(anyhow!("the image ended with {:?}\n{}", outcome.ends, outcome.said())),
    });
    besides.count(complaints(&text, outcome.model.as_ref()));
    Ok(Told { text, besides })
}

fn over_vfio(bench: &Bench, link: Link) -> Result<Told> {
    let program = build(bench)?;
    let mut options = vfio::options(bench)?;
    options.copies.push(program);
    let options = linux::Options { link, hcas: 2, limit: LIMIT, ..options };
    let (outcome, besides) = linux_cases::judge(bench, "vfio_conformance.sh", options, |outcome| {
        complaints(&outcome.output.concat(), outcome.model.as_ref())
    })?;
    Ok(Told { text: outcome.output.concat(), besides })
}

/// The model complained of what the cases provoked, by the words that they told, and of nothing else.
fn complaints(text: &str, model: Option<&(ExitStatus, String)>) -> Result<()> {
    let (status, said) = model.context("there was no model")?;
    let provoked: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("provoked: ")).collect();
    let refused = said.lines().find(|line| line.starts_with("  refused: "));
    ensure!(refused.is_none(), "a card reached for what it must not: {refused:?}");
    let wrong: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("  violation: ")).collect();
    let unprovoked = wrong.iter().find(|line| !provoked.iter().any(|words| line.contains(words)));
    ensure!(unprovoked.is_none(), "the model complained: {unprovoked:?}");
    let unsaid = provoked.iter().find(|words| !wrong.iter().any(|line| line.contains(*words)));
    ensure!(unsaid.is_none(), "the model has not complained of what was provoked: {unsaid:?}");
    // Its status for a guest that did something wrong.
    let expected = if wrong.is_empty() { 0 } else { 3 };
    ensure!(status.code() == Some(expected), "the model ended with {status}\n{said}");
    Ok(())
}

fn build(bench: &Bench) -> Result<PathBuf> {
    let mut cargo = bench.workspace.cargo();
    bench.shell.check(cargo.args(["build", "--release", "-p", "bareverbs-conformance", "--bin", "conformance"]))?;
    Ok(bench.workspace.target.join("release/conformance"))
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

/// The table of all homes is the one in the documentation; the page's filters show the rows that they should.
pub fn page(bench: &Bench) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut command = Command::new(build(bench)?);
    for home in HOMES {
        let told = TOLD.lock().unwrap_or_else(PoisonError::into_inner).contains(&home.1);
        if !told {
            tally.add(on_home(bench, home).with_context(|| home.0)?);
        }
        command.arg("--told").arg(column(bench, home.0, home.1));
    }
    let folder = bench.workspace.target.join("xtask");
    let [table, page, json] = ["md", "html", "json"].map(|end| folder.join(format!("conformance.{end}")));
    command.arg("--markdown").arg(&table).arg("--html").arg(&page).arg("--json").arg(&json);
    bench.shell.run(&mut command)?;
    tally.count((|| {
        let kept = fs::read_to_string(bench.workspace.root.join(TABLE))?;
        let written = fs::read_to_string(&table)?;
        let differ = written.lines().find(|line| !kept.lines().any(|k| k == *line)).unwrap_or("its order");
        ensure!(kept == written, "{TABLE} is not what the suite writes ({differ}): copy {} to it", table.display());
        Ok(())
    })());
    tally.add(browser::look(bench, &page, &json)?);
    Ok(tally)
}
