//! The exchange of addresses over the serial line of a machine without an operating system: what TCP port 18515 is to
//! the ibv_ ping-pongs.
//!
//! A line that starts with `> ` is for the other end, which reads what stands behind; whoever holds both serial lines
//! (`cargo xtask qemu`) carries them over. The order is that of the ibv_ ping-pongs: the client's addresses
//! (`lid:qpn:psn:gid`, a line each QP), the server's, the client's "done"; and at last an "end" from each.

use crate::{address::Address, endpoint::MAX_QP};
use bareverbs_unikernel::{Machine, println, serial::Serial};
use core::{fmt, time::Duration};
use heapless::{String, Vec};

/// The longest line: an address.
const LINE: usize = 64;

/// How long the other end may take to say something: it may have to be started by hand.
const PATIENCE: Duration = Duration::from_secs(600);

/// Why the ends could not tell each other where they are.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing came.
    Silence(&'static str),
    /// Something else came, which was told.
    Unexpected(&'static str),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silence(what) => {
                write!(f, "the other end has not sent {what} on the serial line after {} s", PATIENCE.as_secs())
            }
            Self::Unexpected(what) => write!(f, "{what} was expected from the other end"),
        }
    }
}

/// Shows a line where something else was expected: it would be most of a failure.
fn unexpected(what: &'static str, line: &str) -> Failure {
    println!("the other end sent '{line}'");
    Failure::Unexpected(what)
}

/// The serial line.
pub(crate) struct SerialLine {
    machine: &'static Machine,
}

impl SerialLine {
    pub(crate) fn new(machine: &'static Machine) -> Self {
        Self { machine }
    }

    pub(crate) fn send(&self, addresses: &[Address]) {
        for address in addresses {
            println!("> {address}");
        }
    }

    pub(crate) fn receive(&self, count: usize) -> Result<Vec<Address, MAX_QP>, Failure> {
        const WHAT: &str = "an address (lid:qpn:psn:gid)";
        let mut addresses = Vec::new();
        for _ in 0..count {
            let line = self.line(WHAT)?;
            // More than there is room for is not asked for.
            if let Err(_) | Ok(Err(_)) = line.parse().map(|address| addresses.push(address)) {
                return Err(unexpected(WHAT, &line));
            }
        }
        Ok(addresses)
    }

    /// Says a word.
    pub(crate) fn say(&self, word: &str) {
        println!("> {word}");
    }

    /// Waits for a word of the other end.
    pub(crate) fn await_word(&self, word: &'static str) -> Result<(), Failure> {
        let line = self.line(word)?;
        if line == word { Ok(()) } else { Err(unexpected(word, &line)) }
    }

    /// The next line that is not empty; `what` it should be.
    fn line(&self, what: &'static str) -> Result<String<LINE>, Failure> {
        let mut line = String::new();
        let end = self.machine.clock().now() + PATIENCE;
        loop {
            match Serial.get() {
                Some(b'\r' | b'\n') if line.is_empty() => {}
                Some(b'\r' | b'\n') => return Ok(line),
                Some(byte) => {
                    if line.push(byte.into()).is_err() {
                        return Err(unexpected(what, &line));
                    }
                }
                None if self.machine.clock().now() > end => return Err(Failure::Silence(what)),
                None => core::hint::spin_loop(),
            }
        }
    }
}
