//! What a device reaches, shown by one that copies memory.

use crate::{Broken, Engine, Outcome, holds};
use bareverbs_hal::{DmaBuffer, HalError, MapAccess, PAGE_SIZE, PciFunction};
use core::{alloc::Layout, ptr::NonNull};

pub(crate) fn run<H: PciFunction, E: Engine<H>>(hal: &H, engine: &mut E, tell: &mut impl FnMut(&'static str, Outcome)) {
    if let Err(e) = hal.set_dma_bits(E::BITS) {
        tell("memory that the device drives addresses for", Err(Broken::Refused("the device's limit", e)));
        return;
    }
    tell("a device reads and writes DMA memory", between(hal, |hal, from, to| dma_memory(hal, engine, from, to)));
    tell("a device reaches mapped memory in place", between(hal, |hal, from, _| mapped(hal, engine, from)));
    tell("a device without bus mastering is silent", between(hal, |hal, from, to| silent(hal, engine, from, to)));
    if let Err(e) = hal.set_dma_bits(64) {
        tell("no limit any more", Err(Broken::Refused("no limit at all", e)));
    }
}

/// Runs a check with two buffers of a page, bus mastering on.
fn between<H: PciFunction>(hal: &H, check: impl FnOnce(&H, &DmaBuffer, &DmaBuffer) -> Outcome) -> Outcome {
    let take = || hal.dma_alloc(PAGE_SIZE, PAGE_SIZE).map_err(|e| Broken::Refused("DMA memory", e));
    let (from, to) = (take()?, take()?);
    // SAFETY: nobody told the function of memory before; what it is told of here lives until it is silent.
    let outcome = unsafe { hal.set_bus_master(true) }.map_err(|e| Broken::Refused("bus mastering", e));
    let outcome = outcome.and_then(|()| check(hal, &from, &to));
    let silenced = hal.silence().map_err(|e| Broken::Refused("no bus mastering", e));
    // SAFETY: without bus mastering the device does not reach them any more.
    unsafe {
        hal.dma_free(from);
        hal.dma_free(to);
    }
    outcome.and(silenced)
}

/// Where copies go to: there is a guard before and behind.
const OFFSET: usize = 128;
const GUARD: u8 = 0xee;

/// The byte at a place of what is copied; `round` makes it another each time.
fn pattern(i: usize, round: u8) -> u8 {
    (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ round
}

fn fill(ptr: NonNull<u8>, len: usize, byte: impl Fn(usize) -> u8) {
    for i in 0..len {
        // SAFETY: callers own `len` bytes, and the device does not write there now.
        unsafe { ptr.add(i).write_volatile(byte(i)) };
    }
}

/// The first place where memory is not as it should be.
fn differs(ptr: NonNull<u8>, len: usize, byte: impl Fn(usize) -> u8) -> Option<usize> {
    // SAFETY: callers own `len` bytes, and the device does not write there now.
    (0..len).find(|i| unsafe { ptr.add(*i).read_volatile() } != byte(*i))
}

/// Copies into the middle of a guarded page that the device knows by the address `to`.
fn copied<H: PciFunction, E: Engine<H>>(
    hal: &H,
    engine: &mut E,
    from: &DmaBuffer,
    page: NonNull<u8>,
    to: u64,
    round: u8,
) -> Outcome {
    fill(from.ptr, E::LEN, |i| pattern(i, round));
    fill(page, PAGE_SIZE, |_| GUARD);
    engine.copy(hal, from.addr, to + OFFSET as u64)?;
    let inside = OFFSET..OFFSET + E::LEN;
    let expected = |i| if inside.contains(&i) { pattern(i - OFFSET, round) } else { GUARD };
    match differs(page, PAGE_SIZE, expected) {
        Some(i) if inside.contains(&i) => Err(Broken::Promise("what the device read is what it wrote", i as u64)),
        Some(i) => Err(Broken::Promise("the device writes nowhere else", i as u64)),
        None => Ok(()),
    }
}

fn dma_memory<H: PciFunction, E: Engine<H>>(hal: &H, engine: &mut E, from: &DmaBuffer, to: &DmaBuffer) -> Outcome {
    (1..=2).try_for_each(|round| copied(hal, engine, from, to.ptr, to.addr, round))
}

fn mapped<H: PciFunction, E: Engine<H>>(hal: &H, engine: &mut E, from: &DmaBuffer) -> Outcome {
    let layout = Layout::from_size_align(PAGE_SIZE, PAGE_SIZE).map_err(|_| Broken::Promise("a layout of ours", 0))?;
    let page = hal.state_alloc(layout).map_err(|e| Broken::Refused("state memory", e))?;
    // SAFETY: the page is ours until it was unmapped, and there are no references into it.
    let outcome = match unsafe { hal.map(page, PAGE_SIZE, MapAccess::ReadWrite) } {
        Ok(mapping) => {
            let mut to = None;
            hal.segments(&mapping, &mut |s| to = to.or(Some(s.addr)));
            let to = to.ok_or(Broken::Promise("a mapping has segments", 0));
            let outcome = to.and_then(|to| copied(hal, engine, from, page, to, 3));
            // SAFETY: the copy is done.
            unsafe { hal.unmap(mapping) };
            outcome
        }
        // In place or not at all: the page may lie where the device cannot go.
        Err(HalError::BeyondDmaMask { bits }) if bits == E::BITS && bits < 64 => Ok(()),
        Err(e) => Err(Broken::Refused("a mapping", e)),
    };
    // SAFETY: it came from this platform with this layout.
    unsafe { hal.state_free(page, layout) };
    outcome
}

fn silent<H: PciFunction, E: Engine<H>>(hal: &H, engine: &mut E, from: &DmaBuffer, to: &DmaBuffer) -> Outcome {
    // SAFETY: the function knows of no memory but the two buffers, which outlive this.
    let switch = |on| unsafe { hal.set_bus_master(on) }.map_err(|e| Broken::Refused("switching bus mastering", e));
    switch(false)?;
    fill(from.ptr, E::LEN, |i| pattern(i, 4));
    fill(to.ptr, PAGE_SIZE, |_| GUARD);
    engine.copy(hal, from.addr, to.addr + OFFSET as u64)?;
    let written = differs(to.ptr, PAGE_SIZE, |_| GUARD);
    holds(written.is_none(), "a device without bus mastering writes nothing", written.unwrap_or(0) as u64)?;
    switch(true)?;
    copied(hal, engine, from, to.ptr, to.addr, 5)
}
