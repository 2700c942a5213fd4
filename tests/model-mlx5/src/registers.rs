//! The initialization segment.

use std::time::Duration;

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::registers::{CMD_INTERFACE_REV, init, nic_interface};

use crate::{cmd, hca::Hca};

/// Ticks of the internal timer in a millisecond: capability `device_frequency_khz`.
pub const FREQUENCY_KHZ: u32 = 156_250;
/// Time from reset until `initializing` falls.
const HEALTH: usize = init::HEALTH_BUFFER;
const HEALTH_END: usize = HEALTH + bareverbs_mlx5_prm::registers::health::SIZE;
const INITIALIZING: Duration = Duration::from_micros(300);

/// What the driver wrote into the segment.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    /// Upper half of the command queue's address.
    address_high: u32,
    /// Lower half and the interface number.
    address_low: u32,
    /// When the device came out of reset.
    pub reset_at: Duration,
}

impl Registers {
    /// The interface that the driver chose.
    pub fn nic_interface(&self) -> u32 {
        (self.address_low >> 8) & 7
    }
}

/// Reads 1, 2, 4 or 8 bytes, whatever falls into them.
pub fn read(hca: &mut Hca, bus: &mut dyn Bus, offset: u64, data: &mut [u8]) {
    for (i, byte) in data.iter_mut().enumerate() {
        let at = offset + i as u64;
        *byte = dword(hca, bus, (at & !3) as usize).to_be_bytes()[(at & 3) as usize];
    }
}

/// The internal timer at a time.
pub fn ticks(at: Duration) -> u64 {
    (at.as_nanos() * u128::from(FREQUENCY_KHZ) / 1_000_000) as u64
}

fn dword(hca: &Hca, bus: &dyn Bus, at: usize) -> u32 {
    let (major, minor, sub) = hca.config.device.firmware();
    let now = bus.now();
    let ticks = ticks(now);
    match at {
        init::FW_REV => u32::from(minor) << 16 | u32::from(major),
        init::CMDIF_REV_FW_SUB => CMD_INTERFACE_REV << 16 | u32::from(sub),
        init::CMDQ_ADDR_HIGH => hca.registers.address_high,
        init::CMDQ_ADDR_LOW => hca.registers.address_low & !0xff | cmd::LOG_SLOTS << 4 | cmd::LOG_STRIDE,
        init::INITIALIZING_DWORD => u32::from(now < hca.registers.reset_at + INITIALIZING) << 31,
        init::INTERNAL_TIMER_HIGH => (ticks >> 32) as u32,
        init::INTERNAL_TIMER_LOW => ticks as u32,
        init::HEALTH_COUNTER_DWORD => hca.health.counter(now),
        HEALTH..HEALTH_END => {
            let buffer = hca.health.buffer(hca.config.device.firmware());
            crate::ring::read_dword(&buffer, at - init::HEALTH_BUFFER)
        }
        _ => 0,
    }
}

/// Writes a dword.
pub fn write(hca: &mut Hca, bus: &mut dyn Bus, offset: u64, data: &[u8]) {
    let Some(word) = data.first_chunk().filter(|_| data.len() == 4 && offset.is_multiple_of(4)) else {
        return hca.violation(
            bus,
            format_args!("write of {} bytes at {offset:#x} of the initialization segment", data.len()),
        );
    };
    let word = u32::from_be_bytes(*word);
    if bus.now() < hca.registers.reset_at + INITIALIZING {
        hca.violation(bus, format_args!("write to {offset:#x} while the device is initializing"));
    }
    match offset as usize {
        init::CMDQ_ADDR_HIGH => hca.registers.address_high = word,
        init::CMDQ_ADDR_LOW => {
            hca.registers.address_low = word & !0xff;
            let running = hca.registers.nic_interface() == nic_interface::FULL;
            let address = u64::from(hca.registers.address_high) << 32 | u64::from(word & !0xfff);
            if hca.cmd.pending | hca.cmd.busy != 0 {
                hca.violation(bus, format_args!("the command queue's address was written while commands are at work"));
            }
            if running && hca.pages.touches(address, 4096) {
                hca.violation(bus, format_args!("the command queue lies in a page of firmware"));
            }
            hca.cmd.address = address;
            hca.cmd.running = running && address != 0;
        }
        init::CMD_DOORBELL => cmd::ring(hca, bus, word),
        init::CLEAR_INT_DWORD => {}
        _ => hca.violation(bus, format_args!("write to {offset:#x}, where nothing can be written")),
    }
}
