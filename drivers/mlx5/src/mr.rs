//! Memory regions. PRM: CREATE_MKEY, DESTROY_MKEY, "MKey Context".

use crate::{
    cmd::PageList,
    control::count_up,
    device::Mlx5,
    error::platform,
    hca::{Hca, Resource},
    pd::Pd,
    policy::{Lock, Policy},
};
use bareverbs::{Access, AccessOf, Argument, Error, Lkey, Memory, MemoryRegion, Object, Refused, RegionInit, Rkey};
use bareverbs_hal::{MapAccess, Mapping, PAGE_SIZE, PciFunction, Segment};
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{create_mkey, query_special_contexts},
    context::{cmd_hca_cap, mkc},
};
use core::{mem::ManuallyDrop, ptr::NonNull};

/// Log of the largest page in a region's page list: what `mkc.log_page_size` holds.
pub(crate) const MAX_LOG_PAGE: u32 = 31;
const LOG_PAGE: u32 = PAGE_SIZE.trailing_zeros();

/// A registered range of memory, which the region owns until it is deregistered.
pub struct Mr<M: Memory, H: PciFunction, P: Policy> {
    memory: ManuallyDrop<M>,
    mapping: ManuallyDrop<Mapping>,
    pd: Pd<H, P>,
    key: u32,
    iova: u64,
    access: Access,
}

// SAFETY: the mapping's pointer is only an address; the memory itself is `M`'s.
unsafe impl<M: Memory + Send, H: PciFunction + Send + Sync> Send for Mr<M, H, crate::Shared> {}

/// How a range looks to the device: pages of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Log of the page size.
    pub(crate) log_page: u32,
    /// Pages from the one of the first byte to the one of the last.
    pub(crate) count: usize,
}

/// Hands every segment of a mapping to the function it is given.
type EachSegment<'a> = dyn Fn(&mut dyn FnMut(Segment)) + 'a;

/// Hands every run of device addresses to `f`, together with the address in the region that it begins at. Neighbours
/// are joined.
fn runs<'a>(segments: &'a EachSegment<'a>, start: u64) -> impl Fn(&mut dyn FnMut(u64, Segment)) + 'a {
    move |f| {
        let mut at = start;
        let mut run: Option<(u64, Segment)> = None;
        segments(&mut |s| {
            match &mut run {
                Some((_, r)) if r.addr + r.len == s.addr => r.len += s.len,
                Some((va, r)) => {
                    f(*va, *r);
                    run = Some((at, s));
                }
                None => run = Some((at, s)),
            }
            // A region may end at the last address there is.
            at = at.wrapping_add(s.len);
        });
        if let Some((va, r)) = run {
            f(va, r);
        }
    }
}

/// The largest page size with which one page list describes the range, and its number of pages.
///
/// `segments` are those of the mapping, from the page of the first byte on; `iova` and `len` are the region's. Within a
/// page, region and device addresses must agree, and a page must not straddle two runs of device addresses.
pub(crate) fn layout(segments: &EachSegment<'_>, iova: u64, len: u64) -> Layout {
    let start = iova & !(PAGE_SIZE as u64 - 1);
    let mut differs = 1 << MAX_LOG_PAGE;
    let mut first = true;
    runs(segments, start)(&mut |va, run| {
        differs |= va ^ run.addr;
        if !first {
            differs |= va;
        }
        first = false;
    });
    let log_page = differs.trailing_zeros().max(LOG_PAGE);
    Layout { log_page, count: (((iova + (len - 1)) >> log_page) - (iova >> log_page) + 1) as usize }
}

/// Hands every page's address to `f`, in order.
pub(crate) fn pages(segments: &EachSegment<'_>, iova: u64, layout: Layout, f: &mut dyn FnMut(u64)) {
    let start = iova & !(PAGE_SIZE as u64 - 1);
    let mask = !((1u64 << layout.log_page) - 1);
    let mut left = layout.count;
    runs(segments, start)(&mut |va, run| {
        let first = va & mask;
        let count = ((va + (run.len - 1)) >> layout.log_page) - (va >> layout.log_page) + 1;
        // Region and device addresses agree within a page, so the page of the run's first byte begins as far before it.
        let addr = run.addr.wrapping_sub(va - first);
        for n in 0..count {
            if left > 0 {
                f(addr.wrapping_add(n << layout.log_page));
                left -= 1;
            }
        }
    });
}

impl<M: Memory, H: PciFunction, P: Policy> Mr<M, H, P> {
    pub(crate) fn register(
        device: &Mlx5<H, P>,
        pd: &Pd<H, P>,
        memory: M,
        init: RegionInit,
    ) -> Result<Self, Refused<M>> {
        match Self::map_and_create(device, pd, &memory, init) {
            Ok((mapping, key, iova)) => Ok(Self {
                memory: ManuallyDrop::new(memory),
                mapping: ManuallyDrop::new(mapping),
                pd: pd.hold(),
                key,
                iova,
                access: init.access,
            }),
            Err(error) => Err(Refused { handle: memory, error }),
        }
    }

