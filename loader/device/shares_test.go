// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/loader/device/limits"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

// memfdsOf counts the descriptors and the mappings of memfds that a process has for clients.
func memfdsOf(t *testing.T, pid int) (descriptors, mappings int) {
	t.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range names {
		if to, _ := os.Readlink(f); strings.HasPrefix(to, "/memfd:softroce-") {
			descriptors++
		}
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	return descriptors, countMemfds(string(maps))
}

// A thousand rings and a hundred arenas of a process take few mappings and descriptors of the server, of which
// the kernel allows 65530 mappings by default.
func TestMappingsOfServer(t *testing.T) {
	dir := testkit.SocketDir(t)
	p := start(t, "server", dir)
	p.line("serves")
	d, err := client.Open(t.Context(), "lo", client.Config{RunDir: dir, ArenaBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	fds, maps := memfdsOf(t, p.cmd.Process.Pid)
	const rings, arenas = 1000, 100
	var first verbs.CQ
	for i := range rings {
		cq, err := d.CreateCQ(1)
		if err != nil {
			t.Fatal(i, err)
		}
		if first == nil {
			first = cq
		}
	}
	// The server closes the descriptor that it has passed after the reply.
	var fdsWithRings, mapsWithRings int
	testkit.Eventually(t, "few descriptors and mappings", func() error {
		fdsWithRings, mapsWithRings = memfdsOf(t, p.cmd.Process.Pid)
		if fdsWithRings-fds > 1 || mapsWithRings-maps > 1 {
			return fmt.Errorf("%d completion queues: %d more descriptors and %d more mappings, want at most one each", rings, fdsWithRings-fds, mapsWithRings-maps)
		}
		return nil
	})
	for range arenas {
		if _, err := d.Alloc(4096); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "no more descriptors", func() error {
		fdsWithArenas, mapsWithArenas := memfdsOf(t, p.cmd.Process.Pid)
		if fdsWithArenas-fds > 1 || mapsWithArenas-mapsWithRings != arenas {
			return fmt.Errorf("%d arenas: %d more descriptors, want none, and %d mappings", arenas, fdsWithArenas-fdsWithRings, mapsWithArenas-mapsWithRings)
		}
		return nil
	})
	if err := first.Destroy(); err != nil {
		t.Error(err)
	}
}

// A ring that is larger than a file of rings has a file of its own, which counts and ends with it.
func TestLargeRing(t *testing.T) {
	s, dir := serve(t, device.Config{})
	d := open(t, dir)
	before := s.Status().Processes[0]
	if before.Mappings < 1 || before.Descriptors < 9 { // as usesOfProcess
		t.Errorf("a process that has connected and nothing else: %+v", before)
	}
	for range 2 {
		cq, err := d.CreateCQ(1 << 19)
		if err != nil {
			t.Fatal(err)
		}
		if now := s.Status().Processes[0]; now.Mappings != before.Mappings+1 || now.Descriptors != before.Descriptors+1 {
			t.Errorf("with a large ring: %+v, before: %+v", now, before)
		}
		if err := cq.Destroy(); err != nil {
			t.Fatal(err)
		}
		if now := s.Status().Processes[0]; now != before {
			t.Errorf("afterwards: %+v, before: %+v", now, before)
		}
	}
}

// A ring begins with zeros where another one was before it.
func TestMemoryOfRingIsCleared(t *testing.T) {
	_, dir := serve(t, device.Config{})
	r := dial(t, dir).hello()
	offsets := map[uint32]int{}
	var before []byte
	for range 3 {
		var m proto.CreateCQReply
		fds, err := r.call(proto.TCreateCQ, &proto.CreateCQ{Depth: 256}, &m)
		if err != nil {
			t.Fatal(err)
		}
		b := r.mappedAt(fds[0], m.Offset, 4096)
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("byte %d of a new ring is %d", i, b[i])
			}
			b[i] = 0xff
		}
		before = b
		offsets[m.Offset]++
		if _, err := r.call(proto.TDestroyCQ, &proto.Handle{Handle: m.Handle}, nil); err != nil {
			t.Fatal(err)
		}
		if before[0] != 0xff { // a process that polls it would see completions
			t.Error("the memory of a ring was cleared while the process has it mapped")
		}
	}
	if len(offsets) != 1 {
		t.Errorf("the memory was not used again: %v", offsets)
	}
}

// All processes together are refused more mappings and descriptors than their share, with what to raise in the
// error. The server and the processes that it has go on, and what a process had is free when it has ended.
func TestSharesOfKernel(t *testing.T) {
	for kind, use := range map[limits.Kind]func(*client.Device) error{
		limits.Mappings:    func(d *client.Device) error { _, err := d.Alloc(1 << 20); return err },
		limits.Descriptors: func(d *client.Device) error { _, err := d.CreateCQ(1 << 19); return err }, // a file of its own
	} {
		t.Run(kind.String(), func(t *testing.T) {
			l := limits.Defaults()
			l.Process[limits.CQEntries], l.User[limits.CQEntries] = 1<<30, 1<<30
			l.All[kind] = limits.Share{Max: 60, Remedy: "the sysctl of the test"}
			s, dir := serve(t, device.Config{Limits: &l})
			var all []*client.Device
			for i := 0; ; i++ {
				if i == 100 {
					t.Fatal("nothing was refused")
				}
				d := open(t, dir)
				all = append(all, d)
				var err error
				for range 25 {
					if err = use(d); err != nil {
						break
					}
				}
				if err == nil {
					continue
				}
				if !errors.Is(err, proto.ErrLimit) || !strings.Contains(err.Error(), "the sysctl of the test") {
					t.Errorf("refused with %v", err)
				}
				break
			}
			if _, err := all[0].CreateCQ(1); err != nil { // it has a file of rings already
				t.Errorf("a process that was there before: %v", err)
			}
			for _, d := range all[1:] {
				d.Close()
			}
			testkit.Eventually(t, "one process is left", func() bool { return len(s.Status().Processes) == 1 })
			if err := use(open(t, dir)); err != nil {
				t.Errorf("after the end of the others: %v", err)
			}
		})
	}
}

// So are processes beyond the share.
func TestShareOfProcesses(t *testing.T) {
	l := limits.Defaults()
	l.All[limits.Processes] = limits.Share{Max: 2, Remedy: "TasksMax"}
	_, dir := serve(t, device.Config{Limits: &l})
	for n := 0; ; n++ {
		d, err := client.Open(t.Context(), "lo", client.Config{RunDir: dir})
		if err == nil {
			defer d.Close()
			if n == 3 { // root has one more
				t.Fatal("nothing was refused")
			}
			continue
		}
		if n < 2 || !errors.Is(err, proto.ErrLimit) || !strings.Contains(err.Error(), "TasksMax") {
			t.Errorf("after %d: %v", n, err)
		}
		return
	}
}
