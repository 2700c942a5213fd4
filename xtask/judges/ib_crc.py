"""Recomputes ICRC and VCRC of every InfiniBand frame in a pcap file of ERF records (link type 197, ERF type 21).

Both from the text of the IBA, volume 1, section 7.8: the ICRC by zlib's CRC-32 over the packet with the variant fields
set to ones, the VCRC (x^16 + x^12 + x^3 + x + 1) bit by bit.

usage: ib_crc.py FILE.pcap
"""

import sys
import zlib

from pcap_frames import ERF, frames, verdict

ERF_HEADER = 16
ERF_INFINIBAND = 21
LNH_IBA_LOCAL = 2
LNH_IBA_GLOBAL = 3
LRH, GRH = 8, 40


def icrc(packet, lnh):
    """Of a packet from the LRH to the last byte before the ICRC."""
    masked = bytearray(packet)
    bth = LRH
    if lnh == LNH_IBA_GLOBAL:
        bth += GRH
        masked[:LRH] = b"\xff" * LRH
        masked[LRH] |= 0x0F  # traffic class and flow label
        masked[LRH + 1 : LRH + 4] = b"\xff" * 3
        masked[LRH + 7] = 0xFF  # hop limit
    else:
        masked[0] |= 0xF0  # virtual lane
    masked[bth + 4] = 0xFF  # FECN, BECN, reserved
    return zlib.crc32(bytes(masked)).to_bytes(4, "little")


def vcrc(packet):
    """Of a packet from the LRH to the last byte of the ICRC."""
    remainder = 0xFFFF
    for byte in packet:
        for bit in range(8):
            feedback = (remainder ^ byte >> bit) & 1
            remainder = remainder >> 1 ^ (0xD008 if feedback else 0)
    return (remainder ^ 0xFFFF).to_bytes(2, "little")


def complaint(record):
    """What is wrong with an ERF record, or None."""
    if len(record) < ERF_HEADER or record[8] & 0x7F != ERF_INFINIBAND:
        return f"not an ERF record of type {ERF_INFINIBAND}"
    if record[8] & 0x80:
        return "ERF extension headers are not expected"
    record_length = int.from_bytes(record[10:12], "big")
    wire_length = int.from_bytes(record[14:16], "big")
    if record_length < ERF_HEADER + wire_length or len(record) < ERF_HEADER + wire_length:
        return f"ERF record of {record_length} bytes for {wire_length} on the wire, {len(record)} in the file"
    frame = record[ERF_HEADER : ERF_HEADER + wire_length]
    lnh = frame[1] & 3
    if lnh not in (LNH_IBA_LOCAL, LNH_IBA_GLOBAL):
        return f"LNH {lnh} has no ICRC"
    # PktLen counts 4-byte words from the LRH to the ICRC; the VCRC follows.
    length = (int.from_bytes(frame[4:6], "big") & 0x7FF) * 4
    if length + 2 != wire_length:
        return f"PktLen says {length} bytes and the VCRC, on the wire are {wire_length}"
    found, wanted = frame[length - 4 : length], icrc(frame[: length - 4], lnh)
    if found != wanted:
        return f"ICRC {found.hex()}, computed {wanted.hex()}"
    found, wanted = frame[length:], vcrc(frame[:length])
    if found != wanted:
        return f"VCRC {found.hex()}, computed {wanted.hex()}"
    return None


def main(path):
    checked, complaints = 0, []
    for number, record in frames(path, ERF):
        checked += 1
        wrong = complaint(record)
        if wrong:
            complaints.append(f"frame {number}: {wrong}")
    verdict(path, checked, complaints)


if __name__ == "__main__":
    main(sys.argv[1])
