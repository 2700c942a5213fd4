//! Queue pairs: what they are made of, their states, and what is posted to them.

use super::{Judge, out_of_range};
use crate::bench::pair::*;
use bareverbs::*;

pub fn queue_pairs(judge: &mut Judge, pair: &Pair) {
    let (a, b) = (&pair.a, &pair.b);
    let attr = a.device.attributes();
    let cqs = [a.cq(7), b.cq(7)];
    let srq_init = SrqAttr { max_wr: 3, max_sge: 1, limit: 0 };
    let srqs = [a.device.create_srq(&a.pd, srq_init).unwrap(), b.device.create_srq(&b.pd, srq_init).unwrap()];
    let right = QpInit {
        kind: QpType::Rc,
        send_cq: &cqs[0],
        recv_cq: &cqs[0],
        srq: None,
        cap: CAP,
        signal_all: false,
        context: 0,
    };
    let row = |judge: &mut Judge, pd: &_, init: QpInit<'_, Device5>, error: Error| {
        judge.refuses("create_qp", || a.device.create_qp(pd, &init), error);
    };
    row(judge, &b.pd, right, Error::Foreign(Object::Pd));
    row(judge, &a.pd, QpInit { send_cq: &cqs[1], ..right }, Error::Foreign(Object::Cq));
    row(judge, &a.pd, QpInit { recv_cq: &cqs[1], ..right }, Error::Foreign(Object::Cq));
    row(judge, &a.pd, QpInit { srq: Some(&srqs[1]), ..right }, Error::Foreign(Object::Srq));
    let uc = QpInit { kind: QpType::Uc, srq: Some(&srqs[0]), ..right };
    row(judge, &a.pd, uc, Error::Unsupported("an SRQ on this type of QP"));
    row(judge, &a.pd, QpInit { kind: QpType::XrcTgt, ..right }, Error::Unsupported("this type of QP"));
    let init = XrcSrqInit { attr: srq_init, context: 0, xrcd: &a.device.open_xrcd().unwrap(), cq: &cqs[0] };
    let xrc = a.device.create_xrc_srq(&a.pd, &init).unwrap();
    let error = Error::Unsupported("an XRC SRQ as the SRQ of a QP");
    row(judge, &a.pd, QpInit { srq: Some(&xrc), ..right }, error);
    // The device has 32,768 WQEs a queue and 1,024 bytes a WQE: 63 segments, of which RC needs two; 32 for a receive.
    let most = attr.max_qp_wr;
    assert_eq!(most, 32768);
    for (cap, what, wanted, max) in [
        (QpCap { max_send_wr: most + 1, ..CAP }, Argument::MaxSendWr, most + 1, most),
        (QpCap { max_recv_wr: most + 1, ..CAP }, Argument::MaxRecvWr, most + 1, most),
        (QpCap { max_send_sge: 62, ..CAP }, Argument::MaxSendSge, 62, 61),
        (QpCap { max_recv_sge: 33, ..CAP }, Argument::MaxRecvSge, 33, 32),
        (QpCap { max_inline: 973, ..CAP }, Argument::MaxInline, 973, 972),
    ] {
        row(judge, &a.pd, QpInit { cap, ..right }, out_of_range(what, wanted, max));
    }
}

