//! The public verbs, each behind a call that is not inlined, as a program sees those of a C library.

use bareverbs::{Completion, CompletionQueue, PollError, PostListError, QueuePair, RecvWr, SendWr, SharedReceiveQueue};

/// ibv_post_send.
#[inline(never)]
pub fn post_send<Q: QueuePair>(qp: &mut Q, list: &[SendWr<'_>]) -> Result<(), PostListError> {
    qp.post_send(list)
}

/// ibv_post_recv.
#[inline(never)]
pub fn post_recv<Q: QueuePair>(qp: &mut Q, list: &[RecvWr<'_>]) -> Result<(), PostListError> {
    qp.post_recv(list)
}

/// ibv_post_srq_recv.
#[inline(never)]
pub fn post_srq_recv<S: SharedReceiveQueue>(srq: &mut S, list: &[RecvWr<'_>]) -> Result<(), PostListError> {
    srq.post(list)
}

/// ibv_poll_cq.
#[inline(never)]
pub fn poll<C: CompletionQueue>(cq: &mut C, out: &mut [Completion]) -> Result<usize, PollError> {
    cq.poll(out)
}
