//! Whole frames: routing headers, BTH, extension headers, payload, padding and CRCs.
//!
//! | [`Route`] | on the wire |
//! |---|---|
//! | `RoceV2Ipv4` | Ethernet, IPv4, UDP to port 4791, BTH ... ICRC |
//! | `RoceV2Ipv6` | Ethernet, IPv6, UDP to port 4791, BTH ... ICRC |
//! | `RoceV1` | Ethernet (0x8915), GRH, BTH ... ICRC |
//! | `Ib` | LRH, perhaps GRH, BTH ... ICRC, VCRC |
//!
//! Receiving: [`Frame::parse`] checks the structure (every length, the IPv4 checksum, the
//! pad count) and computes no CRC; [`Frame::check_icrc`] and [`Frame::check_vcrc`] do. What
//! the fields *mean* (versions, P_Keys, QP numbers, sequence) is the receiver's to judge.
//!
//! Sending: [`Repr::emit`] writes the headers, hands out the room for the payload, and
//! [`Emitter::finish`] writes padding and CRCs. The payload is written once, by the caller,
//! where it stays; all length fields, the pad count and the next-header fields are filled in.
//!
//! ```
//! use bareverbs::wire::frame::{Frame, Link, Repr, Route};
//! use bareverbs::wire::{bth, ethernet, ext::Ext, ipv4, opcode::Opcode, reth};
//!
//! let repr = Repr {
//!     route: Route::RoceV2Ipv4 {
//!         eth: ethernet::Repr { dst: [2, 0, 0, 0, 0, 2], src: [2, 0, 0, 0, 0, 1], ..Default::default() },
//!         ip: ipv4::Repr { src: [10, 0, 0, 1], dst: [10, 0, 0, 2], ttl: 64, dont_frag: true, ..Default::default() },
//!         src_port: 0xc000,
//!     },
//!     bth: bth::Repr {
//!         opcode: Opcode::RC_WRITE_ONLY, pkey: 0xffff, dest_qp: 0x11, psn: 7, ack_req: true, ..Default::default()
//!     },
//!     ext: Ext { reth: Some(reth::Repr { vaddr: 0x1000, rkey: 0x99, dma_len: 5 }), ..Default::default() },
//! };
//!
//! let mut buffer = [0; 256];
//! let mut emitter = repr.emit(&mut buffer, 5)?;
//! emitter.payload().copy_from_slice(b"hello");
//! let len = emitter.finish();
//! assert_eq!(len, repr.frame_len(5));
//!
//! let frame = Frame::parse(Link::Ethernet, &buffer[..len])?;
//! frame.check_icrc()?;
//! assert_eq!(frame.payload, b"hello");
//! assert_eq!(frame.repr.bth.pad_count, 3);
//! assert_eq!(frame.repr.ext.reth.unwrap().vaddr, 0x1000);
//! # Ok::<(), bareverbs::wire::Error>(())
//! ```

pub use super::emit::Emitter;
use super::ext::Ext;
use super::icrc::{Icrc, Routing};
use super::vcrc::Vcrc;
use super::{Error, Header, bth, ethernet, grh, ipv4, ipv6, lrh, udp};

/// Bytes of an ICRC.
pub const ICRC_LEN: usize = 4;
/// Bytes of a VCRC.
pub const VCRC_LEN: usize = 2;
/// The most bytes that a frame has besides its payload: Ethernet with a tag, IPv6, UDP, BTH,
/// the longest extension headers (RD FetchAdd), padding and the ICRC.
pub const MAX_OVERHEAD: usize = 18 + 40 + 8 + 12 + 40 + 3 + ICRC_LEN;

/// The link a frame travels on: what its first byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// Ethernet: RoCE and RoCEv2. The frame comes without its FCS.
    Ethernet,
    /// InfiniBand.
    InfiniBand,
}

/// How a packet finds its way: the headers before the BTH.
///
/// [`Repr::emit`] fills in their lengths, EtherType, protocol and next-header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are the headers
pub enum Route {
    /// RoCEv2 over IPv4; the UDP checksum is sent as zero.
    RoceV2Ipv4 { eth: ethernet::Repr, ip: ipv4::Repr, src_port: u16 },
    /// RoCEv2 over IPv6; the UDP checksum is sent as zero.
    RoceV2Ipv6 { eth: ethernet::Repr, ip: ipv6::Repr, src_port: u16 },
    /// RoCE version 1.
    RoceV1 { eth: ethernet::Repr, grh: grh::Repr },
    /// InfiniBand.
    Ib { lrh: lrh::Repr, grh: Option<grh::Repr> },
}

/// All headers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The headers before the BTH.
    pub route: Route,
    /// The Base Transport Header; [`Repr::emit`] fills in the pad count.
    pub bth: bth::Repr,
    /// The extension headers: those that the opcode asks for.
    pub ext: Ext,
}

