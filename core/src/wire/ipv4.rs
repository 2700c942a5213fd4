//! IPv4 header (RFC 791), as RoCEv2 uses it: without options, not fragmented (A17.3.1).

use super::bytes::*;
use super::{Error, Header, head};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;

/// The protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// Byte offsets.
pub mod field {
    /// Version (4 bits), Internet Header Length (4 bits, in words).
    pub const VER_IHL: usize = 0;
    /// Type of Service: DSCP (6 bits), ECN (2 bits).
    pub const TOS: usize = 1;
    /// Total Length, 16 bits.
    pub const TOTAL_LEN: usize = 2;
    /// Identification, 16 bits.
    pub const IDENT: usize = 4;
    /// Flags (3 bits), Fragment Offset (13 bits).
    pub const FLAGS: usize = 6;
    /// Time to Live, 8 bits.
    pub const TTL: usize = 8;
    /// Protocol, 8 bits.
    pub const PROTOCOL: usize = 9;
    /// Header Checksum, 16 bits.
    pub const CHECKSUM: usize = 10;
    /// Source address, 32 bits.
    pub const SRC: usize = 12;
    /// Destination address, 32 bits.
    pub const DST: usize = 16;
}

/// A view of an IPv4 header.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Packet<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; HEADER_LEN]) -> Self {
        Packet(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::Ipv4).map(Packet)
    }

    /// Version: 4.
    pub fn version(&self) -> u8 {
        u8_at::<{ field::VER_IHL }, _>(self.0) >> 4
    }

    /// Bytes of the header, options included.
    pub fn header_len(&self) -> u8 {
        (u8_at::<{ field::VER_IHL }, _>(self.0) & 0xf) * 4
    }

    /// Type of service: DSCP and ECN.
    pub fn tos(&self) -> u8 {
        u8_at::<{ field::TOS }, _>(self.0)
    }

    /// Bytes of header and payload.
    pub fn total_len(&self) -> u16 {
        u16_at::<{ field::TOTAL_LEN }, _>(self.0)
    }

    /// Identification.
    pub fn ident(&self) -> u16 {
        u16_at::<{ field::IDENT }, _>(self.0)
    }

    /// Don't Fragment.
    pub fn dont_frag(&self) -> bool {
        u16_at::<{ field::FLAGS }, _>(self.0) & 0x4000 != 0
    }

    /// More fragments follow, or this is not the first one.
    pub fn is_fragment(&self) -> bool {
        u16_at::<{ field::FLAGS }, _>(self.0) & 0x3fff != 0
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        u8_at::<{ field::TTL }, _>(self.0)
    }

    /// What follows.
    pub fn protocol(&self) -> u8 {
        u8_at::<{ field::PROTOCOL }, _>(self.0)
    }

    /// Header checksum.
    pub fn checksum(&self) -> u16 {
        u16_at::<{ field::CHECKSUM }, _>(self.0)
    }

    /// Whether the header checksum is right.
    pub fn verify_checksum(&self) -> bool {
        ones_complement_sum(self.0) == 0xffff
    }

    /// Source address.
    pub fn src(&self) -> [u8; 4] {
        get::<{ field::SRC }, 4, _>(self.0)
    }

    /// Destination address.
    pub fn dst(&self) -> [u8; 4] {
        get::<{ field::DST }, 4, _>(self.0)
    }
}

/// The fields of an IPv4 header without options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Bytes of header and payload. [`frame`](super::frame) fills it in.
    pub total_len: u16,
    /// Identification; covered by the ICRC.
    pub ident: u16,
    /// Don't Fragment.
    pub dont_frag: bool,
    /// Time to live.
    pub ttl: u8,
    /// What follows. [`frame`](super::frame) fills it in.
    pub protocol: u8,
    /// Source address.
    pub src: [u8; 4],
    /// Destination address.
    pub dst: [u8; 4],
}

impl Repr {
    /// Takes the fields out of a view. Refused are another version, options and fragments
    /// ([`Error::Unsupported`]), and a wrong header checksum.
    pub fn parse(packet: &Packet<'_>) -> Result<Repr, Error> {
        if packet.version() != 4 {
            return Err(Error::Version(Header::Ipv4));
        }
        if packet.header_len() as usize != HEADER_LEN || packet.is_fragment() {
            return Err(Error::Unsupported(Header::Ipv4));
        }
        if !packet.verify_checksum() {
            return Err(Error::Checksum(Header::Ipv4));
        }
        Ok(Repr {
            tos: packet.tos(),
            total_len: packet.total_len(),
            ident: packet.ident(),
            dont_frag: packet.dont_frag(),
            ttl: packet.ttl(),
            protocol: packet.protocol(),
            src: packet.src(),
            dst: packet.dst(),
        })
    }

    /// Writes the header with its checksum.
    pub fn emit(&self, bytes: &mut [u8; HEADER_LEN]) {
        put::<{ field::VER_IHL }, 2, _>(bytes, [0x45, self.tos]);
        put::<{ field::TOTAL_LEN }, 2, _>(bytes, self.total_len.to_be_bytes());
        put::<{ field::IDENT }, 2, _>(bytes, self.ident.to_be_bytes());
        put::<{ field::FLAGS }, 2, _>(bytes, [(self.dont_frag as u8) << 6, 0]);
        put::<{ field::TTL }, 4, _>(bytes, [self.ttl, self.protocol, 0, 0]);
        put::<{ field::SRC }, 4, _>(bytes, self.src);
        put::<{ field::DST }, 4, _>(bytes, self.dst);
        let checksum = !ones_complement_sum(bytes);
        put::<{ field::CHECKSUM }, 2, _>(bytes, checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the CNP captured from a ConnectX-4 Lx (scapy test/contrib/roce.uts).
    const BYTES: [u8; HEADER_LEN] = [
        0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61, 0x0a, 0x00, 0x11, 0x01, 0x0a, 0x00,
        0x12, 0x01,
    ];

    #[test]
    fn parse_and_emit() {
        let repr = Repr {
            tos: 0xc2,
            total_len: 60,
            ident: 0x718c,
            dont_frag: true,
            ttl: 64,
            protocol: PROTOCOL_UDP,
            src: [10, 0, 17, 1],
            dst: [10, 0, 18, 1],
        };
        assert_eq!(Repr::parse(&Packet::new(&BYTES)), Ok(repr));
        let mut bytes = [0xee; HEADER_LEN];
        repr.emit(&mut bytes);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn malformed() {
        for len in 0..HEADER_LEN {
            let short = Packet::new_checked(&BYTES[..len]);
            assert_eq!(short.err(), Some(Error::Truncated(Header::Ipv4)));
        }
        // A single flipped bit always breaks the checksum, unless another check comes first.
        for bit in 0..HEADER_LEN * 8 {
            let mut bytes = BYTES;
            bytes[bit / 8] ^= 1 << (bit % 8);
            let packet = Packet::new(&bytes);
            assert!(!packet.verify_checksum());
            assert!(Repr::parse(&packet).is_err(), "bit {bit}");
        }
    }
}
