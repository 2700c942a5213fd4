//! Invalidate Extended Transport Header (IBA 9.3.7): the key a SEND invalidates.

use super::bytes::*;
use super::{Error, Header, head};

/// Bytes of the header.
pub const HEADER_LEN: usize = 4;

/// Byte offsets.
pub mod field {
    /// Remote key to invalidate, 32 bits.
    pub const RKEY: usize = 0;
}

/// A view of an IETH.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Packet<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; HEADER_LEN]) -> Self {
        Packet(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::Ieth).map(Packet)
    }

    /// Remote key to invalidate.
    pub fn rkey(&self) -> u32 {
        u32_at::<{ field::RKEY }, _>(self.0)
    }
}

/// The fields of an IETH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Remote key to invalidate.
    pub rkey: u32,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(packet: &Packet<'_>) -> Repr {
        Repr { rkey: packet.rkey() }
    }

    /// Writes the header; reserved bits become zero.
    pub fn emit(&self, bytes: &mut [u8; HEADER_LEN]) {
        put::<{ field::RKEY }, 4, _>(bytes, self.rkey.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from IBA figure "IETH".
    const BYTES: [u8; HEADER_LEN] = [0x00, 0x12, 0x34, 0x56];

    const REPR: Repr = Repr { rkey: 0x0012_3456 };

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
            assert_eq!(short.err(), Some(Error::Truncated(Header::Ieth)));
        }
        assert!(Packet::new_checked(&BYTES).is_ok());
    }
}
