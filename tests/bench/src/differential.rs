//! The same random requests and completions to libmlx5 and to our driver: WQEs, doorbell records, doorbells and decoded
//! completions must be equal, but for what `docs/libmlx5-differences.md` explains.

use crate::{
    entries::CQE,
    record::{Element, MAX_SGE, QPS, QpSetup, Reply, Request, Setup},
    rig::{Card, CqRig, QpRig, SrqRig},
};
use anyhow::{Context, Result, ensure};
use bareverbs::*;
use bareverbs_mlx5::Local;
use oorandom::Rand64;
use std::{
    io::{Read, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};
use zerocopy::IntoBytes;

/// Slots of the SRQ.
const SRQ_SLOTS: usize = 64;
/// The QP that receives from it.
const WITH_SRQ: usize = 3;
const KINDS: [QpType; QPS] = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::Rc];

/// Numbers of ibv_wr_opcode and how often each is drawn, by type of QP.
const RC: &[u32] = &[0, 1, 2, 3, 4, 5, 6, 9];
const UC: &[u32] = &[0, 1, 2, 3];
const UD: &[u32] = &[2, 3];
const WRITE: u32 = 0;
const WRITE_IMM: u32 = 1;
const SEND: u32 = 2;
const SEND_IMM: u32 = 3;
const READ: u32 = 4;
const COMPARE_SWAP: u32 = 5;
const FETCH_ADD: u32 = 6;
/// Where an atomic's compare field lies: libmlx5 leaves what was in the ring where it is not used.
const COMPARE: std::ops::Range<usize> = 40..48;
/// Where an SRQ's WQE names the next one.
const LINK: std::ops::Range<usize> = 2..4;
/// Bits of ibv_send_flags.
const FENCE: u32 = 1;
const SIGNALED: u32 = 2;
const SOLICITED: u32 = 4;
const INLINE: u32 = 8;

/// The program with libmlx5 in it.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Peer {
    fn start(program: &Path, setup: &Setup) -> Result<Self> {
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut input = child.stdin.take().context("no stdin")?;
        let output = child.stdout.take().context("no stdout")?;
        input.write_all(setup.as_bytes())?;
        Ok(Self { child, input, output })
    }

    fn ask(&mut self, request: &Request) -> Result<Reply> {
        self.input.write_all(request.as_bytes())?;
        let mut reply: Reply = zerocopy::FromZeros::new_zeroed();
        self.output.read_exact(reply.as_mut_bytes()).context("libmlx5's program ended")?;
        Ok(reply)
    }

    fn end(mut self) -> Result<()> {
        drop(self.input);
        ensure!(self.child.wait()?.success(), "libmlx5's program failed");
        Ok(())
    }
}

/// Our side.
struct Ours {
    card: Card<Local>,
    cq: CqRig<Local>,
    srq: SrqRig<Local>,
    qps: Vec<QpRig<Local>>,
    /// Blocks and slots that were used of each.
    blocks: [u32; QPS],
    slots: [usize; QPS],
    ah: AddressHandle,
}

/// Compares `count` random requests; tells the first difference.
pub fn run(program: &Path, seed: u64, count: usize) -> Result<()> {
    let mut ours = Ours::new()?;
    let mut peer = Peer::start(program, &ours.setup())?;
    let mut rng = Rand64::new(u128::from(seed));
    for n in 0..count {
        let request = ours.draw(&mut rng);
        let theirs = peer.ask(&request)?;
        let mine = ours.play(&request).with_context(|| format!("seed {seed}, request {n}: {request:?}"))?;
        compare(&request, &mine, &theirs).with_context(|| format!("seed {seed}, request {n}: {request:?}"))?;
    }
    peer.end()
}

impl Ours {
    fn new() -> Result<Self> {
        let mut card = Card::open(64)?;
        let cq = CqRig::new(&card, 64)?;
        let srq = SrqRig::new(&card, SRQ_SLOTS)?;
        let cap = QpCap { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 5, max_recv_sge: 4, max_inline: 200 };
        let mut qps = Vec::new();
        for (n, kind) in KINDS.into_iter().enumerate() {
            qps.push(card.qp(kind, &cq, &cq, (n == WITH_SRQ).then_some(&srq), cap)?);
        }
        let grh = GlobalRoute { dgid: Gid([7; 16]), flow_label: 0x12345, hop_limit: 9, ..GlobalRoute::default() };
        let attr = AhAttr { port: PortNum(1), dlid: Lid(0x33), sl: 3, grh: Some(grh), ..AhAttr::default() };
        let ah = card.verbs.address_handle(&attr)?;
        Ok(Self { card, cq, srq, qps, blocks: [0; QPS], slots: [0; QPS], ah })
    }

