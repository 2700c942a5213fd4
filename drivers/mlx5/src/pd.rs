//! Protection domains and XRC domains: numbers that other objects name. PRM: ALLOC_PD, DEALLOC_PD, ALLOC_XRCD,
//! DEALLOC_XRCD.

use crate::{
    cmd::PageList,
    control::{Control, count_up},
    counted::{Counted, Resident, handle},
    device::Mlx5,
    policy::{Lock, Policy},
};
use bareverbs::{Argument, Error};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{alloc_pd, alloc_xrcd},
};
use core::sync::atomic::{AtomicU32, Ordering};

/// Number of a domain that the device does not have.
const NO_NUMBER: u32 = u32::MAX;

/// A protection domain. Objects made in it hold it.
pub struct Pd<H: PciFunction, P: Policy>(pub(crate) Counted<Domain<H, P>, P>);

/// An XRC domain. Its SRQs and target QPs hold it.
pub struct Xrcd<H: PciFunction, P: Policy>(pub(crate) Counted<Domain<H, P>, P>);

handle!(Pd);
handle!(Xrcd);

/// Which kind of domain.
#[derive(Clone, Copy)]
enum Kind {
    Protection,
    Xrc,
}

// Both commands have the same fields.
const _: () = assert!(alloc_pd::IN_LEN == alloc_xrcd::IN_LEN && alloc_pd::OUT_LEN == alloc_xrcd::OUT_LEN);

impl Kind {
    fn count(self, control: &mut Control) -> &mut u32 {
        match self {
            Self::Protection => &mut control.pds,
            Self::Xrc => &mut control.xrcds,
        }
    }
}

/// What a domain is.
pub(crate) struct Domain<H: PciFunction, P: Policy> {
    pub(crate) device: Mlx5<H, P>,
    kind: Kind,
    number: AtomicU32,
}

impl<H: PciFunction, P: Policy> Pd<H, P> {
    pub(crate) fn new(device: &Mlx5<H, P>) -> Result<Self, Error> {
        Domain::new(device, Kind::Protection).map(Self)
    }

    /// Whether the domain is one of this device.
    pub(crate) fn belongs_to(&self, device: &Mlx5<H, P>) -> bool {
        self.0.device.is(device)
    }

    /// Another holder, for an object that is made in the domain.
    pub(crate) fn hold(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<H: PciFunction, P: Policy> Xrcd<H, P> {
    pub(crate) fn new(device: &Mlx5<H, P>) -> Result<Self, Error> {
        if device.hca().attr.max_xrcd == 0 {
            return Err(Error::Unsupported("XRC"));
        }
        Domain::new(device, Kind::Xrc).map(Self)
    }
}

impl<H: PciFunction, P: Policy> Domain<H, P> {
    fn new(device: &Mlx5<H, P>, kind: Kind) -> Result<Counted<Self, P>, Error> {
        let hca = device.hca();
        let limits = &hca.caps.limits;
        let (max, what, opcode, field) = match kind {
            Kind::Protection => (limits.pds, Argument::Pds, Opcode::ALLOC_PD, alloc_pd::out::PD),
            Kind::Xrc => (limits.xrcds, Argument::Xrcds, Opcode::ALLOC_XRCD, alloc_xrcd::out::XRCD),
        };
        hca.control.with(|control| count_up(kind.count(control), max, what))?;
        let mut out = [0; alloc_pd::OUT_LEN];
        let result = hca.execute(opcode, 0, &mut [0; alloc_pd::IN_LEN], &PageList::None, &mut out);
        if let Err(e) = result {
            hca.control.with(|control| *kind.count(control) -= 1);
            return Err(e);
        }
        let domain = Self { device: device.clone(), kind, number: AtomicU32::new(field.get(&out)) };
        Counted::new(domain)
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// Takes the domain from the device, once.
    fn destroy(&self) -> Result<(), Error> {
        let (hca, number) = (self.device.hca(), self.number());
        if number == NO_NUMBER {
            return Ok(());
        }
        let opcode = match self.kind {
            Kind::Protection => Opcode::DEALLOC_PD,
            Kind::Xrc => Opcode::DEALLOC_XRCD,
        };
        hca.destroy(opcode, number)?;
        hca.control.with(|control| *self.kind.count(control) -= 1);
        self.number.store(NO_NUMBER, Ordering::Relaxed);
        Ok(())
    }
}

impl<H: PciFunction, P: Policy> Drop for Domain<H, P> {
    fn drop(&mut self) {
        if let Err(e) = self.destroy() {
            log::debug!("a domain stays: {e}");
        }
    }
}

impl<H: PciFunction, P: Policy> Resident for Domain<H, P> {
    type Platform = H;

    fn platform(&self) -> &H {
        &self.device.hca().hal
    }
}
