//! The suite: what manual pages and the IBA say of each verb, as cases against the traits alone.
//!
//! A case is a function that a [`Lab`] is handed, two devices on one link. It passes, says which feature the device
//! lacks, or says what went wrong. Cases whose names begin with `case_NN` tell of faults seen in the field.

use alloc::{format, string::String, vec::Vec};
use bareverbs::{Device, Error, PollError, PostError, PostListError, Refused};
use core::fmt;

/// Fails a case unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            return Err($crate::suite::Stop::failed(core::format_args!($($why)+), line!()));
        }
    };
}

/// Fails a case unless two values are the same.
macro_rules! ensure_eq {
    ($is:expr, $should:expr, $($what:tt)+) => {
        match (&$is, &$should) {
            (is, should) => ensure!(
                is == should,
                "{}: {is:?}, should be {should:?}", core::format_args!($($what)+)
            ),
        }
    };
}

mod ah;
mod attributes;
mod channel;
mod cq;
mod cq_events;
mod device;
mod events;
mod fast_regions;
mod flags;
mod invalidation;
pub mod lab;
mod modify;
mod mr;
mod multicast;
mod notify;
mod poll;
mod post;
mod qp;
mod raw;
mod recovery;
mod requests;
mod sqe;
mod srq;
mod srq_leaving;
mod srq_messages;
mod windows;
mod xrc;

pub use lab::Lab;

/// Why a case did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The device cannot do it, by the name that its error carries.
    Unsupported(&'static str),
    /// Something is not as it should be.
    Failed(String),
}

/// What a case comes to.
pub type Outcome<T = ()> = Result<T, Stop>;

impl Stop {
    /// A failure, with the line of the case that saw it.
    pub fn failed(why: fmt::Arguments<'_>, line: u32) -> Self {
        Self::Failed(format!("{why} (line {line})"))
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(what) => write!(f, "not supported: {what}"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        match e {
            Error::Unsupported(what) => Self::Unsupported(what),
            e => Self::Failed(format!("a verb failed: {e}")),
        }
    }
}

impl<T> From<Refused<T>> for Stop {
    fn from(r: Refused<T>) -> Self {
        r.error.into()
    }
}

impl From<PollError> for Stop {
    fn from(e: PollError) -> Self {
        Self::Failed(format!("a poll failed: {e}"))
    }
}

impl From<PostError> for Stop {
    fn from(e: PostError) -> Self {
        Self::Failed(format!("a post failed: {e}"))
    }
}

impl From<PostListError> for Stop {
    fn from(e: PostListError) -> Self {
        Self::Failed(format!("a post failed: {e}"))
    }
}

/// One case.
pub struct Case<D: Device> {
    /// Its name.
    pub name: &'static str,
    /// Manual page, section of the IBA, or number of the report that it comes from.
    pub source: &'static str,
    /// What is said there, in our own words.
    pub says: &'static str,
    /// A device may answer that it cannot.
    pub optional: bool,
    /// It does on purpose what a modelled device complains of, in words that hold this.
    pub provokes: Option<&'static str>,
    /// Runs it.
    pub run: fn(&mut Lab<D>) -> Outcome,
}

impl<D: Device> Case<D> {
    /// Does on purpose what a modelled device complains of, in words that hold this.
    const fn provoking(mut self, words: &'static str) -> Self {
        self.provokes = Some(words);
        self
    }
}

/// A case that every device must pass.
const fn must<D: Device>(
    name: &'static str,
    source: &'static str,
    says: &'static str,
    run: fn(&mut Lab<D>) -> Outcome,
) -> Case<D> {
    Case { name, source, says, optional: false, provokes: None, run }
}

/// A case of something that a device may lack.
const fn may<D: Device>(
    name: &'static str,
    source: &'static str,
    says: &'static str,
    run: fn(&mut Lab<D>) -> Outcome,
) -> Case<D> {
    Case { name, source, says, optional: true, provokes: None, run }
}

/// The table: objects, and their cases. A file of cases is a line here.
pub fn table<D: Device>() -> Vec<(&'static str, Vec<Case<D>>)> {
    let files = [
        ("device", device::cases()),
        ("CQ", cq::cases()),
        ("CQ", poll::cases()),
        ("CQ", notify::cases()),
        ("CQ", cq_events::cases()),
        ("CQ", channel::cases()),
        ("SRQ", srq::cases()),
        ("SRQ", srq_messages::cases()),
        ("SRQ", srq_leaving::cases()),
        ("QP", qp::cases()),
        ("QP", modify::cases()),
        ("QP", attributes::cases()),
        ("QP", sqe::cases()),
        ("QP", post::cases()),
        ("QP", requests::cases()),
        ("QP", flags::cases()),
        ("XRC", xrc::cases()),
        ("multicast", multicast::cases()),
        ("raw packets", raw::cases()),
        ("MR", mr::cases()),
        ("keys", windows::cases()),
        ("keys", invalidation::cases()),
        ("keys", fast_regions::cases()),
        ("address", ah::cases()),
        ("events", events::cases()),
        ("recovery", recovery::cases()),
    ];
    let mut table: Vec<(&'static str, Vec<Case<D>>)> = Vec::new();
    for (object, cases) in files {
        match table.last_mut() {
            Some((last, all)) if *last == object => all.extend(cases),
            _ => table.push((object, cases)),
        }
    }
    table
}

/// What the suite runs on.
pub trait Home {
    /// The devices.
    type Device: Device;

    /// Two devices on one link, their ports active. Asked before each case: a home makes new ones where it can, else it
    /// hands out the same again.
    fn devices(&mut self) -> Result<[Self::Device; 2], String>;

    /// Memory for a region, on an 8-byte boundary. Valid until [`finish`](Self::finish).
    fn memory(&mut self, len: usize) -> bareverbs::RawMemory;

    /// After each case, when all its objects are gone: what the home itself sees that is wrong (memory not given
    /// back, stray DMA, and a device's complaints but those that hold the words `provoked`). Memory handed out is free
    /// again.
    fn finish(&mut self, provoked: Option<&str>) -> Result<(), String>;
}

/// How a case ended on a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All as it should be.
    Pass,
    /// The device lacks it and says so by this name.
    Unsupported(&'static str),
    /// Why not.
    Fail(String),
}

/// As the word of a table's cell, and what explains it.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("pass"),
            Self::Unsupported(what) => write!(f, "unsupported: {what}"),
            Self::Fail(why) => write!(f, "FAILED: {why}"),
        }
    }
}

/// Writes how a case ended, a line each: what it has provoked, and its verdict. `cargo xtask test` reads these.
pub fn tell<D: Device>(out: &mut impl fmt::Write, case: &Case<D>, verdict: &Verdict) -> fmt::Result {
    if let Some(words) = case.provokes {
        writeln!(out, "provoked: {words}")?;
    }
    writeln!(out, "suite {}: {verdict}", case.name)
}

/// Runs one case.
pub fn run<H: Home>(home: &mut H, case: &Case<H::Device>, seed: u64) -> Verdict {
    let outcome = match home.devices() {
        Ok(devices) => Lab::new(devices, seed, home).and_then(|mut lab| (case.run)(&mut lab)),
        Err(why) => Err(Stop::Failed(format!("the devices: {why}"))),
    };
    let finished = home.finish(case.provokes);
    match outcome {
        Ok(()) => finished.map_or_else(Verdict::Fail, |()| Verdict::Pass),
        Err(Stop::Unsupported(what)) if case.optional => {
            finished.map_or_else(Verdict::Fail, |()| Verdict::Unsupported(what))
        }
        Err(stop) => Verdict::Fail(format!("{stop}")),
    }
}
