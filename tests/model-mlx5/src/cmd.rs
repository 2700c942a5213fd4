//! The command queue: entries, mailbox chains, tokens, signatures, delivery statuses, and the events of commands done.
//!
//! PRM: "Command Interface". What a command does is elsewhere; see [`command`].

use std::time::Duration;

use bareverbs_harness::model::{Bus, DmaFault, Step};
use bareverbs_mlx5_prm::cmd::{DeliveryStatus, Opcode, Status, entry, input, mailbox, output};

use crate::{
    command::{self, Call, Done},
    eq::Event,
    fault::CommandFault,
    hca::Hca,
    refusal::Refused,
};

/// Slots of the queue.
pub const SLOTS: u32 = 32;

/// Log of the slots, as the initialization segment says it.
pub const LOG_SLOTS: u32 = SLOTS.ilog2();

/// Log of the bytes from one slot to the next.
pub const LOG_STRIDE: u32 = 6;

/// Longest input or output that the model takes.
const MAX_LEN: usize = 64 << 20;

/// The queue.
#[derive(Debug, Default)]
pub struct CommandQueue {
    /// Bus address of the first entry.
    pub address: u64,
    /// The address is set.
    pub running: bool,
    /// Doorbells not yet looked at, a bit a slot.
    pub pending: u32,
    /// Slots whose command waits: for pages, or because its answer is late or never comes.
    pub busy: u32,
    /// Commands that wait for firmware pages.
    parked: Vec<Entry>,
    /// Answers that are late.
    late: Vec<(Duration, Entry)>,
}

/// A command as it was fetched, and its answer.
#[derive(Debug)]
struct Entry {
    slot: u32,
    raw: [u8; entry::SIZE],
    input: Vec<u8>,
    out: Vec<u8>,
    /// Output mailboxes: address, and the `next` that the driver wrote.
    out_blocks: Vec<(u64, u64)>,
    delivery: DeliveryStatus,
    /// An EQ for command events existed when the command began.
    announced: bool,
    token: u8,
    break_signature: bool,
}

/// Why an entry was not delivered.
enum Undelivered {
    /// Answered with a delivery status.
    Status(DeliveryStatus, String),
    /// Memory is not reachable.
    Fault(DmaFault),
}

impl From<DmaFault> for Undelivered {
    fn from(fault: DmaFault) -> Self {
        Self::Fault(fault)
    }
}

fn xor(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, b| sum ^ b)
}

/// The command doorbell was written.
pub fn ring(hca: &mut Hca, bus: &mut dyn Bus, slots: u32) {
    if !hca.cmd.running {
        return hca.violation(bus, format_args!("command doorbell {slots:#x} before the queue's address was written"));
    }
    let twice = slots & (hca.cmd.pending | hca.cmd.busy);
    if twice != 0 {
        hca.violation(bus, format_args!("command doorbell for slots {twice:#x} that are still at work"));
    }
    hca.cmd.pending |= slots & !twice;
}

/// When a late answer is due.
pub fn next_deadline(hca: &Hca) -> Option<Duration> {
    hca.cmd.late.iter().map(|(at, _)| *at).min()
}

/// Executes one command, or sends one late answer.
pub fn step(hca: &mut Hca, bus: &mut dyn Bus) -> Step {
    let now = bus.now();
    if let Some(i) = hca.cmd.late.iter().position(|(at, _)| *at <= now) {
        let (_, entry) = hca.cmd.late.swap_remove(i);
        answer(hca, bus, entry);
        return Step::Worked;
    }
    if hca.cmd.pending == 0 {
        return Step::Idle;
    }
    // Firmware takes pending slots in no particular order.
    let nth = bus.random() % u64::from(hca.cmd.pending.count_ones());
    let slot = (0..SLOTS).filter(|s| hca.cmd.pending & (1 << s) != 0).nth(nth as usize).unwrap_or(0);
    hca.cmd.pending &= !(1 << slot);
    hca.cmd.busy |= 1 << slot;
    run(hca, bus, slot);
    Step::Worked
}

/// Pages came (or will not come): commands that waited for them go on.
pub fn resume_parked(hca: &mut Hca, bus: &mut dyn Bus) {
    for entry in std::mem::take(&mut hca.cmd.parked) {
        execute(hca, bus, entry);
    }
}

