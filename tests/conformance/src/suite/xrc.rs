//! Extended reliable connections: domains, their SRQs, sending and receiving ends.

use super::{
    Case, Outcome, Stop,
    lab::{CAP, Lab, Mr, ids},
    may,
};
use crate::connect::{self, Connection};
use alloc::{vec, vec::Vec};
use bareverbs::{
    CompletionQueue, Destroy, Device, Error, Event, MemoryRegion, Notify, Object, PostError, QpAttr, QpAttrMask,
    QpState, QpType, QueuePair, RecvWr, SendFlags, SendOp, SendWr, SharedReceiveQueue, SrqAttr, Srqn, WcOpcode,
    WcStatus, XrcSrqInit,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        may(
            "xrc_the_sender_names_the_srq",
            "IBA A14.5; ibv_create_srq_ex",
            "messages of one connection go to the SRQs that they name, and complete to those SRQs' CQs with the number of the receiving QP",
            names_the_srq,
        ),
        may(
            "xrc_several_senders_on_one_srq",
            "IBA A14.5",
            "target QPs of a domain share its SRQs; slots come back through the SRQ's CQ",
            several_senders,
        ),
        may(
            "xrc_writes_reads_and_atomics",
            "IBA A14.5.2",
            "other operations name an SRQ too, in whose protection domain the keys are",
            other_operations,
        ),
        may(
            "xrc_requests_need_an_srq",
            "ibv_post_send",
            "a request that names no SRQ is refused on an XRC QP, one that names one on any other",
            destination,
        ),
        may(
            "xrc_srq_of_another_domain",
            "IBA A14.5.4.3",
            "a message to an SRQ that is not of the target's domain is an invalid request",
            other_domain,
        ),
        may(
            "xrc_transitions_have_rows_of_their_own",
            "ibv_modify_qp",
            "each end requires the attributes of its own half of the connection, and none of the other's",
            transitions,
        ),
        may(
            "xrc_ends_have_no_receives_of_their_own",
            "ibv_create_qp_ex",
            "neither end takes receives, the target takes no sends",
            no_receives,
        ),
        may(
            "xrc_receiver_not_ready",
            "IBA 9.7.5.2.8",
            "a message to an SRQ without a request waits until one is posted",
            not_ready,
        ),
        may(
            "xrc_message_too_long",
            "IBA 9.7.5.2.5",
            "a receive that is too short fails in the SRQ's CQ, its slot comes back, and the sender is told",
            too_long,
        ),
        may("xrc_srq_limit", "ibv_modify_srq", "the limit of an XRC SRQ fires once and reads 0 afterwards", limit),
        may(
            "xrc_solicited_notification",
            "ibv_req_notify_cq",
            "the solicited bit of an XRC message counts at the SRQ's CQ",
            notification,
        ),
        may(
            "xrc_srq_takes_its_completions_along",
            "ibv_destroy_srq",
            "a destroyed XRC SRQ leaves no completion behind; a destroyed target leaves those that came",
            completions_go,
        ),
        may(
            "xrc_domain_is_busy",
            "ibv_close_xrcd; ibv_destroy_cq",
            "a domain with an SRQ or a target is busy, and so is the CQ of its SRQ",
            busy,
        ),
        may("xrc_of_another_device", "ibv_create_srq_ex", "domain, CQ and PD are those of the device", foreign),
    ]
}

/// A sender on device 0; on device 1 a domain with a target and an SRQ, whose CQ is its own.
struct Xrc<D: Device> {
    sender: D::Qp,
    send_cq: D::Cq,
    source: Mr<D>,
    target: D::Qp,
    srq: D::Srq,
    cq: D::Cq,
    sink: Mr<D>,
    xrcd: D::Xrcd,
}

impl<D: Device> Xrc<D> {
    fn new(lab: &mut Lab<D>) -> Outcome<Self> {
        let xrcd = lab.devices[1].open_xrcd()?;
        let cq = lab.cq(1, 63)?;
        let srq = srq(lab, &xrcd, &cq)?;
        let (sender, send_cq, target) = connection(lab, &xrcd)?;
        let (source, sink) = (lab.mr(0, 1 << 14)?, lab.mr(1, 1 << 14)?);
        Ok(Self { sender, send_cq, source, target, srq, cq, sink, xrcd })
    }

    /// Posts a signaled request of the first bytes of the source.
    fn post(&mut self, wr_id: u64, op: SendOp, len: usize) -> Outcome {
        let sges = [self.source.sge(0..len)?];
        Ok(self.sender.post_send([SendWr::new(op, &sges).wr_id(wr_id).signaled().to_srq(self.srq.srqn())])?)
    }

