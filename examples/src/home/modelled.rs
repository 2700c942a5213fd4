//! Two modelled ConnectX HCAs on one link, and the mlx5 driver.

use super::{
    both,
    process::{Failed, Stdout},
};
use crate::{
    devinfo,
    options::{Link, Options, Program},
};
use bareverbs::{Device, Gid, GidEntry, GidType, Mac, PortNum};
use bareverbs_harness::{Clock, Faults, Function, World, model::LinkKind};
use bareverbs_mlx5::{Config, Mlx5};
use bareverbs_model_mlx5::{Hca, HcaConfig, damage};
use std::{collections::hash_map::RandomState, hash::BuildHasher, net::Ipv4Addr};

type Hca5 = Mlx5<Function>;

pub(crate) fn run(o: &Options<'_>) -> Result<(), Failed> {
    if o.threads && o.seed.is_some() {
        return Err("--seed is the virtual clock on one thread; --threads is not reproducible".into());
    }
    let seed = o.seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
    let world = world(o, seed)?;
    let functions = [0, 1].map(|n| {
        let config = match o.link {
            Link::Ib => HcaConfig::infiniband(n),
            Link::Roce => HcaConfig::ethernet(n),
        };
        world.plug(Box::new(Hca::new(config)))
    });
    let watched = functions.clone();
    match o.program {
        Program::Devinfo => {
            for (n, function) in functions.into_iter().enumerate() {
                let device = open(o, function, n as u8)?;
                devinfo::print(&mut Stdout, &format!("mlx5_{n}"), &device, o.ib_port, o.verbose)?;
            }
        }
        _ if o.threads => {
            let [a, b] = functions;
            both::on_two_threads(o, [Box::new(move || open(o, a, 0)), Box::new(move || open(o, b, 1))], seed)?;
        }
        _ => {
            let [a, b] = functions;
            both::on_one_thread(o, [open(o, a, 0)?, open(o, b, 1)?], seed)?;
        }
    }
    world.stop()?;
    // The model is strict: what it had to complain of is a fault of the driver's.
    for function in watched {
        if let Some(what) = function.violations().first() {
            return Err(format!("the modelled HCA complains: {what}").into());
        }
        if let Some(record) = function.dma_faults().first() {
            return Err(format!("the modelled HCA was refused: {}", record.fault).into());
        }
    }
    Ok(())
}

fn world(o: &Options<'_>, seed: u64) -> Result<World, Failed> {
    let kind = match o.link {
        Link::Ib => LinkKind::InfiniBand,
        Link::Roce => LinkKind::Ethernet,
    };
    let clock = if o.seed.is_some() { Clock::Virtual } else { Clock::Wall };
    let mut builder = World::builder().seed(seed).clock(clock).threaded(o.threads).faults(faults(o)?);
    if let Some(path) = o.pcap {
        builder = builder.capture(kind, path).map_err(|e| format!("{path}: {e}"))?;
    }
    let world = builder.build();
    if o.fault == Some("corrupt") {
        // One message of the run, damaged behind the back of every checksum.
        let mut left = 1;
        world.set_corruptor(Box::new(move |kind, frame, random| {
            let hit = left > 0 && damage::payload(kind, frame, random);
            left -= i32::from(hit);
            hit
        }));
    }
    Ok(world)
}

fn faults(o: &Options<'_>) -> Result<Faults, Failed> {
    let none = Faults::NONE;
    let unreliable = matches!(o.program, Program::UcPingpong | Program::UdPingpong);
    if let (Some(fault @ ("loss" | "duplicate" | "reorder")), true) = (o.fault, unreliable) {
        return Err(format!(
            "--fault {fault}: UC and UD neither send again nor put in order, the ping-pong would wait for ever"
        )
        .into());
    }
    Ok(match o.fault {
        None => none,
        Some("corrupt") => Faults { corrupt_payload: 1.0, ..none },
        Some("loss") => Faults { loss: 0.01, ..none },
        Some("duplicate") => Faults { duplicate: 0.05, ..none },
        Some("reorder") => Faults { reorder: 0.05, ..none },
        Some("delay") => Faults { delay: 0.05, ..none },
        Some(other) => return Err(format!("--fault {other}: the modelled link has none of this name").into()),
    })
}

/// Opens the driver; on Ethernet gives the port a link-local GID of its MAC, and one of an IPv4 address.
fn open(o: &Options<'_>, function: Function, n: u8) -> Result<Hca5, Failed> {
    let device = Hca5::open(function, Config::default())?;
    if o.link == Link::Roce {
        let mac: Mac = device.query_port(PortNum(1))?.mac;
        let [a, b, c, d] = o.ip.unwrap_or(Ipv4Addr::new(10, 0, 0, 1)).octets();
        let gids = [Gid::link_local(mac), Gid::from_ipv4([a, b, c, d.wrapping_add(n)])];
        for (index, gid) in (0..).zip(gids) {
            device.set_gid(PortNum(1), index, &GidEntry { gid, kind: GidType::RoceV2, mac, vlan: None })?;
        }
    }
    Ok(device)
}
