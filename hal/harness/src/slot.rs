//! One function in the world: what tests watch and break, and what a front end for a virtual machine needs.

use crate::{
    bus::{FaultRecord, InterruptHook, Seat},
    fabric::LinkCounters,
    faults::Faults,
    iommu::Iommu,
    machine::Point,
    model::Frame,
    trace::Access,
    world::World,
};
use bareverbs_hal::{HalError, MapAccess, PAGE_SIZE, Segment};
use std::ptr::NonNull;

/// A function's place in the world; a cheap handle.
#[derive(Clone, Debug)]
pub struct Slot {
    world: World,
    index: usize,
}

impl Slot {
    pub(crate) fn new(world: World, index: usize) -> Self {
        Self { world, index }
    }

    /// The world that the function is part of.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The number of the function, in the order of plugging.
    pub fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn run(&self, point: Point) {
        self.world.shared().run(point);
    }

    /// Works on the function's memory for a driver.
    pub(crate) fn with_iommu<R>(&self, go: impl FnOnce(&mut Iommu) -> R) -> R {
        let mut state = self.world.lock();
        state.machine.happened();
        go(&mut state.machine.seats[self.index].iommu)
    }

    /// Looks at what the machine keeps of the function.
    fn with_seat<R>(&self, go: impl FnOnce(&mut Seat) -> R) -> R {
        go(&mut self.world.lock().machine.seats[self.index])
    }

    pub(crate) fn violation(&self, what: String) {
        self.with_seat(|seat| seat.violation(what));
    }

    /// Reads a register as the bus does: 1, 2, 4 or 8 bytes in address order.
    pub fn mmio_read(&self, bar: u8, offset: u64, data: &mut [u8]) {
        self.world.lock().mmio_read(self.index, bar, offset, data);
        self.world.notify();
    }

    /// Writes a register as the bus does: 1, 2, 4 or 8 bytes in address order.
    pub fn mmio_write(&self, bar: u8, offset: u64, data: &[u8]) {
        self.world.lock().mmio_write(self.index, bar, offset, data);
        self.world.notify();
    }

    /// Writes a register, and lets the devices do at once what that sets off. For a front end with a thread of its own,
    /// while the devices have one too.
    pub fn mmio_write_and_run(&self, bar: u8, offset: u64, data: &[u8]) {
        let mut state = self.world.lock();
        state.mmio_write(self.index, bar, offset, data);
        let wake = state.run_at_once();
        drop(state);
        if wake {
            self.world.notify();
        }
    }

    /// Reads configuration space.
    pub fn config_read(&self, offset: u16, data: &mut [u8]) {
        self.world.lock().config_read(self.index, offset, data);
    }

    /// Writes configuration space.
    pub fn config_write(&self, offset: u16, data: &[u8]) {
        self.world.lock().config_write(self.index, offset, data);
        self.world.notify();
    }

    /// The address that a BAR was given in configuration space.
    pub fn bar_address(&self, bar: usize) -> u64 {
        self.with_seat(|seat| seat.config.bar_address(bar))
    }

    /// The machine around the function is reset, or gone.
    pub fn bus_reset(&self) {
        self.world.lock().bus_reset(self.index);
        self.world.notify();
    }

    /// Makes memory reachable for the device at an address that somebody else chose.
    ///
    /// # Safety
    /// `ptr` is valid for `segment.len` bytes of reads (and writes, if the access says so) until it is unmapped, and
    /// nobody holds a reference into it meanwhile.
    pub unsafe fn map_at(&self, segment: Segment, ptr: NonNull<u8>, access: MapAccess) -> Result<(), HalError> {
        let page = PAGE_SIZE as u64;
        if segment.len == 0 || segment.addr.checked_add(segment.len).is_none() {
            return Err(HalError::BadRange);
        }
        if !segment.addr.is_multiple_of(page) || !segment.len.is_multiple_of(page) {
            return Err(HalError::Misaligned);
        }
        self.with_iommu(|iommu| {
            if !iommu.space.is_free(segment) {
                return Err(HalError::IommuWindow { addr: segment.addr });
            }
            // SAFETY: the caller's promise.
            unsafe { iommu.space.insert(segment, ptr.as_ptr(), access) };
            Ok(())
        })
    }

