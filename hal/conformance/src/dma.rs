//! DMA memory and mappings, as far as they can be seen without a device.

use crate::{Broken, Check, Outcome, holds, refused};
use bareverbs_hal::{Dma, DmaBuffer, HalError, MapAccess, Mapping, PAGE_SIZE, PciFunction};
use core::{alloc::Layout, ptr::NonNull};

pub(crate) fn checks<H: PciFunction>() -> [Check<H>; 6] {
    [
        ("DMA memory is zeroed, aligned and apart", buffers),
        ("DMA memory comes back", buffers_come_back),
        ("DMA memory that cannot be is refused", buffers_refused),
        ("the segments of a mapping are its pages", segments),
        ("mappings may overlap", overlap),
        ("DMA memory lies below the function's limit", limit),
    ]
}

const PAGE: u64 = PAGE_SIZE as u64;

/// Lengths and alignments: doorbell records, rings, what firmware wants, large queues.
const BUFFERS: [(usize, usize); 8] = [
    (1, 1),
    (64, 64),
    (4096, 4096),
    (8192, 4096),
    (4096, 65_536),
    (300_000, 4096),
    (256 * 1024, 256 * 1024),
    (2 << 20, 2 << 20),
];

fn buffers<H: Dma>(hal: &H) -> Outcome {
    let mut live: [Option<DmaBuffer>; BUFFERS.len()] = Default::default();
    let outcome = take_all(hal, &mut live).and_then(|()| all_apart(&live));
    for buffer in live.into_iter().flatten() {
        // SAFETY: no device was told of it.
        unsafe { hal.dma_free(buffer) };
    }
    outcome
}

fn take_all<H: Dma>(hal: &H, live: &mut [Option<DmaBuffer>; BUFFERS.len()]) -> Outcome {
    for ((len, align), slot) in BUFFERS.into_iter().zip(live) {
        let buffer = hal.dma_alloc(len, align).map_err(|e| Broken::Refused("DMA memory", e))?;
        let buffer = slot.insert(buffer);
        holds(buffer.len >= len, "DMA memory is as long as asked", len as u64)?;
        holds((buffer.ptr.as_ptr() as usize).is_multiple_of(align), "the CPU's address is aligned", align as u64)?;
        holds(buffer.addr.is_multiple_of(align as u64), "the device's address is aligned", align as u64)?;
        // SAFETY: the platform gave `len` bytes that nobody else uses.
        let memory = unsafe { core::slice::from_raw_parts_mut(buffer.ptr.as_ptr(), buffer.len) };
        holds(memory.iter().all(|b| *b == 0), "DMA memory is zeroed", len as u64)?;
        memory.fill(0xa5);
    }
    Ok(())
}

fn all_apart(live: &[Option<DmaBuffer>; BUFFERS.len()]) -> Outcome {
    let apart = |a: u64, a_len: usize, b: u64, b_len: usize| a + a_len as u64 <= b || b + b_len as u64 <= a;
    for (i, a) in live.iter().flatten().enumerate() {
        for b in live.iter().flatten().take(i) {
            let (x, y) = (a.ptr.as_ptr() as u64, b.ptr.as_ptr() as u64);
            holds(apart(x, a.len, y, b.len), "buffers lie apart for the CPU", x)?;
            holds(apart(a.addr, a.len, b.addr, b.len), "buffers lie apart for the device", a.addr)?;
        }
    }
    Ok(())
}

/// More than a small machine has, if nothing comes back.
fn buffers_come_back<H: Dma>(hal: &H) -> Outcome {
    const ROUNDS: u64 = 300;
    for round in 0..ROUNDS {
        let buffer =
            hal.dma_alloc(1 << 20, 4096).map_err(|e| Broken::Refused("DMA memory that was freed before", e))?;
        let ptr = buffer.ptr.as_ptr();
        // SAFETY: inside the buffer.
        let zeroed = unsafe { ptr.read() == 0 && ptr.add((1 << 20) - 1).read() == 0 };
        // SAFETY: inside the buffer, which no device was told of.
        unsafe {
            ptr.write(0xa5);
            ptr.add((1 << 20) - 1).write(0xa5);
            hal.dma_free(buffer);
        }
        holds(zeroed, "DMA memory that was used before is zeroed", round)?;
    }
    Ok(())
}

fn buffers_refused<H: Dma>(hal: &H) -> Outcome {
    refused(hal.dma_alloc(0, 64), "DMA memory of no bytes", |e| e == HalError::BadRange)?;
    refused(hal.dma_alloc(64, 3), "an alignment that is no power of two", |e| e == HalError::Misaligned)?;
    refused(hal.dma_alloc(isize::MAX as usize / 2, 4096), "more DMA memory than there can be", |e| {
        use HalError::{IommuWindow, MemLock, Os, OutOfDmaMemory};
        matches!(e, OutOfDmaMemory { .. } | MemLock { .. } | IommuWindow { .. } | Os(_))
    })
}

/// Memory of the user's, as far as the HAL can tell.
struct UserMemory<'a, H: Dma> {
    hal: &'a H,
    ptr: NonNull<u8>,
    layout: Layout,
}

impl<'a, H: Dma> UserMemory<'a, H> {
    fn new(hal: &'a H, len: usize) -> Result<Self, Broken> {
        let layout = Layout::from_size_align(len, PAGE_SIZE).map_err(|_| Broken::Promise("a layout", len as u64))?;
        let ptr = hal.state_alloc(layout).map_err(|e| Broken::Refused("state memory", e))?;
        Ok(Self { hal, ptr, layout })
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: callers stay inside.
        unsafe { self.ptr.add(offset) }
    }
}

