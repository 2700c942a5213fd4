//! Send WQEs: from the bytes in the send queue to what they ask for.

use bareverbs_mlx5_prm::wqe::{
    self, AV_EXTENDED, AV_GRH, AtomicSeg, Av, BB, CtrlSeg, DS, DataSeg, INLINE, INLINE_LENGTH_MASK, RaddrSeg, XrcSeg,
    ctrl, opcode,
};
use zerocopy::FromBytes;

use crate::qp::Service;

/// A piece of a message in memory, or in the WQE itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Behind a key.
    Memory {
        /// Local key.
        lkey: u32,
        /// Virtual address.
        addr: u64,
        /// Bytes.
        len: u32,
    },
    /// In [`Wqe::inline`].
    Inline {
        /// First byte.
        at: u32,
        /// Bytes.
        len: u32,
    },
}

impl Piece {
    /// Bytes.
    pub const fn len(self) -> u32 {
        match self {
            Self::Memory { len, .. } | Self::Inline { len, .. } => len,
        }
    }
}

/// How a WQE waits for the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fence {
    /// Not, but for their order.
    #[default]
    None,
    /// For READs and atomics.
    Reads,
    /// For everything.
    All,
}

/// A send WQE, taken apart. Kept until it has completed, then used again for another one.
#[derive(Clone, Debug, Default)]
pub struct Wqe {
    /// Index of its first basic block, 16 bits.
    pub index: u16,
    /// Basic blocks that it takes.
    pub blocks: u16,
    /// [`opcode`].
    pub opcode: u8,
    /// Opcode modifier.
    pub opmod: u8,
    /// A CQE is written also when all went well.
    pub signaled: bool,
    /// The receiver's completion is a solicited one.
    pub solicited: bool,
    /// How it waits.
    pub fence: Fence,
    /// Immediate data, key to invalidate, or key of a UMR.
    pub general_id: u32,
    /// Remote address and key.
    pub remote: (u64, u32),
    /// Operands of an atomic: swap or add, compare.
    pub atomic: (u64, u64),
    /// Destination of a datagram.
    pub av: Option<Av>,
    /// Remote SRQ; XRC.
    pub xrc_srqn: u32,
    /// Where the message is, or where a READ's or an atomic's result goes.
    pub pieces: Vec<Piece>,
    /// Inline data; of a UMR all segments behind the control segment.
    pub inline: Vec<u8>,
    /// Bytes of the message.
    pub len: u64,
}

/// What is wrong with a WQE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The index in the control segment is not where the WQE stands.
    Index(u16),
    /// The control segment names another QP.
    Qpn(u32),
    /// No units at all.
    Empty,
    /// More basic blocks than the doorbell gave.
    BeyondDoorbell(u16),
    /// The opcode does not exist, or not for this QP.
    Opcode(u8),
    /// A segment of this kind does not fit into the units counted.
    Truncated(&'static str),
    /// An atomic's result is not one piece of 8 bytes.
    AtomicResult,
    /// The message is longer than the QP allows.
    TooLong(u64),
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Index(n) => write!(f, "its control segment says index {n}"),
            Self::Qpn(n) => write!(f, "its control segment says QPN {n:#x}"),
            Self::Empty => write!(f, "its ds count is 0"),
            Self::BeyondDoorbell(n) => write!(f, "it takes {n} basic blocks, more than the doorbell record gives"),
            Self::Opcode(n) => write!(f, "opcode {n:#x} is not for this QP"),
            Self::Truncated(what) => write!(f, "its ds count leaves no room for the {what} segment"),
            Self::AtomicResult => write!(f, "the result of an atomic needs one data segment of 8 bytes"),
            Self::TooLong(n) => write!(f, "its message of {n} bytes is longer than the QP allows"),
        }
    }
}

/// What a queue expects of its WQEs.
#[derive(Clone, Copy, Debug)]
pub struct Expect {
    /// The QP.
    pub qpn: u32,
    /// Its service.
    pub service: Service,
    /// Index of the WQE.
    pub index: u16,
    /// Blocks from it on that the doorbell record gave.
    pub posted: u16,
    /// Longest message in bytes.
    pub max_len: u64,
}

