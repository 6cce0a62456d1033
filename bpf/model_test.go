// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/softroce/softroce-xdp/rocev2"
)

// The reference of TestRandomPackets: what the data plane should make of a frame,
// in the plainest Go.

// parts are where an RoCEv2 packet's headers and lengths are.
type parts struct {
	frame       []byte
	ip, udp, hl int // offsets; IP header length
	ipLen       int
	udpLen      int
	v6          bool
}

func (p *parts) bth() []byte     { return p.frame[p.udp+8:] }
func (p *parts) end() int        { return p.ip + p.ipLen }
func (p *parts) surplusAt() int  { return p.udp + p.udpLen }
func (p *parts) opcode() byte    { return p.bth()[0] }
func (p *parts) src() netip.Addr { return p.addr(12, 8) }
func (p *parts) dst() netip.Addr { return p.addr(16, 24) }
func (p *parts) addr(v4, v6 int) netip.Addr {
	if p.v6 {
		return netip.AddrFrom16([16]byte(p.frame[p.ip+v6:]))
	}
	return netip.AddrFrom4([4]byte(p.frame[p.ip+v4:]))
}
func (p *parts) control() bool {
	return p.opcode() >= 0xC0 && binary.BigEndian.Uint32(p.bth()[4:])&0xffffff == rocev2.ControlQPN
}

// roce finds the parts of a frame that is RoCEv2 as the data plane reads it: no
// fragment, no IPv4 options, whole, lengths that fit together.
func roce(f []byte) (p parts, ok bool) {
	be := binary.BigEndian
	p = parts{frame: f, ip: 14}
	if len(f) < 14 {
		return p, false
	}
	typ := be.Uint16(f[12:])
	h := f[p.ip:]
	switch {
	case typ == ipv4 && len(h) >= 28 && h[0] == 0x45 && h[9] == 17 && be.Uint16(h[6:])&0x3fff == 0:
		p.hl, p.ipLen = 20, int(be.Uint16(h[2:]))
	case typ == ipv6 && len(h) >= 48 && h[0]>>4 == 6 && h[6] == 17:
		p.hl, p.ipLen, p.v6 = 40, 40+int(be.Uint16(h[4:])), true
	default:
		return p, false
	}
	p.udp = p.ip + p.hl
	p.udpLen = int(be.Uint16(f[p.udp+4:]))
	ok = be.Uint16(f[p.udp+2:]) == rocev2.UDPPort && p.udpLen >= rocev2.MinUDPLen && p.udpLen%4 == 0 &&
		p.hl+p.udpLen <= p.ipLen && p.end() <= len(f)
	return p, ok
}

// stamp judges the surplus area by the codec.
func (p *parts) stamp() (rocev2.Stamp, error) {
	return rocev2.DecodeStamp(p.frame[p.surplusAt():p.end()], binary.BigEndian.Uint16(p.frame[p.udp+6:]))
}

// resize returns the frame's datagram cut to n bytes of IP, or its length raised.
// A wrong IPv4 checksum stays as wrong as it was.
func (p *parts) resize(n int) []byte {
	f := slices.Clone(p.frame[:min(p.ip+n, p.end())])
	h := f[p.ip:]
	if p.v6 {
		binary.BigEndian.PutUint16(h[4:], uint16(n-40))
		return f
	}
	sum := uint32(^binary.BigEndian.Uint16(h[10:])) + uint32(^uint16(p.ipLen)) + uint32(n) // RFC 1624
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(h[2:], uint16(n))
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum))
	return f
}

// withoutPriorityTag removes the tag of a frame whose only tag has VID 0 and that is RoCEv2, perhaps
// with wrong lengths.
func withoutPriorityTag(f []byte) []byte {
	be := binary.BigEndian
	if len(f) < 18 || be.Uint16(f[12:]) != 0x8100 || be.Uint16(f[14:])&0xfff != 0 {
		return f
	}
	h, udp := f[18:], 0
	switch typ := be.Uint16(f[16:]); {
	case typ == ipv4 && len(h) >= 28 && h[0] == 0x45 && h[9] == 17 && be.Uint16(h[6:])&0x3fff == 0:
		udp = 20
	case typ == ipv6 && len(h) >= 48 && h[0]>>4 == 6 && h[6] == 17:
		udp = 40
	}
	if udp == 0 || be.Uint16(h[udp+2:]) != rocev2.UDPPort {
		return f
	}
	return slices.Concat(f[:12], f[16:])
}

