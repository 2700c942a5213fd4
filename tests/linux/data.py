#!/usr/bin/env python3
"""Moves seeded bytes between two cards of this guest, and compares all memory that either could have touched.

usage: data.py CASE [CARD CARD [GID-INDEX]]; the seed is $SEED or 1. The exit status is 1 on a mismatch, or if a
completion has another status than it should have.
"""

import os
import random
import sys
import time

from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr, SrqInitAttrEx
from pyverbs.wr import RecvWR, SGE, SendWR
from pyverbs.xrcd import XRCD, XRCDInitAttr

try:
    import pyverbs.libibverbs_enums as e
except ImportError:
    import pyverbs.enums as e

SEED = int(os.environ.get("SEED", "1"))
RANDOM = random.Random(SEED)
SIZES = [1, 2, 63, 64, 65, 255, 256, 1023, 1024, 1025, 4095, 4096, 4097, 20000, 65536, 65537, 300001]
# Bytes of a region: more than the largest message, so that much around it must not change.
REGION = 400000
LIMIT = 60
QKEY = 0x11111111


class Wrong(Exception):
    """What was expected did not happen."""


def check(ok, what):
    if not ok:
        raise Wrong(what)


class Region:
    """Registered memory, and what it should hold."""

    def __init__(self, pd, size=REGION, access=None):
        if access is None:
            access = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
                      | e.IBV_ACCESS_REMOTE_ATOMIC)
        self.mr = MR(pd, size, access)
        self.size = size
        self.shadow = bytearray(RANDOM.randbytes(size))
        self.mr.write(bytes(self.shadow), size)

    def sge(self, at, length):
        return SGE(self.mr.buf + at, length, self.mr.lkey)

    def sges(self, at, length, pieces):
        """The range in some pieces."""
        cuts = sorted(RANDOM.sample(range(1, length), min(pieces - 1, length - 1)))
        ends = cuts + [length]
        return [self.sge(at + a, b - a) for a, b in zip([0] + cuts, ends)]

    def expect(self, at, data):
        self.shadow[at:at + len(data)] = data

    def judge(self, what):
        got = self.mr.read(self.size, 0)
        if got != bytes(self.shadow):
            at = next(i for i in range(self.size) if got[i] != self.shadow[i])
            raise Wrong(f"{what}: byte {at} is {got[at]:#04x} instead of {self.shadow[at]:#04x}")


class End:
    """A card, with one CQ."""

    def __init__(self, card, gid_index):
        self.ctx = Context(name=card)
        self.pd = PD(self.ctx)
        self.cq = CQ(self.ctx, 256)
        self.port = self.ctx.query_port(1)
        self.gid_index = gid_index
        self.gid = self.ctx.query_gid(1, gid_index)
        self.roce = self.port.link_layer == e.IBV_LINK_LAYER_ETHERNET

    def qp(self, kind, srq=None, **more):
        cap = QPCap(max_send_wr=64, max_recv_wr=0 if srq else 64, max_send_sge=4, max_recv_sge=4, max_inline_data=64)
        return QP(self.pd, QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, srq=srq, cap=cap, sq_sig_all=0), None)

    def path(self, peer):
        """How to reach another card."""
        if self.roce:
            route = GlobalRoute(dgid=peer.gid, sgid_index=self.gid_index)
            return AHAttr(gr=route, is_global=1, port_num=1)
        return AHAttr(dlid=peer.port.lid, port_num=1)

    def poll(self, count=1):
        """So many completions, as they come."""
        got, until = [], time.monotonic() + LIMIT
        while len(got) < count:
            _, wcs = self.cq.poll(count - len(got))
            got += wcs
            check(time.monotonic() < until, f"{len(got)} of {count} completions after {LIMIT} s")
        return got

    def succeed(self, count=1):
        wcs = self.poll(count)
        for wc in wcs:
            check(wc.status == e.IBV_WC_SUCCESS, f"a completion has status {wc.status}")
        return wcs


