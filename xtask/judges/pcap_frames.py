"""Reads pcap files of the classic format, in either byte order."""

import struct
import sys

# With times in microseconds, and in nanoseconds.
MAGIC = {
    bytes.fromhex("d4c3b2a1"): "<",
    bytes.fromhex("a1b2c3d4"): ">",
    bytes.fromhex("4d3cb2a1"): "<",
    bytes.fromhex("a1b23c4d"): ">",
}
ETHERNET = 1
ERF = 197


def frames(path, link_type):
    """Yields number (from 1, as tshark counts) and bytes of each frame; exits if the file is not of this link type."""
    with open(path, "rb") as file:
        data = file.read()
    order = MAGIC.get(data[:4])
    if order is None or len(data) < 24:
        sys.exit(f"{path}: not a pcap file")
    found = struct.unpack(order + "I", data[20:24])[0]
    if found != link_type:
        sys.exit(f"{path}: link type {found}, expected {link_type}")
    at, number = 24, 0
    while at < len(data):
        if at + 16 > len(data):
            sys.exit(f"{path}: cut short in a record's header")
        captured, length = struct.unpack(order + "II", data[at + 8 : at + 16])
        number += 1
        if captured != length or at + 16 + captured > len(data):
            sys.exit(f"{path}: frame {number} is cut short")
        yield number, data[at + 16 : at + 16 + captured]
        at += 16 + captured


def verdict(path, checked, complaints):
    """Prints what was found; the exit status is 1 if there was anything to complain about, or nothing to check."""
    for complaint in complaints:
        print(f"{path}: {complaint}")
    print(f"{checked} frames checked, {len(complaints)} wrong")
    sys.exit(1 if complaints or checked == 0 else 0)
