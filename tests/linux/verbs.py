"""What the programs beside this file share: nodes, queue pairs, and memory whose every byte is compared.

Written on pyverbs, so what they ask of the card goes through the unmodified libibverbs, libmlx5 and mlx5_ib.
"""

import ctypes
import mmap
import os
import random
import sys
import time
import zlib

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

try:
    from pyverbs import libibverbs_enums as e
except ImportError:
    from pyverbs import enums as e

# Seconds until a completion that does not come is an error. Emulated processors are slow, and nothing waits for it.
LIMIT = 90
# Bytes before and behind each region, which nothing may touch.
GUARD = 4096
# What a region allows unless the case says otherwise.
ALL = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC
PORT = 1
QKEY = 0x11111111
# Of the Ethernet ports' GIDs, the one to use; InfiniBand does without.
GID_INDEX = int(os.environ.get("GID_INDEX", "1"))


class Wrong(Exception):
    """The card did something else than it should."""


def check(is_so, what):
    if not is_so:
        raise Wrong(what)


class Buffer:
    """A region between guard bytes, all of it filled from the seed; `want` is what memory has to hold."""

    def __init__(self, pd, rng, size, access=ALL, shift=3):
        total = 2 * GUARD + shift + size
        self.memory = mmap.mmap(-1, total)
        self.memory[:] = rng.randbytes(total)
        self.want = bytearray(self.memory[:])
        self.size = size
        # A region may begin anywhere.
        self.first = GUARD + shift
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory)) + self.first
        self.mr = MR(pd, size, access, address=self.base)

    def sge(self, at, length):
        return SGE(self.base + at, length, self.mr.lkey)

    def bytes(self, at, length):
        return bytes(self.want[self.first + at : self.first + at + length])

    def expect(self, at, data):
        """From now on these bytes have to be there."""
        self.want[self.first + at : self.first + at + len(data)] = data

    def ignore(self, at, length):
        """What is there now is right, whatever it is."""
        at += self.first
        self.want[at : at + length] = self.memory[at : at + length]

    def put(self, at, data):
        self.memory[self.first + at : self.first + at + len(data)] = data
        self.expect(at, data)

    def check(self):
        got = self.memory[:]
        if got == self.want:
            return
        wrong = [i for i in range(len(got)) if got[i] != self.want[i]]
        at = wrong[0]
        raise Wrong(
            f"{len(wrong)} bytes differ in a region of {self.size}, the first at {at - self.first}:"
            f" {got[at]:#04x} instead of {self.want[at]:#04x}"
        )


class Node:
    """A device with what every queue pair needs."""

    def __init__(self, name, rng):
        self.name, self.rng = name, rng
        self.context = Context(name=name)
        self.port = self.context.query_port(PORT)
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 1024)

    def buffer(self, size, access=ALL, **options):
        return Buffer(self.pd, self.rng, size, access, **options)

    def qp(self, kind=e.IBV_QPT_RC, srq=None, inline=0, sge=4, depth=128):
        cap = QPCap(max_send_wr=depth, max_recv_wr=depth, max_send_sge=sge, max_recv_sge=sge, max_inline_data=inline)
        return QP(self.pd, QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, srq=srq, cap=cap, sq_sig_all=1))

    def is_ethernet(self):
        return self.port.link_layer == e.IBV_LINK_LAYER_ETHERNET

    def address_of(self, other):
        """The way to another node's port."""
        if not self.is_ethernet():
            return AHAttr(dlid=other.port.lid, port_num=PORT)
        gid = other.context.query_gid(PORT, GID_INDEX)
        return AHAttr(port_num=PORT, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=GID_INDEX, hop_limit=64))

    def completions(self, count, cq=None):
        """The next completions, good or bad."""
        cq = cq or self.cq
        until, found = time.monotonic() + LIMIT, []
        while len(found) < count:
            found += cq.poll(count - len(found))[1]
            check(time.monotonic() < until, f"{self.name}: {len(found)} of {count} completions came")
        return found

    def succeed(self, count=1, cq=None):
        """The next completions, all of which have to be good."""
        found = self.completions(count, cq)
        for wc in found:
            check(wc.status == e.IBV_WC_SUCCESS, f"{self.name}: completion of {wc.wr_id}: status {wc.status}")
        return found

    def nothing_more(self):
        check(self.cq.poll(1)[0] == 0, f"{self.name}: a completion that nobody asked for")


def attributes(to, remote_qpn, rng_psn, access=ALL & ~e.IBV_ACCESS_LOCAL_WRITE, **options):
    """The attributes of a connected queue pair; `options` replaces some."""
    attr = QPAttr(port_num=PORT)
    attr.qp_access_flags = access
    attr.path_mtu = e.IBV_MTU_1024
    attr.dest_qp_num = remote_qpn
    attr.rq_psn, attr.sq_psn = rng_psn
    attr.max_rd_atomic, attr.max_dest_rd_atomic = 8, 8
    attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 16, 7, 7
    attr.ah_attr = to
    for name, value in options.items():
        setattr(attr, name, value)
    return attr


def connect(a, qp_a, b, qp_b, **options):
    """Both queue pairs to RTS; packet sequence numbers from the seed, so that some wrap around."""
    psn_a, psn_b = (a.rng.randrange(1 << 24) | a.rng.choice([0, 0xFFFFF0]) for _ in range(2))
    qp_a.to_rts(attributes(a.address_of(b), qp_b.qp_num, (psn_b, psn_a), **options))
    qp_b.to_rts(attributes(b.address_of(a), qp_a.qp_num, (psn_a, psn_b), **options))


def pair(a, b, kind=e.IBV_QPT_RC, inline=0, **options):
    qp_a, qp_b = a.qp(kind, inline=inline), b.qp(kind, inline=inline)
    connect(a, qp_a, b, qp_b, **options)
    return qp_a, qp_b


def send(qp, opcode, sges, remote=None, wr_id=0, flags=0, imm=0):
    """Posts one request; `remote` is the other side's key and address."""
    wr = SendWR(wr_id=wr_id, opcode=opcode, num_sge=len(sges), sg=sges, send_flags=flags, imm_data=imm)
    if remote:
        wr.set_wr_rdma(*remote)
    qp.post_send(wr)


def receive(queue, sges, wr_id=0):
    """Posts one receive to a queue pair or an SRQ."""
    wr = RecvWR(wr_id=wr_id, num_sge=len(sges), sg=sges)
    queue.post_recv(wr)


def main(cases):
    """Runs the cases that the command line names, each between two devices opened anew. The seeds differ from case to
    case; `SEED` gives another."""
    devices = os.environ.get("DEVICES", "mlx5_0 mlx5_1").split()
    for name in sys.argv[1:]:
        seed = int(os.environ.get("SEED", zlib.crc32(name.encode())))
        rng = random.Random(seed)
        print(f"{name}: seed {seed}")
        try:
            cases[name](Node(devices[0], rng), Node(devices[-1], rng))
        except Wrong as why:
            sys.exit(f"{name}: {why}")
