//! Every order of the steps of a small send ring, up to a depth, against a plain list and a device that has counters of
//! 16 bits: requests of one block and of two are posted, alone, in lists and without a doorbell; the device reads them as
//! far as the doorbell record says, and completes them; both sides are reset. Counters begin at zero and just below
//! 2^16, 2^24 and 2^32.
//!
//! Offsets and codes are written here as plain numbers (PRM: "Send WQE Formats", "Doorbell Records", "UAR Page Format").

use super::*;
use crate::test_host::{Barriers, Host};
use bareverbs::{Lkey, Rkey, Sge, wq::SendSlot};
use bareverbs_explore::{Machine, STARTS, explore, wraps};
use bareverbs_hal::{Bar, HalError, PciAddress};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::{boxed::Box, collections::VecDeque, format, vec::Vec};

const LOG_BLOCKS: u32 = 2;
/// Requests of two blocks that fit.
const LIMIT: usize = 2;
const QPN: u32 = 0x01_0203;
/// Elements that make a request one of two blocks.
const LONG: usize = 4;
/// The pair of buffers that doorbells are rung in.
const BLUEFLAME: [usize; 2] = [0x800, 0x900];

/// A page of doorbells.
#[derive(Clone, Copy)]
struct Doorbells(NonNull<u8>);

impl Barriers for Doorbells {}

// SAFETY: the page is kept beside the ring; nothing is reset, and there is no DMA.
unsafe impl PciFunction for Host<Doorbells> {
    fn address(&self) -> PciAddress {
        PciAddress { segment: 0, bus: 0, device: 0, function: 0 }
    }

    fn config_read32(&self, _: u16) -> u32 {
        0
    }

    unsafe fn config_write32(&self, _: u16, _: u32) {}

    fn bar(&self, _: u8) -> Result<Bar, HalError> {
        // SAFETY: the page has that many bytes.
        Ok(unsafe { Bar::new(self.0.0, size_of::<Page>(), Some(self.0.0)) })
    }

    unsafe fn set_bus_master(&self, _: bool) -> Result<(), HalError> {
        Ok(())
    }

    fn reset(&self) -> Result<(), HalError> {
        Ok(())
    }
}

#[repr(C, align(4096))]
struct Page([AtomicU64; 512]);

#[repr(C, align(64))]
struct Block([AtomicU32; 16]);

/// A request that is not retired.
#[derive(Clone, Copy, Debug)]
struct Request {
    id: u64,
    /// Its first block, as the device counts.
    block: u16,
    /// Elements.
    len: usize,
    /// The device was told of it, and has read it.
    told: bool,
    read: bool,
}

/// What is done next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Requests of so many elements are posted as a list.
    Post(&'static [usize]),
    /// A request is pushed, and the device is not told.
    Push(usize),
    /// It is.
    Ring,
    /// The device reads a request.
    Read,
    /// The device completes the n-th outstanding request, and all before it.
    Complete(usize),
    /// Both sides forget everything.
    Reset,
}

const STEPS: [Step; 10] = [
    Step::Post(&[1]),
    Step::Post(&[LONG]),
    Step::Post(&[1, LONG]),
    Step::Push(1),
    Step::Push(LONG),
    Step::Ring,
    Step::Read,
    Step::Complete(0),
    Step::Complete(1),
    Step::Reset,
];

/// The ring between poster and device.
struct Rig {
    ring: SendRing,
    queue: SendQueue,
    memory: Vec<Block>,
    record: Box<AtomicU32>,
    page: Box<Page>,
    list: VecDeque<Request>,
    /// Where the device stands; how far it was told of; where the next request begins.
    device: u16,
    told: u16,
    next: u16,
    next_id: u64,
    /// The buffer that a request alone is written to next, where it is.
    turn: Option<usize>,
    /// Where the counters began, or 0 since they were reset.
    start: u32,
    _slots: Vec<SendSlot>,
}

