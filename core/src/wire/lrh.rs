//! Local Route Header (IBA 7.7): starts every packet on an InfiniBand link.

use super::bytes::*;
use super::{Error, Header, head};

/// Bytes of an LRH.
pub const HEADER_LEN: usize = 8;

/// Byte offsets.
pub mod field {
    /// Virtual Lane (4 bits), Link Version (4 bits).
    pub const VL_LVER: usize = 0;
    /// Service Level (4 bits), reserved (2 bits), Link Next Header (2 bits).
    pub const SL_LNH: usize = 1;
    /// Destination LID, 16 bits.
    pub const DLID: usize = 2;
    /// Reserved (5 bits), Packet Length (11 bits).
    pub const PKT_LEN: usize = 4;
    /// Source LID, 16 bits.
    pub const SLID: usize = 6;
}

/// What follows the LRH (IBA 7.7.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum NextHeader {
    /// A raw packet with an EtherType.
    RawEtherType = 0,
    /// A raw IPv6 packet.
    RawIpv6 = 1,
    /// BTH.
    #[default]
    Bth = 2,
    /// GRH, then BTH.
    Grh = 3,
}

/// A view of an LRH.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Packet<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; HEADER_LEN]) -> Self {
        Packet(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::Lrh).map(Packet)
    }

    /// Virtual lane, 0 to 15; 15 is for subnet management.
    pub fn vl(&self) -> u8 {
        u8_at::<{ field::VL_LVER }, _>(self.0) >> 4
    }

    /// Link version: 0.
    pub fn version(&self) -> u8 {
        u8_at::<{ field::VL_LVER }, _>(self.0) & 0xf
    }

    /// Service level, 0 to 15.
    pub fn sl(&self) -> u8 {
        u8_at::<{ field::SL_LNH }, _>(self.0) >> 4
    }

    /// What follows.
    pub fn next_header(&self) -> NextHeader {
        match u8_at::<{ field::SL_LNH }, _>(self.0) & 3 {
            0 => NextHeader::RawEtherType,
            1 => NextHeader::RawIpv6,
            2 => NextHeader::Bth,
            _ => NextHeader::Grh,
        }
    }

    /// Destination LID.
    pub fn dlid(&self) -> u16 {
        u16_at::<{ field::DLID }, _>(self.0)
    }

    /// Length in 4-byte words, from the LRH to the ICRC, both included.
    pub fn pkt_len(&self) -> u16 {
        u16_at::<{ field::PKT_LEN }, _>(self.0) & 0x7ff
    }

    /// Source LID.
    pub fn slid(&self) -> u16 {
        u16_at::<{ field::SLID }, _>(self.0)
    }
}

/// The fields of an LRH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Virtual lane, 4 bits; 15 is for subnet management.
    pub vl: u8,
    /// Link version, 4 bits: 0.
    pub version: u8,
    /// Service level, 4 bits.
    pub sl: u8,
    /// What follows. [`frame`](super::frame) fills it in.
    pub next_header: NextHeader,
    /// Destination LID.
    pub dlid: u16,
    /// Length in 4-byte words, LRH to ICRC. [`frame`](super::frame) fills it in.
    pub pkt_len: u16,
    /// Source LID.
    pub slid: u16,
}

impl Repr {
    /// Takes the fields out of a view. Reserved bits are dropped.
    pub fn parse(packet: &Packet<'_>) -> Repr {
        Repr {
            vl: packet.vl(),
            version: packet.version(),
            sl: packet.sl(),
            next_header: packet.next_header(),
            dlid: packet.dlid(),
            pkt_len: packet.pkt_len(),
            slid: packet.slid(),
        }
    }

    /// Writes the header. Values wider than their fields are cut.
    pub fn emit(&self, bytes: &mut [u8; HEADER_LEN]) {
        put::<{ field::VL_LVER }, 1, _>(bytes, [self.vl << 4 | self.version & 0xf]);
        put::<{ field::SL_LNH }, 1, _>(bytes, [self.sl << 4 | self.next_header as u8]);
        put::<{ field::DLID }, 2, _>(bytes, self.dlid.to_be_bytes());
        put::<{ field::PKT_LEN }, 2, _>(bytes, (self.pkt_len & 0x7ff).to_be_bytes());
        put::<{ field::SLID }, 2, _>(bytes, self.slid.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The LRH of the sample packet of IBA 7.8.1.
    const BYTES: [u8; HEADER_LEN] = [0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2];

    #[test]
    fn parse_and_emit() {
        let repr =
            Repr { vl: 7, version: 0, sl: 1, next_header: NextHeader::Bth, dlid: 0x375c, pkt_len: 14, slid: 0x17d2 };
        assert_eq!(Repr::parse(&Packet::new(&BYTES)), repr);
        let mut bytes = [0xee; HEADER_LEN];
        repr.emit(&mut bytes);
        assert_eq!(bytes, BYTES);
        for len in 0..HEADER_LEN {
            let short = Packet::new_checked(&BYTES[..len]);
            assert_eq!(short.err(), Some(Error::Truncated(Header::Lrh)));
        }
    }
}
