//! Ethernet II header, with at most one 802.1Q tag.

use super::bytes::*;
use super::{Error, Header};

/// Bytes of a header without a tag.
pub const HEADER_LEN: usize = 14;
/// Bytes of an 802.1Q tag.
pub const TAG_LEN: usize = 4;

/// EtherType of RoCE version 1 (A16.2).
pub const TYPE_ROCE_V1: u16 = 0x8915;
/// EtherType of IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const TYPE_IPV6: u16 = 0x86dd;
/// EtherType of an 802.1Q tag.
pub const TYPE_VLAN: u16 = 0x8100;

/// Byte offsets.
pub mod field {
    /// Destination MAC address, 48 bits.
    pub const DST: usize = 0;
    /// Source MAC address, 48 bits.
    pub const SRC: usize = 6;
    /// EtherType, 16 bits.
    pub const TYPE: usize = 12;
    /// In the 4 bytes of the tag, which start with its EtherType: Tag Control
    /// Information, that is PCP (3 bits), DEI (1 bit) and VLAN id (12 bits).
    pub const TAG_TCI: usize = 2;
}

/// A view of an Ethernet header.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    addresses: &'a [u8; 12],
    tag: Option<&'a [u8; TAG_LEN]>,
    ether_type: &'a [u8; 2],
}

impl<'a> Packet<'a> {
    /// Views the header at the start of `data` and returns what follows it.
    pub fn new_checked(data: &'a [u8]) -> Result<(Self, &'a [u8]), Error> {
        const SHORT: Error = Error::Truncated(Header::Ethernet);
        let (addresses, rest) = data.split_first_chunk().ok_or(SHORT)?;
        let (tag, rest) = match rest.first_chunk() {
            Some(ether_type) if u16::from_be_bytes(*ether_type) == TYPE_VLAN => {
                let (tag, rest) = rest.split_first_chunk().ok_or(SHORT)?;
                (Some(tag), rest)
            }
            _ => (None, rest),
        };
        let (ether_type, rest) = rest.split_first_chunk().ok_or(SHORT)?;
        Ok((Packet { addresses, tag, ether_type }, rest))
    }

    /// Destination MAC address.
    pub fn dst(&self) -> [u8; 6] {
        get::<{ field::DST }, 6, _>(self.addresses)
    }

    /// Source MAC address.
    pub fn src(&self) -> [u8; 6] {
        get::<{ field::SRC }, 6, _>(self.addresses)
    }

    /// Tag Control Information of the 802.1Q tag, if there is one.
    pub fn vlan(&self) -> Option<u16> {
        self.tag.map(u16_at::<{ field::TAG_TCI }, _>)
    }

    /// EtherType; that after the tag where there is one.
    pub fn ether_type(&self) -> u16 {
        u16::from_be_bytes(*self.ether_type)
    }
}

/// The fields of an Ethernet header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Destination MAC address.
    pub dst: [u8; 6],
    /// Source MAC address.
    pub src: [u8; 6],
    /// Tag Control Information of the 802.1Q tag, if there is one: PCP in bits 15-13,
    /// DEI in bit 12, VLAN id in bits 11-0.
    pub vlan: Option<u16>,
    /// EtherType of what follows. [`frame`](super::frame) fills it in.
    pub ether_type: u16,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(packet: &Packet<'_>) -> Repr {
        Repr { dst: packet.dst(), src: packet.src(), vlan: packet.vlan(), ether_type: packet.ether_type() }
    }

    /// Bytes of the header.
    pub const fn header_len(&self) -> usize {
        if self.vlan.is_some() { HEADER_LEN + TAG_LEN } else { HEADER_LEN }
    }

    /// Writes the header to the start of `data` and returns what follows it;
    /// [`Error::Buffer`] if it does not fit.
    pub fn emit<'b>(&self, data: &'b mut [u8]) -> Result<&'b mut [u8], Error> {
        let full = Error::Buffer { needed: self.header_len() };
        let (addresses, mut rest) = data.split_first_chunk_mut::<12>().ok_or(full)?;
        put::<{ field::DST }, 6, _>(addresses, self.dst);
        put::<{ field::SRC }, 6, _>(addresses, self.src);
        if let Some(tci) = self.vlan {
            let (tag, after) = rest.split_first_chunk_mut::<TAG_LEN>().ok_or(full)?;
            put::<0, 2, _>(tag, TYPE_VLAN.to_be_bytes());
            put::<{ field::TAG_TCI }, 2, _>(tag, tci.to_be_bytes());
            rest = after;
        }
        let (ether_type, rest) = rest.split_first_chunk_mut::<2>().ok_or(full)?;
        *ether_type = self.ether_type.to_be_bytes();
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the CNP captured from a ConnectX-4 Lx (scapy test/contrib/roce.uts).
    const PLAIN: [u8; 15] = [0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2, 0x7c, 0xfe, 0x90, 0x64, 0x3b, 0x32, 0x08, 0x00, 0x45];
    /// The same with priority 3, VLAN 100, by hand from IEEE 802.1Q clause 9.6.
    const TAGGED: [u8; 19] = [
        0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2, 0x7c, 0xfe, 0x90, 0x64, 0x3b, 0x32, 0x81, 0x00, 0x60, 0x64, 0x08, 0x00,
        0x45,
    ];

    fn check<const N: usize>(bytes: [u8; N], vlan: Option<u16>) {
        let repr = Repr {
            dst: [0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2],
            src: [0x7c, 0xfe, 0x90, 0x64, 0x3b, 0x32],
            vlan,
            ether_type: TYPE_IPV4,
        };
        let (packet, rest) = Packet::new_checked(&bytes).unwrap();
        assert_eq!(Repr::parse(&packet), repr);
        assert_eq!(rest, [0x45]);
        assert_eq!(repr.header_len(), N - 1);

        let mut emitted = [0x45; N];
        assert_eq!(repr.emit(&mut emitted), Ok(&mut [0x45][..]));
        assert_eq!(emitted, bytes);
        for len in 0..N - 1 {
            let short = Packet::new_checked(&bytes[..len]);
            assert_eq!(short.err(), Some(Error::Truncated(Header::Ethernet)));
            assert_eq!(repr.emit(&mut emitted[..len]), Err(Error::Buffer { needed: N - 1 }));
        }
    }

    #[test]
    fn plain_and_tagged() {
        check(PLAIN, None);
        check(TAGGED, Some(3 << 13 | 100));
    }
}
