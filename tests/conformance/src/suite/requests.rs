//! What requests do once they are posted.

use super::{
    Case, Outcome,
    lab::{CAP, GRH, Lab, Setup, ids},
    may, must,
};
use crate::{
    connect::{self, Connection, QKEY},
    pattern,
};
use alloc::{vec, vec::Vec};
use bareverbs::{
    Access, Device, MemoryRegion, Mtu, Payload, Psn, Qkey, QpAttr, QpCap, QpState, QpType, Qpn, QueuePair, RecvWr,
    RetryCount, SendFlags, SendOp, SendWr, UdDestination, WcOpcode, WcStatus,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        must(
            "messages_of_every_length",
            "IBA 9.2",
            "SEND, WRITE and READ of 0 bytes to several packets arrive whole, and touch nothing beside",
            lengths,
        ),
        must(
            "messages_at_every_mtu",
            "IBA 9.6.5",
            "each path MTU up to the port's carries messages around its multiples",
            mtus,
        ),
        must("psns_wrap", "IBA 9.7.2", "sequence numbers go on at 0 after 2^24 - 1", psn_wrap),
        must(
            "requests_without_elements",
            "ibv_post_send",
            "a request without elements is a message of no bytes",
            no_elements,
        ),
        must(
            "gather_and_scatter",
            "ibv_post_send; ibv_post_recv",
            "elements are gathered and scattered in order, as far as the message goes",
            gather,
        ),
        must(
            "inline_buffers_are_free_at_once",
            "ibv_post_send",
            "the buffer of an inline request may be used again when the post returns",
            inline,
        ),
        must(
            "immediate_data_needs_a_receive",
            "ibv_post_send",
            "WRITE with immediate takes a receive, leaves its buffer alone and tells the bytes written",
            write_imm,
        ),
        may(
            "atomics",
            "IBA 9.4.5",
            "compare and swap, fetch and add: old values come back, words change as said",
            atomics,
        ),
        must(
            "a_fence_waits_for_reads",
            "ibv_post_send; IBA 10.8.3.3",
            "a fenced send of what a read before it brings sends the new bytes",
            fence,
        ),
        must(
            "a_message_too_long_for_its_receive",
            "IBA 9.7.5.2.4",
            "the receiver completes with a length error, the sender with invalid request; both are in ERR",
            too_long,
        ),
        must(
            "remote_access_is_checked",
            "IBA 9.7.4.1.4",
            "a wrong key, range or right at the responder fails the request there and here",
            remote_access,
        ),
        must(
            "rights_of_the_qp_count_too",
            "ibv_modify_qp",
            "without the QP's own right a peer's access fails although the region allows it",
            qp_rights,
        ),
        must(
            "no_receive_and_no_patience",
            "IBA 9.7.5.2.8",
            "without a receive and with no RNR retries the send fails by its own status",
            rnr_fails,
        ),
        must(
            "no_receive_yet",
            "IBA 9.7.5.2.8",
            "with endless RNR retries the send waits until a receive is there",
            rnr_waits,
        ),
        must(
            "nobody_there",
            "IBA 9.9.2.1.1",
            "requests to a QP that does not answer fail when retries are used up; the rest is flushed",
            nobody,
        ),
        must(
            "datagrams_with_a_wrong_key_vanish",
            "IBA 10.2.5",
            "a wrong queue key: the send completes, nothing arrives; the right one arrives",
            qkey,
        ),
        must(
            "datagrams_with_the_qp_s_own_key",
            "IBA 10.2.5",
            "a key with its highest bit set stands for the sender's own",
            own_qkey,
        ),
        must("datagrams_without_a_receive_vanish", "IBA 9.8.3.1", "they are dropped; later ones arrive", dropped),
        must("both_ways_at_once", "IBA 9.7", "both ends send and receive at the same time", both_ways),
    ]
}

fn fill<D: Device>(lab: &Lab<D>, mr: &super::lab::Mr<D>, id: u64, len: usize) -> Outcome<Vec<u8>> {
    let mut bytes = vec![0; len];
    pattern::fill(lab.seed, id, 0, &mut bytes);
    mr.write(0, &bytes)?;
    Ok(bytes)
}

