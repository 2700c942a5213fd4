//! The conformance suite on the homes that a process can be, and the table of all homes.

#[path = "conformance/report.rs"]
mod report;

use anyhow::{Context, Result, bail};
use bareverbs::Device;
use bareverbs_conformance::{
    homes::{LoopbackHome, ModelHome, VfioHome},
    kept::Kept,
    suite::{self, Case, Verdict},
};
use bareverbs_hal::PciAddress;
use bareverbs_harness::model::LinkKind;
use bareverbs_mlx5::Local;
use clap::{Parser, ValueEnum};
use indicatif::ProgressBar;
use report::{Column, Report};
use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process::ExitCode,
};

/// Runs every case of the conformance suite and tells which passed, which the device cannot do, and which failed.
#[derive(Parser)]
struct Args {
    /// mlx5 or loopback, both in the process; or twice the PCI address of a card on vfio-pci. Without it mlx5 and
    /// loopback.
    #[arg(short, long, value_parser = device)]
    device: Vec<DeviceKind>,
    /// What the modelled HCAs' link speaks; without it both.
    #[arg(long)]
    link: Option<Link>,
    /// Where random choices come from.
    #[arg(long, default_value_t = 0x636f_6e66)]
    seed: u64,
    /// Name each case and how it ended.
    #[arg(short, long)]
    verbose: bool,
    /// Add a column to the table: what the suite printed on another home with -v, as "NAME=FILE".
    #[arg(long, value_parser = told, value_name = "NAME=FILE")]
    told: Vec<(String, PathBuf)>,
    /// Run nothing: the columns are those of --told.
    #[arg(long)]
    told_only: bool,
    /// Hold each cell to this table, as --markdown wrote it: a case that comes out otherwise has failed.
    #[arg(long)]
    kept: Option<PathBuf>,
    /// Write the table as Markdown.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Write the table as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write the table as a page with filters that needs nothing else.
    #[arg(long)]
    html: Option<PathBuf>,
    /// Only cases whose name contains this.
    #[arg(default_value = "")]
    wanted: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DeviceKind {
    /// The mlx5 driver on modelled HCAs.
    Mlx5,
    /// The provider in memory.
    Loopback,
    /// The mlx5 driver on a card of this host.
    Card(PciAddress),
}

fn device(text: &str) -> Result<DeviceKind> {
    Ok(match text {
        "mlx5" => DeviceKind::Mlx5,
        "loopback" => DeviceKind::Loopback,
        bdf => {
            let address = bdf.parse().ok();
            DeviceKind::Card(address.with_context(|| format!("{bdf}: no mlx5, loopback or PCI address"))?)
        }
    })
}

fn told(text: &str) -> Result<(String, PathBuf)> {
    let (name, file) = text.split_once('=').with_context(|| format!("{text}: NAME=FILE is expected"))?;
    Ok((name.to_owned(), file.into()))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Link {
    /// InfiniBand.
    Ib,
    /// RoCE v2.
    Roce,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let mut report = Report { columns: if args.told_only { vec![] } else { run_all(&args)? } };
    for (name, path) in &args.told {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        report.columns.push(Column::read(name, &text).with_context(|| path.display().to_string())?);
    }
    if report.columns.iter().all(|c| c.cells.is_empty()) {
        bail!("no case is called so");
    }
    for (path, text) in [(&args.markdown, report.markdown()), (&args.json, report.json()), (&args.html, report.html())]
    {
        if let Some(path) = path {
            fs::write(path, text).with_context(|| path.display().to_string())?;
        }
    }
    if let Some(path) = &args.kept {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        report.hold_to(&Kept::parse(&text));
    }
    println!("seed {:#x}", args.seed);
    for column in &report.columns {
        for (name, cell) in column.cells.iter().filter(|(_, cell)| cell.is_failed()) {
            println!("FAILED: {name} on {}: {}", column.name, cell.why);
        }
        let [pass, unsupported, fail] = column.counts();
        println!("{}: {pass} pass, {unsupported} unsupported, {fail} failed", column.name);
    }
    let [pass, unsupported, fail] = report.counts();
    println!("{pass} passed, {unsupported} unsupported, {fail} failed");
    Ok(if fail == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the suite on each home that was asked for.
fn run_all(args: &Args) -> Result<Vec<Column>> {
    let cards = args.device.iter().filter_map(|d| if let DeviceKind::Card(at) = d { Some(*at) } else { None });
    let cards: Vec<PciAddress> = cards.collect();
    let mut columns = Vec::new();
    if !cards.is_empty() {
        let [a, b] = cards[..] else { bail!("the suite needs two cards on one link: -d BDF -d BDF") };
        let mut home = VfioHome::open([a, b])?;
        columns.push(run("mlx5, VFIO", args, |case| suite::run(&mut home, case, args.seed)));
    }
    let wants = |kind| args.device.contains(&kind) || args.device.is_empty();
    for (link, kind, name) in [
        (Link::Ib, LinkKind::InfiniBand, "mlx5, process, InfiniBand"),
        (Link::Roce, LinkKind::Ethernet, "mlx5, process, RoCE v2"),
    ] {
        if wants(DeviceKind::Mlx5) && args.link.is_none_or(|l| l == link) {
            let each = |case: &_| suite::run(&mut ModelHome::<Local>::new(kind, args.seed), case, args.seed);
            columns.push(run(name, args, each));
        }
    }
    if wants(DeviceKind::Loopback) {
        let each = |case: &_| suite::run(&mut LoopbackHome::default(), case, args.seed);
        columns.push(run("loopback, process", args, each));
    }
    Ok(columns)
}

/// Runs the suite on a home; a case that panics has failed.
fn run<D: Device>(name: &str, args: &Args, mut one: impl FnMut(&Case<D>) -> Verdict) -> Column {
    let cases: Vec<_> = suite::table::<D>().into_iter().flat_map(|(_, cases)| cases).collect();
    let bar = if args.verbose { ProgressBar::hidden() } else { ProgressBar::new(cases.len() as u64) };
    let mut column = Column { name: name.to_owned(), cells: Vec::new() };
    for case in cases.iter().filter(|case| case.name.contains(&args.wanted)) {
        bar.inc(1);
        let ended = catch_unwind(AssertUnwindSafe(|| one(case)));
        let verdict = ended.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            Verdict::Fail(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned())
        });
        if args.verbose {
            let mut lines = String::new();
            // Writing to a String does not fail.
            let _ = suite::tell(&mut lines, case, &verdict);
            print!("{lines}");
        }
        column.cells.push((case.name.to_owned(), verdict.into()));
    }
    bar.finish_and_clear();
    column
}
