"""Multicast groups judged: whom a datagram to a group reaches, and with what in front of it.

    multicast.py CASE...
"""

import ctypes
import errno

from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.base import PyverbsCM
from pyverbs.qp import QPAttr
from pyverbs.wr import SendWR

from verbs import GID_INDEX, PORT, QKEY, check, e, main, receive

# pyverbs has no call for groups; the library it stands on has.
libibverbs = ctypes.CDLL("libibverbs.so.1")
GRH = 40
SIZE = 256
# The destination of every datagram to a group.
MULTICAST_QPN = 0xFFFFFF
# Ethernet does without.
LID = 0xC001
GROUP = "ff12:601b:ffff:0000:0000:0000:0000:0701"
OTHER_GROUP = "ff12:601b:ffff:0000:0000:0000:0000:0702"


class IbvQp(ctypes.Structure):
    """struct ibv_qp of infiniband/verbs.h, as far as it is needed."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("context", "qp_context", "pd", "send_cq", "recv_cq", "srq")]
    _fields_ += [("handle", ctypes.c_uint32), ("qp_num", ctypes.c_uint32)]


def ibv_qp(qp):
    """What pyverbs does not give away: the pointer, which is the first thing that its class adds to the base class."""
    pointer = ctypes.POINTER(IbvQp).from_address(id(qp) + PyverbsCM.__basicsize__)
    check(pointer.contents.qp_num == qp.qp_num, "pyverbs keeps its pointer elsewhere")
    return pointer


def call(function, qp, group):
    """Attaches or detaches; tells the errno."""
    gid = bytes.fromhex(group.replace(":", ""))
    return function(ibv_qp(qp), gid, ctypes.c_uint16(LID))


def attach(qp, group):
    status = call(libibverbs.ibv_attach_mcast, qp, group)
    check(status == 0, f"attaching to {group}: errno {status}")


def detach(qp, group):
    status = call(libibverbs.ibv_detach_mcast, qp, group)
    check(status == 0, f"detaching from {group}: errno {status}")


class Member:
    """A UD queue pair, and memory of which each receive takes a part of its own."""

    def __init__(self, node, receives=4, size=SIZE):
        self.node, self.qp, self.taken, self.kept = node, node.qp(e.IBV_QPT_UD, depth=receives), 0, []
        attr = QPAttr(port_num=PORT)
        attr.qkey, attr.sq_psn = QKEY, node.rng.randrange(1 << 24)
        self.qp.to_rts(attr)
        self.room = GRH + size
        self.buffer = node.buffer(receives * self.room)
        for n in range(receives):
            receive(self.qp, [self.buffer.sge(n * self.room, self.room)], wr_id=n)

    def send(self, way, qpn, payload):
        """Sends bytes. What the request names lives as long as the queue pair."""
        source, handle = self.node.buffer(len(payload)), AH(self.node.pd, attr=way)
        self.kept += [source, handle]
        source.put(0, payload)
        wr = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[source.sge(0, len(payload))])
        wr.set_wr_ud(handle, qpn, QKEY)
        self.qp.post_send(wr)

    def takes(self, wc, payload, group=None):
        """This completion is of the next receive, which holds these bytes and, of a group, its GID."""
        check(wc.wr_id == self.taken, f"receive {wc.wr_id} was filled instead of {self.taken}")
        check(wc.byte_len == GRH + len(payload), f"{wc.byte_len} bytes arrived of {len(payload)}")
        at = self.taken * self.room
        self.taken += 1
        got = bytes(self.buffer.memory[self.buffer.first + at + GRH :][: len(payload)])
        check(got == payload, f"other bytes than were sent, in receive {wc.wr_id}")
        self.buffer.expect(at + GRH, payload)
        self.buffer.ignore(at, GRH)
        if group:
            check(wc.wc_flags & e.IBV_WC_GRH, f"no GRH, by flags {wc.wc_flags:#x}")
            dgid = self.buffer.bytes(at + 24, 16).hex()
            check(dgid == group.replace(":", ""), f"the GRH names {dgid}")


def way_to(node, group):
    index = GID_INDEX if node.is_ethernet() else 0
    route = GlobalRoute(dgid=GID(group), sgid_index=index, hop_limit=1)
    return AHAttr(dlid=LID, port_num=PORT, is_global=1, gr=route)


def spread(sender, group, members, payload):
    """What is sent to the group arrives once at each of these members."""
    sender.send(way_to(sender.node, group), MULTICAST_QPN, payload)
    left = list(members)
    for node in {id(member.node): member.node for member in (sender, *members)}.values():
        here = [member for member in members if member.node is node]
        sent = 1 if node is sender.node else 0
        for wc in node.succeed(len(here) + sent):
            if wc.opcode == e.IBV_WC_SEND:
                continue
            who = [member for member in left if member.qp.qp_num == wc.qp_num and member.node is node]
            check(who, f"{node.name}: queue pair {wc.qp_num:#x} got what was not for it")
            left.remove(who[0])
            who[0].takes(wc, payload, group)
    check(not left, f"{len(left)} members got nothing")
    for member in members:
        member.buffer.check()


def got_nothing(sender, others):
    """A datagram to each alone comes next: there was none before it."""
    for other in others:
        payload = sender.node.rng.randbytes(16)
        sender.send(sender.node.address_of(other.node), other.qp.qp_num, payload)
        sender.node.succeed()
        other.takes(other.node.succeed()[0], payload)
        other.buffer.check()


def members(a, b):
    """A datagram reaches every queue pair that is attached, on both cards, and none that is not or left."""
    sender, own, first, second, stranger, outsider = (Member(node) for node in (a, a, b, b, b, b))
    for member in (own, first, second):
        attach(member.qp, GROUP)
    attach(stranger.qp, OTHER_GROUP)
    spread(sender, GROUP, [own, first, second], a.rng.randbytes(SIZE))
    got_nothing(sender, [stranger, outsider])
    detach(first.qp, GROUP)
    spread(sender, GROUP, [own, second], a.rng.randbytes(1))
    got_nothing(sender, [first, stranger])
    spread(sender, OTHER_GROUP, [stranger], a.rng.randbytes(SIZE))
    # The last one on the other card leaves; then the group is empty.
    detach(second.qp, GROUP)
    spread(sender, GROUP, [own], a.rng.randbytes(9))
    got_nothing(sender, [second])
    detach(own.qp, GROUP)
    spread(sender, GROUP, [], a.rng.randbytes(9))
    attach(own.qp, GROUP)
    spread(sender, GROUP, [own], a.rng.randbytes(9))
    detach(own.qp, GROUP)
    detach(stranger.qp, OTHER_GROUP)
    for node in (a, b):
        node.nothing_more()


def refusals(a, _):
    """Only datagrams go to groups, and only groups have members."""
    ud, rc = Member(a).qp, a.qp()
    for qp, group in ((ud, "fe80:0000:0000:0000:0000:0000:0000:0001"), (rc, GROUP)):
        status = call(libibverbs.ibv_attach_mcast, qp, group)
        check(status == errno.EINVAL, f"attaching to {group}: errno {status}")


CASES = [members, refusals]

if __name__ == "__main__":
    main({case.__name__: case for case in CASES})
