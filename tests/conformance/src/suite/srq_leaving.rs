//! QPs that leave their SRQ in the middle of a message: the receive that it took comes back, once.

use super::{
    Case, Outcome,
    lab::{CAP, Lab, Mr},
    may, must,
};
use alloc::vec::Vec;
use bareverbs::{
    Destroy, Device, Event, MemoryRegion, PostError, QpAttr, QpState, QpType, QueuePair, RawMemory, RecvWr, SendOp,
    SendWr, SharedReceiveQueue, SrqAttr, WcStatus, XrcSrqInit,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    alloc::vec![
        must(
            "case_22_reset_in_the_middle_of_a_message",
            "report 22; ibv_modify_qp",
            "a QP that is reset gives back the receive of a message that is not complete, and no event tells of it",
            reset,
        ),
        must(
            "case_22_err_and_reset_in_the_middle_of_a_message",
            "report 22; ibv_get_async_event",
            "a QP that goes to ERR flushes that receive; unpolled, it comes back by the reset",
            err_and_reset,
        ),
        must(
            "case_22_destroyed_in_the_middle_of_a_message",
            "report 22; ibv_destroy_qp",
            "the same of a QP that is destroyed, and of one that is dropped",
            destroyed,
        ),
        may(
            "case_22_xrc_target_goes_in_the_middle_of_a_message",
            "report 22; IBA A14",
            "the receive that an XRC target took is flushed to the SRQ's CQ when the target is reset or destroyed",
            xrc_target,
        ),
    ]
}

/// Bytes of a message: many packets.
const LONG: usize = 1 << 18;
/// Rounds of each case: a slot that is lost in one is missed in the next.
const ROUNDS: u8 = 4;

/// A sender on device 0 and a receiver on device 1 whose SRQ is full.
struct Leaving<D: Device> {
    srq: D::Srq,
    cq: D::Cq,
    send_cq: D::Cq,
    buffer: Mr<D>,
    source: Mr<D>,
}

impl<D: Device> Leaving<D> {
    fn new(lab: &mut Lab<D>) -> Outcome<Self> {
        let (srq, cq, send_cq) = (lab.srq(1, 3)?, lab.cq(1, 63)?, lab.cq(0, 63)?);
        let mut all = Self { srq, cq, send_cq, buffer: lab.mr(1, LONG)?, source: lab.mr(0, LONG)? };
        let capacity = all.srq.query()?.max_wr;
        ensure_eq!(all.fill()?, capacity, "requests that an empty SRQ takes");
        Ok(all)
    }

    fn qps(&self, lab: &Lab<D>) -> Outcome<[D::Qp; 2]> {
        let mut sender = lab.qp(0, QpType::Rc, [&self.send_cq, &self.send_cq], None, CAP)?;
        let mut receiver = lab.qp(1, QpType::Rc, [&self.cq, &self.cq], Some(&self.srq), CAP)?;
        lab.connect(&mut sender, &mut receiver)?;
        Ok([sender, receiver])
    }

    /// Posts until the SRQ is full, and tells how many that were.
    fn fill(&mut self) -> Outcome<u32> {
        fill(&mut self.srq, &self.buffer)
    }

    /// Sends a long message and waits until its first bytes are there.
    fn begin(&mut self, lab: &Lab<D>, sender: &mut D::Qp, mark: u8) -> Outcome {
        let sges = [self.source.sge(0..LONG)?];
        begin(lab, [&self.source, &self.buffer], mark, || {
            Ok(sender.post_send([SendWr::new(SendOp::Send, &sges).wr_id(mark.into())])?)
        })
    }
}

/// Posts until an SRQ is full, and tells how many that were.
fn fill(srq: &mut impl SharedReceiveQueue, buffer: &impl MemoryRegion<RawMemory>) -> Outcome<u32> {
    let sges = [buffer.sge(0..LONG)?];
    let mut posted = 0;
    loop {
        match srq.push(&RecvWr::new(7, &sges)) {
            Ok(()) => posted += 1,
            Err(PostError::QueueFull) => {
                srq.ring();
                return Ok(posted);
            }
            Err(other) => return Err(other.into()),
        }
    }
}

/// Sends a message that begins with a mark, and waits until that has arrived.
fn begin<D: Device>(lab: &Lab<D>, [source, buffer]: [&Mr<D>; 2], mark: u8, post: impl FnOnce() -> Outcome) -> Outcome {
    source.write(0, &[mark; 8])?;
    post()?;
    lab.wait("the first bytes of the message", || {
        let mut first = [0; 8];
        buffer.read(0, &mut first)?;
        Ok((first == [mark; 8]).then_some(()))
    })
}

