//! One QP of a pair: what it still has to send, what is on its way, what it must receive.

use super::{
    plan::{Kind, Request, below},
    run::Failure,
};
use crate::{arena::Arena, pattern};
use alloc::{
    collections::{BTreeMap, VecDeque},
    format, vec,
    vec::Vec,
};
use bareverbs::{
    Completion, Device, Memory, MemoryRegion, PostError, QpType, QueuePair, RecvWr, SendFlags, SendOp, SendWr, Sge,
    SharedReceiveQueue, UdDestination, WcOpcode, WcStatus,
};
use core::{fmt, ops::Range};
use oorandom::Rand64;

/// Room in front of a datagram.
const GRH: usize = 40;

/// The objects that all QPs of one device share.
pub(super) struct Side<D: Device, M: Memory> {
    pub(super) seed: u64,
    pub(super) device: D,
    pub(super) data: Arena<D::Mr<M>, M>,
    pub(super) window: Arena<D::Mr<M>, M>,
    pub(super) receive: Arena<D::Mr<M>, M>,
    pub(super) srq: Option<D::Srq>,
    /// Receives that are posted: by wr_id, the QP they were posted to (`None`: the SRQ) and their ranges.
    pub(super) slots: BTreeMap<u64, (Option<usize>, Vec<Range<usize>>)>,
    pub(super) next_slot: u64,
    pub(super) slot_len: usize,
    pub(super) max_sge: usize,
}

/// A request with its memory, ready to be posted or on its way.
struct Staged {
    id: u64,
    request: Request,
    local: Vec<Range<usize>>,
    remote: Option<Range<usize>>,
    sges: Vec<Sge>,
    inline: Vec<u8>,
    op: SendOp,
    /// Atomics: what must come back.
    old: u64,
}

/// What an end waits for, for the message of a run that hangs.
impl<D: Device> fmt::Display for End<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (index, kind, state) = (self.index, self.qp.kind(), self.qp.state());
        let (left, staged, flying) = (self.requests.len(), self.staged.len(), self.flying.len());
        write!(f, "QP {index} ({kind:?}, {state}): {left} requests left, {staged} staged, {flying} on their way, ")?;
        write!(f, "{} expected, {} receives posted", self.expected.len(), self.receives)?;
        match self.flying.front() {
            Some(first) => write!(f, ", first {:#x} {:?}", first.id, first.request),
            None => Ok(()),
        }
    }
}

/// A message that must arrive.
#[derive(Clone)]
struct Expected {
    id: u64,
    kind: Kind,
    len: usize,
    window: Option<Range<usize>>,
}

/// One QP.
pub(super) struct End<D: Device> {
    pub(super) qp: D::Qp,
    pub(super) index: usize,
    pub(super) to: Option<UdDestination>,
    pub(super) uses_srq: bool,
    pub(super) recv_depth: usize,
    pub(super) lossy: bool,
    pub(super) requests: VecDeque<Request>,
    pub(super) silent: u32,
    pub(super) depth: u32,
    pub(super) next_id: u64,
    /// The word that this end's atomics act on, in the peer's window, and its value.
    pub(super) word: (Range<usize>, u64),
    staged: VecDeque<Staged>,
    flying: VecDeque<Staged>,
    expected: VecDeque<Expected>,
    /// Messages that an unreliable QP was sent, for duplicates.
    past: Vec<Expected>,
    /// Windows of unreliable writes, held to the end.
    pub(super) held: Vec<Range<usize>>,
    pub(super) receives: usize,
}

fn fail(what: alloc::string::String) -> Failure {
    Failure::Wrong(what)
}

impl<D: Device> End<D> {
    pub(super) fn new(qp: D::Qp, index: usize, requests: Vec<Request>, depth: u32, lossy: bool) -> Self {
        Self {
            qp,
            index,
            to: None,
            uses_srq: false,
            recv_depth: 0,
            lossy,
            requests: requests.into(),
            silent: 0,
            depth,
            next_id: (index as u64) << 32,
            word: (0..0, 0),
            staged: VecDeque::new(),
            flying: VecDeque::new(),
            expected: VecDeque::new(),
            past: Vec::new(),
            held: Vec::new(),
            receives: 0,
        }
    }

