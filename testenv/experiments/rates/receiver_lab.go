// SPDX-License-Identifier: Apache-2.0

package rates

// The files receiver_*.go measure how a server whose link is congested divides it among three nodes by
// their priority (S1.8, S4.5): what they write to it, and what they read from it.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// receiverLinkBps is the link of the server in both directions, in bit/s of frames.
const receiverLinkBps = 100e6

const mtu = 4300

// node is one of the three nodes.
type node struct {
	level    int
	min, max uint64 // bit/s; max 0: none
}

var nodes = []node{{1, 10e6, 50e6}, {2, 10e6, 30e6}, {3, 5e6, 0}}

// receiverLab is the server, its three nodes, and the streams of a scenario.
type receiverLab struct {
	t      testing.TB
	hosts  []*engines.Host // the server first
	server *loader.Attachment
	file   string
}

// newReceiverLab attaches all hosts. The server is behind a switch of its own, and the cable from there is
// slow in both directions.
func newReceiverLab(t testing.TB) *receiverLab {
	t.Helper()
	topo.RequireRoot(t)
	top := topo.ForTest(t, topo.Spec{StaticNeighbours: true, MTU: mtu,
		Hosts: []topo.HostSpec{{Name: "server"}, {Name: "node1"}, {Name: "node2"}, {Name: "node3"}}})
	l := &receiverLab{t: t, file: filepath.Join(t.TempDir(), "nodes.yaml")}
	l.slowCable(top)
	// Two cores play four machines here, and run late by as much as a queue at these rates.
	l.hosts = engines.On(t, top, "--rate", "1G", "--policy", "target-max=10ms", "--policy", "target=2ms")
	var text strings.Builder
	text.WriteString("nodes:\n")
	for i, n := range nodes {
		fmt.Fprintf(&text, "  - {number: %d, addresses: [%s], level: %d, min: %d", i+2, l.hosts[i+1].IPv4(), n.level, n.min)
		if n.max != 0 {
			fmt.Fprintf(&text, ", max: %d", n.max)
		}
		text.WriteString("}\n")
	}
	if err := os.WriteFile(l.file, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	l.product(0, "attach", "--upgrade", "--rate", "100M", "--nodes", l.file, topo.IfName)
	for _, h := range l.hosts {
		h.MustOpen(t, nic.Options{})
	}
	l.server = l.hosts[0].Attachment(t)
	return l
}

// product runs a command line of the product on a host.
func (l *receiverLab) product(host int, args ...string) string {
	l.t.Helper()
	out, err := l.hosts[host].Product(args...)
	if err != nil {
		l.t.Fatalf("%s: %v: %v\n%s", l.hosts[host].Name(), args, err, out)
	}
	return out
}

// priority turns the policy of a host on or off.
func (l *receiverLab) priority(host int, mode string) {
	l.t.Helper()
	l.product(host, "policy", "set", topo.IfName, "--priority", mode)
}

func (l *receiverLab) slowCable(top *topo.Topology) {
	l.t.Helper()
	rate := fmt.Sprintf("tbf rate %dbit burst 40kb limit 300kb", int(receiverLinkBps))
	for _, line := range []string{
		"ip link add br1 type bridge", "ip link set br1 up", "ip link set port1 master br1",
		"ip link add up1 type veth peer name up0", "ip link set up1 master br1", "ip link set up0 master br0",
		"tc qdisc add dev up1 root " + rate, // towards the nodes
		"tc qdisc add dev up0 root " + rate, // towards the server
	} {
		args := strings.Fields(line)
		if out, err := top.Switch().Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			l.t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	if err := top.Switch().Do(func() error { return topo.UpInOrder(mtu, "up0", "up1") }); err != nil {
		l.t.Fatal(err)
	}
}

// receiverFlow is a stream that runs.
type receiverFlow struct {
	*Stream
	stop  context.CancelFunc
	ended chan error
}

// start starts a stream between a node, 1 to 3, and the server, which the node posts.
func (l *receiverLab) start(node int, op verbs.Op) *receiverFlow {
	l.t.Helper()
	k := Kind{Name: fmt.Sprint("node ", node), Type: verbs.RC, Op: op, Size: 64 << 10, Deep: 8, PMTU: rocev2.PMTU4096}
	s, err := Connect(l.hosts[node], l.hosts[0], k)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &receiverFlow{Stream: s, stop: stop, ended: make(chan error, 1)}
	go func() { f.ended <- s.Run(ctx) }()
	return f
}

func (l *receiverLab) end(flows ...*receiverFlow) {
	l.t.Helper()
	for _, f := range flows {
		f.stop()
		if err := <-f.ended; err != nil {
			l.t.Error(err)
		}
	}
}

// eventually waits for what must come about on any machine.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for start := time.Now(); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > 3*time.Minute {
			t.Fatalf("%s: not after three minutes", what)
		}
	}
}
