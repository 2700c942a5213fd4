//! How this machine's configuration space is reached: mapped where ACPI tells of it, else by ports 0xcf8 and 0xcfc (PCI
//! local bus specification 3.0, 3.2.2.3.2), which reach only the first 256 bytes.

use crate::{
    config::{ConfigSpace, Windows},
    port::{in32, out32},
};
use bareverbs_hal::PciAddress;
use spin::Mutex;

/// The machine's configuration space.
pub(crate) enum Config {
    Mapped(Windows),
    /// An address port and a data port: one access at a time.
    Ports(Mutex<()>),
}

const ADDRESS_PORT: u16 = 0xcf8;
const DATA_PORT: u16 = 0xcfc;

/// What to write to the address port, for what the ports reach.
fn port_address(at: PciAddress, offset: u16) -> Option<u32> {
    let function = u32::from(at.bus) << 16 | u32::from(at.device & 31) << 11 | u32::from(at.function & 7) << 8;
    (at.segment == 0 && offset < 256).then_some(1 << 31 | function | u32::from(offset & 0xfc))
}

impl ConfigSpace for Config {
    fn read32(&self, at: PciAddress, offset: u16) -> u32 {
        match self {
            Self::Mapped(windows) => windows.read32(at, offset),
            Self::Ports(lock) => {
                let Some(address) = port_address(at, offset) else { return u32::MAX };
                let _one_at_a_time = lock.lock();
                // SAFETY: configuration cycles do not touch memory.
                unsafe {
                    out32(ADDRESS_PORT, address);
                    in32(DATA_PORT)
                }
            }
        }
    }

    fn write32(&self, at: PciAddress, offset: u16, value: u32) {
        match self {
            Self::Mapped(windows) => windows.write32(at, offset, value),
            Self::Ports(lock) => {
                let Some(address) = port_address(at, offset) else { return };
                let _one_at_a_time = lock.lock();
                // SAFETY: configuration cycles do not touch memory that Rust knows of; bus mastering is its owner's.
                unsafe {
                    out32(ADDRESS_PORT, address);
                    out32(DATA_PORT, value);
                }
            }
        }
    }
}
