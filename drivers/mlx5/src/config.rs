//! What is fixed when a device is opened.

use core::time::Duration;

/// Limits and timeouts of an open device.
///
/// The numbers of objects are upper bounds: a device that has fewer offers what it has, and
/// [`bareverbs::Device::attributes`] tells. Smaller bounds let firmware ask for less memory.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Queue pairs.
    pub max_qps: u32,
    /// Completion queues.
    pub max_cqs: u32,
    /// Shared receive queues.
    pub max_srqs: u32,
    /// Protection domains.
    pub max_pds: u32,
    /// XRC domains.
    pub max_xrcds: u32,
    /// Memory regions, those for fast registration among them.
    pub max_regions: u32,
    /// Memory windows.
    pub max_windows: u32,
    /// Completion vectors, 1 to 32: event queues that tell of armed CQs.
    pub completion_vectors: u32,
    /// How long firmware may initialize itself after a reset.
    pub init_timeout: Duration,
    /// How long a command may take.
    pub command_timeout: Duration,
    /// How often the device's health is looked at.
    pub health_period: Duration,
    /// How long firmware may keep pages after teardown.
    pub reclaim_timeout: Duration,
    /// Lets the device sign its answers to commands, and checks them, where it can.
    pub signatures: bool,
}

impl Default for Config {
    /// 4,096 QPs and as many objects of other kinds as go with them, one completion vector, and the timeouts that
    /// mlx5_core uses.
    fn default() -> Self {
        Self {
            max_qps: 4096,
            max_cqs: 4096,
            max_srqs: 4096,
            max_pds: 4096,
            max_xrcds: 256,
            max_regions: 65536,
            max_windows: 65536,
            completion_vectors: 1,
            init_timeout: Duration::from_secs(120),
            command_timeout: Duration::from_secs(60),
            health_period: Duration::from_secs(2),
            reclaim_timeout: Duration::from_secs(5),
            signatures: false,
        }
    }
}
