//! Every verb with every wrong argument: its own error, and the device is left alone (no register is touched, no
//! command is given).

#[path = "bad_input/attachments.rs"]
mod attachments;
mod bench;

use bareverbs::*;
use bareverbs_harness::{Function, World};
use bareverbs_mlx5::Config;
use bareverbs_model_mlx5::HcaConfig;
use bench::{Model, pair::*};
use std::{collections::BTreeSet, time::Duration};

const SEED: u64 = 0x0062_6164;

/// How a verb or a post was refused.
#[derive(Debug, PartialEq)]
enum Refusal {
    Verb(Error),
    Post(PostError),
}

impl From<Error> for Refusal {
    fn from(e: Error) -> Self {
        Self::Verb(e)
    }
}

impl<T> From<Refused<T>> for Refusal {
    fn from(r: Refused<T>) -> Self {
        Self::Verb(r.error)
    }
}

impl From<PostError> for Refusal {
    fn from(e: PostError) -> Self {
        Self::Post(e)
    }
}

/// Watches a device while it must not be touched, and keeps what was refused.
struct Judge<'a> {
    function: &'a Function,
    device: &'a Device5,
    seen: BTreeSet<String>,
    rows: usize,
}

impl<'a> Judge<'a> {
    fn new(function: &'a Function, device: &'a Device5) -> Self {
        Self { function, device, seen: BTreeSet::new(), rows: 0 }
    }

    fn refuses<T, E: Into<Refusal>>(
        &mut self,
        what: &str,
        verb: impl FnOnce() -> Result<T, E>,
        as_: impl Into<Refusal>,
    ) {
        let commands = self.device.commands();
        self.function.trace(true);
        let result = verb();
        let touched = self.function.take_trace();
        self.function.trace(false);
        let refusal = result.map(|_| ()).map_err(Into::into);
        let expected = as_.into();
        self.seen.insert(format!("{expected:?}"));
        self.rows += 1;
        assert_eq!(refusal, Err(expected), "{what}");
        assert!(touched.is_empty(), "{what} touched {touched:?}");
        assert_eq!(self.device.commands(), commands, "{what} gave a command");
    }
}

fn out_of_range(what: Argument, wanted: impl Into<u64>, max: impl Into<u64>) -> Error {
    Error::OutOfRange { what, wanted: wanted.into(), max: max.into() }
}

fn memory(len: usize) -> &'static mut [u8] {
    vec![0; len].leak()
}

fn device_verbs(judge: &mut Judge, pair: &Pair) {
    let device = &pair.a.device;
    let port = device.query_port(PORT).unwrap();
    for bad in [PortNum(0), PortNum(2), PortNum(255)] {
        let error = Error::NoSuchPort(bad);
        judge.refuses("query_port", || device.query_port(bad), error);
        judge.refuses("query_gid", || device.query_gid(bad, 0), error);
        judge.refuses("set_gid", || device.set_gid(bad, 0, &GidEntry::default()), error);
        judge.refuses("query_pkey", || device.query_pkey(bad, 0), error);
        judge.refuses("address_handle", || device.address_handle(&AhAttr { port: bad, ..pair.b.address() }), error);
    }
    // A table of 256 has no index too many.
    if let Ok(gid) = u8::try_from(port.gid_tbl_len) {
        let error = Error::NoSuchIndex { table: Argument::Gid, index: gid.into() };
        judge.refuses("query_gid", || device.query_gid(PORT, gid), error);
        judge.refuses("set_gid", || device.set_gid(PORT, gid, &GidEntry::default()), error);
    }
    let pkey = port.pkey_tbl_len;
    let error = Error::NoSuchIndex { table: Argument::Pkey, index: pkey.into() };
    judge.refuses("query_pkey", || device.query_pkey(PORT, pkey), error);
    match pair.link {
        Link::InfiniBand => {
            let error = Error::Unsupported("setting GIDs on InfiniBand: the subnet manager does");
            judge.refuses("set_gid", || device.set_gid(PORT, 0, &GidEntry::default()), error);
        }
        Link::Roce => {
            for vlan in [0, 4095, 65535] {
                let entry = GidEntry { vlan: Some(vlan), ..device.query_gid(PORT, 0).unwrap() };
                let error = out_of_range(Argument::Vlan, vlan, 4094u32);
                judge.refuses("set_gid", || device.set_gid(PORT, 1, &entry), error);
            }
        }
    }
}

