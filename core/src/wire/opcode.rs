//! BTH opcodes (IBA 9.2.1, table "OpCode field"): what a packet is, and which extension
//! headers follow its BTH.

use core::fmt;

/// The 8-bit OpCode of a BTH: a transport in bits 7-5, an operation in bits 4-0.
/// Any value is kept; [`Opcode::is_known`] tells the ones that the specification defines.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Opcode(pub u8);

/// Transport services: bits 7-5 of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable Connection.
    Rc,
    /// Unreliable Connection.
    Uc,
    /// Reliable Datagram.
    Rd,
    /// Unreliable Datagram.
    Ud,
    /// Congestion notification (A17.9.3).
    Cnp,
    /// Extended Reliable Connection (annex A14).
    Xrc,
    /// Left to manufacturers.
    Manufacturer(u8),
}

/// Operations: bits 4-0 of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // the names are the specification's
pub enum Operation {
    SendFirst = 0x00,
    SendMiddle = 0x01,
    SendLast = 0x02,
    SendLastImm = 0x03,
    SendOnly = 0x04,
    SendOnlyImm = 0x05,
    WriteFirst = 0x06,
    WriteMiddle = 0x07,
    WriteLast = 0x08,
    WriteLastImm = 0x09,
    WriteOnly = 0x0a,
    WriteOnlyImm = 0x0b,
    ReadRequest = 0x0c,
    ReadResponseFirst = 0x0d,
    ReadResponseMiddle = 0x0e,
    ReadResponseLast = 0x0f,
    ReadResponseOnly = 0x10,
    Acknowledge = 0x11,
    AtomicAcknowledge = 0x12,
    CompareSwap = 0x13,
    FetchAdd = 0x14,
    Resync = 0x15,
    SendLastInvalidate = 0x16,
    SendOnlyInvalidate = 0x17,
}

/// Where a packet stands in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Position {
    /// The first of several packets.
    First,
    /// Neither the first nor the last one.
    Middle,
    /// The last of several packets.
    Last,
    /// The message's one packet.
    Only,
}

bitflags::bitflags! {
    /// Extension headers that follow a BTH, in the order in which they follow it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ExtHeaders: u16 {
        /// Reliable Datagram ETH, 4 bytes.
        const RDETH = 1 << 0;
        /// XRC ETH, 4 bytes.
        const XRCETH = 1 << 1;
        /// Datagram ETH, 8 bytes.
        const DETH = 1 << 2;
        /// RDMA ETH, 16 bytes.
        const RETH = 1 << 3;
        /// Atomic ETH, 28 bytes.
        const ATOMIC_ETH = 1 << 4;
        /// ACK ETH, 4 bytes.
        const AETH = 1 << 5;
        /// Atomic ACK ETH, 8 bytes.
        const ATOMIC_ACK_ETH = 1 << 6;
        /// Immediate Data, 4 bytes.
        const IMMDT = 1 << 7;
        /// Invalidate ETH, 4 bytes.
        const IETH = 1 << 8;
    }
}

impl ExtHeaders {
    /// Bytes that these headers take together.
    pub const fn byte_len(self) -> usize {
        const LEN: [usize; 9] = [4, 4, 8, 16, 28, 4, 8, 4, 4];
        let (mut sum, mut i) = (0, 0);
        while i < LEN.len() {
            if self.bits() & 1 << i != 0 {
                sum += LEN[i];
            }
            i += 1;
        }
        sum
    }
}

impl Transport {
    /// Bits 7-5, in place.
    pub const fn bits(self) -> u8 {
        match self {
            Transport::Rc => 0x00,
            Transport::Uc => 0x20,
            Transport::Rd => 0x40,
            Transport::Ud => 0x60,
            Transport::Cnp => 0x80,
            Transport::Xrc => 0xa0,
            Transport::Manufacturer(t) => t & 0xe0,
        }
    }
}

impl Operation {
    /// All operations, indexed by their bits 4-0.
    #[rustfmt::skip]
    const ALL: [Operation; 24] = {
        use Operation::*;
        [
            SendFirst, SendMiddle, SendLast, SendLastImm, SendOnly, SendOnlyImm,
            WriteFirst, WriteMiddle, WriteLast, WriteLastImm, WriteOnly, WriteOnlyImm,
            ReadRequest, ReadResponseFirst, ReadResponseMiddle, ReadResponseLast, ReadResponseOnly,
            Acknowledge, AtomicAcknowledge, CompareSwap, FetchAdd,
            Resync, SendLastInvalidate, SendOnlyInvalidate,
        ]
    };