/// A received frame, cut up.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    /// The headers.
    pub repr: Repr,
    /// The payload, without padding.
    pub payload: &'a [u8],
    routing: Routing<'a>,
    bth: &'a [u8; bth::HEADER_LEN],
    /// What the ICRC covers after the BTH: extension headers, payload, padding.
    body: &'a [u8],
    icrc: &'a [u8; ICRC_LEN],
    /// What the VCRC covers, and the VCRC.
    vcrc: Option<(&'a [u8], &'a [u8; VCRC_LEN])>,
}

impl<'a> Frame<'a> {
    /// Cuts up a frame. Bytes after the packet are ignored on Ethernet, where short frames
    /// are padded, and refused on InfiniBand.
    pub fn parse(link: Link, bytes: &'a [u8]) -> Result<Frame<'a>, Error> {
        match link {
            Link::Ethernet => Self::parse_ethernet(bytes),
            Link::InfiniBand => Self::parse_ib(bytes),
        }
    }

    fn parse_ethernet(bytes: &'a [u8]) -> Result<Frame<'a>, Error> {
        let (eth, rest) = ethernet::Packet::new_checked(bytes)?;
        let eth = ethernet::Repr::parse(&eth);
        match eth.ether_type {
            ethernet::TYPE_IPV4 => {
                let (bytes, rest) = cut(rest, Header::Ipv4)?;
                let ip = ipv4::Repr::parse(&ipv4::Packet::new(bytes))?;
                if ip.protocol != ipv4::PROTOCOL_UDP {
                    return Err(Error::NotRdma(Header::Ipv4));
                }
                let rest = (ip.total_len as usize)
                    .checked_sub(ipv4::HEADER_LEN)
                    .and_then(|len| rest.get(..len))
                    .ok_or(Error::Length(Header::Ipv4))?;
                let (udp, src_port, rest) = parse_udp(rest)?;
                let route = Route::RoceV2Ipv4 { eth, ip, src_port };
                Self::parse_transport(route, Routing::Ipv4(bytes, udp), rest)
            }
            ethernet::TYPE_IPV6 => {
                let (bytes, rest) = cut(rest, Header::Ipv6)?;
                let ip = ipv6::Repr::parse(&ipv6::Packet::new(bytes))?;
                if ip.next_header != ipv6::NEXT_HEADER_UDP {
                    return Err(Error::NotRdma(Header::Ipv6));
                }
                let rest = rest.get(..ip.payload_len as usize).ok_or(Error::Length(Header::Ipv6))?;
                let (udp, src_port, rest) = parse_udp(rest)?;
                let route = Route::RoceV2Ipv6 { eth, ip, src_port };
                Self::parse_transport(route, Routing::Ipv6(bytes, udp), rest)
            }
            ethernet::TYPE_ROCE_V1 => {
                let (bytes, grh, rest) = parse_grh(rest)?;
                let rest = rest.get(..grh.payload_len as usize).ok_or(Error::Length(Header::Grh))?;
                let route = Route::RoceV1 { eth, grh };
                Self::parse_transport(route, Routing::Grh(bytes), rest)
            }
            _ => Err(Error::NotRdma(Header::Ethernet)),
        }
    }

    fn parse_ib(bytes: &'a [u8]) -> Result<Frame<'a>, Error> {
        let (lrh_bytes, _) = cut(bytes, Header::Lrh)?;
        let lrh = lrh::Repr::parse(&lrh::Packet::new(lrh_bytes));
        if lrh.version != 0 {
            return Err(Error::Version(Header::Lrh));
        }
        let (packet, vcrc) = bytes.split_last_chunk().ok_or(Error::Truncated(Header::Vcrc))?;
        if packet.len() != lrh.pkt_len as usize * 4 {
            return Err(Error::Length(Header::Lrh));
        }
        let (_, rest) = cut::<{ lrh::HEADER_LEN }>(packet, Header::Lrh)?;
        let mut frame = match lrh.next_header {
            lrh::NextHeader::Bth => {
                let route = Route::Ib { lrh, grh: None };
                Self::parse_transport(route, Routing::Lrh(lrh_bytes), rest)?
            }
            lrh::NextHeader::Grh => {
                let (bytes, grh, rest) = parse_grh(rest)?;
                if rest.len() != grh.payload_len as usize {
                    return Err(Error::Length(Header::Grh));
                }
                let route = Route::Ib { lrh, grh: Some(grh) };
                Self::parse_transport(route, Routing::Grh(bytes), rest)?
            }
            _ => return Err(Error::NotRdma(Header::Lrh)),
        };
        frame.vcrc = Some((packet, vcrc));
        Ok(frame)
    }

    /// Cuts up BTH to ICRC.
    fn parse_transport(route: Route, routing: Routing<'a>, bytes: &'a [u8]) -> Result<Frame<'a>, Error> {
        let (bth_bytes, rest) = cut(bytes, Header::Bth)?;
        let bth = bth::Repr::parse(&bth::Packet::new(bth_bytes));
        let (body, icrc) = rest.split_last_chunk().ok_or(Error::Truncated(Header::Icrc))?;
        let headers = bth.opcode.headers().ok_or(Error::Opcode(bth.opcode))?;
        let (ext, padded) = Ext::parse(headers, body)?;
        if padded.len() % 4 != 0 {
            return Err(Error::Length(Header::Bth));
        }
        let payload = padded
            .len()
            .checked_sub(bth.pad_count as usize)
            .and_then(|len| padded.get(..len))
            .ok_or(Error::Length(Header::Bth))?;
        let repr = Repr { route, bth, ext };
        Ok(Frame { repr, payload, routing, bth: bth_bytes, body, icrc, vcrc: None })
    }

    /// The GRH or IP header, as the first bytes of a UD receive buffer show it: 40 bytes of
    /// GRH or IPv6 header, or 20 bytes of IPv4 header (which belong at offset 20 there,
    /// A17.4.5.2); `None` for InfiniBand without a GRH.
    pub fn network_header(&self) -> Option<&'a [u8]> {
        match self.routing {
            Routing::Lrh(_) => None,
            Routing::Grh(grh) => Some(grh),
            Routing::Ipv4(ip, _) => Some(ip),
            Routing::Ipv6(ip, _) => Some(ip),
        }
    }

    /// Computes the ICRC; [`Error::Icrc`] unless the frame carries the same.
    pub fn check_icrc(&self) -> Result<(), Error> {
        let computed = self.icrc();
        if computed == *self.icrc { Ok(()) } else { Err(Error::Icrc { computed, found: *self.icrc }) }
    }

    fn icrc(&self) -> [u8; ICRC_LEN] {
        let mut icrc = Icrc::new(self.routing, self.bth);
        icrc.update(self.body);
        icrc.finish()
    }

    /// Computes the VCRC; [`Error::Vcrc`] unless the frame carries the same. On Ethernet
    /// there is none, so it is never wrong.
    pub fn check_vcrc(&self) -> Result<(), Error> {
        let Some((packet, found)) = self.vcrc else { return Ok(()) };
        let mut vcrc = Vcrc::new();
        vcrc.update(packet);
        let computed = vcrc.finish();
        if computed == *found { Ok(()) } else { Err(Error::Vcrc { computed, found: *found }) }
    }
}

/// Writes the CRCs into a frame that was finished by [`Emitter::finish_open`]. Errors: as
/// [`Frame::parse`].
pub fn seal(link: Link, bytes: &mut [u8]) -> Result<(), Error> {
    let frame = Frame::parse(link, bytes)?;
    let icrc = frame.icrc();
    let at = frame.repr.header_len() + frame.payload.len() + frame.repr.bth.pad_count as usize;
    if let Some(room) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *room = icrc;
    }
    if link == Link::InfiniBand
        && let Some((packet, room)) = bytes.split_last_chunk_mut()
    {
        let mut vcrc = Vcrc::new();
        vcrc.update(packet);
        *room = vcrc.finish();
    }
    Ok(())
}