/// Carries a message of a length with each operation and compares every byte of both regions.
fn carry<D: Device>(lab: &Lab<D>, ends: &mut [super::lab::End<D>; 2], id: u64, len: usize) -> Outcome {
    const AT: usize = 100;
    let [a, b] = ends;
    let (addr, rkey) = (b.mr.iova() + AT as u64, b.mr.rkey());
    for op in [SendOp::Send, SendOp::Write { addr, rkey }, SendOp::Read { addr, rkey }] {
        let whole = b.mr.len();
        let mut expected = vec![0xa5; whole];
        b.mr.write(0, &expected)?;
        let bytes = fill(lab, &a.mr, id, len)?;
        if let SendOp::Read { .. } = op {
            b.mr.write(AT, &bytes)?;
            a.mr.write(0, &vec![0xa5; whole])?;
        }
        if op == SendOp::Send {
            b.recv(id, AT..AT + len)?;
        }
        a.signaled(id, op, if matches!(op, SendOp::Read { .. }) { AT..AT + len } else { 0..len })?;
        let done = lab.one(&mut a.send_cq)?;
        ensure_eq!((done.wr_id, done.status), (id, WcStatus::Success), "{op:?} of {len} bytes");
        if op == SendOp::Send {
            let done = lab.one(&mut b.recv_cq)?;
            ensure_eq!((done.wr_id, done.byte_len as usize), (id, len), "the receive of {len} bytes");
        }
        expected[AT..AT + len].copy_from_slice(&bytes);
        let end = if matches!(op, SendOp::Read { .. }) { &*a } else { &*b };
        let is = end.bytes(0..whole)?;
        let wrong = is.iter().zip(&expected).position(|(is, should)| is != should);
        ensure!(wrong.is_none(), "{op:?} of {len} bytes at {AT}: byte {wrong:?} of the region is wrong");
    }
    Ok(())
}

fn lengths<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut ends = lab.pair(&Setup::of(QpType::Rc))?;
    for (id, len) in (0..).zip([0, 1, 3, 4, 7, 8, 63, 64, 65, 1023, 1024, 1025, 2048, 4095, 8193]) {
        carry(lab, &mut ends, id, len)?;
    }
    Ok(())
}

fn mtus<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let most = lab.devices[0].query_port(connect::PORT)?.active_mtu;
    for mtu in [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096] {
        if mtu > most {
            continue;
        }
        let connection = Connection { mtu, ..Connection::default() };
        let mut ends = lab.pair(&Setup { connection, ..Setup::of(QpType::Rc) })?;
        let n = mtu.bytes() as usize;
        for (id, len) in (0..).zip([n - 1, n, n + 1, 2 * n, 3 * n - 5]) {
            carry(lab, &mut ends, id, len)?;
        }
    }
    Ok(())
}

fn psn_wrap<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let psn = [Psn::new(0xff_fff0), Psn::new(0xff_fffe)];
    let connection = Connection { psn, mtu: Mtu::B256, ..Connection::default() };
    let mut ends = lab.pair(&Setup { connection, ..Setup::of(QpType::Rc) })?;
    for id in 0..20 {
        carry(lab, &mut ends, id, 700)?;
        ends.swap(0, 1);
    }
    Ok(())
}

fn no_elements<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    b.qp.post_recv([RecvWr::new(1, &[])])?;
    a.qp.post_send([SendWr::new(SendOp::Send, &[]).wr_id(2).signaled()])?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "a send without elements");
    let done = lab.one(&mut b.recv_cq)?;
    ensure_eq!((done.wr_id, done.status, done.byte_len), (1, WcStatus::Success, 0), "the receive");
    a.qp.post_send([SendWr::new(b.write_here(0), &[]).wr_id(3).signaled()])?;
    ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "a write without elements");
    Ok(())
}

fn gather<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cap = QpCap { max_send_sge: 4, max_recv_sge: 4, ..CAP };
    let [mut a, mut b] = lab.pair(&Setup { cap, ..Setup::of(QpType::Rc) })?;
    let bytes = fill(lab, &a.mr, 1, 4096)?;
    b.mr.write(0, &[0xa5; 8192])?;
    let from = [a.mr.sge(3000..3100)?, a.mr.sge(5..6)?, a.mr.sge(0..0)?, a.mr.sge(1000..1999)?];
    let to = [b.mr.sge(6000..6050)?, b.mr.sge(0..51)?, b.mr.sge(2000..3500)?, b.mr.sge(7000..7100)?];
    b.qp.post_recv([RecvWr::new(1, &to)])?;
    a.qp.post_send([SendWr::new(SendOp::Send, &from).wr_id(2).signaled()])?;
    ensure_eq!(lab.one(&mut b.recv_cq)?.byte_len, 1100, "the bytes");
    let message: Vec<u8> = [&bytes[3000..3100], &bytes[5..6], &bytes[1000..1999]].concat();
    let mut expected = vec![0xa5; 8192];
    expected[6000..6050].copy_from_slice(&message[..50]);
    expected[..51].copy_from_slice(&message[50..101]);
    expected[2000..2999].copy_from_slice(&message[101..]);
    ensure!(b.bytes(0..8192)? == expected, "the bytes lie elsewhere");
    Ok(())
}