    /// Where such a packet stands in its message.
    pub const fn position(self) -> Position {
        use Operation::*;
        match self {
            SendFirst | WriteFirst | ReadResponseFirst => Position::First,
            SendMiddle | WriteMiddle | ReadResponseMiddle => Position::Middle,
            SendLast | SendLastImm | SendLastInvalidate | WriteLast | WriteLastImm | ReadResponseLast => Position::Last,
            _ => Position::Only,
        }
    }

    /// Responder to requester.
    pub const fn is_response(self) -> bool {
        use Operation::*;
        matches!(
            self,
            ReadResponseFirst
                | ReadResponseMiddle
                | ReadResponseLast
                | ReadResponseOnly
                | Acknowledge
                | AtomicAcknowledge
        )
    }

    /// One of the packets of a SEND.
    pub const fn is_send(self) -> bool {
        use Operation::*;
        matches!(
            self,
            SendFirst
                | SendMiddle
                | SendLast
                | SendLastImm
                | SendOnly
                | SendOnlyImm
                | SendLastInvalidate
                | SendOnlyInvalidate
        )
    }

    /// One of the packets of an RDMA WRITE.
    pub const fn is_write(self) -> bool {
        use Operation::*;
        matches!(self, WriteFirst | WriteMiddle | WriteLast | WriteLastImm | WriteOnly | WriteOnlyImm)
    }

    /// One of the packets of an RDMA READ response.
    pub const fn is_read_response(self) -> bool {
        use Operation::*;
        matches!(self, ReadResponseFirst | ReadResponseMiddle | ReadResponseLast | ReadResponseOnly)
    }

    /// A request of an atomic operation.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Operation::CompareSwap | Operation::FetchAdd)
    }

    /// Whether a packet of this kind may carry payload.
    pub const fn has_payload(self) -> bool {
        self.is_send() || self.is_write() || self.is_read_response()
    }

    /// Headers that the operation brings, on any transport.
    const fn headers(self) -> ExtHeaders {
        use Operation::*;
        match self {
            SendFirst | SendMiddle | SendLast | SendOnly | WriteMiddle | WriteLast | ReadResponseMiddle | Resync => {
                ExtHeaders::empty()
            }
            SendLastImm | SendOnlyImm | WriteLastImm => ExtHeaders::IMMDT,
            SendLastInvalidate | SendOnlyInvalidate => ExtHeaders::IETH,
            WriteFirst | WriteOnly | ReadRequest => ExtHeaders::RETH,
            WriteOnlyImm => ExtHeaders::RETH.union(ExtHeaders::IMMDT),
            ReadResponseFirst | ReadResponseLast | ReadResponseOnly | Acknowledge => ExtHeaders::AETH,
            AtomicAcknowledge => ExtHeaders::AETH.union(ExtHeaders::ATOMIC_ACK_ETH),
            CompareSwap | FetchAdd => ExtHeaders::ATOMIC_ETH,
        }
    }
}