fn addresses(judge: &mut Judge, pair: &Pair) {
    let device = &pair.a.device;
    let right = pair.b.address();
    let grh = right.grh.unwrap_or_default();
    let with = |grh| AhAttr { grh: Some(grh), ..right };
    let error = out_of_range(Argument::ServiceLevel, 16u32, 15u32);
    judge.refuses("address_handle", || device.address_handle(&AhAttr { sl: 16, ..right }), error);
    let label = GlobalRoute { flow_label: 1 << 20, ..grh };
    let error = out_of_range(Argument::FlowLabel, 1u32 << 20, 0xf_ffffu32);
    judge.refuses("address_handle", || device.address_handle(&with(label)), error);
    if let Ok(sgid_index) = u8::try_from(device.query_port(PORT).unwrap().gid_tbl_len) {
        let index = GlobalRoute { sgid_index, ..grh };
        let error = Error::NoSuchIndex { table: Argument::Gid, index: sgid_index.into() };
        judge.refuses("address_handle", || device.address_handle(&with(index)), error);
    }
    if pair.link == Link::Roce {
        let without = AhAttr { grh: None, ..right };
        judge.refuses("address_handle", || device.address_handle(&without), Error::GrhRequired);
        let unknown = AhAttr { dmac: None, ..with(GlobalRoute { dgid: Gid::from_ipv4([10, 0, 0, 9]), ..grh }) };
        judge.refuses("address_handle", || device.address_handle(&unknown), Error::MacRequired);
    }
}

fn regions(judge: &mut Judge, pair: &Pair) {
    let (device, pd) = (&pair.a.device, &pair.a.pd);
    let register = |pd, memory: &'static mut [u8], init: RegionInit| device.register(pd, memory, init);
    let none = Access::empty();
    let error = Error::Foreign(Object::Pd);
    judge.refuses("register", || register(&pair.b.pd, memory(64), none.into()), error);
    for access in [Access::REMOTE_WRITE, Access::REMOTE_ATOMIC, Access::REMOTE_WRITE | Access::REMOTE_READ] {
        judge.refuses("register", || register(pd, memory(64), access.into()), Error::AccessNeedsLocalWrite);
    }
    let max = device.attributes().max_mr_size;
    judge.refuses("register", || register(pd, memory(0), none.into()), out_of_range(Argument::RegionLength, 0u32, max));
    let bytes = memory(64);
    let at = bytes.as_ptr() as u64;
    let error = Error::Unsupported("an iova with another offset in its page than the memory");
    judge.refuses("register", || register(pd, bytes, RegionInit { access: none, iova: Some(at + 1) }), error);
    let bytes = memory(8192);
    let last = !0xfff | bytes.as_ptr() as u64 & 0xfff;
    let error = out_of_range(Argument::RegionLength, 8192u32, u64::MAX - last);
    judge.refuses("register", || register(pd, bytes, RegionInit { access: none, iova: Some(last) }), error);
    let mr = pair.a.mr(100);
    let beyond = |wanted: u32| out_of_range(Argument::RegionOffset, wanted, 100u32);
    judge.refuses("sge", || mr.sge(0..101), beyond(101));
    judge.refuses("sge", || mr.sge(101..101), beyond(101));
    judge.refuses("read", || mr.read(99, &mut [0; 2]), beyond(101));
    judge.refuses("write", || mr.write(100, &[0]), beyond(101));
    judge.refuses("write", || mr.write(usize::MAX, &[0]), out_of_range(Argument::RegionOffset, u64::MAX, 100u32));
}

fn completion_queues(judge: &mut Judge, pair: &Pair) {
    let device = &pair.a.device;
    let attr = device.attributes();
    let (max, vectors) = (attr.max_cqe, attr.num_comp_vectors);
    let create = |entries, comp_vector| device.create_cq(&CqInit { entries, comp_vector, ..CqInit::default() });
    let mut cq = pair.a.cq(7);
    for entries in [0, max + 1, u32::MAX] {
        let error = out_of_range(Argument::CqEntries, entries, max);
        judge.refuses("create_cq", || create(entries, 0), error);
        judge.refuses("resize", || cq.resize(entries), error);
    }
    for vector in [vectors, u32::MAX] {
        judge.refuses("create_cq", || create(1, vector), out_of_range(Argument::CompVector, vector, vectors - 1));
    }
    let error = out_of_range(Argument::ModerationPeriod, 4096u32, 4095u32);
    judge.refuses("moderate", || cq.moderate(1, Duration::from_micros(4096)), error);
    judge.refuses("moderate", || cq.moderate(1, Duration::from_nanos(4_095_001)), error);
    let error = out_of_range(Argument::ModerationPeriod, u64::MAX, 4095u32);
    judge.refuses("moderate", || cq.moderate(1, Duration::MAX), error);
    let qp = pair.a.qp(QpType::Rc, &cq, &cq, None, CAP);
    judge.refuses("destroy", move || cq.destroy(), Error::Busy { holders: 1 });
    drop(qp);
}

