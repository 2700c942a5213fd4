//! What came of mutants before: kept by the text of the function, so that it holds where only other functions change.

use super::Outcome;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A way to change a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutant {
    /// `file:line:column: what is changed`.
    pub name: String,
    /// The same for the same change of the same function, wherever in the file it stands.
    pub(super) key: String,
}

/// What cargo-mutants calls its lists of those that need not be tried again.
const CAUGHT: &str = "caught";
const TIMEOUT: &str = "timeout";
const UNVIABLE: &str = "unviable";

/// Reads what cargo-mutants lists of a file, as JSON, and the text of the file.
pub fn read(json: &str, source: &str) -> Result<Vec<Mutant>> {
    let all: Value = serde_json::from_str(json)?;
    let all = all.as_array().context("a list of mutants")?;
    all.iter().map(|mutant| mutant_of(mutant, source).context("not a mutant")).collect()
}

fn mutant_of(mutant: &Value, source: &str) -> Option<Mutant> {
    let place = |span: &Value, end: &str| {
        let number = |what: &str| span[end][what].as_u64().and_then(|n| usize::try_from(n).ok());
        Some((number("line")?, number("column")?))
    };
    let name = mutant["name"].as_str()?.to_owned();
    let (at, end) = (place(&mutant["span"], "start")?, place(&mutant["span"], "end")?);
    // Outside a function: the whole file.
    let function = &mutant["function"]["span"];
    let (first, last) = match (place(function, "start"), place(function, "end")) {
        (Some((first, _)), Some((last, _))) => (first, last),
        _ => (1, usize::MAX),
    };
    let mut hasher = DefaultHasher::new();
    (&mutant["file"].as_str()?, mutant["function"]["function_name"].as_str(), mutant["replacement"].as_str()?)
        .hash(&mut hasher);
    ((at.0 - first, at.1), (end.0 - first, end.1)).hash(&mut hasher);
    source.lines().take(last).skip(first - 1).for_each(|line| line.hash(&mut hasher));
    Some(Mutant { name, key: format!("{:016x}", hasher.finish()) })
}

/// What came of mutants, by their keys.
#[derive(Default)]
pub struct Known {
    /// Where it is kept.
    path: Option<PathBuf>,
    all: HashMap<String, String>,
}

/// Before a run: notes in its folder which mutants it tries.
pub fn prepare(out: &Path, mutants: &[&Mutant]) -> Result<()> {
    fs::create_dir_all(out)?;
    let text: String = mutants.iter().map(|mutant| format!("{} {}\n", mutant.key, mutant.name)).collect();
    fs::write(out.join("keys.txt"), text).with_context(|| out.display().to_string())
}

impl Known {
    /// What a file keeps, which need not be there yet.
    pub fn kept(path: PathBuf) -> Result<Self> {
        let text = if path.exists() { fs::read_to_string(&path)? } else { String::new() };
        let all = text.lines().filter_map(|line| line.split_once(' ')).map(|(key, is)| (key.to_owned(), is.to_owned()));
        Ok(Self { all: all.collect(), path: Some(path) })
    }

    pub fn of(&self, mutant: &Mutant) -> Option<&str> {
        self.all.get(&mutant.key).map(String::as_str)
    }

    /// Takes over what is in the folder of a run, also one that was interrupted, and removes it.
    pub fn take(&mut self, out: &Path) -> Result<()> {
        if !out.exists() {
            return Ok(());
        }
        // A list that is not there has no line.
        let read = |name: &str| fs::read_to_string(out.join(name)).unwrap_or_default();
        let keys = read("keys.txt");
        let keys: HashMap<&str, &str> = keys.lines().filter_map(|l| l.split_once(' ')).map(|(k, n)| (n, k)).collect();
        let mut text = String::new();
        for what in [CAUGHT, TIMEOUT, UNVIABLE] {
            let names = read(&format!("mutants.out/{what}.txt"));
            for key in names.lines().filter_map(|name| keys.get(name)) {
                self.all.insert((*key).to_owned(), what.to_owned());
                text += &format!("{key} {what}\n");
            }
        }
        if let Some(path) = &self.path {
            fs::OpenOptions::new().append(true).create(true).open(path)?.write_all(text.as_bytes())?;
        }
        fs::remove_dir_all(out).with_context(|| out.display().to_string())
    }

    pub fn outcome(&self, mutants: &[Mutant]) -> Outcome {
        let mut outcome = Outcome::default();
        for mutant in mutants {
            let list = match self.of(mutant) {
                Some(CAUGHT) => &mut outcome.caught,
                Some(TIMEOUT) => &mut outcome.timeout,
                Some(UNVIABLE) => &mut outcome.unviable,
                _ => &mut outcome.missed,
            };
            list.insert(mutant.name.clone());
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "fn f() {\n    1 + 2\n}\n";
    /// The same function, further down.
    const MOVED: &str = "// more\n\nfn f() {\n    1 + 2\n}\n";
    const CHANGED: &str = "fn f() {\n    1 + 3\n}\n";

    fn mutant(source: &str, first: usize) -> Mutant {
        let line = first + 1;
        let json = format!(
            r#"[{{"name": "a.rs:{line}:7: replace + with - in f", "file": "a.rs", "replacement": "-",
                "span": {{"start": {{"line": {line}, "column": 7}}, "end": {{"line": {line}, "column": 8}}}},
                "function": {{"function_name": "f", "span":
                    {{"start": {{"line": {first}, "column": 1}}, "end": {{"line": {}, "column": 2}}}}}}}}]"#,
            first + 2
        );
        read(&json, source).unwrap().remove(0)
    }

    #[test]
    fn what_is_known_holds_while_the_function_is_the_same() {
        let folder = std::env::temp_dir().join(format!("bareverbs-known-{}", std::process::id()));
        let (out, path) = (folder.join("run"), folder.join("known.txt"));
        let before = mutant(BEFORE, 1);
        prepare(&out, &[&before]).unwrap();
        fs::create_dir_all(out.join("mutants.out")).unwrap();
        fs::write(out.join("mutants.out/caught.txt"), format!("{}\n", before.name)).unwrap();
        Known::kept(path.clone()).unwrap().take(&out).unwrap();
        assert!(!out.exists());
        let known = Known::kept(path).unwrap();
        fs::remove_dir_all(folder).unwrap();
        assert_eq!(known.of(&mutant(MOVED, 3)), Some(CAUGHT));
        assert_eq!(known.of(&mutant(CHANGED, 1)), None);
        let outcome = known.outcome(&[before.clone(), mutant(CHANGED, 1)]);
        assert_eq!((outcome.caught.len(), outcome.missed.len()), (1, 1));
    }
}
