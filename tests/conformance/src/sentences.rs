//! What the libibverbs manual pages of completion queues, their events and shared receive queues say, sentence by
//! sentence in our own words, and the cases that hold it.
//!
//! A sentence's number counts the sentences of the page from DESCRIPTION to NOTES and EXAMPLES, the comments in its
//! structs and the lines of its lists among them, without headings, synopsis and code. Pages as of rdma-core 50 and later.

use alloc::string::String;
use core::fmt::Write;

/// What holds a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// These cases of the suite.
    By(&'static [&'static str]),
    /// These cases, and for failures that no case can bring about these tests of the mlx5 driver.
    And(&'static [&'static str], &'static [&'static str]),
    /// This case, which every device answers with this name of what it cannot do.
    Unsupported(&'static str, &'static str),
    /// None: why it cannot apply.
    Not(&'static str),
}
use Held::{And, By, Not, Unsupported};

impl Held {
    /// Its cases.
    pub fn cases(&self) -> &[&'static str] {
        match self {
            By(cases) | And(cases, _) => cases,
            Unsupported(case, _) => core::slice::from_ref(case),
            Not(_) => &[],
        }
    }
}

/// A manual page.
pub struct Page {
    /// Its name, and those of the calls on it that the suite's cases name as their source.
    pub name: &'static str,
    /// These calls.
    pub calls: &'static [&'static str],
    /// What each sentence says, from the first on.
    pub sentences: &'static [(&'static str, Held)],
}

const STRUCT: Held = Not("where to look a struct up; here the type's own documentation says it");
const RESULT: &str = "the verb succeeds, or says why not";
const SRQ_RESIZE: Held = Unsupported("srq_resize", "resizing an SRQ");

