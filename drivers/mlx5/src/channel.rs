//! Completion channels (manual page ibv_create_comp_channel). The device does not know of them.

use crate::{
    counted::{Counted, Resident, handle},
    device::Mlx5,
    policy::{Lock, Policy},
    row::Row,
    watch::CqWatch,
};
use bareverbs::{CompletionChannel, CqEvent, Error};
use bareverbs_hal::PciFunction;

/// A channel, held by its handle and by its CQs.
pub(crate) struct ChannelObject<H: PciFunction, P: Policy> {
    /// CQs that have completion events. Changed and read under the control lock.
    pub(crate) completions: Row,
    pub(crate) device: Mlx5<H, P>,
}

impl<H: PciFunction, P: Policy> Resident for ChannelObject<H, P> {
    type Platform = H;

    fn platform(&self) -> &H {
        &self.device.hca().hal
    }
}

impl<H: PciFunction, P: Policy> ChannelObject<H, P> {
    /// The device has nothing to destroy.
    fn destroy(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// A channel for completion events (ibv_create_comp_channel).
pub struct Channel<H: PciFunction, P: Policy>(pub(crate) Counted<ChannelObject<H, P>, P>);

handle!(Channel);

impl<H: PciFunction, P: Policy> Channel<H, P> {
    pub(crate) fn new(device: &Mlx5<H, P>) -> Result<Self, Error> {
        device.hca().check_alive()?;
        Counted::new(ChannelObject { completions: Row::default(), device: device.clone() }).map(Self)
    }
}

impl<H: PciFunction, P: Policy> CompletionChannel for Channel<H, P> {
    fn event(&self) -> Result<Option<CqEvent>, Error> {
        let hca = self.0.device.hca();
        let event = hca.control.with(|control| {
            let alive = control.drive(&hca.hal);
            match CqWatch::next_of(&self.0.completions) {
                None => alive.map(|()| None),
                event => Ok(event),
            }
        })?;
        if event.is_none() {
            hca.hal.idle();
        }
        Ok(event)
    }
}
