//! The device, the net that joins devices, and protection domains.

use crate::{Channel, Cq, Mr, Qp, Srq, Window, cq::CqState, mr::Region, qp::QpState, window::WindowState};
use bareverbs::{
    Absent, AddressHandle, AhAttr, Argument, CqInit, Cqn, Destroy, Device, DeviceAttr, Error, Event, Gid, GidEntry,
    GidType, Lid, LinkLayer, Memory, Mtu, Object, Pkey, PortAttr, PortNum, PortState, QpInit, QpType, Refused,
    RegionInit, SrqInit, WindowKind,
};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    rc::{Rc, Weak},
    time::{Duration, Instant},
};

/// Which time the net tells.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The machine's.
    Wall,
    /// 100 ns later at each look.
    Virtual,
}

/// What joins devices.
#[derive(Clone)]
pub struct Net(pub(crate) Rc<NetState>);

pub(crate) struct NetState {
    pub(crate) nodes: RefCell<Vec<Weak<Node>>>,
    clock: Clock,
    begun: Instant,
    ticks: Cell<u64>,
}

impl Net {
    /// An empty net.
    pub fn new(clock: Clock) -> Self {
        let (nodes, ticks) = (RefCell::default(), Cell::new(0));
        Self(Rc::new(NetState { nodes, clock, begun: Instant::now(), ticks }))
    }

    /// Adds a device.
    pub fn open(&self) -> Loopback {
        let mut nodes = self.0.nodes.borrow_mut();
        let node = Rc::new(Node {
            net: self.0.clone(),
            lid: Lid(nodes.len() as u16 + 1),
            next: Cell::new(1),
            cqs: RefCell::default(),
            qps: RefCell::default(),
            regions: RefCell::default(),
            windows: RefCell::default(),
            events: RefCell::default(),
        });
        nodes.push(Rc::downgrade(&node));
        Loopback(node)
    }
}

impl NetState {
    fn now(&self) -> Duration {
        match self.clock {
            Clock::Wall => self.begun.elapsed(),
            Clock::Virtual => {
                self.ticks.set(self.ticks.get() + 1);
                Duration::from_nanos(self.ticks.get() * 100)
            }
        }
    }

    /// Executes whatever can be executed. Costs 100 ns of virtual time.
    pub(crate) fn progress(&self) {
        self.ticks.set(self.ticks.get() + 1);
        let nodes: Vec<Rc<Node>> = self.nodes.borrow().iter().filter_map(Weak::upgrade).collect();
        while nodes.iter().fold(false, |worked, node| node.progress() | worked) {}
    }
}

/// One device's state.
pub(crate) struct Node {
    pub(crate) net: Rc<NetState>,
    pub(crate) lid: Lid,
    next: Cell<u32>,
    pub(crate) cqs: RefCell<BTreeMap<u32, Weak<CqState>>>,
    pub(crate) qps: RefCell<BTreeMap<u32, Weak<QpState>>>,
    pub(crate) regions: RefCell<BTreeMap<u32, Region>>,
    /// By the key without its variant.
    pub(crate) windows: RefCell<BTreeMap<u32, Weak<WindowState>>>,
    pub(crate) events: RefCell<VecDeque<Event>>,
}

impl Node {
    /// A fresh number for an object: not an index, and never used again.
    pub(crate) fn number(&self) -> u32 {
        let n = self.next.get();
        self.next.set(n + 1);
        0x100 + n * 7
    }

    /// The CQ of a number.
    fn cq(&self, cqn: Cqn) -> Option<Rc<CqState>> {
        self.cqs.borrow().get(&cqn.get()).and_then(Weak::upgrade)
    }

    /// Somebody got a completion event of a CQ.
    pub(crate) fn count_event(&self, cqn: Cqn) {
        if let Some(cq) = self.cq(cqn) {
            cq.count_event();
        }
    }

    /// The GID of a node: of a made-up MAC that holds the LID.
    pub(crate) fn gid(lid: Lid) -> Gid {
        let [hi, lo] = lid.0.to_be_bytes();
        Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, hi, lo])
    }
}

/// A device of the net.
#[derive(Clone)]
pub struct Loopback(pub(crate) Rc<Node>);

/// A protection domain: objects hold it, so that a count of holders tells whether it is in use.
pub struct Pd {
    pub(crate) node: Rc<Node>,
    pub(crate) id: Rc<u32>,
}

impl Destroy for Pd {
    fn destroy(self) -> Result<(), Refused<Self>> {
        refuse_if_held(self, |pd| Rc::strong_count(&pd.id))
    }
}

impl Destroy for Loopback {
    fn destroy(self) -> Result<(), Refused<Self>> {
        refuse_if_held(self, |device| Rc::strong_count(&device.0))
    }
}

