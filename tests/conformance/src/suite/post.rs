//! Posting: what is refused at once, and where a list stops.

use super::{
    Case, Outcome,
    lab::{CAP, Lab, Setup, ids},
    may, must,
};
use alloc::{vec, vec::Vec};
use bareverbs::{
    Destination, Device, MemoryRegion, PostError, PostListError, QpCap, QpType, QueuePair, RecvWr, Rkey, SendFlags,
    SendOp, SendWr, Sge, WcStatus,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        must(
            "case_32_full_in_the_middle_of_a_list",
            "report 32; ibv_post_send",
            "a list stops at the request that finds the queue full; those before it are posted",
            case_32,
        ),
        must(
            "case_32_too_many_elements",
            "report 32; ibv_post_send",
            "a request of too many elements is told by index and limit; those before it are posted",
            too_many,
        ),
        must(
            "case_32_too_much_inline",
            "report 32; ibv_post_send",
            "too much inline data has its own error",
            too_much_inline,
        ),
        must(
            "post_recv_stops_at_the_first_failure",
            "ibv_post_recv",
            "a list of receives is posted up to the one that fails, whose index is told",
            recv_list,
        ),
        must(
            "recv_queue_capacity_is_exact",
            "ibv_post_recv",
            "as many receives as the QP tells, one more is refused as full",
            recv_capacity,
        ),
        must(
            "send_queue_capacity_is_exact",
            "ibv_post_send",
            "as many sends as the QP tells, one more is refused as full, whatever their shape",
            send_capacity,
        ),
        must(
            "ud_has_sends_only",
            "ibv_post_send",
            "UD has SEND, with and without immediate; all else is refused",
            ud_ops,
        ),
        may(
            "uc_has_sends_and_writes_only",
            "ibv_post_send",
            "UC has SEND and WRITE, with and without immediate; READ and atomics are refused",
            uc_ops,
        ),
        must(
            "datagrams_need_a_destination",
            "ibv_post_send",
            "a datagram without destination, and a destination on a connected QP, are refused",
            destinations,
        ),
        must(
            "address_handles_of_another_device",
            "ibv_create_ah",
            "an address handle serves the device that made it",
            foreign_handle,
        ),
        may("atomics_have_one_shape", "IBA 9.4.5", "one element of eight bytes, an aligned target", atomic_shape),
        must("reads_are_never_inline", "ibv_post_send", "inline is for SEND and WRITE", inline_read),
        must(
            "datagrams_fit_the_mtu",
            "IBA 9.8.4",
            "a datagram longer than the port's MTU is refused, one as long is not",
            datagram_length,
        ),
        must(
            "refused_posts_leave_no_trace",
            "ibv_post_send",
            "after every kind of refused post the queue holds as many requests as before",
            no_trace,
        ),
    ]
}

fn case_32<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc).depth(4))?;
    let n = a.qp.cap().max_send_wr as usize;
    let (sges, write) = ([a.mr.sge(0..8)?], b.write_here(0));
    let list = |from: u64, n: usize| (from..from + n as u64).map(move |id| (id, write));
    let wr = |(id, op)| SendWr::new(op, &sges).wr_id(id).signaled();
    let full = |index| Err(PostListError { index, error: PostError::QueueFull });
    ensure_eq!(a.qp.post_send(list(0, n + 2).map(wr)), full(n), "a list of {}", n + 2);
    ensure_eq!(ids(&lab.poll(&mut a.send_cq, 2)?), [0, 1], "the first two");
    ensure_eq!(a.qp.post_send(list(100, 3).map(wr)), full(2), "three more where two fit");
    let expected: Vec<u64> = (2..n as u64).chain([100, 101]).collect();
    ensure_eq!(ids(&lab.poll(&mut a.send_cq, n)?), expected, "the others");
    lab.nothing(&mut a.send_cq)
}

