//! What an operating system does for a port: waits until the link is up, and gives an Ethernet port its addresses.

use super::process::Failed;
use crate::options::Options;
use bareverbs::{Device, Gid, GidEntry, GidType, LinkLayer, PortAttr, PortState};
use std::time::Duration;

/// How long a link may take to come up (a 100 Gbit/s link that trains takes several seconds).
const LINK_UP: Duration = Duration::from_secs(30);

/// Waits for the port, and writes its GIDs if it is an Ethernet one: the link-local one of its MAC, and that of `--ip`.
pub(crate) fn prepare<D: Device>(device: &D, o: &Options<'_>) -> Result<(), Failed> {
    let port = up(device, o)?;
    if port.link_layer == LinkLayer::Ethernet {
        let ip = o.ip.map(|ip| Gid::from_ipv4(ip.octets()));
        for (index, gid) in (0..).zip([Some(Gid::link_local(port.mac)), ip].into_iter().flatten()) {
            let entry = GidEntry { gid, kind: GidType::RoceV2, mac: port.mac, vlan: None };
            device.set_gid(o.ib_port, index, &entry).map_err(|e| format!("set_gid {index} to {gid}: {e}"))?;
        }
    }
    Ok(())
}

fn up<D: Device>(device: &D, o: &Options<'_>) -> Result<PortAttr, Failed> {
    let begun = device.now();
    loop {
        let port = device.query_port(o.ib_port)?;
        if port.state == PortState::Active {
            return Ok(port);
        }
        if device.now().saturating_sub(begun) > LINK_UP {
            let why = match port.link_layer {
                LinkLayer::InfiniBand => "check the cable, and that a subnet manager (opensm) runs",
                LinkLayer::Ethernet => "check the cable and the other end's port",
            };
            let (number, state) = (o.ib_port.0, port.state.name());
            return Err(
                format!("port {number} is {state} after {LINK_UP:?}, PORT_ACTIVE was expected. Next: {why}").into()
            );
        }
        device.service()?;
        device.relax();
    }
}
