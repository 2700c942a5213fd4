//! ACPI tables (ACPI specification 6.5, chapter 5; PCI Firmware specification for MCFG): where PCI's configuration space
//! and the timers are. Every table is checked before it is believed.

use heapless::Vec;

/// Reads physical memory.
pub trait Physical {
    /// `len` bytes at an address, or `None` where there cannot be a table.
    fn bytes(&self, address: u64, len: usize) -> Option<&[u8]>;
}

/// A window of enhanced configuration space: 1 MiB a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ecam {
    /// Where bus 0 would be.
    pub base: u64,
    /// PCI segment.
    pub segment: u16,
    /// First bus.
    pub first_bus: u8,
    /// Last bus.
    pub last_bus: u8,
}

/// What the tables say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acpi {
    /// Windows of configuration space (MCFG).
    pub ecam: Vec<Ecam, 8>,
    /// I/O port of the power-management timer (FADT).
    pub pm_timer: Option<u16>,
    /// Registers of the high-precision event timer (HPET).
    pub hpet: Option<u64>,
}

const HEADER: usize = 36;
/// A table that is longer is none of ours.
const LONGEST: usize = 1 << 20;

impl Acpi {
    /// Reads the tables that the root pointer at `rsdp` leads to. Whatever is missing or broken is left out.
    pub fn read(memory: &impl Physical, rsdp: u64) -> Self {
        let mut acpi = Self::default();
        let Some((root, width)) = root(memory, rsdp) else { return acpi };
        for entry in root.get(HEADER..).unwrap_or(&[]).chunks_exact(width) {
            let address = if width == 8 { u64_at(entry, 0) } else { u32_at(entry, 0).map(u64::from) };
            let Some(table) = address.and_then(|address| table(memory, address)) else { continue };
            match &table[..4] {
                b"MCFG" => acpi.mcfg(table),
                b"FACP" => acpi.pm_timer = pm_timer(table),
                b"HPET" => acpi.hpet = u64_at(table, 44).filter(|_| table.get(40) == Some(&0)),
                _ => {}
            }
        }
        acpi
    }

    fn mcfg(&mut self, table: &[u8]) {
        for entry in table.get(44..).unwrap_or(&[]).chunks_exact(16) {
            let (Some(base), Some(segment)) = (u64_at(entry, 0), u16_at(entry, 8)) else { continue };
            let (first_bus, last_bus) = (entry[10], entry[11]);
            if first_bus <= last_bus && base != 0 {
                // More windows than we hold are of segments that nobody is going to open.
                let _ = self.ecam.push(Ecam { base, segment, first_bus, last_bus });
            }
        }
    }
}

/// The root table, and the width of its entries: XSDT if there is one, else RSDT.
fn root(memory: &impl Physical, rsdp: u64) -> Option<(&[u8], usize)> {
    let pointer = memory.bytes(rsdp, 20)?;
    if &pointer[..8] != b"RSD PTR " || !sums_to_zero(pointer) {
        return None;
    }
    if pointer[15] >= 2 {
        let pointer = memory.bytes(rsdp, 36)?;
        let xsdt = u64_at(pointer, 24).filter(|address| *address != 0 && sums_to_zero(pointer));
        if let Some(root) = xsdt.and_then(|address| table(memory, address)).filter(|root| &root[..4] == b"XSDT") {
            return Some((root, 8));
        }
    }
    let root = table(memory, u32_at(pointer, 16)?.into()).filter(|root| &root[..4] == b"RSDT")?;
    Some((root, 4))
}

/// A whole table with its header.
fn table(memory: &impl Physical, address: u64) -> Option<&[u8]> {
    let len = u32_at(memory.bytes(address, HEADER)?, 4)? as usize;
    if !(HEADER..=LONGEST).contains(&len) {
        return None;
    }
    memory.bytes(address, len).filter(|table| sums_to_zero(table))
}

