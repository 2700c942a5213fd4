//! Pages that the driver gave to firmware.

use std::collections::BTreeSet;

/// The ledger of pages.
#[derive(Clone, Debug, Default)]
pub struct PageLedger {
    /// Bus addresses of the 4 KiB pages that the device holds.
    pub held: BTreeSet<u64>,
}

impl PageLedger {
    /// Whether the range touches a page that belongs to firmware.
    pub fn touches(&self, addr: u64, len: u64) -> bool {
        let last = addr.saturating_add(len.saturating_sub(1));
        len > 0 && self.held.range(addr & !0xfff..=last).next().is_some()
    }
}
