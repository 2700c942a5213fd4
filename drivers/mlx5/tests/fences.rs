//! Fences in requests as the device reads them: behind one that changes a key the next waits for that, whatever way it is
//! posted; a registration itself waits as the device wants it. The device's order hides a fence that is missing.

mod bench;

use bareverbs::*;
use bareverbs_mlx5_prm::wqe::{BB, ctrl, opcode};
use bench::pair::*;
use std::sync::{Arc, Mutex};

const SEED: u64 = 0x6665_6e63;
const KEYS: QpCap = QpCap { max_send_wr: 64, max_inline: 28, ..CAP };

/// Opcode and fence of every request that was posted since RESET, of a ring that has not begun anew.
fn requests(node: &Node, qp: &Qp5) -> Vec<(u8, u8)> {
    let (found, qpn) = (Arc::new(Mutex::new(None)), qp.qpn().get());
    let to = found.clone();
    node.model.does(move |hca, bus| {
        let (mut all, mut at) = (Vec::new(), 0);
        let sq = &hca.qps[&qpn].sq;
        while at < u64::from(sq.producer) {
            let mut control = [0; 16];
            sq.memory.read(bus, at * BB as u64, &mut control).unwrap();
            all.push((control[3], control[11] & ctrl::FENCE_MASK));
            at += u64::from(control[7] & 0x3f).div_ceil(4);
        }
        *to.lock().unwrap() = Some(all);
    });
    wait(&node.device, "the model's step", || found.lock().unwrap().take())
}

/// How requests are posted.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Alone,
    InAList,
    Pushed,
}

fn post(qp: &mut Qp5, how: How, wr: SendWr<'_>) {
    match how {
        How::Alone => qp.post_send([wr]).unwrap(),
        How::InAList => qp.post_send([wr; 2]).unwrap(),
        How::Pushed => {
            qp.push_send(&wr).unwrap();
            qp.ring_send();
        }
    }
}

#[test]
fn what_follows_a_request_that_changes_a_key_waits_for_it() {
    const SMALL: u8 = ctrl::FENCE_INITIATOR_SMALL;
    const ASKED: u8 = ctrl::FENCE_SMALL_AND_FENCE;
    // What the modelled card asks for.
    const STRONG: u8 = ctrl::FENCE_STRONG_ORDERING;
    let pair = Pair::new(Link::InfiniBand, SEED);
    let (ca, cb) = (pair.a.cq(63), pair.b.cq(63));
    let memory: &'static mut [u8] = vec![0; 64].leak();
    let access = Access::LOCAL_WRITE | Access::MW_BIND;
    let mr = pair.a.device.register(&pair.a.pd, memory, access).map_err(|r| r.error).unwrap();
    let to = pair.b.mr(64);
    let mut window = pair.a.device.alloc_window(&pair.a.pd, WindowKind::One).unwrap();
    let mut region = pair.a.device.alloc_fast_region(&pair.a.pd, 1).unwrap();
    let (bind, sges) = (mr.bind(0..8, Access::REMOTE_READ).unwrap(), [mr.sge(0..8).unwrap()]);
    let init = FastInit { elements: &sges, iova: 0x1000, access: Access::LOCAL_WRITE };
    let write = SendOp::Write { addr: to.iova(), rkey: to.rkey() };
    let read = SendOp::Read { addr: to.iova(), rkey: to.rkey() };
    // What the short way takes, and what it does not.
    let followers = [
        SendWr::new(write, &sges),
        SendWr::inline(write, b"inline"),
        SendWr::new(read, &sges),
        SendWr::new(write, &[]),
    ];
    let none = SendFlags::empty();
    for (follower, how) in followers.iter().flat_map(|wr| [How::Alone, How::InAList, How::Pushed].map(|how| (*wr, how)))
    {
        let (mut qp, _peer) = connected(&pair, &ca, &cb, None, KEYS);
        post(&mut qp, how, follower);
        qp.push_bind(&mut window, &bind, 0, none).unwrap();
        post(&mut qp, how, follower);
        qp.push_bind(&mut window, &bind, 0, none).unwrap();
        post(&mut qp, how, follower.flags(SendFlags::FENCE));
        let key = qp.push_register(&mut region, &init, 0, none).unwrap();
        post(&mut qp, how, follower);
        post(&mut qp, how, SendWr::new(SendOp::LocalInvalidate(key), &[]));
        post(&mut qp, how, follower);
        qp.push_bind(&mut window, &bind, 0, SendFlags::FENCE).unwrap();
        qp.push_bind(&mut window, &bind, 0, none).unwrap();
        qp.ring_send();
        settle(&pair.a.device);
        // Whether it changes a key, its fence, and that of the second in a list.
        let steps = [
            (false, 0, Some(0)),
            (true, 0, None),
            (false, SMALL, Some(0)),
            (true, 0, None),
            (false, ASKED, Some(ASKED)),
            (true, STRONG, None),
            (false, SMALL, Some(0)),
            (true, 0, Some(SMALL)),
            (false, SMALL, Some(0)),
            (true, ASKED, None),
            (true, SMALL, None),
        ];
        let listed = |second: Option<u8>| second.filter(|_| how == How::InAList);
        let wanted = steps.iter().flat_map(|&(umr, first, second)| {
            [Some(first), listed(second)].into_iter().flatten().map(move |fence| (umr, fence))
        });
        let found = requests(&pair.a, &qp).into_iter().map(|(op, fence)| (op == opcode::UMR, fence));
        assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>(), "{how:?} {follower:?}");
        assert_eq!(qp.query().unwrap().state, QpState::Rts, "the device took them all");
    }
}
