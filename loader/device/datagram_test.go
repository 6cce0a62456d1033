// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"errors"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// A datagram that is longer than the path's PMTU is refused when it is posted, as in process. Datagrams that the
// path carries arrive afterwards. If the PMTU becomes smaller, longer datagrams are lost, and nothing else.
func TestDatagramTooLong(t *testing.T) {
	hosts := twoHosts(t)
	var ends [2]*end
	for i, h := range hosts {
		d, err := client.Open(t.Context(), topo.IfName, client.Config{RunDir: h.LoaderOptions().RunDir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		ends[i] = newEnd(t, d, 1<<16, verbs.QPInit{Type: verbs.UD, MaxInline: 256, MaxSendSGE: 2})
	}
	a, b := ends[0], ends[1]
	connect(t, a, b)
	for i, e := range ends {
		for k := range 4 {
			if err := e.qp.PostRecv(&verbs.RecvWR{ID: uint64(10*i + k), SGL: e.sgl(1<<15, 2000)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ah, err := a.pd.CreateAH(verbs.AddressVector{Src: hosts[0].IPv4(), Dst: hosts[1].IPv4()})
	if err != nil {
		t.Fatal(err)
	}
	wr := verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.Signaled, AH: ah, RemoteQPN: b.qp.QPN(), RemoteQKey: testkit.Must1(b.qp.Query())(t).QKey}
	send := func(n int) error {
		wr.SGL = a.sgl(0, n)
		return a.qp.PostSend(&wr)
	}
	works := func(n int) {
		t.Helper()
		if err := send(n); err != nil {
			t.Fatal(err)
		}
		if c := a.wait(t); c.Status != verbs.StatusSuccess || c.WRID != 1 {
			t.Fatalf("%d bytes: %+v", n, c)
		}
		if s := a.qp.State(); s != verbs.StateRTS {
			t.Fatalf("%d bytes: the queue pair is in %s", n, s)
		}
	}
	arrives := func(n int) {
		t.Helper()
		works(n)
		if c := b.wait(t); c.Status != verbs.StatusSuccess || int(c.Bytes) != verbs.GRHLen+n {
			t.Fatalf("%d bytes: %+v", n, c)
		}
	}
	if err := send(1025); !errors.Is(err, verbs.ErrTooLong) { // an MTU of 1500 has a PMTU of 1024
		t.Errorf("1025 bytes: %v", err)
	}
	wr.SGL = append(a.sgl(0, 1024), a.sgl(0, 1)...)
	if err := a.qp.PostSend(&wr); !errors.Is(err, verbs.ErrTooLong) {
		t.Errorf("1024 bytes and one: %v", err)
	}
	arrives(1024)
	if out, err := hosts[0].Command("ip", "link", "set", topo.IfName, "mtu", "700").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	testkit.Eventually(t, "the engine has the new PMTU", func() bool { // a new handle has it
		probe := wr
		probe.RemoteQPN, probe.SGL = 0xfffff0, a.sgl(0, 600) // which nobody has
		if probe.AH, err = a.pd.CreateAH(verbs.AddressVector{Src: hosts[0].IPv4(), Dst: hosts[1].IPv4()}); err != nil {
			t.Fatal(err)
		}
		err := a.qp.PostSend(&probe)
		if err == nil {
			a.wait(t)
		}
		return errors.Is(err, verbs.ErrTooLong)
	})
	works(600) // is not refused, and lost: the PMTU is 512 now, and the handle was made before
	arrives(512)
}