fn inline<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let cap = QpCap { max_inline: 100, ..CAP };
    let [mut a, mut b] = lab.pair(&Setup { cap, ..Setup::of(QpType::Rc) })?;
    for len in [0, 1, 27, 28, 29, 44, 60, 100] {
        b.recv(7, 0..256)?;
        let mut buffer = vec![0; len];
        pattern::fill(lab.seed, len as u64, 0, &mut buffer);
        let sent = buffer.clone();
        a.qp.post_send([SendWr::inline(SendOp::Send, &buffer).wr_id(1).signaled()])?;
        buffer.fill(0xee);
        lab.one(&mut a.send_cq)?;
        ensure_eq!(lab.one(&mut b.recv_cq)?.byte_len as usize, len, "inline bytes");
        ensure_eq!(b.bytes(0..len)?, sent, "what was posted");
        let (head, tail) = sent.split_at(len / 3);
        let parts = [head, &[], tail];
        let payload = Payload::InlineGather(&parts);
        a.qp.post_send([SendWr { payload, ..SendWr::new(b.write_here(300), &[]) }.wr_id(2).signaled()])?;
        lab.one(&mut a.send_cq)?;
        ensure_eq!(b.bytes(300..300 + len)?, sent, "what was posted in parts");
    }
    Ok(())
}

fn write_imm<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    b.mr.write(0, &[0xa5; 8192])?;
    let bytes = fill(lab, &a.mr, 1, 3000)?;
    b.recv(5, 4096..4096 + 64)?;
    let op = SendOp::WriteImm { addr: b.mr.iova() + 10, rkey: b.mr.rkey(), imm: 0xfeed };
    a.signaled(1, op, 0..3000)?;
    let done = lab.one(&mut b.recv_cq)?;
    ensure_eq!((done.wr_id, done.opcode, done.byte_len), (5, WcOpcode::RecvWriteImm, 3000), "the receive");
    ensure_eq!(done.immediate(), Some(0xfeed), "immediate data");
    ensure!(b.bytes(10..3010)? == bytes, "the written bytes are wrong");
    ensure_eq!(b.bytes(4096..4096 + 64)?, [0xa5; 64], "the receive's buffer");
    Ok(())
}

fn atomics<D: Device>(lab: &mut Lab<D>) -> Outcome {
    if !lab.devices[0].attributes().atomics {
        return Err(super::Stop::Unsupported("atomics"));
    }
    let [mut a, b] = lab.pair(&Setup::of(QpType::Rc))?;
    let (addr, rkey) = (b.mr.iova(), b.mr.rkey());
    let start = u64::MAX - 1;
    b.mr.write(0, &start.to_ne_bytes())?;
    let steps = [
        (SendOp::FetchAdd { addr, rkey, add: 5 }, start, 3),
        (SendOp::CompareSwap { addr, rkey, compare: 4, swap: 9 }, 3, 3),
        (SendOp::CompareSwap { addr, rkey, compare: 3, swap: 9 }, 3, 9),
        (SendOp::FetchAdd { addr, rkey, add: 0 }, 9, 9),
    ];
    for (op, old, new) in steps {
        a.signaled(1, op, 64..72)?;
        let done = lab.one(&mut a.send_cq)?;
        ensure_eq!((done.status, done.byte_len), (WcStatus::Success, 8), "{op:?}");
        ensure_eq!(a.bytes(64..72)?, old.to_ne_bytes(), "the old value of {op:?}");
        ensure_eq!(b.bytes(0..8)?, u64::to_ne_bytes(new), "the new value of {op:?}");
    }
    Ok(())
}

fn fence<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    for round in 0..8u8 {
        b.mr.write(0, &[round; 2000])?;
        b.recv(1, 4096..4096 + 2000)?;
        a.mr.write(0, &[0xff; 2000])?;
        a.signaled(2, SendOp::Read { addr: b.mr.iova(), rkey: b.mr.rkey() }, 0..2000)?;
        a.send(3, SendOp::Send, 0..2000, SendFlags::SIGNALED | SendFlags::FENCE)?;
        ensure_eq!(ids(&lab.poll(&mut a.send_cq, 2)?), [2, 3], "the order");
        lab.one(&mut b.recv_cq)?;
        ensure!(b.bytes(4096..4096 + 2000)? == [round; 2000], "round {round}: old bytes were sent");
    }
    Ok(())
}

