//! Shared receive queues: receive memory pools of linked WQEs, and XRC SRQs. PRM: "Receive Memory Pool (RMP)", "XRC SRQ";
//! manual pages ibv_create_srq, ibv_create_srq_ex, ibv_modify_srq, ibv_query_srq.

use crate::{
    buffer::{Buffer, RECORD_LEN, dword, record},
    cmd::PageList,
    control::count_up,
    counted::{Counted, Resident, handle},
    cq::CqObject,
    device::Mlx5,
    hca::Hca,
    owned::Owned,
    pd::{Domain, Pd},
    policy::{Lock, Policy},
    rq::{RecvMemory, SrqRing},
    state::StateMemory,
    users::{NO_CQN, NO_NUMBER, Queueless},
    watch::Watch,
};
use bareverbs::{
    Argument, Error, Object, PostError, PostListError, RecvWr, SharedReceiveQueue, SrqAttr, SrqInit, Srqn, XrcSrqInit,
    srq::{SrqSlot, SrqSlots},
};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{arm_xrc_srq, arm_xrc_srq_op_mod, create_rmp, create_xrc_srq, modify_rmp, query_rmp, query_xrc_srq},
    context::{rmpc, wq, xrc_srqc},
    registers::doorbell_record,
    wqe::DS,
};
use core::{
    borrow::Borrow,
    mem::ManuallyDrop,
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

/// Number of an SRQ that the device does not have.
const NO_SRQN: u32 = u32::MAX;
/// No user index.
const NO_USER: u32 = u32::MAX;
/// Bit of MODIFY_RMP's mask for the limit.
const LIMIT: u64 = 1;

/// A shared receive queue, held by its handle and by the QPs that receive from it.
pub(crate) struct SrqObject<H: PciFunction, P: Policy> {
    watch: Watch,
    /// The slots, which pollers give back.
    pub(crate) slots: SrqSlots,
    ring: Owned<SrqRing>,
    srqn: AtomicU32,
    max_sge: u32,
    context: u64,
    /// What an XRC SRQ has beside a common one.
    xrc: Option<Xrc<H, P>>,
    buffer: ManuallyDrop<Buffer>,
    state: ManuallyDrop<StateMemory<SrqSlot>>,
    pub(crate) pd: Pd<H, P>,
    pub(crate) device: Mlx5<H, P>,
}

/// What an XRC SRQ holds. Its completions name it by a user index of its own.
struct Xrc<H: PciFunction, P: Policy> {
    domain: Counted<Domain<H, P>, P>,
    cq: Counted<CqObject<H, P>, P>,
    target: ManuallyDrop<Queueless>,
    user_index: AtomicU32,
}

// SAFETY: the slots are atomics; the ring is reached by the one handle only; buffers are addresses.
unsafe impl<H: PciFunction + Send + Sync> Send for SrqObject<H, crate::Shared> {}
// SAFETY: as above.
unsafe impl<H: PciFunction + Send + Sync> Sync for SrqObject<H, crate::Shared> {}

impl<H: PciFunction, P: Policy> Resident for SrqObject<H, P> {
    type Platform = H;

    fn platform(&self) -> &H {
        &self.device.hca().hal
    }
}

/// A shared receive queue (ibv_create_srq).
///
/// With [`crate::Shared`], completions of its QPs may be polled from several CQs on several threads while one thread
/// posts: slots come back over a ring of free ones, whose writers take a latch (see [`bareverbs::srq`]).
pub struct Srq<H: PciFunction, P: Policy>(pub(crate) Counted<SrqObject<H, P>, P>);

handle!(Srq);

/// Sizes of a ring: logs of WQEs and of the bytes of one.
#[derive(Clone, Copy)]
struct Shape {
    log_slots: u32,
    log_stride: u32,
}

impl Shape {
    /// The smallest ring that does what is asked for. One slot always stays back; each WQE begins with a next segment.
    fn new<H: PciFunction, P: Policy>(hca: &Hca<H, P>, init: &SrqAttr) -> Result<Self, Error> {
        let check = |what, wanted: u32, max: u32| {
            if wanted == 0 || wanted > max {
                return Err(Error::OutOfRange { what, wanted: wanted.into(), max: max.into() });
            }
            Ok(())
        };
        check(Argument::SrqEntries, init.max_wr, hca.attr.max_srq_wr)?;
        check(Argument::SrqSge, init.max_sge, hca.attr.max_srq_sge)?;
        let log_slots = (init.max_wr + 1).next_power_of_two().trailing_zeros();
        let log_stride = (DS * (1 + init.max_sge as usize)).next_power_of_two().trailing_zeros();
        Ok(Self { log_slots, log_stride })
    }

    fn len(self) -> usize {
        1 << (self.log_slots + self.log_stride)
    }

    /// Elements that fit a WQE.
    fn max_sge(self) -> u32 {
        (1 << self.log_stride) / DS as u32 - 1
    }
}

impl<H: PciFunction, P: Policy> Srq<H, P> {
    /// Makes an SRQ. PRM: CREATE_RMP.
    pub(crate) fn create(device: &Mlx5<H, P>, pd: &Pd<H, P>, init: &SrqInit) -> Result<Self, Error> {
        Self::new(device, pd, init, || Ok(None), SrqObject::create_rmp)
    }

    /// Makes an XRC SRQ. PRM: CREATE_XRC_SRQ.
    pub(crate) fn create_xrc(
        device: &Mlx5<H, P>,
        pd: &Pd<H, P>,
        init: &XrcSrqInit<'_, Mlx5<H, P>>,
    ) -> Result<Self, Error> {
        let (domain, cq) = (&init.xrcd.0, &init.cq.0);
        if !domain.device.is(device) {
            return Err(Error::Foreign(Object::Xrcd));
        }
        if !cq.device.is(device) {
            return Err(Error::Foreign(Object::Cq));
        }
        cq.check_alive()?;
        let xrc = || {
            let target = ManuallyDrop::new(Queueless::new(&device.hca().hal)?);
            Ok(Some(Xrc { domain: domain.clone(), cq: cq.clone(), target, user_index: AtomicU32::new(NO_USER) }))
        };
        let common = SrqInit { attr: init.attr, context: init.context };
        Self::new(device, pd, &common, xrc, SrqObject::create_xrc_srq)
    }

    fn new(
        device: &Mlx5<H, P>,
        pd: &Pd<H, P>,
        init: &SrqInit,
        xrc: impl FnOnce() -> Result<Option<Xrc<H, P>>, Error>,
        command: fn(&SrqObject<H, P>, Shape) -> Result<u32, Error>,
    ) -> Result<Self, Error> {
        let hca = device.hca();
        if !pd.belongs_to(device) {
            return Err(Error::Foreign(Object::Pd));
        }
        if hca.attr.max_srq == 0 {
            return Err(Error::Unsupported("shared receive queues"));
        }
        let shape = Shape::new(hca, &init.attr)?;
        hca.control.with(|control| count_up(&mut control.srqs, hca.caps.limits.srqs, Argument::Srqs))?;
        let memory = Buffer::new(hca, shape.len() + RECORD_LEN).and_then(|buffer| {
            match StateMemory::<SrqSlot>::new(&hca.hal, 1 << shape.log_slots) {
                Ok(state) => Ok((buffer, state)),
                Err(e) => {
                    buffer.free(hca, &Ok(()));
                    Err(e)
                }
            }
        });
        let memory = memory.and_then(|(buffer, state)| match xrc() {
            Ok(xrc) => Ok((buffer, state, xrc)),
            Err(e) => {
                buffer.free(hca, &Ok(()));
                state.free(&hca.hal);
                Err(e)
            }
        });
        let (buffer, state, xrc) = match memory {
            Ok(memory) => memory,
            Err(e) => {
                hca.control.with(|control| control.srqs -= 1);
                return Err(e);
            }
        };
        // SAFETY: the memory has that many slots and goes with the object.
        let (slots, poster) = unsafe { SrqSlots::new(state.ptr(), shape.log_slots) };
        let memory = RecvMemory {
            start: buffer.ptr(),
            stride: 1 << shape.log_stride,
            // SAFETY: the buffer ends with a doorbell record.
            record: dword(unsafe { record(&buffer, shape.len()) }, doorbell_record::RECEIVE),
        };
        // SAFETY: the buffer holds ring and record, and goes with the object.
        let ring = unsafe { SrqRing::new(memory, poster, shape.max_sge()) };
        let object = SrqObject {
            watch: Watch::default(),
            slots,
            ring: Owned::new(ring),
            srqn: AtomicU32::new(NO_SRQN),
            max_sge: shape.max_sge(),
            context: init.context,
            xrc,
            buffer: ManuallyDrop::new(buffer),
            state: ManuallyDrop::new(state),
            pd: pd.hold(),
            device: device.clone(),
        };
        // From here on dropping the object undoes everything.
        let srq = Self(Counted::new(object)?);
        srq.0.create(shape, command)?;
        Ok(srq)
    }

    /// The poster's ring.
    #[inline(always)]
    fn parts(&mut self) -> (&SrqObject<H, P>, &mut SrqRing) {
        let object = &*self.0;
        // SAFETY: this is the SRQ's one handle, borrowed exclusively.
        (object, unsafe { object.ring.get() })
    }
}

impl<H: PciFunction, P: Policy> SrqObject<H, P> {
    /// Whether it is for XRC, where the sender names it and no QP has it.
    pub(crate) fn is_xrc(&self) -> bool {
        self.xrc.is_some()
    }

    /// Posts a list of any length. Apart from the list of one, which stays a short piece of code so; cold as seen from
    /// there.
    #[cold]
    #[inline(never)]
    fn post_many<'a>(
        &self,
        ring: &mut SrqRing,
        list: impl Iterator<Item: Borrow<RecvWr<'a>>>,
    ) -> Result<(), PostListError> {
        self.check().map_err(|error| PostListError { index: 0, error })?;
        let result = ring.push_list(&self.slots, list);
        ring.ring(&self.device.hca().hal);
        result
    }

    /// Posts a request that the shortest way did not take.
    #[cold]
    #[inline(never)]
    fn post_long(&self, ring: &mut SrqRing, wr: &RecvWr<'_>) -> Result<(), PostListError> {
        self.post_many(ring, core::iter::once(wr))
    }
}