fn reset<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut all = Leaving::new(lab)?;
    let [mut sender, mut receiver] = all.qps(lab)?;
    for round in 1..=ROUNDS {
        all.begin(lab, &mut sender, round)?;
        receiver.modify(&QpAttr::to(QpState::Reset))?;
        ensure_eq!((receiver.state(), receiver.query()?.state), (QpState::Reset, QpState::Reset), "the state");
        ensure_eq!(all.fill()?, 1, "requests that came back in round {round}");
        lab.nothing(&mut all.cq)?;
        lab.no_event(1)?;
        sender.modify(&QpAttr::to(QpState::Reset))?;
        lab.connect(&mut sender, &mut receiver)?;
    }
    // It works on, and a later end is told as ever.
    all.begin(lab, &mut sender, ROUNDS + 1)?;
    let done = lab.one(&mut all.cq)?;
    ensure_eq!((done.status, done.byte_len as usize), (WcStatus::Success, LONG), "a message after it");
    receiver.modify(&QpAttr::to(QpState::Err))?;
    lab.event(1, Event::LastWqeReached(receiver.qpn()))
}

fn err_and_reset<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut all = Leaving::new(lab)?;
    let [mut sender, mut receiver] = all.qps(lab)?;
    for round in 1..=ROUNDS {
        all.begin(lab, &mut sender, round)?;
        receiver.modify(&QpAttr::to(QpState::Err))?;
        // With and without waiting for the event.
        if round % 2 == 0 {
            lab.event(1, Event::LastWqeReached(receiver.qpn()))?;
        }
        receiver.modify(&QpAttr::to(QpState::Reset))?;
        ensure_eq!(all.fill()?, 1, "requests that came back in round {round}");
        if round % 2 != 0 {
            lab.event(1, Event::LastWqeReached(receiver.qpn()))?;
        }
        lab.nothing(&mut all.cq)?;
        sender.modify(&QpAttr::to(QpState::Reset))?;
        lab.connect(&mut sender, &mut receiver)?;
    }
    Ok(())
}

fn destroyed<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let mut all = Leaving::new(lab)?;
    for round in 1..=ROUNDS {
        let [mut sender, receiver] = all.qps(lab)?;
        all.begin(lab, &mut sender, round)?;
        if round % 2 == 0 {
            receiver.destroy()?;
        } else {
            drop(receiver);
        }
        ensure_eq!(all.fill()?, 1, "requests that came back in round {round}");
        lab.nothing(&mut all.cq)?;
        lab.no_event(1)?;
    }
    Ok(())
}

fn xrc_target<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let xrcd = lab.devices[1].open_xrcd()?;
    let (mut cq, send_cq) = (lab.cq(1, 63)?, lab.cq(0, 63)?);
    let attr = SrqAttr { max_wr: 3, max_sge: 2, limit: 0 };
    let mut srq = lab.devices[1].create_xrc_srq(&lab.pds[1], &XrcSrqInit { attr, context: 0, xrcd: &xrcd, cq: &cq })?;
    let (buffer, source) = (lab.mr(1, LONG)?, lab.mr(0, LONG)?);
    ensure_eq!(fill(&mut srq, &buffer)?, srq.query()?.max_wr, "requests that an empty SRQ takes");
    for round in 1..=ROUNDS {
        let mut sender = lab.qp(0, QpType::XrcIni, [&send_cq, &send_cq], None, CAP)?;
        let mut target = lab.devices[1].create_xrc_target(&xrcd, 0)?;
        lab.connect(&mut sender, &mut target)?;
        let (sges, qpn) = ([source.sge(0..LONG)?], target.qpn());
        begin(lab, [&source, &buffer], round, || {
            Ok(sender.post_send([SendWr::new(SendOp::Send, &sges).to_srq(srq.srqn())])?)
        })?;
        if round % 2 == 0 {
            target.modify(&QpAttr::to(QpState::Reset))?;
        }
        target.destroy()?;
        let done = lab.one(&mut cq)?;
        ensure_eq!((done.wr_id, done.qpn), (7, qpn), "the receive");
        // Where the device is far quicker than this program, the message may be there in whole before its target goes.
        if done.status == WcStatus::Success {
            ensure_eq!(done.byte_len as usize, LONG, "bytes of a message that was told as received");
        } else {
            ensure_eq!(done.status, WcStatus::WorkRequestFlushed, "the receive of a message that was not complete");
        }
        ensure_eq!(fill(&mut srq, &buffer)?, 1, "requests that came back in round {round}");
        lab.nothing(&mut cq)?;
    }
    Ok(())
}
