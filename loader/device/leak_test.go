// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/cm"
	"github.com/softroce/softroce-xdp/rocev2/mad"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// holdings are what a server process has.
type holdings struct{ fds, memfds, goroutines int }

func (p *process) holdings() holdings {
	p.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		p.t.Fatal(err)
	}
	maps, err := os.ReadFile(proc + "maps")
	if err != nil {
		p.t.Fatal(err)
	}
	p.say("")
	goroutines, err := strconv.Atoi(p.line(""))
	if err != nil {
		p.t.Fatal(err)
	}
	return holdings{len(fds), strings.Count(string(maps), "/memfd:"), goroutines}
}

// useAll opens the device, and makes one of each object and a listener and a connection.
func useAll(t *testing.T, dir string, port uint16) *client.Device {
	t.Helper()
	d, err := client.Open(t.Context(), "lo", client.Config{RunDir: dir, ArenaBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	e := newEnd(t, d, 4096, verbs.QPInit{Type: verbs.RC})
	s, sessionErr := d.OpenCM()
	_, memoryErr := e.pd.RegMR(make([]byte, 4096), allRights)
	_, srqErr := e.pd.CreateSRQ(16, 1)
	_, windowErr := e.pd.AllocMW()
	_, ahErr := e.pd.CreateAH(verbs.AddressVector{Dst: here})
	_, distributionErr := e.pd.(mr.Distributor).Distribute(make([]byte, 4096), mr.Group{{QPN: e.qp.QPN()}})
	for _, err := range []error{sessionErr, distributionErr, memoryErr, srqErr, windowErr, ahErr} {
		if err != nil {
			t.Fatal(err)
		}
	}
	service := mad.IPServiceID(mad.PortTCP, port)
	if err := s.Listen(service, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Connect(cm.ConnectParams{Local: here, Peer: here, Service: service, QPN: e.qp.QPN(), PSN: 5, Attr: verbs.DefaultAttr()}); err != nil {
		t.Fatal(err)
	}
	return d
}

// After 100 processes that left all kinds of objects, and some that were killed, the server has the descriptors,
// memory and goroutines that it had before.
func TestNothingIsLeft(t *testing.T) {
	dir := testkit.SocketDir(t)
	server := start(t, "server", dir)
	server.line("serves")
	socket := proto.SocketPath(dir, "lo")
	empty := func() {
		t.Helper()
		testkit.Eventually(t, "no process is left", func() bool {
			st, err := device.ReadStatus(t.Context(), socket)
			return err == nil && len(st.Processes) == 0
		})
	}
	_ = useAll(t, dir, 1).Close() // what the first process takes for good: the communication manager
	empty()
	before := server.holdings()
	for i := range 100 {
		d := useAll(t, dir, uint16(i+2)) // the server may be at the end of the one before
		if i%10 == 0 {
			p := start(t, "peer", dir)
			p.line("address ")
			p.say("register")
			p.line("done")
			p.kill()
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	empty()
	ctx := testkit.Context(t)
	after := server.holdings()
	more := func() bool {
		return after.fds > before.fds || after.memfds > before.memfds || after.goroutines > before.goroutines
	}
	for ; more(); after = server.holdings() { // goroutines and descriptors of the last processes end later
		if ctx.Err() != nil {
			t.Fatalf("%+v, before %+v", after, before)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// register registers memory of both kinds, and makes and destroys queues.
func (p *peer) register() error {
	pd, err := p.dev.AllocPD()
	if err != nil {
		return err
	}
	arena, err := p.dev.Alloc(chunk)
	if err != nil {
		return err
	}
	a, err := pd.RegMR(arena, allRights)
	if err != nil {
		return err
	}
	b, err := pd.RegMR(make([]byte, chunk), allRights)
	if err != nil {
		return err
	}
	cq, err := p.dev.CreateCQ(16)
	if err != nil {
		return err
	}
	q, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
	if err != nil {
		return err
	}
	return errors.Join(q.Destroy(), cq.Destroy(), a.Deregister(), b.Deregister(), pd.Free(), p.dev.Free(arena))
}
