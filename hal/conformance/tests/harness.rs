//! The suite on the harness: all of it holds there, and a HAL that breaks a promise is found out.

use bareverbs_hal::{
    Bar, Dma, DmaBuffer, HalError, MapAccess, Mapping, PciAddress, PciFunction, Platform, Readable, Segment, Writable,
};
use bareverbs_hal_conformance::{Broken, Engine, NoEngine, run};
use bareverbs_harness::{Function, World, model::LinkKind};
use std::{alloc::Layout, ptr::NonNull, time::Duration};
use volatile_register::WO;

#[path = "../../harness/tests/toy/mod.rs"]
mod toy;

/// The toy copies 64 bytes.
struct Toy;

impl<H: PciFunction> Engine<H> for Toy {
    const LEN: usize = toy::COPY;

    fn copy(&mut self, hal: &H, from: u64, to: u64) -> Result<(), Broken> {
        // SAFETY: made of volatile cells; `hal` outlives the reference.
        let registers: &toy::Registers = unsafe { hal.bar(0).unwrap().register(0) }.unwrap();
        let before = hal.read32(&registers.done);
        hal.dma_wmb();
        hal.write64(&registers.from, from);
        hal.write64(&registers.to, to);
        while hal.read32(&registers.done) == before {
            hal.relax();
        }
        hal.dma_rmb();
        Ok(())
    }
}

fn broken<H: PciFunction>(hal: &H, engine: &mut impl Engine<H>) -> Vec<(&'static str, Broken)> {
    let (mut broken, mut all) = (Vec::new(), 0);
    let failed = run(hal, engine, &mut |name, outcome| {
        all += 1;
        broken.extend(outcome.err().map(|e| (name, e)));
    });
    assert_eq!(failed, broken.len());
    assert!(all >= 15, "only {all} checks ran");
    broken
}

#[test]
fn the_harness_keeps_its_promises() {
    for seed in 1..=5 {
        let function = World::new(seed).plug(toy::Echo::boxed(LinkKind::Ethernet));
        assert_eq!(broken(&function, &mut Toy), [], "seed {seed}");
        assert_eq!(function.dma_outstanding() + function.state_outstanding() + function.mappings_outstanding(), 0);
    }
}

/// How [`Bad`] breaks a promise.
#[derive(Clone, Copy, PartialEq)]
enum How {
    ClockStands,
    MemoryNotZeroed,
    EmptyGiven,
    Misplaced,
    PageTooFew,
    LimitIgnored,
    BarTooLong,
    AlwaysMaster,
    BarMoves,
}

/// The harness, but one promise is broken.
#[derive(Clone)]
struct Bad(Function, How);

// SAFETY: none; that is what it is for. What is broken here harms nobody, for no driver runs on it.
unsafe impl Platform for Bad {
    fn now(&self) -> Duration {
        if self.1 == How::ClockStands { Duration::ZERO } else { self.0.now() }
    }

    fn relax(&self) {
        if self.1 != How::ClockStands {
            self.0.relax();
        }
    }

    fn state_alloc(&self, layout: Layout) -> Result<NonNull<u8>, HalError> {
        if self.1 == How::EmptyGiven && layout.size() == 0 {
            return Ok(NonNull::dangling());
        }
        let ptr = self.0.state_alloc(layout)?;
        if self.1 == How::MemoryNotZeroed {
            // SAFETY: the last byte of what was given.
            unsafe { ptr.add(layout.size() - 1).write(1) };
        }
        Ok(ptr)
    }

    unsafe fn state_free(&self, ptr: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.0.state_free(ptr, layout) };
    }
}

// SAFETY: as above.
unsafe impl Dma for Bad {
    fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaBuffer, HalError> {
        let mut buffer = self.0.dma_alloc(len, align)?;
        match self.1 {
            How::Misplaced => buffer.addr += 64,
            How::LimitIgnored => buffer.addr |= 1 << 62,
            _ => {}
        }
        Ok(buffer)
    }

