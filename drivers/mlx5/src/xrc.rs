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

/// The objects, as far as they were made, in the order in which they are made.
pub(crate) struct Unused {
    /// Two pages: the CQ and its record, the SRQ and its record.
    memory: DmaBuffer,
    pd: Option<u32>,
    xrcd: Option<u32>,
    cqn: Option<u32>,
    srqn: Option<u32>,
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
        let objects = [
            (&mut self.srqn, Opcode::DESTROY_XRC_SRQ),
            (&mut self.cqn, Opcode::DESTROY_CQ),
            (&mut self.xrcd, Opcode::DEALLOC_XRCD),
            (&mut self.pd, Opcode::DEALLOC_PD),
        ];
        objects.into_iter().find_map(|(number, opcode)| Some((opcode, number.take()?)))
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

impl Control {
    /// The objects' numbers; those that are not there yet are made.
    pub(crate) fn unused<H: PciFunction>(&mut self, hal: &H) -> Result<Numbers, Error> {
        if self.unused.is_none() {
            let memory = hal.dma_alloc(2 * PAGE_SIZE, PAGE_SIZE).map_err(platform)?;
            self.unused = Some(Unused { memory, pd: None, xrcd: None, cqn: None, srqn: None });
        }
        let pd = self.make(hal, |unused| &mut unused.pd, Self::make_pd)?;
        let xrcd = self.make(hal, |unused| &mut unused.xrcd, Self::make_xrcd)?;
        let cqn = self.make(hal, |unused| &mut unused.cqn, Self::make_cq)?;
        let srqn = self.make(
            hal,
            |unused| &mut unused.srqn,
            |control, hal, at| control.make_srq(hal, at + PAGE_SIZE as u64, Numbers { pd, xrcd, cqn, srqn: 0 }),
        )?;
        Ok(Numbers { pd, xrcd, cqn, srqn })
    }

    /// The number of one of them. `make` is told where the memory begins.
    fn make<H: PciFunction>(
        &mut self,
        hal: &H,
        which: fn(&mut Unused) -> &mut Option<u32>,
        make: impl FnOnce(&mut Self, &H, u64) -> Result<u32, Error>,
    ) -> Result<u32, Error> {
        let gone = Error::NotReady("the device is closed");
        let unused = self.unused.as_mut().ok_or(gone)?;
        let at = unused.memory.addr;
        if let Some(number) = *which(unused) {
            return Ok(number);
        }
        let number = make(self, hal, at)?;
        *which(self.unused.as_mut().ok_or(gone)?) = Some(number);
        Ok(number)
    }

    fn make_pd<H: PciFunction>(&mut self, hal: &H, _at: u64) -> Result<u32, Error> {
        let mut out = [0; alloc_pd::OUT_LEN];
        self.execute(hal, Opcode::ALLOC_PD, 0, &mut [0; alloc_pd::IN_LEN], &PageList::None, &mut out)?;
        Ok(alloc_pd::out::PD.get(&out))
    }

    fn make_xrcd<H: PciFunction>(&mut self, hal: &H, _at: u64) -> Result<u32, Error> {
        let mut out = [0; alloc_xrcd::OUT_LEN];
        self.execute(hal, Opcode::ALLOC_XRCD, 0, &mut [0; alloc_xrcd::IN_LEN], &PageList::None, &mut out)?;
        Ok(alloc_xrcd::out::XRCD.get(&out))
    }

    /// A CQ in the page at `at`. PRM: CREATE_CQ.
    fn make_cq<H: PciFunction>(&mut self, hal: &H, at: u64) -> Result<u32, Error> {
        const CQC: usize = create_cq::CQC;
        let gone = Error::NotReady("the device is closed");
        let uar = self.uar.as_ref().ok_or(gone)?.number;
        let eqn = self.eqs.get(1).and_then(|eq| eq.number).ok_or(gone)?;
        let mut input = [0; create_cq::IN_LEN];
        cqc::LOG_CQ_SIZE.at(CQC).set(&mut input, LOG_ENTRIES);
        cqc::UAR_PAGE.at(CQC).set(&mut input, uar);
        cqc::C_EQN.at(CQC).set(&mut input, eqn.into());
        cqc::DBR_ADDR.at(CQC).set(&mut input, at + RECORD);
        let mut out = [0; create_cq::OUT_LEN];
        self.execute(hal, create_cq::OPCODE, 0, &mut input, &page(at), &mut out)?;
        Ok(create_cq::out::CQN.get(&out))
    }

    /// An SRQ in the page at `at`. PRM: CREATE_XRC_SRQ.
    fn make_srq<H: PciFunction>(&mut self, hal: &H, at: u64, numbers: Numbers) -> Result<u32, Error> {
        const SRQC: usize = create_xrc_srq::XRC_SRQC;
        let mut input = [0; create_xrc_srq::IN_LEN];
        xrc_srqc::LOG_XRC_SRQ_SIZE.at(SRQC).set(&mut input, LOG_ENTRIES);
        // 32 bytes: the link and one element.
        xrc_srqc::LOG_RQ_STRIDE.at(SRQC).set(&mut input, 1);
        xrc_srqc::XRCD.at(SRQC).set(&mut input, numbers.xrcd);
        xrc_srqc::CQN.at(SRQC).set(&mut input, numbers.cqn);
        xrc_srqc::USER_INDEX.at(SRQC).set(&mut input, xrc_srqc::USER_INDEX.max());
        xrc_srqc::PD.at(SRQC).set(&mut input, numbers.pd);
        xrc_srqc::DBR_ADDR.at(SRQC).set(&mut input, at + RECORD);
        let mut out = [0; create_xrc_srq::OUT_LEN];
        self.execute(hal, create_xrc_srq::OPCODE, 0, &mut input, &page(at), &mut out)?;
        Ok(create_xrc_srq::out::XRC_SRQN.get(&out))
    }
}

/// One page.
fn page(addr: u64) -> PageList<'static> {
    PageList::Contiguous { addr, count: 1, log_page: PAGE_SIZE.trailing_zeros() }
}