fn run(hca: &mut Hca, bus: &mut dyn Bus, slot: u32) {
    let address = hca.cmd.address + (u64::from(slot) << LOG_STRIDE);
    let mut raw = [0; entry::SIZE];
    if let Err(fault) = bus.read(address, &mut raw) {
        hca.cmd.busy &= !(1 << slot);
        return hca.dma_fault(bus, fault, format_args!("command slot {slot}: reading the queue entry"));
    }
    if entry::OWNERSHIP.get(&raw) == 0 {
        hca.cmd.busy &= !(1 << slot);
        return hca.violation(bus, format_args!("command slot {slot}: doorbell for an entry that software owns"));
    }
    let mut entry = Entry {
        slot,
        raw,
        input: Vec::new(),
        out: Vec::new(),
        out_blocks: Vec::new(),
        delivery: DeliveryStatus::Ok,
        announced: hca.eqs.values().any(|eq| eq.takes(Event::COMMAND)),
        token: entry::TOKEN.get(&raw) as u8,
        break_signature: false,
    };
    match fetch(hca, bus, &mut entry) {
        Ok(()) => execute(hca, bus, entry),
        Err(Undelivered::Status(status, why)) => {
            hca.violation(bus, format_args!("command slot {slot}: {why}"));
            entry.delivery = status;
            entry.out = vec![0; entry::INLINE_LEN];
            entry.out_blocks.clear();
            answer(hca, bus, entry);
        }
        Err(Undelivered::Fault(fault)) => {
            hca.dma_fault(bus, fault, format_args!("command slot {slot}: reading a mailbox"));
            entry.delivery = DeliveryStatus::InternalError;
            entry.out = vec![0; entry::INLINE_LEN];
            entry.out_blocks.clear();
            answer(hca, bus, entry);
        }
    }
}

/// Checks the entry, walks both mailbox chains, gathers the input.
fn fetch(hca: &Hca, bus: &mut dyn Bus, e: &mut Entry) -> Result<(), Undelivered> {
    use DeliveryStatus as D;
    let fail = |status, why: String| Err(Undelivered::Status(status, why));
    // Where signatures are not asked for, whatever stands there is taken: rdma-core's VFIO part leaves that of the answer
    // before in the entry (mlx5_vfio.c, mlx5_vfio_post_cmd).
    let signed = hca.caps.checks_signatures();

    if entry::TYPE.get(&e.raw) != entry::TYPE_PCI {
        return fail(D::BadType, format!("entry type {:#x} is not 7", entry::TYPE.get(&e.raw)));
    }
    if signed && xor(&e.raw) != 0xff {
        return fail(D::SignatureError, "the entry's bytes do not sum up to 0xff".into());
    }
    if e.raw[1..4] != [0; 3] || e.raw[0x3e] != 0 {
        return fail(D::ReservedNotZero, "reserved bytes of the entry are set".into());
    }
    let in_len = entry::INPUT_LENGTH.get(&e.raw) as usize;
    let out_len = entry::OUTPUT_LENGTH.get(&e.raw) as usize;
    if !(8..=MAX_LEN).contains(&in_len) {
        return fail(D::BadInputLength, format!("input of {in_len} bytes"));
    }
    if !(8..=MAX_LEN).contains(&out_len) {
        return fail(D::BadOutputLength, format!("room for an output of {out_len} bytes"));
    }
    let inline = entry::INLINE_LEN;
    e.input = e.raw[0x10..0x20].to_vec();
    let mut next = entry::INPUT_MAILBOX.get(&e.raw);
    for n in 0..in_len.saturating_sub(inline).div_ceil(mailbox::DATA_LEN) {
        if next == 0 || !next.is_multiple_of(512) {
            return fail(D::BadInputPointer, format!("input mailbox {n} at {next:#x}"));
        }
        let block = read_block(bus, next, n, e.token, signed)?;
        e.input.extend_from_slice(&block[..mailbox::DATA_LEN]);
        next = mailbox::NEXT.get(&block);
    }
    e.input.truncate(in_len);
    let mut next = entry::OUTPUT_MAILBOX.get(&e.raw);
    for n in 0..out_len.saturating_sub(inline).div_ceil(mailbox::DATA_LEN) {
        if next == 0 || !next.is_multiple_of(512) {
            return fail(D::BadOutputPointer, format!("output mailbox {n} at {next:#x}"));
        }
        let block = read_block(bus, next, n, e.token, signed)?;
        let following = mailbox::NEXT.get(&block);
        e.out_blocks.push((next, following));
        next = following;
    }
    e.out = vec![0; out_len];
    Ok(())
}

fn read_block(
    bus: &mut dyn Bus,
    address: u64,
    number: usize,
    token: u8,
    signed: bool,
) -> Result<[u8; mailbox::SIZE], Undelivered> {
    use DeliveryStatus as D;
    let fail = |status, why: String| Err(Undelivered::Status(status, why));
    let mut block = [0; mailbox::SIZE];
    bus.read(address, &mut block)?;
    if mailbox::TOKEN.get(&block) != u32::from(token) {
        let has = mailbox::TOKEN.get(&block);
        return fail(D::TokenError, format!("mailbox {number} has token {has:#x}, the entry {token:#x}"));
    }
    if mailbox::BLOCK_NUMBER.get(&block) as usize != number {
        let has = mailbox::BLOCK_NUMBER.get(&block);
        return fail(D::BadBlockNumber, format!("mailbox {number} says that it is number {has}"));
    }
    let control = &block[mailbox::DATA_LEN..mailbox::SIZE - 1];
    if signed && (xor(control) != 0xff || xor(&block) != 0xff) {
        return fail(D::SignatureError, format!("signature of mailbox {number}"));
    }
    if block[0x200..0x230] != [0; 0x30] || block[0x23c] != 0 {
        return fail(D::ReservedNotZero, format!("reserved bytes of mailbox {number} are set"));
    }
    Ok(block)
}

