// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// After an outage all queue pairs continue within 300 ms, or within 100 ms if the link is reported up, and within twice
// that if probes and their responses may be lost. From 300 ms of it on, the destination gets one packet in 100 ms.
func TestOutage(t *testing.T) {
	for _, flows := range []int{1, 2, 5, 100} {
		for _, length := range []time.Duration{500 * time.Millisecond, time.Second, 3 * time.Second, 0} {
			for _, loss := range []float64{0, 0.02} {
				for _, event := range []bool{false, true} {
					name := fmt.Sprintf("%d queue pairs/%v/%v lost/event %v", flows, length, loss, event)
					t.Run(name, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { checkOutage(t, flows, length, loss, event) })
					})
				}
			}
		}
	}
}

// Limits where nothing else is lost: an event is followed by a probe at once, and the first response by the packets of
// all queue pairs, before they would have their turn of 100 ms and their next timeout.
const (
	fromEvent = 60 * time.Millisecond
	fromFirst = 150 * time.Millisecond
)

// checkOutage lets several outages happen. length 0: a random one up to 3 s.
func checkOutage(t *testing.T, flows int, length time.Duration, loss float64, event bool) {
	limit := 300 * time.Millisecond
	if event {
		limit = 100 * time.Millisecond
	}
	if loss > 0 {
		limit *= 2
	}
	r := rand.New(rand.NewPCG(uint64(flows), uint64(length)))
	o := newOutage(t, flows, 16, loss)
	for range 2 {
		d := length + time.Duration(r.Int64N(int64(100*time.Millisecond))) // the time between two probes
		if length == 0 {
			d = time.Duration(1 + r.Int64N(int64(3*time.Second)))
		}
		o.run(5*time.Millisecond + time.Duration(r.Int64N(int64(10*time.Millisecond))))
		sent := o.cut(d)
		extra := o.resume(event)
		t.Logf("outage of %v: %d packets in it, %v more", d, len(sent), extra)
		if slices.Max(extra) > limit {
			t.Errorf("after an outage of %v it took %v more, limit %v", d, extra, limit)
		}
		checkProbes(t, sent)
		if length == 0 || loss > 0 {
			continue
		}
		if event && extra[0] > fromEvent {
			t.Errorf("after an outage of %v it took %v more, want the first within %v of the event", d, extra, fromEvent)
		}
		if extra[len(extra)-1]-extra[0] > fromFirst {
			t.Errorf("after an outage of %v it took %v more, want the last within %v of the first", d, extra, fromFirst)
		}
	}
}

// outage is an engine whose loopback loses everything for a time.
type outage struct {
	*loopback
	working float64 // share of packets that are lost otherwise
	flows   []*flowAcross
}

// flowAcross is a queue pair that has two messages outstanding all the time.
type flowAcross struct {
	x     *QP
	op    verbs.Op
	size  int
	done  int
	after time.Time // first completion after the outage
}

func newOutage(t *testing.T, flows int, timeout uint8, loss float64) *outage {
	o := &outage{loopback: newLoopback(t, uint64(flows)), working: loss}
	o.attr = func(a *verbs.Attr) { a.Timeout = timeout }
	o.link = link{rate: 10e9, delay: 20 * time.Microsecond, loss: loss}
	for i := range flows {
		f := &flowAcross{op: []verbs.Op{verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd}[i%3], size: []int{64, 9000, 8}[i%3]}
		f.x = o.connect(verbs.RC, rocev2.PMTU1024, 16)
		o.flows = append(o.flows, f)
		for range 2 {
			o.post(f.x, f.op, f.size)
		}
	}
	return o
}

// step runs the engine after a pause and posts a message for each that has completed.
func (o *outage) step(pause time.Duration) {
	o.t.Helper()
	if err := o.iterate(pause); err != nil {
		o.t.Fatal(err)
	}
	for _, c := range o.batch[:o.cq.take(o.batch[:])] {
		if c.Status != verbs.StatusSuccess {
			o.t.Fatalf("%+v", c)
		}
		i := slices.IndexFunc(o.flows, func(f *flowAcross) bool { return f.x.num == c.QPN })
		f := o.flows[i]
		f.done++
		if f.after.IsZero() {
			f.after = time.Now()
		}
		o.post(f.x, f.op, f.size)
	}
}

func (o *outage) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		o.step(20 * time.Microsecond)
	}
}

