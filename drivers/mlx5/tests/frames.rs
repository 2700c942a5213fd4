//! Raw packet QPs on cards of another kind, and with what only the device can bring about.

mod bench;

use bareverbs::*;
use bareverbs_harness::World;
use bareverbs_mlx5::{Config, Local, Mlx5};
use bareverbs_model_mlx5::{HcaConfig, eq::Event as ModelEvent, wq::WqState};
use bench::{Model, assert_clean, pair::*};

const SEED: u64 = 0x6672_616d;

fn to_rts(qp: &mut Qp5) {
    qp.modify(&QpAttr::to(QpState::Init).port(PORT)).unwrap();
    qp.modify(&QpAttr::to(QpState::Rtr)).unwrap();
    qp.modify(&QpAttr::to(QpState::Rts)).unwrap();
}

/// Cards that want headers in the request: a frame without them is refused by name, one with them goes out.
#[test]
fn headers_that_the_card_wants_are_in_the_request() {
    for (inline_mode, bytes) in [(1, 18), (2, 58), (3, 78)] {
        let world = World::new(SEED);
        let model = Model::new(HcaConfig { inline_mode, ..HcaConfig::ethernet(0) });
        let function = model.plug(&world);
        let device = Mlx5::<_, Local>::open(function.clone(), Config::default()).expect("opens");
        let pd = device.alloc_pd().unwrap();
        let mut cq = device.create_cq(&CqInit { entries: 15, ..CqInit::default() }).unwrap();
        let cap = QpCap { max_inline: 100, ..CAP };
        let kind = QpType::RawPacket;
        let init = QpInit { kind, send_cq: &cq, recv_cq: &cq, srq: None, cap, signal_all: true, context: 0 };
        let mut qp = device.create_qp(&pd, &init).unwrap();
        to_rts(&mut qp);
        let memory: &'static mut [u8] = vec![0; 512].leak();
        let mr = device.register(&pd, memory, Access::empty()).map_err(|r| r.error).unwrap();
        let sges = [mr.sge(0..200).unwrap()];
        let wanted = Err(PostError::HeaderRequired { bytes });
        assert_eq!(qp.push_send(&SendWr::new(SendOp::Send, &sges)), wanted);
        let head = [2; 100];
        for (len, fits) in [(bytes as usize - 1, false), (bytes as usize, true), (100, true)] {
            let headed = Headed { head: &head[..len], sges: &sges };
            let wr = SendWr { payload: Payload::Headed(&headed), ..SendWr::new(SendOp::Send, &[]) };
            assert_eq!(qp.push_send(&wr), if fits { Ok(()) } else { wanted }, "{len} bytes");
        }
        // A frame that is shorter than the headers may be is in the request whole.
        qp.push_send(&SendWr::inline(SendOp::Send, &head[..14])).unwrap();
        qp.ring_send();
        for done in poll(&device, &mut cq, 3) {
            assert_eq!(done.status, WcStatus::Success, "inline mode {inline_mode}");
        }
        drop((qp, cq, mr, pd, device));
        assert_clean(&function);
    }
}

/// Events of the two queues of a raw packet QP name the QP, whatever other objects have those numbers.
#[test]
fn events_of_its_queues_name_the_qp() {
    let pair = Pair::new(Link::Roce, SEED);
    let cq = pair.a.cq(15);
    let mut raw = pair.a.qp(QpType::RawPacket, &cq, &cq, None, CAP);
    to_rts(&mut raw);
    let rqn = pair.a.model.with(|hca| *hca.rqs.keys().next().unwrap());
    // A QP that has the number of the receive queue.
    pair.a.model.with(|hca| hca.numbers.qp.rewind(rqn));
    let other = pair.a.qp(QpType::Rc, &cq, &cq, None, CAP);
    assert_eq!(other.qpn().get(), rqn);
    let tell = |event| {
        pair.a.model.raise(event);
        wait(&pair.a.device, "the event", || pair.a.device.service().unwrap())
    };
    assert_eq!(tell(ModelEvent::QueueFatal { rq: true, number: rqn }), Event::QpFatal(raw.qpn()));
    assert_eq!((raw.state(), other.state()), (QpState::Err, QpState::Reset));
    assert_eq!(tell(ModelEvent::QueueFatal { rq: false, number: raw.qpn().get() }), Event::QpFatal(raw.qpn()));
    assert_eq!(tell(ModelEvent::QpFatal(rqn)), Event::QpFatal(other.qpn()));
    drop((raw, other, cq));
    pair.close();
}

