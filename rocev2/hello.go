// SPDX-License-Identifier: Apache-2.0

package rocev2

import (
	"encoding/binary"
	"net/netip"
)

// HelloLen is the size of the body of HELLO and HELLO_ACK in bytes.
const HelloLen = 32

// HelloVersion is the version of the handshake. A host of another version is a plain peer.
const HelloVersion = 2

// Hello asks a peer whether it understands the stamp option and says what the
// sender can do; HELLO_ACK answers with the same body, the same nonce, and the token that
// the asker's stamps must carry. It
// follows the BTH (DestQP ControlQPN, P_Key 0xFFFF, PSN 0, no pad) and is followed
// by the ICRC. The data plane answers it in place, so its size never changes.
//
//	0 version(16)  2 flags(16)  4 node(32)  8 caps(32)  12 link_mbps(32)
//	16 nonce(64)  24 token(64)
type Hello struct {
	Node     uint32 // S1.2: number of the sending node, 0 = not numbered
	Caps     uint32 // enum sr_cap of bpf/lib/abi.h in the low 16 bits
	LinkMbps uint32 // rate of the sender's link in Mbit/s, 0 = unknown
	Nonce    uint64 // HELLO_ACK returns it unchanged
	Token    uint64 // HELLO_ACK: for the stamps of whom it goes to; HELLO: 0

	// Asks is flag 1. In a HELLO with the peer's token it asks whether the peer stamps, and up to which
	// length. In a HELLO_ACK it says that this is the answer: Stamp.Credit is the longest packet that gets a
	// stamp, in bytes of IP without the option. No T1, or 0, means that none does.
	Asks bool
}

const helloAsks = 1

// ParseHello reads a body: ErrHelloLength unless b has exactly 32 bytes,
// ErrHelloVersion for another version. Other flags than 1 are not judged: a later sender
// of this version may use them.
func ParseHello(b []byte) (Hello, error) {
	if len(b) != HelloLen {
		return Hello{}, ErrHelloLength
	}
	if binary.BigEndian.Uint16(b[0:2]) != HelloVersion {
		return Hello{}, ErrHelloVersion
	}
	return Hello{
		Node:     binary.BigEndian.Uint32(b[4:8]),
		Caps:     binary.BigEndian.Uint32(b[8:12]),
		LinkMbps: binary.BigEndian.Uint32(b[12:16]),
		Nonce:    binary.BigEndian.Uint64(b[16:24]),
		Token:    binary.BigEndian.Uint64(b[24:32]),
		Asks:     b[3]&helloAsks != 0,
	}, nil
}

// Put writes the body to b. It panics if b is shorter than HelloLen.
func (h *Hello) Put(b []byte) {
	b = b[:HelloLen]
	clear(b)
	binary.BigEndian.PutUint16(b[0:2], HelloVersion)
	if h.Asks {
		b[3] = helloAsks
	}
	binary.BigEndian.PutUint32(b[4:8], h.Node)
	binary.BigEndian.PutUint32(b[8:12], h.Caps)
	binary.BigEndian.PutUint32(b[12:16], h.LinkMbps)
	binary.BigEndian.PutUint64(b[16:24], h.Nonce)
	binary.BigEndian.PutUint64(b[24:32], h.Token)
}

// MaxHelloLen is the length of the longest datagram that BuildHello writes.
const MaxHelloLen = ipv6Len + MinUDPLen + HelloLen + StampLen

// BuildHello writes a HELLO as a complete IP datagram for a raw socket with
// IP_HDRINCL (or IPV6_HDRINCL) to b and returns its length. Behind the UDP datagram
// stands a stamp option with no flags, which egress fills in; the IP length counts
// it, the UDP length and the ICRC do not.
//
// The IPv4 identification is covered by the ICRC and the kernel replaces a zero,
// so it is never zero. Errors: ErrFamily, ErrTooBig if b is shorter than the
// datagram (116 bytes for IPv4, 136 for IPv6).
func BuildHello(b []byte, src, dst netip.Addr, h Hello) (int, error) {
	return buildHello(b, OpHello, src, dst, h, Stamp{})
}

// BuildHelloAck writes the answer to a HELLO, as the data plane does. echo is the stamp
// of that HELLO, with the time of its arrival; egress fills in the rest.
func BuildHelloAck(b []byte, src, dst netip.Addr, h Hello, echo Stamp) (int, error) {
	return buildHello(b, OpHelloAck, src, dst, h, echo)
}

func buildHello(b []byte, op Opcode, src, dst netip.Addr, h Hello, s Stamp) (int, error) {
	return buildControl(b, Datagram{Src: src, Dst: dst, Opcode: op, IPID: uint16(h.Nonce) | 1, Hello: h, Stamp: &s})
}

// buildControl writes a control packet of the agent to b and returns its length.
func buildControl(b []byte, d Datagram) (int, error) {
	d.SrcPort, d.DestQP = SourcePort(FlowLabel(ControlQPN, ControlQPN)), ControlQPN
	out, err := d.AppendTo(b[:0:len(b)])
	if err == nil && len(out) > len(b) {
		err = ErrTooBig
	}
	if err != nil {
		return 0, err
	}
	return len(out), nil
}
