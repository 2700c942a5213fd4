//! Subnet Management Packets (IBA 14.2.1): MADs on QP 0.
//!
//! LID-routed and directed-route SMPs share one layout; a LID-routed one has zeros where
//! the other has LIDs and paths, and no direction, hop pointer and hop count.

use super::bytes::*;
use super::{Error, Header, mad};

/// Bytes of an SMP: a whole MAD.
pub const LEN: usize = mad::MAD_LEN;
/// Bytes of attribute data, and of each path.
pub const DATA_LEN: usize = 64;
/// The permissive LID: taken by whatever port gets the packet.
pub const PERMISSIVE_LID: u16 = 0xffff;

/// Byte offsets.
pub mod field {
    /// M_Key, 64 bits.
    pub const MKEY: usize = 24;
    /// Directed route source LID, 16 bits.
    pub const DR_SLID: usize = 32;
    /// Directed route destination LID, 16 bits.
    pub const DR_DLID: usize = 34;
    /// Attribute data, 64 bytes.
    pub const DATA: usize = 64;
    /// Initial path, 64 bytes: egress ports, from index 1.
    pub const INITIAL_PATH: usize = 128;
    /// Return path, 64 bytes: ingress ports, from index 1.
    pub const RETURN_PATH: usize = 192;
}

/// Attribute ids (IBA 14.2.5).
pub mod attr {
    /// Notice.
    pub const NOTICE: u16 = 0x0002;
    /// NodeDescription: 64 bytes of text.
    pub const NODE_DESCRIPTION: u16 = 0x0010;
    /// NodeInfo: see [`node_info`](super::super::node_info).
    pub const NODE_INFO: u16 = 0x0011;
    /// SwitchInfo.
    pub const SWITCH_INFO: u16 = 0x0012;
    /// GUIDInfo: see [`guids`](super::guids).
    pub const GUID_INFO: u16 = 0x0014;
    /// PortInfo: see [`port_info`](super::super::port_info).
    pub const PORT_INFO: u16 = 0x0015;
    /// P_KeyTable: see [`pkeys`](super::pkeys).
    pub const PKEY_TABLE: u16 = 0x0016;
    /// SLtoVLMappingTable.
    pub const SL_TO_VL_TABLE: u16 = 0x0017;
    /// VLArbitrationTable.
    pub const VL_ARB_TABLE: u16 = 0x0018;
    /// LinearForwardingTable.
    pub const LINEAR_FORWARDING_TABLE: u16 = 0x0019;
    /// MulticastForwardingTable.
    pub const MULTICAST_FORWARDING_TABLE: u16 = 0x001b;
    /// SMInfo.
    pub const SM_INFO: u16 = 0x0020;
    /// VendorDiag.
    pub const VENDOR_DIAG: u16 = 0x0030;
    /// LedInfo.
    pub const LED_INFO: u16 = 0x0031;
}

/// The direction bit in the status of a directed-route SMP: set on the way back.
pub const DIRECTION: u16 = 0x8000;

/// All of an SMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The common header; its status holds the direction, its class-specific bits hold hop
    /// pointer (high byte) and hop count (low byte).
    pub header: mad::Repr,
    /// Management key.
    pub mkey: u64,
    /// Directed route source LID.
    pub dr_slid: u16,
    /// Directed route destination LID.
    pub dr_dlid: u16,
    /// Attribute data.
    pub data: [u8; DATA_LEN],
    /// Egress ports on the way out; index 0 is unused.
    pub initial_path: [u8; DATA_LEN],
    /// Ingress ports on the way out; index 0 is unused.
    pub return_path: [u8; DATA_LEN],
}

impl Repr {
    /// Reads an SMP from the start of a UD payload; [`Error::Truncated`] if it is shorter
    /// than a MAD. Whether it is one, by its class, is the caller's to look at.
    pub fn parse(payload: &[u8]) -> Result<Repr, Error> {
        let bytes: &[u8; LEN] = payload.first_chunk().ok_or(Error::Truncated(Header::Mad))?;
        Ok(Repr {
            header: mad::Repr::parse(&mad::Packet::new_checked(bytes)?),
            mkey: u64_at::<{ field::MKEY }, _>(bytes),
            dr_slid: u16_at::<{ field::DR_SLID }, _>(bytes),
            dr_dlid: u16_at::<{ field::DR_DLID }, _>(bytes),
            data: get::<{ field::DATA }, DATA_LEN, _>(bytes),
            initial_path: get::<{ field::INITIAL_PATH }, DATA_LEN, _>(bytes),
            return_path: get::<{ field::RETURN_PATH }, DATA_LEN, _>(bytes),
        })
    }