    fn map_and_create(
        device: &Mlx5<H, P>,
        pd: &Pd<H, P>,
        memory: &M,
        init: RegionInit,
    ) -> Result<(Mapping, u32, u64), Error> {
        let hca = device.hca();
        if !pd.belongs_to(device) {
            return Err(Error::Foreign(Object::Pd));
        }
        init.access.check(AccessOf::Region, hca.caps.atomics)?;
        let range = memory.range();
        let (ptr, len) = (range.cast::<u8>(), range.len());
        let max = 1u64.checked_shl(cmd_hca_cap::LOG_MAX_MRW_SZ.get(&hca.caps.general)).unwrap_or(u64::MAX);
        if len == 0 || len as u64 > max {
            return Err(Error::OutOfRange { what: Argument::RegionLength, wanted: len as u64, max });
        }
        let iova = init.iova.unwrap_or(ptr.addr().get() as u64);
        if !(iova ^ ptr.addr().get() as u64).is_multiple_of(PAGE_SIZE as u64) {
            return Err(Error::Unsupported("an iova with another offset in its page than the memory"));
        }
        if iova.checked_add(len as u64 - 1).is_none() {
            return Err(Error::OutOfRange { what: Argument::RegionLength, wanted: len as u64, max: u64::MAX - iova });
        }
        let fatal = hca.control.with(|control| match control.fatal() {
            Some(fatal) => Err(fatal),
            None => count_up(&mut control.regions, hca.caps.limits.regions, Argument::Regions),
        });
        fatal?;
        let result = Self::create(device, pd, (ptr, len), iova, init.access);
        if result.is_err() {
            hca.control.with(|control| control.regions -= 1);
        }
        result
    }

    fn create(
        device: &Mlx5<H, P>,
        pd: &Pd<H, P>,
        (ptr, len): (NonNull<u8>, usize),
        iova: u64,
        access: Access,
    ) -> Result<(Mapping, u32, u64), Error> {
        let hca = device.hca();
        let hal_access = if access.contains(Access::LOCAL_WRITE) { MapAccess::ReadWrite } else { MapAccess::Read };
        // SAFETY: `Memory` promises that the range is valid, stays, and is not referred to while the value lives, which
        // the region owns as long as the mapping exists.
        let mapping = unsafe { hca.hal.map(ptr, len, hal_access) }.map_err(platform)?;
        let segments = |f: &mut dyn FnMut(Segment)| hca.hal.segments(&mapping, f);
        let layout = layout(&segments, iova, len as u64);

        let variant = hca.control.with(|control| control.next_variant());
        let mut input = context(pd.0.number(), variant, access, iova, len as u64, layout);
        // The list is counted in 16 bytes: an odd one is filled up.
        let each = |f: &mut dyn FnMut(u64)| {
            pages(&segments, iova, layout, f);
            if layout.count % 2 == 1 {
                f(0);
            }
        };
        let list = PageList::Each { count: layout.count.next_multiple_of(2), each: &each };
        let mut out = [0; create_mkey::OUT_LEN];
        let result = hca.execute(Opcode::CREATE_MKEY, 0, &mut input, &list, &mut out);
        match result {
            Ok(()) => {
                let key = create_mkey::out::MKEY_INDEX.get(&out) << 8 | u32::from(variant);
                Ok((mapping, key, iova))
            }
            Err(e) => {
                // A command that was refused made no key.
                hca.release(Resource::Mapping(mapping), &Ok(()));
                Err(e)
            }
        }
    }

    /// An error while windows are bound to the region (ibv_dereg_mr). A bind that is posted and not done yet does not count:
    /// the device looks a window's region up at each access, and finds no key then.
    fn check_windows(&self) -> Result<(), Error> {
        let hca = self.pd.0.device.hca();
        if !self.access.contains(Access::MW_BIND) {
            return Ok(());
        }
        hca.control.with(|control| match control.fatal() {
            // The device has no windows any more.
            Some(_) => Ok(()),
            None => match control.windows_bound(&hca.hal, Lkey(self.key))? {
                0 => Ok(()),
                holders => Err(Error::Busy { holders }),
            },
        })
    }

    /// Destroys the key and unmaps the memory. While the device refuses, or failed and cannot be stopped, both stay.
    fn destroy_key(&mut self) -> Result<(), Error> {
        let hca = self.pd.0.device.hca();
        let outcome = hca.destroy_for_good(Opcode::DESTROY_MKEY, self.key >> 8);
        if outcome.is_ok() {
            // SAFETY: taken once: the caller lets go of the region.
            let mapping = unsafe { ManuallyDrop::take(&mut self.mapping) };
            hca.release(Resource::Mapping(mapping), &outcome);
            hca.control.with(|control| control.regions -= 1);
        }
        outcome
    }
}

