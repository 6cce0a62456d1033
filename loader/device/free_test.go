// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"os"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// Free refuses what would give two owners the same memory, or a peer the memory of the next owner, and frees
// nothing then.
func TestFree(t *testing.T) {
	s, dir := serve(t, device.Config{})
	d := open(t, dir)
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	alloc := func(n int) []byte {
		t.Helper()
		b, err := rdma.Alloc(d, n)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	refused := func(what string, b []byte, want error) {
		t.Helper()
		if err := rdma.Free(d, b); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	whole, other := alloc(8192), alloc(100)
	refused("the second part", whole[4096:], verbs.ErrRange)
	refused("the first part", whole[:4096:4096], verbs.ErrRange)
	refused("the rest behind a buffer", other[:0:0], verbs.ErrRange)
	refused("nothing", nil, verbs.ErrRange)
	refused("memory of Go", make([]byte, 64), verbs.ErrRange)

	region, err := pd.RegMR(whole[4096:5000], verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	second, err := pd.RegMR(whole, verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	refused("registered twice", whole, verbs.ErrBusy)
	if err := second.Deregister(); err != nil {
		t.Fatal(err)
	}
	refused("registered", whole, verbs.ErrBusy)
	if err := region.Deregister(); err != nil {
		t.Fatal(err)
	}
	if _, err := pd.RegMR(whole, verbs.AccessRemoteWrite); err == nil {
		t.Error("a region that the server refuses")
	}
	if err := rdma.Free(d, whole[:10]); err != nil { // has the capacity of all of it
		t.Error(err)
	}
	refused("twice", whole, verbs.ErrRange)
	if _, err := pd.RegMR(whole, verbs.AccessLocalWrite); !errors.Is(err, verbs.ErrRange) {
		t.Errorf("memory that was freed is registered: %v", err)
	}
	next := alloc(8192)
	if &next[0] == &whole[0] {
		t.Error("the memory has another owner at once: a second Free would take it")
	}
	refused("twice, after the next Alloc", whole, verbs.ErrRange)

	// Memory that was freed is used before the system is asked for more, each part by one owner.
	owners := map[*byte]bool{&other[0]: true, &next[0]: true}
	for len(owners) < 1<<20/8192 { // all that the arena has room for
		b := alloc(8192)
		if owners[&b[0]] {
			t.Fatal("two owners")
		}
		owners[&b[0]] = true
	}
	if !owners[&whole[0]] {
		t.Error("the memory was not free")
	}
	for range 100 { // more than rests
		b := alloc(8192)
		if err := rdma.Free(d, b); err != nil {
			t.Fatal(err)
		}
	}
	again := alloc(8192)

	// Without the agent, no peer has access.
	if _, err := pd.RegMR(again, verbs.AccessLocalWrite); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the device is gone", func() bool { _, err := d.Port(); return errors.Is(err, verbs.ErrGone) })
	if err := rdma.Free(d, again); err != nil {
		t.Errorf("after the end of the agent: %v", err)
	}
	refused("twice, after the end of the agent", again, verbs.ErrRange)
}

// Memory of one device may be registered at another one of the process, and is not freed then either.
func TestFreeWhileRegisteredElsewhere(t *testing.T) {
	_, dir := serve(t, device.Config{})
	_, otherDir := serve(t, device.Config{})
	a, b, c := open(t, dir), open(t, dir), open(t, otherDir)
	memory := testkit.Must1(rdma.Alloc(a, 8192))(t)
	busy := func(what string) {
		t.Helper()
		if err := rdma.Free(a, memory); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("%s: %v", what, err)
		}
	}
	pb, pc := testkit.Must1(b.AllocPD())(t), testkit.Must1(c.AllocPD())(t)
	first := testkit.Must1(pb.RegMR(memory[:100], verbs.AccessLocalWrite))(t)
	testkit.Must1(pc.RegMR(memory[8000:], verbs.AccessLocalWrite))(t)
	busy("registered at two devices")
	if err := first.Deregister(); err != nil {
		t.Fatal(err)
	}
	busy("registered at the device of another agent")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the memory is free", func() bool { return rdma.Free(a, memory) == nil }) // the end of the server's access
}

// Alloc of nothing is an error, and takes no arena.
func TestAllocNothing(t *testing.T) {
	bothDevices(t, func(t *testing.T, d verbs.Device) {
		for _, n := range []int{0, -1} {
			if b, err := rdma.Alloc(d, n); b != nil || !errors.Is(err, verbs.ErrRange) {
				t.Errorf("%d bytes: %v, %v", n, b, err)
			}
		}
	})
}

// A handler uses a message while another goroutine closes connection and device. The message keeps its bytes
// until Release.
func TestMessageAfterClose(t *testing.T) {
	s, dir := serve(t, device.Config{})
	server, dev := open(t, dir), open(t, dir)
	l, err := rdma.Listen(t.Context(), server, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pair := func(text string) (*rdma.Conn, *rdma.Conn, *rdma.Message) {
		t.Helper()
		accepted := make(chan *rdma.Conn, 1)
		go func() {
			c, err := l.Accept(t.Context())
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		a, err := rdma.Dial(t.Context(), dev, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		b := <-accepted
		if b == nil {
			t.FailNow()
		}
		if err := a.Send(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
		m, err := b.RecvMessage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return a, b, m
	}
	_, b, first := pair("the first")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, c, second := pair("another") // whose buffers may be where those of b were
	for m, want := range map[*rdma.Message]string{first: "the first", second: "another"} {
		if got := string(m.Bytes()); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	closeBoth(t, c, server)
	for m, want := range map[*rdma.Message]string{first: "the first", second: "another"} {
		if got := string(m.Bytes()); got != want { // a fault, if the memory was unmapped
			t.Errorf("after the device: %q, want %q", got, want)
		}
	}
	testkit.Eventually(t, "one process is left", func() bool { return len(s.Status().Processes) == 1 })
	arenas := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return countMemfds(string(maps))
	}
	before := arenas()
	for _, m := range []*rdma.Message{first, second} {
		if err := m.Release(); err != nil {
			t.Error(err)
		}
		if err := m.Release(); err == nil {
			t.Error("released twice")
		}
	}
	if after := arenas(); after != before-1 {
		t.Errorf("%d mappings, before Release %d: the buffers were not freed", after, before)
	}
}

func closeBoth(t *testing.T, c *rdma.Conn, d *client.Device) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
