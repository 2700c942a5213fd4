//! The kept table of results, `docs/conformance.md`: what each case must come to on each home.

use crate::suite::{self, Case, Home, Verdict};
use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};

/// The table.
pub struct Kept {
    columns: Vec<String>,
    cells: BTreeMap<String, Vec<String>>,
}

impl Kept {
    /// Reads the page.
    pub fn parse(text: &str) -> Self {
        let (mut columns, mut cells) = (Vec::new(), BTreeMap::new());
        for line in text.lines() {
            let row: Vec<_> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect();
            match &row[..] {
                [case, _, _, names @ ..] if case == "case" => columns = names.to_vec(),
                [case, _, _, results @ ..] if case.starts_with('`') => {
                    cells.insert(case.trim_matches('`').to_string(), results.to_vec());
                }
                _ => {}
            }
        }
        Self { columns, cells }
    }

    /// How a case ended everywhere; none of a case that is not in the table.
    pub fn cells(&self, case: &str) -> &[String] {
        self.cells.get(case).map_or(&[], Vec::as_slice)
    }

    /// How a case ended in a column.
    pub fn cell(&self, column: &str, case: &str) -> Option<&str> {
        let at = self.columns.iter().position(|name| name == column)?;
        self.cells(case).get(at).map(String::as_str)
    }

    /// All cases.
    pub fn cases(&self) -> impl Iterator<Item = &str> {
        self.cells.keys().map(String::as_str)
    }

    /// Runs every case of the suite, each on a home of its own, and holds it to a column; tells how many passed. An error
    /// names the first that came out otherwise, or is not there.
    pub fn hold<H: Home>(&self, column: &str, seed: u64, mut home: impl FnMut() -> H) -> Result<usize, String> {
        let table = suite::table::<H::Device>();
        let cases: Vec<&Case<_>> = table.iter().flat_map(|(_, cases)| cases).collect();
        if let Some(gone) = self.cases().find(|name| !cases.iter().any(|case| case.name == *name)) {
            return Err(alloc::format!("{gone} is in the table, and not in the suite"));
        }
        let mut passed = 0;
        for case in cases {
            let verdict = suite::run(&mut home(), case, seed);
            passed += usize::from(verdict == Verdict::Pass);
            let outcome = self.compare(column, case.name, &verdict.to_string());
            outcome.map_err(|why| alloc::format!("{} on {column}: {why}", case.name))?;
        }
        Ok(passed)
    }

    /// Holds how a case ended to the table.
    pub fn compare(&self, column: &str, case: &str, verdict: &str) -> Result<(), String> {
        match self.cell(column, case) {
            Some(should) if should == verdict => Ok(()),
            Some(should) => Err(alloc::format!("{verdict}; the table has {should}")),
            None => Err(alloc::format!("{verdict}; the table does not have it")),
        }
    }
}