impl Rig {
    fn new(start: u32, burst: bool) -> Self {
        let mut slots: Vec<_> = (0..1 << LOG_BLOCKS).map(|_| SendSlot::default()).collect();
        let memory: Vec<_> = (0..1 << LOG_BLOCKS).map(|_| Block([const { AtomicU32::new(0x5a5a_5a5a) }; 16])).collect();
        let record = Box::new(AtomicU32::new((start & 0xffff).to_be()));
        let page = Box::new(Page([const { AtomicU64::new(0) }; 512]));
        // SAFETY: the table is kept beside the queue.
        let (queue, mut poster) = unsafe { SendQueue::new(NonNull::new(slots.as_mut_ptr()).unwrap(), LOG_BLOCKS) };
        queue.begin_at(&mut poster, start);
        let init = SendRingInit {
            start: NonNull::from(&memory[..]).cast(),
            log_blocks: LOG_BLOCKS,
            poster,
            limit: LIMIT as u32,
            max_sge: LONG as u32,
            max_inline: 0,
            max_message: 1 << 30,
            ops: ops::WRITE,
            signal_all: true,
            remote: Remote::Connected,
            owner: 0,
            // SAFETY: kept beside the ring.
            record: unsafe { Record::new(NonNull::from(&*record)) },
            uar: Uar::new(&Host(Doorbells(NonNull::from(&*page).cast())), 0, burst).unwrap(),
            burst,
        };
        // SAFETY: memory and record are kept beside it.
        let mut ring = unsafe { SendRing::new(init) };
        ring.set_qpn(QPN);
        ring.set_open(true);
        let at = start as u16;
        let (list, turn) = (VecDeque::new(), burst.then_some(0));
        Self {
            ring,
            queue,
            memory,
            record,
            page,
            list,
            device: at,
            told: at,
            next: at,
            next_id: 1,
            turn,
            start,
            _slots: slots,
        }
    }

    /// Hands requests of so many elements to the ring: one after the other, or as a list that it tells the device of.
    fn post(&mut self, lens: &[usize], rings: bool) -> bool {
        let hal = Host(Doorbells(NonNull::from(&*self.page).cast()));
        let taken = lens.len().min(LIMIT - self.list.len());
        let id = |n: usize| self.next_id + n as u64;
        // SAFETY: nobody follows the addresses.
        let sge = |id: u64, n: usize| unsafe { Sge::from_raw(id << 8 | n as u64, 8, Lkey(id as u32)) };
        let sges: Vec<Vec<Sge>> =
            (0..).zip(lens).map(|(at, len)| (0..*len).map(|n| sge(id(at), n)).collect()).collect();
        let wr =
            |(n, sges)| SendWr::new(SendOp::Write { addr: id(n) << 16, rkey: Rkey(id(n) as u32) }, sges).wr_id(id(n));
        let wrs: Vec<SendWr<'_>> = (0..).zip(sges.iter().map(|sges| &sges[..])).map(wr).collect();
        let (ring, queue) = (&mut self.ring, &self.queue);
        let result = match &wrs[..] {
            [wr] if !rings => match ring.push_short(wr) {
                true => Ok(()),
                false => ring.push(queue, wr).map_err(|_| 0),
            },
            // As the verb does it.
            [wr] if ring.post_short(queue, &hal, wr) || ring.look(queue) && ring.post_short(queue, &hal, wr) => Ok(()),
            list => {
                let result = ring.push_list(list.iter(), |ring, wr| ring.push(queue, wr)).map_err(|e| e.index);
                ring.ring(queue, &hal);
                result
            }
        };
        assert_eq!(result, if taken == lens.len() { Ok(()) } else { Err(taken) }, "{:?}", self.list);
        for len in &lens[..taken] {
            let request = Request { id: self.next_id, block: self.next, len: *len, told: false, read: false };
            self.next = self.next.wrapping_add(request.blocks());
            self.next_id += 1;
            self.list.push_back(request);
        }
        let rang = rings && self.rang();
        taken > 0 || rang
    }

    /// The device was told of all requests that it was not told of, if there are any: the record says how far they go, and
    /// the doorbell which is the newest.
    fn rang(&mut self) -> bool {
        let waiting = self.list.iter().filter(|request| !request.told).count();
        if waiting == 0 {
            return false;
        }
        let newest = self.list[self.list.len() - 1];
        let (buffer, blocks) = match &mut self.turn {
            Some(turn) if waiting == 1 => {
                *turn ^= 1;
                (BLUEFLAME[*turn ^ 1], newest.blocks())
            }
            _ => (BLUEFLAME[0], 0),
        };
        let dwords = if blocks == 0 { 2 } else { 16 * blocks };
        for n in 0..dwords {
            let word = self.page.0[(buffer + 4 * n as usize) / 8].load(Ordering::Relaxed).to_ne_bytes();
            let at = 4 * (n as usize % 2);
            let dword = u32::from_be_bytes(word[at..at + 4].try_into().unwrap());
            assert_eq!(dword, self.dword(newest.block, n), "dword {n} of the doorbell, {newest:?}");
        }
        self.list.iter_mut().for_each(|request| request.told = true);
        self.told = self.next;
        self.page.0.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        true
    }

