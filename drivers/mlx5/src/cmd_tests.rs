//! The command queue against a device that looks at every byte of entry and mailboxes.

use super::*;
use crate::registers::init_segment;
use bareverbs_hal::Platform;
use bareverbs_harness::{
    Function, World,
    model::{BarKind, Bus, DeviceModel, Frame, LinkKind, PciIdentity, Reset, Step},
};
use bareverbs_mlx5_prm::cmd::mailbox;
use std::{
    sync::{Arc, Mutex},
    vec::Vec,
};

/// What the device found in one command.
#[derive(Clone, Debug, Default)]
struct Seen {
    slot: u32,
    input: Vec<u8>,
    output_len: usize,
}

/// How the device answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// With the output bytes 8, 9, 10 ... behind a header that says OK.
    Count,
    /// With this delivery status.
    Delivery(u8),
    /// With this status and syndrome.
    Status(u8, u32),
    /// With broken signatures.
    BadSignature,
    /// Not at all.
    Never,
}

struct State {
    address: u64,
    doorbells: Vec<u32>,
    answer: Answer,
    seen: Vec<Seen>,
    wrong: Vec<String>,
}

#[derive(Clone)]
struct Device(Arc<Mutex<State>>);

fn read64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn xor(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |x, b| x ^ b)
}

/// Walks a chain of mailboxes as the PRM describes it and returns the address of each block.
fn walk(bus: &mut dyn Bus, wrong: &mut Vec<String>, first: u64, len: usize, token: u8) -> Vec<u64> {
    let mut addresses = Vec::new();
    let mut next = first;
    for n in 0..len.saturating_sub(16).div_ceil(512) {
        if next == 0 || !next.is_multiple_of(512) {
            wrong.push(format!("block {n} at {next:#x}"));
            return addresses;
        }
        let mut block = [0; 576];
        bus.read(next, &mut block).expect("the block is mapped");
        if read64(&block, 0x238) >> 32 != n as u64 {
            wrong.push(format!("block {n} is numbered {:#x}", read64(&block, 0x238) >> 32));
        }
        if block[0x200..0x230].iter().any(|b| *b != 0) || block[0x23c] != 0 {
            wrong.push(format!("block {n}: reserved bytes"));
        }
        if block[0x23d] != token {
            wrong.push(format!("block {n}: token {:#x} instead of {token:#x}", block[0x23d]));
        }
        if xor(&block[0x200..0x23f]) != 0xff || xor(&block) != 0xff {
            wrong.push(format!("block {n}: signature"));
        }
        addresses.push(next);
        next = read64(&block, 0x230);
    }
    if next != 0 {
        wrong.push(format!("the last block leads on to {next:#x}"));
    }
    addresses
}

impl State {
    fn run(&mut self, bus: &mut dyn Bus, slot: u32) {
        let at = self.address + 64 * u64::from(slot);
        let mut e = [0; 64];
        bus.read(at, &mut e).expect("the queue is mapped");
        let wrong = &mut self.wrong;
        if e[0] != 7 || e[1..4] != [0; 3] || e[0x3e] != 0 || e[0x3f] != 1 || xor(&e) != 0xff {
            wrong.push(format!("entry {e:02x?}"));
        }
        let (input_len, output_len) = (read64(&e, 0) as u32 as usize, (read64(&e, 0x38) >> 32) as usize);
        let token = e[0x3c];
        let mut input = e[0x10..0x20].to_vec();
        for addr in walk(bus, wrong, read64(&e, 8), input_len, token) {
            let mut data = [0; 512];
            bus.read(addr, &mut data).unwrap();
            input.extend(data);
        }
        if input[input_len..].iter().any(|b| *b != 0) {
            wrong.push("bytes behind the input".into());
        }
        input.truncate(input_len);
        let blocks = walk(bus, wrong, read64(&e, 0x30), output_len, token);
        self.seen.push(Seen { slot, input, output_len });

        let mut output: Vec<u8> = (0..output_len).map(|i| i as u8).collect();
        output[..8].fill(0);
        let mut delivery = 0;
        match self.answer {
            Answer::Never => return,
            Answer::Delivery(status) => delivery = status,
            Answer::Status(status, syndrome) => {
                output[0] = status;
                output[4..8].copy_from_slice(&syndrome.to_be_bytes());
            }
            Answer::Count | Answer::BadSignature => {}
        }
        for (addr, data) in blocks.iter().zip(output[16..].chunks(512)) {
            let mut block = [0; 576];
            bus.read(*addr, &mut block).unwrap();
            block[..data.len()].copy_from_slice(data);
            block[0x23f] ^= !xor(&block) ^ u8::from(self.answer == Answer::BadSignature);
            bus.write(*addr, &block).unwrap();
        }
        e[0x20..0x30].copy_from_slice(&output[..16]);
        e[0x3f] = delivery << 1;
        e[0x3d] ^= !xor(&e);
        bus.write(at, &e).unwrap();
    }
}

