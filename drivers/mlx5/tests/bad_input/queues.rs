//! Completion queues, shared receive queues, and those of XRC.

use super::{Judge, out_of_range};
use crate::bench::pair::*;
use bareverbs::*;
use bareverbs_model_mlx5::eq::Event as Raised;
use std::time::Duration;

pub fn completion_queues(judge: &mut Judge, pair: &Pair) {
    let device = &pair.a.device;
    let attr = device.attributes();
    let (max, vectors) = (attr.max_cqe, attr.num_comp_vectors);
    let create = |entries, comp_vector| device.create_cq(&CqInit { entries, comp_vector, ..CqInit::default() });
    let mut cq = pair.a.cq(7);
    for entries in [0, max + 1, u32::MAX] {
        let error = out_of_range(Argument::CqEntries, entries, max);
        judge.refuses("create_cq", || create(entries, 0), error);
        judge.refuses("resize_cq", || cq.resize(entries), error);
    }
    for vector in [vectors, u32::MAX] {
        judge.refuses("create_cq", || create(1, vector), out_of_range(Argument::CompVector, vector, vectors - 1));
    }
    let error = out_of_range(Argument::ModerationPeriod, 4096u32, 4095u32);
    judge.refuses("moderate", || cq.moderate(1, Duration::from_micros(4096)), error);
    judge.refuses("moderate", || cq.moderate(1, Duration::from_nanos(4_095_001)), error);
    let error = out_of_range(Argument::ModerationPeriod, u64::MAX, 4095u32);
    judge.refuses("moderate", || cq.moderate(1, Duration::MAX), error);
    let channel = pair.b.device.create_comp_channel().unwrap();
    let foreign = || device.create_cq_on(&channel, &CqInit { entries: 1, ..CqInit::default() });
    judge.refuses("create_cq_on", foreign, Error::Foreign(Object::Channel));
    let channel = device.create_comp_channel().unwrap();
    let on = device.create_cq_on(&channel, &CqInit { entries: 1, ..CqInit::default() }).unwrap();
    judge.refuses("destroy_channel", move || channel.destroy(), Error::Busy { holders: 1 });
    drop(on);
    for n in [1, u32::MAX] {
        judge.refuses("ack_events", || cq.ack_events(n), out_of_range(Argument::CqEvents, n, 0u32));
    }
    let qp = pair.a.qp(QpType::Rc, &cq, &cq, None, CAP);
    judge.refuses("destroy_cq", move || cq.destroy(), Error::Busy { holders: 1 });
    drop(qp);
}

/// A CQ with completions that nobody polled.
pub fn shrinking(judge: &mut Judge, pair: &Pair) {
    let (mut cq, peer_cq) = (pair.a.cq(15), pair.b.cq(15));
    let mut qp = pair.a.qp(QpType::Rc, &cq, &cq, None, CAP);
    let mut peer = pair.b.qp(QpType::Rc, &peer_cq, &peer_cq, None, CAP);
    pair.connect(&mut qp, &mut peer);
    let (from, to) = (pair.a.mr(64), pair.b.mr(64));
    let (sges, write) = ([from.sge(0..64).unwrap()], SendOp::Write { addr: to.iova(), rkey: to.rkey() });
    qp.post_send((0..5).map(|id| SendWr::new(write, &sges).wr_id(id).signaled())).unwrap();
    let until = pair.a.device.now() + Duration::from_millis(10);
    while pair.a.device.now() < until {
        pair.a.device.relax();
    }
    judge.refuses("resize_cq", || cq.resize(1), Error::BelowUnpolled { unpolled: 5 });
    judge.refuses("resize_cq", || cq.resize(3), Error::BelowUnpolled { unpolled: 5 });
    assert_eq!(poll(&pair.a.device, &mut cq, 5).len(), 5);
}

/// A CQ that the device has told to have failed.
pub fn failed(judge: &mut Judge, pair: &Pair) {
    let a = &pair.a;
    let mut cq = a.cq(7);
    let (xrcd, good) = (a.device.open_xrcd().unwrap(), a.cq(7));
    let attr = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
    let init = XrcSrqInit { attr, context: 0, xrcd: &xrcd, cq: &cq };
    let mut srq = a.device.create_xrc_srq(&a.pd, &init).unwrap();
    let mut qp = a.qp(QpType::Rc, &cq, &cq, None, CAP);
    let mut window = a.device.alloc_window(&a.pd, WindowKind::One).unwrap();
    let mut region = a.device.alloc_fast_region(&a.pd, 1).unwrap();
    a.model.raise(Raised::CqError(cq.cqn().get(), 1));
    wait(&a.device, "the CQ's end", || (a.device.service().unwrap() == Some(Event::CqError(cq.cqn()))).then_some(()));
    let error = Error::CqError;
    judge.refuses("create_xrc_srq", || a.device.create_xrc_srq(&a.pd, &init), error);
    for [send_cq, recv_cq] in [[&cq, &good], [&good, &cq]] {
        let kind = QpType::Rc;
        let init = QpInit { kind, send_cq, recv_cq, srq: None, cap: CAP, signal_all: false, context: 0 };
        judge.refuses("create_qp", || a.device.create_qp(&a.pd, &init), error);
    }
    let (none, error) = (SendFlags::empty(), PostError::CqError);
    judge.refuses("push_send", || qp.push_send(&SendWr::new(SendOp::Send, &[])), error);
    judge.refuses("push_recv", || qp.push_recv(&RecvWr::new(0, &[])), error);
    judge.refuses("push_bind", || qp.push_bind(&mut window, &Bind::NOTHING, 0, none), error);
    let init = FastInit { elements: &[], iova: 0, access: Access::empty() };
    judge.refuses("push_register", || qp.push_register(&mut region, &init, 0, none), error);
    judge.refuses("push_srq", || srq.push(&RecvWr::new(0, &[])), error);
    drop((qp, srq));
    judge.refuses("resize_cq", || cq.resize(15), Error::CqError);
    judge.refuses("poll", || cq.poll(&mut [Completion::default()]), PollError::CqError);
    judge.refuses("request_notify", || cq.request_notify(Notify::Any), Error::CqError);
    judge.refuses("moderate", || cq.moderate(1, Duration::ZERO), Error::CqError);
}