def connect(a, qp_a, b, qp_b, timeout=14, retries=7, rnr=7, rnr_timer=12):
    """Brings two QPs to RTS."""
    for end, qp, peer, other, psn in ((a, qp_a, b, qp_b, 1), (b, qp_b, a, qp_a, 0xfffff0)):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
                                | e.IBV_ACCESS_REMOTE_ATOMIC)
        attr.dest_qp_num = other.qp_num
        attr.path_mtu = min(end.port.active_mtu, peer.port.active_mtu)
        attr.ah_attr = end.path(peer)
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
        attr.min_rnr_timer = rnr_timer
        # One of them begins near the end of the sequence numbers.
        attr.sq_psn, attr.rq_psn = psn, 0xfffff1 - psn
        attr.timeout, attr.retry_cnt, attr.rnr_retry = timeout, retries, rnr
        qp.to_init(attr)
        qp.to_rtr(attr)
        qp.to_rts(attr)


def pair(kind=e.IBV_QPT_RC, **how):
    a, b = ends()
    qp_a, qp_b = a.qp(kind), b.qp(kind)
    connect(a, qp_a, b, qp_b, **how)
    return a, qp_a, b, qp_b


def ends():
    cards = sys.argv[2:4] or ["mlx5_0", "mlx5_1"]
    gid_index = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    return [End(card, gid_index) for card in cards]


def place(length):
    """Where a message lies, at any alignment, with room around it."""
    return RANDOM.randrange(64, REGION - length - 64)


def send(kind=e.IBV_QPT_RC):
    a, qp_a, b, qp_b = pair(kind)
    from_a, to_b = Region(a.pd), Region(b.pd)
    for n, size in enumerate(SIZES):
        at, to, room = place(size), place(size + 100), size + RANDOM.randrange(100)
        qp_b.post_recv(RecvWR(n, sg=(s := to_b.sges(to, room, 3)), num_sge=len(s)))
        sges = from_a.sges(at, size, 3)
        qp_a.post_send(SendWR(n, opcode=e.IBV_WR_SEND_WITH_IMM, imm_data=n, sg=sges, num_sge=len(sges)))
        wc = b.succeed()[0]
        a.succeed()
        check((wc.wr_id, wc.byte_len, wc.imm_data) == (n, size, n), f"{size} bytes: {wc}")
        to_b.expect(to, from_a.shadow[at:at + size])
        to_b.judge(f"SEND of {size} bytes")
    from_a.judge("sender")


def send_uc():
    send(e.IBV_QPT_UC)


def inline():
    a, qp_a, b, qp_b = pair()
    from_a, to_b = Region(a.pd), Region(b.pd)
    for size in (1, 12, 13, 32, 60, 64):
        at, to = place(size), place(size)
        qp_b.post_recv(RecvWR(sg=[to_b.sge(to, size)], num_sge=1))
        flags = e.IBV_SEND_INLINE | e.IBV_SEND_SIGNALED
        qp_a.post_send(SendWR(sg=[from_a.sge(at, size)], num_sge=1, send_flags=flags))
        a.succeed(), b.succeed()
        to_b.expect(to, from_a.shadow[at:at + size])
        to_b.judge(f"inline SEND of {size} bytes")


def write():
    a, qp_a, b, qp_b = pair()
    from_a, to_b = Region(a.pd), Region(b.pd)
    for n, size in enumerate(SIZES):
        at, to = place(size), place(size)
        sges = from_a.sges(at, size, 3)
        wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE_WITH_IMM, imm_data=n, sg=sges, num_sge=len(sges))
        wr.set_wr_rdma(to_b.mr.rkey, to_b.mr.buf + to)
        # It gives its place in the queue, no bytes.
        qp_b.post_recv(RecvWR(sg=[to_b.sge(0, 1)], num_sge=1))
        qp_a.post_send(wr)
        check(b.succeed()[0].imm_data == n, "immediate data")
        a.succeed()
        to_b.expect(to, from_a.shadow[at:at + size])
        to_b.judge(f"WRITE of {size} bytes")
    from_a.judge("sender")


def read():
    a, qp_a, b, qp_b = pair()
    to_a, from_b = Region(a.pd), Region(b.pd)
    for size in SIZES:
        at, to = place(size), place(size)
        sges = to_a.sges(to, size, 3)
        wr = SendWR(opcode=e.IBV_WR_RDMA_READ, sg=sges, num_sge=len(sges))
        wr.set_wr_rdma(from_b.mr.rkey, from_b.mr.buf + at)
        qp_a.post_send(wr)
        a.succeed()
        to_a.expect(to, from_b.shadow[at:at + size])
        to_a.judge(f"READ of {size} bytes")
    from_b.judge("responder")


