// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/softroce/softroce-xdp/bpf"
	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// routed is a topology in which hosts 1 (E) and 3 (F) reach each other through host 2 (R).
func routed(t *testing.T) *topo.Topology {
	t.Helper()
	top := topo.ForTest(t, topo.Spec{Hosts: topo.Hosts(3), StaticNeighbours: true})
	if err := topo.RouteVia(top.Host(2), top.Host(1), top.Host(3)); err != nil {
		t.Fatal(err)
	}
	return top
}

// hasRow reports whether there is an entry of a peer.
func hasRow(t *testing.T, a *loader.Attachment, peer netip.Addr) bool {
	t.Helper()
	_, found, err := a.Lookup(peer)
	testkit.Must(t, err)
	return found
}

// mustRow returns the entry of a peer, which exists.
func mustRow(t *testing.T, a *loader.Attachment, peer netip.Addr) bpf.DestRegs {
	t.Helper()
	r, found, err := a.Lookup(peer)
	if err != nil || !found {
		t.Fatalf("no entry of %s: %v", peer, err)
	}
	return r.Regs
}

// stampsTo waits until an attachment stamps what it sends to a peer, and an echo has come.
func stampsTo(t *testing.T, a *loader.Attachment, peer netip.Addr) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("stamps to %s, and an echo", peer), func() bool { return stamped(a, peer) })
}

// stamped reports whether an attachment stamps what it sends to a peer, and an echo has come.
func stamped(a *loader.Attachment, peer netip.Addr) bool {
	r, found, err := a.Lookup(peer)
	return err == nil && found && r.Regs.Caps&bpf.CapStamp != 0 && r.Regs.LastEchoT1Ns != 0
}

// The traffic of others passes an attached host that forwards it: stamps and control packets reach
// the end to which they were sent, while that host has traffic of its own with both ends.
func TestForwarderPassesTraffic(t *testing.T) {
	topo.RequireRoot(t)
	top := routed(t)
	var ep [3]*load.Endpoint
	var att [3]*loader.Attachment
	for i, h := range top.Hosts() {
		var err error
		if ep[i], err = load.Open(load.Config{Local: h.IPv4(), Do: h.Do}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ep[i].Close() })
		n := newNode(t, h)
		n.must(t, "attach", topo.IfName)
		att[i] = n.open(t)
	}
	send := func(from, to int) {
		t.Helper()
		if _, err := ep[from].Send(t.Context(), load.Flow{To: top.Host(to + 1).IPv4(), Bytes: 500 * 1024, GiveUp: testkit.Patience}); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range [][2]int{{0, 2}, {0, 1}, {2, 1}, {0, 2}} {
		send(x[0], x[1])
		stampsTo(t, att[x[0]], top.Host(x[1]+1).IPv4())
	}
	before := mustRow(t, att[2], top.Host(1).IPv4())
	send(0, 2)
	after := mustRow(t, att[2], top.Host(1).IPv4())
	if n := after.RxUnstamped - before.RxUnstamped; n != 0 {
		t.Errorf("%d of %d packets reached F without their stamp", n, after.RxPackets-before.RxPackets)
	}
	testkit.Eventually(t, "a decision for F on E", func() bool {
		send(0, 2)
		return mustRow(t, att[0], top.Host(3).IPv4()).Policy.Decisions != 0
	})
	for i, a := range att {
		for _, name := range []string{"hello_ack_forged", "rx_token_wrong"} {
			if n := stat(t, a, name); n != 0 {
				t.Errorf("host %d: %s %d", i+1, name, n)
			}
		}
	}
	if stat(t, att[1], "rx_forwarded") < 1000 {
		t.Errorf("R has passed %d packets", stat(t, att[1], "rx_forwarded"))
	}
}

// connect connects two queue pairs, with a timeout that is longer than the default one: that ends a connection to a
// host that stalls for two seconds.
func connect(t *testing.T, a, b verbs.QP, addrA, addrB netip.Addr) {
	t.Helper()
	testkit.Must(t, engines.ConnectAttr(a, b, addrA, addrB, func(x *verbs.Attr) { x.Timeout = 20 }))
}

// writer is a queue pair with memory of its own.
type writer struct {
	qp verbs.QP
	cq verbs.CQ
	mr verbs.MR
}

func newWriters(t *testing.T, h *engines.Host, n int) (w []writer) {
	t.Helper()
	dev := h.MustOpen(t, nic.Options{})
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := dev.CreateCQ(2 * n)
	if err != nil {
		t.Fatal(err)
	}
	mr, err := pd.RegMR(make([]byte, 64*n), engines.Access)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, MaxSend: 2, MaxRecv: 1, MaxSendSGE: 1, MaxRecvSGE: 1, SignalAll: true})
		if err != nil {
			t.Fatal(err)
		}
		w = append(w, writer{qp, cq, mr})
	}
	return w
}

// R has the queue pair numbers of E and F in its table, as if it had equal ones. Packets between E and F do
// not end at R.
func TestForwarderWithEqualQPNs(t *testing.T) {
	topo.RequireRoot(t)
	const n = 1000
	hosts := engines.On(t, routed(t))
	e, r, f := newWriters(t, hosts[0], n), newWriters(t, hosts[1], n), newWriters(t, hosts[2], n)
	att, err := loader.Open(topo.IfName, hosts[1].LoaderOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer att.Close()
	var steer bpf.Steer
	if err := att.Maps.SteerTable.Lookup(r[0].qp.QPN(), &steer); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		for _, x := range []writer{e[i], f[i]} {
			if err := att.Maps.SteerTable.Put(x.qp.QPN(), steer); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range n {
		x, h := f[i], hosts[2]
		if i%2 != 0 {
			x, h = r[i], hosts[1]
		}
		connect(t, e[i].qp, x.qp, hosts[0].IPv4(), h.IPv4())
		if err := e[i].qp.PostSend(&verbs.SendWR{ID: uint64(i), Op: verbs.OpWrite, SGL: []verbs.SGE{{Addr: e[i].mr.VA() + uint64(64*i), Len: 64, LKey: e[i].mr.LKey()}}, RemoteAddr: x.mr.VA() + uint64(64*i), RKey: x.mr.RKey()}); err != nil {
			t.Fatal(err)
		}
		if i%32 != 31 && i != n-1 {
			continue
		}
		for range i%32 + 1 {
			if c, err := engines.PollOne(e[i].cq, testkit.Patience); err != nil || c.Status != verbs.StatusSuccess {
				t.Fatalf("connection %d: %+v, %v", i, c, err)
			}
		}
	}
}
