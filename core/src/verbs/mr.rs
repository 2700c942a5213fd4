//! Memory and its regions.

use crate::{Access, AccessOf, Bind, Error, Lkey, Refused, Rkey, Sge};
use core::{ops::Range, ptr::NonNull};

/// Memory that can be registered: a range that stays where it is.
///
/// # Safety
/// The range is valid for reads and writes, at the same place, while the value lives, even when it is moved, and for ever
/// if the value is forgotten; nobody holds a reference into it while it is registered.
#[diagnostic::on_unimplemented(
    note = "memory is a `&'static mut [u8]`, as `Box::leak` gives, `RawMemory`, or a type for which you implement `Memory`"
)]
pub unsafe trait Memory: 'static {
    /// First byte and length.
    fn range(&self) -> NonNull<[u8]>;
}

// SAFETY: the slice is borrowed for ever and exclusively; moving the reference does not move the bytes.
unsafe impl Memory for &'static mut [u8] {
    fn range(&self) -> NonNull<[u8]> {
        NonNull::from(&**self)
    }
}

/// Memory by address: the `unsafe` form of registering.
#[derive(Clone, Copy, Debug)]
pub struct RawMemory(NonNull<[u8]>);

impl RawMemory {
    /// Names a range.
    ///
    /// # Safety
    /// As [`Memory`] says, for as long as the value or a region made of it lives.
    pub const unsafe fn new(range: NonNull<[u8]>) -> Self {
        Self(range)
    }
}

// SAFETY: the maker of the value promised it.
unsafe impl Memory for RawMemory {
    fn range(&self) -> NonNull<[u8]> {
        self.0
    }
}

/// How memory is registered (ibv_reg_mr, ibv_reg_mr_iova).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionInit {
    /// Who may do what.
    pub access: Access,
    /// Address of the first byte in the region's own address space; the CPU's address if `None`.
    pub iova: Option<u64>,
}

impl From<Access> for RegionInit {
    fn from(access: Access) -> Self {
        Self { access, iova: None }
    }
}

/// A region of registered memory (ibv_reg_mr). Bytes are copied in and out: while the device may write, no reference
/// into the memory lives.
pub trait MemoryRegion<M: Memory>: Sized {
    /// The key for local use.
    fn lkey(&self) -> Lkey;

    /// The key for peers.
    fn rkey(&self) -> Rkey;

    /// Address of the first byte in the region's address space, for peers.
    fn iova(&self) -> u64;

    /// Bytes.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// First byte as the CPU sees it.
    fn as_ptr(&self) -> NonNull<u8>;

    /// Who may do what, as it was registered.
    fn access(&self) -> Access;

    /// What a bind opens: a range of the region, by offsets, with rights for peers (ibv_bind_mw: bind_info).
    /// [`Error::RegionLacks`] if the region was not registered for it.
    fn bind(&self, range: Range<usize>, access: Access) -> Result<Bind, Error> {
        let length = check_range(&range, self.len())?;
        // Whether there are atomics the device knows: the request is refused.
        access.check(AccessOf::Window, true)?;
        let mut needs = Access::MW_BIND;
        needs.set(Access::LOCAL_WRITE, access.intersects(Access::REMOTE_CHANGE));
        let lacks = needs.difference(self.access());
        if !lacks.is_empty() {
            return Err(Error::RegionLacks(lacks));
        }
        // SAFETY: the range lies inside the region that the key names, and the region keeps references out.
        Ok(unsafe { Bind::from_raw(self.iova().wrapping_add(range.start as u64), length, self.lkey(), access) })
    }

    /// An element for a range of the region, by offsets. Empty ranges are allowed.
    #[inline]
    fn sge(&self, range: Range<usize>) -> Result<Sge, Error> {
        let length = check_range(&range, self.len())?;
        // SAFETY: the range lies inside the region that the key names, and the region keeps references out.
        Ok(unsafe { Sge::from_raw(self.iova().wrapping_add(range.start as u64), length, self.lkey()) })
    }

    /// Copies bytes into the region at `offset`.
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        check_range(&(offset..offset.saturating_add(bytes.len())), self.len())?;
        // SAFETY: the range was checked, the region keeps the memory alive and references out.
        unsafe { core::ptr::copy(bytes.as_ptr(), self.as_ptr().as_ptr().add(offset), bytes.len()) };
        Ok(())
    }

    /// Copies bytes out of the region from `offset`.
    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Error> {
        check_range(&(offset..offset.saturating_add(bytes.len())), self.len())?;
        // SAFETY: the range was checked, the region keeps the memory alive and references out.
        unsafe { core::ptr::copy(self.as_ptr().as_ptr().add(offset), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Gives the region other rights (ibv_rereg_mr, IBV_REREG_MR_CHANGE_ACCESS). Its keys may be others afterwards; elements
    /// made before and keys that peers were told are worthless then. [`Error::Busy`] while windows are bound to it. On an
    /// error the region is as it was.
    fn reregister(&mut self, _access: Access) -> Result<(), Error> {
        Err(Error::Unsupported("re-registration"))
    }

    /// Deregisters and gives the memory back (ibv_dereg_mr). [`Error::Busy`] while windows are bound to it; dropping it
    /// deregisters it even then. Requests that still name the region fail, and so do those of peers through a window that
    /// is bound to it, or that a request posted before binds to it. Refused with the device's fatal error while the device
    /// failed and cannot be stopped: it may still write to the memory.
    fn deregister(self) -> Result<M, Refused<Self>>;
}

/// For drivers: the length of a range that must lie inside `len` bytes and below 2^31.
pub fn check_range(range: &Range<usize>, len: usize) -> Result<u32, Error> {
    use crate::Argument::{RegionLength, RegionOffset};
    for (wanted, max) in [(range.end, len), (range.start, range.end)] {
        if wanted > max {
            return Err(Error::OutOfRange { what: RegionOffset, wanted: wanted as u64, max: max as u64 });
        }
    }
    let length = range.end - range.start;
    if length > 1 << 31 {
        return Err(Error::OutOfRange { what: RegionLength, wanted: length as u64, max: 1 << 31 });
    }
    Ok(length as u32)
}
