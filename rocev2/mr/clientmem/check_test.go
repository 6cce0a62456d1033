// SPDX-License-Identifier: Apache-2.0

package clientmem

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// Memory that cannot be accessed, or may not by the process itself, is refused with its
// reason, whether the kernel answers PROCMAP_QUERY or maps is read as text.
func TestCheck(t *testing.T) {
	const read, write = verbs.AccessRemoteRead, verbs.AccessLocalWrite
	a := startApplication(t)
	for _, c := range []struct {
		kind        string
		read, write error
	}{
		{kind: "plain"},
		{kind: "huge"},
		{kind: "filled"},
		{kind: "fresh", read: ErrNotPresent, write: ErrNotPresent},
		{kind: "read-only", write: verbs.ErrAccess},
		{kind: "shared-read-only", write: verbs.ErrAccess},
		{kind: "write-only", read: verbs.ErrAccess, write: verbs.ErrAccess},
		{kind: "none", read: verbs.ErrAccess, write: verbs.ErrAccess},
		{kind: "gap", read: verbs.ErrRange, write: verbs.ErrRange},
		{kind: "missing", read: ErrNotPresent, write: ErrNotPresent},
		{kind: "write-protected", write: verbs.ErrAccess},
		{kind: "file", read: ErrNotPresent, write: ErrNotPresent},
	} {
		addr := a.mapped(c.kind, 3)
		for _, text := range []bool{false, true} {
			a.textOnly = text
			for access, want := range map[verbs.Access]error{read: c.read, write: c.write, write | verbs.AccessRemoteAtomic: c.write} {
				err := a.Check(addr+1, uint64(3*processPage)-2, access)
				if !errors.Is(err, want) {
					t.Errorf("%s, access %#x, text %v: %v; want %v", c.kind, access, text, err, want)
				}
				if err != nil && !strings.Contains(err.Error(), "regist") && !strings.Contains(err.Error(), "populate") {
					t.Errorf("%s: the error does not say what to do: %v", c.kind, err)
				}
			}
		}
	}
}

// Memory that is there, but that the kernel does not access for another process, is refused.
func TestCheckSecret(t *testing.T) {
	a := startApplication(t)
	reply, ok := a.try("map secret 2")
	if !ok {
		require.Skip(t, "needs memfd_secret: "+reply)
	}
	var addr uint64
	if _, err := fmt.Sscan(reply, &addr); err != nil {
		t.Fatal(err)
	}
	if err := a.Check(addr, 64, 0); !errors.Is(err, ErrUnmapped) || !strings.Contains(err.Error(), "register ordinary memory") {
		t.Error(err)
	}
}

// Memory of the kernel and of the stack, and addresses that are none.
func TestCheckPlaces(t *testing.T) {
	a := startApplication(t)
	stack, vvar := a.address("where [stack]"), a.address("where [vvar]")
	if err := a.Check(stack, 64, everything); err != nil {
		t.Error("stack:", err)
	}
	if err := a.Check(vvar, 64, verbs.AccessRemoteRead); !errors.Is(err, ErrNotPresent) {
		t.Errorf("memory of the kernel (VM_PFNMAP): %v", err)
	}
	plain := a.mapped("plain", 2)
	end := plain + uint64(2*processPage)
	for _, c := range []struct {
		addr, n uint64
		want    error
	}{
		{plain, 0, verbs.ErrRange}, {0, 1, verbs.ErrRange}, {plain, 1 << 60, verbs.ErrRange}, {^uint64(0), 1, verbs.ErrRange},
		{^uint64(0), 2, verbs.ErrRange}, {1 << 63, 4096, verbs.ErrRange}, {1<<47 - 1, 1, verbs.ErrRange}, {1 << 56, 1, verbs.ErrRange},
		{plain, -plain, verbs.ErrRange}, {plain, 1 - plain, verbs.ErrRange},
		{plain, 1 << 46, nil}, {end - 1, 1, nil},
	} {
		for _, text := range []bool{false, true} {
			a.textOnly = text
			err := a.Check(c.addr, c.n, 0)
			if c.want != nil && !errors.Is(err, c.want) || c.n == 1<<46 && err == nil || c.n == 1 && c.want == nil && err != nil {
				t.Errorf("%d bytes at %#x, text %v: %v", c.n, c.addr, text, err)
			}
		}
	}
}

