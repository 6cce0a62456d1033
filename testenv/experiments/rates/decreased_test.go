// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/cc/fourcase"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
)

// watchDecreases counts the readings of the hosts' tables that show a decrease, until the result is called.
func watchDecreases(t *testing.T, hosts []*engines.Host) func() (seen int) {
	t.Helper()
	var tables []*loader.Attachment
	for _, h := range hosts {
		tables = append(tables, h.Attachment(t))
	}
	stop, count := make(chan struct{}), make(chan int)
	go func() {
		seen := 0
		for {
			select {
			case <-stop:
				count <- seen
				return
			case <-time.After(2 * time.Millisecond):
			}
			for _, a := range tables {
				rows, err := a.Rows()
				if err != nil {
					t.Error(err)
				}
				for i := range rows {
					if Decreased(&rows[i].Regs) {
						seen++
					}
				}
			}
		}
	}()
	return func() int { close(stop); return <-count }
}

func TestDecreased(t *testing.T) {
	for _, c := range []struct {
		name         string
		action       fourcase.Action
		rate, before uint64
		want         bool
	}{
		{"a decrease", fourcase.ActionCut, 90, 100, true},
		{"a decrease by loss", fourcase.ActionLossCut, 90, 100, true},
		{"a decrease that changed nothing", fourcase.ActionCut, 100, 100, false},
		{"a hold after a decrease", fourcase.ActionHold, 90, 100, false},
		{"an increase after a decrease", fourcase.ActionRaise, 95, 100, false},
	} {
		d := bpf.DestRegs{}
		d.Policy.Action, d.Policy.RateBps, d.Policy.RateBeforeDecreaseBps = uint8(c.action), c.rate, c.before
		if got := Decreased(&d); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
