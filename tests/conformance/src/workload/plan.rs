//! What a seed means.

use alloc::vec::Vec;
use bareverbs::{DeviceAttr, Mtu, QpType};
use oorandom::Rand64;

/// The kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SEND.
    Send,
    /// SEND with immediate.
    SendImm,
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate.
    WriteImm,
    /// RDMA READ.
    Read,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    /// What.
    pub kind: Kind,
    /// Bytes of each element; one element for inline data.
    pub elements: Vec<usize>,
    /// Copied into the WQE.
    pub inline: bool,
    /// Completes by itself.
    pub signaled: bool,
    /// Waits for reads before it.
    pub fence: bool,
}

impl Request {
    /// Bytes of the message.
    pub fn len(&self) -> usize {
        self.elements.iter().sum()
    }

    /// Whether the message takes a receive.
    pub fn takes_receive(&self) -> bool {
        matches!(self.kind, Kind::Send | Kind::SendImm | Kind::WriteImm)
    }
}

/// A pair of QPs.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Their type.
    pub kind: QpType,
    /// Whether each end receives from its SRQ.
    pub srq: [bool; 2],
    /// What each end sends.
    pub requests: [Vec<Request>; 2],
    /// Slots of each send queue.
    pub send_depth: u32,
    /// Receives each end keeps posted.
    pub recv_depth: u32,
}

/// The limits that a seed's plan stays within.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Requests of all pairs together.
    pub requests: usize,
    /// Bytes of the longest message.
    pub longest: usize,
    /// Bytes of all messages together, roughly.
    pub bytes: usize,
    /// Whether packets can be lost: unreliable messages may then be missing.
    pub lossy: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self { requests: 160, longest: 1 << 20, bytes: 6 << 20, lossy: false }
    }
}

/// Everything that a run does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it came from.
    pub seed: u64,
    /// Path MTU.
    pub mtu: Mtu,
    /// The pairs.
    pub pairs: Vec<Pair>,
    /// The longest message.
    pub longest: usize,
    /// Requests posted with one doorbell, at most.
    pub list: usize,
    /// Packets may be lost.
    pub lossy: bool,
}

impl Plan {
    /// The plan of a seed, for a device with these attributes and an MTU of at most `mtu`.
    pub fn new(seed: u64, shape: &Shape, device: &DeviceAttr, mtu: Mtu) -> Self {
        let rng = &mut Rand64::new(u128::from(seed) ^ 0x0062_6172_6576_6572_6273);
        let mtu = Mtu::from_code(below(rng, mtu as u64) as u8 + 1).unwrap_or(mtu);
        // A bound of its own for each run, so that short messages get their share of the bytes.
        let longest = log_uniform(rng, shape.longest).max(64);
        let pairs = 1 + below(rng, 4) as usize;
        let mut budget = shape.bytes;
        let pairs = (0..pairs)
            .map(|_| {
                let kind = kind(rng, device);
                let shared = device.max_srq > 0 && kind != QpType::Uc;
                let srq = core::array::from_fn(|_| shared && below(rng, 3) == 0);
                let longest = if kind == QpType::Ud { longest.min(mtu.bytes() as usize) } else { longest };
                let n = 1 + below(rng, (shape.requests / pairs) as u64) as usize;
                let requests = core::array::from_fn(|_| {
                    (0..n / 2).map_while(|_| request(rng, kind, longest, &mut budget, device)).collect()
                });
                Pair { kind, srq, requests, send_depth: 1 << below(rng, 6), recv_depth: 1 + below(rng, 16) as u32 }
            })
            .collect();
        Self { seed, mtu, pairs, longest, list: 1 + below(rng, 8) as usize, lossy: shape.lossy }
    }
}

fn kind(rng: &mut Rand64, device: &DeviceAttr) -> QpType {
    let kind = match below(rng, 6) {
        0 => QpType::Uc,
        1 => QpType::Ud,
        _ => QpType::Rc,
    };
    if device.has(kind) { kind } else { QpType::Rc }
}

fn request(rng: &mut Rand64, qp: QpType, longest: usize, budget: &mut usize, device: &DeviceAttr) -> Option<Request> {
    let kinds: &[Kind] = match qp {
        QpType::Ud => &[Kind::Send, Kind::SendImm],
        QpType::Uc => &[Kind::Send, Kind::SendImm, Kind::Write, Kind::WriteImm],
        _ if device.atomics => {
            &[Kind::Send, Kind::SendImm, Kind::Write, Kind::WriteImm, Kind::Read, Kind::CompareSwap, Kind::FetchAdd]
        }
        _ => &[Kind::Send, Kind::SendImm, Kind::Write, Kind::WriteImm, Kind::Read],
    };
    let kind = kinds[below(rng, kinds.len() as u64) as usize];
    let atomic = matches!(kind, Kind::CompareSwap | Kind::FetchAdd);
    let len = match kind {
        _ if atomic => 8,
        _ if below(rng, 16) == 0 => 0,
        _ => log_uniform(rng, longest),
    };
    let left = budget.checked_sub(len)?;
    *budget = left;
    let inline = !atomic && kind != Kind::Read && len <= 64 && below(rng, 2) == 0;
    let most = if atomic || inline { 1 } else { device.max_sge.min(4) as u64 };
    let pieces = 1 + below(rng, most) as usize;
    let elements = split(rng, len, pieces);
    Some(Request { kind, elements, inline, signaled: below(rng, 3) == 0, fence: below(rng, 8) == 0 })
}

/// Cuts `len` bytes into `n` pieces; some may be empty.
fn split(rng: &mut Rand64, len: usize, n: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = (1..n).map(|_| below(rng, len as u64 + 1) as usize).collect();
    cuts.extend([0, len]);
    cuts.sort_unstable();
    cuts.windows(2).map(|w| w[1] - w[0]).collect()
}

/// A number below `n`.
pub fn below(rng: &mut Rand64, n: u64) -> u64 {
    rng.rand_range(0..n.max(1))
}

/// A number from 1 to `most`, each power of two as likely as the next.
fn log_uniform(rng: &mut Rand64, most: usize) -> usize {
    let bits = below(rng, u64::from(most.ilog2()) + 1);
    let low = 1u64 << bits;
    (low + below(rng, low)).min(most as u64) as usize
}