// The process may end between the parts of a check.
func TestCheckEnds(t *testing.T) {
	a, b := startApplication(t), startApplication(t)
	addr := a.mapped("plain", 2)
	b.kill()
	for what, p := range map[string]*Process{
		"before the mappings": {mem: a.mem, maps: b.maps, pagemap: a.pagemap},
		"as text":             {mem: a.mem, maps: b.maps, pagemap: a.pagemap, textOnly: true},
		"before the pages":    {mem: a.mem, maps: a.maps, pagemap: b.pagemap},
		"before the access":   {mem: b.mem, maps: a.maps, pagemap: a.pagemap},
	} {
		if err := p.Check(addr, 8, 0); !errors.Is(err, ErrEnded) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Populate provides what a registration needs. The handler of a userfaultfd fills its pages.
func TestPopulate(t *testing.T) {
	a := startApplication(t)
	for _, kind := range []string{"fresh", "handled", "handled in user mode", "file"} {
		for _, write := range []bool{true, false} {
			addr := a.mapped(strings.ReplaceAll(kind, " ", "-"), 5)
			n := uint64(5*processPage) - 20
			if err := a.Check(addr+10, n, verbs.AccessLocalWrite); !errors.Is(err, ErrNotPresent) {
				t.Errorf("%s before: %v", kind, err)
			}
			a.do("populate %d %d %v", addr+10, n, write)
			if err := a.Check(addr+10, n, verbs.AccessLocalWrite); err != nil {
				t.Errorf("%s after: %v", kind, err)
			}
			if err := a.WriteAt(pattern(int(n)), addr+10); err != nil || !bytes.Equal(a.sees(addr+10, int(n)), pattern(int(n))) {
				t.Errorf("%s: write: %v", kind, err)
			}
			got := make([]byte, 1)
			if err := a.ReadAt(got, addr); err != nil || strings.HasPrefix(kind, "handled") && got[0] != 0x5A {
				t.Errorf("%s: %#x, %v", kind, got, err)
			}
		}
	}
	addr := a.mapped("fresh", 3) // across the end of a page
	a.do("populate %d 20 true", addr+uint64(processPage)-10)
	if err := a.Check(addr, uint64(2*processPage), verbs.AccessLocalWrite); err != nil {
		t.Error(err)
	}
	if err := a.Check(addr, uint64(3*processPage), verbs.AccessLocalWrite); !errors.Is(err, ErrNotPresent) {
		t.Errorf("more than was asked for: %v", err)
	}
	addr = a.mapped("file", 3)
	a.do("truncate")
	for _, write := range []bool{false, true} {
		if reply, ok := a.try("populate %d 1 %v", addr, write); ok || !strings.Contains(reply, "register memory that is mapped") {
			t.Errorf("beyond the end of a file: %q", reply)
		}
	}
	for _, kind := range []string{"read-only", "none", "gap"} {
		if reply, ok := a.try("populate %d %d true", a.mapped(kind, 3), 3*processPage); ok || !strings.Contains(reply, "register memory that is mapped and writable") {
			t.Errorf("%s: %q", kind, reply)
		}
	}
	for _, r := range [][2]uint64{{4096, 0}, {1, 1 << 63}, {^uint64(0) - 10, 20}} {
		if Populate(r[0], r[1], false) == nil {
			t.Errorf("%d bytes at %#x", r[1], r[0])
		}
	}
}

// Accesses to memory that Check refuses fail: the descriptor delivers no fault to a handler,
// and does not write a shared read-only mapping of a file. It does write read-only private
// memory, unless the kernel forbids it (proc_mem.force_override).
func TestWhatTheDescriptorDoes(t *testing.T) {
	a := startApplication(t)
	for kind, want := range map[string]error{
		"missing": ErrUnmapped, "shared-read-only": ErrUnmapped, "write-protected": ErrUnmapped, "handled": ErrUnmapped,
	} {
		if err := a.WriteAt([]byte{7}, a.mapped(kind, 1)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", kind, err, want)
		}
	}
}

// A line of maps is parsed whatever its path is; what is no line is refused.
func FuzzParseMapping(f *testing.F) {
	f.Add([]byte("7f0000000000-7f0000001000 rw-s 00002000 fd:01 42                         /tmp/a b (deleted)"))
	f.Add([]byte("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]"))
	f.Add([]byte("1-2 r"))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parseMapping(line)
		if err != nil && !strings.Contains(err.Error(), "a line of maps that is none") {
			t.Error(err)
		}
		_ = m.allows(true)
	})
	m, err := parseMapping([]byte("7f0000000000-7f0000001000 rw-s 00002000 fd:01 42   /x"))
	if want := (mapping{start: 0x7f0000000000, end: 0x7f0000001000, read: true, write: true, device: 0xfd<<20 + 1}); m != want || err != nil {
		f.Errorf("%+v, %v", m, err)
	}
}