def atomics():
    a, qp_a, b, qp_b = pair()
    to_a, at_b = Region(a.pd, 4096), Region(b.pd, 4096)
    word = lambda region, at: int.from_bytes(region.shadow[at:at + 8], "little")
    for n in range(50):
        at, to = 8 * RANDOM.randrange(1, 510), 8 * RANDOM.randrange(1, 510)
        old, add = word(at_b, at), RANDOM.getrandbits(64)
        compare = old if n % 4 else old ^ 1
        swap = n % 2 == 0
        wr = SendWR(opcode=e.IBV_WR_ATOMIC_CMP_AND_SWP if swap else e.IBV_WR_ATOMIC_FETCH_AND_ADD,
                    sg=[to_a.sge(to, 8)], num_sge=1)
        wr.set_wr_atomic(at_b.mr.rkey, at_b.mr.buf + at, compare if swap else add, add)
        qp_a.post_send(wr)
        a.succeed()
        new = (add if old == compare else old) if swap else (old + add) % 2**64
        to_a.expect(to, old.to_bytes(8, "little"))
        at_b.expect(at, new.to_bytes(8, "little"))
        to_a.judge("fetched"), at_b.judge("changed")


def datagram(end):
    qp = end.qp(e.IBV_QPT_UD)
    attr = QPAttr(port_num=1)
    attr.qkey = QKEY
    qp.to_init(attr), qp.to_rtr(attr), qp.to_rts(attr)
    return qp


def ud():
    a, b = ends()
    qp_a, qp_b = datagram(a), datagram(b)
    from_a, to_b = Region(a.pd), Region(b.pd)
    ah = AH(a.pd, attr=a.path(b))
    largest = 128 << min(a.port.active_mtu, b.port.active_mtu)
    for size in [s for s in SIZES if s <= largest]:
        at, to = place(size), place(size + 40)
        qp_b.post_recv(RecvWR(sg=[to_b.sge(to, size + 40)], num_sge=1))
        wr = SendWR(sg=[from_a.sge(at, size)], num_sge=1)
        wr.set_wr_ud(ah, qp_b.qp_num, QKEY)
        qp_a.post_send(wr)
        wc = b.succeed()[0]
        a.succeed()
        check((wc.byte_len, wc.src_qp) == (size + 40, qp_a.qp_num), f"{size} bytes: {wc}")
        # What the first 40 bytes hold without a GRH is nobody's word.
        to_b.expect(to, to_b.mr.read(40, to))
        to_b.expect(to + 40, from_a.shadow[at:at + size])
        to_b.judge(f"UD of {size} bytes")


def srq():
    a, b = ends()
    shared = SRQ(b.pd, SrqInitAttr(SrqAttr(max_wr=64, max_sge=2)))
    qps = [(a.qp(e.IBV_QPT_RC), b.qp(e.IBV_QPT_RC, srq=shared)) for _ in range(3)]
    for qp_a, qp_b in qps:
        connect(a, qp_a, b, qp_b)
    from_a, to_b = Region(a.pd), Region(b.pd)
    for _ in range(10):
        slots = [RANDOM.randrange(0, 60) * 5000 + 64 for _ in range(6)]
        slots = list(dict.fromkeys(slots))
        for n, to in enumerate(slots):
            shared.post_recv(RecvWR(n, sg=(s := to_b.sges(to, 5000, 2)), num_sge=2))
        for _ in slots:
            size, (qp_a, qp_b) = RANDOM.randrange(1, 5001), RANDOM.choice(qps)
            at = place(size)
            qp_a.post_send(SendWR(sg=[from_a.sge(at, size)], num_sge=1))
            wc = b.succeed()[0]
            a.succeed()
            check((wc.byte_len, wc.qp_num) == (size, qp_b.qp_num), f"{size} bytes: {wc}")
            to_b.expect(slots[wc.wr_id], from_a.shadow[at:at + size])
        to_b.judge("SRQ")