/// Cuts a header off `data`.
fn cut<const N: usize>(data: &[u8], header: Header) -> Result<(&[u8; N], &[u8]), Error> {
    data.split_first_chunk().ok_or(Error::Truncated(header))
}

type UdpParts<'a> = (&'a [u8; udp::HEADER_LEN], u16, &'a [u8]);

/// The UDP header of a RoCEv2 packet, its source port and its payload.
fn parse_udp(data: &[u8]) -> Result<UdpParts<'_>, Error> {
    let (bytes, rest) = cut(data, Header::Udp)?;
    let udp = udp::Packet::new(bytes);
    if udp.dst_port() != udp::ROCE_V2_PORT {
        return Err(Error::NotRdma(Header::Udp));
    }
    if udp.length() as usize != data.len() {
        return Err(Error::Length(Header::Udp));
    }
    Ok((bytes, udp.src_port(), rest))
}

type GrhParts<'a> = (&'a [u8; grh::HEADER_LEN], grh::Repr, &'a [u8]);

/// A GRH and what follows.
fn parse_grh(data: &[u8]) -> Result<GrhParts<'_>, Error> {
    let (bytes, rest) = cut(data, Header::Grh)?;
    let grh = grh::Repr::parse(&grh::Packet::new(bytes)).map_err(|_| Error::Version(Header::Grh))?;
    if grh.next_header != grh::NEXT_HEADER_IBA {
        return Err(Error::NotRdma(Header::Grh));
    }
    Ok((bytes, grh, rest))
}
