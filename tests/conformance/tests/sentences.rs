//! The manual pages' sentences and the suite name each other, and the documentation is the table.

mod kept;

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

/// A case that passes nowhere holds nothing; what no device does is said by the name that the devices give it.
#[test]
fn the_cases_named_pass_somewhere() {
    let kept = kept::table();
    for (page, held) in PAGES.iter().flat_map(|page| page.sentences.iter().map(move |(_, held)| (page.name, held))) {
        for case in held.cases() {
            let cells = kept.cells(case);
            match held {
                Held::Unsupported(_, what) => {
                    let word = format!("unsupported: {what}");
                    let all = !cells.is_empty() && cells.iter().all(|cell| *cell == word);
                    assert!(all, "{page}: {case} is not {word}: {cells:?}");
                }
                _ => assert!(cells.iter().any(|cell| cell == "pass"), "{page}: {case} passes nowhere: {cells:?}"),
            }
        }
    }
}

#[test]
fn the_tests_named_are_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drivers/mlx5/tests");
    let files = fs::read_dir(folder).expect("the driver's tests").map(|entry| entry.expect("an entry").path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let text: String = files.map(|path| fs::read_to_string(path).expect("a test")).collect();
    for page in PAGES {
        for (_, held) in page.sentences {
            let Held::And(_, tests) = held else { continue };
            for test in *tests {
                assert!(text.contains(&format!("#[test]\nfn {test}() {{")), "{}: no test is called {test}", page.name);
            }
        }
    }
}

/// Cases and what they come from.
fn cases() -> BTreeMap<&'static str, &'static str> {
    suite::table::<Loopback>().into_iter().flat_map(|(_, cases)| cases).map(|case| (case.name, case.source)).collect()
}

/// The cases that a page names.
fn named(page: &sentences::Page) -> Vec<&'static str> {
    page.sentences.iter().flat_map(|(_, held)| held.cases().iter().copied()).collect()
}

#[test]
fn no_sentence_is_left_out() {
    let there: Vec<_> = PAGES.iter().map(|page| (page.name, page.sentences.len())).collect();
    assert_eq!(there, COUNTED);
    for page in PAGES {
        for (n, (says, held)) in (1..).zip(page.sentences) {
            let is_held = match held {
                Held::Not(why) => why.len() > 10,
                held => !held.cases().is_empty(),
            };
            assert!(!says.is_empty() && is_held, "{} {n}: {held:?}", page.name);
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