def srq_limit():
    a, b = ends()
    shared = SRQ(b.pd, SrqInitAttr(SrqAttr(max_wr=16, max_sge=1)))
    qp_a, qp_b = a.qp(e.IBV_QPT_RC), b.qp(e.IBV_QPT_RC, srq=shared)
    connect(a, qp_a, b, qp_b)
    region = Region(a.pd, 4096), Region(b.pd, 4096)
    for _ in range(6):
        shared.post_recv(RecvWR(sg=[region[1].sge(0, 64)], num_sge=1))
    shared.modify(SrqAttr(srq_limit=4), e.IBV_SRQ_LIMIT)
    check(shared.query().srq_limit == 4, "the limit is armed")
    for _ in range(3):
        qp_a.post_send(SendWR(sg=[region[0].sge(0, 64)], num_sge=1))
        a.succeed(), b.succeed()
    event = b.ctx.get_async_event()
    event.ack()
    check(event.event_type == e.IBV_EVENT_SRQ_LIMIT_REACHED, f"event {event.event_type}")
    check(shared.query().srq_limit == 0, "the limit is disarmed")


def xrc():
    a, b = ends()
    domains = [XRCD(end.ctx, XRCDInitAttr(e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS, os.O_CREAT, -1))
               for end in (a, b)]
    init = SrqInitAttrEx(max_wr=64, max_sge=1)
    init.comp_mask = (e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_XRCD | e.IBV_SRQ_INIT_ATTR_CQ
                      | e.IBV_SRQ_INIT_ATTR_PD)
    init.srq_type, init.pd, init.xrcd, init.cq = e.IBV_SRQT_XRC, b.pd, domains[1], b.cq
    shared = SRQ(b.ctx, init)
    cap = QPCap(max_send_wr=16, max_recv_wr=0, max_recv_sge=0, max_send_sge=1)
    attr = QPInitAttrEx(qp_type=e.IBV_QPT_XRC_SEND, scq=a.cq, cap=cap, pd=a.pd, sq_sig_all=1,
                        comp_mask=e.IBV_QP_INIT_ATTR_PD)
    qp_a = QP(a.ctx, attr, None)
    attr = QPInitAttrEx(qp_type=e.IBV_QPT_XRC_RECV, xrcd=domains[1], comp_mask=e.IBV_QP_INIT_ATTR_XRCD)
    qp_b = QP(b.ctx, attr, None)
    connect(a, qp_a, b, qp_b)
    from_a, to_b = Region(a.pd), Region(b.pd)
    for size in SIZES:
        at, to = place(size), place(size)
        shared.post_recv(RecvWR(sg=[to_b.sge(to, size)], num_sge=1))
        wr = SendWR(sg=[from_a.sge(at, size)], num_sge=1)
        wr.set_qp_type_xrc(shared.get_srq_num())
        qp_a.post_send(wr)
        check(b.succeed()[0].byte_len == size, f"{size} bytes")
        a.succeed()
        to_b.expect(to, from_a.shadow[at:at + size])
        to_b.judge(f"XRC of {size} bytes")


def cq_resize():
    a, qp_a, b, qp_b = pair()
    regions = Region(a.pd, 4096), Region(b.pd, 4096)
    for n in range(30):
        qp_b.post_recv(RecvWR(n, sg=[regions[1].sge(64, 64)], num_sge=1))
    done = 0
    for step, size in enumerate((1000, 20, 500)):
        for _ in range(10):
            qp_a.post_send(SendWR(sg=[regions[0].sge(0, 8)], num_sge=1))
        a.succeed(10)
        # The others' completions are there before their acknowledgements: unpolled, across the change of buffers.
        b.cq.resize(size)
        for wc in b.succeed(10):
            check(wc.wr_id == done, f"completion {wc.wr_id} instead of {done}")
            done += 1


def rereg():
    a, qp_a, b, qp_b = pair()
    from_a, to_b = Region(a.pd), Region(b.pd)
    local = e.IBV_ACCESS_LOCAL_WRITE
    to_b.mr.rereg(e.IBV_REREG_MR_CHANGE_ACCESS, access=local | e.IBV_ACCESS_REMOTE_WRITE)
    wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE, sg=[from_a.sge(100, 5000)], num_sge=1)
    wr.set_wr_rdma(to_b.mr.rkey, to_b.mr.buf + 777)
    qp_a.post_send(wr)
    a.succeed()
    to_b.expect(777, from_a.shadow[100:5100])
    to_b.judge("WRITE after reregistration")
    fails(a, qp_a, e.IBV_WR_RDMA_READ, [from_a.sge(100, 8)], (to_b.mr.rkey, to_b.mr.buf), e.IBV_WC_REM_ACCESS_ERR)


