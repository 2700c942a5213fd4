//! Ids and units: each its own type, so that a QPN cannot be passed for a PSN.

use core::{fmt, time::Duration};

/// A 24-bit number type with its conversions.
macro_rules! number24 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            /// Keeps the low 24 bits.
            #[inline(always)]
            pub const fn new(v: u32) -> Self {
                Self(v & 0xff_ffff)
            }

            /// The number, below 2^24.
            #[inline(always)]
            pub const fn get(self) -> u32 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#08x}", self.0)
            }
        }
    };
}

number24! {
    /// A queue pair number (IBA 10.2.4).
    Qpn
}
number24! {
    /// A completion queue number.
    Cqn
}
number24! {
    /// A shared receive queue number.
    Srqn
}
number24! {
    /// A packet sequence number (IBA 9.7.2); arithmetic wraps at 2^24.
    Psn
}

impl Qpn {
    /// The number that multicast datagrams carry (IBA 9.2.1).
    pub const MULTICAST: Self = Self(0xff_ffff);
}

impl Psn {
    /// The sequence number `n` packets later.
    #[inline]
    pub const fn add(self, n: u32) -> Self {
        Self::new(self.0.wrapping_add(n))
    }

    /// The signed distance from `earlier` to `self`, in (-2^23, 2^23].
    #[inline]
    pub const fn since(self, earlier: Self) -> i32 {
        ((self.0.wrapping_sub(earlier.0) << 8) as i32) >> 8
    }
}

/// A plain number type.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

number! {
    /// Local key: names a region to the local HCA.
    Lkey(u32)
}
number! {
    /// Remote key: names a region to a remote peer.
    Rkey(u32)
}
number! {
    /// Local identifier of an InfiniBand port (IBA 4.1.3). 0 on Ethernet.
    Lid(u16)
}
number! {
    /// Partition key; bit 15 is full membership (IBA 10.9).
    Pkey(u16)
}
number! {
    /// Queue key of datagram QPs (IBA 10.2.5). Bit 31 set in a request means "the QP's own".
    Qkey(u32)
}
number! {
    /// A port of the device, counted from 1.
    PortNum(u8)
}

impl Pkey {
    /// The default partition, full membership.
    pub const DEFAULT: Self = Self(0xffff);

    /// Whether a packet with key `other` is accepted by this one (IBA 10.9.3): same low 15 bits, one a full member.
    pub const fn matches(self, other: Self) -> bool {
        self.0 & 0x7fff != 0 && (self.0 ^ other.0) & 0x7fff == 0 && (self.0 | other.0) & 0x8000 != 0
    }
}

/// A global identifier, in network byte order (IBA 4.1.1).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The zero GID: an empty table entry.
    pub const ZERO: Self = Self([0; 16]);

    /// The GID of an IPv4 address, `::ffff:a.b.c.d` (RoCEv2 annex A17).
    pub const fn from_ipv4([a, b, c, d]: [u8; 4]) -> Self {
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }

    /// The link-local GID of a MAC address: `fe80::` and the modified EUI-64.
    pub const fn link_local(Mac([a, b, c, d, e, f]): Mac) -> Self {
        Self([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
    }

    /// The IPv4 address inside, if it is a mapped one.
    pub fn ipv4(&self) -> Option<[u8; 4]> {
        match self.0 {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => Some([a, b, c, d]),
            _ => None,
        }
    }

    /// Whether the prefix is `fe80::/64`.
    pub fn is_link_local(&self) -> bool {
        self.0.starts_with(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0])
    }

    /// The MAC inside a link-local EUI-64 GID.
    pub fn mac(&self) -> Option<Mac> {
        match self.0 {
            [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, 0xff, 0xfe, d, e, f] => Some(Mac([a ^ 2, b, c, d, e, f])),
            _ => None,
        }
    }

    /// Whether it is a multicast GID: `ff00::/8` (IBA 4.1.1).
    pub const fn is_multicast(&self) -> bool {
        self.0[0] == 0xff
    }

    /// The MAC of a multicast group on Ethernet: of IPv6 33:33 and the last four bytes (RFC 2464, 7), of IPv4 01:00:5e
    /// and the last 23 bits (RFC 1112, 6.4).
    pub fn multicast_mac(&self) -> Option<Mac> {
        match (self.0, self.ipv4()) {
            ([0xff, .., a, b, c, d], _) => Some(Mac([0x33, 0x33, a, b, c, d])),
            (_, Some([224..=239, b, c, d])) => Some(Mac([1, 0, 0x5e, b & 0x7f, c, d])),
            _ => None,
        }
    }

    /// Whether all bytes are zero.
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }
}