    fn reliable(&self) -> bool {
        self.qp.kind() == QpType::Rc
    }

    /// Whether all of its requests are done.
    pub(super) fn is_done(&self) -> bool {
        self.requests.is_empty()
            && self.staged.is_empty()
            && self.flying.is_empty()
            && (!self.reliable() || self.expected.is_empty())
    }

    /// Gets memory for up to `n` further requests and fills it.
    pub(super) fn stage<M: Memory>(
        &mut self,
        here: &mut Side<D, M>,
        there: &mut Side<D, M>,
        n: usize,
        rng: &mut Rand64,
    ) -> Result<(), Failure> {
        while self.staged.len() < n {
            let Some(mut request) = self.requests.pop_front() else { return Ok(()) };
            // A queue full of silent requests would never free a slot, and nothing would tell that the last is done.
            request.signaled |= self.silent + 1 >= self.depth || self.requests.is_empty();
            self.silent = if request.signaled { 0 } else { self.silent + 1 };
            let id = self.next_id;
            self.next_id += 1;
            let staged = self.prepare(here, there, id, request, rng)?;
            self.staged.push_back(staged);
        }
        Ok(())
    }

    fn prepare<M: Memory>(
        &mut self,
        here: &mut Side<D, M>,
        there: &mut Side<D, M>,
        id: u64,
        request: Request,
        rng: &mut Rand64,
    ) -> Result<Staged, Failure> {
        let full = || fail(format!("no room left in an arena for request {id:#x}"));
        let len = request.len();
        let brings_back = matches!(request.kind, Kind::Read | Kind::CompareSwap | Kind::FetchAdd);
        let mut inline = Vec::new();
        let (mut local, mut sges, mut offset) = (Vec::new(), Vec::new(), 0);
        if request.inline {
            inline = vec![0; len];
            pattern::fill(here.seed, id, 0, &mut inline);
        } else {
            for n in &request.elements {
                let range = here.data.take(*n, 1, below(rng, 4096) as usize).ok_or_else(full)?;
                if !brings_back {
                    let mut bytes = vec![0; *n];
                    pattern::fill(here.seed, id, offset, &mut bytes);
                    here.data.region().write(range.start, &bytes)?;
                }
                sges.push(here.data.region().sge(range.clone())?);
                local.push(range);
                offset += n;
            }
        }
        let mut remote = None;
        let mut old = 0;
        let rkey = there.window.region().rkey();
        let word = there.window.region().iova() + self.word.0.start as u64;
        let mut window = |fill: bool| -> Result<u64, Failure> {
            let range = there.window.take(len, 1, below(rng, 4096) as usize).ok_or_else(full)?;
            if fill {
                let mut bytes = vec![0; len];
                pattern::fill(here.seed, id, 0, &mut bytes);
                there.window.region().write(range.start, &bytes)?;
            }
            let addr = there.window.region().iova() + range.start as u64;
            remote = Some(range);
            Ok(addr)
        };
        let op = match request.kind {
            Kind::Send => SendOp::Send,
            Kind::SendImm => SendOp::SendImm(imm(id)),
            Kind::Write => SendOp::Write { addr: window(false)?, rkey },
            Kind::WriteImm => SendOp::WriteImm { addr: window(false)?, rkey, imm: imm(id) },
            Kind::Read => SendOp::Read { addr: window(true)?, rkey },
            Kind::CompareSwap | Kind::FetchAdd => {
                let addr = word;
                old = self.word.1;
                if request.kind == Kind::FetchAdd {
                    self.word.1 = old.wrapping_add(id);
                    SendOp::FetchAdd { addr, rkey, add: id }
                } else {
                    // Every other one compares with a wrong value and must change nothing.
                    let hit = id.is_multiple_of(2);
                    self.word.1 = if hit { id << 8 } else { old };
                    SendOp::CompareSwap { addr, rkey, compare: if hit { old } else { !old }, swap: id << 8 }
                }
            }
        };
        Ok(Staged { id, request, local, remote, sges, inline, op, old })
    }

