// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
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
	dir := testkit.SocketDir(t)
	c.Socket = proto.SocketPath(dir, "lo")
	s, err := device.New(c)
	if err != nil {
		t.Fatal(err)
	}
	dev := testkit.Must1(nic.OpenLoopback(nic.Options{Feeder: s.Feeder()}))(t)
	testkit.Must(t, s.Serve(dev))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-s.Ended()
		if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 0 {
			t.Errorf("the server left %q", names)
		}
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

func connect(t testing.TB, a, b *end) {
	t.Helper()
	devices.Connect(t, a.qp, b.qp, verbs.DefaultAttr())
}

func (e *end) sgl(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: e.mr.VA() + uint64(off), Len: uint32(n), LKey: e.mr.LKey()}}
}

// wait returns the next completion.
func (e *end) wait(t testing.TB) verbs.Completion {
	t.Helper()
	return devices.Next(t, e.cq)
}

// countMemfds counts the mappings of memfds in /proc/self/maps.
func countMemfds(maps string) int { return strings.Count(maps, "/memfd:softroce-") }
