//! Shared receive queues.

use super::{
    Case, Outcome, Stop,
    lab::{CAP, Lab, Mr, Setup, ids, left_out},
    may, must,
};
use alloc::{vec, vec::Vec};
use bareverbs::{
    Argument, CompletionQueue, Destroy, Device, Error, Event, Handle, MemoryRegion, PostError, PostListError, QpAttr,
    QpCap, QpState, QpType, QueuePair, RecvWr, SendOp, SendWr, SharedReceiveQueue, SrqAttr, SrqInit, WcStatus,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        must(
            "srq_holds_at_least_what_was_asked_for",
            "ibv_create_srq",
            "an SRQ has at least the requests and elements asked for, and query tells the actual ones",
            at_least,
        ),
        must(
            "srq_limit_means_nothing_at_creation",
            "ibv_create_srq",
            "the limit given at creation is not armed",
            limit_at_creation,
        ),
        must(
            "srq_refuses_sizes_out_of_range",
            "ibv_create_srq",
            "0 and more than the device has are refused by the argument's name",
            bad_sizes,
        ),
        must("srq_gives_its_context_back", "ibv_create_srq", "the user's context is the SRQ's", context),
        must("srq_of_another_device_s_pd", "ibv_create_srq", "the protection domain is one of the device's", foreign),
        must(
            "srq_gives_to_all_its_qps",
            "ibv_create_srq",
            "messages of several QPs take the requests in the order of posting; completions name the QP",
            several_qps,
        ),
        must(
            "srq_completes_to_several_cqs",
            "ibv_create_srq",
            "QPs of one SRQ complete to CQs of their own; slots come back from both",
            several_cqs,
        ),
        must(
            "srq_capacity_is_exact",
            "ibv_post_srq_recv",
            "as many requests as query tells can be posted, one more is refused as full",
            capacity,
        ),
        must(
            "srq_post_stops_at_the_first_failure",
            "ibv_post_srq_recv",
            "a list is posted up to the request that fails, whose index is told",
            list_stops,
        ),
        must(
            "srq_ud_data_lies_behind_the_grh",
            "ibv_post_srq_recv",
            "datagrams to an SRQ begin 40 bytes into the buffer",
            datagram,
        ),
        must(
            "srq_post_recv_on_its_qps_is_refused",
            "ibv_post_recv",
            "a QP of an SRQ takes no receives of its own",
            post_recv,
        ),
        must(
            "srq_limit_fires_once",
            "ibv_modify_srq",
            "an event comes once fewer are left than the limit, not before and only once; it can be armed again",
            limit,
        ),
        must(
            "srq_limit_reads_0_afterwards",
            "ibv_query_srq",
            "query tells the limit while it is armed, and 0 after the event",
            limit_query,
        ),
        must("srq_limit_of_0_disarms", "ibv_query_srq", "with limit 0 no event comes", limit_zero),
        must(
            "srq_limit_armed_too_late",
            "IBA 10.2.9.2",
            "arming when fewer than the limit are left gives the event at once",
            limit_late,
        ),
        must(
            "srq_limit_out_of_range",
            "ibv_modify_srq",
            "a limit beyond the SRQ's size is refused, and the one before it stays",
            limit_range,
        ),
        may(
            "srq_resize",
            "ibv_modify_srq",
            "an SRQ grows, or says that it cannot, as the device's attributes do",
            resize,
        ),
        must(
            "case_20_srq_destroyed_while_in_use",
            "report 20; ibv_destroy_srq",
            "with two QPs on it an SRQ is not destroyed and goes on; it goes after them",
            case_20,
        ),
        must(
            "case_21_receive_sizes_are_ignored_with_an_srq",
            "report 21; ibv_create_qp",
            "receive sizes beyond every limit do no harm to a QP of an SRQ",
            case_21,
        ),
        must(
            "case_22_slots_of_unpolled_completions",
            "report 22",
            "a QP goes with all but one of the SRQ's requests completed and unpolled: all their slots come back",
            case_22,
        ),
        must(
            "srq_last_wqe_reached",
            "IBA 11.6.3.2",
            "a QP of an SRQ that goes to ERR tells when it takes nothing more from the SRQ",
            last_wqe,
        ),
        must(
            "srq_requests_outlive_their_qps",
            "IBA 10.2.9",
            "requests that no message took stay when a QP fails or goes, and serve the next",
            outlive,
        ),
        must("srq_through_a_raw_pointer", "traits", "an SRQ goes through a raw pointer and back unharmed", raw),
    ]
}

