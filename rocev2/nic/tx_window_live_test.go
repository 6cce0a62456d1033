// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// slowed is what happened at a link that became tenfold slower under an engine's load.
type slowed struct {
	before, after float64         // share of the link that was used
	queue         []time.Duration // sorted queueing times after the change, as time at the rate
	drops         uint32
	done          []int // messages of each queue pair in all
}

func (s *slowed) String() string {
	n := len(s.queue)
	return fmt.Sprintf("used %.2f, then %.2f; queue p50 %v p99 %v max %v, %d dropped", s.before, s.after,
		s.queue[n/2].Round(100*time.Microsecond), s.queue[n*99/100].Round(100*time.Microsecond), s.queue[n-1].Round(100*time.Microsecond), s.drops)
}

// slowLink has queue pairs write to one host over a link of 300 Mbit/s, which then
// carries 30.
func slowLink(t *testing.T, window string, pairs int) *slowed {
	const fast, slow = 300e6, 30e6
	spec := topo.Spec{Hosts: topo.Hosts(2), MTU: 1500}
	// The buffer of a switch is bytes: 40 ms at first, and ten times that later.
	spec.Hosts[1].Bottleneck = &topo.Bottleneck{RateBPS: fast, Limit: 1_500_000, BurstTime: 2 * time.Millisecond}
	hosts := engines.New(t, spec, "--rate", "1G", "--policy", "window="+window)
	for _, h := range hosts {
		h.MustOpen(t, nic.Options{})
	}
	a, b := newSide(t, hosts[0], verbs.RC, 1<<20), newSide(t, hosts[1], verbs.RC, 1<<20)
	var qps []verbs.QP
	for range pairs {
		x, y := a.another(t), b.another(t)
		if err := connectPair(x, y, hosts[0].IPv4(), hosts[1].IPv4(), rocev2.PMTU1024); err != nil {
			t.Fatal(err)
		}
		qps = append(qps, x)
	}
	wr := verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: a.sge(0, 64<<10), RemoteAddr: b.va, RKey: b.key}
	stop, ended := make(chan struct{}), make(chan error, 1)
	port, s := hosts[1].Port(), &slowed{done: make([]int, pairs)}
	go func() { ended <- keepBusy(a, qps, &wr, stop, s.done) }()
	time.Sleep(3 * time.Second)
	used := func(rate float64, during func()) (share float64, drops uint32) {
		q0, err := port.Queue()
		if err != nil {
			t.Fatal(err)
		}
		during()
		q, err := port.Queue()
		if err != nil {
			t.Fatal(err)
		}
		return float64(q.Sent-q0.Sent) * 8 / q.At.Sub(q0.At).Seconds() / rate, q.Drops - q0.Drops
	}
	s.before, _ = used(fast, func() { time.Sleep(2 * time.Second) })
	if err := port.SetRate(slow); err != nil {
		t.Fatal(err)
	}
	s.after, s.drops = used(slow, func() {
		for start := time.Now(); time.Since(start) < 3*time.Second; time.Sleep(5 * time.Millisecond) {
			q, err := port.Queue()
			if err != nil {
				t.Fatal(err)
			}
			s.queue = append(s.queue, time.Duration(float64(q.Backlog)*8e9/slow))
		}
	})
	slices.Sort(s.queue)
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return s
}

// keepBusy has each queue pair always have messages to send, and counts them. It ends after
// stop, once each has sent one or testkit.Patience is over.
func keepBusy(a *side, qps []verbs.QP, wr *verbs.SendWR, stop chan struct{}, done []int) error {
	post := func(i int) error {
		w := *wr
		w.ID = uint64(i)
		return qps[i].PostSend(&w)
	}
	for i := range qps {
		for range 8 {
			if err := post(i); err != nil {
				return err
			}
		}
	}
	for stopped := (time.Time{}); ; {
		select {
		case <-stop:
			// Each is served in the end, on a busy machine later than others.
			if stopped.IsZero() {
				stopped = time.Now()
			}
			if slices.Min(done) > 0 || time.Since(stopped) > testkit.Patience {
				return nil
			}
		default:
		}
		c, err := engines.PollOne(a.cq, testkit.Patience)
		if err != nil {
			return err
		}
		if c.Status != verbs.StatusSuccess {
			return fmt.Errorf("completion %v", c.Status)
		}
		done[c.WRID]++
		if err := post(int(c.WRID)); err != nil {
			return err
		}
	}
}

// A link that becomes tenfold slower: with a window the queue there is what the rate
// needs now, not what was sent until the rate was cut. In any case all that was sent
// completes, whatever the link carries. The window itself is tested on virtual time
// (tx_window_test.go, and the simulator's slow-link).
func TestWindowSlowedLink(t *testing.T) {
	const pairs = 8
	runs := require.Tries(3)
	for i := range runs {
		off, on := slowLink(t, "off", pairs), slowLink(t, "on", pairs)
		t.Logf("window off: %v", off)
		t.Logf("window on:  %v", on)
		at := func(s *slowed) time.Duration { return s.queue[len(s.queue)*99/100] }
		t.Logf("messages of each queue pair: %d, %d", off.done, on.done)
		for _, s := range []*slowed{off, on} {
			if slices.Min(s.done) == 0 {
				t.Errorf("a queue pair was not served: %d", s.done)
			}
		}
		used := min(on.before/off.before, on.after/off.after)
		if at(on) < at(off)/3 && used > 0.9 && 2*slices.Min(on.done) > slices.Max(on.done) {
			return
		}
		if i == runs-1 {
			require.Missed(t, "want the 99th percentile of the queue below a third of that without a window, nine tenths of its throughput, and all queue pairs served alike")
		}
	}
}