/// Basic blocks that a WQE takes, from its control segment.
pub fn blocks(control: &[u8; DS]) -> u16 {
    let (seg, _) = CtrlSeg::read_from_prefix(control).expect("16 bytes");
    ((seg.qpn_ds.get() & 0x3f) as u16).div_ceil((BB / DS) as u16)
}

impl Wqe {
    /// Takes a control segment apart; tells how many bytes the whole WQE has. Even when it is refused, `index`, `blocks`,
    /// `opcode` and `signaled` are set as far as they can be told.
    pub fn parse_control(&mut self, bytes: &[u8; DS], expect: &Expect) -> Result<usize, Malformed> {
        let (seg, _) = CtrlSeg::read_from_prefix(bytes).expect("16 bytes");
        let (what, size) = (seg.opmod_idx_opcode.get(), seg.qpn_ds.get());
        self.index = expect.index;
        self.blocks = blocks(bytes).max(1);
        self.opcode = what as u8;
        self.opmod = (what >> 24) as u8;
        self.signaled = matches!(seg.fm_ce_se & ctrl::CE_MASK, ctrl::CQ_UPDATE | ctrl::CQ_UPDATE_AND_EQE);
        self.solicited = seg.fm_ce_se & ctrl::SOLICITED != 0;
        self.fence = match seg.fm_ce_se & ctrl::FENCE_MASK {
            ctrl::FENCE | ctrl::FENCE_SMALL_AND_FENCE => Fence::Reads,
            ctrl::FENCE_STRONG_ORDERING => Fence::All,
            _ => Fence::None,
        };
        self.general_id = seg.general_id.get();
        self.remote = (0, 0);
        self.atomic = (0, 0);
        self.av = None;
        self.xrc_srqn = 0;
        self.pieces.clear();
        self.inline.clear();
        self.len = 0;
        let index = (what >> 8) as u16;
        if index != expect.index {
            self.blocks = 1;
            return Err(Malformed::Index(index));
        }
        if size >> 8 != expect.qpn {
            return Err(Malformed::Qpn(size >> 8));
        }
        if size & 0x3f == 0 {
            return Err(Malformed::Empty);
        }
        if self.blocks > expect.posted {
            return Err(Malformed::BeyondDoorbell(std::mem::replace(&mut self.blocks, expect.posted)));
        }
        if !allowed(self.opcode, expect.service) {
            return Err(Malformed::Opcode(self.opcode));
        }
        Ok((size & 0x3f) as usize * DS)
    }

    /// Takes apart what comes behind the control segment.
    pub fn parse_segments(&mut self, bytes: &[u8], expect: &Expect) -> Result<(), Malformed> {
        let mut rest = bytes;
        match self.opcode {
            opcode::NOP => return Ok(()),
            opcode::UMR => {
                self.inline.extend_from_slice(rest);
                return Ok(());
            }
            _ => {}
        }
        match expect.service {
            Service::Ud | Service::Qp0 | Service::Qp1 => self.av = Some(take_av(&mut rest)?),
            Service::Xrc => self.xrc_srqn = take::<XrcSeg>(&mut rest, "XRC")?.xrc_srqn.get() & 0xff_ffff,
            Service::Rc | Service::Uc | Service::Umr => {}
        }
        if let opcode::RDMA_WRITE | opcode::RDMA_WRITE_IMM | opcode::RDMA_READ | opcode::ATOMIC_CS | opcode::ATOMIC_FA =
            self.opcode
        {
            let seg = take::<RaddrSeg>(&mut rest, "remote address")?;
            self.remote = (seg.raddr.get(), seg.rkey.get());
        }
        if self.is_atomic() {
            let seg = take::<AtomicSeg>(&mut rest, "atomic")?;
            self.atomic = (seg.swap_add.get(), seg.compare.get());
        }
        self.parse_data(rest)?;
        if self.is_atomic() && !matches!(self.pieces[..], [Piece::Memory { len: 8, .. }]) {
            return Err(Malformed::AtomicResult);
        }
        if self.opcode == opcode::RDMA_READ && !self.inline.is_empty() {
            return Err(Malformed::Opcode(self.opcode));
        }
        if self.len > expect.max_len { Err(Malformed::TooLong(self.len)) } else { Ok(()) }
    }