fn too_many<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    let max = a.qp.cap().max_send_sge;
    let (one, many) = ([a.mr.sge(0..8)?], vec![a.mr.sge(0..8)?; max.max(39) as usize + 1]);
    let list = [&one[..], &one, &many, &one];
    let wrs = (0..).zip(list).map(|(id, sges)| SendWr::new(b.write_here(0), sges).wr_id(id).signaled());
    let error = PostListError { index: 2, error: PostError::TooManySge { max } };
    ensure_eq!(a.qp.post_send(wrs), Err(error), "{} elements", many.len());
    ensure_eq!(ids(&lab.poll(&mut a.send_cq, 2)?), [0, 1], "those before it");
    lab.nothing(&mut a.send_cq)
}

fn too_much_inline<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cap = QpCap { max_inline: 32, ..CAP };
    let [mut a, b] = lab.pair(&Setup { cap, ..Setup::of(QpType::Rc) })?;
    let max = a.qp.cap().max_inline;
    let bytes = vec![0x77; max as usize + 1];
    let error = Err(PostError::InlineTooLong { max });
    ensure_eq!(a.qp.push_send(&SendWr::inline(b.write_here(0), &bytes)), error, "{} bytes", bytes.len());
    let halves = bytes.split_at(9);
    let parts = [halves.0, halves.1];
    let gather = SendWr { payload: bareverbs::Payload::InlineGather(&parts), ..SendWr::new(b.write_here(0), &[]) };
    ensure_eq!(a.qp.push_send(&gather), error, "{} bytes in two parts", bytes.len());
    a.qp.post_send([SendWr::inline(b.write_here(0), &bytes[1..]).wr_id(1).signaled()])?;
    ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, 1, "as much as fits");
    ensure_eq!(b.bytes(0..max as usize)?, bytes[1..], "the bytes");
    Ok(())
}

fn recv_list<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc).depth(4))?;
    let cap = b.qp.cap();
    let (one, many) = ([b.mr.sge(0..8)?], vec![b.mr.sge(0..8)?; cap.max_recv_sge as usize + 1]);
    let list = [RecvWr::new(0, &one), RecvWr::new(1, &many), RecvWr::new(2, &one)];
    let error = PostListError { index: 1, error: PostError::TooManySge { max: cap.max_recv_sge } };
    ensure_eq!(b.qp.post_recv(list), Err(error), "too many elements");
    let room = cap.max_recv_wr as u64 - 1;
    let list = (0..room + 2).map(|id| RecvWr::new(10 + id, &one));
    let full = PostListError { index: room as usize, error: PostError::QueueFull };
    ensure_eq!(b.qp.post_recv(list), Err(full), "{} where {room} fit", room + 2);
    for id in core::iter::once(0).chain(10..10 + room) {
        a.send(0, SendOp::Send, 0..8, SendFlags::SIGNALED)?;
        lab.one(&mut a.send_cq)?;
        ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, id, "the receive");
    }
    Ok(())
}

fn recv_capacity<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for depth in [1, 3, 16] {
        let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc).depth(depth))?;
        let n = u64::from(b.qp.cap().max_recv_wr);
        let sges = [b.mr.sge(0..8)?];
        // Several laps.
        for lap in 0..4 {
            for id in 0..n {
                b.qp.post_recv([RecvWr::new(lap * n + id, &sges)])?;
            }
            let full = Err(PostListError { index: 0, error: PostError::QueueFull });
            ensure_eq!(b.qp.post_recv([RecvWr::new(0, &sges)]), full, "one more than {n}");
            for id in 0..n {
                a.send(0, SendOp::Send, 0..8, SendFlags::SIGNALED)?;
                lab.one(&mut a.send_cq)?;
                ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, lap * n + id, "the receive");
            }
        }
    }
    Ok(())
}

