//! Bytes that tell which message they belong to, and where in it.

/// Eight bytes of message `id` at eight times `word`: the finalizer of SplitMix64 over all three.
fn word(seed: u64, id: u64, word: u64) -> [u8; 8] {
    let mix = |mut x: u64| {
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    mix(mix(seed ^ id.rotate_left(32)).wrapping_add(word)).to_le_bytes()
}

/// Fills `bytes` with those of message `id` from `offset` on.
pub fn fill(seed: u64, id: u64, offset: usize, bytes: &mut [u8]) {
    let mut at = offset;
    let mut rest = bytes;
    while !rest.is_empty() {
        let w = word(seed, id, (at / 8) as u64);
        let n = (8 - at % 8).min(rest.len());
        let (now, later) = rest.split_at_mut(n);
        now.copy_from_slice(&w[at % 8..at % 8 + n]);
        (at, rest) = (at + n, later);
    }
}

/// The first byte that is not message `id`'s, where `bytes` starts at `offset`.
pub fn mismatch(seed: u64, id: u64, offset: usize, bytes: &[u8]) -> Option<usize> {
    let mut expected = [0; 256];
    for (i, chunk) in bytes.chunks(256).enumerate() {
        let expected = &mut expected[..chunk.len()];
        fill(seed, id, offset + i * 256, expected);
        if let Some(at) = chunk.iter().zip(expected).position(|(a, b)| a != b) {
            return Some(offset + i * 256 + at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_fit_together_and_every_byte_counts() {
        let mut whole = [0; 300];
        fill(1, 2, 0, &mut whole);
        for (a, b) in [(0, 300), (3, 4), (7, 290), (256, 300)] {
            assert_eq!(mismatch(1, 2, a, &whole[a..b]), None);
        }
        for i in 0..whole.len() {
            whole[i] ^= 0x80;
            assert_eq!(mismatch(1, 2, 0, &whole), Some(i));
            whole[i] ^= 0x80;
        }
        assert!(mismatch(1, 3, 0, &whole).is_some() && mismatch(2, 2, 0, &whole).is_some());
    }
}
