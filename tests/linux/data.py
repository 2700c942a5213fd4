"""Data judged: every verb that moves data between two devices, with bytes from the seed, and then all memory of both
sides compared, guard bytes included. Ends with 1 on a mismatch.

    data.py CASE...
"""

import os
import struct
import tempfile

from pyverbs.addr import AH
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr, SrqInitAttrEx
from pyverbs.wr import SendWR
from pyverbs.xrcd import XRCD, XRCDInitAttr

from verbs import PORT, QKEY, check, connect, e, main, pair, receive, send

MTU = 1024
# Around the borders of cache lines, WQE blocks, packets, pages.
SIZES = [1, 7, 8, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 65536, 100003]
GRH = 40


def settle(*buffers):
    for buffer in buffers:
        buffer.check()


def split(rng, length, most):
    """Cuts a length into up to `most` pieces, none of them empty."""
    cuts = sorted(rng.sample(range(1, length), min(most, length) - 1)) if length > 1 else []
    return [end - start for start, end in zip([0] + cuts, cuts + [length])]


def messages(a, b, kind, opcode, imm=False):
    """Messages of all sizes both ways, gathered and scattered over several pieces that lie apart."""
    qps = pair(a, b, kind)
    room = max(SIZES) + 64
    for size in SIZES:
        for source, sink, out, into in ((a, b, *qps), (b, a, *reversed(qps))):
            src, dst = source.buffer(room), sink.buffer(room + 1024)
            at, gather = 0, []
            payload = b""
            for piece in split(source.rng, size, 3):
                gather.append(src.sge(at, piece))
                payload += src.bytes(at, piece)
                at += piece + source.rng.randrange(8)
            # The receive queue's pieces together are longer than the message.
            at, scatter, left = source.rng.randrange(16), [], payload
            for piece in split(source.rng, size + 100, 4):
                scatter.append(dst.sge(at, piece))
                dst.expect(at, left[:piece])
                left = left[piece:]
                at += piece + source.rng.randrange(8)
            receive(into, scatter, wr_id=7)
            send(out, opcode, gather, imm=size)
            source.succeed()
            wc = sink.succeed()[0]
            check(wc.byte_len == size and wc.wr_id == 7, f"{wc.byte_len} bytes arrived of {size}, for {wc.wr_id}")
            if imm:
                check(wc.wc_flags & e.IBV_WC_WITH_IMM and wc.imm_data == size, f"immediate data {wc.imm_data}")
            settle(src, dst)


def rc_send(a, b):
    messages(a, b, e.IBV_QPT_RC, e.IBV_WR_SEND)


def rc_send_imm(a, b):
    messages(a, b, e.IBV_QPT_RC, e.IBV_WR_SEND_WITH_IMM, imm=True)


def uc_send(a, b):
    messages(a, b, e.IBV_QPT_UC, e.IBV_WR_SEND)


def rc_send_inline(a, b):
    """The bytes travel in the WQE; the buffer may change as soon as the request is posted."""
    out, into = pair(a, b, inline=200)
    for size in [1, 12, 13, 28, 29, 44, 64, 100, 200]:
        src, dst = a.buffer(256), b.buffer(256)
        receive(into, [dst.sge(5, 240)])
        dst.expect(5, src.bytes(0, size))
        send(out, e.IBV_WR_SEND, [src.sge(0, size)], flags=e.IBV_SEND_INLINE)
        src.put(0, bytes(256))
        a.succeed(), b.succeed()
        settle(src, dst)


