//! What a modify sets is what the device holds: each part of an address path on each link, each optional attribute in each
//! transition that may change it, values at their limits. Manual pages ibv_modify_qp, ibv_query_qp.

mod bench;

use bareverbs::*;
use bareverbs_model_mlx5::qp::{QpState as Held, ads};
use bench::pair::*;
use std::time::Duration;

const SEED: u64 = 0x6174_7472;
const BOTH: [Link; 2] = [Link::InfiniBand, Link::Roce];

/// A path of which no part is as usual; a static rate of 2.5 Gb/s.
fn odd_path(pair: &Pair) -> AhAttr {
    let to = pair.b.address();
    let dgid = pair.b.device.query_gid(PORT, 0).unwrap().gid;
    let grh = GlobalRoute { dgid, sgid_index: 0, flow_label: 0x5_4321, hop_limit: 17, traffic_class: 0xb9 };
    let ethernet = pair.link == Link::Roce;
    let udp_sport = ethernet.then_some(0xd123);
    let sl = if ethernet { 5 } else { 0xd };
    AhAttr { sl, src_path_bits: 0x43, static_rate: 2, grh: Some(grh), udp_sport, ..to }
}

#[test]
fn each_part_of_a_path_is_what_was_set() {
    for link in BOTH {
        let pair = Pair::new(link, SEED);
        let cq = pair.a.cq(15);
        let mut qp = pair.a.qp(QpType::Rc, &cq, &cq, None, CAP);
        let av = odd_path(&pair);
        qp.modify(&init_attr(QpType::Rc)).unwrap();
        qp.modify(&rtr_attr(QpType::Rc, av, Qpn::new(0x123))).unwrap();
        let held = qp.query().unwrap().av;
        match link {
            Link::InfiniBand => assert_eq!(held, av),
            Link::Roce => assert_eq!(held, AhAttr { src_path_bits: 0, dlid: Lid(0), ..av }),
        }
        let path = |field| pair.a.model.with(|hca| hca.qps[&qp.qpn().get()].path(field));
        let of_ethernet = |value| if link == Link::Roce { value } else { 0 };
        assert_eq!(path(ads::DSCP), of_ethernet(0xb9 >> 2), "the differentiated services of the IP header");
        assert_eq!(path(ads::STAT_RATE), 2 + ads::STAT_RATE_OFFSET);
        drop((qp, cq));
        pair.close();
    }
}

#[test]
fn a_path_without_a_route_has_none() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let cq = pair.a.cq(15);
    let mut qp = pair.a.qp(QpType::Rc, &cq, &cq, None, CAP);
    to_rts(&mut qp, pair.b.address(), Qpn::new(0x123));
    let held = qp.query().unwrap().av;
    assert_eq!(held, pair.b.address());
    assert_eq!((held.grh, held.dmac, held.udp_sport), (None, None, None));
    drop((qp, cq));
    pair.close();
}

/// The steps of a QP that have a context: where each begins, and what it must set.
fn steps(kind: QpType, to: AhAttr) -> [(QpState, QpAttr); 4] {
    let rtr = rtr_attr(kind, to, Qpn::new(0x123));
    [
        (QpState::Init, QpAttr::to(QpState::Init)),
        (QpState::Init, rtr),
        (QpState::Rtr, rts_attr(kind)),
        (QpState::Rts, QpAttr::to(QpState::Rts)),
    ]
}

/// Changes an attribute; says how the device's answer shows it.
type Change = (QpAttrMask, fn(QpAttr) -> QpAttr, fn(&QpAttr) -> bool);

const CHANGES: [Change; 5] = [
    (QpAttrMask::ACCESS_FLAGS, |a| a.access(Access::REMOTE_WRITE), |q| q.access == Access::REMOTE_WRITE),
    (QpAttrMask::ACCESS_FLAGS, |a| a.access(Access::REMOTE_READ), |q| q.access == Access::REMOTE_READ),
    (QpAttrMask::PKEY_INDEX, |a| a.pkey_index(1), |q| q.pkey_index == 1),
    (QpAttrMask::QKEY, |a| a.qkey(Qkey(0x7777)), |q| q.qkey == Qkey(0x7777)),
    (
        QpAttrMask::MIN_RNR_TIMER,
        |a| a.min_rnr_timer(RnrTimer::at_least(Duration::from_millis(5))),
        |q| q.min_rnr_timer == RnrTimer::at_least(Duration::from_millis(5)),
    ),
];

