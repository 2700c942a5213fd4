"""Judges frames of raw packet queue pairs by scapy: lengths and checksums are those that scapy works out anew, and every
question for a neighbour (ARP, neighbour discovery) has one answer, which tells the MAC that it comes from.

usage: raw_frames.py FILE.pcap
"""

import sys

from pcap_frames import ETHERNET, frames, verdict
from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr, IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.utils6 import in6_ifaceidtomac

# What scapy works out when it is not told.
WORKED_OUT = ("len", "ihl", "plen", "hwlen", "chksum", "cksum")
ALL_NODES = "ff02::1"


def rebuilt(ether):
    """The frame with everything worked out anew."""
    copy = ether.copy()
    layer = copy
    while layer:
        for name in WORKED_OUT:
            layer.fields.pop(name, None)
        layer.raw_packet_cache = None
        layer = layer.payload
    return bytes(copy)


def question(ether):
    """What is asked for and by whom, or None: (address, own address, own MAC)."""
    if ARP in ether and ether[ARP].op == 1:
        return ether[ARP].pdst, ether[ARP].psrc, ether.src
    if ICMPv6ND_NS in ether:
        # Whoever has no address yet is told by all (RFC 4861, 7.2.4).
        source = ether[IPv6].src
        return ether[ICMPv6ND_NS].tgt, ALL_NODES if source == "::" else source, ether.src
    return None


def wrong_answer(asked, ether):
    """What is wrong with the answer to a question, or None."""
    address, asker, mac = asked
    if ARP in ether:
        arp = ether[ARP]
        found = (arp.op, arp.psrc, arp.pdst, arp.hwdst, ether.dst)
        wanted = (2, address, asker, mac, mac)
        told = arp.hwsrc
    elif ICMPv6ND_NA in ether:
        advert, ip = ether[ICMPv6ND_NA], ether[IPv6]
        all_nodes = asker == ALL_NODES
        found = (advert.tgt, ip.src, ip.dst, ip.hlim, advert.R, advert.S, advert.O, ether.dst)
        wanted = (address, address, asker, 255, 0, int(not all_nodes), 1, "33:33:00:00:00:01" if all_nodes else mac)
        if ICMPv6NDOptDstLLAddr not in ether:
            return "an advertisement without a MAC"
        told = ether[ICMPv6NDOptDstLLAddr].lladdr
        # A link-local address of this kind holds its MAC (RFC 4291, appendix A).
        if in6_ifaceidtomac(address.split("::")[1]) != told:
            return f"{address} is told to be at {told}"
    else:
        return "no answer"
    if told != ether.src:
        return f"{address} is told to be at {told}, by {ether.src}"
    if found != wanted:
        return f"{found} instead of {wanted}"
    return None


def complaint(ether, frame, asked):
    """What is wrong with a frame; `asked` is the question before it, or None."""
    if rebuilt(ether) != frame:
        return f"scapy makes it {rebuilt(ether).hex()} of {frame.hex()}"
    if ICMPv6ND_NS in ether and ether[IPv6].src == "::" and ICMPv6NDOptSrcLLAddr in ether:
        return "a MAC of no address"
    if asked:
        return wrong_answer(asked, ether)
    if ICMPv6ND_NA in ether or (ARP in ether and ether[ARP].op != 1):
        return "an answer that nobody asked for"
    return None


def main(path):
    checked, complaints, asked = 0, [], None
    for number, frame in frames(path, ETHERNET):
        ether = Ether(frame)
        checked += 1
        wrong = complaint(ether, frame, asked)
        if wrong:
            complaints.append(f"frame {number}: {wrong}")
        asked = question(ether) if asked is None else None
    if asked:
        complaints.append(f"nobody answered for {asked[0]}")
    verdict(path, checked, complaints)


if __name__ == "__main__":
    main(sys.argv[1])
