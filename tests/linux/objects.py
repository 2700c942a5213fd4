"""Objects judged: what queries give back, queues that change while they are in use, and the events that tell of it.

    objects.py CASE...
"""

from pyverbs.cq import CQ, CompChannel
from pyverbs.qp import QPAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

from verbs import ALL, PORT, check, connect, e, main, pair, receive, send


def cq_resize(a, b):
    """A CQ grows and shrinks while completions wait in it: none is lost, none comes twice, the order stays."""
    out, into = pair(a, b)
    here, there = a.buffer(64), b.buffer(64)
    sent = seen = 0
    for entries, count in ((2000, 40), (300, 60), (4000, 50), (1024, 30)):
        for _ in range(count):
            receive(into, [there.sge(0, 1)], wr_id=sent)
            send(out, e.IBV_WR_SEND_WITH_IMM, [here.sge(0, 1)], imm=sent)
            sent += 1
        a.succeed(count)
        # Half of what has arrived stays in the queue while it moves.
        for wc in b.succeed(count // 2):
            check(wc.imm_data == wc.wr_id == seen, f"completion {wc.wr_id} instead of {seen}")
            seen += 1
        b.cq.resize(entries)
        check(b.cq.cqe >= entries, f"{b.cq.cqe} entries instead of {entries}")
        for wc in b.succeed(sent - seen):
            check(wc.imm_data == wc.wr_id == seen, f"completion {wc.wr_id} instead of {seen}")
            seen += 1
    b.nothing_more()


def srq_limit(a, b):
    """The limit is armed once, fires once when fewer receives are left, and is 0 then."""
    shared = SRQ(b.pd, SrqInitAttr(SrqAttr(max_wr=64)))
    out, into = a.qp(), b.qp(srq=shared)
    connect(a, out, b, into)
    here, there = a.buffer(64), b.buffer(64)
    for _ in range(20):
        receive(shared, [there.sge(0, 8)])
    shared.modify(SrqAttr(srq_limit=10), e.IBV_SRQ_LIMIT)
    check(shared.query().srq_limit == 10, f"the limit is {shared.query().srq_limit} instead of 10")
    for _ in range(12):
        send(out, e.IBV_WR_SEND, [here.sge(0, 8)])
    a.succeed(12), b.succeed(12)
    event = b.context.get_async_event()
    event.ack()
    check(event.event_type == e.IBV_EVENT_SRQ_LIMIT_REACHED, f"event {event.event_type}")
    check(shared.query().srq_limit == 0, f"the limit is {shared.query().srq_limit} instead of 0")


def srq_flush(a, b):
    """A QP on an SRQ that fails says so when it has taken its last receive."""
    shared = SRQ(b.pd, SrqInitAttr(SrqAttr(max_wr=64)))
    out, into = a.qp(), b.qp(srq=shared)
    connect(a, out, b, into)
    into.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
    event = b.context.get_async_event()
    event.ack()
    check(event.event_type == e.IBV_EVENT_QP_LAST_WQE_REACHED, f"event {event.event_type}")


def qp_query(a, b):
    """What a queue pair was given comes back out of the card."""
    out, into = pair(a, b, min_rnr_timer=7, timeout=13, retry_cnt=5, rnr_retry=3)
    mask = e.IBV_QP_STATE | e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN
    attr, _ = out.query(mask)
    found = (attr.qp_state, attr.path_mtu, attr.dest_qp_num, attr.min_rnr_timer, attr.timeout)
    found += (attr.retry_cnt, attr.rnr_retry, attr.max_rd_atomic, attr.max_dest_rd_atomic)
    wanted = (e.IBV_QPS_RTS, e.IBV_MTU_1024, into.qp_num, 7, 13, 5, 3, 8, 8)
    check(found == wanted, f"{found} instead of {wanted}")
    access = attr.qp_access_flags
    check(access == ALL & ~e.IBV_ACCESS_LOCAL_WRITE, f"access {access:#x}")
    if not a.is_ethernet():
        check(attr.ah_attr.dlid == b.port.lid, f"to LID {attr.ah_attr.dlid}")


def init_to_init(a, b):
    """A right given to a queue pair in INIT is in its context."""
    qp = a.qp()
    attr = QPAttr(port_num=PORT)
    qp.to_init(attr)
    attr = QPAttr(qp_state=e.IBV_QPS_INIT)
    attr.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
    qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_ACCESS_FLAGS)
    access = qp.query(e.IBV_QP_ACCESS_FLAGS)[0].qp_access_flags
    check(access == e.IBV_ACCESS_REMOTE_WRITE, f"access {access:#x}")


