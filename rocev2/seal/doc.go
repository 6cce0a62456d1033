// SPDX-License-Identifier: Apache-2.0

// Package seal encrypts and authenticates the packets of a queue pair (S2.8), for the
// software NIC and for the model of the card. docs/program/encryption.md describes format, limits and
// threat model. It has no I/O, no clock and no goroutine.
//
// A sealed packet is a RoCEv2 packet whose payload has 28 bytes more:
//
//	BTH | extended headers | epoch(32) counter(64) | ciphertext | tag(128) | pad | ICRC
//
// All fields are big-endian. The cipher is AES-GCM (NIST SP 800-38D). The nonce is the salt of
// the epoch and the counter, which the sender increments for every packet, retransmissions
// included. The PSN is not in the nonce: a READ that is executed again may carry other data
// under the same PSN. The tag covers BTH and extended headers, except byte 4 of the BTH, which
// switches may change. The ICRC covers the ciphertext as it covers any payload.
//
// A Sealer has the keys of one direction at its sender, an Opener those at its receiver:
//
//	frame place = 12 bytes, plain data, 16 bytes
//	sender:   Datagram.Begin, copy the data to Plain(place), Sealer.Seal, Datagram.Seal
//	receiver: ParseFrame, VerifyICRC, Opener.OpenPacket, then Packet.Payload is the plain data
//
// Both advance to the next epoch by themselves, before a key has encrypted too much. The keys
// of the first epoch come from a Handshake (Noise KK), whose two messages fit the private data
// of a REQ and a REP.
//
// Sealer, Opener and Handshake belong to one queue pair and one thread. They must not be
// copied: two copies of a Sealer would use a nonce twice.
package seal
