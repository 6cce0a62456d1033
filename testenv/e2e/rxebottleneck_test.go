// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// passage is what is seen of a bottleneck and of the rate towards it at one time.
type passage struct {
	from   time.Time // time before the counters were read
	at     time.Time // time after the counters were read
	passed uint64    // bytes
	drops  uint32
	rate   uint64 // bit/s, by the sender's table
}

func (p *pair) passage(ctx context.Context, t *testing.T, tap string) (s passage) {
	t.Helper()
	s.rate = destTable(ctx, t, p.a)[p.addr(p.b, false)].RateBps
	var err error
	s.from = time.Now()
	if s.passed, s.drops, err = p.net.Bottleneck(tap); err != nil {
		t.Fatal(err)
	}
	s.at = time.Now()
	return s
}

// TestRxeBottleneck is rxe under the default policy, sending through a bottleneck that every
// machine can fill. The rate comes down from the link's to about the bottleneck's, the
// bottleneck is used, and all data arrives as it was sent.
func TestRxeBottleneck(t *testing.T) {
	const (
		carries = 4_000_000 // bit/s
		buffer  = 100_000   // bytes: less than rxe has in flight
		least   = 0.5       // of the bottleneck; a rate that is cut again and again uses less
		most    = 1.02      // more is no bottleneck
	)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	p := bootPair(ctx, t, 1500, rxepeer.Debian13)
	tap := rxepeer.TapName("b", 0)
	if err := p.net.SetBottleneck(tap, carries, buffer); err != nil {
		t.Fatal(err)
	}
	for _, vm := range p.both() {
		p.attachOne(ctx, t, vm, "--rate", "1G")
	}
	route := p.route(ctx, t, false)
	few := func() { // packets, by which they meet
		if err := p.pingpong(ctx, t, route, 100); err != nil {
			t.Fatal(err)
		}
	}
	few()
	waitAware(ctx, t, p.a, p.addr(p.b, false))
	waitAware(ctx, t, p.b, p.addr(p.a, false))
	var first uint64
	testkit.Eventually(t, "a rate far above the bottleneck's without load", func() bool {
		// A machine that was paused has delays, for which the policy decreases the rate for a while.
		if first = p.passage(ctx, t, tap).rate; first < 100*carries {
			few()
		}
		return first >= 100*carries
	})

	var share float64
	var last passage
	file := p.capture(t, "bottleneck.pcap", func() {
		// How soon the rate is there is a matter of the policy, and of how much the machine sends.
		// One that is paused sends less, and what was paused with it comes all at once.
		for start := time.Now(); time.Since(start) < 2*testkit.Patience; {
			if share, last = p.through(ctx, t, tap, carries, route); last.rate <= 2*carries && share >= least && share <= most {
				break
			}
		}
		if last.drops == 0 {
			t.Error("the bottleneck dropped nothing, not even before the rate came down: this shows nothing")
		}
		if err := p.pingpong(ctx, t, route, 8191); err != nil { // compares what it receives
			t.Error(err)
		}
	})
	readCapture(t, file).checkStamped(t)
	if last.rate > 2*carries {
		t.Errorf("the rate was %.1f Mbit/s and is %.1f, the bottleneck has %.1f", float64(first)/1e6, float64(last.rate)/1e6, carries/1e6)
	}
	if share < least || share > most {
		t.Errorf("the bottleneck is used for %.0f %%", 100*share)
	}
}

// through has a write through the bottleneck, and returns what share of it was used meanwhile and
// how things stood before the end.
func (p *pair) through(ctx context.Context, t *testing.T, tap string, carries float64, route rxepeer.Route) (share float64, last passage) {
	t.Helper()
	write := rxepeer.Exchanges(route)[0]
	for _, argv := range []*[]string{&write.Server, &write.Client} {
		*argv = replaceFlag(withSize(*argv, "65536"), "-n", "100")
	}
	write.Timeout = 5 * time.Minute
	ended := make(chan error, 1)
	go func() { _, err := p.b.Exchange(ctx, p.a, write); ended <- err }()
	begin := p.passage(ctx, t, tap)
	for last = begin; ; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			share = float64(last.passed-begin.passed) * 8 / last.at.Sub(begin.from).Seconds() / carries
			t.Logf("%v: %.2f of the bottleneck, rate %.1f Mbit/s, %d packets dropped so far", last.at.Sub(begin.at).Round(time.Millisecond), share, float64(last.rate)/1e6, last.drops)
			return share, last
		case <-time.After(200 * time.Millisecond):
		}
		switch now := p.passage(ctx, t, tap); {
		case now.passed-begin.passed < 20_000: // what perftest agrees on, before its data
			begin, last = now, now
		case now.passed-last.passed > 20_000: // not what it has to say in the end
			last = now
		}
	}
}

// pingpong has a number of messages go back and forth, each end of which compares what it receives. The program gives up after 67 ms
// (rxepeer.Exchange.Impatient), for which a machine may be paused: it is run again then, but not after another error or wrong data.
func (p *pair) pingpong(ctx context.Context, t *testing.T, r rxepeer.Route, size int) error {
	t.Helper()
	x := rxepeer.Exchanges(r)[8]
	x.Server, x.Client = withSize(x.Server, fmt.Sprint(size)), withSize(x.Client, fmt.Sprint(size))
	for i := 1; ; i++ {
		_, err := p.b.Exchange(ctx, p.a, x)
		if err == nil || i == lateTries || !rxepeer.TimedOut(err.Error()) {
			return err
		}
		t.Logf("again: %v", err)
	}
}
