//! Ring bytes, written by hand: what the device writes into a completion queue, and what it must find in a send queue.
//! Layouts are those of the PRM ("Completion Queue Entry", "Work Request (WQE) Formats"), byte by byte; none of this
//! comes from the driver's encoder.

/// Bytes of a completion queue entry.
pub const CQE: usize = 64;

/// CQE opcodes.
pub const REQ: u8 = 0x0;
pub const RESP_SEND: u8 = 0x2;

/// A good completion of 64 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Cqe {
    pub opcode: u8,
    pub user_index: u32,
    pub qpn: u32,
    /// Send opcode of a requester's; 0 of a responder's.
    pub send_opcode: u8,
}

impl Cqe {
    /// Its bytes, for the WQE `counter`.
    pub fn bytes(self, counter: u16) -> [u8; CQE] {
        let mut bytes = [0; CQE];
        bytes[0x20..0x24].copy_from_slice(&self.user_index.to_be_bytes());
        bytes[0x18..0x1c].copy_from_slice(&0x200u32.to_be_bytes()); // flags_rqpn
        bytes[0x2c..0x30].copy_from_slice(&64u32.to_be_bytes()); // byte_cnt
        bytes[0x30..0x38].copy_from_slice(&0x0123_4567_89ab_u64.to_be_bytes()); // timestamp
        bytes[0x38..0x3c].copy_from_slice(&(u32::from(self.send_opcode) << 24 | self.qpn).to_be_bytes());
        bytes[0x3c..0x3e].copy_from_slice(&counter.to_be_bytes());
        bytes[0x3f] = self.opcode << 4;
        bytes
    }
}

/// RDMA WRITE of one element, signaled.
pub fn write_wqe(index: u32, qpn: u32, remote: u64, rkey: u32, local: u64, lkey: u32, length: u32) -> [u8; 48] {
    let mut wqe = [0; 48];
    control(&mut wqe, index, 0x08, qpn, 3);
    wqe[16..24].copy_from_slice(&remote.to_be_bytes());
    wqe[24..28].copy_from_slice(&rkey.to_be_bytes());
    wqe[32..36].copy_from_slice(&length.to_be_bytes());
    wqe[36..40].copy_from_slice(&lkey.to_be_bytes());
    wqe[40..48].copy_from_slice(&local.to_be_bytes());
    wqe
}

/// SEND of 32 bytes inline, signaled.
pub fn inline_wqe(index: u32, qpn: u32, data: &[u8; 32]) -> [u8; 52] {
    let mut wqe = [0; 52];
    control(&mut wqe, index, 0x0a, qpn, 4);
    wqe[16..20].copy_from_slice(&(0x8000_0000u32 | 32).to_be_bytes());
    wqe[20..52].copy_from_slice(data);
    wqe
}

fn control(wqe: &mut [u8], index: u32, opcode: u8, qpn: u32, segments: u32) {
    wqe[0..4].copy_from_slice(&((index & 0xffff) << 8 | u32::from(opcode)).to_be_bytes());
    wqe[4..8].copy_from_slice(&(qpn << 8 | segments).to_be_bytes());
    wqe[11] = 0x08; // a CQE always
}

/// A receive's one element.
pub fn data_segment(local: u64, lkey: u32, length: u32) -> [u8; 16] {
    let mut segment = [0; 16];
    segment[0..4].copy_from_slice(&length.to_be_bytes());
    segment[4..8].copy_from_slice(&lkey.to_be_bytes());
    segment[8..16].copy_from_slice(&local.to_be_bytes());
    segment
}
