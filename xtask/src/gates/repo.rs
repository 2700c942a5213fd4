//! What must not stand in the files of the repository.

use super::BARE;
use crate::test::{Bench, Tally};
use anyhow::{Result, anyhow, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A longer source file is not read in one sitting.
const LONG: usize = 600;

/// Macros that print: nobody listens where there is no operating system.
const PRINTS: &[&str] = &["println!", "eprintln!", "print!", "eprint!", "dbg!"];

/// Only this folder of the examples names drivers, backends and models.
const HOME: &str = "examples/src/home";

pub fn run(bench: &Bench) -> Result<Tally> {
    let root = &bench.workspace.root;
    let names = bench.shell.check(Command::new("git").current_dir(root).args(["ls-files"]))?;
    let machine = names_of_this_machine(root);
    let bare: Vec<&str> = bench
        .workspace
        .packages
        .iter()
        .filter(|p| BARE.contains(&p.name.as_str()))
        .map(|p| p.folder.as_str())
        .collect();
    if bare.len() != BARE.len() {
        bail!("the gates know packages that are not in the workspace: {BARE:?}");
    }
    let parts: Vec<String> =
        bench.workspace.packages.iter().filter(|p| is_part(&p.folder)).map(|p| p.name.replace('-', "_")).collect();
    let mut tally = Tally::default();
    for name in names.lines().filter(|name| !name.ends_with(".lock")) {
        // Files that are no text hold none of this.
        let Ok(text) = fs::read_to_string(root.join(name)) else {
            continue;
        };
        let mut found = mentions(&text, &machine, "names this machine or a registry's host");
        if name.ends_with(".rs") {
            // Written in two halves, so that this file does not find itself.
            let open = [
                concat!("todo", "!("),
                concat!("unimplemented", "!("),
                concat!("FIX", "ME"),
                concat!("XX", "X"),
                concat!("#[ig", "nore"),
            ];
            found.extend(mentions(&text, &open.map(String::from), "is left open"));
            if text.lines().count() > LONG {
                tally.warnings.push(format!("{name} has {} lines", text.lines().count()));
            }
            if bare.iter().any(|folder| name.starts_with(&format!("{folder}/src/"))) && !is_tests(name) {
                found.extend(prints(&text));
            }
            if name.starts_with("examples/src/") && !name.starts_with(HOME) {
                found.extend(mentions(&text, &parts, "belongs into the home of the examples"));
            }
        }
        tally.count(if found.is_empty() { Ok(()) } else { Err(anyhow!("{name}: {}", found.join("; "))) });
    }
    Ok(tally)
}

/// Drivers, backends and models: what the body of an example may not know.
fn is_part(folder: &str) -> bool {
    ["drivers/", "hal/", "tests/"].iter().any(|start| folder.starts_with(start))
}

/// Whether a file is a test module of its own.
fn is_tests(name: &str) -> bool {
    name.ends_with("/tests.rs") || name.ends_with("_tests.rs") || name.contains("/tests/")
}

/// The lines that hold one of the words.
fn mentions(text: &str, words: &[String], what: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    let hits = lines.filter_map(|(i, line)| words.iter().find(|w| line.contains(w.as_str())).map(|w| (i, w)));
    hits.map(|(i, word)| format!("line {}: {word} {what}", i + 1)).collect()
}

/// The lines that print, outside comments and before the tests at the end of the file.
fn prints(text: &str) -> Vec<String> {
    let lines = text.lines().enumerate().take_while(|(_, line)| line.trim() != "#[cfg(test)]");
    let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    let hits = code.filter_map(|(i, line)| PRINTS.iter().find(|p| line.contains(*p)).map(|p| (i, p)));
    hits.map(|(i, print)| format!("line {}: {print} in a crate without an operating system", i + 1)).collect()
}

/// The hosts of the package registries that this machine is set up for, its home folder and the checkout itself.
fn names_of_this_machine(root: &Path) -> Vec<String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let mut files: Vec<_> =
        [".cargo/config.toml", ".npmrc", ".config/pip/pip.conf"].iter().map(|f| Path::new(&home).join(f)).collect();
    files.extend(["/etc/apt/sources.list", "/etc/pip.conf"].map(Into::into));
    files.extend(fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|entry| entry.path()));
    let mut names: BTreeSet<String> =
        files.iter().filter_map(|f| fs::read_to_string(f).ok()).flat_map(|text| hosts(&text)).collect();
    names.insert(format!("{home}/"));
    // A checkout right below the root has a name that says nothing.
    if root.components().count() > 3 {
        names.insert(format!("{}/", root.display()));
    }
    names.into_iter().filter(|name| name.len() > 3).collect()
}

/// The hosts of the URLs in a text.
fn hosts(text: &str) -> Vec<String> {
    let after = text.split("://").skip(1);
    let host =
        |rest: &str| rest.split(|c: char| c == '/' || c.is_whitespace() || c == '"').next().unwrap_or("").to_owned();
    after.map(host).filter(|host| host.contains('.')).collect()
}

#[cfg(test)]
mod tests {
    use super::{hosts, mentions, prints};

    #[test]
    fn prints_are_found_in_code_only() {
        let text = "fn f() {\n    // println!(\"x\")\n    eprintln!(\"x\");\n}\n#[cfg(test)]\nmod tests { fn g() { println!(\"x\") } }\n";
        assert_eq!(prints(text).len(), 1);
        assert!(prints(text)[0].starts_with("line 3:"));
    }

    #[test]
    fn hosts_of_both_forms_of_apt_sources() {
        let text = "URIs: http://mirror.example.org/debian\ndeb [signed-by=/k] https://other.example.org/x main\nindex = \"sparse+https://a.example.net/\"\nfile:///srv\n";
        assert_eq!(hosts(text), ["mirror.example.org", "other.example.org", "a.example.net"]);
    }

    #[test]
    fn a_word_is_found_with_its_line() {
        let found = mentions("a\nb mirror.example.org\n", &["mirror.example.org".into()], "is a host");
        assert_eq!(found, ["line 2: mirror.example.org is a host"]);
    }
}
