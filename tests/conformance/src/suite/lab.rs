//! What a case works with: two devices on one link, and short ways to make things on them.

use super::{Home, Outcome, Stop};
use crate::connect::{self, Connection};
use alloc::{format, vec, vec::Vec};
use bareverbs::{
    Access, Completion, CompletionQueue, CqEvent, CqInit, Destination, Device, Error, Event, MemoryRegion, QpCap,
    QpInit, QpType, QueuePair, RawMemory, RecvWr, SendFlags, SendOp, SendWr, SrqAttr, UdDestination,
};
use core::{ops::Range, time::Duration};

/// A region over a home's memory.
pub type Mr<D> = <D as Device>::Mr<RawMemory>;

/// How long something that must come may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long nothing must come.
const SILENCE: Duration = Duration::from_millis(20);
/// How long everything that is under way has to arrive, on a host that is busy with other things.
const ARRIVAL: Duration = Duration::from_millis(100);
/// No turn of ours takes longer unless somebody else had it.
const TURN: Duration = Duration::from_millis(1);
/// Bytes of a datagram's receive before the data.
pub const GRH: usize = 40;

/// Two devices, a protection domain each.
pub struct Lab<D: Device> {
    /// The devices.
    pub devices: [D; 2],
    /// Their protection domains.
    pub pds: [D::Pd; 2],
    /// What random choices come from.
    pub seed: u64,
    memory: Vec<RawMemory>,
}

/// Memory of a lab: pieces of each size.
const PIECES: [(usize, usize); 2] = [(16, 1 << 16), (2, 1 << 20)];

/// How a pair of QPs is made.
#[derive(Clone, Copy)]
pub struct Setup {
    /// Type.
    pub kind: QpType,
    /// Sizes of the QPs.
    pub cap: QpCap,
    /// Entries of each CQ.
    pub cq: u32,
    /// Bytes of each end's region.
    pub memory: usize,
    /// Every send is signaled.
    pub signal_all: bool,
    /// What they are connected with.
    pub connection: Connection,
}

/// Sizes that every device has.
pub const CAP: QpCap = QpCap { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 2, max_recv_sge: 2, max_inline: 0 };

impl Setup {
    /// A pair of a type.
    pub fn of(kind: QpType) -> Self {
        Self { kind, cap: CAP, cq: 63, memory: 1 << 14, signal_all: false, connection: Connection::default() }
    }

    /// With that many requests in each queue.
    pub fn depth(mut self, n: u32) -> Self {
        (self.cap.max_send_wr, self.cap.max_recv_wr) = (n, n);
        self
    }

    /// With CQs of that many entries.
    pub fn cq(mut self, n: u32) -> Self {
        self.cq = n;
        self
    }
}

/// One end: a QP, its CQs, a region.
pub struct End<D: Device> {
    /// The QP.
    pub qp: D::Qp,
    /// Completions of sends.
    pub send_cq: D::Cq,
    /// Completions of receives.
    pub recv_cq: D::Cq,
    /// A region of all rights that the device has.
    pub mr: Mr<D>,
    /// The other end, for datagrams.
    pub to: Option<UdDestination>,
}

impl<D: Device> End<D> {
    /// Posts a send of a range of the region.
    pub fn send(&mut self, wr_id: u64, op: SendOp, range: Range<usize>, flags: SendFlags) -> Outcome {
        let sges = [self.mr.sge(range)?];
        let mut wr = SendWr::new(op, &sges).wr_id(wr_id).flags(flags);
        wr.to = self.to.as_ref().map(Destination::Ud);
        Ok(self.qp.post_send([wr])?)
    }

    /// Posts a signaled send of a range of the region.
    pub fn signaled(&mut self, wr_id: u64, op: SendOp, range: Range<usize>) -> Outcome {
        self.send(wr_id, op, range, SendFlags::SIGNALED)
    }

    /// Posts a receive into a range of the region.
    pub fn recv(&mut self, wr_id: u64, range: Range<usize>) -> Outcome {
        let sges = [self.mr.sge(range)?];
        Ok(self.qp.post_recv([RecvWr::new(wr_id, &sges)])?)
    }

    /// Bytes of the region.
    pub fn bytes(&self, range: Range<usize>) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0; range.len()];
        self.mr.read(range.start, &mut bytes)?;
        Ok(bytes)
    }

    /// A write to the start of the region, for the other end.
    pub fn write_here(&self, offset: usize) -> SendOp {
        SendOp::Write { addr: self.mr.iova() + offset as u64, rkey: self.mr.rkey() }
    }
}

