//! Every opcode of an entry in every format. PRM, "Completion Queue Entry": format 1 and 2 hold data inside the entry, 3
//! is a compressed array of small ones. The driver asks for none of them, so each is refused, and retires nothing.

use super::*;

/// A raw packet QP's receives have a flow tag where others have the QPN.
const FLOW_TAG: u32 = 0x77;

/// What comes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    Sent,
    Received,
    SendFailed,
    ReceiveFailed,
    Refused,
    Nothing,
}

fn expected(kind: QpType, opcode: u8, format: u8) -> Read {
    match (opcode, format) {
        (0xf, _) => Read::Nothing,
        (_, 1..) => Read::Refused,
        (0x0, _) => Read::Sent,
        (0x2, _) => Read::Received,
        // Frames have neither immediate data nor keys.
        (0x1 | 0x3 | 0x4, _) if kind != QpType::RawPacket => Read::Received,
        (0xd, _) => Read::SendFailed,
        (0xe, _) => Read::ReceiveFailed,
        _ => Read::Refused,
    }
}

fn seen(polled: Result<Vec<Completion>, PollError>) -> Read {
    match polled {
        Err(PollError::BadEntry) => Read::Refused,
        Ok(all) if all.is_empty() => Read::Nothing,
        Ok(all) => match (all[0].wr_id, all[0].status, all[0].opcode) {
            (1, WcStatus::Success, WcOpcode::Send) => Read::Sent,
            (2, WcStatus::Success, WcOpcode::Recv | WcOpcode::RecvWriteImm) => Read::Received,
            (1, WcStatus::RemoteAccess, WcOpcode::Send) => Read::SendFailed,
            (2, WcStatus::RemoteAccess, WcOpcode::Recv) => Read::ReceiveFailed,
            _ => panic!("{all:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// A rig with a send 1 and a receive 2, and the entry.
fn with_entry(kind: QpType, shared: bool, op_own: u8) -> Rig {
    let mut rig = Rig::new(kind, shared, 3, 6, true);
    rig.post_sends([1]);
    match shared {
        true => assert_eq!(rig.post_srq([2]), [0]),
        false => rig.post_recvs([2]),
    }
    let cqe = Cqe::new(0, 0).byte(55, 0x13).byte(63, op_own);
    let is_receive = matches!(op_own >> 4, 0x1..=0x4 | 0xe);
    let number = if is_receive && kind == QpType::RawPacket { FLOW_TAG } else { 0x0a << 24 | QPN };
    // The byte above the QPN is the send opcode; with receives it is 0.
    rig.write(cqe.dword(56, if is_receive { number & 0xff_ffff } else { number }));
    rig
}

/// Requests that are not done: sends and receives.
fn left(rig: &Rig) -> (u32, u32) {
    let receives = match &rig.srq {
        Some((slots, _)) => u32::from(slots.complete(0, false).is_some()),
        None => rig.target.recv.outstanding(),
    };
    (rig.target.send.outstanding(), receives)
}

#[test]
fn every_opcode_in_every_format() {
    let kinds = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::RawPacket].map(|kind| (kind, false));
    let mut refused = 0;
    for (kind, shared) in kinds.into_iter().chain([(QpType::Rc, true), (QpType::Ud, true)]) {
        for (opcode, format, solicited) in (0..16)
            .flat_map(|opcode| (0..4).flat_map(move |format| [0, 2].map(|solicited| (opcode, format, solicited))))
        {
            let expected = expected(kind, opcode, format);
            let done = match expected {
                Read::Sent | Read::SendFailed => (0, 1),
                Read::Received | Read::ReceiveFailed => (1, 0),
                Read::Refused | Read::Nothing => (1, 1),
            };
            for by in ["poll of one", "poll of many", "view"] {
                let mut rig = with_entry(kind, shared, opcode << 4 | format << 2 | solicited);
                let result = match by {
                    "poll of one" => rig.poll(1),
                    "poll of many" => rig.poll(4),
                    _ => rig.ring.advance(&HOST).map(|shown| shown.iter().map(Shown::completion).collect()),
                };
                let what = format!("{kind:?}, shared {shared}, opcode {opcode:#x}, format {format}: {by}");
                assert_eq!((seen(result), left(&rig)), (expected, done), "{what}");
                refused += usize::from(expected == Read::Refused);
            }
        }
    }
    // Six QPs, fifteen opcodes in three formats, solicited or not, read in three ways; and the opcodes that are none.
    assert!(refused > 6 * 15 * 3 * 2 * 3, "{refused}");
}

/// What a view tells of an entry is what a poll makes of it, field by field, on any lap; among them requests that changed a
/// memory key, or failed to.
#[test]
fn a_view_tells_what_a_poll_tells() {
    let umr = 0x25;
    let mut told = 0;
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud, QpType::RawPacket] {
        for (opcode, send_opcode, lap) in (0..16)
            .flat_map(|opcode| [0x0a, 0x10, umr].into_iter().flat_map(move |op| [0, 1].map(|lap| (opcode, op, lap))))
        {
            let rig = || {
                let mut rig = Rig::new(kind, false, 3, 6, true);
                rig.send.push_noted(1, 1, 1, WcOpcode::BindWindow as u32);
                rig.send.publish(&rig.target.send);
                // One lap of receives before it.
                rig.post_recvs(0..8 * lap);
                for _ in 0..8 * lap {
                    rig.write(Cqe::new(0x2, 0).dword(56, QPN));
                    rig.poll(1).unwrap();
                }
                rig.post_recvs([2]);
                let is_send = matches!(opcode, 0x0 | 0xd);
                let mut cqe = Cqe::new(opcode, 0).dword(56, if is_send { send_opcode << 24 | QPN } else { QPN });
                // All but the user index.
                (16..32).chain(36..56).for_each(|n| cqe.0[n] = 0x5a ^ n as u8);
                // Layer 3 and 4 found right, in an IPv4 packet; an access error of the peer.
                rig.write(cqe.byte(28, 0x06).byte(29, 0x08).byte(55, 0x13));
                rig
            };
            let (mut polled, mut viewed) = (rig(), rig());
            let shown = viewed.ring.advance(&HOST);
            told += usize::from(matches!(shown, Ok(Some(_))));
            let shown = shown.map(|shown| shown.iter().map(Shown::completion).collect::<Vec<_>>());
            assert_eq!(shown, polled.poll(1), "{kind:?}, opcode {opcode:#x}, send opcode {send_opcode:#x}, lap {lap}");
        }
    }
    assert!(told > 60, "{told}");
}

/// What a QP that had the user index before has left, or a device that errs, retires nothing of the QP that has it now.
#[test]
fn an_entry_of_another_qp_at_the_same_user_index_is_refused() {
    for (kind, shared) in [QpType::Rc, QpType::Uc, QpType::Ud, QpType::RawPacket]
        .into_iter()
        .flat_map(|kind| [(kind, false), (kind, true)])
    {
        for (opcode, number) in
            [0x0, 0x1, 0x2, 0x3, 0x4, 0xd, 0xe].into_iter().flat_map(|op| [(op, QPN ^ 1), (op, QPN ^ 0x100)])
        {
            let is_send = matches!(opcode, 0x0 | 0xd);
            // Where it has a flow tag.
            if kind == QpType::RawPacket && !is_send {
                continue;
            }
            for most in [1, 4] {
                let mut rig = with_entry(kind, shared, 0xf << 4);
                rig.produced = 0;
                rig.write(
                    Cqe::new(opcode, 0).dword(56, if is_send { 0x0a << 24 | number } else { number }).byte(55, 0x13),
                );
                let what = format!("{kind:?}, shared {shared}, opcode {opcode:#x}, number {number:#x}, poll of {most}");
                assert_eq!(rig.poll(most), Err(PollError::UnknownQp(Qpn::new(number))), "{what}");
                assert_eq!(left(&rig), (1, 1), "{what}");
            }
        }
    }
}

/// A success of an operation that this driver never posts cannot be.
#[test]
fn a_success_of_what_is_never_posted_is_refused() {
    let posted = [0x01, 0x08, 0x09, 0x0a, 0x0b, 0x10, 0x11, 0x12];
    for opcode in (0..=0xff).filter(|opcode| !posted.contains(opcode)) {
        for most in [1, 4] {
            let mut rig = with_entry(QpType::Rc, false, 0xf << 4);
            rig.produced = 0;
            rig.write(Cqe::new(0x0, 0).sent(opcode));
            assert_eq!(rig.poll(most), Err(PollError::BadEntry), "send opcode {opcode:#x}, poll of {most}");
        }
    }
}

#[test]
fn an_entry_of_another_format_gives_no_slot_back_when_it_is_swept() {
    for (format, free) in [(0, 7), (1, 6), (2, 6), (3, 6)] {
        let mut rig = with_entry(QpType::Rc, true, 0x2 << 4 | format << 2);
        rig.ring.sweep(&HOST, 0, &rig.target);
        assert_eq!(rig.told(), 1, "it is gone");
        assert_eq!(rig.post_srq(10..20).len(), free, "format {format}");
    }
}
