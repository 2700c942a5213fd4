//! Ethernet frames, for software transports.

use crate::{HalError, Platform};

/// A network interface that sends and receives whole Ethernet frames without FCS.
pub trait Nic: Platform {
    /// The interface's own address.
    fn mac(&self) -> [u8; 6];

    /// Largest payload of a frame, in bytes (1500 unless jumbo frames are on).
    fn mtu(&self) -> usize;

    /// Sends one frame. Fails with [`HalError::OutOfDmaMemory`] while the queue is full.
    fn send(&self, frame: &[u8]) -> Result<(), HalError>;

    /// Receives one frame into `buffer` and tells its length; `None` if there is none.
    fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, HalError>;
}
