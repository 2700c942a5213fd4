"""Recomputes the ICRC of every RoCEv2 frame in a pcap file: scapy's RoCE layer does it for IPv4, for IPv6 (which scapy
does not know) the masks of the IBA's annex A17 and zlib's CRC-32.

usage: roce_icrc.py FILE.pcap
"""

import sys
import zlib

from pcap_frames import ETHERNET, frames, verdict
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

ROCE_V2 = 4791


def expected(ip):
    """The four bytes of the ICRC as they stand in the frame."""
    if isinstance(ip, IP):
        bth = ip[BTH]
        return bth.compute_icrc(None)
    return ipv6_icrc(bytes(ip))


def ipv6_icrc(packet):
    """Annex A17: traffic class, flow label, hop limit, UDP checksum and BTH byte 4 count as ones; eight bytes of ones
    stand for the LRH."""
    masked = bytearray(packet[:-4])
    masked[0] |= 0x0F
    masked[1:4] = b"\xff" * 3
    masked[7] = 0xFF
    masked[40 + 6 : 40 + 8] = b"\xff" * 2
    masked[40 + 8 + 4] = 0xFF
    return zlib.crc32(b"\xff" * 8 + bytes(masked)).to_bytes(4, "little")


def main(path):
    checked, complaints = 0, []
    for number, frame in frames(path, ETHERNET):
        ether = Ether(frame)
        ip = ether.getlayer(IP) or ether.getlayer(IPv6)
        if ip is None or UDP not in ip or ip[UDP].dport != ROCE_V2:
            continue
        checked += 1
        length = ip.len if isinstance(ip, IP) else 40 + ip.plen
        start = len(frame) - len(bytes(ip))
        if len(frame) - start < length or BTH not in ip:
            complaints.append(f"frame {number} is not a whole RoCEv2 packet")
            continue
        found = frame[start : start + length][-4:]
        wanted = expected(ip)
        if found != wanted:
            complaints.append(f"frame {number}: ICRC {found.hex()}, computed {wanted.hex()}")
    verdict(path, checked, complaints)


if __name__ == "__main__":
    main(sys.argv[1])
