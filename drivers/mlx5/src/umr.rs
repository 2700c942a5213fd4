//! Requests that change memory keys: binds, fast registrations, local invalidations. PRM: "UMR WQE". What each changes is
//! what libmlx5 and Linux change (rdma-core: `set_bind_wr`; mlx5_ib: `set_reg_wr`).

use super::{SendRing, Short, ops};
use crate::{
    mw::{FastRegion, Key, Kind, Window},
    policy::Policy,
    wqe::{self, Cursor},
};
use bareverbs::{Access, Bind, FastInit, Object, PostError, Rkey, SendFlags, WcOpcode, WindowKind, wq::SendQueue};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    context::{
        cmd_hca_cap::{self, umr_fence},
        mkc,
    },
    field::Field,
    wqe::{BB, DS, MAX_DS, UmrCtrlSeg, ctrl, mkey_mask, opcode, umr},
};
use zerocopy::IntoBytes;

/// Segments before the translation: control, UMR control, key context.
const HEAD: u32 = 1 + ((size_of::<UmrCtrlSeg>() + mkc::SIZE) / DS) as u32;
/// Segments to which the device wants a translation padded.
const PAD: u32 = (mkc::mtt::ALIGN / DS) as u32;
/// Rights, as bits of the mask.
const RIGHTS: u64 = mkey_mask::LW | mkey_mask::RR | mkey_mask::RW | mkey_mask::A;

/// Segments of a list of so many ranges, which is the room that a key needs for it.
pub(crate) const fn octowords(ranges: u32) -> u32 {
    ranges.next_multiple_of(PAD)
}

/// The most ranges that a request of so many bytes holds.
pub(crate) const fn max_ranges(wqe_bytes: u32) -> u32 {
    let segments = wqe_bytes / DS as u32;
    let segments = if segments < MAX_DS as u32 { segments } else { MAX_DS as u32 };
    segments.saturating_sub(HEAD) / PAD * PAD
}

/// A request but for its ranges.
struct Umr {
    /// The key that changes.
    key: u32,
    control: UmrCtrlSeg,
    context: [u8; mkc::SIZE],
    what: WcOpcode,
    /// The fence that it needs itself.
    fence: u8,
}

impl Umr {
    fn new(what: WcOpcode, key: u32, flags: u8, mask: u64) -> Self {
        let mut context = [0; mkc::SIZE];
        mkc::MKEY_7_0.set(&mut context, key & 0xff);
        mkc::QPN.set(&mut context, mkc::QPN_ANY);
        let control = UmrCtrlSeg {
            flags: umr::INLINE | flags,
            reserved0: [0; 3],
            klm_octowords: 0.into(),
            translation_offset: 0.into(),
            mkey_mask: (mkey_mask::FREE | mkey_mask::KEY | mask).into(),
            translation_offset_47_16: 0.into(),
            reserved1: [0; 28],
        };
        Self { key, control, context, what, fence: 0 }
    }

    /// Makes the key valid for a range.
    fn open(&mut self, addr: u64, len: u64, access: Access) {
        let rights: [(Field, Access); 4] = [
            (mkc::LW, Access::LOCAL_WRITE),
            (mkc::RW, Access::REMOTE_WRITE),
            (mkc::RR, Access::REMOTE_READ),
            (mkc::A, Access::REMOTE_ATOMIC),
        ];
        for (field, right) in rights {
            field.set(&mut self.context, access.contains(right).into());
        }
        mkc::START_ADDR.set(&mut self.context, addr);
        mkc::LEN.set(&mut self.context, len);
        let mask = self.control.mkey_mask.get() | mkey_mask::LEN | mkey_mask::START_ADDR | RIGHTS;
        self.control.mkey_mask = mask.into();
    }
}

impl SendRing {
    /// Places of common requests that one of so many segments takes.
    fn places(&self, segments: u32) -> u32 {
        let blocks = (self.end.as_ptr() as usize - self.start.as_ptr() as usize) / BB;
        // At least what the longest common request takes; of these, `limit` fit the ring.
        let one = (blocks as u32).checked_div(self.limit).unwrap_or(1).max(1);
        wqe::blocks(segments).div_ceil(one)
    }