    fn setup(&self) -> Setup {
        let qp = |n: usize| {
            let QpRig { qp, blocks, .. } = &self.qps[n];
            let cap = qp.cap();
            let kind = match KINDS[n] {
                QpType::Uc => 3,
                QpType::Ud => 4,
                _ => 2,
            };
            QpSetup {
                kind,
                qpn: qp.qpn().get(),
                sq_blocks: *blocks,
                max_send_wr: cap.max_send_wr,
                max_send_sge: cap.max_send_sge,
                max_inline: cap.max_inline,
                rq_slots: cap.max_recv_wr,
                rq_shift: 4 + cap.max_recv_sge.max(1).trailing_zeros(),
                max_recv_sge: cap.max_recv_sge,
            }
        };
        Setup { qps: std::array::from_fn(qp), srq_slots: SRQ_SLOTS as u32, srq_shift: 5 }
    }

    /// A random request that both sides take, and a completion of it.
    fn draw(&self, rng: &mut Rand64) -> Request {
        let mut request: Request = Request {
            wr_id: rng.rand_u64(),
            remote_addr: rng.rand_u64(),
            compare_add: rng.rand_u64(),
            swap: rng.rand_u64(),
            qp: below(rng, QPS as u64) as u32,
            recv: below(rng, 3) as u32 / 2,
            opcode: 0,
            flags: below(rng, 8) as u32,
            rkey: rng.rand_u64() as u32,
            imm: rng.rand_u64() as u32,
            num_sge: 0,
            remote_qpn: rng.rand_u64() as u32 & 0xff_ffff,
            remote_qkey: rng.rand_u64() as u32,
            unused: 0,
            av: [0; 48],
            sges: [Element::default(); MAX_SGE],
            data: std::array::from_fn(|_| rng.rand_u64() as u8),
            cqe: std::array::from_fn(|_| rng.rand_u64() as u8),
        };
        let n = request.qp as usize;
        let cap = self.qps[n].qp.cap();
        request.av.copy_from_slice(self.ah.form().as_bytes());
        for sge in &mut request.sges {
            let length = match below(rng, 4) {
                0 => 0,
                1 => below(rng, 64) as u32,
                _ => below(rng, 100_000) as u32,
            };
            *sge = Element { addr: rng.rand_u64(), length, lkey: rng.rand_u64() as u32 };
        }
        if request.recv == 1 {
            let most = if n == WITH_SRQ { 1 } else { cap.max_recv_sge };
            request.num_sge = below(rng, u64::from(most) + 1) as u32;
            if n == WITH_SRQ {
                request.sges[0].length |= 1;
            }
            self.draw_response(rng, &mut request);
            return request;
        }
        let opcodes = [RC, UC, UD, RC][n];
        request.opcode = opcodes[below(rng, opcodes.len() as u64) as usize];
        request.num_sge = below(rng, u64::from(cap.max_send_sge.min(MAX_SGE as u32)) + 1) as u32;
        match request.opcode {
            COMPARE_SWAP | FETCH_ADD => {
                request.num_sge = 1;
                request.sges[0].length = 8;
                request.remote_addr &= !7;
            }
            READ => {}
            _ if below(rng, 2) == 0 => {
                request.flags |= INLINE;
                let mut left = below(rng, u64::from(cap.max_inline) + 1) as u32;
                for (i, sge) in request.sges[..request.num_sge as usize].iter_mut().enumerate() {
                    let last = i + 1 == request.num_sge as usize;
                    sge.length = if last { left } else { below(rng, u64::from(left) + 1) as u32 };
                    left -= sge.length;
                }
            }
            _ if KINDS[n] == QpType::Ud => {
                // A datagram is one packet.
                request.sges.iter_mut().for_each(|sge| sge.length %= 128);
            }
            _ => {}
        }
        self.draw_completion(rng, &mut request);
        request
    }

    /// The entry of a send request: good, or failed.
    fn draw_completion(&self, rng: &mut Rand64, request: &mut Request) {
        let n = request.qp as usize;
        let opcode = [0x08, 0x09, 0x0a, 0x0b, 0x10, 0x11, 0x12, 0, 0, 0x01][request.opcode as usize];
        let failed = below(rng, 5) == 0;
        let cqe_opcode = if failed { 0xd } else { 0x0 };
        self.fill_cqe(rng, request, opcode, self.blocks[n] as u16, cqe_opcode);
    }

    /// The entry of a receive: one of the four good ones, or a failed one.
    fn draw_response(&self, rng: &mut Rand64, request: &mut Request) {
        let n = request.qp as usize;
        let counter = if n == WITH_SRQ { self.srq.head() } else { self.slots[n] as u16 };
        let cqe_opcode = [0x1, 0x2, 0x3, 0x4, 0xe][below(rng, 5) as usize];
        self.fill_cqe(rng, request, 0, counter, cqe_opcode);
    }

