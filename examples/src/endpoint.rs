//! One end of a ping-pong, as a step function over the verbs.

use crate::{
    address::Address,
    options::{MULTICAST, Options, Program},
    pattern::{Message, mix},
    report::Outcome,
};
use bareverbs::{
    Access, AckTimeout, AhAttr, Completion, CompletionQueue, CqInit, Device, Error, Event, Gid, GlobalRoute, Lid,
    LinkLayer, Mac, Memory, MemoryRegion, Mtu, Notify, PollError, PortState, PostListError, Psn, Qkey, QpAttr, QpCap,
    QpInit, QpState, QpType, Qpn, QueuePair, RecvWr, RetryCount, RnrTimer, SendOp, SendWr, SharedReceiveQueue, SrqAttr,
    UdDestination, WcOpcode, WcStatus,
};
use core::{fmt, time::Duration};
use heapless::Vec;

/// The most QPs an end plays with.
pub const MAX_QP: usize = 64;

/// Room that UD puts in front of each message for the GRH (IBA 11.4.1.2).
const GRH: usize = 40;
/// The queue key of the ibv_ud_pingpong.
const QKEY: Qkey = Qkey(0x1111_1111);
/// The QP of all datagrams to a group (IBA 10.5.1).
const MULTICAST_QPN: u32 = 0xff_ffff;
/// The group's LID on InfiniBand. No subnet administrator is asked for one.
const GROUP_LID: Lid = Lid(0xc001);
/// Marks the wr_id of a send; the rest is the QP's index. A receive's wr_id is its slot.
const SEND: u64 = 1 << 63;

/// What an end waits for before it may send again.
const WAIT_SEND: u8 = 1;
const WAIT_RECV: u8 = 2;

/// Why an end gave up.
#[derive(Debug)]
pub enum Failure {
    /// A verb failed.
    Verb(&'static str, Error),
    /// A request was not posted.
    Post(&'static str, PostListError),
    /// A poll failed.
    Poll(PollError),
    /// A request failed.
    Status {
        /// How.
        status: WcStatus,
        /// The vendor's syndrome.
        vendor_err: u32,
        /// Which.
        wr_id: u64,
    },
    /// A byte of a message is not what the other end sent.
    Mismatch {
        /// Which message, counted on its QP.
        iteration: u64,
        /// Which QP of this end.
        qpn: Qpn,
        /// Which byte.
        offset: usize,
    },
    /// A message of another length arrived.
    Length {
        /// What arrived.
        got: usize,
        /// What was sent.
        expected: usize,
    },
    /// The port cannot be used.
    PortNotActive(PortState),
    /// A datagram does not fit into one packet.
    AboveMtu(Mtu),
    /// A message is longer than the device sends.
    TooLong(u32),
    /// The entry of the GID table that was named is empty.
    EmptyGid(u8),
    /// An option that only Ethernet has.
    NotEthernet(&'static str),
    /// Ethernet needs a GID and the table has none.
    NoGid,
    /// The device told of an error.
    Event(Event),
    /// No memory for the buffers.
    NoMemory(usize),
    /// Too few addresses of the other end came.
    Addresses,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verb(verb, e) => write!(f, "{verb}: {e}"),
            Self::Post(what, e) => write!(f, "Couldn't post {what}: {e}"),
            Self::Poll(e) => write!(f, "poll CQ failed: {e}"),
            Self::Status { status, vendor_err, wr_id } => {
                let code = *status as u8;
                write!(f, "Failed status {status} ({code}) for wr_id {wr_id:#x}, vendor syndrome {vendor_err:#x}")
            }
            Self::Mismatch { iteration, qpn, offset } => {
                write!(f, "invalid data in message {iteration} on QPN 0x{:06x} at byte {offset}", qpn.get())
            }
            Self::Length { got, expected } => write!(f, "a message of {got} bytes arrived, {expected} were sent"),
            Self::PortNotActive(state) => write!(f, "the port is {}, not PORT_ACTIVE", state.name()),
            Self::AboveMtu(mtu) => write!(f, "Requested size larger than port MTU ({})", mtu.bytes()),
            Self::TooLong(max) => write!(f, "a message has at most {max} bytes"),
            Self::EmptyGid(index) => write!(f, "entry {index} of the GID table is empty"),
            Self::NotEthernet(option) => write!(f, "{option} is for Ethernet, the port is InfiniBand"),
            Self::NoGid => f.write_str("the port is Ethernet and its GID table is empty (set one with --ip)"),
            Self::Event(event) => write!(f, "the device says: {event}"),
            Self::NoMemory(bytes) => write!(f, "no memory for {bytes} bytes of buffers"),
            Self::Addresses => f.write_str("the other end sent too few addresses"),
        }
    }
}

impl core::error::Error for Failure {}

/// Names the verb that an error came from.
trait In<T> {
    fn during(self, verb: &'static str) -> Result<T, Failure>;
}

impl<T, E: Into<Error>> In<T> for Result<T, E> {
    fn during(self, verb: &'static str) -> Result<T, Failure> {
        self.map_err(|e| failed(verb, e.into()))
    }
}

/// Apart from its many callers, so that each stays short.
#[cold]
#[inline(never)]
fn failed(verb: &'static str, e: Error) -> Failure {
    Failure::Verb(verb, e)
}

/// Whether a step found something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing yet.
    Idle,
    /// Completions were handled.
    Worked,
    /// All messages were exchanged.
    Done,
}

/// One end.
pub struct Endpoint<D: Device, M: Memory> {
    device: D,
    cq: D::Cq,
    srq: Option<D::Srq>,
    qps: Vec<Qp<D>, MAX_QP>,
    send: D::Mr<M>,
    recv: D::Mr<M>,
    _pd: D::Pd,
    shape: Shape,
    seed: u64,
    sender: u8,
    gid_index: Option<u8>,
    mac: Option<Mac>,
    group: Option<Gid>,
    sent: u64,
    received: u64,
    ready: bool,
    begun: Duration,
    ended: Duration,
}

struct Qp<D: Device> {
    qp: D::Qp,
    psn: Psn,
    address: Address,
    ud: Option<UdDestination>,
    waits: u8,
    sent: u64,
    received: u64,
}

/// The numbers that stay the same during a run.
#[derive(Clone, Copy)]
struct Shape {
    kind: QpType,
    size: usize,
    slot: usize,
    slots: usize,
    iters: u64,
    check: bool,
    events: bool,
    mtu: Mtu,
    sl: u8,
}

impl Shape {
    fn new(o: &Options<'_>, mtu: Mtu) -> Self {
        let size = o.size(mtu);
        let kind = match o.program {
            Program::UcPingpong => QpType::Uc,
            Program::UdPingpong => QpType::Ud,
            _ => QpType::Rc,
        };
        let head = if kind == QpType::Ud { GRH } else { 0 };
        Self {
            kind,
            size,
            slot: (size + head).next_multiple_of(64).max(64),
            // Several QPs may have a message in flight each, and a group sends the own ones back; else there is one.
            slots: if o.program == Program::SrqPingpong || o.multicast { o.rx_depth as usize } else { 1 },
            iters: o.iters,
            check: o.check,
            events: o.events,
            mtu: o.mtu,
            sl: o.sl,
        }
    }