/// The key for all memory by device address. PRM: QUERY_SPECIAL_CONTEXTS.
pub(crate) fn reserved_lkey<H: PciFunction, P: Policy>(hca: &Hca<H, P>) -> Result<Lkey, Error> {
    let mut out = [0; query_special_contexts::OUT_LEN];
    let mut input = [0; query_special_contexts::IN_LEN];
    hca.execute(Opcode::QUERY_SPECIAL_CONTEXTS, 0, &mut input, &PageList::None, &mut out)?;
    Ok(Lkey(query_special_contexts::out::RESD_LKEY.get(&out)))
}

/// The fixed part of CREATE_MKEY's input.
fn context(pd: u32, variant: u8, access: Access, iova: u64, len: u64, layout: Layout) -> [u8; create_mkey::IN_LEN] {
    const MKC: usize = create_mkey::MKC;
    let mut input = [0; create_mkey::IN_LEN];
    let octwords = layout.count.div_ceil(2) as u32;
    create_mkey::TRANSLATIONS_OCTWORD_ACTUAL_SIZE.set(&mut input, octwords);
    mkc::ACCESS_MODE_1_0.at(MKC).set(&mut input, mkc::access_mode::MTT);
    mkc::LR.at(MKC).set(&mut input, 1);
    let rights = [
        (mkc::LW, Access::LOCAL_WRITE),
        (mkc::RW, Access::REMOTE_WRITE),
        (mkc::RR, Access::REMOTE_READ),
        (mkc::A, Access::REMOTE_ATOMIC),
    ];
    for (field, right) in rights {
        field.at(MKC).set(&mut input, access.contains(right).into());
    }
    mkc::QPN.at(MKC).set(&mut input, mkc::QPN_ANY);
    mkc::MKEY_7_0.at(MKC).set(&mut input, variant.into());
    mkc::PD.at(MKC).set(&mut input, pd);
    mkc::START_ADDR.at(MKC).set(&mut input, iova);
    mkc::LEN.at(MKC).set(&mut input, len);
    mkc::TRANSLATIONS_OCTWORD_SIZE.at(MKC).set(&mut input, octwords);
    mkc::LOG_PAGE_SIZE.at(MKC).set(&mut input, layout.log_page);
    input
}

impl<M: Memory, H: PciFunction, P: Policy> MemoryRegion<M> for Mr<M, H, P> {
    fn lkey(&self) -> Lkey {
        Lkey(self.key)
    }

    fn rkey(&self) -> Rkey {
        Rkey(self.key)
    }

    fn iova(&self) -> u64 {
        self.iova
    }

    fn len(&self) -> usize {
        self.mapping.len
    }

    fn as_ptr(&self) -> NonNull<u8> {
        self.mapping.ptr
    }

    fn access(&self) -> Access {
        self.access
    }

    /// Another key over the same memory takes the place of the one that there was.
    fn reregister(&mut self, access: Access) -> Result<(), Error> {
        let hca = self.pd.0.device.hca();
        access.check(AccessOf::Region, hca.caps.atomics)?;
        self.check_windows()?;
        let memory = (self.mapping.ptr, self.mapping.len);
        let (mapping, key, _) = Self::create(&self.pd.0.device, &self.pd, memory, self.iova, access)?;
        match hca.destroy_for_good(Opcode::DESTROY_MKEY, self.key >> 8) {
            Ok(()) => {
                let before = core::mem::replace(&mut *self.mapping, mapping);
                hca.release(Resource::Mapping(before), &Ok(()));
                (self.key, self.access) = (key, access);
                Ok(())
            }
            Err(e) => {
                let outcome = hca.destroy_for_good(Opcode::DESTROY_MKEY, key >> 8);
                hca.release(Resource::Mapping(mapping), &outcome);
                Err(e)
            }
        }
    }

    fn deregister(mut self) -> Result<M, Refused<Self>> {
        match self.check_windows().and_then(|()| self.destroy_key()) {
            Ok(()) => {
                let mut this = ManuallyDrop::new(self);
                // SAFETY: `this` is not dropped, so memory and domain are taken once.
                unsafe {
                    core::ptr::drop_in_place(&mut this.pd);
                    Ok(ManuallyDrop::take(&mut this.memory))
                }
            }
            Err(error) => Err(Refused { handle: self, error }),
        }
    }
}

