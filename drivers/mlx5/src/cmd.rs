//! The command queue. PRM: "Command Interface".
//!
//! A page of 64-byte entries ("slots") that driver and device hand to each other by an ownership bit; what does not
//! fit an entry goes through mailboxes ([`crate::mailbox`]). The last slot and some mailboxes are kept for
//! MANAGE_PAGES: firmware may need pages to finish another command, so the two must be able to run at once. The other
//! slots take turns.
//!
//! Answers are awaited by watching the ownership bit, never by events. A command that is not answered before its
//! deadline ends the use of the queue: its slot and mailboxes stay untouched, for the device may still write to them,
//! until the function is stopped and the queue is [freed](CommandQueue::free).

use crate::{
    error::{delivery, platform, status},
    mailbox::{Chain, Mailboxes, blocks},
    registers::{Block, InitSegment},
};
use bareverbs::Error;
use bareverbs_hal::{Dma, DmaBuffer, PAGE_SIZE, PciFunction};
use bareverbs_mlx5_prm::{
    cmd::{Opcode, entry, input, output},
    registers::init,
};
use core::{
    ptr::NonNull,
    sync::atomic::{AtomicU8, AtomicU32, Ordering},
    time::Duration,
};

/// Mailboxes for ordinary commands: QUERY_HCA_CAP answers with 8, CREATE_MKEY takes 1 for each 64 pages. A command
/// that needs more gets memory of its own for as long as it runs.
const MAILBOXES: usize = 24;
/// Mailboxes for MANAGE_PAGES.
const PAGE_MAILBOXES: usize = 9;
/// Pages that one MANAGE_PAGES command gives or takes at most.
pub(crate) const PAGES_PER_COMMAND: usize = 512;
const _: () = assert!(blocks(16 + 8 * PAGES_PER_COMMAND) <= PAGE_MAILBOXES);

/// Hands every address of a list to the function it is given.
pub(crate) type EachPage<'a> = dyn Fn(&mut dyn FnMut(u64)) + 'a;

/// Page addresses behind the fixed part of a command's input, 8 bytes each.
pub(crate) enum PageList<'a> {
    /// None.
    None,
    /// One buffer, contiguous for the device.
    Contiguous {
        /// Address of the first page.
        addr: u64,
        /// Pages.
        count: usize,
        /// Log of the bytes from one page to the next.
        log_page: u32,
    },
    /// Any pages.
    Each {
        /// Pages; exactly so many must come.
        count: usize,
        /// Hands every address to the function it is given.
        each: &'a EachPage<'a>,
    },
}

impl PageList<'_> {
    fn count(&self) -> usize {
        match *self {
            Self::None => 0,
            Self::Contiguous { count, .. } | Self::Each { count, .. } => count,
        }
    }

    fn for_each(&self, f: &mut dyn FnMut(u64)) {
        match *self {
            Self::None => {}
            Self::Contiguous { addr, count, log_page } => {
                (0..count as u64).for_each(|n| f(addr + (n << log_page)));
            }
            Self::Each { each, .. } => each(f),
        }
    }
}

/// Which slot and mailboxes a command takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// The next slot in turn.
    Ordinary,
    /// The slot that is kept for MANAGE_PAGES.
    Pages,
}

/// A command on its way.
pub(crate) struct Pending {
    opcode: Opcode,
    lane: Lane,
    slot: usize,
    deadline: Duration,
    output: Chain,
}

/// The command queue.
pub(crate) struct CommandQueue {
    registers: Block<InitSegment>,
    ring: DmaBuffer,
    slots: usize,
    stride: usize,
    turn: usize,
    token: u8,
    mailboxes: Mailboxes,
    page_mailboxes: Mailboxes,
    /// Mailboxes of the ordinary command that runs, where [`MAILBOXES`] were too few.
    extra: Option<Mailboxes>,
    timeout: Duration,
    verify: bool,
    issued: u64,
}

// SAFETY: the ring's memory is owned, and reached only through an exclusive borrow.
unsafe impl Send for CommandQueue {}

impl CommandQueue {
    /// Gets the queue's memory.
    pub(crate) fn new<H: PciFunction>(
        hal: &H,
        registers: Block<InitSegment>,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let mailboxes = Mailboxes::new(hal, MAILBOXES).map_err(platform)?;
        let page_mailboxes = match Mailboxes::new(hal, PAGE_MAILBOXES) {
            Ok(m) => m,
            Err(e) => {
                // SAFETY: the device was not told of them.
                unsafe { mailboxes.free(hal) };
                return Err(platform(e));
            }
        };
        let ring = match hal.dma_alloc(PAGE_SIZE, PAGE_SIZE) {
            Ok(ring) => ring,
            Err(e) => {
                // SAFETY: the device was not told of them.
                unsafe {
                    mailboxes.free(hal);
                    page_mailboxes.free(hal);
                }
                return Err(platform(e));
            }
        };
        Ok(Self {
            registers,
            ring,
            slots: 2,
            stride: entry::SIZE,
            turn: 0,
            token: 0,
            mailboxes,
            page_mailboxes,
            extra: None,
            timeout,
            verify: false,
            issued: 0,
        })
    }

