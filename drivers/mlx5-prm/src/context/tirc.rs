//! Transport interface receive context. PRM: "TIR Context".
use crate::field::Field;

/// Size in bytes.
pub const SIZE: usize = 0xf0;
/// 0: to one RQ, 1: spread over a table.
pub const DISP_TYPE: Field = Field::new(0x04, 31, 28);
/// TLS offload.
pub const TLS_EN: Field = Field::new(0x04, 27, 27);
/// Large receive offload: the longest wait in microseconds.
pub const LRO_TIMEOUT_PERIOD_USECS: Field = Field::new(0x10, 27, 12);
/// What is merged: bit 0 IPv4, bit 1 IPv6 by LRO; bit 2 header split.
pub const PACKET_MERGE_MASK: Field = Field::new(0x10, 11, 8);
/// Large receive offload: largest payload, in 256 bytes.
pub const LRO_MAX_IP_PAYLOAD_SIZE: Field = Field::new(0x10, 7, 0);
/// The RQ.
pub const INLINE_RQN: Field = Field::new(0x1c, 23, 0);
/// Source and destination may be exchanged without changing the hash.
pub const RX_HASH_SYMMETRIC: Field = Field::new(0x20, 31, 31);
/// Inner headers are looked at.
pub const TUNNELED_OFFLOAD_EN: Field = Field::new(0x20, 29, 29);
/// The RQT.
pub const INDIRECT_TABLE: Field = Field::new(0x20, 23, 0);
/// 0 none, 1 inverted XOR of 8 bits, 2 Toeplitz.
pub const RX_HASH_FN: Field = Field::new(0x24, 31, 28);
/// Whether own packets come back: bit 0 unicasts, bit 1 multicasts. The name says the opposite of what Linux and DPDK use
/// it for: they set a bit to let own packets in.
pub const SELF_LB_BLOCK: Field = Field::new(0x24, 25, 24);
/// Transport domain.
pub const TRANSPORT_DOMAIN: Field = Field::new(0x24, 23, 0);
/// Key of the Toeplitz hash, 40 bytes.
pub const RX_HASH_TOEPLITZ_KEY: usize = 0x28;
/// What of the outer headers is hashed, see [`hash_field`].
pub const RX_HASH_FIELD_SELECTOR_OUTER: Field = Field::new(0x50, 31, 0);
/// What of the inner headers is hashed.
pub const RX_HASH_FIELD_SELECTOR_INNER: Field = Field::new(0x54, 31, 0);

/// Bits of a hash field selector. PRM: "RX Hash Field Select".
pub mod hash_field {
    /// 0 IPv4, 1 IPv6.
    pub const L3_IPV6: u32 = 1 << 31;
    /// 0 TCP, 1 UDP.
    pub const L4_UDP: u32 = 1 << 30;
    /// Source address.
    pub const SRC_IP: u32 = 1 << 0;
    /// Destination address.
    pub const DST_IP: u32 = 1 << 1;
    /// Source port.
    pub const L4_SPORT: u32 = 1 << 2;
    /// Destination port.
    pub const L4_DPORT: u32 = 1 << 3;
    /// IPsec security parameters index.
    pub const IPSEC_SPI: u32 = 1 << 4;
}
