//! Completion channels, and what getting and acknowledging completion events does.

use super::{
    Case, Outcome, Stop,
    lab::{CAP, End, Lab, Setup, completion_event},
    must,
};
use alloc::{vec, vec::Vec};
use bareverbs::{
    Argument, CompletionChannel, CompletionQueue, CqEvent, CqInit, Destroy, Device, Error, Handle, MemoryRegion,
    Notify, Object, QpType, QueuePair, Refused, SendOp, SendWr,
};

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        must(
            "channel_without_cqs",
            "ibv_create_comp_channel; ibv_destroy_comp_channel",
            "a channel is made for a device, has no event of its own, and is destroyed",
            alone,
        ),
        must(
            "channel_tells_of_its_cqs",
            "ibv_create_comp_channel",
            "the event of a CQ comes over the channel that the CQ is on, and not in the device's stream",
            delivers,
        ),
        must(
            "channels_part_the_events",
            "ibv_create_comp_channel",
            "CQs on different channels, and those on none, are told of separately",
            parts,
        ),
        must(
            "channel_destroy_refused_with_cqs",
            "ibv_destroy_comp_channel",
            "a channel is not destroyed while CQs are on it; a refusal changes nothing",
            held,
        ),
        must(
            "channel_dropped_before_its_cqs",
            "traits",
            "a CQ whose channel was dropped works on, and is armed without harm",
            dropped,
        ),
        must("channel_of_another_device", "ibv_create_cq", "the channel is one of the device's", foreign),
        must("channel_through_a_raw_pointer", "traits", "a channel goes through a raw pointer and back unharmed", raw),
        must(
            "cq_event_brings_cq_and_context",
            "ibv_get_cq_event",
            "the event names the CQ that got it and brings that CQ's context, over a channel or not",
            brings,
        ),
        must(
            "cq_events_come_in_order",
            "ibv_get_cq_event",
            "what is got is the next event: of CQs on one channel in the order of their completions",
            order,
        ),
        must(
            "cq_events_wait_until_they_are_got",
            "ibv_get_cq_event",
            "however many control verbs, polls and service calls come first, each event is there once",
            wait,
        ),
        must(
            "cq_event_without_an_entry_on_a_channel",
            "ibv_get_cq_event",
            "an entry that was polled before its event was got leaves an event and an empty CQ",
            extra,
        ),
        must(
            "cq_loop_of_the_manual_on_a_channel",
            "ibv_get_cq_event",
            "get, acknowledge, arm, poll until empty: with that loop no completion is left unseen",
            manual_loop,
        ),
        must(
            "cq_destroy_refused_before_acknowledgement",
            "ibv_ack_cq_events; ibv_destroy_cq",
            "a CQ goes only when each event got of it is acknowledged (there destroying waits, here it is refused)",
            unacknowledged,
        ),
        must(
            "cq_events_acknowledged_at_once",
            "ibv_ack_cq_events",
            "one call acknowledges as many events as it says",
            at_once,
        ),
        must(
            "cq_events_acknowledged_beyond_what_was_got",
            "ibv_ack_cq_events",
            "as many acknowledgements as events that were got: more are refused by the argument's name",
            beyond,
        ),
        must(
            "cq_events_not_got_need_no_acknowledgement",
            "ibv_ack_cq_events; ibv_destroy_cq",
            "an event that nobody got is forgotten with its CQ, and a later CQ gets none of it",
            forgotten,
        ),
        must(
            "cq_dropped_before_acknowledgement",
            "traits",
            "dropping a CQ with events to acknowledge gives it back all the same",
            dropped_cq,
        ),
    ]
}

/// A CQ on a channel of the first device, and a QP of it that is connected.
struct Source<D: Device> {
    qp: D::Qp,
    cq: D::Cq,
    peer: End<D>,
    mr: super::lab::Mr<D>,
}

impl<D: Device> Source<D> {
    /// With this context, on this channel or on none.
    fn new(lab: &mut Lab<D>, channel: Option<&D::Channel>, context: u64) -> Outcome<Self> {
        let init = CqInit { entries: 15, context, ..CqInit::default() };
        let cq = match channel {
            Some(channel) => lab.devices[0].create_cq_on(channel, &init)?,
            None => lab.devices[0].create_cq(&init)?,
        };
        let mut qp = lab.qp(0, QpType::Rc, [&cq, &cq], None, CAP)?;
        let mut peer = lab.end(1, &Setup { memory: 64, ..Setup::of(QpType::Rc) })?;
        lab.connect(&mut qp, &mut peer.qp)?;
        Ok(Self { qp, cq, peer, mr: lab.mr(0, 64)? })
    }

