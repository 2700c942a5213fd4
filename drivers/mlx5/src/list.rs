//! Lists of nodes in state memory: as long as they have to be, and nothing while they are empty.

use crate::error::platform;
use bareverbs::Error;
use bareverbs_hal::Platform;
use core::{alloc::Layout, ptr::NonNull};

struct Node<T> {
    value: T,
    next: Option<NonNull<Node<T>>>,
}

/// A list, the newest value first. It is emptied before it goes: what is left in it is never given back.
pub(crate) struct List<T>(Option<NonNull<Node<T>>>);

// SAFETY: the nodes are owned by the list alone.
unsafe impl<T: Send> Send for List<T> {}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> List<T> {
    /// Puts a value in front; without memory it is handed back with the reason.
    pub(crate) fn push(&mut self, memory: &impl Platform, value: T) -> Result<(), (T, Error)> {
        match memory.state_alloc(Layout::new::<Node<T>>()) {
            Ok(place) => {
                let node = place.cast::<Node<T>>();
                // SAFETY: memory of this layout, unused by anybody else.
                unsafe { node.write(Node { value, next: self.0 }) };
                self.0 = Some(node);
                Ok(())
            }
            Err(e) => Err((value, platform(e))),
        }
    }

    /// The values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        let mut at = self.0;
        core::iter::from_fn(move || {
            // SAFETY: nodes of the list are alive, and the list is borrowed as long as what they hold.
            let node = unsafe { at?.as_ref() };
            at = node.next;
            Some(&node.value)
        })
    }

    /// The first value of which this holds.
    pub(crate) fn find(&mut self, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        let mut at = self.0;
        loop {
            // SAFETY: nodes of the list are alive, and reached through an exclusive borrow.
            let node = unsafe { at?.as_mut() };
            if is(&node.value) {
                return Some(&mut node.value);
            }
            at = node.next;
        }
    }

    /// Takes out the first value of which this holds.
    pub(crate) fn take(&mut self, memory: &impl Platform, is: impl Fn(&T) -> bool) -> Option<T> {
        let mut place = &mut self.0;
        loop {
            let mut node = (*place)?;
            // SAFETY: nodes of the list are alive, and reached through an exclusive borrow.
            let found = unsafe { node.as_mut() };
            if !is(&found.value) {
                place = &mut found.next;
                continue;
            }
            // SAFETY: read once, for the node goes: not linked any more; allocated in `push` with this layout.
            return unsafe {
                let Node { value, next } = node.read();
                *place = next;
                memory.state_free(node.cast(), Layout::new::<Node<T>>());
                Some(value)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bareverbs_hal::HalError;
    use core::{cell::Cell, time::Duration};
    use std::{alloc, rc::Rc, vec::Vec};

    /// How many pieces of memory are out, of the one that it has room for.
    #[derive(Clone, Default)]
    struct Heap(Rc<Cell<usize>>);

    const ROOM: usize = 5;

    // SAFETY: the memory is the allocator's.
    unsafe impl Platform for Heap {
        fn now(&self) -> Duration {
            Duration::ZERO
        }

        fn state_alloc(&self, layout: Layout) -> Result<NonNull<u8>, HalError> {
            let full = HalError::OutOfStateMemory { wanted: layout.size() };
            if self.0.get() == ROOM {
                return Err(full);
            }
            self.0.set(self.0.get() + 1);
            // SAFETY: nodes are not empty.
            NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or(full)
        }

        unsafe fn state_free(&self, ptr: NonNull<u8>, layout: Layout) {
            self.0.set(self.0.get() - 1);
            // SAFETY: the caller's promise.
            unsafe { alloc::dealloc(ptr.as_ptr(), layout) };
        }
    }

    #[test]
    fn values_come_and_go_in_any_order() {
        let heap = Heap::default();
        let mut list = List::default();
        for n in 0..ROOM {
            list.push(&heap, n).map_err(|(_, e)| e).expect("memory");
        }
        assert_eq!(list.push(&heap, 9).map_err(|(n, _)| n), Err(9), "no memory");
        assert_eq!(list.iter().copied().collect::<Vec<_>>(), [4, 3, 2, 1, 0]);
        *list.find(|n| *n == 2).expect("it is there") = 7;
        assert_eq!(list.find(|n| *n == 2), None);
        for (n, left) in [(4, &[3, 7, 1, 0][..]), (0, &[3, 7, 1]), (7, &[3, 1])] {
            assert_eq!(list.take(&heap, |m| *m == n), Some(n));
            assert_eq!(list.iter().copied().collect::<Vec<_>>(), left);
        }
        assert_eq!(list.take(&heap, |n| *n == 9), None);
        while list.take(&heap, |_| true).is_some() {}
        assert_eq!((list.iter().count(), heap.0.get()), (0, 0));
    }
}
