//! Control verbs on the modelled HCA: ports, GIDs, domains, regions, addresses, limits, the device's end.

mod bench;

use bareverbs::{
    Access, AhAttr, Argument, Destroy, Device, Error, Event, Gid, GidEntry, GidType, GlobalRoute, Handle, Lid,
    LinkLayer, Mac, MemoryRegion, Mtu, Object, Pkey, PortNum, PortState, RegionInit,
};
use bareverbs_harness::{Function, World};
use bareverbs_mlx5::{Config, Local, Mlx5, Shared};
use bareverbs_mlx5_prm::cmd::Opcode;
use bareverbs_model_mlx5::{
    HcaConfig,
    fault::{CommandFault, CommandRule, Faults},
};
use bench::{Model, assert_clean, assert_nothing_kept};
use std::time::Duration;

const SEED: u64 = 0x7665_7262;

type Dev = Mlx5<Function, Local>;

/// A world with one open device.
struct Bench {
    world: World,
    model: Model,
    function: Function,
    device: Dev,
}

impl Bench {
    fn new(config: HcaConfig) -> Self {
        Self::with(config, Config::default())
    }

    fn with(hca: HcaConfig, config: Config) -> Self {
        let world = World::new(SEED);
        let model = Model::new(hca);
        let function = model.plug(&world);
        let device = Mlx5::open(function.clone(), config).expect("opens");
        Self { world, model, function, device }
    }

    fn infiniband() -> Self {
        Self::new(HcaConfig::infiniband(0))
    }

    fn ethernet() -> Self {
        Self::new(HcaConfig::ethernet(0))
    }

    /// Runs something that must not reach the device.
    fn untouched<R>(&self, f: impl FnOnce(&Dev) -> R) -> R {
        let commands = self.device.commands();
        self.function.trace(true);
        let result = f(&self.device);
        assert!(self.function.take_trace().is_empty(), "a register was touched");
        self.function.trace(false);
        assert_eq!(self.device.commands(), commands);
        result
    }

    fn close(self) {
        self.device.destroy().expect("closes");
        assert_clean(&self.function);
        assert_eq!(self.model.report().pages, 0);
    }
}

/// Bytes for ever, as a program's own memory is.
fn memory(len: usize) -> &'static mut [u8] {
    vec![0; len].leak()
}

const PORT: PortNum = PortNum(1);

#[test]
fn attributes_follow_the_device() {
    let bench = Bench::infiniband();
    let attr = bench.device.attributes();
    assert_eq!(attr.firmware, [16, 35, 4030]);
    assert_eq!(attr.node_guid, 0x0200_c9ff_fe00_0000u64.to_be_bytes());
    assert_eq!((attr.vendor_id, attr.vendor_part_id, attr.phys_port_cnt), (0x15b3, 0x1017, 1));
    assert_eq!((attr.max_qp, attr.max_cq, attr.num_comp_vectors), (4096, 4096, 1));
    assert!(attr.has(bareverbs::QpType::Rc) && attr.has(bareverbs::QpType::Ud));
    bench.close();
}

#[test]
fn ports_tell_their_state() {
    let bench = Bench::infiniband();
    let port = bench.device.query_port(PORT).unwrap();
    assert_eq!((port.link_layer, port.lid), (LinkLayer::InfiniBand, Lid(0)));
    assert_eq!((port.max_mtu, port.pkey_tbl_len), (Mtu::B4096, 128));
    assert_eq!(port.state, PortState::Down, "a cable without another end");
    assert_eq!(bench.device.query_pkey(PORT, 0), Ok(Pkey::DEFAULT));
    let gid = bench.device.query_gid(PORT, 0).unwrap().gid;
    assert!(gid.is_link_local() && gid.0[8..] == 0x0200_c9ff_fe00_0000u64.to_be_bytes(), "{gid}");
    bench.close();

    let bench = Bench::ethernet();
    let port = bench.device.query_port(PORT).unwrap();
    assert_eq!((port.link_layer, port.state, port.lid), (LinkLayer::Ethernet, PortState::Active, Lid(0)));
    assert_eq!(port.mac, Mac([0x02, 0, 0xc9, 0, 0, 0]));
    assert_eq!(bench.device.query_pkey(PORT, 0), Ok(Pkey::DEFAULT));
    bench.close();
}