    fn head(&self) -> usize {
        if self.kind == QpType::Ud { GRH } else { 0 }
    }
}

impl<D: Device, M: Memory> Endpoint<D, M> {
    /// Makes all objects and posts the receives. `sender` is 0 for the server and 1 for the client; `buffer` gives
    /// memory of a length.
    pub fn new(
        device: D,
        o: &Options<'_>,
        sender: u8,
        seed: u64,
        mut buffer: impl FnMut(usize) -> Option<M>,
    ) -> Result<Self, Failure> {
        let port = device.query_port(o.ib_port).during("query_port")?;
        let shape = Shape::new(o, port.active_mtu);
        if port.state != PortState::Active {
            return Err(Failure::PortNotActive(port.state));
        }
        if shape.size > port.max_msg_sz as usize {
            return Err(Failure::TooLong(port.max_msg_sz));
        }
        if shape.kind == QpType::Ud && shape.size > port.active_mtu.bytes() as usize {
            return Err(Failure::AboveMtu(port.active_mtu));
        }
        let ethernet = port.link_layer == LinkLayer::Ethernet;
        if let (false, Some(option)) = (ethernet, o.ip.map(|_| "--ip").or(o.dmac.map(|_| "--dmac"))) {
            return Err(Failure::NotEthernet(option));
        }
        let gid_index = match o.gid_index {
            None if ethernet || o.multicast => Some(default_gid(&device, o, port.gid_tbl_len).ok_or(Failure::NoGid)?),
            given => given,
        };
        let gid = match gid_index {
            Some(i) => device.query_gid(o.ib_port, i).during("query_gid")?.gid,
            None => Gid::ZERO,
        };
        if let (Some(index), true) = (gid_index, gid.is_zero()) {
            return Err(Failure::EmptyGid(index));
        }
        let group = (MULTICAST && o.multicast).then(|| group(&gid));

        let pd = device.alloc_pd().during("alloc_pd")?;
        let mut region = |len: usize, access| {
            let memory = buffer(len).ok_or(Failure::NoMemory(len))?;
            device.register(&pd, memory, access).during("register")
        };
        let send = region(shape.slot * o.num_qp, Access::empty())?;
        let recv = region(shape.slot * shape.slots, Access::LOCAL_WRITE)?;
        let cq_init = CqInit { entries: o.rx_depth.saturating_add(o.num_qp as u32), ..CqInit::default() };
        let mut cq = device.create_cq(&cq_init).during("create_cq")?;
        if o.events {
            cq.request_notify(Notify::Any).during("request_notify")?;
        }
        let srq_attr = SrqAttr { max_wr: o.rx_depth, max_sge: 1, limit: 0 };
        let srq = match o.program {
            Program::SrqPingpong => Some(device.create_srq(&pd, srq_attr).during("create_srq")?),
            _ => None,
        };

        let cap = QpCap { max_send_wr: 1, max_recv_wr: o.rx_depth, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
        let mut qps = Vec::new();
        for i in 0..o.num_qp {
            let init = QpInit {
                kind: shape.kind,
                send_cq: &cq,
                recv_cq: &cq,
                srq: srq.as_ref(),
                cap,
                signal_all: false,
                context: i as u64,
            };
            let mut qp = device.create_qp(&pd, &init).during("create_qp")?;
            let attr = QpAttr::to(QpState::Init).pkey_index(0).port(o.ib_port);
            let attr = match shape.kind {
                QpType::Ud => attr.qkey(QKEY),
                _ => attr.access(Access::empty()),
            };
            qp.modify(&attr).during("modify_qp to INIT")?;
            if let (true, Some(group)) = (MULTICAST, group) {
                qp.attach_multicast(group, GROUP_LID).during("attach_mcast")?;
            }
            let psn = Psn::new(mix(seed ^ mix((i as u64) << 8 | u64::from(sender))) as u32);
            let mac = ethernet.then_some(port.mac);
            let address = Address { lid: port.lid, qpn: qp.qpn(), psn, gid, mac };
            let qp = Qp { qp, psn, address, ud: None, waits: WAIT_RECV, sent: 0, received: 0 };
            // num_qp is at most MAX_QP (checked when the options were parsed).
            qps.push(qp).map_err(|_| Failure::NoMemory(MAX_QP))?;
        }
        let begun = device.now();
        let mut end = Self {
            device,
            cq,
            srq,
            qps,
            send,
            recv,
            _pd: pd,
            shape,
            seed,
            sender,
            gid_index,
            mac: o.dmac,
            group,
            sent: 0,
            received: 0,
            ready: false,
            begun,
            ended: begun,
        };
        for i in 0..o.rx_depth {
            end.post_recv(0, i as usize % shape.slots)?;
        }
        Ok(end)
    }

    /// Where the end's QPs are found.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.qps.iter().map(|q| q.address)
    }