/// A CQ with completions that nobody polled.
fn shrinking(judge: &mut Judge, pair: &Pair) {
    let (mut cq, peer_cq) = (pair.a.cq(15), pair.b.cq(15));
    let mut qp = pair.a.qp(QpType::Rc, &cq, &cq, None, CAP);
    let mut peer = pair.b.qp(QpType::Rc, &peer_cq, &peer_cq, None, CAP);
    pair.connect(&mut qp, &mut peer);
    let (from, to) = (pair.a.mr(64), pair.b.mr(64));
    let (sges, write) = ([from.sge(0..64).unwrap()], SendOp::Write { addr: to.iova(), rkey: to.rkey() });
    qp.post_send((0..5).map(|id| SendWr::new(write, &sges).wr_id(id).signaled())).unwrap();
    let until = pair.a.device.now() + Duration::from_millis(10);
    while pair.a.device.now() < until {
        pair.a.device.relax();
    }
    judge.refuses("resize", || cq.resize(1), Error::BelowUnpolled { unpolled: 5 });
    judge.refuses("resize", || cq.resize(3), Error::BelowUnpolled { unpolled: 5 });
    assert_eq!(poll(&pair.a.device, &mut cq, 5).len(), 5);
}

fn shared_receive_queues(judge: &mut Judge, pair: &Pair) {
    let (device, pd) = (&pair.a.device, &pair.a.pd);
    let attr = device.attributes();
    let init = |max_wr, max_sge| SrqAttr { max_wr, max_sge, limit: 0 };
    let error = Error::Foreign(Object::Pd);
    judge.refuses("create_srq", || device.create_srq(&pair.b.pd, &init(4, 1)), error);
    for max_wr in [0, attr.max_srq_wr + 1, u32::MAX] {
        let error = out_of_range(Argument::SrqEntries, max_wr, attr.max_srq_wr);
        judge.refuses("create_srq", || device.create_srq(pd, &init(max_wr, 1)), error);
    }
    for max_sge in [0, attr.max_srq_sge + 1, u32::MAX] {
        let error = out_of_range(Argument::SrqSge, max_sge, attr.max_srq_sge);
        judge.refuses("create_srq", || device.create_srq(pd, &init(4, max_sge)), error);
    }
    let mut srq = device.create_srq(pd, &init(3, 1)).unwrap();
    let size = srq.query().unwrap();
    let error = out_of_range(Argument::SrqLimit, size.max_wr + 1, size.max_wr);
    judge.refuses("set_limit", || srq.set_limit(size.max_wr + 1), error);
    judge.refuses("resize", || srq.resize(100), Error::Unsupported("resizing an SRQ"));
    let mr = pair.a.mr(64);
    let many = vec![mr.sge(0..8).unwrap(); size.max_sge as usize + 1];
    judge.refuses("push", || srq.push(&RecvWr::new(0, &many)), PostError::TooManySge { max: size.max_sge });
    srq.post((0..u64::from(size.max_wr)).map(|id| RecvWr::new(id, &many[..1]))).unwrap();
    judge.refuses("push", || srq.push(&RecvWr::new(0, &many[..1])), PostError::QueueFull);
    let cq = pair.a.cq(7);
    let qp = pair.a.qp(QpType::Rc, &cq, &cq, Some(&srq), CAP);
    judge.refuses("destroy", move || srq.destroy(), Error::Busy { holders: 1 });
    drop(qp);
}

fn extended_connections(judge: &mut Judge, pair: &Pair) {
    let (a, b) = (&pair.a, &pair.b);
    let (xrcd, foreign) = (a.device.open_xrcd().unwrap(), b.device.open_xrcd().unwrap());
    let (cq, foreign_cq) = (a.cq(7), b.cq(7));
    let mut attempt = |pd, xrcd, cq, attr, error: Error| {
        let init = XrcSrqInit { attr, xrcd, cq };
        judge.refuses("create_xrc_srq", || a.device.create_xrc_srq(pd, &init), error);
    };
    let right = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
    attempt(&b.pd, &xrcd, &cq, right, Error::Foreign(Object::Pd));
    attempt(&a.pd, &foreign, &cq, right, Error::Foreign(Object::Xrcd));
    attempt(&a.pd, &xrcd, &foreign_cq, right, Error::Foreign(Object::Cq));
    let max = a.device.attributes().max_srq_wr;
    let error = out_of_range(Argument::SrqEntries, max + 1, max);
    attempt(&a.pd, &xrcd, &cq, SrqAttr { max_wr: max + 1, ..right }, error);
    let error = Error::Foreign(Object::Xrcd);
    judge.refuses("create_xrc_target", || a.device.create_xrc_target(&foreign, 0), error);
    let srq = a.device.create_xrc_srq(&a.pd, &XrcSrqInit { attr: right, xrcd: &xrcd, cq: &cq }).unwrap();
    let error = Error::Busy { holders: 1 };
    judge.refuses("destroy", || xrcd.destroy(), error);
    judge.refuses("destroy", || cq.destroy(), error);
    drop(srq);
}

