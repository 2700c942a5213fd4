//! The verbs as traits. Programs are written against these alone.

use crate::{
    Access, AccessOf, AddressHandle, AhAttr, Bind, Completion, CqEvent, Cqn, DeviceAttr, Error, Event, FastInit,
    FastRegion, FlowSpec, Gid, GidEntry, Lid, Lkey, MemoryWindow, Pkey, PollError, PortAttr, PortNum, PostError,
    PostListError, QpAttr, QpCap, QpInit, QpState, QpType, Qpn, RecvWr, Rkey, SendFlags, SendWr, Sge, SrqAttr, Srqn,
    WcFlags, WcOpcode, WcStatus, WindowKind,
    attr::{CqInit, SrqInit, XrcSrqInit},
};
use core::{borrow::Borrow, fmt, ops::Range, ptr::NonNull, time::Duration};

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

/// Memory that can be registered: a range that stays where it is.
///
/// # Safety
/// The range is valid for reads and writes, at the same place, while the value lives, even when it is moved, and for ever
/// if the value is forgotten; nobody holds a reference into it while it is registered.
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

    /// Makes a shared receive queue (ibv_create_srq), of an [`SrqAttr`] or an [`SrqInit`].
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
    /// is bound to it, or that a request posted before binds to it. Refused with the device's fatal error while the device failed and cannot be stopped: it
    /// may still write to the memory.
    fn deregister(self) -> Result<M, Refused<Self>>;
}

/// For drivers: the length of a range that must lie inside `len` bytes and below 2^31.
pub fn check_range(range: &Range<usize>, len: usize) -> Result<u32, Error> {
    use crate::Argument::{RegionLength, RegionOffset};
    if range.end > len || range.start > range.end {
        return Err(Error::OutOfRange { what: RegionOffset, wanted: range.end as u64, max: len as u64 });
    }
    let length = range.end - range.start;
    if length > 1 << 31 {
        return Err(Error::OutOfRange { what: RegionLength, wanted: length as u64, max: 1 << 31 });
    }
    Ok(length as u32)
}

/// A channel for completion events (ibv_create_comp_channel). CQs hold their channel: [`Destroy::destroy`] refuses with
/// [`Error::Busy`] while there are any, and a channel that was dropped goes with its last CQ.
pub trait CompletionChannel: Handle {
    /// The next completion event of the channel's CQs, or `None` when there is none (ibv_get_cq_event, without waiting).
    /// Drives the device as [`Device::service`] does. What it yields must be acknowledged:
    /// [`CompletionQueue::ack_events`].
    ///
    /// The device's fatal error, once all events of before were got.
    fn event(&self) -> Result<Option<CqEvent>, Error>;
}

/// Which completions an armed CQ tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// The next one.
    Any,
    /// The next solicited or failed one.
    Solicited,
}

/// A completion queue. Beside [`Error::Busy`], destroying it is refused with [`Error::Unacknowledged`].
pub trait CompletionQueue: Handle {
    /// The lazy form of polling.
    type View<'a>: CompletionView
    where
        Self: 'a;

    /// Its number, by which events name it.
    fn cqn(&self) -> Cqn;

    /// Entries that it really holds.
    fn capacity(&self) -> u32;

    /// The user's own word.
    fn context(&self) -> u64;

    /// Takes up to `out.len()` completions, oldest first, and tells how many (ibv_poll_cq). Looks at no more entries
    /// than that. An error is told when it comes first; completions before it are delivered first.
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, PollError>;

    /// Takes completions one by one without decoding more than is asked for (ibv_start_poll); shares the index with
    /// [`poll`](Self::poll). Ends when dropped.
    fn view(&mut self) -> Self::View<'_>;

    /// Makes it hold at least `entries`, keeping all unpolled completions in order (ibv_resize_cq).
    /// [`Error::BelowUnpolled`].
    fn resize(&mut self, entries: u32) -> Result<(), Error>;