#[test]
fn two_ends_of_a_cable_are_active() {
    let world = World::new(SEED);
    let ends = [0, 1].map(|n| Model::new(HcaConfig::infiniband(n)).plug(&world));
    let devices = ends.clone().map(|f| Dev::open(f, Config::default()).expect("opens"));
    for (n, device) in (1..).zip(&devices) {
        let port = device.query_port(PORT).unwrap();
        assert_eq!((port.state, port.lid, port.phys_state), (PortState::Active, Lid(n), 5));
    }
    ends[0].set_link(0, false);
    let mut events = Vec::new();
    while events.is_empty() {
        events.extend(devices[1].service().unwrap());
    }
    assert_eq!(events, [Event::PortDown(PORT)]);
    assert_eq!(devices[1].query_port(PORT).unwrap().state, PortState::Down);
    drop(devices);
    ends.iter().for_each(assert_clean);
}

#[test]
fn gids_are_set_and_deleted() {
    let bench = Bench::ethernet();
    let mac = Mac([0x02, 0, 0xc9, 0, 0, 0]);
    let entries = [
        GidEntry { gid: Gid::link_local(mac), kind: GidType::IbOrRoceV1, mac, vlan: None },
        GidEntry { gid: Gid::link_local(mac), kind: GidType::RoceV2, mac, vlan: None },
        GidEntry { gid: Gid::from_ipv4([10, 0, 0, 1]), kind: GidType::RoceV2, mac, vlan: Some(7) },
    ];
    for (index, entry) in (0..).zip(&entries) {
        bench.device.set_gid(PORT, index, entry).unwrap();
    }
    for (index, entry) in (0..).zip(&entries) {
        assert_eq!(bench.device.query_gid(PORT, index).as_ref(), Ok(entry));
    }
    let table = (0..8).map(|index| bench.device.query_gid(PORT, index).unwrap());
    assert_eq!(bareverbs::gid::choose(table).map(|c| c.index), Some(2));
    bench.device.set_gid(PORT, 2, &GidEntry::default()).unwrap();
    assert!(bench.device.query_gid(PORT, 2).unwrap().gid.is_zero());
    bench.close();
}

#[test]
fn bad_input_does_not_reach_the_device() {
    for bench in [Bench::infiniband(), Bench::ethernet()] {
        let ethernet = bench.device.query_port(PORT).unwrap().link_layer == LinkLayer::Ethernet;
        bench.untouched(|d| {
            for port in [0, 2, 255].map(PortNum) {
                assert_eq!(d.query_port(port).map(|_| ()), Err(Error::NoSuchPort(port)));
                assert_eq!(d.query_gid(port, 0), Err(Error::NoSuchPort(port)));
                assert_eq!(d.query_pkey(port, 0), Err(Error::NoSuchPort(port)));
                assert_eq!(d.set_gid(port, 0, &GidEntry::default()), Err(Error::NoSuchPort(port)));
                let ah = AhAttr { port, ..AhAttr::default() };
                assert_eq!(d.address_handle(&ah).map(|_| ()), Err(Error::NoSuchPort(port)));
            }
            if !ethernet {
                // An Ethernet port of the model has 256 entries: every index is one.
                let no_gid = Err(Error::NoSuchIndex { table: Argument::Gid, index: 255 });
                assert_eq!(d.query_gid(PORT, 255), no_gid);
            }
            let no_pkey = Err(Error::NoSuchIndex { table: Argument::Pkey, index: 0xffff });
            assert_eq!(d.query_pkey(PORT, 0xffff), no_pkey);

            let ah = AhAttr { port: PORT, sl: 16, ..AhAttr::default() };
            let max = if ethernet { 7 } else { 15 };
            let error = Error::OutOfRange { what: Argument::ServiceLevel, wanted: 16, max };
            assert_eq!(d.address_handle(&ah).map(|_| ()), Err(error));
            let grh = GlobalRoute { flow_label: 1 << 20, ..GlobalRoute::default() };
            let ah = AhAttr { port: PORT, grh: Some(grh), ..AhAttr::default() };
            let error = Error::OutOfRange { what: Argument::FlowLabel, wanted: 1 << 20, max: 0xf_ffff };
            assert_eq!(d.address_handle(&ah).map(|_| ()), Err(error));

            let entry = GidEntry { vlan: Some(4095), ..GidEntry::default() };
            let error = d.set_gid(PORT, 0, &entry).unwrap_err();
            match ethernet {
                true => assert_eq!(error, Error::OutOfRange { what: Argument::Vlan, wanted: 4095, max: 4094 }),
                false => assert!(matches!(error, Error::Unsupported(_))),
            }
            let ah = AhAttr { port: PORT, ..AhAttr::default() };
            let grh = Some(GlobalRoute { dgid: Gid::from_ipv4([10, 0, 0, 2]), ..GlobalRoute::default() });
            let no_mac = AhAttr { port: PORT, grh, ..AhAttr::default() };
            match ethernet {
                true => {
                    assert_eq!(d.address_handle(&ah).map(|_| ()), Err(Error::GrhRequired));
                    assert_eq!(d.address_handle(&no_mac).map(|_| ()), Err(Error::MacRequired));
                }
                false => {
                    d.address_handle(&ah).unwrap();
                    d.address_handle(&no_mac).unwrap();
                }
            }
        });
        bench.close();
    }
}