    /// Gives the CQ a completion.
    fn complete(&mut self, id: u64) -> Outcome {
        let sges = [self.mr.sge(0..8)?];
        let write: SendOp = self.peer.write_here(0);
        Ok(self.qp.post_send([SendWr::new(write, &sges).wr_id(id).signaled()])?)
    }

    /// Arms the CQ and gives it a completion.
    fn arm_and_complete(&mut self, id: u64) -> Outcome {
        self.cq.request_notify(Notify::Any)?;
        self.complete(id)
    }

    fn event(&self) -> CqEvent {
        CqEvent { cqn: self.cq.cqn(), context: self.cq.context() }
    }
}

/// The next event of a channel, which must come.
fn next<D: Device>(lab: &Lab<D>, channel: &D::Channel) -> Outcome<CqEvent> {
    lab.wait("an event of the channel", || Ok(channel.event()?))
}

/// None comes.
fn none<D: Device>(lab: &Lab<D>, channel: &D::Channel) -> Outcome {
    lab.settle();
    ensure_eq!(channel.event()?, None, "an event of the channel");
    Ok(())
}

/// An object that must not be destroyed, for this reason.
fn refused<T: Destroy>(object: T, why: Error) -> Outcome<T> {
    match object.destroy() {
        Ok(()) => Err(Stop::failed(format_args!("destroyed"), line!())),
        Err(Refused { handle, error }) => {
            ensure_eq!(error, why, "the refusal");
            Ok(handle)
        }
    }
}

fn alone<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let (one, two) = (lab.devices[0].create_comp_channel()?, lab.devices[0].create_comp_channel()?);
    none(lab, &one)?;
    one.destroy()?;
    none(lab, &two)?;
    Ok(two.destroy()?)
}

fn delivers<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    let mut source = Source::new(lab, Some(&channel), 1)?;
    for id in 0..5 {
        source.arm_and_complete(id)?;
        lab.settle();
        lab.no_event(0)?;
        ensure_eq!(next(lab, &channel)?, source.event(), "the event");
        none(lab, &channel)?;
        ensure_eq!(lab.one(&mut source.cq)?.wr_id, id, "the entry");
    }
    lab.no_event(0)
}

fn parts<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channels = [lab.devices[0].create_comp_channel()?, lab.devices[0].create_comp_channel()?];
    let mut one = Source::new(lab, Some(&channels[0]), 1)?;
    let mut two = Source::new(lab, Some(&channels[1]), 2)?;
    let mut off = Source::new(lab, None, 3)?;
    for id in 0..3 {
        for source in [&mut one, &mut off, &mut two] {
            source.arm_and_complete(id)?;
        }
        ensure_eq!(next(lab, &channels[1])?, two.event(), "the event of the second channel");
        lab.cq_event(0, &off.cq)?;
        ensure_eq!(next(lab, &channels[0])?, one.event(), "the event of the first channel");
        channels.iter().try_for_each(|channel| none(lab, channel))?;
        lab.no_event(0)?;
    }
    Ok(())
}

fn held<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    let mut source = Source::new(lab, Some(&channel), 1)?;
    let init = CqInit { entries: 1, ..CqInit::default() };
    let (second, off) = (lab.devices[0].create_cq_on(&channel, &init)?, lab.devices[0].create_cq(&init)?);
    let channel = refused(channel, Error::Busy { holders: 2 })?;
    second.destroy()?;
    let channel = refused(channel, Error::Busy { holders: 1 })?;
    source.arm_and_complete(1)?;
    ensure_eq!(next(lab, &channel)?, source.event(), "the event after two refusals");
    source.cq.ack_events(1)?;
    source.qp.destroy()?;
    source.cq.destroy()?;
    channel.destroy()?;
    Ok(off.destroy()?)
}

