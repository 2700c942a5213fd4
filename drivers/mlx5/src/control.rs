//! What control verbs work on, one caller at a time: commands, firmware's pages, events, health, and the device's end.

use crate::{
    cmd::{CommandQueue, PAGES_PER_COMMAND, PageList, Pending},
    eq::{self, EventQueue},
    error::platform,
    hca::Resource,
    health::Health,
    list::List,
    mw::Bound,
    pages::Ledger,
    registers::{Block, InitSegment},
    steering::Steering,
    table::Table,
    uar::Uar,
    vport::Addresses,
    watch::{CqWatch, Watch, Watches, news},
    xrc::Unused,
};
use bareverbs::{Error, Event};
use bareverbs_hal::{HalError, PciFunction};
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{manage_pages, manage_pages_op_mod, qp_2err},
    eqe::{event, page_request},
};
use core::{mem::ManuallyDrop, ptr::NonNull, time::Duration};

/// Event queues: one for all events but completions, one for each completion vector.
pub(crate) const MAX_EQS: usize = 33;

/// The state of the control path.
pub(crate) struct Control {
    pub(crate) registers: Block<InitSegment>,
    cmd: Option<CommandQueue>,
    pub(crate) ledger: Ledger,
    pub(crate) eqs: heapless::Vec<EventQueue, MAX_EQS>,
    pub(crate) uar: Option<Uar>,
    /// Addresses that the port lets in beside its own.
    pub(crate) addresses: Addresses,
    /// What raw packet QPs share.
    pub(crate) steering: Steering,
    health: Health,
    /// Given back by [`free_watches`](Self::free_watches).
    pub(crate) watches: ManuallyDrop<Watches>,
    /// Memory that the device would not let go of, kept until the function was stopped.
    orphans: List<Resource>,
    /// What XRC QPs name and never use; made for the first of them.
    pub(crate) unused: Option<Unused>,
    /// All windows, each leading to the next.
    pub(crate) windows: Option<NonNull<Bound>>,
    /// How far bring-up came, so that closing undoes exactly that.
    pub(crate) enabled: bool,
    pub(crate) initialized: bool,
    /// Which function the pages are for, as QUERY_PAGES told.
    pub(crate) function: u16,
    reclaim_timeout: Duration,
    fatal: Option<Error>,
    fatal_told: bool,
    /// A CQ has failed, and the QPs that complete to it were not told yet.
    cq_failed: bool,
    stopped: bool,
    closed: bool,
    /// Objects that count against the limits.
    pub(crate) pds: u32,
    pub(crate) xrcds: u32,
    pub(crate) regions: u32,
    pub(crate) windows_made: u32,
    pub(crate) cqs: u32,
    pub(crate) srqs: u32,
    /// XRC SRQs that ever were, modulo 2^32.
    pub(crate) xrc_srqs_made: u32,
    pub(crate) qps: u32,
    /// The variant byte of the next memory key: a key that is used again differs from the one before.
    pub(crate) variant: u8,
}

// SAFETY: windows leave their list before they go; everything else is `Send` by itself.
unsafe impl Send for Control {}

impl Control {
    pub(crate) fn new<H: PciFunction>(
        hal: &H,
        registers: Block<InitSegment>,
        cmd: CommandQueue,
        watches: Watches,
        health_period: Duration,
        reclaim_timeout: Duration,
    ) -> Self {
        Self {
            registers,
            cmd: Some(cmd),
            ledger: Ledger::default(),
            eqs: heapless::Vec::new(),
            uar: None,
            addresses: Addresses::default(),
            steering: Steering::default(),
            health: Health::new(hal, &registers, health_period),
            watches: ManuallyDrop::new(watches),
            orphans: List::default(),
            unused: None,
            enabled: false,
            initialized: false,
            function: 0,
            reclaim_timeout,
            fatal: None,
            fatal_told: false,
            cq_failed: false,
            stopped: false,
            closed: false,
            pds: 0,
            xrcds: 0,
            regions: 0,
            windows_made: 0,
            windows: None,
            cqs: 0,
            srqs: 0,
            xrc_srqs_made: 0,
            qps: 0,
            variant: 0,
        }
    }

    /// How the device failed, if it did.
    pub(crate) fn fatal(&self) -> Option<Error> {
        self.fatal
    }

