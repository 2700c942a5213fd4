//! Shared receive queues, as receive memory pools of linked WQEs. PRM: "Receive Memory Pool (RMP)"; manual pages
//! ibv_create_srq, ibv_modify_srq, ibv_query_srq.

use crate::{
    buffer::{Buffer, RECORD_LEN, dword, record},
    cmd::PageList,
    control::count_up,
    counted::{Counted, Resident},
    device::Mlx5,
    hca::Hca,
    owned::Owned,
    pd::Pd,
    policy::{Lock, Policy},
    rq::{RecvMemory, SrqRing},
    state::StateMemory,
    watch::Watch,
};
use bareverbs::{
    Argument, Destroy, Error, Handle, Object, PostError, PostListError, RecvWr, Refused, SharedReceiveQueue, SrqAttr,
    Srqn,
    srq::{SrqSlot, SrqSlots},
};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{create_rmp, modify_rmp, query_rmp},
    context::{rmpc, wq},
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
    buffer: ManuallyDrop<Buffer>,
    state: ManuallyDrop<StateMemory<SrqSlot>>,
    pub(crate) pd: Pd<H, P>,
    pub(crate) device: Mlx5<H, P>,
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
/// posts: slots come back over a lock-free stack (see [`bareverbs::srq`]).
pub struct Srq<H: PciFunction, P: Policy>(pub(crate) Counted<SrqObject<H, P>, P>);

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
    pub(crate) fn create(device: &Mlx5<H, P>, pd: &Pd<H, P>, init: &SrqAttr) -> Result<Self, Error> {
        let hca = device.hca();
        if !pd.belongs_to(device) {
            return Err(Error::Foreign(Object::Pd));
        }
        if hca.attr.max_srq == 0 {
            return Err(Error::Unsupported("shared receive queues"));
        }
        let shape = Shape::new(hca, init)?;
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
        let (buffer, state) = match memory {
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
            buffer: ManuallyDrop::new(buffer),
            state: ManuallyDrop::new(state),
            pd: pd.hold(),
            device: device.clone(),
        };
        // From here on dropping the object undoes everything.
        let srq = Self(Counted::new(object)?);
        srq.0.create(shape)?;
        Ok(srq)
    }

    /// The poster's ring.
    #[inline(always)]
    fn parts(&mut self) -> (&SrqObject<H, P>, &mut SrqRing) {
        let object = &*self.0;
        // SAFETY: this is the SRQ's one handle, borrowed exclusively.
        (object, unsafe { object.ring.get() })
    }

    /// Posts a list of any length. Apart from the list of one, which stays a short piece of code so.
    #[inline(never)]
    fn post_many<'a>(&mut self, list: impl Iterator<Item: Borrow<RecvWr<'a>>>) -> Result<(), PostListError> {
        let (object, ring) = self.parts();
        let mut result = Ok(());
        for (index, wr) in list.enumerate() {
            if !ring.push_short(wr.borrow())
                && let Err(error) = ring.push(&object.slots, wr.borrow())
            {
                result = Err(PostListError { index, error });
                break;
            }
        }
        ring.ring(&object.device.hca().hal);
        result
    }

    /// Posts a request by the long way.
    #[cold]
    #[inline(never)]
    fn post_long(&mut self, wr: &RecvWr<'_>) -> Result<(), PostListError> {
        let (object, ring) = self.parts();
        let result = ring.push(&object.slots, wr).map_err(|error| PostListError { index: 0, error });
        ring.ring(&object.device.hca().hal);
        result
    }
}

impl<H: PciFunction, P: Policy> SrqObject<H, P> {
    fn create(&self, shape: Shape) -> Result<(), Error> {
        const RMPC: usize = create_rmp::RMPC;
        const WQ: usize = RMPC + rmpc::WQ;
        let hca = self.device.hca();
        let mut input = [0; create_rmp::IN_LEN];
        rmpc::STATE.at(RMPC).set(&mut input, rmpc::state::READY);
        wq::WQ_TYPE.at(WQ).set(&mut input, wq::wq_type::LINKED_LIST);
        wq::PD.at(WQ).set(&mut input, self.pd.0.number);
        wq::DBR_ADDR.at(WQ).set(&mut input, self.buffer.addr(shape.len()));
        wq::LOG_WQ_STRIDE.at(WQ).set(&mut input, shape.log_stride);
        wq::LOG_WQ_PG_SZ.at(WQ).set(&mut input, self.buffer.log_page(shape.len()) - 12);
        wq::LOG_WQ_SZ.at(WQ).set(&mut input, shape.log_slots);
        let mut out = [0; create_rmp::OUT_LEN];
        hca.execute(create_rmp::OPCODE, 0, &mut input, &self.buffer.pages(shape.len()), &mut out)?;
        let srqn = create_rmp::out::RMPN.get(&out);
        self.srqn.store(srqn, Ordering::Relaxed);
        // SAFETY: the object takes the number out before it goes.
        unsafe { hca.watch(|watches| &watches.srqs, srqn, NonNull::from(&self.watch)) }
    }

