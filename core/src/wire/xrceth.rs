//! XRC Extended Transport Header (annex A14): the shared receive queue of an XRC request.

use super::bytes::*;
use super::{Error, Header, head};

/// Bytes of the header.
pub const HEADER_LEN: usize = 4;

/// Byte offsets.
pub mod field {
    /// Shared receive queue number, 24 bits.
    pub const SRQN: usize = 1;
}

/// A view of an XRCETH.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Packet<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; HEADER_LEN]) -> Self {
        Packet(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::XrcEth).map(Packet)
    }

    /// Shared receive queue number.
    pub fn srqn(&self) -> u32 {
        u24_at::<{ field::SRQN }, _>(self.0)
    }
}

/// The fields of an XRCETH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Shared receive queue number, 24 bits.
    pub srqn: u32,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(packet: &Packet<'_>) -> Repr {
        Repr { srqn: packet.srqn() }
    }

    /// Writes the header; reserved bits become zero.
    pub fn emit(&self, bytes: &mut [u8; HEADER_LEN]) {
        *bytes = [0; HEADER_LEN];
        put_u24::<{ field::SRQN }, _>(bytes, self.srqn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from annex A14, figure "XRCETH".
    const BYTES: [u8; HEADER_LEN] = [0x00, 0xab, 0xcd, 0xef];

    const REPR: Repr = Repr { srqn: 0xabcdef };

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
            assert_eq!(short.err(), Some(Error::Truncated(Header::XrcEth)));
        }
        assert!(Packet::new_checked(&BYTES).is_ok());
    }
}