impl DeviceModel for Device {
    fn identity(&self) -> PciIdentity {
        let mut bars = [BarKind::None; 6];
        bars[0] = BarKind::Memory64(1 << 20);
        PciIdentity {
            vendor: 0x15b3,
            device: 0x1017,
            subsystem_vendor: 0,
            subsystem: 0,
            revision: 0,
            class: 0x02_0700,
            bars,
            msix_vectors: 0,
        }
    }

    fn ports(&self) -> Vec<LinkKind> {
        Vec::new()
    }

    fn mmio_read(&mut self, _: &mut dyn Bus, _: u8, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if offset == 0x14 {
            data[3] = 0x56;
        }
    }

    fn mmio_write(&mut self, _: &mut dyn Bus, _: u8, offset: u64, data: &[u8]) {
        let mut state = self.0.lock().unwrap();
        let value = u32::from_be_bytes(data.try_into().unwrap());
        match offset {
            0x10 => state.address = u64::from(value) << 32,
            0x14 => state.address |= u64::from(value),
            0x18 => state.doorbells.push(value),
            _ => state.wrong.push(format!("a write to {offset:#x}")),
        }
    }

    fn receive(&mut self, _: &mut dyn Bus, _: u8, _: Frame) {}

    fn step(&mut self, bus: &mut dyn Bus) -> Step {
        let mut state = self.0.lock().unwrap();
        match state.doorbells.pop() {
            Some(bits) if bits.count_ones() == 1 => state.run(bus, bits.trailing_zeros()),
            Some(bits) => state.wrong.push(format!("doorbell {bits:#x}")),
            None => return Step::Idle,
        }
        Step::Worked
    }

    fn next_deadline(&self) -> Option<Duration> {
        None
    }

    fn bus_master(&mut self, _: &mut dyn Bus, _: bool) {}

    fn reset(&mut self, _: &mut dyn Bus, _: Reset) {}
}

struct Bench {
    device: Device,
    function: Function,
    queue: CommandQueue,
}

impl Bench {
    fn new(answer: Answer) -> Self {
        let state = State { address: 0, doorbells: Vec::new(), answer, seen: Vec::new(), wrong: Vec::new() };
        let device = Device(Arc::new(Mutex::new(state)));
        let function = World::new(53).plug(Box::new(device.clone()));
        let registers = init_segment(&function).unwrap();
        let mut queue = CommandQueue::new(&function, registers, Duration::from_secs(1)).unwrap();
        // SAFETY: nobody told it of memory yet.
        unsafe { function.set_bus_master(true) }.unwrap();
        queue.attach(&function).unwrap();
        Self { device, function, queue }
    }

    /// Runs a command with these lengths, whose page list, where one is wanted, makes up the input's end.
    fn run(&mut self, input_len: usize, output_len: usize, pages: usize) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let mut fixed: Vec<u8> = (0..input_len - 8 * pages).map(|i| (i * 7) as u8).collect();
        let each = |f: &mut dyn FnMut(u64)| (0..pages as u64).for_each(|n| f(0x1234_5000 + (n << 12)));
        let list = PageList::Each { count: pages, each: &each };
        let f = &self.function;
        let pending = self.queue.submit(f, Opcode::NOP, 0x55, &mut fixed, &list, output_len)?;
        while !self.queue.answered(f, &pending)? {
            f.relax();
        }
        let mut out = vec![0xee; output_len];
        self.queue.finish(f, pending, &mut out)?;
        each(&mut |addr| fixed.extend(addr.to_be_bytes()));
        Ok((fixed, out))
    }

    fn last(&self) -> Seen {
        self.device.0.lock().unwrap().seen.last().cloned().unwrap()
    }

    fn wrong(&self) -> Vec<String> {
        self.device.0.lock().unwrap().wrong.clone()
    }

    fn close(self) {
        self.function.silence().unwrap();
        // SAFETY: the function cannot reach memory any more.
        unsafe { self.queue.free(&self.function) };
        assert_eq!(self.function.dma_outstanding(), 0);
        assert_eq!(self.function.dma_fault_count(), 0);
    }
}