    /// Takes the SRQ from the device, once. PRM: DESTROY_RMP.
    fn destroy(&self) -> Result<(), Error> {
        let (hca, srqn) = (self.device.hca(), self.srqn());
        if srqn == NO_SRQN {
            return Ok(());
        }
        hca.destroy(Opcode::DESTROY_RMP, srqn)?;
        hca.unwatch(|watches| &watches.srqs, srqn);
        self.srqn.store(NO_SRQN, Ordering::Relaxed);
        Ok(())
    }

    /// Its number.
    pub(crate) fn srqn(&self) -> u32 {
        self.srqn.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn check(&self) -> Result<(), PostError> {
        if self.watch.flags() & Watch::DEVICE_FATAL != 0 { Err(PostError::DeviceFatal) } else { Ok(()) }
    }
}

impl<H: PciFunction, P: Policy> Drop for SrqObject<H, P> {
    fn drop(&mut self) {
        let outcome = self.destroy();
        let hca = self.device.hca();
        if outcome.is_err() {
            hca.unwatch(|watches| &watches.srqs, self.srqn());
        }
        // SAFETY: taken once, and not used after.
        let (buffer, state) = unsafe { (ManuallyDrop::take(&mut self.buffer), ManuallyDrop::take(&mut self.state)) };
        buffer.free(hca, &outcome);
        state.free(&hca.hal);
        hca.control.with(|control| control.srqs -= 1);
    }
}

impl<H: PciFunction, P: Policy> Destroy for Srq<H, P> {
    fn destroy(self) -> Result<(), Refused<Self>> {
        let holders = self.0.holders() - 1;
        if holders > 0 {
            return Err(Refused { handle: self, error: Error::Busy { holders } });
        }
        match self.0.destroy() {
            Ok(()) => Ok(()),
            Err(error) => Err(Refused { handle: self, error }),
        }
    }
}

impl<H: PciFunction, P: Policy> Handle for Srq<H, P> {
    fn into_raw(self) -> NonNull<()> {
        self.0.into_raw()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Counted::from_raw(raw) })
    }
}

impl<H: PciFunction, P: Policy> SharedReceiveQueue for Srq<H, P> {
    fn srqn(&self) -> Srqn {
        Srqn::new(self.0.srqn())
    }

    /// PRM: QUERY_RMP.
    fn query(&mut self) -> Result<SrqAttr, Error> {
        let mut input = [0; query_rmp::IN_LEN];
        query_rmp::RMPN.set(&mut input, self.0.srqn());
        let mut out = [0; query_rmp::OUT_LEN];
        self.0.device.hca().execute(query_rmp::OPCODE, 0, &mut input, &PageList::None, &mut out)?;
        let limit = wq::LWM.at(query_rmp::out::RMPC + rmpc::WQ).get(&out);
        Ok(SrqAttr { max_wr: self.0.slots.capacity(), max_sge: self.0.max_sge, limit })
    }

    /// PRM: MODIFY_RMP.
    fn set_limit(&mut self, limit: u32) -> Result<(), Error> {
        let max = self.0.slots.capacity();
        if limit > max {
            return Err(Error::OutOfRange { what: Argument::SrqLimit, wanted: limit.into(), max: max.into() });
        }
        let mut input = [0; modify_rmp::IN_LEN];
        modify_rmp::RMP_STATE.set(&mut input, rmpc::state::READY);
        modify_rmp::RMPN.set(&mut input, self.0.srqn());
        modify_rmp::BITMASK.set(&mut input, LIMIT);
        rmpc::STATE.at(modify_rmp::RMPC).set(&mut input, rmpc::state::READY);
        wq::LWM.at(modify_rmp::RMPC + rmpc::WQ).set(&mut input, limit);
        let mut out = [0; modify_rmp::OUT_LEN];
        self.0.watch.clear(Watch::SRQ_LIMIT);
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
        self.0.check().map_err(|error| PostListError { index: 0, error })?;
        let mut list = list.into_iter();
        if list.size_hint().1 != Some(1) {
            return self.post_many(list);
        }
        let Some(wr) = list.next() else { return Ok(()) };
        let (object, ring) = self.parts();
        if !ring.push_short(wr.borrow()) {
            return self.post_long(wr.borrow());
        }
        ring.ring(&object.device.hca().hal);
        Ok(())
    }
}
