//! A device of four registers that copies memory and sends what it copied, and a driver for it.

// Each test program uses a part of it.
#![allow(dead_code)]

use bareverbs_hal::{Be32, Dma, DmaBuffer, PciFunction, Platform};
use bareverbs_harness::{
    Function,
    model::{BarKind, Bus, DeviceModel, Frame, LinkKind, PciIdentity, Reset, Step},
};
use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use volatile_register::{RO, WO};

pub const BAR_LEN: u64 = 32 << 20;

/// Registers, all big-endian unless they are doorbells.
#[repr(C)]
pub struct Registers {
    /// Counts copies that were done.
    pub done: RO<Be32>,
    /// The vector and delay in microseconds of the next copies.
    pub delay: WO<Be32>,
    /// Source address, in memory order.
    pub from: WO<u64>,
    /// Destination address; starts a copy.
    pub to: WO<u64>,
    /// Source, destination, then ignored: starts a copy in one burst.
    pub burst: [WO<u64>; 8],
}

pub const COPY: usize = 64;

/// Copies 64 bytes from one address to another, one step for reading, one for writing; or sends them as a frame if the
/// destination is 0. A frame that arrives is written to the last destination.
pub struct Echo {
    pub kind: LinkKind,
    pub ports: usize,
    delay: Duration,
    from: u64,
    to: u64,
    jobs: VecDeque<(Duration, u64, u64)>,
    read: Option<(u64, [u8; COPY])>,
    frames: VecDeque<Frame>,
    done: u32,
}

impl Echo {
    pub fn new(kind: LinkKind) -> Self {
        Self {
            kind,
            ports: 1,
            delay: Duration::ZERO,
            from: 0,
            to: 0,
            jobs: VecDeque::new(),
            read: None,
            frames: VecDeque::new(),
            done: 0,
        }
    }

    pub fn boxed(kind: LinkKind) -> Box<Self> {
        Box::new(Self::new(kind))
    }
}

impl DeviceModel for Echo {
    fn identity(&self) -> PciIdentity {
        let mut bars = [BarKind::None; 6];
        bars[0] = BarKind::Memory64(BAR_LEN);
        bars[2] = BarKind::Memory32(4096);
        bars[4] = BarKind::Io(256);
        PciIdentity {
            vendor: 0x1234,
            device: 0x11e8,
            subsystem_vendor: 0,
            subsystem: 0,
            revision: 0,
            class: 0xff_0000,
            bars,
            msix_vectors: 2,
        }
    }

    fn ports(&self) -> Vec<LinkKind> {
        vec![self.kind; self.ports]
    }

    fn mmio_read(&mut self, _: &mut dyn Bus, bar: u8, offset: u64, data: &mut [u8]) {
        let value = if (bar, offset) == (0, 0) { self.done } else { 0xdead_beef };
        data.copy_from_slice(&value.to_be_bytes()[..data.len()]);
    }

    fn mmio_write(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, data: &[u8]) {
        match (bar, offset, data.len()) {
            (0, 4, 4) => {
                self.delay = Duration::from_micros(u32::from_be_bytes(data.try_into().unwrap()).into());
            }
            (0, 8 | 24, 8) => self.from = u64::from_ne_bytes(data.try_into().unwrap()),
            (0, 16 | 32, 8) => {
                self.to = u64::from_ne_bytes(data.try_into().unwrap());
                self.jobs.push_back((bus.now() + self.delay, self.from, self.to));
            }
            (0, 40..88, 8) => {}
            _ => bus.violation(format_args!("write of {} bytes to BAR {bar} at {offset:#x}", data.len())),
        }
    }

    fn receive(&mut self, _: &mut dyn Bus, _: u8, frame: Frame) {
        self.frames.push_back(frame);
    }

    fn step(&mut self, bus: &mut dyn Bus) -> Step {
        if let Some((to, data)) = self.read.take() {
            if to == 0 {
                bus.transmit(0, data.to_vec().into());
            } else {
                let _ = bus.write(to, &data);
            }
            self.done += 1;
            bus.interrupt(1);
            return Step::Worked;
        }
        if self.to != 0
            && let Some(mut frame) = self.frames.pop_front()
        {
            let _ = bus.write(self.to, frame.bytes());
            return Step::Worked;
        }
        match self.jobs.front() {
            Some((due, from, to)) if *due <= bus.now() => {
                let mut data = [0; COPY];
                let _ = bus.read(*from, &mut data);
                self.read = Some((*to, data));
                self.jobs.pop_front();
                Step::Worked
            }
            _ => Step::Idle,
        }
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.jobs.front().map(|j| j.0)
    }

    fn bus_master(&mut self, _: &mut dyn Bus, on: bool) {
        if !on {
            self.jobs.clear();
            self.read = None;
        }
    }

    fn reset(&mut self, _: &mut dyn Bus, _: Reset) {
        let ports = self.ports;
        *self = Self { ports, ..Self::new(self.kind) };
    }
}

/// A driver that copies from one buffer into another.
pub struct Driver {
    pub function: Function,
    pub registers: &'static Registers,
    pub from: DmaBuffer,
    pub to: DmaBuffer,
}

impl Driver {
    pub fn new(function: Function) -> Self {
        // SAFETY: made of volatile cells; the driver holds a handle as long as the reference.
        let registers = unsafe { function.bar(0).unwrap().register(0) }.unwrap();
        let from = function.dma_alloc(COPY, 64).unwrap();
        let to = function.dma_alloc(COPY, 64).unwrap();
        // SAFETY: nobody told it of memory yet.
        unsafe { function.set_bus_master(true) }.unwrap();
        Self { function, registers, from, to }
    }

    /// Fills the source with a byte.
    pub fn fill(&self, b: u8) {
        // SAFETY: the driver's own buffer; the device reads it after the doorbell only.
        unsafe { self.from.ptr.as_ptr().write_bytes(b, COPY) };
    }

    /// The last four bytes of the destination, which the device releases last.
    pub fn last(&self) -> u32 {
        // SAFETY: inside the driver's own buffer and aligned.
        unsafe { AtomicU32::from_ptr(self.to.ptr.as_ptr().add(COPY - 4).cast()) }.load(Ordering::Acquire)
    }

    /// All bytes of the destination.
    pub fn copied(&self) -> [u8; COPY] {
        // SAFETY: the driver's own buffer; `last` has shown that the device is done with it.
        unsafe { self.to.ptr.cast().read() }
    }

    pub fn start(&self) {
        self.function.write64(&self.registers.from, self.from.addr);
        self.function.dma_wmb();
        self.function.write64(&self.registers.to, self.to.addr);
    }

    /// Copies a byte and waits for it.
    pub fn copy(&self, b: u8) {
        self.fill(b);
        self.start();
        while self.last() != u32::from_ne_bytes([b; 4]) {
            self.function.idle();
        }
        assert_eq!(self.copied(), [b; COPY]);
    }

    pub fn close(self) {
        self.function.silence().unwrap();
        // SAFETY: without bus mastering the device does not reach them any more.
        unsafe {
            self.function.dma_free(self.from);
            self.function.dma_free(self.to);
        }
    }
}
