//! The table of results: a row for each case, a column for each device and home.

use anyhow::{Context, Result, bail};
use bareverbs_conformance::{
    kept::Kept,
    suite::{self, Verdict},
};
use bareverbs_loopback::Loopback;
use std::fmt::Write;

/// All columns.
pub struct Report {
    pub columns: Vec<Column>,
}

/// A device on a home.
pub struct Column {
    pub name: String,
    /// A case's name, and how it ended.
    pub cells: Vec<(String, Cell)>,
}

/// How a case ended.
#[derive(Clone)]
pub struct Cell {
    word: Word,
    /// What the device lacks, or what went wrong.
    pub why: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Pass,
    Unsupported,
    Failed,
}

impl Word {
    const ALL: [(Self, &str); 3] = [(Self::Pass, "pass"), (Self::Unsupported, "unsupported"), (Self::Failed, "FAILED")];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(word, _)| *word == self).map_or("", |(_, name)| name)
    }
}

impl Cell {
    pub fn is_failed(&self) -> bool {
        self.word == Word::Failed
    }

    /// The words of the cell.
    pub fn text(&self) -> String {
        let name = self.word.name();
        if self.why.is_empty() { name.to_owned() } else { format!("{name}: {}", self.why) }
    }

    /// Reads what a home printed of a case.
    fn read(text: &str) -> Option<Self> {
        let (name, why) = text.split_once(": ").unwrap_or((text, ""));
        let (word, _) = Word::ALL.into_iter().find(|(_, n)| *n == name)?;
        Some(Self { word, why: why.to_owned() })
    }
}

impl From<Verdict> for Cell {
    fn from(verdict: Verdict) -> Self {
        let (word, why) = match verdict {
            Verdict::Pass => (Word::Pass, String::new()),
            Verdict::Unsupported(what) => (Word::Unsupported, what.to_owned()),
            Verdict::Fail(why) => (Word::Failed, why),
        };
        Self { word, why }
    }
}

impl Column {
    /// Reads the lines `suite NAME: VERDICT` of another home: each case of the suite exactly once.
    pub fn read(name: &str, text: &str) -> Result<Self> {
        let mut cells = Vec::new();
        for line in text.lines() {
            let Some((case, ended)) = line.strip_prefix("suite ").and_then(|rest| rest.split_once(": ")) else {
                continue;
            };
            let cell = Cell::read(ended).with_context(|| format!("{line}: no verdict"))?;
            cells.push((case.to_owned(), cell));
        }
        let rows = rows();
        for (case, _) in &cells {
            let told = cells.iter().filter(|(name, _)| name == case).count();
            if told != 1 || !rows.iter().any(|row| row.name == case) {
                bail!("{case}: told {told} times of a suite that has it or not");
            }
        }
        if let Some(row) = rows.iter().find(|row| !cells.iter().any(|(case, _)| case == row.name)) {
            bail!("nothing is told of {}", row.name);
        }
        Ok(Self { name: name.to_owned(), cells })
    }

    /// Passes, what is unsupported, failures.
    pub fn counts(&self) -> [usize; 3] {
        Word::ALL.map(|(word, _)| self.cells.iter().filter(|(_, cell)| cell.word == word).count())
    }

    fn cell(&self, case: &str) -> Option<&Cell> {
        self.cells.iter().find(|(name, _)| name == case).map(|(_, cell)| cell)
    }
}

/// A case of the suite.
struct Row {
    object: &'static str,
    name: &'static str,
    source: &'static str,
    says: &'static str,
}

/// The cases are the same for each device.
fn rows() -> Vec<Row> {
    let all = suite::table::<Loopback>().into_iter();
    let row =
        |object, case: suite::Case<Loopback>| Row { object, name: case.name, source: case.source, says: case.says };
    all.flat_map(|(object, cases)| cases.into_iter().map(move |case| row(object, case))).collect()
}

/// What Markdown's tables and HTML would take for their own.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('|', "&#124;")
}

