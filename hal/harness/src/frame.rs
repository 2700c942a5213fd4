//! A frame on a link, whose checksums wait until somebody looks.

use std::fmt;

/// Writes a frame's checksums into it.
pub type Seal = fn(&mut [u8]);

/// A frame's bytes.
///
/// A frame that its sender left open has room for its checksums and none in it. Nobody can tell: whoever looks at all
/// of its bytes or changes some seals it first, and that is for good. A receiver that gets an open frame knows that
/// nobody has touched it on its way; it checks the checksums of all others.
#[derive(Clone, Default)]
pub struct Frame {
    bytes: Vec<u8>,
    open: Option<Seal>,
}

impl Frame {
    /// A frame that is not sealed yet; `seal` writes the checksums.
    pub fn open(bytes: Vec<u8>, seal: Seal) -> Self {
        Self { bytes, open: Some(seal) }
    }

    /// Whether nobody has looked yet, so that the checksums are not there.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Writes the checksums, where they are not there yet.
    pub fn seal(&mut self) {
        if let Some(seal) = self.open.take() {
            seal(&mut self.bytes);
        }
    }

    /// Bytes of the whole frame.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is not one byte.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes as they are: right but for the checksums of an open frame. For what needs no checksum: headers, and
    /// the payload of who knows [`is_open`](Self::is_open).
    pub fn as_sent(&self) -> &[u8] {
        &self.bytes
    }

    /// All bytes, checksums included.
    pub fn bytes(&mut self) -> &[u8] {
        self.seal();
        &self.bytes
    }

    /// All bytes, to be changed; whatever is changed, no checksum follows.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        self.seal();
        &mut self.bytes
    }

    /// All bytes, checksums included.
    pub fn into_bytes(mut self) -> Vec<u8> {
        self.seal();
        self.bytes
    }
}

impl From<Vec<u8>> for Frame {
    /// A frame that is complete.
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, open: None }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("open", &self.is_open()).field("bytes", &self.bytes).finish()
    }
}
