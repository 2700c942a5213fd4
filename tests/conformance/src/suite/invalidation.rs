//! Keys that requests make worthless: invalidation by the owner, and by the peer that sends.

use super::{
    Case, Outcome,
    lab::{Lab, Setup},
    may,
    windows::{WRITE, again, bind, local, refused, status, success, window, world, write},
};
use alloc::{vec, vec::Vec};
use bareverbs::{
    CompletionQueue, CompletionView, Device, MemoryRegion, MemoryWindow, Notify, QpType, QueuePair, Rkey, SendFlags,
    SendOp, SendWr, WcOpcode, WcStatus, WindowKind,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        may(
            "local_invalidate_closes_a_window",
            "ibv_post_send",
            "after it the key is worthless, and the window can be bound anew",
            local_invalidate,
        ),
        may(
            "local_invalidate_of_what_is_no_one_s",
            "IBA 10.6.5",
            "a region that was registered cannot be invalidated, nor a window by a QP that did not bind it",
            local_invalidate_wrong,
        ),
        may(
            "send_with_invalidate_closes_a_window",
            "ibv_post_send; ibv_poll_cq",
            "the receive tells the key, which is worthless from then on; the window can be bound anew",
            remote_invalidate,
        ),
        may(
            "send_with_invalidate_notifies",
            "ibv_req_notify_cq; ibv_post_send",
            "its receive gives the event like any other, and as a solicited one if the sender asks",
            remote_invalidate_notifies,
        ),
        may(
            "send_with_invalidate_of_what_is_no_one_s",
            "IBA 9.4.1.1.1",
            "a peer can invalidate neither a region nor a window of type 1",
            remote_invalidate_wrong,
        ),
    ]
}

fn local_invalidate<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut window = window(lab, WindowKind::TwoB)?;
    for n in 0..3 {
        window.set_variant(n)?;
        let rkey = bind(lab, &mut ends[1], &mut window, &mr.bind(0..64, WRITE)?)?;
        success(lab, &mut ends[0], write(mr.iova(), rkey), 8, "while it is bound")?;
        local(lab, &mut ends[1], rkey)?;
        refused(lab, &mut ends, write(mr.iova(), rkey), "afterwards")?;
    }
    // The lazy view tells the opcode too.
    let rkey = bind(lab, &mut ends[1], &mut window, &mr.bind(0..64, WRITE)?)?;
    ends[1].qp.post_send([SendWr::new(SendOp::LocalInvalidate(rkey), &[]).wr_id(8).signaled()])?;
    let seen = lab.wait("a view's completion", || {
        let mut view = ends[1].send_cq.view();
        Ok(match view.advance()? {
            true => Some((view.wr_id(), view.opcode(), view.status(), view.completion())),
            false => None,
        })
    })?;
    ensure_eq!((seen.0, seen.1, seen.2), (8, WcOpcode::LocalInvalidate, WcStatus::Success), "what the view shows");
    ensure_eq!((seen.3.wr_id, seen.3.opcode, seen.3.status), (seen.0, seen.1, seen.2), "its completion");
    Ok(())
}

fn local_invalidate_wrong<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut others = lab.pair(&Setup { memory: 4096, ..Setup::of(QpType::Rc) })?;
    let mut window = window(lab, WindowKind::TwoB)?;
    let rkey = bind(lab, &mut ends[1], &mut window, &mr.bind(0..64, WRITE)?)?;
    for key in [ends[1].mr.rkey(), rkey] {
        others[1].qp.post_send([SendWr::new(SendOp::LocalInvalidate(key), &[]).wr_id(6)])?;
        let done = lab.one(&mut others[1].send_cq)?;
        ensure_eq!((done.wr_id, done.status), (6, WcStatus::MemoryWindowBind), "key {key}");
        again(lab, &mut others)?;
    }
    success(lab, &mut ends[0], write(mr.iova(), rkey), 8, "the window")?;
    let op = ends[1].write_here(0);
    success(lab, &mut ends[0], op, 8, "the region")
}

fn remote_invalidate<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut window = window(lab, WindowKind::TwoB)?;
    for (n, len) in [(1, 0), (2, 16), (3, 3000)] {
        window.set_variant(n)?;
        let rkey = bind(lab, &mut ends[1], &mut window, &mr.bind(0..64, WRITE)?)?;
        success(lab, &mut ends[0], write(mr.iova(), rkey), 8, "while it is bound")?;
        ends[1].recv(n.into(), 0..4096)?;
        success(lab, &mut ends[0], SendOp::SendInvalidate(rkey), len, "the send")?;
        let got = lab.one(&mut ends[1].recv_cq)?;
        ensure_eq!((got.wr_id, got.status, got.opcode), (n.into(), WcStatus::Success, WcOpcode::Recv), "the receive");
        ensure_eq!((got.invalidated(), got.immediate(), got.byte_len), (Some(rkey), None, len as u32), "what it tells");
        refused(lab, &mut ends, write(mr.iova(), rkey), "afterwards")?;
    }
    Ok(())
}

fn remote_invalidate_notifies<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut window = window(lab, WindowKind::TwoB)?;
    let (any, bit) = (Notify::Any, SendFlags::SOLICITED);
    for (n, which, flags, told) in [
        (1, Notify::Solicited, SendFlags::empty(), false),
        (2, Notify::Solicited, bit, true),
        (3, any, SendFlags::empty(), true),
    ] {
        window.set_variant(n)?;
        let rkey = bind(lab, &mut ends[1], &mut window, &mr.bind(0..64, WRITE)?)?;
        ends[1].recv_cq.request_notify(which)?;
        ends[1].recv(n.into(), 0..64)?;
        ends[0].send(9, SendOp::SendInvalidate(rkey), 0..8, SendFlags::SIGNALED | flags)?;
        ensure_eq!(lab.one(&mut ends[1].recv_cq)?.invalidated(), Some(rkey), "what it tells");
        lab.one(&mut ends[0].send_cq)?;
        if told {
            lab.cq_event(1, &ends[1].recv_cq)?;
        }
        lab.no_event(1)?;
    }
    Ok(())
}

fn remote_invalidate_wrong<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (mut ends, mr) = world(lab)?;
    let mut window = window(lab, WindowKind::One)?;
    let rkey = bind(lab, &mut ends[1], &mut window, &mr.bind(0..64, WRITE)?)?;
    for key in [mr.rkey(), rkey, Rkey(rkey.0 ^ 0xff)] {
        ends[1].recv(1, 0..64)?;
        let status = status(lab, &mut ends[0], SendOp::SendInvalidate(key), 8)?;
        // The IBA lets a responder say either.
        let named =
            matches!(status, WcStatus::RemoteAccess | WcStatus::RemoteOperation | WcStatus::RemoteInvalidRequest);
        ensure!(named, "key {key}: {status:?}");
        again(lab, &mut ends)?;
    }
    success(lab, &mut ends[0], write(mr.iova(), rkey), 8, "the window")
}
