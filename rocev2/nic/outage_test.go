// SPDX-License-Identifier: Apache-2.0

package nic

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

// outage is a time in which a loopback loses everything.
type outage struct {
	l       *loopback
	flows   []*flowAcross
	working float64     // share of packets that are lost otherwise
	probes  []time.Time // of the silent destination
}

// flowAcross is a queue pair that has something outstanding all the time.
type flowAcross struct {
	x       *QP
	op      verbs.Op
	size    int
	resumed time.Time // first completion after the outage
}

func newOutage(t *testing.T, seed uint64, flows int, timeout uint8, loss float64) *outage {
	o := &outage{l: newLoopback(t, seed), working: loss}
	o.l.attr = func(a *verbs.Attr) { a.Timeout = timeout }
	o.l.link = link{rate: 10e9, delay: 20 * time.Microsecond, loss: loss}
	ops := []verbs.Op{verbs.OpWrite, verbs.OpRead, verbs.OpSend}
	for i := range flows {
		x := o.l.connect(verbs.RC, rocev2.PMTU1024, 4096)
		f := &flowAcross{x: x, op: ops[i%len(ops)], size: []int{64, 4000, 1000}[i%3]}
		o.flows = append(o.flows, f)
		for range 2 {
			o.l.post(x, f.op, f.size)
		}
	}
	return o
}

// iterate runs the engine after a pause and posts a message for each that has completed.
func (o *outage) iterate(pause time.Duration) {
	o.l.t.Helper()
	if err := o.l.iterate(pause); err != nil {
		o.l.t.Fatal(err)
	}
	for _, c := range o.l.batch[:o.l.cq.take(o.l.batch[:])] {
		if c.Status != verbs.StatusSuccess {
			o.l.t.Fatalf("%+v", c)
		}
		for _, f := range o.flows {
			if f.x.num == c.QPN {
				if f.resumed.IsZero() {
					f.resumed = time.Now()
				}
				if f.op != verbs.OpSend || o.l.done[c.QPN] < 4000 { // as many receives were posted
					o.l.post(f.x, f.op, f.size)
				}
				o.l.done[c.QPN]++
			}
		}
	}
}

func (o *outage) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		o.iterate(50 * time.Microsecond)
	}
}

// during has everything lost for a time. It returns how much longer the queue pairs needed for their next message.
func (o *outage) during(d time.Duration, event bool) time.Duration {
	o.l.link.loss, o.l.link.packets = 1, nil
	for begin := time.Now(); time.Since(begin) < d; {
		before := o.l.e.qpCount.TailProbes
		o.iterate(500 * time.Microsecond)
		if time.Since(begin) > 300*time.Millisecond && o.l.e.qpCount.TailProbes != before {
			o.probes = append(o.probes, time.Now())
		}
	}
	o.l.link.loss = o.working
	for _, f := range o.flows {
		f.resumed = time.Time{}
	}
	if event {
		o.l.e.linkUp()
	}
	back := time.Now()
	waits := func() bool {
		return slices.ContainsFunc(o.flows, func(f *flowAcross) bool { return f.resumed.IsZero() })
	}
	for waits() && time.Since(back) < 5*time.Second {
		o.run(time.Millisecond)
	}
	return time.Since(back)
}

// checkProbes checks that one probe left in 100 ms while the destination was silent.
func (o *outage) checkProbes() {
	for i := 1; i < len(o.probes); i++ {
		if d := o.probes[i].Sub(o.probes[i-1]); d < 99*time.Millisecond {
			o.l.t.Errorf("two probes within %v", d)
		}
	}
}

// After an outage of up to 3 s all queue pairs go on within 300 ms, within 100 ms if the link was reported
// up again. In the outage the destination gets one probe in 100 ms, besides the retries of the timeouts.
func TestOutage(t *testing.T) {
	for _, flows := range []int{1, 5, 20} {
		for _, loss := range []float64{0, 0.05} {
			for _, event := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d queue pairs, %v lost, event %v", flows, loss, event), func(t *testing.T) {
					limit := 300 * time.Millisecond
					if event {
						limit = 100 * time.Millisecond
					}
					for seed := range uint64(outages) {
						synctest.Test(t, func(t *testing.T) {
							r := rand.New(rand.NewPCG(seed, uint64(flows)))
							d := 100*time.Millisecond + time.Duration(r.Int64N(int64(2900*time.Millisecond)))
							o := newOutage(t, seed, flows, 16, loss)
							o.run(10 * time.Millisecond)
							extra := o.during(d, event)
							if extra > limit {
								t.Errorf("after an outage of %v it took %v more", d, extra)
							}
							o.checkProbes()
							t.Logf("outage of %v: %v more, %d probes", d, extra, len(o.probes))
						})
					}
				})
			}
		}
	}
}

// outages is how many there are of each kind.
const outages = 3
