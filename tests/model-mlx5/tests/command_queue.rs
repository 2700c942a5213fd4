//! Slots, tokens, mailboxes, signatures, and faults on demand.

mod common;

use std::time::Duration;

use bareverbs_harness::model::{DeviceModel, Step};
use bareverbs_mlx5_prm::{
    cmd::{Opcode, Status},
    context::cmd_hca_cap::{CMDIF_CHECKSUM, cmdif_checksum},
};
use bareverbs_model_mlx5::{
    HcaConfig,
    fault::{CommandFault, CommandRule},
};
use common::{QUEUE, Rig, bytes};

/// Posts a harmless command, spoils its entry or mailbox, and returns the delivery status.
fn delivery(spoil: impl Fn(&mut Rig)) -> u8 {
    let mut rig = Rig::new(HcaConfig::infiniband(0));
    rig.ok(&[0x0104_0000, 0, 0, 0], 12);
    // QUERY_ISSI has one output mailbox.
    rig.post(3, &bytes(&[0x010a_0000, 0, 0, 0]), 0x70);
    spoil(&mut rig);
    rig.settle();
    assert_eq!(rig.bus.violations.len(), 1, "{:?}", rig.bus.violations);
    rig.answer(3, 16).unwrap().delivery
}

const ENTRY: u64 = QUEUE + 3 * 64;
const OUT_BOX: u64 = QUEUE + 0x1000 + 3 * 0x1_0000 + 0x8000;

#[test]
fn delivery_statuses() {
    assert_eq!(delivery(|r| r.bus.put(ENTRY + 0x3c, &[0xee])), 0x2, "token");
    assert_eq!(delivery(|r| r.bus.put(OUT_BOX + 0x23b, &[7])), 0x3, "block number");
    assert_eq!(delivery(|r| r.bus.put(ENTRY + 0x37, &[8])), 0x4, "output pointer");
    assert_eq!(delivery(|r| r.bus.put(ENTRY + 4, &[0, 0, 0, 0x20])), 0x5, "input pointer");
    assert_eq!(delivery(|r| r.bus.put(ENTRY + 4, &[0, 0, 0, 4])), 0x7, "input length");
    assert_eq!(delivery(|r| r.bus.put(ENTRY + 0x38, &[0, 0, 0, 4])), 0x8, "output length");
    assert_eq!(delivery(|r| r.bus.put(ENTRY + 1, &[1])), 0x9, "reserved");
    assert_eq!(delivery(|r| r.bus.put(ENTRY, &[6])), 0x10, "type");
}

/// Whatever stands where signatures are is taken until the driver asks for them to be checked.
#[test]
fn signatures_are_checked_where_asked_for() {
    let mut rig = Rig::new(HcaConfig::infiniband(0));
    rig.ok(&[0x0104_0000, 0, 0, 0], 12);
    let current = rig.ok(&[0x0100_0000, 1, 0, 0], 0x1010);
    let issi = bytes(&[0x010a_0000, 0, 0, 0]);
    for (wanted, delivery) in [(cmdif_checksum::DISABLED, 0), (cmdif_checksum::ENABLED, 1)] {
        let mut set = bytes(&[0x0109_0000, 0, 0, 0]);
        set.extend(&current.out[0x10..]);
        CMDIF_CHECKSUM.set(&mut set[0x10..], wanted);
        rig.good(&set, 16);
        rig.post(3, &issi, 0x70);
        rig.bus.put(ENTRY + 0x3d, &[0x55]);
        rig.settle();
        assert_eq!(rig.answer(3, 16).unwrap().delivery, delivery, "checksum {wanted}");
    }
}

