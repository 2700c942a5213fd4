//! Wire formats of the InfiniBand Architecture and of RoCE.
//!
//! Every header has a file of its own with the same four things in it:
//!
//! | item | what it is |
//! |---|---|
//! | `HEADER_LEN` | the length in bytes |
//! | `field` | byte offsets, named as in the specification |
//! | `Packet` | a view over bytes; the length is checked once by `new_checked`, and no accessor can panic |
//! | `Repr` | the fields as plain values, with `parse` and `emit` |
//!
//! A `Packet` borrows an array of exactly the header's length, so that the compiler knows
//! every access to be in bounds. Values that the specification reserves are kept as they
//! are: parsing loses nothing, and judging is left to the receiver.
//!
//! Whole frames, with their CRCs, are in [`frame`]; start there.
//!
//! Sources: InfiniBand Architecture Specification volume 1 ("IBA" below), its annexes A16
//! (RoCE) and A17 (RoCEv2), RFC 791, RFC 8200, RFC 768, IEEE 802.1Q.

mod bytes;
mod emit;

pub mod aeth;
pub mod atomic;
pub mod bth;
pub mod deth;
pub mod ethernet;
pub mod ext;
pub mod frame;
pub mod grh;
pub mod icrc;
pub mod ieth;
pub mod imm;
pub mod ipv4;
pub mod ipv6;
pub mod lrh;
pub mod mad;
pub mod node_info;
pub mod opcode;
pub mod port_info;
pub mod reth;
pub mod smp;
pub mod udp;
pub mod vcrc;
pub mod xrceth;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

/// The headers that [`Error`] can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Header {
    /// Ethernet, with or without an 802.1Q tag.
    Ethernet,
    /// Internet Protocol version 4.
    Ipv4,
    /// Internet Protocol version 6.
    Ipv6,
    /// User Datagram Protocol.
    Udp,
    /// Local Route Header.
    Lrh,
    /// Global Route Header.
    Grh,
    /// Base Transport Header.
    Bth,
    /// RDMA Extended Transport Header.
    Reth,
    /// Atomic Extended Transport Header.
    AtomicEth,
    /// ACK Extended Transport Header.
    Aeth,
    /// Atomic ACK Extended Transport Header.
    AtomicAckEth,
    /// Datagram Extended Transport Header.
    Deth,
    /// Reliable Datagram Extended Transport Header.
    RdEth,
    /// XRC Extended Transport Header.
    XrcEth,
    /// Immediate Data.
    ImmDt,
    /// Invalidate Extended Transport Header.
    Ieth,
    /// Management Datagram.
    Mad,
    /// Invariant CRC.
    Icrc,
    /// Variant CRC.
    Vcrc,
}

/// Why bytes are not the packet they should be, or a packet cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end before the header does.
    Truncated(Header),
    /// The header's version field names another version.
    Version(Header),
    /// A length field contradicts the bytes, or the other length fields.
    Length(Header),
    /// The header's own checksum is wrong.
    Checksum(Header),
    /// The packet carries IPv4 options, or is a fragment; RoCEv2 has neither (A17.3.1).
    Unsupported(Header),
    /// A packet of another protocol, told by the header named.
    NotRdma(Header),
    /// The opcode's layout is not known: neither extension headers nor payload can be told.
    Opcode(opcode::Opcode),
    /// The extension headers given are not those that the opcode asks for.
    ExtensionHeaders {
        /// The headers that the opcode asks for.
        expected: opcode::ExtHeaders,
        /// The headers that were given.
        given: opcode::ExtHeaders,
    },
    /// The buffer to write into is too small.
    Buffer {
        /// Bytes the frame needs.
        needed: usize,
    },
    /// The payload does not fit into the length fields of the packet.
    Payload {
        /// Bytes of payload asked for.
        len: usize,
    },
    /// The Invariant CRC is wrong.
    Icrc {
        /// The CRC computed over the packet, as its bytes go on the wire.
        computed: [u8; 4],
        /// The CRC that the packet carries.
        found: [u8; 4],
    },
    /// The Variant CRC is wrong.
    Vcrc {
        /// The CRC computed over the packet, as its bytes go on the wire.
        computed: [u8; 2],
        /// The CRC that the packet carries.
        found: [u8; 2],
    },
}

/// The first `N` bytes of `data`, or the header they should have been.
#[inline]
fn head<const N: usize>(data: &[u8], header: Header) -> Result<&[u8; N], Error> {
    data.first_chunk().ok_or(Error::Truncated(header))
}
