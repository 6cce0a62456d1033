// SPDX-License-Identifier: Apache-2.0

package hwoffload_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
)

// barFile makes a sparse file with the identification of a card. A file has no access rules
// and no windows.
func barFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "resource0")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := card.New()
	ident := make([]byte, regs.IdentStride)
	for at := 0; at < len(ident); at += 4 {
		binary.LittleEndian.PutUint32(ident[at:], m.R32(uint64(at)))
	}
	if _, err := f.Write(ident); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(hwoffload.BARSize); err != nil {
		t.Fatal(err)
	}
	return path
}

func openBAR(t testing.TB, path string) hwoffload.Device {
	t.Helper()
	d, err := hwoffload.OpenBAR(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestBAR(t *testing.T) {
	path := barFile(t)
	d := openBAR(t, path)
	c, err := hwoffload.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	c.W64(regs.IdentBuildIdOffset, 0x1817161514131211) // behind scratch; a file lets a driver write it
	c.W32(regs.IdentScratchOffset, 0x11223344)
	e := regs.DestOf(c, 1023)
	e.SetTxNs(-5)
	end := c.Size() - 8
	c.W64(end, 0x0102030405060708)
	if v := c.R32(regs.IdentScratchOffset); v != 0x11223344 || e.TxNs() != -5 || c.R64(end) != 0x0102030405060708 || c.R32(end) != 0x05060708 || c.Err() != nil {
		t.Errorf("scratch %#x, tx_ns %d, end %#x, error %v", v, e.TxNs(), c.R64(end), c.Err())
	}
	// Little-endian, at its address, and no byte next to it.
	var around [16]byte
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.ReadAt(around[:], regs.IdentScratchOffset-4); err != nil {
		t.Fatal(err)
	}
	caps := byte(regs.IdentOf(c).Capabilities()) // in front of scratch
	if want := [16]byte{caps, 0, 0, 0, 0x44, 0x33, 0x22, 0x11, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18}; around != want {
		t.Errorf("bytes % x, want % x", around, want)
	}
}

func TestBARFaults(t *testing.T) {
	path := barFile(t)
	for name, access := range map[string]func(d hwoffload.Device){
		"misaligned": func(d hwoffload.Device) { d.W64(12, 1) },
		"beyond":     func(d hwoffload.Device) { d.R32(d.Size()) },
		"closed":     func(d hwoffload.Device) { d.Close(); d.W32(regs.IdentScratchOffset, 1) },
	} {
		d := openBAR(t, path)
		access(d)
		if d.Err() == nil || d.R32(0) != 0xffffffff || d.R64(0) != ^uint64(0) {
			t.Errorf("%s: error %v", name, d.Err())
		}
		d.Close()
	}
	d := openBAR(t, path)
	d.Close()
	if d.R32(0); !errors.Is(d.Err(), os.ErrClosed) || d.Close() != nil {
		t.Errorf("after Close: %v", d.Err())
	}
}

func TestBARRefuses(t *testing.T) {
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	used := barFile(t)
	openBAR(t, used)
	for path, want := range map[string]string{
		short:                        "short: the BAR has 4096 bytes, a softroce card has 536870912: name the resource file of the card's BAR",
		t.TempDir() + "/none":        "no such file or directory",
		"/dev/null":                  "/dev/null: is no file: name the resource file of a BAR",
		used:                         "another process uses the card: end it first",
		filepath.Dir(used) + "/../.": "is a directory",
	} {
		if _, err := hwoffload.OpenBAR(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", path, err, want)
		}
	}
}