impl<H: Dma> Drop for UserMemory<'_, H> {
    fn drop(&mut self) {
        // SAFETY: it came from this platform with this layout, and all mappings of it were given back.
        unsafe { self.hal.state_free(self.ptr, self.layout) };
    }
}

fn map<H: Dma>(hal: &H, ptr: NonNull<u8>, len: usize, access: MapAccess) -> Result<Mapping, Broken> {
    // SAFETY: callers keep the memory until they have unmapped it, and have no references into it.
    unsafe { hal.map(ptr, len, access) }.map_err(|e| Broken::Refused("a mapping", e))
}

/// The bytes of a mapping's segments, if each is of whole pages.
fn bytes<H: Dma>(hal: &H, mapping: &Mapping) -> Result<u64, Broken> {
    let (mut sum, mut whole) = (0, true);
    hal.segments(mapping, &mut |s| {
        whole &= s.addr.is_multiple_of(PAGE) && s.len.is_multiple_of(PAGE) && s.len > 0;
        sum += s.len;
    });
    holds(whole, "segments are whole pages", sum)?;
    Ok(sum)
}

fn segments<H: Dma>(hal: &H) -> Outcome {
    let memory = UserMemory::new(hal, 8 * PAGE_SIZE)?;
    // Offset and length, and how many pages they touch.
    for (offset, len, pages) in
        [(0, 1, 1), (0, 4096, 1), (1, 4096, 2), (4095, 2, 2), (100, 3 * 4096, 4), (0, 8 * 4096, 8)]
    {
        for access in [MapAccess::Read, MapAccess::ReadWrite] {
            let mapping = map(hal, memory.at(offset), len, access)?;
            let same = mapping.ptr == memory.at(offset) && mapping.len == len;
            let sums = (bytes(hal, &mapping), bytes(hal, &mapping));
            // SAFETY: no device was told of it.
            unsafe { hal.unmap(mapping) };
            holds(same, "a mapping tells what was mapped", len as u64)?;
            holds(sums.0? == pages * PAGE, "the segments are the pages that the range touches", len as u64)?;
            holds(sums.1? == pages * PAGE, "segments can be told twice", len as u64)?;
        }
    }
    // SAFETY: nothing is mapped.
    refused(unsafe { hal.map(memory.at(0), 0, MapAccess::Read) }, "a mapping of no bytes", |e| {
        e == HalError::BadRange
    })?;
    let end = NonNull::new(core::ptr::without_provenance_mut::<u8>(usize::MAX));
    let end = end.ok_or(Broken::Promise("an address of ours", 0))?;
    // SAFETY: it must be refused, since it wraps.
    refused(unsafe { hal.map(end, PAGE_SIZE, MapAccess::Read) }, "a mapping that wraps", |e| e == HalError::BadRange)
}

/// The first device address of a mapping.
fn first<H: Dma>(hal: &H, mapping: &Mapping) -> Option<u64> {
    let mut first = None;
    hal.segments(mapping, &mut |s| first = first.or(Some(s.addr)));
    first
}

fn overlap<H: Dma>(hal: &H) -> Outcome {
    let memory = UserMemory::new(hal, 4 * PAGE_SIZE)?;
    let whole = map(hal, memory.at(0), 4 * PAGE_SIZE, MapAccess::ReadWrite)?;
    let inner = map(hal, memory.at(PAGE_SIZE + 8), 64, MapAccess::ReadWrite);
    let again = map(hal, memory.at(0), 4 * PAGE_SIZE, MapAccess::Read);
    let addresses = first(hal, &whole);
    // SAFETY: no device was told of it.
    unsafe { hal.unmap(whole) };
    let mut outcome = holds(addresses.is_some(), "a mapping has segments", 0);
    for mapping in [inner, again] {
        match mapping {
            Ok(mapping) => {
                let left = bytes(hal, &mapping);
                outcome = outcome.and_then(|()| holds(left? >= PAGE, "a mapping outlives one that it overlaps", 0));
                // SAFETY: no device was told of it.
                unsafe { hal.unmap(mapping) };
            }
            Err(e) => outcome = outcome.and(Err(e)),
        }
    }
    outcome
}

fn limit<H: Dma>(hal: &H) -> Outcome {
    let mut outcome = Ok(());
    for bits in [12, 32, 40, 52] {
        outcome = outcome.and(match hal.set_dma_bits(bits) {
            Ok(()) => below(hal, bits),
            Err(e) => refused(Err::<(), _>(e), "a limit", |e| e == HalError::BeyondDmaMask { bits }),
        });
    }
    outcome.and(hal.set_dma_bits(64).map_err(|e| Broken::Refused("no limit at all", e)))
}

/// Memory that is given while a limit holds lies below it.
fn below<H: Dma>(hal: &H, bits: u8) -> Outcome {
    match hal.dma_alloc(PAGE_SIZE, PAGE_SIZE) {
        Ok(buffer) => {
            let end = buffer.addr + PAGE;
            // SAFETY: no device was told of it.
            unsafe { hal.dma_free(buffer) };
            holds(end <= 1 << bits, "DMA memory lies below the limit", end)
        }
        Err(HalError::OutOfDmaMemory { .. } | HalError::BeyondDmaMask { .. }) => Ok(()),
        Err(e) => Err(Broken::Refused("DMA memory below a limit", e)),
    }
}
