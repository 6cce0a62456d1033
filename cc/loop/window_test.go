// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"

	"github.com/softroce/softroce-xdp/cc/fourcase"
)

// The window is what the rate of the destination needs in a round trip and one and a half times
// the delay aimed at; there is none where that is not known or not wanted.
func TestSetWindow(t *testing.T) {
	p := fourcase.DefaultParams(1e9)
	literal := p
	literal.Mode = fourcase.ModeLiteral
	known := fourcase.Regs{RateBps: 1e9, BaseRttNs: 250_000, State: fourcase.StateBase}
	noisy, unknown, stale := known, known, known
	noisy.SpikeNs, unknown.State, stale.WindowBytes = 1_000_000, 0, 77
	for name, c := range map[string]struct {
		regs   fourcase.Regs
		params *fourcase.Params
		rate   uint64
		off    bool
		want   uint64
	}{
		"1 ms at 1 Gbit/s":         {known, &p, 1e9, false, 125_000},
		"held down by priority":    {known, &p, 250e6, false, 54_687},
		"jitter is no queue":       {noisy, &p, 1e9, false, 250_000},
		"nothing is known":         {unknown, &p, 1e9, false, 218_750},
		"literal":                  {known, &literal, 1e9, false, 0},
		"switched off":             {stale, &p, 1e9, true, 0},
		"unpaced":                  {known, &p, 0, false, 0},
		"the one before is no use": {stale, &p, 1e9, false, 125_000},
	} {
		r := c.regs
		setWindow(&r, c.params, c.rate, c.off)
		if got := r.WindowBytes; got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