fn send_capacity<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for (depth, inline) in [(1, 0), (5, 0), (16, 200)] {
        let cap = QpCap { max_send_wr: depth, max_inline: inline, ..CAP };
        let [mut a, b] = lab.pair(&Setup { cap, cq: 127, ..Setup::of(QpType::Rc) })?;
        let cap = a.qp.cap();
        let n = u64::from(cap.max_send_wr);
        let sges = vec![a.mr.sge(0..1)?; cap.max_send_sge as usize];
        let bytes = vec![1; cap.max_inline as usize];
        let write = b.write_here(0);
        for lap in 0..3 {
            let longest = |id: u64| match id % 2 {
                0 => SendWr::new(write, &sges).wr_id(id).signaled(),
                _ => SendWr::inline(write, &bytes).wr_id(id).signaled(),
            };
            a.qp.post_send((0..n).map(|id| longest(lap * n + id)))?;
            ensure_eq!(a.qp.push_send(&longest(0)), Err(PostError::QueueFull), "one more than {n}");
            let done = lab.poll(&mut a.send_cq, n as usize)?;
            ensure_eq!(ids(&done), (lap * n..(lap + 1) * n).collect::<Vec<_>>(), "lap {lap}");
            ensure!(done.iter().all(|c| c.status == WcStatus::Success), "lap {lap}: {done:?}");
        }
    }
    Ok(())
}

/// Every operation but SEND and WRITE, with and without immediate.
fn fetching(addr: u64, rkey: Rkey) -> [SendOp; 3] {
    [
        SendOp::Read { addr, rkey },
        SendOp::CompareSwap { addr, rkey, compare: 0, swap: 0 },
        SendOp::FetchAdd { addr, rkey, add: 0 },
    ]
}

fn ud_ops<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Ud))?;
    let (addr, rkey) = (b.mr.iova(), b.mr.rkey());
    let writes = [SendOp::Write { addr, rkey }, SendOp::WriteImm { addr, rkey, imm: 0 }, SendOp::SendInvalidate(rkey)];
    for op in fetching(addr, rkey).into_iter().chain(writes) {
        let result = a.signaled(0, op, 0..8);
        ensure!(result.is_err(), "{op:?} was posted");
        let sges = [a.mr.sge(0..8)?];
        let wr = SendWr { to: a.to.as_ref().map(Destination::Ud), ..SendWr::new(op, &sges) };
        ensure_eq!(a.qp.push_send(&wr), Err(PostError::UnsupportedOp), "{op:?}");
    }
    for op in [SendOp::Send, SendOp::SendImm(1)] {
        a.signaled(1, op, 0..8)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "{op:?}");
    }
    Ok(())
}

fn uc_ops<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Uc))?;
    let (addr, rkey) = (b.mr.iova(), b.mr.rkey());
    let sges = [a.mr.sge(0..8)?];
    for op in fetching(addr, rkey) {
        ensure_eq!(a.qp.push_send(&SendWr::new(op, &sges)), Err(PostError::UnsupportedOp), "{op:?}");
    }
    let writes = [SendOp::Write { addr, rkey }, SendOp::WriteImm { addr, rkey, imm: 0 }];
    for op in writes.into_iter().chain([SendOp::Send, SendOp::SendImm(1)]) {
        b.recv(2, 0..8)?;
        a.signaled(1, op, 0..8)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "{op:?}");
    }
    Ok(())
}

fn destinations<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut ud, other] = lab.pair(&Setup::of(QpType::Ud))?;
    let [mut rc, _peer] = lab.pair(&Setup::of(QpType::Rc))?;
    let sges = [ud.mr.sge(0..8)?];
    ensure_eq!(ud.qp.push_send(&SendWr::new(SendOp::Send, &sges)), Err(PostError::Destination), "a datagram without");
    let with = SendWr { to: other.to.as_ref().map(Destination::Ud), ..SendWr::new(SendOp::Send, &[]) };
    ensure_eq!(rc.qp.push_send(&with), Err(PostError::Destination), "a connected QP with one");
    Ok(())
}

fn foreign_handle<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Ud))?;
    let wr = SendWr { to: b.to.as_ref().map(Destination::Ud), ..SendWr::new(SendOp::Send, &[]) };
    ensure_eq!(a.qp.push_send(&wr), Err(PostError::ForeignAddress), "the other device's handle");
    Ok(())
}