def fails(end, qp, opcode, sges, remote, status):
    """Posts something that completes with an error, and the next one flushed."""
    for _ in range(2):
        wr = SendWR(opcode=opcode, sg=sges, num_sge=len(sges))
        if remote:
            wr.set_wr_rdma(*remote)
        qp.post_send(wr)
    wcs = end.poll(2)
    got = [wc.status for wc in wcs]
    check(got == [status, e.IBV_WC_WR_FLUSH_ERR], f"statuses {got} instead of {status} and a flush")
    check(qp.query(e.IBV_QP_STATE)[0].qp_state == e.IBV_QPS_ERR, "the QP is not in the error state")


def wrong_rkey():
    a, qp_a, b, qp_b = pair()
    from_a, to_b = Region(a.pd), Region(b.pd)
    remote = (to_b.mr.rkey ^ 0x100, to_b.mr.buf)
    fails(a, qp_a, e.IBV_WR_RDMA_WRITE, [from_a.sge(0, 100)], remote, e.IBV_WC_REM_ACCESS_ERR)
    to_b.judge("refused WRITE")


def out_of_range():
    a, qp_a, b, qp_b = pair()
    from_a, to_b = Region(a.pd), Region(b.pd)
    remote = (to_b.mr.rkey, to_b.mr.buf + REGION - 99)
    fails(a, qp_a, e.IBV_WR_RDMA_WRITE, [from_a.sge(0, 100)], remote, e.IBV_WC_REM_ACCESS_ERR)
    to_b.judge("refused WRITE")


def read_only():
    a, qp_a, b, qp_b = pair()
    from_a, to_b = Region(a.pd), Region(b.pd, access=e.IBV_ACCESS_REMOTE_READ)
    fails(a, qp_a, e.IBV_WR_RDMA_WRITE, [from_a.sge(0, 8)], (to_b.mr.rkey, to_b.mr.buf), e.IBV_WC_REM_ACCESS_ERR)
    to_b.judge("refused WRITE")


def bad_lkey():
    a, qp_a, b, qp_b = pair()
    from_a, to_b = Region(a.pd), Region(b.pd)
    sge = SGE(from_a.mr.buf, 8, from_a.mr.lkey ^ 0x100)
    fails(a, qp_a, e.IBV_WR_RDMA_WRITE, [sge], (to_b.mr.rkey, to_b.mr.buf), e.IBV_WC_LOC_PROT_ERR)


def short_receive():
    a, qp_a, b, qp_b = pair()
    from_a, to_b = Region(a.pd), Region(b.pd)
    qp_b.post_recv(RecvWR(sg=[to_b.sge(1000, 99)], num_sge=1))
    fails(a, qp_a, e.IBV_WR_SEND, [from_a.sge(0, 100)], None, e.IBV_WC_REM_INV_REQ_ERR)
    status = b.poll()[0].status
    check(status == e.IBV_WC_LOC_LEN_ERR, f"the receiver's status is {status}")


def no_receive():
    a, qp_a, b, qp_b = pair(rnr=0)
    from_a = Region(a.pd)
    fails(a, qp_a, e.IBV_WR_SEND, [from_a.sge(0, 100)], None, e.IBV_WC_RNR_RETRY_EXC_ERR)


def late_receive():
    a, qp_a, b, qp_b = pair(rnr=7, rnr_timer=20)
    from_a, to_b = Region(a.pd), Region(b.pd)
    qp_a.post_send(SendWR(sg=[from_a.sge(0, 9000)], num_sge=1))
    time.sleep(0.2)
    qp_b.post_recv(RecvWR(sg=[to_b.sge(500, 9000)], num_sge=1))
    a.succeed(), b.succeed()
    to_b.expect(500, from_a.shadow[:9000])
    to_b.judge("SEND after RNR")


def dead_peer():
    a, qp_a, b, qp_b = pair(timeout=8, retries=2)
    from_a, to_b = Region(a.pd), Region(b.pd)
    remote = (to_b.mr.rkey, to_b.mr.buf)
    qp_b.close()
    fails(a, qp_a, e.IBV_WR_RDMA_WRITE, [from_a.sge(0, 100)], remote, e.IBV_WC_RETRY_EXC_ERR)
    to_b.judge("a WRITE to nobody")


def main():
    print(f"SEED={SEED}")
    try:
        globals()[sys.argv[1]]()
    except Wrong as wrong:
        print(f"{sys.argv[1]}: {wrong}")
        sys.exit(1)


main()
