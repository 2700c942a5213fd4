//! Jobs of `tests/linux` in guests with cards: runs them, and judges every case they report, the kernel's log and the
//! model.

use crate::linux::{self, Options, Outcome};
use crate::test::{Bench, Tally};
use anyhow::{Context, Result, ensure};
use regex::Regex;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs a job of `tests/linux` in the guests of `options`.
///
/// Each `pair`, `alone` and `manager` line of the job is a case, and has to be reported as passed by each guest.
/// Besides, no guest's kernel may complain about something that `kernel_messages.txt` does not list, the model may not
/// have found anything wrong, and frames must have passed the link of every card.
pub fn run(bench: &Bench, job: &str, options: Options) -> Result<Tally> {
    judge(bench, job, options, model).map(|(_, tally)| tally)
}

/// The same for a job whose cards, if there are any, carry nothing.
pub fn run_idle(bench: &Bench, job: &str, options: Options) -> Result<Tally> {
    let model = |outcome: &Outcome| match &outcome.model {
        Some((status, text)) => {
            ensure!(status.success(), "the model ended with {status}:\n{text}");
            Ok(())
        }
        None => Ok(()),
    };
    judge(bench, job, options, model).map(|(_, tally)| tally)
}

/// The same where `model` judges the model.
pub fn judge(
    bench: &Bench,
    job: &str,
    mut options: Options,
    model: fn(&Outcome) -> Result<()>,
) -> Result<(Outcome, Tally)> {
    let folder = bench.workspace.root.join("tests/linux");
    let script = script(&folder, job)?;
    options.copies.extend(files(bench)?);
    options.command = vec![format!(". ./lib.sh; . ./{job}; kernel_log")];
    let outcome = linux::run(bench.workspace, &bench.shell, &options, |_, _| {})?;

    let mut tally = Tally::default();
    for (guest, output) in (1..).zip(&outcome.output) {
        let place = if options.guests == 1 { String::new() } else { format!(" (guest {guest})") };
        for case in cases(&script) {
            match verdict(output, case) {
                Ok(()) => tally.pass(),
                Err(why) => tally.fail(format!("{job} {case}{place}: {why}")),
            }
        }
        tally.count(kernel_log(bench, output).with_context(|| format!("{job}{place}")));
    }
    tally.count(model(&outcome).with_context(|| job.to_owned()));
    Ok((outcome, tally))
}

/// Everything that a job may use.
pub fn files(bench: &Bench) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(bench.workspace.root.join("tests/linux"))?;
    Ok(entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?)
}

/// A job with what it takes from others.
fn script(folder: &Path, job: &str) -> Result<String> {
    let mut script = fs::read_to_string(folder.join(job)).with_context(|| job.to_owned())?;
    let others: Vec<String> = script.lines().filter_map(|l| l.strip_prefix(". ./")).map(str::to_owned).collect();
    for other in others {
        script += &fs::read_to_string(folder.join(&other)).with_context(|| other.clone())?;
    }
    Ok(script)
}

/// The names of a job's cases.
fn cases(script: &str) -> impl Iterator<Item = &str> {
    script.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        matches!(words.next(), Some("pair" | "alone" | "manager")).then(|| words.next())?
    })
}

/// Whether the case passed; else what was said since the case before.
fn verdict(output: &str, case: &str) -> Result<(), String> {
    let line = format!("case {case}: ");
    let Some(at) = output.lines().position(|l| l.starts_with(&line)) else { return Err("was not reported".into()) };
    if output.lines().nth(at) == Some(&format!("{line}passed")) {
        return Ok(());
    }
    let before: Vec<&str> = output.lines().take(at).collect();
    let first = before.iter().rposition(|l| l.starts_with("case ")).map_or(0, |last| last + 1);
    Err(format!("failed\n{}", before[first..].join("\n")))
}

/// Every complaint of the kernel is a known one.
fn kernel_log(bench: &Bench, output: &str) -> Result<()> {
    let list = fs::read_to_string(bench.workspace.root.join("tests/linux/kernel_messages.txt"))?;
    let known = list.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    let known = known.map(Regex::new).collect::<Result<Vec<_>, _>>()?;
    let mut lines = output.lines().filter_map(|l| l.strip_prefix("kernel: ")).peekable();
    ensure!(lines.peek().is_some(), "the guest has not told its kernel's log");
    let unknown: Vec<&str> = lines.filter(|line| !known.iter().any(|k| k.is_match(line))).collect();
    ensure!(unknown.is_empty(), "the kernel complained:\n{}", unknown.join("\n"));
    Ok(())
}

/// The model found nothing wrong, and every card has sent and received.
fn model(outcome: &Outcome) -> Result<()> {
    let (status, text) = outcome.model.as_ref().context("there was no model")?;
    ensure!(status.success(), "the model ended with {status}:\n{text}");
    let links: Vec<&str> = text.lines().filter(|l| l.starts_with("HCA ")).collect();
    ensure!(!links.is_empty(), "the model tells of no link:\n{text}");
    let idle = links.iter().find(|l| l.contains("sent 0 (") || l.contains("received 0 ("));
    ensure!(idle.is_none(), "a link carried nothing: {idle:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_found_and_judged() {
        let script = "# pair no 'x'\nalone one 'a'\npair two 'b' c\n";
        assert_eq!(cases(script).collect::<Vec<_>>(), ["one", "two"]);
        let output = "case one: passed\n    server: bad\ncase two: FAILED\n";
        assert_eq!(verdict(output, "one"), Ok(()));
        assert_eq!(verdict(output, "two").unwrap_err(), "failed\n    server: bad");
        assert_eq!(verdict(output, "on").unwrap_err(), "was not reported");
    }
}