    /// Posts what is staged, as one list.
    pub(super) fn post(&mut self, peer: &mut Self) -> Result<usize, Failure> {
        let to = self.to;
        let wrs = self.staged.iter().map(|s| {
            let wr = if s.request.inline { SendWr::inline(s.op, &s.inline) } else { SendWr::new(s.op, &s.sges) };
            let mut flags = SendFlags::empty();
            flags.set(SendFlags::SIGNALED, s.request.signaled);
            flags.set(SendFlags::FENCE, s.request.fence);
            flags.set(SendFlags::SOLICITED, s.id.is_multiple_of(3));
            let wr = wr.wr_id(s.id).flags(flags);
            match &to {
                Some(to) => wr.to(to),
                None => wr,
            }
        });
        let posted = match self.qp.post_send(wrs) {
            Ok(()) => self.staged.len(),
            Err(e) if e.error == PostError::QueueFull => e.index,
            Err(e) => return Err(fail(format!("post_send of QP {}: {e}", self.index))),
        };
        for staged in self.staged.drain(..posted) {
            if staged.request.takes_receive() {
                let window = staged.remote.clone();
                let (kind, len) = (staged.request.kind, staged.request.len());
                peer.expected.push_back(Expected { id: staged.id, kind, len, window });
            }
            self.flying.push_back(staged);
        }
        Ok(posted)
    }

    /// A send completion: retires all requests up to its own and checks what each did.
    pub(super) fn sent<M: Memory>(
        &mut self,
        c: &Completion,
        here: &mut Side<D, M>,
        there: &mut Side<D, M>,
    ) -> Result<(), Failure> {
        if c.status != WcStatus::Success {
            let what = format!("send {:#x} of QP {}: {} ({:#x})", c.wr_id, self.index, c.status, c.vendor_err);
            return Err(fail(what));
        }
        loop {
            let Some(staged) = self.flying.pop_front() else {
                return Err(fail(format!("send {:#x} of QP {} completed twice or never was", c.wr_id, self.index)));
            };
            let last = staged.id == c.wr_id;
            if staged.request.signaled && !last {
                let (id, by) = (staged.id, c.wr_id);
                return Err(fail(format!("signaled send {id:#x} of QP {} passed over by {by:#x}", self.index)));
            }
            if last {
                let (opcode, byte_len) = match staged.request.kind {
                    Kind::Send | Kind::SendImm => (WcOpcode::Send, None),
                    Kind::Write | Kind::WriteImm => (WcOpcode::Write, None),
                    Kind::Read => (WcOpcode::Read, Some(staged.request.len() as u32)),
                    Kind::CompareSwap => (WcOpcode::CompareSwap, Some(8)),
                    Kind::FetchAdd => (WcOpcode::FetchAdd, Some(8)),
                };
                if c.opcode != opcode || byte_len.is_some_and(|n| n != c.byte_len) {
                    return Err(fail(format!("completion {c:?} is not that of a {:?}", staged.request)));
                }
            }
            self.retire(staged, here, there)?;
            if last {
                return Ok(());
            }
        }
    }

