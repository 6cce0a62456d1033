// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
)

// The library has every public name of the libibverbs of this machine up to IBVERBS_1.14, with its version, and every name that the programs and
// libraries here import from it. The loader refuses a program if one is missing.
func TestNames(t *testing.T) {
	require.Command(t, "make", "gcc", "ib_write_bw")
	dir := t.TempDir()
	makeLibrary(t, dir)
	ours := exports(t, filepath.Join(dir, "libibverbs.so.1"))

	public := 0
	for name := range exports(t, installed(t, "libibverbs.so.1")) {
		_, version, _ := strings.Cut(name, "@")
		var minor int
		if n, _ := fmt.Sscanf(version, "IBVERBS_1.%d", &minor); n == 0 || minor > 14 { // those of rdma-core 44
			continue
		}
		public++
		if !ours[name] {
			t.Errorf("the library has no %s", name)
		}
	}
	if public < 75 { // as rdma-core 44
		t.Errorf("the libibverbs of this machine has %d public names, want 75 or more", public)
	}

	for version, names := range later {
		for _, name := range names {
			if full := name + "@IBVERBS_" + version; !ours[full] {
				t.Errorf("the library has no %s", full)
			}
		}
	}

	// The mlx5 and efa libraries are what perftest, UCX and libfabric link.
	for _, name := range []string{"libmlx5.so.1", "libefa.so.1", "librdmacm.so.1"} {
		imports := 0
		for _, s := range imported(t, installed(t, name)) {
			if s.Library != "libibverbs.so.1" {
				continue
			}
			imports++
			if full := s.Name + "@" + s.Version; !ours[full] {
				t.Errorf("%s imports %s, which the library does not have", name, full)
			}
		}
		if imports == 0 {
			t.Errorf("%s imports nothing of libibverbs.so.1: is the file what the test takes it for?", name)
		}
	}
}

// librdmacm.so.1 has the names of the one of this machine, with their versions.
func TestNamesOfConnections(t *testing.T) {
	require.Command(t, "make", "gcc")
	dir := t.TempDir()
	makeLibrary(t, dir)
	ours, names := exports(t, filepath.Join(dir, "librdmacm.so.1")), exports(t, installed(t, "librdmacm.so.1"))
	for name := range names {
		if !ours[name] {
			t.Errorf("the library has no %s", name)
		}
	}
	if len(names) < 68 { // as rdma-core 44
		t.Errorf("the librdmacm of this machine has %d names, want 68 or more", len(names))
	}
}

// Each version of the private names has those of all versions of rdma-core from 34 on: a driver of one imports them with the
// version of its own (libibverbs/libibverbs.map.in).
func TestPrivateNames(t *testing.T) {
	require.Command(t, "make", "gcc")
	dir := t.TempDir()
	makeLibrary(t, dir)
	path := filepath.Join(dir, "libibverbs.so.1")
	ours := definitions(t, path, true)
	names := privateNames
	for name := range exports(t, path) { // those of rdma-core 44
		if name, version, _ := strings.Cut(name, "@"); version == "IBVERBS_PRIVATE_34" && name != "verbs_register_driver_34" {
			names = append(names, name)
		}
	}
	if len(names) < 75+len(privateNames) {
		t.Errorf("%d private names, want more", len(names))
	}
	for _, version := range []string{"34", "57", "59", "64", "65"} {
		for _, name := range append(names, "verbs_register_driver_"+version) {
			if full := name + "@IBVERBS_PRIVATE_" + version; !ours[full] {
				t.Errorf("the library has no %s", full)
			}
		}
	}
}

// privateNames are the private names that rdma-core has had since version 45.
var privateNames = []string{
	"ibv_cmd_alloc_dmah", "ibv_cmd_create_comp_cntr", "ibv_cmd_create_cq_ex2", "ibv_cmd_destroy_comp_cntr", "ibv_cmd_export_dmabuf_fd",
	"ibv_cmd_free_dmah", "ibv_cmd_inc_comp_cntr", "ibv_cmd_inc_err_comp_cntr", "ibv_cmd_qp_attach_comp_cntr", "ibv_cmd_query_comp_cntr_caps",
	"ibv_cmd_query_port_speed", "ibv_cmd_read_comp_cntr", "ibv_cmd_read_err_comp_cntr", "ibv_cmd_reg_mr_ex", "ibv_cmd_set_comp_cntr",
	"ibv_cmd_set_err_comp_cntr", "ibv_dmabuf_heap_alloc", "ibv_dmabuf_heap_cc_shared_init", "ibv_dmabuf_heap_destroy", "ibv_dmabuf_heap_free",
	"ibv_wr_opcode_str",
}

// later are the public names of rdma-core 59 to 65, which this machine may not have (its debian/libibverbs1.symbols).
var later = map[string][]string{
	"1.15": {"ibv_alloc_dmah", "ibv_dealloc_dmah", "ibv_reg_mr_ex"},
	"1.16": {"ibv_dm_export_dmabuf_fd", "ibv_query_port_speed"},
	"1.17": {"ibv_alloc_buf", "ibv_free_buf", "ibv_reg_buf_mr"},
	"1.18": {
		"_ibv_query_comp_cntr_caps", "ibv_create_comp_cntr", "ibv_destroy_comp_cntr", "ibv_export_buf_dmabuf_fd", "ibv_inc_comp_cntr",
		"ibv_inc_err_comp_cntr", "ibv_qp_attach_comp_cntr", "ibv_read_comp_cntr", "ibv_read_err_comp_cntr", "ibv_set_comp_cntr", "ibv_set_err_comp_cntr",
	},
}

// installed is the path of a library of this machine.
func installed(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib"} {
		if found, _ := filepath.Glob(filepath.Join(dir, name)); len(found) > 0 {
			return found[0]
		}
	}
	t.Fatalf("%s is not installed: apt-get install libibverbs1 librdmacm1 ibverbs-providers", name)
	return ""
}

func open(t *testing.T, path string) *elf.File {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func imported(t *testing.T, path string) []elf.ImportedSymbol {
	t.Helper()
	symbols, err := open(t, path).ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	return symbols
}

// exports are the names of a library that programs are linked with, as name@version. Names that only programs linked with
// another version import are hidden, and left out.
func exports(t *testing.T, path string) map[string]bool {
	t.Helper()
	return definitions(t, path, false)
}

func definitions(t *testing.T, path string, hidden bool) map[string]bool {
	t.Helper()
	f := open(t, path)
	versions, err := f.DynamicVersions()
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF || s.Section == elf.SHN_ABS || !s.HasVersion || s.VersionIndex.IsHidden() && !hidden {
			continue
		}
		for _, v := range versions {
			if v.Index == s.VersionIndex.Index() {
				names[s.Name+"@"+v.Name] = true
			}
		}
	}
	return names
}
