//! The tables of errors in the verbs' pages (`docs/verbs`): each refusal that comes stands there by its error's and its
//! argument's name, and what stands there comes, here or where it is said.

use super::{NOT_BY_ARGUMENTS, Refusal, variants};
use bareverbs::{Error, PostError};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Pages of each verb that is refused something here.
const PAGES: &[(&str, &[&str])] = &[
    ("ack_events", &["ack_cq_events"]),
    ("address_handle", &["create_ah"]),
    ("alloc_device_memory", &["reg_mr"]),
    ("alloc_fast_region", &["alloc_fast_region"]),
    ("alloc_pd", &["alloc_pd"]),
    ("alloc_window", &["alloc_mw"]),
    ("attach_flow", &["create_flow"]),
    ("attach_multicast", &["attach_mcast"]),
    ("bind", &["alloc_mw"]),
    ("create_cq", &["create_cq"]),
    ("create_cq_on", &["create_cq", "create_comp_channel"]),
    ("create_qp", &["create_qp"]),
    ("create_srq", &["create_srq"]),
    ("create_xrc_srq", &["open_xrcd"]),
    ("create_xrc_target", &["open_xrcd"]),
    ("destroy_channel", &["create_comp_channel"]),
    ("destroy_cq", &["destroy_cq"]),
    ("destroy_device", &["open_device"]),
    ("destroy_pd", &["alloc_pd"]),
    ("destroy_qp", &["destroy_qp"]),
    ("destroy_srq", &["destroy_srq"]),
    ("destroy_xrcd", &["open_xrcd"]),
    ("detach_flow", &["create_flow"]),
    ("detach_multicast", &["attach_mcast"]),
    ("moderate", &["modify_cq"]),
    ("modify", &["modify_qp"]),
    ("open_xrcd", &["open_xrcd"]),
    ("poll", &["poll_cq"]),
    ("push_bind", &["alloc_mw"]),
    ("push_recv", &["post_recv"]),
    ("push_register", &["alloc_fast_region"]),
    ("push_send", &["post_send"]),
    ("push_srq", &["post_srq_recv"]),
    ("query_gid", &["query_gid"]),
    ("query_pkey", &["query_pkey"]),
    ("query_port", &["query_port"]),
    ("read", &["reg_mr"]),
    ("register", &["reg_mr"]),
    ("request_notify", &["req_notify_cq"]),
    ("reregister", &["rereg_mr"]),
    ("resize_cq", &["resize_cq"]),
    ("resize_srq", &["modify_srq"]),
    ("set_gid", &["query_gid"]),
    ("set_limit", &["modify_srq"]),
    ("set_variant", &["alloc_mw"]),
    ("sge", &["reg_mr"]),
    ("write", &["reg_mr"]),
];

/// The other verbs of the traits that may fail, and why none of their arguments is wrong, or where it is tried.
const OTHER_VERBS: &[(&str, &str)] = &[
    ("advance", "takes nothing; fails as `poll` does"),
    ("create_comp_channel", "takes nothing"),
    ("deregister", "takes nothing; windows that hold the region: window_keeps_its_region_busy"),
    ("destroy", "destroy_channel and so on, above"),
    ("event", "takes nothing"),
    ("post", "the pushes of a list: srq_post_stops_at_the_first_failure"),
    ("post_recv", "the pushes of a list: case_32_full_in_the_middle_of_a_list"),
    ("post_send", "the pushes of a list: case_32_full_in_the_middle_of_a_list"),
    ("push", "push_srq, above"),
    ("query", "takes nothing"),
    ("reopen", "takes nothing; holders of the device: it_comes_back_again_and_again"),
    ("reserved_lkey", "takes nothing"),
    ("resize", "resize_cq and resize_srq, above"),
    ("service", "takes nothing"),
];