/// The pages; ibv_destroy_cq, ibv_ack_cq_events and ibv_destroy_srq stand on others'.
pub const PAGES: &[Page] = &[
    Page {
        name: "ibv_create_cq",
        calls: &["ibv_create_cq", "ibv_destroy_cq"],
        sentences: &[
            (
                "a CQ is made on a device, of at least the entries asked for",
                By(&[
                    "cq_holds_at_least_what_was_asked_for",
                    "cq_holds_all_its_entries",
                    "cq_with_large_entries",
                    "cqs_have_numbers_of_their_own",
                ]),
            ),
            ("the user's context is the CQ's", By(&["cq_gives_its_context_back"])),
            (
                "a completion channel may be given; if one is, the CQ's completion events come over it",
                By(&["channel_tells_of_its_cqs", "channel_of_another_device"]),
            ),
            (
                "the completion vector that signals, from 0 and below the device's number of them",
                By(&["cq_refuses_vectors_out_of_range", "events_of_every_vector"]),
            ),
            (
                "a CQ is destroyed",
                By(&[
                    "case_20_cq_destroyed_while_in_use",
                    "events_of_dead_objects_are_gone",
                    "cq_destroy_refused_before_acknowledgement",
                    "cq_events_not_got_need_no_acknowledgement",
                ]),
            ),
            (RESULT, By(&["cq_refuses_sizes_out_of_range", "cq_refuses_vectors_out_of_range"])),
            ("destroying succeeds, or says why not", By(&["cq_destroy_refused_for_the_send_cq"])),
            ("the CQ may be larger than asked for", By(&["cq_holds_at_least_what_was_asked_for"])),
            ("the CQ tells its actual size", By(&["cq_holds_at_least_what_was_asked_for", "cq_holds_all_its_entries"])),
            (
                "destroying fails while a QP uses the CQ",
                By(&[
                    "cq_destroy_refused_for_the_send_cq",
                    "cq_destroy_refused_for_the_receive_cq",
                    "case_20_cq_destroyed_while_in_use",
                    "xrc_domain_is_busy",
                ]),
            ),
        ],
    },
    Page {
        name: "ibv_resize_cq",
        calls: &["ibv_resize_cq"],
        sentences: &[
            (
                "a CQ is resized to at least the entries asked for",
                By(&["cq_resize_up", "cq_resize_keeps_unpolled", "cq_resize_in_traffic"]),
            ),
            (
                "a size below the number of unpolled entries is not taken",
                By(&["cq_resize_below_unpolled", "case_04_shrinking_below_the_unpolled", "cq_shrink_in_traffic"]),
            ),
            (
                "a good size below the present one may change nothing: only that it holds as many is promised",
                By(&["cq_resize_within_its_size"]),
            ),
            (RESULT, By(&["cq_resize_out_of_range", "cq_resize_below_unpolled"])),
            ("the CQ may become larger than asked for", By(&["cq_resize_up"])),
            ("the CQ tells its actual size", By(&["cq_resize_up", "cq_holds_all_its_entries_after_a_resize"])),
        ],
    },
    Page {
        name: "ibv_req_notify_cq",
        calls: &["ibv_req_notify_cq"],
        sentences: &[
            (
                "a notification is asked for",
                By(&["no_event_unless_asked_for", "notify_is_one_shot", "notify_many_times"]),
            ),
            (
                "when a new entry is added an event is added to the CQ's channel",
                By(&["channel_tells_of_its_cqs", "notify_of_sends_and_receives", "armed_over_unpolled_entries"]),
            ),
            (
                "not for solicited ones alone: any new entry gives the event",
                By(&[
                    "notify_of_sends_and_receives",
                    "notify_on_uc",
                    "solicited_datagrams",
                    "send_with_invalidate_notifies",
                ]),
            ),
            (
                "for solicited ones alone: only such an entry gives the event",
                By(&["solicited_only_leaves_out_the_others"]),
            ),
            (
                "solicited is a receive of a message with the solicited bit, and whatever has a status but success",
                By(&[
                    "solicited_by_the_bit",
                    "solicited_by_failure",
                    "solicited_by_flush",
                    "xrc_solicited_notification",
                ]),
            ),
            ("other good receives, and good sends, are not solicited", By(&["solicited_only_leaves_out_the_others"])),
            (RESULT, By(&["notify_is_one_shot", "case_05_overrun"])),
            ("a request is good for one event", By(&["notify_is_one_shot"])),
            ("one event for each call, no more", By(&["notify_is_one_shot", "notify_twice_is_once"])),
        ],
    },
    Page {
        name: "ibv_get_cq_event",
        calls: &["ibv_get_cq_event", "ibv_ack_cq_events"],
        sentences: &[
            (
                "the next completion event of a channel is waited for",
                By(&["cq_events_come_in_order", "cq_events_wait_until_they_are_got"]),
            ),
            (
                "it brings the CQ that got it, and that CQ's context",
                By(&["notify_names_the_cq", "cq_event_brings_cq_and_context"]),
            ),
            (
                "so many events of a CQ are acknowledged",
                By(&["cq_events_acknowledged_at_once", "cq_events_acknowledged_beyond_what_was_got"]),
            ),
            (
                "getting succeeds, or fails",
                And(&["cq_events_come_in_order"], &["case_56_every_poll_and_post_names_the_end"]),
            ),
            (
                "acknowledging returns nothing",
                Not("ours returns a `Result`: it refuses more than was got, which C leaves undefined"),
            ),
            ("every event that was got must be acknowledged", By(&["cq_destroy_refused_before_acknowledgement"])),
            (
                "destroying a CQ waits until all its events are acknowledged, one acknowledgement for each",
                By(&["cq_destroy_refused_before_acknowledgement", "cq_events_not_got_need_no_acknowledgement"]),
            ),
            ("acknowledging may take a mutex", Not("how expensive a call is; ours takes no lock at all")),
            ("several events may be acknowledged in one call", By(&["cq_events_acknowledged_at_once"])),
            ("an example follows", Not("announces the steps below")),
            ("of these steps", Not("announces the steps below")),
            ("first a CQ is made", By(&["arm_then_empty_loses_nothing"])),
            ("then a notification is asked for", By(&["arm_then_empty_loses_nothing"])),
            ("then an event is waited for and acknowledged", By(&["cq_loop_of_the_manual_on_a_channel"])),
            ("then the next notification is asked for", By(&["arm_then_empty_loses_nothing"])),
            ("then the CQ is emptied", By(&["arm_then_empty_loses_nothing"])),
            (
                "there may be an event without an entry",
                By(&["an_event_without_an_entry", "cq_event_without_an_entry_on_a_channel"]),
            ),
            (
                "namely if the entry came between arming and emptying, and was polled there",
                By(&["an_event_without_an_entry"]),
            ),
            ("an example without blocking follows", Not("announces the steps below")),
            ("of these steps", Not("announces the steps below")),
            (
                "the channel is made not to block",
                Not("a mode of a file descriptor: getting an event never waits here, it says that there is none"),
            ),
            ("it is looked at until it has an event", By(&["cq_loop_of_the_manual_on_a_channel"])),
            ("the event is got and acknowledged", By(&["cq_loop_of_the_manual_on_a_channel"])),
        ],
    },
    Page {
        name: "ibv_create_comp_channel",
        calls: &["ibv_create_comp_channel", "ibv_destroy_comp_channel"],
        sentences: &[
            ("a channel for completion events is made on a device", By(&["channel_without_cqs"])),
            ("a channel is destroyed", By(&["channel_without_cqs"])),
            (RESULT, And(&["channel_without_cqs"], &["any_allocation_may_fail"])),
            ("destroying succeeds, or says why not", By(&["channel_without_cqs", "channel_destroy_refused_with_cqs"])),
            ("channels are not of the IBA's verbs", Not("where the abstraction comes from")),
            ("a channel is a file descriptor", Not("there is no kernel, so there are no descriptors")),
            ("a CQ's event comes over the channel that is attached to it", By(&["channel_tells_of_its_cqs"])),
            ("several channels part the events, for several threads say", By(&["channels_part_the_events"])),
            ("destroying fails while CQs are on the channel", By(&["channel_destroy_refused_with_cqs"])),
        ],
    },
    Page {
        name: "ibv_create_srq",
        calls: &["ibv_create_srq", "ibv_destroy_srq"],
        sentences: &[
            (
                "an SRQ is made, of a protection domain",
                By(&[
                    "srq_receives_into_its_own_domain",
                    "srq_of_another_device_s_pd",
                    "srq_gives_to_all_its_qps",
                    "srq_completes_to_several_cqs",
                ]),
            ),
            ("the argument is a struct", STRUCT),
            ("it holds the user's context of the SRQ", By(&["srq_gives_its_context_back"])),
            ("and the attributes", By(&["srq_holds_at_least_what_was_asked_for"])),
            ("requests that may be outstanding", By(&["srq_holds_at_least_what_was_asked_for"])),
            ("elements of a request", By(&["srq_holds_at_least_what_was_asked_for"])),
            ("the limit means nothing here", By(&["srq_limit_means_nothing_at_creation"])),
            (
                "the actual sizes are told, at least those asked for",
                By(&["srq_holds_at_least_what_was_asked_for", "srq_capacity_is_exact"]),
            ),
            (
                "an SRQ is destroyed",
                By(&[
                    "srq_goes_with_its_requests",
                    "case_20_srq_destroyed_while_in_use",
                    "xrc_srq_takes_its_completions_along",
                ]),
            ),
            (RESULT, By(&["srq_refuses_sizes_out_of_range", "srq_of_another_device_s_pd"])),
            ("destroying succeeds, or says why not", By(&["case_20_srq_destroyed_while_in_use"])),
            ("destroying fails while a QP uses the SRQ", By(&["case_20_srq_destroyed_while_in_use"])),
        ],
    },
    Page {
        name: "ibv_modify_srq",
        calls: &["ibv_modify_srq"],
        sentences: &[
            ("the attributes that a mask names are changed", By(&["srq_limit_fires_once"])),
            ("the argument is a struct", STRUCT),
            ("requests that may be outstanding", SRQ_RESIZE),
            ("elements of a request mean nothing here", Not("`resize` takes the number of requests alone")),
            ("the limit", By(&["srq_limit_fires_once"])),
            ("a mask says which to change", Not("each attribute has a call of its own")),
            ("it is 0 or made of the following bits", Not("each attribute has a call of its own")),
            ("resize the SRQ", SRQ_RESIZE),
            ("set the limit", By(&["srq_limit_fires_once", "srq_limit_of_0_disarms"])),
            (RESULT, By(&["srq_limit_out_of_range"])),
            (
                "if one attribute is wrong none is changed",
                // Several at once cannot be asked for; one that is wrong changes nothing.
                By(&["srq_limit_out_of_range"]),
            ),
            ("some devices cannot resize SRQs", SRQ_RESIZE),
            ("the device's capabilities tell whether it can", SRQ_RESIZE),
            (
                "setting the limit arms an event for when fewer requests are left",
                By(&["srq_limit_fires_once", "srq_limit_armed_too_late", "xrc_srq_limit"]),
            ),
        ],
    },
    Page {
        name: "ibv_query_srq",
        calls: &["ibv_query_srq"],
        sentences: &[
            ("the attributes of an SRQ are told", By(&["srq_holds_at_least_what_was_asked_for"])),
            ("the argument is a struct", STRUCT),
            (
                "requests that may be outstanding",
                By(&["srq_holds_at_least_what_was_asked_for", "srq_capacity_is_exact"]),
            ),
            (
                "elements of a request",
                By(&["srq_holds_at_least_what_was_asked_for", "srq_post_stops_at_the_first_failure"]),
            ),
            ("the limit", By(&["srq_limit_reads_0_afterwards"])),
            (
                RESULT,
                And(
                    &["srq_limit_reads_0_afterwards"],
                    &["any_command_may_be_refused", "case_56_every_poll_and_post_names_the_end"],
                ),
            ),
            (
                "a limit of 0: the event is not armed, or not any more, and none comes until it is again",
                By(&["srq_limit_reads_0_afterwards", "srq_limit_of_0_disarms", "srq_limit_fires_once"]),
            ),
        ],
    },
    Page {
        name: "ibv_post_srq_recv",
        calls: &["ibv_post_srq_recv"],
        sentences: &[
            (
                "a list of requests is posted",
                By(&[
                    "srq_gives_to_all_its_qps",
                    "srq_post_of_an_empty_list",
                    "srq_capacity_is_exact",
                    "srq_a_write_with_immediate_takes_a_request",
                ]),
            ),
            (
                "it stops at the first request that fails at once, and tells which",
                By(&["srq_post_stops_at_the_first_failure"]),
            ),
            ("the argument is a struct", STRUCT),
            ("the user's id", By(&["srq_ids_are_the_user_s"])),
            ("the next request", By(&["srq_post_stops_at_the_first_failure"])),
            ("the elements", By(&["srq_scatters_in_order"])),
            ("their number", By(&["srq_scatters_in_order", "srq_requests_without_elements"])),
            ("an element's address", By(&["srq_scatters_in_order"])),
            ("its length", By(&["srq_scatters_in_order", "srq_a_message_too_long_for_its_request"])),
            ("its region's key", By(&["srq_receives_into_its_own_domain"])),
            (RESULT, By(&["srq_post_stops_at_the_first_failure"])),
            ("a buffer may be used again once its completion was polled", By(&["srq_buffers_may_be_used_again"])),
            ("on UD the message's GRH lies in the first 40 bytes", By(&["srq_ud_data_lies_behind_the_grh"])),
            (
                "without a GRH these bytes are undefined",
                Not(
                    "nothing is promised that could be looked at; that the data begin behind them is the next sentence",
                ),
            ),
            ("so the data begin at byte 40 always", By(&["srq_ud_data_lies_behind_the_grh"])),
        ],
    },
];

