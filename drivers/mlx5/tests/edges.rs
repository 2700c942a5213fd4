//! Edges that a user can reach: the end of the address space, a view whose QP goes.

mod bench;

use bareverbs::{
    Access, CompletionQueue, CompletionView, Device, MemoryRegion, QpType, QueuePair, RegionInit, SendOp, SendWr,
};
use bench::pair::{CAP, Link, Pair};

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
