//! The device handle.

use crate::{
    ah, bringup,
    channel::Channel,
    config::Config,
    counted::Counted,
    cq::Cq,
    gid,
    hca::Hca,
    mr::{self, Mr},
    mw::{FastRegion, Window},
    pd::{Pd, Xrcd},
    policy::{Local, Lock, Policy},
    port,
    qp::Qp,
    srq::Srq,
};
use bareverbs::{
    AddressHandle, AhAttr, CqInit, Destroy, Device, DeviceAttr, Error, Event, GidEntry, Handle, Lkey, Memory, Object,
    Pkey, PortAttr, PortNum, QpInit, Refused, RegionInit, SrqInit, WindowKind, XrcSrqInit,
};
use bareverbs_hal::PciFunction;
use core::{ptr::NonNull, time::Duration};

/// An open ConnectX or BlueField function.
///
/// A pointer-sized, counted handle: clones and objects hold the device, in any order of dropping, and the last one
/// closes it. `P` is [`Local`] (one thread, no locks) or [`crate::Shared`].
pub struct Mlx5<H: PciFunction, P: Policy = Local>(Counted<Hca<H, P>, P>);

impl<H: PciFunction, P: Policy> Mlx5<H, P> {
    /// Brings a function from reset to ready: firmware's pages, capabilities, the doorbell page, event queues, and RoCE
    /// on an Ethernet port. On an error everything is undone and all memory given back.
    ///
    /// [`Error::Unsupported`] by name for a function that this driver does not fit, [`Error::NotReady`] if firmware
    /// does not come up, the errors of commands, and what the platform refuses.
    pub fn open(hal: H, config: Config) -> Result<Self, Error> {
        Counted::new(bringup::open(hal, &config)?).map(Self)
    }

    /// Commands handed to the device since it was opened.
    pub fn commands(&self) -> u64 {
        self.0.control.with(|control| control.commands())
    }

    /// The shared state.
    #[inline(always)]
    pub(crate) fn hca(&self) -> &Hca<H, P> {
        &self.0
    }

    /// Whether both are the same device.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.is(&other.0)
    }
}

impl<H: PciFunction, P: Policy> Clone for Mlx5<H, P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<H: PciFunction, P: Policy> Destroy for Mlx5<H, P> {
    /// Closes the device, or hands it back while other handles or objects hold it.
    fn destroy(self) -> Result<(), Refused<Self>> {
        match self.0.holders() {
            1 => Ok(()),
            n => Err(Refused { handle: self, error: Error::Busy { holders: n - 1 } }),
        }
    }
}

impl<H: PciFunction, P: Policy> Handle for Mlx5<H, P> {
    fn into_raw(self) -> NonNull<()> {
        self.0.into_raw()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Counted::from_raw(raw) })
    }
}

impl<H: PciFunction, P: Policy> Device for Mlx5<H, P> {
    type Pd = Pd<H, P>;
    type Cq = Cq<H, P>;
    type Channel = Channel<H, P>;
    type Srq = Srq<H, P>;
    type Qp = Qp<H, P>;
    type Mr<M: Memory> = Mr<M, H, P>;
    type Xrcd = Xrcd<H, P>;
    type Window = Window<H, P>;
    type FastRegion = FastRegion<H, P>;

    fn attributes(&self) -> DeviceAttr {
        self.hca().attr.clone()
    }

    fn query_port(&self, port: PortNum) -> Result<PortAttr, Error> {
        port::query(self.hca(), port)
    }

    fn query_gid(&self, port: PortNum, index: u8) -> Result<GidEntry, Error> {
        gid::query(self.hca(), port, index)
    }

    fn set_gid(&self, port: PortNum, index: u8, entry: &GidEntry) -> Result<(), Error> {
        gid::set(self.hca(), port, index, entry)
    }

    fn query_pkey(&self, port: PortNum, index: u16) -> Result<Pkey, Error> {
        port::query_pkey(self.hca(), port, index)
    }

    fn alloc_pd(&self) -> Result<Pd<H, P>, Error> {
        Pd::new(self)
    }

    fn create_cq(&self, init: &CqInit) -> Result<Cq<H, P>, Error> {
        Cq::create(self, init, None)
    }

    fn create_comp_channel(&self) -> Result<Channel<H, P>, Error> {
        Channel::new(self)
    }

    fn create_cq_on(&self, channel: &Channel<H, P>, init: &CqInit) -> Result<Cq<H, P>, Error> {
        if !channel.0.device.is(self) {
            return Err(Error::Foreign(Object::Channel));
        }
        Cq::create(self, init, Some(channel.0.clone()))
    }

    fn create_srq(&self, pd: &Pd<H, P>, init: impl Into<SrqInit>) -> Result<Srq<H, P>, Error> {
        Srq::create(self, pd, &init.into())
    }

    fn create_qp(&self, pd: &Pd<H, P>, init: &QpInit<'_, Self>) -> Result<Qp<H, P>, Error> {
        Qp::create(self, pd, init)
    }

    fn open_xrcd(&self) -> Result<Xrcd<H, P>, Error> {
        Xrcd::new(self)
    }

    fn create_xrc_srq(&self, pd: &Pd<H, P>, init: &XrcSrqInit<'_, Self>) -> Result<Srq<H, P>, Error> {
        Srq::create_xrc(self, pd, init)
    }

    fn create_xrc_target(&self, xrcd: &Xrcd<H, P>, context: u64) -> Result<Qp<H, P>, Error> {
        Qp::create_xrc_target(self, xrcd, context)
    }

    fn register<M: Memory>(
        &self,
        pd: &Pd<H, P>,
        memory: M,
        init: impl Into<RegionInit>,
    ) -> Result<Mr<M, H, P>, Refused<M>> {
        Mr::register(self, pd, memory, init.into())
    }

    fn alloc_window(&self, pd: &Pd<H, P>, kind: WindowKind) -> Result<Window<H, P>, Error> {
        Window::new(self, pd, kind)
    }

    fn alloc_fast_region(&self, pd: &Pd<H, P>, elements: u32) -> Result<FastRegion<H, P>, Error> {
        FastRegion::new(self, pd, elements)
    }

    fn reserved_lkey(&self) -> Result<Lkey, Error> {
        mr::reserved_lkey(self.hca())
    }

    fn address_handle(&self, attr: &AhAttr) -> Result<AddressHandle, Error> {
        ah::create(self.hca(), attr)
    }

    fn service(&self) -> Result<Option<Event>, Error> {
        self.hca().service()
    }

    fn reopen(mut self) -> Result<Self, Refused<Self>> {
        let holders = self.0.holders() - 1;
        let result = match self.0.get_mut() {
            Some(hca) => hca.reopen(),
            None => Err(Error::Busy { holders }),
        };
        match result {
            Ok(()) => Ok(self),
            Err(error) => Err(Refused { handle: self, error }),
        }
    }

    fn now(&self) -> Duration {
        self.hca().hal.now()
    }

    fn relax(&self) {
        self.hca().hal.relax();
    }
}
