// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/nic"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// device is an engine with a domain, and memory of this process of which pattern is the content.
type device struct {
	t     testing.TB
	pd    verbs.PD
	cq    verbs.CQ
	local *mr.Region
	mem   []byte
}

func openDevice(t testing.TB) *device {
	t.Helper()
	d := devices.Loopback(t)
	x := &device{t: t, mem: pattern(1 << 20)}
	var errs [2]error
	x.pd, errs[0] = d.AllocPD()
	x.cq, errs[1] = d.CreateCQ(64)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	x.local = x.register(mr.Spec{Host: x.mem, Access: verbs.AccessLocalWrite})
	return x
}

func (d *device) register(s mr.Spec) *mr.Region {
	d.t.Helper()
	r, err := d.pd.(*nic.PD).Register(s)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// pair returns two connected queue pairs.
func (d *device) pair() (x, y verbs.QP) {
	d.t.Helper()
	return d.pairWith(verbs.DefaultAttr().PMTU)
}

func (d *device) pairWith(pmtu rocev2.PMTU) (x, y verbs.QP) {
	d.t.Helper()
	attr := verbs.DefaultAttr()
	attr.PMTU = pmtu
	x, err1 := d.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: d.cq, RecvCQ: d.cq})
	y, err2 := d.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: d.cq, RecvCQ: d.cq})
	if err := errors.Join(err1, err2); err != nil {
		d.t.Fatal(err)
	}
	devices.Connect(d.t, x, y, attr)
	return x, y
}

// send posts a work request and returns its completion; those of receives are left out.
func (d *device) send(q verbs.QP, wr verbs.SendWR) verbs.Completion {
	d.t.Helper()
	wr.Flags |= verbs.Signaled
	testkit.Must(d.t, q.PostSend(&wr))
	for {
		if c := devices.Next(d.t, d.cq); c.QPN == q.QPN() {
			return c
		}
	}
}

func (d *device) here(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: d.local.VA() + uint64(off), Len: uint32(n), LKey: d.local.LKey()}}
}

// An engine carries all operations to and from memory of another process. When a completion
// is there, the process sees the data.
func TestDevice(t *testing.T) {
	a, d := startApplication(t), openDevice(t)
	const n = 100_000
	addr := a.mapped("plain", 1<<20/processPage)
	spec, err := a.Spec(addr, 1<<20, everything)
	if err != nil {
		t.Fatal(err)
	}
	r := d.register(spec)
	x, y := d.pair()
	success := func(what string, c verbs.Completion) {
		t.Helper()
		if c.Status != verbs.StatusSuccess {
			t.Fatalf("%s: %v", what, c.Status)
		}
	}
	success("WRITE", d.send(x, verbs.SendWR{Op: verbs.OpWrite, SGL: d.here(0, n), RemoteAddr: addr + 3, RKey: r.RKey()}))
	if !bytes.Equal(a.sees(addr+3, n), d.mem[:n]) {
		t.Error("WRITE: other data")
	}
	if err := y.PostRecv(&verbs.RecvWR{SGL: []verbs.SGE{{Addr: addr + 200_001, Len: n, LKey: r.LKey()}}}); err != nil {
		t.Fatal(err)
	}
	success("SEND", d.send(x, verbs.SendWR{Op: verbs.OpSend, SGL: d.here(77, n)}))
	if !bytes.Equal(a.sees(addr+200_001, n), d.mem[77:77+n]) {
		t.Error("SEND: other data")
	}
	success("READ", d.send(x, verbs.SendWR{Op: verbs.OpRead, SGL: d.here(500_000, n), RemoteAddr: addr + 3, RKey: r.RKey()}))
	if !bytes.Equal(d.mem[500_000:500_000+n], d.mem[:n]) {
		t.Error("READ: other data")
	}
	success("WRITE from the process", d.send(y, verbs.SendWR{
		Op: verbs.OpWrite, SGL: []verbs.SGE{{Addr: addr + 3, Len: n, LKey: r.LKey()}}, RemoteAddr: addr + 600_000, RKey: r.RKey(),
	}))
	if !bytes.Equal(a.sees(addr+600_000, n), d.mem[:n]) {
		t.Error("WRITE from the process: other data")
	}
	a.do("write %d 8 %016x", addr+512, 0)
	success("FETCH_ADD", d.send(x, verbs.SendWR{Op: verbs.OpFetchAdd, SGL: d.here(0, 8), RemoteAddr: addr + 512, RKey: r.RKey(), Add: 41}))
	if got := binary.NativeEndian.Uint64(a.sees(addr+512, 8)); got != 41 {
		t.Errorf("FETCH_ADD: %d", got)
	}
}

// What fails is the connection that touches memory that is gone, with the status of failed
// memory. Others of the device go on, also those of the same process.
func TestDeviceFails(t *testing.T) {
	a, other, d := startApplication(t), startApplication(t), openDevice(t)
	addr, good := a.mapped("plain", 32), other.mapped("plain", 32)
	region := func(p *application, at uint64) *mr.Region {
		spec, err := p.Spec(at, uint64(32*processPage), everything)
		if err != nil {
			t.Fatal(err)
		}
		return d.register(spec)
	}
	r, s := region(a, addr), region(other, good)
	u, _ := d.pair()
	write := func(q verbs.QP, at uint64, key uint32) verbs.Status {
		t.Helper()
		return d.send(q, verbs.SendWR{Op: verbs.OpWrite, SGL: d.here(0, 16*processPage), RemoteAddr: at, RKey: key}).Status
	}
	healthy := func(when string) {
		t.Helper()
		if got := write(u, good, s.RKey()); got != verbs.StatusSuccess || !bytes.Equal(other.sees(good, 16*processPage), d.mem[:16*processPage]) {
			t.Errorf("%s: the other process: %v", when, got)
		}
	}
	healthy("before")
	a.do("unmap %d %d", addr+uint64(18*processPage), processPage)
	x, _ := d.pair()
	if got := write(x, addr+uint64(10*processPage), r.RKey()); got != verbs.StatusRemoteOperation {
		t.Errorf("WRITE to what is unmapped: %v", got)
	}
	healthy("unmapped")
	x, _ = d.pair()
	if got := write(x, addr, r.RKey()); got != verbs.StatusSuccess {
		t.Errorf("WRITE to what is still there: %v", got)
	}
	a.kill()
	if got := write(x, addr, r.RKey()); got != verbs.StatusRemoteOperation {
		t.Errorf("WRITE to a process that was killed: %v", got)
	}
	x, _ = d.pair()
	if got := d.send(x, verbs.SendWR{Op: verbs.OpRead, SGL: d.here(0, 100), RemoteAddr: addr, RKey: r.RKey()}).Status; got != verbs.StatusRemoteOperation {
		t.Errorf("READ of a process that was killed: %v", got)
	}
	x, _ = d.pair()
	dead := verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{{Addr: addr, Len: 100, LKey: r.LKey()}}, RemoteAddr: good, RKey: s.RKey()}
	if got := d.send(x, dead).Status; got != verbs.StatusLocalQPOperation {
		t.Errorf("WRITE from a process that was killed: %v", got)
	}
	healthy("killed")
	if err := r.Deregister(); err != nil {
		t.Error(err)
	}
}