    /// Posts a receive into a part of the sink.
    fn recv(&mut self, wr_id: u64, at: usize, len: usize) -> Outcome {
        Ok(self.srq.post([RecvWr::new(wr_id, &[self.sink.sge(at..at + len)?])])?)
    }
}

fn srq<D: Device>(lab: &Lab<D>, xrcd: &D::Xrcd, cq: &D::Cq) -> Outcome<D::Srq> {
    let attr = SrqAttr { max_wr: 15, max_sge: 2, limit: 0 };
    Ok(lab.devices[1].create_xrc_srq(&lab.pds[1], &XrcSrqInit { attr, context: 0, xrcd, cq })?)
}

/// A sender, its CQ, and the target it is connected with.
fn connection<D: Device>(lab: &Lab<D>, xrcd: &D::Xrcd) -> Outcome<(D::Qp, D::Cq, D::Qp)> {
    let send_cq = lab.cq(0, 63)?;
    let mut sender = lab.qp(0, QpType::XrcIni, [&send_cq, &send_cq], None, CAP)?;
    let mut target = lab.devices[1].create_xrc_target(xrcd, 0)?;
    lab.connect(&mut sender, &mut target)?;
    Ok((sender, send_cq, target))
}

fn names_the_srq<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut x = Xrc::new(lab)?;
    let mut other_cq = lab.cq(1, 63)?;
    let mut other = srq(lab, &x.xrcd, &other_cq)?;
    let text: Vec<u8> = (0..3000u32).map(|i| i as u8 ^ 0x5a).collect();
    x.source.write(0, &text)?;
    for id in 0..4 {
        x.recv(10 + id, 0, 3000)?;
        other.post([RecvWr::new(20 + id, &[x.sink.sge(8192..8192 + 3000)?])])?;
    }
    // To one, the other, the other, one: the second pair with immediate data.
    let (one, two) = (x.srq.srqn(), other.srqn());
    for (n, srqn) in (0..).zip([one, two, two, one]) {
        let op = if n < 2 { SendOp::Send } else { SendOp::SendImm(100 + n) };
        let sges = [x.source.sge(0..1000 * (n as usize % 3 + 1))?];
        x.sender.post_send([SendWr::new(op, &sges).wr_id(n.into()).signaled().to_srq(srqn)])?;
    }
    ensure_eq!(ids(&lab.poll(&mut x.send_cq, 4)?), [0, 1, 2, 3], "the sends");
    for (cq, first, lens, imm) in [(&mut x.cq, 10, [1000, 1000], 103), (&mut other_cq, 20, [2000, 3000], 102)] {
        let got = lab.poll(cq, 2)?;
        ensure_eq!(ids(&got), [first, first + 1], "the receives");
        for (wc, len) in got.iter().zip(lens) {
            ensure_eq!((wc.status, wc.opcode, wc.byte_len), (WcStatus::Success, WcOpcode::Recv, len), "a receive");
            ensure_eq!(wc.qpn, x.target.qpn(), "the receiving QP");
        }
        ensure_eq!((got[0].immediate(), got[1].immediate()), (None, Some(imm)), "immediate data");
        lab.nothing(cq)?;
    }
    let mut bytes = vec![0; 3000];
    x.sink.read(8192, &mut bytes)?;
    ensure!(bytes == text, "the bytes are wrong");
    Ok(())
}

fn several_senders<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut x = Xrc::new(lab)?;
    let capacity = x.srq.query()?.max_wr;
    let (mut second, mut second_cq, target) = connection(lab, &x.xrcd)?;
    let sges = [x.source.sge(0..64)?];
    // Far more than the SRQ holds at once.
    for round in 0..4 * u64::from(capacity) {
        x.recv(round, 0, 64)?;
        let srqn = x.srq.srqn();
        let wr = SendWr::new(SendOp::Send, &sges).signaled().to_srq(srqn);
        let (sender, cq, qpn) = match round % 3 {
            0 => (&mut second, &mut second_cq, target.qpn()),
            _ => (&mut x.sender, &mut x.send_cq, x.target.qpn()),
        };
        sender.post_send([wr])?;
        lab.one(cq)?;
        let wc = lab.one(&mut x.cq)?;
        ensure_eq!((wc.wr_id, wc.qpn), (round, qpn), "receive and QP");
    }
    // All slots are there again.
    for id in 0..capacity {
        x.recv(id.into(), 0, 64)?;
    }
    let full = x.srq.push(&RecvWr::new(0, &[]));
    ensure_eq!(full, Err(PostError::QueueFull), "one more");
    Ok(())
}