/// What is wrong with the values of a step; masks and states are those of [`super::transitions`].
pub fn transitions(judge: &mut Judge, pair: &Pair) {
    use QpAttrMask as M;
    use QpState::{Err as Error_, Init, Reset, Rtr, Rts, Sqd};
    let attr = pair.a.device.attributes();
    let cq = pair.a.cq(7);
    let kind = QpType::Rc;
    let mut qp = pair.a.qp(kind, &cq, &cq, None, CAP);
    let init = init_attr(kind);
    let rtr = rtr_attr(kind, pair.b.address(), Qpn::new(0x123));
    let rts = rts_attr(kind);
    let no = |from, to| Error::NoSuchTransition { kind, from, to };
    let with = |attr: &QpAttr, bit| QpAttr { mask: attr.mask.union(bit), ..*attr };
    let mut step = |judge: &mut Judge, from, attr: &QpAttr| {
        let to = attr.state;
        match to {
            Init => {
                for port in [0, 2, 255].map(PortNum) {
                    judge.refuses("modify", || qp.modify(&attr.port(port)), Error::NoSuchPort(port));
                }
                let pkeys = pair.a.device.query_port(PORT).unwrap().pkey_tbl_len;
                for index in [pkeys, u16::MAX] {
                    let error = Error::NoSuchIndex { table: Argument::Pkey, index: index.into() };
                    judge.refuses("modify", || qp.modify(&attr.pkey_index(index)), error);
                }
            }
            Rtr => {
                let why = "more than the device answers at once";
                let error = Error::BadAttribute { attribute: M::MAX_DEST_RD_ATOMIC, why };
                let many = attr.max_dest_rd_atomic(pair.a.device.attributes().max_qp_rd_atom + 1);
                judge.refuses("modify", || qp.modify(&many), error);
                let alternate = with(attr, M::ALT_PATH);
                judge.refuses("modify", || qp.modify(&alternate), Error::Unsupported("alternate paths"));
                for (av, error) in super::device::bent(pair) {
                    judge.refuses("modify", || qp.modify(&attr.av(av)), error);
                }
                let grh = attr.av.grh.unwrap_or_default();
                let av = AhAttr { grh: Some(GlobalRoute { flow_label: 1 << 20, ..grh }), ..attr.av };
                let error = out_of_range(Argument::FlowLabel, 1u32 << 20, 0xf_ffffu32);
                judge.refuses("modify", || qp.modify(&attr.av(av)), error);
                if let Ok(sgid_index) = u8::try_from(pair.a.device.query_port(PORT).unwrap().gid_tbl_len) {
                    let av = AhAttr { grh: Some(GlobalRoute { sgid_index, ..grh }), ..attr.av };
                    let error = Error::NoSuchIndex { table: Argument::Gid, index: sgid_index.into() };
                    judge.refuses("modify", || qp.modify(&attr.av(av)), error);
                }
                if pair.link == Link::Roce {
                    let av = AhAttr { grh: None, ..attr.av };
                    judge.refuses("modify", || qp.modify(&attr.av(av)), Error::GrhRequired);
                    let av = AhAttr { dmac: None, ..attr.av };
                    judge.refuses("modify", || qp.modify(&attr.av(av)), Error::MacRequired);
                    let error = Error::BadAttribute { attribute: M::PATH_MTU, why: "larger than the port's" };
                    judge.refuses("modify", || qp.modify(&attr.path_mtu(Mtu::B2048)), error);
                }
            }
            _ => {
                let error =
                    Error::BadAttribute { attribute: M::MAX_QP_RD_ATOMIC, why: "more than the device sends at once" };
                judge.refuses("modify", || qp.modify(&attr.max_rd_atomic(200)), error);
                let error = Error::BadAttribute { attribute: M::CUR_STATE, why: "not the state it is in" };
                judge.refuses("modify", || qp.modify(&attr.cur_state(Init)), error);
            }
        }
        assert_eq!(qp.state(), from);
        qp.modify(attr).unwrap();
    };
    assert!(attr.max_qp_init_rd_atom < 200);
    step(judge, Reset, &init);
    step(judge, Init, &rtr);
    step(judge, Rtr, &rts);
    let error = Error::Unsupported("draining the send queue by modify");
    judge.refuses("modify", || qp.modify(&QpAttr::to(Sqd)), error);
    qp.modify(&QpAttr::to(Error_)).unwrap();
    for to in [Init, Rtr, Rts, Sqd] {
        judge.refuses("modify", || qp.modify(&QpAttr::to(to)), no(Error_, to));
    }
}

