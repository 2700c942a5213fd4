//! Every verb with every wrong argument: its own error, and the device is left alone (no register is touched, no
//! command is given).

#[path = "bad_input/attachments.rs"]
mod attachments;
mod bench;
#[path = "bad_input/device.rs"]
mod device;
#[path = "bad_input/memory.rs"]
mod memory;
#[path = "bad_input/pages.rs"]
mod pages;
#[path = "bad_input/queue_pairs.rs"]
mod queue_pairs;
#[path = "bad_input/queues.rs"]
mod queues;
#[path = "bad_input/transitions.rs"]
mod transitions;

use bareverbs::*;
use bareverbs_harness::{Function, World};
use bareverbs_mlx5::Config;
use bareverbs_model_mlx5::HcaConfig;
use bench::{Model, pair::*};
use std::collections::BTreeSet;

const SEED: u64 = 0x0062_6164;

/// How a verb, a post or a poll was refused.
#[derive(Debug, PartialEq)]
enum Refusal {
    Verb(Error),
    Post(PostError),
    Poll(PollError),
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Self {
        Self::Verb(e)
    }
}

impl<T> From<Refused<T>> for Refusal {
    fn from(r: Refused<T>) -> Self {
        Self::Verb(r.error)
    }
}

impl From<PostError> for Refusal {
    fn from(e: PostError) -> Self {
        Self::Post(e)
    }
}

impl From<PollError> for Refusal {
    fn from(e: PollError) -> Self {
        Self::Poll(e)
    }
}

/// Watches a device while it must not be touched, and keeps what was refused.
struct Judge<'a> {
    function: &'a Function,
    device: &'a Device5,
    seen: BTreeSet<String>,
    told: pages::Told,
    rows: usize,
}

impl<'a> Judge<'a> {
    fn new(function: &'a Function, device: &'a Device5) -> Self {
        Self { function, device, seen: BTreeSet::new(), told: pages::Told::default(), rows: 0 }
    }

    fn refuses<T, E: Into<Refusal>>(
        &mut self,
        what: &str,
        verb: impl FnOnce() -> Result<T, E>,
        as_: impl Into<Refusal>,
    ) {
        let commands = self.device.commands();
        self.function.trace(true);
        let result = verb();
        let touched = self.function.take_trace();
        self.function.trace(false);
        let refusal = result.map(|_| ()).map_err(Into::into);
        let expected = as_.into();
        self.seen.insert(format!("{expected:?}"));
        self.told.add(what, &expected);
        self.rows += 1;
        assert_eq!(refusal, Err(expected), "{what}");
        assert!(touched.is_empty(), "{what} touched {touched:?}");
        assert_eq!(self.device.commands(), commands, "{what} gave a command");
    }
}

fn out_of_range(what: Argument, wanted: impl Into<u64>, max: impl Into<u64>) -> Error {
    Error::OutOfRange { what, wanted: wanted.into(), max: max.into() }
}

fn memory(len: usize) -> &'static mut [u8] {
    vec![0; len].leak()
}

/// One object more than was fixed at open.
fn limits(judge: &mut Judge, device: &Device5) {
    let pd = device.alloc_pd().unwrap();
    let cq = device.create_cq(&CqInit { entries: 1, ..CqInit::default() }).unwrap();
    let srq_init = SrqAttr { max_wr: 1, max_sge: 1, limit: 0 };
    let srq = device.create_srq(&pd, srq_init).unwrap();
    let init =
        QpInit { kind: QpType::Ud, send_cq: &cq, recv_cq: &cq, srq: None, cap: CAP, signal_all: false, context: 0 };
    let qp = device.create_qp(&pd, &init).unwrap();
    let mr = device.register(&pd, memory(64), Access::empty()).map_err(|r| r.error).unwrap();
    let one = |what| out_of_range(what, 2u32, 1u32);
    let xrcd = device.open_xrcd().unwrap();
    judge.refuses("alloc_pd", || device.alloc_pd(), one(Argument::Pds));
    judge.refuses("open_xrcd", || device.open_xrcd(), one(Argument::Xrcds));
    judge.refuses(
        "create_xrc_srq",
        || device.create_xrc_srq(&pd, &XrcSrqInit { attr: srq_init, context: 0, xrcd: &xrcd, cq: &cq }),
        one(Argument::Srqs),
    );
    judge.refuses("create_xrc_target", || device.create_xrc_target(&xrcd, 0), one(Argument::Qps));
    judge.refuses("create_cq", || device.create_cq(&CqInit { entries: 1, ..CqInit::default() }), one(Argument::Cqs));
    judge.refuses("create_srq", || device.create_srq(&pd, srq_init), one(Argument::Srqs));
    judge.refuses("create_qp", || device.create_qp(&pd, &init), one(Argument::Qps));
    judge.refuses("register", || device.register(&pd, memory(64), Access::empty()), one(Argument::Regions));
    let fast = || device.alloc_fast_region(&pd, 1);
    judge.refuses("alloc_fast_region", fast, one(Argument::Regions));
    let window = device.alloc_window(&pd, WindowKind::TwoB).unwrap();
    judge.refuses("alloc_window", || device.alloc_window(&pd, WindowKind::One), one(Argument::Windows));
    judge.refuses("destroy_device", || device.clone().destroy(), Error::Busy { holders: 7 });
    drop(window);
    drop((mr, qp, srq, cq));
}

