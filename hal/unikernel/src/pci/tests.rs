use super::*;
use crate::config::{BAR0, COMMAND_IO};
use std::{cell::RefCell, collections::BTreeMap, vec, vec::Vec};

/// A register file: what is stored, and which bits can be written.
#[derive(Clone)]
struct Fake {
    registers: BTreeMap<u16, (u32, u32)>,
}

impl Fake {
    fn new(header: u32) -> Self {
        let registers =
            [(ID, (0x11e8_1234, 0)), (COMMAND, (0, 7)), (CLASS, (0x00ff_0010, 0)), (HEADER_TYPE, (header << 16, 0))];
        Self { registers: registers.into() }
    }

    fn bar(mut self, n: u16, kind: u32, len: u64) -> Self {
        let writable = (len - 1) ^ u64::MAX;
        self.registers.insert(BAR0 + 4 * n, (kind, writable as u32));
        if kind & 0b100 != 0 {
            self.registers.insert(BAR0 + 4 * n + 4, (0, (writable >> 32) as u32));
        }
        self
    }

    fn bridge() -> Self {
        let mut bridge = Self::new(1);
        for (offset, writable) in [
            (BUSES, 0x00ff_ffff),
            (MEMORY_WINDOW, 0xfff0_fff0),
            (PREFETCHABLE_WINDOW, 0xfff0_fff0),
            (PREFETCHABLE_BASE_HIGH, !0),
            (PREFETCHABLE_LIMIT_HIGH, !0),
        ] {
            bridge.registers.insert(offset, (0, writable));
        }
        bridge
    }
}

/// Buses: each a list of (device, function), and what is behind which bridge.
struct Machine {
    functions: RefCell<Vec<(Option<usize>, u8, Fake)>>,
}

impl Machine {
    /// The function that an address leads to now, by the numbers in the bridges above it.
    fn find(&self, at: PciAddress) -> Option<usize> {
        let functions = self.functions.borrow();
        functions.iter().position(|(parent, device, _)| {
            let bus = parent.map_or(0, |p| (functions[p].2.registers[&BUSES].0 >> 8) as u8);
            // A bus behind a bridge without a number cannot be reached.
            let reachable = parent.is_none_or(|_| bus != 0);
            reachable && at.bus == bus && at.device == *device && at.function == 0 && at.segment == 0
        })
    }

    fn register(&self, i: usize, offset: u16) -> u32 {
        self.functions.borrow()[i].2.registers[&offset].0
    }

    fn enumerate(&self, low: Range, high: Range) -> Vec<FunctionInfo> {
        let mut found = Vec::new();
        let mut walk = Enumeration {
            config: self,
            segment: 0,
            last_bus: 255,
            highest_bus: 0,
            low: Space::new(low),
            high: Space::new(high),
            found: |info| found.push(info),
        };
        walk.bus(0);
        found
    }
}

impl ConfigSpace for Machine {
    fn read32(&self, at: PciAddress, offset: u16) -> u32 {
        let Some(i) = self.find(at) else { return u32::MAX };
        self.functions.borrow()[i].2.registers.get(&offset).map_or(0, |r| r.0)
    }

    fn write32(&self, at: PciAddress, offset: u16, value: u32) {
        let Some(i) = self.find(at) else { return };
        let functions = &mut self.functions.borrow_mut();
        let decodes = functions[i].2.registers[&COMMAND].0 & (COMMAND_IO | COMMAND_MEMORY) != 0;
        assert!(!decodes || !(BAR0..0x18).contains(&offset), "a BAR was written while the function decodes");
        if let Some((stored, writable)) = functions[i].2.registers.get_mut(&offset) {
            *stored = *stored & !*writable | value & *writable;
        }
    }
}

const LOW: Range = Range { start: 0xc000_0000, end: 0xfec0_0000 };
const HIGH: Range = Range { start: 0x20_0000_0000, end: 0x100_0000_0000 };
const GIB: u64 = 1 << 30;

/// Two bridges one behind the other, with a 64-bit prefetchable BAR of 1 GiB and a 32-bit one at the end of both.
fn nested() -> Machine {
    let card = Fake::new(0).bar(0, 0b1100, GIB).bar(2, 0, 0x1000).bar(3, 1, 0x20);
    let near = Fake::new(0).bar(0, 0b0100, 0x4000);
    let functions = vec![
        (None, 1, near),
        (None, 2, Fake::bridge().bar(0, 0, 0x1000)),
        (Some(1), 0, Fake::bridge()),
        (Some(2), 0, card),
        (None, 3, Fake::new(0).bar(0, 0, 0x2000)),
    ];
    Machine { functions: RefCell::new(functions) }
}

