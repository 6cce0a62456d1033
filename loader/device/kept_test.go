// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"bytes"
	"runtime"
	"testing"
	"weak"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/mr"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// table makes memory with a content. Only the weak pointer stays with the test.
func table(fill byte) ([]byte, weak.Pointer[byte]) {
	b := bytes.Repeat([]byte{fill}, 1<<16)
	return b, weak.Make(&b[0])
}

// collected runs the garbage collector and reports whether it has freed the memory.
func collected(p weak.Pointer[byte]) bool {
	runtime.GC()
	runtime.GC()
	return p.Value() == nil
}

// registrations register memory of Go that the program does not reference any more when they return.
var registrations = map[string]func(t *testing.T, e *end) (weak.Pointer[byte], verbs.MR){
	"RegMR": func(t *testing.T, e *end) (weak.Pointer[byte], verbs.MR) {
		b, p := table(1)
		m, err := e.pd.RegMR(b, allRights)
		if err != nil {
			t.Fatal(err)
		}
		return p, m
	},
	"RegisterMemory": func(t *testing.T, e *end) (weak.Pointer[byte], verbs.MR) {
		b, p := table(1)
		m, err := rdma.RegisterMemory(e.pd, b, allRights)
		if err != nil {
			t.Fatal(err)
		}
		return p, m
	},
	"Distribute": func(t *testing.T, e *end) (weak.Pointer[byte], verbs.MR) {
		b, p := table(1)
		m, err := e.pd.(*client.PD).Distribute(b, mr.Group{{QPN: e.qp.QPN()}})
		if err != nil {
			t.Fatal(err)
		}
		return p, m
	},
}

// Peers access registered memory by key and address, until Deregister. Until then the garbage collector must
// not reuse it, also if the program has given the key away and references neither memory nor region.
func TestRegisteredMemoryIsKept(t *testing.T) {
	for name, register := range registrations {
		t.Run(name, func(t *testing.T) {
			_, dir := serve(t, device.Config{})
			d := open(t, dir)
			e := newEnd(t, d, 64, verbs.QPInit{Type: verbs.RC})
			forgotten, _ := register(t, e)
			kept, m := register(t, e)
			if collected(forgotten) || collected(kept) {
				t.Error("the memory of a region was collected")
			}
			if err := m.Deregister(); err != nil {
				t.Fatal(err)
			}
			m = nil
			testkit.Eventually(t, "it is collected", func() bool { return collected(kept) })
			if collected(forgotten) {
				t.Error("the memory of another region was collected")
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "it is collected", func() bool { return collected(forgotten) })
		})
	}
}

// When the agent ends, nobody accesses the memory any more.
func TestRegisteredMemoryAfterTheAgent(t *testing.T) {
	s, dir := serve(t, device.Config{})
	d := open(t, dir)
	p, _ := registrations["RegMR"](t, newEnd(t, d, 64, verbs.QPInit{Type: verbs.RC}))
	if collected(p) {
		t.Error("the memory of a region was collected")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "it is collected", func() bool { return collected(p) })
	runtime.KeepAlive(d)
}

// A refused registration keeps nothing.
func TestRefusedRegistrationKeepsNothing(t *testing.T) {
	_, dir := serve(t, device.Config{})
	e := newEnd(t, open(t, dir), 64, verbs.QPInit{Type: verbs.RC})
	p := func() weak.Pointer[byte] {
		b, p := table(1)
		if _, err := e.pd.RegMR(b, verbs.AccessRemoteWrite); err == nil { // which needs AccessLocalWrite
			t.Error("no error")
		}
		return p
	}()
	testkit.Eventually(t, "it is collected", func() bool { return collected(p) })
}

// The source of a WRITE is not collected before the WRITE was executed, although the program has forgotten
// memory and region when PostSend has returned.
func TestSourceOfWriteIsKept(t *testing.T) {
	const rounds = 20
	_, dir := serve(t, device.Config{})
	a, b := newEnd(t, open(t, dir), 64, verbs.QPInit{Type: verbs.RC}), newEnd(t, open(t, dir), rounds<<16, verbs.QPInit{Type: verbs.RC})
	connect(t, a, b)
	for i := range rounds {
		source := func() weak.Pointer[byte] {
			src, p := table(byte(i + 1))
			m, err := a.pd.RegMR(src, verbs.AccessLocalWrite)
			if err != nil {
				t.Fatal(err)
			}
			err = a.qp.PostSend(&verbs.SendWR{
				Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{{Addr: m.VA(), Len: 1 << 16, LKey: m.LKey()}},
				RemoteAddr: b.mr.VA() + uint64(i)<<16, RKey: b.mr.RKey(),
			})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}()
		if collected(source) {
			t.Fatal("the source was collected")
		}
		other := bytes.Repeat([]byte{0xEE}, 1<<20) // takes what was collected
		runtime.KeepAlive(other)
	}
	for range rounds {
		if c := a.wait(t); c.Status != verbs.StatusSuccess {
			t.Fatalf("%+v", c)
		}
	}
	for i := range rounds {
		if part := b.buf[i<<16:][:1<<16]; bytes.Count(part, []byte{byte(i + 1)}) != 1<<16 {
			t.Errorf("WRITE %d has written other data of the program", i)
		}
	}
}