impl fmt::Display for Gid {
    /// In the form of an IPv6 address (RFC 5952): as `Ipv6Addr` has it, in a tenth of its code, which small images feel.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some([a, b, c, d]) = self.ipv4() {
            return write!(f, "::ffff:{a}.{b}.{c}.{d}");
        }
        let group = |i: usize| u16::from_be_bytes([self.0[2 * i], self.0[2 * i + 1]]);
        // The longest run of zeros is left out, the first one of equals; a single zero is none.
        let (mut at, mut len) = (8, 1);
        for start in 0..8 {
            let run = (start..8).take_while(|i| group(*i) == 0).count();
            if run > len {
                (at, len) = (start, run);
            }
        }
        let mut i = 0;
        while i < 8 {
            if i == at {
                f.write_str("::")?;
                i += len;
            } else {
                let colon = if i == 0 || i == at + len { "" } else { ":" };
                write!(f, "{colon}{:x}", group(i))?;
                i += 1;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An Ethernet address.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Path MTU: payload bytes of a packet; the discriminant is the IBA's code (IBA 9.6.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    B256 = 1,
    /// 512 bytes.
    B512 = 2,
    /// 1,024 bytes.
    #[default]
    B1024 = 3,
    /// 2,048 bytes.
    B2048 = 4,
    /// 4,096 bytes.
    B4096 = 5,
}

impl Mtu {
    /// Payload bytes of a packet.
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }

    /// From the IBA's code, 1 to 5.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::B256,
            2 => Self::B512,
            3 => Self::B1024,
            4 => Self::B2048,
            5 => Self::B4096,
            _ => return None,
        })
    }

    /// From a number of bytes that is exactly an MTU.
    pub const fn from_bytes(bytes: u32) -> Option<Self> {
        match bytes {
            256 => Some(Self::B256),
            512 => Some(Self::B512),
            1024 => Some(Self::B1024),
            2048 => Some(Self::B2048),
            4096 => Some(Self::B4096),
            _ => None,
        }
    }
}

/// How long a responder asks the requester to wait when it has no receive posted: one of 32 durations
/// (IBA 9.7.5.2.8, table 45).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RnrTimer(u8);

/// Units of 10 us of each code of [`RnrTimer`].
const RNR_10US: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
    6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

impl RnrTimer {
    /// The shortest of the 32 durations that is at least `wanted`; the longest, 655.36 ms, beyond that.
    pub const fn at_least(wanted: Duration) -> Self {
        let mut code = 1;
        while code < 32 {
            if wanted.as_nanos() <= RNR_10US[code as usize] as u128 * 10_000 {
                return Self(code);
            }
            code += 1;
        }
        Self(0)
    }

    /// From the IBA's code, 0 to 31; 0 is the longest.
    pub const fn from_code(code: u8) -> Option<Self> {
        if code < 32 { Some(Self(code)) } else { None }
    }

    /// The IBA's code.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The duration.
    pub const fn duration(self) -> Duration {
        Duration::from_micros(RNR_10US[(self.0 & 31) as usize] as u64 * 10)
    }
}

/// How long a requester waits for an acknowledgement: 4.096 us x 2^code, or for ever (IBA 9.9.2.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckTimeout(u8);

impl AckTimeout {
    /// Wait for ever.
    pub const INFINITE: Self = Self(0);

    /// The shortest timeout that is at least `wanted`; the longest is 2.4 hours (code 31).
    pub const fn at_least(wanted: Duration) -> Self {
        let mut code = 1;
        while code < 31 {
            if wanted.as_nanos() <= 4096u128 << code {
                return Self(code);
            }
            code += 1;
        }
        Self(31)
    }

