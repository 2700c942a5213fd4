//! What a frame's headers say, as far as steering, hashing and checksums need it.

use bareverbs_mlx5_prm::context::steering::fte_match_set_lyr_2_4 as outer;

use super::checksum;
use crate::flow_group::OuterHeaders;

/// Ethernet types.
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// Customer VLAN tag.
    pub const CVLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// Service VLAN tag.
    pub const SVLAN: u16 = 0x88a8;
    /// RoCE v1.
    pub const ROCE: u16 = 0x8915;
}

/// IP protocols and IPv6 extension headers.
pub mod protocol {
    /// Hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// Routing header.
    pub const ROUTING: u8 = 43;
    /// Fragment header.
    pub const FRAGMENT: u8 = 44;
    /// IPsec, encrypted.
    pub const ESP: u8 = 50;
    /// IPsec, authenticated.
    pub const AH: u8 = 51;
    /// Destination options.
    pub const DESTINATION: u8 = 60;
}

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;
/// Bytes of a VLAN tag.
pub const VLAN: usize = 4;

/// A frame's headers. Offsets count from the frame's first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Destination address.
    pub dst: [u8; 6],
    /// Source address.
    pub src: [u8; 6],
    /// First VLAN tag: Ethernet type and control information.
    pub vlan: Option<(u16, u16)>,
    /// Ethernet type behind all VLAN tags.
    pub ethertype: u16,
    /// IP header: where, and where the IP packet ends.
    pub ip: Option<(usize, usize)>,
    /// 4 or 6; 0 is no IP packet.
    pub ip_version: u8,
    /// Protocol, behind IPv6's extension headers.
    pub protocol: u8,
    /// A fragment: its layer 4 is not looked at.
    pub fragment: bool,
    /// TCP or UDP header: where.
    pub l4: Option<usize>,
    /// IPsec's security parameters index: where.
    pub spi: Option<usize>,
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

