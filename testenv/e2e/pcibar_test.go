// SPDX-License-Identifier: Apache-2.0

package e2e

// This file has the test of hwoffload.OpenBAR on PCI devices of a virtual machine. The
// memory of a BAR is a file of this host, so that the test sees what a store leaves, and
// writes what a load returns. A second device has no memory: the emulator logs each access to
// it, with address and width. No device reacts to accesses as a card does.
//
// Command pcibarguest makes the accesses in the machine.

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/hwoffload"
	"github.com/softroce/softroce-xdp/hwoffload/card"
	"github.com/softroce/softroce-xdp/hwoffload/regs"
	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

const (
	memorySlot = 0x10 + iota // BAR of a card's size with memory
	shortSlot                // BAR of 1 MB with memory
	trapSlot                 // BAR of a card's size without memory
)

const end = hwoffload.BARSize

// machine is a virtual machine with the three devices.
type machine struct {
	ctx     context.Context
	vm      *rxepeer.VM
	mem     *os.File // memory of memorySlot
	log     string   // the emulator's log
	trapBAR uint64   // physical address of the BAR of trapSlot
}

func TestBAR(t *testing.T) {
	m := boot(t)
	t.Run("memory", m.testMemory)
	t.Run("width", m.testWidth)
	t.Run("card", m.testCard)
	t.Run("short", m.testShort)
	t.Run("decoding off", m.testDecodingOff) // last: it disables the device
}