impl<D: Device> Lab<D> {
    /// With memory of the home's.
    pub fn new<H: Home<Device = D>>(devices: [D; 2], seed: u64, home: &mut H) -> Outcome<Self> {
        let pds = [devices[0].alloc_pd()?, devices[1].alloc_pd()?];
        let mut memory = Vec::new();
        for (n, len) in PIECES {
            memory.extend((0..n).map(|_| home.memory(len)));
        }
        Ok(Self { devices, pds, seed, memory })
    }

    /// Memory of exactly that many bytes that nobody has yet.
    pub fn memory(&mut self, len: usize) -> Outcome<RawMemory> {
        let fits = |m: &RawMemory| bareverbs::Memory::range(m).len() >= len;
        let Some(at) = self.memory.iter().position(fits) else {
            return Err(Stop::Failed(format!("the lab has no memory left for {len} bytes")));
        };
        let whole = bareverbs::Memory::range(&self.memory.remove(at));
        // SAFETY: the start of memory that the home keeps for the whole case, and that is handed out once.
        Ok(unsafe { RawMemory::new(core::ptr::NonNull::slice_from_raw_parts(whole.cast(), len)) })
    }

    /// All rights that the device has.
    pub fn all_access(&self) -> Access {
        let most = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        if self.devices[0].attributes().atomics { most | Access::REMOTE_ATOMIC } else { most }
    }

    /// A region of all rights.
    pub fn mr(&mut self, i: usize, len: usize) -> Outcome<Mr<D>> {
        self.mr_with(i, len, self.all_access())
    }

    /// A region of these rights.
    pub fn mr_with(&mut self, i: usize, len: usize, access: Access) -> Outcome<Mr<D>> {
        let memory = self.memory(len)?;
        Ok(self.devices[i].register(&self.pds[i], memory, access)?)
    }

    /// A CQ.
    pub fn cq(&self, i: usize, entries: u32) -> Outcome<D::Cq> {
        let context = 0xc0 << 32 | u64::from(entries);
        Ok(self.devices[i].create_cq(&CqInit { entries, context, ..CqInit::default() })?)
    }

    /// An SRQ for requests of two elements.
    pub fn srq(&self, i: usize, max_wr: u32) -> Outcome<D::Srq> {
        Ok(self.devices[i].create_srq(&self.pds[i], SrqAttr { max_wr, max_sge: 2, limit: 0 })?)
    }

    /// A QP of any type in RESET; an XRC target is of a domain of its own, which lives as long as it does.
    pub fn qp_of_any_type(&self, i: usize, kind: QpType, cq: &D::Cq) -> Outcome<D::Qp> {
        match kind {
            QpType::XrcTgt => Ok(self.devices[i].create_xrc_target(&self.devices[i].open_xrcd()?, 0)?),
            _ => self.qp(i, kind, [cq, cq], None, CAP),
        }
    }

    /// A QP in RESET, of any type but an XRC target.
    pub fn qp(&self, i: usize, kind: QpType, cqs: [&D::Cq; 2], srq: Option<&D::Srq>, cap: QpCap) -> Outcome<D::Qp> {
        let [send_cq, recv_cq] = cqs;
        let init = QpInit { kind, send_cq, recv_cq, srq, cap, signal_all: false, context: 0 };
        Ok(self.devices[i].create_qp(&self.pds[i], &init)?)
    }

    /// Connects a QP of each device.
    pub fn connect(&self, a: &mut D::Qp, b: &mut D::Qp) -> Outcome {
        Ok(connect::connect(&self.devices, [a, b], &Connection::default())?)
    }

    /// One end, in RESET.
    pub fn end(&mut self, i: usize, s: &Setup) -> Outcome<End<D>> {
        let (send_cq, recv_cq) = (self.cq(i, s.cq)?, self.cq(i, s.cq)?);
        let init = QpInit {
            kind: s.kind,
            send_cq: &send_cq,
            recv_cq: &recv_cq,
            srq: None,
            cap: s.cap,
            signal_all: s.signal_all,
            context: 0,
        };
        let qp = self.devices[i].create_qp(&self.pds[i], &init)?;
        Ok(End { qp, send_cq, recv_cq, mr: self.mr(i, s.memory)?, to: None })
    }