impl Headers {
    /// Looks at a frame; what is cut off or broken is as if it were not there.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let mut headers = Self { dst: *frame.first_chunk()?, src: *frame.get(6..)?.first_chunk()?, ..Self::default() };
        let mut at = ETHERNET - 2;
        headers.ethertype = word(frame, at)?;
        while matches!(headers.ethertype, ethertype::CVLAN | ethertype::SVLAN) {
            let (Some(tci), Some(next)) = (word(frame, at + 2), word(frame, at + VLAN)) else { return Some(headers) };
            headers.vlan.get_or_insert((headers.ethertype, tci));
            headers.ethertype = next;
            at += VLAN;
        }
        at += 2;
        match headers.ethertype {
            ethertype::IPV4 => headers.ipv4(frame, at),
            ethertype::IPV6 => headers.ipv6(frame, at),
            _ => Some(()),
        };
        Some(headers)
    }

    fn ipv4(&mut self, frame: &[u8], at: usize) -> Option<()> {
        let (first, len) = (*frame.get(at)?, usize::from(word(frame, at + 2)?));
        let header = usize::from(first & 0xf) * 4;
        let end = at + len;
        if first >> 4 != 4 || header < 20 || len < header || end > frame.len() {
            return None;
        }
        (self.ip, self.ip_version, self.protocol) = (Some((at, end)), 4, frame[at + 9]);
        // More fragments, or not the first.
        self.fragment = word(frame, at + 6)? & 0x3fff != 0;
        self.layer4(frame, at + header, end);
        Some(())
    }

    fn ipv6(&mut self, frame: &[u8], at: usize) -> Option<()> {
        const HEADER: usize = 40;
        let (first, len) = (*frame.get(at)?, usize::from(word(frame, at + 4)?));
        let end = at + HEADER + len;
        if first >> 4 != 6 || end > frame.len() {
            return None;
        }
        (self.ip, self.ip_version, self.protocol) = (Some((at, end)), 6, frame[at + 6]);
        let mut next = at + HEADER;
        loop {
            match self.protocol {
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION => {
                    let [proto, units] = *frame.get(next..end)?.first_chunk()?;
                    (self.protocol, next) = (proto, next + (usize::from(units) + 1) * 8);
                }
                protocol::FRAGMENT => {
                    self.fragment = true;
                    self.protocol = *frame.get(next..end)?.first()?;
                    next += 8;
                }
                _ => break,
            }
        }
        self.layer4(frame, next, end);
        Some(())
    }

    fn layer4(&mut self, frame: &[u8], at: usize, end: usize) {
        let end = end.min(frame.len());
        match self.protocol {
            _ if self.fragment => {}
            protocol::TCP if at + 20 <= end => self.l4 = Some(at),
            protocol::UDP if at + 8 <= end => self.l4 = Some(at),
            protocol::ESP if at + 4 <= end => self.spi = Some(at),
            protocol::AH if at + 8 <= end => self.spi = Some(at + 4),
            _ => {}
        }
    }

    /// Source and destination port.
    pub fn ports(&self, frame: &[u8]) -> Option<(u16, u16)> {
        let at = self.l4?;
        Some((word(frame, at)?, word(frame, at + 2)?))
    }

    /// Source and destination IP address.
    pub fn addresses<'a>(&self, frame: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let range = match (self.ip, self.ip_version) {
            (Some((at, _)), 4) => frame.get(at + 12..at + 20),
            (Some((at, _)), 6) => frame.get(at + 8..at + 40),
            _ => None,
        };
        let both = range.unwrap_or_default();
        both.split_at(both.len() / 2)
    }

    /// Sent to a group, or to all.
    pub fn is_multicast(&self) -> bool {
        self.dst[0] & 1 != 0
    }

    /// Where the layer 4 header ends.
    pub fn payload(&self, frame: &[u8]) -> Option<usize> {
        let at = self.l4?;
        match self.protocol {
            protocol::TCP => Some(at + usize::from(frame.get(at + 12)? >> 4) * 4),
            _ => Some(at + 8),
        }
    }

    /// Whether the IP header's checksum is right; IPv6 has none.
    pub fn l3_ok(&self, frame: &[u8]) -> bool {
        match (self.ip, self.ip_version) {
            (Some((at, _)), 4) => {
                let len = usize::from(frame[at] & 0xf) * 4;
                checksum::sum(&frame[at..at + len]) == 0xffff
            }
            (Some(_), _) => true,
            (None, _) => false,
        }
    }

    /// Whether the TCP or UDP checksum is right.
    pub fn l4_ok(&self, frame: &[u8]) -> bool {
        let Some(at) = self.l4 else { return false };
        let absent = self.protocol == protocol::UDP && self.ip_version == 4 && frame[at + 6..at + 8] == [0, 0];
        absent || checksum::layer4(self, frame) == Some(0xffff)
    }

    /// The headers as flow tables match them.
    pub fn matched(&self, frame: &[u8]) -> OuterHeaders {
        let mut all: OuterHeaders = [0; outer::SIZE];
        let mac =
            |mac: [u8; 6]| (u32::from_be_bytes([mac[0], mac[1], mac[2], mac[3]]), u16::from_be_bytes([mac[4], mac[5]]));
        let mut put = |field: bareverbs_mlx5_prm::field::Field, value: u32| field.set(&mut all, value);
        let ((src, src_low), (dst, dst_low)) = (mac(self.src), mac(self.dst));
        put(outer::SMAC_47_16, src);
        put(outer::SMAC_15_0, src_low.into());
        put(outer::DMAC_47_16, dst);
        put(outer::DMAC_15_0, dst_low.into());
        put(outer::ETHERTYPE, self.ethertype.into());
        if let Some((kind, tci)) = self.vlan {
            put(outer::FIRST_PRIO, u32::from(tci >> 13));
            put(outer::FIRST_CFI, u32::from(tci >> 12 & 1));
            put(outer::FIRST_VID, u32::from(tci & 0xfff));
            put(if kind == ethertype::CVLAN { outer::CVLAN_TAG } else { outer::SVLAN_TAG }, 1);
        }
        let Some((at, _)) = self.ip else { return all };
        put(outer::IP_VERSION, self.ip_version.into());
        put(outer::IP_PROTOCOL, self.protocol.into());
        put(outer::FRAG, self.fragment.into());
        // The traffic class of IPv6 straddles two bytes.
        let (class, ttl) = match self.ip_version {
            4 => (frame[at + 1], frame[at + 8]),
            _ => (frame[at] << 4 | frame[at + 1] >> 4, frame[at + 7]),
        };
        put(outer::IP_DSCP, u32::from(class >> 2));
        put(outer::IP_ECN, u32::from(class & 3));
        put(outer::TTL_HOPLIMIT, ttl.into());
        if self.ip_version == 4 {
            put(outer::IPV4_IHL, u32::from(frame[at] & 0xf));
        }
        if let (Some(l4), Some((sport, dport))) = (self.l4, self.ports(frame)) {
            if self.protocol == protocol::TCP {
                put(outer::TCP_SPORT, sport.into());
                put(outer::TCP_DPORT, dport.into());
                put(outer::TCP_FLAGS, u32::from(word(frame, l4 + 12).unwrap_or(0) & 0x1ff));
            } else {
                put(outer::UDP_SPORT, sport.into());
                put(outer::UDP_DPORT, dport.into());
            }
        }
        let (src, dst) = self.addresses(frame);
        all[outer::SRC_IP + 16 - src.len()..outer::SRC_IP + 16].copy_from_slice(src);
        all[outer::DST_IP + 16 - dst.len()..outer::DST_IP + 16].copy_from_slice(dst);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP datagram over IPv4: the example of RFC 1071's sum is not of a packet, so this one was worked out by hand.
    const UDP: [u8; 46] = [
        0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x08, 0x00, // Ethernet
        0x45, 0x00, 0x00, 0x20, 0x00, 0x01, 0x00, 0x00, 0x40, 0x11, 0xf6, 0xc8, // IPv4
        192, 0, 2, 1, 192, 0, 2, 2, // addresses
        0x12, 0x34, 0x12, 0xb7, 0x00, 0x0c, 0x00, 0x00, 1, 2, 3, 4,
    ];

    #[test]
    fn offsets_and_checksums_of_an_untagged_frame() {
        let headers = Headers::parse(&UDP).unwrap();
        assert_eq!((headers.ip, headers.l4, headers.ip_version), (Some((14, 46)), Some(34), 4));
        assert_eq!(headers.ports(&UDP), Some((0x1234, 4791)));
        assert!(headers.l3_ok(&UDP) && headers.l4_ok(&UDP), "a UDP checksum of 0 is none");
        let mut broken = UDP;
        broken[22] ^= 1;
        assert!(!Headers::parse(&broken).unwrap().l3_ok(&broken));
    }

    #[test]
    fn vlan_tags_move_everything() {
        let mut tagged = UDP[..12].to_vec();
        tagged.extend([0x81, 0x00, 0x60, 0x05]);
        tagged.extend(&UDP[12..]);
        let headers = Headers::parse(&tagged).unwrap();
        assert_eq!((headers.vlan, headers.ip, headers.ethertype), (Some((0x8100, 0x6005)), Some((18, 50)), 0x0800));
        let matched = headers.matched(&tagged);
        assert_eq!(matched[0x0c..0x14], [0, 1, 0x60, 5, 17, 0, 0x88, 0], "VLAN 5, UDP, customer tag, IPv4");
        assert_eq!(matched[0x1c..0x20], [0x12, 0x34, 0x12, 0xb7]);
    }

    #[test]
    fn a_fragment_has_no_ports() {
        let mut fragment = UDP;
        fragment[20] = 0x20;
        let headers = Headers::parse(&fragment).unwrap();
        assert!(headers.fragment && headers.l4.is_none());
    }

    #[test]
    fn nothing_is_read_beyond_the_end() {
        for n in 0..UDP.len() {
            let headers = Headers::parse(&UDP[..n]);
            assert!(headers.is_none_or(|h| h.ip.is_none() && h.matched(&UDP[..n]).len() == 64));
        }
    }
}
