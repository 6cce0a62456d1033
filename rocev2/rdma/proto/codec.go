// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

var order = binary.LittleEndian

// Append appends a message. body is nil or a pointer to a structure of this package.
func Append(b []byte, h Header, body any) []byte {
	b, _ = binary.Append(b, order, &h) // fails only for types without a fixed size
	if body != nil {
		b, _ = binary.Append(b, order, body)
	}
	return b
}

// AppendReply appends the reply to a request, of which Type and Seq count. With an error its text is the body.
func AppendReply(b []byte, request Header, body any, err error) []byte {
	h := Header{Type: request.Type | Reply, Seq: request.Seq, Status: StatusOf(err)}
	if err == nil {
		return Append(b, h, body)
	}
	text := err.Error()
	return append(Append(b, h, nil), text[:min(len(text), MaxText)]...)
}

// Split returns the header of a message and its body.
func Split(b []byte) (Header, []byte, error) {
	var h Header
	if _, err := binary.Decode(b, order, &h); err != nil {
		return h, nil, fmt.Errorf("%w: %d bytes, a header has %d", ErrProtocol, len(b), HeaderBytes)
	}
	return h, b[HeaderBytes:], nil
}

// Decode reads a body, which must have the length of the structure. body nil: it must be empty.
func Decode(b []byte, body any) error {
	want := 0
	if body != nil {
		want = binary.Size(body)
	}
	if len(b) != want {
		return fmt.Errorf("%w: a body of %d bytes, not of %d", ErrProtocol, len(b), want)
	}
	if body != nil {
		_, _ = binary.Decode(b, order, body) // fails only if b is too short
	}
	return nil
}

// DecodeEvent reads an Event and its text.
func DecodeEvent(b []byte) (e Event, text string, err error) {
	n := binary.Size(&e)
	if len(b) < n {
		return e, "", fmt.Errorf("%w: an event of %d bytes", ErrProtocol, len(b))
	}
	_, _ = binary.Decode(b, order, &e)
	return e, string(b[n:]), nil
}

// AddrOf returns an address as messages have it.
func AddrOf(a netip.Addr) (b Addr) {
	if a.IsValid() {
		b = a.As16()
	}
	return b
}

// IP is the inverse of AddrOf. IPv4 is returned as such.
func (a Addr) IP() netip.Addr {
	if a == (Addr{}) {
		return netip.Addr{}
	}
	return netip.AddrFrom16(a).Unmap()
}

var zero = []byte{0}

// CounterOf returns a counter as messages have it.
func CounterOf(v verbs.Counter) (c Counter) {
	c.Value = v.Value
	copy(c.Name[:], v.Name)
	copy(c.Text[:], v.Text)
	return c
}

// Verbs is the inverse of CounterOf.
func (c *Counter) Verbs() verbs.Counter {
	name, _, _ := bytes.Cut(c.Name[:], zero)
	text, _, _ := bytes.Cut(c.Text[:], zero)
	return verbs.Counter{Name: string(name), Value: c.Value, Text: string(text)}
}

// AVOf returns an address vector as messages have it.
func AVOf(v verbs.AddressVector) AddressVector {
	return AddressVector{Dst: AddrOf(v.Dst), Src: AddrOf(v.Src), TClass: v.TClass, HopLimit: v.HopLimit}
}

// Verbs is the inverse of AVOf.
func (v *AddressVector) Verbs() verbs.AddressVector {
	return verbs.AddressVector{Dst: v.Dst.IP(), Src: v.Src.IP(), TClass: v.TClass, HopLimit: v.HopLimit}
}

// AttrOf returns attributes as messages have them.
func AttrOf(a verbs.Attr) Attr {
	return Attr{
		State: uint8(a.State), PMTU: uint8(a.PMTU), Access: uint8(a.Access), MaxRdAtomic: a.MaxRdAtomic,
		MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer, Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry,
		Selective: flag(a.Selective), PKey: a.PKey, DestQPN: a.DestQPN, QKey: a.QKey, SQPSN: uint32(a.SQPSN), RQPSN: uint32(a.RQPSN),
		Draining: uint32(flag(a.Draining)), AV: AVOf(a.AV),
	}
}

// Verbs is the inverse of AttrOf.
func (a *Attr) Verbs() verbs.Attr {
	return verbs.Attr{
		State: verbs.State(a.State), PMTU: rocev2.PMTU(a.PMTU), Access: verbs.Access(a.Access), MaxRdAtomic: a.MaxRdAtomic,
		MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer, Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry,
		Selective: a.Selective != 0, PKey: a.PKey, DestQPN: a.DestQPN, QKey: a.QKey, SQPSN: rocev2.PSN(a.SQPSN), RQPSN: rocev2.PSN(a.RQPSN),
		Draining: a.Draining != 0, AV: a.AV.Verbs(),
	}
}

// GroupOf returns a group as messages have it. It has at most MaxDestinations destinations.
func GroupOf(g mr.Group) (m Group) {
	for _, d := range g {
		m.To[m.Count] = Destination{QPN: d.QPN, RKey: d.RKey, VA: d.VA}
		m.Count++
	}
	return m
}

// MR is the inverse of GroupOf.
func (m *Group) MR() (g mr.Group, err error) {
	if m.Count > MaxDestinations {
		return nil, fmt.Errorf("%w: a group of %d destinations", ErrProtocol, m.Count)
	}
	for _, d := range m.To[:m.Count] {
		g = append(g, mr.Destination{QPN: d.QPN, VA: d.VA, RKey: d.RKey})
	}
	return g, nil
}

func flag(on bool) uint8 {
	if on {
		return 1
	}
	return 0
}
