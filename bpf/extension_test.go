// SPDX-License-Identifier: Apache-2.0

package bpf_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
)

// Next headers of IPv6 (IANA).
const (
	nextHopByHop = 0
	nextUDP      = 17
	nextRouting  = 43
	nextFragment = 44
	nextESP      = 50
	nextAH       = 51
	nextDestOpts = 60
)

// extend puts extension headers of 8 bytes each in front of the UDP header of an untagged IPv6 frame;
// size changes the length of the first.
func extend(frame []byte, size byte, next ...byte) []byte {
	f := slices.Clone(frame[:offUDP6])
	f[offIP+6] = next[0]
	for i, typ := range next {
		h := make([]byte, 8)
		if h[0] = nextUDP; i+1 < len(next) {
			h[0] = next[i+1]
		}
		n := byte(0)
		if i == 0 {
			n = size
		}
		switch h[1] = n; typ {
		case nextAH:
			h = append(h, make([]byte, 4*int(n))...)
		case nextFragment:
			h[1] = 0xa5 // reserved
		default:
			h = append(h, make([]byte, 8*int(n))...)
		}
		f = append(f, h...)
	}
	f = append(f, frame[offUDP6:]...)
	addToIPLength(f, len(f)-len(frame))
	return f
}

var manyHeaders = []byte{60, 60, 60, 60, 60, 60, 60, 60, 60}

// extensionCases are frames with extension headers, built from one of IPv6.
func extensionCases(plain []byte) []struct {
	name  string
	frame []byte
	count string // name without "rx_" or "tx_"; "" = not counted
} {
	later := extend(plain, 0, nextFragment)
	later[offUDP6+3] = 8 // offset 1, in units of 8 bytes
	other := extend(plain, 0, nextHopByHop)
	other[offUDP6+8+3] ^= 1 // UDP port
	endless := extend(plain, 0, nextHopByHop)
	endless[offUDP6+1] = 255
	return []struct {
		name  string
		frame []byte
		count string
	}{
		{"hop-by-hop", extend(plain, 0, nextHopByHop), "extension"},
		{"hop-by-hop of 40 bytes", extend(plain, 4, nextHopByHop), "extension"},
		{"destination options", extend(plain, 0, nextDestOpts), "extension"},
		{"routing", extend(plain, 0, nextRouting), "extension"},
		{"AH of 12 bytes", extend(plain, 1, nextAH), "extension"},
		{"mobility, HIP, Shim6", extend(plain, 0, 135, 139, 140), "extension"},
		{"all", extend(plain, 0, nextHopByHop, nextDestOpts, nextRouting, nextDestOpts), "extension"},
		{"more than are followed", extend(plain, 0, manyHeaders...), "extension"},
		{"a header behind the end of the frame", endless, "extension"},
		{"first fragment", extend(plain, 0, nextFragment), "fragment"},
		{"hop-by-hop and first fragment", extend(plain, 0, nextHopByHop, nextFragment), "fragment"},
		{"later fragment", later, ""},
		{"another port", other, ""},
		{"ESP", extend(plain, 0, nextESP), ""},
	}
}

// RoCEv2 behind IPv6 extension headers is not read, but counted (S8).
func TestExtensionHeaders(t *testing.T) {
	l := newLab(t)
	for _, c := range extensionCases(fromPeer(t, over6(write(64)))) {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			verdict, out := l.in(c.frame)
			if verdict != xdpPass || !bytes.Equal(out, c.frame) {
				t.Errorf("ingress: verdict %d, changed %v", verdict, !bytes.Equal(out, c.frame))
			}
			l.wantCounted("rx_", c.count)
		})
	}
	for _, c := range extensionCases(toPeer(t, over6(write(64)))) {
		t.Run("egress, "+c.name, func(t *testing.T) {
			l := l.with(t)
			verdict, out := l.out(c.frame)
			if verdict != tcNext || !bytes.Equal(out, c.frame) || l.entries() != 0 {
				t.Errorf("egress: verdict %d, changed %v, %d entries", verdict, !bytes.Equal(out, c.frame), l.entries())
			}
			l.wantCounted("tx_", c.count)
		})
	}
}

func (l *lab) wantCounted(prefix, name string) {
	l.t.Helper()
	if name == "" {
		l.wantCounters()
		return
	}
	l.wantCounters(prefix + name)
}

// A peer over its limit cannot go on with packets in another form: extension headers, IPv4 options or
// fragments. Those to other hosts are not counted against it.
func TestRareFormsAreLimited(t *testing.T) {
	l := newLab(t)
	l.own(us4, us6)
	options := slices.Insert(fromPeer(t, write(1000)), offUDP4, 1, 1, 1, 0)
	options[offIP] = 0x46
	addToIPLength(options, 4)
	fragment := edit(fromPeer(t, write(1000)), func(f []byte) { f[offIP+6] = 0x20; fixIPv4(f) })
	six := fromPeer(t, over6(write(1000)))
	for _, c := range []struct {
		name  string
		frame []byte
		v6    bool
		count string
	}{
		{"IPv4 options", options, false, "rx_ip_options"},
		{"IPv4 fragments", fragment, false, "rx_fragment"},
		{"extension headers", extend(six, 0, nextHopByHop), true, "rx_extension"},
		{"IPv6 fragments", extend(six, 0, nextFragment), true, "rx_fragment"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := l.with(t)
			key := bpf.KeyOf(peerOf(c.v6))
			l.must(l.objs.ArrivalLimits.Put(key, &bpf.ArrivalLimit{RateBps: 1_000_000, UntilNs: 1 << 60}))
			l.must(l.objs.ArrivalCounts.Put(key, &bpf.ArrivalCount{}))
			l.must(l.objs.LimitState.Put(uint32(0), &bpf.LimitWords{Policed: 1}))
			foreign := edit(c.frame, func(f []byte) { f[5] = 9 })
			for range 2 {
				if verdict, _ := l.in(foreign); verdict != xdpPass {
					t.Errorf("to another MAC address: verdict %d", verdict)
				}
			}
			l.counters()
			if verdict, out := l.in(c.frame); verdict != xdpPass || !bytes.Equal(out, c.frame) {
				t.Errorf("the first packet: verdict %d", verdict)
			}
			l.wantCounters(c.count)
			if verdict, _ := l.in(c.frame); verdict != xdpDrop {
				t.Errorf("the second packet: verdict %d", verdict)
			}
			l.wantCounters(c.count, "rx_over_limit")
		})
	}
}
