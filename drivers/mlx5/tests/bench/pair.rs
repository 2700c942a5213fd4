//! Two modelled HCAs and their drivers on one link.

use super::Model;
use bareverbs::*;
use bareverbs_harness::{Function, World};
use bareverbs_mlx5::{Config, Cq, Local, Mlx5, Mr, Pd, Qp, Srq};
use bareverbs_model_mlx5::HcaConfig;
use std::time::Duration;

pub type Device5 = Mlx5<Function, Local>;
pub type Cq5 = Cq<Function, Local>;
pub type Srq5 = Srq<Function, Local>;
pub type Qp5 = Qp<Function, Local>;
pub type Mr5 = Mr<&'static mut [u8], Function, Local>;

pub const PORT: PortNum = PortNum(1);

/// What both kinds of link can do alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    InfiniBand,
    Roce,
}

/// One end.
pub struct Node {
    pub model: Model,
    pub function: Function,
    pub device: Device5,
    pub pd: Pd<Function, Local>,
}

/// Two ends of a link.
pub struct Pair {
    pub world: World,
    pub link: Link,
    pub a: Node,
    pub b: Node,
}

impl Node {
    pub fn new(world: &World, link: Link, n: u8) -> Self {
        let config = match link {
            Link::InfiniBand => HcaConfig::infiniband(n),
            Link::Roce => HcaConfig::ethernet(n),
        };
        let model = Model::new(config);
        let function = model.plug(world);
        let device = Device5::open(function.clone(), Config::default()).expect("opens");
        let pd = device.alloc_pd().expect("a PD");
        Self { model, function, device, pd }
    }

    /// Waits until the port is up; on Ethernet it gets an address.
    pub fn ready(&self, n: u8) {
        wait(&self.device, "the port to become active", || {
            (self.device.query_port(PORT).unwrap().state == PortState::Active).then_some(())
        });
        let port = self.device.query_port(PORT).unwrap();
        if port.link_layer == LinkLayer::Ethernet {
            let gid = Gid::from_ipv4([10, 0, 0, n + 1]);
            let entry = GidEntry { gid, kind: GidType::RoceV2, mac: port.mac, vlan: None };
            self.device.set_gid(PORT, 0, &entry).expect("a GID");
        }
    }

    pub fn cq(&self, entries: u32) -> Cq5 {
        self.device.create_cq(&CqInit { entries, ..CqInit::default() }).expect("a CQ")
    }

    pub fn mr(&self, bytes: usize) -> Mr5 {
        let memory: &'static mut [u8] = Box::leak(vec![0u8; bytes].into_boxed_slice());
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        self.device.register(&self.pd, memory, access).map_err(|r| r.error).expect("a region")
    }

    pub fn qp(&self, kind: QpType, send_cq: &Cq5, recv_cq: &Cq5, srq: Option<&Srq5>, cap: QpCap) -> Qp5 {
        let init = QpInit { kind, send_cq, recv_cq, srq, cap, signal_all: false, context: 0 };
        self.device.create_qp(&self.pd, &init).expect("a QP")
    }

    /// The address by which the other end reaches this one.
    pub fn address(&self) -> AhAttr {
        let port = self.device.query_port(PORT).unwrap();
        match port.link_layer {
            LinkLayer::InfiniBand => AhAttr { port: PORT, dlid: port.lid, ..AhAttr::default() },
            LinkLayer::Ethernet => {
                let dgid = self.device.query_gid(PORT, 0).unwrap().gid;
                let grh = GlobalRoute { dgid, sgid_index: 0, flow_label: 0, hop_limit: 64, traffic_class: 0 };
                AhAttr { port: PORT, grh: Some(grh), dmac: Some(port.mac), ..AhAttr::default() }
            }
        }
    }
}

pub const CAP: QpCap = QpCap { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 2, max_recv_sge: 2, max_inline: 0 };

impl Pair {
    pub fn new(link: Link, seed: u64) -> Self {
        Self::in_world(World::new(seed), link)
    }

    pub fn in_world(world: World, link: Link) -> Self {
        let (a, b) = (Node::new(&world, link, 0), Node::new(&world, link, 1));
        a.ready(0);
        b.ready(1);
        Self { world, link, a, b }
    }

    /// Connects two QPs of RC or UC, from RESET to RTS.
    pub fn connect(&self, qa: &mut Qp5, qb: &mut Qp5) {
        to_rts(qa, self.b.address(), qb.qpn());
        to_rts(qb, self.a.address(), qa.qpn());
    }

    /// Closes everything (what the caller made must be gone), and looks for leaks and violations.
    pub fn close(self) {
        let Self { world: _, link: _, a, b } = self;
        for Node { model, function, device, pd } in [a, b] {
            pd.destroy().expect("the PD goes");
            device.destroy().expect("the device closes");
            super::assert_clean(&function);
            assert_eq!(model.report().violations, Vec::<String>::new());
        }
    }
}

pub fn init_attr(kind: QpType) -> QpAttr {
    let attr = QpAttr::to(QpState::Init).port(PORT).pkey_index(0);
    match kind {
        QpType::Ud => attr.qkey(Qkey(0x1111)),
        _ => attr.access(Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC),
    }
}

