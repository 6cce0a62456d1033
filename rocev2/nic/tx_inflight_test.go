// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"

	"golang.org/x/sys/unix"
)

// Sixteen queue pairs that all send to one engine at full speed: together they must
// not have more in flight than it has frames for.
func TestManyQueuePairsOneReceiver(t *testing.T) {
	hosts := engines.New(t, topo.Spec{Hosts: topo.Hosts(2), MTU: 9000}, "--pacer", "none")
	for _, h := range hosts {
		h.MustOpen(t, nic.Options{})
	}
	a, b := newSide(t, hosts[0], verbs.RC, 1<<20), newSide(t, hosts[1], verbs.RC, 1<<20)
	var qps []verbs.QP
	for range 16 {
		x, y := a.another(t), b.another(t)
		// After an ACK timeout, all packets are sent again: also to an engine that stands still, and has them. What has timed out
		// is not in flight, so that others send while the frames are not free.
		if err := engines.ConnectAttr(x, y, hosts[0].IPv4(), hosts[1].IPv4(), func(attr *verbs.Attr) {
			attr.PMTU, attr.Timeout = rocev2.PMTU4096, 23 // 34 s
		}); err != nil {
			t.Fatal(err)
		}
		qps = append(qps, x)
	}
	for name, op := range map[string]verbs.Op{"WRITE": verbs.OpWrite, "READ": verbs.OpRead} {
		wr := verbs.SendWR{Op: op, Flags: verbs.Signaled, SGL: a.sge(0, 1<<20), RemoteAddr: b.va, RKey: b.key}
		count := func() (again, data, dropped uint64) {
			for _, h := range hosts {
				again += counter(h.Dev, "tx_retransmits")
				data += counter(h.Dev, "tx_data_pkts")
				dropped += counter(h.Dev, "rx_xsk_dropped") + counter(h.Dev, "rx_xsk_ring_full")
			}
			return again, data, dropped
		}
		again, data, dropped := count()
		start := time.Now()
		const messages = 320
		spread(t, a, qps, &wr, messages)
		goodput := messages * 8 * float64(1<<20) / time.Since(start).Seconds() / 1e9
		nowAgain, nowData, nowDropped := count()
		t.Logf("%s: %.2f Gbit/s, %d of %d packets sent again, %d dropped", name, goodput, nowAgain-again, nowData-data, nowDropped-dropped)
		if nowDropped != dropped {
			t.Errorf("%s: %d packets found no frame", name, nowDropped-dropped)
		}
	}
}

// another is one more queue pair of a side.
func (s *side) another(t testing.TB) verbs.QP {
	t.Helper()
	x, err := s.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// spread sends n messages over queue pairs in turn and returns the CPU time of each.
func spread(t testing.TB, a *side, qps []verbs.QP, wr *verbs.SendWR, n int) time.Duration {
	t.Helper()
	ctx := testkit.Context(t)
	out := make([]verbs.Completion, 64)
	start := cpu()
	for posted, done := 0, 0; done < n; {
		for ; posted < n && posted-done < len(out); posted++ {
			if err := qps[posted%len(qps)].PostSend(wr); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.cq.Wait(ctx, false); err != nil {
			t.Fatalf("%v\n%s", err, dump(a.dev))
		}
		got := a.cq.Poll(out)
		for _, c := range out[:got] {
			if c.Status != verbs.StatusSuccess {
				t.Fatalf("%+v\n%s", c, dump(a.dev))
			}
		}
		done += got
	}
	return (cpu() - start) / time.Duration(n)
}

func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
