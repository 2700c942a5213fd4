"""Memory windows and invalidation judged: what a window opens, to whom, and until when.

    windows.py CASE...
"""

from pyverbs.mr import MW, MWBind, MWBindInfo
from pyverbs.wr import SendWR

from verbs import check, e, main, pair, receive, send

SIZE = 8192
# Peers have no right to the region itself: a window gives them one.
CLOSED = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_MW_BIND
WRITE, READ = e.IBV_ACCESS_REMOTE_WRITE, e.IBV_ACCESS_REMOTE_READ
# What the window shows of the region.
FIRST, LENGTH = 1000, 3000


def world(a, b):
    out, into = pair(a, b)
    return out, into, a.buffer(SIZE), b.buffer(SIZE, CLOSED)


def bind_1(node, qp, window, buffer, access, at=FIRST, length=LENGTH):
    info = MWBindInfo(buffer.mr, buffer.base + at, length, access)
    qp.bind_mw(window, MWBind(info, e.IBV_SEND_SIGNALED))
    wc = node.succeed()[0]
    check(wc.opcode == e.IBV_WC_BIND_MW, f"opcode {wc.opcode} of a bind")


def bind_2(qp, window, buffer, access, at=FIRST, length=LENGTH):
    """Posts a bind, and tells the key that it gives."""
    wr = SendWR(opcode=e.IBV_WR_BIND_MW)
    wr.set_bind_wr(window, MWBindInfo(buffer.mr, buffer.base + at, length, access))
    qp.post_send(wr)
    return wr.rkey


def invalidate(qp, opcode, rkey):
    wr = SendWR(opcode=opcode)
    wr.imm_data = rkey
    qp.post_send(wr)


def write(a, out, here, there, rkey, at, length):
    """A write by this key arrives."""
    there.expect(at, here.bytes(at, length))
    send(out, e.IBV_WR_RDMA_WRITE, [here.sge(at, length)], remote=(rkey, there.base + at))
    a.succeed()
    there.check()


def refused(a, out, here, there, rkey, at, length, opcode=e.IBV_WR_RDMA_WRITE):
    """A request by this key fails, and moves no byte."""
    send(out, opcode, [here.sge(0, length)], remote=(rkey, there.base + at))
    wc = a.completions(1)[0]
    check(wc.status == e.IBV_WC_REM_ACCESS_ERR, f"status {wc.status} instead of a remote access error")
    here.check(), there.check()


def type_1(a, b):
    """Each bind gives a new key, and the one before it is worth nothing any more."""
    out, into, here, there = world(a, b)
    window = MW(b.pd, e.IBV_MW_TYPE_1)
    bind_1(b, into, window, there, WRITE)
    first = window.rkey
    write(a, out, here, there, first, FIRST, LENGTH)
    bind_1(b, into, window, there, WRITE, at=0, length=500)
    check(window.rkey != first, "a bind did not change the key")
    write(a, out, here, there, window.rkey, 0, 500)
    refused(a, out, here, there, first, FIRST, 8)
    window.close()


def type_1_edges(a, b):
    for at, length in ((FIRST - 1, 2), (FIRST + LENGTH - 1, 2), (FIRST + LENGTH, 1)):
        out, into, here, there = world(a, b)
        window = MW(b.pd, e.IBV_MW_TYPE_1)
        bind_1(b, into, window, there, WRITE)
        refused(a, out, here, there, window.rkey, at, length)


def type_1_unbound(a, b):
    """A bind of no bytes closes the window; one that was never bound is closed."""
    for bound in (False, True):
        out, into, here, there = world(a, b)
        window = MW(b.pd, e.IBV_MW_TYPE_1)
        if bound:
            bind_1(b, into, window, there, WRITE)
            write(a, out, here, there, window.rkey, FIRST, 8)
            bind_1(b, into, window, there, 0, length=0)
        refused(a, out, here, there, window.rkey, FIRST, 8)


