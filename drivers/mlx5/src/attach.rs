//! What a QP receives from beside its peers: multicast groups and flow rules, any number of them.

use crate::{
    cmd::PageList,
    hca::Hca,
    list::List,
    policy::{Lock, Policy},
    qp::QpObject,
};
use bareverbs::{Argument, Error, FlowSpec, Gid, Lid, LinkLayer, QpType};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    cmd::{Opcode, Status},
    commands::{attach_to_mcg, detach_from_mcg},
};

/// One thing that a QP is attached to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    Group(Gid),
    Flow(FlowSpec),
}

/// All that a QP is attached to.
pub(crate) type Attachments = List<To>;

impl<H: PciFunction, P: Policy> QpObject<H, P> {
    /// Joins a multicast group. PRM: ATTACH_TO_MCG.
    pub(crate) fn attach_multicast(&self, gid: Gid, lid: Lid) -> Result<(), Error> {
        let hca = self.device.hca();
        if self.kind != QpType::Ud {
            return Err(Error::Unsupported("multicast on this type of QP"));
        }
        if hca.attr.max_mcast_grp == 0 {
            return Err(Error::Unsupported("multicast"));
        }
        if !is_group(hca.caps.link, gid, lid) {
            return Err(Error::NotMulticast { gid, lid });
        }
        self.attach(To::Group(gid))
    }

    /// Leaves a multicast group. PRM: DETACH_FROM_MCG.
    pub(crate) fn detach_multicast(&self, gid: Gid, _lid: Lid) -> Result<(), Error> {
        self.detach(To::Group(gid))
    }

    /// Receives the frames of a rule.
    pub(crate) fn attach_flow(&self, flow: &FlowSpec) -> Result<(), Error> {
        if self.kind != QpType::RawPacket {
            return Err(Error::Unsupported("flow rules on this type of QP"));
        }
        if self.cap.max_recv_wr == 0 {
            return Err(Error::Unsupported("flow rules without a receive queue"));
        }
        self.check_whole()?;
        if let Some(vlan) = flow.vlan.filter(|vlan| *vlan > 4094) {
            return Err(Error::OutOfRange { what: Argument::Vlan, wanted: vlan.into(), max: 4094 });
        }
        self.attach(To::Flow(*flow))
    }

    /// Receives the frames of a rule no more.
    pub(crate) fn detach_flow(&self, flow: &FlowSpec) -> Result<(), Error> {
        self.detach(To::Flow(*flow))
    }

    /// Detaches from everything, as the QP goes.
    pub(crate) fn detach_all(&self) {
        // SAFETY: the QP's last handle is at work.
        let list = unsafe { self.attachments.get() };
        loop {
            let Some(&to) = list.iter().next() else { return };
            if let Err(e) = self.detach(to) {
                log::debug!("a QP could not be detached: {e}");
                list.take(&self.device.hca().hal, |at| *at == to);
            }
        }
    }

    fn attach(&self, to: To) -> Result<(), Error> {
        let hca = self.device.hca();
        // SAFETY: the QP's one handle is borrowed exclusively (`attach_multicast` and `attach_flow` of the trait).
        let list = unsafe { self.attachments.get() };
        if list.iter().any(|at| *at == to) {
            return hca.check_alive();
        }
        list.push(&hca.hal, to).map_err(|(_, e)| e)?;
        let result = match to {
            To::Group(gid) => join(hca, self.qpn(), gid),
            To::Flow(flow) => hca.control.with(|control| control.add_flow(&hca.hal, &hca.caps, &flow, self.tirn())),
        };
        if result.is_err() {
            list.take(&hca.hal, |at| *at == to);
        }
        result
    }

    fn detach(&self, to: To) -> Result<(), Error> {
        let hca = self.device.hca();
        // SAFETY: the QP's one handle is borrowed exclusively, or its last one is at work (`detach_all`).
        let list = unsafe { self.attachments.get() };
        if !list.iter().any(|at| *at == to) {
            return Err(Error::NotAttached);
        }
        match to {
            To::Group(gid) => leave(hca, self.qpn(), gid)?,
            To::Flow(flow) => hca.control.with(|control| control.remove_flow(&hca.hal, &flow, self.tirn()))?,
        }
        list.take(&hca.hal, |at| *at == to);
        Ok(())
    }
}

/// Whether GID and LID name a multicast group (IBA 4.1.1, 4.1.3; on Ethernet annex A17.4.2).
fn is_group(link: LinkLayer, gid: Gid, lid: Lid) -> bool {
    match link {
        LinkLayer::InfiniBand => gid.is_multicast() && (0xc000..0xffff).contains(&lid.0),
        LinkLayer::Ethernet => gid.multicast_mac().is_some(),
    }
}

/// The group's address, where the port must let it in.
fn address<H: PciFunction, P: Policy>(hca: &Hca<H, P>, gid: Gid) -> Option<bareverbs::Mac> {
    gid.multicast_mac().filter(|_| hca.caps.link == LinkLayer::Ethernet)
}

fn join<H: PciFunction, P: Policy>(hca: &Hca<H, P>, qpn: u32, gid: Gid) -> Result<(), Error> {
    let mut input = [0; attach_to_mcg::IN_LEN];
    attach_to_mcg::QPN.set(&mut input, qpn);
    attach_to_mcg::MULTICAST_GID.set(&mut input, &gid.0);
    let address = address(hca, gid);
    hca.control.with(|control| {
        if let Some(mac) = address {
            control.let_in(&hca.hal, &hca.caps, mac, Error::MulticastFull)?;
        }
        let out = &mut [0; attach_to_mcg::OUT_LEN];
        let result = control.execute(&hca.hal, Opcode::ATTACH_TO_MCG, 0, &mut input, &PageList::None, out);
        if let (Err(_), Some(mac)) = (&result, address) {
            control.shut_out(&hca.hal, mac);
        }
        match result {
            Err(Error::Command { status, .. }) if status == Status::LimitExceeded.to_raw() => Err(Error::MulticastFull),
            result => result,
        }
    })
}

fn leave<H: PciFunction, P: Policy>(hca: &Hca<H, P>, qpn: u32, gid: Gid) -> Result<(), Error> {
    let mut input = [0; detach_from_mcg::IN_LEN];
    detach_from_mcg::QPN.set(&mut input, qpn);
    detach_from_mcg::MULTICAST_GID.set(&mut input, &gid.0);
    hca.control.with(|control| {
        // A device that failed has no groups any more.
        if control.fatal().is_none() {
            let out = &mut [0; detach_from_mcg::OUT_LEN];
            control.execute(&hca.hal, Opcode::DETACH_FROM_MCG, 0, &mut input, &PageList::None, out)?;
        }
        if let Some(mac) = address(hca, gid) {
            control.shut_out(&hca.hal, mac);
        }
        Ok(())
    })
}
