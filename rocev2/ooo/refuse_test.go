// SPDX-License-Identifier: Apache-2.0

package ooo_test

import (
	"bytes"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/ooo"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/wiretest"
)

// pair is two queue pairs, one region of memory at each, and what was reported.
type pair struct {
	*wiretest.Wire
	nodes         [2]*wiretest.OOONode
	qps           [2]*ooo.QP
	regions       [2]*wiretest.Region
	queue         *ooo.Queue
	completions   []verbs.Completion
	notifications []ooo.Notification
}

const regionLen = 1 << 14

func newPair(t *testing.T, cfg ooo.Config, queueSize int) *pair {
	p := &pair{Wire: wiretest.New(1)}
	p.nodes = p.NewOOOPair(1, 10e9, 5*wiretest.Microsecond)
	for i, n := range p.nodes {
		c := cfg
		c.QPN, c.PeerQPN = uint32(11+i), uint32(12-i)
		if i == 0 {
			c.Complete = func(c verbs.Completion) { p.completions = append(p.completions, c) }
		}
		p.qps[i] = n.Create(c)
		p.regions[i] = n.Mem.Register(0, regionLen, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
		for j := range p.regions[i].Data {
			p.regions[i].Data[j] = byte(j * (3 + i))
		}
	}
	var err error
	if p.queue, err = p.nodes[1].Queues.Create(5, queueSize); err != nil {
		t.Fatal(err)
	}
	return p
}

// poll empties the notification receive queue.
func (p *pair) poll() {
	for n, ok := p.queue.Poll(); ok; n, ok = p.queue.Poll() {
		p.notifications = append(p.notifications, n)
	}
}

func (p *pair) post(t *testing.T, r ooo.Request) {
	t.Helper()
	if r.Local.LKey == 0 {
		r.Local.Addr, r.Local.LKey = p.regions[0].Addr, p.regions[0].Key
	}
	if err := p.qps[0].Post(&r); err != nil {
		t.Fatal(err)
	}
}

func (p *pair) run(t *testing.T) {
	t.Helper()
	p.nodes[0].Serve()
	p.nodes[1].Serve()
	if err := p.Run(0); err != nil {
		t.Fatal(err)
	}
	for _, n := range p.nodes {
		if what := n.Quiet(); what != "" {
			t.Fatal(what)
		}
	}
}

// refusals are requests that the target must refuse.
func refusals(p *pair) map[string]struct {
	r    ooo.Request
	want verbs.Status
} {
	at := p.regions[1]
	local := verbs.SGE{Addr: p.regions[0].Addr, Len: 5000, LKey: p.regions[0].Key}
	type refusal = struct {
		r    ooo.Request
		want verbs.Status
	}
	return map[string]refusal{
		"WRITE, wrong key":        {ooo.Request{Op: verbs.OpWrite, Notify: true, Queue: 5, Local: local, RemoteAddr: at.Addr, RKey: at.Key + 1}, verbs.StatusRemoteAccess},
		"WRITE, before the range": {ooo.Request{Op: verbs.OpWrite, Local: local, RemoteAddr: at.Addr - 6000, RKey: at.Key}, verbs.StatusRemoteAccess},
		"WRITE, after the range":  {ooo.Request{Op: verbs.OpWrite, Notify: true, Queue: 5, Local: local, RemoteAddr: at.Addr + regionLen, RKey: at.Key}, verbs.StatusRemoteAccess},
		"WRITE, address wraps":    {ooo.Request{Op: verbs.OpWrite, Local: local, RemoteAddr: ^uint64(0) - 100, RKey: at.Key}, verbs.StatusRemoteAccess},
		"READ, wrong key":         {ooo.Request{Op: verbs.OpRead, Local: local, RemoteAddr: at.Addr, RKey: 1}, verbs.StatusRemoteAccess},
		"READ, after the range":   {ooo.Request{Op: verbs.OpRead, Local: local, RemoteAddr: at.Addr + regionLen, RKey: at.Key}, verbs.StatusRemoteAccess},
		"no such queue":           {ooo.Request{Op: verbs.OpWrite, Notify: true, Queue: 6, Local: verbs.SGE{}, RemoteAddr: at.Addr, RKey: at.Key}, verbs.StatusRemoteInvalidRequest},
	}
}

// A request with a wrong key or range is refused: no byte changes, nothing is notified, the
// message fails, and later messages go on.
func TestRefused(t *testing.T) {
	for name := range refusals(newPair(t, config(), 4)) {
		t.Run(name, func(t *testing.T) { refuse(t, name, wiretest.Faults{}) })
	}
}

// The same, with losses and duplicates.
func TestRefusedAndLost(t *testing.T) {
	for name := range refusals(newPair(t, config(), 4)) {
		t.Run(name, func(t *testing.T) {
			refuse(t, name, wiretest.Faults{Loss: 0.3, Duplicate: 0.3, Reorder: 0.5, ReorderBy: 100 * wiretest.Microsecond})
		})
	}
}

func refuse(t *testing.T, name string, f wiretest.Faults) {
	for seed := range uint64(20) {
		p := newPair(t, config(), 4)
		p.Rand.Uint64()
		for range seed {
			p.Rand.Uint64()
		}
		before := [2][]byte{bytes.Clone(p.regions[0].Data), bytes.Clone(p.regions[1].Data)}
		for _, n := range p.nodes {
			n.Links[0].Faults = f
		}
		c := refusals(p)[name]
		p.post(t, c.r)
		p.run(t)
		p.poll()
		if len(p.completions) != 1 || p.completions[0].Status != c.want || len(p.notifications) != 0 {
			t.Fatalf("seed %d: %+v, %+v, want %v", seed, p.completions, p.notifications, c.want)
		}
		if !bytes.Equal(before[0], p.regions[0].Data) || !bytes.Equal(before[1], p.regions[1].Data) {
			t.Fatalf("seed %d: memory has changed", seed)
		}
		if p.nodes[1].Count.Refused == 0 || p.nodes[0].Count.Failed != 1 {
			t.Errorf("seed %d: %+v %+v", seed, p.nodes[0].Count, p.nodes[1].Count)
		}
		p.post(t, ooo.Request{
			ID: 1, Op: verbs.OpWrite, Notify: true, Queue: 5, Descriptor: 77, RemoteAddr: p.regions[1].Addr, RKey: p.regions[1].Key,
			Local: verbs.SGE{Addr: p.regions[0].Addr, Len: 9000, LKey: p.regions[0].Key},
		})
		p.run(t)
		p.poll()
		if len(p.completions) != 2 || p.completions[1].Status != verbs.StatusSuccess || len(p.notifications) != 1 ||
			p.notifications[0].Descriptor != 77 || !bytes.Equal(p.regions[1].Data[:9000], p.regions[0].Data[:9000]) {
			t.Fatalf("seed %d, the next message: %+v, %+v", seed, p.completions, p.notifications)
		}
	}
}

// A message whose end lies outside of the region fails, and nothing outside changes. (What lies
// inside may be written, as with RC.)
func TestRefusedEnd(t *testing.T) {
	for seed := range 200 {
		p := newPair(t, config(), 4)
		for range seed {
			p.Rand.Uint64()
		}
		if seed > 0 {
			for _, n := range p.nodes {
				n.Links[0].Faults = wiretest.Faults{Loss: 0.3, Reorder: 0.5, ReorderBy: 100 * wiretest.Microsecond}
			}
		}
		p.post(t, ooo.Request{
			Op: verbs.OpWrite, Notify: true, Queue: 5, RemoteAddr: p.regions[1].Addr + regionLen - 3000, RKey: p.regions[1].Key,
			Local: verbs.SGE{Addr: p.regions[0].Addr, Len: 5000, LKey: p.regions[0].Key},
		})
		p.run(t)
		p.poll()
		if len(p.completions) != 1 || p.completions[0].Status != verbs.StatusRemoteAccess || len(p.notifications) != 0 {
			t.Fatalf("seed %d: %+v, %+v", seed, p.completions, p.notifications)
		}
	}
}

// While the notification receive queue is full, notifications are repeated. Each arrives once,
// when there is room.
func TestFullQueue(t *testing.T) {
	for _, loss := range []float64{0, 0.2} {
		p := newPair(t, config(), 2)
		for _, n := range p.nodes {
			n.Links[0].Faults = wiretest.Faults{Loss: loss, Duplicate: 0.2, Reorder: 0.5, ReorderBy: 50 * wiretest.Microsecond}
		}
		const messages = 20
		for i := range messages {
			p.post(t, ooo.Request{
				ID: uint64(i), Op: verbs.OpWrite, Notify: true, Queue: 5, Descriptor: uint64(i), RemoteAddr: p.regions[1].Addr, RKey: p.regions[1].Key,
				Local: verbs.SGE{Addr: p.regions[0].Addr, Len: 100, LKey: p.regions[0].Key},
			})
		}
		var poll func()
		poll = func() {
			if n, ok := p.queue.Poll(); ok {
				p.notifications = append(p.notifications, n)
			}
			if len(p.completions) < messages {
				p.After(700*wiretest.Microsecond, poll)
			}
		}
		p.After(wiretest.Millisecond, poll)
		p.run(t)
		p.poll()
		seen := map[uint64]bool{}
		for _, n := range p.notifications {
			seen[n.Descriptor] = true
		}
		if len(p.notifications) != messages || len(seen) != messages || p.nodes[0].Count.NotReady == 0 {
			t.Errorf("loss %v: %d notifications of %d messages, %d refusals", loss, len(p.notifications), len(seen), p.nodes[0].Count.NotReady)
		}
		for _, c := range p.completions {
			if c.Status != verbs.StatusSuccess {
				t.Errorf("%+v", c)
			}
		}
	}
}

// A queue that stays full fails the message in the end.
func TestFullQueueForever(t *testing.T) {
	cfg := config()
	cfg.NotReadyTries = 5
	p := newPair(t, cfg, 1)
	for i := range 3 {
		p.post(t, ooo.Request{ID: uint64(i), Op: verbs.OpWrite, Notify: true, Queue: 5})
	}
	p.run(t)
	status := map[verbs.Status]int{}
	for _, c := range p.completions {
		status[c.Status]++
	}
	if status[verbs.StatusSuccess] != 1 || status[verbs.StatusRNRRetryExceeded] != 2 || p.qps[0].Ended() {
		t.Errorf("%+v", p.completions)
	}
}

// Without answers the queue pair ends, in bounded time, and everything completes.
func TestNoAnswer(t *testing.T) {
	cfg := config()
	cfg.Tries = 4
	p := newPair(t, cfg, 1)
	p.nodes[0].Links[0].Loss = 1
	for i := range 3 {
		p.post(t, ooo.Request{ID: uint64(i), Op: verbs.OpWrite, Notify: true, Queue: 5, Local: verbs.SGE{}})
	}
	p.run(t)
	if len(p.completions) != 3 || p.completions[0].Status != verbs.StatusRetryExceeded ||
		p.completions[2].Status != verbs.StatusWRFlushed || !p.qps[0].Ended() || p.Now() > wiretest.Second {
		t.Errorf("%d ns: %+v", p.Now(), p.completions)
	}
	if err := p.qps[0].Post(&ooo.Request{Op: verbs.OpWrite}); err != ooo.ErrEnded {
		t.Error(err)
	}
}

// A silent peer is found in 4 + 8 + 16 + 32 ms with a full window, too, and not when each of many packets has had
// its turns on new paths.
func TestNoAnswerFullWindow(t *testing.T) {
	cfg := config()
	cfg.Tries = 4
	p := newPair(t, cfg, 1)
	p.nodes[0].Links[0].Loss = 1
	for range 16 {
		p.post(t, ooo.Request{Op: verbs.OpWrite, Local: verbs.SGE{Len: regionLen}, RemoteAddr: p.regions[1].Addr, RKey: p.regions[1].Key})
	}
	p.run(t)
	if len(p.completions) != 16 || !p.qps[0].Ended() || p.Now() > 70*wiretest.Millisecond {
		t.Errorf("%d ns: %+v", p.Now(), p.completions)
	}
}

// Nothing that a peer puts into an OREAD_RESP decides where it is placed.
func TestHostileReadResponse(t *testing.T) {
	for name, change := range map[string]func(*rocev2.OETHFields){
		"address and key":    func(f *rocev2.OETHFields) { f.VA += 64; f.RKey++ },
		"index":              func(f *rocev2.OETHFields) { f.Index++ },
		"message":            func(f *rocev2.OETHFields) { f.Message++ },
		"length":             func(f *rocev2.OETHFields) { f.Length-- },
		"index out of range": func(f *rocev2.OETHFields) { f.Index = 1<<24 - 1 },
	} {
		p := newPair(t, config(), 1)
		want := bytes.Clone(p.regions[0].Data)
		copy(want[:3000], p.regions[1].Data[100:])
		p.regions[0].Written = func(_ uint32, off int, data []byte) {
			if off+len(data) > 3000 || !bytes.Equal(data, want[off:off+len(data)]) {
				t.Errorf("%s: %d bytes placed at %d", name, len(data), off)
			}
		}
		hostile := 0
		p.nodes[1].Links[0].Tap = func(pk *rocev2.Packet) {
			if h := pk.OETH(); h != nil && hostile < 5 {
				hostile++
				f := h.Fields()
				change(&f)
				h.Set(f)
				pk.PutICRC()
			}
		}
		p.post(t, ooo.Request{
			Op: verbs.OpRead, RemoteAddr: p.regions[1].Addr + 100, RKey: p.regions[1].Key,
			Local: verbs.SGE{Addr: p.regions[0].Addr, Len: 3000, LKey: p.regions[0].Key},
		})
		p.run(t)
		if !bytes.Equal(p.regions[0].Data, want) || hostile == 0 || len(p.completions) != 1 || p.completions[0].Status != 0 {
			t.Errorf("%s: %d hostile responses, %+v", name, hostile, p.completions)
		}
	}
}
