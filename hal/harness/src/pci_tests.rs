use super::*;

fn space(bars: [BarKind; 6]) -> ConfigSpace {
    ConfigSpace::new(PciIdentity {
        vendor: 0x15b3,
        device: 0x1017,
        subsystem_vendor: 0x15b3,
        subsystem: 0x0020,
        revision: 0x01,
        class: 0x02_0700,
        bars,
        msix_vectors: 64,
    })
}

const ONE_BAR: [BarKind; 6] =
    [BarKind::Memory64(32 << 20), BarKind::None, BarKind::None, BarKind::None, BarKind::None, BarKind::None];

fn read16(c: &ConfigSpace, at: usize) -> u16 {
    let mut b = [0; 2];
    c.read(at, &mut b);
    u16::from_le_bytes(b)
}

fn read32(c: &ConfigSpace, at: usize) -> u32 {
    let mut b = [0; 4];
    c.read(at, &mut b);
    u32::from_le_bytes(b)
}

fn write32(c: &mut ConfigSpace, at: usize, v: u32) -> Effects {
    c.write(at, &v.to_le_bytes())
}

/// Finds BARs as the PCI Local Bus specification 3.0, 6.2.5.1 tells software to: (slot, type bits, size, base).
fn probe(c: &mut ConfigSpace) -> Vec<(usize, u32, u64, u64)> {
    let mut found = Vec::new();
    let command = read16(c, 4);
    c.write(4, &(command & !3).to_le_bytes());
    let mut n = 0;
    while n < 6 {
        let at = 0x10 + 4 * n;
        let old = read32(c, at);
        write32(c, at, u32::MAX);
        let ones = read32(c, at);
        write32(c, at, old);
        let io = ones & 1 != 0;
        let kind = if io { ones & 3 } else { ones & 0xf };
        let mut mask = u64::from(ones & if io { !3 } else { !0xf }) | 0xffff_ffff << 32;
        let mut base = u64::from(old & if io { !3 } else { !0xf });
        if !io && kind & 0b110 == 0b100 {
            let old = read32(c, at + 4);
            write32(c, at + 4, u32::MAX);
            mask = u64::from(read32(c, at + 4)) << 32 | mask & 0xffff_ffff;
            write32(c, at + 4, old);
            base |= u64::from(old) << 32;
        }
        if ones != 0 {
            found.push((n, kind, (!mask).wrapping_add(1), base));
        }
        n += if !io && kind & 0b110 == 0b100 { 2 } else { 1 };
    }
    c.write(4, &command.to_le_bytes());
    found
}

#[test]
fn case_78_three_bars_are_found_with_type_size_and_base() {
    let mut c = space([
        BarKind::Memory64(32 << 20),
        BarKind::None,
        BarKind::Memory32(1 << 20),
        BarKind::None,
        BarKind::Io(256),
        BarKind::None,
    ]);
    write32(&mut c, 0x10, 0x0600_000c);
    write32(&mut c, 0x14, 0x38);
    write32(&mut c, 0x18, 0xfea0_0000);
    write32(&mut c, 0x20, 0xc000);
    c.write(4, &[7, 0]);
    let before = c.bytes.clone();
    let found = probe(&mut c);
    assert_eq!(found, [(0, 0b1100, 32 << 20, 0x38_0600_0000), (2, 0, 1 << 20, 0xfea0_0000), (4, 1, 256, 0xc000)]);
    assert_eq!(c.bytes, before, "probing leaves no trace");
    assert_eq!([0, 2, 4].map(|n| c.bar_address(n)), [0x38_0600_0000, 0xfea0_0000, 0xc000]);
}

#[test]
fn a_bar_of_more_than_4_gib_is_sized_by_its_upper_half() {
    let mut bars = ONE_BAR;
    bars[0] = BarKind::Memory64(16 << 30);
    assert_eq!(probe(&mut space(bars)), [(0, 0b1100, 16 << 30, 0)]);
}

