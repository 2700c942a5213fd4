//! The lines that a ping-pong prints.

use crate::address::Address;
use core::{fmt, time::Duration};

/// The outcome of one end.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Messages a direction.
    pub iters: u64,
    /// Bytes a message.
    pub size: usize,
    /// From the first post to the last completion.
    pub elapsed: Duration,
}

/// The line of one's own address.
pub fn local(out: &mut dyn fmt::Write, a: &Address) -> fmt::Result {
    write!(out, "  local address:  ")?;
    address(out, a)
}

/// The line of the other end's address.
pub fn remote(out: &mut dyn fmt::Write, a: &Address) -> fmt::Result {
    write!(out, "  remote address: ")?;
    address(out, a)
}

fn address(out: &mut dyn fmt::Write, a: &Address) -> fmt::Result {
    writeln!(out, "LID 0x{:04x}, QPN 0x{:06x}, PSN 0x{:06x}, GID {}", a.lid.0, a.qpn.get(), a.psn.get(), a.gid)
}

impl Outcome {
    fn bytes(&self) -> u64 {
        self.iters * self.size as u64 * 2
    }

    /// The two lines of the ibv_ ping-pongs.
    pub fn lines(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let us = self.elapsed.as_nanos() as f64 / 1000.0;
        let bytes = self.bytes();
        writeln!(out, "{bytes} bytes in {:.2} seconds = {:.2} Mbit/sec", us / 1e6, bytes as f64 * 8.0 / us)?;
        let per = us / self.iters as f64;
        writeln!(out, "{} iters in {:.2} seconds = {per:.2} usec/iter", self.iters, us / 1e6)
    }

    /// One JSON object on one line.
    pub fn json(&self, out: &mut dyn fmt::Write, local: &Address, remote: &Address) -> fmt::Result {
        writeln!(
            out,
            "{{\"local\":\"{local}\",\"remote\":\"{remote}\",\"iters\":{},\"size\":{},\"bytes\":{},\"nanoseconds\":{}}}",
            self.iters,
            self.size,
            self.bytes(),
            self.elapsed.as_nanos()
        )
    }
}