    /// From the IBA's code, 0 to 31; 0 is for ever.
    pub const fn from_code(code: u8) -> Option<Self> {
        if code < 32 { Some(Self(code)) } else { None }
    }

    /// The IBA's code.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The duration, or `None` for ever.
    pub const fn duration(self) -> Option<Duration> {
        match self.0 {
            0 => None,
            code => Some(Duration::from_nanos(4096 << code)),
        }
    }
}

/// How often a request is sent again before it fails, 0 to 7 (IBA 9.9.2.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryCount(u8);

impl RetryCount {
    /// Seven times; as RNR retry count 7 means for ever.
    pub const MAX: Self = Self(7);

    /// From 0 to 7.
    pub const fn new(n: u8) -> Option<Self> {
        if n < 8 { Some(Self(n)) } else { None }
    }

    /// The count.
    pub const fn get(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psn_distance_wraps() {
        assert_eq!(Psn::new(0xff_ffff).add(2), Psn::new(1));
        assert_eq!(Psn::new(1).since(Psn::new(0xff_ffff)), 2);
        assert_eq!(Psn::new(0xff_ffff).since(Psn::new(1)), -2);
    }

    // IBA vol 1, table 45: code 0 is 655.36 ms, 1 is 0.01 ms, 12 is 0.64 ms, 31 is 491.52 ms.
    #[test]
    fn rnr_codes_follow_the_table() {
        let ms = |c| RnrTimer::from_code(c).unwrap().duration().as_micros();
        assert_eq!((ms(0), ms(1), ms(12), ms(31)), (655_360, 10, 640, 491_520));
        assert_eq!(RnrTimer::at_least(Duration::from_millis(500)).code(), 0);
        assert_eq!(RnrTimer::at_least(Duration::from_micros(641)).code(), 13);
        assert_eq!(RnrTimer::at_least(Duration::ZERO).code(), 1);
    }

    // IBA vol 1, 9.9.2.1.1: timeout 14 is 67.1 ms.
    #[test]
    fn ack_timeout_is_a_power_of_two() {
        assert_eq!(AckTimeout::from_code(14).unwrap().duration().unwrap().as_micros(), 67_108);
        assert_eq!(AckTimeout::at_least(Duration::from_millis(67)).code(), 14);
        assert_eq!(AckTimeout::INFINITE.duration(), None);
    }

    #[test]
    fn gid_forms() {
        let mac = Mac([0x02, 0x11, 0x22, 0x33, 0x44, 0x55]);
        let gid = Gid::link_local(mac);
        assert_eq!(std::format!("{gid}"), "fe80::11:22ff:fe33:4455");
        assert_eq!(gid.mac(), Some(mac));
        assert_eq!(Gid::from_ipv4([10, 0, 0, 1]).ipv4(), Some([10, 0, 0, 1]));
        assert!(gid.is_link_local() && !Gid::from_ipv4([10, 0, 0, 1]).is_link_local());
    }

    #[test]
    fn gids_are_printed_like_ipv6_addresses() {
        // Every place of zeros, and of numbers with one digit and four.
        for zeros in 0..=0xffu16 {
            for value in [1u16, 0xabcd, 0xffff] {
                let groups = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| if zeros >> i & 1 == 0 { value } else { 0 });
                let address = std::net::Ipv6Addr::from(groups);
                assert_eq!(std::format!("{}", Gid(address.octets())), std::format!("{address}"));
            }
        }
        for text in ["::", "::1", "::ffff:10.0.0.1", "2001:db8::1:0:0:1", "fe80::1", "1::"] {
            let address: std::net::Ipv6Addr = text.parse().unwrap();
            assert_eq!(std::format!("{}", Gid(address.octets())), text);
        }
    }

    #[test]
    fn pkeys_match_by_membership() {
        assert!(Pkey(0xffff).matches(Pkey(0x7fff)));
        assert!(!Pkey(0x7fff).matches(Pkey(0x7fff)));
        assert!(!Pkey(0x8001).matches(Pkey(0x8002)));
    }
}
