//! Every asynchronous event of ibv_get_async_event(3) that the device has, each naming its object, in one stream; and
//! what of completion events needs a look into the device.

mod bench;

use bareverbs::*;
use bareverbs_harness::World;
use bareverbs_mlx5::Config;
use bareverbs_model_mlx5::{
    HcaConfig,
    eq::{Event as Raised, port_change},
};
use bench::{Model, assert_clean, pair::*};
use std::time::Duration;

const SEED: u64 = 0x6576_656e;

/// The next event, which must come.
fn next(device: &Device5) -> Event {
    wait(device, "an event", || device.service().unwrap())
}

fn nothing(device: &Device5) {
    let until = device.now() + Duration::from_millis(20);
    while device.now() < until {
        assert_eq!(device.service(), Ok(None));
        device.relax();
    }
}

/// What the device raises is told under the verbs' names, and the object knows it too.
#[test]
fn every_event_of_the_manual_page() {
    for link in [Link::InfiniBand, Link::Roce] {
        let pair = Pair::new(link, SEED);
        let (a, device) = (&pair.a, &pair.a.device);
        while device.service().unwrap().is_some() {}
        let (mut cq, bystander) = (a.cq(7), a.cq(7));
        let init = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
        let mut srq = device.create_srq(&a.pd, init).unwrap();
        let mut sound = device.create_srq(&a.pd, init).unwrap();
        let (cqn, srqn) = (cq.cqn(), srq.srqn());
        let qp = || {
            let mut qp = a.qp(QpType::Rc, &bystander, &bystander, None, CAP);
            qp.modify(&init_attr(QpType::Rc)).unwrap();
            qp
        };
        // Of QPs; the third is whether the QP is in ERR then.
        type OfQp = (fn(u32) -> Raised, fn(Qpn) -> Event, bool);
        let of_qps: [OfQp; 6] = [
            (Raised::QpFatal, Event::QpFatal, true),
            (Raised::QpRequestError, Event::QpRequestError, true),
            (Raised::QpAccessError, Event::QpAccessError, true),
            (Raised::CommunicationEstablished, Event::CommunicationEstablished, false),
            (Raised::SendQueueDrained, Event::SendQueueDrained, false),
            (Raised::LastWqeReached, Event::LastWqeReached, false),
        ];
        for (raised, told, fails) in of_qps {
            let (qp, other) = (qp(), qp());
            a.model.raise(raised(qp.qpn().get()));
            assert_eq!(next(device), told(qp.qpn()));
            assert_eq!(qp.state(), if fails { QpState::Err } else { QpState::Init }, "{:?}", told(qp.qpn()));
            assert_eq!(other.state(), QpState::Init);
        }
        // Of SRQs and CQs.
        a.model.raise(Raised::SrqLimit(srqn.get()));
        assert_eq!(next(device), Event::SrqLimit(srqn));
        let receive = RecvWr::new(1, &[]);
        srq.post([receive]).unwrap();
        a.model.raise(Raised::SrqFatal(srqn.get()));
        srq.post([receive]).unwrap();
        assert_eq!(next(device), Event::SrqError(srqn));
        let refused = Err(PostListError { index: 0, error: PostError::SrqError });
        assert_eq!((srq.post([receive]), srq.post([receive; 2])), (refused, refused));
        assert_eq!(srq.push(&receive), Err(PostError::SrqError));
        sound.post([receive; 2]).unwrap();
        drop(sound);
        let xrcd = device.open_xrcd().unwrap();
        let mut of_cq =
            device.create_xrc_srq(&a.pd, &XrcSrqInit { attr: init, context: 0, xrcd: &xrcd, cq: &cq }).unwrap();
        of_cq.post([receive]).unwrap();
        a.model.raise(Raised::CqError(cqn.get(), 2));
        assert_eq!(next(device), Event::CqError(cqn));
        assert_eq!(cq.poll(&mut [Completion::default()]), Err(PollError::CqError));
        assert_eq!(of_cq.push(&receive), Err(PostError::CqError));
        drop((of_cq, xrcd));
        // Of ports.
        let ports = [
            (port_change::DOWN, Event::PortDown(PORT)),
            (port_change::ACTIVE, Event::PortActive(PORT)),
            (port_change::LID, Event::LidChange(PORT)),
            (port_change::PKEY, Event::PkeyChange(PORT)),
            (port_change::GUID, Event::GidChange(PORT)),
            (port_change::CLIENT_REREGISTER, Event::ClientReregister(PORT)),
        ];
        for (subtype, told) in ports {
            a.model.raise(Raised::PortChange { port: 1, subtype });
            assert_eq!(next(device), told);
        }
        // Nobody migrates paths here, and a device that has no alternate ones has no news of them; nor are there any of
        // objects that nobody has, or that tell the driver only.
        let last = qp();
        for quiet in [
            Raised::PathMigrated(last.qpn().get()),
            Raised::QpFatal(0x12_3456),
            Raised::SrqLimit(0x12_3456),
            Raised::CqError(0x12_3456, 1),
            Raised::PortChange { port: 1, subtype: port_change::INITIALIZED },
            Raised::NicVportChange,
        ] {
            a.model.raise(quiet);
        }
        nothing(device);
        // One stream, in the order in which the objects came to have one.
        a.model.raise(Raised::SrqLimit(srqn.get()));
        a.model.raise(Raised::PortChange { port: 1, subtype: port_change::LID });
        a.model.raise(Raised::QpFatal(last.qpn().get()));
        assert_eq!(
            [next(device), next(device), next(device)],
            [Event::SrqLimit(srqn), Event::LidChange(PORT), Event::QpFatal(last.qpn())]
        );
        drop((last, srq, cq, bystander));
        pair.close();
    }
}

