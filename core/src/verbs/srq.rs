//! Shared receive queues.

use super::{Handle, push_all};
use crate::{Error, PostError, PostListError, RecvWr, SrqAttr, Srqn};
use core::borrow::Borrow;

/// A shared receive queue.
pub trait SharedReceiveQueue: Handle {
    /// Its number, by which events name it.
    fn srqn(&self) -> Srqn;

    /// The user's own word.
    fn context(&self) -> u64;

    /// Actual sizes and the limit that is armed (ibv_query_srq).
    fn query(&mut self) -> Result<SrqAttr, Error>;

    /// Arms the limit (ibv_modify_srq, IBV_SRQ_LIMIT).
    fn set_limit(&mut self, limit: u32) -> Result<(), Error>;

    /// Makes it hold at least `max_wr` requests (ibv_modify_srq, IBV_SRQ_MAX_WR).
    fn resize(&mut self, max_wr: u32) -> Result<(), Error>;

    /// Writes one request to the ring; [`ring`](Self::ring) tells the device.
    fn push(&mut self, wr: &RecvWr<'_>) -> Result<(), PostError>;

    /// Tells the device of all requests pushed since.
    fn ring(&mut self);

    /// Posts a list with one doorbell (ibv_post_srq_recv).
    #[inline]
    fn post<'a>(&mut self, list: impl IntoIterator<Item: Borrow<RecvWr<'a>>>) -> Result<(), PostListError> {
        let result = push_all(list, |wr| self.push(wr.borrow()));
        self.ring();
        result
    }
}
