//! `cargo xtask bench --scale`: the fast path with many QPs on one CQ, beside libmlx5's with as many; small and large
//! CQs and SRQs.

use super::chart::{self, Group};
use super::instructions::{self, Counts};
use super::peer::{TURNS, keep_minima};
use super::times::Time;
use crate::judges::libmlx5::Libmlx5;
use crate::shell::Shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::process::Command;

/// QPs, and requests that the ring of each holds.
const QPS: [&str; 5] = ["1x1024", "16x256", "1024x16", "65536x16", DEEP];
const MOST: &str = "65536x";
/// With the most QPs, at most this part of libmlx5's time, and this part more instructions than with one.
const RATIO: f64 = 0.8;
const MORE_INSTRUCTIONS: f64 = 0.05;
/// Rounds that are counted: each QP fills its ring once at least, so that the post that looks for room is among them.
const COUNTED_ROUNDS: &str = "1024";
const DEEP: &str = "65536x64";
const DEEP_ROUNDS: &str = "4096";

/// One of the two: times, notes and instructions by case, where a case is named as in callgrind's dumps
/// (`poll_req/16 qps=1024x16`).
#[derive(Default)]
struct Side {
    times: Vec<Time>,
    notes: Vec<String>,
    counts: Counts,
}

pub struct Scale {
    ours: Side,
    libmlx5: Side,
}

pub fn measure(workspace: &Workspace, shell: &Shell, rounds: usize, cpu: usize) -> Result<Scale> {
    shell.check(workspace.cargo().args(["build", "--release", "-p", "bareverbs-bench", "--bin", "scale"]))?;
    let program = workspace.target.join("release/scale");
    let script = Libmlx5::get(workspace, shell)?.build(workspace, shell, "scale")?;
    let ours = |rounds: &str, qps: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["--rounds", rounds, "--cpu", &cpu.to_string(), "--qps", &qps.join(",")]);
        command
    };
    let libmlx5 = |rounds: &str, qps: &[&str]| {
        let mut command = Command::new(&script);
        command.args([rounds, &cpu.to_string()]).args(qps);
        command
    };
    let rounds = rounds.to_string();
    let mut scale = Scale { ours: Side::default(), libmlx5: Side::default() };
    for turn in 1..=TURNS {
        shell.note(&format!("turn {turn} of {TURNS}"));
        scale.ours.add(&shell.check(&mut ours(&rounds, &QPS))?)?;
        scale.libmlx5.add(&shell.check(&mut libmlx5(&rounds, &QPS))?)?;
    }
    shell.note("counting instructions");
    let count = |bench: &Command| instructions::count_cases(workspace, shell, bench);
    let (deep, others) = ([DEEP], &QPS[..QPS.len() - 1]);
    scale.ours.counts = count(&ours(COUNTED_ROUNDS, others))?;
    scale.ours.counts.extend(count(ours(DEEP_ROUNDS, &deep).args(["--entries", "--slots"]))?);
    scale.libmlx5.counts = count(&libmlx5(COUNTED_ROUNDS, others))?;
    scale.libmlx5.counts.extend(count(&libmlx5(DEEP_ROUNDS, &deep))?);
    Ok(scale)
}

impl Side {
    /// Reads lines `case,of,count,ns_min,ns_median`, and notes behind `# `.
    fn add(&mut self, lines: &str) -> Result<()> {
        self.notes.clear();
        let mut times = Vec::new();
        for line in lines.lines() {
            if let Some(note) = line.strip_prefix("# ") {
                self.notes.push(note.to_owned());
                continue;
            }
            let parts: Vec<&str> = line.split(',').collect();
            let [case, of, count, min, median] = parts[..] else { bail!("not a line of the bench: {line:?}") };
            times.push((format!("{case} {of}={count}"), min.parse()?, median.parse()?));
        }
        keep_minima(&mut self.times, times);
        Ok(())
    }

    fn time(&self, name: &str) -> Option<&Time> {
        self.times.iter().find(|time| time.0 == name)
    }

