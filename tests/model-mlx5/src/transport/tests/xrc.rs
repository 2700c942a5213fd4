//! XRC: the sender names the SRQ, which has a domain, a CQ and a user index of its own.

use bareverbs_harness::model::LinkKind::InfiniBand;

use super::world::*;
use crate::{
    qp::{ReceiveFrom, Service},
    srq::SrqKind,
};

const XRC: Setup = Setup {
    service: Service::Xrc,
    mtu: 1024,
    psn: 5,
    receive_from: ReceiveFrom::Nowhere,
    remote_access: true,
    max_rd_atomic_log: 1,
    timeout: 10,
    retry: 3,
    rnr_retry: 1,
    min_rnr_timer: 1,
    gid_index: 0,
    grh: false,
};

fn xrc_seg(srqn: u32) -> [u8; 16] {
    let mut seg = [0; 16];
    seg[..4].copy_from_slice(&srqn.to_be_bytes());
    seg
}

#[test]
fn the_sender_chooses_the_queue() {
    let mut w = World::connected(InfiniBand, &XRC);
    let srqns = [w.hosts[1].create_srq(3), w.hosts[1].create_srq(3)];
    for (n, srqn) in srqns.into_iter().enumerate() {
        let cqn = w.hosts[1].cqns[n];
        let srq = w.hosts[1].hca.srqs.get_mut(&srqn).unwrap();
        srq.kind = SrqKind::Xrc { xrcd: 0, cqn, user_index: 0x700 + n as u32 };
        w.hosts[1].post_srq(srqn, 0, (DATA + 0x4000 * n as u64, 0x4000, KEY));
    }
    w.hosts[0].put(DATA, &pattern(2500, 1));
    for srqn in srqns {
        w.hosts[0].post_send(A, SEND, SIGNALED, 0, &[xrc_seg(srqn), data_seg(DATA, 2500, KEY)].concat());
    }
    let write = [xrc_seg(srqns[0]), raddr_seg(DATA + 0x1_0000, KEY), data_seg(DATA, 2500, KEY)].concat();
    w.hosts[0].post_send(A, WRITE, SIGNALED, 0, &write);
    let read = [xrc_seg(srqns[0]), raddr_seg(DATA + 0x1_0000, KEY), data_seg(DATA + 0x8000, 2500, KEY)].concat();
    w.hosts[0].post_send(A, READ, SIGNALED, 0, &read);
    w.run();
    w.assert_clean();
    assert_eq!(w.hosts[0].polls(0).iter().map(|wc| wc.syndrome).collect::<Vec<_>>(), [0; 4]);
    for n in 0..2 {
        let wc = w.hosts[1].polls(n)[0];
        assert_eq!((wc.opcode, wc.bytes, wc.user_index), (2, 2500, 0x700 + n as u32));
        assert_eq!(w.hosts[1].get(DATA + 0x4000 * n as u64, 2500), pattern(2500, 1));
    }
    assert_eq!(w.hosts[0].get(DATA + 0x8000, 2500), pattern(2500, 1));
    // XRC SEND First, with the SRQ's number behind the BTH.
    assert_eq!((w.seen[0].1[8], &w.seen[0].1[20..24]), (0xa0, &srqns[0].to_be_bytes()[..]));
}

#[test]
fn a_queue_that_is_not_of_the_domain_is_an_invalid_request() {
    let mut w = World::connected(InfiniBand, &XRC);
    let srqn = w.hosts[1].create_srq(3);
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &[xrc_seg(srqn), data_seg(DATA, 8, KEY)].concat());
    w.run();
    assert_eq!(w.hosts[0].polls(0)[0].syndrome, 0x12);
    // Nor is one of another domain.
    let mut w = World::connected(InfiniBand, &XRC);
    let srqn = w.hosts[1].create_srq(3);
    let cqn = w.hosts[1].cqns[1];
    w.hosts[1].hca.srqs.get_mut(&srqn).unwrap().kind = SrqKind::Xrc { xrcd: 8, cqn, user_index: 0 };
    w.hosts[0].post_send(A, SEND, SIGNALED, 0, &[xrc_seg(srqn), data_seg(DATA, 8, KEY)].concat());
    w.run();
    assert_eq!(w.hosts[0].polls(0)[0].syndrome, 0x12);
}