/// A JSON string.
fn quote(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => _ = write!(out, "\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl Report {
    /// Passes, what is unsupported, failures, of all columns.
    pub fn counts(&self) -> [usize; 3] {
        self.columns.iter().map(Column::counts).fold([0; 3], |a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]])
    }

    /// Whatever did not come out as the kept table has it has failed.
    pub fn hold_to(&mut self, kept: &Kept) {
        for column in &mut self.columns {
            for (case, cell) in column.cells.iter_mut().filter(|(_, cell)| !cell.is_failed()) {
                if let Err(why) = kept.compare(&column.name, case, &cell.text()) {
                    *cell = Cell { word: Word::Failed, why };
                }
            }
        }
    }

    /// Each case that was run, with its cells.
    fn rows(&self) -> impl Iterator<Item = (Row, Vec<&Cell>)> {
        rows().into_iter().filter_map(|row| {
            let cells = self.columns.iter().map(|column| column.cell(row.name)).collect::<Option<_>>()?;
            Some((row, cells))
        })
    }

    /// As a page of the documentation.
    pub fn markdown(&self) -> String {
        let mut out = String::from(
            "# Conformance\n\n\
             What each verb must do, by the libibverbs manual pages, the IBA, and faults seen in the field; and how \
             each driver does on each home. `cargo xtask test conformance-page` runs the suite on all of them, writes \
             this table and compares; do not edit.\n\n\
             *pass*: the case holds. *unsupported*: the device cannot, and says so by a named error before it does \
             anything. The cases are the functions of the same names under `tests/conformance/src/suite/`, the same \
             source on each home: *process* (modelled cards, virtual clock), *image* (bare metal, under QEMU with \
             modelled cards), *VFIO* (a Linux guest, behind its IOMMU). No case needs the harness.\n\n\
             Which sentence of which manual page each case of CQs and SRQs holds: [sentences.md](sentences.md).\n",
        );
        let names: Vec<_> = self.columns.iter().map(|c| c.name.as_str()).collect();
        out.push_str("\n| | pass | unsupported | failed |\n|---|--:|--:|--:|\n");
        for column in &self.columns {
            let [pass, unsupported, fail] = column.counts();
            _ = writeln!(out, "| {} | {pass} | {unsupported} | {fail} |", column.name);
        }
        let mut object = "";
        for (row, cells) in self.rows() {
            if row.object != object {
                object = row.object;
                _ = write!(out, "\n## {object}\n\n| case | says | source | {} |\n", names.join(" | "));
                out.push_str(&"|---".repeat(3 + names.len()));
                out.push_str("|\n");
            }
            _ = write!(out, "| `{}` | {} | {} |", row.name, escape(row.says), escape(row.source));
            for cell in cells {
                _ = write!(out, " {} |", escape(&cell.text()));
            }
            out.push('\n');
        }
        out
    }

    /// For machines.
    pub fn json(&self) -> String {
        let mut cases = Vec::new();
        for (row, cells) in self.rows() {
            let results = self.columns.iter().zip(cells).map(|(column, cell)| {
                let (name, word, why) = (quote(&column.name), quote(cell.word.name()), quote(&cell.why));
                format!("{{\"on\": {name}, \"verdict\": {word}, \"why\": {why}}}")
            });
            cases.push(format!(
                "  {{\"object\": {}, \"case\": {}, \"source\": {}, \"says\": {}, \"results\": [{}]}}",
                quote(row.object),
                quote(row.name),
                quote(row.source),
                quote(row.says),
                results.collect::<Vec<_>>().join(", ")
            ));
        }
        format!("[\n{}\n]\n", cases.join(",\n"))
    }

    /// As a page that needs nothing else: filters by object, home, verdict and text.
    pub fn html(&self) -> String {
        let mut head = String::from("<tr><th>object<th>case<th>says<th>source");
        for column in &self.columns {
            _ = write!(head, "<th class=\"home\">{}", escape(&column.name));
        }
        let mut body = String::new();
        for (row, cells) in self.rows() {
            let (object, says, source) = (escape(row.object), escape(row.says), escape(row.source));
            _ = write!(body, "<tr id=\"{0}\"><td>{object}<td><code>{0}</code><td>{says}<td>{source}", row.name);
            for cell in cells {
                let word = cell.word.name();
                _ = write!(body, "<td class=\"{}\" title=\"{}\">{word}", word.to_lowercase(), escape(&cell.why));
            }
            body.push('\n');
        }
        include_str!("page.html").replace("<!-- head -->", &head).replace("<!-- body -->", &body)
    }
}