pub fn rtr_attr(kind: QpType, av: AhAttr, dest: Qpn) -> QpAttr {
    let attr = QpAttr::to(QpState::Rtr);
    match kind {
        QpType::Ud => attr,
        QpType::Uc => attr.av(av).path_mtu(Mtu::B1024).dest_qpn(dest).rq_psn(Psn::new(0x100)),
        _ => attr
            .av(av)
            .path_mtu(Mtu::B1024)
            .dest_qpn(dest)
            .rq_psn(Psn::new(0x100))
            .max_dest_rd_atomic(4)
            .min_rnr_timer(RnrTimer::at_least(Duration::from_micros(100))),
    }
}

pub fn rts_attr(kind: QpType) -> QpAttr {
    let attr = QpAttr::to(QpState::Rts).sq_psn(Psn::new(0x100));
    match kind {
        QpType::Rc => attr
            .timeout(AckTimeout::at_least(Duration::from_millis(60)))
            .retry_cnt(RetryCount::MAX)
            .rnr_retry(RetryCount::MAX)
            .max_rd_atomic(4),
        _ => attr,
    }
}

/// From RESET to RTS.
pub fn to_rts(qp: &mut Qp5, av: AhAttr, dest: Qpn) {
    let kind = qp.kind();
    qp.modify(&init_attr(kind)).expect("INIT");
    qp.modify(&rtr_attr(kind, av, dest)).expect("RTR");
    qp.modify(&rts_attr(kind)).expect("RTS");
}

/// From RESET to RTS with what a type of XRC QP takes.
fn xrc_to_rts(qp: &mut Qp5, av: AhAttr, dest: Qpn) {
    qp.modify(&init_attr(QpType::Rc)).unwrap();
    for (from, mut attr) in [(QpState::Init, rtr_attr(QpType::Rc, av, dest)), (QpState::Rtr, rts_attr(QpType::Rc))] {
        let here = |t: &&qp::Transition| (t.from, t.to) == (from, attr.state) && t.kinds.contains(&qp.kind());
        let row = qp::TRANSITIONS.iter().find(here).unwrap();
        attr.mask &= row.required | QpAttrMask::STATE;
        qp.modify(&attr).unwrap();
    }
}

/// Two RC QPs of both ends, connected.
pub fn connected(pair: &Pair, ca: &Cq5, cb: &Cq5, srq: Option<&Srq5>, cap: QpCap) -> (Qp5, Qp5) {
    let mut qa = pair.a.qp(QpType::Rc, ca, ca, None, cap);
    let mut qb = pair.b.qp(QpType::Rc, cb, cb, srq, cap);
    pair.connect(&mut qa, &mut qb);
    (qa, qb)
}

/// An XRC initiator of end A and a target of end B, connected.
pub fn xrc_connected(pair: &Pair, ca: &Cq5, xrcd: &<Device5 as Device>::Xrcd) -> (Qp5, Qp5) {
    let mut peer = pair.a.qp(QpType::XrcIni, ca, ca, None, CAP);
    let mut target = pair.b.device.create_xrc_target(xrcd, 0).expect("a target");
    let numbers = [peer.qpn(), target.qpn()];
    xrc_to_rts(&mut peer, pair.b.address(), numbers[1]);
    xrc_to_rts(&mut target, pair.a.address(), numbers[0]);
    (peer, target)
}

/// Lets everything happen that is under way.
pub fn settle(device: &Device5) {
    let until = device.now() + Duration::from_millis(5);
    while device.now() < until {
        device.relax();
    }
}

/// Waits, in the world's time, until `done` says what came out.
pub fn wait<T>(device: &Device5, what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let deadline = device.now() + Duration::from_secs(60);
    loop {
        if let Some(result) = done() {
            return result;
        }
        assert!(device.now() < deadline, "waited in vain for {what}");
        device.relax();
    }
}

/// Polls until `n` completions have come.
pub fn poll(device: &Device5, cq: &mut Cq5, n: usize) -> Vec<Completion> {
    let mut all = Vec::new();
    wait(device, &format!("{n} completions"), || {
        let mut some = [Completion::default(); 16];
        let most = some.len().min(n - all.len());
        let taken = cq.poll(&mut some[..most]).expect("a good CQ");
        all.extend_from_slice(&some[..taken]);
        (all.len() == n).then_some(())
    });
    all
}

/// Nothing comes, however long one waits.
pub fn assert_silent(device: &Device5, cq: &mut Cq5) {
    let until = device.now() + Duration::from_secs(1);
    while device.now() < until {
        let mut one = [Completion::default()];
        assert_eq!(cq.poll(&mut one).expect("a good CQ"), 0, "{one:?}");
        device.relax();
    }
}

/// Bytes that differ from place to place.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed | 1;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        })
        .collect()
}

/// The bytes of a region's range.
pub fn read(mr: &Mr5, offset: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    mr.read(offset, &mut bytes).expect("inside the region");
    bytes
}