/// X_PM_TMR_BLK if it names a port, else PM_TMR_BLK.
fn pm_timer(fadt: &[u8]) -> Option<u16> {
    const SYSTEM_IO: u8 = 1;
    if fadt.get(91) != Some(&4) {
        return None;
    }
    let extended = u64_at(fadt, 212).filter(|_| fadt.get(208) == Some(&SYSTEM_IO));
    let port = extended.filter(|port| *port != 0).or(u32_at(fadt, 76).map(u64::from))?;
    u16::try_from(port).ok().filter(|port| *port != 0)
}

fn sums_to_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0u8, |sum, b| sum.wrapping_add(*b)) == 0
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{vec, vec::Vec as List};

    struct Image(List<u8>);

    impl Physical for Image {
        fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
            let start = usize::try_from(address).ok()?;
            self.0.get(start..start.checked_add(len)?)
        }
    }

    impl Image {
        fn put(&mut self, at: usize, bytes: &[u8]) {
            self.0[at..at + bytes.len()].copy_from_slice(bytes);
        }

        /// A table with its length and checksum; `fields` are (offset, bytes).
        fn table(&mut self, at: usize, name: &[u8; 4], len: usize, fields: &[(usize, &[u8])]) {
            self.put(at, name);
            self.put(at + 4, &(len as u32).to_le_bytes());
            for (offset, bytes) in fields {
                self.put(at + offset, bytes);
            }
            self.seal(at, len, 9);
        }

        fn seal(&mut self, at: usize, len: usize, checksum: usize) {
            let sum = self.0[at..at + len].iter().fold(0u8, |sum, b| sum.wrapping_add(*b));
            self.0[at + checksum] = self.0[at + checksum].wrapping_sub(sum);
        }
    }

    /// QEMU's q35: an ACPI 1.0 root pointer and an RSDT; figures as its hw/i386/acpi-build.c builds them.
    fn q35() -> Image {
        let mut image = Image(vec![0; 4096]);
        image.put(0, b"RSD PTR ");
        image.put(16, &256u32.to_le_bytes());
        image.seal(0, 20, 8);
        image.table(
            256,
            b"RSDT",
            48,
            &[(36, &512u32.to_le_bytes()), (40, &1024u32.to_le_bytes()), (44, &1536u32.to_le_bytes())],
        );
        image.table(512, b"FACP", 244, &[(76, &0x608u32.to_le_bytes()), (91, &[4])]);
        image.table(1024, b"HPET", 56, &[(44, &0xfed0_0000u64.to_le_bytes())]);
        image.table(1536, b"MCFG", 60, &[(44, &0xb000_0000u64.to_le_bytes()), (55, &[255])]);
        image
    }

    #[test]
    fn the_tables_of_q35() {
        let acpi = Acpi::read(&q35(), 0);
        assert_eq!(acpi.ecam, [Ecam { base: 0xb000_0000, segment: 0, first_bus: 0, last_bus: 255 }]);
        assert_eq!((acpi.pm_timer, acpi.hpet), (Some(0x608), Some(0xfed0_0000)));
    }

    #[test]
    fn an_xsdt_is_preferred() {
        let mut image = q35();
        image.put(15, &[2]);
        image.put(24, &2048u64.to_le_bytes());
        image.seal(0, 20, 8);
        image.seal(0, 36, 32);
        image.table(2048, b"XSDT", 44, &[(36, &1536u64.to_le_bytes())]);
        let acpi = Acpi::read(&image, 0);
        assert_eq!((acpi.ecam.len(), acpi.pm_timer), (1, None));
    }

    #[test]
    fn broken_tables_are_left_out() {
        let mut image = q35();
        image.0[1536 + 46] ^= 1;
        assert_eq!(Acpi::read(&image, 0).ecam.len(), 0, "the checksum of MCFG is wrong");
        image.0[0] ^= 1;
        assert_eq!(Acpi::read(&image, 0), Acpi::default());
        // Lengths that lead nowhere.
        for len in [0u32, 35, 5000, u32::MAX] {
            let mut image = q35();
            image.put(260, &len.to_le_bytes());
            assert_eq!(Acpi::read(&image, 0), Acpi::default());
        }
        for byte in 0..1600 {
            let mut image = q35();
            image.0[byte] = image.0[byte].wrapping_add(0x80);
            Acpi::read(&image, 0);
        }
    }
}
