//! The state that a device handle and all its objects share.

use crate::{
    cmd::{CommandQueue, PageList},
    counted::Resident,
    policy::{Guards, Lock, Policy},
};
use bareverbs::Error;
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::cmd::Opcode;

/// What control verbs work on, one caller at a time.
pub(crate) struct Control {
    pub(crate) cmd: CommandQueue,
}

impl Control {
    /// Runs a command to its end. Its header is written here; `pages` follow the fixed part of the input; as much of
    /// the output as `out` holds is copied there. Page requests that firmware makes meanwhile are served.
    pub(crate) fn execute<H: PciFunction>(
        &mut self,
        hal: &H,
        opcode: Opcode,
        op_mod: u32,
        fixed: &mut [u8],
        pages: &PageList<'_>,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let pending = self.cmd.submit(hal, opcode, op_mod, fixed, pages, out.len())?;
        while !self.cmd.answered(hal, &pending)? {
            hal.relax();
        }
        self.cmd.finish(hal, pending, out)
    }
}

/// An open function.
pub(crate) struct Hca<H: PciFunction, P: Policy> {
    pub(crate) hal: H,
    pub(crate) control: <P as Guards>::Lock<Control>,
}

impl<H: PciFunction, P: Policy> Hca<H, P> {
    /// Runs a command to its end, see [`Control::execute`]. Takes the control lock.
    pub(crate) fn execute(
        &self,
        opcode: Opcode,
        op_mod: u32,
        fixed: &mut [u8],
        pages: &PageList<'_>,
        out: &mut [u8],
    ) -> Result<(), Error> {
        self.control.with(|control| control.execute(&self.hal, opcode, op_mod, fixed, pages, out))
    }
}

impl<H: PciFunction, P: Policy> Resident for Hca<H, P> {
    type Platform = H;

    fn platform(&self) -> &H {
        &self.hal
    }
}
