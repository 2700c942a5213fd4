//! The list of mutants that no test notices, and the record of what was run.

use super::{Mutant, Outcome};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

/// The listed mutants, by their names without places.
pub type Listed = BTreeMap<String, Entry>;

/// Of a listed mutant.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// How often it is listed: several places of a function may be changed alike.
    times: usize,
    /// A test may notice by luck.
    luck: bool,
    /// Why none can, or not always.
    reason: String,
}

/// Reads the list: reasons in lines that begin with `#`, below each the mutants it is for, up to an empty line; one that a
/// test may notice by luck begins with `?`.
pub fn listed(text: &str) -> Result<Listed> {
    let mut all = Listed::new();
    let mut reason = String::new();
    for line in text.lines().map(str::trim) {
        match line.strip_prefix('#') {
            None if line.is_empty() => reason.clear(),
            Some(words) => reason = format!("{reason} {}", words.trim()).trim().to_owned(),
            None => {
                ensure!(!reason.is_empty(), "no reason above {line}");
                let luck = line.starts_with('?');
                let name = line.trim_start_matches(['?', ' ']).to_owned();
                all.entry(name).or_insert(Entry { times: 0, luck, reason: reason.clone() }).times += 1;
            }
        }
    }
    Ok(all)
}

/// A mutant without its place, which moves with every line above it.
fn name(mutant: &str) -> String {
    let mut parts = mutant.splitn(4, ':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(file), Some(_), Some(_), Some(what)) => format!("{file}:{what}"),
        _ => mutant.to_owned(),
    }
}

fn counted<'a>(mutants: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    mutants.into_iter().for_each(|mutant| *counts.entry(name(mutant)).or_insert(0) += 1);
    counts
}

/// Takes out of a file's mutants those that are all listed as missed, but not those that a test may notice by luck.
pub fn take_listed(mutants: &mut Vec<Mutant>, listed: &Listed) -> Vec<String> {
    let all = counted(mutants.iter().map(|mutant| &mutant.name));
    let is_listed = |mutant: &Mutant| {
        let name = name(&mutant.name);
        listed.get(&name).is_some_and(|entry| !entry.luck && entry.times >= all[&name])
    };
    let (out, rest) = mutants.drain(..).partition(is_listed);
    *mutants = rest;
    let out: Vec<Mutant> = out;
    out.into_iter().map(|mutant| mutant.name).collect()
}

/// Complaints of the missed mutants that are not listed, or more often than that.
pub fn unlisted(missed: &BTreeSet<String>, listed: &Listed) -> Vec<String> {
    let over = |name: &String| counted(missed)[name] > listed.get(name).map_or(0, |entry| entry.times);
    missed.iter().filter(|m| over(&name(m))).map(|m| format!("no test notices {m}")).collect()
}

/// Complaints of the listed mutants of a file that some test notices.
pub fn needless(file: &str, missed: &BTreeSet<String>, listed: &Listed) -> Vec<String> {
    let missed = counted(missed);
    let here = listed.iter().filter(|(name, entry)| !entry.luck && name.starts_with(&format!("{file}:")));
    let more = here.filter(|(name, entry)| entry.times > missed.get(*name).copied().unwrap_or(0));
    more.map(|(name, _)| format!("listed, but noticed: {name}")).collect()
}

/// What came of a file, as a row of the record's table.
pub struct Row {
    file: String,
    text: String,
}