fn dropped<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    let mut source = Source::new(lab, Some(&channel), 1)?;
    source.arm_and_complete(1)?;
    drop(channel);
    lab.settle();
    for id in 1..4 {
        ensure_eq!(lab.one(&mut source.cq)?.wr_id, id, "the entry");
        source.arm_and_complete(id + 1)?;
    }
    lab.no_event(0)?;
    source.qp.destroy()?;
    Ok(source.cq.destroy()?)
}

fn foreign<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[1].create_comp_channel()?;
    let result = lab.devices[0].create_cq_on(&channel, &CqInit { entries: 1, ..CqInit::default() }).map(|_| ());
    ensure_eq!(result, Err(Error::Foreign(Object::Channel)), "a channel of the other device");
    Ok(channel.destroy()?)
}

fn raw<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    let mut source = Source::new(lab, Some(&channel), 1)?;
    let raw = channel.into_raw();
    source.arm_and_complete(1)?;
    // SAFETY: came from `into_raw` just now.
    let channel = unsafe { D::Channel::from_raw(raw) };
    ensure_eq!(next(lab, &channel)?, source.event(), "the event");
    Ok(())
}

fn brings<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    let contexts = [0xfedc_ba98_7654_3210, 7, u64::MAX];
    let mut sources = Vec::new();
    for context in contexts {
        sources.push(Source::new(lab, Some(&channel), context)?);
    }
    for (source, context) in sources.iter_mut().zip(contexts) {
        source.arm_and_complete(1)?;
        let event = next(lab, &channel)?;
        ensure_eq!((event.cqn, event.context), (source.cq.cqn(), context), "over the channel");
    }
    let mut off = Source::new(lab, None, 0x0123_4567_89ab_cdef)?;
    off.arm_and_complete(1)?;
    ensure_eq!(off.cq.context(), 0x0123_4567_89ab_cdef, "the context");
    lab.event(0, completion_event(&off.cq))
}

fn order<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    let mut sources = Vec::new();
    for context in 0..4 {
        sources.push(Source::new(lab, Some(&channel), context)?);
    }
    for round in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        for n in round {
            sources[n].arm_and_complete(1)?;
            lab.settle();
        }
        for n in round {
            ensure_eq!(next(lab, &channel)?, sources[n].event(), "the event");
            lab.one(&mut sources[n].cq)?;
        }
        none(lab, &channel)?;
    }
    Ok(())
}

fn wait<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    let mut sources = Vec::new();
    for context in 0..3 {
        sources.push(Source::new(lab, Some(&channel), context)?);
    }
    let mut off = Source::new(lab, None, 9)?;
    for source in sources.iter_mut().chain([&mut off]) {
        source.arm_and_complete(1)?;
        lab.settle();
    }
    let mut other = lab.cq(0, 7)?;
    for _ in 0..40 {
        lab.devices[0].query_port(bareverbs::PortNum(1))?;
        lab.cq(0, 1)?.destroy()?;
    }
    for _ in 0..5000 {
        ensure_eq!(other.poll(&mut [bareverbs::Completion::default()])?, 0, "a poll of another CQ");
    }
    lab.cq_event(0, &off.cq)?;
    lab.no_event(0)?;
    for source in &sources {
        ensure_eq!(channel.event()?, Some(source.event()), "the event");
    }
    none(lab, &channel)
}

fn extra<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    let mut source = Source::new(lab, Some(&channel), 1)?;
    for id in 0..3 {
        source.arm_and_complete(id)?;
        ensure_eq!(lab.one(&mut source.cq)?.wr_id, id, "the entry");
        ensure_eq!(next(lab, &channel)?, source.event(), "the event");
        lab.nothing(&mut source.cq)?;
    }
    none(lab, &channel)
}

fn manual_loop<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    let mut source = Source::new(lab, Some(&channel), 1)?;
    source.cq.request_notify(Notify::Any)?;
    let (mut posted, mut seen) = (0, 0);
    while seen < 100 {
        while posted < 100 && posted - seen < 4 {
            source.complete(posted)?;
            posted += 1;
        }
        ensure_eq!(next(lab, &channel)?, source.event(), "the event");
        source.cq.ack_events(1)?;
        source.cq.request_notify(Notify::Any)?;
        let mut some = [bareverbs::Completion::default(); 3];
        while let n @ 1.. = source.cq.poll(&mut some)? {
            for c in &some[..n] {
                ensure_eq!(c.wr_id, seen, "the id");
                seen += 1;
            }
        }
    }
    Ok(())
}

