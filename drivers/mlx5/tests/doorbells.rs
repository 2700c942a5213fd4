//! What posting does to the device's registers.

mod bench;

use bareverbs::*;
use bareverbs_harness::{Access as Register, AccessKind, World};
use bench::pair::*;

const SEED: u64 = 0x6462_656c;
/// BAR 0: UAR pages are 4 KiB, BlueFlame register 0 begins at 0x800 of one, its second buffer at 0x900.
const BLUEFLAME: [u64; 2] = [0x800, 0x900];

/// Register writes since the last time: offset in the UAR page, and bytes.
fn doorbells(node: &Node) -> Vec<(u64, Vec<u8>)> {
    let kind = |access: Register| match access.kind {
        AccessKind::Write64(bytes) => Some((access.offset & 0xfff, bytes.to_vec())),
        AccessKind::Burst(bytes) => Some((access.offset & 0xfff, bytes.to_vec())),
        _ => None,
    };
    node.function.take_trace().into_iter().filter_map(kind).collect()
}

/// Sends lists of these lengths and tells the doorbells of each.
fn lists(write_combining: bool, lengths: &[usize]) -> Vec<Vec<(u64, Vec<u8>)>> {
    let world = World::builder().seed(SEED).write_combining(write_combining).build();
    let pair = Pair::in_world(world, Link::InfiniBand);
    let (mut ca, cb) = (pair.a.cq(63), pair.b.cq(63));
    let (ma, mb) = (pair.a.mr(4096), pair.b.mr(4096));
    let mut qa = pair.a.qp(QpType::Rc, &ca, &ca, None, CAP);
    let mut qb = pair.b.qp(QpType::Rc, &cb, &cb, None, CAP);
    pair.connect(&mut qa, &mut qb);
    let (from, qpn) = ([ma.sge(0..8).unwrap()], qa.qpn().get());
    let op = SendOp::Write { addr: mb.iova(), rkey: mb.rkey() };
    pair.a.function.trace(true);
    let mut all = Vec::new();
    for &len in lengths {
        let _ = doorbells(&pair.a);
        qa.post_send((0..len).map(|n| SendWr::new(op, &from).wr_id(n as u64).signaled())).unwrap();
        let mut told = doorbells(&pair.a);
        poll(&pair.a.device, &mut ca, len);
        // The QPN, which differs from run to run, is checked here and zeroed for the caller.
        for (_, bytes) in &mut told {
            assert_eq!(bytes[4..7], qpn.to_be_bytes()[1..]);
            bytes[4..7].fill(0);
        }
        all.push(told);
    }
    pair.a.function.trace(false);
    drop((qa, qb, ca, cb, ma, mb));
    pair.close();
    all
}

#[test]
fn case_32_one_doorbell_a_list() {
    // The first 8 bytes of the newest WQE: index, opcode 8 (RDMA WRITE), QPN, three segments.
    let ring = |index: u8| vec![(0x800, vec![0, 0, index, 8, 0, 0, 0, 3])];
    assert_eq!(lists(false, &[3, 0, 1, 16]), [ring(2), vec![], ring(3), ring(19)]);
}

#[test]
fn one_request_alone_goes_by_blueflame() {
    let all = lists(true, &[1, 1, 2, 1]);
    for (n, buffer) in [(0, 0), (1, 1), (3, 0)] {
        let [(offset, wqe)] = &all[n][..] else { panic!("{:?}", all[n]) };
        let index = [0, 1, 3, 4][n];
        assert_eq!((*offset, wqe.len()), (BLUEFLAME[buffer], 64), "list {n}");
        assert_eq!(wqe[..8], [0, 0, index, 8, 0, 0, 0, 3]);
        assert_eq!(wqe[8..12], [0, 0, 0, 8], "signaled");
    }
    assert_eq!(all[2], [(0x800, vec![0, 0, 3, 8, 0, 0, 0, 3])], "a list is rung for by 8 bytes");
}