    fn count(&self, name: &str) -> Option<f64> {
        self.counts.get(name).copied()
    }
}

impl Scale {
    /// Both side by side; a missed goal is marked.
    pub fn table(&self) -> Result<String> {
        let mut text = format!(
            "{:<18} {:>7} {:>8}  {:>7} {:>7} {:>6}   {:>7} {:>7} {:>6}  {:>5}\n",
            "case", "of", "", "ours", "median", "instr", "libmlx5", "median", "instr", "ratio"
        );
        for (name, min, median) in &self.ours.times {
            let (case, of) = name.split_once(' ').context("a case of nothing")?;
            let (of, count) = of.split_once('=').context("a case of how many")?;
            let instructions = self.ours.count(name).with_context(|| format!("{name} was not counted"))?;
            let most = count.starts_with(MOST);
            let one = self.ours.count(&format!("{case} qps={}", QPS[0])).unwrap_or(f64::INFINITY);
            let more = mark(most && instructions > one * (1.0 + MORE_INSTRUCTIONS));
            let _ = write!(text, "{case:<18} {of:>7} {count:>8}  {min:>7.2} {median:>7.2} {instructions:>6.1}{more}");
            if let Some((_, peer_min, peer_median)) = self.libmlx5.time(name) {
                let peer = self.libmlx5.count(name).with_context(|| format!("libmlx5's {name} was not counted"))?;
                let ratio = min / peer_min;
                let missed = mark(most && ratio > RATIO);
                let _ = write!(text, "  {peer_min:>7.2} {peer_median:>7.2} {peer:>6.1}  {ratio:>5.2}{missed}");
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        for (whose, side) in [("ours", &self.ours), ("libmlx5", &self.libmlx5)] {
            side.notes.iter().for_each(|note| {
                let _ = writeln!(text, "{whose:<8} {note}");
            });
        }
        Ok(text)
    }

    /// Bars of the cases that libmlx5 has too.
    pub fn svg(&self) -> String {
        let group = |(name, min, _): &Time| {
            let peer = self.libmlx5.time(name)?;
            let label = name.replace(" qps=", ", ");
            Some(Group { label, bars: vec![(chart::OURS.1, *min), (chart::PEER.1, peer.1)] })
        };
        let mut groups: Vec<Group> = self.ours.times.iter().filter_map(group).collect();
        groups.sort_by_key(|group| group.label.starts_with("poll"));
        chart::draw("ns an operation, fastest round", &groups, &[chart::OURS, chart::PEER])
    }
}

fn mark(missed: bool) -> char {
    if missed { '!' } else { ' ' }
}

#[cfg(test)]
mod tests {
    use super::{Scale, Side};

    fn scale(ours: &str, instructions: f64) -> Scale {
        let mut scale = Scale { ours: Side::default(), libmlx5: Side::default() };
        scale
            .ours
            .add(&format!("poll_req/16,qps,1x1024,3.0,3.5\npoll_req/16,qps,65536x16,{ours}\n# a note\n"))
            .unwrap();
        scale.libmlx5.add("poll_req/16,qps,1x1024,9.0,9.0\npoll_req/16,qps,65536x16,100.0,150.0\n").unwrap();
        for side in [&mut scale.ours, &mut scale.libmlx5] {
            side.counts.insert("poll_req/16 qps=1x1024".into(), 70.0);
            side.counts.insert("poll_req/16 qps=65536x16".into(), instructions);
        }
        scale
    }

    #[test]
    fn goals_are_held_against_the_most_qps() {
        let good = scale("79.0,90.0", 73.4).table().unwrap();
        assert!(!good.contains('!') && good.contains("0.79") && good.contains("a note"), "{good}");
        assert!(scale("81.0,90.0", 73.4).table().unwrap().contains("0.81!"));
        assert!(scale("79.0,90.0", 73.6).table().unwrap().contains("73.6!"));
    }

    #[test]
    fn a_line_that_is_none() {
        assert!(Side::default().add("poll_req/16,qps,1x1024,3.0").is_err());
    }
}
