//! Firmware's health: a counter that must move, and a syndrome that must stay zero. PRM: "Health Buffer".

use crate::registers::{Block, InitSegment};
use bareverbs::Error;
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::registers::{HealthSyndrome, health, init};
use core::time::Duration;

/// What is known of the device's health.
pub(crate) struct Health {
    period: Duration,
    due: Duration,
    counter: u32,
    misses: u32,
}

/// Periods in which the counter did not move, after which firmware is dead. The counter may have moved at the
/// beginning of the period before the first, so its end is seen within three.
const MISSES: u32 = 2;

impl Health {
    pub(crate) fn new<H: PciFunction>(hal: &H, registers: &Block<InitSegment>, period: Duration) -> Self {
        Self {
            period,
            due: hal.now().saturating_add(period),
            counter: hal.read32(&registers.health_counter),
            misses: 0,
        }
    }

    /// Looks at the device when a period has passed. [`Error::Fatal`] if it failed.
    pub(crate) fn check<H: PciFunction>(&mut self, hal: &H, registers: &Block<InitSegment>) -> Result<(), Error> {
        let now = hal.now();
        if now < self.due {
            return Ok(());
        }
        self.due = now.saturating_add(self.period);
        let counter = hal.read32(&registers.health_counter);
        if counter == u32::MAX {
            return Err(Error::Fatal { syndrome: 0xff, name: "the function does not answer", firmware: [0; 3] });
        }
        let fail = |syndrome, name| Err(Error::Fatal { syndrome, name, firmware: firmware(hal, registers) });
        let syndrome = health::SYNDROME.get(&dword_at(health::SYNDROME, hal.read32(&registers.health.syndrome))) as u8;
        if let Some(name) = fatal_name(syndrome) {
            return fail(syndrome, name);
        }
        let counter = counter & init::HEALTH_COUNTER.mask();
        self.misses = if counter == self.counter { self.misses + 1 } else { 0 };
        self.counter = counter;
        if self.misses >= MISSES {
            return fail(0, "firmware's health counter stopped");
        }
        Ok(())
    }
}

/// Firmware version: major, minor, sub-minor.
pub(crate) fn firmware<H: PciFunction>(hal: &H, registers: &Block<InitSegment>) -> [u16; 3] {
    let rev = hal.read32(&registers.fw_rev);
    [rev as u16, (rev >> 16) as u16, hal.read32(&registers.cmdif_rev_fw_sub) as u16]
}

/// A structure of zeros but for the dword of a field.
fn dword_at(field: bareverbs_mlx5_prm::field::Field, value: u32) -> [u8; health::SIZE] {
    let mut bytes = [0; health::SIZE];
    if let Some(to) = bytes.get_mut(field.offset()..field.offset() + 4) {
        to.copy_from_slice(&value.to_be_bytes());
    }
    bytes
}

/// What a syndrome means, unless the device lives on with it.
fn fatal_name(syndrome: u8) -> Option<&'static str> {
    Some(match HealthSyndrome::from_raw(syndrome) {
        HealthSyndrome::Ok | HealthSyndrome::HighTemperature => return None,
        HealthSyndrome::FirmwareInternalError => "firmware internal error",
        HealthSyndrome::DeadIrisc => "irisc not responding",
        HealthSyndrome::HardwareFatal => "unrecoverable hardware error",
        HealthSyndrome::FirmwareCrc => "firmware CRC error",
        HealthSyndrome::IcmFetchPci => "ICM fetch PCI error",
        HealthSyndrome::IcmPage => "ICM page error",
        HealthSyndrome::AsyncEqOverrun => "asynchronous EQ buffer overrun",
        HealthSyndrome::EqInError => "EQ error",
        HealthSyndrome::EqInvalid => "invalid EQ referenced",
        HealthSyndrome::Ffser => "FFSER error",
        HealthSyndrome::Unknown(_) => "unrecognized error",
    })
}
