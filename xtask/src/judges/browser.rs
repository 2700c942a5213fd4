//! A browser's look at the page of the conformance suite: which rows are shown with a filter in the address.

use crate::shell::Shell;
use crate::test::{Bench, Tally};
use crate::tools::{self, Tool};
use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the browser may take for a page.
const LIMIT: Duration = Duration::from_secs(120);

/// Fields of a filter; a row is shown if all of them fit.
type Filter = &'static [(&'static str, &'static str)];

/// Each shows some rows and not all, but for the first and the last.
const FILTERS: &[Filter] = &[
    &[],
    &[("object", "SRQ")],
    &[("home", "mlx5, image, InfiniBand"), ("verdict", "unsupported")],
    &[("verdict", "unsupported")],
    &[("object", "CQ"), ("home", "loopback, process"), ("verdict", "pass"), ("text", "DESTROY")],
    &[("text", "no case says this")],
];

/// Pages that are broken, by what of the page is lost: each has to be found out.
const BROKEN: &[(&str, &str)] = &[("row.hidden =", "row.unseen ="), ("<script>", "<script>nothing();")];

/// Looks at the page with every filter, and at broken pages.
pub fn look(bench: &Bench, page: &Path, cases: &Path) -> Result<Tally> {
    let cases: Value = serde_json::from_str(&fs::read_to_string(cases)?)?;
    let cases = cases.as_array().context("the cases are no list")?;
    let folder = page.parent().context("a page in no folder")?.join("chromium");
    let browser = Browser { tool: tools::chromium(bench.workspace, &bench.shell)?, shell: &bench.shell, folder };
    let mut tally = Tally::default();
    for (n, filter) in FILTERS.iter().enumerate() {
        let expected: BTreeSet<&str> = cases.iter().filter(|case| fits(case, filter)).filter_map(name).collect();
        let selective = (n == 0) == (expected.len() == cases.len()) && (n == FILTERS.len() - 1) == expected.is_empty();
        tally.count((|| {
            ensure!(selective, "{filter:?} fits {} of {} cases: the check would be blind", expected.len(), cases.len());
            browser.compare(page, filter, &expected, cases.len())
        })());
    }
    let text = fs::read_to_string(page)?;
    let filter = FILTERS[1];
    let expected: BTreeSet<&str> = cases.iter().filter(|case| fits(case, filter)).filter_map(name).collect();
    for (what, instead) in BROKEN {
        ensure!(text.contains(what), "the page has no {what:?}");
        let broken = page.with_extension("broken.html");
        fs::write(&broken, text.replacen(what, instead, 1))?;
        tally.count(match browser.compare(&broken, filter, &expected, cases.len()) {
            Err(error) if error.to_string().contains("is shown") => Ok(()),
            Err(error) => Err(error),
            Ok(()) => Err(anyhow!("a page with {instead:?} was not found out")),
        });
    }
    Ok(tally)
}

fn name(case: &Value) -> Option<&str> {
    case["case"].as_str()
}

/// Whether a case is shown with a filter.
fn fits(case: &Value, filter: Filter) -> bool {
    let field = |name: &str| filter.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
    let results = case["results"].as_array().map_or(&[][..], Vec::as_slice);
    let seen: Vec<&Value> = results.iter().filter(|r| field("home").is_none_or(|home| r["on"] == *home)).collect();
    let mut words: Vec<&Value> = ["object", "case", "says", "source"].map(|key| &case[key]).into();
    words.extend(results.iter().map(|r| &r["verdict"]));
    words.extend(seen.iter().map(|r| &r["why"]));
    let words: String = words.iter().filter_map(|w| w.as_str()).collect::<Vec<_>>().join(" ").to_lowercase();
    field("object").is_none_or(|object| case["object"] == *object)
        && field("verdict").is_none_or(|verdict| seen.iter().any(|r| r["verdict"] == *verdict))
        && field("text").is_none_or(|text| words.contains(&text.to_lowercase()))
}

struct Browser<'a> {
    tool: Tool,
    shell: &'a Shell,
    /// Of profiles: one for each look, so that none knows of another.
    folder: PathBuf,
}

impl Browser<'_> {
    /// The page shows exactly the expected rows, and tells how many.
    fn compare(&self, page: &Path, filter: Filter, expected: &BTreeSet<&str>, all: usize) -> Result<()> {
        let text = self.dump(page, filter)?;
        let mut shown = BTreeSet::new();
        for row in text.split("<tr id=\"").skip(1) {
            let (name, rest) = row.split_once('"').context("a row without a name")?;
            if !rest.split('>').next().is_some_and(|tag| tag.contains("hidden")) {
                shown.insert(name);
            }
        }
        if let Some(row) = shown.symmetric_difference(expected).next() {
            let is = if shown.contains(row) { "is shown" } else { "is not" };
            bail!("{filter:?}: {row} {is}; {} rows are shown, {} should be", shown.len(), expected.len());
        }
        let count = format!(">{} of {all} cases<", expected.len());
        ensure!(text.contains(&count), "{filter:?}: the page does not say {count}");
        Ok(())
    }

    /// The page's elements once its script ran.
    fn dump(&self, page: &Path, filter: Filter) -> Result<String> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)?;
        }
        fs::create_dir_all(&self.folder)?;
        let mut command = self.tool.command()?;
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-breakpad"]);
        command.arg(format!("--user-data-dir={}", self.folder.display()));
        command.arg("--dump-dom").arg(format!("file://{}#{}", page.display(), fragment(filter)));
        let finished = self.shell.run_within(&mut command, LIMIT)?;
        ensure!(finished.status.success(), "{}", finished.complaint());
        Ok(finished.text)
    }
}

/// A filter as the page's address ends with it.
fn fragment(filter: Filter) -> String {
    let encoded = |text: &str| text.replace('%', "%25").replace(' ', "%20").replace(',', "%2C");
    filter.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
}