fn too_long<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for len in [65, 3000] {
        let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
        b.mr.write(0, &[0xa5; 8192])?;
        b.recv(1, 0..64)?;
        a.signaled(2, SendOp::Send, 0..len)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::RemoteInvalidRequest, "the sender of {len} bytes");
        let done = lab.one(&mut b.recv_cq)?;
        ensure_eq!((done.wr_id, done.status), (1, WcStatus::LocalLength), "the receiver of {len} bytes");
        ensure_eq!((a.qp.query()?.state, b.qp.query()?.state), (QpState::Err, QpState::Err), "the states");
        ensure_eq!(b.bytes(64..8192)?, vec![0xa5; 8192 - 64], "bytes behind the receive");
    }
    Ok(())
}

fn remote_access<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let rights = lab.mr_with(1, 4096, Access::LOCAL_WRITE | Access::REMOTE_READ)?;
    let blind = lab.mr_with(1, 4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let (there, key) = (rights.iova(), rights.rkey());
    let wrong = bareverbs::Rkey(key.0 ^ 0xff);
    let end = there + 4096;
    let mut ops = vec![
        SendOp::Write { addr: there, rkey: key },
        SendOp::Read { addr: there, rkey: wrong },
        SendOp::Read { addr: end, rkey: key },
        SendOp::Read { addr: end - 7, rkey: key },
        SendOp::Read { addr: there - 1, rkey: key },
        SendOp::Read { addr: blind.iova(), rkey: blind.rkey() },
    ];
    if lab.devices[0].attributes().atomics {
        ops.push(SendOp::FetchAdd { addr: there / 8 * 8 + 8, rkey: key, add: 1 });
    }
    rights.write(0, &[0x11; 4096])?;
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    for op in ops {
        a.mr.write(0, &[0x22; 16])?;
        a.signaled(1, op, 0..8)?;
        let done = lab.one(&mut a.send_cq)?;
        ensure_eq!(done.status, WcStatus::RemoteAccess, "{op:?}");
        ensure_eq!((a.qp.state(), b.qp.query()?.state), (QpState::Err, QpState::Err), "states after {op:?}");
        let mut bytes = vec![0; 4096];
        rights.read(0, &mut bytes)?;
        ensure!(bytes == [0x11; 4096], "{op:?} changed the region");
        ensure_eq!(a.bytes(0..16)?, [0x22; 16], "{op:?} brought bytes");
        for qp in [&mut a.qp, &mut b.qp] {
            qp.modify(&QpAttr::to(QpState::Reset))?;
        }
        lab.connect(&mut a.qp, &mut b.qp)?;
        while lab.next_event(1)?.is_some() {}
    }
    Ok(())
}

fn qp_rights<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let connection = Connection { access: Access::empty(), ..Connection::default() };
    for write in [true, false] {
        let [mut a, b] = lab.pair(&Setup { connection, ..Setup::of(QpType::Rc) })?;
        let read = SendOp::Read { addr: b.mr.iova(), rkey: b.mr.rkey() };
        a.signaled(1, if write { b.write_here(0) } else { read }, 0..8)?;
        // The IBA lets a responder say either (9.7.4.1.4, table 58).
        let status = lab.one(&mut a.send_cq)?.status;
        let refused = matches!(status, WcStatus::RemoteAccess | WcStatus::RemoteInvalidRequest);
        ensure!(refused, "write {write}: {status:?}");
    }
    Ok(())
}

fn rnr_fails<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for retries in [0, 2] {
        let rnr_retry = RetryCount::new(retries).unwrap_or(RetryCount::MAX);
        let connection = Connection { rnr_retry, ..Connection::default() };
        let [mut a, b] = lab.pair(&Setup { connection, ..Setup::of(QpType::Rc) })?;
        a.signaled(1, SendOp::Send, 0..8)?;
        a.signaled(2, b.write_here(0), 0..8)?;
        let done = lab.poll(&mut a.send_cq, 2)?;
        let status: Vec<_> = done.iter().map(|c| c.status).collect();
        let expected = [WcStatus::RnrRetryExceeded, WcStatus::WorkRequestFlushed];
        ensure_eq!(status, expected, "{retries} RNR retries");
        ensure_eq!(a.qp.query()?.state, QpState::Err, "the state");
    }
    Ok(())
}