// own reports whether an address is this host's.
func own(a netip.Addr) bool { return a == us4 || a == us6 }

// wantIngress is the verdict on a frame from the wire and, if it passes, what the
// stack gets.
func wantIngress(f []byte) (verdict uint32, out []byte) {
	if [6]byte(f) == usMAC {
		f = withoutPriorityTag(f)
	}
	p, ok := roce(f)
	if !ok || [6]byte(f) != usMAC || !own(p.dst()) {
		return xdpPass, f
	}
	if p.control() {
		return p.wantControl(), nil
	}
	switch _, err := p.stamp(); err {
	case nil, rocev2.ErrStampVersion:
		return xdpPass, p.resize(p.hl + p.udpLen)
	}
	return xdpPass, f
}

// wantControl: only a whole HELLO with the right ICRC is answered.
func (p *parts) wantControl() uint32 {
	_, err := p.stamp()
	if p.opcode() != byte(rocev2.OpHello) || err != nil || p.udpLen != rocev2.MinUDPLen+rocev2.HelloLen {
		return xdpDrop
	}
	group := p.frame[6]&1 != 0
	for _, a := range []netip.Addr{p.src(), p.dst()} {
		first := a.AsSlice()[0]
		group = group || p.v6 && first == 0xff || !p.v6 && first >= 224
	}
	pkt, err := rocev2.ParseFrame(bytes.Clone(p.frame))
	if err == rocev2.ErrBodyLength { // a pad count that leaves no room: judge the ICRC without it
		return xdpDrop
	}
	body := p.bth()[rocev2.BTHLen:]
	if group || err != nil || pkt.VerifyICRC() != nil || binary.BigEndian.Uint16(body) != rocev2.HelloVersion {
		return xdpDrop
	}
	return xdpTX
}

// wantEgress is what should go on the wire. The clock stands still, but what is to
// be echoed depends on what ingress did meanwhile: the stamp is taken over from
// the packet that came out, if it is a good one.
func wantEgress(f, got []byte) []byte {
	p, ok := roce(f)
	if !ok || [6]byte(f[6:]) != usMAC || !own(p.src()) {
		return f
	}
	plain := p.surplusAt() == p.end()
	if p.control() {
		if _, err := p.stamp(); len(f[p.surplusAt():p.end()]) == rocev2.StampLen && (err == nil || err == rocev2.ErrStampVersion || err == rocev2.ErrStampChecksum) {
			f = slices.Clone(f)
			s, ok := sentStamp(got[:min(p.end(), len(got))])
			if !ok {
				s = rocev2.Stamp{Flags: rocev2.StampT1, T1: labStart}
			}
			s.Put(f[p.surplusAt():])
		}
		return f
	}
	aware := slices.Contains([]netip.Addr{us4, us6, peer4, peer6}, p.dst())
	if !aware || !plain || binary.BigEndian.Uint16(f[p.udp+6:]) != 0 || p.ipLen+rocev2.StampLen > labMTU {
		return f
	}
	want := p.resize(p.ipLen + rocev2.StampLen)
	s, ok := sentStamp(got)
	if !ok {
		return want
	}
	want = append(want, make([]byte, rocev2.StampLen)...)
	s.Put(want[len(want)-rocev2.StampLen:])
	return want
}

// feedback reports whether a packet of this host is an ECHO or a RATE_LIMIT with room for a stamp.
func feedback(f []byte) bool {
	p, ok := roce(f)
	if !ok || !own(p.src()) || !p.control() || len(f[p.surplusAt():p.end()]) != rocev2.StampLen {
		return false
	}
	op := rocev2.Opcode(p.opcode())
	return op == rocev2.OpEcho || op == rocev2.OpRateLimit
}

// sentStamp is the stamp at the end of a packet that egress let go, if it is one
// that egress may make: now, and perhaps an echo and CE.
func sentStamp(got []byte) (rocev2.Stamp, bool) {
	if len(got) < rocev2.StampLen {
		return rocev2.Stamp{}, false
	}
	s, err := rocev2.DecodeStamp(got[len(got)-rocev2.StampLen:], 1)
	ok := err == nil && s.T1 == labStart && s.Flags&^(rocev2.StampEcho|rocev2.StampCE) == rocev2.StampT1 && s.Credit <= labRoom && s.CreditSeq == 0
	return s, ok
}
