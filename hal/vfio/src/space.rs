//! The free ranges of a space of addresses: device addresses, or offsets in a chunk of memory.

use std::{collections::BTreeMap, ops::Range};

/// Free ranges, from the start of each to its end. They neither touch nor overlap.
#[derive(Debug, Default)]
pub(crate) struct Space(BTreeMap<u64, u64>);

impl Space {
    /// A space in which the given disjoint ranges are free.
    pub(crate) fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut space = Self::default();
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            space.give(range);
        }
        space
    }

    /// Takes the lowest free range of `len` bytes that starts at a multiple of `align` (a power of two) and ends at
    /// `limit` or below.
    pub(crate) fn take(&mut self, len: u64, align: u64, limit: u64) -> Option<u64> {
        let (hole, at) = self.0.iter().find_map(|(start, end)| {
            let at = start.checked_next_multiple_of(align)?;
            (at.checked_add(len)? <= (*end).min(limit)).then_some((*start..*end, at))
        })?;
        self.cut(&hole, at..at + len);
        Some(at)
    }

    /// Makes a range free that was taken.
    pub(crate) fn give(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if let Some((before, touching)) = self.0.range(..=start).next_back().map(|(s, e)| (*s, *e))
            && touching == start
        {
            self.0.remove(&before);
            start = before;
        }
        if let Some(after) = self.0.remove(&end) {
            end = after;
        }
        self.0.insert(start, end);
    }

    /// Takes whatever of a range is still free, for good.
    pub(crate) fn exclude(&mut self, range: &Range<u64>) {
        let overlapping: Vec<_> = self.0.iter().filter(|(s, e)| **s < range.end && range.start < **e).collect();
        let holes: Vec<_> = overlapping.into_iter().map(|(s, e)| *s..*e).collect();
        for hole in holes {
            self.cut(&hole, range.start.max(hole.start)..range.end.min(hole.end));
        }
    }

    /// Whether all of a range is free.
    pub(crate) fn holds(&self, range: &Range<u64>) -> bool {
        self.0.range(..=range.start).next_back().is_some_and(|(_, end)| range.end <= *end)
    }

    /// Takes `part` out of the free range that it lies in.
    fn cut(&mut self, hole: &Range<u64>, part: Range<u64>) {
        self.0.remove(&hole.start);
        for rest in [hole.start..part.start, part.end..hole.end] {
            if !rest.is_empty() {
                self.0.insert(rest.start, rest.end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(space: &Space) -> Vec<Range<u64>> {
        space.0.iter().map(|(s, e)| *s..*e).collect()
    }

    #[test]
    fn the_lowest_fitting_range_is_taken() {
        let mut space = Space::new([0x1000..0x3000, 0x10_0000..0x20_0000]);
        assert_eq!(space.take(0x1000, 0x1000, u64::MAX), Some(0x1000));
        assert_eq!(space.take(0x2000, 0x1000, u64::MAX), Some(0x10_0000));
        assert_eq!(space.take(0x1000, 0x8000, u64::MAX), Some(0x10_8000));
        assert_eq!(ranges(&space), [0x2000..0x3000, 0x10_2000..0x10_8000, 0x10_9000..0x20_0000]);
    }

    #[test]
    fn nothing_is_taken_above_the_limit_or_across_a_gap() {
        let mut space = Space::new([0x1000..0x3000, 0x4000..0x5000]);
        assert_eq!(space.take(0x3000, 0x1000, u64::MAX), None);
        assert_eq!(space.take(0x2000, 0x1000, 0x2fff), None);
        assert_eq!(space.take(u64::MAX, 0x1000, u64::MAX), None);
        assert_eq!(space.take(0x2000, 0x1000, 0x3000), Some(0x1000));
    }

    #[test]
    fn given_ranges_join_their_neighbours() {
        let mut space = Space::new(Some(0..0x4000));
        for at in [0, 0x1000, 0x2000, 0x3000] {
            assert_eq!(space.take(0x1000, 1, u64::MAX), Some(at));
        }
        assert!(ranges(&space).is_empty() && !space.holds(&(0..1)));
        space.give(0x1000..0x2000);
        space.give(0x3000..0x4000);
        space.give(0x2000..0x3000);
        space.give(0..0x1000);
        assert!(ranges(&space).into_iter().eq(Some(0..0x4000)));
        assert!(space.holds(&(0..0x4000)) && !space.holds(&(0..0x4001)));
    }

    #[test]
    fn an_excluded_range_is_cut_out_of_all_it_overlaps() {
        let mut space = Space::new([0..0x4000, 0x8000..0xc000]);
        space.exclude(&(0x1000..0x2000));
        space.exclude(&(0x3000..0x9000));
        space.exclude(&(0x5000..0x6000));
        assert_eq!(ranges(&space), [0..0x1000, 0x2000..0x3000, 0x9000..0xc000]);
    }
}
