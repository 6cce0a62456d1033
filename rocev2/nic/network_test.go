// SPDX-License-Identifier: Apache-2.0

package nic_test

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/engines"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

func TestMain(m *testing.M) {
	if args := os.Getenv(helperEnv); args != "" {
		fmt.Fprintln(os.Stderr, helper(args))
		os.Exit(1)
	}
	// Two engines, their second threads and the tests share this process.
	runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0)))
	engines.Main(m)
}

// side is one end of a pair of queue pairs with a buffer.
type side struct {
	host *engines.Host
	dev  *nic.Device
	pd   verbs.PD
	cq   verbs.CQ
	qp   verbs.QP
	buf  []byte
	key  uint32
	va   uint64
}

func newSide(t testing.TB, h *engines.Host, typ verbs.QPType, size int) *side {
	t.Helper()
	// What the other host does to memory happens before its answer arrives, but the
	// race detector cannot see that through the wire. It leaves alone what is not Go's.
	buf, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	s := &side{host: h, dev: h.Dev, buf: buf}
	if s.pd, err = s.dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	m, err := s.pd.RegMR(s.buf, engines.Access)
	if err != nil {
		t.Fatal(err)
	}
	s.key, s.va = m.LKey(), m.VA()
	if s.cq, err = s.dev.CreateCQ(1024); err != nil {
		t.Fatal(err)
	}
	s.qp, err = s.pd.CreateQP(verbs.QPInit{Type: typ, SendCQ: s.cq, RecvCQ: s.cq, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInline: 256})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *side) sge(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: s.va + uint64(off), Len: uint32(n), LKey: s.key}}
}

func (s *side) poll(t testing.TB) verbs.Completion {
	t.Helper()
	c, err := engines.PollOne(s.cq, testkit.Patience)
	if err != nil {
		t.Fatalf("%s: %v\n%s", s.host.Name(), err, dump(s.dev))
	}
	return c
}

func (s *side) post(t testing.TB, wr *verbs.SendWR) {
	t.Helper()
	if err := s.qp.PostSend(wr); err != nil {
		t.Fatal(err)
	}
}

// dump lists the counters that are not zero, for messages.
func dump(d *nic.Device) string {
	var b strings.Builder
	for _, c := range d.Counters() {
		if c.Value != 0 {
			fmt.Fprintf(&b, "  %s %d\n", c.Name, c.Value)
		}
	}
	return b.String()
}

func pair(t testing.TB, typ verbs.QPType, size int, spec topo.Spec, v6 bool, pmtu rocev2.PMTU) (a, b *side) {
	t.Helper()
	hosts := engines.New(t, spec, "--policy", "mode=fixed")
	for _, h := range hosts {
		h.MustOpen(t, nic.Options{})
	}
	a, b = newSide(t, hosts[0], typ, size), newSide(t, hosts[1], typ, size)
	if err := connectPair(a.qp, b.qp, hosts[0].Addr(v6), hosts[1].Addr(v6), pmtu); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// patient has a silent peer be given up after 29 s (qp.RetryBound): longer than a busy machine lets an engine stand still.
func patient(a *verbs.Attr) { a.Timeout = 18 }

// connectPair is engines.Connect with patient.
func connectPair(a, b verbs.QP, addrA, addrB netip.Addr, pmtu rocev2.PMTU) error {
	return engines.ConnectAttr(a, b, addrA, addrB, func(x *verbs.Attr) { patient(x); x.PMTU = pmtu })
}

func TestFirstWrite(t *testing.T) {
	a, b := pair(t, verbs.RC, 1<<20, topo.Spec{Hosts: topo.Hosts(2)}, false, rocev2.PMTU1024)
	for i := range a.buf {
		a.buf[i] = byte(i * 7)
	}
	a.post(t, &verbs.SendWR{ID: 1, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: a.sge(0, 1<<20), RemoteAddr: b.va, RKey: b.key})
	c := a.poll(t)
	t.Logf("%+v\n%s\n%s", c, dump(a.dev), dump(b.dev))
	for i := range b.buf {
		if b.buf[i] != byte(i*7) {
			t.Fatalf("byte %d", i)
		}
	}
}

// connect makes one more pair of queue pairs in addition to those of a and b.
func (s *side) connect(t testing.TB, peer *side) verbs.QP {
	t.Helper()
	var qps [2]verbs.QP
	for i, x := range []*side{s, peer} {
		var err error
		qps[i], err = x.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: x.cq, RecvCQ: x.cq})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := connectPair(qps[0], qps[1], s.host.IPv4(), peer.host.IPv4(), rocev2.PMTU1024); err != nil {
		t.Fatal(err)
	}
	return qps[0]
}
