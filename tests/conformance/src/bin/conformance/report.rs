//! The table of results: a row for each case, a column for each device and home.

use bareverbs_conformance::suite::Verdict;
use std::fmt::Write;

/// All columns; each has the same rows.
#[derive(Default)]
pub struct Report {
    pub columns: Vec<Column>,
}

/// A device on a home.
pub struct Column {
    pub name: String,
    pub rows: Vec<Row>,
}

/// A case, and how it ended.
pub struct Row {
    pub object: &'static str,
    pub name: &'static str,
    pub source: &'static str,
    pub says: &'static str,
    pub verdict: Verdict,
}

impl Column {
    /// Passes, what is unsupported, failures.
    pub fn counts(&self) -> [usize; 3] {
        let count = |f: fn(&Verdict) -> bool| self.rows.iter().filter(|r| f(&r.verdict)).count();
        [
            count(|v| *v == Verdict::Pass),
            count(|v| matches!(v, Verdict::Unsupported(_))),
            count(|v| matches!(v, Verdict::Fail(_))),
        ]
    }
}

/// The word in a cell, and what explains it.
fn words(verdict: &Verdict) -> (&'static str, &str) {
    match verdict {
        Verdict::Pass => ("pass", ""),
        Verdict::Unsupported(what) => ("unsupported", what),
        Verdict::Fail(why) => ("FAIL", why),
    }
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

    /// Each case with its cells.
    fn rows(&self) -> impl Iterator<Item = (&Row, Vec<&Verdict>)> {
        let first = self.columns.first().map_or(&[][..], |c| &c.rows);
        first.iter().enumerate().map(|(n, row)| (row, self.columns.iter().map(|c| &c.rows[n].verdict).collect()))
    }

    /// As a page of the documentation.
    pub fn markdown(&self) -> String {
        let mut out = String::from(
            "# Conformance\n\n\
             What each verb must do, by the libibverbs manual pages, the IBA, and faults seen in the field; and how \
             each driver does on each home. Written by `cargo run --release --bin conformance -- --markdown \
             docs/conformance.md`; do not edit.\n\n\
             *pass*: the case holds. *unsupported*: the device cannot, and says so by a named error before it does \
             anything. The cases are the functions of the same names under `tests/conformance/src/suite/`.\n",
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
            for verdict in cells {
                match words(verdict) {
                    (word, "") => _ = write!(out, " {word} |"),
                    (word, why) => _ = write!(out, " {word}: {} |", escape(why)),
                }
            }
            out.push('\n');
        }
        out
    }

    /// For machines.
    pub fn json(&self) -> String {
        let mut cases = Vec::new();
        for (row, cells) in self.rows() {
            let results: Vec<_> = self
                .columns
                .iter()
                .zip(cells)
                .map(|(column, verdict)| {
                    let (word, why) = words(verdict);
                    let (name, word, why) = (quote(&column.name), quote(&word.to_lowercase()), quote(why));
                    format!("{{\"on\": {name}, \"verdict\": {word}, \"why\": {why}}}")
                })
                .collect();
            cases.push(format!(
                "  {{\"object\": {}, \"case\": {}, \"source\": {}, \"says\": {}, \"results\": [{}]}}",
                quote(row.object),
                quote(row.name),
                quote(row.source),
                quote(row.says),
                results.join(", ")
            ));
        }
        format!("[\n{}\n]\n", cases.join(",\n"))
    }

    /// As a page that needs nothing else: filters by text and by verdict.
    pub fn html(&self) -> String {
        let mut head = String::from("<tr><th>object<th>case<th>says<th>source");
        for column in &self.columns {
            _ = write!(head, "<th>{}", escape(&column.name));
        }
        let mut body = String::new();
        for (row, cells) in self.rows() {
            let (object, says, source) = (escape(row.object), escape(row.says), escape(row.source));
            _ = write!(body, "<tr><td>{object}<td><code>{}</code><td>{says}<td>{source}", row.name);
            for verdict in cells {
                let (word, why) = words(verdict);
                _ = write!(body, "<td class=\"{}\" title=\"{}\">{word}", word.to_lowercase(), escape(why));
            }
            body.push('\n');
        }
        include_str!("page.html").replace("<!-- head -->", &head).replace("<!-- body -->", &body)
    }
}