    /// A dword of the request that begins at a block.
    fn dword(&self, block: u16, n: u16) -> u32 {
        let at = block.wrapping_add(n / 16) & ((1 << LOG_BLOCKS) - 1);
        u32::from_be(self.memory[at as usize].0[n as usize % 16].load(Ordering::Relaxed))
    }

    /// A request lies where the device will read it.
    fn lies(&self, request: &Request) {
        let dword = |n| self.dword(request.block, n);
        let id = request.id as u32;
        assert_eq!([dword(0), dword(1)], [u32::from(request.block) << 8 | 0x08, QPN << 8 | (2 + request.len as u32)]);
        assert_eq!([dword(4), dword(5), dword(6)], [0, id << 16, id]);
        for n in 0..request.len as u16 {
            let element = [8, 9, 10, 11].map(|at| dword(at + 4 * n));
            assert_eq!(element, [8, id, 0, id << 8 | u32::from(n)], "element {n} of {request:?}");
        }
    }

    /// The device reads a request, where its own counter stands.
    fn read(&mut self) -> bool {
        let record = u32::from_be(self.record.load(Ordering::Relaxed));
        let Some(n) = self.list.iter().position(|request| request.told && !request.read) else {
            assert_eq!(record, u32::from(self.device), "nothing is to be read");
            return false;
        };
        let request = self.list[n];
        assert_eq!(request.block, self.device, "where the device reads");
        assert!((record as u16).wrapping_sub(self.device) >= request.blocks(), "{record:#x}, {request:?}");
        self.device = self.device.wrapping_add(request.blocks());
        self.list[n].read = true;
        true
    }
}

impl Request {
    const fn blocks(&self) -> u16 {
        if self.len == LONG { 2 } else { 1 }
    }
}

impl Machine for Rig {
    /// Device and poster; buffer in turn; whether room is known; the requests.
    type State = (u16, [u32; 3], Option<usize>, bool, Vec<(usize, bool, bool)>);

    fn step(&mut self, step: usize) -> bool {
        let taken = match STEPS[step] {
            Step::Post(lens) => self.post(lens, true),
            Step::Push(len) => self.post(&[len], false),
            Step::Ring => {
                self.ring.ring(&self.queue, &Host(Doorbells(NonNull::from(&*self.page).cast())));
                self.rang()
            }
            Step::Read => self.read(),
            Step::Complete(n) => match self.list.get(n).copied() {
                Some(Request { id, block, read: true, .. }) => {
                    assert_eq!(self.queue.complete(block.into()), Some(id), "{:?}", self.list);
                    self.list.drain(..=n);
                    true
                }
                _ => false,
            },
            Step::Reset => {
                self.ring.reset(&self.queue);
                self.list.clear();
                (self.device, self.told, self.next, self.start) = (0, 0, 0, 0);
                true
            }
        };
        let record = u32::from_be(self.record.load(Ordering::Relaxed));
        assert_eq!(record, u32::from(self.told), "the doorbell record, {:?}", self.list);
        self.list.iter().filter(|request| !request.read).for_each(|request| self.lies(request));
        assert!(self.page.0.iter().all(|word| word.load(Ordering::Relaxed) == 0), "a doorbell that nobody has to hear");
        taken
    }

    fn state(&self) -> Self::State {
        let poster = &self.ring.poster;
        let list = self.list.iter().map(|request| (request.len, request.told, request.read)).collect();
        let counters = [poster.block(), poster.posted(), self.ring.waiting];
        (self.device, counters, self.turn, poster.has_known_room(), list)
    }

    fn wraps(&self) -> usize {
        wraps(self.start, self.ring.poster.block())
    }
}

#[test]
fn every_order_of_posting_reading_and_completing() {
    let recorded = [[745, 1383, 1383, 1019], [1293, 1931, 1931, 1567]].into_iter().zip([false, true]);
    for (recorded, burst) in recorded {
        for (start, (states, wrapped)) in STARTS.into_iter().zip(recorded.into_iter().zip([0, 740, 740, 376])) {
            let explored = explore(STEPS.len(), 14, || Rig::new(start, burst));
            let name = format!("send ring of {} blocks from {start:#x}, BlueFlame {burst}", 1 << LOG_BLOCKS);
            explored.recorded(&name, states, wrapped);
        }
    }
}
