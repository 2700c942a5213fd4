//! Detaching where the device refuses one command of it: it can be tried again, and nothing is kept in the end.

mod bench;

use bareverbs::{
    CqInit, Destroy, Device, Error, FlowSpec, Gid, Lid, Mac, QpInit, QpType, QueuePair, SrqAttr, XrcSrqInit,
};
use bareverbs_harness::World;
use bareverbs_mlx5::Config;
use bareverbs_mlx5_prm::cmd::{Opcode, Status};
use bareverbs_model_mlx5::{
    HcaConfig,
    fault::{CommandFault, CommandRule, Faults},
};
use bench::{
    Model, assert_nothing_kept,
    pair::{CAP, Device5, Link, Pair},
};

/// An Ethernet port that refuses an opcode once, after so many times.
fn refusing(opcode: Opcode, skip: u64) -> Model {
    let fault = CommandFault::Refuse(Status::ResourceBusy, 0x55);
    let rule = CommandRule { opcode: Some(opcode), skip, times: 1, fault };
    Model::new(HcaConfig { faults: Faults { commands: vec![rule], ..Faults::default() }, ..HcaConfig::ethernet(0) })
}

/// A QP with a CQ for both directions.
fn qp(device: &Device5, kind: QpType) -> Result<<Device5 as Device>::Qp, Error> {
    let (pd, cq) = (device.alloc_pd()?, device.create_cq(&CqInit { entries: 7, ..CqInit::default() })?);
    device.create_qp(
        &pd,
        &QpInit { kind, send_cq: &cq, recv_cq: &cq, srq: None, cap: CAP, signal_all: false, context: 0 },
    )
}

#[test]
fn a_rule_that_the_device_keeps_is_attached_still() {
    let function = refusing(Opcode::DELETE_FLOW_TABLE_ENTRY, 0).plug(&World::new(1));
    let device = Device5::open(function.clone(), Config::default()).expect("a device");
    let mut qp = qp(&device, QpType::RawPacket).expect("a QP");
    let flow = FlowSpec::to(Mac([2, 0, 0, 0, 0, 9]));
    qp.attach_flow(&flow).expect("a rule");
    assert!(matches!(qp.detach_flow(&flow), Err(Error::Command { .. })));
    qp.detach_flow(&flow).expect("the second try");
    assert_eq!(qp.detach_flow(&flow), Err(Error::NotAttached));
    qp.destroy().map_err(|r| r.error).expect("no rule is left");
    device.destroy().map_err(|r| r.error).expect("nothing is left");
    assert_nothing_kept(&function);
}

#[test]
fn a_rule_that_the_device_kept_from_a_dropped_qp_goes_with_the_device() {
    let function = refusing(Opcode::DELETE_FLOW_TABLE_ENTRY, 0).plug(&World::new(1));
    let device = Device5::open(function.clone(), Config::default()).expect("a device");
    let mut qp = qp(&device, QpType::RawPacket).expect("a QP");
    qp.attach_flow(&FlowSpec::to(Mac([2, 0, 0, 0, 0, 9]))).expect("a rule");
    drop((qp, device));
    assert_nothing_kept(&function);
}

#[test]
fn a_group_is_left_though_its_address_stays() {
    // Attaching tells the address list once; bring-up told it once before.
    let function = refusing(Opcode::MODIFY_NIC_VPORT_CONTEXT, 2).plug(&World::new(1));
    let device = Device5::open(function.clone(), Config::default()).expect("a device");
    let mut qp = qp(&device, QpType::Ud).expect("a QP");
    let group = Gid([0xff, 0x12, 0x60, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
    qp.attach_multicast(group, Lid(0)).expect("a group");
    qp.detach_multicast(group, Lid(0)).expect("left");
    assert_eq!(qp.detach_multicast(group, Lid(0)), Err(Error::NotAttached));
    qp.attach_multicast(group, Lid(0)).expect("a group again");
    qp.detach_multicast(group, Lid(0)).expect("left again");
    qp.destroy().map_err(|r| r.error).expect("no group is left");
    device.destroy().map_err(|r| r.error).expect("nothing is left");
    assert_nothing_kept(&function);
}

#[test]
fn an_xrc_srq_is_no_qps_own() {
    let pair = Pair::new(Link::InfiniBand, 3);
    let cq = pair.b.cq(15);
    let xrcd = pair.b.device.open_xrcd().expect("a domain");
    let attr = SrqAttr { max_wr: 7, max_sge: 1, limit: 0 };
    let srq = pair
        .b
        .device
        .create_xrc_srq(&pair.b.pd, &XrcSrqInit { attr, context: 0, xrcd: &xrcd, cq: &cq })
        .expect("an SRQ");
    for kind in [QpType::Rc, QpType::Ud] {
        let init =
            QpInit { kind, send_cq: &cq, recv_cq: &cq, srq: Some(&srq), cap: CAP, signal_all: false, context: 0 };
        assert!(matches!(pair.b.device.create_qp(&pair.b.pd, &init), Err(Error::Unsupported(_))), "{kind:?}");
    }
}
