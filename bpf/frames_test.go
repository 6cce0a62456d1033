// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
)

const (
	ipv4 = 0x0800
	ipv6 = 0x86DD
)

// priorityTag in place of an EtherType is an 802.1Q tag with VID 0.
const priorityTag = 0

// linkHeader has what is in front of the IP packet.
type linkHeader struct {
	name string
	tags []uint16 // EtherTypes of the tags, or priorityTag
}

// Link headers of the interface itself, and of VLANs.
var (
	links = []linkHeader{{"untagged", nil}, {"priority tag", []uint16{priorityTag}}}
	vlans = []linkHeader{
		{"VLAN", []uint16{0x8100}},
		{"service VLAN", []uint16{0x88A8}},
		{"QinQ", []uint16{0x88A8, 0x8100}},
		{"two VLANs", []uint16{0x8100, 0x8100}},
		{"VLAN behind a priority tag", []uint16{priorityTag, 0x8100}},
		{"two priority tags", []uint16{priorityTag, priorityTag}},
		{"three VLANs", []uint16{0x8100, 0x8100, 0x8100}},
	}
)

// ethernet puts a link header in front of an IP datagram.
func ethernet(dst, src [6]byte, datagram []byte, tags ...uint16) []byte {
	f := append(slices.Clone(dst[:]), src[:]...)
	for i, t := range tags {
		control := uint16(100 + i)
		if t == priorityTag {
			t, control = 0x8100, 5<<13
		}
		f = binary.BigEndian.AppendUint16(f, t)
		f = binary.BigEndian.AppendUint16(f, control)
	}
	if datagram[0]>>4 == 6 {
		f = binary.BigEndian.AppendUint16(f, ipv6)
	} else {
		f = binary.BigEndian.AppendUint16(f, ipv4)
	}
	return append(f, datagram...)
}

// packet builds the IP datagram.
func packet(t testing.TB, d rocev2.Datagram) []byte {
	t.Helper()
	b, err := d.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fromPeer and toPeer are whole frames between the host and its peer.
func fromPeer(t testing.TB, d rocev2.Datagram, tags ...uint16) []byte {
	t.Helper()
	return ethernet(usMAC, peerMAC, packet(t, d), tags...)
}

func toPeer(t testing.TB, d rocev2.Datagram, tags ...uint16) []byte {
	t.Helper()
	d.Src, d.Dst = d.Dst, d.Src
	return ethernet(peerMAC, usMAC, packet(t, d), tags...)
}

// Packets that the peer sends to us; toPeer turns them round.
func write(n int) rocev2.Datagram {
	return rocev2.Datagram{Src: peer4, Dst: us4, IPID: 7, Opcode: rocev2.RCWriteOnly, DestQP: 17, PSN: 100, AckReq: true,
		VA: 0x1000, RKey: 0x22, DMALen: uint32(n), Payload: slices.Repeat([]byte{0xab}, n)}
}

func ack(psn rocev2.PSN) rocev2.Datagram {
	return rocev2.Datagram{Src: peer4, Dst: us4, Opcode: rocev2.RCAck, DestQP: 18, PSN: psn, Syndrome: 0x1f, MSN: 1}
}

func over6(d rocev2.Datagram) rocev2.Datagram {
	d.Src, d.Dst = peer6, us6
	if d.Stamp != nil && d.Stamp.Token == tokenOf(peer4) {
		d = stamped(d, *d.Stamp, tokenOf(peer6))
	}
	return d
}

// stamped adds the option, with the token of the peer or another one.
func stamped(d rocev2.Datagram, s rocev2.Stamp, token ...uint64) rocev2.Datagram {
	if s.Token = tokenOf(d.Src); len(token) > 0 {
		s.Token = token[0]
	}
	d.Stamp = &s
	return d
}

func peerOf(v6 bool) netip.Addr {
	if v6 {
		return peer6
	}
	return peer4
}

// edit returns a changed copy of a frame.
func edit(frame []byte, change func([]byte)) []byte {
	c := slices.Clone(frame)
	change(c)
	return c
}

// Offsets into an untagged frame.
const (
	offIP   = 14
	offUDP4 = offIP + 20
	offBTH4 = offUDP4 + 8
	offUDP6 = offIP + 40
)

// fixIPv4 corrects the header checksum of an untagged IPv4 frame.
func fixIPv4(f []byte) {
	h := f[offIP : offIP+int(f[offIP]&15)*4]
	h[10], h[11] = 0, 0
	sum := uint32(0)
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum))
}

// addToIPLength changes the length that an untagged frame's IP header claims.
func addToIPLength(f []byte, n int) {
	at := offIP + 2
	if f[offIP]>>4 == 6 {
		at = offIP + 4
	}
	binary.BigEndian.PutUint16(f[at:], uint16(int(binary.BigEndian.Uint16(f[at:]))+n))
	if f[offIP]>>4 == 4 {
		fixIPv4(f)
	}
}

func addr4(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}