impl<M: Memory, H: PciFunction, P: Policy> Drop for Mr<M, H, P> {
    /// Nobody asks for windows: without the key the device finds no memory behind them.
    fn drop(&mut self) {
        match self.destroy_key() {
            // SAFETY: the device reaches the memory no more; taken once, for the region is gone.
            Ok(()) => unsafe { ManuallyDrop::drop(&mut self.memory) },
            // The device may still write to the memory: neither it nor its mapping may be used for anything else before
            // the function was stopped. The mapping is undone then; the memory is never given back.
            Err(e) => {
                log::debug!("a memory region stays: {e}");
                // SAFETY: taken once, for the region is gone.
                let mapping = unsafe { ManuallyDrop::take(&mut self.mapping) };
                self.pd.0.device.hca().release(Resource::Mapping(mapping), &Err(e));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Page size and page addresses of a range over these segments.
    fn list(segments: &[(u64, u64)], iova: u64, len: u64) -> (u32, Vec<u64>) {
        let each = |f: &mut dyn FnMut(Segment)| segments.iter().for_each(|&(addr, len)| f(Segment { addr, len }));
        let layout = layout(&each, iova, len);
        let mut addresses = Vec::new();
        pages(&each, iova, layout, &mut |addr| addresses.push(addr));
        assert_eq!(addresses.len(), layout.count, "{segments:x?}");
        (layout.log_page, addresses)
    }

    #[test]
    fn case_47_page_arithmetic() {
        const MIB: u64 = 1 << 20;
        // 1.5 MiB up to the end of a 2 MiB page and 1 MiB of another one.
        let segments = [(0x1000_0000 + MIB / 2, 3 * MIB / 2), (0x3000_0000, MIB)];
        let (log_page, pages) = list(&segments, 0x4000_0000 + MIB / 2, 5 * MIB / 2);
        assert_eq!((log_page, &pages[..]), (21, &[0x1000_0000, 0x3000_0000][..]));
        // Pages of 2 GiB hold a range of 240 MiB that crosses one of their borders.
        let iova = 0x5_f28f_1000;
        let (log_page, pages) = list(&[(iova, 0xf00_0000)], iova, 0xf00_0000);
        assert_eq!((log_page, &pages[..]), (31, &[0x5_8000_0000, 0x6_0000_0000][..]));
    }

    #[test]
    fn pages_shrink_to_what_device_addresses_allow() {
        // The device's address agrees with the region's in its low 16 bits only.
        assert_eq!(list(&[(0x1_0000, 0x3_0000)], 0x10_0000, 0x3_0000).0, 16);
        // Two pages that lie apart, entered in the middle of the first.
        let (log_page, pages) = list(&[(0x5000, 0x1000), (0x9000, 0x1000)], 0x7_0800, 0x1000);
        assert_eq!((log_page, &pages[..]), (12, &[0x5000, 0x9000][..]));
        // Neighbours are one run, whatever pieces the platform tells them in.
        let (log_page, pages) = list(&[(0x4_0000, 0x1000), (0x4_1000, 0xf000)], 0x4_0000, 0x1_0000);
        assert_eq!((log_page >= 16, pages.len()), (true, 1));
        // One byte.
        assert_eq!(list(&[(0xabc0_0000, 0x1000)], 0xabc0_0fff, 1).1.len(), 1);
    }

    /// Every byte of a region is found again through the page list, for many shapes of mapping.
    #[test]
    fn every_page_leads_to_the_right_address() {
        let seed = 0x9e37_79b9_7f4a_7c15;
        let mut x: u64 = seed;
        let mut random = |n: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x % n
        };
        for round in 0..2000 {
            let segments: Vec<(u64, u64)> =
                (0..1 + random(5)).map(|_| (random(1 << 24) << 12, (1 + random(64)) << 12)).collect();
            let total: u64 = segments.iter().map(|s| s.1).sum();
            let offset = random(4096);
            let iova = (random(1 << 24) << 12) + offset;
            let len = 1 + random(total - offset);
            // A mapping ends with the page of the last byte.
            let mut left = (offset + len).next_multiple_of(4096);
            let mut cut = Vec::new();
            for (addr, len) in segments {
                let len = len.min(left);
                left -= len;
                if len > 0 {
                    cut.push((addr, len));
                }
            }
            let (log_page, pages) = list(&cut, iova, len);
            let start = iova - offset;
            for va in (start..iova + len).step_by(4096) {
                let n = (va >> log_page) - (iova >> log_page);
                let through = pages[n as usize] + (va & ((1 << log_page) - 1));
                let mut skip = va - start;
                let direct = cut.iter().find_map(|&(addr, len)| {
                    if skip < len {
                        return Some(addr + skip);
                    }
                    skip -= len;
                    None
                });
                assert_eq!(
                    Some(through),
                    direct,
                    "round {round} (seed {seed:#x}): {cut:x?} iova {iova:#x} len {len:#x}"
                );
            }
        }
    }
}