/// Address vectors by hand from the PRM's table: 16 bytes of key, QPN and path, then the GRH's part.
#[test]
fn address_handles_hold_the_device_s_own_bytes() {
    let bench = Bench::ethernet();
    let peer = Mac([0x02, 0, 0xc9, 0, 0, 1]);
    let grh = GlobalRoute {
        dgid: Gid::link_local(peer),
        sgid_index: 3,
        flow_label: 0x12345,
        hop_limit: 64,
        traffic_class: 0x20,
    };
    let ah = AhAttr { port: PORT, sl: 5, grh: Some(grh), ..AhAttr::default() };
    let form = bench.device.address_handle(&ah).unwrap();
    let bytes: Vec<u8> = form.form().iter().flat_map(|w| w.to_ne_bytes()).collect();
    // 0xe341 is what Linux's rdma_flow_label_to_udp_sport makes of flow label 0x12345.
    let head = [0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 5 << 1, 0, 0xe3, 0x41];
    let path = [0, 0, 0, 0, 0x02, 0, 0xc9, 0, 0, 1, 0x20, 64, 0x40, 0x31, 0x23, 0x45];
    assert_eq!((&bytes[..16], &bytes[16..32]), (&head[..], &path[..]));
    assert_eq!(bytes[32..], grh.dgid.0);
    bench.close();
}

#[test]
fn case_46_impossible_access() {
    let bench = Bench::infiniband();
    let pd = bench.device.alloc_pd().unwrap();
    for bits in 0..16 {
        let access = Access::from_bits_truncate(bits);
        let changes = access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
        if changes && !access.contains(Access::LOCAL_WRITE) {
            let refused = bench.untouched(|d| d.register(&pd, memory(100), access).map(|_| ()).unwrap_err());
            assert_eq!((refused.error, refused.handle.len()), (Error::AccessNeedsLocalWrite, 100));
            assert_eq!(bench.function.mappings_outstanding(), 0);
        } else {
            let mr = bench.device.register(&pd, memory(100), access).expect("a possible combination");
            assert_eq!(mr.deregister().expect("deregisters").len(), 100);
        }
    }
    drop(pd);
    bench.close();
}

