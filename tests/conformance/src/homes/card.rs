//! A card, wherever it is: the mlx5 driver on its function.

use alloc::{
    format,
    string::{String, ToString},
};
use bareverbs::{Device, Gid, GidEntry, GidType, LinkLayer, PortState};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5::{Config, Mlx5, Policy};
use core::time::Duration;

use crate::connect::PORT;

/// How long a link may take to come up.
const LINK_UP: Duration = Duration::from_secs(30);

/// Opens a function; on Ethernet its port gets the link-local GID.
pub fn open<F: PciFunction + Clone, P: Policy>(function: &F) -> Result<Mlx5<F, P>, String> {
    let error = |e: bareverbs::Error| e.to_string();
    let device = Mlx5::open(function.clone(), Config { completion_vectors: 3, ..Config::default() }).map_err(error)?;
    let port = device.query_port(PORT).map_err(error)?;
    if port.link_layer == LinkLayer::Ethernet {
        let entry = GidEntry { gid: Gid::link_local(port.mac), kind: GidType::RoceV2, mac: port.mac, vlan: None };
        device.set_gid(PORT, 0, &entry).map_err(error)?;
    }
    Ok(device)
}

/// Opens two functions on one link, and waits until their ports are active; what they tell of that is read.
pub fn open_both<F: PciFunction + Clone, P: Policy>(functions: &[F; 2]) -> Result<[Mlx5<F, P>; 2], String> {
    let both = [open(&functions[0])?, open(&functions[1])?];
    for device in &both {
        let begun = device.now();
        loop {
            let state = device.query_port(PORT).map_err(|e| e.to_string())?.state;
            if state == PortState::Active {
                break;
            }
            if device.now().saturating_sub(begun) > LINK_UP {
                return Err(format!("a port is {} after {} s", state.name(), LINK_UP.as_secs()));
            }
            device.relax();
        }
        while device.service().map_err(|e| e.to_string())?.is_some() {}
    }
    Ok(both)
}
