//! Frames and send WQEs of any kind: each is taken, dropped or completed in error, and nothing panics.

mod common;

use common::{
    Dice, bytes, command,
    ethernet::{Host, header, tcp},
};

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Changes a few bytes, and sometimes cuts the end off.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len());
            bytes[at] = self.next() as u8;
        }
        if self.below(3) == 0 {
            bytes.truncate(self.below(bytes.len()));
        }
    }
}

#[test]
fn any_frame_is_taken_or_dropped() {
    for seed in 1..=16 {
        println!("seed {seed}");
        let mut dice = Dice(seed);
        let mut b = Host::new(1);
        let rqt = [command(0x110, &[(0, 0x0916_0000), (0x34, 1), (0x38, 1)]), b.rq.number.to_be_bytes().to_vec()];
        let rqt = b.rig.good(&rqt.concat(), 16).dword(8);
        let selector = [0b1111, 1 << 31 | 0b1111, 1 << 30 | 0b1111, 0b1_0011][seed as usize % 4];
        let tirc = [(0, 0x0900_0000), (0x24, 1 << 28), (0x40, rqt | 1 << 31), (0x44, 2 << 28 | b.td), (0x70, selector)];
        let tir = b.rig.good(&command(0x110, &tirc), 16).dword(8);
        b.let_in(tir);
        // All addresses are taken, all tags are taken off.
        b.rig.good(&command(0x200, &[(0, 0x0755_0000), (0xc, 1 << 4), (0x1f0, 1 << 29)]), 16);
        let (head, payload) = tcp(20);
        let v4 = [head.clone(), payload].concat();
        let mut v6 = header(0x86dd);
        v6.extend([0x60, 0, 0, 0, 0, 40, [0, 43, 44, 60, 6, 17, 50, 51][dice.below(8)], 64]);
        v6.extend([7; 32]);
        v6.extend([6, 0, 0, 0, 0, 0, 0, 0, 17, 1]);
        v6.extend([1; 30]);
        let mut tagged = v4.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        for n in 0..1500u32 {
            let mut frame = [&v4, &v6, &tagged][dice.below(3)].clone();
            dice.damage(&mut frame);
            b.rig.bus.put(b.rq.dbr, &((n + 1) & 0xffff).to_be_bytes());
            b.poll();
            b.take(vec![frame]);
        }
        assert!(b.rig.hca.ethernet.dropped.total() < 400, "seed {seed}: {:?}", b.rig.hca.ethernet.dropped);
    }
}

#[test]
fn any_send_wqe_is_executed_or_completes_in_error() {
    for seed in 11..=18 {
        println!("seed {seed}");
        let mut dice = Dice(seed);
        let mut a = Host::new(0);
        for _ in 0..800 {
            let (head, payload) = tcp(60);
            let mut wqe = vec![0; 32 + 64];
            wqe[20] = 0xc0;
            wqe[22..24].copy_from_slice(&(dice.below(100) as u16).to_be_bytes());
            wqe[28..30].copy_from_slice(&(head.len() as u16).to_be_bytes());
            wqe[30..30 + head.len()].copy_from_slice(&head);
            a.rig.bus.put(a.sq.buffers, &payload);
            wqe.extend(bytes(&[60, a.key, (a.sq.buffers >> 32) as u32, a.sq.buffers as u32]));
            let mut damaged = wqe.split_off(16);
            dice.damage(&mut damaged);
            damaged.resize(damaged.len().next_multiple_of(16), 0);
            wqe.extend(damaged);
            a.poll();
            let before = a.rig.hca.report().completions;
            a.ring([0x0a, 0x0e, 0x00, 0x0a][dice.below(4)], wqe);
            assert_eq!(a.rig.hca.report().completions, before + 1, "seed {seed}");
            a.frames();
            for (from, to) in [(3, 0), (0, 1)] {
                let state = a.rig.hca.sqs[&a.sq.number].state.to_raw();
                if state == from || from == 0 && state == 0 {
                    let input = command(0x110, &[(0, 0x0905_0000), (8, from << 28 | a.sq.number), (0x20, to << 20)]);
                    a.rig.good(&input, 16);
                    a.producer = 0;
                }
            }
        }
    }
}