func boot(t *testing.T) *machine {
	if testing.Short() {
		t.Skip("boots a machine")
	}
	if err := rxepeer.CheckHost(); err != nil {
		require.Skip(t, err.Error())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	t.Cleanup(cancel)
	dir := t.TempDir()
	m := &machine{ctx: ctx, log: filepath.Join(dir, "qemu.log")}
	guest := filepath.Join(dir, "guest")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", guest, "./pcibarguest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m.mem = sparse(t, filepath.Join(dir, "memory"), end)
	short := sparse(t, filepath.Join(dir, "short"), 1<<20)
	var err error
	m.vm, err = rxepeer.Boot(ctx, rxepeer.Config{Name: "card", NoRxe: true, Files: map[string]string{"/usr/bin/guest": guest}, Qemu: []string{
		"-object", fmt.Sprintf("memory-backend-file,id=memory,size=%d,share=on,mem-path=%s", end, m.mem.Name()),
		"-device", fmt.Sprintf("ivshmem-plain,memdev=memory,addr=%#x", memorySlot),
		"-object", "memory-backend-file,id=short,size=1M,share=on,mem-path=" + short.Name(),
		"-device", fmt.Sprintf("ivshmem-plain,memdev=short,addr=%#x", shortSlot),
		"-device", fmt.Sprintf("pci-testdev,membar=%d,addr=%#x", end, trapSlot),
		"-d", "invalid_mem", "-D", m.log,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.vm.Close() })
	t.Log(m.vm.Describe())
	for _, slot := range []int{memorySlot, shortSlot, trapSlot} {
		if err := m.vm.Put(ctx, sysfs(slot, "enable"), []byte("1"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	resources, err := m.vm.Get(ctx, sysfs(trapSlot, "resource"))
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Split(string(resources), "\n")[2]
	if _, err := fmt.Sscanf(line, "0x%x", &m.trapBAR); err != nil || m.trapBAR == 0 {
		t.Fatalf("BAR 2 of the device without memory is %q", line)
	}
	return m
}

// sparse makes a file without blocks.
func sparse(t *testing.T, path string, size int64) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

func sysfs(slot int, file string) string {
	return fmt.Sprintf("/sys/bus/pci/devices/0000:00:%02x.0/%s", slot, file)
}

// guest executes steps in the machine. It returns a line for each, or the error of the command.
func (m *machine) guest(t *testing.T, slot int, steps ...string) ([]string, error) {
	t.Helper()
	res, err := m.vm.Run(m.ctx, append([]string{"guest", sysfs(slot, "resource2")}, steps...)...)
	if _, exit := rxepeer.IsExit(err); err != nil && !exit {
		t.Fatal(err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s", strings.TrimSpace(res.Stderr))
	}
	return strings.Split(strings.TrimSpace(res.Stdout), "\n"), nil
}

// A store leaves its bytes at its address and changes none next to them, and a load returns
// what the file has, at both ends and in the middle.
func (m *machine) testMemory(t *testing.T) {
	const pattern = 0x0807060504030201
	for _, addr := range []int64{0, 4, 8, regs.DestBase, regs.DdrWindowBaseReset, end - 8, end - 4} {
		for _, width := range []int64{4, 8} {
			if addr%width != 0 {
				continue
			}
			var value [8]byte
			binary.LittleEndian.PutUint64(value[:], pattern)
			start := max(addr-8, 0)
			want := slices.Repeat([]byte{0xee}, int(min(addr+16, end)-start))
			m.writeFile(t, want, start)
			read := fmt.Sprintf("r%d:%d", width*8, addr)
			got, err := m.guest(t, memorySlot, read, fmt.Sprintf("w%d:%d:%#x", width*8, addr, pattern&(^uint64(0)>>(64-8*width))), read)
			copy(want[addr-start:], value[:width])
			lines := []string{"0x" + strings.Repeat("ee", int(width)), "done", fmt.Sprintf("%#x", uint64(pattern)&(^uint64(0)>>(64-8*width)))}
			if err != nil || !slices.Equal(got, lines) {
				t.Errorf("%d bytes at %#x: %v, %v, want %v", width, addr, got, err, lines)
			}
			have := make([]byte, len(want))
			if _, err := m.mem.ReadAt(have, start); err != nil || !slices.Equal(have, want) {
				t.Errorf("%d bytes at %#x: the memory is\n% x, want\n% x (%v)", width, addr, have, want, err)
			}
			m.writeFile(t, make([]byte, len(want)), start)
		}
	}
	if got, err := m.guest(t, memorySlot, "again"); err != nil || !strings.HasSuffix(got[0], "another process uses the card: end it first") {
		t.Errorf("opened twice: %q, %v", got, err)
	}
}

func (m *machine) writeFile(t *testing.T, p []byte, at int64) {
	t.Helper()
	if _, err := m.mem.WriteAt(p, at); err != nil {
		t.Fatal(err)
	}
}

// The device without memory sees exactly one access for each call, of its width and at its
// address.
func (m *machine) testWidth(t *testing.T) {
	for _, step := range []struct{ do, want string }{
		{"r32:0", "read at 0x0, size 4"},
		{"w32:0:1", "write at 0x0, size 4"},
		{"r64:0", "read at 0x0, size 8"},
		{"w64:0:1", "write at 0x0, size 8"},
		{"r32:4", "read at 0x4, size 4"},
		{"w32:0x1ffffffc:0xffffffff", "write at 0x1ffffffc, size 4"},
		{"r32:0x1ffffffc", "read at 0x1ffffffc, size 4"},
		{"w64:0x1ffffff8:0", "write at 0x1ffffff8, size 8"},
		{"r64:0x1ffffff8", "read at 0x1ffffff8, size 8"},
	} {
		before := len(m.accesses(t))
		if _, err := m.guest(t, trapSlot, step.do); err != nil {
			t.Errorf("%s: %v", step.do, err)
		}
		if got := m.accesses(t)[before:]; !slices.Equal(got, []string{step.want}) {
			t.Errorf("%s: the device sees %q, want %s", step.do, got, step.want)
		}
	}
	before := len(m.accesses(t))
	for _, step := range []string{"r64:4", "w64:0x1ffffffc:1", "w32:2:1", "r32:0x20000000"} {
		if _, err := m.guest(t, trapSlot, step); err == nil {
			t.Errorf("%s is no error", step)
		}
	}
	if got := m.accesses(t)[before:]; len(got) != 0 {
		t.Errorf("the device sees accesses that are not possible: %q", got)
	}
}

var access = regexp.MustCompile(`(?m)^Invalid (read|write) at addr 0x([0-9A-F]+), size (\d+)`)

// accesses are all accesses to the device without memory, as the emulator has logged them.
func (m *machine) accesses(t *testing.T) (all []string) {
	t.Helper()
	log, err := os.ReadFile(m.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range access.FindAllStringSubmatch(string(log), -1) {
		var addr uint64
		if _, err := fmt.Sscanf(a[2], "%X", &addr); err != nil {
			t.Fatal(err)
		}
		if addr >= m.trapBAR && addr < m.trapBAR+end {
			all = append(all, fmt.Sprintf("%s at %#x, size %s", a[1], addr-m.trapBAR, a[3]))
		}
	}
	return all
}

// The driver finds the blocks of a card whose identification is in the memory.
func (m *machine) testCard(t *testing.T) {
	ident := make([]byte, regs.IdentStride)
	model := card.New()
	for at := 0; at < len(ident); at += 4 {
		binary.LittleEndian.PutUint32(ident[at:], model.R32(uint64(at)))
	}
	m.writeFile(t, ident, 0)
	want := fmt.Sprintf("%d blocks", len(regs.Blocks))
	if got, err := m.guest(t, memorySlot, "card"); err != nil || got[0] != want {
		t.Errorf("%q, %v, want %s", got, err, want)
	}
	m.writeFile(t, slices.Repeat([]byte{0xff}, 4), 0)
	if _, err := m.guest(t, memorySlot, "card"); err == nil || !strings.Contains(err.Error(), "the device does not answer (it reads 0xffffffff at address 0)") {
		t.Errorf("a device that reads all ones: %v", err)
	}
	m.writeFile(t, ident, 0)
}

func (m *machine) testShort(t *testing.T) {
	const want = "resource2: the BAR has 1048576 bytes, a softroce card has 536870912: name the resource file of the card's BAR"
	if _, err := m.guest(t, shortSlot, "r32:0"); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

// Without memory decoding nothing answers, and Open says so. The emulator reads 0 there, a PCI
// bus all ones.
func (m *machine) testDecodingOff(t *testing.T) {
	off := "printf '\\0\\0' | dd of=" + sysfs(memorySlot, "config") + " bs=1 seek=4 count=2 conv=notrunc"
	if res, err := m.vm.Run(m.ctx, "sh", "-c", off); err != nil {
		t.Fatalf("%v\n%s", err, res.Stderr)
	}
	const want = "the device does not answer (it reads 0x0 at address 0): is memory access enabled in its PCI command register?"
	if _, err := m.guest(t, memorySlot, "card"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}