/// Drops a handle that is the only one.
pub(crate) fn refuse_if_held<T>(handle: T, count: impl Fn(&T) -> usize) -> Result<(), Refused<T>> {
    match count(&handle) {
        1 => Ok(()),
        n => Err(Refused { handle, error: Error::Busy { holders: n as u32 - 1 } }),
    }
}

pub(crate) const PORT: PortNum = PortNum(1);
const MAX_WR: u32 = 1 << 15;
const MAX_SGE: u32 = 16;
/// Outstanding reads and atomics of a QP, each way.
pub(crate) const MAX_RD_ATOMIC: u8 = 16;

pub(crate) fn in_range(what: Argument, wanted: u32, min: u32, max: u32) -> Result<(), Error> {
    if (min..=max).contains(&wanted) {
        Ok(())
    } else {
        Err(Error::OutOfRange { what, wanted: wanted.into(), max: max.into() })
    }
}

fn check_port(port: PortNum) -> Result<(), Error> {
    if port == PORT { Ok(()) } else { Err(Error::NoSuchPort(port)) }
}

/// Checks an address.
pub(crate) fn check_address(av: &AhAttr) -> Result<(), Error> {
    check_port(av.port)?;
    in_range(Argument::ServiceLevel, av.sl.into(), 0, 15)?;
    in_range(Argument::SrcPathBits, av.src_path_bits.into(), 0, 127)?;
    in_range(Argument::StaticRate, av.static_rate.into(), 0, 10)?;
    let Some(grh) = &av.grh else { return Ok(()) };
    in_range(Argument::FlowLabel, grh.flow_label, 0, 0xf_ffff)?;
    match grh.sgid_index {
        0 => Ok(()),
        n => Err(Error::NoSuchIndex { table: Argument::Gid, index: n.into() }),
    }
}

impl Loopback {
    fn owns(&self, node: &Rc<Node>, object: Object) -> Result<(), Error> {
        if Rc::ptr_eq(&self.0, node) { Ok(()) } else { Err(Error::Foreign(object)) }
    }

    fn create_cq_with(&self, channel: Option<&Channel>, init: &CqInit) -> Result<Cq, Error> {
        in_range(Argument::CqEntries, init.entries, 1, self.attributes().max_cqe)?;
        in_range(Argument::CompVector, init.comp_vector, 0, 0)?;
        Ok(Cq::new(self.0.clone(), init, channel))
    }
}

impl Device for Loopback {
    type Pd = Pd;
    type Cq = Cq;
    type Channel = Channel;
    type Srq = Srq;
    type Qp = Qp;
    type Mr<M: Memory> = Mr<M>;
    type Xrcd = Absent;
    type Window = Window;
    type FastRegion = Absent;

    fn attributes(&self) -> DeviceAttr {
        let mut a = DeviceAttr::default();
        a.node_guid = [2, 0, 0, 0, 0, 0, 0, self.0.lid.0 as u8];
        a.sys_image_guid = a.node_guid;
        a.max_mr_size = u64::MAX;
        a.page_size_cap = 4096;
        (a.max_qp, a.max_cq, a.max_srq, a.max_mr, a.max_pd) = (1 << 16, 1 << 16, 1 << 16, 1 << 16, 1 << 16);
        (a.max_qp_wr, a.max_cqe, a.max_srq_wr) = (MAX_WR, 1 << 20, MAX_WR);
        (a.max_sge, a.max_sge_rd, a.max_srq_sge, a.max_inline) = (MAX_SGE, MAX_SGE, MAX_SGE, 1024);
        (a.max_qp_rd_atom, a.max_qp_init_rd_atom, a.atomics) = (MAX_RD_ATOMIC, MAX_RD_ATOMIC, true);
        a.max_mw = 1 << 16;
        (a.max_pkeys, a.num_comp_vectors, a.phys_port_cnt) = (1, 1, 1);
        a.qp_types = 1 << QpType::Rc as u32 | 1 << QpType::Ud as u32;
        a
    }

    fn query_port(&self, port: PortNum) -> Result<PortAttr, Error> {
        check_port(port)?;
        let mut p = PortAttr::default();
        p.state = PortState::Active;
        (p.max_mtu, p.active_mtu) = (Mtu::B4096, Mtu::B4096);
        (p.gid_tbl_len, p.pkey_tbl_len, p.max_msg_sz) = (1, 1, 1 << 31);
        (p.lid, p.sm_lid, p.phys_state) = (self.0.lid, Lid(1), 5);
        (p.active_width, p.active_speed) = (2, 1);
        p.link_layer = LinkLayer::InfiniBand;
        Ok(p)
    }

    fn query_gid(&self, port: PortNum, index: u8) -> Result<GidEntry, Error> {
        check_port(port)?;
        match index {
            0 => Ok(GidEntry { gid: Node::gid(self.0.lid), kind: GidType::IbOrRoceV1, ..GidEntry::default() }),
            _ => Err(Error::NoSuchIndex { table: Argument::Gid, index: index.into() }),
        }
    }