#[test]
fn each_optional_attribute_changes_in_each_transition_that_may() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let cq = pair.a.cq(15);
    let mut changed = 0;
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let to = pair.b.address();
        for (n, (from, attr)) in steps(kind, to).into_iter().enumerate() {
            let row = bareverbs::qp::TRANSITIONS;
            let row = row.iter().find(|t| (t.from, t.to) == (from, attr.state) && t.kinds.contains(&kind)).unwrap();
            for (bit, change, shown) in CHANGES {
                // A UC responder answers writes only.
                let reads = bit == QpAttrMask::ACCESS_FLAGS && !change(attr).access.contains(Access::REMOTE_WRITE);
                if !row.optional.contains(bit) || kind == QpType::Uc && reads {
                    continue;
                }
                let mut qp = pair.a.qp(kind, &cq, &cq, None, CAP);
                let first = init_attr(kind);
                let first = if kind == QpType::Ud { first } else { first.access(Access::empty()) };
                qp.modify(&first).unwrap();
                for (_, step) in &steps(kind, to)[1..n.max(1)] {
                    qp.modify(step).unwrap();
                }
                assert_eq!(qp.state(), from);
                assert!(!shown(&qp.query().unwrap()), "{kind:?} {from} has {bit:?} already");
                qp.modify(&change(attr)).unwrap();
                let held = qp.query().unwrap();
                assert!(shown(&held), "{kind:?} {from} to {} with {bit:?}: {held:?}", attr.state);
                changed += 1;
            }
        }
    }
    assert_eq!(changed, 24);
    drop(cq);
    pair.close();
}

#[test]
fn the_largest_values_are_taken() {
    for link in BOTH {
        let pair = Pair::new(link, SEED);
        let (attr, port) = (pair.a.device.attributes(), pair.a.device.query_port(PORT).unwrap());
        let cq = pair.a.cq(15);
        let mut qp = pair.a.qp(QpType::Rc, &cq, &cq, None, CAP);
        // On Ethernet the frames' size is the bound, which the host sets.
        let (last, mtu) = match link {
            Link::InfiniBand => (port.pkey_tbl_len - 1, port.max_mtu),
            Link::Roce => (0, port.active_mtu),
        };
        qp.modify(&init_attr(QpType::Rc).pkey_index(last)).unwrap();
        let rtr = rtr_attr(QpType::Rc, pair.b.address(), Qpn::new(0x123));
        qp.modify(&rtr.path_mtu(mtu).max_dest_rd_atomic(attr.max_qp_rd_atom)).unwrap();
        qp.modify(&rts_attr(QpType::Rc).max_rd_atomic(attr.max_qp_init_rd_atom)).unwrap();
        let held = qp.query().unwrap();
        assert_eq!((held.pkey_index, held.path_mtu), (last, mtu));
        assert_eq!((held.max_dest_rd_atomic, held.max_rd_atomic), (attr.max_qp_rd_atom, attr.max_qp_init_rd_atom));
        drop((qp, cq));
        pair.close();
    }
}

/// On Ethernet there is one P_Key; on-demand paging is no right of a QP.
#[test]
fn what_no_qp_has_is_refused_by_name() {
    let pair = Pair::new(Link::Roce, SEED);
    let cq = pair.a.cq(15);
    let mut qp = pair.a.qp(QpType::Rc, &cq, &cq, None, CAP);
    let init = init_attr(QpType::Rc);
    let error = Error::NoSuchIndex { table: Argument::Pkey, index: 1 };
    assert_eq!(qp.modify(&init.pkey_index(1)), Err(error));
    let why = "on-demand paging";
    let error = Error::BadAttribute { attribute: QpAttrMask::ACCESS_FLAGS, why };
    assert_eq!(qp.modify(&init.access(Access::REMOTE_WRITE | Access::ON_DEMAND)), Err(error));
    drop((qp, cq));
    pair.close();
}

/// A device may stop a send queue on its own: the state is told, and left by the command for it.
#[test]
fn a_send_queue_that_the_device_stopped_goes_on() {
    let pair = Pair::new(Link::InfiniBand, SEED);
    let cq = pair.a.cq(15);
    for (kind, held, state) in [
        (QpType::Rc, Held::SendQueueDrained, QpState::Sqd),
        (QpType::Uc, Held::SendQueueError, QpState::Sqe),
        (QpType::Ud, Held::SendQueueError, QpState::Sqe),
    ] {
        let mut qp = pair.a.qp(kind, &cq, &cq, None, CAP);
        to_rts(&mut qp, pair.b.address(), Qpn::new(0x123));
        pair.a.model.with(|hca| hca.qps.get_mut(&qp.qpn().get()).unwrap().state = held);
        assert_eq!((qp.query().unwrap().state, qp.state()), (state, state));
        qp.modify(&QpAttr::to(QpState::Rts)).unwrap();
        assert_eq!((qp.query().unwrap().state, qp.state()), (QpState::Rts, QpState::Rts));
    }
    drop(cq);
    pair.close();
}
