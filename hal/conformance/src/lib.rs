//! The promises of the HAL's traits, checked on an implementation: ours, or one for another operating system.
//!
//! [`run`] needs a function that nobody else uses; a device that copies memory ([`Engine`]) shows that DMA works, and
//! that it stops when it should. Each check leaves the function as it found it, with bus mastering off.
//!
//! ```no_run
//! # fn check<H: bareverbs_hal::PciFunction>(hal: H) -> bool {
//! use bareverbs_hal_conformance::{NoEngine, run};
//! let broken = run(&hal, &mut NoEngine, &mut |name, outcome| match outcome {
//!     Ok(()) => { /* tell that `name` holds */ }
//!     Err(broken) => { /* tell that `name` does not, and `broken` */ }
//! });
//! # broken == 0 }
//! ```
#![cfg_attr(not(test), no_std)]

mod dma;
mod engine;
mod function;
mod platform;
mod reach;

pub use engine::{Edu, Engine, NoEngine};

use bareverbs_hal::{HalError, PciFunction};
use core::fmt;

/// What an implementation did that the trait forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It refused what it has to do.
    Refused(&'static str, HalError),
    /// It did what it has to refuse, or refused it by another name.
    NotRefused(&'static str, Option<HalError>),
    /// A promise does not hold; the number says for which size, address or register.
    Promise(&'static str, u64),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(what, e) => write!(f, "{what} was refused: {e}"),
            Self::NotRefused(what, None) => write!(f, "{what} was not refused"),
            Self::NotRefused(what, Some(e)) => write!(f, "{what} was refused by the wrong name: {e}"),
            Self::Promise(what, number) => write!(f, "not so: {what} ({number:#x})"),
        }
    }
}

impl core::error::Error for Broken {}

/// How a check ended.
pub type Outcome = Result<(), Broken>;

/// Fails unless something holds.
fn holds(holds: bool, what: &'static str, number: u64) -> Outcome {
    if holds { Ok(()) } else { Err(Broken::Promise(what, number)) }
}

/// Fails unless something was refused in an accepted way.
fn refused<T>(outcome: Result<T, HalError>, what: &'static str, accept: impl Fn(HalError) -> bool) -> Outcome {
    match outcome {
        Err(e) if accept(e) => Ok(()),
        Err(e) => Err(Broken::NotRefused(what, Some(e))),
        Ok(_) => Err(Broken::NotRefused(what, None)),
    }
}

/// What a check of a whole group is: its name and its function.
type Check<H> = (&'static str, fn(&H) -> Outcome);

/// Runs all checks, tells `report` of each, and returns how many failed.
pub fn run<H: PciFunction, E: Engine<H>>(
    hal: &H,
    engine: &mut E,
    report: &mut dyn FnMut(&'static str, Outcome),
) -> usize {
    let mut broken = 0;
    let mut tell = |name, outcome: Outcome| {
        broken += usize::from(outcome.is_err());
        report(name, outcome);
    };
    for (name, check) in platform::checks::<H>().into_iter().chain(dma::checks()).chain(function::checks()) {
        tell(name, check(hal));
    }
    if E::PRESENT {
        reach::run(hal, engine, &mut tell);
    }
    broken
}
