// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

func TestPair(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	n, err := NewNet(1500)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	var vms [2]*VM
	done := make(chan error, 2)
	for i, name := range []string{"a", "b"} {
		go func() {
			vm, err := Boot(ctx, Config{Name: name, Dir: "/tmp/rp", NICs: []NIC{{Net: n, Addrs: []netip.Prefix{netip.MustParsePrefix([]string{"10.77.0.1/24", "10.77.0.2/24"}[i])}}}})
			vms[i] = vm
			done <- err
		}()
	}
	for range vms {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	defer vms[0].Close()
	defer vms[1].Close()
	t.Log(vms[0].BootTime, vms[1].BootTime)
	for _, argv := range [][]string{
		{"ib_write_bw", "-n", "100", "-s", "8192"},
		{"ib_read_bw", "-n", "100", "-s", "8192"},
		{"ib_send_bw", "-n", "100", "-s", "8192"},
		{"ib_atomic_bw", "-n", "100"},
		{"ib_send_bw", "-c", "UD", "-n", "100", "-s", "1024"},
		{"ibv_rc_pingpong", "-c", "-g", "1", "-n", "100", "-s", "8192"},
	} {
		srv, err := vms[1].Start(ctx, argv...)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond)
		res, err := vms[0].RunCmd(ctx, Cmd{Argv: append(argv, "10.77.0.2"), Timeout: 20 * time.Second})
		t.Log(argv, res.Took, err, "\n", res.Stdout, res.Stderr)
		if err != nil {
			srv.Signal(9)
		}
		_, err = srv.Wait(ctx)
		t.Log("server", err)
	}
	t.Log(vms[0].RxeCounters(ctx))
	t.Log(vms[1].RxeCounters(ctx))
	r, err := vms[0].Run(ctx, "sh", "-c", "ibv_devinfo -v; dmesg | tail; df; free -m; ls -d /usr/local/bin/* | wc -l; cat /sys/class/infiniband/rxe0/ports/1/gids/? ")
	t.Log(r.Stdout, r.Stderr, err)
}
