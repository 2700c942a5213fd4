//! A toy machine around the model: memory, a clock, and a driver's hands on the command queue. Commands are given as
//! dwords, as the manual's tables and Linux's debug output print them.
#![allow(dead_code)]

pub mod ethernet;

use std::{collections::BTreeMap, fmt, time::Duration};

use bareverbs_harness::model::{Bus, DeviceModel, DmaFault, Frame, Step};
use bareverbs_model_mlx5::{Hca, HcaConfig};

/// Memory that the device reaches: from here.
pub const BASE: u64 = 0x10_0000;
/// Bytes of it.
pub const SIZE: u64 = 0x400_0000;
/// The command queue's page.
pub const QUEUE: u64 = BASE;
/// Mailboxes.
const MAILBOXES: u64 = BASE + 0x1000;

/// The machine.
#[derive(Default)]
pub struct Machine {
    pages: BTreeMap<u64, Vec<u8>>,
    pub now: Duration,
    pub interrupts: Vec<u16>,
    pub frames: Vec<Vec<u8>>,
    pub violations: Vec<String>,
    pub link: bool,
    random: u64,
}

impl Machine {
    pub fn get(&mut self, addr: u64, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        self.read(addr, &mut data).unwrap();
        data
    }

    pub fn put(&mut self, addr: u64, data: &[u8]) {
        self.write(addr, data).unwrap();
    }

    fn byte(&mut self, addr: u64) -> Option<&mut u8> {
        (BASE..BASE + SIZE)
            .contains(&addr)
            .then(|| &mut self.pages.entry(addr >> 12).or_insert_with(|| vec![0; 4096])[(addr & 0xfff) as usize])
    }
}

impl Bus for Machine {
    fn now(&self) -> Duration {
        self.now
    }

    fn read(&mut self, addr: u64, data: &mut [u8]) -> Result<(), DmaFault> {
        for (i, b) in data.iter_mut().enumerate() {
            let addr = addr.wrapping_add(i as u64);
            *b = *self.byte(addr).ok_or(DmaFault { addr, write: false })?;
        }
        Ok(())
    }

    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), DmaFault> {
        for (i, b) in data.iter().enumerate() {
            let addr = addr.wrapping_add(i as u64);
            *self.byte(addr).ok_or(DmaFault { addr, write: true })? = *b;
        }
        Ok(())
    }

    fn interrupt(&mut self, vector: u16) {
        self.interrupts.push(vector);
    }

    fn transmit(&mut self, _port: u8, frame: Frame) {
        self.frames.push(frame.into_bytes());
    }

    fn link_up(&self, _port: u8) -> bool {
        self.link
    }

    fn violation(&mut self, what: fmt::Arguments<'_>) {
        self.violations.push(what.to_string());
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random >> 33
    }
}

/// The model in its machine.
pub struct Rig {
    pub hca: Hca,
    pub bus: Machine,
    token: u8,
    next_page: u64,
}

/// How a command came back.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// Delivery status.
    pub delivery: u8,
    /// The output.
    pub out: Vec<u8>,
}

impl Answer {
    pub fn status(&self) -> u8 {
        self.out[0]
    }

    pub fn syndrome(&self) -> u32 {
        self.dword(4)
    }

    pub fn dword(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.out[at..at + 4].try_into().unwrap())
    }
}

/// Dwords as big-endian bytes.
pub fn bytes(dwords: &[u32]) -> Vec<u8> {
    dwords.iter().flat_map(|d| d.to_be_bytes()).collect()
}

/// `len` bytes that begin with the dwords at the given offsets.
pub fn command(len: usize, dwords: &[(usize, u32)]) -> Vec<u8> {
    let mut out = vec![0; len];
    for (at, dword) in dwords {
        out[*at..at + 4].copy_from_slice(&dword.to_be_bytes());
    }
    out
}

impl Rig {
    /// A card whose command queue stands, after the wait for `initializing`.
    pub fn new(config: HcaConfig) -> Self {
        let mut rig = Self { hca: Hca::new(config), bus: Machine::default(), token: 0x40, next_page: BASE + 0x10_0000 };
        rig.hca.bus_master(&mut rig.bus, true);
        rig.bus.now = Duration::from_millis(1);
        rig.write32(0x10, 0);
        rig.write32(0x14, QUEUE as u32);
        rig
    }

