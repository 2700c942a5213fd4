//! Keys that requests change: memory windows (manual pages ibv_alloc_mw, ibv_bind_mw) and regions for fast registration
//! (IBA 10.6.3, 10.6.7; Linux: ib_alloc_mr).

use crate::{Absent, Access, Error, Handle, Lkey, Rkey, Sge};
use core::ops::Range;

/// Kinds of memory window (IBA 10.6.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowKind {
    /// Type 1: for every QP of the protection domain. It may be bound again while it is bound; each bind gives it a new
    /// key, the one before is invalid.
    One,
    /// Type 2B: for the QP that binds it alone. It must be invalidated before it is bound again, locally or by the peer;
    /// the lowest eight bits of its key are the user's.
    TwoB,
}

/// What a bind opens: a range of a region, and who may do what there. Comes from [`crate::MemoryRegion::bind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    addr: u64,
    length: u32,
    lkey: Lkey,
    access: Access,
}

impl Bind {
    /// Opens nothing: closes the window.
    pub const NOTHING: Self = Self { addr: 0, length: 0, lkey: Lkey(0), access: Access::empty() };

    /// A range by its numbers.
    ///
    /// # Safety
    /// While the window is bound a peer reads or writes the range as `access` says: `addr` must be an address in the
    /// address space of `lkey`, and nobody may hold a reference into the memory behind it.
    pub const unsafe fn from_raw(addr: u64, length: u32, lkey: Lkey, access: Access) -> Self {
        Self { addr, length, lkey, access }
    }

    /// First byte, in the region's address space; it is the window's address too.
    pub const fn addr(&self) -> u64 {
        self.addr
    }

    /// Bytes, at most 2^31.
    pub const fn length(&self) -> u32 {
        self.length
    }

    /// The region.
    pub const fn lkey(&self) -> Lkey {
        self.lkey
    }

    /// What a peer may do.
    pub const fn access(&self) -> Access {
        self.access
    }
}

/// A memory window (ibv_alloc_mw): a key for peers that is bound to a part of a region by a request, and taken back by
/// one. Bound by [`crate::QueuePair::push_bind`]; destroying it closes it (ibv_dealloc_mw).
pub trait MemoryWindow: Handle {
    /// Which kind.
    fn kind(&self) -> WindowKind;

    /// The key for peers: of the newest bind, and of a window of type 2 what the next bind will give it.
    fn rkey(&self) -> Rkey;

    /// Chooses the lowest eight bits of the key that the next bind gives. [`Error::Unsupported`] for a window of type 1,
    /// whose key changes by itself.
    fn set_variant(&mut self, variant: u8) -> Result<(), Error>;
}

/// A region for fast registration: a key for local use and for peers that a request makes valid for a list of elements,
/// and another one invalid again. Registered by [`crate::QueuePair::push_register`].
pub trait FastRegion: Handle {
    /// The key for local use that the next registration gives; until it is chosen anew also that of the newest.
    fn lkey(&self) -> Lkey;

    /// The same for peers.
    fn rkey(&self) -> Rkey;

    /// Elements that a registration holds at most.
    fn capacity(&self) -> u32;

    /// Chooses the lowest eight bits of the keys that the next registration gives (Linux: ib_update_fast_reg_key).
    fn set_variant(&mut self, variant: u8);

    /// An element for a range of what was registered last, by offsets. It serves once that registration is done.
    fn sge(&self, range: Range<usize>) -> Result<Sge, Error>;
}

/// What a fast registration makes of a region (Linux: ib_reg_wr).
#[derive(Clone, Copy, Debug)]
pub struct FastInit<'a> {
    /// The bytes of these elements, one behind the other. Empty ones are left out.
    pub elements: &'a [Sge],
    /// Address of the first byte.
    pub iova: u64,
    /// Who may do what.
    pub access: Access,
}

impl MemoryWindow for Absent {
    fn kind(&self) -> WindowKind {
        match *self {}
    }

    fn rkey(&self) -> Rkey {
        match *self {}
    }

    fn set_variant(&mut self, _variant: u8) -> Result<(), Error> {
        match *self {}
    }
}

impl FastRegion for Absent {
    fn lkey(&self) -> Lkey {
        match *self {}
    }

    fn rkey(&self) -> Rkey {
        match *self {}
    }

    fn capacity(&self) -> u32 {
        match *self {}
    }

    fn set_variant(&mut self, _variant: u8) {
        match *self {}
    }

    fn sge(&self, _range: Range<usize>) -> Result<Sge, Error> {
        match *self {}
    }
}