/// An SRQ on device 1 with QPs that receive from it, each with a peer on device 0.
struct Bench<D: Device> {
    srq: D::Srq,
    receivers: Vec<D::Qp>,
    senders: Vec<D::Qp>,
    cq: D::Cq,
    send_cq: D::Cq,
    buffer: Mr<D>,
    source: Mr<D>,
}

/// Bytes of a receive's slot in the buffer.
const SLOT: usize = 256;

impl<D: Device> Bench<D> {
    fn new(lab: &mut Lab<D>, qps: usize, max_wr: u32) -> Outcome<Self> {
        let srq = lab.srq(1, max_wr)?;
        let (cq, send_cq) = (lab.cq(1, 127)?, lab.cq(0, 127)?);
        let mut bench = Self {
            srq,
            receivers: Vec::new(),
            senders: Vec::new(),
            cq,
            send_cq,
            buffer: lab.mr(1, 1 << 16)?,
            source: lab.mr(0, 1 << 12)?,
        };
        for _ in 0..qps {
            bench.add(lab)?;
        }
        Ok(bench)
    }

    fn add(&mut self, lab: &Lab<D>) -> Outcome {
        let cap = QpCap { max_send_wr: 64, ..CAP };
        let mut receiver = lab.qp(1, QpType::Rc, [&self.cq, &self.cq], Some(&self.srq), cap)?;
        let mut sender = lab.qp(0, QpType::Rc, [&self.send_cq, &self.send_cq], None, cap)?;
        lab.connect(&mut sender, &mut receiver)?;
        self.receivers.push(receiver);
        self.senders.push(sender);
        Ok(())
    }

    fn post(&mut self, id: u64) -> Outcome<Result<(), PostListError>> {
        let at = id as usize % 64 * SLOT;
        let sges = [self.buffer.sge(at..at + SLOT)?];
        Ok(self.srq.post([RecvWr::new(id, &sges)]))
    }

    fn send(&mut self, qp: usize, id: u64) -> Outcome {
        self.source.write(0, &id.to_le_bytes())?;
        let sges = [self.source.sge(0..8)?];
        Ok(self.senders[qp].post_send([SendWr::new(SendOp::Send, &sges).wr_id(id).signaled()])?)
    }

    /// Sends a message and waits until it is there.
    fn carry(&mut self, lab: &Lab<D>, qp: usize, id: u64) -> Outcome {
        self.send(qp, id)?;
        let done = lab.one(&mut self.send_cq)?;
        ensure_eq!((done.wr_id, done.status), (id, WcStatus::Success), "the send");
        Ok(())
    }

