//! Memory regions.

use crate::device::{Node, Pd};
use bareverbs::{Access, AccessOf, Argument, Error, Lkey, Memory, MemoryRegion, Refused, RegionInit, Rkey, Sge};
use std::{mem::ManuallyDrop, ptr::NonNull, rc::Rc};

/// What a key names.
#[derive(Clone)]
pub(crate) struct Region {
    ptr: NonNull<u8>,
    len: usize,
    iova: u64,
    access: Access,
    pd: Rc<u32>,
}

impl Node {
    /// The memory behind a range of a region, if the key, the domain, the range and the rights are right.
    pub(crate) fn translate(&self, pd: u32, key: u32, addr: u64, len: usize, needs: Access) -> Option<NonNull<u8>> {
        let regions = self.regions.borrow();
        let region = regions.get(&key)?;
        let offset = usize::try_from(addr.checked_sub(region.iova)?).ok()?;
        let inside = offset.checked_add(len)? <= region.len;
        // SAFETY: the offset lies inside the region, whose memory its owner keeps alive.
        (inside && *region.pd == pd && region.access.contains(needs)).then(|| unsafe { region.ptr.add(offset) })
    }

    /// Copies the bytes that elements name; `None` is a protection error.
    pub(crate) fn gather(&self, pd: u32, sges: &[Sge]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for sge in sges {
            let len = sge.length() as usize;
            let at = self.translate(pd, sge.lkey().0, sge.addr(), len, Access::empty())?;
            // SAFETY: `translate` checked the range; regions hold no references.
            bytes.extend_from_slice(unsafe { core::slice::from_raw_parts(at.as_ptr(), len) });
        }
        Some(bytes)
    }

    /// Copies bytes to where elements name; `None` is a protection error.
    pub(crate) fn scatter(&self, pd: u32, sges: &[Sge], mut bytes: &[u8]) -> Option<()> {
        for sge in sges {
            let (now, rest) = bytes.split_at(bytes.len().min(sge.length() as usize));
            let at = self.translate(pd, sge.lkey().0, sge.addr(), sge.length() as usize, Access::LOCAL_WRITE)?;
            // SAFETY: `translate` checked the range; regions hold no references.
            unsafe { core::ptr::copy_nonoverlapping(now.as_ptr(), at.as_ptr(), now.len()) };
            bytes = rest;
        }
        Some(())
    }
}

/// A region over `M`.
pub struct Mr<M> {
    node: Rc<Node>,
    key: u32,
    iova: u64,
    access: Access,
    range: NonNull<[u8]>,
    memory: ManuallyDrop<M>,
}

impl<M: Memory> Mr<M> {
    pub(crate) fn new(node: Rc<Node>, pd: &Pd, memory: M, init: RegionInit) -> Result<Self, Refused<M>> {
        let range = memory.range();
        let fits = match range.len() {
            0 => Err(Error::OutOfRange { what: Argument::RegionLength, wanted: 0, max: u64::MAX }),
            _ => init.access.check(AccessOf::Region, true),
        };
        if let Err(error) = fits {
            return Err(Refused { handle: memory, error });
        }
        let ptr = range.cast::<u8>();
        let iova = init.iova.unwrap_or(ptr.as_ptr() as u64);
        let key = node.number();
        let region = Region { ptr, len: range.len(), iova, access: init.access, pd: pd.id.clone() };
        node.regions.borrow_mut().insert(key, region);
        Ok(Self { node, key, iova, access: init.access, range, memory: ManuallyDrop::new(memory) })
    }
}

impl<M> Mr<M> {
    /// No window is bound to it.
    fn free(&self) -> Result<(), Error> {
        match self.node.windows_of(self.key) {
            0 => Ok(()),
            holders => Err(Error::Busy { holders }),
        }
    }
}

impl<M> Drop for Mr<M> {
    fn drop(&mut self) {
        self.node.regions.borrow_mut().remove(&self.key);
        // SAFETY: the memory is dropped here only; `deregister` forgets the region before it gives the memory away.
        unsafe { ManuallyDrop::drop(&mut self.memory) };
    }
}

impl<M: Memory> MemoryRegion<M> for Mr<M> {
    fn lkey(&self) -> Lkey {
        Lkey(self.key)
    }

    fn rkey(&self) -> Rkey {
        Rkey(self.key)
    }

    fn iova(&self) -> u64 {
        self.iova
    }

    fn len(&self) -> usize {
        self.range.len()
    }

    fn as_ptr(&self) -> NonNull<u8> {
        self.range.cast()
    }

    fn access(&self) -> Access {
        self.access
    }

    fn reregister(&mut self, access: Access) -> Result<(), Error> {
        access.check(AccessOf::Region, true)?;
        self.free()?;
        if let Some(region) = self.node.regions.borrow_mut().get_mut(&self.key) {
            region.access = access;
        }
        self.access = access;
        Ok(())
    }

    fn deregister(self) -> Result<M, Refused<Self>> {
        if let Err(error) = self.free() {
            return Err(Refused { handle: self, error });
        }
        let mut this = ManuallyDrop::new(self);
        this.node.regions.borrow_mut().remove(&this.key);
        // SAFETY: `this` is never dropped, so the memory and the counted node are each taken out once.
        let (memory, node) = unsafe { (ManuallyDrop::take(&mut this.memory), core::ptr::read(&this.node)) };
        drop(node);
        Ok(memory)
    }
}
