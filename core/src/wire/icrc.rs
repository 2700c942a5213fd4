//! Invariant CRC (IBA 7.8.1; A16.5.1 for RoCE, A17.3.3 for RoCEv2): CRC-32 over all that no
//! switch or router changes on the way.
//!
//! Fields that may change count as ones. On Ethernet there is no LRH; eight bytes of ones
//! stand for it.
//!
//! | routing | counts as ones |
//! |---|---|
//! | LRH | virtual lane |
//! | LRH and GRH | the whole LRH; traffic class, flow label, hop limit |
//! | GRH (RoCE) | traffic class, flow label, hop limit |
//! | IPv4 and UDP | type of service, time to live, header checksum; UDP checksum |
//! | IPv6 and UDP | traffic class, flow label, hop limit; UDP checksum |
//! | always | byte 4 of the BTH (FECN, BECN and reserved bits) |

use crc32fast::Hasher;

use super::{bth, grh, ipv4, ipv6, lrh, udp};

/// The headers before the BTH, in the part that the ICRC looks at.
#[derive(Clone, Copy, Debug)]
pub enum Routing<'a> {
    /// InfiniBand without a GRH: a local packet.
    Lrh(&'a [u8; lrh::HEADER_LEN]),
    /// InfiniBand with a GRH, or RoCE: the LRH, real or not, counts as ones.
    Grh(&'a [u8; grh::HEADER_LEN]),
    /// RoCEv2 over IPv4.
    Ipv4(&'a [u8; ipv4::HEADER_LEN], &'a [u8; udp::HEADER_LEN]),
    /// RoCEv2 over IPv6.
    Ipv6(&'a [u8; ipv6::HEADER_LEN], &'a [u8; udp::HEADER_LEN]),
}

/// An ICRC under way: headers first, then whatever follows in any number of pieces.
#[derive(Clone, Debug)]
pub struct Icrc(Hasher);

impl Icrc {
    /// Starts with the headers up to the BTH.
    pub fn new(routing: Routing<'_>, bth: &[u8; bth::HEADER_LEN]) -> Icrc {
        let mut hasher = Hasher::new();
        match routing {
            Routing::Lrh(lrh) => {
                let mut lrh = *lrh;
                lrh[lrh::field::VL_LVER] |= 0xf0;
                hasher.update(&lrh);
            }
            Routing::Grh(grh) => {
                hasher.update(&NO_LRH);
                hasher.update(&mask_ipv6(grh));
            }
            Routing::Ipv4(ip, udp) => {
                hasher.update(&NO_LRH);
                hasher.update(&mask_ipv4(ip));
                hasher.update(&mask_udp(udp));
            }
            Routing::Ipv6(ip, udp) => {
                hasher.update(&NO_LRH);
                hasher.update(&mask_ipv6(ip));
                hasher.update(&mask_udp(udp));
            }
        }
        let mut bth = *bth;
        bth[bth::field::RESV8A] = 0xff;
        hasher.update(&bth);
        Icrc(hasher)
    }

    /// Goes on with extension headers, payload and padding.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The four bytes as they go on the wire.
    pub fn finish(self) -> [u8; 4] {
        // The specification sends the coefficients of the highest powers first, in bytes
        // of reflected order: the usual CRC-32, least significant byte first.
        self.0.finalize().to_le_bytes()
    }
}

const NO_LRH: [u8; lrh::HEADER_LEN] = [0xff; lrh::HEADER_LEN];

fn mask_ipv4(ip: &[u8; ipv4::HEADER_LEN]) -> [u8; ipv4::HEADER_LEN] {
    let mut ip = *ip;
    ip[ipv4::field::TOS] = 0xff;
    ip[ipv4::field::TTL] = 0xff;
    ip[ipv4::field::CHECKSUM] = 0xff;
    ip[ipv4::field::CHECKSUM + 1] = 0xff;
    ip
}

fn mask_ipv6(ip: &[u8; ipv6::HEADER_LEN]) -> [u8; ipv6::HEADER_LEN] {
    let mut ip = *ip;
    ip[ipv6::field::VER_TC_FLOW] |= 0x0f;
    ip[ipv6::field::VER_TC_FLOW + 1] = 0xff;
    ip[ipv6::field::VER_TC_FLOW + 2] = 0xff;
    ip[ipv6::field::VER_TC_FLOW + 3] = 0xff;
    ip[ipv6::field::HOP_LIMIT] = 0xff;
    ip
}

fn mask_udp(udp: &[u8; udp::HEADER_LEN]) -> [u8; udp::HEADER_LEN] {
    let mut udp = *udp;
    udp[udp::field::CHECKSUM] = 0xff;
    udp[udp::field::CHECKSUM + 1] = 0xff;
    udp
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::vectors::IBA_LOCAL;

    #[test]
    fn sample_packet_of_the_specification() {
        let (lrh, rest) = IBA_LOCAL.split_first_chunk().unwrap();
        let (bth, rest) = rest.split_first_chunk().unwrap();
        let (body, icrc) = rest[..rest.len() - 2].split_last_chunk().unwrap();
        // In one piece, and in two pieces cut anywhere.
        for cut in 0..=body.len() {
            let mut crc = Icrc::new(Routing::Lrh(lrh), bth);
            crc.update(&body[..cut]);
            crc.update(&body[cut..]);
            assert_eq!(crc.finish(), *icrc);
        }
    }
}