    /// Reads how many slots the device has, and tells it where the queue is. The low twelve bits of the address choose
    /// the full interface and are otherwise read-only.
    pub(crate) fn attach<H: PciFunction>(&mut self, hal: &H) -> Result<(), Error> {
        let low = hal.read32(&self.registers.cmdq_addr_low);
        let log_slots = (low & init::LOG_CMDQ_SIZE.mask()) >> init::LOG_CMDQ_SIZE.mask().trailing_zeros();
        let log_stride = low & init::LOG_CMDQ_STRIDE.mask();
        // The queue is one page; two slots are needed at least, and the doorbell has 32 bits.
        if !(1..=5).contains(&log_slots) || log_stride < 6 || log_slots + log_stride > PAGE_SIZE.trailing_zeros() {
            return Err(Error::BadAnswer { opcode: 0, why: "size or stride of the command queue" });
        }
        (self.slots, self.stride) = (1 << log_slots, 1 << log_stride);
        hal.write32(&self.registers.cmdq_addr_high, (self.ring.addr >> 32) as u32);
        hal.write32(&self.registers.cmdq_addr_low, self.ring.addr as u32 & init::CMDQ_ADDR_31_12.mask());
        Ok(())
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// The function was stopped: it does not write to the queue or to any mailbox any more.
    pub(crate) unsafe fn free<H: Dma>(self, hal: &H) {
        // SAFETY: the caller's promise.
        unsafe {
            for m in [Some(self.mailboxes), Some(self.page_mailboxes), self.extra].into_iter().flatten() {
                m.free(hal);
            }
            hal.dma_free(self.ring);
        }
    }

    /// From now on the device signs its answers (capability `cmdif_checksum`).
    pub(crate) fn verify_signatures(&mut self) {
        self.verify = true;
    }

    /// Commands handed to the device so far.
    pub(crate) fn issued(&self) -> u64 {
        self.issued
    }

    /// Hands a command to the device in the next slot in turn. Its header is written here.
    pub(crate) fn submit<H: PciFunction>(
        &mut self,
        hal: &H,
        opcode: Opcode,
        op_mod: u32,
        fixed: &mut [u8],
        pages: &PageList<'_>,
        output_len: usize,
    ) -> Result<Pending, Error> {
        self.turn = if self.turn + 2 < self.slots { self.turn + 1 } else { 0 };
        self.post(hal, Lane::Ordinary, opcode, op_mod, fixed, pages, output_len)
    }

    /// Hands MANAGE_PAGES to the device, whatever else runs.
    pub(crate) fn submit_pages<H: PciFunction>(
        &mut self,
        hal: &H,
        op_mod: u32,
        fixed: &mut [u8],
        pages: &PageList<'_>,
        output_len: usize,
    ) -> Result<Pending, Error> {
        self.post(hal, Lane::Pages, Opcode::MANAGE_PAGES, op_mod, fixed, pages, output_len)
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of one command")]
    fn post<H: PciFunction>(
        &mut self,
        hal: &H,
        lane: Lane,
        opcode: Opcode,
        op_mod: u32,
        fixed: &mut [u8],
        pages: &PageList<'_>,
        output_len: usize,
    ) -> Result<Pending, Error> {
        debug_assert!(fixed.len() >= input::MIN_LEN);
        input::OPCODE.set(fixed, opcode.0.into());
        input::OP_MOD.set(fixed, op_mod);
        let input_len = fixed.len() + 8 * pages.count();
        self.token = if self.token == u8::MAX { 1 } else { self.token + 1 };
        let (mut input, mut output) = self.chains(hal, lane, blocks(input_len), blocks(output_len))?;

        input.link(self.token);
        output.link(self.token);
        let (inline, rest) = fixed.split_at(entry::INLINE_LEN.min(fixed.len()));
        let mut fits = input.write(0, rest);
        let (mut at, mut left) = (rest.len(), pages.count());
        pages.for_each(&mut |address| {
            fits = fits && left > 0 && input.write(at, &address.to_be_bytes());
            at += 8;
            left = left.saturating_sub(1);
        });
        if !fits || left != 0 {
            self.release(hal, lane);
            return Err(Error::Platform(bareverbs::PlatformError::Other("a mapping changed its segments")));
        }
        input.sign();
        output.sign();

        let mut e = [0; entry::SIZE];
        entry::TYPE.set(&mut e, entry::TYPE_PCI);
        entry::INPUT_LENGTH.set(&mut e, input_len as u32);
        entry::INPUT_MAILBOX.set(&mut e, input.address());
        entry::INPUT_INLINE.set(&mut e, inline);
        entry::OUTPUT_MAILBOX.set(&mut e, output.address());
        entry::OUTPUT_LENGTH.set(&mut e, output_len as u32);
        entry::TOKEN.set(&mut e, self.token.into());
        entry::OWNERSHIP.set(&mut e, 1);
        let signature = !e.iter().fold(0, |x, b| x ^ b);
        entry::SIGNATURE.set(&mut e, signature.into());

        let slot = if lane == Lane::Pages { self.slots - 1 } else { self.turn };
        let at = self.slot(slot);
        // SAFETY: the slot lies inside the ring and is the driver's: the ownership bit is clear.
        unsafe { at.copy_from_nonoverlapping(NonNull::from(&e).cast(), entry::CONTROL) };
        hal.dma_wmb();
        let control = u32::from_ne_bytes([e[60], e[61], e[62], e[63]]);
        // SAFETY: an aligned dword of the slot.
        unsafe { at.add(entry::CONTROL).cast::<AtomicU32>().as_ref() }.store(control, Ordering::Release);
        hal.mmio_wmb();
        hal.write32(&self.registers.cmd_doorbell, 1 << slot);
        self.issued += 1;
        log::trace!("{opcode:?} op_mod {op_mod:#x} slot {slot} in {input_len} out {output_len}");
        Ok(Pending { opcode, lane, slot, deadline: hal.now().saturating_add(self.timeout), output })
    }

    /// Mailboxes for input and output.
    fn chains<H: Dma>(&mut self, hal: &H, lane: Lane, inputs: usize, outputs: usize) -> Result<(Chain, Chain), Error> {
        let total = inputs + outputs;
        let from = match lane {
            Lane::Pages => &mut self.page_mailboxes,
            Lane::Ordinary if total <= MAILBOXES => &mut self.mailboxes,
            Lane::Ordinary => self.extra.insert(Mailboxes::new(hal, total).map_err(platform)?),
        };
        if total > from.count() {
            return Err(Error::Platform(bareverbs::PlatformError::OutOfDmaMemory { wanted: total as u64 * 1024 }));
        }
        Ok((from.chain(0, inputs), from.chain(inputs, outputs)))
    }

    /// Gives back what only this command needed.
    fn release<H: Dma>(&mut self, hal: &H, lane: Lane) {
        if lane == Lane::Ordinary
            && let Some(extra) = self.extra.take()
        {
            // SAFETY: the command was answered or never handed to the device.
            unsafe { extra.free(hal) };
        }
    }

    /// Whether a command was answered. [`Error::CommandTimeout`] after its deadline.
    pub(crate) fn answered<H: Dma>(&self, hal: &H, pending: &Pending) -> Result<bool, Error> {
        // SAFETY: a byte of the slot, inside the ring.
        let byte = unsafe { self.slot(pending.slot).add(entry::STATUS_OWN).cast::<AtomicU8>().as_ref() };
        if byte.load(Ordering::Acquire) & 1 == 0 {
            hal.dma_rmb();
            return Ok(true);
        }
        if hal.now() >= pending.deadline {
            return Err(Error::CommandTimeout { opcode: pending.opcode.0 });
        }
        Ok(false)
    }

    /// Reads the answer of a command that was [answered](Self::answered): as much of the output as `out` holds.
    pub(crate) fn finish<H: Dma>(&mut self, hal: &H, pending: Pending, out: &mut [u8]) -> Result<(), Error> {
        let Pending { opcode, lane, slot, output: chain, .. } = pending;
        let mut e = [0; entry::SIZE];
        // SAFETY: the slot lies inside the ring and is the driver's again.
        unsafe { self.slot(slot).copy_to_nonoverlapping(NonNull::from(&mut e).cast(), e.len()) };
        let result = delivery(opcode, entry::STATUS.get(&e) as u8).and_then(|()| {
            if self.verify && (e.iter().fold(0, |x, b| x ^ b) != 0xff || !chain.signed()) {
                return Err(Error::BadAnswer { opcode: opcode.0, why: "signature" });
            }
            let inline = entry::OUTPUT_INLINE.get(&e);
            status(opcode, output::STATUS.get(inline) as u8, output::SYNDROME.get(inline))?;
            let (head, rest) = out.split_at_mut(out.len().min(inline.len()));
            head.copy_from_slice(&inline[..head.len()]);
            chain.read(0, rest);
            Ok(())
        });
        self.release(hal, lane);
        if let Err(e) = &result {
            log::debug!("{opcode:?}: {e}");
        }
        result
    }

    fn slot(&self, n: usize) -> NonNull<u8> {
        // SAFETY: `n` is below the number of slots, all of which lie inside the one-page ring.
        unsafe { self.ring.ptr.add(n * self.stride) }
    }
}

#[cfg(test)]
#[path = "cmd_tests.rs"]
mod tests;