fn execute(hca: &mut Hca, bus: &mut dyn Bus, mut e: Entry) {
    let opcode = Opcode(input::OPCODE.get(&e.input) as u16);
    let op_mod = input::OP_MOD.get(&e.input) as u16;
    let fault = hca.faults.command(opcode);
    let done = match fault {
        Some(CommandFault::Refuse(status, syndrome)) => Err(Refused::quiet(status, syndrome, "refused on demand")),
        Some(CommandFault::NoEffect) => Ok(Done::Answered),
        Some(CommandFault::Never) => return,
        _ => command::execute(hca, bus, &mut Call { opcode, op_mod, input: &e.input, out: &mut e.out }),
    };
    let count = hca.report.commands.entry((opcode.0, op_mod)).or_default();
    match done {
        Ok(Done::Answered) => {
            count.executed += 1;
            put_status(&mut e.out, Status::Ok, 0);
        }
        Ok(Done::NeedsPages) => {
            e.out.fill(0);
            hca.cmd.parked.push(e);
            return;
        }
        Err(refused) => {
            count.executed += 1;
            count.refused += 1;
            e.out.fill(0);
            put_status(&mut e.out, refused.status, refused.syndrome);
            if refused.violation {
                let name = opcode.name().unwrap_or("unknown command");
                hca.violation(
                    bus,
                    format_args!(
                        "{name} ({:#x}/{op_mod:#x}) refused with {:?}, syndrome {:#x}: {}",
                        opcode.0, refused.status, refused.syndrome, refused.why
                    ),
                );
            }
        }
    }
    match fault {
        Some(CommandFault::Late(by)) => return hca.cmd.late.push((bus.now() + by, e)),
        Some(CommandFault::WrongToken) => e.token ^= 0xff,
        Some(CommandFault::WrongSignature) => e.break_signature = true,
        Some(CommandFault::Delivery(status)) => e.delivery = status,
        _ => {}
    }
    answer(hca, bus, e);
}

fn put_status(out: &mut [u8], status: Status, syndrome: u32) {
    output::STATUS.set(out, u32::from(status.to_raw()));
    output::SYNDROME.set(out, syndrome);
}

/// Writes output and mailboxes, then status and ownership, then the event.
fn answer(hca: &mut Hca, bus: &mut dyn Bus, mut e: Entry) {
    let slot = e.slot;
    hca.cmd.busy &= !(1 << slot);
    e.out.resize(e.out.len().max(entry::INLINE_LEN), 0);
    let (inline, rest) = e.out.split_at(entry::INLINE_LEN);

    for ((n, &(address, following)), data) in e.out_blocks.iter().enumerate().zip(rest.chunks(mailbox::DATA_LEN)) {
        let mut block = [0; mailbox::SIZE];
        block[..data.len()].copy_from_slice(data);
        mailbox::NEXT.set(&mut block, following);
        mailbox::BLOCK_NUMBER.set(&mut block, n as u32);
        mailbox::TOKEN.set(&mut block, u32::from(e.token));
        let control = !xor(&block[mailbox::DATA_LEN..]);
        mailbox::CTRL_SIGNATURE.set(&mut block, control.into());
        let signature = !xor(&block) ^ u8::from(e.break_signature);
        mailbox::SIGNATURE.set(&mut block, signature.into());
        if let Err(fault) = bus.write(address, &block) {
            return hca.dma_fault(bus, fault, format_args!("command slot {slot}: writing an output mailbox"));
        }
    }

    e.raw[0x20..0x30].copy_from_slice(inline);
    entry::TOKEN.set(&mut e.raw, u32::from(e.token));
    entry::STATUS.set(&mut e.raw, u32::from(e.delivery.to_raw()));
    entry::OWNERSHIP.set(&mut e.raw, 0);
    entry::SIGNATURE.set(&mut e.raw, 0);
    let signature = !xor(&e.raw) ^ u8::from(e.break_signature);
    entry::SIGNATURE.set(&mut e.raw, u32::from(signature));
    let address = hca.cmd.address + (u64::from(slot) << LOG_STRIDE);
    // The bus releases the last word, with the ownership bit, after the rest.
    if let Err(fault) = bus.write(address + 0x20, &e.raw[0x20..]) {
        return hca.dma_fault(bus, fault, format_args!("command slot {slot}: writing the queue entry"));
    }
    if e.announced {
        hca.event(bus, Event::CommandsDone(1 << slot));
    }
}