pub fn posts(judge: &mut Judge, pair: &Pair) {
    let (a, b) = (&pair.a, &pair.b);
    let (cq, peer_cq) = (a.cq(31), b.cq(31));
    let cap = QpCap { max_inline: 32, max_send_wr: 4, max_recv_wr: 4, ..CAP };
    let mut rc = a.qp(QpType::Rc, &cq, &cq, None, cap);
    let mut peer = b.qp(QpType::Rc, &peer_cq, &peer_cq, None, cap);
    let mut ud = a.qp(QpType::Ud, &cq, &cq, None, cap);
    let mut uc = a.qp(QpType::Uc, &cq, &cq, None, cap);
    let (mr, there) = (a.mr(8192), b.mr(64));
    let one = [mr.sge(0..8).unwrap()];
    let (addr, rkey) = (there.iova(), there.rkey());
    let write = SendOp::Write { addr, rkey };
    let send = SendWr::new(SendOp::Send, &one);
    let recv = RecvWr::new(0, &one);
    // Not yet.
    judge.refuses("push_recv", || rc.push_recv(&recv), PostError::WrongState(QpState::Reset));
    for attr in [init_attr(QpType::Rc), rtr_attr(QpType::Rc, b.address(), peer.qpn())] {
        let now = rc.state();
        judge.refuses("push_send", || rc.push_send(&send), PostError::WrongState(now));
        rc.modify(&attr).unwrap();
    }
    rc.modify(&QpAttr::to(QpState::Reset)).unwrap();
    pair.connect(&mut rc, &mut peer);
    for kind in [QpType::Ud, QpType::Uc] {
        let qp = if kind == QpType::Ud { &mut ud } else { &mut uc };
        to_rts(qp, b.address(), peer.qpn());
    }
    let cap = rc.cap();
    let many = vec![one[0]; cap.max_send_sge.max(cap.max_recv_sge) as usize + 1];
    let long = vec![0; cap.max_inline as usize + 1];
    let parts = [&long[..5], &long[5..]];
    let gather = SendWr { payload: Payload::InlineGather(&parts), ..SendWr::new(write, &[]) };
    // Shape.
    let error = PostError::TooManySge { max: cap.max_send_sge };
    judge.refuses("push_send", || rc.push_send(&SendWr::new(write, &many)), error);
    judge.refuses(
        "push_recv",
        || rc.push_recv(&RecvWr::new(0, &many)),
        PostError::TooManySge { max: cap.max_recv_sge },
    );
    let error = PostError::InlineTooLong { max: cap.max_inline };
    judge.refuses("push_send", || rc.push_send(&SendWr::inline(write, &long)), error);
    judge.refuses("push_send", || rc.push_send(&gather), error);
    let read = SendOp::Read { addr, rkey };
    let add = |addr| SendOp::FetchAdd { addr, rkey, add: 1 };
    let swap = SendOp::CompareSwap { addr: addr + 4, rkey, compare: 0, swap: 0 };
    for op in [read, add(addr), SendOp::CompareSwap { addr, rkey, compare: 0, swap: 0 }] {
        judge.refuses("push_send", || rc.push_send(&SendWr::inline(op, &long[..8])), PostError::InlineRead);
    }
    let seven = [mr.sge(0..7).unwrap()];
    for (op, sges) in
        [(add(addr), &seven[..]), (add(addr), &[]), (add(addr), &many[..2]), (add(addr + 1), &one), (swap, &one)]
    {
        judge.refuses("push_send", || rc.push_send(&SendWr::new(op, sges)), PostError::AtomicShape);
    }
    // SAFETY: the element is refused; nobody reads it.
    let huge = [unsafe { Sge::from_raw(mr.iova(), 1 << 31, mr.lkey()) }];
    let error = PostError::MessageTooLong { max: (1 << 31) - 1 };
    judge.refuses("push_recv", || rc.push_recv(&RecvWr::new(0, &huge)), error);
    // Operation and destination.
    let ah = a.device.address_handle(&b.address()).unwrap();
    let to = UdDestination { ah, qpn: peer.qpn(), qkey: Qkey(0x1111) };
    let foreign = UdDestination { ah: b.device.address_handle(&a.address()).unwrap(), ..to };
    for op in [write, read, add(addr), SendOp::WriteImm { addr, rkey, imm: 0 }, SendOp::SendInvalidate(rkey)] {
        judge.refuses("push_send", || ud.push_send(&SendWr::new(op, &one).to(&to)), PostError::UnsupportedOp);
    }
    for op in [read, add(addr)] {
        judge.refuses("push_send", || uc.push_send(&SendWr::new(op, &one)), PostError::UnsupportedOp);
    }
    judge.refuses("push_send", || ud.push_send(&send), PostError::Destination);
    judge.refuses("push_send", || rc.push_send(&send.to(&to)), PostError::Destination);
    judge.refuses("push_send", || ud.push_send(&send.to(&foreign)), PostError::ForeignAddress);
    let mtu = match pair.link {
        Link::InfiniBand => 4096,
        Link::Roce => 1024,
    };
    let datagram = [mr.sge(0..mtu + 1).unwrap()];
    let error = PostError::MessageTooLong { max: mtu as u32 };
    judge.refuses("push_send", || ud.push_send(&SendWr::new(SendOp::Send, &datagram).to(&to)), error);
    // Full: pushed and not rung.
    for _ in 0..cap.max_send_wr {
        rc.push_send(&SendWr::new(write, &one)).unwrap();
    }
    judge.refuses("push_send", || rc.push_send(&SendWr::new(write, &one)), PostError::QueueFull);
    for _ in 0..cap.max_recv_wr {
        rc.push_recv(&recv).unwrap();
    }
    judge.refuses("push_recv", || rc.push_recv(&recv), PostError::QueueFull);
    let srq = a.device.create_srq(&a.pd, SrqAttr { max_wr: 3, max_sge: 1, limit: 0 }).unwrap();
    let mut shared = a.qp(QpType::Rc, &cq, &cq, Some(&srq), cap);
    judge.refuses("push_recv", || shared.push_recv(&recv), PostError::UsesSrq);
}