def one_sided(a, b, kind, opcode):
    """WRITE and READ of all sizes at addresses that are aligned to nothing."""
    out, into = pair(a, b, kind)
    room = max(SIZES) + 64
    for size in SIZES:
        here, there = a.buffer(room), b.buffer(room)
        far = b.rng.randrange(64)
        at, pieces, near = 0, [], []
        for piece in split(a.rng, size, 4):
            pieces.append(here.sge(at, piece))
            near.append((at, piece))
            at += piece + a.rng.randrange(8)
        if opcode == e.IBV_WR_RDMA_READ:
            left = there.bytes(far, size)
            for at, piece in near:
                here.expect(at, left[:piece])
                left = left[piece:]
        else:
            there.expect(far, b"".join(here.bytes(*piece) for piece in near))
        if opcode == e.IBV_WR_RDMA_WRITE_WITH_IMM:
            # Taken for the immediate data; not filled.
            receive(into, [there.sge(room - 1, 1)])
        send(out, opcode, pieces, remote=(there.mr.rkey, there.base + far), imm=size)
        a.succeed()
        if opcode == e.IBV_WR_RDMA_WRITE_WITH_IMM:
            wc = b.succeed()[0]
            check(wc.byte_len == size and wc.imm_data == size, f"{wc.byte_len} bytes, immediate data {wc.imm_data}")
        elif kind == e.IBV_QPT_UC:
            # Nothing acknowledges a WRITE on UC: a message behind it, which arrives after it, does.
            receive(into, [there.sge(room - 1, 1)])
            there.expect(room - 1, here.bytes(room - 1, 1))
            send(out, e.IBV_WR_SEND, [here.sge(room - 1, 1)])
            a.succeed(), b.succeed()
        settle(here, there)
    b.nothing_more()


def rc_write(a, b):
    one_sided(a, b, e.IBV_QPT_RC, e.IBV_WR_RDMA_WRITE)


def rc_write_imm(a, b):
    one_sided(a, b, e.IBV_QPT_RC, e.IBV_WR_RDMA_WRITE_WITH_IMM)


def uc_write(a, b):
    one_sided(a, b, e.IBV_QPT_UC, e.IBV_WR_RDMA_WRITE)


def rc_read(a, b):
    one_sided(a, b, e.IBV_QPT_RC, e.IBV_WR_RDMA_READ)


def atomics(a, b):
    """FETCH_ADD and CMP_SWAP, the latter also where the comparison fails; both wrap around at 64 bits."""
    out, _ = pair(a, b)
    here, there = a.buffer(64), b.buffer(64, shift=8)
    mask = (1 << 64) - 1
    for turn in range(64):
        at = 8 * b.rng.randrange(8)
        (old,) = struct.unpack("=Q", there.bytes(at, 8))
        value = b.rng.getrandbits(64)
        if turn % 2:
            opcode, compare, new = e.IBV_WR_ATOMIC_FETCH_AND_ADD, value, (old + value) & mask
        else:
            opcode, compare = e.IBV_WR_ATOMIC_CMP_AND_SWP, old if turn % 4 else old ^ 1 << b.rng.randrange(64)
            new = value if compare == old else old
        wr = SendWR(opcode=opcode, num_sge=1, sg=[here.sge(at, 8)])
        wr.set_wr_atomic(there.mr.rkey, there.base + at, compare, value)
        there.expect(at, struct.pack("=Q", new))
        here.expect(at, struct.pack("=Q", old))
        out.post_send(wr)
        a.succeed()
        settle(here, there)


def many(a, b):
    """Requests of all kinds in flight at once, on several queue pairs, answered in order on each."""
    qps = [pair(a, b) for _ in range(4)]
    size, count = 3000, 24
    here, there = a.buffer(size * count * len(qps)), b.buffer(size * count * len(qps))
    receives = 0
    for n in range(count):
        for q, (out, into) in enumerate(qps):
            at = (q * count + n) * size
            length = a.rng.randrange(1, size)
            remote = (there.mr.rkey, there.base + at)
            kind = a.rng.choice([e.IBV_WR_SEND, e.IBV_WR_RDMA_WRITE, e.IBV_WR_RDMA_READ])
            if kind == e.IBV_WR_RDMA_READ:
                here.expect(at, there.bytes(at, length))
            else:
                there.expect(at, here.bytes(at, length))
            if kind == e.IBV_WR_SEND:
                receive(into, [there.sge(at, length)], wr_id=n)
                receives += 1
            send(out, kind, [here.sge(at, length)], remote=remote, wr_id=n)
    ends = a.succeed(count * len(qps))
    for out, _ in qps:
        order = [wc.wr_id for wc in ends if wc.qp_num == out.qp_num]
        check(order == list(range(count)), f"completions of one queue in the order {order}")
    b.succeed(receives)
    settle(here, there)


