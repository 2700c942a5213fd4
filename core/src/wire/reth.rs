//! RDMA Extended Transport Header (IBA 9.3.3): where an RDMA WRITE or READ goes.

use super::bytes::*;
use super::{Error, Header, head};

/// Bytes of the header.
pub const HEADER_LEN: usize = 16;

/// Byte offsets.
pub mod field {
    /// Virtual address in the responder's region, 64 bits.
    pub const VADDR: usize = 0;
    /// Remote key of the region, 32 bits.
    pub const RKEY: usize = 8;
    /// Bytes of the whole message, 32 bits.
    pub const DMA_LEN: usize = 12;
}

/// A view of a RETH.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Packet<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; HEADER_LEN]) -> Self {
        Packet(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::Reth).map(Packet)
    }

    /// Virtual address in the responder's region.
    pub fn vaddr(&self) -> u64 {
        u64_at::<{ field::VADDR }, _>(self.0)
    }

    /// Remote key of the region.
    pub fn rkey(&self) -> u32 {
        u32_at::<{ field::RKEY }, _>(self.0)
    }

    /// Bytes of the whole message.
    pub fn dma_len(&self) -> u32 {
        u32_at::<{ field::DMA_LEN }, _>(self.0)
    }
}

/// The fields of a RETH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Virtual address in the responder's region.
    pub vaddr: u64,
    /// Remote key of the region.
    pub rkey: u32,
    /// Bytes of the whole message.
    pub dma_len: u32,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(packet: &Packet<'_>) -> Repr {
        Repr { vaddr: packet.vaddr(), rkey: packet.rkey(), dma_len: packet.dma_len() }
    }

    /// Writes the header; reserved bits become zero.
    pub fn emit(&self, bytes: &mut [u8; HEADER_LEN]) {
        put::<{ field::VADDR }, 8, _>(bytes, self.vaddr.to_be_bytes());
        put::<{ field::RKEY }, 4, _>(bytes, self.rkey.to_be_bytes());
        put::<{ field::DMA_LEN }, 4, _>(bytes, self.dma_len.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The RETH of the sample packet of IBA 7.8.1.
    const BYTES: [u8; HEADER_LEN] =
        [0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02, 0x38, 0xf2, 0x7a, 0x05, 0, 0, 0, 0x0e];

    const REPR: Repr = Repr { vaddr: 0x01710a1c_015d4002, rkey: 0x38f27a05, dma_len: 14 };

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
            assert_eq!(short.err(), Some(Error::Truncated(Header::Reth)));
        }
        assert!(Packet::new_checked(&BYTES).is_ok());
    }
}
