//! Groups and rules: everything that is wrong with what a QP is attached to.

use super::{Judge, out_of_range};
use crate::bench::pair::*;
use bareverbs::*;

pub fn run(judge: &mut Judge, pair: &Pair) {
    let a = &pair.a;
    let cq = a.cq(31);
    let (mut ud, mut rc) = (a.qp(QpType::Ud, &cq, &cq, None, CAP), a.qp(QpType::Rc, &cq, &cq, None, CAP));
    let (group, lid) = (Gid([0xff; 16]), Lid(0xc000));
    for gid in [Gid::ZERO, Gid::from_ipv4([10, 0, 0, 1]), Gid::from_ipv4([240, 0, 0, 1]), Gid([0xfe; 16])] {
        let error = Error::NotMulticast { gid, lid };
        judge.refuses("attach_multicast", || ud.attach_multicast(gid, lid), error);
    }
    if pair.link == Link::InfiniBand {
        let gid = Gid::from_ipv4([224, 0, 0, 1]);
        judge.refuses("attach_multicast", || ud.attach_multicast(gid, lid), Error::NotMulticast { gid, lid });
        for lid in [Lid(0), Lid(0xbfff), Lid(0xffff)] {
            let error = Error::NotMulticast { gid: group, lid };
            judge.refuses("attach_multicast", || ud.attach_multicast(group, lid), error);
        }
    }
    let error = Error::Unsupported("multicast on this type of QP");
    judge.refuses("attach_multicast", || rc.attach_multicast(group, lid), error);
    let error = Error::Unsupported("flow rules on this type of QP");
    judge.refuses("attach_flow", || ud.attach_flow(&FlowSpec::ANY), error);
    for qp in [&mut ud, &mut rc] {
        judge.refuses("detach_multicast", || qp.detach_multicast(group, lid), Error::NotAttached);
        judge.refuses("detach_flow", || qp.detach_flow(&FlowSpec::ANY), Error::NotAttached);
    }
    ud.attach_multicast(group, lid).unwrap();
    let mut kept = None;
    let destroy = || {
        ud.destroy().map_err(|refused| {
            kept = Some(refused.handle);
            refused.error
        })
    };
    judge.refuses("destroy_qp", destroy, Error::Busy { holders: 1 });
    drop((kept, rc));
    match pair.link {
        Link::InfiniBand => {
            let init = |cap| QpInit {
                kind: QpType::RawPacket,
                send_cq: &cq,
                recv_cq: &cq,
                srq: None,
                cap,
                signal_all: false,
                context: 0,
            };
            judge.refuses("create_qp", || a.device.create_qp(&a.pd, &init(CAP)), Error::Unsupported("raw packet QPs"));
        }
        Link::Roce => frames(judge, a, &cq),
    }
}

fn frames(judge: &mut Judge, a: &Node, cq: &Cq5) {
    let init = |cap| QpInit {
        kind: QpType::RawPacket,
        send_cq: cq,
        recv_cq: cq,
        srq: None,
        cap,
        signal_all: false,
        context: 0,
    };
    let no_send = init(QpCap { max_send_wr: 0, ..CAP });
    let error = Error::Unsupported("a raw packet QP without a send queue");
    judge.refuses("create_qp", || a.device.create_qp(&a.pd, &no_send), error);
    let mut qp = a.qp(QpType::RawPacket, cq, cq, None, QpCap { max_recv_wr: 0, ..CAP });
    let error = Error::Unsupported("flow rules without a receive queue");
    judge.refuses("attach_flow", || qp.attach_flow(&FlowSpec::ANY), error);
    let mut qp = a.qp(QpType::RawPacket, cq, cq, None, CAP);
    let error = out_of_range(Argument::Vlan, 4095u32, 4094u32);
    judge.refuses("attach_flow", || qp.attach_flow(&FlowSpec::ANY.vlan(4095)), error);
    judge.refuses("detach_flow", || qp.detach_flow(&FlowSpec::ANY), Error::NotAttached);
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        let attr = QpAttr::to(state);
        qp.modify(&if state == QpState::Init { attr.port(PORT) } else { attr }).unwrap();
    }
    let mr = a.mr(64);
    let sges = [mr.sge(0..13).unwrap()];
    let wr = SendWr::new(SendOp::Send, &sges);
    judge.refuses("push_send", || qp.push_send(&wr), PostError::FrameTooShort { min: 14 });
}
