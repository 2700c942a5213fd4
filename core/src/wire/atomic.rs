//! Atomic Extended Transport Header (IBA 9.3.4) and its answer, the Atomic ACK Extended
//! Transport Header (IBA 9.3.5.3).

use super::bytes::*;
use super::{Error, Header, head};

/// Bytes of an AtomicETH.
pub const HEADER_LEN: usize = 28;
/// Bytes of an AtomicAckETH.
pub const ACK_HEADER_LEN: usize = 8;

/// Byte offsets in the AtomicETH.
pub mod field {
    /// Virtual address, 64 bits.
    pub const VADDR: usize = 0;
    /// Remote key, 32 bits.
    pub const RKEY: usize = 8;
    /// Swap data (CmpSwap) or add data (FetchAdd), 64 bits.
    pub const SWAP_ADD: usize = 12;
    /// Compare data, 64 bits.
    pub const COMPARE: usize = 20;
}

/// Byte offsets in the AtomicAckETH.
pub mod ack_field {
    /// The value before the operation, 64 bits.
    pub const ORIGINAL: usize = 0;
}

/// A view of an AtomicETH.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Packet<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; HEADER_LEN]) -> Self {
        Packet(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::AtomicEth).map(Packet)
    }

    /// Virtual address of the 8 bytes to work on.
    pub fn vaddr(&self) -> u64 {
        u64_at::<{ field::VADDR }, _>(self.0)
    }

    /// Remote key of the region.
    pub fn rkey(&self) -> u32 {
        u32_at::<{ field::RKEY }, _>(self.0)
    }

    /// What CmpSwap stores, or what FetchAdd adds.
    pub fn swap_add(&self) -> u64 {
        u64_at::<{ field::SWAP_ADD }, _>(self.0)
    }

    /// What CmpSwap compares with.
    pub fn compare(&self) -> u64 {
        u64_at::<{ field::COMPARE }, _>(self.0)
    }
}

/// The fields of an AtomicETH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Virtual address of the 8 bytes to work on.
    pub vaddr: u64,
    /// Remote key of the region.
    pub rkey: u32,
    /// What CmpSwap stores, or what FetchAdd adds.
    pub swap_add: u64,
    /// What CmpSwap compares with.
    pub compare: u64,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(packet: &Packet<'_>) -> Repr {
        Repr { vaddr: packet.vaddr(), rkey: packet.rkey(), swap_add: packet.swap_add(), compare: packet.compare() }
    }

    /// Writes the header.
    pub fn emit(&self, bytes: &mut [u8; HEADER_LEN]) {
        put::<{ field::VADDR }, 8, _>(bytes, self.vaddr.to_be_bytes());
        put::<{ field::RKEY }, 4, _>(bytes, self.rkey.to_be_bytes());
        put::<{ field::SWAP_ADD }, 8, _>(bytes, self.swap_add.to_be_bytes());
        put::<{ field::COMPARE }, 8, _>(bytes, self.compare.to_be_bytes());
    }
}

/// A view of an AtomicAckETH.
#[derive(Clone, Copy, Debug)]
pub struct AckPacket<'a>(&'a [u8; ACK_HEADER_LEN]);

impl<'a> AckPacket<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; ACK_HEADER_LEN]) -> Self {
        AckPacket(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::AtomicAckEth).map(AckPacket)
    }

    /// The value before the operation.
    pub fn original(&self) -> u64 {
        u64_at::<{ ack_field::ORIGINAL }, _>(self.0)
    }
}

/// The field of an AtomicAckETH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckRepr {
    /// The value before the operation.
    pub original: u64,
}

impl AckRepr {
    /// Takes the field out of a view.
    pub fn parse(packet: &AckPacket<'_>) -> AckRepr {
        AckRepr { original: packet.original() }
    }

    /// Writes the header.
    pub fn emit(&self, bytes: &mut [u8; ACK_HEADER_LEN]) {
        put::<{ ack_field::ORIGINAL }, 8, _>(bytes, self.original.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from IBA figure "AtomicETH".
    const BYTES: [u8; HEADER_LEN] = [
        0, 0, 0x7f, 0xff, 0x12, 0x34, 0x56, 0x78, // virtual address
        0xca, 0xfe, 0xba, 0xbe, // R_Key
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, // swap or add data
        0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, // compare data
    ];

    #[test]
    fn parse_and_emit() {
        let repr = Repr {
            vaddr: 0x7fff_1234_5678,
            rkey: 0xcafe_babe,
            swap_add: 0x0102_0304_0506_0708,
            compare: 0x1112_1314_1516_1718,
        };
        assert_eq!(Repr::parse(&Packet::new(&BYTES)), repr);
        let mut bytes = [0xee; HEADER_LEN];
        repr.emit(&mut bytes);
        assert_eq!(bytes, BYTES);

        let ack = [0, 0, 0, 0, 0, 0, 0x12, 0x34];
        let repr = AckRepr { original: 0x1234 };
        assert_eq!(AckRepr::parse(&AckPacket::new(&ack)), repr);
        let mut bytes = [0xee; ACK_HEADER_LEN];
        repr.emit(&mut bytes);
        assert_eq!(bytes, ack);
    }

    #[test]
    fn truncated() {
        for len in 0..HEADER_LEN {
            let short = Packet::new_checked(&BYTES[..len]);
            assert_eq!(short.err(), Some(Error::Truncated(Header::AtomicEth)));
        }
        for len in 0..ACK_HEADER_LEN {
            let short = AckPacket::new_checked(&BYTES[..len]);
            assert_eq!(short.err(), Some(Error::Truncated(Header::AtomicAckEth)));
        }
    }
}