    fn fill_cqe(&self, rng: &mut Rand64, request: &mut Request, send_opcode: u8, counter: u16, cqe_opcode: u8) {
        let qp = &self.qps[request.qp as usize];
        let cqe = &mut request.cqe;
        cqe[0x20..0x24].copy_from_slice(&qp.sent.user_index.to_be_bytes());
        cqe[0x38..0x3c].copy_from_slice(&(u32::from(send_opcode) << 24 | qp.sent.qpn).to_be_bytes());
        cqe[0x3c..0x3e].copy_from_slice(&counter.to_be_bytes());
        // Any of the syndromes, and some that there are not.
        cqe[0x37] = if cqe_opcode >= 0xd { below(rng, 0x28) as u8 } else { cqe[0x37] };
        cqe[0x3f] = cqe_opcode << 4 | (below(rng, 2) as u8) << 1;
    }

    /// Posts and polls on our side.
    fn play(&mut self, request: &Request) -> Result<(Reply, Completion)> {
        let n = request.qp as usize;
        let mut reply: Reply = zerocopy::FromZeros::new_zeroed();
        let sges: Vec<Sge> = request.sges[..request.num_sge as usize]
            .iter()
            // SAFETY: no device reads or writes it: requests stay in the rings.
            .map(|sge| unsafe { Sge::from_raw(sge.addr, sge.length, Lkey(sge.lkey)) })
            .collect();
        if request.recv == 1 {
            let wr = RecvWr::new(request.wr_id, &sges);
            if n == WITH_SRQ {
                self.srq.srq.post([wr])?;
                reply.wqe[..32].copy_from_slice(&self.srq.bytes::<32>(self.srq.head(), 0));
                self.srq.take();
            } else {
                self.qps[n].qp.post_recv([wr])?;
                let slot = self.qps[n].recv_bytes::<64>(self.slots[n]);
                let len = self.qps[n].qp.cap().max_recv_sge as usize * 16;
                reply.wqe[..len].copy_from_slice(&slot[..len]);
                self.slots[n] += 1;
            }
        } else {
            self.send(request, &sges)?;
            let wqe = self.qps[n].send_bytes::<1024>(self.blocks[n]);
            let segments = usize::from(wqe[7] & 0x3f);
            reply.wqe[..segments * 16].copy_from_slice(&wqe[..segments * 16]);
            self.blocks[n] += segments.div_ceil(4) as u32;
            reply.doorbell = self.card.hal.doorbell().context("nothing was rung")?;
        }
        let record = self.qps[n].record();
        reply.recv_record.copy_from_slice(&record[..4]);
        reply.send_record.copy_from_slice(&record[4..]);
        if n == WITH_SRQ {
            reply.recv_record = self.srq.record();
        }
        self.cq.write(request.cqe);
        let mut out = [Completion::default()];
        reply.polled = self.cq.cq.poll(&mut out)? as u32;
        Ok((reply, out[0]))
    }

    fn send(&mut self, request: &Request, sges: &[Sge]) -> Result<()> {
        let Request { remote_addr: addr, imm, .. } = *request;
        let rkey = Rkey(request.rkey);
        let op = match request.opcode {
            WRITE => SendOp::Write { addr, rkey },
            WRITE_IMM => SendOp::WriteImm { addr, rkey, imm },
            SEND => SendOp::Send,
            SEND_IMM => SendOp::SendImm(imm),
            READ => SendOp::Read { addr, rkey },
            COMPARE_SWAP => SendOp::CompareSwap { addr, rkey, compare: request.compare_add, swap: request.swap },
            FETCH_ADD => SendOp::FetchAdd { addr, rkey, add: request.compare_add },
            _ => SendOp::SendInvalidate(Rkey(imm)),
        };
        let mut parts: Vec<&[u8]> = Vec::new();
        let mut rest = &request.data[..];
        for sge in sges.iter().filter(|_| request.flags & INLINE != 0) {
            let (part, after) = rest.split_at(sge.length() as usize);
            parts.push(part);
            rest = after;
        }
        let payload = match (request.flags & INLINE != 0, &parts[..]) {
            (false, _) => Payload::Sges(sges),
            (true, [part]) => Payload::Inline(part),
            (true, parts) => Payload::InlineGather(parts),
        };
        let flag = |bit: u32, flag: SendFlags| if request.flags & bit != 0 { flag } else { SendFlags::empty() };
        let flags =
            flag(FENCE, SendFlags::FENCE) | flag(SIGNALED, SendFlags::SIGNALED) | flag(SOLICITED, SendFlags::SOLICITED);
        let ud = UdDestination { ah: self.ah, qpn: Qpn::new(request.remote_qpn), qkey: Qkey(request.remote_qkey) };
        let n = request.qp as usize;
        let to = (KINDS[n] == QpType::Ud).then_some(Destination::Ud(&ud));
        Ok(self.qps[n].qp.post_send([SendWr { wr_id: request.wr_id, op, payload, flags, to }])?)
    }
}

