//! A device that failed comes back in the same process: `reopen`.

mod bench;

use bareverbs::*;
use bareverbs_mlx5::{Config, Local};
use bareverbs_mlx5_prm::cmd::Opcode;
use bareverbs_model_mlx5::fault::{CommandFault, CommandRule};
use bench::{assert_clean, assert_nothing_kept, pair::*};
use std::time::Duration;

const SEED: u64 = 0x7265_6f70;
const TIMES: usize = 12;

/// How a device fails.
#[derive(Clone, Copy, Debug)]
enum End {
    Syndrome(u8),
    CounterStops,
    NoAnswer,
}

/// What the platform has given out, and what the device has of it.
fn given(node: &Node) -> [usize; 4] {
    let f = &node.function;
    [f.dma_outstanding(), f.state_outstanding(), f.mappings_outstanding(), node.model.report().pages as usize]
}

/// All kinds of objects, some with work outstanding.
fn objects(pair: &Pair) -> Vec<Box<dyn std::any::Any>> {
    let a = &pair.a;
    let (cq, other) = (a.cq(63), a.cq(63));
    let init = SrqAttr { max_wr: 15, max_sge: 1, limit: 0 };
    let mut srq = a.device.create_srq(&a.pd, init).unwrap();
    let mr = a.mr(4096);
    let sges = [mr.sge(0..64).unwrap()];
    srq.post((0..7).map(|id| RecvWr::new(id, &sges))).unwrap();
    let mut rc = a.qp(QpType::Rc, &cq, &other, Some(&srq), CAP);
    to_rts(&mut rc, pair.b.address(), Qpn::new(0x123));
    rc.post_send((0..5).map(|id| SendWr::new(SendOp::Send, &sges).wr_id(id).signaled())).unwrap();
    let mut ud = a.qp(QpType::Ud, &cq, &cq, None, CAP);
    ud.attach_multicast(Gid([0xff; 16]), Lid(0xc001)).unwrap();
    let mut all: Vec<Box<dyn std::any::Any>> =
        vec![Box::new(cq), Box::new(other), Box::new(srq), Box::new(mr), Box::new(rc), Box::new(ud)];
    if pair.link == Link::Roce {
        let cq = a.cq(15);
        let mut raw = a.qp(QpType::RawPacket, &cq, &cq, None, CAP);
        raw.modify(&QpAttr::to(QpState::Init).port(PORT)).unwrap();
        raw.attach_flow(&FlowSpec::to(Mac([0xff; 6]))).unwrap();
        all.push(Box::new(raw));
        all.push(Box::new(cq));
    }
    all
}

/// Lets the device fail, and sees it named once as an event and from then on as an error.
fn fail(node: &Node, end: End) -> Error {
    let now = node.device.now();
    node.model.with(|hca| match end {
        End::Syndrome(syndrome) => hca.faults.health = Some((now, syndrome)),
        End::CounterStops => hca.faults.counter_stops = Some(now),
        End::NoAnswer => {
            let rule = CommandRule { opcode: Some(Opcode::ALLOC_PD), skip: 0, times: 1, fault: CommandFault::Never };
            hca.faults.commands = vec![rule];
        }
    });
    if let End::NoAnswer = end {
        assert!(matches!(node.device.alloc_pd().map(|_| ()), Err(Error::CommandTimeout { .. })));
    }
    let error = wait(&node.device, "the device's end", || match node.device.service() {
        Ok(Some(Event::DeviceFatal(error))) => Some(error),
        Ok(_) => None,
        Err(error) => panic!("{error} before the event"),
    });
    assert_eq!(node.device.service(), Err(error));
    error
}

