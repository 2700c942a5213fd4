//! Events that come while nobody asks for them: as many as the objects can bring about, and to programs that only poll.

mod bench;

use bareverbs::*;
use bareverbs_harness::World;
use bareverbs_mlx5::Config;
use bareverbs_model_mlx5::{HcaConfig, eq::Event as Raised};
use bench::{Model, pair::*};

const SEED: u64 = 0x666c_6f6f;

/// All that can happen to each QP while nobody looks finds room in the queue, for it is as deep as the limits ask for: with
/// 1,024 entries, as once, the device failed.
#[test]
fn every_qp_fails_between_two_looks() {
    println!("seed {SEED:#x}");
    let world = World::new(SEED);
    let model = Model::new(HcaConfig::infiniband(0));
    let config = Config { max_qps: 512, max_cqs: 16, ..Config::default() };
    let device = Device5::open(model.plug(&world), config).expect("opens");
    let pd = device.alloc_pd().unwrap();
    let cq = device.create_cq(&CqInit { entries: 15, ..CqInit::default() }).unwrap();
    let init =
        QpInit { kind: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, cap: CAP, signal_all: false, context: 0 };
    let qps: Vec<_> = (0..500).map(|_| device.create_qp(&pd, &init).unwrap()).collect();
    while device.service().unwrap().is_some() {}
    let of_one: [fn(u32) -> Raised; 3] = [Raised::CommunicationEstablished, Raised::QpFatal, Raised::LastWqeReached];
    for qp in &qps {
        of_one.iter().for_each(|event| model.raise(event(qp.qpn().get())));
    }
    let mut told = 0;
    loop {
        match device.service() {
            Ok(Some(Event::DeviceFatal(e))) => panic!("after {told} events: {e}"),
            Ok(Some(_)) => told += 1,
            Ok(None) if told == 3 * qps.len() => break,
            Ok(None) => device.relax(),
            Err(e) => panic!("after {told} events: {e}"),
        }
    }
    assert!(qps.iter().all(|qp| qp.state() == QpState::Err));
    assert!(told > 1024);
    drop((qps, cq, pd, device));
    assert!(model.report().violations.is_empty(), "{:?}", model.report().violations);
}

/// How a program polls.
#[derive(Clone, Copy, Debug)]
enum Way {
    One,
    Some,
    View,
}

/// A program that finds something whenever it polls is served, too, after some thousands of entries, whatever the size of
/// its ring: the driver knows then that a QP failed, which no completion told.
#[test]
fn polls_that_always_find_something_serve_the_device() {
    println!("seed {SEED:#x}");
    for entries in [255, 8191] {
        let pair = Pair::new(Link::InfiniBand, SEED);
        let (mut ca, cb) = (pair.a.cq(entries), pair.b.cq(15));
        let (from, to) = (pair.a.mr(64), pair.b.mr(64));
        let mut qps: Vec<_> = (0..15).map(|_| connected(&pair, &ca, &cb, None, CAP)).collect();
        let write = SendOp::Write { addr: to.iova(), rkey: to.rkey() };
        let list = [from.sge(0..8).unwrap()];
        for way in [Way::One, Way::Some, Way::View] {
            let (idle, taken) = until_served(&pair, &mut ca, |ca| {
                for (qp, _) in &mut qps {
                    qp.post_send([SendWr::new(write, &list).signaled(); 16]).unwrap();
                }
                settle(&pair.a.device);
                take_all(ca, 15 * 16, |_| way)
            });
            assert!(taken > 1024, "{way:?}: after {taken} already");
            assert_eq!(pair.a.device.service(), Ok(Some(Event::QpFatal(idle.qpn()))));
        }
        qps.iter().for_each(|(a, b)| assert_eq!((a.state(), b.state()), (QpState::Rts, QpState::Rts)));
        drop((qps, from, to, ca, cb));
        pair.close();
    }
}

/// Lets a QP fail that completes nothing, and takes batches of completions, so many each, until the driver knows of it;
/// tells how many those were.
fn until_served(pair: &Pair, cq: &mut Cq5, mut batch: impl FnMut(&mut Cq5) -> usize) -> (Qp5, usize) {
    let idle = pair.a.qp(QpType::Rc, cq, cq, None, CAP);
    while pair.a.device.service().unwrap().is_some() {}
    pair.a.model.raise(Raised::QpFatal(idle.qpn().get()));
    settle(&pair.a.device);
    let mut taken = 0;
    while idle.state() != QpState::Err {
        assert!(taken <= 2 * 8192, "{taken} completions, and nobody has looked");
        taken += batch(cq);
    }
    (idle, taken)
}

/// Takes so many completions that are there, in a way that may depend on how many are left.
fn take_all(cq: &mut Cq5, n: usize, way: impl Fn(usize) -> Way) -> usize {
    let mut left = n;
    while left > 0 {
        left -= take(cq, way(left));
    }
    n
}

/// Polls once, and finds something.
fn take(cq: &mut Cq5, way: Way) -> usize {
    let n = match way {
        Way::One => cq.poll(&mut [Completion::default()]).unwrap(),
        Way::Some => cq.poll(&mut [Completion::default(); 16]).unwrap(),
        Way::View => usize::from(cq.view().advance().unwrap()),
    };
    assert!(n > 0, "{way:?}: an empty poll");
    n
}

/// Datagrams take the long way each: they count one by one, and do not serve the device each.
#[test]
fn polls_of_datagrams_serve_the_device_now_and_then() {
    println!("seed {SEED:#x}");
    const BATCH: usize = 64;
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (mut ca, mut cb) = (pair.a.cq(8191), pair.b.cq(127));
    let cap = QpCap { max_send_wr: BATCH as u32, max_recv_wr: BATCH as u32, ..CAP };
    let mut receiver = pair.a.qp(QpType::Ud, &ca, &ca, None, cap);
    let mut sender = pair.b.qp(QpType::Ud, &cb, &cb, None, cap);
    to_rts(&mut receiver, pair.b.address(), sender.qpn());
    to_rts(&mut sender, pair.a.address(), receiver.qpn());
    let ah = pair.b.device.address_handle(&pair.a.address()).unwrap();
    let to = UdDestination { ah, qpn: receiver.qpn(), qkey: Qkey(0x1111) };
    let place = pair.a.mr(64);
    let sges = [place.sge(0..64).unwrap()];
    let (idle, taken) = until_served(&pair, &mut ca, |ca| {
        receiver.post_recv([RecvWr::new(1, &sges); BATCH]).unwrap();
        let mut wr = SendWr::new(SendOp::Send, &[]).signaled();
        wr.to = Some(Destination::Ud(&to));
        sender.post_send([wr; BATCH]).unwrap();
        poll(&pair.b.device, &mut cb, BATCH);
        settle(&pair.b.device);
        take_all(ca, BATCH, |left| if left > BATCH / 2 { Way::One } else { Way::Some })
    });
    assert!(taken > 1024, "after {taken} already");
    drop((idle, receiver, sender, place, ca, cb));
    pair.close();
}
