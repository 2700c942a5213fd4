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
        let mut hex = || parts.next().and_then(|p| u32::from_str_radix(p, 16).ok()).ok_or(BadAddress);
        let (lid, qpn, psn) = (hex()?, hex()?, hex()?);
        let text = parts.next().ok_or(BadAddress)?;
        if parts.next().is_some() || text.len() != 32 || !text.is_ascii() {
            return Err(BadAddress);
        }
        let gid = u128::from_str_radix(text, 16).map_err(|_| BadAddress)?;
        Ok(Self {
            lid: Lid(u16::try_from(lid).map_err(|_| BadAddress)?),
            qpn: Qpn::new(qpn),
            psn: Psn::new(psn),
            gid: Gid(gid.to_be_bytes()),
            mac: None,
        })
    }
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
        for bad in ["", "1:2:3", "1:2:3:4", "0001:00004a:5d6a0b:00000000000000000000000000000000:0", "x:1:2:0"] {
            assert_eq!(bad.parse::<Address>(), Err(BadAddress));
        }
    }
}