/// What brings them about: a first packet in RTR, a request that cannot be, a rule that is broken, a link that goes.
#[test]
fn what_brings_them_about() {
    for link in [Link::InfiniBand, Link::Roce] {
        let pair = Pair::new(link, SEED);
        let (ca, cb) = (pair.a.cq(31), pair.b.cq(31));
        let (from, to) = (pair.a.mr(256), pair.b.mr(64));
        let b = &pair.b.device;
        while b.service().unwrap().is_some() {}
        let in_rtr = |access| {
            let (mut qa, mut qb) =
                (pair.a.qp(QpType::Rc, &ca, &ca, None, CAP), pair.b.qp(QpType::Rc, &cb, &cb, None, CAP));
            to_rts(&mut qa, pair.b.address(), qb.qpn());
            qb.modify(&init_attr(QpType::Rc).access(access)).unwrap();
            qb.modify(&rtr_attr(QpType::Rc, pair.a.address(), qa.qpn())).unwrap();
            qb.post_recv([RecvWr::new(1, &[to.sge(0..64).unwrap()])]).unwrap();
            (qa, qb)
        };
        // The first packet.
        let (mut qa, qb) = in_rtr(Access::empty());
        qa.post_send([SendWr::new(SendOp::Send, &[from.sge(0..8).unwrap()])]).unwrap();
        assert_eq!(next(b), Event::CommunicationEstablished(qb.qpn()));
        nothing(b);
        // A write to a QP that takes none.
        let write = SendOp::Write { addr: to.iova(), rkey: to.rkey() };
        qa.post_send([SendWr::new(write, &[from.sge(0..64).unwrap()])]).unwrap();
        assert_eq!(next(b), Event::QpRequestError(qb.qpn()));
        assert_eq!(qb.state(), QpState::Err);
        drop((qa, qb));
        // A write beyond the region.
        let (mut qa, qb) = in_rtr(Access::REMOTE_WRITE);
        let beyond = SendOp::Write { addr: to.iova() + 1, rkey: to.rkey() };
        qa.post_send([SendWr::new(beyond, &[from.sge(0..64).unwrap()])]).unwrap();
        assert_eq!(next(b), Event::CommunicationEstablished(qb.qpn()));
        assert_eq!(next(b), Event::QpAccessError(qb.qpn()));
        assert_eq!(qb.state(), QpState::Err);
        drop((qa, qb));
        // The port goes down and comes back.
        pair.b.model.with(|hca| hca.port.admin_up = false);
        assert_eq!(next(b), Event::PortDown(PORT));
        assert_eq!(b.query_port(PORT).unwrap().state, PortState::Down);
        pair.b.model.with(|hca| hca.port.admin_up = true);
        assert_eq!(next(b), Event::PortActive(PORT));
        drop((ca, cb, from, to));
        pair.close();
    }
}

