//! The machine as one device sees it.

use crate::{
    iommu::Iommu,
    machine::Machine,
    model::{Bus, DmaFault, Frame},
    pci::ConfigSpace,
    trace::Trace,
};
use std::{fmt, time::Duration};

/// So many violations and faults of a function are kept with their text; all are counted.
const KEPT: usize = 1000;

/// Why an access of a device was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultReason {
    /// No mapping, or a write to memory that is mapped for reading.
    Unmapped,
    /// Bus mastering is off.
    BusMasterOff,
}

/// One refused access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRecord {
    /// When it was.
    pub at: Duration,
    /// The access.
    pub fault: DmaFault,
    /// Why it was refused.
    pub reason: FaultReason,
}

/// Called with the vector when a device raises an interrupt. Must not call into the world.
pub type InterruptHook = Box<dyn FnMut(u16) + Send>;

/// What the machine keeps of one function, beside its model.
pub(crate) struct Seat {
    pub(crate) config: ConfigSpace,
    pub(crate) iommu: Iommu,
    pub(crate) trace: Trace,
    pub(crate) faults: Vec<FaultRecord>,
    pub(crate) fault_count: u64,
    pub(crate) violations: Vec<String>,
    pub(crate) violation_count: u64,
    pub(crate) interrupts: Vec<u64>,
    pub(crate) interrupt_hook: Option<InterruptHook>,
    /// The function is gone from the bus: reads give all-ones.
    pub(crate) gone: bool,
}

impl Seat {
    pub(crate) fn new(config: ConfigSpace, iommu: Iommu, vectors: u16) -> Self {
        Self {
            config,
            iommu,
            trace: Trace::default(),
            faults: Vec::new(),
            fault_count: 0,
            violations: Vec::new(),
            violation_count: 0,
            interrupts: vec![0; vectors.into()],
            interrupt_hook: None,
            gone: false,
        }
    }

    pub(crate) fn violation(&mut self, what: String) {
        log::warn!("violation: {what}");
        self.violation_count += 1;
        if self.violations.len() < KEPT {
            self.violations.push(what);
        }
    }

    fn fault(&mut self, at: Duration, fault: DmaFault, reason: FaultReason) -> DmaFault {
        log::warn!("{fault} ({reason:?})");
        self.fault_count += 1;
        if self.faults.len() < KEPT {
            self.faults.push(FaultRecord { at, fault, reason });
        }
        fault
    }
}

/// What a call into a model lends it.
pub(crate) struct BusView<'a> {
    pub(crate) machine: &'a mut Machine,
    pub(crate) index: usize,
}

impl BusView<'_> {
    fn seat(&mut self) -> &mut Seat {
        &mut self.machine.seats[self.index]
    }

    fn access(
        &mut self,
        addr: u64,
        write: bool,
        go: impl FnOnce(&Iommu) -> Result<(), DmaFault>,
    ) -> Result<(), DmaFault> {
        let at = self.machine.time.now();
        let seat = self.seat();
        if !seat.config.bus_master() {
            return Err(seat.fault(at, DmaFault { addr, write }, FaultReason::BusMasterOff));
        }
        go(&seat.iommu).map_err(|f| seat.fault(at, f, FaultReason::Unmapped))
    }
}

impl Bus for BusView<'_> {
    fn now(&self) -> Duration {
        self.machine.time.now()
    }

    fn read(&mut self, addr: u64, data: &mut [u8]) -> Result<(), DmaFault> {
        self.access(addr, false, |iommu| iommu.space.read(addr, data))
    }

    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), DmaFault> {
        self.machine.happened();
        self.access(addr, true, |iommu| iommu.space.write(addr, data))
    }

    fn interrupt(&mut self, vector: u16) {
        self.machine.happened();
        let seat = self.seat();
        if !seat.config.bus_master() {
            return;
        }
        if let Some(n) = seat.interrupts.get_mut(usize::from(vector)) {
            *n += 1;
        }
        if let Some(hook) = &mut seat.interrupt_hook {
            hook(vector);
        }
    }

    fn transmit(&mut self, port: u8, frame: Frame) {
        let m = &mut *self.machine;
        m.fabric.transmit(self.index, port, frame, &m.time, &mut m.rng);
    }

    fn link_up(&self, port: u8) -> bool {
        self.machine.fabric.link_up(self.index, port)
    }

    fn violation(&mut self, what: fmt::Arguments<'_>) {
        self.seat().violation(what.to_string());
    }

    fn random(&mut self) -> u64 {
        self.machine.rng.rand_u64()
    }
}