fn unacknowledged<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    for on in [Some(&channel), None] {
        let mut source = Source::new(lab, on, 1)?;
        let get = |source: &mut Source<D>| -> Outcome {
            source.arm_and_complete(1)?;
            lab.one(&mut source.cq)?;
            match on {
                Some(channel) => next(lab, channel).map(|_| ()),
                None => lab.cq_event(0, &source.cq),
            }
        };
        get(&mut source)?;
        source.cq = refused(source.cq, Error::Busy { holders: 1 })?;
        get(&mut source)?;
        source.qp.destroy()?;
        let cq = refused(source.cq, Error::Unacknowledged { events: 2 })?;
        let mut cq = refused(cq, Error::Unacknowledged { events: 2 })?;
        cq.ack_events(1)?;
        let mut cq = refused(cq, Error::Unacknowledged { events: 1 })?;
        cq.request_notify(Notify::Any)?;
        cq.ack_events(1)?;
        cq.destroy()?;
    }
    Ok(channel.destroy()?)
}

fn at_once<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    let (mut one, mut two) = (Source::new(lab, Some(&channel), 1)?, Source::new(lab, Some(&channel), 2)?);
    for id in 0..6 {
        let source = if id % 3 == 0 { &mut two } else { &mut one };
        source.arm_and_complete(id)?;
        ensure_eq!(next(lab, &channel)?, source.event(), "the event");
        lab.one(&mut source.cq)?;
    }
    one.cq.ack_events(4)?;
    one.qp.destroy()?;
    one.cq.destroy()?;
    two.qp.destroy()?;
    let mut cq = refused(two.cq, Error::Unacknowledged { events: 2 })?;
    cq.ack_events(2)?;
    Ok(cq.destroy()?)
}

fn beyond<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    let mut source = Source::new(lab, Some(&channel), 1)?;
    let too_many = |wanted: u32, max: u64| Error::OutOfRange { what: Argument::CqEvents, wanted: wanted.into(), max };
    source.cq.ack_events(0)?;
    ensure_eq!(source.cq.ack_events(1), Err(too_many(1, 0)), "of none");
    source.arm_and_complete(1)?;
    lab.settle();
    ensure_eq!(source.cq.ack_events(1), Err(too_many(1, 0)), "of one that nobody got");
    next(lab, &channel)?;
    for wanted in [2, u32::MAX] {
        ensure_eq!(source.cq.ack_events(wanted), Err(too_many(wanted, 1)), "{wanted} of one");
    }
    source.qp.destroy()?;
    let mut cq = refused(source.cq, Error::Unacknowledged { events: 1 })?;
    cq.ack_events(1)?;
    ensure_eq!(cq.ack_events(1), Err(too_many(1, 0)), "the same again");
    Ok(cq.destroy()?)
}

fn forgotten<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    for on in [Some(&channel), None] {
        // The one in the middle goes; those around it are told of.
        let mut all = [Source::new(lab, on, 1)?, Source::new(lab, on, 2)?, Source::new(lab, on, 3)?];
        for source in &mut all {
            source.arm_and_complete(1)?;
            lab.settle();
        }
        let [first, gone, last] = all;
        gone.qp.destroy()?;
        gone.cq.destroy()?;
        let mut new = lab.cq(0, 15)?;
        new.request_notify(Notify::Any)?;
        for source in [&first, &last] {
            match on {
                Some(channel) => ensure_eq!(next(lab, channel)?, source.event(), "the event"),
                None => lab.cq_event(0, &source.cq)?,
            }
        }
        none(lab, &channel)?;
        lab.no_event(0)?;
    }
    Ok(channel.destroy()?)
}

fn dropped_cq<D: Device>(lab: &mut Lab<D>) -> Outcome {
    let channel = lab.devices[0].create_comp_channel()?;
    let mut source = Source::new(lab, Some(&channel), 1)?;
    source.arm_and_complete(1)?;
    next(lab, &channel)?;
    drop(source);
    let source = Source::new(lab, Some(&channel), 2)?;
    source.qp.destroy()?;
    source.cq.destroy()?;
    Ok(channel.destroy()?)
}