    fn retire<M: Memory>(
        &mut self,
        staged: Staged,
        here: &mut Side<D, M>,
        there: &mut Side<D, M>,
    ) -> Result<(), Failure> {
        let (id, kind) = (staged.id, staged.request.kind);
        match kind {
            Kind::Read => {
                let mut offset = 0;
                for range in &staged.local {
                    check(&here.data, range, here.seed, id, offset, "READ")?;
                    offset += range.len();
                }
            }
            Kind::CompareSwap | Kind::FetchAdd => {
                let mut bytes = [0; 8];
                here.data.region().read(staged.local[0].start, &mut bytes)?;
                let found = u64::from_ne_bytes(bytes);
                if found != staged.old {
                    let expected = staged.old;
                    return Err(fail(format!("atomic {id:#x} brought {found:#x}, not {expected:#x}")));
                }
            }
            Kind::Write if self.reliable() => {
                if let Some(range) = &staged.remote {
                    check(&there.window, range, here.seed, id, 0, "WRITE")?;
                }
            }
            _ => {}
        }
        for range in &staged.local {
            here.data.give(range)?;
        }
        match staged.remote {
            // The receiver checks it and gives it back.
            Some(_) if kind == Kind::WriteImm && self.reliable() => {}
            Some(range) if self.reliable() => there.window.give(&range)?,
            Some(range) => self.held.push(range),
            None => {}
        }
        Ok(())
    }

    /// A receive completion.
    pub(super) fn received<M: Memory>(&mut self, c: &Completion, here: &mut Side<D, M>) -> Result<(), Failure> {
        if c.status != WcStatus::Success {
            let what = format!("receive {:#x} of QP {}: {} ({:#x})", c.wr_id, self.index, c.status, c.vendor_err);
            return Err(fail(what));
        }
        let Some((owner, slot)) = here.slots.remove(&c.wr_id) else {
            return Err(fail(format!("receive {:#x} completed twice or never was posted", c.wr_id)));
        };
        if owner.is_some_and(|i| i != self.index) || owner.is_none() != self.uses_srq {
            return Err(fail(format!("receive {:#x} was not posted for QP {}", c.wr_id, self.index)));
        }
        if !self.uses_srq {
            self.receives -= 1;
        }
        let expected = if self.reliable() {
            let first = self.expected.pop_front();
            let first = first.ok_or_else(|| fail(format!("QP {} received what was never sent", self.index)))?;
            self.matches(&first, c, &slot, here).map_err(fail)?;
            first
        } else {
            self.find(c, &slot, here)?
        };
        if let (Some(window), true) = (expected.window, self.reliable()) {
            check(&here.window, &window, here.seed, expected.id, 0, "WRITE with immediate")?;
            here.window.give(&window)?;
        }
        for range in &slot {
            here.receive.give(range)?;
        }
        Ok(())
    }

    /// Unreliable: the message is the next that was not lost, or with faults on the link any that was sent.
    fn find<M: Memory>(
        &mut self,
        c: &Completion,
        slot: &[Range<usize>],
        here: &Side<D, M>,
    ) -> Result<Expected, Failure> {
        while let Some(expected) = self.expected.pop_front() {
            let found = self.matches(&expected, c, slot, here).is_ok();
            self.past.push(expected.clone());
            if found {
                return Ok(expected);
            }
        }
        let again = self.past.iter().find(|e| self.lossy && self.matches(e, c, slot, here).is_ok());
        again.cloned().ok_or_else(|| fail(format!("QP {} received what was never sent: {c:?}", self.index)))
    }

    /// Whether a completion and its bytes are those of a message.
    fn matches<M: Memory>(
        &self,
        expected: &Expected,
        c: &Completion,
        slot: &[Range<usize>],
        here: &Side<D, M>,
    ) -> Result<(), alloc::string::String> {
        let Expected { id, kind, len, .. } = *expected;
        let head = if self.qp.kind() == QpType::Ud { GRH } else { 0 };
        let opcode = if kind == Kind::WriteImm { WcOpcode::RecvWriteImm } else { WcOpcode::Recv };
        let immediate = (kind != Kind::Send).then(|| imm(id));
        let bytes = if kind == Kind::WriteImm { len } else { len + head };
        if (c.opcode, c.byte_len as usize, c.immediate()) != (opcode, bytes, immediate) {
            return Err(format!("completion {c:?} is not that of message {id:#x}: {kind:?} of {len} bytes"));
        }
        if kind == Kind::WriteImm {
            return Ok(());
        }
        let (mut skip, mut offset) = (head, 0);
        for range in slot {
            let start = range.start + skip.min(range.len());
            skip -= skip.min(range.len());
            let part = start..range.end.min(start + len - offset);
            let mut bytes = vec![0; part.len()];
            here.receive.region().read(part.start, &mut bytes).map_err(|e| format!("{e}"))?;
            if let Some(at) = pattern::mismatch(here.seed, id, offset, &bytes) {
                return Err(format!("message {id:#x} ({kind:?} of {len} bytes) is wrong at byte {at}"));
            }
            offset += part.len();
        }
        Ok(())
    }

