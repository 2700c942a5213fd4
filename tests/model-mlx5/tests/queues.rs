//! Event and completion queues, and who uses whom.

mod common;

use bareverbs_harness::model::DeviceModel;
use bareverbs_model_mlx5::{HcaConfig, cq::CqError};
use common::{Rig, bytes, command, create_cq};

/// A completion whose opcode (upper half of the last byte) tells it from an empty entry.
const CQE: [u8; 64] = [0x5a; 64];

struct Cq {
    rig: Rig,
    uar: u32,
    eqn: u32,
    events: u64,
    cqn: u32,
    memory: u64,
    dbr: u64,
}

fn cq(log: u32) -> Cq {
    let mut rig = Rig::running(HcaConfig::infiniband(0));
    let uar = rig.uar();
    let (eqn, events) = rig.eq(uar, 1, 1 << 4);
    let (cqn, memory, dbr) = rig.cq(uar, eqn, log);
    Cq { rig, uar, eqn, events, cqn, memory, dbr }
}

impl Cq {
    fn push(&mut self, solicited: bool) -> Result<(), CqError> {
        let done = self.rig.hca.push_cqe(&mut self.rig.bus, self.cqn, &CQE, solicited);
        self.rig.settle();
        done
    }

    /// Arms with sequence number and consumer index.
    fn arm(&mut self, sn: u32, solicited: bool, index: u32) {
        let word = sn << 28 | u32::from(solicited) << 24 | index;
        self.rig.bus.put(self.dbr + 4, &word.to_be_bytes());
        let bell = bytes(&[word, self.cqn]);
        self.rig.hca.mmio_write(&mut self.rig.bus, 0, u64::from(self.uar) * 4096 + 0x20, &bell);
        self.rig.settle();
    }

    /// Type and number of the entries that the EQ has.
    fn events(&mut self) -> Vec<(u8, u32)> {
        let mut all = Vec::new();
        for i in 0..8 {
            let eqe = self.rig.bus.get(self.events + i * 64, 64);
            if eqe[63] & 1 == 0 {
                let at = if eqe[1] == 4 { 32 } else { 56 };
                all.push((eqe[1], u32::from_be_bytes(eqe[at..at + 4].try_into().unwrap())));
            }
        }
        all
    }
}

#[test]
fn owner_bit_turns_each_lap() {
    let mut cq = cq(2);
    for lap in 0..3u8 {
        for slot in 0..4 {
            let consumed = u32::from(lap) * 4 + slot;
            cq.rig.bus.put(cq.dbr, &consumed.to_be_bytes());
            cq.push(false).unwrap();
            assert_eq!(cq.rig.bus.get(cq.memory + u64::from(slot) * 64 + 63, 1), [0x5a & !1 | lap & 1]);
        }
    }
    assert!(cq.rig.bus.violations.is_empty());
}

#[test]
fn overrun_is_an_event_and_the_end() {
    let mut cq = cq(1);
    cq.push(false).unwrap();
    cq.push(false).unwrap();
    assert_eq!(cq.push(false), Err(CqError));
    assert_eq!(cq.events(), [(4, cq.cqn)]);
    cq.rig.bus.put(cq.dbr, &2u32.to_be_bytes());
    assert_eq!(cq.push(false), Err(CqError), "a CQ in error stays so");
    let query = cq.rig.ok(&[0x0402_0000, 0, cq.cqn, 0], 0x110);
    assert_eq!(query.dword(0x10) >> 28, 0x9, "status overflow");
    assert_eq!(cq.rig.bus.violations.len(), 1);
}

#[test]
fn notification_is_one_shot() {
    let mut cq = cq(3);
    cq.push(false).unwrap();
    assert_eq!(cq.events(), [], "not armed");
    cq.arm(0, false, 1);
    assert_eq!(cq.events(), [], "nothing new");
    cq.push(false).unwrap();
    cq.push(false).unwrap();
    assert_eq!(cq.events(), [(0, cq.cqn)]);
    cq.arm(0, false, 1);
    assert_eq!(cq.events().len(), 1, "the sequence number has fired already");
    cq.arm(1, false, 1);
    assert_eq!(cq.events().len(), 2, "what was there before arming counts");
    cq.arm(2, true, 3);
    cq.push(false).unwrap();
    assert_eq!(cq.events().len(), 2, "not solicited");
    cq.push(true).unwrap();
    assert_eq!(cq.events().len(), 3);
    assert!(cq.rig.bus.violations.is_empty(), "{:?}", cq.rig.bus.violations);
}

