//! Internet checksums (RFC 1071).

use super::headers::{Headers, protocol};

/// The one's complement sum of big-endian words; an odd byte is padded with zero.
pub fn sum(bytes: &[u8]) -> u16 {
    fold(words(bytes))
}

fn words(bytes: &[u8]) -> u64 {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let whole: u64 = pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum();
    whole + odd.first().map_or(0, |&b| u64::from(b) << 8)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The sum over pseudo header, TCP or UDP header, and payload; 0xffff if the checksum in it is right.
pub fn layer4(headers: &Headers, frame: &[u8]) -> Option<u16> {
    let (at, (_, end)) = (headers.l4?, headers.ip?);
    let segment = frame.get(at..end)?;
    let (src, dst) = headers.addresses(frame);
    Some(fold(words(src) + words(dst) + u64::from(headers.protocol) + segment.len() as u64 + words(segment)))
}

/// Writes the checksum of the IPv4 header.
pub fn write_layer3(headers: &Headers, frame: &mut [u8]) {
    let (Some((at, _)), 4) = (headers.ip, headers.ip_version) else { return };
    let len = usize::from(frame[at] & 0xf) * 4;
    frame[at + 10..at + 12].fill(0);
    let checksum = !sum(&frame[at..at + len]);
    frame[at + 10..at + 12].copy_from_slice(&checksum.to_be_bytes());
}

/// Writes the checksum of TCP or UDP, whatever stood there before.
pub fn write_layer4(headers: &Headers, frame: &mut [u8]) {
    let Some(at) = headers.l4 else { return };
    let udp = headers.protocol == protocol::UDP;
    let field = if udp { at + 6 } else { at + 16 };
    frame[field..field + 2].fill(0);
    let Some(sum) = layer4(headers, frame) else { return };
    // In UDP, 0 would say that there is none.
    let checksum = if udp && sum == 0xffff { 0xffff } else { !sum };
    frame[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071, section 3: the bytes 00 01 f2 03 f4 f5 f6 f7 sum up to ddf2.
    #[test]
    fn the_example_of_the_rfc() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(sum(&[0x12]), 0x1200);
    }
}
