// SPDX-License-Identifier: Apache-2.0

package qp

import (
	"bytes"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mem"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// capitals writes letters as capitals, and records where they came from.
type capitals struct {
	calls   int
	inPlace bool // inPlace of the last call
}

func (c *capitals) Put(dst, src []byte) {
	c.calls++
	c.inPlace = len(src) > 0 && &dst[0] == &src[0]
	copy(dst, bytes.ToUpper(src))
}

// direct is testMemory whose bytes a Transform gets itself.
type direct struct{ *testMemory }

func (m direct) TransformLocal(pd, key uint32, addr uint64, dst []byte, t mem.Transform) mem.Fault {
	b, f := m.at(pd, key, addr, len(dst), 0)
	if f == mem.FaultNone {
		t.Put(dst, b)
	}
	return f
}

func (m direct) TransformRemote(pd, _, key uint32, addr uint64, dst []byte, t mem.Transform) mem.Fault {
	return m.TransformLocal(pd, key, addr, dst, t)
}

// A transform is called once for each packet. It gets the memory itself if that is in one piece and can be
// used so, and otherwise a copy in the packet.
func TestFillBy(t *testing.T) {
	whole := func(*verbs.SendWR) {}
	list := func(wr *verbs.SendWR) {
		wr.SGL = []verbs.SGE{{Addr: dataBase, Len: 2, LKey: dataKey}, {Addr: dataBase + 2, Len: 3, LKey: dataKey}}
	}
	inline := func(wr *verbs.SendWR) { wr.SGL, wr.Data, wr.Flags = nil, []byte("hello"), verbs.Inline }
	nothing := func(wr *verbs.SendWR) { wr.SGL = nil }
	for _, c := range []struct {
		name    string
		direct  bool
		wr      func(*verbs.SendWR)
		want    string
		inPlace bool
	}{
		{"memory itself", true, whole, "HELLO", false},
		{"memory that cannot", false, whole, "HELLO", true},
		{"a list", true, list, "HELLO", true},
		{"inline", true, inline, "HELLO", true},
		{"no data", true, nothing, "", false},
	} {
		x := newSource(t, verbs.RC, func(cfg *Config, _ *verbs.Attr) {
			if m, ok := cfg.Memory.(*testMemory); ok && c.direct {
				cfg.Memory = direct{m}
			}
		})
		copy(x.m.regions[dataKey].data, "hello")
		x.post(verbs.OpSend, 5, 0, c.wr)
		if !nextData(t, x.q, x.now, &x.out) {
			t.Fatalf("%s: no packet", c.name)
		}
		got, by := make([]byte, x.out.PayloadLen), &capitals{}
		if !x.out.FillBy(got, by) || string(got) != c.want || by.calls != 1 || by.inPlace != c.inPlace {
			t.Errorf("%s: %q, %+v", c.name, got, *by)
		}
		if string(x.m.regions[dataKey].data[:5]) != "hello" {
			t.Errorf("%s: memory has changed", c.name)
		}
	}
}

// Memory that refuses ends the work request, and the transform is not called.
func TestFillByFault(t *testing.T) {
	for _, name := range []string{"direct", "copy"} {
		x := newSource(t, verbs.RC, func(cfg *Config, _ *verbs.Attr) {
			if m, ok := cfg.Memory.(*testMemory); ok && name == "direct" {
				cfg.Memory = direct{m}
			}
		})
		x.post(verbs.OpWrite, 100, 0, func(wr *verbs.SendWR) { wr.SGL[0].LKey = 0xBAD })
		by := &capitals{}
		if !nextData(t, x.q, x.now, &x.out) || x.out.FillBy(make([]byte, 100), by) || by.calls != 0 {
			t.Errorf("%s: %+v", name, *by)
		}
		x.wantDone(0, verbs.StatusLocalProtection)
	}
}

// An Outbound that has had a packet of another transport has nothing of it in the next one, neither in a request nor
// in responses without and with data.
func TestOutboundAfterAnother(t *testing.T) {
	x := newSource(t, verbs.RC)
	x.post(verbs.OpSend, 5, 0)
	y := newTarget(t, verbs.RC)
	y.next(asking(write(wo, dataBase, 64, 64)))
	z := newTarget(t, verbs.RC)
	z.next(dg{Opcode: rocev2.RCReadRequest, VA: dataBase, RKey: dataKey, DMALen: 64})
	for name, next := range map[string]func(*Outbound) bool{
		"request":       func(o *Outbound) bool { return x.q.NextData(x.now, o) },
		"ACK":           func(o *Outbound) bool { return y.q.NextAck(y.now, o) },
		"READ response": func(o *Outbound) bool { return z.q.NextData(z.now, o) },
	} {
		o := &Outbound{Datagram: rocev2.Datagram{BECN: true, OOO: new(rocev2.OOOFields)}, Rail: 2}
		if !next(o) || o.BECN || o.OOO != nil || o.Rail != 0 {
			t.Errorf("%s: BECN %t, out of order %v, rail %d", name, o.BECN, o.OOO, o.Rail)
		}
	}
}
