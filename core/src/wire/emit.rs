//! Writing frames: [`Repr::emit`] and what it hands out.

use super::frame::{ICRC_LEN, Repr, Route, VCRC_LEN};
use super::icrc::{Icrc, Routing};
use super::vcrc::Vcrc;
use super::{Error, bth, ethernet, grh, ipv4, ipv6, lrh, udp};

/// A frame whose headers are written and whose payload is not.
#[derive(Debug)]
pub struct Emitter<'b> {
    len: usize,
    payload: &'b mut [u8],
    pad: &'b mut [u8],
    lrh: Option<&'b [u8; lrh::HEADER_LEN]>,
    routing: Routing<'b>,
    bth: &'b [u8; bth::HEADER_LEN],
    ext: &'b [u8],
    icrc: &'b mut [u8; ICRC_LEN],
    /// Only InfiniBand leaves room for it.
    vcrc: Option<&'b mut [u8; VCRC_LEN]>,
}

impl Emitter<'_> {
    /// The room for the payload: exactly as long as [`Repr::emit`] was asked for. It holds
    /// whatever the buffer held; the caller writes all of it.
    pub fn payload(&mut self) -> &mut [u8] {
        self.payload
    }

    /// Writes padding, and zeros where the CRCs belong; returns the length of the frame. For a
    /// link on which nobody looks at the CRCs: [`seal`](super::frame::seal) writes them when
    /// somebody does.
    pub fn finish_open(self) -> usize {
        self.pad.fill(0);
        self.icrc.fill(0);
        if let Some(vcrc) = self.vcrc {
            vcrc.fill(0);
        }
        self.len
    }

    /// Writes padding and CRCs; returns the length of the frame.
    pub fn finish(self) -> usize {
        self.pad.fill(0);
        let mut icrc = Icrc::new(self.routing, self.bth);
        let body = [self.ext, self.payload, self.pad];
        body.iter().for_each(|part| icrc.update(part));
        *self.icrc = icrc.finish();
        if let (Some(room), Some(lrh)) = (self.vcrc, self.lrh) {
            let mut vcrc = Vcrc::new();
            vcrc.update(lrh);
            if let Routing::Grh(grh) = self.routing {
                vcrc.update(grh);
            }
            vcrc.update(self.bth);
            body.iter().for_each(|part| vcrc.update(part));
            vcrc.update(self.icrc);
            *room = vcrc.finish();
        }
        self.len
    }
}

/// Bytes of padding after `payload_len` bytes of payload.
const fn pad_len(payload_len: usize) -> usize {
    payload_len.wrapping_neg() & 3
}

impl Route {
    /// Bytes of the headers before the BTH.
    pub const fn header_len(&self) -> usize {
        match self {
            Route::RoceV2Ipv4 { eth, .. } => eth.header_len() + ipv4::HEADER_LEN + udp::HEADER_LEN,
            Route::RoceV2Ipv6 { eth, .. } => eth.header_len() + ipv6::HEADER_LEN + udp::HEADER_LEN,
            Route::RoceV1 { eth, .. } => eth.header_len() + grh::HEADER_LEN,
            Route::Ib { grh: None, .. } => lrh::HEADER_LEN,
            Route::Ib { grh: Some(_), .. } => lrh::HEADER_LEN + grh::HEADER_LEN,
        }
    }

    /// Bytes after the ICRC.
    const fn vcrc_len(&self) -> usize {
        if matches!(self, Route::Ib { .. }) { VCRC_LEN } else { 0 }
    }

    /// Writes the headers before a transport part of `len` bytes, BTH to ICRC. Returns the LRH,
    /// all as the ICRC wants them, and the rest of `bytes`; `None` if `len` is more than a
    /// length field holds, or the headers do not fit.
    fn emit<'b>(&self, bytes: &'b mut [u8], len: usize) -> Option<Emitted<'b>> {
        match *self {
            Route::RoceV2Ipv4 { eth, ip, src_port } => {
                let rest = eth.emit_as(bytes, ethernet::TYPE_IPV4)?;
                let (ip_bytes, rest) = rest.split_first_chunk_mut()?;
                let (udp_bytes, rest) = rest.split_first_chunk_mut()?;
                let udp_len = u16::try_from(udp::HEADER_LEN + len).ok()?;
                let total_len = udp_len.checked_add(ipv4::HEADER_LEN as u16)?;
                ipv4::Repr { total_len, protocol: ipv4::PROTOCOL_UDP, ..ip }.emit(ip_bytes);
                emit_udp(udp_bytes, src_port, udp_len);
                Some((None, Routing::Ipv4(ip_bytes, udp_bytes), rest))
            }
            Route::RoceV2Ipv6 { eth, ip, src_port } => {
                let rest = eth.emit_as(bytes, ethernet::TYPE_IPV6)?;
                let (ip_bytes, rest) = rest.split_first_chunk_mut()?;
                let (udp_bytes, rest) = rest.split_first_chunk_mut()?;
                let udp_len = u16::try_from(udp::HEADER_LEN + len).ok()?;
                let next_header = ipv6::NEXT_HEADER_UDP;
                ipv6::Repr { payload_len: udp_len, next_header, ..ip }.emit(ip_bytes);
                emit_udp(udp_bytes, src_port, udp_len);
                Some((None, Routing::Ipv6(ip_bytes, udp_bytes), rest))
            }
            Route::RoceV1 { eth, grh } => {
                let rest = eth.emit_as(bytes, ethernet::TYPE_ROCE_V1)?;
                let (routing, rest) = emit_grh(grh, rest, len)?;
                Some((None, routing, rest))
            }
            Route::Ib { lrh, grh } => {
                let words = (self.header_len() + len) / 4;
                let pkt_len = u16::try_from(words).ok().filter(|&words| words < 0x800)?;
                let next_header = match grh {
                    Some(_) => lrh::NextHeader::Grh,
                    None => lrh::NextHeader::Bth,
                };
                let (lrh_bytes, rest) = bytes.split_first_chunk_mut()?;
                lrh::Repr { pkt_len, next_header, ..lrh }.emit(lrh_bytes);
                let lrh_bytes = &*lrh_bytes;
                let (routing, rest) = match grh {
                    Some(grh) => emit_grh(grh, rest, len)?,
                    None => (Routing::Lrh(lrh_bytes), rest),
                };
                Some((Some(lrh_bytes), routing, rest))
            }
        }
    }
}