/// After the device's end everything says so by name, whatever way it goes, and sends no command; before it, nothing did.
#[test]
fn case_56_every_poll_and_post_names_the_end() {
    for end in [End::Syndrome(1), End::CounterStops, End::NoAnswer] {
        let pair = Pair::new(Link::InfiniBand, SEED);
        let (mut ca, cb) = (pair.a.cq(31), pair.b.cq(31));
        let channel = pair.a.device.create_comp_channel().unwrap();
        let mr = pair.a.mr(64);
        let sges = [mr.sge(0..64).unwrap()];
        let init = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
        let mut srq = pair.a.device.create_srq(&pair.a.pd, init).unwrap();
        let mut qa = pair.a.qp(QpType::Rc, &ca, &ca, None, CAP);
        let mut qb = pair.b.qp(QpType::Rc, &cb, &cb, None, CAP);
        pair.connect(&mut qa, &mut qb);
        let (send, recv) = (SendWr::new(SendOp::Send, &sges), RecvWr::new(1, &sges));
        qb.post_recv([RecvWr::new(1, &[])]).unwrap();
        qa.post_send([SendWr::new(SendOp::Send, &[])]).unwrap();
        qa.post_recv([recv]).unwrap();
        srq.post([recv]).unwrap();
        assert_eq!(ca.poll(&mut [Completion::default()]), Ok(0));
        let error = fail(&pair.a, end);
        let commands = pair.a.device.commands();
        let post = PostListError { index: 0, error: PostError::DeviceFatal };
        for _ in 0..2 {
            assert_eq!(ca.poll(&mut [Completion::default()]), Err(PollError::DeviceFatal), "{end:?}");
            assert_eq!(ca.poll(&mut [Completion::default(); 4]), Err(PollError::DeviceFatal));
            assert_eq!(ca.view().advance(), Err(PollError::DeviceFatal));
            // One by one, in a list, and pushed: each is a way of its own.
            assert_eq!((qa.post_send([send]), qa.post_send([send; 2])), (Err(post), Err(post)));
            assert_eq!((qa.post_recv([recv]), qa.post_recv([recv; 2])), (Err(post), Err(post)));
            assert_eq!((srq.post([recv]), srq.post([recv; 2])), (Err(post), Err(post)));
            let pushed = [qa.push_send(&send), qa.push_recv(&recv), srq.push(&recv)];
            assert_eq!(pushed, [Err(PostError::DeviceFatal); 3]);
            assert_eq!(ca.resize(63), Err(error));
            assert_eq!(ca.request_notify(Notify::Any), Err(error));
            assert_eq!(channel.event(), Err(error));
            assert_eq!(ca.moderate(1, Duration::ZERO), Err(error));
            assert_eq!((srq.query().map(|_| ()), srq.set_limit(1)), (Err(error), Err(error)));
            assert_eq!(qa.modify(&QpAttr::to(QpState::Err)), Err(error));
            assert_eq!(qa.query().map(|_| ()), Err(error));
        }
        assert_eq!(pair.a.device.commands(), commands, "{end:?}: no command went out");
    }
}

/// A message between both ends, by new QPs.
fn traffic(pair: &Pair) {
    let (mut ca, mut cb) = (pair.a.cq(15), pair.b.cq(15));
    let (from, to) = (pair.a.mr(512), pair.b.mr(512));
    let (mut qa, mut qb) = (pair.a.qp(QpType::Rc, &ca, &ca, None, CAP), pair.b.qp(QpType::Rc, &cb, &cb, None, CAP));
    pair.connect(&mut qa, &mut qb);
    let bytes = pattern(SEED, 512);
    from.write(0, &bytes).unwrap();
    qb.post_recv([RecvWr::new(1, &[to.sge(0..512).unwrap()])]).unwrap();
    qa.post_send([SendWr::new(SendOp::Send, &[from.sge(0..512).unwrap()]).wr_id(2).signaled()]).unwrap();
    assert_eq!(poll(&pair.b.device, &mut cb, 1)[0].status, WcStatus::Success);
    assert_eq!(poll(&pair.a.device, &mut ca, 1)[0].wr_id, 2);
    assert_eq!(read(&to, 0, 512), bytes);
}

fn handed_back<T>(result: Result<T, Refused<T>>) -> (T, Error) {
    match result {
        Ok(_) => panic!("it was reopened"),
        Err(Refused { handle, error }) => (handle, error),
    }
}

