//! Messages on the socket: a header of 16 bytes, a body, and file descriptors beside them. Little-endian.

use rustix::{
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
};
use std::{
    io::{self, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::net::UnixStream},
};

/// Most bytes that one message may read from or write to a region.
pub(super) const MAX_TRANSFER: usize = 1 << 20;
/// Most file descriptors beside a message.
pub(super) const MAX_FDS: usize = 16;
const MAX_BODY: usize = MAX_TRANSFER + 4096;

const HEADER: usize = 16;
const TYPE: u32 = 0xf;
const TYPE_COMMAND: u32 = 0;
const FLAG_REPLY: u32 = 1;
const FLAG_NO_REPLY: u32 = 1 << 4;
const FLAG_ERROR: u32 = 1 << 5;

/// A command from the client.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) id: u16,
    pub(super) command: u16,
    /// The client waits for no answer, not even for an error.
    pub(super) no_reply: bool,
    pub(super) body: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

impl Message {
    /// Receives the next command into this one; false if the client has hung up between two. An error means that the
    /// connection is of no use any more.
    pub(super) fn receive(&mut self, stream: &mut UnixStream) -> io::Result<bool> {
        self.fds.clear();
        self.body.clear();
        let mut header = [0; HEADER];
        let n = receive_with_fds(stream, &mut header, &mut self.fds)?;
        if n == 0 {
            return Ok(false);
        }
        stream.read_exact(&mut header[n..])?;
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        self.id = word(0) as u16;
        self.command = (word(0) >> 16) as u16;
        let (size, flags) = (word(4) as usize, word(8));
        self.no_reply = flags & FLAG_NO_REPLY != 0;
        if flags & TYPE != TYPE_COMMAND {
            return Err(io::Error::other(format!("a message that is no command (flags {flags:#x})")));
        }
        if !(HEADER..=HEADER + MAX_BODY).contains(&size) {
            return Err(io::Error::other(format!("a message of {size} bytes")));
        }
        self.body.resize(size - HEADER, 0);
        stream.read_exact(&mut self.body)?;
        Ok(true)
    }

    /// The 16-bit number at a place of the body.
    pub(super) fn u16(&self, at: usize) -> Result<u16, Errno> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    /// The 32-bit number at a place of the body.
    pub(super) fn u32(&self, at: usize) -> Result<u32, Errno> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    /// The 64-bit number at a place of the body.
    pub(super) fn u64(&self, at: usize) -> Result<u64, Errno> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N], Errno> {
        self.body.get(at..).and_then(|b| b.first_chunk()).copied().ok_or(Errno::INVAL)
    }
}

/// Receives some bytes, and the file descriptors that came with them.
fn receive_with_fds(stream: &UnixStream, data: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        match recvmsg(stream, &mut [IoSliceMut::new(data)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => {
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(rights) = message {
                        fds.extend(rights);
                    }
                }
                return Ok(received.bytes);
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// An answer in the making; its memory is used again.
#[derive(Debug, Default)]
pub(super) struct Reply(Vec<u8>);

impl Reply {
    /// Begins an answer without a body.
    pub(super) fn begin(&mut self) {
        self.0.clear();
        self.0.resize(HEADER, 0);
    }

    /// Adds to the body.
    pub(super) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Adds a 16-bit number.
    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    /// Adds a 32-bit number.
    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    /// Adds a 64-bit number.
    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    /// Adds `len` zeros and lends them.
    pub(super) fn space(&mut self, len: usize) -> &mut [u8] {
        let at = self.0.len();
        self.0.resize(at + len, 0);
        &mut self.0[at..]
    }

    /// Sends the answer to a command, or the error.
    pub(super) fn send(&mut self, to: &Message, result: Result<(), Errno>, stream: &mut UnixStream) -> io::Result<()> {
        if to.no_reply {
            return Ok(());
        }
        let (flags, error) = match result {
            Ok(()) => (FLAG_REPLY, 0),
            Err(e) => {
                self.begin();
                (FLAG_REPLY | FLAG_ERROR, e.raw_os_error() as u32)
            }
        };
        let size = self.0.len() as u32;
        let head = [u32::from(to.command) << 16 | u32::from(to.id), size, flags, error];
        for (b, word) in self.0.chunks_exact_mut(4).zip(head) {
            b.copy_from_slice(&word.to_le_bytes());
        }
        stream.write_all(&self.0)
    }
}
