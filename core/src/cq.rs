//! The consumer of a completion queue whose entries carry an owner bit.
//!
//! The ring has a power of two of entries. The device flips the owner bit that it writes each time it wraps, so an
//! entry is new when its bit is that of the lap. The first lap's bit is 0.

/// Where the consumer stands: entries taken since the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    index: u32,
    log: u32,
}

impl Consumer {
    /// At entry 0 of a ring of `1 << log` entries.
    pub const fn new(log: u32) -> Self {
        Self::at(log, 0)
    }

    /// After `index` entries.
    pub const fn at(log: u32, index: u32) -> Self {
        Self { index, log: log & 31 }
    }

    /// Entries taken.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Place in the ring.
    #[inline(always)]
    pub const fn slot(self) -> u32 {
        self.index & ((1 << self.log) - 1)
    }

    /// The owner bit of a new entry here.
    #[inline(always)]
    pub const fn owner(self) -> u8 {
        (self.index >> self.log) as u8 & 1
    }

    /// `n` entries further.
    #[inline(always)]
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self { index: self.index.wrapping_add(n), log: self.log }
    }

    /// Takes entries out of the middle of the unpolled ones and closes the gaps, in order.
    ///
    /// `is_new` says whether the device has written the entry at a position, `drop` whether it must go (each is asked
    /// once, newest first), `copy(from, to)` copies an entry and gives it `to`'s owner bit. The result is where the
    /// consumer goes on.
    #[must_use]
    pub fn sweep<C>(
        self,
        context: &mut C,
        is_new: impl Fn(&C, Self) -> bool,
        mut drop: impl FnMut(&mut C, Self) -> bool,
        mut copy: impl FnMut(&mut C, Self, Self),
    ) -> Self {
        let mut unpolled = 0;
        while unpolled < 1 << self.log && is_new(context, self.plus(unpolled)) {
            unpolled += 1;
        }
        let mut dropped = 0;
        for n in (0..unpolled).rev() {
            let entry = self.plus(n);
            if drop(context, entry) {
                dropped += 1;
            } else if dropped > 0 {
                copy(context, entry, entry.plus(dropped));
            }
        }
        self.plus(dropped)
    }
}

#[cfg(test)]
mod explore_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_01_the_owner_bit_flips_each_lap() {
        let mut c = Consumer::new(2);
        let mut ring = [1u8; 4]; // a fresh ring: owner bit 1, not the first lap's
        let mut device = Consumer::new(2);
        for _ in 0..13 {
            assert_ne!(ring[c.slot() as usize], c.owner(), "empty");
            ring[device.slot() as usize] = device.owner();
            device = device.plus(1);
            assert_eq!(ring[c.slot() as usize], c.owner());
            c = c.plus(1);
        }
        assert_eq!(c.index(), 13);
    }

    #[test]
    fn sweeping_keeps_the_others_in_order() {
        // (qp, owner) in a ring of 8; the consumer stands at 6, so the entries wrap.
        let mut ring = [(0u32, 1u8); 8];
        let start = Consumer::at(3, 6);
        for (n, qp) in [0xa0u32, 0xb1, 0xa2, 0xa3, 0xb4].into_iter().enumerate() {
            let at = start.plus(n as u32);
            ring[at.slot() as usize] = (qp, at.owner());
        }
        let end = start.sweep(
            &mut ring,
            |ring, c| ring[c.slot() as usize].1 == c.owner() && ring[c.slot() as usize].0 != 0,
            |ring, c| ring[c.slot() as usize].0 >> 4 == 0xa,
            |ring, from, to| ring[to.slot() as usize] = (ring[from.slot() as usize].0, to.owner()),
        );
        assert_eq!(end.index(), 9);
        assert_eq!(ring[end.slot() as usize], (0xb1, 1));
        assert_eq!(ring[end.plus(1).slot() as usize], (0xb4, 1));
    }

    #[test]
    fn sweeping_looks_at_each_place_once_and_copies_nothing_where_nothing_goes() {
        let (mut asked, mut copied) = (0, 0);
        // A device that writes on and on.
        let ask = |asked: &mut u32, _| {
            *asked += 1;
            false
        };
        let end = Consumer::at(2, 7).sweep(&mut asked, |_, _| true, ask, |_, _, _| copied += 1);
        assert_eq!((asked, copied, end.index()), (4, 0, 7));
    }
}