    /// A card after INIT_HCA.
    pub fn running(config: HcaConfig) -> Self {
        let mut rig = Self::new(config);
        rig.ok(&[0x0104_0000, 0, 0, 0], 12);
        rig.ok(&[0x010b_0000, 0, 1, 0], 16);
        rig.give_pages(1);
        rig.give_pages(2);
        rig.ok(&[0x0102_0000, 0, 0, 0], 16);
        rig
    }

    /// As many pages as QUERY_PAGES with this modifier asks for.
    pub fn give_pages(&mut self, op_mod: u32) -> u32 {
        let n = self.ok(&[0x0107_0000, op_mod, 0, 0], 16).dword(12);
        let mut give = bytes(&[0x0108_0000, 1, 0, n]);
        for _ in 0..n {
            give.extend(self.page().to_be_bytes());
        }
        assert_eq!(self.run(&give, 16).status(), 0);
        n
    }

    /// A fresh page.
    pub fn page(&mut self) -> u64 {
        self.next_page += 4096;
        self.next_page
    }

    pub fn write32(&mut self, offset: u64, value: u32) {
        self.hca.mmio_write(&mut self.bus, 0, offset, &value.to_be_bytes());
    }

    pub fn read32(&mut self, offset: u64) -> u32 {
        let mut data = [0; 4];
        self.hca.mmio_read(&mut self.bus, 0, offset, &mut data);
        u32::from_be_bytes(data)
    }