#[test]
fn regions_refuse_what_cannot_be_and_give_memory_back() {
    let bench = Bench::infiniband();
    let other = Bench::infiniband();
    let pd = bench.device.alloc_pd().unwrap();
    bench.untouched(|d| {
        let refused = d.register(&pd, memory(0), Access::empty()).map(|_| ()).unwrap_err();
        assert!(matches!(refused.error, Error::OutOfRange { what: Argument::RegionLength, wanted: 0, .. }));
        let bytes = memory(8192);
        let odd = RegionInit { access: Access::empty(), iova: Some(bytes.as_ptr() as u64 + 1) };
        let refused = d.register(&pd, bytes, odd).map(|_| ()).unwrap_err();
        assert!(matches!(refused.error, Error::Unsupported(_)));
        let bytes = refused.handle;
        let offset = bytes.as_ptr() as u64 & 0xfff;
        let wraps = RegionInit { access: Access::empty(), iova: Some(!0xfff | offset) };
        let refused = d.register(&pd, bytes, wraps).map(|_| ()).unwrap_err();
        assert!(matches!(refused.error, Error::OutOfRange { what: Argument::RegionLength, .. }));
        let refused = other.device.register(&pd, refused.handle, Access::empty()).map(|_| ()).unwrap_err();
        assert_eq!(refused.error, Error::Foreign(Object::Pd));
    });
    let bytes = memory(10_000);
    let iova = 0x5_0000_0000 | (bytes.as_ptr() as u64 & 0xfff);
    let mr = bench.device.register(&pd, bytes, RegionInit { access: Access::LOCAL_WRITE, iova: Some(iova) }).unwrap();
    assert_eq!((mr.iova(), mr.len(), bench.function.mappings_outstanding()), (iova, 10_000, 1));
    mr.write(9_000, b"hello").unwrap();
    let mut read = [0; 5];
    mr.read(9_000, &mut read).unwrap();
    assert_eq!(&read, b"hello");
    assert_eq!(mr.sge(1..11).unwrap().addr(), iova + 1);
    let first = mr.lkey();
    let bytes = mr.deregister().expect("deregisters");
    assert_eq!(&bytes[9_000..9_005], b"hello");
    let mr = bench.device.register(&pd, bytes, Access::empty()).unwrap();
    assert_ne!(mr.lkey(), first, "a key that is used again differs in its variant byte");
    // The region and its domain outlive both other handles.
    drop(pd);
    let Bench { device, function, .. } = bench;
    drop(device);
    assert!(function.state_outstanding() > 0);
    drop(mr);
    assert_clean(&function);
    other.close();
}

#[test]
fn a_refused_region_leaves_nothing() {
    let bench = Bench::infiniband();
    let pd = bench.device.alloc_pd().unwrap();
    for n in 1.. {
        let (dma, state) = (bench.function.dma_outstanding(), bench.function.state_outstanding());
        bench.function.fail_allocation(Some(n));
        // So long a list that its mailboxes are allocated.
        match bench.device.register(&pd, memory(4 << 20), Access::LOCAL_WRITE) {
            Ok(mr) => {
                assert!(bench.function.failure_pending() && n > 1);
                drop(mr);
            }
            Err(refused) => {
                assert!(matches!(refused.error, Error::Platform(_)), "{}", refused.error);
                assert_eq!(bench.function.dma_outstanding(), dma);
                assert_eq!(bench.function.state_outstanding(), state);
                assert_eq!(bench.function.mappings_outstanding(), 0);
            }
        }
        if bench.function.failure_pending() {
            break;
        }
    }
    bench.function.fail_allocation(None);
    drop(pd);
    bench.close();
}

#[test]
fn limits_are_those_of_open() {
    let config = Config { max_pds: 3, max_regions: 2, ..Config::default() };
    let bench = Bench::with(HcaConfig::infiniband(0), config);
    let mut pds: Vec<_> = (0..3).map(|_| bench.device.alloc_pd().unwrap()).collect();
    bench.untouched(|d| {
        let error = d.alloc_pd().map(|_| ()).unwrap_err();
        assert_eq!(error, Error::OutOfRange { what: Argument::Pds, wanted: 4, max: 3 });
    });
    pds.pop().unwrap().destroy().unwrap();
    pds.push(bench.device.alloc_pd().unwrap());
    let mrs = [0, 1].map(|_| bench.device.register(&pds[0], memory(10), Access::empty()).unwrap());
    bench.untouched(|d| {
        let error = d.register(&pds[0], memory(10), Access::empty()).map(|_| ()).unwrap_err().error;
        assert_eq!(error, Error::OutOfRange { what: Argument::Regions, wanted: 3, max: 2 });
    });
    drop(mrs);
    drop(bench.device.register(&pds[0], memory(10), Access::empty()).unwrap());
    drop(pds);
    bench.close();
}

