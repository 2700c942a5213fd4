//! Receive side scaling: which hash a TIR computes over a packet, and which queue of its table that means.

use bareverbs_mlx5_prm::context::tirc::{self, hash_field};

use super::headers::{Headers, protocol};
use crate::tir::{TOEPLITZ_KEY, Tir, hash_fn};

/// A hash, and what went into it as a CQE tells it: source and destination address, source and destination port, two
/// bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hash {
    /// The hash; 0 where nothing was hashed.
    pub value: u32,
    /// What was hashed.
    pub kind: u8,
}

/// What a CQE says of an IPsec index that was hashed.
const SPI_CODE: u8 = 0b11 << 6;

/// The hash of a packet.
pub fn hash(tir: &Tir, headers: &Headers, frame: &[u8]) -> Hash {
    let selector = tir.get(tirc::RX_HASH_FIELD_SELECTOR_OUTER);
    let ipv6 = selector & hash_field::L3_IPV6 != 0;
    let udp = selector & hash_field::L4_UDP != 0;
    let function = tir.get(tirc::RX_HASH_FN);
    if function == hash_fn::NONE || headers.ip_version != if ipv6 { 6 } else { 4 } {
        return Hash::default();
    }
    let ip_code = if ipv6 { 0b10 } else { 0b01 };
    let (l4_code, wanted) = if udp { (0b10, protocol::UDP) } else { (0b01, protocol::TCP) };
    let ports = headers.ports(frame).filter(|_| headers.protocol == wanted);
    let (sport, dport) = ports.unwrap_or_default();
    let (src, dst) = headers.addresses(frame);
    let (sport, dport) = (sport.to_be_bytes(), dport.to_be_bytes());
    let spi = headers.spi.and_then(|at| frame.get(at..at + 4)).unwrap_or_default();
    let parts: [(u32, &[u8], u8); 5] = [
        (hash_field::SRC_IP, src, ip_code),
        (hash_field::DST_IP, dst, ip_code << 2),
        (hash_field::L4_SPORT, &sport, l4_code << 4),
        (hash_field::L4_DPORT, &dport, l4_code << 6),
        (hash_field::IPSEC_SPI, spi, SPI_CODE),
    ];
    let used = |(bit, bytes, code): &(u32, &[u8], u8)| {
        let there = *code < 1 << 4 || ports.is_some() || *code == SPI_CODE && !bytes.is_empty();
        selector & bit != 0 && there
    };
    let mut kind = 0;
    let mut input = [&[][..]; 5];
    for (slot, part) in input.iter_mut().zip(&parts).filter(|(_, part)| used(part)) {
        *slot = part.1;
        kind |= part.2;
    }
    if tir.get(tirc::RX_HASH_SYMMETRIC) != 0 {
        // Both directions of a connection hash alike: the smaller of a pair goes first.
        let [src, dst, sport, dport, _] = &mut input;
        for (a, b) in [(src, dst), (sport, dport)] {
            if !a.is_empty() && !b.is_empty() && *a > *b {
                std::mem::swap(a, b);
            }
        }
    }
    let value = match function {
        hash_fn::TOEPLITZ => toeplitz(&tir.raw[tirc::RX_HASH_TOEPLITZ_KEY..][..TOEPLITZ_KEY], &input.concat()),
        _ => u32::from(input.concat().iter().fold(0, |all, byte| all ^ byte).reverse_bits()),
    };
    Hash { value, kind }
}

/// The Toeplitz hash: each set bit of the input adds the 32 bits of the key that begin at its place.
pub fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let mut window = key.first_chunk().map_or(0, |first| u32::from_be_bytes(*first));
    let mut hash = 0;
    for (i, byte) in input.iter().enumerate() {
        let next = key.get(i + 4).copied().unwrap_or(0);
        for bit in (0..8).rev() {
            if byte >> bit & 1 != 0 {
                hash ^= window;
            }
            window = window << 1 | u32::from(next >> bit & 1);
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key and the first rows of "Verifying the RSS Hash Calculation" (Microsoft's documentation of NDIS).
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca,
        0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b,
        0xbe, 0xac, 0x01, 0xfa,
    ];

    #[test]
    fn toeplitz_as_documented() {
        // 66.9.149.187:2794 to 161.142.100.80:1766.
        let addresses = [66, 9, 149, 187, 161, 142, 100, 80];
        let mut all = addresses.to_vec();
        all.extend([0x0a, 0xea, 0x06, 0xe6]);
        assert_eq!(toeplitz(&KEY, &addresses), 0x323e_8fc2);
        assert_eq!(toeplitz(&KEY, &all), 0x51cc_c178);
    }
}