def ud_send(a, b):
    """Datagrams: the GRH's room stays in front of the bytes, whether one came or not."""
    qp_a, qp_b = a.qp(e.IBV_QPT_UD), b.qp(e.IBV_QPT_UD)
    for qp in (qp_a, qp_b):
        attr = QPAttr(port_num=PORT)
        attr.qkey, attr.sq_psn = QKEY, a.rng.randrange(1 << 24)
        qp.to_rts(attr)
    mtu = 4096 if not a.is_ethernet() else MTU
    for size in [size for size in SIZES if size <= mtu]:
        for source, sink, out, into in ((a, b, qp_a, qp_b), (b, a, qp_b, qp_a)):
            src, dst = source.buffer(mtu), sink.buffer(GRH + mtu + 16)
            receive(into, [dst.sge(2, GRH + mtu)])
            wr = SendWR(opcode=e.IBV_WR_SEND_WITH_IMM, num_sge=1, sg=[src.sge(0, size)], imm_data=size)
            wr.set_wr_ud(AH(source.pd, attr=source.address_of(sink)), into.qp_num, QKEY)
            dst.expect(2 + GRH, src.bytes(0, size))
            out.post_send(wr)
            source.succeed()
            wc = sink.succeed()[0]
            check(wc.byte_len == GRH + size, f"{wc.byte_len} bytes arrived of {size}")
            check(wc.src_qp == out.qp_num, f"from {wc.src_qp:#x} instead of {out.qp_num:#x}")
            check(wc.imm_data == size, f"immediate data {wc.imm_data}")
            # Without a GRH nothing is said about its room.
            dst.ignore(2, GRH)
            settle(src, dst)


def srq(a, b):
    """Several queue pairs take their receives from one queue: what the completion names is what was filled."""
    count, size, senders = 48, 2500, 3
    shared = SRQ(b.pd, SrqInitAttr(SrqAttr(max_wr=count)))
    outs = []
    for _ in range(senders):
        out, into = a.qp(), b.qp(srq=shared)
        connect(a, out, b, into)
        outs.append((out, into))
    here, there = a.buffer(size * count), b.buffer(size * count)
    for n in range(count):
        receive(shared, [there.sge(n * size, size)], wr_id=n)
    sent = {into.qp_num: [] for _, into in outs}
    for n in range(count):
        out, into = a.rng.choice(outs)
        length = a.rng.randrange(1, size)
        send(out, e.IBV_WR_SEND_WITH_IMM, [here.sge(n * size, length)], imm=n)
        sent[into.qp_num].append((n, length))
    a.succeed(count)
    taken = set()
    for wc in b.succeed(count):
        n, length = sent[wc.qp_num].pop(0)
        check(wc.imm_data == n and wc.byte_len == length, f"message {wc.imm_data} came instead of {n}")
        check(wc.wr_id not in taken, f"receive {wc.wr_id} was filled twice")
        taken.add(wc.wr_id)
        there.expect(wc.wr_id * size, here.bytes(n * size, length))
    settle(here, there)