fn windows(judge: &mut Judge, pair: &Pair) {
    let (a, b) = (&pair.a, &pair.b);
    let (cq, flags) = (a.cq(7), SendFlags::empty());
    let foreign = Error::Foreign(Object::Pd);
    judge.refuses("alloc_window", || a.device.alloc_window(&b.pd, WindowKind::One), foreign);
    judge.refuses("alloc_fast_region", || a.device.alloc_fast_region(&b.pd, 1), foreign);
    let max = a.device.attributes().max_fast_reg_elements;
    for elements in [0, max + 1, u32::MAX] {
        let error = out_of_range(Argument::FastElements, elements, max);
        judge.refuses("alloc_fast_region", || a.device.alloc_fast_region(&a.pd, elements), error);
    }
    let register = |access| a.device.register(&a.pd, memory(100), access).map_err(|r| r.error).unwrap();
    let (plain, bindable) = (register(Access::LOCAL_WRITE), register(Access::MW_BIND));
    let write = Access::REMOTE_WRITE;
    judge.refuses("bind", || plain.bind(0..8, write), Error::RegionLacks(Access::MW_BIND));
    judge.refuses("bind", || bindable.bind(0..8, write), Error::RegionLacks(Access::LOCAL_WRITE));
    let error = Error::Unsupported("local rights of a window");
    judge.refuses("bind", || bindable.bind(0..8, Access::LOCAL_WRITE), error);
    judge.refuses("bind", || bindable.bind(0..101, write), out_of_range(Argument::RegionOffset, 101u32, 100u32));
    let mut window = a.device.alloc_window(&a.pd, WindowKind::One).unwrap();
    let mut region = a.device.alloc_fast_region(&a.pd, 4).unwrap();
    let error = Error::Unsupported("choosing the key of a window of type 1");
    judge.refuses("set_variant", || window.set_variant(1), error);
    let open = bindable.bind(0..8, Access::REMOTE_READ).unwrap();
    let one = [plain.sge(0..8).unwrap()];
    let init = |elements, iova| FastInit { elements, iova, access: Access::empty() };
    // A queue of one block, and one that nobody may post to yet.
    let cap = QpCap { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let mut small = a.qp(QpType::Rc, &cq, &cq, None, cap);
    let error = PostError::QueueTooSmall { needs: 3 };
    judge.refuses("push_bind", || small.push_bind(&mut window, &open, 0, flags), error);
    judge.refuses("push_register", || small.push_register(&mut region, &init(&one, 0), 0, flags), error);
    let mut reset = a.qp(QpType::Rc, &cq, &cq, None, CAP);
    let error = PostError::WrongState(QpState::Reset);
    judge.refuses("push_bind", || reset.push_bind(&mut window, &open, 0, flags), error);
    judge.refuses("push_register", || reset.push_register(&mut region, &init(&one, 0), 0, flags), error);
    let invalidate = SendWr::new(SendOp::LocalInvalidate(Rkey(0)), &[]);
    judge.refuses("push_send", || reset.push_send(&invalidate), error);
    let mut ud = a.qp(QpType::Ud, &cq, &cq, None, CAP);
    let error = PostError::UnsupportedOp;
    judge.refuses("push_bind", || ud.push_bind(&mut window, &open, 0, flags), error);
    judge.refuses("push_register", || ud.push_register(&mut region, &init(&one, 0), 0, flags), error);
    judge.refuses("push_send", || ud.push_send(&invalidate), error);
    let mut foreign = b.device.alloc_window(&b.pd, WindowKind::TwoB).unwrap();
    let error = PostError::Foreign(Object::Window);
    judge.refuses("push_bind", || reset.push_bind(&mut foreign, &open, 0, flags), error);
    let mut foreign = b.device.alloc_fast_region(&b.pd, 1).unwrap();
    let error = PostError::Foreign(Object::FastRegion);
    judge.refuses("push_register", || reset.push_register(&mut foreign, &init(&one, 0), 0, flags), error);
    let many = vec![one[0]; 5];
    let error = PostError::TooManySge { max: 4 };
    judge.refuses("push_register", || reset.push_register(&mut region, &init(&many, 0), 0, flags), error);
    let error = PostError::NoSuchRange;
    judge.refuses("push_register", || reset.push_register(&mut region, &init(&[], 0), 0, flags), error);
    judge.refuses("push_register", || reset.push_register(&mut region, &init(&one, u64::MAX), 0, flags), error);
    for (access, error) in [(write, PostError::AccessNeedsLocalWrite), (Access::MW_BIND, PostError::UnsupportedAccess)]
    {
        let init = FastInit { elements: &one, iova: 0, access };
        judge.refuses("push_register", || reset.push_register(&mut region, &init, 0, flags), error);
    }
}

fn queue_pairs(judge: &mut Judge, pair: &Pair) {
    let (a, b) = (&pair.a, &pair.b);
    let attr = a.device.attributes();
    let cqs = [a.cq(7), b.cq(7)];
    let srq_init = SrqAttr { max_wr: 3, max_sge: 1, limit: 0 };
    let srqs = [a.device.create_srq(&a.pd, &srq_init).unwrap(), b.device.create_srq(&b.pd, &srq_init).unwrap()];
    let right = QpInit {
        kind: QpType::Rc,
        send_cq: &cqs[0],
        recv_cq: &cqs[0],
        srq: None,
        cap: CAP,
        signal_all: false,
        context: 0,
    };
    let row = |judge: &mut Judge, pd: &_, init: QpInit<'_, Device5>, error: Error| {
        judge.refuses("create_qp", || a.device.create_qp(pd, &init), error);
    };
    row(judge, &b.pd, right, Error::Foreign(Object::Pd));
    row(judge, &a.pd, QpInit { send_cq: &cqs[1], ..right }, Error::Foreign(Object::Cq));
    row(judge, &a.pd, QpInit { recv_cq: &cqs[1], ..right }, Error::Foreign(Object::Cq));
    row(judge, &a.pd, QpInit { srq: Some(&srqs[1]), ..right }, Error::Foreign(Object::Srq));
    let uc = QpInit { kind: QpType::Uc, srq: Some(&srqs[0]), ..right };
    row(judge, &a.pd, uc, Error::Unsupported("an SRQ on this type of QP"));
    row(judge, &a.pd, QpInit { kind: QpType::XrcTgt, ..right }, Error::Unsupported("this type of QP"));
    // The device has 32,768 WQEs a queue and 1,024 bytes a WQE: 63 segments, of which RC needs two; 32 for a receive.
    let most = attr.max_qp_wr;
    assert_eq!(most, 32768);
    for (cap, what, wanted, max) in [
        (QpCap { max_send_wr: most + 1, ..CAP }, Argument::MaxSendWr, most + 1, most),
        (QpCap { max_recv_wr: most + 1, ..CAP }, Argument::MaxRecvWr, most + 1, most),
        (QpCap { max_send_sge: 62, ..CAP }, Argument::MaxSendSge, 62, 61),
        (QpCap { max_recv_sge: 33, ..CAP }, Argument::MaxRecvSge, 33, 32),
        (QpCap { max_inline: 973, ..CAP }, Argument::MaxInline, 973, 972),
    ] {
        row(judge, &a.pd, QpInit { cap, ..right }, out_of_range(what, wanted, max));
    }
}