    /// Arms it once: the next completion is told by the CQ's channel or, without one, as [`Event::Completion`] by the
    /// service call (ibv_req_notify_cq). Whether completions that lie there unpolled count is up to the device.
    fn request_notify(&mut self, which: Notify) -> Result<(), Error>;

    /// Acknowledges `n` of the completion events that were got of this CQ (ibv_ack_cq_events).
    /// [`Error::OutOfRange`] if fewer are left to acknowledge; none is then.
    fn ack_events(&mut self, n: u32) -> Result<(), Error>;

    /// Delays notifications until `count` completions or `period` since the first, whichever comes first
    /// (ibv_modify_cq).
    fn moderate(&mut self, count: u16, period: Duration) -> Result<(), Error>;
}

/// Completions one by one.
pub trait CompletionView {
    /// Goes to the next completion; `false` when there is none now. Before the first call nothing can be read.
    fn advance(&mut self) -> Result<bool, PollError>;

    /// The request's id.
    fn wr_id(&self) -> u64;

    /// How it ended.
    fn status(&self) -> WcStatus;

    /// What it was.
    fn opcode(&self) -> WcOpcode;

    /// Bytes received or read.
    fn byte_len(&self) -> u32;

    /// What else is valid.
    fn flags(&self) -> WcFlags;

    /// Immediate data or invalidated key, by the flags.
    fn imm(&self) -> u32;

    /// The local QP.
    fn qpn(&self) -> Qpn;

    /// UD: the sender's QP.
    fn src_qp(&self) -> Qpn;

    /// The vendor's syndrome of a failed request.
    fn vendor_err(&self) -> u32;

    /// The device's raw time stamp, 0 where it has none.
    fn timestamp(&self) -> u64;

    /// All of it.
    fn completion(&self) -> Completion;
}

/// A shared receive queue.
pub trait SharedReceiveQueue: Handle {
    /// Its number, by which events name it.
    fn srqn(&self) -> Srqn;

    /// The user's own word.
    fn context(&self) -> u64;

    /// Actual sizes and the limit that is armed (ibv_query_srq).
    fn query(&mut self) -> Result<SrqAttr, Error>;

    /// Arms the limit (ibv_modify_srq, IBV_SRQ_LIMIT).
    fn set_limit(&mut self, limit: u32) -> Result<(), Error>;

    /// Makes it hold at least `max_wr` requests (ibv_modify_srq, IBV_SRQ_MAX_WR).
    fn resize(&mut self, max_wr: u32) -> Result<(), Error>;

    /// Writes one request to the ring; [`ring`](Self::ring) tells the device.
    fn push(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError>;

    /// Tells the device of all requests pushed since.
    fn ring(&mut self);

    /// Posts a list with one doorbell (ibv_post_srq_recv).
    #[inline]
    fn post<'a>(&mut self, list: impl IntoIterator<Item: Borrow<RecvWr<'a>>>) -> Result<(), PostListError> {
        let result = push_all(list, |wr| self.push(wr.borrow()));
        self.ring();
        result
    }
}

/// A queue pair.
pub trait QueuePair: Handle {
    /// Memory window of the device.
    type Window: MemoryWindow;
    /// Region for fast registration of the device.
    type FastRegion: FastRegion;

    /// Its number.
    fn qpn(&self) -> Qpn;

    /// Its type.
    fn kind(&self) -> QpType;

    /// Its state, as far as this side knows: a device error shows with the completion or event that tells of it.
    fn state(&self) -> QpState;

    /// Actual sizes.
    fn cap(&self) -> QpCap;

    /// The user's own word.
    fn context(&self) -> u64;

    /// Changes state and attributes (ibv_modify_qp). The mask is checked against [`crate::qp::TRANSITIONS`] before
    /// anything is sent to the device. To RESET a QP of an SRQ may be refused with [`Error::CqFull`].
    fn modify(&mut self, attr: &QpAttr) -> Result<(), Error>;

    /// What the device holds (ibv_query_qp).
    fn query(&mut self) -> Result<QpAttr, Error>;

