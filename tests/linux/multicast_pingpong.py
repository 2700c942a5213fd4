"""The other end of `ud_pingpong --multicast -c --seed 7`: both are in one group, each message goes to the group, and every
byte of the other end's is compared. Addresses are exchanged as the ibv_ ping-pongs do it.

    multicast_pingpong.py -d DEVICE -p PORT -n ITERS [HOST]
"""

import argparse
import random
import socket
import struct
import time

from multicast import GRH, MULTICAST_QPN, Member, attach, detach, way_to
from verbs import GID_INDEX, LIMIT, PORT, Node, check, e

GROUP = "ff12:601b:ffff:0000:0000:0000:0000:ba5e"
SIZE = 1024
SEED = 7
# lid:qpn:psn:gid in hex, and the zero byte of C.
LINE = 19 + 32 + 1
MASK = (1 << 64) - 1


def mix(x):
    """SplitMix64's step."""
    x = x + 0x9E3779B97F4A7C15 & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def message(sender, iteration):
    """The bytes of a message; `sender` is 0 for the server and 1 for the client."""
    key = mix(SEED ^ mix(iteration << 16 | sender))
    return struct.pack(f"<{SIZE // 8}Q", *(mix(key + word & MASK) for word in range(SIZE // 8)))


def connection(args):
    """The connection to the other end, which as a server may not listen yet."""
    if not args.host:
        return socket.create_server(("", args.port)).accept()[0]
    until = time.monotonic() + LIMIT
    while True:
        try:
            return socket.create_connection((args.host, args.port))
        except ConnectionRefusedError:
            check(time.monotonic() < until, "nobody listens")
            time.sleep(0.05)


def exchange(args, link, own):
    """Tells the other end where this one is, and hears where it is."""

    def read(count):
        data = link.recv(count, socket.MSG_WAITALL)
        check(len(data) == count, "the other end went away")
        return data

    if args.host:
        link.sendall(own)
        other = read(LINE)
        link.sendall(b"done\0")
    else:
        other = read(LINE)
        link.sendall(own)
        read(5)
    return other


def play(args, node, member, gid):
    """The client sends first; each message of the other end answers one of this end."""
    sender = 1 if args.host else 0
    way = way_to(node, GROUP)
    sent = echoed = received = 0
    if args.host:
        member.send(way, MULTICAST_QPN, message(sender, 0))
        sent = 1
    while received < args.iters or echoed < args.iters:
        wc = node.succeed()[0]
        if wc.opcode == e.IBV_WC_SEND:
            continue
        at = member.buffer.first + wc.wr_id * member.room
        if member.buffer.memory[at + 8 : at + 24] == gid:
            member.takes(wc, message(sender, echoed), GROUP)
            echoed += 1
            continue
        member.takes(wc, message(1 - sender, received), GROUP)
        received += 1
        if sent < args.iters:
            member.send(way, MULTICAST_QPN, message(sender, sent))
            sent += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-d", dest="device")
    parser.add_argument("-p", dest="port", type=int)
    parser.add_argument("-n", dest="iters", type=int)
    parser.add_argument("host", nargs="?")
    args = parser.parse_args()
    link = connection(args)
    node = Node(args.device, random.Random(SEED))
    member = Member(node, receives=2 * args.iters, size=SIZE)
    attach(member.qp, GROUP)
    text = str(node.context.query_gid(PORT, GID_INDEX if node.is_ethernet() else 0))
    gid = bytes.fromhex(text.replace(":", ""))
    own = f"{node.port.lid:04x}:{member.qp.qp_num:06x}:{0:06x}:{gid.hex()}\0".encode()
    other = exchange(args, link, own)
    print(f"remote address: {other.decode()}")
    play(args, node, member, gid)
    member.buffer.check()
    detach(member.qp, GROUP)
    link.shutdown(socket.SHUT_WR)
    # The other end may still wait for its last message's completion.
    check(link.recv(1) == b"", "more came than should")
    print(f"{args.iters} messages each way")


if __name__ == "__main__":
    main()
