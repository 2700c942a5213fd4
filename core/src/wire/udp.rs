//! User Datagram Protocol header (RFC 768), as RoCEv2 uses it (A17.3.1).
//!
//! RoCEv2 covers the packet by its ICRC, which masks the checksum out; senders write a zero
//! checksum over IPv4 and, by RFC 6935, over IPv6 (Linux `rxe_net.c` does both). So the
//! checksum is neither computed nor verified here, only carried.

use super::bytes::*;
use super::{Error, Header, head};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

/// The destination port of RoCEv2, assigned by IANA.
pub const ROCE_V2_PORT: u16 = 4791;

/// Byte offsets.
pub mod field {
    /// Source port: entropy for ECMP, no meaning to RoCEv2, 16 bits.
    pub const SRC_PORT: usize = 0;
    /// Destination port, 16 bits.
    pub const DST_PORT: usize = 2;
    /// Bytes of UDP header and payload, 16 bits.
    pub const LENGTH: usize = 4;
    /// Checksum; 0 where there is none, 16 bits.
    pub const CHECKSUM: usize = 6;
}

/// A view of a UDP header.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Packet<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; HEADER_LEN]) -> Self {
        Packet(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::Udp).map(Packet)
    }

    /// Source port: entropy for ECMP, no meaning to RoCEv2.
    pub fn src_port(&self) -> u16 {
        u16_at::<{ field::SRC_PORT }, _>(self.0)
    }

    /// Destination port.
    pub fn dst_port(&self) -> u16 {
        u16_at::<{ field::DST_PORT }, _>(self.0)
    }

    /// Bytes of UDP header and payload.
    pub fn length(&self) -> u16 {
        u16_at::<{ field::LENGTH }, _>(self.0)
    }

    /// Checksum; 0 where there is none.
    pub fn checksum(&self) -> u16 {
        u16_at::<{ field::CHECKSUM }, _>(self.0)
    }
}

/// The fields of a UDP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Source port: entropy for ECMP, no meaning to RoCEv2.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Bytes of UDP header and payload.
    pub length: u16,
    /// Checksum; 0 where there is none.
    pub checksum: u16,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(packet: &Packet<'_>) -> Repr {
        Repr {
            src_port: packet.src_port(),
            dst_port: packet.dst_port(),
            length: packet.length(),
            checksum: packet.checksum(),
        }
    }

    /// Writes the header; reserved bits become zero.
    pub fn emit(&self, bytes: &mut [u8; HEADER_LEN]) {
        put::<{ field::SRC_PORT }, 2, _>(bytes, self.src_port.to_be_bytes());
        put::<{ field::DST_PORT }, 2, _>(bytes, self.dst_port.to_be_bytes());
        put::<{ field::LENGTH }, 2, _>(bytes, self.length.to_be_bytes());
        put::<{ field::CHECKSUM }, 2, _>(bytes, self.checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CNP captured from a ConnectX-4 Lx (scapy test/contrib/roce.uts).
    const BYTES: [u8; HEADER_LEN] = [0, 0, 0x12, 0xb7, 0, 0x28, 0, 0];

    const REPR: Repr = Repr { src_port: 0, dst_port: ROCE_V2_PORT, length: 40, checksum: 0 };

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
            assert_eq!(short.err(), Some(Error::Truncated(Header::Udp)));
        }
        assert!(Packet::new_checked(&BYTES).is_ok());
    }
}
