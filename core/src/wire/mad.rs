//! Management Datagram header (IBA 13.4.3): the first 24 of the 256 bytes of every MAD.

use super::bytes::*;
use super::{Error, Header, head};

/// Bytes of a MAD.
pub const MAD_LEN: usize = 256;
/// Bytes of the common header.
pub const HEADER_LEN: usize = 24;

/// The Q_Key of GSI packets, that is of QP 1 (IBA 10.2.5).
pub const QP1_QKEY: u32 = 0x8001_0000;

/// Byte offsets.
pub mod field {
    /// Base version, 8 bits.
    pub const BASE_VERSION: usize = 0;
    /// Management class, 8 bits.
    pub const MGMT_CLASS: usize = 1;
    /// Class version, 8 bits.
    pub const CLASS_VERSION: usize = 2;
    /// Response bit and method, 8 bits.
    pub const METHOD: usize = 3;
    /// Status, 16 bits; in directed-route SMPs the direction is its highest bit.
    pub const STATUS: usize = 4;
    /// Class-specific, 16 bits; in directed-route SMPs hop pointer and hop count.
    pub const CLASS_SPECIFIC: usize = 6;
    /// Transaction id, 64 bits.
    pub const TID: usize = 8;
    /// Attribute id, 16 bits.
    pub const ATTR_ID: usize = 16;
    /// Attribute modifier, 32 bits.
    pub const ATTR_MOD: usize = 20;
}

/// Management classes (IBA 13.4.4).
pub mod class {
    /// Subnet management, LID routed.
    pub const SUBN_LID_ROUTED: u8 = 0x01;
    /// Subnet management, directed route.
    pub const SUBN_DIRECTED_ROUTE: u8 = 0x81;
    /// Subnet administration.
    pub const SUBN_ADM: u8 = 0x03;
    /// Performance management.
    pub const PERF_MGMT: u8 = 0x04;
    /// Baseboard management.
    pub const BASEBOARD_MGMT: u8 = 0x05;
    /// Device management.
    pub const DEVICE_MGMT: u8 = 0x06;
    /// Communication management.
    pub const COMM_MGMT: u8 = 0x07;
    /// Congestion control.
    pub const CONG_CTRL: u8 = 0x21;
}

/// Methods (IBA 13.4.5).
pub mod method {
    /// Get.
    pub const GET: u8 = 0x01;
    /// Set.
    pub const SET: u8 = 0x02;
    /// Send.
    pub const SEND: u8 = 0x03;
    /// Trap.
    pub const TRAP: u8 = 0x05;
    /// Report.
    pub const REPORT: u8 = 0x06;
    /// TrapRepress.
    pub const TRAP_REPRESS: u8 = 0x07;
    /// The response bit.
    pub const RESPONSE: u8 = 0x80;
    /// GetResp, which also answers Set.
    pub const GET_RESP: u8 = 0x81;
}

/// Status bits common to all classes (IBA 13.4.7).
pub mod status {
    /// The request is discarded, try again.
    pub const BUSY: u16 = 0x0001;
    /// The class is served elsewhere: see ClassPortInfo.
    pub const REDIRECT: u16 = 0x0002;
    /// Base or class version not supported.
    pub const BAD_VERSION: u16 = 0x0004;
    /// Method not supported.
    pub const UNSUPPORTED_METHOD: u16 = 0x0008;
    /// Method not supported for this attribute.
    pub const UNSUPPORTED_METHOD_ATTR: u16 = 0x000c;
    /// A value in attribute or modifier is not valid.
    pub const INVALID_VALUE: u16 = 0x001c;
}