impl<H: PciFunction, P: Policy> SrqObject<H, P> {
    /// Lets the device have it; `command` tells its number. So an image without XRC holds no command of it.
    fn create(&self, shape: Shape, command: fn(&Self, Shape) -> Result<u32, Error>) -> Result<(), Error> {
        let srqn = command(self, shape)?;
        self.srqn.store(srqn, Ordering::Relaxed);
        // SAFETY: the object takes the number out before it goes.
        unsafe { self.device.hca().watch(|watches| &watches.srqs, srqn, &self.watch) }
    }

    fn create_xrc_srq(&self, shape: Shape) -> Result<u32, Error> {
        const SRQC: usize = create_xrc_srq::XRC_SRQC;
        let Some(xrc) = &self.xrc else { return Err(Error::Unsupported("an SRQ without an XRC domain")) };
        let hca = self.device.hca();
        let limits = &hca.caps.limits;
        // SAFETY: the slots lie in this object, which takes the target out of the table before it goes.
        unsafe { xrc.target.receive_into(NonNull::from(&self.slots)) };
        // QPs stand at the lower numbers, as far as they find room there.
        let (target, cqs) = (xrc.target.target(), [NO_CQN, xrc.cq.cqn()]);
        // SAFETY: `drop` does as it must.
        let user = hca.control.with(|control| unsafe {
            // A target may be in the middle of a message to an SRQ that is gone, and the device still complete it.
            control.xrc_srqs_made = control.xrc_srqs_made.wrapping_add(1);
            let place = hca.users.insert(limits.qps, limits.users(), target, cqs);
            place.map(|place| hca.users.told_apart(place, control.xrc_srqs_made))
        });
        let user = user.ok_or(NO_NUMBER)?;
        xrc.user_index.store(user, Ordering::Relaxed);
        // SAFETY: the target lives until the object goes.
        unsafe { target.as_ref() }.set_user_index(user);
        self.watch.set_cqs([Some(xrc.cq.cqn()), None]);
        let mut input = [0; create_xrc_srq::IN_LEN];
        xrc_srqc::LOG_XRC_SRQ_SIZE.at(SRQC).set(&mut input, shape.log_slots);
        xrc_srqc::LOG_RQ_STRIDE.at(SRQC).set(&mut input, shape.log_stride - 4);
        xrc_srqc::XRCD.at(SRQC).set(&mut input, xrc.domain.number());
        xrc_srqc::CQN.at(SRQC).set(&mut input, xrc.cq.cqn());
        xrc_srqc::LOG_PAGE_SIZE.at(SRQC).set(&mut input, self.buffer.log_page(shape.len()) - 12);
        xrc_srqc::USER_INDEX.at(SRQC).set(&mut input, user);
        xrc_srqc::PD.at(SRQC).set(&mut input, self.pd.0.number());
        xrc_srqc::DBR_ADDR.at(SRQC).set(&mut input, self.buffer.addr(shape.len()));
        let mut out = [0; create_xrc_srq::OUT_LEN];
        hca.execute(create_xrc_srq::OPCODE, 0, &mut input, &self.buffer.pages(shape.len()), &mut out)?;
        Ok(create_xrc_srq::out::XRC_SRQN.get(&out))
    }