/// Events in numbers that no queue holds, while nobody asks: each object's is told, once a kind, in the documented order.
#[test]
fn more_events_than_any_queue_holds() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (a, device) = (&pair.a, &pair.a.device);
    while device.service().unwrap().is_some() {}
    let init = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
    let srqs = [(); 3].map(|()| device.create_srq(&a.pd, init).unwrap());
    let cq = a.cq(31);
    let qps = [(); 40].map(|()| a.qp(QpType::Rc, &cq, &cq, None, CAP));
    a.model.raise(Raised::SrqLimit(srqs[1].srqn().get()));
    let mut raised = 1;
    let port = |subtype| Raised::PortChange { port: 1, subtype };
    // Some at once, then a verb that has nothing to do with them, six queues full.
    for round in 0..100 {
        for qp in &qps {
            let n = qp.qpn().get();
            a.model.raise(Raised::LastWqeReached(n));
            a.model.raise(Raised::CommunicationEstablished(n));
        }
        for subtype in [port_change::ACTIVE, port_change::LID, port_change::DOWN] {
            a.model.raise(port(subtype));
        }
        raised += 83;
        if round == 50 {
            a.model.raise(Raised::SrqFatal(srqs[0].srqn().get()));
        }
        device.query_port(PORT).unwrap();
    }
    assert!(raised > 6 * 1024, "{raised}");
    assert_eq!(next(device), Event::SrqLimit(srqs[1].srqn()));
    for qp in &qps {
        assert_eq!(next(device), Event::CommunicationEstablished(qp.qpn()));
        assert_eq!(next(device), Event::LastWqeReached(qp.qpn()));
    }
    // The port went up and down: how it is comes last.
    assert_eq!(
        [next(device), next(device), next(device)],
        [Event::PortActive(PORT), Event::PortDown(PORT), Event::LidChange(PORT)]
    );
    assert_eq!(next(device), Event::SrqError(srqs[0].srqn()));
    nothing(device);
    for (last, told) in [(port_change::ACTIVE, Event::PortActive(PORT)), (port_change::DOWN, Event::PortDown(PORT))] {
        for subtype in [port_change::DOWN, port_change::ACTIVE, port_change::DOWN, last] {
            a.model.raise(port(subtype));
        }
        let both = [next(device), next(device)];
        assert_eq!(both[1], told, "{both:?}");
        nothing(device);
    }
    // Objects that go take theirs along, wherever they stand; the others' stay.
    for qp in &qps {
        a.model.raise(Raised::QpFatal(qp.qpn().get()));
    }
    device.query_port(PORT).unwrap();
    let mut left = Vec::from(qps);
    for n in [39, 20, 0] {
        left.remove(n);
    }
    for qp in &left {
        assert_eq!(next(device), Event::QpFatal(qp.qpn()));
    }
    nothing(device);
    drop((left, srqs, cq));
    pair.close();
}

