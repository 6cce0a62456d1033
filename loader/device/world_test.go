// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// serve starts a server of a loopback engine, and returns its directory.
func serve(t testing.TB, c device.Config) (*device.Server, string) {
	t.Helper()
	s, _, dir := serveEngine(t, c)
	return s, dir
}

// serveEngine is serve for a test that needs the engine as well.
func serveEngine(t testing.TB, c device.Config) (*device.Server, *nic.Device, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "srd") // t.TempDir may be too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	c.Socket = proto.SocketPath(dir, "lo")
	s, err := device.New(c)
	if err != nil {
		t.Fatal(err)
	}
	dev, err := nic.OpenLoopback(nic.Options{Feeder: s.Feeder()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(dev); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-s.Ended()
		if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 0 {
			t.Errorf("the server left %q", names)
		}
		os.RemoveAll(dir)
	})
	return s, dev, dir
}

func open(t testing.TB, dir string) *client.Device {
	t.Helper()
	d, err := client.Open(t.Context(), "lo", client.Config{RunDir: dir, ArenaBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// end is one queue pair of a client, with a buffer that is registered.
type end struct {
	dev verbs.Device
	pd  verbs.PD
	cq  verbs.CQ
	qp  verbs.QP
	buf []byte
	mr  verbs.MR
}

var (
	here      = netip.MustParseAddr("127.0.0.1")
	allRights = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
)

func newEnd(t testing.TB, d *client.Device, size int, init verbs.QPInit) *end {
	t.Helper()
	e := &end{dev: d}
	var err error
	if e.pd, err = d.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if e.cq, err = d.CreateCQ(256); err != nil {
		t.Fatal(err)
	}
	if e.buf, err = d.Alloc(size); err != nil {
		t.Fatal(err)
	}
	if e.mr, err = e.pd.RegMR(e.buf, allRights); err != nil {
		t.Fatal(err)
	}
	init.SendCQ, init.RecvCQ = e.cq, e.cq
	if e.qp, err = e.pd.CreateQP(init); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *end) endpoint() verbs.Endpoint {
	return verbs.Endpoint{Addr: here, QPN: e.qp.QPN(), PSN: 100, QKey: 0x11111111}
}

func connect(t testing.TB, a, b *end) {
	t.Helper()
	for _, p := range [][2]*end{{a, b}, {b, a}} {
		if err := verbs.Connect(p[0].qp, p[0].endpoint(), p[1].endpoint(), verbs.DefaultAttr()); err != nil {
			t.Fatal(err)
		}
	}
}

func (e *end) sgl(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: e.mr.VA() + uint64(off), Len: uint32(n), LKey: e.mr.LKey()}}
}

// wait returns the next completion.
func (e *end) wait(t testing.TB) verbs.Completion {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	if err := e.cq.Wait(ctx, false); err != nil {
		t.Fatal(err)
	}
	var c [1]verbs.Completion
	if e.cq.Poll(c[:]) != 1 {
		t.Fatal("Wait returned, and there is no completion")
	}
	return c[0]
}

// wait waits until a condition holds.
func wait(t testing.TB, done func() bool) {
	t.Helper()
	for end := time.Now().Add(testkit.Patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never became so")
		}
	}
}

// countMemfds counts the mappings of memfds in /proc/self/maps.
func countMemfds(maps string) int { return strings.Count(maps, "/memfd:softroce-") }