    /// What the message in a receive's slot says.
    fn word(&self, id: u64) -> Outcome<u64> {
        let mut bytes = [0; 8];
        self.buffer.read(id as usize % 64 * SLOT, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

fn at_least<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for (max_wr, max_sge) in [(1, 1), (2, 2), (7, 3), (8, 1), (100, 4), (255, 7)] {
        let mut srq = lab.devices[0].create_srq(&lab.pds[0], SrqAttr { max_wr, max_sge, limit: 0 })?;
        let attr = srq.query()?;
        let enough = attr.max_wr >= max_wr && attr.max_sge >= max_sge;
        ensure!(enough, "({max_wr}, {max_sge}) asked for, ({}, {}) there", attr.max_wr, attr.max_sge);
        srq.destroy()?;
    }
    Ok(())
}

fn limit_at_creation<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut srq = lab.devices[0].create_srq(&lab.pds[0], SrqAttr { max_wr: 8, max_sge: 1, limit: 5 })?;
    ensure_eq!(srq.query()?.limit, 0, "the limit");
    lab.no_event(0)
}

fn bad_sizes<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let attr = lab.devices[0].attributes();
    let wrong = [
        (0, 1, Argument::SrqEntries, 0, attr.max_srq_wr),
        (attr.max_srq_wr + 1, 1, Argument::SrqEntries, attr.max_srq_wr + 1, attr.max_srq_wr),
        (1, 0, Argument::SrqSge, 0, attr.max_srq_sge),
        (1, attr.max_srq_sge + 1, Argument::SrqSge, attr.max_srq_sge + 1, attr.max_srq_sge),
    ];
    for (max_wr, max_sge, what, wanted, max) in wrong {
        let result = lab.devices[0].create_srq(&lab.pds[0], SrqAttr { max_wr, max_sge, limit: 0 }).map(|_| ());
        let error = Error::OutOfRange { what, wanted: wanted.into(), max: max.into() };
        ensure_eq!(result, Err(error), "({max_wr}, {max_sge})");
    }
    Ok(())
}

fn context<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let attr = SrqAttr { max_wr: 3, max_sge: 1, limit: 0 };
    for context in [0x0123_4567_89ab_cdef, u64::MAX] {
        let srq = lab.devices[0].create_srq(&lab.pds[0], SrqInit { attr, context })?;
        ensure_eq!(srq.context(), context, "the context");
    }
    ensure_eq!(lab.devices[0].create_srq(&lab.pds[0], attr)?.context(), 0, "the context of none");
    Ok(())
}

fn foreign<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let init = SrqAttr { max_wr: 4, max_sge: 1, limit: 0 };
    let result = lab.devices[0].create_srq(&lab.pds[1], init).map(|_| ());
    ensure_eq!(result, Err(Error::Foreign(bareverbs::Object::Pd)), "the error");
    Ok(())
}

fn several_qps<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut bench = Bench::new(lab, 3, 15)?;
    for id in 0..9 {
        bench.post(id)??;
    }
    for id in 0..9u64 {
        let qp = [0, 1, 1, 2, 0, 2, 2, 1, 0][id as usize];
        bench.carry(lab, qp, 1000 + id)?;
        let done = lab.one(&mut bench.cq)?;
        ensure_eq!((done.wr_id, done.qpn), (id, bench.receivers[qp].qpn()), "id and QP");
        ensure_eq!(bench.word(id)?, 1000 + id, "the data");
    }
    Ok(())
}

fn several_cqs<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut bench = Bench::new(lab, 1, 3)?;
    let mut other_cq = lab.cq(1, 15)?;
    let mut receiver = lab.qp(1, QpType::Rc, [&other_cq, &other_cq], Some(&bench.srq), CAP)?;
    let mut sender = lab.qp(0, QpType::Rc, [&bench.send_cq, &bench.send_cq], None, CAP)?;
    lab.connect(&mut sender, &mut receiver)?;
    bench.receivers.push(receiver);
    bench.senders.push(sender);
    for id in 0..60 {
        bench.post(id)??;
        bench.carry(lab, id as usize % 2, id)?;
        let cq = if id % 2 == 0 { &mut bench.cq } else { &mut other_cq };
        ensure_eq!(lab.one(cq)?.wr_id, id, "the id");
    }
    Ok(())
}

fn capacity<D: Device>(lab: &mut Lab<D>) -> Outcome {
    for max_wr in [1, 5, 8] {
        let mut bench = Bench::new(lab, 1, max_wr)?;
        let n = u64::from(bench.srq.query()?.max_wr);
        for id in 0..n {
            bench.post(id)??;
        }
        let full = PostListError { index: 0, error: PostError::QueueFull };
        ensure_eq!(bench.post(n)?, Err(full), "one more than {n}");
        // A slot is free when its completion was polled.
        bench.carry(lab, 0, 1)?;
        lab.settle();
        ensure_eq!(bench.post(n)?, Err(full), "one more, the completion not polled");
        ensure_eq!(lab.one(&mut bench.cq)?.wr_id, 0, "the receive");
        bench.post(n)??;
        ensure_eq!(bench.post(n)?, Err(full), "two more");
    }
    Ok(())
}

