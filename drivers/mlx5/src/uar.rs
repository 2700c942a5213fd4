//! The UAR: the page of BAR 0 through which doorbells are rung. PRM: "UAR Page Format".

use crate::{
    error::platform,
    registers::{Block, UarPage, uar_page},
};
use bareverbs::Error;
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::registers::eq_doorbell;

/// The device's UAR page.
#[derive(Clone, Copy)]
pub(crate) struct Uar {
    /// Its number, as contexts name it.
    pub(crate) number: u32,
    /// The page, uncached.
    pub(crate) page: Block<UarPage>,
    /// The page through the platform's write-combining window, where BlueFlame is worth its while: the device has it
    /// and stores of 64 bytes leave the CPU in one piece.
    pub(crate) blueflame: Option<Block<UarPage>>,
}

impl Uar {
    /// The page with the number that ALLOC_UAR gave.
    pub(crate) fn new<H: PciFunction>(hal: &H, number: u32, blueflame: bool) -> Result<Self, Error> {
        let bar = hal.bar(0).map_err(platform)?;
        let page = uar_page(&bar, number, false)
            .map_err(|_| Error::BadAnswer { opcode: 0, why: "the UAR page lies outside the BAR" })?;
        let blueflame = match blueflame && bar.has_write_combining() {
            true => Some(uar_page(&bar, number, true).map_err(platform)?),
            false => None,
        };
        Ok(Self { number, page, blueflame })
    }

    /// Tells how far an EQ was consumed, without arming its interrupt.
    pub(crate) fn consume_events<H: PciFunction>(&self, hal: &H, eqn: u8, consumer: u32) {
        let mut doorbell = [0; 4];
        eq_doorbell::EQN.set(&mut doorbell, eqn.into());
        eq_doorbell::CONSUMER_INDEX.set(&mut doorbell, consumer & eq_doorbell::CONSUMER_INDEX.max());
        hal.write32(&self.page.eq_doorbell, u32::from_be_bytes(doorbell));
    }
}
