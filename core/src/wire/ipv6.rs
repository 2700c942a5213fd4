//! IPv6 header (RFC 8200), as RoCEv2 uses it: without extension headers (A17.3.1).
//!
//! The GRH is the same header with another next-header value: [`grh`](super::grh).

use super::bytes::*;
use super::{Error, Header, head};

/// Bytes of the header.
pub const HEADER_LEN: usize = 40;

/// The next-header value of UDP.
pub const NEXT_HEADER_UDP: u8 = 17;

/// Byte offsets.
pub mod field {
    /// Version (4 bits), Traffic Class (8 bits), Flow Label (20 bits).
    pub const VER_TC_FLOW: usize = 0;
    /// Payload Length, 16 bits.
    pub const PAYLOAD_LEN: usize = 4;
    /// Next Header, 8 bits.
    pub const NEXT_HEADER: usize = 6;
    /// Hop Limit, 8 bits.
    pub const HOP_LIMIT: usize = 7;
    /// Source address, 128 bits.
    pub const SRC: usize = 8;
    /// Destination address, 128 bits.
    pub const DST: usize = 24;
}

/// A view of an IPv6 header.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Packet<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; HEADER_LEN]) -> Self {
        Packet(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::Ipv6).map(Packet)
    }

    fn ver_tc_flow(&self) -> u32 {
        u32_at::<{ field::VER_TC_FLOW }, _>(self.0)
    }

    /// Version: 6.
    pub fn version(&self) -> u8 {
        (self.ver_tc_flow() >> 28) as u8
    }

    /// Traffic class.
    pub fn traffic_class(&self) -> u8 {
        (self.ver_tc_flow() >> 20) as u8
    }

    /// Flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.ver_tc_flow() & 0xf_ffff
    }

    /// Bytes after this header.
    pub fn payload_len(&self) -> u16 {
        u16_at::<{ field::PAYLOAD_LEN }, _>(self.0)
    }

    /// What follows.
    pub fn next_header(&self) -> u8 {
        u8_at::<{ field::NEXT_HEADER }, _>(self.0)
    }

    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        u8_at::<{ field::HOP_LIMIT }, _>(self.0)
    }

    /// Source address.
    pub fn src(&self) -> [u8; 16] {
        get::<{ field::SRC }, 16, _>(self.0)
    }

    /// Destination address.
    pub fn dst(&self) -> [u8; 16] {
        get::<{ field::DST }, 16, _>(self.0)
    }
}

/// The fields of an IPv6 header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes after this header. [`frame`](super::frame) fills it in.
    pub payload_len: u16,
    /// What follows. [`frame`](super::frame) fills it in.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: [u8; 16],
    /// Destination address.
    pub dst: [u8; 16],
}

impl Repr {
    /// Takes the fields out of a view; [`Error::Version`] if it is not version 6.
    pub fn parse(packet: &Packet<'_>) -> Result<Repr, Error> {
        if packet.version() != 6 {
            return Err(Error::Version(Header::Ipv6));
        }
        Ok(Repr {
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
            payload_len: packet.payload_len(),
            next_header: packet.next_header(),
            hop_limit: packet.hop_limit(),
            src: packet.src(),
            dst: packet.dst(),
        })
    }

    /// Writes the header. Values wider than their fields are cut.
    pub fn emit(&self, bytes: &mut [u8; HEADER_LEN]) {
        let ver_tc_flow = 6 << 28 | (self.traffic_class as u32) << 20 | self.flow_label & 0xf_ffff;
        put::<{ field::VER_TC_FLOW }, 4, _>(bytes, ver_tc_flow.to_be_bytes());
        put::<{ field::PAYLOAD_LEN }, 2, _>(bytes, self.payload_len.to_be_bytes());
        put::<{ field::NEXT_HEADER }, 2, _>(bytes, [self.next_header, self.hop_limit]);
        put::<{ field::SRC }, 16, _>(bytes, self.src);
        put::<{ field::DST }, 16, _>(bytes, self.dst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from RFC 8200 section 3; addresses of RFC 3849.
    const BYTES: [u8; HEADER_LEN] = [
        0x6a, 0xbc, 0xde, 0xf1, 0x00, 0x1c, 0x11, 0x40, // 6, 0xab, 0xcdef1; 28; UDP; 64
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, //
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, //
    ];

    #[test]
    fn parse_and_emit() {
        let mut src = [0; 16];
        src[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        src[15] = 1;
        let mut dst = src;
        dst[15] = 2;
        let repr = Repr {
            traffic_class: 0xab,
            flow_label: 0xcdef1,
            payload_len: 28,
            next_header: NEXT_HEADER_UDP,
            hop_limit: 64,
            src,
            dst,
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
            assert_eq!(short.err(), Some(Error::Truncated(Header::Ipv6)));
        }
        let mut bytes = BYTES;
        bytes[0] = 0x4a;
        assert_eq!(Repr::parse(&Packet::new(&bytes)), Err(Error::Version(Header::Ipv6)));
    }
}
