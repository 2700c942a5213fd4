//! What arrives through a shared receive queue.
#![allow(clippy::single_range_in_vec_init, reason = "a list of one scatter range")]

use super::{
    Case, Outcome,
    lab::{CAP, Lab, Mr, Setup, ids},
    must,
};
use alloc::{vec, vec::Vec};
use bareverbs::{
    CompletionQueue, Destroy, Device, MemoryRegion, QpInit, QpState, QpType, QueuePair, RecvWr, SendOp, SendWr,
    SharedReceiveQueue, WcOpcode, WcStatus,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        must("srq_post_of_an_empty_list", "ibv_post_srq_recv", "a list of nothing posts nothing", empty_list),
        must(
            "srq_ids_are_the_user_s",
            "ibv_post_srq_recv",
            "any 64-bit id of a request comes back in its completion",
            any_id,
        ),
        must(
            "srq_scatters_in_order",
            "ibv_post_srq_recv",
            "a message fills the request's elements in order, as far as it goes, and nothing else",
            scatter,
        ),
        must(
            "srq_requests_without_elements",
            "ibv_post_srq_recv",
            "a request without elements takes a message of no bytes",
            no_elements,
        ),
        must(
            "srq_a_write_with_immediate_takes_a_request",
            "ibv_post_srq_recv; ibv_post_send",
            "its completion tells the immediate data and the bytes written; the request's buffer stays as it is",
            immediate,
        ),
        must(
            "srq_a_message_too_long_for_its_request",
            "ibv_post_srq_recv; IBA 9.7.5.2.4",
            "the QP that got it fails with a length error, and the request is spent; the SRQ's other QP goes on",
            too_long,
        ),
        must(
            "srq_buffers_may_be_used_again",
            "ibv_post_srq_recv",
            "once a request's completion was polled its buffer serves the next request, lap after lap",
            reuse,
        ),
        must(
            "srq_receives_into_its_own_domain",
            "ibv_create_srq",
            "buffers are of the SRQ's protection domain, whatever the QP's is; into another's a receive fails by name",
            own_domain,
        ),
        must(
            "srq_goes_with_its_requests",
            "ibv_destroy_srq",
            "an SRQ with requests posted and its limit armed goes without a completion or an event; another one goes on",
            goes,
        ),
    ]
}

/// An SRQ on device 1 and QPs that receive from it, each with a peer on device 0.
struct Shared<D: Device> {
    srq: D::Srq,
    cq: D::Cq,
    send_cq: D::Cq,
    /// Receivers and their senders.
    pairs: Vec<(D::Qp, D::Qp)>,
    to: Mr<D>,
    from: Mr<D>,
}

impl<D: Device> Shared<D> {
    fn new(lab: &mut Lab<D>, qps: usize) -> Outcome<Self> {
        let srq = lab.srq(1, 7)?;
        let (cq, send_cq) = (lab.cq(1, 63)?, lab.cq(0, 63)?);
        let mut pairs = Vec::new();
        for _ in 0..qps {
            let mut receiver = lab.qp(1, QpType::Rc, [&cq, &cq], Some(&srq), CAP)?;
            let mut sender = lab.qp(0, QpType::Rc, [&send_cq, &send_cq], None, CAP)?;
            lab.connect(&mut sender, &mut receiver)?;
            pairs.push((receiver, sender));
        }
        Ok(Self { srq, cq, send_cq, pairs, to: lab.mr(1, 1 << 12)?, from: lab.mr(0, 1 << 12)? })
    }

    fn post(&mut self, id: u64, ranges: &[core::ops::Range<usize>]) -> Outcome {
        let sges = ranges.iter().map(|range| self.to.sge(range.clone())).collect::<Result<Vec<_>, _>>()?;
        Ok(self.srq.post([RecvWr::new(id, &sges)])?)
    }

    /// Sends the first bytes of the source; the status of the request.
    fn send(&mut self, lab: &Lab<D>, pair: usize, op: SendOp, len: usize) -> Outcome<WcStatus> {
        let sges = [self.from.sge(0..len)?];
        self.pairs[pair].1.post_send([SendWr::new(op, if len > 0 { &sges } else { &[] }).signaled()])?;
        Ok(lab.one(&mut self.send_cq)?.status)
    }

