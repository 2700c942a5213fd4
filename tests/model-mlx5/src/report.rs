//! What happened to a modelled HCA: counters for tests and for the end of a run.

use std::collections::BTreeMap;

/// Counters and what was found wrong.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Commands by opcode and opcode modifier: executed, and how many of them were refused.
    pub commands: BTreeMap<(u16, u16), CommandCount>,
    /// What the driver did wrong, in order; the first [`Report::KEPT`].
    pub violations: Vec<String>,
    /// How many there were.
    pub violation_count: u64,
    /// DMA accesses that the IOMMU view refused.
    pub dma_faults: u64,
    /// Frames handed to the link.
    pub frames_out: u64,
    /// Frames that the link brought.
    pub frames_in: u64,
    /// Bytes in frames handed to the link.
    pub bytes_out: u64,
    /// Bytes in frames that the link brought.
    pub bytes_in: u64,
    /// Firmware pages that the device holds.
    pub pages: u64,
    /// Completions written.
    pub completions: u64,
    /// Event queue entries written.
    pub events: u64,
}

/// How often a command ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCount {
    /// Executed, refused ones included.
    pub executed: u64,
    /// Refused.
    pub refused: u64,
}

impl Report {
    /// How many violations are kept in words.
    pub const KEPT: usize = 1000;

    /// How often the command ran, whatever its modifier.
    pub fn executed(&self, opcode: u16) -> u64 {
        self.commands.range((opcode, 0)..=(opcode, u16::MAX)).map(|(_, n)| n.executed).sum()
    }
}