/// Takes one end apart and puts it together again around what `f` makes of its device.
fn with_device(mut pair: Pair, f: impl FnOnce(Device5) -> Device5) -> Pair {
    let Node { model, function, device, pd } = pair.a;
    drop(pd);
    let device = f(device);
    let pd = device.alloc_pd().expect("a PD after it was reopened");
    pair.a = Node { model, function, device, pd };
    pair.a.ready(0);
    pair
}

#[test]
fn it_comes_back_again_and_again() {
    let ends = [End::Syndrome(1), End::CounterStops, End::NoAnswer, End::Syndrome(7), End::Syndrome(8)];
    for link in [Link::InfiniBand, Link::Roce] {
        let mut pair = Pair::new(link, SEED);
        traffic(&pair);
        let fresh = given(&pair.a);
        for n in 0..TIMES {
            let end = ends[n % ends.len()];
            let mut all = objects(&pair);
            let error = fail(&pair.a, end);
            // In another order each time, without a command.
            let commands = pair.a.device.commands();
            while !all.is_empty() {
                drop(all.remove((n * 7 + all.len() * 3) % all.len()));
            }
            assert_eq!(pair.a.device.commands(), commands, "{end:?}");
            pair = with_device(pair, |device| {
                let clone = device.clone();
                let (device, busy) = handed_back(device.reopen());
                assert_eq!(busy, Error::Busy { holders: 1 });
                assert_eq!(device.alloc_pd().map(|_| ()), Err(error), "still dead");
                drop(clone);
                device.reopen().map_err(|r| r.error).expect("it comes back")
            });
            traffic(&pair);
            assert_eq!(given(&pair.a), fresh, "{end:?}, time {n}: memory, mappings and pages");
        }
        // The frames of before were not answered, and the failed device's doorbells went nowhere: no rule was broken.
        pair.close();
    }
}

/// A device that is well is closed and opened, and its tables are empty then.
#[test]
fn a_device_that_is_well_can_be_reopened() {
    for link in [Link::InfiniBand, Link::Roce] {
        let pair = Pair::new(link, SEED);
        traffic(&pair);
        let fresh = given(&pair.a);
        let pair = with_device(pair, |device| {
            let device = device.reopen().map_err(|r| r.error).expect("it is reopened");
            if link == Link::Roce {
                assert_eq!(device.query_gid(PORT, 0).unwrap().gid, Gid::ZERO);
            }
            device
        });
        traffic(&pair);
        assert_eq!(given(&pair.a), fresh);
        pair.close();
    }
}