    /// Commands handed to the device so far.
    pub(crate) fn commands(&self) -> u64 {
        self.cmd.as_ref().map_or(0, CommandQueue::issued)
    }

    /// From now on the device signs its answers.
    pub(crate) fn verify_signatures(&mut self) {
        if let Some(cmd) = &mut self.cmd {
            cmd.verify_signatures();
        }
    }

    fn queue(&mut self) -> Result<&mut CommandQueue, Error> {
        if let Some(fatal) = self.fatal {
            return Err(fatal);
        }
        self.cmd.as_mut().ok_or(Error::NotReady("the device is closed"))
    }

    /// Runs a command to its end. Its header is written here; `pages` follow the fixed part of the input; the output
    /// must be as long as the command's. Page requests that firmware makes meanwhile are served.
    pub(crate) fn execute<H: PciFunction>(
        &mut self,
        hal: &H,
        opcode: Opcode,
        op_mod: u32,
        fixed: &mut [u8],
        pages: &PageList<'_>,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let pending = self.queue()?.submit(hal, opcode, op_mod, fixed, pages, out.len())?;
        self.complete(hal, pending, out, true)
    }

    /// Runs MANAGE_PAGES, also while another command runs.
    fn manage_pages<H: PciFunction>(
        &mut self,
        hal: &H,
        op_mod: u32,
        function: u16,
        entries: usize,
        pages: &PageList<'_>,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let mut input = [0; manage_pages::IN_LEN];
        manage_pages::FUNCTION_ID.set(&mut input, function.into());
        manage_pages::INPUT_NUM_ENTRIES.set(&mut input, entries as u32);
        let pending = self.queue()?.submit_pages(hal, op_mod, &mut input, pages, out.len())?;
        self.complete(hal, pending, out, false)
    }

    fn complete<H: PciFunction>(
        &mut self,
        hal: &H,
        pending: Pending,
        out: &mut [u8],
        serve: bool,
    ) -> Result<(), Error> {
        loop {
            if serve {
                self.see_events(hal);
            }
            match self.queue()?.answered(hal, &pending) {
                Ok(true) => break,
                Ok(false) => {}
                Err(e) => {
                    self.fail(e);
                    return Err(e);
                }
            }
            if let Err(e) = self.health.check(hal, &self.registers) {
                self.fail(e);
                return Err(e);
            }
            hal.relax();
        }
        let result = self.queue()?.finish(hal, pending, out);
        if let Err(e @ Error::BadAnswer { .. }) = result {
            // Nobody knows what the device did: it may have taken the memory that the command named.
            self.fail(e);
        }
        result
    }

    /// Runs a command that destroys the object of this number.
    pub(crate) fn destroy<H: PciFunction>(&mut self, hal: &H, opcode: Opcode, number: u32) -> Result<(), Error> {
        if self.fatal.is_some() {
            return Ok(());
        }
        let mut input = [0; 16];
        input[8..12].copy_from_slice(&number.to_be_bytes());
        match self.execute(hal, opcode, 0, &mut input, &PageList::None, &mut [0; 16]) {
            // The device failed over it: it has no objects any more.
            Err(_) if self.fatal.is_some() => Ok(()),
            result => result,
        }
    }

    /// The device failed: no more commands, and every object hears of it.
    fn fail(&mut self, error: Error) {
        log::debug!("the device failed: {error}");
        self.fatal = Some(error);
        self.watches.device_failed();
    }

    /// Handles all that the event queues hold, and looks at the device's health when due.
    pub(crate) fn drive<H: PciFunction>(&mut self, hal: &H) -> Result<(), Error> {
        if let Some(fatal) = self.fatal {
            return Err(fatal);
        }
        self.see_events(hal);
        if core::mem::take(&mut self.cq_failed) {
            self.fail_users_of_cqs(hal);
        }
        if let Err(e) = self.health.check(hal, &self.registers) {
            self.fail(e);
        }
        self.fatal.map_or(Ok(()), Err)
    }

    /// A CQ has failed, which no event told.
    pub(crate) fn cq_failed(&mut self) {
        self.cq_failed = true;
    }