/// The names of an enum's variants, as its source has them.
fn variants(name: &str) -> Vec<&'static str> {
    let source = include_str!("../../../core/src/error.rs");
    let (_, body) = source.split_once(&format!("pub enum {name} {{\n")).expect("the enum");
    let (body, _) = body.split_once("\n}").expect("its end");
    let names = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = names.filter(|line| line.starts_with(char::is_uppercase));
    names.map(|line| line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()).collect()
}

/// What no argument brings about, and where else it is tested.
const NOT_BY_ARGUMENTS: &[(&str, &str)] = &[
    ("Error::CqFull", "what stands in the CQ: a_cq_that_is_full_of_others"),
    ("Error::Unacknowledged", "events that were got before: cq_destroy_refused_before_acknowledgement"),
    ("Error::Platform", "the platform refuses: a_refused_region_leaves_nothing"),
    ("Error::Command", "the device refuses: memory_that_the_device_keeps_stays_mapped"),
    ("Error::CommandDelivery", "the device's answer: case_53_mailbox_chain"),
    ("Error::CommandTimeout", "the device's answer: a_command_without_answer_ends_the_device"),
    ("Error::BadAnswer", "the device's answer: broken_signatures_are_seen_where_they_were_asked_for"),
    ("Error::NotReady", "firmware at open: case_55_page_ledger"),
    ("Error::Fatal", "the device's end: case_56_firmware_death"),
    ("Error::MulticastFull", "what others hold: multicast_group_is_full in the conformance suite"),
    ("Error::FlowsFull", "what others hold: raw_rules_are_counted in the conformance suite"),
    ("PostError::HeaderRequired", "a device that wants headers: tests/frames.rs"),
    ("PostError::SrqError", "the SRQ failed: every_event_of_the_manual_page"),
    ("PostError::DeviceFatal", "the device's end: case_56_every_poll_and_post_names_the_end"),
    ("Argument::ModerationCount", "16 bits in the call and in the device"),
    ("Object::Device", "a device is never an argument"),
    ("Object::Qp", "a QP is never an argument"),
    ("Object::Mr", "a region is never an argument: elements carry keys, which the device checks"),
    ("Object::AddressHandle", "has an error of its own when it is posted: ForeignAddress"),
];

#[test]
fn every_verb_with_every_wrong_argument() {
    let (mut seen, mut told) = (BTreeSet::new(), pages::Told::default());
    let mut rows = 0;
    for link in [Link::InfiniBand, Link::Roce] {
        let pair = Pair::new(link, SEED);
        let mut judge = Judge::new(&pair.a.function, &pair.a.device);
        device::device_verbs(&mut judge, &pair);
        device::addresses(&mut judge, &pair);
        memory::regions(&mut judge, &pair);
        queues::completion_queues(&mut judge, &pair);
        queues::shrinking(&mut judge, &pair);
        queues::failed(&mut judge, &pair);
        queues::shared_receive_queues(&mut judge, &pair);
        queues::extended_connections(&mut judge, &pair);
        memory::windows(&mut judge, &pair);
        queue_pairs::queue_pairs(&mut judge, &pair);
        queue_pairs::transitions(&mut judge, &pair);
        transitions::case_31_which_attribute(&mut judge, &pair);
        queue_pairs::posts(&mut judge, &pair);
        attachments::run(&mut judge, &pair);
        rows += judge.rows;
        seen.extend(judge.seen);
        told.extend(judge.told);
        pair.close();
    }
    let function = Model::new(HcaConfig::infiniband(0)).plug(&World::new(SEED));
    let one = Config {
        max_qps: 1,
        max_cqs: 1,
        max_srqs: 1,
        max_pds: 1,
        max_xrcds: 1,
        max_regions: 1,
        max_windows: 1,
        ..Config::default()
    };
    let device = Device5::open(function.clone(), one).expect("opens");
    let mut judge = Judge::new(&function, &device);
    limits(&mut judge, &device);
    rows += judge.rows;
    seen.extend(judge.seen);
    told.extend(judge.told);
    told.compare();
    told.compare_verbs();
    println!("{rows} wrong calls, {} different refusals (seed {SEED:#x})", seen.len());

    let all = seen.into_iter().collect::<Vec<_>>().join("\n");
    for name in ["Error", "PostError", "Argument", "Object"] {
        for variant in variants(name) {
            let word = format!("{name}::{variant}");
            let reason = NOT_BY_ARGUMENTS.iter().find(|(what, _)| *what == word).map(|(_, why)| *why);
            let found = all.lines().any(|line| line.split(|c: char| !c.is_alphanumeric()).any(|w| w == variant));
            match reason {
                None => assert!(found, "no wrong argument brought about {word}"),
                Some(why) => assert!(!found, "{word} is listed as out of reach ({why}), but came"),
            }
        }
    }
}
