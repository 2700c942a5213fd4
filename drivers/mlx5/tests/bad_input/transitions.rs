//! Attribute masks and states of QPs of all types: whatever the table of transitions does not have.

use super::Judge;
use crate::bench::pair::*;
use bareverbs::{QpState::*, qp::TRANSITIONS, *};

const KINDS: [QpType; 6] = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcIni, QpType::XrcTgt, QpType::RawPacket];

/// Each attribute that a step needs left out, each that it does not take put in, and all states that it does not lead to.
pub fn case_31_which_attribute(judge: &mut Judge, pair: &Pair) {
    let cq = pair.a.cq(7);
    let xrcd = pair.a.device.open_xrcd().unwrap();
    let good = rtr_attr(QpType::Rc, pair.b.address(), Qpn::new(0x123)).port(PORT).pkey_index(0).qkey(Qkey(0x1111));
    let rts = rts_attr(QpType::Rc);
    let good = good.access(Access::REMOTE_READ).sq_psn(rts.sq_psn).timeout(rts.timeout).max_rd_atomic(1);
    let good = good.retry_cnt(RetryCount::MAX).rnr_retry(RetryCount::MAX);
    for kind in KINDS.into_iter().filter(|kind| pair.a.device.attributes().has(*kind)) {
        let mut qp = match kind {
            QpType::XrcTgt => pair.a.device.create_xrc_target(&xrcd, 0).unwrap(),
            _ => pair.a.qp(kind, &cq, &cq, None, CAP),
        };
        let known = |from, to| TRANSITIONS.iter().find(|t| (t.from, t.to) == (from, to) && t.kinds.contains(&kind));
        for (from, to) in [(Reset, Init), (Init, Rtr), (Rtr, Rts)] {
            let step = known(from, to).expect("the way to RTS");
            let mask = step.required | QpAttrMask::STATE;
            let attr = |mask| QpAttr { state: to, mask, ..good };
            for bit in QpAttrMask::all().difference(QpAttrMask::STATE) {
                if step.required.contains(bit) {
                    let error = Error::MissingAttribute { missing: bit, from, to };
                    judge.refuses("modify", || qp.modify(&attr(mask.difference(bit))), error);
                } else if !step.optional.contains(bit) {
                    let error = Error::ForbiddenAttribute { forbidden: bit, from, to };
                    judge.refuses("modify", || qp.modify(&attr(mask.union(bit))), error);
                }
            }
            // RESET and ERR can be reached from everywhere.
            for other in [Init, Rtr, Rts, Sqd, Sqe] {
                if known(from, other).is_none() {
                    let error = Error::NoSuchTransition { kind, from, to: other };
                    judge.refuses("modify", || qp.modify(&QpAttr::to(other)), error);
                }
            }
            assert_eq!(qp.state(), from, "{kind:?}");
            qp.modify(&attr(mask)).unwrap();
        }
    }
}
