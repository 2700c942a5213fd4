//! Rights: every combination at every place that takes some, on a device with atomics and on one without.

mod bench;

use bareverbs::*;
use bareverbs_harness::World;
use bareverbs_mlx5::Config;
use bareverbs_mlx5_prm::cmd::Opcode;
use bareverbs_model_mlx5::{
    HcaConfig,
    fault::{CommandFault, CommandRule, Faults},
};
use bench::{Model, pair::*};

const SEED: u64 = 0x0061_6363;

/// A card that answers one of the questions after its capabilities with zeros: the one after its atomics.
fn without_atomics() -> Node {
    let fault = CommandFault::NoEffect;
    let opens = |skip| {
        let rule = CommandRule { opcode: Some(Opcode::QUERY_HCA_CAP), skip, times: 1, fault };
        let faults = Faults { commands: vec![rule], ..Faults::default() };
        let model = Model::new(HcaConfig { faults, ..HcaConfig::infiniband(0) });
        let function = model.plug(&World::new(SEED));
        let device = Device5::open(function.clone(), Config::default()).ok()?;
        let pd = device.alloc_pd().ok()?;
        (!device.attributes().atomics).then_some(Node { model, function, device, pd })
    };
    (0..10).find_map(opens).expect("one of them leaves a device that opens without atomics")
}

/// ibv_reg_mr: "If IBV_ACCESS_REMOTE_WRITE or IBV_ACCESS_REMOTE_ATOMIC is set, then IBV_ACCESS_LOCAL_WRITE must be set too".
fn lacks_local_write(access: Access) -> bool {
    let changes = access.contains(Access::REMOTE_WRITE) || access.contains(Access::REMOTE_ATOMIC);
    changes && !access.contains(Access::LOCAL_WRITE)
}

/// What a region says of rights.
fn region(access: Access, atomics: bool) -> Result<(), Error> {
    if lacks_local_write(access) {
        Err(Error::AccessNeedsLocalWrite)
    } else if access.contains(Access::REMOTE_ATOMIC) && !atomics {
        Err(Error::Unsupported("atomics"))
    } else if access.contains(Access::ON_DEMAND) {
        Err(Error::Unsupported("on-demand paging"))
    } else {
        Ok(())
    }
}

/// What a request says of rights that are given to a window or to a region for fast registration.
fn request(access: Access, atomics: bool, window: bool) -> Result<(), PostError> {
    let local = access.contains(Access::LOCAL_WRITE);
    let unsupported = access.intersects(Access::ON_DEMAND | Access::MW_BIND)
        || access.contains(Access::REMOTE_ATOMIC) && !atomics
        || window && local;
    match (!window && lacks_local_write(access), unsupported) {
        (true, _) => Err(PostError::AccessNeedsLocalWrite),
        (false, true) => Err(PostError::UnsupportedAccess),
        (false, false) => Ok(()),
    }
}

fn every_place(node: &Node, atomics: bool) {
    assert_eq!(node.device.attributes().atomics, atomics);
    let cq = node.cq(15);
    let cap = QpCap { max_send_wr: 1024, ..CAP };
    let mut qp = node.qp(QpType::Rc, &cq, &cq, None, cap);
    to_init(&mut qp);
    let mut posts = node.qp(QpType::Rc, &cq, &cq, None, cap);
    to_init(&mut posts);
    let nobody = AhAttr { port: PORT, dlid: Lid(9), ..AhAttr::default() };
    posts.modify(&rtr_attr(QpType::Rc, nobody, qp.qpn())).expect("RTR");
    posts.modify(&rts_attr(QpType::Rc)).expect("RTS");
    let memory = || -> &'static mut [u8] { vec![0; 64].leak() };
    let register = |access| node.device.register(&node.pd, memory(), access).map_err(|r| r.error);
    let mut changing = register(Access::empty()).expect("a region");
    let bindable = register(Access::LOCAL_WRITE | Access::MW_BIND).expect("a region");
    let mut windows = [WindowKind::One, WindowKind::TwoB].map(|k| node.device.alloc_window(&node.pd, k).unwrap());
    let mut fast = node.device.alloc_fast_region(&node.pd, 1).unwrap();
    let elements = [bindable.sge(0..8).unwrap()];
    let mut refused = 0;
    for access in (0..=u8::MAX).filter_map(Access::from_bits) {
        let says = region(access, atomics);
        refused += u32::from(says.is_err());
        assert_eq!(register(access).map(|_| ()), says, "register: {access:?}");
        assert_eq!(changing.reregister(access), says, "reregister: {access:?}");
        // Modifying refuses by the attribute's name; local rights are nothing to a QP, and allowed.
        let modified = qp.modify(&QpAttr::to(QpState::Init).access(access));
        let wrong = access.contains(Access::ON_DEMAND) || access.contains(Access::REMOTE_ATOMIC) && !atomics;
        let named = matches!(modified, Err(Error::BadAttribute { attribute: QpAttrMask::ACCESS_FLAGS, .. }));
        assert!(if wrong { named } else { modified.is_ok() }, "modify: {access:?}: {modified:?}");
        // A region's own word on binds: it does not know what the device can do.
        let local = access.intersects(Access::LOCAL_WRITE | Access::MW_BIND | Access::ON_DEMAND);
        assert_eq!(bindable.bind(0..8, access).is_err(), local, "bind: {access:?}");
        // SAFETY: never rung, so nobody opens anything.
        let bind = unsafe { Bind::from_raw(bindable.iova(), 8, bindable.lkey(), access) };
        for window in &mut windows {
            let posted = posts.push_bind(window, &bind, 0, SendFlags::empty()).map(|_| ());
            assert_eq!(posted, request(access, atomics, true), "push_bind: {access:?}");
        }
        let init = FastInit { elements: &elements, iova: 0, access };
        let posted = posts.push_register(&mut fast, &init, 0, SendFlags::empty()).map(|_| ());
        assert_eq!(posted, request(access, atomics, false), "push_register: {access:?}");
    }
    assert!(refused > 40, "{refused} of 64");
}

fn to_init(qp: &mut Qp5) {
    qp.modify(&QpAttr::to(QpState::Init).port(PORT).pkey_index(0).access(Access::empty())).expect("INIT");
}

#[test]
fn every_combination_of_rights() {
    every_place(&Pair::new(Link::InfiniBand, SEED).a, true);
}

#[test]
fn every_combination_of_rights_without_atomics() {
    every_place(&without_atomics(), false);
}
