// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// write posts a WRITE of the first bytes of a's memory to b's.
func (s *side) write(t testing.TB, b *side) {
	t.Helper()
	s.post(t, &verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: s.sge(0, 64), RemoteAddr: b.va, RKey: b.key})
}

// An application that polls runs the loop, and when it stops the engine's own thread
// does again: the peer is answered, and so is a timer that the last poll set.
func TestThreadTakesOver(t *testing.T) {
	a, b := pair(t, verbs.RC, 4096, topo.Spec{Hosts: topo.Hosts(2)}, false, rocev2.PMTU1024)
	var out [16]verbs.Completion
	for range 20 {
		for begin := time.Now(); time.Since(begin) < 2*time.Millisecond; {
			b.cq.Poll(out[:])
			a.cq.Poll(out[:])
		}
		// Nobody polls b from here on.
		a.write(t, b)
		if c := a.poll(t); c.Status != verbs.StatusSuccess {
			t.Fatal(c.Status)
		}
		// Nor a: the completion must come by the thread alone.
		a.write(t, b)
		deadline := time.Now().Add(testkit.Patience)
		for a.cq.(*nic.CQ).Len() == 0 {
			if time.Now().After(deadline) {
				t.Fatalf("no completion without polling\n%s", dump(a.dev))
			}
			time.Sleep(100 * time.Microsecond)
		}
		if n := a.cq.Poll(out[:]); n != 1 || out[0].Status != verbs.StatusSuccess {
			t.Fatalf("%d completions, %+v", n, out[0])
		}
	}
}

// Several goroutines wait on and poll one device while it works: each completion
// comes to one of them, and all return when their context ends.
func TestManyCallers(t *testing.T) {
	a, b := pair(t, verbs.RC, 4096, topo.Spec{Hosts: topo.Hosts(2)}, false, rocev2.PMTU1024)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const messages = 2000
	var got sync.WaitGroup
	got.Add(messages)
	room := make(chan struct{}, 64)
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			var out [3]verbs.Completion
			for ctx.Err() == nil {
				if i%2 == 0 {
					if err := a.cq.Wait(ctx, i == 2); err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
				for _, c := range out[:a.cq.Poll(out[:])] {
					if c.Status != verbs.StatusSuccess {
						t.Error(c.Status)
					}
					<-room
					got.Done()
				}
			}
		})
	}
	for range messages {
		room <- struct{}{}
		a.write(t, b)
	}
	got.Wait()
	cancel()
	within(t, testkit.Patience, "all callers notice the end of their context", callers.Wait)
}

// A wait whose context has ended, or ends, returns although nothing completes.
func TestWaitEnds(t *testing.T) {
	a, _ := pair(t, verbs.RC, 4096, topo.Spec{Hosts: topo.Hosts(2)}, false, rocev2.PMTU1024)
	for _, limit := range []time.Duration{0, 300 * time.Microsecond, 20 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		if err := a.cq.Wait(ctx, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: %v", limit, err)
		}
		cancel()
	}
}
