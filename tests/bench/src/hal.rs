//! The harness's HAL, but with the cost of hardware: registers that data-path calls write are plain memory, barriers
//! and `idle` are the platform's own.
//!
//! The driver is given a BAR of ordinary memory. Accesses to 32-bit registers (bring-up, commands, events) are passed
//! on to the model at the same offset; 64-bit stores are doorbells and stay in the memory, so that no branch and no
//! call is left in what is measured.

use bareverbs_hal::{
    Bar, Be32, Dma, DmaBuffer, HalError, MapAccess, Mapping, PciAddress, PciFunction, Platform, Readable, Segment,
    Writable,
};
use bareverbs_harness::Function;
use std::{
    alloc::{Layout, alloc_zeroed, handle_alloc_error},
    mem,
    ptr::NonNull,
    sync::{Arc, Mutex},
    time::Duration,
};

/// DMA memory as the driver was given it.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// First byte.
    pub ptr: NonNull<u8>,
    /// Bytes.
    pub len: usize,
}

/// Function 0 of a world, with a doorbell page in memory.
#[derive(Clone)]
pub struct BenchHal {
    model: Function,
    /// What the driver takes for BAR 0, and the address space that the model knows as BAR 0.
    bar: Bar,
    model_bar: Bar,
    /// DMA memory handed out since the last [`BenchHal::take_memory`].
    given: Arc<Mutex<Vec<Memory>>>,
}

// SAFETY: the BARs are addresses; the memory behind `bar` is accessed by volatile stores of registers only.
unsafe impl Send for BenchHal {}
// SAFETY: as above.
unsafe impl Sync for BenchHal {}

impl BenchHal {
    /// Puts memory in front of a function's BAR 0. It is never given back.
    pub fn new(model: Function) -> Result<Self, HalError> {
        let model_bar = model.bar(0)?;
        let layout = Layout::from_size_align(model_bar.len(), 4096).map_err(|_| HalError::BadRange)?;
        // SAFETY: a BAR has bytes.
        let memory = unsafe { alloc_zeroed(layout) };
        let memory = NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
        // SAFETY: allocated above, as long as the model's BAR, and never given back.
        let bar = unsafe { Bar::new(memory, model_bar.len(), None) };
        Ok(Self { model, bar, model_bar, given: Arc::default() })
    }

    /// DMA memory that the driver was given since the last call, in order.
    pub fn take_memory(&self) -> Vec<Memory> {
        mem::take(&mut self.given.lock().expect("nobody panicked"))
    }

    /// Bytes of the driver's own memory.
    pub fn state_bytes(&self) -> usize {
        self.model.state_outstanding()
    }

    /// What stands in the send doorbell of a UAR page that was rung: the first one that is not zero.
    pub fn doorbell(&self) -> Option<[u8; 8]> {
        let registers = (0..self.bar.len()).step_by(4096).map(|page| page + 0x800);
        // SAFETY: inside the memory that stands for the BAR.
        registers.map(|at| unsafe { self.bar.base().add(at).cast::<[u8; 8]>().read_volatile() }).find(|d| *d != [0; 8])
    }

    /// The model's register at the place of one in memory.
    fn model_register<'a, R>(&self, register: &R) -> &'a R {
        let offset = std::ptr::from_ref(register).addr() - self.bar.base().addr().get();
        // SAFETY: a register of the driver's BAR, so the offset lies inside the model's, which is as long; it is made
        // of volatile cells, and the harness takes its address only.
        unsafe { self.model_bar.register(offset).expect("the BARs are of one length") }
    }
}

// SAFETY: the harness's function promises the same.
unsafe impl Platform for BenchHal {
    fn now(&self) -> Duration {
        self.model.now()
    }

    fn relax(&self) {
        self.model.relax();
    }

    fn state_alloc(&self, layout: Layout) -> Result<NonNull<u8>, HalError> {
        self.model.state_alloc(layout)
    }

    unsafe fn state_free(&self, ptr: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.model.state_free(ptr, layout) }
    }
}

// SAFETY: the harness's function promises the same.
unsafe impl Dma for BenchHal {
    fn dma_alloc(&self, len: usize, align: usize) -> Result<DmaBuffer, HalError> {
        let buffer = self.model.dma_alloc(len, align)?;
        let memory = Memory { ptr: buffer.ptr, len: buffer.len };
        self.given.lock().expect("nobody panicked").push(memory);
        Ok(buffer)
    }

    unsafe fn dma_free(&self, buffer: DmaBuffer) {
        // SAFETY: the caller's promise.
        unsafe { self.model.dma_free(buffer) }
    }

    unsafe fn map(&self, ptr: NonNull<u8>, len: usize, access: MapAccess) -> Result<Mapping, HalError> {
        // SAFETY: the caller's promise.
        unsafe { self.model.map(ptr, len, access) }
    }

    fn segments(&self, mapping: &Mapping, each: &mut dyn FnMut(Segment)) {
        self.model.segments(mapping, each);
    }

    unsafe fn unmap(&self, mapping: Mapping) {
        // SAFETY: the caller's promise.
        unsafe { self.model.unmap(mapping) }
    }

    fn set_dma_bits(&self, bits: u8) -> Result<(), HalError> {
        self.model.set_dma_bits(bits)
    }
}

// SAFETY: BAR 0 is memory that stays; 32-bit registers act on the model, 64-bit ones on the memory, once, in order.
unsafe impl PciFunction for BenchHal {
    fn address(&self) -> PciAddress {
        self.model.address()
    }

    fn config_read32(&self, offset: u16) -> u32 {
        self.model.config_read32(offset)
    }

    unsafe fn config_write32(&self, offset: u16, value: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.model.config_write32(offset, value) };
    }

    fn bar(&self, n: u8) -> Result<Bar, HalError> {
        if n == 0 { Ok(self.bar) } else { Err(HalError::NoSuchBar(n)) }
    }

    unsafe fn set_bus_master(&self, on: bool) -> Result<(), HalError> {
        // SAFETY: the caller's promise.
        unsafe { self.model.set_bus_master(on) }
    }

    fn reset(&self) -> Result<(), HalError> {
        self.model.reset()
    }

    fn read32<R: Readable<Be32>>(&self, r: &R) -> u32 {
        self.model.read32(self.model_register(r))
    }

    fn write32<R: Writable<Be32>>(&self, r: &R, value: u32) {
        self.model.write32(self.model_register(r), value);
    }
}
