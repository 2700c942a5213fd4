//! A record of what a driver did to its function's registers.

use std::time::Duration;

/// One access to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When it was.
    pub at: Duration,
    /// Number of the BAR.
    pub bar: u8,
    /// Offset in the BAR.
    pub offset: u64,
    /// What was done, and the value.
    pub kind: AccessKind,
}

/// What was done to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A big-endian register was read; its value.
    Read32(u32),
    /// A big-endian register was written; its value.
    Write32(u32),
    /// Eight bytes were written at once; in memory order.
    Write64([u8; 8]),
    /// 64 bytes were written as one burst; in memory order.
    Burst([u8; 64]),
}

/// The record; off at first.
#[derive(Default)]
pub(crate) struct Trace {
    accesses: Option<Vec<Access>>,
}

impl Trace {
    pub(crate) fn set(&mut self, on: bool) {
        self.accesses = on.then(Vec::new);
    }

    pub(crate) fn record(&mut self, access: Access) {
        if let Some(a) = &mut self.accesses {
            a.push(access);
        }
    }

    /// Gives out what was recorded and goes on.
    pub(crate) fn take(&mut self) -> Vec<Access> {
        self.accesses.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
