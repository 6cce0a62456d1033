#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints vectors.json: handshakes and sealed packets, computed without the Go code.

It needs python3-cryptography. Noise KK is written out here from revision 34 of the Noise
specification, HKDF from RFC 5869, and the packets from docs/program/encryption.md.
"""
import hashlib
import hmac
import json
import struct
import zlib

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM


def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def dh(private, public):
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))


def pub(private):
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def expand(secret, info, n):
    return mac(secret, info + b"\x01")[:n] if n <= 32 else None


class Symmetric:
    def __init__(self, name):
        self.h = name.ljust(32, b"\0") if len(name) <= 32 else hashlib.sha256(name).digest()
        self.ck, self.k, self.n = self.h, None, 0

    def mix_hash(self, b):
        self.h = hashlib.sha256(self.h + b).digest()

    def mix_key(self, b):
        t = mac(self.ck, b)
        self.ck = mac(t, b"\x01")
        self.k, self.n = mac(t, self.ck + b"\x02"), 0

    def encrypt(self, b):
        c = AESGCM(self.k).encrypt(b"\0\0\0\0" + struct.pack(">Q", self.n), b, self.h)
        self.n += 1
        self.mix_hash(c)
        return c

    def split(self):
        t = mac(self.ck, b"")
        a = mac(t, b"\x01")
        return a, mac(t, a + b"\x02")


def handshake(suite):
    """Both ends have the same state, so one computes it."""
    si, sr, ei, er = (bytes([i]) * 32 for i in (0x11, 0x22, 0x33, 0x44))
    src, dst = (b"\0" * 10 + b"\xff\xff" + bytes(a) for a in ((10, 0, 0, 1), (10, 0, 0, 2)))
    qpn, comm, their, psn, service = 0x800001, 0x01020304, 0x800002, 0x223344, 0x01061C06
    head = bytes([2, suite, 0, 0]) + hashlib.sha256(pub(si)).digest()[:4]
    s = Symmetric(b"Noise_KK_25519_AESGCM_SHA256")
    s.mix_hash(b"softroce-xdp seal 2" + src + dst + struct.pack(">IIQ", qpn, comm, service) + head)
    s.mix_hash(pub(si))
    s.mix_hash(pub(sr))
    s.mix_hash(pub(ei))
    s.mix_key(dh(ei, pub(sr)))
    s.mix_key(dh(si, pub(sr)))
    offer = head + pub(ei) + s.encrypt(b"")
    s.mix_hash(pub(er))
    s.mix_key(dh(er, pub(ei)))
    s.mix_key(dh(er, pub(si)))
    answer = bytes([2, suite, 0, 0]) + pub(er) + s.encrypt(struct.pack(">II", their, psn))
    to, back = s.split()
    return {"suite": suite, "initiator": si.hex(), "responder": sr.hex(), "seed_i": ei.hex(), "seed_r": er.hex(),
            "qpn": qpn, "comm_id": comm, "their_qpn": their, "their_psn": psn,
            "service": service, "offer": offer.hex(), "answer": answer.hex(),
            "forward": to.hex(), "reverse": back.hex()}


def key(secret, suite, epoch):
    for _ in range(epoch):
        secret = expand(secret, b"softroce seal 1 next", 32)
    n = 16 if suite == 1 else 32
    return expand(secret, b"softroce seal 1 key %d" % suite, n), expand(secret, b"softroce seal 1 salt", 4)


def icrc(ip, udp, rest):
    ip = bytearray(ip)
    ip[1] = ip[8] = ip[10] = ip[11] = 0xFF
    bth = bytearray(rest)
    bth[4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(ip) + udp[:6] + b"\xff\xff" + bytes(bth)))


def checksum(b):
    s = sum(struct.unpack(">%dH" % (len(b) // 2), b))
    while s >> 16:
        s = (s >> 16) + (s & 0xFFFF)
    return struct.pack(">H", s ^ 0xFFFF)


def packet(secret, suite, epoch, counter, opcode, ext, plain):
    k, salt = key(secret, suite, epoch)
    pad = -len(plain) % 4
    bth = struct.pack(">BBHBBHBBH", opcode, 0x00 | pad << 4, 0xFFFF, 0x00, 0x80, 0x0002, 0x80, 0x00, 0x1234)
    head = struct.pack(">IQ", epoch, counter)
    aad = bth[:4] + b"\xff" + bth[5:] + ext + head
    sealed = AESGCM(k).encrypt(salt + struct.pack(">Q", counter), plain, aad)
    rest = bth + ext + head + sealed + b"\0" * pad
    udp = struct.pack(">HHHH", 0xC123, 4791, 8 + len(rest) + 4, 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 2, 20 + 8 + len(rest) + 4, 7, 0x4000, 64, 17, 0,
                     bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    ip = ip[:10] + checksum(ip) + ip[12:]
    whole = ip + udp + rest + icrc(ip, udp, rest)
    return {"suite": suite, "secret": secret.hex(), "epoch": epoch, "counter": counter, "opcode": opcode,
            "plain": plain.hex(), "packet": whole.hex()}


def main():
    secret = bytes(range(32))
    reth = struct.pack(">QII", 0x1122334455667788, 0xAABBCCDD, 37)
    aeth = struct.pack(">I", 0x1F000005)
    text = bytes(i * 7 & 0xFF for i in range(37))
    packets = []
    for suite in (1, 2):
        for epoch, counter in ((0, 1), (0, 2**33 + 5), (3, 1)):
            packets.append(packet(secret, suite, epoch, counter, 0x0A, reth, text))  # WRITE ONLY
            packets.append(packet(secret, suite, epoch, counter, 0x04, b"", text[:16]))  # SEND ONLY
            packets.append(packet(secret, suite, epoch, counter, 0x11, aeth, b""))  # ACK
    print(json.dumps({"handshakes": [handshake(1), handshake(2)], "packets": packets}, indent=1))


main()
