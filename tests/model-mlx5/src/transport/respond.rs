//! The responder's answers: ACKs and NAKs, READ responses, results of atomics, in the order of the requests.

use bareverbs::wire::{
    aeth::{self, NakCode},
    atomic,
    ext::Ext,
    opcode::{Opcode, Operation, Transport},
};
use bareverbs_harness::model::Bus;

use super::{
    counters::Counter,
    data, deliver, enter,
    flow::Flow,
    packet::{self, Header},
    psn::Psn,
    recv,
    responder::Responder,
    timers,
};
use crate::{
    eq::Event,
    hca::Hca,
    mr::{Access, KeyUser},
    qp::{QpState, Service},
};

/// Memory that a request of the other side names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// For whom the key has to be good.
    pub user: KeyUser,
    /// First byte.
    pub va: u64,
    /// Behind this key.
    pub rkey: u32,
    /// Bytes.
    pub len: u64,
}

/// An answer that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Everything up to this PSN is done.
    Ack {
        /// PSN.
        psn: Psn,
        /// Messages completed.
        msn: Psn,
    },
    /// This PSN is refused.
    Nak {
        /// PSN.
        psn: Psn,
        /// Messages completed.
        msn: Psn,
        /// Why.
        syndrome: aeth::Syndrome,
    },
    /// A READ, answered packet by packet.
    Read {
        /// PSN of its first response.
        psn: Psn,
        /// What is read.
        memory: Remote,
        /// Responses sent.
        at: u32,
        /// Messages completed, this one included.
        msn: Psn,
        /// Asked for once more.
        again: bool,
    },
    /// An atomic that was executed.
    Atomic {
        /// PSN.
        psn: Psn,
        /// What was there before.
        original: u64,
        /// Messages completed, this one included.
        msn: Psn,
        /// Asked for once more.
        again: bool,
    },
}

impl Responder {
    /// Everything so far is acknowledged, by one ACK where nothing else is answered in between.
    pub fn ack(&mut self) {
        let ack = Answer::Ack { psn: self.expected.prev(), msn: self.msn };
        match self.answers.back_mut() {
            Some(last @ Answer::Ack { .. }) => *last = ack,
            _ => self.answers.push_back(ack),
        }
    }

    /// Refuses a request.
    pub fn nak(&mut self, psn: Psn, code: NakCode) {
        self.answers.push_back(Answer::Nak { psn, msn: self.msn, syndrome: aeth::Syndrome::Nak(code) });
    }

    /// There is no receive WQE for a request.
    pub fn rnr(&mut self, psn: Psn, timer: u8) {
        self.answers.push_back(Answer::Nak { psn, msn: self.msn, syndrome: aeth::Syndrome::RnrNak { timer } });
    }

    /// READs and atomics that are not answered yet: those asked for once, or once more.
    pub fn pending(&self, once_more: bool) -> u32 {
        let counts =
            |a: &&Answer| matches!(a, Answer::Read { again, .. } | Answer::Atomic { again, .. } if *again == once_more);
        self.answers.iter().filter(counts).count() as u32
    }
}

/// Sends the next answer, of a READ its next packet. Tells whether there was any.
pub fn send(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow) -> bool {
    let Some(answer) = flow.responder.answers.pop_front() else { return false };
    match answer {
        Answer::Ack { psn, msn } => {
            hca.transport.counters.count(Counter::AcksSent);
            let credit = credit(hca, bus, flow);
            send_aeth(hca, bus, flow, psn, msn, aeth::Syndrome::Ack { credit });
        }
        Answer::Nak { psn, msn, syndrome } => {
            hca.transport.counters.count(Counter::NaksSent);
            send_aeth(hca, bus, flow, psn, msn, syndrome);
        }
        Answer::Atomic { psn, original, msn, .. } => {
            let credit = credit(hca, bus, flow);
            let ext = Ext {
                aeth: Some(aeth::Repr { syndrome: aeth::Syndrome::Ack { credit }, msn: msn.get() }),
                atomic_ack: Some(atomic::AckRepr { original }),
                ..Default::default()
            };
            let opcode = Opcode::new(transport(flow), Operation::AtomicAcknowledge);
            send_empty(hca, bus, flow, &Header { ext, ..Header::answer(opcode, flow.remote_qpn, psn, None) });
        }
        Answer::Read { psn, memory, at, msn, again } => {
            let packets = flow.packets(memory.len);
            if send_read(hca, bus, flow, psn, memory, (at, packets), (msn, again)) && at + 1 < packets {
                flow.responder.answers.push_front(Answer::Read { psn, memory, at: at + 1, msn, again });
            }
        }
    }
    true
}