#[test]
fn what_firmware_left_undone_is_done() {
    let machine = nested();
    let found = machine.enumerate(LOW, HIGH);
    let memory = |address, len, wide, prefetchable| BarInfo::Memory { address, len, wide, prefetchable };
    let [near, outer, inner, card, last] = found[..] else { panic!("{found:?}") };
    // On the root bus a wide BAR may lie high although it is not prefetchable.
    assert_eq!(near.bars[0], memory(0x20_0000_0000, 0x4000, true, false));
    assert_eq!(outer.bars[0], memory(0xc000_0000, 0x1000, false, false));
    assert_eq!((inner.address.bus, card.address.bus, last.address.bus), (1, 2, 0));
    assert_eq!(card.bars[0], memory(0x20_4000_0000, GIB, true, true));
    assert_eq!(card.bars[2], memory(0xc010_0000, 0x1000, false, false));
    assert_eq!(card.bars[3], BarInfo::Io);
    assert_eq!(last.bars[0], memory(0xc020_0000, 0x2000, false, false));
    for (bridge, buses) in [(1, 0x0002_0100), (2, 0x0002_0201)] {
        assert_eq!(machine.register(bridge, BUSES), buses);
        assert_eq!(machine.register(bridge, MEMORY_WINDOW), 0xc010_c010);
        let prefetchable = machine.register(bridge, PREFETCHABLE_WINDOW);
        // The outer window also covers what was left free in front of the BAR.
        assert_eq!(prefetchable & 0xfff0_0000, 0x7ff0_0000);
        assert_eq!(machine.register(bridge, PREFETCHABLE_BASE_HIGH), 0x20);
        assert_eq!(machine.register(bridge, PREFETCHABLE_LIMIT_HIGH), 0x20);
        assert_eq!(machine.register(bridge, COMMAND), COMMAND_MEMORY | COMMAND_BUS_MASTER);
    }
    assert_eq!(machine.register(3, COMMAND), 0, "functions decode nothing until they are opened");
    assert_eq!(machine.register(3, BAR0), 0x4000_0000 | 0b1100);
    assert_eq!(machine.register(3, BAR0 + 4), 0x20);
}

#[test]
fn what_firmware_did_stays() {
    let machine = nested();
    let first = machine.enumerate(LOW, HIGH);
    let registers = machine.functions.borrow().iter().map(|f| f.2.registers.clone()).collect::<Vec<_>>();
    let second = machine.enumerate(Range::new(0xf000_0000, 0x1000), Range::new(0x80_0000_0000, 0x1000));
    assert_eq!(first, second);
    assert_eq!(registers, machine.functions.borrow().iter().map(|f| f.2.registers.clone()).collect::<Vec<_>>());
    let mut taken = Vec::new();
    used(&machine, 0, 0, &mut |range| taken.push(range));
    assert_eq!(taken.len(), 4 + 2 * 2 + 1, "four BARs at the ends, one of a bridge, two windows of each bridge");
    assert!(taken.contains(&Range::new(0x20_4000_0000, GIB)) && taken.contains(&Range::new(0xc010_0000, WINDOW)));
}

#[test]
fn buses_that_firmware_numbered_get_windows_too() {
    let (numbered, expected) = (nested(), nested());
    for (bridge, buses) in [(1, 0x0002_0100), (2, 0x0002_0201)] {
        numbered.functions.borrow_mut()[bridge].2.registers.insert(BUSES, (buses, 0x00ff_ffff));
    }
    assert_eq!(numbered.enumerate(LOW, HIGH), expected.enumerate(LOW, HIGH));
    for bridge in [1, 2] {
        assert_eq!(numbered.register(bridge, PREFETCHABLE_WINDOW), expected.register(bridge, PREFETCHABLE_WINDOW));
        assert_eq!(numbered.register(bridge, MEMORY_WINDOW), 0xc010_c010);
    }
}

#[test]
fn nothing_is_placed_behind_a_window_of_firmwares() {
    let machine = nested();
    machine.enumerate(LOW, HIGH);
    for register in [BAR0, BAR0 + 4, BAR0 + 8] {
        machine.functions.borrow_mut()[3].2.registers.get_mut(&register).unwrap().0 &= 0xf;
    }
    let card = machine.enumerate(LOW, HIGH)[3];
    for n in [0, 2] {
        assert!(matches!(card.bars[n], BarInfo::Memory { address: 0, .. }), "{card:?}");
    }
}

#[test]
fn windows_with_nothing_behind_them_are_closed() {
    let machine = Machine { functions: RefCell::new(vec![(None, 0, Fake::bridge())]) };
    assert_eq!(machine.enumerate(LOW, HIGH).len(), 1);
    assert_eq!(machine.register(0, BUSES), 0x0001_0100);
    for offset in [MEMORY_WINDOW, PREFETCHABLE_WINDOW] {
        assert!(machine.register(0, offset) & 0xfff0 > machine.register(0, offset) >> 16);
    }
}

#[test]
fn a_bar_that_does_not_fit_has_no_address() {
    let card = Fake::new(0).bar(0, 0, 1 << 30).bar(1, 0, 0x1000);
    let machine = Machine { functions: RefCell::new(vec![(None, 0, card)]) };
    let found = machine.enumerate(LOW, HIGH);
    assert!(matches!(found[0].bars[0], BarInfo::Memory { address: 0, .. }), "{found:?}");
    assert!(matches!(found[0].bars[1], BarInfo::Memory { address: 0xc000_0000, .. }), "{found:?}");
}
