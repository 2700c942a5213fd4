//! Completion queues and shared receive queues at their limits: sizes, numbers of objects, arming, service, a resize that
//! goes wrong. Manual pages ibv_create_cq, ibv_resize_cq, ibv_modify_cq, ibv_req_notify_cq, ibv_create_srq.

mod bench;

use bareverbs::*;
use bareverbs_harness::{AccessKind, World};
use bareverbs_mlx5::Config;
use bareverbs_mlx5_prm::context::cqc;
use bareverbs_model_mlx5::{HcaConfig, ring::PageList};
use bench::{Model, assert_nothing_kept, pair::*};
use std::{collections::BTreeSet, time::Duration};

const SEED: u64 = 0x7175_6575;

/// As many elements as the SRQ tells fit a request, and no more.
#[test]
fn a_shared_receive_holds_as_many_elements_as_told() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let most = pair.b.device.attributes().max_srq_sge;
    let (mut ca, mut cb) = (pair.a.cq(15), pair.b.cq(15));
    let (from, to) = (pair.a.mr(4096), pair.b.mr(4096));
    for wanted in [1, 2, 3, 4, 7, 8, most] {
        let attr = SrqAttr { max_wr: 3, max_sge: wanted, limit: 0 };
        let mut srq = pair.b.device.create_srq(&pair.b.pd, attr).unwrap();
        let told = srq.query().unwrap().max_sge;
        assert!(told >= wanted && told <= most, "{told} for {wanted}");
        let mut qa = pair.a.qp(QpType::Rc, &ca, &ca, None, CAP);
        let mut qb = pair.b.qp(QpType::Rc, &cb, &cb, Some(&srq), CAP);
        pair.connect(&mut qa, &mut qb);
        // Eight bytes each, sixteen apart.
        let sges: Vec<Sge> = (0..=told as usize).map(|n| to.sge(16 * n..16 * n + 8).unwrap()).collect();
        let many = srq.push(&RecvWr::new(9, &sges));
        assert_eq!(many, Err(PostError::TooManySge { max: told }));
        let sent: Vec<u8> = (0..8 * told).map(|n| (n + wanted) as u8).collect();
        from.write(0, &sent).unwrap();
        let receive = |id| RecvWr::new(id, &sges[..told as usize]);
        // Pushed and rung for, or posted.
        srq.push(&receive(0)).unwrap();
        srq.push(&receive(1)).unwrap();
        srq.ring();
        let word = pair.b.model.with(|hca| hca.srqs[&srq.srqn().get()].dbr);
        pair.b.model.watch(Some(word));
        wait(&pair.b.device, "the doorbell record", || {
            pair.b.device.service().unwrap();
            (pair.b.model.watched()[..4] == [0, 0, 0, 2]).then_some(())
        });
        pair.b.model.watch(None);
        srq.post([receive(2)]).unwrap();
        for id in 0..3 {
            let whole = [from.sge(0..sent.len()).unwrap()];
            qa.post_send([SendWr::new(SendOp::Send, &whole).signaled()]).unwrap();
            assert_eq!(poll(&pair.a.device, &mut ca, 1)[0].status, WcStatus::Success);
            let done = poll(&pair.b.device, &mut cb, 1)[0];
            assert_eq!((done.wr_id, done.byte_len), (id, 8 * told));
            for (n, bytes) in sent.chunks(8).enumerate() {
                let mut got = [0; 16];
                to.read(16 * n, &mut got).unwrap();
                assert_eq!((&got[..8], &got[8..]), (bytes, &[0; 8][..]), "element {n} of {told}");
            }
        }
        to.write(0, &[0; 4096]).unwrap();
        drop((qa, qb, srq));
    }
    drop((ca, cb, from, to));
    pair.close();
}

