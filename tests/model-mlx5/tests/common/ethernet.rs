//! An HCA on an Ethernet port with queues, made by literal commands.

use bareverbs_harness::model::DeviceModel;
use bareverbs_model_mlx5::HcaConfig;

use super::{Rig, bytes, command};

/// Addresses of the two ports, as they are burnt in.
pub const MACS: [[u8; 6]; 2] = [[0x02, 0, 0xc9, 0, 0, 0], [0x02, 0, 0xc9, 0, 0, 1]];
/// A queue and where it is.
#[derive(Clone, Copy)]
pub struct Queue {
    pub number: u32,
    pub memory: u64,
    pub dbr: u64,
    pub cqes: u64,
    pub buffers: u64,
}

/// An HCA with PD, key for all of memory, transport domain, send queue, and a receive queue of four WQEs of 2 KiB.
pub struct Host {
    pub rig: Rig,
    pub uar: u32,
    pub pd: u32,
    pub key: u32,
    pub td: u32,
    pub tis: u32,
    pub sq: Queue,
    pub rq: Queue,
    pub producer: u16,
}

pub fn queue(opcode: u32, log_size: u32, log_stride: u32, more: &[(usize, u32)], memory: u64, dbr: u64) -> Vec<u8> {
    let mut dwords = vec![(0, opcode << 16), (0x50, 1 << 28), (0x64, dbr as u32), (0x70, log_stride << 16 | log_size)];
    dwords.extend(more);
    let mut input = command(0x110, &dwords);
    input.extend(memory.to_be_bytes());
    input
}

/// CREATE_FLOW_TABLE of 16 entries.
pub fn table(level: u32) -> Vec<u8> {
    command(0x40, &[(0, 0x0930_0000), (0x18, level << 16 | 4)])
}

/// CREATE_FLOW_GROUP with a mask of outer headers.
pub fn group(table: u32, first: u32, last: u32, mask: &[(usize, u32)]) -> Vec<u8> {
    let criteria = u32::from(!mask.is_empty());
    let mut dwords = vec![(0, 0x0933_0000), (0x14, table), (0x1c, first), (0x24, last), (0x3c, criteria)];
    dwords.extend(mask.iter().map(|(at, value)| (0x40 + at, *value)));
    command(0x400, &dwords)
}

/// SET_FLOW_TABLE_ENTRY that forwards to destinations (type << 24 | number).
pub fn entry(table: u32, group: u32, index: u32, value: &[(usize, u32)], destinations: &[u32]) -> Vec<u8> {
    let action = if destinations.is_empty() { 2 } else { 4 };
    let mut dwords = vec![
        (0, 0x0936_0000),
        (0x14, table),
        (0x20, index),
        (0x44, group),
        (0x48, 0x77),
        (0x4c, action),
        (0x50, destinations.len() as u32),
    ];
    dwords.extend(value.iter().map(|(at, value)| (0x80 + at, *value)));
    dwords.extend(destinations.iter().enumerate().map(|(i, to)| (0x340 + i * 8, *to)));
    command(0x340 + destinations.len() * 8, &dwords)
}

pub const TO_TABLE: u32 = 1 << 24;
pub const TO_TIR: u32 = 2 << 24;

impl Host {
    pub fn new(n: u8) -> Self {
        let mut rig = Rig::running(HcaConfig::ethernet(n));
        rig.bus.link = true;
        rig.settle();
        let (uar, pd) = (rig.uar(), rig.pd());
        let whole = command(0x110, &[(0, 0x0200_0000), (0x10, 3 << 10), (0x14, 0xffff_ff00), (0x1c, 1 << 31 | pd)]);
        let key = rig.good(&whole, 16).dword(8) << 8;
        let td = rig.ok(&[0x0816_0000, 0, 0, 0], 16).dword(8);
        let tis = rig.good(&command(0xc0, &[(0, 0x0912_0000), (0x44, td)]), 16).dword(8);
        let none = Queue { number: 0, memory: 0, dbr: 0, cqes: 0, buffers: 0 };
        let mut host = Self { rig, uar, pd, key, td, tis, sq: none, rq: none, producer: 0 };
        host.sq = host.send_queue();
        host.rq = host.receive_queue();
        host
    }

    pub fn cq(&mut self) -> (u32, u64) {
        let (eqn, _) = self.rig.eq(self.uar, 1, 0);
        let (cqn, cqes, _) = self.rig.cq(self.uar, eqn, 4);
        for slot in 0..16 {
            self.rig.bus.put(cqes + slot * 64 + 63, &[0xf1]);
        }
        (cqn, cqes)
    }

    pub fn send_queue(&mut self) -> Queue {
        let (cqn, cqes) = self.cq();
        let (memory, dbr, buffers) = (self.rig.page(), self.rig.page(), self.rig.page());
        let more = [
            (0x20, 1 << 28),
            (0x24, 0x51),
            (0x28, cqn),
            (0x40, 1 << 16),
            (0x4c, self.tis),
            (0x58, self.pd),
            (0x5c, self.uar),
        ];
        let number = self.rig.good(&queue(0x904, 4, 6, &more, memory, dbr), 16).dword(8);
        self.rig.good(&command(0x110, &[(0, 0x0905_0000), (8, number), (0x20, 1 << 20)]), 16);
        Queue { number, memory, dbr, cqes, buffers }
    }

