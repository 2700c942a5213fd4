//! Protection domains.

use std::collections::BTreeMap;

/// A protection domain.
#[derive(Clone, Debug, Default)]
pub struct Pd {
    /// Keys, QPs and SRQs in it.
    pub users: u32,
}

/// All protection domains by number.
pub type Pds = BTreeMap<u32, Pd>;
