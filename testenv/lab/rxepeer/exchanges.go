// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Route says how a client reaches a server.
type Route struct {
	Addr                 netip.Addr // the server's address that RoCEv2 uses
	Control              netip.Addr // the server's IPv4 address, where the programs agree over TCP
	ServerGID, ClientGID int        // indices of both ends' addresses in rxe0's GID table
}

// RouteTo finds the route from client to server over the first addresses of their eth0 in the
// address family asked for.
func RouteTo(ctx context.Context, server, client *VM, v6 bool) (Route, error) {
	var r Route
	var err error
	if r.Control, err = server.addr(false); err != nil {
		return r, err
	}
	if r.Addr, err = server.addr(v6); err != nil {
		return r, err
	}
	from, err := client.addr(v6)
	if err != nil {
		return r, err
	}
	if r.ServerGID, err = server.GIDIndex(ctx, "rxe0", r.Addr); err != nil {
		return r, err
	}
	r.ClientGID, err = client.GIDIndex(ctx, "rxe0", from)
	return r, err
}

func (vm *VM) addr(v6 bool) (netip.Addr, error) {
	if len(vm.Config.NICs) > 0 {
		for _, p := range vm.Config.NICs[0].Addrs {
			if p.Addr().Is6() == v6 {
				return p.Addr(), nil
			}
		}
	}
	family := map[bool]string{false: "IPv4", true: "IPv6"}[v6]
	return netip.Addr{}, fmt.Errorf("rxepeer: machine %s has no %s address on eth0", vm.Config.Name, family)
}

// GIDIndex returns the index of an address in the GID table of an rxe device, where an IPv4
// address stands as ::ffff:a.b.c.d.
func (vm *VM) GIDIndex(ctx context.Context, dev string, addr netip.Addr) (int, error) {
	files, err := vm.GetAll(ctx, "/sys/class/infiniband/"+dev+"/ports/1/gids")
	if err != nil {
		return 0, err
	}
	want := netip.AddrFrom16(addr.As16())
	var all []string
	for _, index := range slices.Sorted(maps.Keys(files)) {
		got, err := netip.ParseAddr(strings.TrimSpace(string(files[index])))
		if err == nil && got == want {
			return strconv.Atoi(index)
		}
		if err == nil && !got.IsUnspecified() {
			all = append(all, got.String())
		}
	}
	return 0, fmt.Errorf("rxepeer: machine %s: %s has no GID for %s: it has %s", vm.Config.Name, dev, addr, all)
}

// controlPort is where perftest and the ibv pingpongs listen for their clients.
const controlPort = 18515

// Exchanges are short runs of every kind of RoCEv2 traffic that rxe carries. Messages take
// several packets at PMTU 1024, and their sizes are odd, so that pad bytes occur.
func Exchanges(r Route) []Exchange {
	ends := func(x Exchange, argv []string, gidFlag string) Exchange {
		x.Ready = Readiness{TCPPort: controlPort}
		x.Server = append(slices.Clone(argv), gidFlag, strconv.Itoa(r.ServerGID))
		x.Client = append(slices.Clone(argv), gidFlag, strconv.Itoa(r.ClientGID), r.Control.String())
		return x
	}
	// -F: perftest compares two ways to find the speed of the CPU, and without it gives up where a
	// busy host lets them differ.
	perftest := func(name string, argv ...string) Exchange {
		return ends(Exchange{Name: name}, append(argv, "-F"), "-x")
	}
	// The default timeout, 67 ms, passes when a busy host pauses a machine; 2^20 × 4.096 µs does not.
	reliable := func(name string, argv ...string) Exchange {
		return perftest(name, append(argv, "-u", "20")...)
	}
	pingpong := func(name, prog string, size int) Exchange {
		argv := []string{prog, "-c", "-n", "50", "-s", strconv.Itoa(size)}
		return ends(Exchange{Name: name, Checked: true}, argv, "-g")
	}
	impatient := func(x Exchange) Exchange {
		x.Impatient = true
		return x
	}
	rping := []string{"rping", "-v", "-V", "-C", "10", "-S", "3001", "-a", r.Addr.String()}
	return []Exchange{
		reliable("write", "ib_write_bw", "-n", "200", "-s", "8191"),
		reliable("read", "ib_read_bw", "-n", "200", "-s", "8191"),
		reliable("send", "ib_send_bw", "-n", "200", "-s", "8191"),
		perftest("write UC", "ib_write_bw", "-c", "UC", "-n", "200", "-s", "8191"),
		perftest("send UC", "ib_send_bw", "-c", "UC", "-n", "200", "-s", "8191"),
		perftest("send UD", "ib_send_bw", "-c", "UD", "-n", "200", "-s", "1021"),
		reliable("fetch and add", "ib_atomic_bw", "-A", "FETCH_AND_ADD", "-n", "200"),
		reliable("compare and swap", "ib_atomic_bw", "-A", "CMP_AND_SWAP", "-n", "200"),
		impatient(pingpong("pingpong RC", "ibv_rc_pingpong", 8191)),
		pingpong("pingpong UC", "ibv_uc_pingpong", 8191),
		pingpong("pingpong UD", "ibv_ud_pingpong", 1021),
		{
			Name:    "rping",
			Server:  append(slices.Clone(rping), "-s"),
			Client:  append(slices.Clone(rping), "-c"),
			Ready:   Readiness{CM: true},
			Checked: true,
		},
	}
}
