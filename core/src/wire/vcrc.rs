//! Variant CRC (IBA 7.8.2): CRC-16 over a whole packet on an InfiniBand link, LRH to ICRC.
//!
//! Polynomial 0x100B, register preset to ones, bits taken least significant first, result
//! complemented.

/// 0x100B with its bits reversed.
const POLYNOMIAL: u16 = 0xd008;

/// Bytes taken in one step. `TABLES[n][b]` is the effect of byte `b` with `n` bytes after it.
const STEP: usize = 16;

static TABLES: [[u16; 256]; STEP] = {
    let mut tables = [[0; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u16;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 != 0 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut n = 1;
    while n < STEP {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[n - 1][byte];
            tables[n][byte] = crc >> 8 ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        n += 1;
    }
    tables
};

/// A VCRC under way: the packet in any number of pieces.
#[derive(Clone, Debug)]
pub struct Vcrc(u16);

impl Default for Vcrc {
    fn default() -> Vcrc {
        Vcrc::new()
    }
}

impl Vcrc {
    /// Starts before the LRH.
    pub const fn new() -> Vcrc {
        Vcrc(0xffff)
    }

    /// Takes the packet's next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let (steps, rest) = bytes.as_chunks::<STEP>();
        for step in steps {
            // The bytes that do not meet the register come first: they need not wait for it.
            let mut crc = 0;
            for i in 2..STEP {
                crc ^= TABLES[STEP - 1 - i][step[i] as usize];
            }
            let [low, high] = self.0.to_le_bytes();
            self.0 = crc ^ TABLES[STEP - 1][(step[0] ^ low) as usize] ^ TABLES[STEP - 2][(step[1] ^ high) as usize];
        }
        for byte in rest {
            let [low, high] = self.0.to_le_bytes();
            self.0 = high as u16 ^ TABLES[0][(byte ^ low) as usize];
        }
    }

    /// The two bytes as they go on the wire.
    pub const fn finish(self) -> [u8; 2] {
        (!self.0).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::vectors::IBA_LOCAL;

    /// Entries of the CRC-16 table of OpenIB gen1 (Mellanox `packet_utilities.c`).
    #[test]
    fn table_of_openib() {
        for (byte, crc) in [(0, 0), (1, 0x1ba1), (2, 0x3742), (128, 0xd008), (255, 0x0960)] {
            assert_eq!(TABLES[0][byte], crc);
        }
    }

    /// Bit by bit, as the register of IBA figure "VCRC generation".
    fn bitwise(bytes: &[u8]) -> [u8; 2] {
        let mut register = 0xffffu16;
        for byte in bytes {
            for bit in 0..8 {
                let feedback = (register >> 15) as u8 ^ (byte >> bit) & 1;
                register = register << 1 ^ if feedback != 0 { 0x100b } else { 0 };
            }
        }
        // x^15 goes first, in the least significant bit of the first byte.
        (!register).reverse_bits().to_le_bytes()
    }

    #[test]
    fn agrees_with_the_register_at_every_length_and_cut() {
        let packet = &IBA_LOCAL[..IBA_LOCAL.len() - 2];
        for len in 0..=packet.len() {
            for cut in 0..=len {
                let mut crc = Vcrc::new();
                crc.update(&packet[..cut]);
                crc.update(&packet[cut..len]);
                assert_eq!(crc.finish(), bitwise(&packet[..len]));
            }
        }
    }
}
