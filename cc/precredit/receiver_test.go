// SPDX-License-Identifier: Apache-2.0

package precredit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	us = int64(time.Microsecond)
	ms = int64(time.Millisecond)
)

func testParams(buffer, share, least uint32) Params {
	return Params{BufferBytes: buffer, ShareBytes: share, MinBytes: least, LifeNs: 100 * ms, DelayNs: ms, RetryNs: 100 * us}
}

// listing is the list of S5.2 in words: "3:40 1:20".
func listing(r *Receiver) string {
	l := slices.Clone(r.list)
	slices.SortFunc(l, func(a, b *grantee) int {
		if (list{a, b}).Less(0, 1) {
			return -1
		}
		return 1
	})
	var words []string
	for _, p := range l {
		words = append(words, fmt.Sprintf("%d:%d", p.id, p.share))
	}
	return strings.Join(words, " ")
}

// S5.2, rule by rule. Each line is a new flow, or what else changes the list.
func TestListRules(t *testing.T) {
	type line struct {
		do   string // flow N, leave N
		want Outcome
		list string
	}
	for _, c := range []struct {
		name                 string
		buffer, share, least uint32
		lines                []line
	}{
		{"free pre-credit until it has gone, then the head's", 100, 40, 10, []line{
			{"flow 1", Outcome{RuleFree, 40, 0}, "1:40"},
			{"flow 2", Outcome{RuleFree, 40, 0}, "1:40 2:40"},
			{"flow 3", Outcome{RuleFree, 20, 0}, "1:40 2:40 3:20"}, // what is left
			{"flow 4", Outcome{RuleHead, 40, 1}, "2:40 4:40 3:20"}, // the whole of it
			{"flow 5", Outcome{RuleHead, 40, 2}, "4:40 5:40 3:20"},
			{"flow 1", Outcome{RuleHead, 40, 4}, "5:40 1:40 3:20"}, // and it may come back
		}},
		{"a sender in the list has its share, and nobody else's", 100, 40, 10, []line{
			{"flow 1", Outcome{RuleFree, 40, 0}, "1:40"},
			{"flow 1", Outcome{RuleShare, 40, 0}, "1:40"},
			{"flow 2", Outcome{RuleFree, 40, 0}, "1:40 2:40"},
			{"flow 3", Outcome{RuleFree, 20, 0}, "1:40 2:40 3:20"},
			{"flow 3", Outcome{RuleShare, 20, 0}, "1:40 2:40 3:20"},
		}},
		{"the first rule comes before the second: free pre-credit does not top up", 100, 60, 10, []line{
			{"flow 1", Outcome{RuleFree, 60, 0}, "1:60"},
			{"flow 2", Outcome{RuleFree, 40, 0}, "1:60 2:40"},
			{"leave 1", Outcome{}, "2:40"},
			{"flow 2", Outcome{RuleShare, 40, 0}, "2:40"},
			{"flow 3", Outcome{RuleFree, 60, 0}, "3:60 2:40"},
		}},
		{"less than a packet is not free pre-credit", 100, 48, 10, []line{
			{"flow 1", Outcome{RuleFree, 48, 0}, "1:48"},
			{"flow 2", Outcome{RuleFree, 48, 0}, "1:48 2:48"},
			{"flow 3", Outcome{RuleHead, 48, 1}, "2:48 3:48"}, // 4 bytes stay free
		}},
		{"of equals the oldest gives up, so shares go round", 30, 10, 10, []line{
			{"flow 9", Outcome{RuleFree, 10, 0}, "9:10"},
			{"flow 3", Outcome{RuleFree, 10, 0}, "9:10 3:10"},
			{"flow 6", Outcome{RuleFree, 10, 0}, "9:10 3:10 6:10"},
			{"flow 1", Outcome{RuleHead, 10, 9}, "3:10 6:10 1:10"},
			{"flow 9", Outcome{RuleHead, 10, 3}, "6:10 1:10 9:10"},
			{"flow 3", Outcome{RuleHead, 10, 6}, "1:10 9:10 3:10"},
		}},
		{"a share that was left is free for the next", 20, 10, 10, []line{
			{"flow 1", Outcome{RuleFree, 10, 0}, "1:10"},
			{"flow 2", Outcome{RuleFree, 10, 0}, "1:10 2:10"},
			{"leave 1", Outcome{}, "2:10"},
			{"leave 1", Outcome{}, "2:10"},
			{"leave 7", Outcome{}, "2:10"},
			{"flow 3", Outcome{RuleFree, 10, 0}, "2:10 3:10"},
		}},
		{"one share for all", 10, 10, 10, []line{
			{"flow 1", Outcome{RuleFree, 10, 0}, "1:10"},
			{"flow 2", Outcome{RuleHead, 10, 1}, "2:10"},
			{"flow 2", Outcome{RuleShare, 10, 0}, "2:10"},
			{"flow 1", Outcome{RuleHead, 10, 2}, "1:10"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := testParams(c.buffer, c.share, c.least)
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			r := NewReceiver(p, 1)
			for i, l := range c.lines {
				var verb string
				var id SenderID
				if _, err := fmt.Sscan(l.do, &verb, &id); err != nil {
					t.Fatal(err)
				}
				var got Outcome
				if verb == "flow" {
					got = r.NewFlow(0, id)
				} else {
					r.Leave(id)
				}
				if got != l.want {
					t.Errorf("%d: %s: %+v, want %+v", i, l.do, got, l.want)
				}
				if s := listing(r); s != l.list {
					t.Errorf("%d: %s: list %q, want %q", i, l.do, s, l.list)
				}
			}
		})
	}
}

// wire is a perfect network between a receiver and some accounts.
type wire struct {
	t   *testing.T
	r   *Receiver
	acc map[SenderID]*Account
}

func newWire(t *testing.T, p Params) *wire {
	return &wire{t, NewReceiver(p, 1), map[SenderID]*Account{}}
}

func (w *wire) account(id SenderID) *Account {
	if w.acc[id] == nil {
		w.acc[id] = &Account{}
	}
	return w.acc[id]
}

// pump carries all grants out and their answers back.
func (w *wire) pump(now int64) {
	for range 100 {
		to, g, ok := w.r.Next(now)
		if !ok {
			return
		}
		if m, send := w.account(to).Grant(now, g); send {
			w.r.Return(now, to, m)
		}
	}
	w.t.Fatal("grants without end")
}

// data carries one packet there and its ACK back.
func (w *wire) data(now int64, id SenderID, n uint32) bool {
	c, ok := w.account(id).Spend(now, n)
	if !ok {
		return false
	}
	w.r.Arrive(now, id, n, c)
	if c, ok := w.r.DstScheduleCredit(now, id, n); ok {
		w.account(id).Credit(now, c)
	}
	return true
}

// S5.1: the grant comes ahead of any data. S5.5: the ACK brings back what the packet
// took.
func TestGrantAndCredit(t *testing.T) {
	w := newWire(t, testParams(100, 40, 10))
	if w.account(7).Usable(0) != 0 {
		t.Fatal("pre-credit before a connection")
	}
	w.r.NewFlow(0, 7)
	w.pump(0)
	if got := w.account(7).Usable(0); got != 40 {
		t.Fatalf("granted %d, want 40", got)
	}
	if _, ok := w.account(7).Spend(0, 41); ok {
		t.Fatal("spent more than was granted")
	}
	for range 100 {
		if !w.data(1, 7, 10) || w.account(7).Usable(1) != 40 {
			t.Fatalf("after a packet and its ACK: %d", w.account(7).Usable(1))
		}
	}
	if s := w.r.Stats(); s.Drained != 1000 || s.Given != 1040 || w.r.Outstanding() != 40 {
		t.Errorf("%+v, %d outstanding", s, w.r.Outstanding())
	}
}

// The head's bytes change hands when they are back, not before: what it has in flight
// may still come.
func TestHeadGivesUp(t *testing.T) {
	w := newWire(t, testParams(40, 40, 10))
	w.r.NewFlow(0, 1)
	w.pump(0)
	used, _ := w.account(1).Spend(0, 15) // in flight
	if o := w.r.NewFlow(0, 2); o != (Outcome{RuleHead, 40, 1}) {
		t.Fatalf("%+v", o)
	}
	w.pump(0)
	if a, b := w.account(1).Usable(0), w.account(2).Usable(0); a != 0 || b != 25 {
		t.Fatalf("head has %d, the new one %d; want 0 and 25 while 15 are in flight", a, b)
	}
	w.r.Arrive(us, 1, 15, used)
	if w.r.Outstanding() != 40 {
		t.Fatalf("%d outstanding with a packet in the buffer", w.r.Outstanding())
	}
	if c, ok := w.r.DstScheduleCredit(us, 1, 15); ok {
		t.Errorf("the ACK to the former head grants %+v", c)
	}
	w.pump(us)
	if b := w.account(2).Usable(us); b != 40 {
		t.Errorf("the new one has %d after the packet was served, want 40", b)
	}
}

// A packet that is lost is off the budget when it cannot arrive any more.
func TestLostData(t *testing.T) {
	w := newWire(t, testParams(40, 40, 10))
	w.r.NewFlow(0, 1)
	w.pump(0)
	if _, ok := w.account(1).Spend(0, 10); !ok { // lost
		t.Fatal("no pre-credit")
	}
	w.data(0, 1, 10)
	if got := w.r.Outstanding(); got != 40 {
		t.Fatalf("outstanding %d: the ACK restores what has arrived, not what is missing", got)
	}
	if w.account(1).Usable(0) != 30 {
		t.Fatalf("usable %d, want 30", w.account(1).Usable(0))
	}
	w.r.Expire(ms - 1)
	if w.r.Stats().Lost != 0 {
		t.Fatal("given up too soon")
	}
	w.r.Expire(ms)
	if w.r.Stats().Lost != 10 {
		t.Fatalf("%+v", w.r.Stats())
	}
	w.pump(ms)
	if w.account(1).Usable(ms) != 40 || w.r.Outstanding() != 40 {
		t.Errorf("usable %d, outstanding %d; want the lost bytes granted again", w.account(1).Usable(ms), w.r.Outstanding())
	}
}

func TestGrantIsRepeatedUntilAnswered(t *testing.T) {
	p := testParams(40, 40, 10)
	r := NewReceiver(p, 1)
	r.NewFlow(0, 1)
	var a Account
	sent, now := 0, int64(0)
	for range 3 {
		for {
			_, g, ok := r.Next(now)
			if !ok {
				break
			}
			if sent++; sent == 3 { // two are lost, and so is its answer
				a.Grant(now, g)
			}
			if sent == 4 {
				m, _ := a.Grant(now, g)
				r.Return(now, 1, m)
			}
		}
		now = r.Deadline()
		r.Expire(now)
	}
	if _, g, ok := r.Next(now); ok {
		m, _ := a.Grant(now, g)
		r.Return(now, 1, m)
		sent++
	}
	if sent != 4 || a.Usable(now) != 40 || r.Stats().Retries != 3 {
		t.Errorf("%d grants, usable %d, %+v", sent, a.Usable(now), r.Stats())
	}
	r.Expire(now + 50*ms)
	if _, _, ok := r.Next(now + 50*ms); ok {
		t.Error("repeated after the answer")
	}
}

// A sender that never answers is given up, and so is what it was given.
func TestDeadSender(t *testing.T) {
	r := NewReceiver(testParams(40, 40, 10), 1)
	r.NewFlow(0, 1)
	sent := 0
	for r.Deadline() != 0 {
		now := r.Deadline()
		for _, _, ok := r.Next(now); ok; _, _, ok = r.Next(now) {
			sent++
		}
		r.Expire(now)
		if now > 10_000*ms {
			t.Fatal("never given up")
		}
	}
	if sent != maxTries || r.Outstanding() != 0 || r.free != 40 || len(r.peers) != 0 {
		t.Errorf("%d grants, %d outstanding, %d free", sent, r.Outstanding(), r.free)
	}
}

// Pre-credit that lies unused goes back, and the share with it.
func TestExpired(t *testing.T) {
	w := newWire(t, testParams(40, 40, 10))
	w.r.NewFlow(0, 1)
	w.pump(0)
	w.data(ms, 1, 10)
	a := w.account(1)
	if a.Deadline() != 101*ms {
		t.Fatalf("deadline %d", a.Deadline())
	}
	if _, send := a.Expire(101*ms - 1); send {
		t.Fatal("before its time")
	}
	if a.Usable(101*ms) != 0 {
		t.Error("usable after its life")
	}
	m, send := a.Expire(101 * ms)
	if !send || !m.Expired || m.Void != 40 {
		t.Fatalf("%+v, %v", m, send)
	}
	w.r.Return(101*ms, 1, m)
	if listing(w.r) != "" || w.r.Outstanding() != 0 || w.r.Stats().Void != 40 {
		t.Errorf("list %q, outstanding %d, %+v", listing(w.r), w.r.Outstanding(), w.r.Stats())
	}
	if o := w.r.NewFlow(102*ms, 1); o.Rule != RuleFree {
		t.Errorf("the next flow: %+v", o)
	}
	w.pump(102 * ms)
	if a.Usable(102*ms) != 40 {
		t.Errorf("usable %d", a.Usable(102*ms))
	}
}

// A sender that was restarted says that it knows nothing. Its old packets have their
// time to arrive, then it gets a new account.
func TestRestartedSender(t *testing.T) {
	w := newWire(t, testParams(100, 40, 10))
	w.r.NewFlow(0, 1)
	w.pump(0)
	w.data(0, 1, 10)
	w.acc[1] = &Account{}
	w.r.Leave(1) // a queue pair went, another comes
	w.r.NewFlow(us, 1)
	w.pump(us)
	if got := w.account(1).Usable(us); got != 0 {
		t.Fatalf("usable %d of an account that it does not know", got)
	}
	for w.r.Deadline() != 0 && w.r.Deadline() < 10*ms {
		now := w.r.Deadline()
		w.r.Expire(now)
		w.pump(now)
	}
	if got := w.account(1).Usable(10 * ms); got != 40 || w.r.Outstanding() != 40 {
		t.Errorf("usable %d, outstanding %d, want a new share of 40", got, w.r.Outstanding())
	}
}

func TestAccountIgnoresThePast(t *testing.T) {
	var a Account
	a.Credit(0, Credit{100, 1})
	if a.Usable(0) != 0 {
		t.Error("an ACK alone gives pre-credit")
	}
	if m, send := a.Grant(0, Grant{Epoch: 5, Limit: 40, Seq: 9, LifeNs: ms}); !send || !m.Unknown || a.Usable(0) != 0 {
		t.Errorf("a grant that does not open: %+v %v, usable %d", m, send, a.Usable(0))
	}
	a.Grant(0, Grant{Epoch: 5, Limit: 40, Seq: 9, Open: true, LifeNs: ms})
	a.Credit(0, Credit{1000, 8}) // of the epoch before
	a.Credit(0, Credit{30, 9})   // overtaken
	if a.Usable(0) != 40 {
		t.Errorf("usable %d, want 40", a.Usable(0))
	}
	if _, send := a.Grant(0, Grant{Epoch: 4, Limit: 90, Seq: 3, Open: true, LifeNs: ms}); send || a.Usable(0) != 40 {
		t.Error("an epoch of the past opened again")
	}
	a.Grant(0, Grant{Epoch: 5, Limit: 50, Seq: 11})
	if m, _ := a.Grant(0, Grant{Epoch: 5, Limit: 40, Seq: 10, Recall: true}); m.Void != 0 || a.Usable(0) != 50 {
		t.Errorf("a recall that was overtaken: %+v, usable %d", m, a.Usable(0))
	}
	if m, _ := a.Grant(0, Grant{Epoch: 5, Limit: 50, Seq: 12, Recall: true}); m.Void != 50 || m.Sent != 0 || a.Usable(0) != 0 {
		t.Errorf("recall: %+v, usable %d", m, a.Usable(0))
	}
	a.Grant(0, Grant{Epoch: 6, Limit: 20, Seq: 1, Open: true, LifeNs: ms})
	if a.Usable(0) != 20 {
		t.Errorf("the next epoch: usable %d", a.Usable(0))
	}
	if m, send := a.GiveUp(); !send || !m.Expired || m.Void != 20 || a.Usable(0) != 0 {
		t.Errorf("give up: %+v", m)
	}
	if _, send := a.GiveUp(); send {
		t.Error("gave up nothing")
	}
}

// Totals and numbers wrap; nothing may notice.
func TestWrap(t *testing.T) {
	w := newWire(t, testParams(1<<20, 1<<18, 1000))
	w.r.NewFlow(0, 1)
	w.pump(0)
	for i := range 5 * (1 << 32) / (1 << 18) {
		now := int64(i)
		if !w.data(now, 1, 1<<18) {
			t.Fatalf("no pre-credit after %d packets: %d", i, w.account(1).Usable(now))
		}
	}
	if w.r.Outstanding() != 1<<18 || w.r.Stats().Drained != 5<<32 {
		t.Errorf("outstanding %d, %+v", w.r.Outstanding(), w.r.Stats())
	}
}

// So do the numbers of grants within one account.
func TestManyGrants(t *testing.T) {
	w := newWire(t, testParams(40, 40, 10))
	for i := range 200_000 {
		now := int64(i)
		w.r.NewFlow(now, SenderID(i&1)) // the two rob each other
		w.pump(now)
		if !w.data(now, SenderID(i&1), 10) {
			t.Fatalf("no pre-credit after %d grants", i)
		}
	}
	if p := w.r.peers[0]; p.epoch != 1 {
		t.Errorf("epoch %d: meant to be one account", p.epoch)
	}
}

func TestParams(t *testing.T) {
	if got := BDP(100e9, 12*us); got != 150_000 {
		t.Errorf("BDP %d, want 150 000", got)
	}
	if got := BDP(1<<42, maxTime); got != maxBuffer {
		t.Errorf("BDP %d, want the limit", got)
	}
	p := Plan(100e9, 12*us, 2_000_000, 1000, 0)
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if p.ShareBytes != 150_000 || p.BufferBytes/p.ShareBytes != 13 {
		t.Errorf("share %d, incast of %d", p.ShareBytes, p.BufferBytes/p.ShareBytes)
	}
	p = Plan(100e9, 12*us, 2_000_000, 1000, 64)
	if p.ShareBytes != 31_000 || p.BufferBytes/p.ShareBytes != 64 {
		t.Errorf("share %d, incast of %d", p.ShareBytes, p.BufferBytes/p.ShareBytes)
	}
	for _, c := range []struct {
		change func(*Params)
		want   string
	}{
		{func(p *Params) { p.BufferBytes = 0 }, "buffer"},
		{func(p *Params) { p.ShareBytes = p.BufferBytes + 1 }, "share"},
		{func(p *Params) { p.MinBytes = 0 }, "least"},
		{func(p *Params) { p.LifeNs = 0 }, "life"},
		{func(p *Params) { p.DelayNs = maxTime + 1 }, "delay"},
		{func(p *Params) { p.RetryNs = -1 }, "retry"},
	} {
		q := p
		c.change(&q)
		if err := q.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want something about %s", q, err, c.want)
		}
	}
}

func BenchmarkDstScheduleCredit(b *testing.B) {
	for _, n := range []int{1, 64, 4096} {
		b.Run(fmt.Sprintf("%d senders", n), func(b *testing.B) {
			r := NewReceiver(testParams(1<<30, 1<<16, 1000), 1)
			accounts := make([]Account, n)
			for i := range accounts {
				r.NewFlow(0, SenderID(i))
			}
			for to, g, ok := r.Next(0); ok; to, g, ok = r.Next(0) {
				m, _ := accounts[to].Grant(0, g)
				r.Return(0, to, m)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				id := SenderID(i % n)
				c, ok := accounts[id].Spend(0, 1000)
				if !ok {
					b.Fatal("no pre-credit")
				}
				r.Arrive(0, id, 1000, c)
				c, _ = r.DstScheduleCredit(0, id, 1000)
				accounts[id].Credit(0, c)
			}
		})
	}
}

func BenchmarkNewFlowHead(b *testing.B) {
	r := NewReceiver(testParams(1<<30, 1<<18, 1000), 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.NewFlow(0, SenderID(i&8191)) // 4096 shares among 8192 senders
		if _, _, ok := r.Next(0); !ok {
			b.Fatal("no grant")
		}
	}
}
