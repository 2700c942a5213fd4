//! XRC domains.

use std::collections::BTreeMap;

/// An XRC domain.
#[derive(Clone, Debug, Default)]
pub struct Xrcd {
    /// QPs and SRQs in it.
    pub users: u32,
}

/// All XRC domains by number.
pub type Xrcds = BTreeMap<u32, Xrcd>;