/// Completion events, too: as many as there were, however late they are asked for, each CQ in its turn.
#[test]
fn completion_events_are_counted() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (a, device) = (&pair.a, &pair.a.device);
    while device.service().unwrap().is_some() {}
    let channel = device.create_comp_channel().unwrap();
    let on = |context| device.create_cq_on(&channel, &CqInit { entries: 7, context, ..CqInit::default() }).unwrap();
    let (mut one, mut two, off) = (on(1), on(2), a.cq(7));
    for n in 0..3000 {
        for cq in [&one, &off] {
            a.model.raise(Raised::Completion(cq.cqn().get()));
        }
        if n % 1000 == 0 {
            a.model.raise(Raised::Completion(two.cqn().get()));
        }
        device.query_port(PORT).unwrap();
    }
    let mut order = Vec::new();
    while let Some(event) = channel.event().unwrap() {
        order.push(event.context);
    }
    assert_eq!(order.len(), 3003);
    assert_eq!(order[..7], [1, 2, 1, 2, 1, 2, 1]);
    assert_eq!(order[7..], [1; 2996]);
    one.ack_events(3000).unwrap();
    two.ack_events(3).unwrap();
    let mut got = 0;
    while let Some(event) = device.service().unwrap() {
        assert_eq!(event, Event::Completion(CqEvent { cqn: off.cqn(), context: off.context() }));
        got += 1;
    }
    assert_eq!(got, 3000);
    assert_eq!(off.destroy().map_err(|r| r.error).unwrap_err(), Error::Unacknowledged { events: 3000 });
    drop((one, two, channel));
    pair.close();
}

/// The device compares the index that it is armed with with its own: it tells at once of entries that nobody polled, for
/// any but not for solicited ones, which these are not. (Linux relies on it: mlx5_ib_arm_cq reports no missed events.)
#[test]
fn armed_over_unpolled_entries() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (mut ca, cb) = (pair.a.cq(31), pair.b.cq(31));
    let (mut qa, mut qb) = (pair.a.qp(QpType::Rc, &ca, &ca, None, CAP), pair.b.qp(QpType::Rc, &cb, &cb, None, CAP));
    pair.connect(&mut qa, &mut qb);
    let (from, to) = (pair.a.mr(64), pair.b.mr(64));
    let device = &pair.a.device;
    while device.service().unwrap().is_some() {}
    let write = SendOp::Write { addr: to.iova(), rkey: to.rkey() };
    qa.post_send([SendWr::new(write, &[from.sge(0..64).unwrap()]).signaled()]).unwrap();
    nothing(device);
    ca.request_notify(Notify::Solicited).unwrap();
    nothing(device);
    ca.request_notify(Notify::Any).unwrap();
    let event = CqEvent { cqn: ca.cqn(), context: ca.context() };
    assert_eq!(next(device), Event::Completion(event));
    nothing(device);
    assert_eq!(ca.poll(&mut [Completion::default(); 2]), Ok(1));
    // Polled entries do not count.
    ca.request_notify(Notify::Any).unwrap();
    nothing(device);
    drop((qa, qb, ca, cb, from, to));
    pair.close();
}

/// A CQ's completion vector is the event queue that its completions are told in, and no other.
#[test]
fn every_vector_has_its_queue() {
    let world = World::new(SEED);
    let model = Model::new(HcaConfig::infiniband(0));
    let function = model.plug(&world);
    let device = Device5::open(function.clone(), Config { completion_vectors: 4, ..Config::default() }).expect("opens");
    while device.service().unwrap().is_some() {}
    assert_eq!(device.attributes().num_comp_vectors, 4);
    let produced = || model.with(|hca| hca.eqs.iter().map(|(n, eq)| (*n, eq.producer)).collect::<Vec<_>>());
    let mut queues = Vec::new();
    for comp_vector in 0..4 {
        let cq = device.create_cq(&CqInit { entries: 7, comp_vector, ..CqInit::default() }).unwrap();
        let before = produced();
        model.raise(Raised::Completion(cq.cqn().get()));
        assert_eq!(next(&device), Event::Completion(CqEvent { cqn: cq.cqn(), context: 0 }));
        let mut grown = Vec::new();
        for ((n, before), (_, after)) in before.into_iter().zip(produced()) {
            grown.extend((before != after).then_some((n, after.wrapping_sub(before))));
        }
        let [(eqn, 1)] = grown[..] else { panic!("vector {comp_vector}: events in {grown:?}") };
        assert!(!queues.contains(&eqn), "vector {comp_vector}: events in EQ {eqn}, as of one before");
        queues.push(eqn);
    }
    drop(device);
    assert_clean(&function);
}