#[test]
fn holders_are_counted() {
    let bench = Bench::infiniband();
    let pd = bench.device.alloc_pd().unwrap();
    let mr = bench.device.register(&pd, memory(10), Access::empty()).unwrap();
    let refused = pd.destroy().unwrap_err();
    assert_eq!(refused.error, Error::Busy { holders: 1 });
    let Bench { device, function, .. } = bench;
    let refused_device = device.destroy().unwrap_err();
    assert!(matches!(refused_device.error, Error::Busy { .. }));
    drop(mr.deregister().map(|_| ()));
    refused.handle.destroy().expect("nothing is made in it any more");
    let raw = refused_device.handle.into_raw();
    // SAFETY: `raw` came from `into_raw` just now.
    let device = unsafe { Dev::from_raw(raw) };
    device.destroy().expect("the last handle");
    assert_clean(&function);
}

/// Firmware has room for some objects only and asks for pages while a command waits for them.
#[test]
fn firmware_gets_pages_while_commands_run() {
    let bench = Bench::infiniband();
    let begin = bench.model.report().pages;
    let pds: Vec<_> = (0..1000).map(|_| bench.device.alloc_pd().unwrap()).collect();
    let most = bench.model.report().pages;
    assert!(most > begin + 40, "{begin} to {most}");
    drop(pds);
    while bench.device.service().unwrap().is_some() {}
    assert!(bench.model.report().pages < most, "firmware gives pages back that it does not need");
    bench.close();
}

/// MANAGE_PAGES commands that gave pages.
fn gives(model: &Model) -> u64 {
    model.report().commands.get(&(Opcode::MANAGE_PAGES.0, 1)).map_or(0, |n| n.executed)
}

#[test]
fn case_54_pages_by_event() {
    // Two commands give what firmware boots and is initialized with; 4,232 pages take nine of 512 at most.
    for (asked, commands) in [(0, 2), (-512, 2), (4232, 2 + 9)] {
        let faults = Faults { page_request: Some(asked), ..Faults::default() };
        let bench = Bench::new(HcaConfig { faults, ..HcaConfig::infiniband(0) });
        let pd = bench.device.alloc_pd().unwrap();
        while bench.device.service().unwrap().is_some() {}
        assert_eq!(gives(&bench.model), commands, "{asked}");
        assert!(bench.model.report().pages >= 52, "{asked}");
        drop(pd);
        bench.close();
    }
}

#[test]
fn firmware_is_told_when_there_are_no_pages() {
    let bench = Bench::infiniband();
    let mut pds = Vec::new();
    // Every chunk from now on is refused, in turn with what the domains themselves take.
    let error = loop {
        let state = bench.function.state_outstanding();
        match bench.device.alloc_pd() {
            Ok(pd) => pds.push(pd),
            Err(e) => {
                assert_eq!(bench.function.state_outstanding(), state);
                break e;
            }
        }
        if pds.len() == 60 {
            bench.function.fail_allocation(None);
        }
        if pds.len() > 60 {
            bench.function.fail_allocation(Some(2));
        }
        assert!(pds.len() < 5000, "the model never ran out of pages");
    };
    assert!(matches!(error, Error::Platform(_) | Error::Command { .. }), "{error}");
    bench.function.fail_allocation(None);
    drop(pds);
    bench.close();
}