    /// Takes every QP to ERR of which a CQ has failed: the device does so only with those that want to complete (IBA
    /// 11.6.3.2). XRC SRQs are told too.
    fn fail_users_of_cqs<H: PciFunction>(&mut self, hal: &H) {
        self.watches.srqs_of_failed_cqs();
        let mut from = 0;
        while let Some((qpn, watch)) = self.watches.qp_of_failed_cq(from) {
            watch.raise(Watch::CQ_ERROR | Watch::QP_ERROR);
            if let Some(rqn) = watch.raw() {
                self.fail_raw(hal, qpn, rqn);
            } else {
                let mut input = [0; qp_2err::IN_LEN];
                qp_2err::QPN.set(&mut input, qpn);
                let out = &mut [0; qp_2err::OUT_LEN];
                let result = self.execute(hal, qp_2err::OPCODE, 0, &mut input, &PageList::None, out);
                log::debug!("QP {qpn:#x}, whose CQ has failed, to ERR: {result:?}");
            }
            from = qpn + 1;
        }
    }

    /// Does what the events that the queues hold ask of the driver, and gives the queues back to the device; telling
    /// them is left to [`service`](Self::service).
    pub(crate) fn see_events<H: PciFunction>(&mut self, hal: &H) {
        for n in 0..self.eqs.len() {
            // Every event lies in a ring of known size, so that this ends even if the device writes without pause.
            for _ in 0..self.eqs.get_mut(n).map_or(0, |eq| eq.capacity()) {
                let Some(e) = self.eqs.get_mut(n).and_then(|eq| eq.see(hal)) else { break };
                eq::note(&e, &self.watches);
                self.cq_failed |= e.kind() == event::CQ_ERROR;
                if e.kind() == event::PAGE_REQUEST {
                    let function = page_request::FUNCTION_ID.get(e.data()) as u16;
                    let wanted = page_request::NUM_PAGES.get(e.data()) as i32;
                    let result = match wanted {
                        ..0 => self.take_pages(hal, function, wanted.unsigned_abs()).map(|_| ()),
                        _ => self.give_pages(hal, function, wanted.unsigned_abs(), true),
                    };
                    log::debug!("firmware asked for {wanted} pages: {result:?}");
                }
            }
            if self.fatal.is_none()
                && let (Some(uar), Some(eq)) = (&self.uar, self.eqs.get_mut(n))
            {
                eq.ring(hal, uar);
            }
        }
    }

    /// An object goes: takes it out of its table, and its events out of the queues and lists.
    pub(crate) fn unwatch<H: PciFunction>(
        &mut self,
        hal: &H,
        table: fn(&Watches) -> &Table<Watch>,
        number: u32,
        watch: &Watch,
    ) {
        table(&self.watches).remove(number, watch);
        self.see_events(hal);
        self.watches.forget(watch, u32::MAX);
    }

    /// That a QP uses no receive of its SRQ any more was of the driver's own making.
    pub(crate) fn forget_last_wqe(&mut self, watch: &Watch) {
        self.watches.forget(watch, 1 << news::LAST_WQE_REACHED);
    }

    /// The same of a CQ.
    pub(crate) fn unwatch_cq<H: PciFunction>(&mut self, hal: &H, number: u32, watch: &CqWatch) {
        self.watches.cqs.remove(number, watch);
        self.see_events(hal);
        self.watches.forget_cq(watch);
    }

    /// One event for the user, or the device's end: first as an event, from then on as an error.
    pub(crate) fn service<H: PciFunction>(&mut self, hal: &H) -> Result<Option<Event>, Error> {
        let alive = self.drive(hal);
        if let Some(event) = self.watches.next() {
            return Ok(Some(event));
        }
        match alive {
            Err(e) if !self.fatal_told => {
                self.fatal_told = true;
                Ok(Some(Event::DeviceFatal(e)))
            }
            result => result.map(|()| None),
        }
    }

