//! The extension headers of one packet, all together.

use super::opcode::ExtHeaders;
use super::{Error, Header, aeth, atomic, deth, ieth, imm, reth, xrceth};

/// The extension headers between BTH and payload, in the order of the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ext {
    /// RDETH, as it is: nobody is known to use the RD service.
    pub rdeth: Option<[u8; 4]>,
    /// XRCETH.
    pub xrceth: Option<xrceth::Repr>,
    /// DETH.
    pub deth: Option<deth::Repr>,
    /// RETH.
    pub reth: Option<reth::Repr>,
    /// AtomicETH.
    pub atomic: Option<atomic::Repr>,
    /// AETH.
    pub aeth: Option<aeth::Repr>,
    /// AtomicAckETH.
    pub atomic_ack: Option<atomic::AckRepr>,
    /// ImmDt.
    pub imm: Option<imm::Repr>,
    /// IETH.
    pub ieth: Option<ieth::Repr>,
}

/// Takes the next header off `data` if it is one of `wanted`.
fn take<'a, const N: usize>(
    data: &mut &'a [u8],
    wanted: ExtHeaders,
    which: ExtHeaders,
    header: Header,
) -> Result<Option<&'a [u8; N]>, Error> {
    if !wanted.contains(which) {
        return Ok(None);
    }
    let (taken, rest) = data.split_first_chunk().ok_or(Error::Truncated(header))?;
    *data = rest;
    Ok(Some(taken))
}

/// Cuts room for the next header off `data`.
fn room<'a, const N: usize>(data: &mut &'a mut [u8]) -> Result<&'a mut [u8; N], Error> {
    let (room, rest) = core::mem::take(data).split_first_chunk_mut().ok_or(Error::Buffer { needed: N })?;
    *data = rest;
    Ok(room)
}

impl Ext {
    /// The headers that are there.
    pub const fn headers(&self) -> ExtHeaders {
        const fn one(there: bool, header: ExtHeaders) -> ExtHeaders {
            if there { header } else { ExtHeaders::empty() }
        }
        one(self.rdeth.is_some(), ExtHeaders::RDETH)
            .union(one(self.xrceth.is_some(), ExtHeaders::XRCETH))
            .union(one(self.deth.is_some(), ExtHeaders::DETH))
            .union(one(self.reth.is_some(), ExtHeaders::RETH))
            .union(one(self.atomic.is_some(), ExtHeaders::ATOMIC_ETH))
            .union(one(self.aeth.is_some(), ExtHeaders::AETH))
            .union(one(self.atomic_ack.is_some(), ExtHeaders::ATOMIC_ACK_ETH))
            .union(one(self.imm.is_some(), ExtHeaders::IMMDT))
            .union(one(self.ieth.is_some(), ExtHeaders::IETH))
    }

    /// Reads the headers of `wanted` from the start of `data`; returns what follows them.
    pub fn parse(wanted: ExtHeaders, data: &[u8]) -> Result<(Ext, &[u8]), Error> {
        let mut rest = data;
        let data = &mut rest;
        let ext = Ext {
            rdeth: take(data, wanted, ExtHeaders::RDETH, Header::RdEth)?.copied(),
            xrceth: take(data, wanted, ExtHeaders::XRCETH, Header::XrcEth)?
                .map(|b| xrceth::Repr::parse(&xrceth::Packet::new(b))),
            deth: take(data, wanted, ExtHeaders::DETH, Header::Deth)?.map(|b| deth::Repr::parse(&deth::Packet::new(b))),
            reth: take(data, wanted, ExtHeaders::RETH, Header::Reth)?.map(|b| reth::Repr::parse(&reth::Packet::new(b))),
            atomic: take(data, wanted, ExtHeaders::ATOMIC_ETH, Header::AtomicEth)?
                .map(|b| atomic::Repr::parse(&atomic::Packet::new(b))),
            aeth: take(data, wanted, ExtHeaders::AETH, Header::Aeth)?.map(|b| aeth::Repr::parse(&aeth::Packet::new(b))),
            atomic_ack: take(data, wanted, ExtHeaders::ATOMIC_ACK_ETH, Header::AtomicAckEth)?
                .map(|b| atomic::AckRepr::parse(&atomic::AckPacket::new(b))),
            imm: take(data, wanted, ExtHeaders::IMMDT, Header::ImmDt)?.map(|b| imm::Repr::parse(&imm::Packet::new(b))),
            ieth: take(data, wanted, ExtHeaders::IETH, Header::Ieth)?.map(|b| ieth::Repr::parse(&ieth::Packet::new(b))),
        };
        Ok((ext, rest))
    }

    /// Writes the headers to the start of `data`; [`Error::Buffer`] if they do not fit.
    pub fn emit(&self, mut data: &mut [u8]) -> Result<(), Error> {
        let data = &mut data;
        if let Some(h) = &self.rdeth {
            *room(data)? = *h;
        }
        if let Some(h) = &self.xrceth {
            h.emit(room(data)?);
        }
        if let Some(h) = &self.deth {
            h.emit(room(data)?);
        }
        if let Some(h) = &self.reth {
            h.emit(room(data)?);
        }
        if let Some(h) = &self.atomic {
            h.emit(room(data)?);
        }
        if let Some(h) = &self.aeth {
            h.emit(room(data)?);
        }
        if let Some(h) = &self.atomic_ack {
            h.emit(room(data)?);
        }
        if let Some(h) = &self.imm {
            h.emit(room(data)?);
        }
        if let Some(h) = &self.ieth {
            h.emit(room(data)?);
        }
        Ok(())
    }
}