    fn create_rmp(&self, shape: Shape) -> Result<u32, Error> {
        const RMPC: usize = create_rmp::RMPC;
        const WQ: usize = RMPC + rmpc::WQ;
        let hca = self.device.hca();
        let mut input = [0; create_rmp::IN_LEN];
        rmpc::STATE.at(RMPC).set(&mut input, rmpc::state::READY);
        wq::WQ_TYPE.at(WQ).set(&mut input, wq::wq_type::LINKED_LIST);
        wq::PD.at(WQ).set(&mut input, self.pd.0.number());
        wq::DBR_ADDR.at(WQ).set(&mut input, self.buffer.addr(shape.len()));
        wq::LOG_WQ_STRIDE.at(WQ).set(&mut input, shape.log_stride);
        wq::LOG_WQ_PG_SZ.at(WQ).set(&mut input, self.buffer.log_page(shape.len()) - 12);
        wq::LOG_WQ_SZ.at(WQ).set(&mut input, shape.log_slots);
        let mut out = [0; create_rmp::OUT_LEN];
        hca.execute(create_rmp::OPCODE, 0, &mut input, &self.buffer.pages(shape.len()), &mut out)?;
        Ok(create_rmp::out::RMPN.get(&out))
    }

    /// Takes the SRQ from the device, once, and of an XRC SRQ the completions out of its CQ. PRM: DESTROY_RMP,
    /// DESTROY_XRC_SRQ.
    fn destroy(&self) -> Result<(), Error> {
        let (hca, srqn) = (self.device.hca(), self.srqn());
        if srqn == NO_SRQN {
            return Ok(());
        }
        hca.destroy(if self.xrc.is_some() { Opcode::DESTROY_XRC_SRQ } else { Opcode::DESTROY_RMP }, srqn)?;
        if let Some(xrc) = &self.xrc {
            // SAFETY: the target lives until the object goes.
            xrc.cq.sweep(xrc.user_index.load(Ordering::Relaxed), unsafe { xrc.target.target().as_ref() });
        }
        hca.unwatch(|watches| &watches.srqs, srqn, &self.watch);
        self.srqn.store(NO_SRQN, Ordering::Relaxed);
        Ok(())
    }