/// Queues lie in one piece: it is told to the device in the largest pages that its address and its length allow.
#[test]
fn pages_are_as_large_as_can_be() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (a, device) = (&pair.a, &pair.a.device);
    let xrcd = device.open_xrcd().unwrap();
    let check = |what: &str, memory: &PageList, len: u64| {
        let whole = len.next_multiple_of(4096);
        let log = memory.pages()[0].trailing_zeros().min(whole.trailing_zeros());
        assert_eq!(memory.page_size(), 1 << log, "{what} of {len} bytes at {:#x}", memory.pages()[0]);
    };
    for entries in [7, 255, 1000] {
        let cq = a.cq(entries);
        let attr = SrqAttr { max_wr: entries, max_sge: 3, limit: 0 };
        let srq = device.create_srq(&a.pd, attr).unwrap();
        let xrc = device.create_xrc_srq(&a.pd, &XrcSrqInit { attr, context: 0, xrcd: &xrcd, cq: &cq }).unwrap();
        let cap = QpCap { max_send_wr: entries, max_recv_wr: entries, ..CAP };
        let qp = a.qp(QpType::Rc, &cq, &cq, None, cap);
        a.model.with(|hca| {
            let ring = &hca.cqs[&cq.cqn().get()].memory;
            check("a CQ", ring, ring.len());
            for srqn in [srq.srqn(), xrc.srqn()] {
                let ring = &hca.srqs[&srqn.get()].memory;
                check("an SRQ", ring, ring.len());
            }
            let qp = &hca.qps[&qp.qpn().get()];
            check("a QP", &qp.rq.memory, qp.rq.memory.len() + qp.sq.memory.len());
        });
        drop((qp, xrc, srq, cq));
    }
    drop(xrcd);
    pair.close();
}

/// The largest sizes that the device tells can be had.
#[test]
fn the_largest_sizes_are_made() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let attr = pair.a.device.attributes();
    let cq = pair.a.cq(attr.max_cqe);
    assert_eq!(cq.capacity(), attr.max_cqe);
    let init = SrqAttr { max_wr: attr.max_srq_wr, max_sge: attr.max_srq_sge, limit: 0 };
    let mut srq = pair.a.device.create_srq(&pair.a.pd, init).unwrap();
    let told = srq.query().unwrap();
    assert_eq!((told.max_wr, told.max_sge), (attr.max_srq_wr, attr.max_srq_sge));
    srq.set_limit(told.max_wr).unwrap();
    assert!(srq.set_limit(told.max_wr + 1).is_err());
    drop((cq, srq));
    pair.close();
}

/// What goes is counted down, also what did not come about: as many as before can be made again.
#[test]
fn as_many_as_before_can_be_made_again() {
    let world = World::new(SEED);
    let function = Model::new(HcaConfig::infiniband(0)).plug(&world);
    let config = Config { max_qps: 2, max_cqs: 2, max_srqs: 2, ..Config::default() };
    let device = Device5::open(function.clone(), config).expect("opens");
    let (pd, xrcd) = (device.alloc_pd().unwrap(), device.open_xrcd().unwrap());
    let new_cq = || device.create_cq(&CqInit { entries: 7, ..CqInit::default() });
    let new_srq = || device.create_srq(&pd, SrqAttr { max_wr: 3, max_sge: 1, limit: 0 });
    let too_many = |what| Some(Error::OutOfRange { what, wanted: 3, max: 2 });
    for round in 0..4 {
        let (cq, other) = (new_cq().unwrap(), new_cq().unwrap());
        assert_eq!(new_cq().err(), too_many(Argument::Cqs), "round {round}");
        let srqs = (new_srq().unwrap(), new_srq().unwrap());
        assert_eq!(new_srq().err(), too_many(Argument::Srqs), "round {round}");
        let kind = QpType::Rc;
        let init = QpInit { kind, send_cq: &cq, recv_cq: &other, srq: None, cap: CAP, signal_all: false, context: 0 };
        let new_qp = || device.create_qp(&pd, &init);
        let qps = (new_qp().unwrap(), new_qp().unwrap());
        assert_eq!(new_qp().err(), too_many(Argument::Qps), "round {round}");
        drop((qps, srqs));
        // Each allocation of one more fails in turn.
        let fails = |make: &mut dyn FnMut() -> Result<(), Error>| {
            for n in 1.. {
                function.fail_allocation(Some(n));
                let result = make();
                let pending = function.failure_pending();
                function.fail_allocation(None);
                assert!(n < 100, "still something to allocate");
                match result {
                    Ok(()) if pending => break,
                    result => assert!(result.is_err(), "allocation {n}"),
                }
            }
        };
        fails(&mut || device.create_qp(&pd, &init).map(drop));
        fails(&mut || new_srq().map(drop));
        // These have numbers of their own, which are as many.
        let attr = SrqAttr { max_wr: 3, max_sge: 1, limit: 0 };
        for _ in 0..4 {
            let new_xrc = || device.create_xrc_srq(&pd, &XrcSrqInit { attr, context: 0, xrcd: &xrcd, cq: &cq });
            let both = (new_xrc().unwrap(), new_xrc().unwrap());
            assert_eq!(new_xrc().err(), too_many(Argument::Srqs), "round {round}");
            drop(both);
        }
        drop(other);
        fails(&mut || new_cq().map(drop));
    }
    drop((pd, xrcd, device));
    assert_nothing_kept(&function);
}

