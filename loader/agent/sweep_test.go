// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/bpf"
)

func TestIdle(t *testing.T) {
	limit := uint64(idleLimit)
	for _, c := range []struct {
		name        string
		d           bpf.DestRegs
		now, offset uint64
		want        bool
	}{
		{"never used", bpf.DestRegs{LastTxNs: 5}, limit + 6, 0, true},
		{"at the limit", bpf.DestRegs{LastTxNs: 5}, limit + 5, 0, false},
		{"it still sends", bpf.DestRegs{LastTxNs: 5, LastRxNs: limit}, limit + 6, 0, false},
		{"stamps on CLOCK_TAI", bpf.DestRegs{LastTxNs: 5, LastRxNs: 5 + 37e9}, limit + 6, 37e9, true},
		{"stamps on CLOCK_TAI, it still sends", bpf.DestRegs{LastTxNs: 5, LastRxNs: limit + 37e9}, limit + 6, 37e9, false},
		{"touched after the clock was read", bpf.DestRegs{LastTxNs: limit + 9}, limit + 6, 0, false},
	} {
		if got := idle(&c.d, c.now, c.offset); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if idleLimit < time.Minute {
		t.Error("an entry must outlive the pauses of its traffic")
	}
}
