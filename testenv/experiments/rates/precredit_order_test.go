// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// TestOrderAcrossQueues: a queue pair whose messages are large and small in turn uses both
// queues of the switch, and none of its packets overtakes another: the receiver sees no
// gap although the last queue is long and others keep the first one busy.
func TestOrderAcrossQueues(t *testing.T) {
	const rate, room = 50_000_000, 4 << 20
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(3), StaticNeighbours: true})
	q, err := newTwoQueues(top, top.Host(1), rate, room, last)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	// Rates beyond the bottleneck's have the last queue long; nothing is dropped.
	hosts := engines.On(t, top, "--rate", fmt.Sprint(2*rate), "--policy", "mode=fixed")
	in, err := open(hosts, q, nic.Options{PreCredit: true, LargeDSCP: last}, Load{Small: 1000, Large: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	stop := make(chan struct{})
	ended := make(chan error, 1)
	go func() { // the first queue has packets of another host, with pauses: it would starve the last one
		for {
			select {
			case <-stop:
				ended <- nil
				return
			case <-time.After(300 * time.Microsecond):
			}
			if _, err := in.senders[1].small.send(ctx, 1000); err != nil {
				ended <- err
				return
			}
		}
	}()
	s := in.senders[0].large
	overtaken := func() uint64 {
		before := counter(hosts[0].Dev, "out_of_seq_request")
		for i := range 15 {
			begun := time.Now()
			sizes := []int{1000, 100_000, 1000, 1 << 18, 500}
			for _, n := range sizes { // without a pause: each begins behind the last
				if err := s.post(n); err != nil {
					t.Fatal(err)
				}
			}
			for range sizes {
				if err := s.wait(ctx); err != nil {
					t.Fatalf("round %d, after %v: %v", i, time.Since(begun), err)
				}
			}
			if _, err := s.send(ctx, 1000); err != nil { // alone
				t.Fatal(err)
			}
		}
		return counter(hosts[0].Dev, "out_of_seq_request") - before
	}
	used := func() (first, second uint64) {
		first, second, err := q.packets()
		if err != nil {
			t.Fatal(err)
		}
		return first, second
	}
	// Where the machine is busy, the receiver may lose a packet: the next one arrives before it, too. A queue pair that
	// changes queues too early has such packets in every run. The other host may stand still during a run.
	lost := func() uint64 {
		return counter(hosts[0].Dev, "rx_xsk_dropped") + counter(hosts[0].Dev, "rx_xsk_ring_full")
	}
	n := overtaken()
	first, second := used()
	ordered := n == 0 // in a run at least
	// Engines that wait for a processor send few packets a run: there are as many runs as those need.
	for try := 1; ctx.Err() == nil && (!ordered && try < 4 || first < 1000 || second < 3000); try++ {
		t.Logf("%d packets arrived before one that was sent earlier, %d in the first queue, %d in the last, %d lost by the receiver's sockets: once more",
			n, first, second, lost())
		n = overtaken()
		ordered = ordered || n == 0
		first, second = used()
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	drops, err := q.drops()
	if err != nil || drops != 0 || first < 1000 || second < 3000 {
		t.Fatalf("%d packets in the first queue, %d in the last, %d dropped, %v: this shows nothing", first, second, drops, err)
	}
	if !ordered {
		t.Errorf("in each of four runs or more packets arrived before one that was sent earlier, %d in the last", n)
	}
	t.Logf("%d packets in the first queue, %d in the last", first, second)
	if err := in.close(); err != nil {
		t.Fatal(err)
	}
}
