//! What requests do.

use crate::{
    device::Node,
    qp::{Data, PostedSend, QpState, Work},
};
use bareverbs::{
    Access, Completion, Event, Qkey, QpState as State, QpType, Qpn, RetryCount, SendFlags, SendOp, WcFlags, WcOpcode,
    WcStatus,
};
use std::rc::{Rc, Weak};

/// How an attempt ended.
pub(crate) enum Outcome {
    /// Done, with so many bytes.
    Done(WcOpcode, u32),
    /// Failed here, with this status at the sender.
    Failed(WcStatus),
    /// The receiver has no receive posted: try again later.
    NotReady,
}

impl Node {
    /// Executes at most one request of each QP; tells whether anything was done.
    pub(crate) fn progress(&self) -> bool {
        let qps: Vec<Rc<QpState>> = self.qps.borrow().values().filter_map(Weak::upgrade).collect();
        qps.iter().fold(false, |worked, qp| qp.progress() | worked)
    }
}

impl QpState {
    fn progress(&self) -> bool {
        if self.state() != State::Rts {
            return false;
        }
        let Some(wr) = ({ self.sends.borrow_mut().pop_front() }) else { return false };
        let outcome = match &wr.work {
            Work::Bind(bind) => self.bind(bind),
            Work::Op(op) if self.kind == QpType::Ud => self.datagram(&wr, *op),
            Work::Op(SendOp::LocalInvalidate(key)) => self.invalidate(key.0),
            Work::Op(op) => self.connected(&wr, *op),
        };
        match outcome {
            Outcome::Done(opcode, bytes) => {
                self.attempts.set(0);
                self.complete_send(&wr, WcStatus::Success, opcode, bytes);
            }
            Outcome::Failed(status) => {
                self.complete_send(&wr, status, WcOpcode::Send, 0);
                self.fail_send();
            }
            Outcome::NotReady if self.is_impatient() => {
                self.complete_send(&wr, WcStatus::RnrRetryExceeded, WcOpcode::Send, 0);
                self.fail();
            }
            Outcome::NotReady => {
                self.sends.borrow_mut().push_front(wr);
                return false;
            }
        }
        true
    }

    /// Whether the last RNR retry was used up: with a count of 7 it never is. A retry is an attempt.
    fn is_impatient(&self) -> bool {
        let allowed = self.attr.borrow().rnr_retry;
        let attempts = self.attempts.get() + 1;
        let over = allowed != RetryCount::MAX && attempts > u32::from(allowed.get());
        self.attempts.set(if over { 0 } else { attempts });
        over
    }

    fn bytes(&self, wr: &PostedSend) -> Option<Vec<u8>> {
        match &wr.data {
            Data::Sges(sges) => self.node.gather(*self.pd, sges),
            Data::Inline(bytes) => Some(bytes.clone()),
        }
    }

    /// The QP that a LID and a number name, if it can receive.
    fn peer(&self, lid: u16, qpn: Qpn) -> Option<Rc<QpState>> {
        let node = self.node.net.nodes.borrow().iter().filter_map(Weak::upgrade).find(|n| n.lid.0 == lid)?;
        let peer = node.qps.borrow().get(&qpn.get()).and_then(Weak::upgrade)?;
        matches!(peer.state(), State::Rtr | State::Rts | State::Sqe).then_some(peer)
    }

    /// Sends that find nobody are lost.
    fn datagram(&self, wr: &PostedSend, op: SendOp) -> Outcome {
        let Some(bytes) = self.bytes(wr) else { return Outcome::Failed(WcStatus::LocalProtection) };
        if bytes.len() > 4096 {
            return Outcome::Failed(WcStatus::LocalLength);
        }
        let Some((lid, qpn, qkey)) = wr.to else { return Outcome::Failed(WcStatus::LocalQpOperation) };
        let own = self.attr.borrow().qkey;
        let qkey = if qkey >> 31 == 0 { Qkey(qkey) } else { own };
        let receiver = self.peer(lid, qpn).filter(|p| p.kind == QpType::Ud && p.attr.borrow().qkey == qkey);
        if let Some(peer) = receiver {
            let message = [&[0; 40], &bytes[..]].concat();
            let source = Completion { src_qp: Qpn::new(self.number), slid: self.node.lid, ..Completion::default() };
            peer.receive(wr, op, &message, source);
        }
        Outcome::Done(WcOpcode::Send, 0)
    }

