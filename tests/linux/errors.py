"""Errors judged: what Linux's own libraries read out of completions when something goes wrong on purpose, and that no
byte moved which should not have.

    errors.py CASE...

The vendor's byte beside a status is nowhere specified; the ones here are those that reports of real cards show.
"""

from pyverbs.addr import AH
from pyverbs.pd import PD
from pyverbs.qp import QPAttr
from pyverbs.wr import SGE, SendWR

from verbs import ALL, PORT, QKEY, Buffer, check, e, main, pair, receive, send

SIZE = 5000


def status(node, want, vendor=None, count=1):
    """The next completion has this status, and the vendor's byte."""
    wc = node.completions(count)[-1]
    check(wc.status == want, f"{node.name}: status {wc.status} instead of {want}")
    if vendor is not None:
        check(wc.vendor_err == vendor, f"{node.name}: vendor error {wc.vendor_err:#x} instead of {vendor:#x}")
    return wc


def state(qp, want):
    attr, _ = qp.query(e.IBV_QP_STATE)
    check(attr.qp_state == want, f"the queue pair is in state {attr.qp_state} instead of {want}")


def refused(a, b, opcode, remote, access=ALL):
    """A request that the other side refuses: both queue pairs fail, what waits is flushed, and no byte moves."""
    out, into = pair(a, b)
    here, there = a.buffer(SIZE), b.buffer(SIZE, access)
    receive(into, [there.sge(0, 100)], wr_id=1)
    send(out, opcode, [here.sge(0, SIZE)], remote=remote(there), wr_id=2)
    send(out, e.IBV_WR_SEND, [here.sge(0, 10)], wr_id=3)
    wc = status(a, e.IBV_WC_REM_ACCESS_ERR, 0x88)
    check(wc.wr_id == 2, f"request {wc.wr_id} failed instead of 2")
    check(status(a, e.IBV_WC_WR_FLUSH_ERR).wr_id == 3, "what was behind it was not flushed")
    check(status(b, e.IBV_WC_WR_FLUSH_ERR).wr_id == 1, "the responder's receive was not flushed")
    state(out, e.IBV_QPS_ERR), state(into, e.IBV_QPS_ERR)
    here.check(), there.check()


def wrong_rkey_write(a, b):
    refused(a, b, e.IBV_WR_RDMA_WRITE, lambda there: (there.mr.rkey ^ 0x100000, there.base))


def wrong_rkey_variant(a, b):
    refused(a, b, e.IBV_WR_RDMA_WRITE, lambda there: (there.mr.rkey ^ 1, there.base))


def wrong_rkey_read(a, b):
    refused(a, b, e.IBV_WR_RDMA_READ, lambda there: (there.mr.rkey ^ 0x100000, there.base))


def write_one_byte_too_far(a, b):
    refused(a, b, e.IBV_WR_RDMA_WRITE, lambda there: (there.mr.rkey, there.base + 1))


def write_before_the_region(a, b):
    refused(a, b, e.IBV_WR_RDMA_WRITE, lambda there: (there.mr.rkey, there.base - 1))


def read_too_far(a, b):
    refused(a, b, e.IBV_WR_RDMA_READ, lambda there: (there.mr.rkey, there.base + 1))


def write_not_allowed(a, b):
    access = ALL & ~e.IBV_ACCESS_REMOTE_WRITE
    refused(a, b, e.IBV_WR_RDMA_WRITE, lambda there: (there.mr.rkey, there.base), access)


def read_not_allowed(a, b):
    access = ALL & ~e.IBV_ACCESS_REMOTE_READ
    refused(a, b, e.IBV_WR_RDMA_READ, lambda there: (there.mr.rkey, there.base), access)


def other_protection_domain(a, b):
    """The key is right, but of a domain that the queue pair is not in."""
    other = Buffer(PD(b.context), b.rng, SIZE)
    refused(a, b, e.IBV_WR_RDMA_WRITE, lambda _: (other.mr.rkey, other.base))
    other.check()


def deregistered(a, b):
    """A region's key does not outlive it."""
    gone = b.buffer(SIZE)
    remote = (gone.mr.rkey, gone.base)
    gone.mr.close()
    refused(a, b, e.IBV_WR_RDMA_WRITE, lambda _: remote)
    gone.check()