#[test]
fn all_slots_work_at_once() {
    let mut rig = Rig::running(HcaConfig::infiniband(0));
    for slot in 0..32 {
        rig.post(slot, &bytes(&[0x0800_0000, 0, 0, 0]), 16);
    }
    rig.settle();
    let mut pds: Vec<u32> = (0..32).map(|slot| rig.answer(slot, 16).unwrap().dword(8)).collect();
    pds.sort_unstable();
    pds.dedup();
    assert_eq!(pds.len(), 32);
    assert!(rig.bus.violations.is_empty(), "{:?}", rig.bus.violations);
}

#[test]
fn doorbell_for_an_entry_of_software() {
    let mut rig = Rig::new(HcaConfig::infiniband(0));
    rig.write32(0x18, 1 << 5);
    rig.settle();
    assert_eq!(rig.bus.violations.len(), 1);
    assert_eq!(rig.hca.report().violation_count, 1);
}

#[test]
fn nothing_happens_without_bus_mastering() {
    let mut rig = Rig::new(HcaConfig::infiniband(0));
    rig.hca.bus_master(&mut rig.bus, false);
    rig.post(0, &bytes(&[0x0104_0000, 0, 0, 0]), 12);
    rig.settle();
    assert_eq!(rig.answer(0, 12), None);
    rig.hca.bus_master(&mut rig.bus, true);
    rig.settle();
    assert_eq!(rig.answer(0, 12).unwrap().status(), 0);
}

#[test]
fn command_events_follow_their_answers() {
    let mut rig = Rig::running(HcaConfig::infiniband(0));
    let uar = rig.uar();
    let (eqn, memory) = rig.eq(uar, 3, 1 << 0x0a);
    rig.hca.mmio_write(&mut rig.bus, 0, u64::from(uar) * 4096 + 0x40, &(eqn << 24).to_be_bytes());
    rig.post(7, &bytes(&[0x0800_0000, 0, 0, 0]), 16);
    rig.settle();
    let eqe = rig.bus.get(memory, 64);
    assert_eq!((eqe[1], &eqe[32..36], eqe[63]), (0x0a, &[0, 0, 0, 0x80][..], 0));
    assert_eq!(rig.bus.interrupts, [3]);
    // Not armed again: no second interrupt, but an entry.
    rig.ok(&[0x0800_0000, 0, 0, 0], 16);
    assert_eq!(rig.bus.get(memory + 64, 64)[1], 0x0a);
    assert_eq!(rig.bus.interrupts, [3]);
    assert!(rig.bus.violations.is_empty(), "{:?}", rig.bus.violations);
}

#[test]
fn faults_on_demand() {
    let rule = |skip, fault| CommandRule { opcode: Some(Opcode::ALLOC_PD), skip, times: 1, fault };
    let mut rig = Rig::running(HcaConfig::infiniband(0));
    rig.hca.faults.commands = vec![
        rule(1, CommandFault::Refuse(Status::NoResources, 0xabcd)),
        rule(2, CommandFault::Late(Duration::from_secs(1))),
        rule(3, CommandFault::NoEffect),
        rule(4, CommandFault::Never),
    ];
    let alloc = bytes(&[0x0800_0000, 0, 0, 0]);
    assert_ne!(rig.good(&alloc, 16).dword(8), 0);
    let refused = rig.run(&alloc, 16);
    assert_eq!((refused.status(), refused.syndrome()), (0xf, 0xabcd));
    rig.post(0, &alloc, 16);
    rig.settle();
    assert_eq!(rig.answer(0, 16), None);
    rig.bus.now = rig.hca.next_deadline().unwrap();
    assert_eq!(rig.hca.step(&mut rig.bus), Step::Worked);
    assert_eq!(rig.answer(0, 16).unwrap().status(), 0);
    let pds = rig.hca.pds.len();
    assert_eq!(rig.good(&alloc, 16).dword(8), 0);
    assert_eq!(rig.hca.pds.len(), pds, "answered without effect");
    rig.post(9, &alloc, 16);
    rig.settle();
    assert_eq!(rig.answer(9, 16), None);
    assert!(rig.bus.violations.is_empty(), "{:?}", rig.bus.violations);
}