/// A CQ that fails takes the raw packet QPs that complete to it to ERR, both of their queues, whatever state they were in:
/// no frame goes out or comes in any more (IBA 11.6.3.2).
#[test]
fn a_cq_that_fails_takes_both_queues_along() {
    for state in [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts] {
        for sends in [true, false] {
            let pair = Pair::new(Link::Roce, SEED);
            let (cq, good) = (pair.a.cq(15), pair.a.cq(15));
            let cqs = if sends { [&cq, &good] } else { [&good, &cq] };
            let mut raws = [CAP, QpCap { max_recv_wr: 0, ..CAP }].map(|cap| {
                let mut raw = pair.a.qp(QpType::RawPacket, cqs[0], cqs[1], None, cap);
                let path = [QpAttr::to(QpState::Init).port(PORT), QpAttr::to(QpState::Rtr), QpAttr::to(QpState::Rts)];
                path.iter().take_while(|_| state != QpState::Reset).find(|attr| {
                    raw.modify(attr).unwrap();
                    attr.state == state
                });
                raw
            });
            let mut other = pair.a.qp(QpType::RawPacket, &good, &good, None, CAP);
            to_rts(&mut other);
            pair.a.model.raise(ModelEvent::CqError(cq.cqn().get(), 2));
            let event = wait(&pair.a.device, "the event", || pair.a.device.service().unwrap());
            assert_eq!(event, Event::CqError(cq.cqn()));
            let queues = pair.a.model.with(|hca| {
                let sqs: Vec<_> = hca.sqs.values().map(|sq| sq.state).collect();
                (sqs, hca.rqs.values().map(|rq| rq.state).collect::<Vec<_>>())
            });
            let (failed, ready) = (WqState::Error, WqState::Ready);
            assert_eq!(queues, (vec![failed, failed, ready], vec![failed, ready]), "from {state}, sends {sends}");
            for raw in &mut raws {
                assert_eq!((raw.state(), raw.query().unwrap().state), (QpState::Err, QpState::Err));
            }
            assert_eq!(other.query().unwrap().state, QpState::Rts);
            drop((raws, other, cq, good));
            pair.close();
        }
    }
}

/// A frame that is longer than the oldest receive is dropped by a ConnectX: the receive stays, and the QP goes on.
#[test]
fn a_frame_longer_than_the_receive() {
    let pair = Pair::new(Link::Roce, SEED);
    let (ca, mut cb) = (pair.a.cq(15), pair.b.cq(15));
    let mut a = pair.a.qp(QpType::RawPacket, &ca, &ca, None, QpCap { max_inline: 100, ..CAP });
    let mut b = pair.b.qp(QpType::RawPacket, &cb, &cb, None, CAP);
    to_rts(&mut a);
    to_rts(&mut b);
    let (to, mr) = (pair.b.device.query_port(PORT).unwrap().mac, pair.b.mr(256));
    b.attach_flow(&FlowSpec::to(to)).unwrap();
    let mut frame = [7; 100];
    frame[..6].copy_from_slice(&to.0);
    frame[12..14].copy_from_slice(&0x88b5_u16.to_be_bytes());
    for (id, len) in [(1, 80), (2, 200)] {
        b.post_recv([RecvWr::new(id, &[mr.sge(0..len).unwrap()])]).unwrap();
    }
    for len in [100, 81, 80, 100] {
        a.post_send([SendWr::inline(SendOp::Send, &frame[..len])]).unwrap();
        settle(&pair.b.device);
    }
    let done: Vec<_> = poll(&pair.b.device, &mut cb, 2).iter().map(|c| (c.wr_id, c.status, c.byte_len)).collect();
    assert_eq!(done, [(1, WcStatus::Success, 80), (2, WcStatus::Success, 100)]);
    assert_eq!(b.query().unwrap().state, QpState::Rts);
    drop((a, b, mr, ca, cb));
    pair.close();
}
