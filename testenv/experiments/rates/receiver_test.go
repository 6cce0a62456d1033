// SPDX-License-Identifier: Apache-2.0

package rates

import (
	"runtime"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// limit is what the server lets a node send, 0: it does not limit it.
func (l *receiverLab) limit(node int) uint64 {
	l.t.Helper()
	x, err := l.server.Limits()
	if err != nil {
		l.t.Fatal(err)
	}
	a := x.Receiving[bpf.KeyOf(l.hosts[node].IPv4())]
	if a.UntilNs < loader.Monotonic() {
		return 0
	}
	return a.LimitBps
}

// near reports that a limit is another one, but for the rounding of what stamps take.
func near(got, want uint64) bool { return max(got, want)-min(got, want) <= want/500 }

// Three nodes write to a server with a slow link. Each is told its rate and sends at it, by level,
// minimum and maximum. When they stop, the limits end.
func TestServerLimitsItsSenders(t *testing.T) {
	runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0))) // all hosts are in this process
	l := newReceiverLab(t)
	var flows []*receiverFlow
	for n := 1; n <= 3; n++ {
		flows = append(flows, l.start(n, verbs.OpWrite))
	}
	eventually(t, "the nodes of level 1 and 2 may send their maximum, and that of level 3 the rest", func() bool {
		low := l.limit(3)
		return near(l.limit(1), 50e6) && near(l.limit(2), 30e6) && low >= 5e6 && low < 20e6
	})
	node := l.hosts[1].Attachment(t)
	eventually(t, "level 1 sends at its limit, which its status shows", func() bool {
		r, found, err := node.Lookup(l.hosts[0].IPv4())
		if err != nil {
			t.Fatal(err)
		}
		status := l.product(1, "status", topo.IfName)
		return found && r.Regs.RateBps <= 50.1e6 && strings.Contains(status, "limited by") && strings.Contains(status, l.hosts[0].IPv4().String()+" to ")
	})
	eventually(t, "the status of the server shows what it receives and limits", func() bool {
		status := l.product(0, "status", topo.IfName)
		return strings.Contains(status, "receives") && strings.Contains(status, "limits")
	})

	l.priority(3, "off") // the node ignores limits
	before := flows[2].Completed.Load()
	eventually(t, "the excess of a node that ignores its limit is dropped", func() bool {
		x, err := l.server.Limits()
		if err != nil {
			t.Fatal(err)
		}
		return x.Dropped[bpf.KeyOf(l.hosts[3].IPv4())].DroppedPackets > 0
	})
	eventually(t, "the node that ignores its limit goes on", func() bool { return flows[2].Completed.Load() > before+1<<20 })
	for n := 1; n <= 2; n++ {
		x, err := l.server.Limits()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("node %d: %+v", n, x.Dropped[bpf.KeyOf(l.hosts[n].IPv4())])
	}

	l.end(flows...)
	eventually(t, "the limits end", func() bool { return l.limit(1)+l.limit(2)+l.limit(3) == 0 })
	eventually(t, "and the nodes know", func() bool {
		return !strings.Contains(l.product(1, "status", topo.IfName), "limited by")
	})
}
