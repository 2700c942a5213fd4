//! Address handles: the address vector of a datagram WQE, encoded once. PRM: "Address Vector".

use crate::hca::{Caps, Hca};
use crate::policy::Policy;
use crate::port::check;
use crate::qp_shape::check as in_range;
use bareverbs::{AddressHandle, AhAttr, Argument, Error, LinkLayer, Mac};
use bareverbs_hal::PciFunction;
use bareverbs_mlx5_prm::{
    context::{ads, cmd_hca_cap},
    wqe,
};
use zerocopy::IntoBytes;

/// What every address path needs on this link, checked: for address handles as well as for the paths of connected QPs.
pub(crate) struct Path {
    /// Destination MAC on Ethernet.
    pub(crate) dmac: Mac,
    /// UDP source port of RoCE v2.
    pub(crate) udp_sport: u16,
    /// Static rate as the device codes it.
    pub(crate) rate: u8,
}

/// Checks an address, and finds what follows from it. `qpns` are the local and the remote QP where they are known.
pub(crate) fn resolve(caps: &Caps, attr: &AhAttr, qpns: Option<(u32, u32)>) -> Result<Path, Error> {
    check(caps, attr.port)?;
    let ethernet = caps.link == LinkLayer::Ethernet;
    in_range(Argument::ServiceLevel, attr.sl.into(), if ethernet { 7 } else { 15 })?;
    in_range(Argument::SrcPathBits, attr.src_path_bits.into(), 127)?;
    if let Some(grh) = &attr.grh {
        in_range(Argument::FlowLabel, grh.flow_label, 0xf_ffff)?;
        if u16::from(grh.sgid_index) >= caps.gids {
            return Err(Error::NoSuchIndex { table: Argument::Gid, index: grh.sgid_index.into() });
        }
    }
    // Bit n: the device has code n. That of the port's own rate it has always.
    let rates = cmd_hca_cap::STAT_RATE_SUPPORT.get(&caps.general) | 1;
    let wanted = u32::from(attr.static_rate);
    let rate = if wanted == 0 { 0 } else { wanted + ads::STAT_RATE_OFFSET };
    if rates.checked_shr(rate).unwrap_or(0) & 1 == 0 {
        let max = ads::STAT_RATE.max() - ads::STAT_RATE_OFFSET;
        return Err(Error::OutOfRange { what: Argument::StaticRate, wanted: wanted.into(), max: max.into() });
    }
    let rate = rate as u8;
    if !ethernet {
        return Ok(Path { dmac: Mac::default(), udp_sport: 0, rate });
    }
    let grh = attr.grh.as_ref().ok_or(Error::GrhRequired)?;
    let dmac = attr.dmac.or_else(|| grh.dgid.mac()).or_else(|| grh.dgid.multicast_mac()).ok_or(Error::MacRequired)?;
    let udp_sport = attr.udp_sport.unwrap_or_else(|| udp_source_port(grh.flow_label, qpns));
    Ok(Path { dmac, udp_sport, rate })
}

/// A UDP source port in the dynamic range that spreads flows over paths: the folded flow label (RoCEv2 annex A17,
/// 17.9.2), which without one is made of the QPNs as librdmacm does.
pub(crate) fn udp_source_port(flow_label: u32, qpns: Option<(u32, u32)>) -> u16 {
    let label = match (flow_label & 0xf_ffff, qpns) {
        (0, Some((local, remote))) => {
            let v = u64::from(local) * u64::from(remote);
            let v = v ^ v >> 20 ^ v >> 40;
            (v & 0xf_ffff) as u32
        }
        (label, _) => label,
    };
    ((label & 0x3fff ^ (label & 0xf_c000) >> 14) | 0xc000) as u16
}

/// Makes an address handle. Nothing is sent to the device.
pub(crate) fn create<H: PciFunction, P: Policy>(hca: &Hca<H, P>, attr: &AhAttr) -> Result<AddressHandle, Error> {
    let av = encode(&hca.caps, attr)?;
    let mut form = [0; 12];
    form.as_mut_bytes().copy_from_slice(av.as_bytes());
    Ok(AddressHandle::from_driver(form, hca.mark()))
}

/// The address vector, without key and destination QPN.
fn encode(caps: &Caps, attr: &AhAttr) -> Result<wqe::Av, Error> {
    let path = resolve(caps, attr, None)?;
    let mut av = wqe::Av { dqp_dct: wqe::AV_EXTENDED.into(), ..wqe::Av::default() };
    match caps.link {
        LinkLayer::InfiniBand => {
            av.stat_rate_sl = path.rate << 4 | attr.sl;
            av.fl_mlid = attr.src_path_bits;
            av.rlid_udp_sport = attr.dlid.0.into();
        }
        LinkLayer::Ethernet => {
            av.stat_rate_sl = path.rate << 4 | attr.sl << 1;
            av.rlid_udp_sport = path.udp_sport.into();
            av.rmac = path.dmac.0;
        }
    }
    if let Some(grh) = &attr.grh {
        av.tclass = grh.traffic_class;
        av.hop_limit = grh.hop_limit;
        av.grh_gid_fl = (wqe::AV_GRH | u32::from(grh.sgid_index) << 20 | grh.flow_label).into();
        av.rgid = grh.dgid.0;
    }
    Ok(av)
}

#[cfg(test)]
mod tests {
    use super::*;

    // librdmacm's and Linux's rdma_flow_label_to_udp_sport: (fl & 0x3fff) ^ (fl & 0xfc000) >> 14, | 0xc000.
    #[test]
    fn source_ports_lie_in_the_dynamic_range() {
        assert_eq!(udp_source_port(0, None), 0xc000);
        assert_eq!(udp_source_port(0x12345, None), 0xc000 | 0x2345 ^ 0x4);
        assert_eq!(udp_source_port(0, Some((0x11, 0x13))), 0xc000 | 0x143);
    }
}