    /// Writes the SMP; reserved bytes become zero.
    pub fn emit(&self, bytes: &mut [u8; LEN]) {
        *bytes = [0; LEN];
        let mut header = [0; mad::HEADER_LEN];
        self.header.emit(&mut header);
        put::<0, { mad::HEADER_LEN }, _>(bytes, header);
        put::<{ field::MKEY }, 8, _>(bytes, self.mkey.to_be_bytes());
        put::<{ field::DR_SLID }, 2, _>(bytes, self.dr_slid.to_be_bytes());
        put::<{ field::DR_DLID }, 2, _>(bytes, self.dr_dlid.to_be_bytes());
        put::<{ field::DATA }, DATA_LEN, _>(bytes, self.data);
        put::<{ field::INITIAL_PATH }, DATA_LEN, _>(bytes, self.initial_path);
        put::<{ field::RETURN_PATH }, DATA_LEN, _>(bytes, self.return_path);
    }

    /// A directed-route SMP on its way back.
    pub const fn is_returning(&self) -> bool {
        self.header.status & DIRECTION != 0
    }

    /// Where a directed-route SMP is on its path.
    pub const fn hop_pointer(&self) -> u8 {
        (self.header.class_specific >> 8) as u8
    }

    /// How many hops a directed-route SMP takes, at most 63.
    pub const fn hop_count(&self) -> u8 {
        self.header.class_specific as u8
    }
}

/// The GUIDs of a GUIDInfo block (IBA 14.2.5.5); the attribute modifier is the block's number.
pub fn guids(data: &[u8; DATA_LEN]) -> [u64; 8] {
    let (chunks, _) = data.as_chunks();
    core::array::from_fn(|i| chunks.get(i).map_or(0, |c| u64::from_be_bytes(*c)))
}

/// The data of a GUIDInfo block.
pub fn emit_guids(guids: &[u64; 8]) -> [u8; DATA_LEN] {
    let mut data = [0; DATA_LEN];
    for (bytes, guid) in data.as_chunks_mut().0.iter_mut().zip(guids) {
        *bytes = guid.to_be_bytes();
    }
    data
}

/// The P_Keys of a P_KeyTable block (IBA 14.2.5.7); the low half of the attribute modifier
/// is the block's number.
pub fn pkeys(data: &[u8; DATA_LEN]) -> [u16; 32] {
    let (chunks, _) = data.as_chunks();
    core::array::from_fn(|i| chunks.get(i).map_or(0, |c| u16::from_be_bytes(*c)))
}

/// The data of a P_KeyTable block.
pub fn emit_pkeys(pkeys: &[u16; 32]) -> [u8; DATA_LEN] {
    let mut data = [0; DATA_LEN];
    for (bytes, pkey) in data.as_chunks_mut().0.iter_mut().zip(pkeys) {
        *bytes = pkey.to_be_bytes();
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::{Frame, Link};
    use crate::wire::vectors::IB_SMP;

    #[test]
    fn captured_directed_route_smp() {
        let frame = Frame::parse(Link::InfiniBand, &IB_SMP).unwrap();
        let smp = Repr::parse(frame.payload).unwrap();
        assert_eq!(smp.header.attr_id, attr::SM_INFO);
        assert!(smp.is_returning());
        assert_eq!((smp.hop_pointer(), smp.hop_count()), (1, 2));
        assert_eq!((smp.mkey, smp.dr_slid, smp.dr_dlid), (0, PERMISSIVE_LID, PERMISSIVE_LID));
        assert_eq!(smp.data[..8], [0x00, 0x02, 0xc9, 0x02, 0x00, 0x20, 0xb4, 0xdd]);
        assert_eq!(smp.initial_path[..4], [0, 2, 3, 0]);
        assert_eq!(smp.return_path[..4], [0, 6, 1, 0]);

        let mut bytes = [0xee; LEN];
        smp.emit(&mut bytes);
        assert_eq!(bytes, frame.payload);
        for len in 0..LEN {
            assert_eq!(Repr::parse(&bytes[..len]), Err(Error::Truncated(Header::Mad)));
        }
    }

    #[test]
    fn table_blocks() {
        // By hand from the tables "GUIDInfo" and "P_KeyTable".
        let mut data = [0; DATA_LEN];
        data[..8].copy_from_slice(&[0x00, 0x02, 0xc9, 0x03, 0x00, 0x00, 0x1f, 0x2d]);
        data[63] = 0x7f;
        let expected = [0x0002_c903_0000_1f2d, 0, 0, 0, 0, 0, 0, 0x7f];
        assert_eq!(guids(&data), expected);
        assert_eq!(emit_guids(&expected), data);

        let keys = pkeys(&data);
        assert_eq!((keys[0], keys[1], keys[3], keys[31]), (2, 0xc903, 0x1f2d, 0x7f));
        assert_eq!(emit_pkeys(&keys), data);
    }
}
