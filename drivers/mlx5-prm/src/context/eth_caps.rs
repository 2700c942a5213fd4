//! Ethernet offload capabilities. PRM: "Per Protocol Networking Offload Capabilities".
use crate::field::Field;

/// Size in bytes.
pub const SIZE: usize = 0x100;
/// Checksums.
pub const CSUM_CAP: Field = Field::new(0x00, 31, 31);
/// VLAN tags may be taken off.
pub const VLAN_CAP: Field = Field::new(0x00, 30, 30);
/// Large receive offload.
pub const LRO_CAP: Field = Field::new(0x00, 29, 29);
/// It keeps the push flag.
pub const LRO_PSH_FLAG: Field = Field::new(0x00, 28, 28);
/// It keeps timestamps.
pub const LRO_TIME_STAMP: Field = Field::new(0x00, 27, 27);
/// WQEs may add a VLAN tag.
pub const WQE_VLAN_INSERT: Field = Field::new(0x00, 24, 24);
/// Return of own packets may be changed.
pub const SELF_LB_EN_MODIFIABLE: Field = Field::new(0x00, 23, 23);
/// Log of the bytes of an LSO at most.
pub const MAX_LSO_CAP: Field = Field::new(0x00, 20, 16);
/// WQEs of several packets.
pub const MULTI_PKT_SEND_WQE: Field = Field::new(0x00, 15, 14);
/// Headers inline: 0 layer 2 is needed, 1 the vport says, 2 not needed.
pub const WQE_INLINE_MODE: Field = Field::new(0x00, 13, 12);
/// Log of the entries of a table of receive side scaling at most.
pub const RSS_IND_TBL_CAP: Field = Field::new(0x00, 11, 8);
/// SQs may do UMR.
pub const REG_UMR_SQ: Field = Field::new(0x00, 7, 7);
/// The frame check sequence may be scattered.
pub const SCATTER_FCS: Field = Field::new(0x00, 6, 6);
/// WQEs of several packets, enhanced.
pub const ENHANCED_MULTI_PKT_SEND_WQE: Field = Field::new(0x00, 5, 5);
/// LSO of tunnels keeps the outer IP id.
pub const TUNNEL_LSO_CONST_OUT_IP_ID: Field = Field::new(0x00, 4, 4);
/// Large receive offload in GRE.
pub const TUNNEL_LRO_GRE: Field = Field::new(0x00, 3, 3);
/// Large receive offload in VXLAN.
pub const TUNNEL_LRO_VXLAN: Field = Field::new(0x00, 2, 2);
/// Offloads in GRE.
pub const TUNNEL_STATELESS_GRE: Field = Field::new(0x00, 1, 1);
/// Offloads in VXLAN.
pub const TUNNEL_STATELESS_VXLAN: Field = Field::new(0x00, 0, 0);
/// Software parsing.
pub const SWP: Field = Field::new(0x04, 31, 31);
/// Software parsing for checksums.
pub const SWP_CSUM: Field = Field::new(0x04, 30, 30);
/// Software parsing for LSO.
pub const SWP_LSO: Field = Field::new(0x04, 29, 29);
/// The CQE's checksum covers the whole packet.
pub const CQE_CHECKSUM_FULL: Field = Field::new(0x04, 28, 28);
/// Sending offloads in Geneve.
pub const TUNNEL_STATELESS_GENEVE_TX: Field = Field::new(0x04, 27, 27);
/// Offloads in MPLS over UDP.
pub const TUNNEL_STATELESS_MPLS_OVER_UDP: Field = Field::new(0x04, 26, 26);
/// Offloads in MPLS over GRE.
pub const TUNNEL_STATELESS_MPLS_OVER_GRE: Field = Field::new(0x04, 25, 25);
/// Offloads in VXLAN-GPE.
pub const TUNNEL_STATELESS_VXLAN_GPE: Field = Field::new(0x04, 24, 24);
/// Offloads in IP over IP.
pub const TUNNEL_STATELESS_IP_OVER_IP: Field = Field::new(0x04, 22, 22);
/// WQEs may add a trailer.
pub const INSERT_TRAILER: Field = Field::new(0x04, 21, 21);
/// Receiving offloads in IP over IP.
pub const TUNNEL_STATELESS_IP_OVER_IP_RX: Field = Field::new(0x04, 19, 19);
/// Sending offloads in IP over IP.
pub const TUNNEL_STATELESS_IP_OVER_IP_TX: Field = Field::new(0x04, 18, 18);
/// Number of VXLAN ports.
pub const MAX_VXLAN_UDP_PORTS: Field = Field::new(0x04, 15, 8);
/// Length of Geneve options.
pub const MAX_GENEVE_OPT_LEN: Field = Field::new(0x04, 1, 1);
/// Receiving offloads in Geneve.
pub const TUNNEL_STATELESS_GENEVE_RX: Field = Field::new(0x04, 0, 0);
/// Smallest segment that large receive offload takes.
pub const LRO_MIN_MSS_SIZE: Field = Field::new(0x08, 15, 0);
/// Four dwords: the periods that it can wait, in microseconds.
pub const LRO_TIMER_SUPPORTED_PERIODS: usize = 0x30;