def rts_to_rts(a, b):
    """A right taken away from a queue pair that runs is gone."""
    out, into = pair(a, b)
    here, there = a.buffer(4096), b.buffer(4096)
    remote = (there.mr.rkey, there.base)
    there.expect(0, here.bytes(0, 100))
    send(out, e.IBV_WR_RDMA_WRITE, [here.sge(0, 100)], remote=remote)
    a.succeed()
    there.check()
    attr = QPAttr()
    attr.qp_access_flags = e.IBV_ACCESS_REMOTE_READ
    into.modify(attr, e.IBV_QP_ACCESS_FLAGS)
    send(out, e.IBV_WR_RDMA_WRITE, [here.sge(200, 100)], remote=remote)
    wc = a.completions(1)[0]
    bad = (e.IBV_WC_REM_INV_REQ_ERR, e.IBV_WC_REM_ACCESS_ERR)
    check(wc.status in bad, f"a WRITE that is not allowed any more has status {wc.status}")
    there.check()


def reset(a, b):
    """A queue pair that was reset begins anew, with its queues empty."""
    out, into = pair(a, b)
    here, there = a.buffer(4096), b.buffer(4096)
    for n in range(5):
        receive(into, [there.sge(n * 10, 10)], wr_id=n)
    for qp in (out, into):
        qp.modify(QPAttr(qp_state=e.IBV_QPS_RESET), e.IBV_QP_STATE)
    connect(a, out, b, into)
    receive(into, [there.sge(100, 10)], wr_id=77)
    there.expect(100, here.bytes(0, 10))
    send(out, e.IBV_WR_SEND, [here.sge(0, 10)])
    a.succeed()
    wc = b.succeed()[0]
    check(wc.wr_id == 77, f"receive {wc.wr_id} of before the reset was filled")
    there.check()


def notify(a, b):
    """A notification comes once for each time it is asked for; a solicited one only for a solicited message."""
    channel = CompChannel(b.context)
    cq = CQ(b.context, 64, None, channel, 0)
    cq_was, b.cq = b.cq, cq
    out, into = pair(a, b)
    here, there = a.buffer(64), b.buffer(64)
    for solicited_only in (False, True, False):
        cq.req_notify(solicited_only)
        flags = [0, e.IBV_SEND_SOLICITED] if solicited_only else [0]
        for flag in flags:
            receive(into, [there.sge(0, 1)])
            send(out, e.IBV_WR_SEND, [here.sge(0, 1)], flags=flag)
        a.succeed(len(flags))
        channel.get_cq_event(cq)
        cq.ack_events(1)
        b.succeed(len(flags))
    b.cq = cq_was


def adapter(a, b):
    """What the tools print of card and port."""
    for node in (a, b):
        attr = node.context.query_device()
        check(attr.vendor_id == 0x2C9 and attr.vendor_part_id == 0x1017, f"{attr.vendor_id:#x} {attr.vendor_part_id:#x}")
        check(attr.max_qp > 1000 and attr.max_mr > 1000, "limits are missing")
        check(node.context.query_pkey(PORT, 0) == 0xFFFF, "P_Key 0 is not the default one")
        guid = node.context.query_gid(PORT, 0).gid.replace(":", "")[16:]
        check(int(guid, 16) != 0, "GID 0 has no GUID")
        path = f"/sys/class/infiniband/{node.name}"
        with open(f"{path}/fw_ver") as file:
            check(file.read().strip() == "16.35.4030", "another firmware")
        with open(f"{path}/board_id") as file:
            check(file.read().strip() == "MT_0000000012", "another board")
        with open(f"{path}/node_desc") as file:
            check(file.read().strip() != "", "no node description")
        with open(f"{path}/ports/1/rate") as file:
            check(file.read().startswith("100 Gb/sec (4X EDR)"), "another rate")
        with open(f"{path}/ports/1/cap_mask") as file:
            # Linux's connection manager sets the bit of its service.
            check(int(file.read(), 16) & 0x10000, "the port does not tell of the connection manager")


CASES = [cq_resize, srq_limit, srq_flush, qp_query, init_to_init, rts_to_rts, reset, notify, adapter]

if __name__ == "__main__":
    main({case.__name__: case for case in CASES})
