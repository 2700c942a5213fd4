//! Attributes of queue pairs: each reads as it was set, and does what it says.

use super::{
    Case, Outcome,
    lab::{Lab, Setup},
    modify::{kinds, steps},
    must,
};
use crate::connect::{self, Connection};
use alloc::{vec, vec::Vec};
use bareverbs::{
    Access, Device, MemoryRegion, Mtu, Psn, QpAttr, QpAttrMask, QpState, QpType, Qpn, QueuePair, RetryCount, SendOp,
    WcStatus,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        must(
            "query_tells_what_was_set",
            "ibv_query_qp",
            "each attribute reads as it was set, in every state from then on, for every type; depths also of 0, 3 and the most",
            query,
        ),
        must(
            "modify_depth_0_answers_no_reads",
            "IBA 9.7.4.1.2; ibv_modify_qp",
            "a responder of depth 0 refuses READs, also after it was given the right to them",
            depth_0,
        ),
    ]
}

/// The attributes of a mask are the same in both.
fn compare(q: &QpAttr, set: &QpAttr, when: &str) -> Outcome {
    use QpAttrMask as M;
    macro_rules! same {
        ($($bit:ident: $($field:ident).+),*) => {
            $(if set.mask.contains(M::$bit) {
                ensure_eq!(q.$($field).+, set.$($field).+, "{:?} {when}", M::$bit);
            })*
        };
    }
    same!(PORT: port, PKEY_INDEX: pkey_index, QKEY: qkey, AV: av.dlid, AV: av.port, AV: av.sl, AV: av.grh);
    same!(PATH_MTU: path_mtu, DEST_QPN: dest_qpn, RQ_PSN: rq_psn, MIN_RNR_TIMER: min_rnr_timer, SQ_PSN: sq_psn);
    same!(MAX_DEST_RD_ATOMIC: max_dest_rd_atomic, MAX_QP_RD_ATOMIC: max_rd_atomic, TIMEOUT: timeout);
    same!(RETRY_CNT: retry_cnt, RNR_RETRY: rnr_retry);
    if set.mask.contains(M::ACCESS_FLAGS) {
        // What this side may do with its own memory is no attribute of the device.
        let remote = |access: Access| access.difference(Access::LOCAL_WRITE);
        ensure_eq!(remote(q.access), remote(set.access), "access {when}");
    }
    Ok(())
}

fn query<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cq = lab.cq(0, 7)?;
    let max = lab.devices[0].attributes();
    let few = RetryCount::new(5).unwrap_or(RetryCount::MAX);
    for kind in kinds(lab) {
        let mut qp = lab.qp_of_any_type(0, kind, &cq)?;
        let reads = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let access = if kind == QpType::Uc { Access::REMOTE_WRITE } else { reads };
        for depth in [0, 1, 3, u8::MAX] {
            let mut set: Vec<QpAttr> = Vec::new();
            for (_, attr) in steps(lab, kind, Qpn::new(0x12_3456))? {
                let odd = QpAttr {
                    access,
                    path_mtu: Mtu::B512,
                    rq_psn: Psn::new(0x65_4321),
                    sq_psn: Psn::new(0xab_cdef),
                    retry_cnt: few,
                    rnr_retry: few,
                    max_dest_rd_atomic: depth.min(max.max_qp_rd_atom),
                    max_rd_atomic: depth.min(max.max_qp_init_rd_atom),
                    ..attr
                };
                qp.modify(&odd)?;
                set.push(odd);
                let q = qp.query()?;
                ensure_eq!((q.state, q.cap), (odd.state, qp.cap()), "state and sizes of {kind:?}");
                for set in &set {
                    compare(&q, set, &alloc::format!("of {kind:?} to {}, in {}, depth {depth}", set.state, q.state))?;
                }
            }
            qp.modify(&QpAttr::to(QpState::Reset))?;
        }
    }
    Ok(())
}

fn depth_0<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let s = Setup::of(QpType::Rc);
    let (mut a, mut b) = (lab.end(0, &s)?, lab.end(1, &s)?);
    let c = Connection { rd_atomic: 0, ..Connection::default() };
    let [there, back] =
        [connect::path(&lab.devices[0], &lab.devices[1])?, connect::path(&lab.devices[1], &lab.devices[0])?];
    let rights = Access::REMOTE_READ | Access::REMOTE_WRITE;
    for again in [false, true] {
        for qp in [&mut a.qp, &mut b.qp] {
            qp.modify(&QpAttr::to(QpState::Reset))?;
            connect::to_init(qp, c.access)?;
        }
        connect::to_rtr(&mut a.qp, &b.qp, there, &Connection::default(), 0)?;
        connect::to_rtr(&mut b.qp, &a.qp, back, &c, 1)?;
        connect::to_rts(&mut a.qp, &Connection::default(), 0)?;
        connect::to_rts(&mut b.qp, &c, 1)?;
        if again {
            b.qp.modify(&QpAttr::to(QpState::Rts).access(rights))?;
            ensure_eq!(b.qp.query()?.access, rights, "the rights");
        }
        a.signaled(1, b.write_here(0), 0..8)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "a write");
        let (addr, rkey) = (b.mr.iova(), b.mr.rkey());
        a.signaled(2, SendOp::Read { addr, rkey }, 0..8)?;
        let done = lab.one(&mut a.send_cq)?;
        ensure!(
            matches!(done.status, WcStatus::RemoteAccess | WcStatus::RemoteInvalidRequest),
            "a READ that is not answered: {done:?}"
        );
    }
    Ok(())
}
