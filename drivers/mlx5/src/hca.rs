//! The state that a device handle and all its objects share.

use crate::{
    bringup,
    cmd::PageList,
    config::Config,
    control::Control,
    counted::Resident,
    error::platform,
    policy::{Guards, Lock, Policy},
    table::Table,
    uar::Uar,
    users::Users,
    watch::{Watch, Watches},
};
use bareverbs::{DeviceAttr, Error, Event, LinkLayer, Mtu};
use bareverbs_hal::{DmaBuffer, Mapping, PciFunction};
use bareverbs_mlx5_prm::{cmd::Opcode, context::cmd_hca_cap};
use core::mem::ManuallyDrop;

/// An open function.
pub(crate) struct Hca<H: PciFunction, P: Policy> {
    pub(crate) hal: H,
    pub(crate) control: <P as Guards>::Lock<Control>,
    pub(crate) uar: Uar,
    /// Differs from device to device: the function's address, with a bit that no zeroed handle has.
    pub(crate) mark: u32,
    pub(crate) caps: Caps,
    pub(crate) attr: DeviceAttr,
    /// What it was opened with.
    pub(crate) config: Config,
    /// From the user index in a CQE to the QP. Read without the control lock, changed under it.
    pub(crate) users: ManuallyDrop<Users>,
}

/// What SET_HCA_CAP put in force, and what the driver made of it.
#[derive(Clone, Copy)]
pub(crate) struct Caps {
    /// The head of `cmd_hca_cap`, for the fields of [`cmd_hca_cap`].
    pub(crate) general: [u8; cmd_hca_cap::SIZE],
    /// What the port speaks.
    pub(crate) link: LinkLayer,
    /// Entries of the GID table.
    pub(crate) gids: u16,
    /// Entries of the P_Key table.
    pub(crate) pkeys: u16,
    /// Largest MTU that a path over the port can have.
    pub(crate) max_mtu: Mtu,
    /// Longest frame of an Ethernet port, without its check sequence.
    pub(crate) max_frame: u32,
    /// Headers that the request of a frame must hold.
    pub(crate) inline: InlineMode,
    /// RoCE v2 exists.
    pub(crate) roce_v2: bool,
    /// 8-byte atomics bring their answers in host order.
    pub(crate) atomics: bool,
    /// The limits fixed at open.
    pub(crate) limits: Limits,
}

/// Headers of a frame that its send request must hold itself. PRM: "min_wqe_inline_mode".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InlineMode {
    /// None.
    #[default]
    None,
    /// The Ethernet header.
    Layer2,
    /// The IP header.
    Layer3,
    /// The TCP or UDP header.
    Layer4,
}

impl InlineMode {
    /// From the code of the vport's context.
    pub(crate) fn from_code(code: u32) -> Self {
        match code {
            0 => Self::None,
            1 => Self::Layer2,
            2 => Self::Layer3,
            _ => Self::Layer4,
        }
    }

    /// The code of the SQ's context.
    pub(crate) fn mode(self) -> u32 {
        self as u32
    }

    /// Bytes that these headers take at most: 14 and a VLAN tag, 40 of IPv6, 20 of TCP.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Layer2 => 18,
            Self::Layer3 => 18 + 40,
            Self::Layer4 => 18 + 40 + 20,
        }
    }
}

/// Numbers of objects, fixed at open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) qps: u32,
    pub(crate) cqs: u32,
    pub(crate) srqs: u32,
    pub(crate) pds: u32,
    pub(crate) xrcds: u32,
    pub(crate) regions: u32,
    pub(crate) windows: u32,
    pub(crate) vectors: u32,
}

impl Limits {
    /// Numbers that completions may name: of QPs and of XRC SRQs.
    pub(crate) const fn users(&self) -> u32 {
        self.qps.saturating_add(self.srqs)
    }
}

/// Memory that the device may reach, to be given back when it no longer does.
pub(crate) enum Resource {
    /// Handed out by the platform.
    Dma(DmaBuffer),
    /// The user's own.
    Mapping(Mapping),
}