    /// Posts one receive to the QP's own queue.
    pub(super) fn post_receive<M: Memory>(&mut self, here: &mut Side<D, M>, rng: &mut Rand64) -> Result<bool, Failure> {
        if self.uses_srq || self.receives >= self.recv_depth {
            return Ok(false);
        }
        let Some((wr_id, ranges, sges)) = here.slot(rng)? else { return Ok(false) };
        match self.qp.post_recv([RecvWr::new(wr_id, &sges)]) {
            Ok(()) => {}
            Err(e) => return Err(fail(format!("post_recv of QP {}: {e}", self.index))),
        }
        here.slots.insert(wr_id, (Some(self.index), ranges));
        self.receives += 1;
        Ok(true)
    }
}

impl<D: Device, M: Memory> Side<D, M> {
    /// Memory for one receive, in one or more elements.
    #[allow(clippy::type_complexity, reason = "the parts of one request")]
    fn slot(&mut self, rng: &mut Rand64) -> Result<Option<(u64, Vec<Range<usize>>, Vec<Sge>)>, Failure> {
        let n = 1 + below(rng, self.max_sge as u64) as usize;
        let (mut ranges, mut sges) = (Vec::new(), Vec::new());
        for i in 0..n {
            let len = if i + 1 == n { self.slot_len - self.slot_len / n * i } else { self.slot_len / n };
            let Some(range) = self.receive.take(len, 1, 0) else {
                for range in &ranges {
                    self.receive.give(range)?;
                }
                return Ok(None);
            };
            sges.push(self.receive.region().sge(range.clone())?);
            ranges.push(range);
        }
        self.next_slot += 1;
        Ok(Some((self.next_slot << 40, ranges, sges)))
    }

    /// Posts one receive to the SRQ.
    pub(super) fn post_shared(&mut self, rng: &mut Rand64) -> Result<bool, Failure> {
        if self.srq.is_none() {
            return Ok(false);
        }
        let Some((wr_id, ranges, sges)) = self.slot(rng)? else { return Ok(false) };
        let posted = self.srq.as_mut().map_or(Ok(()), |srq| srq.post([RecvWr::new(wr_id, &sges)]));
        match posted {
            Ok(()) => {
                self.slots.insert(wr_id, (None, ranges));
                Ok(true)
            }
            Err(e) if e.error == PostError::QueueFull => {
                for range in &ranges {
                    self.receive.give(range)?;
                }
                Ok(false)
            }
            Err(e) => Err(fail(format!("post to the SRQ: {e}"))),
        }
    }
}

fn imm(id: u64) -> u32 {
    (id as u32).wrapping_mul(0x9e37_79b1)
}

fn check<M: Memory, R: MemoryRegion<M>>(
    arena: &Arena<R, M>,
    range: &Range<usize>,
    seed: u64,
    id: u64,
    offset: usize,
    what: &str,
) -> Result<(), Failure> {
    let mut bytes = vec![0; range.len()];
    arena.region().read(range.start, &mut bytes)?;
    match pattern::mismatch(seed, id, offset, &bytes) {
        None => Ok(()),
        Some(at) => Err(fail(format!("{what} {id:#x} is wrong at byte {at}"))),
    }
}
