// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/google/go-cmp/cmp"
)

func TestPickMirror(t *testing.T) {
	for _, tc := range []struct{ name, lines, want string }{
		{"the archive, not security", "http://m/sec/|Debian|Debian-Security|main\nhttp://m/debian/|Debian|Debian|main\n", "http://m/debian/"},
		{"not another vendor's", "http://v/debian/|Vendor|Vendor|main\nhttp://m/d/|Debian|Debian|main\n", "http://m/d/"},
		{"main only", "http://m/d/|Debian|Debian|contrib\n", ""},
		{"before the first update", "http://m/debian-security/|$(ORIGIN)|$(LABEL)|main\nhttp://m/debian/|$(ORIGIN)|$(LABEL)|main\n", "http://m/debian/"},
		{"another distribution", "http://u/ubuntu/|Ubuntu|Ubuntu|main\n", ""},
		{"nothing", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := pickMirror(tc.lines); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNetworkSettings(t *testing.T) {
	const dump = `Acquire "";
Acquire::cdrom::mount "/media/cdrom/";
Acquire::http "";
Acquire::http::Proxy "http://proxy:3128";
Acquire::https::CaInfo "/etc/ca.pem";
Acquire::Languages "de";
`
	const want = `Acquire::http::Proxy "http://proxy:3128";
Acquire::https::CaInfo "/etc/ca.pem";
`
	if got := networkSettings(dump); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestModuleFiles(t *testing.T) {
	const dep = "kernel/a/rdma_rxe.ko.xz: kernel/b/ib-core.ko.xz kernel/c/udp_tunnel.ko.xz\n" +
		"kernel/b/ib-core.ko.xz:\nkernel/c/udp_tunnel.ko.xz:\nkernel/d/unwanted.ko.xz:\n"
	const builtin = "kernel/e/virtio_pci.ko\n"
	got, err := moduleFiles(strings.NewReader(dep), builtin, []string{"ib_core", "rdma-rxe", "virtio_pci"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"kernel/b/ib-core.ko.xz", "kernel/a/rdma_rxe.ko.xz", "kernel/c/udp_tunnel.ko.xz"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := moduleFiles(strings.NewReader(dep), builtin, []string{"sch_fq"}); err == nil || !strings.Contains(err.Error(), "sch_fq") {
		t.Errorf("a module that does not exist: error %v", err)
	}
}

// TestInitrd reads back what the kernel would unpack: paths, types, modes, contents.
func TestInitrd(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	if err := mergeUsr(root); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"usr/bin/tool": 0o750, "usr/bin/data": 0o600} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	var tree, files bytes.Buffer
	if err := writeTree(&tree, root); err != nil {
		t.Fatal(err)
	}
	if err := writeProgram(&files, "init", []byte("program")); err != nil {
		t.Fatal(err)
	}
	want := []entry{
		{"bin", "120777", "usr/bin"}, {"lib", "120777", "usr/lib"}, {"lib64", "120777", "usr/lib64"},
		{"sbin", "120777", "usr/sbin"}, {"usr", "40755", ""}, {"usr/bin", "40755", ""},
		{"usr/bin/data", "100644", "usr/bin/data"}, {"usr/bin/tool", "100755", "usr/bin/tool"},
		{"usr/lib", "40755", ""}, {"usr/lib64", "40755", ""}, {"usr/sbin", "40755", ""},
	}
	if d := cmp.Diff(want, entries(t, &tree)); d != "" {
		t.Error("tree:", d)
	}
	want = []entry{{"init", "100755", "program"}}
	if d := cmp.Diff(want, entries(t, &files)); d != "" {
		t.Error("files:", d)
	}
}

type entry struct{ Name, Mode, Body string }

func entries(t *testing.T, r io.Reader) []entry {
	t.Helper()
	var all []entry
	for cr := cpio.NewReader(r); ; {
		h, err := cr.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(cr)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entry{h.Name, strings.TrimPrefix(h.Mode.String(), "0"), string(body) + h.Linkname})
	}
}
