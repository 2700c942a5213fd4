//! Two modelled HCAs and a reliable connection between them, from reset to the last byte.

mod bench;

use bareverbs::{
    Access, AckTimeout, AhAttr, Completion, CompletionQueue, CqInit, Device, GidEntry, GidType, GlobalRoute, LinkLayer,
    Mac, MemoryRegion, Mtu, PortNum, Psn, QpAttr, QpCap, QpInit, QpState, QpType, QueuePair, RecvWr, RetryCount,
    RnrTimer, SendOp, SendWr, WcOpcode, WcStatus,
};
use bareverbs_harness::{Function, World};
use bareverbs_mlx5::{Config, Local, Mlx5};
use bareverbs_model_mlx5::HcaConfig;
use bench::{Model, assert_clean};
use std::time::Duration;

const SEED: u64 = 0x0072_6331;
const PORT: PortNum = PortNum(1);

type Dev = Mlx5<Function, Local>;

/// One end: everything in one struct, dropped in whatever order.
struct End {
    device: Dev,
    pd: <Dev as Device>::Pd,
    cq: <Dev as Device>::Cq,
    qp: <Dev as Device>::Qp,
    mr: <Dev as Device>::Mr<&'static mut [u8]>,
    address: AhAttr,
    ready: u64,
}

impl End {
    fn new(function: &Function) -> Self {
        let device = Dev::open(function.clone(), Config::default()).expect("opens");
        let ready = device.commands();
        let pd = device.alloc_pd().expect("a domain");
        let cq = device.create_cq(&CqInit { entries: 64, ..CqInit::default() }).expect("a CQ");
        let cap = QpCap { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 2, max_recv_sge: 2, max_inline: 32 };
        let init =
            QpInit { kind: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, cap, signal_all: false, context: 0 };
        let qp = device.create_qp(&pd, &init).expect("a QP");
        let mr = device.register(&pd, vec![0; 1 << 16].leak(), Access::LOCAL_WRITE).expect("a region");
        let port = device.query_port(PORT).expect("a port");
        let mut address = AhAttr { port: PORT, dlid: port.lid, ..AhAttr::default() };
        if port.link_layer == LinkLayer::Ethernet {
            let Mac([.., n]) = port.mac;
            let entry = GidEntry {
                gid: bareverbs::Gid::from_ipv4([10, 0, 0, n + 1]),
                kind: GidType::RoceV2,
                mac: port.mac,
                vlan: None,
            };
            device.set_gid(PORT, 0, &entry).expect("a GID");
            address.grh = Some(GlobalRoute { dgid: entry.gid, hop_limit: 64, ..GlobalRoute::default() });
            address.dmac = Some(port.mac);
        }
        Self { device, pd, cq, qp, mr, address, ready }
    }

    fn connect(&mut self, peer: &Self) {
        let init = QpAttr::to(QpState::Init).port(PORT).pkey_index(0).access(Access::empty());
        let rtr = QpAttr::to(QpState::Rtr)
            .av(peer.address)
            .path_mtu(Mtu::B1024)
            .dest_qpn(peer.qp.qpn())
            .rq_psn(Psn::new(0x0012_3456))
            .max_dest_rd_atomic(1)
            .min_rnr_timer(RnrTimer::at_least(Duration::from_millis(1)));
        let rts = QpAttr::to(QpState::Rts)
            .sq_psn(Psn::new(0x0012_3456))
            .timeout(AckTimeout::at_least(Duration::from_millis(60)))
            .retry_cnt(RetryCount::MAX)
            .rnr_retry(RetryCount::MAX)
            .max_rd_atomic(1);
        for attr in [init, rtr, rts] {
            self.qp.modify(&attr).expect("a transition");
        }
    }

    /// Polls until one completion comes.
    fn completion(&mut self) -> Completion {
        let mut out = [Completion::default()];
        while self.cq.poll(&mut out).expect("polls") == 0 {}
        out[0]
    }
}

/// Bytes that differ from message to message and from place to place.
fn pattern(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + n * 13 + (i >> 8)) as u8).collect()
}

#[test]
fn messages_arrive_over_a_reliable_connection() {
    for link in [HcaConfig::infiniband as fn(u8) -> HcaConfig, HcaConfig::ethernet] {
        let world = World::new(SEED);
        let models = [0, 1].map(|n| Model::new(link(n)));
        let functions = [models[0].plug(&world), models[1].plug(&world)];
        let [mut a, mut b] = [End::new(&functions[0]), End::new(&functions[1])];
        a.connect(&b);
        b.connect(&a);
        println!(
            "{:?}: {} commands from reset to ready, {} to RTS",
            models[0].with(|m| m.config.link),
            a.ready,
            a.device.commands()
        );
        assert!(a.ready < 25 && a.device.commands() < 40);

        for (n, len) in [1, 32, 1024, 1025, 5000, 0, 60_000].into_iter().enumerate() {
            let bytes = pattern(n, len);
            a.mr.write(0, &bytes).unwrap();
            b.mr.write(0, &vec![0xaa; 1 << 16]).unwrap();
            b.qp.post_recv([RecvWr::new(n as u64, &[b.mr.sge(0..len).unwrap()])]).unwrap();
            let sge = [a.mr.sge(0..len).unwrap()];
            a.qp.post_send([SendWr::new(SendOp::Send, &sge).wr_id(100 + n as u64).signaled()]).unwrap();
            let received = b.completion();
            assert_eq!((received.status, received.opcode), (WcStatus::Success, WcOpcode::Recv), "seed {SEED:#x}");
            assert_eq!((received.wr_id, received.byte_len), (n as u64, len as u32));
            let sent = a.completion();
            assert_eq!((sent.status, sent.opcode, sent.wr_id), (WcStatus::Success, WcOpcode::Send, 100 + n as u64));
            let mut whole = vec![0; 1 << 16];
            b.mr.read(0, &mut whole).unwrap();
            assert!(whole[..len] == bytes[..], "message {n} of {len} bytes (seed {SEED:#x})");
            assert!(whole[len..].iter().all(|byte| *byte == 0xaa), "bytes behind message {n}");
        }

        // A context dropped in mid-traffic (case 64): one end has a send on the way and the other a receive.
        b.qp.post_recv([RecvWr::new(1, &[b.mr.sge(0..60_000).unwrap()])]).unwrap();
        a.qp.post_send([SendWr::new(SendOp::Send, &[a.mr.sge(0..60_000).unwrap()])]).unwrap();
        drop(b.pd);
        drop(b.device);
        drop(b.mr);
        drop(b.cq);
        drop(b.qp);
        drop(a);
        functions.iter().for_each(assert_clean);
    }
}

/// A panic in mid-traffic: unwinding drops everything, and the device writes nowhere afterwards.
#[test]
fn case_64_panic_in_mid_traffic() {
    let world = World::new(SEED);
    let functions = [0, 1].map(|n| Model::new(HcaConfig::infiniband(n)).plug(&world));
    let [f, g] = functions.clone();
    let result = std::panic::catch_unwind(move || {
        let [mut a, mut b] = [End::new(&f), End::new(&g)];
        a.connect(&b);
        b.connect(&a);
        b.qp.post_recv([RecvWr::new(1, &[b.mr.sge(0..60_000).unwrap()])]).unwrap();
        a.qp.post_send([SendWr::new(SendOp::Send, &[a.mr.sge(0..60_000).unwrap()])]).unwrap();
        panic!("in mid-traffic");
    });
    assert!(result.is_err());
    functions.iter().for_each(assert_clean);
}
