// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// window of the flows in the tests of faults. It fits the ring of a veth (256),
// so that no queue drops: whatever is lost, the fault has lost.
const window = 128

// lab is two hosts on one switch, with a traffic endpoint each.
type lab struct {
	top  *topo.Topology
	node [2]*node
	ep   [2]*load.Endpoint
	addr [2]netip.Addr
	bare bool
}

// labSpec is what differs between labs.
type labSpec struct {
	mtu    int
	v6     bool
	attach []string // flags of attach; both hosts are attached unless bare
	bare   bool

	unmet bool // nothing is sent before the test does
}

func newLab(t *testing.T, s labSpec) *lab {
	t.Helper()
	l := &lab{bare: s.bare, top: topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(2), MTU: s.mtu, StaticNeighbours: true})}
	for i, h := range l.top.Hosts() {
		l.addr[i] = h.IPv4()
		if s.v6 {
			l.addr[i] = h.IPv6()
		}
		ep, err := load.Open(load.Config{Local: l.addr[i], Do: h.Do})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ep.Close() })
		l.ep[i] = ep
		l.node[i] = newNode(t, h)
		if !s.bare {
			l.node[i].must(t, append([]string{"attach", topo.IfName}, s.attach...)...)
		}
	}
	if !s.bare && !s.unmet {
		l.meet(t)
	}
	return l
}

// meet has the hosts exchange a message, and waits until each paces the other:
// with htb the first contact replaces the root qdisc, which may cost packets.
// TestFirstContact looks at that, the other tests look at what comes after.
func (l *lab) meet(t *testing.T) {
	t.Helper()
	if _, err := l.ep[0].Send(t.Context(), load.Flow{To: l.addr[1], Bytes: 1, MessageBytes: 1, GiveUp: testkit.Patience}); err != nil {
		t.Fatal(err)
	}
	for i, n := range l.node {
		if n.state(t).Pacer != "htb" {
			continue
		}
		a := n.open(t)
		testkit.Eventually(t, "a class for the other host", func() bool {
			r, found, err := a.Lookup(l.addr[1-i])
			if err != nil {
				t.Fatal(err)
			}
			return found && r.Regs.ClassId != 0
		})
		a.Close()
	}
}

// flow is a running flow from host 0 to host 1.
type flow struct {
	stop   context.CancelFunc
	before uint64 // packets that the receiver had before
	report load.Report
	err    error
	done   chan struct{}
}

func (l *lab) start(f load.Flow) *flow {
	ctx, cancel := context.WithCancel(context.Background())
	r := &flow{stop: cancel, before: l.arrived(), done: make(chan struct{})}
	f.To = l.addr[1]
	if f.Window == 0 {
		f.Window = window
	}
	if f.MinRTO == 0 {
		// Long enough that a timeout means a lost packet, not a machine out of breath.
		f.MinRTO = 5 * time.Second
	}
	if f.GiveUp == 0 {
		f.GiveUp = testkit.Patience
	}
	go func() {
		defer close(r.done)
		r.report, r.err = l.ep[0].Send(ctx, f)
	}()
	return r
}

// end lets the flow finish its last message, and checks that every byte arrived.
func (l *lab) end(t *testing.T, r *flow) load.Report {
	t.Helper()
	r.stop()
	<-r.done
	if r.err != nil {
		t.Fatal(r.err)
	}
	got := l.ep[1].Received()[l.addr[0]]
	for i, ep := range l.ep {
		// Where nothing is attached, the socket receives the peer's HELLO, whose IP
		// header is not the one that sockets of package load expect.
		if c := ep.Counters(); c.BadICRC+c.Malformed > 0 && !l.bare {
			t.Errorf("host %d saw damaged packets: %+v", i+1, c)
		}
	}
	if got.Mismatches+got.Invalid > 0 {
		t.Errorf("damaged data arrived: %+v", got)
	}
	if got.Bytes < r.report.Bytes || r.report.Bytes == 0 {
		t.Errorf("%d bytes acknowledged, %d arrived", r.report.Bytes, got.Bytes)
	}
	t.Logf("%.1f MB in %v (%.0f Mbit/s), %d packets, %d sent again, %d NAKs, %d timeouts; %d arrived ahead of their turn",
		float64(r.report.Bytes)/1e6, r.report.Elapsed.Round(time.Millisecond), r.report.GoodputBPS/1e6,
		r.report.Packets, r.report.Retransmits, r.report.NAKs, r.report.Timeouts, got.Ahead)
	return r.report
}

// arrived is the number of packets that host 1 has received from host 0, repeated ones too.
func (l *lab) arrived() uint64 {
	got := l.ep[1].Received()[l.addr[0]]
	return got.Packets + got.Ahead + got.Duplicates
}

// allArrived waits until the receiver has as many packets of a flow that has ended as were
// sent. A machine that stalls for longer than the timeout has packets sent again of which none
// was lost. A packet that was lost never arrives.
func (l *lab) allArrived(t *testing.T, f *flow) {
	t.Helper()
	testkit.Eventually(t, "every packet that was sent", func() bool { return l.arrived()-f.before >= f.report.Packets })
}

// lossless ends the flow and fails the test if a packet was lost or overtaken.
func (l *lab) lossless(t *testing.T, f *flow) {
	t.Helper()
	if r := l.end(t, f); r.NAKs > 0 {
		t.Errorf("packets were lost or overtaken: %d sent again, %d NAKs, %d timeouts", r.Retransmits, r.NAKs, r.Timeouts)
		return
	}
	l.allArrived(t, f)
}

// row reads the entry of host 1 in host 0's table.
func (l *lab) row(t *testing.T, a *loader.Attachment) bpf.DestRegs {
	t.Helper()
	r, found, err := a.Lookup(l.addr[1])
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		t.Fatalf("no entry for %s", l.addr[1])
	}
	return r.Regs
}

// measured waits until the peer answered HELLO, and the policy has decided on
// what stamps told.
func (l *lab) measured(t *testing.T, a *loader.Attachment) bpf.DestRegs {
	t.Helper()
	var d bpf.DestRegs
	testkit.Eventually(t, "stamps, echoes and decisions", func() bool {
		r, found, err := a.Lookup(l.addr[1])
		if err != nil {
			t.Fatal(err)
		}
		d = r.Regs
		return found && d.Caps&bpf.CapStamp != 0 && d.LastEchoT1Ns != 0 && d.Policy.Decisions > 0
	})
	return d
}

// stat reads one counter.
func stat(t *testing.T, a *loader.Attachment, name string) uint64 {
	t.Helper()
	stats, err := a.Stats()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats {
		if s.Name == name {
			return s.Count
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}

func (n *node) state(t testing.TB) loader.State {
	t.Helper()
	s, err := loader.ReadState(n.run, topo.IfName)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// killAgent ends the agent as a crash would, and returns when it is gone.
func (n *node) killAgent(t *testing.T) {
	t.Helper()
	pid := n.state(t).AgentPID
	if pid <= 1 {
		t.Fatalf("agent's pid is %d", pid)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the agent's end", func() bool { return !loader.AgentAlive(n.run, topo.IfName) })
}

func (n *node) agentLog(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile(loader.LogPath(n.run, topo.IfName))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
