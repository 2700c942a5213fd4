//! What two ends tell each other before they can talk: the line of the ibv_ ping-pongs, `lid:qpn:psn:gid` in hex.

use bareverbs::{Gid, Lid, Mac, Psn, Qpn};
use core::{fmt, str::FromStr};

/// Where an end's QP is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// The port's LID; 0 on Ethernet.
    pub lid: Lid,
    /// The QP.
    pub qpn: Qpn,
    /// The first PSN it sends.
    pub psn: Psn,
    /// Its GID; zero if none is used.
    pub gid: Gid,
    /// Its Ethernet address, where it is known. Not part of the line.
    pub mac: Option<Mac>,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:06x}:{:06x}:", self.lid.0, self.qpn.get(), self.psn.get())?;
        self.gid.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// A line that is not `lid:qpn:psn:gid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAddress;

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an address line (lid:qpn:psn:gid in hex)")
    }
}

impl core::error::Error for BadAddress {}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(s: &str) -> Result<Self, BadAddress> {
        let mut parts = s.trim_end_matches(['\0', '\n', '\r']).split(':');
        let mut next = || parts.next().ok_or(BadAddress);
        let lid = hex(next()?, u16::MAX.into())? as u16;
        let [qpn, psn] = [hex(next()?, u32::MAX.into())? as u32, hex(next()?, u32::MAX.into())? as u32];
        // All of it in halves: one reader of numbers for all is shorter than one for each size.
        let (high, low) = next()?.split_at_checked(16).filter(|(_, low)| low.len() == 16).ok_or(BadAddress)?;
        let mut gid = [0; 16];
        let (first, second) = gid.split_at_mut(8);
        first.copy_from_slice(&hex(high, u64::MAX)?.to_be_bytes());
        second.copy_from_slice(&hex(low, u64::MAX)?.to_be_bytes());
        if parts.next().is_some() {
            return Err(BadAddress);
        }
        Ok(Self { lid: Lid(lid), qpn: Qpn::new(qpn), psn: Psn::new(psn), gid: Gid(gid), mac: None })
    }
}

/// A number up to `max`.
fn hex(digits: &str, max: u64) -> Result<u64, BadAddress> {
    let is_number = digits.bytes().all(|b| b.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|n| is_number && *n <= max).ok_or(BadAddress)
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    // The format of the message of ibv_rc_pingpong (rdma-core 56, libibverbs/examples): "%04x:%06x:%06x:" and the GID.
    #[test]
    fn the_line_is_that_of_ibv_rc_pingpong() {
        let line = "0001:00004a:5d6a0b:fe800000000000000011 22fffe334455".replace(' ', "");
        let a: Address = line.parse().unwrap();
        assert_eq!((a.lid, a.qpn.get(), a.psn.get()), (Lid(1), 0x4a, 0x5d6a0b));
        assert_eq!(a.to_string(), line);
        for bad in [
            "",
            "1:2:3",
            "1:2:3:4",
            "0001:00004a:5d6a0b:00000000000000000000000000000000:0",
            "x:1:2:0",
            "10000:1:2:00000000000000000000000000000000",
        ] {
            assert_eq!(bad.parse::<Address>(), Err(BadAddress));
        }
    }
}
