// SPDX-License-Identifier: Apache-2.0

package agents_test

import (
	"flag"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/testenv/experiments/agents"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// How many connections the test makes: few in CI, more by `make test-long`.
var (
	inLoop    = flag.Int("connections.loop", 300, "connections of one process, one after the other")
	atOnce    = flag.Int("connections.once", 50, "connections of one process at once")
	processes = flag.Int("connections.processes", 5, "processes that dial at once")
	ofProcess = flag.Int("connections.dials", 10, "connections of each of them at once")
	deadline  = flag.Duration("connections.deadline", 2*time.Minute, "deadline of a connection")
)

// judged is from how many connections in a loop on the last tenth is compared with the second: of fewer, the second
// tenth may be before the first connections have left their waiting state, and caches and the heap still grow.
const judged = 50_000

// All of many connections over two agents succeed within their deadlines: in a loop, at once, and of processes at
// once. The agents have the descriptors and goroutines afterwards that they had before.
func TestConnections(t *testing.T) {
	require.Root(t)
	bin, err := engines.Binary()
	if err != nil {
		t.Fatal(err)
	}
	spec := topo.Spec{Hosts: topo.Hosts(2), StaticNeighbours: true}
	hosts := engines.New(t, spec, "--nic", "--rate", "10G", "--pacer", "none")
	h, err := agents.NewHosts(hosts, bin)
	if err != nil {
		t.Fatal(err)
	}
	run(t, h, agents.Load{Processes: 1, Rounds: 1, Parallel: 1}) // what the first connection takes for good
	before := idle(t, h, hosts)
	for _, l := range []agents.Load{
		{Processes: 1, Rounds: *inLoop, Parallel: 1},
		{Processes: 1, Rounds: 1, Parallel: *atOnce},
		{Processes: *processes, Rounds: 1, Parallel: *ofProcess},
	} {
		r := run(t, h, l)
		settle(t, h, before)
		if l.Rounds >= judged {
			flat(t, &r)
		}
	}
}

// run makes the connections of a load, all of which must succeed.
func run(t *testing.T, h *agents.Hosts, l agents.Load) agents.Result {
	t.Helper()
	l.Deadline = *deadline
	r, err := h.Run(t.Context(), l, nil)
	var text strings.Builder
	r.WriteText(&text)
	t.Log(text.String())
	if err != nil {
		t.Fatal(err)
	}
	if n := l.Connections(); r.Done != n || r.Accepted != n || r.Failed != 0 || r.Late != 0 {
		t.Errorf("%v: not all connections succeeded at both ends within %v", l, l.Deadline)
	}
	return r
}

// idle returns what the agents hold when no process uses their devices, and it has not changed for some time.
func idle(t *testing.T, h *agents.Hosts, hosts []*engines.Host) [2]agents.Held {
	t.Helper()
	const same = 50 // samples in a row, together longer than a connection stays after its end
	var last [2]agents.Held
	for end, n := time.Now().Add(testkit.Patience), 0; n < same; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the agents do not come to rest: %+v", last)
		}
		now := twoAgents(t, h)
		n++
		for i, host := range hosts {
			st, err := device.ReadStatus(t.Context(), proto.SocketPath(host.LoaderOptions().RunDir, topo.IfName))
			if err != nil {
				t.Fatal(err)
			}
			if len(st.Processes) != 0 || more(now[i], last[i], 0) || more(last[i], now[i], 0) {
				n = 0
			}
		}
		last = now
	}
	return last
}

// settle waits until the agents hold no more than before a load.
func settle(t *testing.T, h *agents.Hosts, before [2]agents.Held) {
	t.Helper()
	collector := runtime.NumCPU() // goroutines that the first collections start
	for end := time.Now().Add(testkit.Patience); ; time.Sleep(100 * time.Millisecond) {
		now := twoAgents(t, h)
		if !more(now[0], before[0], collector) && !more(now[1], before[1], collector) {
			t.Logf("the agents afterwards: %+v\nbefore: %+v", now, before)
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the agents hold %+v, before %+v", now, before)
		}
	}
}

func twoAgents(t *testing.T, h *agents.Hosts) [2]agents.Held {
	t.Helper()
	held, err := h.Agents()
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// more reports whether a process holds more descriptors than another, or so many goroutines more.
func more(a, b agents.Held, goroutines int) bool {
	return a.Descriptors > b.Descriptors || a.Goroutines > b.Goroutines+goroutines
}

// flat compares what the processes held in the last tenth of a load with the second tenth.
func flat(t *testing.T, r *agents.Result) {
	t.Helper()
	const (
		moreMemory = 1.1
		slack      = 4 << 10 // KiB, of the heap between two collections
		few        = 10      // descriptors, goroutines: of connections that are about to end
	)
	for _, s := range agents.Subjects {
		second, last, ok := r.Held(s)
		if !ok {
			t.Fatal("too few parts")
		}
		if float64(last.Anon) > moreMemory*float64(second.Anon)+slack || float64(last.RSS) > moreMemory*float64(second.RSS)+slack {
			t.Errorf("the memory of the %s grew: %+v, in the second tenth %+v", s, last, second)
		}
		if last.Descriptors > second.Descriptors+few || last.Goroutines > second.Goroutines+few {
			t.Errorf("the %s holds more: %+v, in the second tenth %+v", s, last, second)
		}
	}
}
