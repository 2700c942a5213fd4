//! Completion queues. PRM: "Completion Queues"; manual pages ibv_create_cq, ibv_resize_cq, ibv_req_notify_cq.

use crate::{
    buffer::{Buffer, RECORD_LEN, record},
    channel::ChannelObject,
    cmd::PageList,
    control::count_up,
    counted::{Counted, Resident, handle},
    cq_ring::{CqRing, LOG_POLLS, Next, Ring, Shown},
    cq_view::CqView,
    device::Mlx5,
    hca::Hca,
    policy::{Guards, Lock, Policy},
    target::Target,
    users::NO_CQN,
    watch::{CqWatch, Watch},
};
use bareverbs::{Argument, Completion, CompletionQueue, CqInit, Cqn, Error, LinkLayer, Notify, PollError};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    cmd::{Opcode, Status},
    commands::{create_cq, modify_cq, modify_cq_op_mod, modify_cq_select, resize_cq_select},
    context::cqc,
    registers::cq_doorbell,
};
use core::{
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// What is the CQ's beside its ring.
struct CqMemory {
    ring: Buffer,
    /// Doorbell record.
    record: Buffer,
    /// Completion events that came, as far as they were told.
    events: u32,
    /// Since the last of them somebody asked for any completion.
    any: bool,
}

/// A completion queue, held by its handle and by the QPs that complete to it.
pub(crate) struct CqObject<H: PciFunction, P: Policy> {
    /// What events say of it.
    watch: CqWatch,
    ring: <P as Guards>::Lock<CqRing>,
    /// Where the ring's consumer stands: a poll that finds nothing takes no lock.
    next: Next,
    /// Empty polls. Only the handle counts.
    polls: AtomicU32,
    /// `None` once it is given back.
    memory: <P as Guards>::Lock<Option<CqMemory>>,
    cqn: AtomicU32,
    /// Where its completion events are told, if not by the device; `watch` leads there.
    _channel: Option<Counted<ChannelObject<H, P>, P>>,
    pub(crate) device: Mlx5<H, P>,
}

impl<H: PciFunction, P: Policy> Resident for CqObject<H, P> {
    type Platform = H;

    fn platform(&self) -> &H {
        &self.hca().hal
    }
}

/// A completion queue (ibv_create_cq). Polling it touches ring memory and one flag only; each 4,096th empty poll
/// services the device.
pub struct Cq<H: PciFunction, P: Policy>(pub(crate) Counted<CqObject<H, P>, P>);

handle!(Cq);

/// Log of the smallest ring that holds `entries`. There is one entry more: when the device changes over to another
/// ring it writes a last entry into the old one.
const fn log_entries(entries: u32) -> u32 {
    (entries + 1).next_power_of_two().trailing_zeros()
}

fn check_entries<H: PciFunction, P: Policy>(hca: &Hca<H, P>, entries: u32) -> Result<(), Error> {
    let max = hca.attr.max_cqe;
    if entries == 0 || entries > max {
        return Err(Error::OutOfRange { what: Argument::CqEntries, wanted: entries.into(), max: max.into() });
    }
    Ok(())
}

impl<H: PciFunction, P: Policy> Cq<H, P> {
    /// Makes a CQ. PRM: CREATE_CQ.
    pub(crate) fn create(
        device: &Mlx5<H, P>,
        init: &CqInit,
        channel: Option<Counted<ChannelObject<H, P>, P>>,
    ) -> Result<Self, Error> {
        let hca = device.hca();
        check_entries(hca, init.entries)?;
        let vectors = hca.caps.limits.vectors;
        let no_vector = Error::OutOfRange {
            what: Argument::CompVector,
            wanted: init.comp_vector.into(),
            max: vectors.saturating_sub(1).into(),
        };
        if init.comp_vector >= vectors {
            return Err(no_vector);
        }
        let eqn = hca.control.with(|control| {
            let eqn = control.eqs.get(init.comp_vector as usize + 1).and_then(|eq| eq.number);
            // A device that is closed has no event queues.
            let eqn = eqn.ok_or(control.fatal().unwrap_or(no_vector))?;
            count_up(&mut control.cqs, hca.caps.limits.cqs, Argument::Cqs)?;
            Ok::<_, Error>(eqn)
        })?;
        let log = log_entries(init.entries);
        let log_stride = if init.large_entries { 7 } else { 6 };
        let memory = match CqMemory::new(hca, log, log_stride) {
            Ok(memory) => memory,
            Err(e) => {
                hca.control.with(|control| control.cqs -= 1);
                return Err(e);
            }
        };
        // SAFETY: the buffer has that many entries and goes with the object.
        let ring = unsafe { Ring::new(memory.ring.ptr(), log, log_stride) };
        ring.invalidate();
        let infiniband = hca.caps.link == LinkLayer::InfiniBand;
        // SAFETY: as above; the record goes with the object too, which holds its device, which holds the table.
        let ring = unsafe { CqRing::new(ring, record(&memory.record, 0), hca.users.lookup(), infiniband, P::SHARED) };
        let list = channel.as_ref().map(|channel| NonNull::from(&channel.completions));
        let object = CqObject {
            // SAFETY: the object holds the channel.
            watch: unsafe { CqWatch::new(init.context, list) },
            next: Next::new(&ring),
            polls: AtomicU32::new(0),
            ring: Lock::new(ring),
            memory: Lock::new(Some(memory)),
            cqn: AtomicU32::new(NO_CQN),
            _channel: channel,
            device: device.clone(),
        };
        // From here on dropping the object undoes everything.
        let cq = Self(Counted::new(object)?);
        cq.0.create(eqn, log, log_stride)?;
        Ok(cq)
    }
}

impl CqMemory {
    fn new<H: PciFunction, P: Policy>(hca: &Hca<H, P>, log: u32, log_stride: u32) -> Result<Self, Error> {
        let ring = Buffer::new(hca, 1 << (log + log_stride))?;
        match Buffer::new(hca, RECORD_LEN) {
            Ok(record) => Ok(Self { ring, record, events: 0, any: false }),
            Err(e) => {
                ring.free(hca, &Ok(()));
                Err(e)
            }
        }
    }
}

/// Describes a ring's memory in a context.
fn describe(input: &mut [u8], at: usize, ring: &Buffer, log: u32, len: usize) {
    cqc::LOG_CQ_SIZE.at(at).set(input, log);
    cqc::LOG_PAGE_SIZE.at(at).set(input, ring.log_page(len) - 12);
}

impl<H: PciFunction, P: Policy> CqObject<H, P> {
    #[inline(always)]
    fn hca(&self) -> &Hca<H, P> {
        self.device.hca()
    }

    fn create(&self, eqn: u8, log: u32, log_stride: u32) -> Result<(), Error> {
        const CQC: usize = create_cq::CQC;
        let mut input = [0; create_cq::IN_LEN];
        let mut out = [0; create_cq::OUT_LEN];
        self.memory.with(|memory| {
            let Some(memory) = memory else { return Err(Error::NotReady("the CQ is gone")) };
            let len = 1 << (log + log_stride);
            let size = if log_stride == 7 { cqc::cqe_size::BYTES_128 } else { cqc::cqe_size::BYTES_64 };
            cqc::CQE_SZ.at(CQC).set(&mut input, size);
            cqc::UAR_PAGE.at(CQC).set(&mut input, self.hca().uar.number);
            cqc::C_EQN.at(CQC).set(&mut input, eqn.into());
            cqc::DBR_ADDR.at(CQC).set(&mut input, memory.record.addr(0));
            describe(&mut input, CQC, &memory.ring, log, len);
            self.hca().execute(create_cq::OPCODE, 0, &mut input, &memory.ring.pages(len), &mut out)
        })?;
        let cqn = create_cq::out::CQN.get(&out);
        self.cqn.store(cqn, Ordering::Relaxed);
        self.ring.with(|ring| ring.cqn = cqn);
        // SAFETY: the object takes the number out before it goes.
        unsafe { self.hca().watch(|watches| &watches.cqs, cqn, &self.watch) }
    }

    /// Takes the CQ from the device, unless somebody has events of it still to acknowledge.
    fn destroy(&self) -> Result<(), Error> {
        self.remove(|events| if events == 0 { Ok(()) } else { Err(Error::Unacknowledged { events }) })
    }

    /// Takes the CQ from the device, once, if `check` allows it with so many events unacknowledged; no event is told in
    /// between. PRM: DESTROY_CQ.
    fn remove(&self, check: impl FnOnce(u32) -> Result<(), Error>) -> Result<(), Error> {
        let (hca, cqn) = (self.hca(), self.cqn());
        if cqn == NO_CQN {
            return Ok(());
        }
        hca.control.with(|control| {
            check(self.watch.unacknowledged())?;
            control.destroy(&hca.hal, Opcode::DESTROY_CQ, cqn)?;
            control.unwatch_cq(&hca.hal, cqn, &self.watch);
            Ok::<_, Error>(())
        })?;
        self.cqn.store(NO_CQN, Ordering::Relaxed);
        Ok(())
    }

    /// Returns when every poll that is going on now has ended.
    pub(crate) fn wait(&self) {
        if P::SHARED {
            self.ring.with(|_| ());
        }
    }

    /// Works on the ring, and tells afterwards where its consumer stands.
    #[inline(always)]
    fn with_consumer<R>(&self, f: impl FnOnce(&mut CqRing) -> R) -> R {
        self.ring.with(|ring| {
            let result = f(ring);
            self.next.set_from(ring);
            result
        })
    }

    /// Its number.
    pub(crate) fn cqn(&self) -> u32 {
        self.cqn.load(Ordering::Relaxed)
    }

    /// Takes out all completions of a QP, see [`CqRing::sweep`].
    pub(crate) fn sweep(&self, user_index: u32, target: &Target) {
        self.with_consumer(|ring| ring.sweep(&self.hca().hal, user_index, target));
    }

    /// An error, once the CQ or the device failed.
    #[inline(always)]
    fn check(&self) -> Result<(), PollError> {
        if self.watch.flags() & (Watch::CQ_ERROR | Watch::DEVICE_FATAL) != 0 { Err(self.failed()) } else { Ok(()) }
    }

    /// Takes the next completion for a view to show.
    #[inline(always)]
    pub(crate) fn advance(&self) -> Result<Option<Shown>, PollError> {
        self.check()?;
        let shown = self.with_consumer(|ring| ring.advance(&self.hca().hal))?;
        if shown.is_none() {
            self.hca().hal.idle();
        }
        self.count();
        Ok(shown)
    }

    /// Takes one completion; 0 if [`nothing`](Self::nothing) says why there is none. A function of its own: it needs no
    /// stack, and a poll of an empty queue none of it.
    #[inline(never)]
    fn poll_one(&self, place: &mut Completion) -> usize {
        if self.ring.with(|ring| ring.poll_one(&self.next, &self.hca().hal, P::SHARED, place)) {
            return 1;
        }
        self.poll_odd(core::slice::from_mut(place))
    }

    /// The same, of an entry that does not come every day.
    #[cold]
    #[inline(never)]
    fn poll_odd(&self, out: &mut [Completion]) -> usize {
        self.ring.with(|ring| self.rest(ring, out, 0))
    }

    /// Takes any number of completions, as [`poll_one`](Self::poll_one).
    #[inline(never)]
    fn poll_many(&self, out: &mut [Completion]) -> usize {
        self.ring.with(|ring| {
            let taken = ring.poll_many(&self.next, &self.hca().hal, P::SHARED, out);
            taken.unwrap_or_else(|taken| self.rest(ring, out, taken))
        })
    }

    /// The rest of a poll; services the device now and then. Cold as seen from the others.
    #[cold]
    #[inline(never)]
    fn rest(&self, ring: &mut CqRing, out: &mut [Completion], taken: u32) -> usize {
        let taken = ring.poll_odd(&self.next, &self.hca().hal, out, taken);
        if ring.is_due() {
            self.service();
        }
        taken
    }

    /// Why a poll took nothing although there was something.
    #[cold]
    #[inline(never)]
    fn nothing(&self) -> Result<usize, PollError> {
        self.ring.with(|ring| ring.refusal())?;
        self.idle();
        Ok(0)
    }

    #[cold]
    fn failed(&self) -> PollError {
        if self.watch.flags() & Watch::DEVICE_FATAL != 0 { PollError::DeviceFatal } else { PollError::CqError }
    }

    /// A view has ended.
    pub(crate) fn end_view(&self) {
        self.ring.with(CqRing::end_view);
    }

    /// After an empty poll: lets others run, and services the device now and then.
    #[inline(always)]
    fn idle(&self) {
        self.hca().hal.idle();
        self.count();
    }

    /// Counts a poll.
    #[inline(always)]
    fn count(&self) {
        let polls = self.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.store(polls, Ordering::Relaxed);
        if polls & ((1 << LOG_POLLS) - 1) == 0 {
            self.service();
        }
    }

    #[cold]
    #[inline(never)]
    fn service(&self) {
        self.hca().drive();
    }

    /// An error, once the CQ or the device failed: then no verb works on it any more.
    pub(crate) fn check_alive(&self) -> Result<(), Error> {
        match self.watch.flags() {
            flags if flags & Watch::DEVICE_FATAL != 0 => Err(self.hca().fatal().unwrap_or(Error::CqError)),
            flags if flags & Watch::CQ_ERROR != 0 => Err(Error::CqError),
            _ => Ok(()),
        }
    }

    /// See [`CqRing::room_without`].
    pub(crate) fn room_without(&self, user_index: u32, target: &Target) -> (u32, u32) {
        self.ring.with(|ring| ring.room_without(&self.hca().hal, user_index, target))
    }

    /// Asks for an event. PRM: "CQ DoorBell Register".
    fn arm(&self, which: Notify) -> Result<(), Error> {
        self.check_alive()?;
        let (events, any) = self.memory.with(|memory| {
            let Some(memory) = memory else { return (0, true) };
            if self.watch.flags() & Watch::CQ_EVENT != 0 {
                self.watch.clear(Watch::CQ_EVENT);
                memory.events = memory.events.wrapping_add(1);
                memory.any = false;
            }
            // The device would take the newest request alone; but one for any completion holds until its event has come
            // (IBA 11.4.2.2, C11-31 and C11-32).
            memory.any |= which == Notify::Any;
            (memory.events, memory.any)
        });
        let mut doorbell = [0; 8];
        cq_doorbell::CMD_SN.set(&mut doorbell, events & cq_doorbell::CMD_SN.max());
        cq_doorbell::CMD.set(&mut doorbell, (!any).into());
        cq_doorbell::CQN.set(&mut doorbell, self.cqn());
        let hal = &self.hca().hal;
        self.ring.with(|ring| {
            cq_doorbell::CONSUMER_INDEX.set(&mut doorbell, ring.index());
            let [a, b, c, d, ..] = doorbell;
            ring.write_arm(u32::from_be_bytes([a, b, c, d]));
            hal.mmio_wmb();
            hal.write64(&self.hca().uar.page.cq_doorbell, u64::from_ne_bytes(doorbell));
        });
        Ok(())
    }

    /// Goes over to a ring of `1 << log` entries. PRM: MODIFY_CQ with op_mod 1.
    fn resize(&self, log: u32) -> Result<(), Error> {
        const CQC: usize = modify_cq::CQC;
        self.with_consumer(|ring| {
            let log_stride = ring.ring.log_stride;
            let len = 1 << (log + log_stride);
            let buffer = Buffer::new(self.hca(), len)?;
            // SAFETY: the buffer has that many entries and goes with the object once the ring is in use.
            let new = unsafe { Ring::new(buffer.ptr(), log, log_stride) };
            new.invalidate();
            let mut input = [0; modify_cq::IN_LEN];
            modify_cq::CQN.set(&mut input, self.cqn());
            modify_cq::FIELD_SELECT.set(
                &mut input,
                resize_cq_select::LOG_CQ_SIZE | resize_cq_select::PAGE_OFFSET | resize_cq_select::LOG_PAGE_SIZE,
            );
            let size = if log_stride == 7 { cqc::cqe_size::BYTES_128 } else { cqc::cqe_size::BYTES_64 };
            cqc::CQE_SZ.at(CQC).set(&mut input, size);
            describe(&mut input, CQC, &buffer, log, len);
            let mut out = [0; modify_cq::OUT_LEN];
            let op_mod = modify_cq_op_mod::RESIZE;
            let result = self.hca().execute(modify_cq::OPCODE, op_mod, &mut input, &buffer.pages(len), &mut out);
            if let Err(e) = result {
                buffer.free(self.hca(), &Err(e));
                // More came since than the new ring holds.
                let full = Status::BadSizeOutstandingCqes.to_raw();
                let below = matches!(e, Error::Command { status, .. } if status == full);
                return Err(if below { Error::BelowUnpolled { unpolled: ring.unpolled() } } else { e });
            }
            // The last entry of the old ring was written before the answer.
            let switched = ring.switch(&self.hca().hal, new);
            let why = "the old ring of a CQ did not end";
            let result = if switched { Ok(()) } else { Err(Error::BadAnswer { opcode: modify_cq::OPCODE.0, why }) };
            if result.is_err() {
                // Nobody knows any more where completions go.
                self.watch.raise(Watch::CQ_ERROR);
                self.hca().cq_failed();
            }
            // The device has the new one in any case.
            self.memory.with(|memory| match memory {
                Some(memory) => core::mem::replace(&mut memory.ring, buffer).free(self.hca(), &result),
                None => buffer.free(self.hca(), &result),
            });
            result
        })
    }
}

impl<H: PciFunction, P: Policy> Drop for CqObject<H, P> {
    fn drop(&mut self) {
        let outcome = self.remove(|_| Ok(()));
        if let Some(memory) = self.memory.get_mut().take() {
            memory.ring.free(self.hca(), &outcome);
            memory.record.free(self.hca(), &outcome);
        }
        let (hca, cqn) = (self.hca(), self.cqn());
        hca.control.with(|control| {
            if outcome.is_err() {
                control.unwatch_cq(&hca.hal, cqn, &self.watch);
            }
            control.cqs -= 1;
        });
    }
}

impl<H: PciFunction, P: Policy> CompletionQueue for Cq<H, P> {
    type View<'a>
        = CqView<'a, H, P>
    where
        Self: 'a;

    fn cqn(&self) -> Cqn {
        Cqn::new(self.0.cqn())
    }

    fn capacity(&self) -> u32 {
        self.0.ring.with(|ring| (1 << ring.ring.log) - 1)
    }

    fn context(&self) -> u64 {
        self.0.watch.context()
    }

    #[inline]
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, PollError> {
        let object = &*self.0;
        object.check()?;
        // SAFETY: only this handle, which is borrowed exclusively, changes the ring for another.
        if unsafe { object.next.is_empty() } {
            object.idle();
            return Ok(0);
        }
        let taken = match out {
            [place] => object.poll_one(place),
            _ => object.poll_many(out),
        };
        if taken == 0 { object.nothing() } else { Ok(taken) }
    }

    #[inline]
    fn view(&mut self) -> CqView<'_, H, P> {
        CqView::new(&self.0)
    }

    fn resize(&mut self, entries: u32) -> Result<(), Error> {
        let object = &*self.0;
        check_entries(object.hca(), entries)?;
        object.check_alive()?;
        let log = log_entries(entries);
        let now = object.ring.with(|ring| ring.fit(entries).map(|()| ring.ring.log))?;
        if log == now {
            return Ok(());
        }
        object.resize(log)
    }

    fn request_notify(&mut self, which: Notify) -> Result<(), Error> {
        self.0.arm(which)
    }

    fn ack_events(&mut self, n: u32) -> Result<(), Error> {
        self.0.watch.acknowledge(n)
    }

    fn moderate(&mut self, count: u16, period: Duration) -> Result<(), Error> {
        self.0.check_alive()?;
        let micros = period.as_micros() + u128::from(!period.subsec_nanos().is_multiple_of(1000));
        let max = cqc::CQ_PERIOD.max();
        if micros > max.into() {
            let wanted = u64::try_from(micros).unwrap_or(u64::MAX);
            return Err(Error::OutOfRange { what: Argument::ModerationPeriod, wanted, max: max.into() });
        }
        let mut input = [0; modify_cq::IN_LEN];
        modify_cq::CQN.set(&mut input, self.0.cqn());
        modify_cq::FIELD_SELECT.set(&mut input, modify_cq_select::CQ_PERIOD | modify_cq_select::CQ_MAX_COUNT);
        cqc::CQ_PERIOD.at(modify_cq::CQC).set(&mut input, micros as u32);
        cqc::CQ_MAX_COUNT.at(modify_cq::CQC).set(&mut input, count.into());
        let mut out = [0; modify_cq::OUT_LEN];
        self.0.hca().execute(modify_cq::OPCODE, modify_cq_op_mod::MODIFY, &mut input, &PageList::None, &mut out)
    }
}
