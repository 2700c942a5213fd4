//! Datagram Extended Transport Header (IBA 9.3.2): in every UD packet.

use super::bytes::*;
use super::{Error, Header, head};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

/// Byte offsets.
pub mod field {
    /// Queue key, 32 bits.
    pub const QKEY: usize = 0;
    /// Source QP number, 24 bits.
    pub const SRC_QP: usize = 5;
}

/// A view of a DETH.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Packet<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; HEADER_LEN]) -> Self {
        Packet(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::Deth).map(Packet)
    }

    /// Queue key.
    pub fn qkey(&self) -> u32 {
        u32_at::<{ field::QKEY }, _>(self.0)
    }

    /// Source QP number.
    pub fn src_qp(&self) -> u32 {
        u24_at::<{ field::SRC_QP }, _>(self.0)
    }
}

/// The fields of a DETH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Queue key.
    pub qkey: u32,
    /// Source QP number, 24 bits.
    pub src_qp: u32,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(packet: &Packet<'_>) -> Repr {
        Repr { qkey: packet.qkey(), src_qp: packet.src_qp() }
    }

    /// Writes the header; reserved bits become zero.
    pub fn emit(&self, bytes: &mut [u8; HEADER_LEN]) {
        *bytes = [0; HEADER_LEN];
        put::<{ field::QKEY }, 4, _>(bytes, self.qkey.to_be_bytes());
        put_u24::<{ field::SRC_QP }, _>(bytes, self.src_qp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A GSI packet: the well-known Q_Key of QP 1 (IBA 10.2.5), by hand from IBA figure "DETH".
    const BYTES: [u8; HEADER_LEN] = [0x80, 0x01, 0, 0, 0, 0, 0, 0x01];

    const REPR: Repr = Repr { qkey: 0x8001_0000, src_qp: 1 };

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
            assert_eq!(short.err(), Some(Error::Truncated(Header::Deth)));
        }
        assert!(Packet::new_checked(&BYTES).is_ok());
    }
}
