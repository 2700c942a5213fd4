//! The verbs as traits. Programs are written against these alone.

use crate::{
    AddressHandle, AhAttr, DeviceAttr, Error, Event, FastRegion, GidEntry, Lkey, MemoryWindow, Pkey, PortAttr, PortNum,
    PostError, PostListError, QpInit, SrqInit, WindowKind, XrcSrqInit, attr::CqInit,
};
use core::{fmt, ptr::NonNull, time::Duration};

mod cq;
mod mr;
mod qp;
mod srq;

pub use cq::{CompletionChannel, CompletionQueue, CompletionView, Notify};
pub use mr::{Memory, MemoryRegion, RawMemory, RegionInit, check_range};
pub use qp::QueuePair;
pub use srq::SharedReceiveQueue;

/// A verb that failed gives back what it was handed.
pub struct Refused<T> {
    /// What was handed in, untouched.
    pub handle: T,
    /// Why.
    pub error: Error,
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> core::error::Error for Refused<T> {}

impl<T> From<Refused<T>> for Error {
    fn from(r: Refused<T>) -> Self {
        r.error
    }
}

/// Objects that a verb destroys. Dropping a handle does the same as far as possible, in silence; objects that others
/// still use live on until the last of those is gone.
pub trait Destroy: Sized {
    /// Destroys the object, or hands it back with [`Error::Busy`] while others use it; a QP of an SRQ also with
    /// [`Error::CqFull`].
    fn destroy(self) -> Result<(), Refused<Self>>;
}

/// Handles that turn into raw pointers and back, for C ABIs and user contexts.
pub trait Handle: Destroy {
    /// Gives up the handle without destroying the object.
    fn into_raw(self) -> NonNull<()>;

    /// Takes a handle up again.
    ///
    /// # Safety
    /// `raw` came from `into_raw` of the same type and is taken up once.
    unsafe fn from_raw(raw: NonNull<()>) -> Self;
}

/// An object that a device does not have: nobody can make one. For providers without XRC, memory windows, and the like.
#[derive(Clone, Copy, Debug)]
pub enum Absent {}

impl Destroy for Absent {
    fn destroy(self) -> Result<(), Refused<Self>> {
        match self {}
    }
}

impl Handle for Absent {
    fn into_raw(self) -> NonNull<()> {
        match self {}
    }

    unsafe fn from_raw(_raw: NonNull<()>) -> Self {
        // SAFETY: the caller promises a pointer that `into_raw` gave, and it never gave any.
        unsafe { core::hint::unreachable_unchecked() }
    }
}

/// An open device. Cheap to clone; the last handle, of it or of any object, closes it.
pub trait Device: Clone + Handle {
    /// Protection domain.
    type Pd: Handle;
    /// Completion queue.
    type Cq: CompletionQueue;
    /// Completion channel.
    type Channel: CompletionChannel;
    /// Shared receive queue.
    type Srq: SharedReceiveQueue;
    /// Queue pair.
    type Qp: QueuePair<Window = Self::Window, FastRegion = Self::FastRegion>;
    /// Memory region over `M`.
    type Mr<M: Memory>: MemoryRegion<M>;
    /// XRC domain; [`Absent`] where there is no XRC.
    type Xrcd: Handle;
    /// Memory window; [`Absent`] where there are none.
    type Window: MemoryWindow;
    /// Region for fast registration; [`Absent`] where there are none.
    type FastRegion: FastRegion;

    /// What the device can do (ibv_query_device).
    fn attributes(&self) -> DeviceAttr;

    /// State of a port (ibv_query_port). [`Error::NoSuchPort`].
    fn query_port(&self, port: PortNum) -> Result<PortAttr, Error>;

    /// An entry of the GID table (ibv_query_gid_ex). An empty entry has the zero GID. [`Error::NoSuchIndex`].
    fn query_gid(&self, port: PortNum, index: u8) -> Result<GidEntry, Error>;

    /// Sets an entry of the GID table on Ethernet; the zero GID deletes it.
    fn set_gid(&self, port: PortNum, index: u8, entry: &GidEntry) -> Result<(), Error>;

    /// An entry of the P_Key table (ibv_query_pkey). [`Error::NoSuchIndex`].
    fn query_pkey(&self, port: PortNum, index: u16) -> Result<Pkey, Error>;

    /// Makes a protection domain (ibv_alloc_pd).
    fn alloc_pd(&self) -> Result<Self::Pd, Error>;

    /// Makes a completion queue (ibv_create_cq). Its completion events are told by [`service`](Self::service).
    fn create_cq(&self, init: &CqInit) -> Result<Self::Cq, Error>;

    /// Makes a channel for completion events (ibv_create_comp_channel).
    fn create_comp_channel(&self) -> Result<Self::Channel, Error>;