/// What `Unsupported` says where it is not these devices that lack something.
const OTHER_DEVICES: &[&str] = &[
    "atomics",
    "CQ moderation",
    "CQ resize",
    "fast registration",
    "flow rules",
    "memory windows",
    "multicast",
    "re-registration",
    "reopening",
    "RoCE v2",
    "shared receive queues",
    "XRC",
];

/// What else stands in a page and no argument brings about, and where it is tested.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("alloc_mw", "UnsupportedAccess", "a device without atomics: tests/access.rs"),
    ("create_flow", "a QP that is half destroyed", "the device refuses: tests/states.rs"),
    ("modify_qp", "a QP that is half destroyed", "the device refuses: tests/states.rs"),
    ("open_device", "Unsupported", "another device, or older firmware: tests/bringup.rs"),
    ("poll_cq", "BadEntry", "the device's answer: entries_that_make_no_sense_are_told_when_they_come_first"),
    ("poll_cq", "UnknownQp", "the device's answer: entries_that_make_no_sense_are_told_when_they_come_first"),
    ("query_qp", "a QP that is half destroyed", "the device refuses: tests/states.rs"),
    ("reg_mr", "Busy", "windows are bound, of which the device is asked: window_keeps_its_region_busy"),
    ("rereg_mr", "Busy", "windows are bound, of which the device is asked: window_keeps_its_region_busy"),
];

/// An error's name and that of its argument, if it has one.
type Entry = (String, Option<String>);

/// What came, by page, and from which verbs.
#[derive(Default)]
pub struct Told(BTreeMap<&'static str, BTreeSet<Entry>>, BTreeSet<&'static str>);

impl Told {
    /// A verb was refused.
    pub fn add(&mut self, verb: &str, refusal: &Refusal) {
        let known = PAGES.iter().find(|(name, _)| *name == verb);
        let (verb, pages) = known.unwrap_or_else(|| panic!("no page is known of {verb}"));
        self.1.insert(verb);
        for page in *pages {
            self.0.entry(page).or_default().insert(entry(refusal));
        }
    }

    /// Takes over what came elsewhere.
    pub fn extend(&mut self, other: Self) {
        for (page, entries) in other.0 {
            self.0.entry(page).or_default().extend(entries);
        }
        self.1.extend(other.1);
    }

    /// No verb of the traits is left out.
    pub fn compare_verbs(&self) {
        let other = |verb: &str| OTHER_VERBS.iter().any(|(name, _)| *name == verb);
        let left_out: Vec<_> =
            verbs().into_iter().filter(|verb| !self.1.contains(verb.as_str()) && !other(verb)).collect();
        assert!(left_out.is_empty(), "nothing is refused to {left_out:?}");
        let untried: Vec<_> = PAGES.iter().filter(|(verb, _)| !self.1.contains(verb)).collect();
        assert!(untried.is_empty(), "{untried:?}");
    }

    /// Compares all pages with what came.
    pub fn compare(&self) {
        let mut wrong = Vec::new();
        let nothing = BTreeSet::new();
        for (page, stands) in tables() {
            let came = self.0.get(page.as_str()).unwrap_or(&nothing);
            wrong.extend(came.difference(&stands).map(|entry| format!("{page} lacks {entry:?}")));
            let comes = |entry: &&Entry| !came.contains(entry) && !is_elsewhere(&page, entry);
            wrong.extend(stands.iter().filter(comes).map(|entry| format!("{page} has {entry:?}, which did not come")));
        }
        for page in self.0.keys().filter(|page| !tables().contains_key(**page)) {
            wrong.push(format!("{page} is not there"));
        }
        assert!(wrong.is_empty(), "{:#?}", wrong);
    }
}

fn entry(refusal: &Refusal) -> Entry {
    let argument = match refusal {
        Refusal::Verb(Error::OutOfRange { what, .. } | Error::NoSuchIndex { table: what, .. }) => {
            Some(format!("{what:?}"))
        }
        Refusal::Verb(Error::Foreign(what)) | Refusal::Post(PostError::Foreign(what)) => Some(format!("{what:?}")),
        Refusal::Verb(Error::Unsupported(what)) => Some((*what).to_owned()),
        _ => None,
    };
    let text = match refusal {
        Refusal::Verb(error) => format!("{error:?}"),
        Refusal::Post(error) => format!("{error:?}"),
        Refusal::Poll(error) => format!("{error:?}"),
    };
    (word(&text).to_owned(), argument)
}

