//! Multicast groups: ATTACH_TO_MCG, DETACH_FROM_MCG.

use bareverbs_harness::model::Bus;
use bareverbs_mlx5_prm::{
    cmd::Status,
    commands::{attach_to_mcg as attach, detach_from_mcg as detach},
};

use crate::{
    command::Call,
    hca::Hca,
    hca_cap::{LOG_MAX_MCG, MAX_QP_MCG},
    qp::{self, Service},
    refusal::{Outcome, Refused, require},
};

/// Whether a GID names a group: of IPv6, or of IPv4 written as a GID.
fn is_group(gid: &[u8; 16]) -> bool {
    let ipv4 = gid[..10] == [0; 10] && gid[10..12] == [0xff, 0xff];
    gid[0] == 0xff || ipv4 && gid[12] & 0xf0 == 0xe0
}

/// ATTACH_TO_MCG.
pub fn attach(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let qp = qp::find(hca, attach::QPN.get(call.input))?;
    require(qp.service == Service::Ud, Status::BadParameter, 0x1000, format_args!("a QP of type {:?}", qp.service))?;
    let qpn = qp.qpn;
    let gid: [u8; 16] = attach::MULTICAST_GID.array(call.input);
    require(is_group(&gid), Status::BadParameter, 0x1001, "not a multicast GID")?;
    let groups = hca.multicast.len();
    let group = hca.multicast.get(&gid);
    let full = group.map_or(groups >= 1 << LOG_MAX_MCG, |qpns| qpns.len() as u32 >= MAX_QP_MCG);
    if full {
        return Err(Refused::quiet(Status::LimitExceeded, 0x1002, "no place in the multicast table"));
    }
    hca.multicast.entry(gid).or_default().insert(qpn);
    Ok(())
}

/// DETACH_FROM_MCG.
pub fn detach(hca: &mut Hca, _bus: &mut dyn Bus, call: &mut Call) -> Outcome {
    let qpn = detach::QPN.get(call.input);
    let gid: [u8; 16] = detach::MULTICAST_GID.array(call.input);
    let attached = hca.multicast.get_mut(&gid).is_some_and(|qpns| qpns.remove(&qpn));
    require(attached, Status::BadResource, 0x1003, format_args!("QP {qpn:#x} is not attached to the group"))?;
    hca.multicast.retain(|_, qpns| !qpns.is_empty());
    Ok(())
}