def xrc(a, b):
    """Extended reliable connections: the sender names the receiver's SRQ, of which there are two."""
    count, size = 16, 3000
    file = tempfile.NamedTemporaryFile()
    descriptor = os.open(file.name, os.O_RDONLY)
    mask = e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS
    domain = XRCD(b.context, XRCDInitAttr(mask, os.O_CREAT, descriptor))
    queues = []
    for _ in range(2):
        attr = SrqInitAttrEx(max_wr=count)
        attr.srq_type, attr.pd, attr.xrcd, attr.cq = e.IBV_SRQT_XRC, b.pd, domain, b.cq
        attr.comp_mask = e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD
        attr.comp_mask |= e.IBV_SRQ_INIT_ATTR_CQ | e.IBV_SRQ_INIT_ATTR_XRCD
        queues.append(SRQ(b.context, attr))
    kind = e.IBV_QP_INIT_ATTR_XRCD
    into = QP(b.context, QPInitAttrEx(qp_type=e.IBV_QPT_XRC_RECV, comp_mask=kind, xrcd=domain))
    cap = QPCap(max_send_wr=count, max_recv_wr=0, max_recv_sge=0)
    kind = e.IBV_QP_INIT_ATTR_PD
    out = QP(a.context, QPInitAttrEx(qp_type=e.IBV_QPT_XRC_SEND, sq_sig_all=1, comp_mask=kind, pd=a.pd, scq=a.cq, cap=cap))
    connect(a, out, b, into)

    here, there = a.buffer(size * count), b.buffer(size * count)
    numbers = [queue.get_srq_num() for queue in queues]
    for n in range(count):
        receive(queues[n % 2], [there.sge(n * size, size)], wr_id=n)
    for n in range(count):
        length = a.rng.randrange(1, size)
        wr = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[here.sge(n * size, length)])
        wr.set_qp_type_xrc(numbers[n % 2])
        there.expect(n * size, here.bytes(n * size, length))
        out.post_send(wr)
    a.succeed(count)
    order = [wc.wr_id for wc in b.succeed(count)]
    check(order == list(range(count)), f"receives were filled in the order {order}")
    # A WRITE needs no SRQ, but the packets name one all the same.
    wr = SendWR(opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, sg=[here.sge(0, size)])
    wr.set_qp_type_xrc(numbers[0])
    wr.set_wr_rdma(there.mr.rkey, there.base + 17)
    there.expect(17, here.bytes(0, size))
    out.post_send(wr)
    a.succeed()
    settle(here, there)
    os.close(descriptor)


def large(a, b):
    """A region of so many pages that their list is longer than what one registration request carries."""
    out, _ = pair(a, b)
    size = 48 << 20
    here, there = a.buffer(4096), b.buffer(size)
    for at in [0, 1, 4095, size // 2 - 7, size - 4096 - 4096, size - 4096] + [b.rng.randrange(size - 4096) for _ in range(40)]:
        there.expect(at, here.bytes(0, 4096))
        send(out, e.IBV_WR_RDMA_WRITE, [here.sge(0, 4096)], remote=(there.mr.rkey, there.base + at))
        a.succeed()
    settle(here, there)


def rereg(a, b):
    """A region moved to other memory, and given other rights, serves the new one alone."""
    out, _ = pair(a, b)
    here, there, other = a.buffer(5000), b.buffer(5000), b.buffer(5000)
    flags = e.IBV_REREG_MR_CHANGE_TRANSLATION
    there.mr.rereg(flags, addr=other.base, length=5000)
    other.expect(11, here.bytes(0, 4500))
    send(out, e.IBV_WR_RDMA_WRITE, [here.sge(0, 4500)], remote=(there.mr.rkey, other.base + 11))
    a.succeed()
    settle(here, there, other)
    there.mr.rereg(e.IBV_REREG_MR_CHANGE_ACCESS, access=e.IBV_ACCESS_LOCAL_WRITE)
    send(out, e.IBV_WR_RDMA_WRITE, [here.sge(0, 4500)], remote=(there.mr.rkey, other.base))
    status = a.completions(1)[0].status
    check(status == e.IBV_WC_REM_ACCESS_ERR, f"a WRITE to what allows none any more: status {status}")
    settle(here, there, other)


CASES = [
    rc_send, rc_send_imm, rc_send_inline, rc_write, rc_write_imm, rc_read, uc_send, uc_write, atomics, many, ud_send, srq, xrc,
    large, rereg,
]  # fmt: skip

if __name__ == "__main__":
    main({case.__name__: case for case in CASES})
