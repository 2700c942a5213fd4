//! Immediate Data (IBA 9.3.6): four bytes that end up in the receiver's completion.

use super::bytes::*;
use super::{Error, Header, head};

/// Bytes of the header.
pub const HEADER_LEN: usize = 4;

/// Byte offsets.
pub mod field {
    /// The immediate data, first byte on the wire most significant, 32 bits.
    pub const DATA: usize = 0;
}

/// A view of immediate data.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Packet<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; HEADER_LEN]) -> Self {
        Packet(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::ImmDt).map(Packet)
    }

    /// The immediate data, first byte on the wire most significant.
    pub fn data(&self) -> u32 {
        u32_at::<{ field::DATA }, _>(self.0)
    }
}

/// The fields of immediate data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// The immediate data, first byte on the wire most significant.
    pub data: u32,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(packet: &Packet<'_>) -> Repr {
        Repr { data: packet.data() }
    }

    /// Writes the header; reserved bits become zero.
    pub fn emit(&self, bytes: &mut [u8; HEADER_LEN]) {
        put::<{ field::DATA }, 4, _>(bytes, self.data.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from IBA figure "ImmDt".
    const BYTES: [u8; HEADER_LEN] = [0xde, 0xad, 0xbe, 0xef];

    const REPR: Repr = Repr { data: 0xdeadbeef };

    #[test]
    fn parse_and_emit() {
        assert_eq!(Repr::parse(&Packet::new(&BYTES)), REPR);
        let mut bytes = [0xee; HEADER_LEN];
        REPR.emit(&mut bytes);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn truncated() {
        for len in 0..HEADER_LEN {
            let short = Packet::new_checked(&BYTES[..len]);
            assert_eq!(short.err(), Some(Error::Truncated(Header::ImmDt)));
        }
        assert!(Packet::new_checked(&BYTES).is_ok());
    }
}
