//! The manual pages' sentences and the suite name each other, and the documentation is the table.

use bareverbs_conformance::{
    sentences::{self, Held, PAGES},
    suite,
};
use bareverbs_loopback::Loopback;
use std::{collections::BTreeMap, fs, path::Path};

/// Sentences of each page, counted there.
const COUNTED: [(&str, usize); 9] = [
    ("ibv_create_cq", 10),
    ("ibv_resize_cq", 6),
    ("ibv_req_notify_cq", 9),
    ("ibv_get_cq_event", 23),
    ("ibv_create_comp_channel", 9),
    ("ibv_create_srq", 12),
    ("ibv_modify_srq", 14),
    ("ibv_query_srq", 7),
    ("ibv_post_srq_recv", 15),
];

/// Cases and what they come from.
fn cases() -> BTreeMap<&'static str, &'static str> {
    suite::table::<Loopback>().into_iter().flat_map(|(_, cases)| cases).map(|case| (case.name, case.source)).collect()
}

/// The cases that a page names.
fn named(page: &sentences::Page) -> Vec<&'static str> {
    let of = |held: &Held| match held {
        Held::By(cases) => cases.to_vec(),
        Held::Not(_) => Vec::new(),
    };
    page.sentences.iter().flat_map(|(_, held)| of(held)).collect()
}

#[test]
fn no_sentence_is_left_out() {
    let there: Vec<_> = PAGES.iter().map(|page| (page.name, page.sentences.len())).collect();
    assert_eq!(there, COUNTED);
    for page in PAGES {
        for (n, (says, held)) in (1..).zip(page.sentences) {
            let (held, why) = match held {
                Held::By(cases) => (cases.len(), "cases"),
                Held::Not(why) => (usize::from(why.len() > 10), *why),
            };
            assert!(!says.is_empty() && held > 0, "{} {n}: {why}", page.name);
        }
    }
}

#[test]
fn the_cases_named_are_there() {
    let cases = cases();
    for page in PAGES {
        for name in named(page) {
            assert!(cases.contains_key(name), "{}: no case is called {name}", page.name);
        }
    }
}

#[test]
fn each_case_of_these_pages_is_named() {
    let mut found = 0;
    for (case, source) in cases() {
        for page in PAGES.iter().filter(|page| source.split(';').any(|one| page.calls.contains(&one.trim()))) {
            assert!(named(page).contains(&case), "{case} is of {}, which does not name it", page.name);
            found += 1;
        }
    }
    assert!(found > 60, "{found}");
}

#[test]
fn the_documentation_is_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sentences.md");
    let (is, should) = (fs::read_to_string(&path).unwrap_or_default(), sentences::markdown());
    if is != should {
        let written = std::env::temp_dir().join("bareverbs-sentences.md");
        fs::write(&written, should).expect("a place for the page");
        panic!("docs/sentences.md is not the table; {} is", written.display());
    }
}