    /// Brings all QPs to RTS towards the other end's.
    pub fn connect(&mut self, o: &Options<'_>, peers: &[Address]) -> Result<(), Failure> {
        if peers.len() < self.qps.len() {
            return Err(Failure::Addresses);
        }
        let (shape, gid_index, given_mac) = (self.shape, self.gid_index, self.mac);
        for (q, peer) in self.qps.iter_mut().zip(peers) {
            let peer = match self.group {
                Some(gid) if MULTICAST => {
                    &Address { lid: GROUP_LID, qpn: Qpn::new(MULTICAST_QPN), psn: peer.psn, gid, mac: None }
                }
                _ => peer,
            };
            let av = AhAttr {
                port: o.ib_port,
                dlid: peer.lid,
                sl: shape.sl,
                grh: gid_index.filter(|_| !peer.gid.is_zero()).map(|sgid_index| GlobalRoute {
                    dgid: peer.gid,
                    sgid_index,
                    hop_limit: 64,
                    ..GlobalRoute::default()
                }),
                dmac: given_mac.or(peer.mac),
                ..AhAttr::default()
            };
            let rtr = QpAttr::to(QpState::Rtr);
            let rts = QpAttr::to(QpState::Rts).sq_psn(q.psn);
            let connected = rtr.path_mtu(shape.mtu).dest_qpn(peer.qpn).rq_psn(peer.psn).av(av);
            let (rtr, rts) = match shape.kind {
                QpType::Ud => (rtr, rts),
                QpType::Uc => (connected, rts),
                _ => (
                    connected.max_dest_rd_atomic(1).min_rnr_timer(RnrTimer::at_least(Duration::from_micros(640))),
                    rts.timeout(AckTimeout::at_least(Duration::from_millis(67)))
                        .retry_cnt(RetryCount::MAX)
                        .rnr_retry(RetryCount::MAX)
                        .max_rd_atomic(1),
                ),
            };
            q.qp.modify(&rtr).during("modify_qp to RTR")?;
            q.qp.modify(&rts).during("modify_qp to RTS")?;
            if shape.kind == QpType::Ud {
                let ah = self.device.address_handle(&av).during("address_handle")?;
                q.ud = Some(UdDestination { ah, qpn: peer.qpn, qkey: QKEY });
            }
        }
        Ok(())
    }

