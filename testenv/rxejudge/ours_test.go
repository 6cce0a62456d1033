// SPDX-License-Identifier: Apache-2.0

package rxejudge_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/engines"
	"github.com/softroce/softroce-xdp/testenv/rxejudge"
	"github.com/softroce/softroce-xdp/testenv/rxejudge/ourside"
	"github.com/softroce/softroce-xdp/testenv/rxepeer"
)

// engineMTU lets a PMTU of 4096 fit.
const engineMTU = 4200

var attached struct {
	sync.Once
	side *ourside.Side
	err  error
}

// engineAndJudge attaches the product on the machines' bridge, once for all tests.
func engineAndJudge(t *testing.T) (context.Context, *rxejudge.Pair, *ourside.Side) {
	t.Helper()
	ctx, p := rxejudge.Machines(t)
	attached.Do(func() {
		var host *rxepeer.Host
		host, attached.err = p.Net().AddHost(rxepeer.HostConfig{
			Name: "engine", MTU: engineMTU,
			Addrs: []netip.Prefix{netip.MustParsePrefix("10.78.0.9/24"), netip.MustParsePrefix("fd78::9/64")},
		})
		if attached.err != nil {
			return
		}
		p.Guest(func() error {
			var err error
			if attached.side != nil {
				err = attached.side.Close()
			}
			engines.RemoveBinary()
			return errors.Join(err, host.Close())
		})
		attached.side, attached.err = ourside.Attach(host)
	})
	if attached.err != nil {
		t.Fatal(attached.err)
	}
	return ctx, p, attached.side
}

// against is a bench of our engine, side A, and rxe.
func against(t *testing.T) (context.Context, *rxejudge.Pair, *ourside.Side, *rxejudge.Bench) {
	t.Helper()
	ctx, p, us := engineAndJudge(t)
	b := &rxejudge.Bench{A: us, B: p.Judge(), Impair: rxejudge.ImpairBetween(p.Judge().VM)}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, c := range us.Dev.Counters() {
				if c.Value != 0 {
					t.Logf("%-30s %d", c.Name, c.Value)
				}
			}
			t.Log(us.Log())
		}
	})
	return ctx, p, us, b
}

// TestEngineAgainstRxe is the table with our engine as side A and Linux rxe as side B, each as
// requester and as responder.
func TestEngineAgainstRxe(t *testing.T) {
	ctx, _, _, b := against(t)
	cases := rxejudge.QuickCases()
	if os.Getenv(rxejudge.FullEnv) != "" {
		cases = rxejudge.Cases()
	}
	rxejudge.RunTable(ctx, t, b, cases)
}