fn rnr_waits<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    for id in 0..3 {
        a.signaled(id, SendOp::Send, 0..8)?;
    }
    lab.nothing(&mut a.send_cq)?;
    for id in 0..3 {
        b.recv(10 + id, 0..8)?;
    }
    ensure_eq!(ids(&lab.poll(&mut b.recv_cq, 3)?), [10, 11, 12], "the receives");
    ensure_eq!(ids(&lab.poll(&mut a.send_cq, 3)?), [0, 1, 2], "the sends");
    Ok(())
}

fn nobody<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let retry_cnt = RetryCount::new(2).unwrap_or(RetryCount::MAX);
    let c = Connection { retry_cnt, ..Connection::default() };
    let (mut a, b) = (lab.end(0, &Setup::of(QpType::Rc))?, lab.end(1, &Setup::of(QpType::Rc))?);
    let path = connect::path(&lab.devices[0], &lab.devices[1])?;
    connect::to_init(&mut a.qp, c.access)?;
    connect::to_rtr(&mut a.qp, &b.qp, path, &c, 0)?;
    connect::to_rts(&mut a.qp, &c, 0)?;
    for id in 0..3 {
        a.signaled(id, SendOp::Send, 0..8)?;
    }
    let done = lab.poll(&mut a.send_cq, 3)?;
    let status: Vec<_> = done.iter().map(|c| c.status).collect();
    ensure_eq!(status, [WcStatus::RetryExceeded, WcStatus::WorkRequestFlushed, WcStatus::WorkRequestFlushed], "status");
    ensure_eq!(ids(&done), [0, 1, 2], "the ids");
    ensure_eq!((a.qp.state(), a.qp.query()?.state), (QpState::Err, QpState::Err), "the state");
    Ok(())
}

/// Posts a datagram to a destination.
fn datagram<D: Device>(end: &mut super::lab::End<D>, id: u64, to: &UdDestination) -> Outcome {
    let sges = [end.mr.sge(0..16)?];
    Ok(end.qp.post_send([SendWr::new(SendOp::Send, &sges).wr_id(id).signaled().to(to)])?)
}

fn qkey<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Ud))?;
    let right = connect::destination(&lab.devices[0], &lab.devices[1], &b.qp)?;
    b.recv(5, 0..GRH + 16)?;
    for to in [UdDestination { qkey: Qkey(QKEY.0 ^ 1), ..right }, UdDestination { qpn: Qpn::new(0xab_cdef), ..right }] {
        datagram(&mut a, 1, &to)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "the send");
        lab.nothing(&mut b.recv_cq)?;
    }
    datagram(&mut a, 2, &right)?;
    ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, 5, "the receive");
    Ok(())
}

fn own_qkey<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Ud))?;
    let right = connect::destination(&lab.devices[0], &lab.devices[1], &b.qp)?;
    b.recv(5, 0..GRH + 16)?;
    datagram(&mut a, 1, &UdDestination { qkey: Qkey(0x8000_0000), ..right })?;
    ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, 5, "the receive");
    Ok(())
}

fn dropped<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Ud))?;
    for id in 0..3 {
        a.signaled(id, SendOp::Send, 0..16)?;
        ensure_eq!(lab.one(&mut a.send_cq)?.status, WcStatus::Success, "a send");
    }
    lab.settle();
    b.recv(5, 0..GRH + 16)?;
    lab.nothing(&mut b.recv_cq)?;
    a.signaled(4, SendOp::SendImm(9), 0..16)?;
    ensure_eq!(lab.one(&mut b.recv_cq)?.immediate(), Some(9), "the one that was received");
    Ok(())
}

fn both_ways<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut ends = lab.pair(&Setup::of(QpType::Rc))?;
    for round in 0..5 {
        for end in &mut ends {
            for id in 0..8 {
                end.recv(id, 8192 + id as usize * 256..8192 + id as usize * 256 + 256)?;
            }
        }
        for id in 0..8 {
            for end in &mut ends {
                end.signaled(100 + id, SendOp::Send, 0..256)?;
            }
        }
        for end in &mut ends {
            let sent = ids(&lab.poll(&mut end.send_cq, 8)?);
            ensure_eq!(sent, (100..108).collect::<Vec<_>>(), "sends of round {round}");
            let got = ids(&lab.poll(&mut end.recv_cq, 8)?);
            ensure_eq!(got, (0..8).collect::<Vec<_>>(), "receives of round {round}");
        }
    }
    Ok(())
}