#[test]
fn moderation_counts_and_waits() {
    let mut cq = cq(4);
    // Period 100 us, 4 entries.
    let modify = command(0x110, &[(0, 0x0403_0000), (8, cq.cqn), (0xc, 0b11), (0x20, 100 << 16 | 4)]);
    cq.rig.good(&modify, 16);
    cq.arm(0, false, 0);
    for _ in 0..3 {
        cq.push(false).unwrap();
    }
    assert_eq!(cq.events(), []);
    cq.push(false).unwrap();
    assert_eq!(cq.events(), [(0, cq.cqn)]);
    cq.arm(1, false, 4);
    cq.push(false).unwrap();
    assert_eq!(cq.events().len(), 1);
    let due = cq.rig.hca.next_deadline().unwrap();
    assert_eq!(due - cq.rig.bus.now, std::time::Duration::from_micros(100));
    cq.rig.bus.now = due;
    cq.rig.settle();
    assert_eq!(cq.events().len(), 2);
}

#[test]
fn resize_says_so_in_the_old_buffer() {
    let mut cq = cq(2);
    cq.push(false).unwrap();
    let new = cq.rig.page();
    let mut resize = command(0x110, &[(0, 0x0403_0000), (4, 1), (8, cq.cqn), (0xc, 0b111), (0x1c, 4 << 24)]);
    resize.extend(new.to_be_bytes());
    cq.rig.good(&resize, 16);
    assert_eq!(cq.rig.bus.get(cq.memory + 64 + 63, 1), [0x50], "RESIZE_CQ in the second entry");
    cq.push(false).unwrap();
    assert_eq!(cq.rig.bus.get(new + 2 * 64, 2), [0x5a, 0x5a], "the index goes on");
    // Too small for what is outstanding, which is no fault: a driver that has looked before may be overtaken.
    resize[0x1c] = 1;
    let answer = cq.rig.run(&resize, 16);
    assert_eq!((answer.status(), answer.syndrome()), (0x40, 0x040e));
    assert!(cq.rig.bus.violations.is_empty(), "{:?}", cq.rig.bus.violations);
}

#[test]
fn used_objects_stay() {
    let mut cq = cq(2);
    cq.rig.refused(&bytes(&[0x0302_0000, 0, cq.eqn, 0]), 16, 0x9, 0x0306);
    cq.rig.refused(&bytes(&[0x0803_0000, 0, cq.uar, 0]), 16, 0x9, 0x0802);
    cq.rig.refused(&bytes(&[0x0103_0000, 0, 0, 0]), 16, 0x4, 0x010b);
    cq.rig.ok(&[0x0401_0000, 0, cq.cqn, 0], 16);
    cq.rig.refused(&bytes(&[0x0401_0000, 0, cq.cqn, 0]), 16, 0x5, 0x0408);
    cq.rig.ok(&[0x0302_0000, 0, cq.eqn, 0], 16);
    let left = cq.rig.uar();
    cq.rig.ok(&[0x0803_0000, 0, cq.uar, 0], 16);
    // A UAR does not hold the function; who leaves one is told.
    cq.rig.bus.violations.clear();
    cq.rig.ok(&[0x0103_0000, 0, 0, 0], 16);
    assert_eq!(cq.rig.bus.violations, ["TEARDOWN_HCA: 1 UARs are still allocated"], "UAR {left:#x}");
}

#[test]
fn create_cq_is_checked() {
    let mut c = cq(2);
    let (memory, dbr) = (c.rig.page(), c.rig.page());
    let refuse = |c: &mut Cq, input: Vec<u8>, status, syndrome| c.rig.refused(&input, 16, status, syndrome);
    let (uar, eqn) = (c.uar, c.eqn);
    refuse(&mut c, create_cq(uar, eqn, 23, memory, dbr), 0x3, 0x0401);
    refuse(&mut c, create_cq(uar + 1, eqn, 2, memory, dbr), 0x5, 0x0402);
    refuse(&mut c, create_cq(uar, eqn + 1, 2, memory, dbr), 0x5, 0x0403);
    refuse(&mut c, create_cq(uar, eqn, 2, memory, dbr + 4), 0x3, 0x0405);
    refuse(&mut c, create_cq(uar, eqn, 7, memory, dbr), 0x50, 0x0010);
    refuse(&mut c, create_cq(uar, eqn, 2, memory + 0x10, dbr), 0x3, 0x0011);
    let firmwares = *c.rig.hca.pages.held.first().unwrap();
    refuse(&mut c, create_cq(uar, eqn, 2, firmwares, dbr), 0x3, 0x0012);
}

#[test]
fn event_queue_doorbell_is_checked() {
    let mut cq = cq(2);
    let eqn = cq.eqn;
    let at = u64::from(cq.uar) * 4096;
    // One entry was never written: the consumer cannot have taken it.
    cq.rig.hca.mmio_write(&mut cq.rig.bus, 0, at + 0x48, &(eqn << 24 | 1).to_be_bytes());
    cq.rig.settle();
    assert_eq!(cq.rig.bus.violations.len(), 1);
    // A UAR that was not allocated.
    cq.rig.hca.mmio_write(&mut cq.rig.bus, 0, at + 0x1040, &(eqn << 24).to_be_bytes());
    cq.rig.settle();
    assert_eq!(cq.rig.bus.violations.len(), 2);
}