    fn bytes(&self, range: core::ops::Range<usize>) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0; range.len()];
        self.to.read(range.start, &mut bytes)?;
        Ok(bytes)
    }
}

fn empty_list<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut s = Shared::new(lab, 1)?;
    let none: [RecvWr<'_>; 0] = [];
    ensure_eq!(s.srq.post(none), Ok(()), "a list of nothing");
    s.post(5, &[0..64])?;
    ensure_eq!(s.srq.post(none), Ok(()), "a list of nothing");
    ensure_eq!(s.send(lab, 0, SendOp::Send, 8)?, WcStatus::Success, "the send");
    ensure_eq!(lab.one(&mut s.cq)?.wr_id, 5, "the one request");
    lab.nothing(&mut s.cq)
}

fn any_id<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut s = Shared::new(lab, 1)?;
    let wanted = [0, u64::MAX, 1 << 63, 0xffff_ffff, 0x1234_5678_9abc_def0];
    for id in wanted {
        s.post(id, &[0..64])?;
    }
    for _ in wanted {
        ensure_eq!(s.send(lab, 0, SendOp::Send, 8)?, WcStatus::Success, "the send");
    }
    ensure_eq!(ids(&lab.poll(&mut s.cq, wanted.len())?), wanted, "the ids");
    Ok(())
}

fn scatter<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut s = Shared::new(lab, 1)?;
    let data: Vec<u8> = (1..=100).collect();
    s.from.write(0, &data)?;
    s.to.write(0, &[0xee; 1024])?;
    s.post(1, &[600..630, 100..200])?;
    ensure_eq!(s.send(lab, 0, SendOp::Send, 100)?, WcStatus::Success, "the send");
    ensure_eq!(lab.one(&mut s.cq)?.byte_len, 100, "the bytes told");
    ensure_eq!(s.bytes(600..630)?, data[..30], "the first element");
    ensure_eq!(s.bytes(100..170)?, data[30..], "the second element");
    for range in [0..100, 170..600, 630..1024] {
        ensure!(s.bytes(range.clone())?.iter().all(|b| *b == 0xee), "{range:?} was written");
    }
    Ok(())
}

fn no_elements<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut s = Shared::new(lab, 1)?;
    s.post(1, &[])?;
    s.post(2, &[0..8])?;
    for id in [1, 2] {
        ensure_eq!(s.send(lab, 0, SendOp::Send, 0)?, WcStatus::Success, "the send");
        let done = lab.one(&mut s.cq)?;
        ensure_eq!((done.wr_id, done.status, done.byte_len), (id, WcStatus::Success, 0), "the receive");
    }
    Ok(())
}

fn immediate<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut s = Shared::new(lab, 1)?;
    s.from.write(0, &[7; 50])?;
    s.to.write(0, &[0xee; 1024])?;
    s.post(9, &[0..100])?;
    let op = SendOp::WriteImm { addr: s.to.iova() + 512, rkey: s.to.rkey(), imm: 0xcafe };
    ensure_eq!(s.send(lab, 0, op, 50)?, WcStatus::Success, "the write");
    let done = lab.one(&mut s.cq)?;
    ensure_eq!((done.wr_id, done.opcode, done.byte_len), (9, WcOpcode::RecvWriteImm, 50), "the receive");
    ensure_eq!(done.immediate(), Some(0xcafe), "the immediate data");
    ensure_eq!(s.bytes(512..562)?, [7; 50], "what was written");
    ensure!(s.bytes(0..100)?.iter().all(|b| *b == 0xee), "the request's buffer was written");
    Ok(())
}

fn too_long<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut s = Shared::new(lab, 2)?;
    s.post(1, &[0..8])?;
    s.post(2, &[64..128])?;
    ensure_eq!(s.send(lab, 0, SendOp::Send, 9)?, WcStatus::RemoteInvalidRequest, "the send");
    let done = lab.one(&mut s.cq)?;
    ensure_eq!((done.wr_id, done.status), (1, WcStatus::LocalLength), "the receive");
    ensure_eq!(done.qpn, s.pairs[0].0.qpn(), "its QP");
    ensure_eq!(s.pairs[0].0.query()?.state, QpState::Err, "the QP's state");
    ensure_eq!(s.send(lab, 1, SendOp::Send, 9)?, WcStatus::Success, "a send to the other QP");
    let done = lab.one(&mut s.cq)?;
    ensure_eq!((done.wr_id, done.status, done.byte_len), (2, WcStatus::Success, 9), "the other QP's receive");
    lab.nothing(&mut s.cq)
}