/// A buffer of BlueFlame holds four blocks: a request of so many is copied whole, a longer one is rung for.
#[test]
fn a_request_longer_than_a_buffer_is_rung_for() {
    let pair = Pair::in_world(World::builder().seed(SEED).write_combining(true).build(), Link::InfiniBand);
    let (mut ca, cb) = (pair.a.cq(63), pair.b.cq(63));
    let (ma, mb) = (pair.a.mr(4096), pair.b.mr(4096));
    let cap = QpCap { max_send_sge: 19, ..CAP };
    let mut qa = pair.a.qp(QpType::Rc, &ca, &ca, None, cap);
    let mut qb = pair.b.qp(QpType::Rc, &cb, &cb, None, CAP);
    pair.connect(&mut qa, &mut qb);
    let op = SendOp::Write { addr: mb.iova(), rkey: mb.rkey() };
    pair.a.function.trace(true);
    let mut turn = 0;
    // Two segments before the elements, four a block.
    for (elements, blocks) in [(2, 1), (3, 2), (14, 4), (15, 5), (14, 4), (19, 6), (1, 1)] {
        let list: Vec<_> = (0..elements).map(|n| ma.sge(8 * n..8 * n + 8).unwrap()).collect();
        let _ = doorbells(&pair.a);
        qa.post_send([SendWr::new(op, &list).signaled()]).unwrap();
        let told = doorbells(&pair.a);
        assert_eq!(poll(&pair.a.device, &mut ca, 1)[0].status, WcStatus::Success);
        let places: Vec<_> = told.iter().map(|(offset, bytes)| (*offset, bytes.len())).collect();
        let copied: Vec<_> = (0..blocks).map(|block| (BLUEFLAME[turn] + 64 * block, 64)).collect();
        let expected = if blocks > 4 { vec![(BLUEFLAME[0], 8)] } else { copied };
        assert_eq!(places, expected, "{elements} elements");
        turn ^= usize::from(blocks <= 4);
    }
    pair.a.function.trace(false);
    drop((qa, qb, ca, cb, ma, mb));
    pair.close();
}

#[test]
fn receives_touch_no_register() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let cq = pair.a.cq(15);
    let mr = pair.a.mr(4096);
    let mut srq = pair.a.device.create_srq(&pair.a.pd, SrqAttr { max_wr: 7, max_sge: 1, limit: 0 }).unwrap();
    let mut qp = pair.a.qp(QpType::Rc, &cq, &cq, None, CAP);
    qp.modify(&init_attr(QpType::Rc)).unwrap();
    let to = [mr.sge(0..64).unwrap()];
    pair.a.function.trace(true);
    qp.post_recv([RecvWr::new(1, &to), RecvWr::new(2, &to)]).unwrap();
    srq.post([RecvWr::new(3, &to)]).unwrap();
    assert_eq!(pair.a.function.take_trace().len(), 0);
    pair.a.function.trace(false);
    drop((qp, srq, cq, mr));
    pair.close();
}

