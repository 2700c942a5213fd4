//! What an XRC QP names and never uses: its context wants a CQ and an SRQ for receives that it does not have, a sender's
//! wants a domain, a target's a protection domain. Linux makes one of each for all (mlx5_ib: `mlx5_ib_dev_res_init`).

use crate::{cmd::PageList, control::Control, error::platform};
use bareverbs::Error;
use bareverbs_hal::{DmaBuffer, PAGE_SIZE, PciFunction};
use bareverbs_mlx5_prm::{
    cmd::Opcode,
    commands::{alloc_pd, alloc_xrcd, create_cq, create_xrc_srq},
    context::{cqc, xrc_srqc},
};

/// Where in each page the doorbell record lies, far behind the ring.
const RECORD: u64 = 2048;
/// Logs of the ring's entries: the smallest that hold one.
const LOG_ENTRIES: u32 = 1;

/// The objects, in the order in which they are made.
const OBJECTS: [(Opcode, Opcode); 4] = [
    (Opcode::ALLOC_PD, Opcode::DEALLOC_PD),
    (Opcode::ALLOC_XRCD, Opcode::DEALLOC_XRCD),
    (Opcode::CREATE_CQ, Opcode::DESTROY_CQ),
    (Opcode::CREATE_XRC_SRQ, Opcode::DESTROY_XRC_SRQ),
];

/// The objects, as far as they were made.
pub(crate) struct Unused {
    /// Two pages: the CQ and its record, the SRQ and its record.
    memory: DmaBuffer,
    numbers: [u32; OBJECTS.len()],
    made: usize,
}

/// Their numbers.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) pd: u32,
    pub(crate) xrcd: u32,
    pub(crate) cqn: u32,
    pub(crate) srqn: u32,
}

impl Unused {
    /// Forgets the newest object, and tells how it is destroyed.
    pub(crate) fn take_last(&mut self) -> Option<(Opcode, u32)> {
        let last = self.made.checked_sub(1)?;
        self.made = last;
        Some((OBJECTS.get(last)?.1, *self.numbers.get(last)?))
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// The device does not use it any more.
    pub(crate) unsafe fn free<H: PciFunction>(self, hal: &H) {
        // SAFETY: the caller's promise.
        unsafe { hal.dma_free(self.memory) }
    }
}

// The four commands differ in what they take, not in where their headers are and where they tell the number.
const _: () = assert!(create_cq::IN_LEN == create_xrc_srq::IN_LEN && alloc_pd::IN_LEN == alloc_xrcd::IN_LEN);
const OUT_LEN: usize = alloc_pd::OUT_LEN;
const _: () = assert!(OUT_LEN == alloc_xrcd::OUT_LEN && OUT_LEN == create_cq::OUT_LEN);
const _: () = assert!(OUT_LEN == create_xrc_srq::OUT_LEN);

impl Control {
    /// The objects' numbers; those that are not there yet are made.
    pub(crate) fn unused<H: PciFunction>(&mut self, hal: &H) -> Result<Numbers, Error> {
        let gone = Error::NotReady("the device is closed");
        let uar = self.uar.as_ref().ok_or(gone)?.number;
        let eqn = self.eqs.get(1).and_then(|eq| eq.number).ok_or(gone)?;
        if self.unused.is_none() {
            let memory = hal.dma_alloc(2 * PAGE_SIZE, PAGE_SIZE).map_err(platform)?;
            self.unused = Some(Unused { memory, numbers: [0; OBJECTS.len()], made: 0 });
        }
        loop {
            let Some(Unused { memory, numbers: [pd, xrcd, cqn, srqn], made }) = &self.unused else { return Err(gone) };
            let numbers = Numbers { pd: *pd, xrcd: *xrcd, cqn: *cqn, srqn: *srqn };
            let Some(&(opcode, _)) = OBJECTS.get(*made) else { return Ok(numbers) };
            let mut input = [0; create_cq::IN_LEN];
            let (mut len, mut pages, mut page) = (create_cq::IN_LEN, PageList::None, memory.addr);
            match opcode {
                Opcode::CREATE_CQ => cq(&mut input, page, uar, eqn),
                Opcode::CREATE_XRC_SRQ => {
                    page += PAGE_SIZE as u64;
                    srq(&mut input, page, numbers);
                }
                _ => len = alloc_pd::IN_LEN,
            }
            if len == create_cq::IN_LEN {
                pages = PageList::Contiguous { addr: page, count: 1, log_page: PAGE_SIZE.trailing_zeros() };
            }
            let mut out = [0; OUT_LEN];
            self.execute(hal, opcode, 0, input.get_mut(..len).unwrap_or_default(), &pages, &mut out)?;
            if let Some(unused) = &mut self.unused
                && let Some(number) = unused.numbers.get_mut(unused.made)
            {
                *number = alloc_pd::out::PD.get(&out);
                unused.made += 1;
            }
        }
    }
}

/// A CQ in the page at `at`. PRM: CREATE_CQ.
fn cq(input: &mut [u8; create_cq::IN_LEN], at: u64, uar: u32, eqn: u8) {
    const CQC: usize = create_cq::CQC;
    cqc::LOG_CQ_SIZE.at(CQC).set(input, LOG_ENTRIES);
    cqc::UAR_PAGE.at(CQC).set(input, uar);
    cqc::C_EQN.at(CQC).set(input, eqn.into());
    cqc::DBR_ADDR.at(CQC).set(input, at + RECORD);
}

/// An SRQ in the page at `at`. PRM: CREATE_XRC_SRQ.
fn srq(input: &mut [u8; create_xrc_srq::IN_LEN], at: u64, numbers: Numbers) {
    const SRQC: usize = create_xrc_srq::XRC_SRQC;
    xrc_srqc::LOG_XRC_SRQ_SIZE.at(SRQC).set(input, LOG_ENTRIES);
    // 32 bytes: the link and one element.
    xrc_srqc::LOG_RQ_STRIDE.at(SRQC).set(input, 1);
    xrc_srqc::XRCD.at(SRQC).set(input, numbers.xrcd);
    xrc_srqc::CQN.at(SRQC).set(input, numbers.cqn);
    xrc_srqc::USER_INDEX.at(SRQC).set(input, xrc_srqc::USER_INDEX.max());
    xrc_srqc::PD.at(SRQC).set(input, numbers.pd);
    xrc_srqc::DBR_ADDR.at(SRQC).set(input, at + RECORD);
}