/// The LRH on InfiniBand, the headers that the ICRC covers, and what follows.
type Emitted<'b> = (Option<&'b [u8; lrh::HEADER_LEN]>, Routing<'b>, &'b mut [u8]);

impl ethernet::Repr {
    fn emit_as(self, bytes: &mut [u8], ether_type: u16) -> Option<&mut [u8]> {
        ethernet::Repr { ether_type, ..self }.emit(bytes).ok()
    }
}

fn emit_udp(bytes: &mut [u8; udp::HEADER_LEN], src_port: u16, len: u16) {
    udp::Repr { src_port, dst_port: udp::ROCE_V2_PORT, length: len, checksum: 0 }.emit(bytes);
}

fn emit_grh(grh: grh::Repr, bytes: &mut [u8], len: usize) -> Option<(Routing<'_>, &mut [u8])> {
    let (grh_bytes, rest) = bytes.split_first_chunk_mut()?;
    let payload_len = u16::try_from(len).ok()?;
    grh::Repr { payload_len, next_header: grh::NEXT_HEADER_IBA, ..grh }.emit(grh_bytes);
    Some((Routing::Grh(grh_bytes), rest))
}

impl Repr {
    /// Bytes before the payload.
    pub const fn header_len(&self) -> usize {
        self.route.header_len() + bth::HEADER_LEN + self.ext.headers().byte_len()
    }

    /// Bytes of the whole frame with `payload_len` bytes of payload.
    pub const fn frame_len(&self, payload_len: usize) -> usize {
        let tail = pad_len(payload_len) + ICRC_LEN + self.route.vcrc_len();
        self.header_len().saturating_add(payload_len).saturating_add(tail)
    }

    /// Writes the headers to the start of `buffer` and makes room for `payload_len` bytes of
    /// payload. Nothing of the frame is valid before [`Emitter::finish`].
    ///
    /// Errors: [`Error::Opcode`] for an opcode that is not known,
    /// [`Error::ExtensionHeaders`] if `ext` holds others than the opcode asks for,
    /// [`Error::Buffer`] if the frame does not fit into the buffer, [`Error::Payload`] if
    /// its length does not fit into the length fields.
    pub fn emit<'b>(&self, buffer: &'b mut [u8], payload_len: usize) -> Result<Emitter<'b>, Error> {
        let expected = self.bth.opcode.headers().ok_or(Error::Opcode(self.bth.opcode))?;
        let given = self.ext.headers();
        if given != expected {
            return Err(Error::ExtensionHeaders { expected, given });
        }
        let len = self.frame_len(payload_len);
        let full = Error::Buffer { needed: len };
        let frame = buffer.get_mut(..len).ok_or(full)?;
        let (head, tail) = frame.split_at_mut_checked(self.header_len()).ok_or(full)?;
        let (payload, tail) = tail.split_at_mut_checked(payload_len).ok_or(full)?;
        let (pad, tail) = tail.split_at_mut_checked(pad_len(payload_len)).ok_or(full)?;
        let (icrc_bytes, vcrc_bytes) = tail.split_first_chunk_mut().ok_or(full)?;

        let transport_len = bth::HEADER_LEN + given.byte_len() + payload.len() + pad.len() + ICRC_LEN;
        let (lrh, routing, rest) = self.route.emit(head, transport_len).ok_or(Error::Payload { len: payload_len })?;
        let (bth_bytes, ext) = rest.split_first_chunk_mut().ok_or(full)?;
        bth::Repr { pad_count: pad.len() as u8, ..self.bth }.emit(bth_bytes);
        self.ext.emit(ext)?;
        let vcrc = vcrc_bytes.first_chunk_mut();
        Ok(Emitter { len, payload, pad, lrh, routing, bth: bth_bytes, ext, icrc: icrc_bytes, vcrc })
    }
}