def short_receive(a, b):
    """A message longer than its receive: nothing behind the receive's end is touched."""
    out, into = pair(a, b)
    here, there = a.buffer(SIZE), b.buffer(SIZE)
    receive(into, [there.sge(0, 100)])
    send(out, e.IBV_WR_SEND, [here.sge(0, 101)])
    status(a, e.IBV_WC_REM_INV_REQ_ERR, 0x8A)
    status(b, e.IBV_WC_LOC_LEN_ERR, 0x6A)
    state(into, e.IBV_QPS_ERR)
    # What the receive itself had room for may have been written.
    there.ignore(0, 100)
    here.check(), there.check()


def wrong_lkey(a, b):
    """The sender's own key: found out before anything is sent."""
    out, into = pair(a, b)
    here, there = a.buffer(SIZE), b.buffer(SIZE)
    receive(into, [there.sge(0, SIZE)])
    send(out, e.IBV_WR_SEND, [SGE(here.base, 10, here.mr.lkey ^ 0x100000)])
    status(a, e.IBV_WC_LOC_PROT_ERR, 0x53)
    b.nothing_more()
    there.check()


def receive_without_right(a, b):
    """The receiver's region may not be written."""
    out, into = pair(a, b)
    here, there = a.buffer(SIZE), b.buffer(SIZE, 0)
    receive(into, [there.sge(0, SIZE)])
    send(out, e.IBV_WR_SEND, [here.sge(0, 10)])
    status(a, e.IBV_WC_REM_OP_ERR, 0x89)
    status(b, e.IBV_WC_LOC_PROT_ERR, 0x33)
    there.check()


def rnr(a, b):
    """Nothing is posted, and nobody tries again."""
    out, into = pair(a, b, rnr_retry=0)
    here = a.buffer(SIZE)
    send(out, e.IBV_WR_SEND, [here.sge(0, 10)])
    status(a, e.IBV_WC_RNR_RETRY_EXC_ERR, 0x87)
    state(out, e.IBV_QPS_ERR), state(into, e.IBV_QPS_RTS)


def rnr_then_posted(a, b):
    """Nothing is posted yet, and the sender tries until something is."""
    out, into = pair(a, b, rnr_retry=7, min_rnr_timer=1)
    here, there = a.buffer(SIZE), b.buffer(SIZE)
    send(out, e.IBV_WR_SEND, [here.sge(0, SIZE)])
    a.nothing_more()
    receive(into, [there.sge(0, SIZE)])
    there.expect(0, here.bytes(0, SIZE))
    a.succeed(), b.succeed()
    there.check()


def dead_peer(a, b):
    """Nobody is there any more: the sender gives up after its retries."""
    out, into = pair(a, b, timeout=8, retry_cnt=2)
    here = a.buffer(SIZE)
    into.close()
    send(out, e.IBV_WR_SEND, [here.sge(0, 10)])
    status(a, e.IBV_WC_RETRY_EXC_ERR, 0x81)
    state(out, e.IBV_QPS_ERR)


def flushed(a, b):
    """A queue pair that is moved to the error state gives back all that waits in it."""
    out, into = pair(a, b)
    there = b.buffer(SIZE)
    for n in range(10):
        receive(into, [there.sge(n, 1)], wr_id=n)
    into.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
    found = b.completions(10)
    check([wc.wr_id for wc in found] == list(range(10)), "receives were flushed in another order")
    check(all(wc.status == e.IBV_WC_WR_FLUSH_ERR for wc in found), "a flushed receive has another status")
    there.check()


def wrong_qkey(a, b):
    """A datagram with another Q_Key vanishes; the next one with the right key arrives."""
    out, into = a.qp(e.IBV_QPT_UD), b.qp(e.IBV_QPT_UD)
    for qp in (out, into):
        attr = QPAttr(port_num=PORT)
        attr.qkey = QKEY
        qp.to_rts(attr)
    src, dst = a.buffer(100), b.buffer(200)
    receive(into, [dst.sge(0, 200)])
    for key, at in ((QKEY ^ 1, 0), (QKEY, 50)):
        wr = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[src.sge(at, 50)])
        wr.set_wr_ud(AH(a.pd, attr=a.address_of(b)), into.qp_num, key)
        out.post_send(wr)
        a.succeed()
    dst.expect(40, src.bytes(50, 50))
    b.succeed()
    b.nothing_more()
    dst.ignore(0, 40)
    dst.check()


CASES = [
    wrong_rkey_write, wrong_rkey_variant, wrong_rkey_read, write_one_byte_too_far, write_before_the_region, read_too_far,
    write_not_allowed, read_not_allowed, other_protection_domain, deregistered, short_receive, wrong_lkey,
    receive_without_right, rnr, rnr_then_posted, dead_peer, flushed, wrong_qkey,
]  # fmt: skip

if __name__ == "__main__":
    main({case.__name__: case for case in CASES})