/// Each completion vector is an event queue of its own, and none is that of the asynchronous events.
#[test]
fn each_vector_has_its_event_queue() {
    let model = Model::new(HcaConfig::infiniband(0));
    let config = Config { completion_vectors: 3, ..Config::default() };
    let device = Device5::open(model.plug(&World::new(SEED)), config).expect("opens");
    let vectors = device.attributes().num_comp_vectors;
    let mut seen = BTreeSet::new();
    for comp_vector in 0..vectors {
        let cq = device.create_cq(&CqInit { entries: 7, comp_vector, ..CqInit::default() }).unwrap();
        seen.insert(model.with(|hca| {
            let eqn = hca.cqs[&cq.cqn().get()].eqn as u8;
            assert_eq!(hca.eqs[&eqn].mask.map(|word| word & !1), [0; 4], "vector {comp_vector}");
            eqn
        }));
    }
    assert_eq!((vectors, seen.len()), (3, 3), "{seen:?}");
}

/// A period counts in microseconds; what is asked for is the least.
#[test]
fn a_period_is_rounded_up() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let mut cq = pair.a.cq(7);
    for (nanos, micros) in [(0, 0), (1, 1), (1000, 1), (1001, 2), (4_094_001, 4095), (4_095_000, 4095)] {
        cq.moderate(7, Duration::from_nanos(nanos)).unwrap();
        let held = pair.a.model.with(|hca| {
            let raw = &hca.cqs[&cq.cqn().get()].raw;
            (cqc::CQ_PERIOD.get(raw), cqc::CQ_MAX_COUNT.get(raw))
        });
        assert_eq!(held, (micros, 7), "{nanos} ns");
    }
    let error = Error::OutOfRange { what: Argument::ModerationPeriod, wanted: 4096, max: 4095 };
    assert_eq!(cq.moderate(7, Duration::from_nanos(4_095_001)), Err(error));
    drop(cq);
    pair.close();
}

