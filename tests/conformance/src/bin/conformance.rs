//! The conformance suite on the homes that are in the process, and the table that it writes.

#[path = "conformance/report.rs"]
mod report;

use anyhow::{Context, Result, bail};
use bareverbs_conformance::{
    homes::{LoopbackHome, ModelHome},
    suite::{self, Home, Verdict},
};
use bareverbs_harness::model::LinkKind;
use clap::{Parser, ValueEnum};
use indicatif::ProgressBar;
use report::{Column, Report};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process::ExitCode,
};

/// Runs every case of the conformance suite and tells which passed, which the device cannot do, and which failed.
#[derive(Parser)]
struct Args {
    /// The device; without it each that there is.
    #[arg(short, long)]
    device: Option<DeviceKind>,
    /// What the modelled HCAs' link speaks; without it both.
    #[arg(long)]
    link: Option<Link>,
    /// Where random choices come from.
    #[arg(long, default_value_t = 0x636f_6e66)]
    seed: u64,
    /// Only cases whose name contains this.
    #[arg(short, long)]
    filter: Option<String>,
    /// Name each case and how it ended.
    #[arg(short, long)]
    verbose: bool,
    /// Write the table as Markdown.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Write the table as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write the table as a page with filters that needs nothing else.
    #[arg(long)]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DeviceKind {
    /// The mlx5 driver on modelled HCAs.
    Mlx5,
    /// The provider in memory.
    Loopback,
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
    let mut report = Report::default();
    let wants = |kind, link| args.device.is_none_or(|d| d == kind) && (link == args.link || args.link.is_none());
    for (link, kind, name) in [
        (Link::Ib, LinkKind::InfiniBand, "mlx5, modelled ConnectX, InfiniBand"),
        (Link::Roce, LinkKind::Ethernet, "mlx5, modelled ConnectX, RoCE v2"),
    ] {
        if wants(DeviceKind::Mlx5, Some(link)) {
            report.columns.push(run(name, &args, || ModelHome::new(kind, args.seed)));
        }
    }
    if wants(DeviceKind::Loopback, None) || args.device == Some(DeviceKind::Loopback) {
        report.columns.push(run("loopback, in memory", &args, LoopbackHome::default));
    }
    if report.columns.iter().all(|c| c.rows.is_empty()) {
        bail!("no case is called so");
    }
    for (path, text) in [(&args.markdown, report.markdown()), (&args.json, report.json()), (&args.html, report.html())]
    {
        if let Some(path) = path {
            std::fs::write(path, text).with_context(|| format!("{}", path.display()))?;
        }
    }
    println!("seed {:#x}", args.seed);
    for column in &report.columns {
        for row in &column.rows {
            match &row.verdict {
                Verdict::Fail(why) => println!("FAILED: {} on {}: {why}", row.name, column.name),
                Verdict::Unsupported(what) if args.verbose => {
                    println!("unsupported: {} on {}: {what}", row.name, column.name);
                }
                Verdict::Pass if args.verbose => println!("pass: {} on {}", row.name, column.name),
                _ => {}
            }
        }
        let [pass, unsupported, fail] = column.counts();
        println!("{}: {pass} pass, {unsupported} unsupported, {fail} failed", column.name);
    }
    let [pass, unsupported, fail] = report.counts();
    println!("{} passed, {fail} failed", pass + unsupported);
    Ok(if fail == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the suite on a home; a case that panics has failed.
fn run<H: Home>(name: &str, args: &Args, home: impl Fn() -> H) -> Column {
    let table = suite::table::<H::Device>();
    let bar = ProgressBar::new(table.iter().map(|(_, cases)| cases.len() as u64).sum());
    let mut column = Column { name: name.to_owned(), rows: Vec::new() };
    for (object, cases) in table {
        for case in cases {
            bar.inc(1);
            if args.filter.as_ref().is_some_and(|f| !case.name.contains(f.as_str())) {
                continue;
            }
            let ended = catch_unwind(AssertUnwindSafe(|| suite::run(&mut home(), &case, args.seed)));
            let verdict = ended.unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                Verdict::Fail(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned())
            });
            column.rows.push(report::Row { object, name: case.name, source: case.source, says: case.says, verdict });
        }
    }
    bar.finish_and_clear();
    column
}