/// Whatever is wrong with a request, the ring stays as it was and nothing is rung for.
#[test]
fn bad_requests_touch_nothing() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (mut ca, cb) = (pair.a.cq(15), pair.b.cq(15));
    let (ma, mb) = (pair.a.mr(4096), pair.b.mr(4096));
    let mut qa = pair.a.qp(QpType::Rc, &ca, &ca, None, CAP);
    let mut qb = pair.b.qp(QpType::Rc, &cb, &cb, None, CAP);
    let mut uc = pair.a.qp(QpType::Uc, &ca, &ca, None, CAP);
    let mut ud = pair.a.qp(QpType::Ud, &ca, &ca, None, CAP);
    pair.connect(&mut qa, &mut qb);
    to_rts(&mut uc, pair.b.address(), Qpn::new(1));
    to_rts(&mut ud, pair.b.address(), Qpn::new(1));
    let ah = pair.a.device.address_handle(&pair.b.address()).unwrap();
    let foreign = pair.b.device.address_handle(&pair.a.address()).unwrap();
    let (here, there) = (
        UdDestination { ah, qpn: Qpn::new(1), qkey: Qkey(1) },
        UdDestination { ah: foreign, qpn: Qpn::new(1), qkey: Qkey(1) },
    );
    let eight = [ma.sge(0..8).unwrap()];
    let many = [ma.sge(0..8).unwrap(); 40];
    // SAFETY: never executed: the request is refused.
    let huge = [unsafe { Sge::from_raw(ma.iova(), u32::MAX, ma.lkey()) }];
    let inline = [7; 4096];
    let (max_sge, max_inline) = (qa.cap().max_send_sge, qa.cap().max_inline);
    let (rkey, addr) = (mb.rkey(), mb.iova());
    let swap = |addr| SendOp::CompareSwap { addr, rkey, compare: 0, swap: 1 };
    pair.a.function.trace(true);
    let commands = pair.a.device.commands();

    let rc: [(SendWr<'_>, PostError); 8] = [
        (SendWr::new(SendOp::Send, &many), PostError::TooManySge { max: max_sge }),
        (SendWr::inline(SendOp::Send, &inline), PostError::InlineTooLong { max: max_inline }),
        (SendWr::inline(SendOp::Read { addr, rkey }, &inline[..8]), PostError::InlineRead),
        (SendWr::inline(swap(addr), &inline[..8]), PostError::InlineRead),
        (SendWr::new(swap(addr + 4), &eight), PostError::AtomicShape),
        (SendWr::new(swap(addr), &many[..2]), PostError::AtomicShape),
        (SendWr::new(SendOp::Send, &huge), PostError::MessageTooLong { max: 1 << 30 }),
        (SendWr::new(SendOp::Send, &eight).to(&here), PostError::Destination),
    ];
    for (wr, expected) in &rc {
        let Err(PostListError { index: 0, error }) = qa.post_send([wr]) else { panic!("{wr:?} was taken") };
        match (error, expected) {
            (PostError::MessageTooLong { .. }, PostError::MessageTooLong { .. }) => {}
            _ => assert_eq!(error, *expected, "{wr:?}"),
        }
        assert_eq!(qa.push_send(wr), Err(error));
    }
    for op in [SendOp::Read { addr, rkey }, swap(addr), SendOp::SendInvalidate(rkey)] {
        assert_eq!(uc.push_send(&SendWr::new(op, &eight)), Err(PostError::UnsupportedOp), "{op:?}");
    }
    let write = SendWr::new(SendOp::Write { addr, rkey }, &eight).to(&here);
    assert_eq!(ud.push_send(&write), Err(PostError::UnsupportedOp));
    assert_eq!(ud.push_send(&SendWr::new(SendOp::Send, &eight)), Err(PostError::Destination));
    assert_eq!(ud.push_send(&SendWr::new(SendOp::Send, &eight).to(&there)), Err(PostError::ForeignAddress));
    assert_eq!(qa.push_recv(&RecvWr::new(1, &many)), Err(PostError::TooManySge { max: qa.cap().max_recv_sge }));
    assert!(matches!(qa.push_recv(&RecvWr::new(1, &huge)), Err(PostError::MessageTooLong { .. })));
    qa.ring_send();
    uc.ring_send();
    ud.ring_send();
    assert_eq!((doorbells(&pair.a), pair.a.device.commands()), (vec![], commands));

    // After all that the first request is the first of the ring.
    qa.post_send([SendWr::new(SendOp::Write { addr, rkey }, &eight).wr_id(5).signaled()]).unwrap();
    assert_eq!(doorbells(&pair.a)[0].1[..4], [0, 0, 0, 8]);
    assert_eq!(poll(&pair.a.device, &mut ca, 1)[0].wr_id, 5);
    pair.a.function.trace(false);
    drop((qa, qb, uc, ud, ca, cb, ma, mb));
    pair.close();
}

/// A receive that was pushed is not the device's before it was told of.
#[test]
fn a_receive_waits_for_its_doorbell() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (ca, mut cb) = (pair.a.cq(15), pair.b.cq(15));
    let (from, to) = (pair.a.mr(64), pair.b.mr(64));
    let (mut qa, mut qb) = connected(&pair, &ca, &cb, None, CAP);
    for id in 0..3 {
        qb.push_recv(&RecvWr::new(id, &[to.sge(0..64).unwrap()])).unwrap();
        qa.post_send([SendWr::new(SendOp::Send, &[from.sge(0..8).unwrap()])]).unwrap();
        settle(&pair.b.device);
        assert_eq!(cb.poll(&mut [Completion::default()]), Ok(0), "nobody has told of receive {id}");
        qb.ring_recv();
        let done = poll(&pair.b.device, &mut cb, 1);
        assert_eq!((done[0].wr_id, done[0].status), (id, WcStatus::Success));
    }
    drop((qa, qb, ca, cb, from, to));
    pair.close();
}