    /// Gives firmware pages. If there are none it is told so where it asked by an event.
    pub(crate) fn give_pages<H: PciFunction>(
        &mut self,
        hal: &H,
        function: u16,
        wanted: u32,
        asked_by_event: bool,
    ) -> Result<(), Error> {
        let mut left = wanted as usize;
        while left > 0 {
            let mut list = [0; PAGES_PER_COMMAND];
            let list = &mut list[..left.min(PAGES_PER_COMMAND)];
            let mut taken = 0;
            let mut result = Ok(());
            for place in list.iter_mut() {
                match self.ledger.take(hal, left - taken) {
                    Ok(addr) => *place = addr,
                    Err(e) => {
                        result = Err(e);
                        break;
                    }
                }
                taken += 1;
            }
            let list = list.get(..taken).unwrap_or_default();
            if result.is_ok() {
                let each = |f: &mut dyn FnMut(u64)| list.iter().for_each(|addr| f(*addr));
                let pages = PageList::Each { count: taken, each: &each };
                result = self.manage_pages(hal, manage_pages_op_mod::GIVE, function, taken, &pages, &mut [0; 16]);
            }
            if let Err(e) = result {
                // After a failure of the device it may have the pages: they stay in the ledger until it was stopped.
                if self.fatal.is_none() {
                    list.iter().for_each(|addr| {
                        self.ledger.put_back(*addr);
                    });
                    self.ledger.trim(hal);
                    if asked_by_event {
                        let op_mod = manage_pages_op_mod::CANT_GIVE;
                        self.manage_pages(hal, op_mod, function, 0, &PageList::None, &mut [0; 16])?;
                    }
                }
                return Err(e);
            }
            left -= taken;
        }
        Ok(())
    }

    /// Asks firmware for pages back and tells how many came: at most `wanted`, in one command.
    pub(crate) fn take_pages<H: PciFunction>(&mut self, hal: &H, function: u16, wanted: u32) -> Result<u32, Error> {
        let mut left = wanted.min(self.ledger.given());
        let mut total = 0;
        while left > 0 {
            let count = (left as usize).min(PAGES_PER_COMMAND);
            let mut out = [0; manage_pages::OUT_LEN + 8 * PAGES_PER_COMMAND];
            let out = &mut out[..manage_pages::OUT_LEN + 8 * count];
            self.manage_pages(hal, manage_pages_op_mod::TAKE, function, count, &PageList::None, out)?;
            let came = manage_pages::out::OUTPUT_NUM_ENTRIES.get(out) as usize;
            let bad = |why| Error::BadAnswer { opcode: Opcode::MANAGE_PAGES.0, why };
            if came > count {
                return Err(bad("more pages than were asked for"));
            }
            for addr in out[manage_pages::out::PAS..].chunks_exact(8).take(came) {
                let addr = u64::from_be_bytes(addr.try_into().unwrap_or_default());
                if !self.ledger.put_back(addr) {
                    return Err(bad("a page that the device does not have"));
                }
            }
            total += came as u32;
            left -= count as u32;
            if came < count {
                break;
            }
        }
        self.ledger.trim(hal);
        Ok(total)
    }

    /// Gives back memory by the outcome of the command that took it from the device (or did not give it).
    pub(crate) fn release<H: PciFunction>(&mut self, hal: &H, resource: Resource, outcome: &Result<(), Error>) {
        if self.forgot(hal, outcome).is_ok() {
            // SAFETY: the device has forgotten it, or cannot reach memory any more.
            return unsafe { resource.free(hal) };
        }
        if let Err((_, e)) = self.orphans.push(hal, resource) {
            // Lost for good; the device may write to it, so nobody else may have it.
            log::debug!("memory is lost: {e}");
        }
    }

    /// Whether the device reaches an object's memory no more, by the outcome of the command that destroyed the object.
    /// After a fatal error commands are not sent, so that their success tells nothing: only stopping the function does.
    pub(crate) fn forgot<H: PciFunction>(&mut self, hal: &H, outcome: &Result<(), Error>) -> Result<(), Error> {
        let Some(fatal) = self.fatal else { return if self.stopped { Ok(()) } else { *outcome } };
        self.stop(hal);
        if self.stopped { Ok(()) } else { Err(fatal) }
    }

    /// Keeps the function from touching memory, whatever state it is in.
    pub(crate) fn stop<H: PciFunction>(&mut self, hal: &H) {
        if !self.stopped {
            let silent = hal.silence();
            let reset = hal.reset();
            log::debug!("stopped the function: bus master off {silent:?}, reset {reset:?}");
            self.stopped = silent.is_ok() || reset.is_ok();
        }
    }