    /// Begins a request of so many segments, which may be more than those of a common one: the place behind its control
    /// segment.
    fn begin_long(&mut self, queue: &SendQueue, segments: u32) -> Result<Cursor, PostError> {
        let needs = self.places(segments);
        if needs > self.limit {
            return Err(PostError::QueueTooSmall { needs });
        }
        if !self.poster.has_room_for(queue, self.open, needs) {
            return Err(PostError::QueueFull);
        }
        // SAFETY: a basic block has four segments; the cursor stays in the ring.
        Ok(unsafe { Cursor::new(self.block(self.poster.place()).add(DS), self.start, self.end) })
    }

    /// Ends it: its control segment makes it one.
    fn end_long(&mut self, request: &Umr, segments: u32, (wr_id, flags): (u64, SendFlags)) {
        let flags = with_fence(self.fenced(flags), request.fence);
        let at = self.block(self.poster.place());
        let head = u64::from(opcode::UMR) << 32 | self.qpn | u64::from(segments);
        // SAFETY: the first segment of a free block.
        self.doorbell = unsafe { wqe::control(at, self.poster.block(), head, flags, request.key) };
        self.poster.push_noted(wr_id, wqe::blocks(segments), self.places(segments), request.what as u32);
        self.waiting += 1;
        (self.fence_next, self.short) = (true, Short::default());
    }

    /// Writes a request and its ranges (length, key, address each) to the ring.
    fn push_umr(
        &mut self,
        queue: &SendQueue,
        mut request: Umr,
        ranges: impl Iterator<Item = (u32, u32, u64)>,
        count: u32,
        wr: (u64, SendFlags),
    ) -> Result<(), PostError> {
        if self.ops & ops::KEYS == 0 {
            return Err(PostError::UnsupportedOp);
        }
        let octowords = octowords(count);
        request.control.klm_octowords = (octowords as u16).into();
        let segments = HEAD + octowords;
        let mut cursor = self.begin_long(queue, segments)?;
        let mut left = octowords;
        // SAFETY: the ring has room for that many segments behind the control segment.
        unsafe {
            put(&mut cursor, request.control.as_bytes());
            put(&mut cursor, &request.context);
            for (len, key, addr) in ranges.take(count as usize) {
                cursor.put(u64::from(len) << 32 | u64::from(key), addr);
                left -= 1;
            }
            for _ in 0..left {
                cursor.put(0, 0);
            }
        }
        self.end_long(&request, segments, wr);
        Ok(())
    }

    /// Writes a request that makes a key invalid (rdma-core: IBV_WR_LOCAL_INV).
    #[cold]
    #[inline(never)]
    pub(crate) fn push_invalidate(
        &mut self,
        queue: &SendQueue,
        key: Rkey,
        wr: (u64, SendFlags),
    ) -> Result<(), PostError> {
        let flags = umr::TRANSLATION_OFFSET_EN | umr::CHECK_QPN;
        let mut request = Umr::new(WcOpcode::LocalInvalidate, key.0, flags, mkey_mask::QPN);
        mkc::FREE.set(&mut request.context, 1);
        self.push_umr(queue, request, core::iter::empty(), 0, wr)
    }

    /// Writes a request that binds a window; tells its new key.
    pub(crate) fn push_bind<H: PciFunction, P: Policy>(
        &mut self,
        queue: &SendQueue,
        window: &Window<H, P>,
        bind: &Bind,
        wr: (u64, SendFlags),
    ) -> Result<Rkey, PostError> {
        let window: &Key<H, P> = &window.0;
        let (key, tied) = (window.next_key(), window.kind == Kind::Window(WindowKind::TwoB));
        let opens = bind.length() != 0;
        let flags = match (tied, opens) {
            (false, _) => 0,
            (true, true) => umr::CHECK_NOT_FREE,
            (true, false) => umr::CHECK_QPN,
        };
        let mask = if tied { mkey_mask::QPN } else { 0 };
        let mut request = Umr::new(WcOpcode::BindWindow, key, umr::TRANSLATION_OFFSET_EN | flags, mask);
        if opens {
            request.open(bind.addr(), bind.length().into(), bind.access());
            if tied {
                mkc::QPN.set(&mut request.context, (self.qpn >> 8) as u32);
            }
        } else {
            mkc::FREE.set(&mut request.context, 1);
        }
        let range = (bind.length(), bind.lkey().0, bind.addr());
        self.push_umr(queue, request, core::iter::once(range), opens.into(), wr)?;
        window.bind_posted(key);
        Ok(Rkey(key))
    }

