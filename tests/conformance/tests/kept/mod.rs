//! The kept table of results, as the tests read it.
#![allow(dead_code, reason = "each test takes what it needs")]

use bareverbs_conformance::{kept::Kept, suite::Home};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The table of the documentation.
pub fn table() -> Kept {
    Kept::parse(include_str!("../../../../docs/conformance.md"))
}

/// A case has gone wrong: whoever runs the suite beside, where most likely the same would, need not go on.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Every case of the suite comes to what the table has in this column.
pub fn every_case<H: Home>(column: &str, seed: u64, mut home: impl FnMut() -> H) {
    println!("seed {seed:#x}");
    let home = || {
        assert!(!FAILED.load(Relaxed), "a case has gone wrong beside");
        home()
    };
    match table().hold(column, seed, home) {
        Ok(passed) => println!("{column}: {passed} cases passed"),
        Err(why) => {
            FAILED.store(true, Relaxed);
            panic!("{why} (docs/conformance.md; `cargo xtask test conformance-page` writes it)");
        }
    }
}
