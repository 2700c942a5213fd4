//! Which frames a raw packet QP receives (manual page ibv_create_flow).

use crate::Mac;

/// A rule: what a frame's Ethernet header must hold. What is `None` is not looked at.
///
/// A rule lets frames in to the address that it names. One that names none matches among the frames that the port lets
/// in for other reasons: those to its own address, and to addresses that other rules name.
///
/// Of rules that match the same frame the most specific counts: one with a destination before one without, then one with
/// a VLAN, then one with an Ethernet type. QPs with the same rule get a copy each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowSpec {
    /// Destination: unicast, multicast or broadcast.
    pub dst: Option<Mac>,
    /// VLAN of a customer tag, 0 to 4094; the tag is delivered with the frame. `None` matches with and without tags.
    pub vlan: Option<u16>,
    /// Ethernet type, behind VLAN tags.
    pub ethertype: Option<u16>,
}

impl FlowSpec {
    /// All frames that the port lets in.
    pub const ANY: Self = Self { dst: None, vlan: None, ethertype: None };

    /// Frames to an address.
    pub const fn to(mac: Mac) -> Self {
        Self { dst: Some(mac), ..Self::ANY }
    }

    /// Only those with this VLAN.
    pub const fn vlan(mut self, vlan: u16) -> Self {
        self.vlan = Some(vlan);
        self
    }

    /// Only those of this Ethernet type.
    pub const fn ethertype(mut self, ethertype: u16) -> Self {
        self.ethertype = Some(ethertype);
        self
    }
}