// cut has everything lost for a time. It returns when packets were sent in it, after its begin.
func (o *outage) cut(d time.Duration) (sent []time.Duration) {
	begin := time.Now()
	o.link.loss, o.link.packets = 1, nil
	o.link.tap = func([]byte) { sent = append(sent, time.Since(begin)) }
	for time.Since(begin) < d {
		o.step(min(200*time.Microsecond, d-time.Since(begin)))
	}
	o.link.loss, o.link.tap = o.working, nil
	return sent
}

// resume ends the outage. It returns how much longer the first queue pair, the second one and the last one to
// continue needed for their next message.
func (o *outage) resume(event bool) (extra []time.Duration) {
	for _, f := range o.flows {
		f.after = time.Time{}
	}
	if event {
		o.e.LinkUp()
	}
	back := time.Now()
	waits := func(f *flowAcross) bool { return f.after.IsZero() }
	for slices.ContainsFunc(o.flows, waits) && time.Since(back) < 5*time.Second {
		o.run(100 * time.Microsecond)
	}
	for _, f := range o.flows {
		extra = append(extra, f.after.Sub(back))
		if waits(f) {
			o.t.Fatal("a queue pair does not continue")
		}
	}
	slices.Sort(extra)
	return slices.Compact([]time.Duration{extra[0], extra[min(1, len(extra)-1)], extra[len(extra)-1]})
}

// checkProbes checks that one packet was sent in 100 ms while the destination was silent.
func checkProbes(t *testing.T, sent []time.Duration) {
	t.Helper()
	for i := 1; i < len(sent); i++ {
		if sent[i-1] > 300*time.Millisecond && sent[i]-sent[i-1] < 99*time.Millisecond {
			t.Errorf("packets %v and %v after the begin of the outage", sent[i-1], sent[i])
		}
	}
}

// A peer that stalls for a second is silent, and has lost nothing: the destination gets few packets twice.
func TestStalledPeer(t *testing.T) {
	for _, flows := range []int{1, 100} {
		t.Run(fmt.Sprintf("%d queue pairs", flows), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutage(t, flows, 16, 0)
				o.run(10 * time.Millisecond)
				c := &o.e.qpCount
				o.link.free = o.e.now + 1e9
				for i := range o.link.packets {
					o.link.packets[i].at += 1e9
				}
				o.run(300 * time.Millisecond)
				first, done := c.TailProbes, o.flows[0].done
				o.run(900 * time.Millisecond)
				t.Logf("%d probes in the first 300 ms, %d later", first, c.TailProbes-first)
				if c.TailProbes > first+10 {
					t.Errorf("%d probes after the first 300 ms, want 10 at most", c.TailProbes-first)
				}
				if o.flows[0].done == done {
					t.Error("the peer does not continue")
				}
			})
		})
	}
}

// After an outage of a second, 1000 queue pairs with 16 messages each do not send more at once than the receiver has
// frames for, and little more than what was lost is sent again.
func TestOutageOfThousand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pairs, depth = 1000, 16
		l := newLoopback(t, 1)
		l.attr = func(a *verbs.Attr) { a.Timeout = 16 }
		l.link = link{rate: 10e9, delay: 20 * time.Microsecond, frames: 2048}
		for range pairs {
			x := l.connect(verbs.RC, rocev2.PMTU4096, depth)
			for range depth {
				l.post(x, verbs.OpWrite, 4096)
			}
		}
		begin, lost := time.Duration(0), uint64(0)
		now := func() time.Duration { return time.Duration(l.e.now) }
		err := l.run(pairs*depth, func() time.Duration {
			c := &l.e.qpCount
			switch {
			case l.iterations == 500:
				l.link.loss, begin, lost = 1, now(), c.SentPackets
			case begin != 0 && l.link.loss == 1 && now() > begin+time.Second:
				l.link.loss, lost = 0, c.SentPackets-lost
				t.Logf("%d packets lost, %d of them sent again", lost, c.SentAgain)
			}
			return 10 * time.Microsecond
		})
		c := &l.e.qpCount
		t.Logf("%d packets, %d sent again, %d probes, %d timeouts, %d found no frame", c.SentPackets, c.SentAgain, c.TailProbes, c.Timeouts, l.link.dropped)
		if err != nil {
			t.Fatal(err)
		}
		if l.link.dropped > 0 {
			t.Errorf("%d packets found no frame", l.link.dropped)
		}
		if c.SentAgain > 2*lost {
			t.Errorf("%d packets were sent again, and %d lost", c.SentAgain, lost)
		}
	})
}
