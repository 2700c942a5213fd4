//! Protection domains. PRM: ALLOC_PD, DEALLOC_PD.

use crate::{
    cmd::PageList,
    control::count_up,
    counted::{Counted, Resident},
    device::Mlx5,
    policy::{Lock, Policy},
};
use bareverbs::{Argument, Destroy, Error, Handle, Refused};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{cmd::Opcode, commands::alloc_pd};
use core::ptr::NonNull;

/// A protection domain. Objects made in it hold it.
pub struct Pd<H: PciFunction, P: Policy>(pub(crate) Counted<Domain<H, P>, P>);

/// What a protection domain is.
pub(crate) struct Domain<H: PciFunction, P: Policy> {
    pub(crate) device: Mlx5<H, P>,
    pub(crate) number: u32,
    gone: bool,
}

impl<H: PciFunction, P: Policy> Pd<H, P> {
    pub(crate) fn new(device: &Mlx5<H, P>) -> Result<Self, Error> {
        let hca = device.hca();
        hca.control.with(|control| count_up(&mut control.pds, hca.caps.limits.pds, Argument::Pds))?;
        let mut out = [0; alloc_pd::OUT_LEN];
        let result = hca.execute(Opcode::ALLOC_PD, 0, &mut [0; alloc_pd::IN_LEN], &PageList::None, &mut out);
        if let Err(e) = result {
            hca.control.with(|control| control.pds -= 1);
            return Err(e);
        }
        let domain = Domain { device: device.clone(), number: alloc_pd::out::PD.get(&out), gone: false };
        Counted::new(domain).map(Self)
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

impl<H: PciFunction, P: Policy> Domain<H, P> {
    fn dealloc(&mut self) -> Result<(), Error> {
        let hca = self.device.hca();
        hca.destroy(Opcode::DEALLOC_PD, self.number)?;
        hca.control.with(|control| control.pds -= 1);
        self.gone = true;
        Ok(())
    }
}

impl<H: PciFunction, P: Policy> Drop for Domain<H, P> {
    fn drop(&mut self) {
        if !self.gone
            && let Err(e) = self.dealloc()
        {
            log::debug!("a protection domain stays: {e}");
        }
    }
}

impl<H: PciFunction, P: Policy> Resident for Domain<H, P> {
    type Platform = H;

    fn platform(&self) -> &H {
        &self.device.hca().hal
    }
}

impl<H: PciFunction, P: Policy> Destroy for Pd<H, P> {
    fn destroy(mut self) -> Result<(), Refused<Self>> {
        let result = match self.0.get_mut() {
            Some(domain) => domain.dealloc(),
            None => Err(Error::Busy { holders: self.0.holders() - 1 }),
        };
        result.map_err(|error| Refused { handle: self, error })
    }
}

impl<H: PciFunction, P: Policy> Handle for Pd<H, P> {
    fn into_raw(self) -> NonNull<()> {
        self.0.into_raw()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Counted::from_raw(raw) })
    }
}
