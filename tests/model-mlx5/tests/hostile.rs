//! A driver and a wire that do anything: the model answers each command, and never panics.

mod common;

use std::time::Duration;

use bareverbs_harness::model::{Bus, DeviceModel, Reset, Step};
use bareverbs_mlx5_prm::cmd::Opcode;
use bareverbs_model_mlx5::HcaConfig;
use common::{BASE, Dice, Rig, SIZE, command, create_cq};

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Mostly zeros and small numbers, sometimes anything: what gets past the first checks.
    fn dword(&mut self) -> u32 {
        match self.below(8) {
            0 => self.next() as u32,
            1 => 1 << self.below(32),
            2 => self.below(0x20) as u32,
            3 => (BASE + 0x20_0000 + self.below(0x100) * 4096) as u32,
            4 => 0x800 + self.below(8) as u32,
            _ => 0,
        }
    }
}

/// A device with one of everything, so that random numbers hit something.
fn furnished(config: HcaConfig) -> (Rig, u32) {
    let mut rig = Rig::running(config);
    rig.bus.link = true;
    let uar = rig.uar();
    let pd = rig.pd();
    let (eqn, _) = rig.eq(uar, 0, !(1 << 0x0a));
    let (memory, dbr) = (rig.page(), rig.page());
    let cqn = rig.good(&create_cq(uar, eqn, 4, memory, dbr), 16).dword(8);
    for service in [0u32, 1, 2] {
        let (memory, dbr) = (rig.page(), rig.page());
        // 16 receive WQEs of 16 bytes, 16 send blocks.
        let mut input = command(
            0x110,
            &[
                (0, 0x0500_0000),
                (0x18, service << 16 | 3 << 11),
                (0x1c, pd),
                (0x20, 4 << 19 | 4 << 11),
                (0x24, uar),
                (0x18 + 0x7c, cqn),
                (0x18 + 0x9c, cqn),
                (0x18 + 0xa4, dbr as u32),
            ],
        );
        input.extend(memory.to_be_bytes());
        rig.good(&input, 16);
    }
    (rig, uar)
}

fn run(seed: u64, config: HcaConfig) {
    let mut dice = Dice(seed);
    let (mut rig, uar) = furnished(config);
    for _ in 0..1500 {
        // Nobody takes events off the queue: when it is full, the device is dead.
        if rig.hca.health.syndrome != 0 {
            break;
        }
        match dice.below(8) {
            0..=3 => {
                let opcode = Opcode::ALL[dice.below(Opcode::ALL.len() as u64) as usize];
                // The device stays up, so that there is something to break.
                if matches!(opcode, Opcode::TEARDOWN_HCA | Opcode::DISABLE_HCA) {
                    continue;
                }
                let len = [8, 16, 0x20, 0x110, 0x118, 0x120, 0x210, 0x1010][dice.below(8) as usize];
                let out_len = [8, 16, 0x70, 0x110, 0x210, 0x1010][dice.below(6) as usize];
                let mut input = vec![0; len];
                for at in (8..len).step_by(4) {
                    if dice.below(4) == 0 {
                        input[at..at + 4].copy_from_slice(&dice.dword().to_be_bytes());
                    }
                }
                input[..2].copy_from_slice(&opcode.0.to_be_bytes());
                input[7] = if dice.below(3) == 0 { dice.below(4) as u8 } else { 0 };
                let parked = rig.hca.cmd.busy;
                let slot = (0..32).find(|s| parked & 1 << s == 0).expect("every slot waits for pages");
                rig.post(slot, &input, out_len);
                settle(&mut rig);
                let waits = rig.hca.cmd.busy & 1 << slot != 0;
                let dead = rig.hca.health.syndrome != 0;
                assert!(dead || waits || rig.answer(slot, 16).is_some(), "seed {seed}: {opcode:?} was not answered");
            }
            4 => {
                let offset = match dice.below(4) {
                    0 => dice.below(0x2000),
                    1 => dice.below(32 << 20),
                    _ => u64::from(uar) * 4096 + [0x20, 0x24, 0x40, 0x48, 0x800, 0x808, 0x900][dice.below(7) as usize],
                };
                // A new queue address would only make the rest fail.
                if offset / 8 == 2 {
                    continue;
                }
                let data = (u64::from(dice.dword()) << 32 | u64::from(dice.dword())).to_be_bytes();
                let len = [1, 2, 4, 8][dice.below(4) as usize];
                rig.hca.mmio_write(&mut rig.bus, 0, offset, &data[..len]);
                let mut back = [0; 8];
                rig.hca.mmio_read(&mut rig.bus, 0, offset, &mut back[..len]);
            }
            5 => {
                let at = BASE + 0x10_0000 + dice.below(SIZE - 0x10_0000 - 8);
                rig.bus.put(at, &dice.next().to_be_bytes());
            }
            6 => {
                let mut frame: Vec<u8> = (0..dice.below(200)).map(|_| dice.next() as u8).collect();
                // An LRH that a port may take: BTH follows, to our LID.
                if dice.below(2) == 0 && frame.len() > 8 {
                    frame[..4].copy_from_slice(&[0x00, 0x02, 0x00, 0x01]);
                }
                rig.hca.receive(&mut rig.bus, 0, frame.into());
            }
            _ => {
                rig.bus.now += Duration::from_micros(dice.below(100_000));
                rig.bus.link = dice.below(4) != 0;
                settle(&mut rig);
            }
        }
    }
    rig.hca.reset(&mut rig.bus, Reset::Function);
    assert_eq!(rig.hca.step(&mut rig.bus), Step::Idle);
    assert_eq!(rig.hca.objects(), 0);
}

fn settle(rig: &mut Rig) {
    for _ in 0..2000 {
        if rig.hca.step(&mut rig.bus) == Step::Idle {
            return;
        }
    }
}

#[test]
fn anything_goes_on_infiniband() {
    for seed in 1..=6 {
        println!("seed {seed}");
        run(seed, HcaConfig::infiniband(0));
    }
}

#[test]
fn anything_goes_on_ethernet() {
    for seed in 101..=106 {
        println!("seed {seed}");
        run(seed, HcaConfig::ethernet(0));
    }
}

#[test]
fn memory_out_of_reach_is_counted() {
    let mut rig = Rig::running(HcaConfig::infiniband(0));
    let before = rig.hca.report().dma_faults;
    rig.bus.write(common::QUEUE + 64 * 4, &[0; 64]).unwrap();
    rig.post(4, &command(16, &[(0, 0x0800_0000)]), 16);
    // The output mailbox lies outside.
    let mut entry = rig.bus.get(common::QUEUE + 64 * 4, 64);
    entry[0x38..0x3c].copy_from_slice(&0x20u32.to_be_bytes());
    entry[0x30..0x38].copy_from_slice(&0x7000_0000u64.to_be_bytes());
    rig.bus.put(common::QUEUE + 64 * 4, &entry);
    rig.settle();
    assert_eq!(rig.hca.report().dma_faults, before + 1);
    assert_eq!(rig.answer(4, 16).unwrap().delivery, 0x6);
}
