//! What an operating system does for a port: waits until the link is up, and gives an Ethernet port its addresses.

use crate::options::Options;
use bareverbs::{Device, Error, Gid, GidEntry, GidType, LinkLayer, PortAttr, PortNum, PortState};
use core::{fmt, time::Duration};

/// How long a link may take to come up (a 100 Gbit/s link that trains takes several seconds).
const LINK_UP: Duration = Duration::from_secs(30);

/// Why a port cannot be used.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The port could not be asked.
    Verb(Error),
    /// The link did not come up.
    Down(PortNum, PortState, LinkLayer),
    /// A GID was refused.
    Gid(u8, Gid, Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verb(e) => e.fmt(f),
            Self::Down(PortNum(number), state, layer) => {
                let why = match layer {
                    LinkLayer::InfiniBand => "check the cable, and that a subnet manager (opensm) runs",
                    LinkLayer::Ethernet => "check the cable and the other end's port",
                };
                let (state, seconds) = (state.name(), LINK_UP.as_secs());
                write!(f, "port {number} is {state} after {seconds} s, PORT_ACTIVE was expected. Next: {why}")
            }
            Self::Gid(index, gid, e) => write!(f, "set_gid {index} to {gid}: {e}"),
        }
    }
}

impl core::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Self::Verb(e)
    }
}

/// Waits for the port, and writes its GIDs if it is an Ethernet one: the link-local one of its MAC, and that of `--ip`.
pub(crate) fn prepare<D: Device>(device: &D, o: &Options<'_>) -> Result<(), Failure> {
    let port = up(device, o)?;
    if port.link_layer == LinkLayer::Ethernet {
        let ip = o.ip.map(|ip| Gid::from_ipv4(ip.octets()));
        for (index, gid) in (0..).zip([Some(Gid::link_local(port.mac)), ip].into_iter().flatten()) {
            let entry = GidEntry { gid, kind: GidType::RoceV2, mac: port.mac, vlan: None };
            device.set_gid(o.ib_port, index, &entry).map_err(|e| Failure::Gid(index, gid, e))?;
        }
    }
    Ok(())
}

fn up<D: Device>(device: &D, o: &Options<'_>) -> Result<PortAttr, Failure> {
    let begun = device.now();
    loop {
        let port = device.query_port(o.ib_port)?;
        if port.state == PortState::Active {
            return Ok(port);
        }
        if device.now().saturating_sub(begun) > LINK_UP {
            return Err(Failure::Down(o.ib_port, port.state, port.link_layer));
        }
        device.service()?;
        device.relax();
    }
}
