//! Memory of a process for regions.

use bareverbs::RawMemory;
use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ptr::NonNull,
    vec::Vec,
};

/// Memory for regions, given back when this goes.
#[derive(Default)]
pub struct Buffers(Vec<(NonNull<u8>, Layout)>);

impl Buffers {
    /// Zeroed memory, at an offset in its page that is the same in each run of a seed.
    pub fn take(&mut self, len: usize) -> RawMemory {
        let offset = self.0.len() * 648 % 4096;
        let layout = Layout::from_size_align(offset + len.max(1), 4096).expect("a length of memory");
        // SAFETY: the layout is not empty.
        let ptr = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("memory");
        self.0.push((ptr, layout));
        // SAFETY: the layout has room for the offset.
        let ptr = unsafe { ptr.add(offset) };
        // SAFETY: the memory lives until this goes, after all regions; nobody else has it.
        unsafe { RawMemory::new(NonNull::slice_from_raw_parts(ptr, len)) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for (ptr, layout) in self.0.drain(..) {
            // SAFETY: allocated in `take` with this layout, freed once.
            unsafe { dealloc(ptr.as_ptr(), layout) };
        }
    }
}
