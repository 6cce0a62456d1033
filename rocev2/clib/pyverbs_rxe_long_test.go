// SPDX-License-Identifier: Apache-2.0

//go:build long

package clib

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

// TestPyverbsOnRxe runs all modules on kernel rxe and on the device. The table of the page is what came out; UPDATE=1 writes it.
// Of what passes on rxe, at least 95 % passes on the device.
func TestPyverbsOnRxe(t *testing.T) {
	requireCommands(t)
	ours := newPyverbsLab(t)
	rxe := newPyverbsMachine(t, ours.dir)
	var table strings.Builder
	table.WriteString("| module | passed on rxe | failed | skipped | passed on both | not here |\n|---|---|---|---|---|---|\n")
	onRxe, failed, skipped, both := 0, 0, 0, 0
	for _, module := range pyverbsModules {
		there := rxe.run(t, module)[module]
		if there == nil {
			t.Errorf("no test of %s ran on rxe", module)
			continue
		}
		passes := ours.run(t, module)[module].passed
		var missing []string
		for _, test := range there.passed {
			if !slices.Contains(passes, test) {
				missing = append(missing, "`"+test+"`")
			}
		}
		n := len(there.passed) - len(missing)
		fmt.Fprintf(&table, "| `%s` | %d | %d | %d | %d | %s |\n", module, len(there.passed), there.failed, there.skipped, n, strings.Join(missing, ", "))
		onRxe, failed, skipped, both = onRxe+len(there.passed), failed+there.failed, skipped+there.skipped, both+n
	}
	fmt.Fprintf(&table, "| all | %d | %d | %d | %d |  |\n", onRxe, failed, skipped, both)
	if 100*both < 95*onRxe {
		t.Errorf("%d of %d tests that pass on rxe pass here, want 95 %%", both, onRxe)
	}
	script.CheckDoc(t, commandsPage, map[string]string{"pyverbs on rxe": table.String()})
}

// newPyverbsMachine is rxe in a machine whose programs see the file system of this host: Python, pyverbs and libibverbs are those
// that run with our device. dir has the tests.
func newPyverbsMachine(t *testing.T, dir string) *pyverbsLab {
	t.Helper()
	const address = "10.53.1.2"
	n := newNet(t, commandMTU)
	ctx, cancel := context.WithTimeout(t.Context(), rxepeer.BootTimeout)
	defer cancel()
	vm := boot(ctx, t, rxepeer.Config{
		Name: "pyverbs", MemoryMB: 1024,
		NICs: []rxepeer.NIC{{Net: n, MTU: commandMTU, Addrs: []netip.Prefix{netip.MustParsePrefix(address + "/24")}}},
		Qemu: []string{
			"-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
			"-device", "virtio-9p-pci,fsdev=host,mount_tag=host,addr=0x10",
		},
	})
	for _, line := range []string{
		"modprobe 9pnet_virtio", "mkdir /host", "mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /host",
		"mount -o bind /dev /host/dev", "mount -o bind /sys /host/sys", "mount -t proc proc /host/proc", "mount -t tmpfs tmpfs /host/run",
	} {
		if _, err := vm.Run(ctx, strings.Fields(line)...); err != nil {
			t.Fatal(err)
		}
	}
	gid, err := vm.GIDIndex(ctx, "rxe0", netip.MustParseAddr(address))
	if err != nil {
		t.Fatal(err)
	}
	h := &commandHost{device: "rxe0", gid: strconv.Itoa(gid)}
	h.start = func(ctx context.Context, argv []string) (process, error) {
		p, err := vm.StartCmd(ctx, rxepeer.Cmd{Argv: append([]string{"chroot", "/host"}, argv...), Timeout: pyverbsTime})
		return &guestProcess{p, pyverbsTime}, err
	}
	return &pyverbsLab{h, dir}
}