pub fn shared_receive_queues(judge: &mut Judge, pair: &Pair) {
    let (device, pd) = (&pair.a.device, &pair.a.pd);
    let attr = device.attributes();
    let init = |max_wr, max_sge| SrqAttr { max_wr, max_sge, limit: 0 };
    let error = Error::Foreign(Object::Pd);
    judge.refuses("create_srq", || device.create_srq(&pair.b.pd, init(4, 1)), error);
    for max_wr in [0, attr.max_srq_wr + 1, u32::MAX] {
        let error = out_of_range(Argument::SrqEntries, max_wr, attr.max_srq_wr);
        judge.refuses("create_srq", || device.create_srq(pd, init(max_wr, 1)), error);
    }
    for max_sge in [0, attr.max_srq_sge + 1, u32::MAX] {
        let error = out_of_range(Argument::SrqSge, max_sge, attr.max_srq_sge);
        judge.refuses("create_srq", || device.create_srq(pd, init(4, max_sge)), error);
    }
    let mut srq = device.create_srq(pd, init(3, 1)).unwrap();
    let size = srq.query().unwrap();
    let error = out_of_range(Argument::SrqLimit, size.max_wr + 1, size.max_wr);
    judge.refuses("set_limit", || srq.set_limit(size.max_wr + 1), error);
    judge.refuses("resize_srq", || srq.resize(100), Error::Unsupported("resizing an SRQ"));
    let mr = pair.a.mr(64);
    let many = vec![mr.sge(0..8).unwrap(); size.max_sge as usize + 1];
    judge.refuses("push_srq", || srq.push(&RecvWr::new(0, &many)), PostError::TooManySge { max: size.max_sge });
    // SAFETY: the element is refused; nobody reads it.
    let huge = [unsafe { Sge::from_raw(mr.iova(), 1 << 31, mr.lkey()) }];
    let error = PostError::MessageTooLong { max: (1 << 31) - 1 };
    judge.refuses("push_srq", || srq.push(&RecvWr::new(0, &huge)), error);
    srq.post((0..u64::from(size.max_wr)).map(|id| RecvWr::new(id, &many[..1]))).unwrap();
    judge.refuses("push_srq", || srq.push(&RecvWr::new(0, &many[..1])), PostError::QueueFull);
    let cq = pair.a.cq(7);
    let qp = pair.a.qp(QpType::Rc, &cq, &cq, Some(&srq), CAP);
    judge.refuses("destroy_srq", move || srq.destroy(), Error::Busy { holders: 1 });
    drop(qp);
}

pub fn extended_connections(judge: &mut Judge, pair: &Pair) {
    let (a, b) = (&pair.a, &pair.b);
    let (xrcd, foreign) = (a.device.open_xrcd().unwrap(), b.device.open_xrcd().unwrap());
    let (cq, foreign_cq) = (a.cq(7), b.cq(7));
    let mut attempt = |pd, xrcd, cq, attr, error: Error| {
        let init = XrcSrqInit { attr, context: 0, xrcd, cq };
        judge.refuses("create_xrc_srq", || a.device.create_xrc_srq(pd, &init), error);
    };
    let right = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
    attempt(&b.pd, &xrcd, &cq, right, Error::Foreign(Object::Pd));
    attempt(&a.pd, &foreign, &cq, right, Error::Foreign(Object::Xrcd));
    attempt(&a.pd, &xrcd, &foreign_cq, right, Error::Foreign(Object::Cq));
    let max = a.device.attributes().max_srq_wr;
    let error = out_of_range(Argument::SrqEntries, max + 1, max);
    attempt(&a.pd, &xrcd, &cq, SrqAttr { max_wr: max + 1, ..right }, error);
    let max = a.device.attributes().max_srq_sge;
    let error = out_of_range(Argument::SrqSge, max + 1, max);
    attempt(&a.pd, &xrcd, &cq, SrqAttr { max_sge: max + 1, ..right }, error);
    let error = Error::Foreign(Object::Xrcd);
    judge.refuses("create_xrc_target", || a.device.create_xrc_target(&foreign, 0), error);
    let srq = a.device.create_xrc_srq(&a.pd, &XrcSrqInit { attr: right, context: 0, xrcd: &xrcd, cq: &cq }).unwrap();
    let error = Error::Busy { holders: 1 };
    judge.refuses("destroy_xrcd", || xrcd.destroy(), error);
    judge.refuses("destroy_cq", || cq.destroy(), error);
    drop(srq);
}