fn list_stops<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut bench = Bench::new(lab, 1, 4)?;
    let attr = bench.srq.query()?;
    let (one, many) = ([bench.buffer.sge(0..8)?], vec![bench.buffer.sge(0..8)?; attr.max_sge as usize + 1]);
    let list = [RecvWr::new(0, &one), RecvWr::new(1, &one), RecvWr::new(2, &many), RecvWr::new(3, &one)];
    let error = PostListError { index: 2, error: PostError::TooManySge { max: attr.max_sge } };
    ensure_eq!(bench.srq.post(list), Err(error), "too many elements");
    for id in [0, 1] {
        bench.carry(lab, 0, id)?;
        ensure_eq!(lab.one(&mut bench.cq)?.wr_id, id, "what was posted before it");
    }
    let n = attr.max_wr as u64;
    let list = (0..n + 3).map(|id| RecvWr::new(10 + id, &one));
    let full = PostListError { index: n as usize, error: PostError::QueueFull };
    ensure_eq!(bench.srq.post(list), Err(full), "a list of {}", n + 3);
    for id in 0..n {
        bench.carry(lab, 0, id)?;
        ensure_eq!(lab.one(&mut bench.cq)?.wr_id, 10 + id, "the list");
    }
    Ok(())
}

fn datagram<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let [mut a, b] = lab.pair(&Setup::of(QpType::Ud))?;
    let (mut srq, mut cq) = (lab.srq(1, 4)?, lab.cq(1, 7)?);
    let mut qp = lab.qp(1, QpType::Ud, [&cq, &cq], Some(&srq), CAP)?;
    crate::connect::to_init(&mut qp, bareverbs::Access::empty())?;
    qp.modify(&QpAttr::to(QpState::Rtr))?;
    srq.post([RecvWr::new(3, &[b.mr.sge(0..100)?])])?;
    a.to = Some(crate::connect::destination(&lab.devices[0], &lab.devices[1], &qp)?);
    a.mr.write(0, b"datagram")?;
    a.signaled(1, SendOp::Send, 0..8)?;
    let done = lab.one(&mut cq)?;
    ensure_eq!((done.wr_id, done.byte_len, done.src_qp), (3, 48, a.qp.qpn()), "the receive");
    ensure_eq!(b.bytes(40..48)?, b"datagram", "the data");
    Ok(())
}

fn post_recv<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut bench = Bench::new(lab, 1, 4)?;
    let sges = [bench.buffer.sge(0..8)?];
    let error = PostListError { index: 0, error: PostError::UsesSrq };
    ensure_eq!(bench.receivers[0].post_recv([RecvWr::new(0, &sges)]), Err(error), "the error");
    Ok(())
}

fn limit<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut bench = Bench::new(lab, 1, 15)?;
    let event = Event::SrqLimit(bench.srq.srqn());
    let mut left = 0;
    for round in 0..3 {
        while left < 6 {
            bench.post(left)??;
            left += 1;
        }
        bench.srq.set_limit(3)?;
        // Three are left: not fewer than the limit.
        while left > 3 {
            bench.carry(lab, 0, left)?;
            lab.one(&mut bench.cq)?;
            left -= 1;
        }
        lab.no_event(1)?;
        bench.carry(lab, 0, left)?;
        lab.one(&mut bench.cq)?;
        lab.event(1, event)?;
        bench.carry(lab, 0, left)?;
        lab.one(&mut bench.cq)?;
        left -= 2;
        ensure_eq!(left, 1, "requests left in round {round}");
        lab.no_event(1)?;
    }
    Ok(())
}

