//! Objects whose making goes wrong at any step: everything is undone.

mod bench;

use bareverbs::*;
use bareverbs_harness::World;
use bareverbs_mlx5::Config;
use bareverbs_mlx5_prm::cmd::{Opcode, Status};
use bareverbs_model_mlx5::{
    HcaConfig,
    fault::{CommandFault, CommandRule, Faults},
};
use bench::{Model, assert_clean, assert_nothing_kept, pair::Device5 as Dev};

const SEED: u64 = 0x756e_646f;

/// Makes one of each, and lets them go.
fn all_of_it(device: &Dev) -> Result<(), Error> {
    let (pd, xrcd) = (device.alloc_pd()?, device.open_xrcd()?);
    let channel = device.create_comp_channel()?;
    let cq = device.create_cq_on(&channel, &CqInit { entries: 7, ..CqInit::default() })?;
    let attr = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
    let mut srq = device.create_xrc_srq(&pd, &XrcSrqInit { attr, context: 0, xrcd: &xrcd, cq: &cq })?;
    srq.set_limit(2)?;
    srq.query()?;
    let cap = QpCap { max_send_wr: 4, max_send_sge: 1, ..QpCap::default() };
    let init =
        QpInit { kind: QpType::XrcIni, send_cq: &cq, recv_cq: &cq, srq: None, cap, signal_all: false, context: 0 };
    let sender = device.create_qp(&pd, &init)?;
    let target = device.create_xrc_target(&xrcd, 0)?;
    let window = device.alloc_window(&pd, WindowKind::One)?;
    let region = device.alloc_fast_region(&pd, 9)?;
    region.destroy()?;
    window.destroy()?;
    sender.destroy()?;
    target.destroy()?;
    srq.destroy()?;
    Ok(xrcd.destroy()?)
}

#[test]
fn any_command_may_be_refused() {
    let used = [
        (Opcode::ALLOC_XRCD, 2),
        (Opcode::ALLOC_PD, 2),
        (Opcode::CREATE_CQ, 2),
        (Opcode::CREATE_XRC_SRQ, 2),
        (Opcode::CREATE_QP, 2),
        (Opcode::CREATE_MKEY, 2),
        (Opcode::ARM_XRC_SRQ, 1),
        (Opcode::QUERY_XRC_SRQ, 1),
    ];
    for (opcode, times) in used {
        for skip in 0..times {
            let fault = CommandFault::Refuse(Status::ResourceBusy, 0x55);
            let faults = Faults {
                commands: vec![CommandRule { opcode: Some(opcode), skip, times: 1, fault }],
                ..Faults::default()
            };
            let model = Model::new(HcaConfig { faults, ..HcaConfig::infiniband(0) });
            let function = model.plug(&World::new(SEED));
            let device = Dev::open(function.clone(), Config::default()).expect("opens");
            let error = all_of_it(&device).expect_err("a command was refused");
            assert!(matches!(error, Error::Command { syndrome: 0x55, .. }), "{opcode:?} {skip}: {error}");
            // It can be done afterwards, with what is left of the first time.
            all_of_it(&device).unwrap_or_else(|e| panic!("{opcode:?} {skip}: {e}"));
            device.destroy().expect("closes");
            assert_clean(&function);
            assert_eq!(model.report().pages, 0);
        }
    }
}

#[test]
fn any_allocation_may_fail() {
    let world = World::new(SEED);
    let model = Model::new(HcaConfig::infiniband(0));
    let function = model.plug(&world);
    let mut failures = 0;
    for n in 1.. {
        let device = Dev::open(function.clone(), Config::default()).expect("opens");
        function.fail_allocation(Some(n));
        let result = all_of_it(&device);
        let pending = function.failure_pending();
        function.fail_allocation(None);
        if pending {
            result.expect("nothing failed");
            device.destroy().expect("closes");
            break;
        }
        let error = result.expect_err("an allocation failed");
        assert!(matches!(error, Error::Platform(_) | Error::Command { .. }), "allocation {n}: {error}");
        all_of_it(&device).unwrap_or_else(|e| panic!("after allocation {n}: {e}"));
        device.destroy().expect("closes");
        assert_nothing_kept(&function);
        failures += 1;
    }
    assert!(failures >= 13, "{failures}");
}