fn other_operations<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut x = Xrc::new(lab)?;
    let (addr, rkey) = (x.sink.iova(), x.sink.rkey());
    x.source.write(0, &[0x11; 2000])?;
    x.post(1, SendOp::Write { addr, rkey }, 2000)?;
    x.recv(7, 4096, 8)?;
    x.post(2, SendOp::WriteImm { addr: addr + 4096, rkey, imm: 77 }, 100)?;
    let mut done = lab.poll(&mut x.send_cq, 2)?;
    let wc = lab.one(&mut x.cq)?;
    ensure_eq!((wc.wr_id, wc.opcode, wc.byte_len), (7, WcOpcode::RecvWriteImm, 100), "the receive");
    ensure_eq!((wc.immediate(), wc.qpn), (Some(77), x.target.qpn()), "immediate data and QP");
    x.source.write(0, &[0; 2000])?;
    x.post(3, SendOp::Read { addr, rkey }, 2000)?;
    done.extend(lab.poll(&mut x.send_cq, 1)?);
    let mut bytes = [0; 2000];
    x.source.read(0, &mut bytes)?;
    ensure!(bytes == [0x11; 2000], "the bytes that were read are wrong");
    if lab.devices[0].attributes().atomics {
        let offset = 8192 + (8 - addr as usize % 8) % 8;
        x.sink.write(offset, &5u64.to_ne_bytes())?;
        let addr = addr + offset as u64;
        x.post(4, SendOp::FetchAdd { addr, rkey, add: 3 }, 8)?;
        x.post(5, SendOp::CompareSwap { addr, rkey, compare: 8, swap: 21 }, 8)?;
        done.extend(lab.poll(&mut x.send_cq, 2)?);
        let mut words = [[0; 8]; 2];
        x.sink.read(offset, &mut words[0])?;
        x.source.read(0, &mut words[1])?;
        ensure_eq!(words.map(u64::from_ne_bytes), [21, 8], "the word and its old value");
    }
    ensure!(done.iter().all(|wc| wc.status == WcStatus::Success), "{done:?}");
    // A key of another protection domain is none of the SRQ's.
    let (pd, memory) = (lab.devices[1].alloc_pd()?, lab.memory(64)?);
    let hidden = lab.devices[1].register(&pd, memory, lab.all_access())?;
    x.post(6, SendOp::Write { addr: hidden.iova(), rkey: hidden.rkey() }, 8)?;
    ensure_eq!(lab.one(&mut x.send_cq)?.status, WcStatus::RemoteAccess, "another protection domain");
    Ok(())
}

fn destination<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut x = Xrc::new(lab)?;
    let sges = [x.source.sge(0..8)?];
    let wr = SendWr::new(SendOp::Send, &sges);
    ensure_eq!(x.sender.push_send(&wr), Err(PostError::Destination), "no SRQ");
    let (srqn, cq) = (x.srq.srqn(), lab.cq(0, 63)?);
    for kind in [QpType::Rc, QpType::Ud] {
        let mut end = lab.end(0, &super::lab::Setup::of(kind))?;
        connect::to_init(&mut end.qp, Connection::default().access)?;
        end.qp.modify(&QpAttr::to(QpState::Err))?;
        ensure_eq!(end.qp.push_send(&wr.to_srq(srqn)), Err(PostError::Destination), "an SRQ on {kind:?}");
    }
    cq.destroy()?;
    Ok(())
}

fn other_domain<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut x = Xrc::new(lab)?;
    let (xrcd, cq) = (lab.devices[1].open_xrcd()?, lab.cq(1, 63)?);
    let (elsewhere, common) = (srq(lab, &xrcd, &cq)?, lab.srq(1, 15)?);
    for srqn in [elsewhere.srqn(), common.srqn(), Srqn::new(0xab_cdef)] {
        let sges = [x.source.sge(0..8)?];
        x.sender.post_send([SendWr::new(SendOp::Send, &sges).signaled().to_srq(srqn)])?;
        ensure_eq!(lab.one(&mut x.send_cq)?.status, WcStatus::RemoteInvalidRequest, "SRQ {srqn}");
        ensure_eq!((x.sender.state(), x.target.query()?.state), (QpState::Err, QpState::Err), "the states");
        for qp in [&mut x.sender, &mut x.target] {
            qp.modify(&QpAttr::to(QpState::Reset))?;
        }
        lab.connect(&mut x.sender, &mut x.target)?;
        while lab.next_event(1)?.is_some() {}
    }
    // It goes on with its own.
    x.recv(5, 0, 8)?;
    x.post(6, SendOp::Send, 8)?;
    ensure_eq!(lab.one(&mut x.cq)?.wr_id, 5, "the receive");
    Ok(())
}

