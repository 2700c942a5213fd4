//! Objects in a row, without memory of its own: each object begins with its links.

use core::{
    ptr::{NonNull, null_mut},
    sync::atomic::{AtomicPtr, Ordering::Relaxed},
};

/// An object's neighbours, null at the ends. An object that stands in a row is `repr(C)` and begins with these.
#[derive(Default)]
pub(crate) struct Link {
    next: AtomicPtr<Link>,
    before: AtomicPtr<Link>,
}

/// The ends of a row. Changed and read under one lock.
#[derive(Default)]
pub(crate) struct Row {
    first: AtomicPtr<Link>,
    last: AtomicPtr<Link>,
}

impl Row {
    /// The first object, if there is one.
    pub(crate) fn first(&self) -> Option<NonNull<Link>> {
        NonNull::new(self.first.load(Relaxed))
    }

    /// Puts an object at the end.
    ///
    /// # Safety
    /// It stands in no row, and stays where it is until it is [removed](Self::remove).
    pub(crate) unsafe fn push(&self, link: NonNull<Link>) {
        let before = self.last.swap(link.as_ptr(), Relaxed);
        // SAFETY: the caller's promise, for this object and for those in the row.
        let (object, last) = unsafe { (link.as_ref(), before.as_ref()) };
        object.next.store(null_mut(), Relaxed);
        object.before.store(before, Relaxed);
        last.map_or(&self.first, |last| &last.next).store(link.as_ptr(), Relaxed);
    }

    /// Takes an object out.
    ///
    /// # Safety
    /// It stands in this row.
    pub(crate) unsafe fn remove(&self, link: NonNull<Link>) {
        // SAFETY: the caller's promise.
        let object = unsafe { link.as_ref() };
        let (next, before) = (object.next.load(Relaxed), object.before.load(Relaxed));
        // SAFETY: its neighbours stand in the row, or are null.
        let (follower, leader) = unsafe { (next.as_ref(), before.as_ref()) };
        leader.map_or(&self.first, |leader| &leader.next).store(next, Relaxed);
        follower.map_or(&self.last, |follower| &follower.before).store(before, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands in a row, by its neighbours in both directions.
    fn walk(row: &Row, links: &[Link]) -> Vec<usize> {
        let place = |at: *mut Link| links.iter().position(|link| core::ptr::eq(link, at));
        let mut there = Vec::new();
        let mut at = row.first.load(Relaxed);
        while let Some(n) = place(at) {
            there.push(n);
            at = links[n].next.load(Relaxed);
        }
        let mut back = Vec::new();
        at = row.last.load(Relaxed);
        while let Some(n) = place(at) {
            back.push(n);
            at = links[n].before.load(Relaxed);
        }
        back.reverse();
        assert_eq!(there, back);
        there
    }

    /// Every sequence of six steps on three objects: a step puts one at the end or takes it out.
    #[test]
    fn as_a_vector_would() {
        for steps in 0..3u32.pow(6) {
            let (row, links) = (Row::default(), [Link::default(), Link::default(), Link::default()]);
            let mut model = Vec::new();
            for n in (0..6).map(|i| (steps / 3u32.pow(i) % 3) as usize) {
                let at = NonNull::from(&links[n]);
                match model.iter().position(|m| *m == n) {
                    Some(place) => {
                        model.remove(place);
                        // SAFETY: it stands in the row, by the model.
                        unsafe { row.remove(at) };
                    }
                    None => {
                        model.push(n);
                        // SAFETY: it stands in no row, by the model; it does not move.
                        unsafe { row.push(at) };
                    }
                }
                assert_eq!(walk(&row, &links), model);
                assert_eq!(row.first(), model.first().map(|n| NonNull::from(&links[*n])));
            }
        }
    }
}
