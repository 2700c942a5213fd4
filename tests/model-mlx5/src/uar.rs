//! User access regions: doorbells.

use std::collections::BTreeSet;

/// A register write to a UAR that waits to be worked on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// First 8 bytes of the WQE, written to a BlueFlame register of this UAR.
    Send {
        /// UAR page.
        uar: u32,
        /// Bytes as written.
        ctrl: [u8; 8],
    },
    /// 64 bytes written to a BlueFlame register.
    BlueFlame {
        /// UAR page.
        uar: u32,
        /// Bytes as written.
        wqe: Vec<u8>,
    },
    /// CQ arm.
    Cq {
        /// UAR page.
        uar: u32,
        /// Bytes as written.
        word: [u8; 8],
    },
    /// EQ consumer index, with or without arming.
    Eq {
        /// UAR page.
        uar: u32,
        /// Whether it arms.
        arm: bool,
        /// The dword as written.
        word: u32,
    },
}

/// UARs that the driver allocated.
pub type Uars = BTreeSet<u32>;
