//! A card of this host on vfio-pci, the mlx5 driver in this process, and the other end of a run behind TCP.

use super::{
    both::buffer,
    exchange::Exchange,
    hcas, port,
    process::{Failed, Stdout},
};
use crate::{
    address::Address,
    devinfo,
    endpoint::{Endpoint, Progress},
    neighbours::{MEMORY, Neighbours},
    options::{Options, Program},
    report,
};
use bareverbs::{Destroy, Device, QpType, RawMemory};
use bareverbs_hal::PciAddress;
use bareverbs_mlx5::{Config, Local, Mlx5};
use bareverbs_vfio::Vfio;

/// The seed of what `-c` sends: both ends need the same.
const SEED: u64 = 1;

pub(crate) fn run(o: &Options<'_>, bdf: &str) -> Result<(), Failed> {
    let address: PciAddress =
        bdf.parse().map_err(|e| format!("-d {bdf}: {e}; `devices` lists the HCAs of this host"))?;
    if let Some(option) = o.of_the_model() {
        return Err(format!("{option} is for modelled HCAs, not for a card (-d)").into());
    }
    hcas::check(address)?;
    let function = Vfio::open(address)?;
    let device: Mlx5<Vfio, Local> = Mlx5::open(function, Config::default()).map_err(|e| {
        format!(
            "{address}: the card does not come up: {e}. A card that firmware has started, and that nobody else drives, \
             was expected. Next: `preflight {address}`, the kernel's log, then a cold start of the host"
        )
    })?;
    let outcome = match o.program {
        Program::Devinfo => devinfo::print(&mut Stdout, bdf, &device, o.ib_port, o.verbose).map_err(Failed::from),
        _ => ping_pong(o, device.clone()),
    };
    outcome.map_err(|e| format!("{address}: {e}"))?;
    device.destroy().map_err(|refused| format!("{address}: closing: {}", refused.error).into())
}

/// What answers for the addresses of an Ethernet port, where nobody else does: the kernel does not have the card.
fn neighbours<D: Device>(device: &D, pd: &D::Pd, o: &Options<'_>) -> Result<Option<Neighbours<D, RawMemory>>, Failed> {
    if !device.attributes().has(QpType::RawPacket) {
        return Ok(None);
    }
    let memory = buffer(MEMORY).ok_or("no memory for frames")?;
    Ok(Some(Neighbours::new(device, pd, o.ib_port, memory)?))
}

/// One end: the server, or the client if the options name a host.
fn ping_pong<D: Device>(o: &Options<'_>, device: D) -> Result<(), Failed> {
    port::prepare(&device, o)?;
    let pd = device.alloc_pd()?;
    let mut neighbours = neighbours(&device, &pd, o)?;
    let mut answer = || neighbours.as_mut().map_or(Ok(()), |n| n.answer().map(|_| ()));
    let mut end = Endpoint::new(device, o, u8::from(o.host.is_some()), o.seed.unwrap_or(SEED), buffer)?;
    let local: Vec<Address> = end.addresses().collect();
    if !o.json {
        local.iter().try_for_each(|a| report::local(&mut Stdout, a))?;
    }
    let (exchange, remote) = match o.host {
        Some(host) => {
            let mut exchange = Exchange::connect(o, host)?;
            exchange.send(&local)?;
            let remote = exchange.receive(&mut answer)?;
            exchange.say_done()?;
            end.connect(o, &remote)?;
            (exchange, remote)
        }
        None => {
            let mut exchange = Exchange::accept(o)?;
            let remote = exchange.receive(&mut answer)?;
            end.connect(o, &remote)?;
            exchange.send(&local)?;
            exchange.await_done(&mut answer)?;
            (exchange, remote)
        }
    };
    if !o.json {
        remote.iter().take(local.len()).try_for_each(|a| report::remote(&mut Stdout, a))?;
    }
    end.start()?;
    while end.step()? != Progress::Done {
        answer()?;
    }
    let outcome = end.outcome();
    exchange.finish();
    end.close()?;
    match (local.first(), remote.first()) {
        (Some(local), Some(remote)) if o.json => outcome.json(&mut Stdout, local, remote)?,
        _ => outcome.lines(&mut Stdout)?,
    }
    Ok(())
}