fn transitions(judge: &mut Judge, pair: &Pair) {
    use QpAttrMask as M;
    use QpState::{Err as Error_, Init, Reset, Rtr, Rts, Sqd};
    let attr = pair.a.device.attributes();
    let cq = pair.a.cq(7);
    let kind = QpType::Rc;
    let mut qp = pair.a.qp(kind, &cq, &cq, None, CAP);
    let init = init_attr(kind);
    let rtr = rtr_attr(kind, pair.b.address(), Qpn::new(0x123));
    let rts = rts_attr(kind);
    let no = |from, to| Error::NoSuchTransition { kind, from, to };
    let without = |attr: &QpAttr, bit| QpAttr { mask: attr.mask.difference(bit), ..*attr };
    let with = |attr: &QpAttr, bit| QpAttr { mask: attr.mask.union(bit), ..*attr };
    let all = M::all().difference(M::STATE | M::ALT_PATH | M::PATH_MIG_STATE | M::CUR_STATE);
    let mut step = |judge: &mut Judge, from, attr: &QpAttr, optional: M| {
        let to = attr.state;
        for bit in all {
            if attr.mask.contains(bit) {
                let error = Error::MissingAttribute { missing: bit, from, to };
                judge.refuses("modify", || qp.modify(&without(attr, bit)), error);
            } else if !optional.contains(bit) {
                let error = Error::ForbiddenAttribute { forbidden: bit, from, to };
                judge.refuses("modify", || qp.modify(&with(attr, bit)), error);
            }
        }
        for other in [Rtr, Rts, Sqd].into_iter().filter(|other| *other != to) {
            judge.refuses("modify", || qp.modify(&QpAttr::to(other)), no(from, other));
        }
        match to {
            Init => {
                for port in [0, 2, 255].map(PortNum) {
                    judge.refuses("modify", || qp.modify(&attr.port(port)), Error::NoSuchPort(port));
                }
                let pkeys = pair.a.device.query_port(PORT).unwrap().pkey_tbl_len;
                for index in [pkeys, u16::MAX] {
                    let error = Error::NoSuchIndex { table: Argument::Pkey, index: index.into() };
                    judge.refuses("modify", || qp.modify(&attr.pkey_index(index)), error);
                }
            }
            Rtr => {
                let why = "more than the device answers at once";
                let error = Error::BadAttribute { attribute: M::MAX_DEST_RD_ATOMIC, why };
                let many = attr.max_dest_rd_atomic(pair.a.device.attributes().max_qp_rd_atom + 1);
                judge.refuses("modify", || qp.modify(&many), error);
                let alternate = with(attr, M::ALT_PATH);
                judge.refuses("modify", || qp.modify(&alternate), Error::Unsupported("alternate paths"));
                let av = AhAttr { sl: 16, ..attr.av };
                let error = out_of_range(Argument::ServiceLevel, 16u32, 15u32);
                judge.refuses("modify", || qp.modify(&attr.av(av)), error);
                if pair.link == Link::Roce {
                    let av = AhAttr { grh: None, ..attr.av };
                    judge.refuses("modify", || qp.modify(&attr.av(av)), Error::GrhRequired);
                    let av = AhAttr { dmac: None, ..attr.av };
                    judge.refuses("modify", || qp.modify(&attr.av(av)), Error::MacRequired);
                    let error = Error::BadAttribute { attribute: M::PATH_MTU, why: "larger than the port's" };
                    judge.refuses("modify", || qp.modify(&attr.path_mtu(Mtu::B2048)), error);
                }
            }
            _ => {
                let error =
                    Error::BadAttribute { attribute: M::MAX_QP_RD_ATOMIC, why: "more than the device sends at once" };
                judge.refuses("modify", || qp.modify(&attr.max_rd_atomic(200)), error);
                let error = Error::BadAttribute { attribute: M::CUR_STATE, why: "not the state it is in" };
                judge.refuses("modify", || qp.modify(&attr.cur_state(Init)), error);
            }
        }
        assert_eq!(qp.state(), from);
        qp.modify(attr).unwrap();
    };
    assert!(attr.max_qp_init_rd_atom < 200);
    step(judge, Reset, &init, M::empty());
    step(judge, Init, &rtr, M::ACCESS_FLAGS | M::PKEY_INDEX);
    step(judge, Rtr, &rts, M::ACCESS_FLAGS | M::MIN_RNR_TIMER);
    let error = Error::Unsupported("draining the send queue by modify");
    judge.refuses("modify", || qp.modify(&QpAttr::to(Sqd)), error);
    qp.modify(&QpAttr::to(Error_)).unwrap();
    for to in [Init, Rtr, Rts, Sqd] {
        judge.refuses("modify", || qp.modify(&QpAttr::to(to)), no(Error_, to));
    }
}