    unsafe fn dma_free(&self, mut buffer: DmaBuffer) {
        match self.1 {
            How::Misplaced => buffer.addr -= 64,
            How::LimitIgnored => buffer.addr &= !(1 << 62),
            _ => {}
        }
        // SAFETY: the caller's promise.
        unsafe { self.0.dma_free(buffer) };
    }

    unsafe fn map(&self, ptr: NonNull<u8>, len: usize, access: MapAccess) -> Result<Mapping, HalError> {
        // SAFETY: the caller's promise.
        unsafe { self.0.map(ptr, len, access) }
    }

    fn segments(&self, mapping: &Mapping, each: &mut dyn FnMut(Segment)) {
        let mut all = Vec::new();
        self.0.segments(mapping, &mut |s| all.push(s));
        if self.1 == How::PageTooFew {
            all.pop();
        }
        all.into_iter().for_each(each);
    }

    unsafe fn unmap(&self, mapping: Mapping) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unmap(mapping) };
    }

    fn set_dma_bits(&self, bits: u8) -> Result<(), HalError> {
        self.0.set_dma_bits(bits)
    }
}

// SAFETY: as above.
unsafe impl PciFunction for Bad {
    fn address(&self) -> PciAddress {
        self.0.address()
    }

    fn config_read32(&self, offset: u16) -> u32 {
        self.0.config_read32(offset)
    }

    unsafe fn config_write32(&self, offset: u16, value: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.0.config_write32(offset, value) };
    }

    fn bar(&self, n: u8) -> Result<Bar, HalError> {
        let bar = self.0.bar(n)?;
        let len = if self.1 == How::BarTooLong { bar.len() + 4096 } else { bar.len() };
        // SAFETY: nobody reads there.
        Ok(unsafe { Bar::new(bar.base(), len, None) })
    }

    unsafe fn set_bus_master(&self, on: bool) -> Result<(), HalError> {
        // SAFETY: what is wrong on purpose is noticed before the modelled device is told of memory.
        unsafe { self.0.set_bus_master(on || self.1 == How::AlwaysMaster) }
    }

    fn reset(&self) -> Result<(), HalError> {
        self.0.reset()?;
        if self.1 == How::BarMoves {
            // SAFETY: the modelled BARs move nothing of this process.
            unsafe { self.0.config_write32(0x10, self.0.config_read32(0x10) ^ 0x8000_0000) };
        }
        Ok(())
    }

    fn read32<R: Readable<bareverbs_hal::Be32>>(&self, r: &R) -> u32 {
        self.0.read32(r)
    }

    fn write32<R: Writable<bareverbs_hal::Be32>>(&self, r: &R, value: u32) {
        self.0.write32(r, value);
    }

    fn write64<R: Writable<u64>>(&self, r: &R, value: u64) {
        self.0.write64(r, value);
    }

    fn write_burst(&self, r: &[WO<u64>; 8], values: &[u64; 8]) {
        self.0.write_burst(r, values);
    }
}

#[test]
fn a_broken_promise_is_found() {
    for (how, check) in [
        (How::ClockStands, "time goes on and never back"),
        (How::MemoryNotZeroed, "state memory is zeroed, aligned and apart"),
        (How::EmptyGiven, "state memory that cannot be is refused"),
        (How::Misplaced, "DMA memory is zeroed, aligned and apart"),
        (How::PageTooFew, "the segments of a mapping are its pages"),
        (How::LimitIgnored, "DMA memory lies below the function's limit"),
        (How::BarTooLong, "BARs end where they end"),
        (How::AlwaysMaster, "bus mastering is off until it is asked for"),
        (How::BarMoves, "a reset leaves BARs and silence"),
    ] {
        let bad = Bad(World::new(1).plug(toy::Echo::boxed(LinkKind::Ethernet)), how);
        let found = broken(&bad, &mut NoEngine);
        assert!(found.iter().any(|(name, _)| *name == check), "{check}: {found:?}");
    }
}
