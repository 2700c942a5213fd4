//! Switches the effect of each command off in turn (`hca_model --no-effect`), and finds out who in a Linux guest notices.
//!
//! A command that the model answers with success while nobody notices that it did nothing is one that no outside tool
//! has judged.

use crate::linux::{self, Link, Options};
use crate::linux_cases;
use crate::test::Bench;
use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Seconds for a run; one that hangs has noticed.
const LIMIT: u64 = 120;

/// Commands without an effect that could be missed, and why.
const EFFECT_FREE: &[(&str, &str)] = &[
    (
        "QUERY_ADAPTER",
        "asks only; its answer is the vendor and the board's identity, which Linux shows and nothing checks",
    ),
    ("SET_DRIVER_VERSION", "tells the card a text that it keeps for its own tools"),
];

/// The jobs that Linux's commands come from.
const JOBS: &[(&str, Link)] = &[("ib_effects.sh", Link::Ib), ("roce_effects.sh", Link::Roce)];

/// Runs what is not in `kept` yet, and writes the table into `docs/opcodes.md`. Tells whether every command was noticed.
pub fn run(bench: &Bench, kept: &Path, today: &str, commit: &str) -> Result<bool> {
    let mut noticed: BTreeMap<(String, String), String> = BTreeMap::new();
    for line in fs::read_to_string(kept).unwrap_or_default().lines() {
        let mut parts = line.splitn(3, '\t').map(str::to_owned);
        if let (Some(job), Some(command), Some(by)) = (parts.next(), parts.next(), parts.next()) {
            noticed.insert((job, command), by);
        }
    }
    for (job, link) in JOBS {
        let commands = issued(bench, job, *link)?;
        let bar = ProgressBar::new(commands.len() as u64);
        for (opcode, name) in &commands {
            let key = ((*job).to_owned(), format!("{opcode} {name}"));
            bar.inc(1);
            if noticed.contains_key(&key) {
                continue;
            }
            let by = who_notices(bench, job, *link, opcode);
            println!("{job} {opcode} {name}: {by}");
            noticed.insert(key, by);
            let lines: Vec<String> =
                noticed.iter().map(|((job, command), by)| format!("{job}\t{command}\t{by}")).collect();
            fs::write(kept, lines.join("\n"))?;
            write(bench, &noticed, today, commit)?;
        }
        bar.finish_and_clear();
    }
    write(bench, &noticed, today, commit)
}

/// The commands of a run in which nothing is switched off, as opcode and name.
fn issued(bench: &Bench, job: &str, link: Link) -> Result<Vec<(String, String)>> {
    let mut options = options(link);
    let tally = linux_cases::run(bench, job, options.clone())?;
    ensure!(tally.failed == 0, "{job} fails with all effects on:\n{}", tally.complaints.join("\n"));
    options.command = vec![format!(". ./lib.sh; . ./{job}")];
    options.copies = linux_cases::files(bench)?;
    let outcome = linux::run(bench.workspace, &bench.shell, &options, |_, _| {})?;
    let (_, text) = outcome.model.context("no model")?;
    let mut commands = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("  0x")) {
        let mut words = line.split(' ');
        if let (Some(opcode), Some(name)) = (words.next(), words.next()) {
            commands.insert(format!("0x{opcode}"), name.to_owned());
        }
    }
    Ok(commands.into_iter().collect())
}

fn options(link: Link) -> Options {
    Options { link, hcas: 2, limit: LIMIT, ..Options::default() }
}

/// The first thing that goes wrong without the command's effect; empty if nothing does.
fn who_notices(bench: &Bench, job: &str, link: Link, opcode: &str) -> String {
    let options = Options { model_arguments: vec![format!("--no-effect={opcode}")], ..options(link) };
    let complaint = match linux_cases::run(bench, job, options) {
        Ok(tally) => tally.complaints.into_iter().next().unwrap_or_default(),
        Err(error) => format!("{error:#}"),
    };
    let words: Vec<&str> = complaint.lines().take(2).map(str::trim).collect();
    words.join(" ").chars().take(160).collect::<String>().replace(['\t', '|'], " ")
}

fn write(bench: &Bench, noticed: &BTreeMap<(String, String), String>, today: &str, commit: &str) -> Result<bool> {
    let mut text = format!(
        "# Who notices a command without effect\n\nWritten by `cargo xtask soak` on {today}, at commit {commit}. Each of these {} commands that \
         Linux 6.12 issues in a job of `tests/linux` was answered with success and zeros, and nothing was done; the first \
         complaint of a tool, the kernel or the model is shown.\n\n| job | command | noticed by |\n|---|---|---|\n",
        noticed.len()
    );
    let mut all = true;
    for ((job, command), by) in noticed {
        let name = command.split(' ').next_back().unwrap_or_default();
        let free = EFFECT_FREE.iter().find(|(n, _)| *n == name);
        let by = match (by.as_str(), free) {
            ("", Some((_, why))) => format!("nobody: it {why}"),
            ("", None) => {
                all = false;
                "**nobody**".to_owned()
            }
            (by, _) => by.to_owned(),
        };
        text += &format!("| {job} | {command} | {by} |\n");
    }
    fs::write(bench.workspace.root.join("docs/opcodes.md"), text).context("docs/opcodes.md")?;
    Ok(all)
}
