//! The health buffer and counter.

use std::time::Duration;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::registers::health as layout;

use crate::{eq::Event, hca::Hca};

/// The counter moves this often.
const TICK: Duration = Duration::from_millis(10);

/// State of the device's health.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Syndrome; 0 is healthy.
    pub syndrome: u8,
    /// When the counter stopped.
    pub stopped: Option<Duration>,
}

impl Health {
    /// The counter register: syndrome and 24 bits that move.
    pub fn counter(&self, now: Duration) -> u32 {
        let ticks = self.stopped.map_or(now, |at| at.min(now)).as_nanos() / TICK.as_nanos();
        u32::from(self.syndrome) << 24 | (ticks as u32 & 0xff_ffff)
    }

    /// The health buffer.
    pub fn buffer(&self, firmware: (u16, u16, u16)) -> [u8; layout::SIZE] {
        let mut bytes = [0; layout::SIZE];
        let version = u32::from(firmware.0) << 24 | u32::from(firmware.1) << 16 | u32::from(firmware.2);
        layout::FW_VER.set(&mut bytes, version);
        layout::HW_ID.set(&mut bytes, 0x20d);
        layout::SYNDROME.set(&mut bytes, u32::from(self.syndrome));
        bytes
    }
}

/// When a fault on demand is due.
pub fn next_deadline(hca: &Hca) -> Option<Duration> {
    let stop = hca.faults.counter_stops.filter(|_| hca.health.stopped.is_none());
    let fail = hca.faults.health.map(|(at, _)| at).filter(|_| hca.health.syndrome == 0);
    stop.into_iter().chain(fail).min()
}

/// Does what is due; true if something was.
pub fn timers(hca: &mut Hca, bus: &mut dyn Bus) -> bool {
    let now = bus.now();
    if let Some(at) = hca.faults.counter_stops.take_if(|at| *at <= now) {
        hca.health.stopped = Some(at);
        return true;
    }
    if let Some((_, syndrome)) = hca.faults.health.take_if(|(at, _)| *at <= now) {
        hca.fail(bus, syndrome);
        return true;
    }
    false
}

impl Hca {
    /// The device fails: it shows the syndrome, tells it once, and does nothing more until it is reset.
    pub fn fail(&mut self, bus: &mut dyn Bus, syndrome: u8) {
        if self.health.syndrome == 0 {
            self.event(bus, Event::InternalError);
            self.health.syndrome = syndrome;
            self.health.stopped = Some(bus.now());
        }
    }
}