    /// Arms the limit of an XRC SRQ. PRM: ARM_XRC_SRQ.
    fn arm(&self, limit: u32) -> Result<(), Error> {
        let mut input = [0; arm_xrc_srq::IN_LEN];
        arm_xrc_srq::XRC_SRQN.set(&mut input, self.srqn());
        arm_xrc_srq::LWM.set(&mut input, limit);
        let mut out = [0; arm_xrc_srq::OUT_LEN];
        let op_mod = arm_xrc_srq_op_mod::XRC_SRQ;
        self.device.hca().execute(arm_xrc_srq::OPCODE, op_mod, &mut input, &PageList::None, &mut out)
    }

    /// Its number.
    pub(crate) fn srqn(&self) -> u32 {
        self.srqn.load(Ordering::Relaxed)
    }

    /// An error, once the SRQ or the device failed.
    #[inline(always)]
    fn check(&self) -> Result<(), PostError> {
        const ANY: u32 = Watch::SRQ_ERROR | Watch::CQ_ERROR | Watch::DEVICE_FATAL;
        if self.watch.flags() & ANY != 0 { Err(self.failed()) } else { Ok(()) }
    }

    #[cold]
    fn failed(&self) -> PostError {
        match self.watch.flags() {
            flags if flags & Watch::DEVICE_FATAL != 0 => PostError::DeviceFatal,
            flags if flags & Watch::SRQ_ERROR != 0 => PostError::SrqError,
            _ => PostError::CqError,
        }
    }
}

