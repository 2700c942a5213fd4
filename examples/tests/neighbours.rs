//! One modelled card answers for its addresses, the other one asks.

use bareverbs::*;
use bareverbs_examples::neighbours::{MEMORY, Neighbours, ROOM};
use bareverbs_harness::{Function, World};
use bareverbs_mlx5::{Config, Local, Mlx5};
use bareverbs_model_mlx5::{Hca, HcaConfig};

const SEED: u64 = 0x6e65_6967;
const PORT: PortNum = PortNum(1);

fn open(world: &World, n: u8) -> (Function, Mlx5<Function, Local>) {
    let function = world.plug(Box::new(Hca::new(HcaConfig::ethernet(n))));
    let device = Mlx5::open(function.clone(), Config::default()).expect("opens");
    while device.query_port(PORT).unwrap().state != PortState::Active {
        device.relax();
    }
    (function, device)
}

fn memory(len: usize) -> &'static mut [u8] {
    vec![0; len].leak()
}

#[test]
fn a_question_over_the_link_is_answered() {
    let world = World::new(SEED);
    let ((fa, a), (fb, b)) = (open(&world, 0), open(&world, 1));
    let [mac, own] = [&a, &b].map(|device| device.query_port(PORT).unwrap().mac);
    for (index, gid) in (0..).zip([Gid::link_local(mac), Gid::from_ipv4([10, 0, 0, 1])]) {
        a.set_gid(PORT, index, &GidEntry { gid, kind: GidType::RoceV2, mac, vlan: None }).unwrap();
    }
    let pd = a.alloc_pd().unwrap();
    let mut neighbours = Neighbours::new(&a, &pd, PORT, memory(MEMORY)).unwrap();

    let peer_pd = b.alloc_pd().unwrap();
    let mut cq = b.create_cq(&CqInit { entries: 15, ..CqInit::default() }).unwrap();
    let cap = QpCap { max_send_wr: 4, max_recv_wr: 4, max_send_sge: 1, max_recv_sge: 1, max_inline: 60 };
    let kind = QpType::RawPacket;
    let init = QpInit { kind, send_cq: &cq, recv_cq: &cq, srq: None, cap, signal_all: false, context: 0 };
    let mut qp = b.create_qp(&peer_pd, &init).unwrap();
    qp.modify(&QpAttr::to(QpState::Init).port(PORT)).unwrap();
    qp.modify(&QpAttr::to(QpState::Rtr)).unwrap();
    qp.modify(&QpAttr::to(QpState::Rts)).unwrap();
    qp.attach_flow(&FlowSpec::to(own)).unwrap();
    let mr = b.register(&peer_pd, memory(ROOM), Access::LOCAL_WRITE).map_err(|r| r.error).unwrap();

    let mut answers = 0;
    // More than there are receives.
    for n in 0..40u8 {
        let known = n % 4 != 3;
        qp.post_recv([RecvWr::new(u64::from(n), &[mr.sge(0..ROOM).unwrap()])]).unwrap();
        let mut request = [[0xff; 6], own.0].concat();
        request.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        request.extend([&own.0[..], &[10, 0, 0, 2], &[0; 6], &[10, 0, 0, if known { 1 } else { 9 }]].concat());
        qp.post_send([SendWr::inline(SendOp::Send, &request).signaled()]).unwrap();
        let mut done = Vec::new();
        let until = b.now() + std::time::Duration::from_millis(20);
        while b.now() < until {
            answers += neighbours.answer().unwrap();
            let mut some = [Completion::default(); 4];
            let taken = cq.poll(&mut some).unwrap();
            done.extend_from_slice(&some[..taken]);
            b.relax();
        }
        let received: Vec<_> = done.iter().filter(|c| c.opcode == WcOpcode::Recv).collect();
        assert_eq!(received.len(), usize::from(known), "question {n} (seed {SEED:#x})");
        if known {
            let mut reply = [0; 42];
            mr.read(0, &mut reply).unwrap();
            let mut expected = [own.0, mac.0].concat();
            expected.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
            expected.extend([&mac.0[..], &[10, 0, 0, 1], &own.0, &[10, 0, 0, 2]].concat());
            assert_eq!(reply[..], expected[..]);
        } else {
            // The receive stays for the next one.
            qp.modify(&QpAttr::to(QpState::Reset)).unwrap();
            qp.modify(&QpAttr::to(QpState::Init).port(PORT)).unwrap();
            qp.modify(&QpAttr::to(QpState::Rtr)).unwrap();
            qp.modify(&QpAttr::to(QpState::Rts)).unwrap();
        }
    }
    assert_eq!(answers, 30);
    drop((neighbours, pd, qp, cq, mr, peer_pd, a, b));
    for function in [fa, fb] {
        assert_eq!(function.violations(), Vec::<String>::new());
        assert_eq!([function.dma_outstanding(), function.state_outstanding(), function.mappings_outstanding()], [0; 3]);
    }
}