#[test]
fn case_56_firmware_death() {
    let period = Duration::from_secs(2);
    let dead = |syndrome, name| Error::Fatal { syndrome, name, firmware: [16, 35, 4030] };
    let at = Duration::from_secs(10);
    let cases = [
        (None, dead(0, "firmware's health counter stopped")),
        (Some(0x1), dead(0x1, "firmware internal error")),
        (Some(0x7), dead(0x7, "irisc not responding")),
        (Some(0x8), dead(0x8, "unrecoverable hardware error")),
    ];
    for (syndrome, error) in cases {
        let mut faults = Faults::default();
        match syndrome {
            Some(syndrome) => faults.health = Some((at, syndrome)),
            None => faults.counter_stops = Some(at),
        }
        let config = Config { health_period: period, ..Config::default() };
        let bench = Bench::with(HcaConfig { faults, ..HcaConfig::infiniband(0) }, config);
        let pd = bench.device.alloc_pd().unwrap();
        let mr = bench.device.register(&pd, memory(5000), Access::LOCAL_WRITE).unwrap();
        let event = loop {
            assert!(bench.world.now() < at + 3 * period, "{error}: not seen in three periods");
            if let Some(event) = bench.device.service().unwrap() {
                break event;
            }
        };
        assert_eq!(event, Event::DeviceFatal(error));
        assert_eq!(bench.device.service(), Err(error));
        assert_eq!(bench.device.alloc_pd().map(|_| ()), Err(error));
        assert_eq!(bench.device.query_port(PORT).map(|_| ()), Err(error));
        assert_eq!(bench.device.query_gid(PORT, 0), Err(error));
        let refused = bench.device.register(&pd, memory(10), Access::empty()).map(|_| ()).unwrap_err();
        assert_eq!(refused.error, error);
        let commands = bench.device.commands();
        let begin = bench.world.now();
        assert_eq!(mr.deregister().expect("needs no command").len(), 5000);
        assert_eq!(bench.device.commands(), commands);
        let Bench { device, function, world, .. } = bench;
        drop((pd, device));
        assert!(world.now() - begin < period, "closing took {:?}", world.now() - begin);
        assert_clean(&function);
        // The function was reset: it works again.
        Dev::open(function.clone(), Config::default()).expect("opens again").destroy().expect("closes");
        assert_clean(&function);
    }
}

#[test]
fn a_command_without_answer_ends_the_device() {
    let rule = CommandRule { opcode: Some(Opcode::CREATE_MKEY), skip: 1, times: 1, fault: CommandFault::Never };
    let faults = Faults { commands: vec![rule], ..Faults::default() };
    let config = Config { command_timeout: Duration::from_secs(3), ..Config::default() };
    let bench = Bench::with(HcaConfig { faults, ..HcaConfig::infiniband(0) }, config);
    let pd = bench.device.alloc_pd().unwrap();
    let mr = bench.device.register(&pd, memory(4096), Access::LOCAL_WRITE).unwrap();
    let error = Error::CommandTimeout { opcode: Opcode::CREATE_MKEY.0 };
    let refused = bench.device.register(&pd, memory(1 << 20), Access::LOCAL_WRITE).map(|_| ()).unwrap_err();
    assert_eq!(refused.error, error);
    assert!(error.is_fatal());
    assert_eq!(bench.device.alloc_pd().map(|_| ()), Err(error));
    assert_eq!(bench.device.service(), Ok(Some(Event::DeviceFatal(error))));
    assert_eq!(bench.device.service(), Err(error));
    let Bench { device, function, .. } = bench;
    drop(device);
    drop(pd);
    drop(mr);
    assert_nothing_kept(&function);
    assert_eq!(function.dma_fault_count(), 0);
    Dev::open(function.clone(), config).expect("opens again").destroy().expect("closes");
    assert_nothing_kept(&function);
}

/// A region whose key the device keeps: the memory stays mapped until the function was stopped.
#[test]
fn memory_that_the_device_keeps_stays_mapped() {
    let refuse = CommandFault::Refuse(bareverbs_mlx5_prm::cmd::Status::ResourceBusy, 0x77);
    let rule = CommandRule { opcode: Some(Opcode::DESTROY_MKEY), skip: 0, times: 2, fault: refuse };
    let faults = Faults { commands: vec![rule], ..Faults::default() };
    let bench = Bench::new(HcaConfig { faults, ..HcaConfig::infiniband(0) });
    let pd = bench.device.alloc_pd().unwrap();
    let mr = bench.device.register(&pd, memory(4096), Access::LOCAL_WRITE).unwrap();
    let refused = mr.deregister().unwrap_err();
    assert!(matches!(refused.error, Error::Command { status: 6, syndrome: 0x77, .. }), "{}", refused.error);
    drop(refused.handle);
    assert_eq!(bench.function.mappings_outstanding(), 1);
    let Bench { device, function, .. } = bench;
    drop((pd, device));
    assert_nothing_kept(&function);
    assert_eq!(function.dma_fault_count(), 0);
}