    /// Starts the clock; the client sends its first messages.
    pub fn start(&mut self) -> Result<(), Failure> {
        self.begun = self.device.now();
        if self.sender == 1 {
            for i in 0..self.qps.len() {
                self.post_send(i)?;
            }
        }
        Ok(())
    }

    /// Handles the completions that are there now.
    pub fn step(&mut self) -> Result<Progress, Failure> {
        if self.is_done() {
            return Ok(Progress::Done);
        }
        if self.shape.events && !self.ready && !self.wait_for_event()? {
            return Ok(Progress::Idle);
        }
        let mut done = [Completion::default(); 16];
        let n = self.cq.poll(&mut done).map_err(Failure::Poll)?;
        if n == 0 {
            self.ready = false;
            return Ok(Progress::Idle);
        }
        for c in done.iter().take(n) {
            self.complete(c)?;
        }
        if self.is_done() {
            self.ended = self.device.now();
            return Ok(Progress::Done);
        }
        Ok(Progress::Worked)
    }

    /// What came of it.
    pub fn outcome(&self) -> Outcome {
        Outcome { iters: self.shape.iters, size: self.shape.size, elapsed: self.ended.saturating_sub(self.begun) }
    }

    fn is_done(&self) -> bool {
        self.sent >= self.shape.iters && self.received >= self.shape.iters
    }

    /// Waits for the CQ's event, and arms it again before it is polled (as ibv_req_notify_cq wants).
    fn wait_for_event(&mut self) -> Result<bool, Failure> {
        match self.device.service().during("service")? {
            Some(Event::Completion(event)) if event.cqn == self.cq.cqn() => {
                self.cq.ack_events(1).during("ack_events")?;
                self.cq.request_notify(Notify::Any).during("request_notify")?;
                self.ready = true;
            }
            Some(Event::CommunicationEstablished(_) | Event::PortActive(_)) => {}
            Some(event) => return Err(Failure::Event(event)),
            None => self.device.relax(),
        }
        Ok(self.ready)
    }

    fn complete(&mut self, c: &Completion) -> Result<(), Failure> {
        if c.status != WcStatus::Success {
            return Err(Failure::Status { status: c.status, vendor_err: c.vendor_err, wr_id: c.wr_id });
        }
        let Some(i) = self.qps.iter().position(|q| q.qp.qpn() == c.qpn) else {
            return Err(Failure::Poll(PollError::UnknownQp(c.qpn)));
        };
        if c.opcode == WcOpcode::Recv && self.is_own(i, c)? {
            self.post_recv(i, c.wr_id as usize)?;
            return Ok(());
        }
        if c.opcode == WcOpcode::Recv {
            self.check(i, c)?;
            self.post_recv(i, c.wr_id as usize)?;
            self.received += 1;
            self.qps[i].received += 1;
            self.qps[i].waits &= !WAIT_RECV;
        } else {
            self.sent += 1;
            self.qps[i].waits &= !WAIT_SEND;
        }
        if self.qps[i].waits == 0 && self.sent < self.shape.iters {
            self.post_send(i)?;
        }
        Ok(())
    }

    /// Whether a group sent the own message back: by the source GID of the GRH.
    fn is_own(&self, i: usize, c: &Completion) -> Result<bool, Failure> {
        if !MULTICAST || self.group.is_none() {
            return Ok(false);
        }
        let mut grh = [0; GRH];
        self.recv.read(c.wr_id as usize * self.shape.slot, &mut grh).during("read")?;
        Ok(source(&grh) == self.qps[i].address.gid)
    }

