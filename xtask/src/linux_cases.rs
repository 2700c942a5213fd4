//! Jobs of `tests/linux` in guests with cards: runs them, and judges every case they report, the kernel's log and the
//! model.

use crate::linux::{self, NoEnd, Options, Outcome};
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

/// What somebody outside of the model was the first to complain about.
#[derive(Default)]
pub struct Complaint {
    /// The line of the job with the case that was at work.
    pub case: String,
    /// What was said.
    pub said: String,
}

/// Runs a job in one guest until a case fails. Tells who complains first, the kernel before a tool, and what the model says
/// at its end; what the model finds wrong is no complaint.
pub fn first_complaint(bench: &Bench, job: &str, mut options: Options) -> Result<(Option<Complaint>, String)> {
    let script = script(&bench.workspace.root.join("tests/linux"), job)?;
    let limit = options.limit / 4;
    options.copies.extend(files(bench)?);
    options.command = vec![format!("export FIRST=1 LIMIT={limit}; . ./lib.sh; . ./{job}; kernel_log")];
    let mut output = String::new();
    let outcome = linux::run(bench.workspace, &bench.shell, &options, |_, line| output += &format!("{line}\n"));
    let stopped = cases(&script).find(|case| verdict(&output, case).is_err());
    let case = stopped.and_then(|name| script.lines().find(|line| is_case(line, name))).unwrap_or_default().to_owned();
    let (mut said, model) = match outcome {
        Ok(outcome) => {
            let (_, model) = outcome.model.context("there was no model")?;
            (unknown(bench, output.lines().filter_map(|l| l.strip_prefix("kernel: ")))?, model)
        }
        Err(error) => {
            let Some(no_end) = error.downcast_ref::<NoEnd>() else { return Err(error) };
            // The console has the kernel's errors, each behind its time.
            let console = format!("{error}");
            let lines = console.lines().filter_map(|l| Some(l.strip_prefix('[')?.split_once("] ")?.1));
            let mut said = unknown(bench, lines)?;
            match no_end {
                NoEnd::Late(limit) => said.push(format!("timed out after {limit} s")),
                // Without a word of the kernel it was not the kernel that ended.
                NoEnd::Early(_) if said.is_empty() => return Err(error),
                NoEnd::Early(_) => {}
            }
            (said, String::new())
        }
    };
    said.iter_mut().for_each(|line| line.insert_str(0, "kernel: "));
    if let Some(Err(why)) = stopped.map(|case| verdict(&output, case)) {
        let lines: Vec<&str> = why.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        said.push(lines[lines.len().saturating_sub(2)..].join("; "));
    }
    Ok((said.into_iter().next().map(|said| Complaint { case, said }), model))
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

fn is_case(line: &str, name: &str) -> bool {
    cases(line).any(|case| case == name)
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
    let mut lines = output.lines().filter_map(|l| l.strip_prefix("kernel: ")).peekable();
    ensure!(lines.peek().is_some(), "the guest has not told its kernel's log");
    let unknown = unknown(bench, lines)?;
    ensure!(unknown.is_empty(), "the kernel complained:\n{}", unknown.join("\n"));
    Ok(())
}

/// The lines of a kernel's log that `kernel_messages.txt` does not list.
fn unknown<'a>(bench: &Bench, lines: impl Iterator<Item = &'a str>) -> Result<Vec<String>> {
    let list = fs::read_to_string(bench.workspace.root.join("tests/linux/kernel_messages.txt"))?;
    let known = list.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    let known = known.map(Regex::new).collect::<Result<Vec<_>, _>>()?;
    Ok(lines.filter(|line| !known.iter().any(|k| k.is_match(line))).map(str::to_owned).collect())
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