const fn transport(flow: &Flow) -> Transport {
    if matches!(flow.service, Service::Xrc) { Transport::Xrc } else { Transport::Rc }
}

/// End-to-end credits: how many receive WQEs are waiting. A shared queue promises nothing.
fn credit(hca: &mut Hca, bus: &mut dyn Bus, flow: &Flow) -> u8 {
    recv::posted(hca, bus, flow).map_or(aeth::CREDIT_INVALID, |n| timers::credit_code(u32::from(n)))
}

fn send_aeth(hca: &mut Hca, bus: &mut dyn Bus, flow: &mut Flow, psn: Psn, msn: Psn, syndrome: aeth::Syndrome) {
    let opcode = Opcode::new(transport(flow), Operation::Acknowledge);
    let aeth = aeth::Repr { syndrome, msn: msn.get() };
    send_empty(hca, bus, flow, &Header::answer(opcode, flow.remote_qpn, psn, Some(aeth)));
}

fn send_empty(hca: &mut Hca, bus: &mut dyn Bus, flow: &Flow, header: &Header) {
    let Some(path) = flow.path else { return };
    if let Ok(Some(frame)) = packet::build(&path, header, 0, |_| Ok::<(), ()>(())) {
        deliver(hca, bus, &path, frame);
    }
}

/// Sends one packet of a READ response; tells whether the READ goes on.
fn send_read(
    hca: &mut Hca,
    bus: &mut dyn Bus,
    flow: &mut Flow,
    psn: Psn,
    Remote { user, va, rkey, len }: Remote,
    (at, packets): (u32, u32),
    (msn, again): (Psn, bool),
) -> bool {
    let Some(path) = flow.path else { return false };
    let (first, last) = (at == 0, at + 1 == packets);
    let operation = match (first, last) {
        (true, true) => Operation::ReadResponseOnly,
        (true, false) => Operation::ReadResponseFirst,
        (false, false) => Operation::ReadResponseMiddle,
        (false, true) => Operation::ReadResponseLast,
    };
    let aeth = if first || last {
        let credit = credit(hca, bus, flow);
        Some(aeth::Repr { syndrome: aeth::Syndrome::Ack { credit }, msn: msn.get() })
    } else {
        None
    };
    let header = Header::answer(Opcode::new(transport(flow), operation), flow.remote_qpn, psn.plus(at), aeth);
    let offset = u64::from(at) * flow.mtu as u64;
    let n = len.saturating_sub(offset).min(flow.mtu as u64) as usize;
    let va = va.wrapping_add(offset);
    match packet::build(&path, &header, n, |room| data::read(hca, bus, user, rkey, va, Access::REMOTE_READ, room)) {
        Ok(Some(frame)) => {
            deliver(hca, bus, &path, frame);
            true
        }
        Ok(None) => false,
        // A duplicate is dropped, as one that comes when the key is gone: its sender may long have the answer.
        Err(_) if again => false,
        Err(_) => {
            // The key was good when the request came and is gone now.
            hca.transport.counters.count(Counter::RespRemoteAccessErrors);
            let syndrome = aeth::Syndrome::Nak(NakCode::RemoteAccess);
            send_aeth(hca, bus, flow, psn.plus(at), msn, syndrome);
            hca.event(bus, Event::QpAccessError(flow.qpn));
            enter(hca, bus, flow, QpState::Error);
            flow.responder.answers.clear();
            false
        }
    }
}