/// A view of the common header.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Packet<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; HEADER_LEN]) -> Self {
        Packet(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::Mad).map(Packet)
    }

    /// Base version: 1.
    pub fn base_version(&self) -> u8 {
        u8_at::<{ field::BASE_VERSION }, _>(self.0)
    }

    /// Management class: see [`class`].
    pub fn mgmt_class(&self) -> u8 {
        u8_at::<{ field::MGMT_CLASS }, _>(self.0)
    }

    /// Version of the class's definition.
    pub fn class_version(&self) -> u8 {
        u8_at::<{ field::CLASS_VERSION }, _>(self.0)
    }

    /// Method with the response bit: see [`method`].
    pub fn method(&self) -> u8 {
        u8_at::<{ field::METHOD }, _>(self.0)
    }

    /// Status: see [`status`].
    pub fn status(&self) -> u16 {
        u16_at::<{ field::STATUS }, _>(self.0)
    }

    /// Class-specific bits.
    pub fn class_specific(&self) -> u16 {
        u16_at::<{ field::CLASS_SPECIFIC }, _>(self.0)
    }

    /// Transaction id.
    pub fn tid(&self) -> u64 {
        u64_at::<{ field::TID }, _>(self.0)
    }

    /// Attribute id.
    pub fn attr_id(&self) -> u16 {
        u16_at::<{ field::ATTR_ID }, _>(self.0)
    }

    /// Attribute modifier.
    pub fn attr_mod(&self) -> u32 {
        u32_at::<{ field::ATTR_MOD }, _>(self.0)
    }
}

/// The fields of the common header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Base version: 1.
    pub base_version: u8,
    /// Management class: see [`class`].
    pub mgmt_class: u8,
    /// Version of the class's definition.
    pub class_version: u8,
    /// Method with the response bit: see [`method`].
    pub method: u8,
    /// Status: see [`status`].
    pub status: u16,
    /// Class-specific bits.
    pub class_specific: u16,
    /// Transaction id.
    pub tid: u64,
    /// Attribute id.
    pub attr_id: u16,
    /// Attribute modifier.
    pub attr_mod: u32,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(packet: &Packet<'_>) -> Repr {
        Repr {
            base_version: packet.base_version(),
            mgmt_class: packet.mgmt_class(),
            class_version: packet.class_version(),
            method: packet.method(),
            status: packet.status(),
            class_specific: packet.class_specific(),
            tid: packet.tid(),
            attr_id: packet.attr_id(),
            attr_mod: packet.attr_mod(),
        }
    }

    /// Writes the header; reserved bits become zero.
    pub fn emit(&self, bytes: &mut [u8; HEADER_LEN]) {
        *bytes = [0; HEADER_LEN];
        let first = [self.base_version, self.mgmt_class, self.class_version, self.method];
        put::<{ field::BASE_VERSION }, 4, _>(bytes, first);
        put::<{ field::STATUS }, 2, _>(bytes, self.status.to_be_bytes());
        put::<{ field::CLASS_SPECIFIC }, 2, _>(bytes, self.class_specific.to_be_bytes());
        put::<{ field::TID }, 8, _>(bytes, self.tid.to_be_bytes());
        put::<{ field::ATTR_ID }, 2, _>(bytes, self.attr_id.to_be_bytes());
        put::<{ field::ATTR_MOD }, 4, _>(bytes, self.attr_mod.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::vectors::IB_SMP;

    #[test]
    fn parse_and_emit() {
        let bytes = IB_SMP[28..].first_chunk().unwrap();
        let repr = Repr {
            base_version: 1,
            mgmt_class: class::SUBN_DIRECTED_ROUTE,
            class_version: 1,
            method: method::GET_RESP,
            status: 0x8000,
            class_specific: 0x0102,
            tid: 0x0001_509c_0001_25c8,
            attr_id: 0x20,
            attr_mod: 0,
        };
        assert_eq!(Repr::parse(&Packet::new(bytes)), repr);
        let mut emitted = [0xee; HEADER_LEN];
        repr.emit(&mut emitted);
        assert_eq!(&emitted, bytes);
        for len in 0..HEADER_LEN {
            let short = Packet::new_checked(&bytes[..len]);
            assert_eq!(short.err(), Some(Error::Truncated(Header::Mad)));
        }
    }
}