    /// Writes a request that registers elements; tells the region's key.
    pub(crate) fn push_register<H: PciFunction, P: Policy>(
        &mut self,
        queue: &SendQueue,
        region: &FastRegion<H, P>,
        init: &FastInit<'_>,
        wr: (u64, SendFlags),
    ) -> Result<Rkey, PostError> {
        let region: &Key<H, P> = &region.0;
        let elements = || init.elements.iter().filter(|sge| sge.length() != 0);
        let (count, len) = elements().fold((0u32, 0u64), |(n, len), sge| (n + 1, len + u64::from(sge.length())));
        if count > region.capacity {
            return Err(PostError::TooManySge { max: region.capacity });
        }
        if len == 0 || init.iova.checked_add(len - 1).is_none() {
            return Err(PostError::NoSuchRange);
        }
        let mask = mkey_mask::EN_RINVAL | mkey_mask::LR;
        let mut request = Umr::new(WcOpcode::RegisterRegion, region.key(), umr::CHECK_NOT_FREE, mask);
        request.fence = fence_of(cmd_hca_cap::UMR_FENCE.get(&region.device.hca().caps.general));
        mkc::EN_RINVAL.set(&mut request.context, 1);
        mkc::LR.set(&mut request.context, 1);
        request.open(init.iova, len, init.access);
        let ranges = elements().map(|sge| (sge.length(), sge.lkey().0, sge.addr()));
        self.push_umr(queue, request, ranges, count, wr)?;
        region.registered(init.iova, len);
        Ok(Rkey(region.key()))
    }
}

/// The fence that a device wants of registrations themselves (mlx5_ib: `mlx5_get_umr_fence`).
fn fence_of(told: u32) -> u8 {
    match told {
        umr_fence::NONE => 0,
        umr_fence::SMALL => ctrl::FENCE_INITIATOR_SMALL,
        _ => ctrl::FENCE_STRONG_ORDERING,
    }
}

/// The flags of a request, as they lie in its control segment, with a fence of its own beside what was asked for.
fn with_fence(flags: u32, fence: u8) -> u32 {
    let [all, own] = [ctrl::FENCE_MASK, fence].map(|fence| u32::from(fence).to_be());
    if flags & all == 0 || fence == ctrl::FENCE_STRONG_ORDERING { flags & !all | own } else { flags }
}

/// Refuses a key of another device.
pub(crate) fn check<H: PciFunction, P: Policy>(
    key: &Key<H, P>,
    device: &crate::Mlx5<H, P>,
    what: Object,
) -> Result<(), PostError> {
    if key.device.is(device) { Ok(()) } else { Err(PostError::Foreign(what)) }
}

/// Writes segments.
///
/// # Safety
/// The segments belong to the WQE that is written.
unsafe fn put(cursor: &mut Cursor, bytes: &[u8]) {
    let (segments, _) = bytes.as_chunks::<8>();
    let (pairs, _) = segments.as_chunks::<2>();
    for [first, second] in pairs {
        // SAFETY: the caller's promise.
        unsafe { cursor.put(u64::from_be_bytes(*first), u64::from_be_bytes(*second)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_has_the_fence_that_the_device_wants() {
        assert_eq!([0, 1, 2, 3].map(fence_of), [3 << 5, 1 << 5, 0, 3 << 5]);
        let (small, strong, asked) = (1 << 5, 3 << 5, 4 << 5);
        for (flags, fence, wanted) in [
            (8, 0, 8),
            (8, small, 8 | small),
            (8, strong, 8 | strong),
            (8 | small, small, 8 | small),
            (8 | asked, 0, 8 | asked),
            (8 | asked, small, 8 | asked),
            (8 | asked, strong, 8 | strong),
        ] {
            assert_eq!(with_fence(u32::to_be(flags), fence as u8), u32::to_be(wanted), "{flags:#x} with {fence:#x}");
        }
    }
}
