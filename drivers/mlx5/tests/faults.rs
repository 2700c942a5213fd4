//! Links that lose, double, reorder, damage and hold back frames, under what the random workloads leave out: windows and
//! fast registrations that the peer invalidates, and XRC.

mod bench;

use bareverbs::*;
use bareverbs_harness::Faults;
use bench::pair::*;
use std::{ops::Range, time::Duration};

const SEEDS: Range<u64> = 0..3;

/// Every link with every fault, and seeds.
fn everywhere(test: impl Fn(&Pair, &str)) {
    let kinds = [
        ("loss", Faults { loss: 0.08, ..Faults::NONE }),
        ("duplicates", Faults { duplicate: 0.3, ..Faults::NONE }),
        ("another order", Faults { reorder: 0.2, ..Faults::NONE }),
        ("corruption", Faults { corrupt: 0.08, ..Faults::NONE }),
        ("delay", Faults { delay: 0.05, delay_by: Duration::from_millis(20), ..Faults::NONE }),
        ("all", Faults { loss: 0.03, duplicate: 0.1, reorder: 0.1, corrupt: 0.03, delay: 0.02, ..Faults::NONE }),
    ];
    for link in [Link::InfiniBand, Link::Roce] {
        for (name, faults) in kinds {
            for seed in SEEDS {
                let pair = Pair::new(link, seed);
                pair.world.set_faults(faults);
                test(&pair, &format!("{name} on {link:?}, seed {seed}"));
                for node in [&pair.a, &pair.b] {
                    assert_eq!(node.model.report().violations, Vec::<String>::new());
                }
            }
        }
    }
}

/// A key is opened, written and read through, and given back by the peer, again and again; what comes late of the READ is
/// nobody's fault.
#[test]
fn keys_that_the_peer_gives_back() {
    const LEN: usize = 6000;
    everywhere(|pair, name| {
        let (mut ca, mut cb) = (pair.a.cq(63), pair.b.cq(63));
        let from = pair.a.mr(LEN);
        let memory: &'static mut [u8] = vec![0; LEN].leak();
        let access = Access::LOCAL_WRITE | Access::MW_BIND;
        let mr = pair.b.device.register(&pair.b.pd, memory, access).map_err(|r| r.error).unwrap();
        let mut window = pair.b.device.alloc_window(&pair.b.pd, WindowKind::TwoB).unwrap();
        let mut region = pair.b.device.alloc_fast_region(&pair.b.pd, 2).unwrap();
        let (mut a, mut b) = connected(pair, &ca, &cb, None, QpCap { max_send_wr: 32, ..CAP });
        let (sges, rights) = ([from.sge(0..LEN).unwrap()], Access::REMOTE_WRITE | Access::REMOTE_READ);
        for round in 0..30 {
            let bytes = pattern(round + 1, LEN);
            from.write(0, &bytes).unwrap();
            let (rkey, addr) = if round % 2 == 0 {
                let bind = mr.bind(0..LEN, rights).unwrap();
                (b.push_bind(&mut window, &bind, 1, SendFlags::SIGNALED).unwrap(), bind.addr())
            } else {
                let elements = [mr.sge(0..1000).unwrap(), mr.sge(1000..LEN).unwrap()];
                let init = FastInit { elements: &elements, iova: 0x77000, access: rights | Access::LOCAL_WRITE };
                (b.push_register(&mut region, &init, 1, SendFlags::SIGNALED).unwrap(), init.iova)
            };
            b.ring_send();
            assert_eq!(poll(&pair.b.device, &mut cb, 1)[0].status, WcStatus::Success, "{name}, round {round}");
            b.post_recv([RecvWr::new(round, &[])]).unwrap();
            a.post_send([
                SendWr::new(SendOp::Write { addr, rkey }, &sges),
                SendWr::new(SendOp::Read { addr, rkey }, &sges).wr_id(5).signaled(),
                SendWr::new(SendOp::SendInvalidate(rkey), &[]).wr_id(6).flags(SendFlags::SIGNALED | SendFlags::FENCE),
            ])
            .unwrap();
            let done = poll(&pair.b.device, &mut cb, 1)[0];
            let wanted = (round, WcStatus::Success, Some(rkey));
            assert_eq!((done.wr_id, done.status, done.invalidated()), wanted, "{name}");
            let done: Vec<_> = poll(&pair.a.device, &mut ca, 2).iter().map(|c| (c.wr_id, c.status)).collect();
            assert_eq!(done, [5, 6].map(|id| (id, WcStatus::Success)), "{name}, round {round}");
            let mut there = vec![0; LEN];
            mr.read(0, &mut there).unwrap();
            assert!(there == bytes && read(&from, 0, LEN) == bytes, "{name}, round {round}: other bytes");
        }
    });
}

/// Two connections to two XRC SRQs, now and then without a receive.
#[test]
fn messages_that_name_their_srq() {
    const LEN: usize = 4000;
    everywhere(|pair, name| {
        let (mut ca, mut cqs) = (pair.a.cq(63), [pair.b.cq(63), pair.b.cq(63)]);
        let xrcd = pair.b.device.open_xrcd().unwrap();
        let (from, to) = (pair.a.mr(LEN), pair.b.mr(8 * LEN));
        let attr = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
        let mut srqs = [0, 1].map(|n: usize| {
            let init = XrcSrqInit { attr, context: 0, xrcd: &xrcd, cq: &cqs[n] };
            pair.b.device.create_xrc_srq(&pair.b.pd, &init).unwrap()
        });
        let mut ends = [0, 1].map(|_| xrc_connected(pair, &ca, &xrcd));
        let sges = [from.sge(0..LEN).unwrap()];
        for round in 0..12 {
            let bytes = pattern(round + 1, LEN);
            from.write(0, &bytes).unwrap();
            for n in 0..8 {
                let to = Some(Destination::Srq(srqs[n / 2 % 2].srqn()));
                ends[n % 2].0.post_send([SendWr { to, ..SendWr::new(SendOp::Send, &sges).signaled() }]).unwrap();
            }
            if round % 3 == 0 {
                settle(&pair.a.device);
            }
            for (n, srq) in srqs.iter_mut().enumerate() {
                for at in (4 * n..4 * n + 4).map(|slot| slot * LEN) {
                    srq.post([RecvWr::new(at as u64, &[to.sge(at..at + LEN).unwrap()])]).unwrap();
                }
            }
            for cq in &mut cqs {
                for c in poll(&pair.b.device, cq, 4) {
                    assert_eq!((c.status, c.byte_len), (WcStatus::Success, LEN as u32), "{name}, round {round}");
                    assert!(read(&to, c.wr_id as usize, LEN) == bytes, "{name}, round {round}: other bytes");
                }
            }
            let done = poll(&pair.a.device, &mut ca, 8);
            assert!(done.iter().all(|c| c.status == WcStatus::Success), "{name}, round {round}: {done:?}");
        }
    });
}