#[test]
fn case_53_mailbox_chain() {
    const LENGTHS: [usize; 5] = [16, 17, 528, 529, 4112];
    for verify in [false, true] {
        let mut bench = Bench::new(Answer::Count);
        if verify {
            bench.queue.verify_signatures();
        }
        for input_len in LENGTHS {
            for output_len in LENGTHS {
                let (input, out) = bench.run(input_len, output_len, 0).unwrap();
                let seen = bench.last();
                assert_eq!((&seen.input, seen.output_len), (&input, output_len), "{input_len} {output_len}");
                assert!(seen.input_header_is(Opcode::NOP, 0x55));
                let expected: Vec<u8> = (0..output_len).map(|i| if i < 8 { 0 } else { i as u8 }).collect();
                assert_eq!(out, expected, "{input_len} {output_len}");
                assert_eq!(bench.wrong(), Vec::<String>::new(), "{input_len} {output_len}");
            }
        }
        bench.close();
    }
}

impl Seen {
    fn input_header_is(&self, opcode: Opcode, op_mod: u16) -> bool {
        self.input[..2] == opcode.0.to_be_bytes() && self.input[6..8] == op_mod.to_be_bytes()
    }
}

#[test]
fn a_long_page_list_streams_into_mailboxes_of_its_own() {
    let mut bench = Bench::new(Answer::Count);
    let begin = bench.function.dma_outstanding();
    for pages in [1, 2, 62, 64, 65, 1535, 1536, 20_000] {
        let (input, _) = bench.run(0x110 + 8 * pages, 16, pages).unwrap();
        assert_eq!(bench.last().input, input, "{pages}");
        assert_eq!(bench.function.dma_outstanding(), begin, "{pages}");
    }
    assert_eq!(bench.wrong(), Vec::<String>::new());
    bench.close();
}

#[test]
fn a_list_that_is_not_as_long_as_it_says_is_not_sent() {
    let mut bench = Bench::new(Answer::Count);
    for (says, is) in [(4, 3), (4, 5), (100, 99), (2, 200)] {
        let each = |f: &mut dyn FnMut(u64)| (0..is).for_each(|n| f(n << 12));
        let list = PageList::Each { count: says, each: &each };
        let result = bench.queue.submit(&bench.function, Opcode::NOP, 0, &mut [0; 16], &list, 16);
        assert!(matches!(result, Err(Error::Platform(_))), "{says} {is}");
    }
    assert_eq!(bench.queue.issued(), 0);
    bench.close();
}

#[test]
fn all_slots_take_turns_but_the_last() {
    let mut bench = Bench::new(Answer::Count);
    let mut slots = Vec::new();
    for _ in 0..62 {
        bench.run(16, 16, 0).unwrap();
        slots.push(bench.last().slot);
    }
    slots.sort_unstable();
    assert_eq!(slots, (0..31).flat_map(|n| [n, n]).collect::<Vec<_>>());
    let f = &bench.function;
    let pending = bench.queue.submit_pages(f, 1, &mut [0; 16], &PageList::None, 16).unwrap();
    while !bench.queue.answered(f, &pending).unwrap() {
        f.relax();
    }
    bench.queue.finish(f, pending, &mut [0; 16]).unwrap();
    assert_eq!(bench.last().slot, 31);
    bench.close();
}

#[test]
fn refusals_are_named() {
    let opcode = Opcode::NOP.0;
    let cases = [
        (Answer::Delivery(3), Error::CommandDelivery { opcode, status: 3, name: "bad block number" }),
        (Answer::Delivery(2), Error::CommandDelivery { opcode, status: 2, name: "token error" }),
        (Answer::Status(5, 0x1234), Error::Command { opcode, status: 5, name: "bad resource", syndrome: 0x1234 }),
    ];
    for (answer, error) in cases {
        let mut bench = Bench::new(answer);
        assert_eq!(bench.run(600, 600, 0).unwrap_err(), error);
        bench.close();
    }
}

#[test]
fn a_broken_signature_is_seen_where_answers_are_signed() {
    let mut bench = Bench::new(Answer::BadSignature);
    bench.run(16, 600, 0).unwrap();
    bench.queue.verify_signatures();
    let error = bench.run(16, 600, 0).unwrap_err();
    assert_eq!(error, Error::BadAnswer { opcode: Opcode::NOP.0, why: "signature" });
    bench.close();
}

#[test]
fn an_unanswered_command_keeps_its_memory() {
    let mut bench = Bench::new(Answer::Never);
    let begin = bench.function.now();
    let error = bench.run(0x110 + 8 * 4000, 16, 4000).unwrap_err();
    assert_eq!(error, Error::CommandTimeout { opcode: Opcode::NOP.0 });
    assert!(bench.function.now() - begin >= Duration::from_secs(1));
    assert!(bench.function.dma_outstanding() > 4000 * 8, "the mailboxes were given back");
    bench.close();
}

const _: () = assert!(mailbox::SIZE == 576 && entry::SIZE == 64);