    fn connected(&self, wr: &PostedSend, op: SendOp) -> Outcome {
        let (lid, qpn) = {
            let a = self.attr.borrow();
            (a.av.dlid.0, a.dest_qpn)
        };
        let Some(peer) = self.peer(lid, qpn).filter(|p| p.kind == self.kind) else {
            return Outcome::Failed(WcStatus::RetryExceeded);
        };
        match op {
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInvalidate(_) => match self.bytes(wr) {
                Some(bytes) => peer.receive(wr, op, &bytes, Completion::default()),
                None => Outcome::Failed(WcStatus::LocalProtection),
            },
            SendOp::Write { addr, rkey } | SendOp::WriteImm { addr, rkey, .. } => {
                let Some(bytes) = self.bytes(wr) else { return Outcome::Failed(WcStatus::LocalProtection) };
                let Some(at) = peer.remote(rkey.0, addr, bytes.len(), Access::REMOTE_WRITE) else {
                    return peer.refuse();
                };
                // SAFETY: `remote` checked the range; regions hold no references. The bytes are a copy.
                unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at.as_ptr(), bytes.len()) };
                match op {
                    SendOp::WriteImm { .. } => peer.receive(
                        wr,
                        op,
                        &[],
                        Completion {
                            opcode: WcOpcode::RecvWriteImm,
                            byte_len: bytes.len() as u32,
                            ..Completion::default()
                        },
                    ),
                    _ => Outcome::Done(WcOpcode::Write, 0),
                }
            }
            SendOp::Read { addr, rkey } => {
                self.fetch(wr, &peer, addr, rkey.0, Access::REMOTE_READ, WcOpcode::Read, |_| None)
            }
            SendOp::CompareSwap { addr, rkey, compare, swap } => {
                let change = |old| (old == compare).then_some(swap);
                self.fetch(wr, &peer, addr, rkey.0, Access::REMOTE_ATOMIC, WcOpcode::CompareSwap, change)
            }
            // Of this side alone.
            SendOp::LocalInvalidate(_) => Outcome::Failed(WcStatus::LocalQpOperation),
            SendOp::FetchAdd { addr, rkey, add } => {
                let change = |old: u64| Some(old.wrapping_add(add));
                self.fetch(wr, &peer, addr, rkey.0, Access::REMOTE_ATOMIC, WcOpcode::FetchAdd, change)
            }
        }
    }

    /// READ and atomics: brings remote bytes back, and changes a word there if `change` says so.
    #[allow(clippy::too_many_arguments, reason = "the fields of the request, each used once")]
    fn fetch(
        &self,
        wr: &PostedSend,
        peer: &QpState,
        addr: u64,
        rkey: u32,
        needs: Access,
        opcode: WcOpcode,
        change: impl Fn(u64) -> Option<u64>,
    ) -> Outcome {
        let Data::Sges(sges) = &wr.data else { return Outcome::Failed(WcStatus::LocalQpOperation) };
        let len = sges.iter().map(|s| s.length() as usize).sum();
        let serves = peer.attr.borrow().max_dest_rd_atomic > 0;
        let at = peer.remote(rkey, addr, len, needs).filter(|_| serves);
        let Some(at) = at else { return peer.refuse() };
        // SAFETY: `remote` checked the range; regions hold no references.
        let bytes = unsafe { core::slice::from_raw_parts(at.as_ptr(), len) }.to_vec();
        if self.node.scatter(*self.pd, sges, &bytes).is_none() {
            return Outcome::Failed(WcStatus::LocalProtection);
        }
        if let Ok(old) = bytes[..].try_into().map(u64::from_ne_bytes)
            && let Some(new) = change(old)
        {
            // SAFETY: the same eight bytes.
            unsafe { at.cast::<u64>().write_unaligned(new) };
        }
        Outcome::Done(opcode, len as u32)
    }

    /// The memory that a peer names, if the QP and the region allow it.
    fn remote(&self, rkey: u32, addr: u64, len: usize, needs: Access) -> Option<core::ptr::NonNull<u8>> {
        let allowed = self.attr.borrow().access.contains(needs);
        let direct = || self.node.translate(*self.pd, rkey, addr, len, needs);
        allowed.then(|| direct().or_else(|| self.through_window(rkey, addr, len, needs)))?
    }

    /// A key is taken back: of a window that this QP bound, and of nothing else.
    fn invalidate(&self, key: u32) -> Outcome {
        let Some(window) = self.own_window(key) else { return Outcome::Failed(WcStatus::MemoryWindowBind) };
        window.close();
        Outcome::Done(WcOpcode::LocalInvalidate, 0)
    }

    /// Breaks the responder: the requester made an access it may not.
    fn refuse(&self) -> Outcome {
        self.node.events.borrow_mut().push_back(Event::QpAccessError(Qpn::new(self.number)));
        self.fail();
        Outcome::Failed(WcStatus::RemoteAccess)
    }

    /// A message arrives.
    fn receive(&self, wr: &PostedSend, op: SendOp, bytes: &[u8], mut completion: Completion) -> Outcome {
        let mut window = None;
        if let SendOp::SendInvalidate(key) = op {
            window = self.own_window(key.0);
            if window.is_none() {
                return self.refuse();
            }
        }
        let Some(receive) = self.take_receive() else { return Outcome::NotReady };
        completion.wr_id = receive.wr_id;
        let room: u64 = receive.sges.iter().map(|s| u64::from(s.length())).sum();
        let write = completion.opcode == WcOpcode::RecvWriteImm;
        let problem = if bytes.len() as u64 > room {
            Some((WcStatus::LocalLength, WcStatus::RemoteInvalidRequest))
        } else if !write && self.node.scatter(self.receive_pd(), &receive.sges, bytes).is_none() {
            Some((WcStatus::LocalProtection, WcStatus::RemoteOperation))
        } else {
            None
        };
        if let Some((here, there)) = problem {
            self.complete_receive(Completion { status: here, ..completion }, true);
            self.fail();
            return Outcome::Failed(there);
        }
        if !write {
            completion.opcode = WcOpcode::Recv;
            completion.byte_len = bytes.len() as u32;
        }
        match op {
            SendOp::SendImm(imm) | SendOp::WriteImm { imm, .. } => {
                (completion.imm, completion.flags) = (imm, WcFlags::WITH_IMM);
            }
            SendOp::SendInvalidate(rkey) => {
                window.iter().for_each(|w| w.close());
                (completion.imm, completion.flags) = (rkey.0, WcFlags::WITH_INVALIDATE);
            }
            _ => {}
        }
        self.complete_receive(completion, wr.flags.contains(SendFlags::SOLICITED));
        Outcome::Done(if write { WcOpcode::Write } else { WcOpcode::Send }, 0)
    }
}
