use super::*;
use bareverbs_harness::{
    Slot, World,
    model::{BarKind, Bus, DeviceModel, Frame, LinkKind, PciIdentity, Reset, Step},
};
use std::{cell::Cell, time::Duration, vec::Vec};

const AT: PciAddress = PciAddress { segment: 0, bus: 0, device: 0, function: 0 };

/// A function that has BARs and does nothing.
struct Bars([BarKind; 6]);

impl DeviceModel for Bars {
    fn identity(&self) -> PciIdentity {
        PciIdentity {
            vendor: 0x15b3,
            device: 0x1017,
            subsystem_vendor: 0x15b3,
            subsystem: 0x0020,
            revision: 1,
            class: 0x02_0700,
            bars: self.0,
            msix_vectors: 1,
        }
    }

    fn ports(&self) -> Vec<LinkKind> {
        Vec::new()
    }

    fn mmio_read(&mut self, _: &mut dyn Bus, _: u8, _: u64, _: &mut [u8]) {}

    fn mmio_write(&mut self, _: &mut dyn Bus, _: u8, _: u64, _: &[u8]) {}

    fn receive(&mut self, _: &mut dyn Bus, _: u8, _: Frame) {}

    fn step(&mut self, _: &mut dyn Bus) -> Step {
        Step::Idle
    }

    fn next_deadline(&self) -> Option<Duration> {
        None
    }

    fn bus_master(&mut self, _: &mut dyn Bus, _: bool) {}

    fn reset(&mut self, _: &mut dyn Bus, _: Reset) {}
}

/// Its configuration space, which demands that a function does not decode what is being sized.
struct Space {
    slot: Slot,
    sized: Cell<u32>,
}

impl Space {
    fn new(bars: [BarKind; 6]) -> Self {
        Self { slot: World::new(78).plug_slot(Box::new(Bars(bars))), sized: Cell::new(0) }
    }

    /// Addresses, and decoding and bus mastering, as firmware left them.
    fn set(&self, registers: &[(u16, u32)]) {
        registers.iter().for_each(|(at, value)| self.slot.config_write(*at, &value.to_le_bytes()));
        self.slot.config_write(COMMAND, &[7, 0]);
    }

    fn bars(&self) -> [u32; 6] {
        std::array::from_fn(|n| self.read32(AT, register(n as u16)))
    }
}

impl ConfigSpace for Space {
    fn read32(&self, _: PciAddress, offset: u16) -> u32 {
        let mut bytes = [0; 4];
        self.slot.config_read(offset, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn write32(&self, at: PciAddress, offset: u16, value: u32) {
        if (BAR0..BAR0 + 24).contains(&offset) {
            let on = COMMAND_IO | COMMAND_MEMORY | COMMAND_BUS_MASTER;
            assert_eq!(self.read32(at, COMMAND) & on, 0, "register {offset:#x} is sized while the function decodes");
            self.sized.set(self.sized.get() + 1);
        }
        self.slot.config_write(offset, &value.to_le_bytes());
    }
}

#[test]
fn case_78_three_bars_with_type_size_and_base() {
    let none = BarKind::None;
    let space =
        Space::new([BarKind::Memory64(32 << 20), none, BarKind::Memory32(1 << 20), none, BarKind::Io(256), none]);
    space.set(&[(0x10, 0x0600_000c), (0x14, 0x38), (0x18, 0xfea0_0000), (0x20, 0xc000)]);
    let before = space.bars();
    let found = read(&space, AT, 6);
    let wide = BarInfo::Memory { address: 0x38_0600_0000, len: 32 << 20, wide: true, prefetchable: true };
    let narrow = BarInfo::Memory { address: 0xfea0_0000, len: 1 << 20, wide: false, prefetchable: false };
    assert_eq!(found, [wide, BarInfo::None, narrow, BarInfo::None, BarInfo::Io, BarInfo::None]);
    assert_eq!(space.bars(), before, "sizing restores the addresses");
    assert_eq!(before[..3], [0x0600_000c, 0x38, 0xfea0_0000]);
    assert_eq!(space.read32(AT, COMMAND) & 7, 0, "whoever opens the function turns decoding on");
    // All ones and the old value, six times.
    assert_eq!(space.sized.get(), 12);
}

#[test]
fn case_78_a_bar_of_more_than_4_gib_is_sized_by_its_upper_half() {
    let none = BarKind::None;
    let space = Space::new([BarKind::Memory64(16 << 30), none, none, none, none, none]);
    space.set(&[(0x14, 0x40)]);
    let wide = BarInfo::Memory { address: 0x40 << 32, len: 16 << 30, wide: true, prefetchable: true };
    assert_eq!(read(&space, AT, 6)[..2], [wide, BarInfo::None]);
}