impl Resource {
    /// Gives it back to the platform.
    ///
    /// # Safety
    /// The device does not use it any more.
    pub(crate) unsafe fn free<H: PciFunction>(self, hal: &H) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Dma(buffer) => hal.dma_free(buffer),
                Self::Mapping(mapping) => hal.unmap(mapping),
            }
        }
    }
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

    /// Runs a command that destroys the object of this number (DESTROY_*, DEALLOC_*). A device that failed has none
    /// left: nothing is sent.
    pub(crate) fn destroy(&self, opcode: Opcode, number: u32) -> Result<(), Error> {
        self.control.with(|control| control.destroy(&self.hal, opcode, number))
    }

    /// The same for an object whose memory is the user's: an error also where the device failed and cannot be stopped,
    /// since it may still reach that memory.
    pub(crate) fn destroy_for_good(&self, opcode: Opcode, number: u32) -> Result<(), Error> {
        self.control.with(|control| {
            let outcome = control.destroy(&self.hal, opcode, number);
            control.forgot(&self.hal, &outcome)
        })
    }

    /// DMA memory for an object.
    pub(crate) fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaBuffer, Error> {
        self.hal.dma_alloc(len, align).map_err(platform)
    }

    /// Gives back the memory of an object that the device was told to forget, by `outcome` of the command that
    /// destroyed it (or would have made it). Where the device may still use it, it is kept until the function was
    /// stopped.
    pub(crate) fn release(&self, resource: Resource, outcome: &Result<(), Error>) {
        self.control.with(|control| control.release(&self.hal, resource, outcome));
    }

    /// One event for the user, see [`bareverbs::Device::service`].
    pub(crate) fn service(&self) -> Result<Option<Event>, Error> {
        let event = self.control.with(|control| control.service(&self.hal))?;
        if event.is_none() {
            self.hal.idle();
        }
        Ok(event)
    }

    /// Drains the event queues and looks at the device's health, without telling anybody: for every 4,096th empty
    /// poll. Nothing if somebody else is at it.
    pub(crate) fn drive(&self) {
        let _ = self.control.try_with(|control| control.drive(&self.hal));
    }

    /// Enters an object into a table of [`Watches`] under its number.
    ///
    /// # Safety
    /// `watch` stays where it is until it is taken out again by [`Control::unwatch`].
    pub(crate) unsafe fn watch<T: AsRef<Watch>>(
        &self,
        table: fn(&Watches) -> &Table<T>,
        number: u32,
        watch: &T,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promise.
        self.control.with(|control| unsafe { Watches::insert(table(&control.watches), &self.hal, number, watch) })
    }

    /// Takes an object out of a table, and its events out of the queues and lists.
    pub(crate) fn unwatch(&self, table: fn(&Watches) -> &Table<Watch>, number: u32, watch: &Watch) {
        self.control.with(|control| control.unwatch(&self.hal, table, number, watch));
    }

    /// Notes all events that came until now, so that none is taken for one of what an object does next.
    pub(crate) fn see_events(&self) {
        self.control.with(|control| control.see_events(&self.hal));
    }

    /// A CQ has failed, which no event told: its QPs hear of it when the device is serviced next.
    pub(crate) fn cq_failed(&self) {
        self.control.with(Control::cq_failed);
    }

    /// Nobody is to hear that a QP uses no receive of its SRQ any more.
    pub(crate) fn forget_last_wqe(&self, watch: &Watch) {
        self.control.with(|control| control.forget_last_wqe(watch));
    }

    /// The mark by which address handles of this device are recognized.
    #[inline(always)]
    pub(crate) fn mark(&self) -> u32 {
        self.mark
    }

    /// Closes the function and opens it again. No object holds it.
    pub(crate) fn reopen(&mut self) -> Result<(), Error> {
        self.control.get_mut().close(&self.hal);
        // A device that is well was closed without a reset, and may have kept its tables.
        let reset = self.hal.reset();
        log::debug!("reset before opening again: {reset:?}");
        if let Err(e) = self.control.get_mut().ended(&self.hal, reset) {
            self.control.get_mut().stay_closed(e);
            return Err(e);
        }
        match bringup::open(self.hal.clone(), &self.config) {
            Ok(new) => {
                *self = new;
                Ok(())
            }
            Err(e) => {
                self.control.get_mut().stay_closed(e);
                Err(e)
            }
        }
    }

    /// Whether the device failed, and how.
    pub(crate) fn fatal(&self) -> Option<Error> {
        self.control.with(|control| control.fatal())
    }

    /// The same as an error, for verbs that send no command which would meet it.
    #[inline(never)]
    pub(crate) fn check_alive(&self) -> Result<(), Error> {
        self.fatal().map_or(Ok(()), Err)
    }
}

impl<H: PciFunction, P: Policy> Resident for Hca<H, P> {
    type Platform = H;

    fn platform(&self) -> &H {
        &self.hal
    }
}

impl<H: PciFunction, P: Policy> Drop for Hca<H, P> {
    fn drop(&mut self) {
        let control = self.control.get_mut();
        control.close(&self.hal);
        // SAFETY: taken once; the device is gone, and every object with it.
        unsafe {
            control.free_watches(&self.hal);
            ManuallyDrop::take(&mut self.users).free(&self.hal);
        }
    }
}