    /// Undoes the bring-up as far as it came, and gives all memory back. Where the device refuses, it is stopped; what
    /// could not be stopped may be closed again.
    pub(crate) fn close<H: PciFunction>(&mut self, hal: &H) {
        let closed = core::mem::replace(&mut self.closed, true);
        match if closed { Ok(()) } else { self.tear_down(hal) } {
            Ok(()) if self.stopped => {}
            Ok(()) => self.stopped = hal.silence().is_ok(),
            Err(e) => log::debug!("teardown: {e}"),
        }
        self.stop(hal);
        if self.stopped {
            self.free(hal);
        }
    }

    /// The closed function was reset, or not: what runs on cannot be opened again, and keeps its memory.
    pub(crate) fn ended<H: PciFunction>(&mut self, hal: &H, reset: Result<(), HalError>) -> Result<(), Error> {
        if self.stopped {
            return Ok(());
        }
        reset.map_err(platform)?;
        self.stopped = true;
        self.free(hal);
        Ok(())
    }

    /// The device is closed and did not come back: every verb says why.
    pub(crate) fn stay_closed(&mut self, error: Error) {
        (self.fatal, self.fatal_told) = (Some(error), true);
    }

    /// Gives back what closing leaves: no object is left that is watched.
    ///
    /// # Safety
    /// Called once, at the end.
    pub(crate) unsafe fn free_watches<H: PciFunction>(&mut self, hal: &H) {
        // SAFETY: the caller's promise.
        unsafe { ManuallyDrop::take(&mut self.watches) }.free(hal);
    }

    /// The teardown commands, in order.
    fn tear_down<H: PciFunction>(&mut self, hal: &H) -> Result<(), Error> {
        if let Some(fatal) = self.fatal {
            return Err(fatal);
        }
        while let Some((opcode, number)) = self.unused.as_mut().and_then(Unused::take_last) {
            self.run_destroy(hal, opcode, number)?;
        }
        self.close_steering(hal)?;
        // The asynchronous queue goes last, for page requests come there.
        for n in (0..self.eqs.len()).rev() {
            if let Some(number) = self.eqs.get_mut(n).and_then(|eq| eq.number.take()) {
                self.run_destroy(hal, Opcode::DESTROY_EQ, number.into())?;
            }
        }
        if let Some(uar) = self.uar.take() {
            self.run_destroy(hal, Opcode::DEALLOC_UAR, uar.number)?;
        }
        if self.initialized {
            self.run_destroy(hal, Opcode::TEARDOWN_HCA, 0)?;
            self.initialized = false;
        }
        if self.enabled {
            let deadline = hal.now().saturating_add(self.reclaim_timeout);
            while self.ledger.given() > 0 {
                if self.take_pages(hal, self.function, u32::MAX)? == 0 {
                    if hal.now() >= deadline {
                        return Err(Error::BadAnswer { opcode: Opcode::MANAGE_PAGES.0, why: "pages do not come back" });
                    }
                    hal.relax();
                }
            }
            self.run_destroy(hal, Opcode::DISABLE_HCA, 0)?;
            self.enabled = false;
        }
        Ok(())
    }

    /// As [`destroy`](Self::destroy), but a device that fails over it is an error.
    fn run_destroy<H: PciFunction>(&mut self, hal: &H, opcode: Opcode, number: u32) -> Result<(), Error> {
        self.destroy(hal, opcode, number)?;
        self.fatal.map_or(Ok(()), Err)
    }

    /// Gives all memory back. The function was stopped.
    fn free<H: PciFunction>(&mut self, hal: &H) {
        self.steering.free(hal);
        // SAFETY: the function cannot reach memory any more.
        unsafe {
            if let Some(cmd) = self.cmd.take() {
                cmd.free(hal);
            }
            while let Some(eq) = self.eqs.pop() {
                eq.free(hal);
            }
            self.ledger.free(hal);
            if let Some(unused) = self.unused.take() {
                unused.free(hal);
            }
            while let Some(resource) = self.orphans.take(hal, |_| true) {
                resource.free(hal);
            }
        }
    }
}

/// Refuses one object more than the limit fixed at open.
pub(crate) fn count_up(count: &mut u32, max: u32, what: bareverbs::Argument) -> Result<(), Error> {
    if *count >= max {
        return Err(Error::OutOfRange { what, wanted: u64::from(*count) + 1, max: max.into() });
    }
    *count += 1;
    Ok(())
}