/// As a page of the documentation.
pub fn markdown() -> String {
    let mut out = String::from(
        "# Sentences of the manual pages\n\n\
         What the libibverbs manual pages of completion queues, their events and shared receive queues say, in our own \
         words, and the cases of the [conformance suite](conformance.md) that hold it, each of which passes in a column \
         there; *unsupported* is what every device there says that it cannot. Numbers count the sentences of \
         the page from DESCRIPTION on, comments in structs and lines of lists among them. \
         `tests/conformance/src/sentences.rs` has the table; a test holds this page to it, and it to the suite.\n",
    );
    for page in PAGES {
        // Writing to a string does not fail.
        _ = write!(out, "\n## {}\n\n| | says | held by |\n|--:|---|---|\n", page.calls.join(", "));
        for (number, (says, held)) in (1..).zip(page.sentences) {
            let held = match held {
                By(cases) => names(cases),
                And(cases, tests) => alloc::format!("{}; tests of the mlx5 driver: {}", names(cases), names(tests)),
                Unsupported(case, what) => alloc::format!("unsupported: {what} (`{case}`)"),
                Not(why) => alloc::format!("not: {why}"),
            };
            _ = writeln!(out, "| {number} | {says} | {held} |");
        }
    }
    out
}

fn names(names: &[&str]) -> String {
    names.iter().map(|name| alloc::format!("`{name}`")).collect::<alloc::vec::Vec<_>>().join(", ")
}