    /// Two ends, connected.
    pub fn pair(&mut self, s: &Setup) -> Outcome<[End<D>; 2]> {
        let (mut a, mut b) = (self.end(0, s)?, self.end(1, s)?);
        connect::connect(&self.devices, [&mut a.qp, &mut b.qp], &s.connection)?;
        if s.kind == QpType::Ud {
            a.to = Some(connect::destination(&self.devices[0], &self.devices[1], &b.qp)?);
            b.to = Some(connect::destination(&self.devices[1], &self.devices[0], &a.qp)?);
        }
        Ok([a, b])
    }

    /// Waits until something has come.
    pub fn wait<T>(&self, what: &str, mut done: impl FnMut() -> Outcome<Option<T>>) -> Outcome<T> {
        let deadline = self.devices[0].now() + PATIENCE;
        loop {
            if let Some(result) = done()? {
                return Ok(result);
            }
            ensure!(self.devices[0].now() < deadline, "waited in vain for {what}");
            self.devices[0].relax();
            self.devices[1].relax();
        }
    }

    /// Lets everything happen that is under way: what was sent before is there afterwards.
    pub fn settle(&self) {
        self.settle_for(ARRIVAL);
    }

    /// Lets happen what happens in that time. What a busy host took from us does not count: it took it from the devices,
    /// too.
    pub fn settle_for(&self, time: Duration) {
        let (mut left, mut last) = (time, self.devices[0].now());
        while left > Duration::ZERO {
            self.devices[0].relax();
            self.devices[1].relax();
            let now = self.devices[0].now();
            left = left.saturating_sub((now - last).min(TURN));
            last = now;
        }
    }

    /// Polls until `n` completions have come.
    pub fn poll(&self, cq: &mut D::Cq, n: usize) -> Outcome<Vec<Completion>> {
        let mut all = Vec::new();
        self.wait(&format!("{n} completions"), || {
            let mut some = [Completion::default(); 8];
            let most = some.len().min(n - all.len());
            let taken = cq.poll(&mut some[..most])?;
            all.extend_from_slice(&some[..taken]);
            Ok((all.len() >= n).then_some(()))
        })?;
        Ok(all)
    }

    /// Polls one completion.
    pub fn one(&self, cq: &mut D::Cq) -> Outcome<Completion> {
        Ok(self.poll(cq, 1)?[0])
    }

    /// Nothing comes on a CQ.
    pub fn nothing(&self, cq: &mut D::Cq) -> Outcome {
        self.settle_for(SILENCE);
        let mut one = [Completion::default()];
        let n = cq.poll(&mut one)?;
        ensure!(n == 0, "nothing should come, but {:?} did", one[0]);
        Ok(())
    }

    /// The next event of a device, ports' news left out.
    pub fn next_event(&self, i: usize) -> Outcome<Option<Event>> {
        loop {
            match self.devices[i].service()? {
                Some(
                    Event::PortActive(_)
                    | Event::LidChange(_)
                    | Event::PkeyChange(_)
                    | Event::GidChange(_)
                    | Event::ClientReregister(_)
                    | Event::CommunicationEstablished(_),
                ) => {}
                event => return Ok(event),
            }
        }
    }

    /// Waits for an event that must be the next one.
    pub fn event(&self, i: usize, expected: Event) -> Outcome {
        let event = self.wait(&format!("{expected:?}"), || self.next_event(i))?;
        ensure_eq!(event, expected, "the event");
        Ok(())
    }

    /// Waits for the completion event of a CQ, which must be the next event.
    pub fn cq_event(&self, i: usize, cq: &D::Cq) -> Outcome {
        self.event(i, completion_event(cq))
    }

    /// No event comes.
    pub fn no_event(&self, i: usize) -> Outcome {
        self.settle_for(SILENCE);
        let event = self.next_event(i)?;
        ensure!(event.is_none(), "no event should come, but {event:?} did");
        Ok(())
    }
}

/// What a verb says that a device may leave out, which it must do by exactly this name: whether it did.
pub fn left_out<T>(result: Result<T, Error>, name: &'static str) -> Outcome<bool> {
    match result {
        Err(Error::Unsupported(said)) => {
            ensure_eq!(said, name, "the name of what is left out");
            Ok(true)
        }
        Err(other) => Err(other.into()),
        Ok(_) => Ok(false),
    }
}

/// The completion event of a CQ.
pub fn completion_event(cq: &impl CompletionQueue) -> Event {
    Event::Completion(CqEvent { cqn: cq.cqn(), context: cq.context() })
}

/// Ids of completions.
pub fn ids(completions: &[Completion]) -> Vec<u64> {
    completions.iter().map(|c| c.wr_id).collect()
}
