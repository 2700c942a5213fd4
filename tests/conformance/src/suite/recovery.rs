//! Closing and opening again in one process.

use super::{
    Case, Outcome, Stop,
    lab::{Lab, Setup},
    may,
};
use crate::connect::PORT;
use alloc::{vec, vec::Vec};
use bareverbs::{Device, Error, Gid, GidEntry, GidType, LinkLayer, PortState, QpType, Refused, SendOp, WcStatus};
use core::mem::replace;

pub(super) fn cases<D: Device>() -> Vec<Case<D>> {
    vec![
        may(
            "reopen_refused_while_in_use",
            "traits",
            "a device with other handles or objects is busy, and goes on as before",
            in_use,
        ),
        may("reopen_begins_anew", "traits", "a device that was reopened, three times, does all it did before", anew),
    ]
}

/// Tells whether the device can be reopened at all.
fn supported<D: Device>(lab: &Lab<D>) -> Outcome {
    match lab.devices[0].clone().reopen() {
        Err(Refused { error: Error::Busy { .. }, .. }) => Ok(()),
        Err(refused) => Err(refused.into()),
        Ok(_) => Err(Stop::failed(format_args!("a device with two handles was reopened"), line!())),
    }
}

fn in_use<D: Device>(lab: &mut Lab<D>) -> Outcome {
    supported(lab)?;
    let [mut a, mut b] = lab.pair(&Setup::of(QpType::Rc))?;
    supported(lab)?;
    b.recv(1, 0..64)?;
    a.signaled(2, SendOp::Send, 0..64)?;
    ensure_eq!(lab.one(&mut b.recv_cq)?.status, WcStatus::Success, "the message");
    Ok(())
}

fn anew<D: Device>(lab: &mut Lab<D>) -> Outcome {
    supported(lab)?;
    for _ in 0..3 {
        let [a, b] = lab.pair(&Setup { memory: 4096, ..Setup::of(QpType::Rc) })?;
        drop((a, b));
        // The other device stands in meanwhile.
        let (other, other_pd) = (lab.devices[1].clone(), lab.devices[1].alloc_pd()?);
        let device = replace(&mut lab.devices[0], other);
        drop(replace(&mut lab.pds[0], other_pd));
        let device = match device.reopen() {
            Ok(device) => device,
            Err(Refused { error: Error::Busy { .. }, .. }) => {
                return Err(Stop::Unsupported("reopening: the home holds the device"));
            }
            Err(refused) => return Err(refused.into()),
        };
        lab.wait("the port", || {
            device.relax();
            Ok((device.query_port(PORT)?.state == PortState::Active).then_some(()))
        })?;
        let port = device.query_port(PORT)?;
        if port.link_layer == LinkLayer::Ethernet {
            let entry = GidEntry { gid: Gid::link_local(port.mac), kind: GidType::RoceV2, mac: port.mac, vlan: None };
            device.set_gid(PORT, 0, &entry)?;
        }
        lab.pds[0] = device.alloc_pd()?;
        lab.devices[0] = device;
        let [mut a, mut b] = lab.pair(&Setup { memory: 4096, ..Setup::of(QpType::Rc) })?;
        b.recv(1, 0..64)?;
        a.signaled(2, SendOp::Send, 0..64)?;
        ensure_eq!(lab.one(&mut b.recv_cq)?.wr_id, 1, "the message");
        ensure_eq!(lab.one(&mut a.send_cq)?.wr_id, 2, "its completion");
    }
    Ok(())
}
