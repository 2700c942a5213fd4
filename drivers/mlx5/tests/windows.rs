//! Windows that one thread destroys while another one asks the device for those of its region.

mod bench;

use bareverbs::*;
use bareverbs_harness::World;
use bareverbs_mlx5::{Config, Mlx5, Shared};
use bareverbs_model_mlx5::HcaConfig;
use bench::{Model, assert_clean, pair::*};

const SEED: u64 = 0x0077_696e;
const ROUNDS: usize = 300;

#[test]
fn windows_go_while_their_region_is_asked() {
    let world = World::builder().seed(SEED).threaded(true).build();
    let model = Model::new(HcaConfig::infiniband(0));
    let function = model.plug(&world);
    let device: Mlx5<_, Shared> = Mlx5::open(function.clone(), Config::default()).expect("opens");
    let pd = device.alloc_pd().expect("a PD");
    let cq = device.create_cq(&CqInit { entries: 7, ..CqInit::default() }).expect("a CQ");
    // Room for all binds: none is told to the device.
    let cap = QpCap { max_send_wr: 3 * ROUNDS as u32, ..CAP };
    let init = QpInit { kind: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, cap, signal_all: false, context: 0 };
    let mut qp = device.create_qp(&pd, &init).expect("a QP");
    let av = AhAttr { port: PORT, dlid: Lid(9), ..AhAttr::default() };
    for attr in [init_attr(QpType::Rc), rtr_attr(QpType::Rc, av, Qpn::new(9)), rts_attr(QpType::Rc)] {
        qp.modify(&attr).expect("the next state");
    }
    let access = Access::LOCAL_WRITE | Access::MW_BIND;
    let memory: &'static mut [u8] = vec![0; 64].leak();
    let mut mr = device.register(&pd, memory, access).map_err(|r| r.error).expect("a region");
    let bind = mr.bind(0..8, Access::REMOTE_READ).expect("a bind");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let mut window = device.alloc_window(&pd, WindowKind::One).expect("a window");
                qp.push_bind(&mut window, &bind, 0, SendFlags::empty()).expect("room");
                window.destroy().map_err(|r| r.error).expect("it goes");
            }
        });
        scope.spawn(|| {
            for round in 0..ROUNDS {
                assert_eq!(mr.reregister(access), Ok(()), "round {round}");
            }
        });
    });
    drop((mr, qp, cq, pd));
    device.destroy().map_err(|r| r.error).expect("closes");
    world.stop().expect("nobody panicked");
    assert_clean(&function);
}
