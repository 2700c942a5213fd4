//! Completion queues as the device sees them.

mod bench;

use bareverbs::*;
use bench::pair::*;

const SEED: u64 = 0x6371_7300;

/// Entries of 128 bytes are so for the device, from the beginning and after a resize; they are swept, moved and polled
/// over several laps.
#[test]
fn large_entries() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let size = |cq: &Cq5| pair.a.model.with(|hca| hca.cqs[&cq.cqn().get()].cqe_size);
    let small = pair.a.cq(5);
    assert_eq!(size(&small), 64);
    let init = CqInit { entries: 15, large_entries: true, ..CqInit::default() };
    let mut ca = pair.a.device.create_cq(&init).unwrap();
    assert_eq!(size(&ca), 128);
    let cb = pair.b.cq(31);
    let (from, to) = (pair.a.mr(64), pair.b.mr(64));
    let (sges, write) = ([from.sge(0..64).unwrap()], SendOp::Write { addr: to.iova(), rkey: to.rkey() });
    let (mut a, _pa) = connected(&pair, &ca, &cb, None, CAP);
    let mut next = 0;
    for round in 0..24 {
        // Another QP's entries between them, which are swept.
        let (mut b, _pb) = connected(&pair, &ca, &cb, None, CAP);
        let first = next;
        for n in 0..8 {
            let (qp, id) = if n % 3 == 1 { (&mut b, 1000) } else { (&mut a, next) };
            qp.post_send([SendWr::new(write, &sges).wr_id(id).signaled()]).unwrap();
            next += u64::from(n % 3 != 1);
            settle(&pair.a.device);
        }
        if round % 2 == 0 {
            ca.resize([63, 8, 15][round % 3]).unwrap();
            assert_eq!(size(&ca), 128, "after a resize");
        }
        b.destroy().unwrap();
        if round % 4 == 3 {
            ca.resize([7, 31][round % 2]).unwrap();
        }
        let ids: Vec<_> = poll(&pair.a.device, &mut ca, 5).iter().map(|c| c.wr_id).collect();
        assert_eq!(ids, (first..next).collect::<Vec<_>>(), "round {round}");
        assert_eq!(ca.poll(&mut [Completion::default()]), Ok(0));
    }
    drop((a, _pa, ca, cb, small, from, to));
    pair.close();
}

/// Completions that come between the driver's look and the device's: the device refuses, which has the same name.
#[test]
fn a_shrink_that_is_overtaken() {
    let (mut overtaken, mut taken) = (0, 0);
    for seed in SEED..SEED + 200 {
        let pair = Pair::new(Link::InfiniBand, seed);
        let (mut ca, cb) = (pair.a.cq(31), pair.b.cq(31));
        let (from, to) = (pair.a.mr(64), pair.b.mr(64));
        let (sges, write) = ([from.sge(0..64).unwrap()], SendOp::Write { addr: to.iova(), rkey: to.rkey() });
        let (mut a, _pa) = connected(&pair, &ca, &cb, None, CAP);
        a.post_send((0..12).map(|id| SendWr::new(write, &sges).wr_id(id).signaled())).unwrap();
        let written = || pair.a.model.with(|hca| hca.cqs[&ca.cqn().get()].producer);
        wait(&pair.a.device, "the first completions", || (u64::from(written()) >= seed % 4).then_some(()));
        let commands = pair.a.device.commands();
        match ca.resize(3) {
            Err(Error::BelowUnpolled { unpolled }) => {
                assert!((4..=12).contains(&unpolled), "{unpolled} unpolled (seed {seed:#x})");
                assert_eq!(ca.capacity(), 31);
                overtaken += u32::from(pair.a.device.commands() > commands);
                let ids: Vec<_> = poll(&pair.a.device, &mut ca, 12).iter().map(|c| c.wr_id).collect();
                assert_eq!(ids, (0..12).collect::<Vec<_>>(), "seed {seed:#x}");
                assert_silent(&pair.a.device, &mut ca);
                drop((a, _pa, ca, cb, from, to));
                pair.close();
            }
            // What comes from now on may overrun it, as anywhere.
            Ok(()) => taken += 1,
            Err(other) => panic!("{other} (seed {seed:#x})"),
        }
    }
    println!("{overtaken} refused by the device, {taken} done");
    assert!(overtaken > 0, "no seed lets completions overtake the resize");
}

/// An overrun takes completions along. Of an SRQ's receives that is one for each QP that wanted to complete and one that
/// it was receiving into; all others come back, when the QP goes.
#[test]
fn an_overrun_takes_few_receives_along() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let ca = pair.a.cq(63);
    let (small, mut good) = (pair.b.cq(1), pair.b.cq(31));
    let init = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
    let mut srq = pair.b.device.create_srq(&pair.b.pd, init).unwrap();
    let (from, to) = (pair.a.mr(64), pair.b.mr(64));
    let (s, r) = ([from.sge(0..8).unwrap()], [to.sge(0..8).unwrap()]);
    let (mut q1, p1) = connected(&pair, &ca, &small, Some(&srq), CAP);
    srq.post((0..7).map(|id| RecvWr::new(id, &r))).unwrap();
    q1.post_send((0..5).map(|id| SendWr::new(SendOp::Send, &s).wr_id(id))).unwrap();
    settle(&pair.b.device);
    let mut failed = false;
    while let Some(event) = pair.b.device.service().unwrap() {
        failed |= event == Event::CqError(small.cqn());
    }
    assert!(failed);
    // The ring of the CQ held two, the third found no room.
    p1.destroy().unwrap();
    small.destroy().unwrap();
    let mut back = 0;
    while srq.push(&RecvWr::new(90, &r)).is_ok() {
        back += 1;
    }
    srq.ring();
    assert_eq!(back, 2);
    // One is lost, six go on.
    let (mut q2, p2) = connected(&pair, &ca, &good, Some(&srq), CAP);
    q2.post_send((0..6).map(|id| SendWr::new(SendOp::Send, &s).wr_id(id))).unwrap();
    assert!(poll(&pair.b.device, &mut good, 6).iter().all(|c| c.status == WcStatus::Success));
    drop((q1, q2, p2, srq, ca, good, from, to));
    // The overrun was on purpose.
    assert_eq!(pair.b.model.report().violations.len(), 1);
}

/// Field by field, a view says of a failed request what its completion says.
#[test]
fn a_view_of_a_failed_request() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (mut ca, cb) = (pair.a.cq(15), pair.b.cq(15));
    let (from, to) = (pair.a.mr(64), pair.b.mr(64));
    let (mut a, _b) = connected(&pair, &ca, &cb, None, CAP);
    let beyond = SendOp::Write { addr: to.iova() + 64, rkey: to.rkey() };
    a.post_send([SendWr::new(beyond, &[from.sge(0..8).unwrap()]).wr_id(9).signaled()]).unwrap();
    settle(&pair.a.device);
    let mut view = ca.view();
    assert_eq!(view.advance(), Ok(true));
    assert_eq!((view.wr_id(), view.status(), view.qpn()), (9, WcStatus::RemoteAccess, a.qpn()));
    let whole = view.completion();
    assert_eq!((whole.wr_id, whole.status, whole.qpn), (9, WcStatus::RemoteAccess, a.qpn()));
    assert_ne!(view.vendor_err(), 0, "the model tells one");
    assert_eq!(view.vendor_err(), whole.vendor_err);
    // The entry has something else where others have the time.
    assert_eq!(view.timestamp(), 0);
}