fn posts(judge: &mut Judge, pair: &Pair) {
    let (a, b) = (&pair.a, &pair.b);
    let (cq, peer_cq) = (a.cq(31), b.cq(31));
    let cap = QpCap { max_inline: 32, max_send_wr: 4, max_recv_wr: 4, ..CAP };
    let mut rc = a.qp(QpType::Rc, &cq, &cq, None, cap);
    let mut peer = b.qp(QpType::Rc, &peer_cq, &peer_cq, None, cap);
    let mut ud = a.qp(QpType::Ud, &cq, &cq, None, cap);
    let mut uc = a.qp(QpType::Uc, &cq, &cq, None, cap);
    let (mr, there) = (a.mr(8192), b.mr(64));
    let one = [mr.sge(0..8).unwrap()];
    let (addr, rkey) = (there.iova(), there.rkey());
    let write = SendOp::Write { addr, rkey };
    let send = SendWr::new(SendOp::Send, &one);
    let recv = RecvWr::new(0, &one);
    // Not yet.
    judge.refuses("push_recv", || rc.push_recv(&recv), PostError::WrongState(QpState::Reset));
    for attr in [init_attr(QpType::Rc), rtr_attr(QpType::Rc, b.address(), peer.qpn())] {
        let now = rc.state();
        judge.refuses("push_send", || rc.push_send(&send), PostError::WrongState(now));
        rc.modify(&attr).unwrap();
    }
    rc.modify(&QpAttr::to(QpState::Reset)).unwrap();
    pair.connect(&mut rc, &mut peer);
    for kind in [QpType::Ud, QpType::Uc] {
        let qp = if kind == QpType::Ud { &mut ud } else { &mut uc };
        to_rts(qp, b.address(), peer.qpn());
    }
    let cap = rc.cap();
    let many = vec![one[0]; cap.max_send_sge.max(cap.max_recv_sge) as usize + 1];
    let long = vec![0; cap.max_inline as usize + 1];
    let parts = [&long[..5], &long[5..]];
    let gather = SendWr { payload: Payload::InlineGather(&parts), ..SendWr::new(write, &[]) };
    // Shape.
    let error = PostError::TooManySge { max: cap.max_send_sge };
    judge.refuses("push_send", || rc.push_send(&SendWr::new(write, &many)), error);
    judge.refuses(
        "push_recv",
        || rc.push_recv(&RecvWr::new(0, &many)),
        PostError::TooManySge { max: cap.max_recv_sge },
    );
    let error = PostError::InlineTooLong { max: cap.max_inline };
    judge.refuses("push_send", || rc.push_send(&SendWr::inline(write, &long)), error);
    judge.refuses("push_send", || rc.push_send(&gather), error);
    let read = SendOp::Read { addr, rkey };
    let add = |addr| SendOp::FetchAdd { addr, rkey, add: 1 };
    let swap = SendOp::CompareSwap { addr: addr + 4, rkey, compare: 0, swap: 0 };
    for op in [read, add(addr), SendOp::CompareSwap { addr, rkey, compare: 0, swap: 0 }] {
        judge.refuses("push_send", || rc.push_send(&SendWr::inline(op, &long[..8])), PostError::InlineRead);
    }
    let seven = [mr.sge(0..7).unwrap()];
    for (op, sges) in
        [(add(addr), &seven[..]), (add(addr), &[]), (add(addr), &many[..2]), (add(addr + 1), &one), (swap, &one)]
    {
        judge.refuses("push_send", || rc.push_send(&SendWr::new(op, sges)), PostError::AtomicShape);
    }
    // SAFETY: the element is refused; nobody reads it.
    let huge = [unsafe { Sge::from_raw(mr.iova(), 1 << 31, mr.lkey()) }];
    let error = PostError::MessageTooLong { max: (1 << 31) - 1 };
    judge.refuses("push_recv", || rc.push_recv(&RecvWr::new(0, &huge)), error);
    // Operation and destination.
    let ah = a.device.address_handle(&b.address()).unwrap();
    let to = UdDestination { ah, qpn: peer.qpn(), qkey: Qkey(0x1111) };
    let foreign = UdDestination { ah: b.device.address_handle(&a.address()).unwrap(), ..to };
    for op in [write, read, add(addr), SendOp::WriteImm { addr, rkey, imm: 0 }, SendOp::SendInvalidate(rkey)] {
        judge.refuses("push_send", || ud.push_send(&SendWr::new(op, &one).to(&to)), PostError::UnsupportedOp);
    }
    for op in [read, add(addr)] {
        judge.refuses("push_send", || uc.push_send(&SendWr::new(op, &one)), PostError::UnsupportedOp);
    }
    judge.refuses("push_send", || ud.push_send(&send), PostError::Destination);
    judge.refuses("push_send", || rc.push_send(&send.to(&to)), PostError::Destination);
    judge.refuses("push_send", || ud.push_send(&send.to(&foreign)), PostError::ForeignAddress);
    let mtu = match pair.link {
        Link::InfiniBand => 4096,
        Link::Roce => 1024,
    };
    let datagram = [mr.sge(0..mtu + 1).unwrap()];
    let error = PostError::MessageTooLong { max: mtu as u32 };
    judge.refuses("push_send", || ud.push_send(&SendWr::new(SendOp::Send, &datagram).to(&to)), error);
    // Full: pushed and not rung.
    for _ in 0..cap.max_send_wr {
        rc.push_send(&SendWr::new(write, &one)).unwrap();
    }
    judge.refuses("push_send", || rc.push_send(&SendWr::new(write, &one)), PostError::QueueFull);
    for _ in 0..cap.max_recv_wr {
        rc.push_recv(&recv).unwrap();
    }
    judge.refuses("push_recv", || rc.push_recv(&recv), PostError::QueueFull);
    let srq = a.device.create_srq(&a.pd, &SrqAttr { max_wr: 3, max_sge: 1, limit: 0 }).unwrap();
    let mut shared = a.qp(QpType::Rc, &cq, &cq, Some(&srq), cap);
    judge.refuses("push_recv", || shared.push_recv(&recv), PostError::UsesSrq);
}