#[test]
fn a_bar_cannot_be_moved_off_its_alignment() {
    let mut c = space(ONE_BAR);
    write32(&mut c, 0x10, 0x0712_3456);
    assert_eq!(read32(&c, 0x10), 0x0600_000c);
}

#[test]
fn read_only_registers_hold() {
    let mut c = space(ONE_BAR);
    for at in [0x00, 0x08, 0x1c, 0x2c, 0x30, 0x34, PCIE, PCIE + 4, MSIX + 4, POWER, 0x100, 0xffc] {
        let before = read32(&c, at);
        assert_eq!(write32(&mut c, at, !before), Effects::default());
        assert_eq!(read32(&c, at), before, "{at:#x}");
    }
    assert_eq!(read32(&c, 0), 0x1017_15b3);
    assert_eq!(read32(&c, 8), 0x0207_0001);
    assert_eq!(read32(&c, 0x2c), 0x0020_15b3);
}

#[test]
fn the_chain_holds_express_msix_and_power() {
    let c = space(ONE_BAR);
    assert_ne!(read16(&c, 6) & 0x10, 0);
    let mut at = read16(&c, 0x34) as usize & 0xfc;
    let mut chain = Vec::new();
    while at != 0 {
        let head = read16(&c, at);
        chain.push((at, head & 0xff));
        at = head as usize >> 8;
    }
    assert_eq!(chain, [(0x60, 0x10), (0x9c, 0x11), (0x40, 0x01)]);
    assert_eq!(read16(&c, MSIX + 2), 63);
}

#[test]
fn bus_mastering_is_told_once() {
    let mut c = space(ONE_BAR);
    assert_eq!(c.write(4, &[6, 0]).bus_master, Some(true));
    assert!(c.memory_enabled() && c.bus_master());
    assert_eq!(c.write(4, &[6, 0]), Effects::default());
    assert_eq!(c.write(4, &[2, 0]).bus_master, Some(false));
    assert!(!c.bus_master() && c.memory_enabled());
}

#[test]
fn function_level_reset_clears_what_software_wrote() {
    let mut c = space(ONE_BAR);
    let fresh = c.bytes.clone();
    write32(&mut c, 0x10, 0x0600_0000);
    c.write(4, &[6, 0]);
    c.write(MSIX + 2, &[0, 0x80]);
    assert!(c.msix_enabled());
    let control = read16(&c, DEVICE_CONTROL) | 1 << 15;
    let effects = c.write(DEVICE_CONTROL, &control.to_le_bytes());
    assert_eq!(effects, Effects { bus_master: Some(false), reset: Some(Reset::Function) });
    assert_eq!(c.bytes, fresh);
    assert_eq!(read16(&c, DEVICE_CONTROL) & 1 << 15, 0, "the bit reads as zero");
}

#[test]
fn leaving_d3hot_resets_and_d1_is_ignored() {
    let mut c = space(ONE_BAR);
    c.write(4, &[6, 0]);
    assert_eq!(c.write(POWER_STATE, &[1]), Effects::default());
    assert!(c.memory_enabled());
    assert_eq!(c.write(POWER_STATE, &[3]).bus_master, Some(false));
    assert!(!c.memory_enabled(), "asleep, the function answers to configuration only");
    assert_eq!(c.write(POWER_STATE, &[0]).reset, Some(Reset::Function));
    assert!(!c.memory_enabled(), "and comes back uninitialized");
}

#[test]
fn status_bits_clear_by_writing_one() {
    let mut c = space(ONE_BAR);
    c.bytes[STATUS + 1] = 0xf8;
    c.write(STATUS, &[0xff, 0x80]);
    assert_eq!(read16(&c, STATUS), 0x7810);
}

#[test]
fn reads_and_writes_beyond_the_end_are_harmless() {
    let mut c = space(ONE_BAR);
    let mut b = [0; 4];
    c.read(4094, &mut b);
    assert_eq!(b, [0, 0, 0xff, 0xff]);
    assert_eq!(c.write(4094, &[1; 8]), Effects::default());
    c.read(usize::MAX, &mut b);
    assert_eq!(b, [0xff; 4]);
}