fn transitions<D: Device>(lab: &mut Lab<D>) -> Outcome {
    use QpAttrMask as M;
    let mut x = Xrc::new(lab)?;
    for qp in [&mut x.sender, &mut x.target] {
        qp.modify(&QpAttr::to(QpState::Reset))?;
        connect::to_init(qp, Connection::default().access)?;
        // What the other types need besides is no business of the sender's.
        let missing = match qp.kind() {
            QpType::XrcIni => M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN,
            _ => M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER,
        };
        let (from, to) = (QpState::Init, QpState::Rtr);
        ensure_eq!(qp.modify(&QpAttr::to(to)), Err(Error::MissingAttribute { missing, from, to }), "{:?}", qp.kind());
    }
    let path = connect::path(&lab.devices[0], &lab.devices[1])?;
    let back = connect::path(&lab.devices[1], &lab.devices[0])?;
    let c = Connection::default();
    connect::to_rtr(&mut x.sender, &x.target, path, &c, 0)?;
    connect::to_rtr(&mut x.target, &x.sender, back, &c, 1)?;
    for qp in [&mut x.sender, &mut x.target] {
        let (from, to) = (QpState::Rtr, QpState::Rts);
        let mut attr = QpAttr::to(to).sq_psn(c.psn[0]).timeout(c.timeout);
        let result = qp.modify(&attr.max_rd_atomic(1));
        match qp.kind() {
            QpType::XrcIni => {
                let missing = M::RETRY_CNT | M::RNR_RETRY;
                ensure_eq!(result, Err(Error::MissingAttribute { missing, from, to }), "the sender");
                attr = attr.max_rd_atomic(1).retry_cnt(c.retry_cnt).rnr_retry(c.rnr_retry);
            }
            _ => {
                let forbidden = M::MAX_QP_RD_ATOMIC;
                ensure_eq!(result, Err(Error::ForbiddenAttribute { forbidden, from, to }), "the target");
            }
        }
        qp.modify(&attr)?;
        let told = qp.query()?;
        ensure_eq!((told.state, told.timeout, told.sq_psn), (to, c.timeout, c.psn[0]), "what query tells");
    }
    ensure_eq!(x.target.query()?.dest_qpn, x.sender.qpn(), "the target's peer");
    Ok(())
}

fn no_receives<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut x = Xrc::new(lab)?;
    for qp in [&mut x.sender, &mut x.target] {
        ensure_eq!((qp.cap().max_recv_wr, qp.cap().max_recv_sge), (0, 0), "sizes of {:?}", qp.kind());
        ensure_eq!(qp.push_recv(&RecvWr::new(0, &[])), Err(PostError::QueueFull), "a receive on {:?}", qp.kind());
    }
    ensure_eq!(x.target.cap().max_send_wr, 0, "sends of the target");
    let result = x.target.push_send(&SendWr::new(SendOp::Send, &[]).to_srq(x.srq.srqn()));
    ensure_eq!(result, Err(PostError::QueueFull), "a send");
    let target = lab.devices[1].create_xrc_target(&x.xrcd, 0x1234_5678_9abc)?;
    ensure_eq!(
        (target.context(), target.kind(), target.state()),
        (0x1234_5678_9abc, QpType::XrcTgt, QpState::Reset),
        "it"
    );
    Ok(())
}

fn not_ready<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut x = Xrc::new(lab)?;
    x.post(1, SendOp::Send, 64)?;
    lab.nothing(&mut x.send_cq)?;
    x.recv(2, 0, 64)?;
    ensure_eq!(lab.one(&mut x.cq)?.wr_id, 2, "the receive");
    ensure_eq!(lab.one(&mut x.send_cq)?.status, WcStatus::Success, "the send");
    Ok(())
}

fn too_long<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut x = Xrc::new(lab)?;
    let capacity = x.srq.query()?.max_wr;
    for id in 0..capacity {
        x.recv(id.into(), 0, 16)?;
    }
    x.post(1, SendOp::Send, 17)?;
    let wc = lab.one(&mut x.cq)?;
    ensure_eq!((wc.wr_id, wc.status, wc.qpn), (0, WcStatus::LocalLength, x.target.qpn()), "the receive");
    ensure_eq!(lab.one(&mut x.send_cq)?.status, WcStatus::RemoteInvalidRequest, "the send");
    ensure_eq!(x.target.query()?.state, QpState::Err, "the target's state");
    // Others of the SRQ stay with it, and one slot is free.
    lab.nothing(&mut x.cq)?;
    x.recv(99, 0, 16)?;
    ensure_eq!(x.srq.push(&RecvWr::new(0, &[])), Err(PostError::QueueFull), "one more");
    Ok(())
}

