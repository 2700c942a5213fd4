//! Every asynchronous event of ibv_get_async_event(3), each naming its object, in one stream.

mod bench;

use bareverbs::*;
use bareverbs_model_mlx5::eq::{Event as Raised, port_change};
use bench::pair::*;
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
        let mut srq = device.create_srq(&a.pd, &init).unwrap();
        let mut sound = device.create_srq(&a.pd, &init).unwrap();
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
        a.model.raise(Raised::CqError(cqn.get(), 2));
        assert_eq!(next(device), Event::CqError(cqn));
        assert_eq!(cq.poll(&mut [Completion::default()]), Err(PollError::CqError));
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
        // One stream, in the order in which they came.
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