    /// Compares the received message with what the other end sent.
    fn check(&self, i: usize, c: &Completion) -> Result<(), Failure> {
        if !self.shape.check {
            return Ok(());
        }
        let expected = self.shape.size + self.shape.head();
        if c.byte_len as usize != expected {
            return Err(Failure::Length { got: c.byte_len as usize, expected });
        }
        let iteration = self.qps[i].received;
        let message = Message { seed: self.seed, sender: 1 - self.sender, qp: i, iteration };
        let base = c.wr_id as usize * self.shape.slot + self.shape.head();
        let mut chunk = [0; 1024];
        for offset in (0..self.shape.size).step_by(chunk.len()) {
            let bytes = (self.shape.size - offset).min(chunk.len());
            let chunk = &mut chunk[..bytes];
            self.recv.read(base + offset, chunk).during("read")?;
            if let Some(offset) = message.mismatch(offset, chunk) {
                return Err(Failure::Mismatch { iteration, qpn: c.qpn, offset });
            }
        }
        Ok(())
    }

    fn post_recv(&mut self, i: usize, slot: usize) -> Result<(), Failure> {
        let base = slot * self.shape.slot;
        let sges = [self.recv.sge(base..base + self.shape.head() + self.shape.size).during("sge")?];
        let wr = [RecvWr::new(slot as u64, &sges)];
        let posted = match &mut self.srq {
            Some(srq) => srq.post(wr),
            None => self.qps[i].qp.post_recv(wr),
        };
        posted.map_err(|e| Failure::Post("receive", e))
    }

    fn post_send(&mut self, i: usize) -> Result<(), Failure> {
        let base = i * self.shape.slot;
        let q = &mut self.qps[i];
        if self.shape.check {
            let message = Message { seed: self.seed, sender: self.sender, qp: i, iteration: q.sent };
            let mut chunk = [0; 1024];
            for offset in (0..self.shape.size).step_by(chunk.len()) {
                let bytes = (self.shape.size - offset).min(chunk.len());
                message.fill(offset, &mut chunk[..bytes]);
                self.send.write(base + offset, &chunk[..bytes]).during("write")?;
            }
        }
        let sges = [self.send.sge(base..base + self.shape.size).during("sge")?];
        let mut wr = SendWr::new(SendOp::Send, &sges).wr_id(SEND | i as u64).signaled();
        if let Some(ud) = &q.ud {
            wr = wr.to(ud);
        }
        q.qp.post_send([wr]).map_err(|e| Failure::Post("send", e))?;
        q.sent += 1;
        q.waits = WAIT_SEND | WAIT_RECV;
        Ok(())
    }
}

/// The GID that a program takes when none was asked for: the best RoCE v2 one.
fn default_gid<D: Device>(device: &D, o: &Options<'_>, len: u16) -> Option<u8> {
    let entries = (0..len.min(256)).map_while(|i| device.query_gid(o.ib_port, i as u8).ok());
    bareverbs::gid::choose(entries).map(|c| c.index)
}

/// A group of this program's own: transient and of the link (RFC 4291, 2.7), for a GID of an IPv4 address one of IPv4's
/// (RFC 2365, 6.1).
fn group(own: &Gid) -> Gid {
    match own.ipv4() {
        Some(_) => Gid::from_ipv4([239, 255, 0xba, 0x5e]),
        None => Gid([0xff, 0x12, 0x60, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0xba, 0x5e]),
    }
}

/// The sender of a datagram: of a GRH, or of an IPv4 header, which stands in the last 20 bytes of its room (RoCEv2, annex
/// A17.4.5.2).
fn source(grh: &[u8; GRH]) -> Gid {
    let mut gid = Gid::ZERO;
    match grh[0] >> 4 {
        6 => gid.0.copy_from_slice(&grh[8..24]),
        _ => gid = Gid::from_ipv4([grh[32], grh[33], grh[34], grh[35]]),
    }
    gid
}

/// Gives everything back in order, so that a leak shows as an error.
impl<D: Device, M: Memory> Endpoint<D, M> {
    /// Destroys all objects.
    pub fn close(self) -> Result<(), Failure> {
        use bareverbs::Destroy;
        for mut q in self.qps {
            if let (true, Some(group)) = (MULTICAST, self.group) {
                q.qp.detach_multicast(group, GROUP_LID).during("detach_mcast")?;
            }
            q.qp.destroy().during("destroy_qp")?;
        }
        if let Some(srq) = self.srq {
            srq.destroy().during("destroy_srq")?;
        }
        self.cq.destroy().during("destroy_cq")?;
        self.send.deregister().during("deregister")?;
        self.recv.deregister().during("deregister")?;
        self._pd.destroy().during("dealloc_pd")
    }
}