/// Firmware that does not come up: each command of the bring-up in turn stays without an answer. The handle comes back,
/// every verb says why, nothing is kept but what the handle needs, and the next try succeeds.
#[test]
fn where_it_does_not_come_back_it_can_be_tried_again() {
    let pair = Pair::new(Link::Roce, SEED);
    let Pair { world: _world, link: _, a, b } = pair;
    let Node { model, function, device, pd } = a;
    drop(pd);
    let fresh = [function.dma_outstanding(), function.state_outstanding()];
    let mut device = device;
    for k in 0.. {
        let before = device.commands();
        let rule = CommandRule { opcode: None, skip: k, times: 1, fault: CommandFault::Never };
        // Those of closing are answered.
        model.with(|hca| {
            let (now, rules) = (Duration::ZERO, vec![rule]);
            (hca.faults.health, hca.faults.commands) = (Some((now, 1)), Vec::new());
            hca.faults.commands = rules;
        });
        wait(&device, "the device's end", || match device.service() {
            Ok(Some(Event::DeviceFatal(_))) => Some(()),
            Ok(_) => None,
            Err(error) => panic!("{error}"),
        });
        match device.reopen() {
            Ok(alive) => {
                assert!(k > 15 && k == alive.commands(), "after {k} of {before} commands");
                model.with(|hca| hca.faults.commands.clear());
                device = alive;
                break;
            }
            Err(Refused { handle, error }) => {
                assert!(matches!(error, Error::CommandTimeout { .. }), "command {k}: {error}");
                assert_eq!(function.dma_outstanding(), 0, "command {k}");
                assert_eq!(handle.alloc_pd().map(|_| ()), Err(error));
                assert_eq!(handle.query_port(PORT).map(|_| ()), Err(error));
                assert_eq!(handle.service(), Err(error));
                let cq = handle.create_cq(&CqInit { entries: 1, ..CqInit::default() });
                assert_eq!(cq.map(|_| ()), Err(error));
                device = handle.reopen().map_err(|r| r.error).expect("the second try");
                assert_eq!([function.dma_outstanding(), function.state_outstanding()], fresh, "command {k}");
            }
        }
    }
    device.destroy().expect("closes");
    assert_clean(&function);
    drop(b);
    // A closed one that is dropped keeps nothing either.
    let device = bareverbs_mlx5::Mlx5::<_, Local>::open(function.clone(), Config::default()).expect("opens");
    model.with(|hca| {
        let rule = CommandRule { opcode: Some(Opcode::INIT_HCA), skip: 0, times: 1, fault: CommandFault::Never };
        hca.faults.commands = vec![rule];
    });
    let (device, error) = handed_back(device.reopen());
    assert!(matches!(error, Error::CommandTimeout { .. }), "{error}");
    drop(device);
    assert_nothing_kept(&function);
}

/// What sends no command says so as well: steps of a raw packet QP that are none to the device, what a QP is attached to
/// already, a channel, the P_Key of an Ethernet port. Leaving succeeds, for the device has nothing any more.
#[test]
fn case_56_verbs_without_a_command_name_the_end() {
    let pair = Pair::new(Link::Roce, SEED);
    let cq = pair.a.cq(15);
    let mut raws = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts].map(|state| {
        let cap = QpCap { max_recv_wr: if state == QpState::Reset { 0 } else { CAP.max_recv_wr }, ..CAP };
        let mut raw = pair.a.qp(QpType::RawPacket, &cq, &cq, None, cap);
        let steps = [QpAttr::to(QpState::Init).port(PORT), QpAttr::to(QpState::Rtr), QpAttr::to(QpState::Rts)];
        steps[..state as usize].iter().for_each(|attr| raw.modify(attr).unwrap());
        raw
    });
    let mut ud = pair.a.qp(QpType::Ud, &cq, &cq, None, CAP);
    let (flow, group) = (FlowSpec::to(Mac([0xff; 6])), Gid([0xff; 16]));
    raws[1].attach_flow(&flow).unwrap();
    ud.attach_multicast(group, Lid(0)).unwrap();
    let error = fail(&pair.a, End::Syndrome(1));
    let commands = pair.a.device.commands();
    for raw in &mut raws {
        let state = raw.state();
        let init = QpAttr::to(QpState::Init).port(PORT);
        let next = match state {
            QpState::Reset => &[init][..],
            QpState::Init => &[init, QpAttr::to(QpState::Rtr)],
            _ => &[QpAttr::to(QpState::Rts)],
        };
        for attr in next.iter().chain(&[QpAttr::to(QpState::Err), QpAttr::to(QpState::Reset)]) {
            assert_eq!(raw.modify(attr), Err(error), "{state} to {}", attr.state);
        }
        assert_eq!((raw.query().map(|_| ()), raw.state()), (Err(error), state));
    }
    assert_eq!((raws[1].attach_flow(&flow), ud.attach_multicast(group, Lid(0))), (Err(error), Err(error)));
    assert_eq!(pair.a.device.create_comp_channel().map(|_| ()), Err(error));
    assert_eq!(pair.a.device.query_pkey(PORT, 0), Err(error));
    assert_eq!((raws[1].detach_flow(&flow), ud.detach_multicast(group, Lid(0))), (Ok(()), Ok(())));
    assert_eq!(pair.a.device.commands(), commands, "no command went out");
}
