//! Faults on demand.

/// What shall go wrong, and when.
#[derive(Clone, Debug, Default)]
pub struct Faults {}
