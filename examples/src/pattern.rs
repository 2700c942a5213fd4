//! The bytes that `-c` sends and expects: they depend on seed, sender, QP, iteration and offset, so that a message
//! that is late, doubled, shifted or from the wrong sender is seen.

/// Which message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The run's seed.
    pub seed: u64,
    /// Who sent it: 0 the server, 1 the client.
    pub sender: u8,
    /// Which of the end's QPs.
    pub qp: usize,
    /// The how manieth on that QP.
    pub iteration: u64,
}

impl Message {
    fn key(&self) -> u64 {
        mix(self.seed ^ mix(self.iteration << 16 | (self.qp as u64) << 1 | u64::from(self.sender)))
    }

    /// Eight bytes of the message at eight times `word`.
    fn word(key: u64, word: u64) -> [u8; 8] {
        mix(key.wrapping_add(word)).to_le_bytes()
    }

    /// Fills `buffer` with the message's bytes from `offset` (a multiple of 8).
    pub fn fill(&self, offset: usize, buffer: &mut [u8]) {
        let key = self.key();
        for (i, chunk) in buffer.chunks_mut(8).enumerate() {
            let bytes = Self::word(key, (offset / 8 + i) as u64);
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// The offset of the first byte of `buffer` that is not the message's, where `buffer` starts at `offset`
    /// (a multiple of 8).
    pub fn mismatch(&self, offset: usize, buffer: &[u8]) -> Option<usize> {
        let key = self.key();
        buffer.chunks(8).enumerate().find_map(|(i, chunk)| {
            let bytes = Self::word(key, (offset / 8 + i) as u64);
            chunk.iter().zip(bytes).position(|(a, b)| *a != b).map(|at| offset + i * 8 + at)
        })
    }
}

/// A bijection of 64-bit words that spreads every bit (the finalizer of SplitMix64).
pub fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    // SplitMix64 with seed 1234567, as published with the generator: its first output.
    #[test]
    fn mix_is_splitmix64() {
        assert_eq!(mix(1234567), 6457827717110365317);
    }

    #[test]
    fn every_flipped_byte_is_seen() {
        let m = Message { seed: 7, sender: 1, qp: 3, iteration: 9 };
        let mut b = [0; 37];
        m.fill(16, &mut b);
        assert_eq!(m.mismatch(16, &b), None);
        for i in 0..b.len() {
            b[i] ^= 1;
            assert_eq!(m.mismatch(16, &b), Some(16 + i));
            b[i] ^= 1;
        }
        assert!(Message { iteration: 10, ..m }.mismatch(16, &b).is_some());
    }
}