fn reuse<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut s = Shared::new(lab, 1)?;
    for n in 0..40u8 {
        s.from.write(0, &[n; 100])?;
        s.post(n.into(), &[0..100])?;
        ensure_eq!(s.send(lab, 0, SendOp::Send, 100)?, WcStatus::Success, "the send");
        ensure_eq!(lab.one(&mut s.cq)?.wr_id, n.into(), "the receive");
        ensure_eq!(s.bytes(0..100)?, [n; 100], "lap {n}");
    }
    // The same holds for receives of a QP's own.
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    for n in 0..40u8 {
        a.mr.write(0, &[n; 100])?;
        b.recv(n.into(), 0..100)?;
        a.signaled(0, SendOp::Send, 0..100)?;
        ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, n.into(), "the receive");
        ensure_eq!(b.bytes(0..100)?, [n; 100], "lap {n} without an SRQ");
        lab.one(&mut a.send_cq)?;
    }
    let mut none = [bareverbs::Completion::default()];
    ensure_eq!(s.cq.poll(&mut none), Ok(0), "a poll behind it");
    Ok(())
}

fn own_domain<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut s = Shared::new(lab, 1)?;
    // The SRQ's domain and the QP's are two; a buffer of each.
    let theirs = lab.devices[1].alloc_pd()?;
    let init = QpInit {
        kind: QpType::Rc,
        send_cq: &s.cq,
        recv_cq: &s.cq,
        srq: Some(&s.srq),
        cap: CAP,
        signal_all: false,
        context: 0,
    };
    let mut receiver = lab.devices[1].create_qp(&theirs, &init)?;
    let mut sender = lab.qp(0, QpType::Rc, [&s.send_cq, &s.send_cq], None, CAP)?;
    lab.connect(&mut sender, &mut receiver)?;
    s.pairs.push((receiver, sender));
    let memory = lab.memory(64)?;
    let access = lab.all_access();
    let buffer = lab.devices[1].register(&theirs, memory, access)?;

    s.from.write(0, b"its own.")?;
    s.post(1, &[0..64])?;
    ensure_eq!(s.send(lab, 1, SendOp::Send, 8)?, WcStatus::Success, "the send into the SRQ's domain");
    let done = lab.one(&mut s.cq)?;
    ensure_eq!((done.wr_id, done.status, done.byte_len), (1, WcStatus::Success, 8), "the receive");
    ensure_eq!(s.bytes(0..8)?, b"its own.", "the data");

    s.srq.post([RecvWr::new(2, &[buffer.sge(0..64)?])])?;
    ensure_eq!(s.send(lab, 1, SendOp::Send, 8)?, WcStatus::RemoteOperation, "the send into the QP's domain");
    let done = lab.one(&mut s.cq)?;
    ensure_eq!((done.wr_id, done.status), (2, WcStatus::LocalProtection), "the receive");
    let mut bytes = [1; 8];
    buffer.read(0, &mut bytes)?;
    ensure!(&bytes != b"its own.", "the data went where they must not");
    // The SRQ's other QP goes on.
    s.post(3, &[0..64])?;
    ensure_eq!(s.send(lab, 0, SendOp::Send, 8)?, WcStatus::Success, "the send of the other QP");
    ensure_eq!(lab.one(&mut s.cq)?.wr_id, 3, "the receive of the other QP");
    Ok(())
}

fn goes<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut s = Shared::new(lab, 1)?;
    s.post(1, &[0..64])?;
    for round in 0..4 {
        let mut srq = lab.srq(1, 7)?;
        let attr = srq.query()?;
        let sges = [s.to.sge(64..128)?];
        srq.post((0..u64::from(attr.max_wr)).map(|id| RecvWr::new(id, &sges)))?;
        srq.set_limit(round % 3)?;
        srq.destroy()?;
        lab.nothing(&mut s.cq)?;
        lab.no_event(1)?;
    }
    ensure_eq!(s.send(lab, 0, SendOp::Send, 8)?, WcStatus::Success, "the send");
    ensure_eq!(lab.one(&mut s.cq)?.wr_id, 1, "the receive of the SRQ that stayed");
    Ok(())
}
