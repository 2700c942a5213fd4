//! The end of everything, in any order and in mid-traffic: nothing is kept, and the device writes nowhere afterwards.

mod bench;

use bareverbs::*;
use bareverbs_harness::World;
use bareverbs_mlx5::{Config, Local, Mlx5};
use bareverbs_mlx5_prm::cmd::Opcode;
use bench::{assert_clean, assert_nothing_kept, pair::*};
use std::any::Any;

const SEED: u64 = 0x7465_6172;

/// A handle of any kind.
type Handle = Box<dyn Any>;

/// Bytes of a message: many packets, so that it is on its way for a while.
const LONG: usize = 60_000;

/// QPs of a type on both ends with long messages on their way in both directions, receiving from SRQs where they can.
fn traffic(pair: &Pair, kind: QpType, all: &mut Vec<Handle>) {
    let ends = [&pair.a, &pair.b];
    let len = if kind == QpType::Ud { 1024 } else { LONG };
    let cqs = ends.map(|node| node.cq(63));
    let mrs = ends.map(|node| node.mr(2 * LONG));
    let init = SrqAttr { max_wr: 7, max_sge: 1, limit: 3 };
    let mut srqs = ends.map(|node| node.device.create_srq(&node.pd, init).unwrap());
    let shared = matches!(kind, QpType::Rc | QpType::Ud);
    let mut qps = [0, 1].map(|n| ends[n].qp(kind, &cqs[n], &cqs[n], shared.then_some(&srqs[n]), CAP));
    let [a, b] = &mut qps;
    pair.connect(a, b);
    let to = [0, 1].map(|n| {
        let ah = ends[n].device.address_handle(&ends[1 - n].address()).unwrap();
        UdDestination { ah, qpn: qps[1 - n].qpn(), qkey: Qkey(0x1111) }
    });
    for n in [0, 1] {
        let (from, into) = ([mrs[n].sge(0..len).unwrap()], [mrs[n].sge(LONG..2 * LONG).unwrap()]);
        for id in 0..4 {
            match shared {
                true => srqs[n].post([RecvWr::new(id, &into)]).unwrap(),
                false => qps[n].post_recv([RecvWr::new(id, &into)]).unwrap(),
            }
        }
        let mut wr = SendWr::new(SendOp::Send, &from).signaled();
        wr.to = (kind == QpType::Ud).then_some(Destination::Ud(&to[n]));
        qps[n].post_send([wr; 3]).unwrap();
    }
    let [a, b] = qps;
    let ([ca, cb], [ma, mb], [sa, sb]) = (cqs, mrs, srqs);
    let made: [Handle; 8] =
        [Box::new(a), Box::new(b), Box::new(ca), Box::new(cb), Box::new(ma), Box::new(mb), Box::new(sa), Box::new(sb)];
    all.extend(made);
}

/// An XRC connection with a long message on its way.
fn xrc(pair: &Pair, all: &mut Vec<Handle>) {
    let (a, b) = (&pair.a, &pair.b);
    let (ca, cb, from, to) = (a.cq(15), b.cq(15), a.mr(LONG), b.mr(LONG));
    let xrcd = b.device.open_xrcd().unwrap();
    let attr = SrqAttr { max_wr: 3, max_sge: 1, limit: 0 };
    let mut srq = b.device.create_xrc_srq(&b.pd, &XrcSrqInit { attr, context: 0, xrcd: &xrcd, cq: &cb }).unwrap();
    let mut sender = a.qp(QpType::XrcIni, &ca, &ca, None, CAP);
    let mut target = b.device.create_xrc_target(&xrcd, 0).unwrap();
    sender.modify(&init_attr(QpType::Rc)).unwrap();
    target.modify(&init_attr(QpType::Rc)).unwrap();
    let rtr = QpAttr::to(QpState::Rtr).path_mtu(Mtu::B1024).rq_psn(Psn::new(0x100));
    sender.modify(&rtr.av(b.address()).dest_qpn(target.qpn())).unwrap();
    let timer = RnrTimer::at_least(std::time::Duration::from_micros(100));
    let rtr = rtr.max_dest_rd_atomic(4).min_rnr_timer(timer);
    target.modify(&rtr.av(a.address()).dest_qpn(sender.qpn())).unwrap();
    sender.modify(&rts_attr(QpType::Rc)).unwrap();
    srq.post([RecvWr::new(1, &[to.sge(0..LONG).unwrap()]); 3]).unwrap();
    let sges = [from.sge(0..LONG).unwrap()];
    sender.post_send([SendWr::new(SendOp::Send, &sges).to_srq(srq.srqn()); 3]).unwrap();
    let made: [Handle; 8] = [
        Box::new(sender),
        Box::new(target),
        Box::new(srq),
        Box::new(xrcd),
        Box::new(ca),
        Box::new(cb),
        Box::new(from),
        Box::new(to),
    ];
    all.extend(made);
}

