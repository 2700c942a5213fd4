//! What send and receive queues of the raw packet path have in common: their memory, their doorbell record, their
//! states.

use bareverbs_harness::model::{Bus, DmaFault};
use bareverbs_mlx5_prm::{
    cmd::Status,
    context::{rqc, sqc, wq},
    field::Field,
};

use crate::{
    hca::Hca,
    hca_cap::LOG_MAX_QP_SZ,
    refusal::{Outcome, Refused, require},
    ring::{self, PageList},
};

/// States, as SQ and RQ contexts count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WqState {
    /// Nothing is executed.
    #[default]
    Reset,
    /// Work is done.
    Ready,
    /// Something failed; WQEs are flushed where the context asks for it.
    Error,
}

impl WqState {
    /// From the context's code.
    pub fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            sqc::state::RST => Some(Self::Reset),
            sqc::state::RDY => Some(Self::Ready),
            sqc::state::ERR => Some(Self::Error),
            _ => None,
        }
    }

    /// The context's code.
    pub fn to_raw(self) -> u32 {
        match self {
            Self::Reset => rqc::state::RST,
            Self::Ready => rqc::state::RDY,
            Self::Error => rqc::state::ERR,
        }
    }

    /// The state that MODIFY_SQ or MODIFY_RQ asks for, if it may come after this one. `current` is what the command
    /// says of the present.
    pub fn to(self, current: u32, wanted: u32) -> Outcome<Self> {
        let (has, is) = (Self::from_raw(current), self);
        require(has == Some(is), Status::BadResourceState, 0x1300, format_args!("in state {is:?}, not {current}"))?;
        match (self, Self::from_raw(wanted)) {
            (_, Some(new)) if new == self => Ok(new),
            (_, Some(new @ (Self::Error | Self::Reset))) => Ok(new),
            (Self::Reset, Some(new @ Self::Ready)) => Ok(new),
            _ => Err(Refused::new(Status::BadResourceState, 0x1301, format_args!("from {is:?} to state {wanted}"))),
        }
    }
}

/// A work queue.
#[derive(Clone, Debug)]
pub struct WorkQueue {
    /// Log of the WQEs; of a send queue, of the basic blocks.
    pub log_size: u32,
    /// Log of the bytes of one.
    pub log_stride: u32,
    /// WQE memory.
    pub memory: PageList,
    /// Doorbell record: receive counter at +0, send counter at +4.
    pub dbr: u64,
    /// Protection domain.
    pub pd: u32,
    /// Next to execute, 16 bits.
    pub consumer: u16,
}

/// Fields of the work queue that ask for something that is not advertised.
const ABSENT: &[Field] = &[
    wq::WQ_SIGNATURE,
    wq::CD_SLAVE,
    wq::LWM,
    wq::DBR_UMEM_VALID,
    wq::WQ_UMEM_VALID,
    wq::LOG_WQE_NUM_OF_STRIDES,
    wq::TWO_BYTE_SHIFT_EN,
];

impl WorkQueue {
    /// The work queue at the end of a context; `pas` are the page addresses behind it.
    pub fn parse(hca: &Hca, ctx: &[u8], pas: &[u8], strides: std::ops::RangeInclusive<u32>) -> Outcome<Self> {
        let kind = wq::WQ_TYPE.get(ctx);
        let cyclic = kind == wq::wq_type::CYCLIC;
        require(cyclic, Status::BadParameter, 0x1302, format_args!("work queues of type {kind} are not advertised"))?;
        let zero = ABSENT.iter().all(|field| field.get(ctx) == 0);
        require(zero, Status::BadParameter, 0x1303, "the queue asks for something that is not advertised")?;
        let (log_size, log_stride) = (wq::LOG_WQ_SZ.get(ctx), wq::LOG_WQ_STRIDE.get(ctx));
        let (max, fits) = (LOG_MAX_QP_SZ, strides.contains(&log_stride));
        require(log_size <= max, Status::BadParameter, 0x1304, format_args!("2^{log_size} WQEs, at most 2^{max}"))?;
        require(fits, Status::BadParameter, 0x1305, format_args!("WQEs of 2^{log_stride} bytes, {strides:?} fit"))?;
        let dbr = wq::DBR_ADDR.get(ctx);
        let fine = dbr != 0 && dbr.is_multiple_of(8) && !hca.pages.touches(dbr, 8);
        require(fine, Status::BadParameter, 0x1306, format_args!("doorbell record at {dbr:#x}"))?;
        // Linux 6.1 names no PD for the queue that drops (mlx5e_build_drop_rq_param); PD 0 reaches no memory here.
        let pd = wq::PD.get(ctx);
        let known = hca.pds.contains_key(&pd) || pd == 0;
        require(known, Status::BadResource, 0x1307, format_args!("no PD {pd:#x}"))?;
        let (log_page, offset) = (wq::LOG_WQ_PG_SZ.get(ctx), wq::PAGE_OFFSET.get(ctx));
        let memory = ring::from_command(&hca.pages, pas, log_page, offset, 1 << (log_size + log_stride))?;
        Ok(Self { log_size, log_stride, memory, dbr, pd, consumer: 0 })
    }

    /// WQEs that fit.
    pub fn size(&self) -> u32 {
        1 << self.log_size
    }

    /// Bytes of a WQE.
    pub fn stride(&self) -> usize {
        1 << self.log_stride
    }

    /// Where a WQE lies, in bytes from the queue's start.
    pub fn at(&self, index: u16) -> u64 {
        u64::from(u32::from(index) & (self.size() - 1)) << self.log_stride
    }

    /// Reads a word of the doorbell record: how many were posted, 16 bits.
    pub fn posted(&self, bus: &mut dyn Bus, word: u64) -> Result<u16, DmaFault> {
        let mut bytes = [0; 4];
        bus.read(self.dbr + word, &mut bytes)?;
        Ok(u16::from_be_bytes([bytes[2], bytes[3]]))
    }
}