fn limit<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut x = Xrc::new(lab)?;
    for id in 0..6 {
        x.recv(id, 0, 64)?;
    }
    x.srq.set_limit(4)?;
    ensure_eq!(x.srq.query()?.limit, 4, "the limit that is armed");
    for (id, fires) in [(0, false), (1, false), (2, true), (3, false)] {
        x.post(id, SendOp::Send, 8)?;
        lab.one(&mut x.send_cq)?;
        match fires {
            true => lab.event(1, Event::SrqLimit(x.srq.srqn()))?,
            false => lab.no_event(1)?,
        }
    }
    ensure_eq!(x.srq.query()?.limit, 0, "the limit afterwards");
    Ok(())
}

fn notification<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut x = Xrc::new(lab)?;
    x.cq.request_notify(Notify::Solicited)?;
    for (id, flags) in [(0, SendFlags::SIGNALED), (1, SendFlags::SIGNALED | SendFlags::SOLICITED)] {
        x.recv(id, 0, 64)?;
        let sges = [x.source.sge(0..8)?];
        x.sender.post_send([SendWr::new(SendOp::Send, &sges).flags(flags).to_srq(x.srq.srqn())])?;
        lab.one(&mut x.send_cq)?;
        match id {
            0 => lab.no_event(1)?,
            _ => lab.cq_event(1, &x.cq)?,
        }
    }
    ensure_eq!(ids(&lab.poll(&mut x.cq, 2)?), [0, 1], "the receives");
    Ok(())
}

fn completions_go<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut x = Xrc::new(lab)?;
    let mut other = srq(lab, &x.xrcd, &x.cq)?;
    for id in 0..4 {
        x.recv(id, 0, 64)?;
        other.post([RecvWr::new(100 + id, &[x.sink.sge(0..64)?])])?;
        x.post(id, SendOp::Send, 8)?;
        let sges = [x.source.sge(0..8)?];
        x.sender.post_send([SendWr::new(SendOp::Send, &sges).signaled().to_srq(other.srqn())])?;
    }
    lab.poll(&mut x.send_cq, 8)?;
    ensure_eq!(lab.one(&mut x.cq)?.wr_id, 0, "the first");
    x.target.destroy()?;
    ensure_eq!(lab.one(&mut x.cq)?.wr_id, 100, "after the target has gone");
    other.destroy()?;
    ensure_eq!(ids(&lab.poll(&mut x.cq, 3)?), [1, 2, 3], "after the other SRQ has gone");
    lab.nothing(&mut x.cq)?;
    Ok(())
}

fn busy<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let x = Xrc::new(lab)?;
    let Xrc { sender, target, srq, cq, xrcd, .. } = x;
    let Err(refused) = xrcd.destroy() else { return Err(Stop::failed(format_args!("destroyed in use"), line!())) };
    ensure_eq!(refused.error, Error::Busy { holders: 2 }, "with an SRQ and a target");
    target.destroy()?;
    let Err(refused) = refused.handle.destroy() else {
        return Err(Stop::failed(format_args!("destroyed in use"), line!()));
    };
    ensure_eq!(refused.error, Error::Busy { holders: 1 }, "with an SRQ");
    let Err(held) = cq.destroy() else { return Err(Stop::failed(format_args!("a CQ destroyed in use"), line!())) };
    ensure_eq!(held.error, Error::Busy { holders: 1 }, "the SRQ's CQ");
    srq.destroy()?;
    held.handle.destroy()?;
    refused.handle.destroy()?;
    Ok(sender.destroy()?)
}

fn foreign<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let xrcds = [lab.devices[0].open_xrcd()?, lab.devices[1].open_xrcd()?];
    let cqs = [lab.cq(0, 7)?, lab.cq(1, 7)?];
    for (pd, xrcd, cq, object) in [(1, 0, 0, Object::Pd), (0, 1, 0, Object::Xrcd), (0, 0, 1, Object::Cq)] {
        let attr = SrqAttr { max_wr: 1, max_sge: 1, limit: 0 };
        let init = XrcSrqInit { attr, context: 0, xrcd: &xrcds[xrcd], cq: &cqs[cq] };
        let result = lab.devices[0].create_xrc_srq(&lab.pds[pd], &init).map(|_| ());
        ensure_eq!(result, Err(Error::Foreign(object)), "{object:?} of the other device");
    }
    let result = lab.devices[0].create_xrc_target(&xrcds[1], 0).map(|_| ());
    ensure_eq!(result, Err(Error::Foreign(Object::Xrcd)), "a target");
    Ok(())
}