/// One object more than was fixed at open.
fn limits(judge: &mut Judge, device: &Device5) {
    let pd = device.alloc_pd().unwrap();
    let cq = device.create_cq(&CqInit { entries: 1, ..CqInit::default() }).unwrap();
    let srq_init = SrqAttr { max_wr: 1, max_sge: 1, limit: 0 };
    let srq = device.create_srq(&pd, &srq_init).unwrap();
    let init =
        QpInit { kind: QpType::Ud, send_cq: &cq, recv_cq: &cq, srq: None, cap: CAP, signal_all: false, context: 0 };
    let qp = device.create_qp(&pd, &init).unwrap();
    let mr = device.register(&pd, memory(64), Access::empty()).map_err(|r| r.error).unwrap();
    let one = |what| out_of_range(what, 2u32, 1u32);
    let xrcd = device.open_xrcd().unwrap();
    judge.refuses("alloc_pd", || device.alloc_pd(), one(Argument::Pds));
    judge.refuses("open_xrcd", || device.open_xrcd(), one(Argument::Xrcds));
    judge.refuses(
        "create_xrc_srq",
        || device.create_xrc_srq(&pd, &XrcSrqInit { attr: srq_init, xrcd: &xrcd, cq: &cq }),
        one(Argument::Srqs),
    );
    judge.refuses("create_xrc_target", || device.create_xrc_target(&xrcd, 0), one(Argument::Qps));
    judge.refuses("create_cq", || device.create_cq(&CqInit { entries: 1, ..CqInit::default() }), one(Argument::Cqs));
    judge.refuses("create_srq", || device.create_srq(&pd, &srq_init), one(Argument::Srqs));
    judge.refuses("create_qp", || device.create_qp(&pd, &init), one(Argument::Qps));
    judge.refuses("register", || device.register(&pd, memory(64), Access::empty()), one(Argument::Regions));
    let fast = || device.alloc_fast_region(&pd, 1);
    judge.refuses("alloc_fast_region", fast, one(Argument::Regions));
    let window = device.alloc_window(&pd, WindowKind::TwoB).unwrap();
    judge.refuses("alloc_window", || device.alloc_window(&pd, WindowKind::One), one(Argument::Windows));
    judge.refuses("destroy", || device.clone().destroy(), Error::Busy { holders: 7 });
    drop(window);
    drop((mr, qp, srq, cq));
}

