//! From reset to ready and back, on the modelled HCA.

mod bench;

use bareverbs::{Destroy, Error};
use bareverbs_harness::World;
use bareverbs_mlx5::{Config, Local, Mlx5};
use bareverbs_mlx5_prm::cmd::{Opcode, Status};
use bareverbs_model_mlx5::{
    HcaConfig,
    fault::{CommandFault, CommandRule, Faults},
};
use bench::{Model, assert_clean, assert_nothing_kept};
use std::time::Duration;

const SEED: u64 = 0x6d6c_7835;

/// Both kinds of port.
fn configs() -> [HcaConfig; 2] {
    [HcaConfig::infiniband(0), HcaConfig::ethernet(0)]
}

#[test]
fn opens_and_closes() {
    for config in configs() {
        let world = World::new(SEED);
        let model = Model::new(config);
        let function = model.plug(&world);
        let device = Mlx5::<_, Local>::open(function.clone(), Config::default()).expect("opens");
        println!("{:?}: {} commands from reset to ready", model.with(|m| m.config.link), device.commands());
        assert!(device.commands() < 25);
        device.destroy().expect("closes");
        assert_clean(&function);
        assert_eq!(model.report().pages, 0);
    }
}

/// Every command of the bring-up in turn is refused, answered late, or never answered.
#[test]
fn bring_up_under_faults() {
    for config in configs() {
        let commands = {
            let world = World::new(SEED);
            let function = Model::new(config.clone()).plug(&world);
            Mlx5::<_, Local>::open(function, Config::default()).expect("opens").commands()
        };
        for k in 0..commands {
            let refuse = CommandFault::Refuse(Status::NoResources, 0xbad);
            for fault in [refuse, CommandFault::Late(Duration::from_secs(5)), CommandFault::Never] {
                let rule = CommandRule { opcode: None, skip: k, times: 1, fault };
                let faults = Faults { commands: vec![rule], ..Faults::default() };
                one_fault(HcaConfig { faults, ..config.clone() }, k, fault);
            }
        }
    }
}

fn one_fault(config: HcaConfig, k: u64, fault: CommandFault) {
    let world = World::new(SEED);
    let model = Model::new(config);
    let function = model.plug(&world);
    let timeout = Duration::from_secs(10);
    let config = Config { command_timeout: timeout, ..Config::default() };
    let what = format!("command {k} {fault:?} (seed {SEED:#x})");
    let begin = world.now();
    let result = Mlx5::<_, Local>::open(function.clone(), config);
    let took = world.now() - begin;
    match (fault, result) {
        (CommandFault::Refuse(..), Err(Error::Command { status: 0xf, name: "no resources", syndrome: 0xbad, .. })) => {}
        (CommandFault::Never, Err(Error::CommandTimeout { .. })) => {
            assert!(took >= timeout && took < timeout * 2, "{what}: {took:?}");
        }
        (CommandFault::Late(_), Ok(device)) => device.destroy().expect(&what),
        (_, result) => panic!("{what}: {:?}", result.map(|_| ())),
    }
    assert_nothing_kept(&function);
    assert_eq!(function.dma_faults().len(), 0, "{what}");
    assert_eq!(model.report().pages, 0, "{what}");
    let device = Mlx5::<_, Local>::open(function.clone(), config).expect(&what);
    device.destroy().expect(&what);
    assert_clean(&function);
}

/// The n-th allocation fails, for every n: a named error, and nothing is kept.
#[test]
fn bring_up_without_memory() {
    for config in configs() {
        for n in 1.. {
            let world = World::new(SEED);
            let function = Model::new(config.clone()).plug(&world);
            function.fail_allocation(Some(n));
            let result = Mlx5::<_, Local>::open(function.clone(), Config::default());
            if function.failure_pending() {
                assert!(result.is_ok());
                assert!(n > 5, "only {n} allocations");
                break;
            }
            match result {
                Err(Error::Platform(_)) => {}
                // Firmware's pages come from smaller chunks where a large one is not to be had.
                Ok(device) => device.destroy().expect("closes"),
                Err(e) => panic!("allocation {n}: {e}"),
            }
            assert_clean(&function);
        }
    }
}

#[test]
fn case_55_page_ledger() {
    let world = World::new(SEED);
    let model = Model::new(HcaConfig::infiniband(0));
    let function = model.plug(&world);
    for n in 0..100 {
        let device = Mlx5::<_, Local>::open(function.clone(), Config::default()).expect("opens");
        assert!(model.report().pages > 0);
        drop(device);
        assert_eq!(model.report().pages, 0, "open {n}");
        assert_clean(&function);
    }
    assert_eq!(model.report().executed(Opcode::INIT_HCA.0), 100);
}

/// Firmware wants no pages, offers some, or wants more than one command and one mailbox hold.
#[test]
fn case_54_pages_zero_or_negative() {
    // Firmware boots and is initialized with 52 pages, and asks at the second step for what the first did not bring. What it
    // has too many it offers back by an event, which the next command serves.
    for steps in [[None, None], [Some(60), None]] {
        let (opened, usual) = open_with(Faults { page_answers: [steps[0], steps[1], None], ..Faults::default() });
        assert!(opened.is_ok(), "{steps:?}: {opened:?}");
        for answer in [0, -512, 4232] {
            let page_answers =
                if steps[0].is_none() { [Some(answer), None, None] } else { [steps[0], Some(answer), None] };
            let (opened, pages) = open_with(Faults { page_answers, ..Faults::default() });
            assert!(opened.is_ok(), "{page_answers:?}: {opened:?}");
            let many = answer > 4096;
            assert_eq!(pages.at_the_end, if many { 52 } else { usual.at_the_end }, "{page_answers:?}");
            assert_eq!(pages.commands > usual.commands + 8, many, "{page_answers:?}: {} commands", pages.commands);
        }
    }
}

/// Firmware's pages when a device was opened.
struct Pages {
    at_the_end: u64,
    /// That gave it pages, or took them back.
    commands: u64,
}

/// Opens a device with these faults, and tells of firmware's pages.
fn open_with(faults: Faults) -> (Result<(), Error>, Pages) {
    let world = World::new(SEED);
    let model = Model::new(HcaConfig { faults, ..HcaConfig::infiniband(0) });
    let function = model.plug(&world);
    let result = Mlx5::<_, Local>::open(function.clone(), Config::default());
    let report = model.report();
    let pages = Pages { at_the_end: report.pages, commands: report.executed(Opcode::MANAGE_PAGES.0) };
    let result = result.map(drop);
    assert_clean(&function);
    assert_eq!(model.report().pages, 0);
    (result, pages)
}

/// Firmware's pages come from many small chunks where the platform has no large ones, or not at all.
#[test]
fn page_requests_without_memory() {
    let faults = Faults { page_answers: [Some(4232), None, None], ..Faults::default() };
    for n in 1.. {
        let world = World::new(SEED);
        let model = Model::new(HcaConfig { faults: faults.clone(), ..HcaConfig::infiniband(0) });
        let function = model.plug(&world);
        function.fail_allocation(Some(n));
        let result = Mlx5::<_, Local>::open(function.clone(), Config::default());
        let done = function.failure_pending();
        assert!(!matches!(result, Err(ref e) if !matches!(e, Error::Platform(_))), "allocation {n}");
        drop(result);
        assert_clean(&function);
        if done {
            break;
        }
    }
}