impl<H: PciFunction, P: Policy> Drop for SrqObject<H, P> {
    fn drop(&mut self) {
        let outcome = self.destroy();
        let hca = self.device.hca();
        if outcome.is_err() {
            hca.unwatch(|watches| &watches.srqs, self.srqn(), &self.watch);
        }
        if let Some(xrc) = &mut self.xrc {
            let user = xrc.user_index.load(Ordering::Relaxed);
            if user != NO_USER {
                hca.users.hide(user);
                // A poll on another thread that still looks at this SRQ ends before this returns.
                xrc.cq.wait();
                // As of a QP: its number is not another's while the device may still say it.
                if outcome.is_ok() {
                    hca.control.with(|_| hca.users.remove(user));
                }
            }
            // SAFETY: taken once, and not used after.
            unsafe { ManuallyDrop::take(&mut xrc.target) }.free(&hca.hal);
        }
        // SAFETY: taken once, and not used after.
        let (buffer, state) = unsafe { (ManuallyDrop::take(&mut self.buffer), ManuallyDrop::take(&mut self.state)) };
        buffer.free(hca, &outcome);
        state.free(&hca.hal);
        hca.control.with(|control| control.srqs -= 1);
    }
}

impl<H: PciFunction, P: Policy> SharedReceiveQueue for Srq<H, P> {
    fn srqn(&self) -> Srqn {
        Srqn::new(self.0.srqn())
    }

    fn context(&self) -> u64 {
        self.0.context
    }

    /// PRM: QUERY_RMP, QUERY_XRC_SRQ.
    fn query(&mut self) -> Result<SrqAttr, Error> {
        const { assert!(query_rmp::IN_LEN == query_xrc_srq::IN_LEN && query_rmp::OUT_LEN == query_xrc_srq::OUT_LEN) };
        let (mut input, mut out) = ([0; query_rmp::IN_LEN], [0; query_rmp::OUT_LEN]);
        let (opcode, limit) = match &self.0.xrc {
            None => {
                query_rmp::RMPN.set(&mut input, self.0.srqn());
                (query_rmp::OPCODE, wq::LWM.at(query_rmp::out::RMPC + rmpc::WQ))
            }
            Some(_) => {
                query_xrc_srq::XRC_SRQN.set(&mut input, self.0.srqn());
                (query_xrc_srq::OPCODE, xrc_srqc::LWM.at(query_xrc_srq::out::XRC_SRQC))
            }
        };
        self.0.device.hca().execute(opcode, 0, &mut input, &PageList::None, &mut out)?;
        let limit = limit.get(&out);
        Ok(SrqAttr { max_wr: self.0.slots.capacity(), max_sge: self.0.max_sge, limit })
    }

    /// PRM: MODIFY_RMP, ARM_XRC_SRQ.
    fn set_limit(&mut self, limit: u32) -> Result<(), Error> {
        let max = self.0.slots.capacity();
        if limit > max {
            return Err(Error::OutOfRange { what: Argument::SrqLimit, wanted: limit.into(), max: max.into() });
        }
        if self.0.xrc.is_some() {
            return self.0.arm(limit);
        }
        let mut input = [0; modify_rmp::IN_LEN];
        modify_rmp::RMP_STATE.set(&mut input, rmpc::state::READY);
        modify_rmp::RMPN.set(&mut input, self.0.srqn());
        modify_rmp::BITMASK.set(&mut input, LIMIT);
        rmpc::STATE.at(modify_rmp::RMPC).set(&mut input, rmpc::state::READY);
        wq::LWM.at(modify_rmp::RMPC + rmpc::WQ).set(&mut input, limit);
        let mut out = [0; modify_rmp::OUT_LEN];
        self.0.device.hca().execute(modify_rmp::OPCODE, 0, &mut input, &PageList::None, &mut out)
    }

    /// The device has no command for it.
    fn resize(&mut self, _max_wr: u32) -> Result<(), Error> {
        Err(Error::Unsupported("resizing an SRQ"))
    }

    #[inline]
    fn push(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError> {
        let (object, ring) = self.parts();
        object.check()?;
        ring.push(&object.slots, wr)
    }

    #[inline]
    fn ring(&mut self) {
        let (object, ring) = self.parts();
        ring.ring(&object.device.hca().hal);
    }

    #[inline]
    fn post<'a>(&mut self, list: impl IntoIterator<Item: Borrow<RecvWr<'a>>>) -> Result<(), PostListError> {
        let mut list = list.into_iter();
        let (object, ring) = self.parts();
        if list.size_hint().1 != Some(1) {
            return object.post_many(ring, list);
        }
        let Some(wr) = list.next() else { return Ok(()) };
        if object.check().is_ok() && ring.post_short(&object.device.hca().hal, wr.borrow()) {
            return Ok(());
        }
        object.post_long(ring, wr.borrow())
    }
}