/// The names of an enum's variants, as its source has them.
fn variants(name: &str) -> Vec<&'static str> {
    let source = include_str!("../../../core/src/error.rs");
    let (_, body) = source.split_once(&format!("pub enum {name} {{\n")).expect("the enum");
    let (body, _) = body.split_once("\n}").expect("its end");
    let names = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = names.filter(|line| line.starts_with(char::is_uppercase));
    names.map(|line| line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()).collect()
}

/// What no argument brings about, and where else it is tested.
const NOT_BY_ARGUMENTS: &[(&str, &str)] = &[
    ("Error::CqError", "the CQ was overrun before: case_05_overrun"),
    ("Error::Platform", "the platform refuses: a_refused_region_leaves_nothing"),
    ("Error::Command", "the device refuses: memory_that_the_device_keeps_stays_mapped"),
    ("Error::CommandDelivery", "the device's answer: case_53_mailbox_chain"),
    ("Error::CommandTimeout", "the device's answer: a_command_without_answer_ends_the_device"),
    ("Error::BadAnswer", "the device's answer: broken_signatures_are_seen_where_they_were_asked_for"),
    ("Error::NotReady", "firmware at open: case_55_page_ledger"),
    ("Error::Fatal", "the device's end: case_56_firmware_death"),
    ("Error::MulticastFull", "what others hold: multicast_group_is_full in the conformance suite"),
    ("Error::FlowsFull", "what others hold: raw_rules_are_counted in the conformance suite"),
    ("PostError::HeaderRequired", "a device that wants headers: tests/frames.rs"),
    ("PostError::SrqError", "the SRQ failed: every_event_of_the_manual_page"),
    ("PostError::CqError", "the CQ was overrun before: case_05_overrun"),
    ("PostError::DeviceFatal", "the device's end: case_56_every_poll_and_post_names_the_end"),
    ("Argument::ModerationCount", "16 bits in the call and in the device"),
    ("Object::Device", "a device is never an argument"),
    ("Object::Qp", "a QP is never an argument"),
    ("Object::Mr", "a region is never an argument: elements carry keys, which the device checks"),
    ("Object::AddressHandle", "has an error of its own when it is posted: ForeignAddress"),
];

#[test]
fn every_verb_with_every_wrong_argument() {
    let mut seen = BTreeSet::new();
    let mut rows = 0;
    for link in [Link::InfiniBand, Link::Roce] {
        let pair = Pair::new(link, SEED);
        let mut judge = Judge::new(&pair.a.function, &pair.a.device);
        device_verbs(&mut judge, &pair);
        addresses(&mut judge, &pair);
        regions(&mut judge, &pair);
        completion_queues(&mut judge, &pair);
        shrinking(&mut judge, &pair);
        shared_receive_queues(&mut judge, &pair);
        extended_connections(&mut judge, &pair);
        windows(&mut judge, &pair);
        queue_pairs(&mut judge, &pair);
        transitions(&mut judge, &pair);
        posts(&mut judge, &pair);
        attachments::run(&mut judge, &pair);
        rows += judge.rows;
        seen.extend(judge.seen);
        pair.close();
    }
    let function = Model::new(HcaConfig::infiniband(0)).plug(&World::new(SEED));
    let one = Config {
        max_qps: 1,
        max_cqs: 1,
        max_srqs: 1,
        max_pds: 1,
        max_xrcds: 1,
        max_regions: 1,
        max_windows: 1,
        ..Config::default()
    };
    let device = Device5::open(function.clone(), one).expect("opens");
    let mut judge = Judge::new(&function, &device);
    limits(&mut judge, &device);
    rows += judge.rows;
    seen.extend(judge.seen);
    println!("{rows} wrong calls, {} different refusals (seed {SEED:#x})", seen.len());

    let all = seen.into_iter().collect::<Vec<_>>().join("\n");
    for name in ["Error", "PostError", "Argument", "Object"] {
        for variant in variants(name) {
            let word = format!("{name}::{variant}");
            let reason = NOT_BY_ARGUMENTS.iter().find(|(what, _)| *what == word).map(|(_, why)| *why);
            let found = all.lines().any(|line| line.split(|c: char| !c.is_alphanumeric()).any(|w| w == variant));
            match reason {
                None => assert!(found, "no wrong argument brought about {word}"),
                Some(why) => assert!(!found, "{word} is listed as out of reach ({why}), but came"),
            }
        }
    }
}
