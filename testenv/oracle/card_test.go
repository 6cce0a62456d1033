// SPDX-License-Identifier: Apache-2.0

package oracle_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/oracle"
	"github.com/softroce/softroce-xdp/testenv/oracle/sides"
)

var cardModel struct {
	sync.Once
	side *sides.Side
	err  error
}

// cardAndJudge puts a model of the card on the machines' bridge, once for all tests.
func cardAndJudge(t *testing.T) (context.Context, *oracle.Pair, *sides.Side) {
	t.Helper()
	ctx, p := oracle.Machines(t)
	cardModel.Do(func() {
		var host *rxepeer.Host
		host, cardModel.err = p.Net().AddHost(rxepeer.HostConfig{
			Name: "card", MTU: engineMTU,
			Addrs: []netip.Prefix{netip.MustParsePrefix("10.78.0.10/24"), netip.MustParsePrefix("fd78::10/64")},
		})
		if cardModel.err != nil {
			return
		}
		p.Guest(func() error {
			var err error
			if cardModel.side != nil {
				err = cardModel.side.Close()
			}
			return errors.Join(err, host.Close())
		})
		macs := map[netip.Addr]net.HardwareAddr{}
		nic := p.Judge().VM.Config.NICs[0]
		for _, a := range nic.Addrs {
			macs[a.Addr()] = nic.MAC
		}
		cardModel.side, cardModel.err = sides.AttachCard(host, macs)
	})
	if cardModel.err != nil {
		t.Fatal(cardModel.err)
	}
	return ctx, p, cardModel.side
}

func cardBench(t *testing.T) (context.Context, *oracle.Bench) {
	t.Helper()
	ctx, p, card := cardAndJudge(t)
	b := &oracle.Bench{A: card, B: p.Judge(), Impair: oracle.ImpairBetween(p.Judge().VM), HostDrops: p.HostDrops}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%+v", card.Model.Counters())
		}
	})
	return ctx, b
}

// TestCardAgainstRxe is the table with the model of the card as side A and Linux rxe as side B,
// each as requester and as responder, every byte compared.
func TestCardAgainstRxe(t *testing.T) {
	ctx, b := cardBench(t)
	cases := oracle.QuickCases()
	if full() {
		cases = oracle.Cases()
	}
	oracle.RunTable(ctx, t, b, cases)
}

// TestCardRefusals has each refuse what it must, asked by the other (S2.6).
func TestCardRefusals(t *testing.T) {
	ctx, b := cardBench(t)
	for _, r := range oracle.Refusals() {
		for _, fromB := range []bool{false, true} {
			asks := "card asks/"
			if fromB {
				asks = "rxe asks/"
			}
			t.Run(asks+r.Name, func(t *testing.T) {
				err := b.Refuse(ctx, r, fromB)
				if fromB && errors.Is(err, oracle.ErrNotSent) {
					t.Log(err) // rxe's library stops it: isolation_test.go of hwoffload/driver has it
					return
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestCardScenarios runs the courses of events both ways.
func TestCardScenarios(t *testing.T) {
	ctx, p, card := cardAndJudge(t)
	for _, s := range oracle.Scenarios() {
		t.Run("card asks/"+s.Name, func(t *testing.T) {
			if err := s.Run(ctx, card, p.Judge()); err != nil {
				t.Error(err)
			}
		})
		if s.ByEngine {
			continue
		}
		t.Run("rxe asks/"+s.Name, func(t *testing.T) {
			if err := s.Run(ctx, p.Judge(), card); err != nil {
				t.Error(err)
			}
		})
	}
}
