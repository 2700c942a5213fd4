//! Random requests by seed between two devices, with a reference in memory.
//!
//! Operations, sizes, element lists, list lengths, signaling, SRQs and QP types come from the seed. On a reliable
//! connection every request must complete exactly once and in order, data must be what the reference says, and no
//! byte outside may change; what an unreliable QP delivers must be something that was sent.

mod endpoint;
mod plan;
mod run;

pub use plan::{Plan, Shape};
pub use run::{Failure, Stats, run};