    /// Makes a completion queue on a channel (ibv_create_cq): [`CompletionChannel::event`] tells its completion events,
    /// [`service`](Self::service) does not.
    fn create_cq_on(&self, channel: &Self::Channel, init: &CqInit) -> Result<Self::Cq, Error>;

    /// Makes a shared receive queue (ibv_create_srq), of an [`SrqAttr`](crate::SrqAttr) or an [`SrqInit`].
    fn create_srq(&self, pd: &Self::Pd, init: impl Into<SrqInit>) -> Result<Self::Srq, Error>;

    /// Makes a queue pair in RESET (ibv_create_qp).
    fn create_qp(&self, pd: &Self::Pd, init: &QpInit<'_, Self>) -> Result<Self::Qp, Error>;

    /// Makes an XRC domain: its target QPs receive into its SRQs (ibv_open_xrcd; of one process, so without a file).
    fn open_xrcd(&self) -> Result<Self::Xrcd, Error> {
        Err(Error::Unsupported("XRC"))
    }

    /// Makes a shared receive queue of an XRC domain, which senders name by its number (ibv_create_srq_ex).
    fn create_xrc_srq(&self, _pd: &Self::Pd, _init: &XrcSrqInit<'_, Self>) -> Result<Self::Srq, Error> {
        Err(Error::Unsupported("XRC"))
    }

    /// Makes the receiving end of an XRC connection, in RESET (ibv_create_qp_ex: IBV_QPT_XRC_RECV). It has no queues and
    /// no CQ of its own: each message goes to the SRQ that it names, and completes to that SRQ's CQ with this QP's
    /// number. `context` comes back from [`QueuePair::context`].
    fn create_xrc_target(&self, _xrcd: &Self::Xrcd, _context: u64) -> Result<Self::Qp, Error> {
        Err(Error::Unsupported("XRC"))
    }

    /// Registers memory; the region owns it until it is deregistered (ibv_reg_mr).
    fn register<M: Memory>(
        &self,
        pd: &Self::Pd,
        memory: M,
        init: impl Into<RegionInit>,
    ) -> Result<Self::Mr<M>, Refused<M>>;

    /// Makes a memory window that is closed (ibv_alloc_mw).
    fn alloc_window(&self, _pd: &Self::Pd, _kind: WindowKind) -> Result<Self::Window, Error> {
        Err(Error::Unsupported("memory windows"))
    }

    /// Makes a region for registrations of up to so many elements (Linux: ib_alloc_mr); its keys are invalid.
    fn alloc_fast_region(&self, _pd: &Self::Pd, _elements: u32) -> Result<Self::FastRegion, Error> {
        Err(Error::Unsupported("fast registration"))
    }

    /// The key for all memory by device address, where the device has one (the reserved lkey).
    fn reserved_lkey(&self) -> Result<Lkey, Error> {
        Err(Error::Unsupported("reserved lkey"))
    }

    /// Gets memory of the device itself (ibv_alloc_dm).
    fn alloc_device_memory(&self, _bytes: u64) -> Result<Absent, Error> {
        Err(Error::Unsupported("device memory"))
    }

    /// Resolves a path for datagrams (ibv_create_ah).
    fn address_handle(&self, attr: &AhAttr) -> Result<AddressHandle, Error>;

    /// Drains the device's event queues, gives and takes firmware pages, reads its health when due; yields one event,
    /// or `None` when there are no more. Completions are told here too, for CQs that were armed and have no channel.
    ///
    /// No object's event is lost, however late it is asked for: asynchronous events come first, in the order in which
    /// their objects came to have one, those of one object together and each kind once; then completion events, as many
    /// as there were, each CQ in its turn.
    ///
    /// After the call that saw a CQ or device error every poll and post says so by name.
    fn service(&self) -> Result<Option<Event>, Error>;

    /// Brings the device back to where opening it left it, after [`Event::DeviceFatal`] or at any other time: the function
    /// is stopped and reset, all memory that it had is given back, and it is opened anew with the same configuration. Its
    /// tables (GIDs) are as after a reset; address handles of before must be made anew.
    ///
    /// [`Error::Busy`] while other handles or objects hold the device: after a fatal error they are dropped without
    /// commands. Where it does not come back, the handle is given back with the reason, which every verb answers from then
    /// on; it can be tried again.
    fn reopen(self) -> Result<Self, Refused<Self>> {
        Err(Refused { handle: self, error: Error::Unsupported("reopening") })
    }

    /// Monotonic time of the platform.
    fn now(&self) -> Duration;

    /// For programs that wait on memory: a spin hint on hardware, a chance for the device elsewhere.
    fn relax(&self);
}

/// Pushes until the first that fails, and says which.
#[inline(always)]
fn push_all<W>(
    list: impl IntoIterator<Item = W>,
    mut push: impl FnMut(W) -> Result<(), PostError>,
) -> Result<(), PostListError> {
    for (index, wr) in list.into_iter().enumerate() {
        push(wr).map_err(|error| PostListError { index, error })?;
    }
    Ok(())
}
