//! The provider in memory.

use super::Buffers;
use crate::suite::Home;
use bareverbs::RawMemory;
use bareverbs_loopback::{Clock, Loopback, Net};
use std::string::String;

/// The loopback provider: a net for each case.
#[derive(Default)]
pub struct LoopbackHome(Buffers);

impl Home for LoopbackHome {
    type Device = Loopback;

    fn devices(&mut self) -> Result<[Loopback; 2], String> {
        let net = Net::new(Clock::Virtual);
        Ok([net.open(), net.open()])
    }

    fn memory(&mut self, len: usize) -> RawMemory {
        self.0.take(len)
    }

    fn finish(&mut self, _provoked: Option<&str>) -> Result<(), String> {
        self.0 = Buffers::default();
        Ok(())
    }
}
