//! A command refused.

use std::fmt;

use bareverbs_mlx5_prm::cmd::Status;

/// Why a command was refused: what goes into its output, and what is said about the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The output's status.
    pub status: Status,
    /// The output's syndrome: a number of the model's own for each reason.
    pub syndrome: u32,
    /// One line for people.
    pub why: String,
    /// Whether a correct driver never gets here.
    pub violation: bool,
}

impl Refused {
    /// A driver's mistake.
    pub fn new(status: Status, syndrome: u32, why: impl fmt::Display) -> Self {
        Self { status, syndrome, why: why.to_string(), violation: true }
    }

    /// Something that a correct driver may try.
    pub fn quiet(status: Status, syndrome: u32, why: impl fmt::Display) -> Self {
        Self { violation: false, ..Self::new(status, syndrome, why) }
    }
}

/// What a command comes to.
pub type Outcome<T = ()> = Result<T, Refused>;

/// Refuses unless `ok`.
pub fn require(ok: bool, status: Status, syndrome: u32, why: impl fmt::Display) -> Outcome {
    if ok { Ok(()) } else { Err(Refused::new(status, syndrome, why)) }
}
