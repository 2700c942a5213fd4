//! Base Transport Header (IBA 9.2): in every packet of the IBA transports.

use super::bytes::*;
use super::{Error, Header, head, opcode::Opcode};

/// Bytes of a BTH.
pub const HEADER_LEN: usize = 12;

/// Byte offsets.
pub mod field {
    /// OpCode, 8 bits.
    pub const OPCODE: usize = 0;
    /// Solicited Event, MigReq, Pad Count (2 bits), Transport Header Version (4 bits).
    pub const FLAGS: usize = 1;
    /// Partition Key, 16 bits.
    pub const PKEY: usize = 2;
    /// FECN, BECN and 6 reserved bits: "resv8a", not covered by the ICRC.
    pub const RESV8A: usize = 4;
    /// Destination QP, 24 bits.
    pub const DEST_QP: usize = 5;
    /// Acknowledge Request and 7 reserved bits.
    pub const ACK_REQ: usize = 8;
    /// Packet Sequence Number, 24 bits.
    pub const PSN: usize = 9;
}

/// A view of a BTH.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Packet<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; HEADER_LEN]) -> Self {
        Packet(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::Bth).map(Packet)
    }

    /// OpCode.
    pub fn opcode(&self) -> Opcode {
        Opcode(u8_at::<{ field::OPCODE }, _>(self.0))
    }

    /// The responder shall raise an event for this message.
    pub fn solicited(&self) -> bool {
        u8_at::<{ field::FLAGS }, _>(self.0) & 0x80 != 0
    }

    /// Migration state: set when migrated.
    pub fn mig_req(&self) -> bool {
        u8_at::<{ field::FLAGS }, _>(self.0) & 0x40 != 0
    }

    /// Bytes of padding after the payload, 0 to 3.
    pub fn pad_count(&self) -> u8 {
        u8_at::<{ field::FLAGS }, _>(self.0) >> 4 & 3
    }

    /// Version of the transport headers: 0.
    pub fn version(&self) -> u8 {
        u8_at::<{ field::FLAGS }, _>(self.0) & 0xf
    }

    /// Partition key.
    pub fn pkey(&self) -> u16 {
        u16_at::<{ field::PKEY }, _>(self.0)
    }

    /// Forward Explicit Congestion Notification.
    pub fn fecn(&self) -> bool {
        u8_at::<{ field::RESV8A }, _>(self.0) & 0x80 != 0
    }

    /// Backward Explicit Congestion Notification.
    pub fn becn(&self) -> bool {
        u8_at::<{ field::RESV8A }, _>(self.0) & 0x40 != 0
    }

    /// Destination QP number.
    pub fn dest_qp(&self) -> u32 {
        u24_at::<{ field::DEST_QP }, _>(self.0)
    }

    /// The responder shall acknowledge this packet.
    pub fn ack_req(&self) -> bool {
        u8_at::<{ field::ACK_REQ }, _>(self.0) & 0x80 != 0
    }

    /// Packet Sequence Number.
    pub fn psn(&self) -> u32 {
        u24_at::<{ field::PSN }, _>(self.0)
    }
}

/// The fields of a BTH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// OpCode.
    pub opcode: Opcode,
    /// The responder shall raise an event for this message.
    pub solicited: bool,
    /// Migration state: set when migrated.
    pub mig_req: bool,
    /// Bytes of padding after the payload, 0 to 3. [`frame`](super::frame) fills it in.
    pub pad_count: u8,
    /// Version of the transport headers, 4 bits: 0.
    pub version: u8,
    /// Partition key.
    pub pkey: u16,
    /// Forward Explicit Congestion Notification.
    pub fecn: bool,
    /// Backward Explicit Congestion Notification.
    pub becn: bool,
    /// Destination QP number, 24 bits.
    pub dest_qp: u32,
    /// The responder shall acknowledge this packet.
    pub ack_req: bool,
    /// Packet Sequence Number, 24 bits.
    pub psn: u32,
}

impl Repr {
    /// Takes the fields out of a view. Reserved bits are dropped.
    pub fn parse(packet: &Packet<'_>) -> Repr {
        Repr {
            opcode: packet.opcode(),
            solicited: packet.solicited(),
            mig_req: packet.mig_req(),
            pad_count: packet.pad_count(),
            version: packet.version(),
            pkey: packet.pkey(),
            fecn: packet.fecn(),
            becn: packet.becn(),
            dest_qp: packet.dest_qp(),
            ack_req: packet.ack_req(),
            psn: packet.psn(),
        }
    }

    /// Writes the header. Values wider than their fields are cut.
    pub fn emit(&self, bytes: &mut [u8; HEADER_LEN]) {
        let flags =
            (self.solicited as u8) << 7 | (self.mig_req as u8) << 6 | (self.pad_count & 3) << 4 | self.version & 0xf;
        put::<{ field::OPCODE }, 2, _>(bytes, [self.opcode.0, flags]);
        put::<{ field::PKEY }, 2, _>(bytes, self.pkey.to_be_bytes());
        put::<{ field::RESV8A }, 1, _>(bytes, [(self.fecn as u8) << 7 | (self.becn as u8) << 6]);
        put_u24::<{ field::DEST_QP }, _>(bytes, self.dest_qp);
        put::<{ field::ACK_REQ }, 1, _>(bytes, [(self.ack_req as u8) << 7]);
        put_u24::<{ field::PSN }, _>(bytes, self.psn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The BTH of the sample packet of IBA 7.8.1.
    const BYTES: [u8; HEADER_LEN] = [0x0a, 0x20, 0x24, 0x87, 0x00, 0x87, 0xb1, 0xb3, 0x00, 0x0d, 0xec, 0x2a];

    const REPR: Repr = Repr {
        opcode: Opcode::RC_WRITE_ONLY,
        solicited: false,
        mig_req: false,
        pad_count: 2,
        version: 0,
        pkey: 0x2487,
        fecn: false,
        becn: false,
        dest_qp: 0x87b1b3,
        ack_req: false,
        psn: 0x0dec2a,
    };

    #[test]
    fn parse_and_emit() {
        assert_eq!(Repr::parse(&Packet::new(&BYTES)), REPR);
        let mut bytes = [0xee; HEADER_LEN];
        REPR.emit(&mut bytes);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn every_flag_stands_alone() {
        type Set = fn(&mut Repr);
        let flags: [(usize, u8, Set); 5] = [
            (1, 0xa0, |r| r.solicited = true),
            (1, 0x60, |r| r.mig_req = true),
            (4, 0x80, |r| r.fecn = true),
            (4, 0x40, |r| r.becn = true),
            (8, 0x80, |r| r.ack_req = true),
        ];
        for (at, value, set) in flags {
            let (mut bytes, mut repr) = (BYTES, REPR);
            bytes[at] = value;
            set(&mut repr);
            assert_eq!(Repr::parse(&Packet::new(&bytes)), repr);
            let mut emitted = [0; HEADER_LEN];
            repr.emit(&mut emitted);
            assert_eq!(emitted, bytes);
        }
    }

    #[test]
    fn truncated() {
        for len in 0..HEADER_LEN {
            let short = Packet::new_checked(&BYTES[..len]);
            assert_eq!(short.err(), Some(Error::Truncated(Header::Bth)));
        }
        assert!(Packet::new_checked(&BYTES).is_ok());
    }
}