    /// Lets a UD QP receive what is sent to a multicast group (ibv_attach_mcast). The LID counts on InfiniBand only,
    /// where the subnet administrator gives it to those that join. Attaching twice is attaching once.
    /// [`Error::NotMulticast`], [`Error::MulticastFull`], [`Error::Unsupported`] for other types of QP.
    fn attach_multicast(&mut self, _gid: Gid, _lid: Lid) -> Result<(), Error> {
        Err(Error::Unsupported("multicast"))
    }

    /// Leaves a multicast group (ibv_detach_mcast). [`Error::NotAttached`]. A QP that is attached is not destroyed:
    /// [`Error::Busy`]; dropping it detaches it.
    fn detach_multicast(&mut self, _gid: Gid, _lid: Lid) -> Result<(), Error> {
        Err(Error::Unsupported("multicast"))
    }

    /// Lets a raw packet QP receive the frames of a rule (ibv_create_flow). The same rule twice is the rule once.
    /// [`Error::Unsupported`] for other types of QP, [`Error::FlowsFull`].
    fn attach_flow(&mut self, _flow: &FlowSpec) -> Result<(), Error> {
        Err(Error::Unsupported("flow rules"))
    }

    /// Takes a rule away (ibv_destroy_flow). [`Error::NotAttached`]. A QP that has rules is not destroyed:
    /// [`Error::Busy`]; dropping it takes them away.
    fn detach_flow(&mut self, _flow: &FlowSpec) -> Result<(), Error> {
        Err(Error::Unsupported("flow rules"))
    }

    /// Writes one send request to the ring; [`ring_send`](Self::ring_send) tells the device.
    fn push_send(&mut self, wr: &SendWr<'_>) -> Result<(), PostError>;

    /// Tells the device of all send requests pushed since.
    fn ring_send(&mut self);

    /// Writes a request to the send ring that binds a window, or with [`Bind::NOTHING`] closes it (ibv_bind_mw,
    /// IBV_WR_BIND_MW); tells the key that peers use once it is done. Requests behind it wait for it. It completes as
    /// [`WcOpcode::BindWindow`], with [`WcStatus::MemoryWindowBind`] if the window is bound and of type 2, or if window,
    /// region and QP are not of one protection domain. It takes the places of several requests.
    fn push_bind(
        &mut self,
        _window: &mut Self::Window,
        _bind: &Bind,
        _wr_id: u64,
        _flags: SendFlags,
    ) -> Result<Rkey, PostError> {
        Err(PostError::UnsupportedOp)
    }

    /// Writes a request to the send ring that registers elements in a region for fast registration (IB_WR_REG_MR); tells
    /// the key that peers use once it is done. Requests behind it wait for it. It completes as
    /// [`WcOpcode::RegisterRegion`], with [`WcStatus::MemoryWindowBind`] if the region is valid already. It takes the
    /// places of several requests.
    fn push_register(
        &mut self,
        _region: &mut Self::FastRegion,
        _init: &FastInit<'_>,
        _wr_id: u64,
        _flags: SendFlags,
    ) -> Result<Rkey, PostError> {
        Err(PostError::UnsupportedOp)
    }

    /// Writes one receive request to the ring; [`ring_recv`](Self::ring_recv) tells the device.
    fn push_recv(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError>;

    /// Tells the device of all receive requests pushed since.
    fn ring_recv(&mut self);

    /// Posts a list of send requests with one doorbell (ibv_post_send). On an error all before it are posted. The list
    /// may be of requests or of references to them.
    #[inline]
    fn post_send<'a>(&mut self, list: impl IntoIterator<Item: Borrow<SendWr<'a>>>) -> Result<(), PostListError> {
        let result = push_all(list, |wr| self.push_send(wr.borrow()));
        self.ring_send();
        result
    }

    /// Posts a list of receive requests with one doorbell record (ibv_post_recv). On an error all before it are posted.
    #[inline]
    fn post_recv<'a>(&mut self, list: impl IntoIterator<Item: Borrow<RecvWr<'a>>>) -> Result<(), PostListError> {
        let result = push_all(list, |wr| self.push_recv(wr.borrow()));
        self.ring_recv();
        result
    }
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