fn limit_query<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut bench = Bench::new(lab, 1, 7)?;
    for id in 0..4 {
        bench.post(id)??;
    }
    bench.srq.set_limit(2)?;
    ensure_eq!(bench.srq.query()?.limit, 2, "the limit while armed");
    for n in 0..3 {
        bench.carry(lab, 0, n)?;
        lab.one(&mut bench.cq)?;
    }
    lab.event(1, Event::SrqLimit(bench.srq.srqn()))?;
    ensure_eq!(bench.srq.query()?.limit, 0, "the limit after the event");
    Ok(())
}

fn limit_zero<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut bench = Bench::new(lab, 1, 7)?;
    for id in 0..4 {
        bench.post(id)??;
    }
    bench.srq.set_limit(3)?;
    bench.srq.set_limit(0)?;
    ensure_eq!(bench.srq.query()?.limit, 0, "the limit");
    for n in 0..4 {
        bench.carry(lab, 0, n)?;
        lab.one(&mut bench.cq)?;
    }
    lab.no_event(1)
}

fn limit_late<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut bench = Bench::new(lab, 1, 7)?;
    bench.post(0)??;
    bench.srq.set_limit(3)?;
    lab.event(1, Event::SrqLimit(bench.srq.srqn()))?;
    ensure_eq!(bench.srq.query()?.limit, 0, "the limit after the event");
    bench.carry(lab, 0, 1)?;
    lab.no_event(1)
}

fn limit_range<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut bench = Bench::new(lab, 1, 7)?;
    let max = bench.srq.query()?.max_wr;
    for id in 0..5 {
        bench.post(id)??;
    }
    bench.srq.set_limit(4)?;
    let error = Error::OutOfRange { what: Argument::SrqLimit, wanted: u64::from(max) + 1, max: max.into() };
    ensure_eq!(bench.srq.set_limit(max + 1), Err(error), "a limit of {}", max + 1);
    ensure_eq!(bench.srq.query()?.limit, 4, "the limit before it");
    Ok(())
}

fn resize<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut bench = Bench::new(lab, 1, 7)?;
    bench.post(0)??;
    let (before, name) = (bench.srq.query()?, "resizing an SRQ");
    let lacks = left_out(bench.srq.resize(60), name)?;
    ensure_eq!(!lacks, lab.devices[1].attributes().srq_resize, "whether it can, by trying and by the attribute");
    if lacks {
        ensure_eq!(bench.srq.query()?, before, "sizes and limit");
        for id in 1..u64::from(before.max_wr) {
            bench.post(id)??;
        }
        for id in 0..u64::from(before.max_wr) {
            bench.carry(lab, 0, id)?;
            ensure_eq!(lab.one(&mut bench.cq)?.wr_id, id, "the id");
        }
        return Err(Stop::Unsupported(name));
    }
    ensure!(bench.srq.query()?.max_wr >= 60, "60 asked for, {} there", bench.srq.query()?.max_wr);
    for id in 1..60 {
        bench.post(id)??;
    }
    for id in 0..60 {
        bench.carry(lab, 0, id)?;
        ensure_eq!(lab.one(&mut bench.cq)?.wr_id, id, "the id");
    }
    Ok(())
}

fn case_20<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let bench = Bench::new(lab, 2, 7)?;
    let Err(refused) = bench.srq.destroy() else { return Err(Stop::failed(format_args!("destroyed"), line!())) };
    ensure_eq!(refused.error, Error::Busy { holders: 2 }, "the error");
    let mut bench = Bench { srq: refused.handle, ..bench };
    bench.post(5)??;
    bench.carry(lab, 0, 1)?;
    ensure_eq!(lab.one(&mut bench.cq)?.wr_id, 5, "a receive after the refused destroy");
    let Bench { srq, mut receivers, .. } = bench;
    receivers.remove(0).destroy()?;
    let Err(refused) = srq.destroy() else { return Err(Stop::failed(format_args!("destroyed"), line!())) };
    ensure_eq!(refused.error, Error::Busy { holders: 1 }, "the error");
    receivers.remove(0).destroy()?;
    Ok(refused.handle.destroy()?)
}

