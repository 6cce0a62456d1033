// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// TestRxeReadLoss has the attached one of two machines read from the other, which loses a fifth of
// what it sends. The reader's own direction carries small requests and loses nothing, so its rate stays.
// Delays do not count: the target is far above any that a busy host causes, so a rate that is lower was
// decreased for what the other direction has lost.
func TestRxeReadLoss(t *testing.T) {
	const link = 1e9
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	p := bootPair(ctx, t, 1500, rxepeer.Debian13)
	p.attachOne(ctx, t, p.a, "--rate", "1G", "--policy", "target=1m", "--policy", "target-max=1m")
	x := rxepeer.Exchanges(p.route(ctx, t, false))[1]
	p.exchange(ctx, t, "without loss", x)
	x.Timeout = 10 * time.Minute
	// Eight packets a READ, of which rxe asks for all again: few get across in the time of an exchange.
	x.Server, x.Client = replaceFlag(x.Server, "-n", "20"), replaceFlag(x.Client, "-n", "20")
	if err := p.b.SetNetem(ctx, rxepeer.Netem{Egress: "loss 20%"}); err != nil {
		t.Fatal(err)
	}
	p.exchange(ctx, t, "20 % lost", x)
	if err := p.b.SetNetem(ctx, rxepeer.Netem{}); err != nil {
		t.Fatal(err)
	}
	d := destTable(ctx, t, p.a)[p.addr(p.b, false)]
	t.Logf("%d retransmissions, rate %d, %d cuts, action %d in row %d", d.PSNRegressions, d.RateBps, d.Policy.Decreases, d.Policy.Action, d.Policy.Row)
	if d.PSNRegressions == 0 {
		t.Error("nothing was asked for again: this shows nothing")
	}
	if d.RateBps < link/10*9 || d.Policy.Decreases > 0 {
		t.Errorf("the reader lost nothing, and its rate was decreased %d times and is %d bit/s: %+v", d.Policy.Decreases, d.RateBps, d.Policy)
	}
}