impl Opcode {
    /// RC SEND First.
    pub const RC_SEND_FIRST: Opcode = Opcode::new(Transport::Rc, Operation::SendFirst);
    /// RC SEND Middle.
    pub const RC_SEND_MIDDLE: Opcode = Opcode::new(Transport::Rc, Operation::SendMiddle);
    /// RC SEND Last.
    pub const RC_SEND_LAST: Opcode = Opcode::new(Transport::Rc, Operation::SendLast);
    /// RC SEND Only.
    pub const RC_SEND_ONLY: Opcode = Opcode::new(Transport::Rc, Operation::SendOnly);
    /// RC RDMA WRITE First.
    pub const RC_WRITE_FIRST: Opcode = Opcode::new(Transport::Rc, Operation::WriteFirst);
    /// RC RDMA WRITE Middle.
    pub const RC_WRITE_MIDDLE: Opcode = Opcode::new(Transport::Rc, Operation::WriteMiddle);
    /// RC RDMA WRITE Last.
    pub const RC_WRITE_LAST: Opcode = Opcode::new(Transport::Rc, Operation::WriteLast);
    /// RC RDMA WRITE Only.
    pub const RC_WRITE_ONLY: Opcode = Opcode::new(Transport::Rc, Operation::WriteOnly);
    /// RC RDMA READ Request.
    pub const RC_READ_REQUEST: Opcode = Opcode::new(Transport::Rc, Operation::ReadRequest);
    /// RC Acknowledge.
    pub const RC_ACKNOWLEDGE: Opcode = Opcode::new(Transport::Rc, Operation::Acknowledge);
    /// RC ATOMIC Acknowledge.
    pub const RC_ATOMIC_ACKNOWLEDGE: Opcode = Opcode::new(Transport::Rc, Operation::AtomicAcknowledge);
    /// RC CmpSwap.
    pub const RC_COMPARE_SWAP: Opcode = Opcode::new(Transport::Rc, Operation::CompareSwap);
    /// RC FetchAdd.
    pub const RC_FETCH_ADD: Opcode = Opcode::new(Transport::Rc, Operation::FetchAdd);
    /// UC SEND Only.
    pub const UC_SEND_ONLY: Opcode = Opcode::new(Transport::Uc, Operation::SendOnly);
    /// UD SEND Only.
    pub const UD_SEND_ONLY: Opcode = Opcode::new(Transport::Ud, Operation::SendOnly);
    /// UD SEND Only with Immediate.
    pub const UD_SEND_ONLY_IMM: Opcode = Opcode::new(Transport::Ud, Operation::SendOnlyImm);
    /// RoCEv2 Congestion Notification Packet (A17.9.3).
    pub const CNP: Opcode = Opcode(0x81);

    /// The opcode of an operation on a transport.
    pub const fn new(transport: Transport, operation: Operation) -> Opcode {
        Opcode(transport.bits() | operation as u8)
    }

    /// Bits 7-5.
    pub const fn transport(self) -> Transport {
        match self.0 & 0xe0 {
            0x00 => Transport::Rc,
            0x20 => Transport::Uc,
            0x40 => Transport::Rd,
            0x60 => Transport::Ud,
            0x80 => Transport::Cnp,
            0xa0 => Transport::Xrc,
            t => Transport::Manufacturer(t),
        }
    }

    /// The operation, if the specification defines it for this transport.
    pub const fn operation(self) -> Option<Operation> {
        let op = self.0 & 0x1f;
        let defined = match self.transport() {
            Transport::Rc | Transport::Xrc => op <= 0x17 && op != Operation::Resync as u8,
            Transport::Uc => op <= Operation::WriteOnlyImm as u8,
            Transport::Rd => op <= Operation::Resync as u8,
            Transport::Ud => op == Operation::SendOnly as u8 || op == Operation::SendOnlyImm as u8,
            Transport::Cnp | Transport::Manufacturer(_) => false,
        };
        if defined { Some(Operation::ALL[op as usize]) } else { None }
    }

    /// Whether the specification defines this opcode.
    pub const fn is_known(self) -> bool {
        self.0 == Opcode::CNP.0 || self.operation().is_some()
    }

    /// The extension headers that follow the BTH; `None` for an opcode that is not known.
    pub const fn headers(self) -> Option<ExtHeaders> {
        if self.0 == Opcode::CNP.0 {
            return Some(ExtHeaders::empty());
        }
        let Some(operation) = self.operation() else { return None };
        let transport = match self.transport() {
            Transport::Ud => ExtHeaders::DETH,
            Transport::Rd if operation.is_response() => ExtHeaders::RDETH,
            Transport::Rd => ExtHeaders::RDETH.union(ExtHeaders::DETH),
            Transport::Xrc if !operation.is_response() => ExtHeaders::XRCETH,
            _ => ExtHeaders::empty(),
        };
        Some(transport.union(operation.headers()))
    }