fn case_21<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (srq, cq) = (lab.srq(1, 7)?, lab.cq(1, 7)?);
    let max_recv_wr = lab.devices[1].attributes().max_qp_wr + 1;
    let cap = QpCap { max_recv_wr, max_recv_sge: 99, ..CAP };
    for kind in [QpType::Rc, QpType::Ud] {
        let mut qp = lab.qp(1, kind, [&cq, &cq], Some(&srq), cap)?;
        ensure_eq!((qp.cap().max_recv_wr, qp.cap().max_recv_sge), (0, 0), "receive sizes of {kind:?}");
        let error = PostListError { index: 0, error: PostError::UsesSrq };
        ensure_eq!(qp.post_recv([RecvWr::new(0, &[])]), Err(error), "post_recv of {kind:?}");
    }
    Ok(())
}

fn case_22<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut bench = Bench::new(lab, 2, 15)?;
    let c = u64::from(bench.srq.query()?.max_wr);
    for id in 0..c {
        bench.post(id)??;
    }
    for id in 0..c - 1 {
        bench.carry(lab, 0, id)?;
    }
    lab.settle();
    bench.receivers.remove(0).destroy()?;
    for id in 0..c - 1 {
        bench.post(100 + id)??;
    }
    let full = PostListError { index: 0, error: PostError::QueueFull };
    ensure_eq!(bench.post(999)?, Err(full), "one more than came back");
    let mut seen = Vec::new();
    for n in 0..c {
        bench.carry(lab, 1, 5000 + n)?;
        let done = lab.one(&mut bench.cq)?;
        ensure_eq!(done.qpn, bench.receivers[0].qpn(), "the QP");
        ensure_eq!(bench.word(done.wr_id)?, 5000 + n, "the data of receive {}", done.wr_id);
        ensure!(!seen.contains(&done.wr_id), "receive {} completed twice", done.wr_id);
        seen.push(done.wr_id);
    }
    lab.nothing(&mut bench.cq)
}

fn last_wqe<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut bench = Bench::new(lab, 2, 7)?;
    bench.post(0)??;
    bench.receivers[0].modify(&QpAttr::to(QpState::Err))?;
    lab.event(1, Event::LastWqeReached(bench.receivers[0].qpn()))?;
    lab.nothing(&mut bench.cq)?;
    bench.carry(lab, 1, 3)?;
    ensure_eq!(lab.one(&mut bench.cq)?.wr_id, 0, "the other QP's receive");
    lab.no_event(1)
}

fn outlive<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut bench = Bench::new(lab, 1, 7)?;
    for id in 0..4 {
        bench.post(id)??;
    }
    bench.carry(lab, 0, 0)?;
    bench.receivers.remove(0).destroy()?;
    bench.senders.remove(0).destroy()?;
    bench.add(lab)?;
    for id in 1..4 {
        bench.carry(lab, 0, id)?;
    }
    ensure_eq!(ids(&lab.poll(&mut bench.cq, 3)?), [1, 2, 3], "the ids");
    lab.nothing(&mut bench.cq)
}

fn raw<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let bench = Bench::new(lab, 1, 7)?;
    let srqn = bench.srq.srqn();
    let raw = bench.srq.into_raw();
    // SAFETY: came from `into_raw` just now.
    let srq = unsafe { D::Srq::from_raw(raw) };
    ensure_eq!(srq.srqn(), srqn, "the number");
    let mut bench = Bench { srq, ..bench };
    bench.post(6)??;
    bench.carry(lab, 0, 1)?;
    ensure_eq!(lab.one(&mut bench.cq)?.wr_id, 6, "the id");
    let mut none = [bareverbs::Completion::default()];
    ensure_eq!(bench.cq.poll(&mut none), Ok(0), "a poll behind it");
    Ok(())
}