    fn set_gid(&self, port: PortNum, _index: u8, _entry: &GidEntry) -> Result<(), Error> {
        check_port(port)?;
        Err(Error::Unsupported("setting a GID on InfiniBand"))
    }

    fn query_pkey(&self, port: PortNum, index: u16) -> Result<Pkey, Error> {
        check_port(port)?;
        match index {
            0 => Ok(Pkey::DEFAULT),
            _ => Err(Error::NoSuchIndex { table: Argument::Pkey, index: index.into() }),
        }
    }

    fn alloc_pd(&self) -> Result<Pd, Error> {
        Ok(Pd { node: self.0.clone(), id: Rc::new(self.0.number()) })
    }

    fn create_cq(&self, init: &CqInit) -> Result<Cq, Error> {
        self.create_cq_with(None, init)
    }

    fn create_comp_channel(&self) -> Result<Channel, Error> {
        Ok(Channel::new(self.0.clone()))
    }

    fn create_cq_on(&self, channel: &Channel, init: &CqInit) -> Result<Cq, Error> {
        self.owns(&channel.0.node, Object::Channel)?;
        self.create_cq_with(Some(channel), init)
    }

    fn create_srq(&self, pd: &Pd, init: impl Into<SrqInit>) -> Result<Srq, Error> {
        let init = init.into();
        self.owns(&pd.node, Object::Pd)?;
        in_range(Argument::SrqEntries, init.attr.max_wr, 1, MAX_WR)?;
        in_range(Argument::SrqSge, init.attr.max_sge, 1, MAX_SGE)?;
        Ok(Srq::new(self.0.clone(), pd, &init))
    }

    fn create_qp(&self, pd: &Pd, init: &QpInit<'_, Self>) -> Result<Qp, Error> {
        self.owns(&pd.node, Object::Pd)?;
        self.owns(&init.send_cq.0.node, Object::Cq)?;
        self.owns(&init.recv_cq.0.node, Object::Cq)?;
        if let Some(srq) = init.srq {
            self.owns(&srq.0.node, Object::Srq)?;
        }
        if init.send_cq.0.is_told() || init.recv_cq.0.is_told() {
            return Err(Error::CqError);
        }
        if !self.attributes().has(init.kind) {
            return Err(Error::Unsupported("QP types other than RC and UD"));
        }
        in_range(Argument::MaxSendWr, init.cap.max_send_wr, 0, MAX_WR)?;
        in_range(Argument::MaxSendSge, init.cap.max_send_sge, 0, MAX_SGE)?;
        in_range(Argument::MaxInline, init.cap.max_inline, 0, 1024)?;
        if init.srq.is_none() {
            in_range(Argument::MaxRecvWr, init.cap.max_recv_wr, 0, MAX_WR)?;
            in_range(Argument::MaxRecvSge, init.cap.max_recv_sge, 0, MAX_SGE)?;
        }
        Ok(Qp::new(self.0.clone(), pd, init))
    }

    fn register<M: Memory>(&self, pd: &Pd, memory: M, init: impl Into<RegionInit>) -> Result<Mr<M>, Refused<M>> {
        match self.owns(&pd.node, Object::Pd) {
            Ok(()) => Mr::new(self.0.clone(), pd, memory, init.into()),
            Err(error) => Err(Refused { handle: memory, error }),
        }
    }

    fn alloc_window(&self, pd: &Pd, kind: WindowKind) -> Result<Window, Error> {
        self.owns(&pd.node, Object::Pd)?;
        Ok(Window::new(self.0.clone(), pd, kind))
    }

    fn address_handle(&self, attr: &AhAttr) -> Result<AddressHandle, Error> {
        check_address(attr)?;
        let mut form = [0; 12];
        form[0] = u32::from(attr.dlid.0);
        Ok(AddressHandle::from_driver(form, u32::from(self.0.lid.0)))
    }

    fn service(&self) -> Result<Option<Event>, Error> {
        self.0.net.progress();
        let event = self.0.events.borrow_mut().pop_front();
        match event {
            Some(Event::CqError(cqn)) => self.0.cq(cqn).iter().for_each(|cq| cq.tell_error()),
            Some(Event::Completion(event)) => self.0.count_event(event.cqn),
            _ => {}
        }
        Ok(event)
    }

    fn reopen(self) -> Result<Self, Refused<Self>> {
        match Rc::strong_count(&self.0) {
            // Nothing is left of before but events.
            1 => {
                self.0.events.borrow_mut().clear();
                Ok(self)
            }
            n => Err(Refused { handle: self, error: Error::Busy { holders: n as u32 - 1 } }),
        }
    }

    fn now(&self) -> Duration {
        self.0.net.now()
    }

    fn relax(&self) {
        self.0.net.progress();
    }
}