    /// Lets the model work until it has nothing to do.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.hca.step(&mut self.bus) == Step::Idle {
                return;
            }
        }
        panic!("the model never comes to rest");
    }

    /// Writes a command into a slot, mailboxes included, and rings.
    pub fn post(&mut self, slot: u32, input: &[u8], out_len: usize) {
        self.token = self.token.wrapping_add(1).max(1);
        let boxes = MAILBOXES + u64::from(slot) * 0x1_0000;
        let mut entry = vec![0; 64];
        entry[0] = 7;
        entry[4..8].copy_from_slice(&(input.len() as u32).to_be_bytes());
        let inline = input.len().min(16);
        entry[16..16 + inline].copy_from_slice(&input[..inline]);
        let (in_box, out_box) = (boxes, boxes + 0x8000);
        let rest = &input[inline..];
        if !rest.is_empty() {
            entry[8..16].copy_from_slice(&in_box.to_be_bytes());
            self.chain(in_box, rest.len().div_ceil(512), rest);
        }
        if out_len > 16 {
            entry[48..56].copy_from_slice(&out_box.to_be_bytes());
            self.chain(out_box, (out_len - 16).div_ceil(512), &[]);
        }
        entry[56..60].copy_from_slice(&(out_len as u32).to_be_bytes());
        entry[60] = self.token;
        entry[63] = 1;
        self.bus.put(QUEUE + u64::from(slot) * 64, &entry);
        self.write32(0x18, 1 << slot);
    }

    fn chain(&mut self, at: u64, blocks: usize, data: &[u8]) {
        for n in 0..blocks {
            let mut block = vec![0; 576];
            let part = data.chunks(512).nth(n).unwrap_or(&[]);
            block[..part.len()].copy_from_slice(part);
            if n + 1 < blocks {
                block[560..568].copy_from_slice(&(at + 1024 * (n as u64 + 1)).to_be_bytes());
            }
            block[568..572].copy_from_slice(&(n as u32).to_be_bytes());
            block[573] = self.token;
            self.bus.put(at + 1024 * n as u64, &block);
        }
    }

    /// The answer of a slot, once it is there.
    pub fn answer(&mut self, slot: u32, out_len: usize) -> Option<Answer> {
        let entry = self.bus.get(QUEUE + u64::from(slot) * 64, 64);
        if entry[63] & 1 != 0 {
            return None;
        }
        assert_eq!(entry.iter().fold(0, |x, b| x ^ b), 0xff, "signature of the answer");
        let mut out = entry[32..48].to_vec();
        let at = MAILBOXES + u64::from(slot) * 0x1_0000 + 0x8000;
        for n in 0..out_len.saturating_sub(16).div_ceil(512) {
            let block = self.bus.get(at + 1024 * n as u64, 576);
            if entry[63] == 0 {
                assert_eq!(block[573], entry[60], "token of output mailbox {n}");
                assert_eq!(block.iter().fold(0, |x, b| x ^ b), 0xff, "signature of output mailbox {n}");
            }
            out.extend(&block[..512]);
        }
        out.truncate(out_len.max(16));
        Some(Answer { delivery: entry[63] >> 1, out })
    }

    /// Runs a command in slot 0.
    pub fn run(&mut self, input: &[u8], out_len: usize) -> Answer {
        self.post(0, input, out_len);
        self.settle();
        self.answer(0, out_len).expect("the command was not answered")
    }

    /// Runs a command that must succeed.
    pub fn ok(&mut self, dwords: &[u32], out_len: usize) -> Answer {
        self.good(&bytes(dwords), out_len)
    }

    /// Runs a command that must succeed.
    pub fn good(&mut self, input: &[u8], out_len: usize) -> Answer {
        let answer = self.run(input, out_len);
        let (delivery, status) = (answer.delivery, answer.status());
        assert_eq!((delivery, status), (0, 0), "{:#x}: {:?}", answer.syndrome(), self.bus.violations.last());
        answer
    }

    /// Runs a command that must be refused with this status and syndrome, for a reason that is said in words.
    pub fn refused(&mut self, input: &[u8], out_len: usize, status: u8, syndrome: u32) {
        let before = self.bus.violations.len();
        let answer = self.run(input, out_len);
        let said = self.bus.violations.get(before..).unwrap_or_default();
        assert_eq!((answer.status(), answer.syndrome()), (status, syndrome), "{said:?}");
        assert_eq!(said.len(), 1, "{said:?}");
    }

    pub fn uar(&mut self) -> u32 {
        self.ok(&[0x0802_0000, 0, 0, 0], 16).dword(8)
    }

    pub fn pd(&mut self) -> u32 {
        self.ok(&[0x0800_0000, 0, 0, 0], 16).dword(8)
    }

    /// An EQ of 128 entries for these event types (bits), and its memory.
    pub fn eq(&mut self, uar: u32, vector: u32, mask: u64) -> (u32, u64) {
        let first = self.page();
        let second = self.page();
        let mut input = command(
            0x110,
            &[
                (0, 0x0301_0000),
                (0x1c, 7 << 24 | uar),
                (0x24, vector),
                (0x58, (mask >> 32) as u32),
                (0x5c, mask as u32),
            ],
        );
        input.extend(first.to_be_bytes());
        input.extend(second.to_be_bytes());
        for at in [first, second] {
            let mut entries = vec![0; 4096];
            entries.iter_mut().skip(63).step_by(64).for_each(|b| *b = 1);
            self.bus.put(at, &entries);
        }
        (self.good(&input, 16).dword(8), first)
    }

    /// A CQ of `1 << log` entries of 64 bytes: number, memory, doorbell record.
    pub fn cq(&mut self, uar: u32, eqn: u32, log: u32) -> (u32, u64, u64) {
        let (memory, dbr) = (self.page(), self.page());
        let answer = self.good(&create_cq(uar, eqn, log, memory, dbr), 16);
        (answer.dword(8), memory, dbr)
    }
}

/// CREATE_CQ in one page.
pub fn create_cq(uar: u32, eqn: u32, log: u32, memory: u64, dbr: u64) -> Vec<u8> {
    let mut input = command(
        0x110,
        &[(0, 0x0400_0000), (0x1c, log << 24 | uar), (0x24, eqn), (0x48, (dbr >> 32) as u32), (0x4c, dbr as u32)],
    );
    input.extend(memory.to_be_bytes());
    input
}

/// Steele and Vigna's SplitMix64.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}