/// A number below `n`.
fn below(rng: &mut Rand64, n: u64) -> u64 {
    rng.rand_range(0..n)
}

/// What must be equal. Fields that are not compared are undefined by ibv_poll_cq, or explained in
/// `docs/libmlx5-differences.md`.
fn compare(request: &Request, (mine, completion): &(Reply, Completion), theirs: &Reply) -> Result<()> {
    ensure!(theirs.post == 0, "libmlx5 refused it: {}", theirs.post);
    let (mut my_wqe, mut wqe) = (mine.wqe, theirs.wqe);
    if request.flags & INLINE != 0 {
        // Behind inline data a segment keeps what was in the ring.
        let end = inline_end(request);
        my_wqe[end..].fill(0);
        wqe[end..].fill(0);
    }
    if request.recv == 0 && request.opcode == FETCH_ADD {
        wqe[COMPARE].fill(0);
    }
    if request.recv == 1 && request.qp as usize == WITH_SRQ {
        // The link: each side takes free slots in an order of its own.
        wqe[LINK].copy_from_slice(&mine.wqe[LINK]);
    }
    ensure!(my_wqe == wqe, "WQE:\n{}\n{}", hex(&my_wqe), hex(&wqe));
    ensure!(mine.send_record == theirs.send_record, "record: {:?} {:?}", mine.send_record, theirs.send_record);
    ensure!(mine.recv_record == theirs.recv_record, "record: {:?} {:?}", mine.recv_record, theirs.recv_record);
    if request.recv == 0 {
        ensure!(mine.doorbell == theirs.doorbell, "doorbell: {:?} {:?}", mine.doorbell, theirs.doorbell);
    }
    ensure!((mine.polled, theirs.polled) == (1, 1), "polled {} and {}", mine.polled, theirs.polled);
    let c = completion;
    let equal = |what: &str, mine: u64, theirs: u64| {
        ensure!(mine == theirs, "{what}: {mine:#x} {theirs:#x}, entry {}", hex(&request.cqe[..CQE]));
        Ok(())
    };
    equal("wr_id", c.wr_id, theirs.wr_id)?;
    equal("status", c.status as u64, theirs.status.into())?;
    equal("qpn", c.qpn.get().into(), theirs.qp_num.into())?;
    if c.status != WcStatus::Success {
        return equal("vendor_err", c.vendor_err.into(), theirs.vendor_err.into());
    }
    equal("opcode", c.opcode as u64, theirs.opcode.into())?;
    if request.recv == 0 {
        let reads = matches!(c.opcode, WcOpcode::Read | WcOpcode::CompareSwap | WcOpcode::FetchAdd);
        return if reads { equal("byte_len", c.byte_len.into(), theirs.byte_len.into()) } else { Ok(()) };
    }
    equal("byte_len", c.byte_len.into(), theirs.byte_len.into())?;
    equal("src_qp", c.src_qp.get().into(), theirs.src_qp.into())?;
    let bits = [(WcFlags::WITH_IMM, 2), (WcFlags::WITH_INVALIDATE, 8)];
    for (flag, bit) in bits {
        equal("flags", c.flags.contains(flag).into(), (theirs.wc_flags & bit != 0).into())?;
    }
    if KINDS[request.qp as usize] == QpType::Ud {
        equal("slid", c.slid.0.into(), theirs.slid.into())?;
        equal("sl", c.sl.into(), theirs.sl.into())?;
        equal("dlid_path_bits", c.dlid_path_bits.into(), theirs.dlid_path_bits.into())?;
        equal("GRH", c.flags.contains(WcFlags::GRH).into(), (theirs.wc_flags & 1 != 0).into())?;
    }
    if c.flags.intersects(WcFlags::WITH_IMM | WcFlags::WITH_INVALIDATE) {
        equal("imm", c.imm.into(), theirs.imm.into())?;
    }
    Ok(())
}

/// Where the inline data of a request ends in its WQE.
fn inline_end(request: &Request) -> usize {
    let before = match (KINDS[request.qp as usize], request.opcode) {
        (QpType::Ud, _) => 64,
        (_, WRITE | WRITE_IMM) => 32,
        _ => 16,
    };
    let len: u32 = request.sges[..request.num_sge as usize].iter().map(|sge| sge.length).sum();
    if len == 0 { before } else { before + 4 + len as usize }
}

fn hex(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
    bytes[..end].chunks(16).map(|row| row.iter().map(|b| format!("{b:02x}")).collect::<String>() + "\n").collect()
}