/// A window that is bound and written through, and a region registered by a request.
fn keys(pair: &Pair, all: &mut Vec<Handle>) {
    let cq = pair.a.cq(31);
    let memory: &'static mut [u8] = Box::leak(vec![0; 8192].into_boxed_slice());
    let mr =
        pair.a.device.register(&pair.a.pd, memory, Access::LOCAL_WRITE | Access::MW_BIND).map_err(|r| r.error).unwrap();
    let mut window = pair.a.device.alloc_window(&pair.a.pd, WindowKind::TwoB).unwrap();
    let mut fast = pair.a.device.alloc_fast_region(&pair.a.pd, 2).unwrap();
    let mut qp = pair.a.qp(QpType::Rc, &cq, &cq, None, CAP);
    let cb = pair.b.cq(31);
    let mut peer = pair.b.qp(QpType::Rc, &cb, &cb, None, CAP);
    pair.connect(&mut qp, &mut peer);
    let elements = [mr.sge(0..4096).unwrap(), mr.sge(4096..8192).unwrap()];
    let init = FastInit { elements: &elements, iova: 0, access: Access::REMOTE_READ };
    qp.push_register(&mut fast, &init, 1, SendFlags::SIGNALED).unwrap();
    qp.push_bind(&mut window, &mr.bind(0..8192, Access::REMOTE_READ).unwrap(), 2, SendFlags::SIGNALED).unwrap();
    qp.ring_send();
    let made: [Handle; 7] =
        [Box::new(window), Box::new(fast), Box::new(qp), Box::new(peer), Box::new(cq), Box::new(cb), Box::new(mr)];
    all.extend(made);
}

/// A raw packet QP that takes every frame to an address, with receives posted and a frame on its way.
fn frames(pair: &Pair, all: &mut Vec<Handle>) {
    let (cq, mr) = (pair.a.cq(31), pair.a.mr(4096));
    let mut raw = pair.a.qp(QpType::RawPacket, &cq, &cq, None, CAP);
    raw.modify(&QpAttr::to(QpState::Init).port(PORT)).unwrap();
    raw.modify(&QpAttr::to(QpState::Rtr)).unwrap();
    raw.modify(&QpAttr::to(QpState::Rts)).unwrap();
    raw.attach_flow(&FlowSpec::to(Mac([0xff; 6]))).unwrap();
    raw.post_recv([RecvWr::new(1, &[mr.sge(0..2048).unwrap()])]).unwrap();
    mr.write(2048, &[0xff; 64]).unwrap();
    raw.post_send([SendWr::new(SendOp::Send, &[mr.sge(2048..2112).unwrap()]); 4]).unwrap();
    all.extend([Box::new(raw) as Handle, Box::new(cq), Box::new(mr)]);
}

/// A number below `n`, and the next state.
fn draw(state: &mut u64, n: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % n
}

#[test]
fn case_64_all_kinds_of_objects_in_any_order_in_mid_traffic() {
    for seed in SEED..SEED + 30 {
        for link in [Link::InfiniBand, Link::Roce] {
            println!("{link:?}, seed {seed:#x}");
            let world = World::builder().seed(seed).quiet_limit(None).build();
            let pair = Pair::in_world(world, link);
            let mut all = Vec::new();
            for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
                traffic(&pair, kind, &mut all);
            }
            xrc(&pair, &mut all);
            keys(&pair, &mut all);
            if link == Link::Roce {
                frames(&pair, &mut all);
            }
            let Pair { world, link: _, a, b } = pair;
            let models = [a.model.clone(), b.model.clone()];
            let functions = [a.function.clone(), b.function.clone()];
            for node in [a, b] {
                all.extend([Box::new(node.device) as Handle, Box::new(node.pd)]);
            }
            let mut state = seed;
            while !all.is_empty() {
                let at = draw(&mut state, all.len());
                drop(all.swap_remove(at));
                if draw(&mut state, 4) == 0 {
                    world.idle();
                }
            }
            for (function, model) in functions.iter().zip(models) {
                assert_nothing_kept(function);
                assert_eq!(function.dma_faults().len(), 0, "{:?} (seed {seed:#x})", function.dma_faults());
                // A region may go while a frame is sent from it; then the device misses its key, and reads nothing.
                let others = function.violations().into_iter().filter(|what| !what.ends_with("Key(Unknown)"));
                assert_eq!(others.collect::<Vec<_>>(), Vec::<String>::new(), "seed {seed:#x}");
                assert_eq!(model.report().pages, 0, "seed {seed:#x}");
                let mut command = [0; 2];
                function.config_read(4, &mut command);
                assert_eq!(command[0] & 4, 0, "bus mastering is off at the end (seed {seed:#x})");
            }
        }
    }
}

/// Pages given minus returned is 0 after each closing, also with all kinds of traffic before it.
#[test]
fn case_55_page_ledger_with_traffic() {
    for link in [Link::InfiniBand, Link::Roce] {
        let world = World::new(SEED);
        let [a, b] = [0, 1].map(|n| Node::new(&world, link, n));
        a.ready(0);
        b.ready(1);
        let parts = [&a, &b].map(|node| (node.model.clone(), node.function.clone()));
        drop((a, b));
        for n in 0..100 {
            let [a, b] = parts.clone().map(|(model, function)| {
                let device = Mlx5::<_, Local>::open(function.clone(), Config::default()).expect("opens");
                let pd = device.alloc_pd().unwrap();
                Node { model, function, device, pd }
            });
            a.ready(0);
            b.ready(1);
            let pair = Pair { world: world.clone(), link, a, b };
            let mut all = Vec::new();
            for kind in [QpType::Rc, QpType::Ud] {
                traffic(&pair, kind, &mut all);
            }
            // Some messages arrive, some are on their way when all ends.
            (0..n * 20).for_each(|_| pair.a.device.relax());
            assert!(pair.a.model.report().pages > 0);
            drop(all);
            pair.close();
            for (model, function) in &parts {
                assert_eq!((model.report().pages, function.dma_outstanding()), (0, 0), "time {n}, {link:?}");
            }
        }
        for (model, function) in &parts {
            assert_clean(function);
            assert_eq!(model.report().executed(Opcode::INIT_HCA.0), 101);
        }
    }
}
