// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
	"github.com/softroce/softroce-xdp/testenv/lab/script"
)

// Programs of Debian 13 (rdma-core 56, perftest 25.01) run with the library, in a machine whose agent serves its interface. Both
// ends are in the machine.
func TestDebian13(t *testing.T) {
	requireCommands(t)
	const address, dir = "10.53.2.1", "/usr/lib/softroce"
	library, bin := t.TempDir(), script.Build(t, "softroce-xdp")
	makeLibrary(t, library)
	ctx, cancel := context.WithTimeout(t.Context(), 2*rxepeer.BootTimeout) // half of it for the boot of an emulated machine
	defer cancel()
	vm := boot(ctx, t, rxepeer.Config{
		Name: "later", NoRxe: true, Product: filepath.Join(bin, "softroce-xdp"),
		Files: map[string]string{dir + "/libibverbs.so.1": filepath.Join(library, "libibverbs.so.1")},
		NICs:  []rxepeer.NIC{{Net: newNet(t, 1500), Addrs: []netip.Prefix{netip.MustParsePrefix(address + "/24")}}},
	})
	run := func(argv ...string) string {
		t.Helper()
		res, err := vm.Run(ctx, argv...)
		if err != nil {
			t.Fatal(err)
		}
		return res.Stdout + res.Stderr
	}
	run("softroce-xdp", "attach", "--nic", "--pacer", "none", "eth0")
	defer run("softroce-xdp", "detach", "eth0")

	program := []string{"env", "LD_LIBRARY_PATH=" + dir, "SOFTROCE_LOG=1"}
	info := run(append(program, "ibv_devinfo", "-v")...)
	gid := testkit.Must1(rxepeer.DevinfoGID(info, netip.MustParseAddr(address)))(t)
	if !strings.Contains(info, "softroce_eth0") {
		t.Fatalf("ibv_devinfo prints\n%s", info)
	}
	for _, line := range []string{
		"ibv_rc_pingpong -d softroce_eth0 -c -n 50 -g", "ibv_ud_pingpong -d softroce_eth0 -c -n 50 -s 1000 -g", "ibv_srq_pingpong -d softroce_eth0 -c -n 50 -g",
		"ib_write_bw -d softroce_eth0 -F -n 100 -s 8191 -u 20 -x", "ib_read_lat -d softroce_eth0 -F -n 50 -u 20 -x",
		"ib_send_bw -d softroce_eth0 -F -n 100 -e -u 20 -x", "ib_atomic_bw -d softroce_eth0 -F -n 50 -u 20 -x",
	} {
		t.Run(line, func(t *testing.T) {
			server := append(slices.Concat(program, strings.Fields(line)), gid)
			out, err := vm.Exchange(ctx, vm, rxepeer.Exchange{
				Name: line, Server: server, Client: append(slices.Clone(server), address), Ready: rxepeer.Readiness{TCPPort: 18515},
			})
			if err != nil {
				t.Fatal(err)
			}
			if said := out.Client.Stderr + out.Server.Stderr; strings.Contains(said, "softroce") {
				t.Errorf("the library says\n%s", said)
			}
		})
	}
}