// Text longer than a buffer is read as a whole, and what has no lines comes to an end.
func TestMappingsText(t *testing.T) {
	name := t.TempDir() + "/maps"
	read := func(text string, addr, end uint64) (n int, err error) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		p := &Process{maps: int(f.Fd()), textOnly: true}
		next := addr
		err = p.mappings(addr, end, func(m mapping) bool {
			if m.start != next || m.end != next+0x1000 {
				t.Fatalf("%+v, want one at %#x", m, next)
			}
			n, next = n+1, m.end
			return true
		})
		return n, err
	}
	var text strings.Builder
	const lines = 5000
	for i := range uint64(lines) {
		fmt.Fprintf(&text, "%x-%x rw-p 00000000 00:00 0    %s\n", i<<12, (i+1)<<12, strings.Repeat("x", int(i%50)))
	}
	if n, err := read(text.String(), 0x1000, 1<<40); n != lines-1 || err != nil {
		t.Errorf("%d mappings, %v", n, err)
	}
	if n, err := read(text.String(), 0x2000, 0x5000); n != 3 || err != nil {
		t.Errorf("%d mappings, %v", n, err)
	}
	if _, err := read(strings.Repeat("x", 1<<20), 0, 1<<40); err == nil || !strings.Contains(err.Error(), "a line of more than") {
		t.Errorf("no lines: %v", err)
	}
	if _, err := read("x\n", 0, 1<<40); err == nil {
		t.Error("a line that is none")
	}
	if _, err := read("", 0, 1<<40); !errors.Is(err, ErrEnded) {
		t.Errorf("nothing: %v", err)
	}
}

// Both ways of reading the mappings give the same.
func TestMappingsAgree(t *testing.T) {
	a := startApplication(t)
	gap := a.mapped("gap", 3)
	var both [2][]mapping
	for i := range both {
		a.textOnly = i == 1
		if err := a.mappings(0, 1<<47, func(m mapping) bool { both[i] = append(both[i], m); return true }); err != nil {
			t.Fatal(err)
		}
	}
	if len(both[0]) < 20 || len(both[0]) != len(both[1]) {
		t.Fatalf("%d by query, %d by text", len(both[0]), len(both[1]))
	}
	for _, text := range []bool{false, true} {
		a.textOnly = text
		n := 0
		if err := a.mappings(gap, gap+uint64(2*processPage), func(m mapping) bool { n++; return true }); n != 1 || err != nil {
			t.Errorf("text %v: %d mappings before a gap, %v", text, n, err)
		}
	}
	for i, m := range both[0] {
		if m != both[1][i] {
			t.Errorf("query %+v, text %+v", m, both[1][i])
		}
	}
}
