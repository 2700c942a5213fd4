//! Packet sequence numbers: 24 bits that wrap around (IBA 9.7.1).

/// A packet sequence number, or a message sequence number: both count modulo 2^24.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    /// The low 24 bits of `n`.
    pub const fn new(n: u32) -> Self {
        Self(n & 0xff_ffff)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// `n` later.
    pub const fn plus(self, n: u32) -> Self {
        Self::new(self.0.wrapping_add(n))
    }

    /// The one before.
    pub const fn prev(self) -> Self {
        Self::new(self.0.wrapping_sub(1))
    }

    /// How far `self` is beyond `other`, from -2^23 to 2^23 - 1. A PSN half the number space behind the expected one or
    /// less is a duplicate; others are ahead of it.
    pub const fn since(self, other: Self) -> i32 {
        (self.0.wrapping_sub(other.0) << 8) as i32 >> 8
    }

    /// Whether `self` comes before `other`.
    pub const fn before(self, other: Self) -> bool {
        self.since(other) < 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_at_24_bits() {
        let last = Psn::new(0xff_ffff);
        assert_eq!(last.plus(1), Psn::new(0));
        assert_eq!(Psn::new(0).prev(), last);
        assert_eq!(Psn::new(3).since(last), 4);
        assert_eq!(last.since(Psn::new(3)), -4);
        assert!(last.before(Psn::new(0)));
        assert!(!Psn::new(5).before(Psn::new(5)));
        // IBA 9.7.1: the number space is cut in two halves.
        assert_eq!(Psn::new(0x80_0000).since(Psn::new(0)), -0x80_0000);
        assert_eq!(Psn::new(0x7f_ffff).since(Psn::new(0)), 0x7f_ffff);
    }
}