    pub fn receive_queue(&mut self) -> Queue {
        let (cqn, cqes) = self.cq();
        let (memory, dbr, buffers) = (self.rig.page(), self.rig.page(), self.rig.page());
        self.rig.page(); // the buffers' second page
        let more = [(0x20, 1 << 18), (0x24, 0x52), (0x28, cqn), (0x58, self.pd)];
        let number = self.rig.good(&queue(0x908, 2, 4, &more, memory, dbr), 16).dword(8);
        self.rig.good(&command(0x110, &[(0, 0x0909_0000), (8, number), (0x20, 1 << 20 | 1 << 18)]), 16);
        let rq = Queue { number, memory, dbr, cqes, buffers };
        for slot in 0..4u64 {
            let at = buffers + slot * 2048;
            self.rig.bus.put(memory + slot * 16, &bytes(&[2048, self.key, (at >> 32) as u32, at as u32]));
        }
        self.rig.bus.put(dbr, &4u32.to_be_bytes());
        rq
    }

    /// CREATE_TIR that leads to a receive queue; `lb` are the bits of self_lb_block.
    pub fn tir(&mut self, rqn: u32, lb: u32) -> u32 {
        self.rig.good(&command(0x110, &[(0, 0x0900_0000), (0x3c, rqn), (0x44, lb << 24 | self.td)]), 16).dword(8)
    }

    /// A root table with one entry for everything, that leads to a TIR.
    pub fn let_in(&mut self, tir: u32) -> u32 {
        let root = self.rig.good(&table(0), 16).dword(8);
        let all = self.rig.good(&group(root, 0, 15, &[]), 16).dword(8);
        self.rig.good(&entry(root, all, 0, &[], &[TO_TIR | tir]), 16);
        self.root(root);
        root
    }

    pub fn root(&mut self, table: u32) {
        self.rig.good(&command(0x40, &[(0, 0x092f_0000), (0x14, table)]), 16);
    }

    /// Posts a send WQE: opcode, Ethernet segment, inline headers, and the rest of the frame behind a key.
    pub fn post(&mut self, opcode: u32, flags: u32, mss: u32, header: &[u8], payload: &[u8]) {
        self.rig.bus.put(self.sq.buffers, payload);
        let inline = header.len().saturating_sub(2).next_multiple_of(16);
        let mut wqe = vec![0; 32 + inline];
        wqe[16 + 4] = flags as u8;
        wqe[16 + 6..16 + 8].copy_from_slice(&(mss as u16).to_be_bytes());
        wqe[16 + 12..16 + 14].copy_from_slice(&(header.len() as u16).to_be_bytes());
        wqe[16 + 14..16 + 14 + header.len()].copy_from_slice(header);
        let at = self.sq.buffers;
        wqe.extend(bytes(&[payload.len() as u32, self.key, (at >> 32) as u32, at as u32]));
        self.ring(opcode, wqe);
    }

    /// Completes the control segment, always with a CQE, and rings.
    pub fn ring(&mut self, opcode: u32, mut wqe: Vec<u8>) {
        let units = wqe.len() as u32 / 16;
        let head = [u32::from(self.producer) << 8 | opcode, self.sq.number << 8 | units, 8, 0];
        wqe[..16].copy_from_slice(&bytes(&head));
        for (i, part) in wqe.chunks(64).enumerate() {
            let block = (u64::from(self.producer) + i as u64) % 16;
            self.rig.bus.put(self.sq.memory + block * 64, part);
        }
        self.producer += units.div_ceil(4) as u16;
        self.rig.bus.put(self.sq.dbr + 4, &u32::from(self.producer).to_be_bytes());
        self.rig.hca.mmio_write(&mut self.rig.bus, 0, u64::from(self.uar) * 4096 + 0x800, &wqe[..8]);
        self.rig.settle();
    }

    /// Takes frames from the link.
    pub fn take(&mut self, frames: Vec<Vec<u8>>) {
        for frame in frames {
            self.rig.hca.receive(&mut self.rig.bus, 0, frame.into());
        }
        self.rig.settle();
    }

    /// Takes every completion off the CQs, which never fill up then.
    pub fn poll(&mut self) {
        let cqs: Vec<_> = self.rig.hca.cqs.values().map(|cq| (cq.dbr, cq.producer)).collect();
        for (dbr, producer) in cqs {
            self.rig.bus.put(dbr, &(producer & 0xff_ffff).to_be_bytes());
        }
    }

    pub fn frames(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.rig.bus.frames)
    }

    /// Completion `n` of a queue, if it was written.
    pub fn cqe(&mut self, queue: Queue, n: u64) -> Option<Vec<u8>> {
        let cqe = self.rig.bus.get(queue.cqes + n * 64, 64);
        (cqe[63] & 1 == 0).then_some(cqe)
    }

    /// Bytes that completion `n` tells of, as they lie in the buffer.
    pub fn received(&mut self, queue: Queue, n: u64) -> Option<Vec<u8>> {
        let cqe = self.cqe(queue, n)?;
        let len = u32::from_be_bytes(cqe[44..48].try_into().unwrap());
        Some(self.rig.bus.get(queue.buffers + n % 4 * 2048, len as usize))
    }
}

/// Ethernet header to the second host.
pub fn header(ethertype: u16) -> Vec<u8> {
    [&MACS[1][..], &MACS[0], &ethertype.to_be_bytes()].concat()
}

/// A TCP segment over IPv4 of the documentation's first row, without checksums: 66.9.149.187:2794 to
/// 161.142.100.80:1766.
pub fn tcp(payload: usize) -> (Vec<u8>, Vec<u8>) {
    let mut head = header(0x0800);
    head.extend([0x45, 0, 0, 40 + payload as u8, 0, 1, 0x40, 0, 64, 6, 0, 0, 66, 9, 149, 187, 161, 142, 100, 80]);
    head.extend([0x0a, 0xea, 0x06, 0xe6, 0, 0, 0, 1, 0, 0, 0, 2, 5 << 4, 0x18, 0x10, 0, 0, 0, 0, 0]);
    (head, (0..payload).map(|i| i as u8).collect())
}