/// A function that failed and cannot be stopped may still write to a region: its memory does not come back before it is.
#[test]
fn memory_stays_with_a_region_while_a_failed_device_cannot_be_stopped() {
    let bench = Bench::infiniband();
    let pd = bench.device.alloc_pd().unwrap();
    let register = |len| bench.device.register(&pd, memory(len), Access::LOCAL_WRITE).map_err(|r| r.error);
    let (mr, forgotten) = (register(5000).unwrap(), register(4096).unwrap());
    // It answers nothing, and neither its command register nor its reset can be reached.
    bench.function.set_gone(true);
    let error = bench.device.alloc_pd().map(|_| ()).unwrap_err();
    assert!(error.is_fatal(), "{error}");
    let refused = mr.deregister().unwrap_err();
    assert_eq!(refused.error, error);
    drop(forgotten);
    assert_eq!(bench.function.mappings_outstanding(), 2);
    bench.function.set_gone(false);
    assert_eq!(refused.handle.deregister().expect("it can be stopped now").len(), 5000);
    let Bench { device, function, .. } = bench;
    drop((pd, device));
    assert_nothing_kept(&function);
}

#[test]
fn case_64_teardown_in_any_order() {
    for order in 0..6 {
        let bench = Bench::infiniband();
        let pd = bench.device.alloc_pd().unwrap();
        let mr = bench.device.register(&pd, memory(9000), Access::LOCAL_WRITE).unwrap();
        let Bench { device, function, model, .. } = bench;
        let mut handles: [Option<Box<dyn std::any::Any>>; 3] =
            [Some(Box::new(device)), Some(Box::new(pd)), Some(Box::new(mr))];
        for n in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]][order] {
            drop(handles[n].take());
        }
        assert_clean(&function);
        assert_eq!(model.report().pages, 0);
    }
}

#[test]
fn shared_handles_work_from_many_threads() {
    let world = World::builder().seed(SEED).threaded(true).build();
    let model = Model::new(HcaConfig::infiniband(0));
    let function = model.plug(&world);
    let device: Mlx5<_, Shared> = Mlx5::open(function.clone(), Config::default()).expect("opens");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let pd = device.alloc_pd().unwrap();
                    let mr = device.register(&pd, memory(100), Access::LOCAL_WRITE).unwrap();
                    drop(pd);
                    drop(mr);
                }
            });
        }
    });
    device.destroy().expect("closes");
    world.stop().unwrap();
    assert_clean(&function);
}

/// With signed answers a broken one ends the device: nobody knows what it did.
#[test]
fn broken_signatures_are_seen_where_they_were_asked_for() {
    let rule =
        CommandRule { opcode: Some(Opcode::CREATE_MKEY), skip: 0, times: 1, fault: CommandFault::WrongSignature };
    for signatures in [false, true] {
        let faults = Faults { commands: vec![rule], ..Faults::default() };
        let config = Config { signatures, ..Config::default() };
        let bench = Bench::with(HcaConfig { faults, ..HcaConfig::infiniband(0) }, config);
        let pd = bench.device.alloc_pd().unwrap();
        let result = bench.device.register(&pd, memory(100), Access::LOCAL_WRITE).map_err(|r| r.error);
        let error = Error::BadAnswer { opcode: Opcode::CREATE_MKEY.0, why: "signature" };
        match signatures {
            false => drop(result.expect("nobody looks")),
            true => {
                assert_eq!(result.map(|_| ()), Err(error));
                assert_eq!(bench.device.service(), Ok(Some(Event::DeviceFatal(error))));
            }
        }
        let Bench { device, function, .. } = bench;
        drop((pd, device));
        assert_clean(&function);
    }
}
