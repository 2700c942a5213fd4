//! Edges that a user can reach: the end of the address space, a view whose QP goes, a QP that fails before it sends.

mod bench;

use bareverbs::*;
use bareverbs_model_mlx5::eq::Event as Raised;
use bench::pair::*;

/// The entry that a view shows stays the driver's, whatever is swept meanwhile.
#[test]
fn a_view_survives_its_qp() {
    let pair = Pair::new(Link::InfiniBand, 1);
    let (mut cq, peer_cq) = (pair.a.cq(3), pair.b.cq(3));
    let mut qps = [0, 1].map(|_| {
        let mut own = pair.a.qp(QpType::Rc, &cq, &cq, None, CAP);
        let mut peer = pair.b.qp(QpType::Rc, &peer_cq, &peer_cq, None, CAP);
        pair.connect(&mut own, &mut peer);
        (own, peer)
    });
    let (local, remote) = (pair.a.mr(64), pair.b.mr(64));
    let read = SendOp::Read { addr: remote.iova(), rkey: remote.rkey() };
    let (long, short) = ([local.sge(0..64).unwrap()], [local.sge(0..8).unwrap()]);
    qps[0].0.post_send([1, 2].map(|id| SendWr::new(read, &long).wr_id(id).signaled())).unwrap();
    for _ in 0..2000 {
        pair.a.device.relax();
    }
    let mut view = cq.view();
    assert!(view.advance().unwrap());
    let before = view.completion();
    let [first, mut second] = qps;
    // Sweeps the second of its two completions.
    drop(first);
    second.0.post_send([3, 4, 5].map(|id| SendWr::new(read, &short).wr_id(id).signaled())).unwrap();
    for _ in 0..5000 {
        pair.a.device.relax();
    }
    assert_eq!(view.completion(), before, "the completion changed under the view");
}

#[repr(align(4096))]
struct Page([u8; 4096]);

#[test]
fn a_region_ends_at_the_last_address() {
    let pair = Pair::new(Link::InfiniBand, 1);
    let page: &'static mut [u8] = &mut Box::leak(Box::new(Page([0; 4096]))).0;
    let init = RegionInit { access: Access::LOCAL_WRITE, iova: Some(u64::MAX - 4095) };
    let region = pair.a.device.register(&pair.a.pd, page, init).map_err(|refused| refused.error).unwrap();
    assert_eq!(region.sge(4096..4096).unwrap().length(), 0);
    assert_eq!(region.sge(4095..4096).unwrap().addr(), u64::MAX);
}

/// Requests may be posted in ERR and are flushed (IBA 10.3.1), however the QP came there: here it fails in RTR, where the
/// driver did not let sends through.
#[test]
fn a_qp_that_fails_before_it_sends_flushes_what_is_posted() {
    for how in 0..4 {
        let pair = Pair::new(Link::InfiniBand, 1);
        let (ca, mut cb) = (pair.a.cq(15), pair.b.cq(15));
        let (mut qa, mut qb) = (pair.a.qp(QpType::Rc, &ca, &ca, None, CAP), pair.b.qp(QpType::Rc, &cb, &cb, None, CAP));
        qb.modify(&init_attr(QpType::Rc)).unwrap();
        qb.modify(&rtr_attr(QpType::Rc, pair.a.address(), qa.qpn())).unwrap();
        to_rts(&mut qa, pair.b.address(), qb.qpn());
        let (from, to) = (pair.a.mr(64), pair.b.mr(64));
        let (long, sges) = ([from.sge(0..64).unwrap()], [to.sge(0..8).unwrap()]);
        qb.post_recv([RecvWr::new(1, &sges)]).unwrap();
        let send = |id| SendWr::new(SendOp::Send, &sges).wr_id(id);
        let refused = qb.post_send([send(9)]).map_err(|e| e.error);
        assert_eq!(refused, Err(PostError::WrongState(QpState::Rtr)));
        qa.post_send([SendWr::new(SendOp::Send, &long)]).unwrap();
        assert_eq!(poll(&pair.b.device, &mut cb, 1)[0].status, WcStatus::LocalLength);
        assert_eq!(qb.state(), QpState::Err);
        let mut window = pair.b.device.alloc_window(&pair.b.pd, WindowKind::TwoB).unwrap();
        match how {
            0 => qb.post_send([send(2)]).unwrap(),
            1 => qb.post_send([send(2), send(3)]).unwrap(),
            2 => {
                qb.push_send(&send(2)).unwrap();
                qb.ring_send();
            }
            _ => {
                qb.push_bind(&mut window, &Bind::NOTHING, 2, SendFlags::empty()).unwrap();
                qb.ring_send();
            }
        }
        qb.post_send([send(4)]).unwrap();
        qb.post_recv([RecvWr::new(5, &sges)]).unwrap();
        let ids: &[u64] = if how == 1 { &[2, 3, 4, 5] } else { &[2, 4, 5] };
        let mut done = poll(&pair.b.device, &mut cb, ids.len());
        assert!(done.iter().all(|c| c.status == WcStatus::WorkRequestFlushed), "{done:?}");
        done.sort_by_key(|c| c.wr_id);
        assert_eq!(done.iter().map(|c| c.wr_id).collect::<Vec<_>>(), ids);
        // It begins anew as ever.
        qb.modify(&QpAttr::to(QpState::Reset)).unwrap();
        assert_eq!(qb.push_send(&send(6)), Err(PostError::WrongState(QpState::Reset)));
        drop((window, qa, qb, ca, cb, from, to));
        pair.close();
    }
}

/// The send queue of a raw packet QP waits in reset at the device then, and would keep what is posted: it is refused until
/// the QP is modified.
#[test]
fn a_raw_packet_qp_that_fails_before_it_sends_flushes_in_err() {
    let pair = Pair::new(Link::Roce, 1);
    let (mut cq, mr) = (pair.a.cq(15), pair.a.mr(64));
    let mut raw = pair.a.qp(QpType::RawPacket, &cq, &cq, None, CAP);
    raw.modify(&QpAttr::to(QpState::Init).port(PORT)).unwrap();
    raw.modify(&QpAttr::to(QpState::Rtr)).unwrap();
    let rqn = pair.a.model.with(|hca| *hca.rqs.keys().next().unwrap());
    pair.a.model.raise(Raised::QueueFatal { rq: true, number: rqn });
    let event = wait(&pair.a.device, "the event", || pair.a.device.service().unwrap());
    assert_eq!((event, raw.state()), (Event::QpFatal(raw.qpn()), QpState::Err));
    let sges = [mr.sge(0..64).unwrap()];
    let frame = SendWr::new(SendOp::Send, &sges).wr_id(1);
    assert_eq!(raw.push_send(&frame), Err(PostError::WrongState(QpState::Err)));
    raw.modify(&QpAttr::to(QpState::Err)).unwrap();
    raw.post_send([frame]).unwrap();
    let done = poll(&pair.a.device, &mut cq, 1)[0];
    assert_eq!((done.wr_id, done.status), (1, WcStatus::WorkRequestFlushed));
    drop((raw, cq, mr));
    pair.close();
}