impl Row {
    pub fn new(file: &str, commit: &str, day: &str, outcome: &Outcome) -> Self {
        let Outcome { caught, timeout, missed, unviable } = outcome;
        let all = caught.len() + timeout.len() + missed.len();
        let text = format!(
            "| `{file}` | {day} | {:.12} | {all} | {} | {} | {} | {} |",
            commit,
            caught.len(),
            timeout.len(),
            missed.len(),
            unviable.len()
        );
        Self { file: file.to_owned(), text }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Writes the record anew with another row; the rows of other files stay as they are.
pub fn write<'a>(path: &Path, files: impl Iterator<Item = &'a str>, row: Row, listed: &Listed) -> Result<()> {
    let before = fs::read_to_string(path).unwrap_or_default();
    let mut text = String::from(
        "# Mutants\n\n\
         Written by `cargo xtask mutants`: cargo-mutants changes the code in small ways, one at a time, and a test must\n\
         fail. *No end*: the tests did not end, which notices it too. *Missed*: no test fails; each such mutant is listed\n\
         below with the reason. *No program*: it does not compile. `cargo xtask test mutants-diff`, part of the gate, does\n\
         the same for what a commit changes.\n\n\
         | file | run on | at commit | mutants | caught | no end | missed | no program |\n\
         |---|---|---|--:|--:|--:|--:|--:|\n",
    );
    for file in files {
        let begins = format!("| `{file}` |");
        let kept = before.lines().find(|line| line.starts_with(&begins));
        match kept {
            _ if row.file == file => text += &row.text,
            Some(line) => text += line,
            None => text += &format!("| `{file}` | not yet | | | | | | |"),
        }
        text.push('\n');
    }
    text += "\n## Missed, and why\n\nOf a file that was not run yet: what is expected to be missed, by reading.\n\n";
    for (name, Entry { times, reason, .. }) in listed {
        let times = if *times > 1 { format!(" ({times} places)") } else { String::new() };
        text += &format!("- `{name}`{times}: {reason}\n");
    }
    fs::write(path, text).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSED: [&str; 2] = ["a/b.rs:3:4: replace f -> u32 with 0", "a/b.rs:9:4: replace f -> u32 with 0"];

    fn missed(n: usize) -> BTreeSet<String> {
        MISSED[..n].iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_mutant_is_listed_as_often_as_it_may_be_missed() {
        let once = listed("# nobody\n# can see\na/b.rs: replace f -> u32 with 0\n").unwrap();
        let entry = Entry { times: 1, luck: false, reason: "nobody can see".to_owned() };
        assert_eq!(once["a/b.rs: replace f -> u32 with 0"], entry);
        assert_eq!(unlisted(&missed(2), &once).len(), 2);
        assert_eq!(unlisted(&missed(1), &once).len(), 0);
        assert_eq!(unlisted(&missed(2), &Listed::new()).len(), 2);
    }

    #[test]
    fn what_is_listed_in_vain_is_told() {
        let twice = listed("# why\na/b.rs: replace f -> u32 with 0\na/b.rs: replace f -> u32 with 0\n").unwrap();
        assert_eq!(needless("a/b.rs", &missed(2), &twice), Vec::<String>::new());
        assert_eq!(needless("a/b.rs", &missed(1), &twice).len(), 1);
        assert_eq!(needless("a/c.rs", &missed(0), &twice), Vec::<String>::new());
        let luck = listed("# why\n? a/b.rs: replace f -> u32 with 0\n").unwrap();
        assert_eq!((needless("a/b.rs", &missed(0), &luck), unlisted(&missed(1), &luck)), (vec![], vec![]));
    }

    #[test]
    fn only_those_that_are_all_listed_are_believed() {
        let mutant = |name: &str| Mutant { name: name.to_owned(), ..Mutant::default() };
        let listed = listed("# why\na/b.rs: replace f -> u32 with 0\n? a/b.rs: luck\n").unwrap();
        let mut once = vec![mutant(MISSED[0]), mutant("a/b.rs:1:1: luck"), mutant("a/b.rs:1:1: other")];
        assert_eq!(take_listed(&mut once, &listed), [MISSED[0]]);
        assert_eq!(once.len(), 2);
        let mut twice: Vec<Mutant> = MISSED.into_iter().map(mutant).collect();
        assert_eq!(take_listed(&mut twice, &listed).len(), 0);
        assert_eq!(twice.len(), 2);
    }

    #[test]
    fn a_mutant_without_a_reason_is_refused() {
        assert!(listed("a/b.rs: replace f -> u32 with 0\n").is_err());
    }
}
