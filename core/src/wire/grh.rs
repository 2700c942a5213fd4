//! Global Route Header (IBA 8.3): the IPv6 header, with GIDs for addresses.
//!
//! View and `Repr` are [`ipv6`](super::ipv6)'s: `payload_len` counts from the BTH to the
//! ICRC, both included; `next_header` is [`NEXT_HEADER_IBA`] unless the packet is raw.

pub use super::ipv6::{HEADER_LEN, Packet, Repr, field};

/// The next-header value for an IBA transport: BTH.
pub const NEXT_HEADER_IBA: u8 = 0x1b;
