// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// Impossible configurations are refused, with what is allowed.
func TestConfig(t *testing.T) {
	good := ooo.Config{PMTU: rocev2.PMTU1024, Memory: &wiretest.Memory{}}
	if _, err := ooo.New(good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*ooo.Config){
		"Window is 32":         func(c *ooo.Config) { c.Window = 32 },
		"Window is 100":        func(c *ooo.Config) { c.Window = 100 },
		"Window is 65536":      func(c *ooo.Config) { c.Window = 1 << 16 },
		"PeerWindow is -1":     func(c *ooo.Config) { c.PeerWindow = -1 },
		"Messages is 4096":     func(c *ooo.Config) { c.Messages = 4096 },
		"Messages is 3":        func(c *ooo.Config) { c.Messages = 3 },
		"Paths is 65":          func(c *ooo.Config) { c.Paths = 65 },
		"Tries is 256":         func(c *ooo.Config) { c.Tries = 256 },
		"NotReadyTries is -5":  func(c *ooo.Config) { c.NotReadyTries = -5 },
		"a time of -1 ns":      func(c *ooo.Config) { c.MinRTO = -1 },
		"PMTU 9":               func(c *ooo.Config) { c.PMTU = 9 },
		"Payload is 258":       func(c *ooo.Config) { c.Payload = 258 },
		"Payload is 252":       func(c *ooo.Config) { c.Payload = 252 },
		"Payload is 4100":      func(c *ooo.Config) { c.Payload = 4100 },
		"no Memory":            func(c *ooo.Config) { c.Memory = nil },
		"PSNs have 24 bits":    func(c *ooo.Config) { c.SendPSN = 1 << 24 },
		"Responses is 1048576": func(c *ooo.Config) { c.Responses = 1 << 20 },
	} {
		c := good
		change(&c)
		if _, err := ooo.New(c); !errors.Is(err, ooo.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Post refuses what cannot be sent, and then posts nothing.
func TestPostErrors(t *testing.T) {
	cfg := config()
	cfg.Messages = 2
	p := newPair(t, cfg, 4)
	local := verbs.SGE{Addr: p.regions[0].Addr, Len: 100, LKey: p.regions[0].Key}
	for _, c := range []struct {
		r    ooo.Request
		want error
	}{
		{ooo.Request{Op: verbs.OpSend, Local: local}, ooo.ErrOp},
		{ooo.Request{Op: verbs.OpRead, Notify: true, Local: local}, ooo.ErrOp},
		{ooo.Request{Op: verbs.OpWrite, Local: verbs.SGE{Addr: local.Addr, Len: regionLen + 1, LKey: local.LKey}}, ooo.ErrLocal},
		{ooo.Request{Op: verbs.OpRead, Local: verbs.SGE{Addr: local.Addr, Len: 1, LKey: 5}}, ooo.ErrLocal},
	} {
		if err := p.qps[0].Post(&c.r); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.r, err, c.want)
		}
	}
	for range 2 {
		p.post(t, ooo.Request{Op: verbs.OpWrite, Local: local, RemoteAddr: p.regions[1].Addr, RKey: p.regions[1].Key})
	}
	if err := p.qps[0].Post(&ooo.Request{Op: verbs.OpWrite, Local: local}); !errors.Is(err, ooo.ErrFull) {
		t.Error(err)
	}
	p.run(t)
	if len(p.completions) != 2 {
		t.Errorf("%+v", p.completions)
	}
}

// Local memory that goes away while its message is in flight fails that message only.
func TestLocalMemoryGone(t *testing.T) {
	for _, op := range []verbs.Op{verbs.OpWrite, verbs.OpRead} {
		p := newPair(t, config(), 4)
		gone := p.nodes[0].Mem.Register(0, 5000, verbs.AccessLocalWrite)
		p.post(t, ooo.Request{Op: op, Local: verbs.SGE{Addr: gone.Addr, Len: 5000, LKey: gone.Key}, RemoteAddr: p.regions[1].Addr, RKey: p.regions[1].Key})
		gone.Invalid = true
		p.run(t)
		if len(p.completions) != 1 || p.completions[0].Status != verbs.StatusLocalProtection {
			t.Errorf("%v: %+v", op, p.completions)
		}
		p.post(t, ooo.Request{ID: 1, Op: verbs.OpWrite, Notify: true, Queue: 5, Local: verbs.SGE{}})
		p.run(t)
		if len(p.completions) != 2 || p.completions[1].Status != verbs.StatusSuccess {
			t.Errorf("%v: %+v", op, p.completions)
		}
	}
}

// The target's memory goes away between a READ request and its response.
func TestTargetMemoryGone(t *testing.T) {
	p := newPair(t, config(), 4)
	p.nodes[0].Links[0].Tap = func(pk *rocev2.Packet) {
		if o := pk.OETH(); o != nil && o.Fields().Flags&rocev2.OLast != 0 { // all requests arrive, then it goes
			p.After(6*wiretest.Microsecond, func() { p.regions[1].Invalid = true })
		}
	}
	p.post(t, ooo.Request{
		Op: verbs.OpRead, RemoteAddr: p.regions[1].Addr, RKey: p.regions[1].Key,
		Local: verbs.SGE{Addr: p.regions[0].Addr, Len: regionLen, LKey: p.regions[0].Key},
	})
	p.run(t)
	if len(p.completions) != 1 || p.completions[0].Status != verbs.StatusRemoteAccess || p.nodes[1].Unfilled == 0 {
		t.Errorf("%+v, %+v", p.completions, p.nodes[1].Count)
	}
}

// Close completes what is outstanding, and the queue pair then does nothing.
func TestClose(t *testing.T) {
	p := newPair(t, config(), 4)
	for i := range 3 {
		p.post(t, ooo.Request{ID: uint64(i), Op: verbs.OpWrite, RemoteAddr: p.regions[1].Addr, RKey: p.regions[1].Key})
	}
	p.nodes[0].Serve()
	p.qps[0].Close()
	p.qps[0].Close()
	var o ooo.Outbound
	if len(p.completions) != 3 || p.completions[0].Status != verbs.StatusWRFlushed || p.qps[0].Deadline() != 0 || p.qps[0].NextData(1, &o) {
		t.Errorf("%+v", p.completions)
	}
	p.run(t)
}

// Queue pairs of one host work at the same time, and their message ids do not meet.
func TestTwoQueuePairs(t *testing.T) {
	w := newWorld(5, config(), 2, 8, messages(5, 2000, 3000))
	second := wiretest.NewOOOApp(w.nodes[0], w.nodes[1], config(), 10, 8, 3000)
	ops := messages(6, 2000, 3000)
	second.Next = func(i int) (op wiretest.OOOMessage, ok bool) {
		if ok = i < len(ops); ok {
			op = ops[i]
		}
		return op, ok
	}
	w.faults(wiretest.Faults{Loss: 0.02, Duplicate: 0.05, Reorder: 0.5, ReorderBy: 50 * wiretest.Microsecond})
	w.run(t)
	second.Finish()
	if w.Err() != nil || second.Completed != len(ops) || w.app.Completed != len(ops) {
		t.Errorf("%v: %d and %d messages", w.Err(), w.app.Completed, second.Completed)
	}
}

// Notification receive queues have a size, a number, and an end.
func TestQueues(t *testing.T) {
	var s ooo.Queues
	for _, size := range []int{0, -1, ooo.MaxQueue + 1} {
		if _, err := s.Create(1, size); err == nil {
			t.Errorf("size %d is accepted", size)
		}
	}
	if _, err := s.Create(1, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(1, 1); err == nil {
		t.Error("the number is given twice")
	}
	s.Destroy(1)
	if _, err := s.Create(1, 1); err != nil {
		t.Error(err)
	}
}
