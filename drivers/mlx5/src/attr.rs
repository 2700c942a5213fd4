//! What the user is told that the device can do (ibv_query_device).

use crate::{bringup::power, hca::Caps, sq::umr};
use bareverbs::{DeviceAttr, LinkLayer, QpType};
use bareverbs_mlx5_prm::{context::cmd_hca_cap as cap, field::Field, wqe};

/// Bytes of the control segment and the remote address segment, or of the control segment and the address vector: what
/// a send WQE holds beside its elements at most, leaving the rest of the largest WQE.
const SEND_OVERHEAD: u32 = 16 + 48;

/// Attributes that the capabilities tell.
pub(crate) fn from_caps(caps: &Caps) -> DeviceAttr {
    let get = |field: Field| field.get(&caps.general);
    let log = |field: Field| power(get(field));
    let element = size_of::<wqe::DataSeg>() as u32;
    let send_sges = get(cap::MAX_WQE_SZ_SQ).saturating_sub(SEND_OVERHEAD) / element;
    let recv_sges = recv_segments(caps);
    let mut attr = DeviceAttr::default();
    attr.max_mr_size = 1u64.checked_shl(get(cap::LOG_MAX_MRW_SZ)).unwrap_or(u64::MAX);
    attr.page_size_cap = u64::MAX << 12 & u64::MAX >> (63 - crate::mr::MAX_LOG_PAGE);
    attr.max_qp = caps.limits.qps;
    attr.max_qp_wr = 1 << log_wqes(caps);
    attr.max_sge = send_sges.min(recv_sges);
    attr.max_sge_rd = send_sges.min(recv_sges);
    attr.max_inline = get(cap::MAX_WQE_SZ_SQ).saturating_sub(SEND_OVERHEAD + 4).min(wqe::INLINE_LENGTH_MASK);
    attr.max_cq = caps.limits.cqs;
    // An index has 24 bits; the context of an XRC SRQ has four for the log.
    attr.max_cqe = log(cap::LOG_MAX_CQ_SZ).min(1 << 22).saturating_sub(1);
    attr.max_mr = caps.limits.regions;
    // Both are lists of ranges of other keys (Linux: IB_DEVICE_MEM_WINDOW, IBK_SG_GAPS_REG).
    if cap::IMAICL.is_set(&caps.general) && !cap::UMR_INDIRECT_MKEY_DISABLED.is_set(&caps.general) {
        attr.max_mw = caps.limits.windows;
        attr.max_fast_reg_elements = umr::max_ranges(get(cap::MAX_WQE_SZ_SQ));
    }
    attr.max_pd = caps.limits.pds;
    attr.max_xrcd = caps.limits.xrcds;
    // A QP's context has three bits for the logs.
    attr.max_qp_rd_atom = log(cap::LOG_MAX_RA_RES_QP).min(128) as u8;
    attr.max_qp_init_rd_atom = log(cap::LOG_MAX_RA_REQ_QP).min(128) as u8;
    attr.atomics = caps.atomics;
    attr.max_srq = caps.limits.srqs;
    attr.max_srq_wr = log(cap::LOG_MAX_SRQ_SZ).min(1 << 15).saturating_sub(1);
    // The first 16 bytes of an SRQ's WQE link it to the next.
    attr.max_srq_sge = recv_segments(caps).saturating_sub(1);
    if get(cap::LOG_MAX_MCG) != 0 {
        attr.max_mcast_grp = log(cap::LOG_MAX_MCG);
        attr.max_mcast_qp_attach = get(cap::MAX_QP_MCG);
    }
    attr.max_pkeys = caps.pkeys;
    attr.num_comp_vectors = caps.limits.vectors;
    attr.phys_port_cnt = ports(caps);
    // Older firmware tells the frequency in MHz only.
    attr.core_clock_khz = match get(cap::DEVICE_FREQUENCY_KHZ) {
        0 => get(cap::DEVICE_FREQUENCY_MHZ).saturating_mul(1000),
        khz => khz,
    };
    let types = [
        (cap::RC, QpType::Rc),
        (cap::UC, QpType::Uc),
        (cap::UD, QpType::Ud),
        (cap::XRC, QpType::XrcIni),
        (cap::XRC, QpType::XrcTgt),
    ];
    // Frames: an Ethernet port with queues and flow tables for them.
    let frames = [cap::ETH_NET_OFFLOADS, cap::NIC_FLOW_TABLE].iter().all(|field| field.is_set(&caps.general));
    if caps.link == LinkLayer::Ethernet && frames {
        attr.qp_types = 1 << QpType::RawPacket as u32;
    }
    attr.qp_types |=
        types.into_iter().filter(|(field, _)| field.is_set(&caps.general)).fold(0, |m, (_, t)| m | 1 << t as u32);
    attr
}

/// Log of the WQEs of a queue at most: a context has four bits for it.
pub(crate) fn log_wqes(caps: &Caps) -> u32 {
    cap::LOG_MAX_QP_SZ.get(&caps.general).min(15)
}

/// Segments of a receive WQE at most: a context has three bits for the log of its stride in segments.
pub(crate) fn recv_segments(caps: &Caps) -> u32 {
    (cap::MAX_WQE_SZ_RQ.get(&caps.general) / wqe::DS as u32).min(1 << 7)
}

/// Ports of the function. One, but for cards of one function and two ports.
pub(crate) fn ports(caps: &Caps) -> u8 {
    cap::NUM_PORTS.get(&caps.general).clamp(1, 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use bareverbs_mlx5_prm::context::{qpc, xrc_srqc};

    /// What a device says is at most as much as the contexts of its objects hold.
    #[test]
    fn what_no_context_holds_is_not_promised() {
        let mut caps = Caps {
            general: [0xff; cap::SIZE],
            link: LinkLayer::InfiniBand,
            gids: 8,
            pkeys: 128,
            max_mtu: Default::default(),
            max_frame: 0,
            inline: Default::default(),
            roce_v2: false,
            atomics: true,
            limits: Default::default(),
        };
        let attr = from_caps(&caps);
        let log = |n: u32| n.next_power_of_two().trailing_zeros();
        assert_eq!(log(attr.max_qp_rd_atom.into()), qpc::LOG_RRA_MAX.max());
        assert_eq!(log(attr.max_qp_init_rd_atom.into()), qpc::LOG_SRA_MAX.max());
        assert_eq!(log(attr.max_qp_wr), qpc::LOG_SQ_SIZE.max());
        assert_eq!(log(attr.max_qp_wr), qpc::LOG_RQ_SIZE.max());
        assert_eq!(log(recv_segments(&caps)), qpc::LOG_RQ_STRIDE.max());
        assert_eq!(log(attr.max_srq_sge + 1), xrc_srqc::LOG_RQ_STRIDE.max());
        assert!(log(attr.max_srq_wr + 1) <= xrc_srqc::LOG_XRC_SRQ_SIZE.max());
        // Less is what the device says.
        cap::MAX_WQE_SZ_RQ.set(&mut caps.general, 512);
        cap::LOG_MAX_RA_RES_QP.set(&mut caps.general, 4);
        let attr = from_caps(&caps);
        assert_eq!((attr.max_qp_rd_atom, attr.max_srq_sge, recv_segments(&caps)), (16, 31, 32));
    }
}
