//! The lazy form of polling: what is not asked for is not decoded.

use crate::{cq::CqObject, cq_ring::Shown, policy::Policy};
use bareverbs::{Completion, CompletionView, PollError, Qpn, WcFlags, WcOpcode, WcStatus};
use bareverbs_hal::PciFunction;

/// Completions of a CQ one by one. The entry that is shown stays the driver's until the next step or the end of the
/// view; its request was retired when it was stepped to, so its QP may go meanwhile.
pub struct CqView<'a, H: PciFunction, P: Policy> {
    cq: &'a CqObject<H, P>,
    shown: Option<Shown>,
}

impl<'a, H: PciFunction, P: Policy> CqView<'a, H, P> {
    pub(crate) fn new(cq: &'a CqObject<H, P>) -> Self {
        Self { cq, shown: None }
    }
}

impl<H: PciFunction, P: Policy> Drop for CqView<'_, H, P> {
    fn drop(&mut self) {
        self.cq.end_view();
    }
}

impl<H: PciFunction, P: Policy> CompletionView for CqView<'_, H, P> {
    #[inline]
    fn advance(&mut self) -> Result<bool, PollError> {
        self.shown = None;
        self.shown = self.cq.advance()?;
        Ok(self.shown.is_some())
    }

    #[inline]
    fn wr_id(&self) -> u64 {
        self.shown.map_or(0, |shown| shown.wr_id)
    }

    #[inline]
    fn status(&self) -> WcStatus {
        self.shown.map_or(WcStatus::Success, |shown| shown.entry.status())
    }

    #[inline]
    fn opcode(&self) -> WcOpcode {
        self.shown.map_or(WcOpcode::Send, |shown| shown.opcode)
    }

    #[inline]
    fn byte_len(&self) -> u32 {
        self.completion().byte_len
    }

    #[inline]
    fn flags(&self) -> WcFlags {
        self.completion().flags
    }

    #[inline]
    fn imm(&self) -> u32 {
        self.completion().imm
    }

    #[inline]
    fn qpn(&self) -> Qpn {
        Qpn::new(self.shown.map_or(0, |shown| shown.qpn))
    }

    #[inline]
    fn src_qp(&self) -> Qpn {
        self.completion().src_qp
    }

    #[inline]
    fn vendor_err(&self) -> u32 {
        self.completion().vendor_err
    }

    #[inline]
    fn timestamp(&self) -> u64 {
        // The entry of a failed request has its syndrome there.
        self.shown.filter(|shown| !shown.entry.is_error()).map_or(0, |shown| shown.entry.timestamp())
    }

    #[inline]
    fn completion(&self) -> Completion {
        self.shown.map_or_else(Completion::default, |shown| shown.completion())
    }
}