    /// Takes the memory away that was mapped at `addr`. Tells its length, if there was any.
    pub fn unmap_at(&self, addr: u64) -> Option<u64> {
        self.with_iommu(|iommu| iommu.space.remove(addr))
    }

    /// Sets who hears of interrupts.
    pub fn on_interrupt(&self, hook: Option<InterruptHook>) {
        self.with_seat(|seat| seat.interrupt_hook = hook);
    }

    /// How often an MSI-X vector was raised.
    pub fn interrupts(&self, vector: u16) -> u64 {
        self.with_seat(|seat| seat.interrupts.get(usize::from(vector)).copied().unwrap_or(0))
    }

    /// What the driver did wrong, the first 1,000.
    pub fn violations(&self) -> Vec<String> {
        self.with_seat(|seat| seat.violations.clone())
    }

    /// How often the driver did something wrong.
    pub fn violation_count(&self) -> u64 {
        self.with_seat(|seat| seat.violation_count)
    }

    /// Accesses of the device that were refused, the first 1,000.
    pub fn dma_faults(&self) -> Vec<FaultRecord> {
        self.with_seat(|seat| seat.faults.clone())
    }

    /// How many accesses of the device were refused.
    pub fn dma_fault_count(&self) -> u64 {
        self.with_seat(|seat| seat.fault_count)
    }

    /// Bytes of DMA buffers that were not given back.
    pub fn dma_outstanding(&self) -> usize {
        self.with_seat(|seat| seat.iommu.dma_outstanding)
    }

    /// Bytes of host-only memory that were not given back.
    pub fn state_outstanding(&self) -> usize {
        self.with_seat(|seat| seat.iommu.state_outstanding)
    }

    /// User mappings that were not given back.
    pub fn mappings_outstanding(&self) -> usize {
        self.with_seat(|seat| seat.iommu.mappings_outstanding())
    }

    /// Lets the n-th allocation or mapping from now on fail (1 is the next); `None` takes it back.
    pub fn fail_allocation(&self, n: Option<u64>) {
        self.with_seat(|seat| seat.iommu.fail_allocation(n));
    }

    /// Whether the failure asked for has not come yet: fewer allocations were made.
    pub fn failure_pending(&self) -> bool {
        self.with_seat(|seat| seat.iommu.failure_pending())
    }

    /// Begins a new record of register accesses, or ends it.
    pub fn trace(&self, on: bool) {
        self.with_seat(|seat| seat.trace.set(on));
    }

    /// The register accesses since the last call.
    pub fn take_trace(&self) -> Vec<Access> {
        self.with_seat(|seat| seat.trace.take())
    }

    /// Takes a port's link down or up.
    pub fn set_link(&self, port: u8, up: bool) {
        let mut state = self.world.lock();
        state.machine.fabric.set_link(self.index, port, up);
        state.wake_all();
        drop(state);
        self.world.notify();
    }

    /// Lets a frame arrive at a port as if the other end had sent it, after the fabric's latency and without faults.
    pub fn inject(&self, port: u8, frame: Frame) {
        let state = &mut *self.world.lock();
        let due = state.machine.time.now() + state.machine.fabric.latency;
        state.machine.fabric.inject(self.index, port, due, frame);
        self.world.notify();
    }

    /// Sends a frame as if the port had, with the fabric's latency and faults. For a device whose other side is no
    /// driver but another network.
    pub fn transmit(&self, port: u8, frame: Frame) {
        let m = &mut self.world.lock().machine;
        m.fabric.transmit(self.index, port, frame, &m.time, &mut m.rng);
        self.world.notify();
    }

    /// Sets the faults of what a port sends, from now on.
    pub fn set_port_faults(&self, port: u8, faults: Faults) {
        self.world.lock().machine.fabric.set_faults(Some((self.index, port)), faults);
    }

    /// What happened on a port's link; all zero where there is no such port.
    pub fn link_counters(&self, port: u8) -> LinkCounters {
        self.world.lock().machine.fabric.counters(self.index, port).unwrap_or_default()
    }

    /// Takes the function off the bus (reads give all-ones, writes are lost), or puts it back as it was.
    pub fn set_gone(&self, gone: bool) {
        self.with_seat(|seat| seat.gone = gone);
    }
}
