#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 over IPv4 by scapy's contrib/roce, an implementation that is not ours.

    scapy_vectors.py vectors          prints "name hex-datagram" lines;
                                      scapy_ipv4.txt is this output, committed
    scapy_vectors.py icrc < lines     reads hex datagrams, prints their ICRC as
                                      scapy computes it, in wire order

apt install python3-scapy
"""
import logging
import struct
import sys

logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.all import IP, UDP, Raw, raw  # noqa: E402
from scapy.contrib.roce import AETH, BTH, cnp, opcode  # noqa: E402


def roce(ip, bth, body=b""):
    """body is extended headers, payload and pad as bytes."""
    p = ip / UDP(sport=0xC0DE, dport=4791, chksum=0) / bth
    return raw(p / Raw(body) if body else p)


def vectors():
    ip = dict(src="192.0.2.1", dst="198.51.100.7", ttl=64, flags="DF")
    reth = struct.pack("!QII", 0x7F0012345678, 0xCAFE0001, 4096)
    data = bytes(range(256)) * 4
    yield "write_first", roce(IP(id=1, **ip), BTH(opcode=opcode("RC", "RDMA_WRITE_FIRST")[0], dqpn=0x11, psn=0xFFFFFF), reth + data)
    yield "write_middle", roce(IP(id=2, **ip), BTH(opcode=opcode("RC", "RDMA_WRITE_MIDDLE")[0], dqpn=0x11, psn=0), data)
    yield "write_last_pad1", roce(IP(id=3, **ip), BTH(opcode=opcode("RC", "RDMA_WRITE_LAST")[0], dqpn=0x11, psn=1, ackreq=1, padcount=1), b"abc" + b"\0")
    yield "send_only_solicited_tos", roce(IP(id=4, tos=0x6B, **ip), BTH(opcode=opcode("RC", "SEND_ONLY")[0], dqpn=0x123456, psn=7, solicited=1, migreq=1), b"hello, world")
    yield "read_request", roce(IP(id=5, **ip), BTH(opcode=opcode("RC", "RDMA_READ_REQUEST")[0], dqpn=0x11, psn=9, ackreq=1), reth)
    yield "ack", raw(IP(id=6, **ip) / UDP(sport=0xC0DE, dport=4791, chksum=0) / BTH(opcode=opcode("RC", "ACKNOWLEDGE")[0], dqpn=0x12, psn=9) / AETH(syndrome=31, msn=3))
    yield "nak_psn", raw(IP(id=7, **ip) / UDP(sport=0xC0DE, dport=4791, chksum=0) / BTH(opcode=opcode("RC", "ACKNOWLEDGE")[0], dqpn=0x12, psn=4) / AETH(syndrome=0x60, msn=3))
    yield "cnp", raw(IP(id=8, tos=192, **ip) / UDP(sport=0xC0DE, dport=4791, chksum=0) / cnp(dqpn=0x12))
    yield "ud_send_only", roce(IP(id=9, **ip), BTH(opcode=opcode("UD", "SEND_ONLY")[0], dqpn=1, psn=2), struct.pack("!II", 0x80010000, 1) + b"\x55" * 256)


def icrc(datagram):
    # Not IP(datagram) alone: scapy would take some source ports for other protocols.
    p = IP(datagram[:20]) / UDP(datagram[20:28]) / BTH(datagram[28:])
    return p[BTH].compute_icrc(raw(p[BTH]))


if __name__ == "__main__":
    if sys.argv[1:] == ["vectors"]:
        for name, packet in vectors():
            print(name, packet.hex())
    elif sys.argv[1:] == ["icrc"]:
        for line in sys.stdin:
            print(icrc(bytes.fromhex(line)).hex())
    else:
        sys.exit(__doc__)
