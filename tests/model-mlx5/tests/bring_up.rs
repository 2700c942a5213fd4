//! From the registers to INIT_HCA and back, and what is refused on the way.

mod common;

use bareverbs_model_mlx5::HcaConfig;
use common::{Rig, bytes, command};

#[test]
fn initialization_segment_says_what_linux_reads() {
    let mut rig = Rig::new(HcaConfig::infiniband(0));
    assert_eq!(rig.read32(0) & 0xffff, 16, "firmware major");
    assert_eq!(rig.read32(4) >> 16, 5, "command interface revision");
    assert_eq!(rig.read32(0x14) & 0xff, 0x56, "32 slots of 64 bytes");
    assert_eq!(rig.read32(0x1fc) >> 31, 0, "initializing");
    assert_ne!(rig.read32(0x230), u32::MAX, "firmware version in the health buffer");
    let before = rig.read32(0x1010);
    rig.bus.now += std::time::Duration::from_secs(1);
    assert_ne!(rig.read32(0x1010), before, "health counter");
    assert!(rig.bus.violations.is_empty(), "{:?}", rig.bus.violations);
}

#[test]
fn whole_life() {
    let mut rig = Rig::new(HcaConfig::infiniband(0));
    rig.ok(&[0x0104_0000, 0, 0, 0], 12);
    let issi = rig.ok(&[0x010a_0000, 0, 0, 0], 0x70);
    assert_eq!(issi.dword(0x6c) & 2, 2, "ISSI 1");
    rig.ok(&[0x010b_0000, 0, 1, 0], 16);
    assert_ne!(rig.give_pages(1), 0);
    let max = rig.ok(&[0x0100_0000, 0, 0, 0], 0x1010);
    assert_eq!(max.out[0x10 + 0x44 + 3] & 7, 7, "RC, UC, UD");
    let current = rig.ok(&[0x0100_0000, 1, 0, 0], 0x1010);
    let mut set = bytes(&[0x0109_0000, 0, 0, 0]);
    set.extend(&current.out[0x10..]);
    rig.good(&set, 16);
    assert_ne!(rig.give_pages(2), 0);
    rig.ok(&[0x0102_0000, 0, 0, 0], 16);
    let held = rig.hca.report().pages;
    rig.ok(&[0x0103_0000, 0, 0, 0], 16);
    let taken = rig.ok(&[0x0108_0000, 2, 0, held as u32], 16 + 8 * held as usize);
    assert_eq!(taken.dword(8), held as u32);
    rig.ok(&[0x0105_0000, 0, 0, 0], 12);
    assert_eq!(rig.hca.report().pages, 0);
    assert!(rig.bus.violations.is_empty(), "{:?}", rig.bus.violations);
}

#[test]
fn order_is_held() {
    let mut rig = Rig::new(HcaConfig::infiniband(0));
    rig.refused(&bytes(&[0x0102_0000, 0, 0, 0]), 16, 0x4, 0x0008);
    rig.ok(&[0x0104_0000, 0, 0, 0], 12);
    rig.refused(&bytes(&[0x0104_0000, 0, 0, 0]), 12, 0x4, 0x0101);
    rig.refused(&bytes(&[0x0102_0000, 0, 0, 0]), 16, 0x4, 0x0107);
    rig.refused(&bytes(&[0x010b_0000, 0, 2, 0]), 16, 0x3, 0x0104);
    rig.ok(&[0x010b_0000, 0, 1, 0], 16);
    rig.refused(&bytes(&[0x0102_0000, 0, 0, 0]), 16, 0x4, 0x0108);
    rig.refused(&bytes(&[0x0800_0000, 0, 0, 0]), 16, 0x4, 0x0008);
}

#[test]
fn lengths_and_headers_are_held() {
    let mut rig = Rig::running(HcaConfig::infiniband(0));
    rig.refused(&bytes(&[0x0800_0000, 0]), 16, 0x50, 0x0002);
    rig.refused(&bytes(&[0x0800_0000, 0, 0, 0]), 8, 0x51, 0x0004);
    rig.refused(&bytes(&[0x0800_0001, 0, 0, 0]), 16, 0x3, 0x0005);
    rig.refused(&bytes(&[0x0800_0000, 0x1_0000, 0, 0]), 16, 0x3, 0x0006);
    rig.refused(&command(0x30, &[(0, 0x0800_0000), (0x2c, 1)]), 16, 0x50, 0x0003);
    // An unknown opcode is not the driver's fault: it may try.
    let unknown = rig.run(&bytes(&[0x0206_0000, 0, 0, 0]), 16);
    assert_eq!((unknown.delivery, unknown.status()), (0, 0x2));
}

#[test]
fn capabilities_cannot_be_raised() {
    let mut rig = Rig::new(HcaConfig::infiniband(0));
    rig.ok(&[0x0104_0000, 0, 0, 0], 12);
    rig.ok(&[0x010b_0000, 0, 1, 0], 16);
    rig.give_pages(1);
    let current = rig.ok(&[0x0100_0000, 1, 0, 0], 0x1010);
    let mut set = bytes(&[0x0109_0000, 0, 0, 0]);
    set.extend(&current.out[0x10..]);
    // log_max_qp is the low 5 bits of dword 0x10.
    set[0x10 + 0x13] = 0x1f;
    rig.refused(&set, 16, 0x3, 0x0b05);
    set[0x10 + 0x13] = 0x0a;
    rig.good(&set, 16);
    let current = rig.ok(&[0x0100_0000, 1, 0, 0], 0x1010);
    assert_eq!(current.out[0x10 + 0x13] & 0x1f, 0x0a);
    // num_ports cannot be chosen.
    set[0x10 + 0x37] = 2;
    rig.refused(&set, 16, 0x3, 0x0b06);
}

#[test]
fn firmware_pages_are_firmwares() {
    let mut rig = Rig::running(HcaConfig::infiniband(0));
    let page = *rig.hca.pages.held.first().unwrap();
    let mut twice = bytes(&[0x0108_0000, 1, 0, 1]);
    twice.extend(page.to_be_bytes());
    rig.refused(&twice, 16, 0x3, 0x0204);
    let mut outside = bytes(&[0x0108_0000, 1, 0, 1]);
    outside.extend(0x1000u64.to_be_bytes());
    let answer = rig.run(&outside, 16);
    assert_eq!((answer.status(), answer.syndrome()), (0x3, 0x0205));
    assert_eq!(rig.hca.report().dma_faults, 1);
    // Somebody writes into a page that was given.
    rig.bus.violations.clear();
    rig.bus.put(page + 0x800, &[1, 2, 3, 4]);
    let held = rig.hca.report().pages as u32;
    rig.ok(&[0x0103_0000, 0, 0, 0], 16);
    rig.ok(&[0x0108_0000, 2, 0, held], 16 + 8 * held as usize);
    assert_eq!(rig.bus.violations.len(), 1, "{:?}", rig.bus.violations);
}
