//! A world with modelled HCAs whose insides tests can look at.
#![allow(dead_code, reason = "each test takes what it needs")]

pub mod pair;

use bareverbs_harness::{
    Function, World,
    model::{Bus, DeviceModel, Frame, LinkKind, PciIdentity, Reset, Step},
};
use bareverbs_model_mlx5::{Hca, HcaConfig, Report, eq::Event};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// A modelled HCA, shared with the test.
#[derive(Clone)]
pub struct Model(Arc<Mutex<Hca>>, Arc<Mutex<Watched>>, Arc<Mutex<Vec<Deed>>>);

/// What a test lets the model do of its own accord.
type Deed = Box<dyn FnOnce(&mut Hca, &mut dyn Bus) + Send>;

/// Eight bytes of the driver's memory that are looked at in each step.
#[derive(Default)]
struct Watched {
    addr: Option<u64>,
    bytes: [u8; 8],
}

impl Model {
    pub fn new(config: HcaConfig) -> Self {
        Self(Arc::new(Mutex::new(Hca::new(config))), Arc::default(), Arc::default())
    }

    pub fn with<R>(&self, f: impl FnOnce(&mut Hca) -> R) -> R {
        f(&mut self.0.lock().expect("the model did not panic"))
    }

    pub fn report(&self) -> Report {
        self.with(|hca| hca.report())
    }

    /// Plugs it into a world.
    pub fn plug(&self, world: &World) -> Function {
        world.plug(Box::new(self.clone()))
    }

    /// Looks at eight bytes at a device address from now on, or at none.
    pub fn watch(&self, addr: Option<u64>) {
        self.1.lock().expect("nobody panicked").addr = addr;
    }

    /// What they were when the model stepped last.
    pub fn watched(&self) -> [u8; 8] {
        self.1.lock().expect("nobody panicked").bytes
    }

    /// Raises an event in the next step.
    pub fn raise(&self, event: Event) {
        self.does(move |hca, bus| hca.event(bus, event));
    }

    /// Does something in the next step.
    pub fn does(&self, deed: impl FnOnce(&mut Hca, &mut dyn Bus) + Send + 'static) {
        self.2.lock().expect("nobody panicked").push(Box::new(deed));
    }

    /// Commands executed, refused ones included.
    pub fn commands(&self) -> u64 {
        self.report().commands.values().map(|n| n.executed).sum()
    }
}

impl DeviceModel for Model {
    fn identity(&self) -> PciIdentity {
        self.with(|hca| hca.identity())
    }

    fn ports(&self) -> Vec<LinkKind> {
        self.with(|hca| hca.ports())
    }

    fn mmio_read(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, data: &mut [u8]) {
        self.with(|hca| hca.mmio_read(bus, bar, offset, data));
    }

    fn mmio_write(&mut self, bus: &mut dyn Bus, bar: u8, offset: u64, data: &[u8]) {
        self.with(|hca| hca.mmio_write(bus, bar, offset, data));
    }

    fn receive(&mut self, bus: &mut dyn Bus, port: u8, frame: Frame) {
        self.with(|hca| hca.receive(bus, port, frame));
    }

    fn step(&mut self, bus: &mut dyn Bus) -> Step {
        let mut watched = self.1.lock().expect("nobody panicked");
        if let Some(addr) = watched.addr {
            bus.read(addr, &mut watched.bytes).expect("the driver's memory");
        }
        drop(watched);
        for deed in self.2.lock().expect("nobody panicked").drain(..) {
            self.with(|hca| deed(hca, bus));
        }
        self.with(|hca| hca.step(bus))
    }

    fn next_deadline(&self) -> Option<Duration> {
        self.with(|hca| hca.next_deadline())
    }

    fn bus_master(&mut self, bus: &mut dyn Bus, on: bool) {
        self.with(|hca| hca.bus_master(bus, on));
    }

    fn reset(&mut self, bus: &mut dyn Bus, reset: Reset) {
        self.with(|hca| hca.reset(bus, reset));
    }
}

/// Everything that was given out came back, and nobody did anything wrong.
pub fn assert_clean(function: &Function) {
    assert_eq!(function.violations(), Vec::<String>::new());
    assert_eq!(function.dma_faults().len(), 0, "{:?}", function.dma_faults());
    assert_nothing_kept(function);
}

/// Everything that was given out came back.
pub fn assert_nothing_kept(function: &Function) {
    assert_eq!(function.dma_outstanding(), 0, "bytes of DMA memory");
    assert_eq!(function.state_outstanding(), 0, "bytes of state memory");
    assert_eq!(function.mappings_outstanding(), 0, "mappings");
}
