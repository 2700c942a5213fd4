//! ACK Extended Transport Header (IBA 9.3.5): syndrome and message sequence number.

use core::time::Duration;

use super::bytes::*;
use super::{Error, Header, head};
use crate::RnrTimer;

/// Bytes of an AETH.
pub const HEADER_LEN: usize = 4;

/// Byte offsets.
pub mod field {
    /// Syndrome, 8 bits.
    pub const SYNDROME: usize = 0;
    /// Message Sequence Number, 24 bits.
    pub const MSN: usize = 1;
}

/// What an AETH says (IBA 9.7.5.1, table "AETH Syndrome Field").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// ACK with a 5-bit credit code: see [`credits`].
    Ack {
        /// The code, not the number of credits.
        credit: u8,
    },
    /// Receiver Not Ready NAK with a 5-bit timer code: see [`rnr_delay`].
    RnrNak {
        /// The code, not the time.
        timer: u8,
    },
    /// NAK with a 5-bit code.
    Nak(NakCode),
    /// A value that the specification reserves.
    Reserved(u8),
}

/// Codes of a NAK (IBA 9.7.5.2, table "NAK Codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NakCode {
    /// PSN sequence error.
    PsnSequence,
    /// Invalid request.
    InvalidRequest,
    /// Remote access error.
    RemoteAccess,
    /// Remote operational error.
    RemoteOperational,
    /// Invalid RD request.
    InvalidRdRequest,
    /// A code that the specification reserves.
    Reserved(u8),
}

/// The credit code for "no end-to-end credits".
pub const CREDIT_INVALID: u8 = 31;

/// The number of credits that a credit code stands for (IBA 9.7.7.2.4): 0, 1, 2, 3, 4, 6, 8, 12, 16 ... 32,768;
/// `None` for [`CREDIT_INVALID`] and everything above it.
pub const fn credits(code: u8) -> Option<u32> {
    match code {
        0 | 1 => Some(code as u32),
        2..31 if code.is_multiple_of(2) => Some(1 << (code / 2)),
        2..31 => Some(3 << ((code - 3) / 2)),
        _ => None,
    }
}

/// The time a requester waits at least after an RNR NAK with this timer code, of which the low 5 bits count:
/// [`RnrTimer`]'s.
pub const fn rnr_delay(code: u8) -> Duration {
    match RnrTimer::from_code(code & 0x1f) {
        Some(timer) => timer.duration(),
        None => Duration::ZERO, // five bits are always a code
    }
}

impl Syndrome {
    /// Decodes the syndrome byte.
    pub const fn from_byte(byte: u8) -> Syndrome {
        let low = byte & 0x1f;
        match byte >> 5 {
            0b000 => Syndrome::Ack { credit: low },
            0b001 => Syndrome::RnrNak { timer: low },
            0b011 => Syndrome::Nak(match low {
                0 => NakCode::PsnSequence,
                1 => NakCode::InvalidRequest,
                2 => NakCode::RemoteAccess,
                3 => NakCode::RemoteOperational,
                4 => NakCode::InvalidRdRequest,
                code => NakCode::Reserved(code),
            }),
            _ => Syndrome::Reserved(byte),
        }
    }

    /// Encodes the syndrome byte.
    pub const fn to_byte(self) -> u8 {
        match self {
            Syndrome::Ack { credit } => credit & 0x1f,
            Syndrome::RnrNak { timer } => 0x20 | timer & 0x1f,
            Syndrome::Nak(code) => {
                0x60 | match code {
                    NakCode::PsnSequence => 0,
                    NakCode::InvalidRequest => 1,
                    NakCode::RemoteAccess => 2,
                    NakCode::RemoteOperational => 3,
                    NakCode::InvalidRdRequest => 4,
                    NakCode::Reserved(code) => code & 0x1f,
                }
            }
            Syndrome::Reserved(byte) => byte,
        }
    }
}

/// A view of an AETH.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a>(&'a [u8; HEADER_LEN]);

impl<'a> Packet<'a> {
    /// Views the header.
    pub const fn new(bytes: &'a [u8; HEADER_LEN]) -> Self {
        Packet(bytes)
    }

    /// Views the header at the start of `data`; [`Error::Truncated`] if it is too short.
    pub fn new_checked(data: &'a [u8]) -> Result<Self, Error> {
        head(data, Header::Aeth).map(Packet)
    }

    /// ACK, RNR NAK or NAK.
    pub fn syndrome(&self) -> Syndrome {
        Syndrome::from_byte(u8_at::<{ field::SYNDROME }, _>(self.0))
    }

    /// Message Sequence Number: messages completed by the responder.
    pub fn msn(&self) -> u32 {
        u24_at::<{ field::MSN }, _>(self.0)
    }
}

/// The fields of an AETH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// ACK, RNR NAK or NAK.
    pub syndrome: Syndrome,
    /// Message Sequence Number, 24 bits: messages completed by the responder.
    pub msn: u32,
}

impl Repr {
    /// Takes the fields out of a view.
    pub fn parse(packet: &Packet<'_>) -> Repr {
        Repr { syndrome: packet.syndrome(), msn: packet.msn() }
    }

    /// Writes the header.
    pub fn emit(&self, bytes: &mut [u8; HEADER_LEN]) {
        put::<{ field::SYNDROME }, 1, _>(bytes, [self.syndrome.to_byte()]);
        put_u24::<{ field::MSN }, _>(bytes, self.msn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_and_emit() {
        // By hand from IBA table "AETH Syndrome Field".
        let table = [
            ([0x1f, 0, 0, 1], Syndrome::Ack { credit: CREDIT_INVALID }, 1),
            ([0x2c, 0, 1, 0], Syndrome::RnrNak { timer: 12 }, 256),
            ([0x60, 1, 2, 3], Syndrome::Nak(NakCode::PsnSequence), 0x010203),
            ([0x62, 0, 0, 0], Syndrome::Nak(NakCode::RemoteAccess), 0),
            ([0x7f, 0, 0, 0], Syndrome::Nak(NakCode::Reserved(31)), 0),
            ([0x80, 0, 0, 0], Syndrome::Reserved(0x80), 0),
        ];
        for (bytes, syndrome, msn) in table {
            let repr = Repr { syndrome, msn };
            assert_eq!(Repr::parse(&Packet::new(&bytes)), repr);
            let mut emitted = [0xee; HEADER_LEN];
            repr.emit(&mut emitted);
            assert_eq!(emitted, bytes);
        }
        for len in 0..HEADER_LEN {
            let short = Packet::new_checked(&table[0].0[..len]);
            assert_eq!(short.err(), Some(Error::Truncated(Header::Aeth)));
        }
    }

    #[test]
    fn every_syndrome_survives() {
        for byte in 0..=255 {
            assert_eq!(Syndrome::from_byte(byte).to_byte(), byte);
        }
    }

    /// Credits as in IBA table "End-to-End Flow Control Credit Encoding".
    #[test]
    fn credit_codes() {
        const CREDITS: [u32; 31] = [
            0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072,
            4096, 6144, 8192, 12288, 16384, 24576, 32768,
        ];
        for (code, expected) in CREDITS.into_iter().enumerate() {
            assert_eq!(credits(code as u8), Some(expected), "{code}");
        }
        assert!((31..=255).all(|code| credits(code).is_none()));
    }

    #[test]
    fn rnr_codes_have_five_bits() {
        assert_eq!(rnr_delay(12), Duration::from_micros(640));
        assert_eq!(rnr_delay(0x20), Duration::from_micros(655_360));
    }
}