def rights(a, b):
    """A window gives the rights that it was bound with, and no others."""
    out, into, here, there = world(a, b)
    window = MW(b.pd, e.IBV_MW_TYPE_1)
    bind_1(b, into, window, there, READ)
    here.expect(0, there.bytes(FIRST, LENGTH))
    send(out, e.IBV_WR_RDMA_READ, [here.sge(0, LENGTH)], remote=(window.rkey, there.base + FIRST))
    a.succeed()
    here.check()
    refused(a, out, here, there, window.rkey, FIRST, 8)
    out, into, here, there = world(a, b)
    bind_1(b, into, window, there, WRITE)
    refused(a, out, here, there, window.rkey, FIRST, 8, e.IBV_WR_RDMA_READ)


def type_2(a, b):
    """The window belongs to the queue pair that bound it: by any other it cannot be reached."""
    out, into, here, there = world(a, b)
    window = MW(b.pd, e.IBV_MW_TYPE_2)
    rkey = bind_2(into, window, there, WRITE)
    check(b.succeed()[0].opcode == e.IBV_WC_BIND_MW, "opcode of a bind")
    write(a, out, here, there, rkey, FIRST, LENGTH)
    other, _ = pair(a, b)
    refused(a, other, here, there, rkey, FIRST, 8)
    write(a, out, here, there, rkey, FIRST + 10, 20)


def type_2_bound_twice(a, b):
    """A window of type 2 that is bound cannot be bound again."""
    out, into, here, there = world(a, b)
    window = MW(b.pd, e.IBV_MW_TYPE_2)
    bind_2(into, window, there, WRITE)
    b.succeed()
    bind_2(into, window, there, WRITE, at=0)
    wc = b.completions(1)[0]
    check(wc.status == e.IBV_WC_MW_BIND_ERR, f"status {wc.status} instead of a bind error")


def local_invalidate(a, b):
    out, into, here, there = world(a, b)
    window = MW(b.pd, e.IBV_MW_TYPE_2)
    rkey = bind_2(into, window, there, WRITE)
    b.succeed()
    write(a, out, here, there, rkey, FIRST, LENGTH)
    invalidate(into, e.IBV_WR_LOCAL_INV, rkey)
    check(b.succeed()[0].opcode == e.IBV_WC_LOCAL_INV, "opcode of an invalidation")
    refused(a, out, here, there, rkey, FIRST, 8)


def send_with_invalidate(a, b):
    """The other side gives the window back; it can be bound anew then."""
    out, into, here, there = world(a, b)
    window = MW(b.pd, e.IBV_MW_TYPE_2)
    rkey = bind_2(into, window, there, WRITE)
    b.succeed()
    write(a, out, here, there, rkey, FIRST, LENGTH)
    receive(into, [there.sge(0, 10)], wr_id=5)
    invalidate(out, e.IBV_WR_SEND_WITH_INV, rkey)
    a.succeed()
    wc = b.succeed()[0]
    check(wc.wr_id == 5 and wc.wc_flags & e.IBV_WC_WITH_INV, f"receive {wc.wr_id}, flags {wc.wc_flags:#x}")
    check(wc.imm_data == rkey, f"key {wc.imm_data:#x} was invalidated instead of {rkey:#x}")
    again = bind_2(into, window, there, WRITE, at=0, length=100)
    b.succeed()
    write(a, out, here, there, again, 0, 100)
    refused(a, out, here, there, again, FIRST, 8)


def not_to_be_invalidated(a, b):
    """A peer cannot invalidate a region, nor a window of type 1."""
    for kind in ("region", "window"):
        out, into, here, there = world(a, b)
        window = MW(b.pd, e.IBV_MW_TYPE_1)
        bind_1(b, into, window, there, WRITE)
        receive(into, [there.sge(0, 10)])
        invalidate(out, e.IBV_WR_SEND_WITH_INV, there.mr.rkey if kind == "region" else window.rkey)
        wc = a.completions(1)[0]
        check(wc.status != e.IBV_WC_SUCCESS, f"a {kind} was invalidated")
        b.completions(1)


CASES = [type_1, type_1_edges, type_1_unbound, rights, type_2, type_2_bound_twice, local_invalidate]
CASES += [send_with_invalidate, not_to_be_invalidated]

if __name__ == "__main__":
    main({case.__name__: case for case in CASES})