    /// The specification's name, in two parts (`"RC"`, `"SEND Only"`).
    pub const fn name(self) -> Option<(&'static str, &'static str)> {
        if self.0 == Opcode::CNP.0 {
            return Some(("CNP", "Congestion Notification"));
        }
        let Some(operation) = self.operation() else { return None };
        let transport = match self.transport() {
            Transport::Rc => "RC",
            Transport::Uc => "UC",
            Transport::Rd => "RD",
            Transport::Ud => "UD",
            Transport::Xrc => "XRC",
            Transport::Cnp | Transport::Manufacturer(_) => return None,
        };
        #[rustfmt::skip]
        const NAMES: [&str; 24] = [
            "SEND First", "SEND Middle", "SEND Last", "SEND Last with Immediate",
            "SEND Only", "SEND Only with Immediate",
            "RDMA WRITE First", "RDMA WRITE Middle", "RDMA WRITE Last", "RDMA WRITE Last with Immediate",
            "RDMA WRITE Only", "RDMA WRITE Only with Immediate",
            "RDMA READ Request", "RDMA READ response First", "RDMA READ response Middle",
            "RDMA READ response Last", "RDMA READ response Only",
            "Acknowledge", "ATOMIC Acknowledge", "CmpSwap", "FetchAdd",
            "RESYNC", "SEND Last with Invalidate", "SEND Only with Invalidate",
        ];
        Some((transport, NAMES[operation as usize]))
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some((transport, operation)) => write!(f, "{transport} {operation}"),
            None => write!(f, "opcode {:#04x}", self.0),
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opcode({:#04x}, {self})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opcode numbers as in Linux 6.1 `include/rdma/ib_pack.h` and, for the names and the
    /// CNP, scapy 2.8.0 `contrib/roce.py`; headers as in IBA table "OpCode field".
    #[test]
    fn opcodes_of_the_specification() {
        let table: &[(u8, &str, usize)] = &[
            (0x00, "RC SEND First", 0),
            (0x03, "RC SEND Last with Immediate", 4),
            (0x06, "RC RDMA WRITE First", 16),
            (0x07, "RC RDMA WRITE Middle", 0),
            (0x09, "RC RDMA WRITE Last with Immediate", 4),
            (0x0b, "RC RDMA WRITE Only with Immediate", 20),
            (0x0c, "RC RDMA READ Request", 16),
            (0x0d, "RC RDMA READ response First", 4),
            (0x0e, "RC RDMA READ response Middle", 0),
            (0x10, "RC RDMA READ response Only", 4),
            (0x11, "RC Acknowledge", 4),
            (0x12, "RC ATOMIC Acknowledge", 12),
            (0x13, "RC CmpSwap", 28),
            (0x14, "RC FetchAdd", 28),
            (0x16, "RC SEND Last with Invalidate", 4),
            (0x17, "RC SEND Only with Invalidate", 4),
            (0x24, "UC SEND Only", 0),
            (0x2b, "UC RDMA WRITE Only with Immediate", 20),
            (0x44, "RD SEND Only", 12),
            (0x51, "RD Acknowledge", 8),
            (0x55, "RD RESYNC", 12),
            (0x64, "UD SEND Only", 8),
            (0x65, "UD SEND Only with Immediate", 12),
            (0x81, "CNP Congestion Notification", 0),
            (0xa4, "XRC SEND Only", 4),
            (0xac, "XRC RDMA READ Request", 20),
            (0xb1, "XRC Acknowledge", 4),
            (0xb4, "XRC FetchAdd", 32),
        ];
        for &(value, name, len) in table {
            let opcode = Opcode(value);
            let (transport, operation) = opcode.name().expect(name);
            assert_eq!(name.split_once(' '), Some((transport, operation)));
            assert_eq!(opcode.headers().map(ExtHeaders::byte_len), Some(len), "{name}");
        }
    }

    #[test]
    fn undefined_opcodes_are_kept_and_told() {
        let known = (0..=255).filter(|&v| Opcode(v).is_known()).count();
        // RC 23, UC 12, RD 22, UD 2, CNP 1, XRC 23.
        assert_eq!(known, 83);
        for v in [0x15, 0x18, 0x1f, 0x2c, 0x56, 0x60, 0x66, 0x80, 0xb5, 0xc0, 0xff] {
            assert!(!Opcode(v).is_known(), "{v:#x}");
            assert_eq!(Opcode(v).headers(), None);
            assert_eq!(Opcode(v).name(), None);
        }
        for v in 0..=255u8 {
            if let Some(operation) = Opcode(v).operation() {
                assert_eq!(Opcode::new(Opcode(v).transport(), operation), Opcode(v));
                assert_eq!(operation as u8, v & 0x1f);
            }
        }
    }
}