fn atomic_shape<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    let (addr, rkey) = (b.mr.iova(), b.mr.rkey());
    if !lab.devices[0].attributes().atomics {
        let sges = [a.mr.sge(0..8)?];
        let result = a.qp.push_send(&SendWr::new(SendOp::FetchAdd { addr, rkey, add: 1 }, &sges));
        ensure_eq!(result, Err(PostError::UnsupportedOp), "an atomic");
        return Err(super::Stop::Unsupported("atomics"));
    }
    let (eight, seven) = (a.mr.sge(0..8)?, a.mr.sge(0..7)?);
    let shapes: [(&[Sge], u64); 5] = [(&[], 0), (&[seven], 0), (&[eight, eight], 0), (&[eight], 1), (&[eight], 4)];
    for (sges, offset) in shapes {
        let addr = addr + offset;
        for op in [SendOp::FetchAdd { addr, rkey, add: 1 }, SendOp::CompareSwap { addr, rkey, compare: 0, swap: 1 }] {
            let result = a.qp.push_send(&SendWr::new(op, sges));
            ensure_eq!(result, Err(PostError::AtomicShape), "{} elements, {offset} past a word", sges.len());
        }
    }
    Ok(())
}

fn inline_read<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cap = QpCap { max_inline: 32, ..CAP };
    let [mut a, b] = lab.pair(&Setup { cap, ..Setup::of(QpType::Rc) })?;
    let atomics = lab.devices[0].attributes().atomics;
    for op in fetching(b.mr.iova(), b.mr.rkey()).into_iter().take(if atomics { 3 } else { 1 }) {
        ensure_eq!(a.qp.push_send(&SendWr::inline(op, &[0; 8])), Err(PostError::InlineRead), "{op:?}");
    }
    Ok(())
}

fn datagram_length<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Ud))?;
    let port = lab.devices[0].query_port(crate::connect::PORT)?;
    let [active, most] = [port.active_mtu, port.max_mtu].map(|mtu| mtu.bytes() as usize);
    let sges = [a.mr.sge(0..most + 1)?];
    let wr = SendWr { to: a.to.as_ref().map(Destination::Ud), ..SendWr::new(SendOp::Send, &sges) };
    let result = a.qp.push_send(&wr);
    let named = matches!(result, Err(PostError::MessageTooLong { max }) if (active..=most).contains(&(max as usize)));
    ensure!(named, "{} bytes: {result:?}, should name a limit of {active} to {most}", most + 1);
    b.recv(3, 0..active + 40)?;
    a.signaled(1, SendOp::Send, 0..active)?;
    ensure_eq!(lab.one(&mut b.recv_cq)?.byte_len as usize, active + 40, "as long as the MTU");
    Ok(())
}

fn no_trace<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cap = QpCap { max_inline: 16, ..CAP };
    let [mut a, b] = lab.pair(&Setup { cap, ..Setup::of(QpType::Rc) })?;
    let cap = a.qp.cap();
    let (addr, rkey) = (b.mr.iova(), b.mr.rkey());
    let (one, many) = ([a.mr.sge(0..8)?], vec![a.mr.sge(0..8)?; cap.max_send_sge as usize + 1]);
    let long = vec![0; cap.max_inline as usize + 1];
    for _ in 0..3 * cap.max_send_wr {
        let wrong = [
            SendWr::new(SendOp::Write { addr, rkey }, &many),
            SendWr::inline(SendOp::Write { addr, rkey }, &long),
            SendWr::inline(SendOp::Read { addr, rkey }, &long[..8]),
            SendWr { to: None, ..SendWr::new(SendOp::FetchAdd { addr: addr + 1, rkey, add: 1 }, &one) },
        ];
        for wr in wrong {
            ensure!(a.qp.push_send(&wr).is_err(), "{wr:?} was posted");
        }
        a.qp.ring_send();
    }
    for id in 0..u64::from(cap.max_send_wr) {
        a.signaled(id, b.write_here(0), 0..8)?;
    }
    let n = cap.max_send_wr as usize;
    ensure_eq!(ids(&lab.poll(&mut a.send_cq, n)?), (0..n as u64).collect::<Vec<_>>(), "the ids");
    lab.nothing(&mut a.send_cq)
}