/// PRM, "CQ DoorBell Register": the sequence number changes once for each event, not for each arming.
#[test]
fn the_sequence_of_armings_counts_events() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (mut ca, mut cb) = (pair.a.cq(63), pair.b.cq(63));
    let (ma, mb) = (pair.a.mr(64), pair.b.mr(64));
    let mut qa = pair.a.qp(QpType::Rc, &ca, &ca, None, CAP);
    let mut qb = pair.b.qp(QpType::Rc, &cb, &cb, None, CAP);
    pair.connect(&mut qa, &mut qb);
    let from = [ma.sge(0..8).unwrap()];
    while pair.a.device.service().unwrap().is_some() {}
    pair.a.function.trace(true);
    let armed = |ca: &mut Cq5, which| {
        let _ = pair.a.function.take_trace();
        ca.request_notify(which).unwrap();
        let bells = pair.a.function.take_trace().into_iter().filter_map(|access| match access.kind {
            AccessKind::Write64(bytes) if access.offset & 0xfff == 0x20 => Some(bytes[0]),
            _ => None,
        });
        let bells: Vec<u8> = bells.collect();
        let [first] = bells[..] else { panic!("{bells:?}") };
        (first >> 4, first & 1)
    };
    for n in 0..6 {
        let sequence = n & 3;
        assert_eq!(armed(&mut ca, Notify::Solicited), (sequence, 1));
        assert_eq!(armed(&mut ca, Notify::Any), (sequence, 0));
        let write = SendWr::new(SendOp::Write { addr: mb.iova(), rkey: mb.rkey() }, &from).signaled();
        qa.post_send([write]).unwrap();
        let event = wait(&pair.a.device, "the event", || pair.a.device.service().unwrap());
        assert_eq!(event, Event::Completion(CqEvent { cqn: ca.cqn(), context: ca.context() }));
        poll(&pair.a.device, &mut ca, 1);
    }
    pair.a.function.trace(false);
    assert_silent(&pair.b.device, &mut cb);
    drop((qa, qb, ca, cb, ma, mb));
    pair.close();
}

/// An empty poll touches no register, but each 4,096th services the device, which a program that only polls needs.
#[test]
fn each_4096th_empty_poll_services_the_device() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let mut cq = pair.a.cq(7);
    while pair.a.device.service().unwrap().is_some() {}
    let mut nothing = [Completion::default()];
    for round in 0..3 {
        // Until the device's health is to be read again.
        let until = pair.a.device.now() + Config::default().health_period * 2;
        while pair.a.device.now() < until {
            pair.a.device.relax();
        }
        pair.a.function.trace(true);
        for _ in 1..4096 {
            assert_eq!(cq.poll(&mut nothing), Ok(0));
        }
        assert_eq!(pair.a.function.take_trace().len(), 0, "round {round}");
        assert_eq!(cq.poll(&mut nothing), Ok(0));
        assert_ne!(pair.a.function.take_trace().len(), 0, "round {round}");
        pair.a.function.trace(false);
    }
    drop(cq);
    pair.close();
}

/// An entry of a QP that nobody has is told by name, once, whether one, several or a view ask. PRM, "CQE Format": bytes 57
/// to 59 are the QPN.
#[test]
fn an_entry_of_nobody_is_told_and_passed_over() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let mut cq = pair.a.cq(15);
    let cqn = cq.cqn().get();
    let mut entry = [0; 64];
    entry[57..60].copy_from_slice(&[0, 0x77, 0x77]);
    for way in 0..3 {
        pair.a.model.does(move |hca, bus| hca.push_cqe(bus, cqn, &entry, false).unwrap());
        let refused = wait(&pair.a.device, "the entry", || {
            // A register access, for the model to go on.
            pair.a.device.service().unwrap();
            let result = match way {
                0 => cq.poll(&mut [Completion::default()]),
                1 => cq.poll(&mut [Completion::default(); 4]),
                _ => cq.view().advance().map(usize::from),
            };
            result.err()
        });
        assert_eq!(refused, PollError::UnknownQp(Qpn::new(0x7777)), "way {way}");
        assert_eq!(cq.poll(&mut [Completion::default()]), Ok(0));
    }
    drop(cq);
    pair.close();
}

/// Where the entry that ends the old ring is not in its place, nobody knows what came: the CQ is dead by name, and its
/// memory comes back in the end.
#[test]
fn a_resize_without_an_end_kills_the_cq() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let mut cq = pair.a.cq(7);
    pair.a.model.with(|hca| hca.cqs.get_mut(&cq.cqn().get()).unwrap().producer += 1);
    let result = cq.resize(31);
    assert!(matches!(result, Err(Error::BadAnswer { why: "the old ring of a CQ did not end", .. })), "{result:?}");
    assert_eq!(cq.poll(&mut [Completion::default()]), Err(PollError::CqError));
    assert_eq!(cq.resize(63), Err(Error::CqError));
    assert_eq!(cq.request_notify(Notify::Any), Err(Error::CqError));
    drop(cq);
    pair.close();
}