/// All functions of the traits that may fail.
fn verbs() -> BTreeSet<String> {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core/src");
    let folder = fs::read_dir(core.join("verbs")).expect("the traits");
    let files = folder.map(|file| file.expect("a trait").path());
    let files = files.chain(["verbs.rs", "mw.rs"].map(|file| core.join(file)));
    let sources: Vec<_> = files.map(|file| fs::read_to_string(file).expect("a file of traits")).collect();
    let traits = sources.iter().flat_map(|source| source.split("\npub trait ").skip(1));
    let bodies = traits.map(|text| text.split("\n}\n").next().unwrap_or_default());
    let functions = bodies.flat_map(|body| body.split("\n    fn ").skip(1));
    let signatures = functions.map(|text| text.split([';', '{']).next().unwrap_or_default());
    let verbs: BTreeSet<_> =
        signatures.filter(|text| text.contains("Result<")).map(|text| name(text).to_owned()).collect();
    assert!(verbs.len() > 40, "{verbs:?}");
    verbs
}

/// The name that a signature begins with.
fn name(signature: &str) -> &str {
    signature.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
}

fn is_elsewhere(page: &str, (name, argument): &Entry) -> bool {
    let listed = |what: &str| ELSEWHERE.iter().any(|(p, w, _)| *p == page && *w == what);
    let stated = |(what, _): &(&str, _)| what.split_once("::").is_some_and(|(_, variant)| variant == name);
    match argument {
        Some(what) => OTHER_DEVICES.contains(&what.as_str()) || listed(what),
        None => NOT_BY_ARGUMENTS.iter().any(stated) || listed(name),
    }
}

/// The errors that each page's table has. What an error's argument may be is what stands in code beside it in its row.
fn tables() -> BTreeMap<String, BTreeSet<Entry>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verbs");
    let kinds: BTreeSet<_> = [variants("Argument"), variants("Object")].concat().into_iter().collect();
    let mut tables = BTreeMap::new();
    for file in fs::read_dir(folder).expect("the pages") {
        let path = file.expect("a page").path();
        let page = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        // What the drawings are, and the errors of every command.
        if page == "README" || path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a page");
        let (_, errors) = text.split_once("\n## Errors\n").expect("its errors");
        let (errors, _) = errors.split_once("\n## ").unwrap_or((errors, ""));
        let mut entries = BTreeSet::new();
        for row in errors.lines().filter(|line| line.starts_with("| `")) {
            let code: Vec<_> = row.split('`').skip(1).step_by(2).collect();
            let first = row.split('|').nth(1).unwrap_or_default();
            let names = first.split('`').skip(1).step_by(2).map(word).filter(|name| !name.is_empty());
            let names: Vec<_> = names.filter(|name| !kinds.contains(name)).collect();
            let words = code.iter().flat_map(|code| code.split(|c: char| !c.is_alphanumeric()));
            let words: BTreeSet<_> = words.filter(|word| kinds.contains(word)).collect();
            let texts: BTreeSet<_> = code.iter().flat_map(|code| code.split('"').skip(1).step_by(2)).collect();
            for name in names {
                let arguments = match name {
                    "OutOfRange" | "NoSuchIndex" | "Foreign" => &words,
                    "Unsupported" => &texts,
                    _ => {
                        entries.insert((name.to_owned(), None));
                        continue;
                    }
                };
                if arguments.is_empty() {
                    entries.insert((name.to_owned(), None));
                }
                entries.extend(arguments.iter().map(|what| (name.to_owned(), Some((*what).to_owned()))));
            }
        }
        tables.insert(page, entries);
    }
    tables
}