    fn parse_data(&mut self, mut rest: &[u8]) -> Result<(), Malformed> {
        while let Some((head, _)) = rest.split_first_chunk::<4>() {
            let count = u32::from_be_bytes(*head);
            if count & INLINE != 0 {
                let len = (count & INLINE_LENGTH_MASK) as usize;
                let whole = (4 + len).next_multiple_of(DS);
                let data = rest.get(4..4 + len).ok_or(Malformed::Truncated("inline data"))?;
                self.pieces.push(Piece::Inline { at: self.inline.len() as u32, len: len as u32 });
                self.inline.extend_from_slice(data);
                self.len += len as u64;
                rest = rest.get(whole..).ok_or(Malformed::Truncated("inline data"))?;
            } else {
                let seg = take::<DataSeg>(&mut rest, "data")?;
                // A count of 0 is 2^31 bytes.
                let len = if count == 0 { 1 << 31 } else { count };
                self.pieces.push(Piece::Memory { lkey: seg.lkey.get(), addr: seg.addr.get(), len });
                self.len += u64::from(len);
            }
        }
        Ok(())
    }

    /// Whether it is one of the two atomics.
    pub const fn is_atomic(&self) -> bool {
        matches!(self.opcode, opcode::ATOMIC_CS | opcode::ATOMIC_FA)
    }

    /// Whether it asks for data of the other side: a READ or an atomic.
    pub const fn is_fetch(&self) -> bool {
        self.is_atomic() || self.opcode == opcode::RDMA_READ
    }

    /// Whether it is executed in the device and nothing is sent.
    pub const fn is_local(&self) -> bool {
        matches!(self.opcode, opcode::NOP | opcode::UMR)
    }
}

/// Which opcodes a service knows.
fn allowed(opcode: u8, service: Service) -> bool {
    match opcode {
        opcode::NOP => true,
        opcode::UMR => matches!(service, Service::Rc | Service::Uc | Service::Xrc | Service::Umr),
        opcode::SEND | opcode::SEND_IMM => service != Service::Umr,
        opcode::RDMA_WRITE | opcode::RDMA_WRITE_IMM => matches!(service, Service::Rc | Service::Uc | Service::Xrc),
        opcode::SEND_INVAL | opcode::RDMA_READ | opcode::ATOMIC_CS | opcode::ATOMIC_FA => {
            matches!(service, Service::Rc | Service::Xrc)
        }
        _ => false,
    }
}

fn take<T: FromBytes>(rest: &mut &[u8], what: &'static str) -> Result<T, Malformed> {
    let (value, after) = T::read_from_prefix(rest).map_err(|_| Malformed::Truncated(what))?;
    *rest = after;
    Ok(value)
}

/// The datagram segment: 48 bytes, or the first 16 of them where the extension bit is not set; those cannot carry a GRH.
fn take_av(rest: &mut &[u8]) -> Result<Av, Malformed> {
    const COMPACT: usize = 16;
    let mut bytes = [0; size_of::<Av>()];
    let compact = rest.get(..COMPACT).ok_or(Malformed::Truncated("datagram"))?;
    bytes[..COMPACT].copy_from_slice(compact);
    let av = wqe::Av::read_from_bytes(&bytes).expect("48 bytes");
    if av.dqp_dct.get() & AV_EXTENDED == 0 {
        *rest = &rest[COMPACT..];
        return Ok(av);
    }
    take::<Av>(rest, "datagram")
}

/// Whether an address vector asks for a GRH.
pub fn av_has_grh(av: &Av) -> bool {
    av.grh_gid_fl.get() & AV_GRH != 0
}
